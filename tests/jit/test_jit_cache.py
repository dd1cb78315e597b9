"""Compiled code on disk: never stale, where it should be, and not needed to work."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rankwood._core import jit
from rankwood._core.files import user_cache_folder

FOUNDATION = (
    "__init__.py",
    "_core/__init__.py",
    "_core/jit.py",
    "_core/lanes.py",
    "_core/files.py",
    "dtypes.py",
    "errors.py",
)

CALLER = """
from rankwood._core.jit import kernel
from rankwood.helper import helper

@kernel
def caller(x):
    return helper(x) * 2.0
"""

CALLER_WITH_MORE = """
from rankwood._core.jit import kernel
from rankwood.helper import helper

def beside():
    \"\"\"A Python function in the kernel's file.\"\"\"
    return 1

@kernel
def caller(x):
    \"\"\"A docstring.\"\"\"
    return helper(x) * 2.0  # a comment
"""

HELPER = """
from rankwood._core.jit import kernel
from rankwood.constants import STEP

@kernel
def helper(x):
    return x + {constant} * STEP
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package's foundation with two kernels, one calling the other across files."""
    source = Path(jit.__file__).parents[1]
    copy = tmp_path / "site" / "rankwood"
    (copy / "_core").mkdir(parents=True)
    for name in FOUNDATION:
        (copy / name).write_bytes((source / name).read_bytes())
    (copy / "caller.py").write_text(CALLER)
    (copy / "helper.py").write_text(HELPER.format(constant=5.0))
    (copy / "constants.py").write_text("STEP = 1.0\n")
    return copy


def run(package: Path, cache: Path, code: str, **environment: str) -> str:
    """What a fresh process prints after importing the copied package."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "RANKWOOD_"))}
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={
            **clean,
            "PYTHONPATH": str(package.parent),
            "RANKWOOD_CACHE_DIR": str(cache),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.strip()


CALL = """
    import rankwood
    from rankwood.caller import caller
    hits = lambda: sum(caller.stats.cache_hits.values())
    print(caller(5.0), hits(), sep=",")
"""


@pytest.mark.slow
def test_an_edited_helper_is_compiled_again(package, tmp_path):
    cache = tmp_path / "cache"
    assert run(package, cache, CALL) == "20.0,0"  # (5 + 5) · 2, compiled
    assert run(package, cache, CALL) == "20.0,1"  # the same, loaded from disk
    (package / "helper.py").write_text(HELPER.format(constant=500.0))
    assert (
        run(package, cache, CALL) == "1010.0,0"
    )  # (5 + 500) · 2: numba's own key would still say 20


def test_an_edited_constant_is_compiled_again(package, tmp_path):
    cache = tmp_path / "cache"
    assert run(package, cache, CALL) == "20.0,0"
    (package / "constants.py").write_text("STEP = 2.0\n")
    assert run(package, cache, CALL) == "30.0,0"  # (5 + 5 · 2) · 2


def test_editing_python_beside_a_kernel_costs_no_compilation(package, tmp_path):
    """Functions, docstrings and comments are not part of the key, nor is the line that a kernel stands in."""
    cache = tmp_path / "cache"
    assert run(package, cache, CALL) == "20.0,0"
    (package / "caller.py").write_text(CALLER_WITH_MORE)
    (package / "constants.py").write_text("STEP = 1.0\nOTHER = 3.0\n")
    assert run(package, cache, CALL) == "20.0,1"


def test_editing_a_file_without_kernels_costs_no_compilation(package, tmp_path):
    cache = tmp_path / "cache"
    run(package, cache, CALL)
    (package / "errors.py").write_text((package / "errors.py").read_text() + "\n# edited\n")
    assert run(package, cache, CALL) == "20.0,1"


def test_the_users_numba_cache_dir_is_respected(package, tmp_path):
    chosen = tmp_path / "chosen"
    run(package, tmp_path / "cache", CALL, NUMBA_CACHE_DIR=str(chosen))
    assert list(chosen.glob("rankwood/*/**/*.nbi"))
    assert not (tmp_path / "cache").exists()
    assert not list(package.rglob("*.nbi"))


def test_numbas_own_setting_is_left_as_found(package, tmp_path):
    code = """
        import numba
        before = numba.config.CACHE_DIR
        from rankwood.caller import caller
        print(numba.config.CACHE_DIR == before)
    """
    assert run(package, tmp_path / "cache", code) == "True"


def test_a_disk_that_cannot_be_written_means_memory_only(package, tmp_path):
    (tmp_path / "a-file").write_text("where the cache folder should be")
    assert run(package, tmp_path / "a-file", CALL) == "20.0,0"
    assert run(package, tmp_path / "a-file", CALL) == "20.0,0"
    assert not list(package.rglob("*.nbi"))  # and nothing is left beside the sources


def test_old_digests_are_pruned_and_recent_ones_kept(tmp_path):
    now = time.time()
    for age in range(8):
        folder = tmp_path / f"digest{age}"
        folder.mkdir()
        (folder / "kernel.nbi").touch()
        os.utime(folder, (now - age * 86_400 * 2, now - age * 86_400 * 2))
    jit.prune(tmp_path, keep=tmp_path / "digest7")
    assert sorted(folder.name for folder in tmp_path.iterdir()) == [
        "digest0",
        "digest1",
        "digest2",
        "digest7",
    ]


def test_a_digest_in_use_today_is_never_pruned(tmp_path):
    for number in range(8):
        (tmp_path / f"digest{number}").mkdir()
    jit.prune(tmp_path, keep=tmp_path / "digest0")
    assert len(list(tmp_path.iterdir())) == 8


def test_the_cache_folder_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKWOOD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert user_cache_folder() == tmp_path / "rankwood"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert user_cache_folder() == Path.home() / "Library" / "Caches" / "rankwood"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert user_cache_folder() == tmp_path / "local" / "rankwood"


def test_a_digest_that_vanishes_while_pruning_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    # What iterdir() saw, and another process removed before we looked at it.
    listed = [tmp_path / "kept", *(tmp_path / f"gone{number}" for number in range(6))]
    monkeypatch.setattr(Path, "is_dir", lambda _: True)
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(listed))
    jit.prune(tmp_path, keep=tmp_path / "kept")
    assert (tmp_path / "kept").exists()
