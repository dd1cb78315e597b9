"""Every kernel is reached by warm-up, is compiled for one set of types, and has a slow twin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

COUNT_SIGNATURES = """
import json
from rankwood._core import jit
from tests.conftest import distinct_signatures
from rankwood.studies.warm_up import warm_up
n_kernels = warm_up()
counts = {name: len(distinct_signatures(kernel)) for name, kernel in jit.kernels().items()}
assert n_kernels == len(counts)
print(json.dumps(counts))
"""

REFUSE_TO_COMPILE = """
import numba.core.dispatcher as dispatcher
from rankwood.studies.warm_up import warm_up
warm_up()
from rankwood._core import jit
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in jit.kernels().values()))
"""


def run(code: str, **environment: str) -> str:
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@pytest.mark.slow
def test_warm_up_compiles_every_kernel_once_and_leaves_it_on_disk(tmp_path):
    alone = {"NUMBA_CACHE_DIR": str(tmp_path), "RANKWOOD_COMPILE_JOBS": "1"}
    counts = json.loads(run(COUNT_SIGNATURES, **alone))
    assert counts
    assert {name: count for name, count in counts.items() if count != 1} == {}
    assert int(run(REFUSE_TO_COMPILE, NUMBA_CACHE_DIR=str(tmp_path))) == 0


DIGEST_FORESTS = """
import hashlib
from rankwood import CompletelyRandomForest, GBRT, RandomForest, make_ranking
from rankwood._core.llvm import HAS_LANES
data = make_ranking(n_queries=60, docs_per_query=40, n_features=20, missing=0.1, seed=1)
digest = hashlib.sha256()
for ranker in (RandomForest(5), CompletelyRandomForest(5, bag="row"), GBRT(5)):
    forest = ranker.fit(data).forest_
    for name in ("feature", "threshold", "left", "missing", "value", "gain"):
        digest.update(getattr(forest, name).tobytes())
print(HAS_LANES, digest.hexdigest())
"""


@pytest.mark.slow
def test_trees_are_the_same_on_a_processor_that_can_less(tmp_path):
    """No AVX-512, nor anything else beyond the least that the architecture has."""
    has_lanes, digest = run(DIGEST_FORESTS).split()
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    found = run(DIGEST_FORESTS, NUMBA_CACHE_DIR=str(tmp_path), **plain)
    assert found.split() == ["False", digest]
    if has_lanes == "False":
        pytest.skip("this processor has no AVX-512: only its other extensions were compared")


FOLDERS = ["tests/unit", "tests/property", "tests/parity"]


def run_suite(tmp_path: Path, **environment: str) -> str:
    """The last line of a run of the kernel tests in a process of its own."""
    outcome = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-m",
            "not slow and not jit_only",
            "-p",
            "no:cacheprovider",
            "-W",  # hashes overflow on purpose; compiled, nobody hears of it
            "ignore:overflow encountered in scalar:RuntimeWarning",
            *FOLDERS,
        ],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert outcome.returncode == 0, outcome.stdout[-4000:]
    return outcome.stdout.splitlines()[-1]


@pytest.mark.slow
def test_the_kernels_are_legal_python(tmp_path):
    assert "passed" in run_suite(tmp_path, NUMBA_DISABLE_JIT="1")


@pytest.mark.slow
def test_no_kernel_reads_outside_its_arrays(tmp_path):
    assert "passed" in run_suite(tmp_path, NUMBA_BOUNDSCHECK="1")
