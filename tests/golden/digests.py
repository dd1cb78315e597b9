"""The digests as they are now, entry by entry, and those that ``digests.json`` holds."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import platform
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite.binding import get_host_cpu_name

import rankwood as rw
from tests.golden.digesting import ROUNDED_TO, WRITTEN_AS, digest_of, without_record
from tests.golden.golden_models import CASES, fitted, found, test_scores
from tests.golden.golden_results import ENTRIES

PATH = Path(__file__).with_name("digests.json")
REMEDY = (
    "Digests only change on purpose: whatever moves one gives users other numbers or other files than before. "
    "If that is meant, say so in CHANGELOG.md and run: python -m tests.golden.make_digests"
)
# Packages whose versions may show in what is written or in the last bits of numbers.
PACKAGES = (
    "numpy", "numba", "llvmlite", "scipy", "scikit-learn", "pyarrow", "onnx", "typer", "rich",
)  # fmt: skip

# Entries whose last bits depend on the processor, and why. They are compared to the bit where the processor and the
# packages are those that the digests were made with; elsewhere in ROUNDED_TO significant digits.
ROUNDED = {
    r"AdaBoost": "numpy's exp of the margins depends on the vector extensions",
    r"BoostingTree: beam": "LambdaMART's steps, whose pairs have an exp",
    r"BROOF": "numpy's exp, and the log of β, in the weights of rows",
    r"RankBoost": "numpy's cosh in loss_bounds_",
    r"Exp3P": "numpy's exp in the bandit's probabilities",
    r"RankSVM|DeepForest: a list": "sums of the solver in BLAS, which has kernels of its own per processor",
    r"least.squares": "LAPACK's least squares",
    r"LambdaMART|NDCGBoost": "the C library's exp: with and without fused multiplication",
    r"Blend": "LAPACK's or SciPy's least squares; RankSVM among the parts",
    r"bandit": "numpy's exp in the bandit's probabilities",
    r"rbp": "powers of numpy",
    # results of models above
    r"^(compare|convergence|refit|warm_start|add_model_features: report)": "RankSVM or LambdaMART among the models",
    r"^(best_sizes|factorial_design: folds)": "BROOF among the models",
    r"^evaluate: ": "measures of the scores of RankSVM",
    r"^(size_quality_front|explain: (BoostingTree|one document)|importance: contribution)": "of LambdaMART",
    r"^checkpoint: BoostingTree": "of LambdaMART",
    r"^model: (BoostingTree: free steps|Exp3P)": "of LambdaMART",
}  # fmt: skip


def names() -> list[str]:
    """Every entry: models first, then results."""
    return [*(f"model: {name}" for name in CASES), *ENTRIES]


def is_rounded(name: str) -> bool:
    """Whether an entry's last bits depend on the processor."""
    return any(re.search(pattern, name) for pattern in ROUNDED)


def digests_of(name: str) -> dict[str, str]:
    """The digests of an entry now: to the bit, and for those that depend on the processor also rounded."""
    parts = _parts_of(name)
    digests = {what: digest_of(value) for what, value in parts.items()}
    if is_rounded(name):
        digests |= {f"rounded {what}": digest_of(parts[what], ROUNDED_TO) for what in parts}
    return digests


def _parts_of(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        if name in ENTRIES:
            return {"result": ENTRIES[name](Path(folder))}
        case = name.removeprefix("model: ")
        rw.save(fitted(case), Path(folder) / "model")
        file = without_record(Path(folder) / "model")  # tests of its own have the record
        return {"file": file, "scores": test_scores(case), "found": found(case)}


def changes(name: str, now: dict[str, str]) -> list[str]:
    """What of an entry has another digest now; to the bit where that can be asked for."""
    kept = stored()["digests"][name]
    if is_rounded(name) and stored()["made_with"] != made_with():
        kept, now = (
            {what: digest for what, digest in each.items() if what.startswith("rounded")}
            for each in (kept, now)
        )
    return sorted(what for what in {*kept, *now} if kept.get(what) != now.get(what))


@functools.cache
def stored() -> dict[str, Any]:
    """What ``digests.json`` holds."""
    return json.loads(PATH.read_text(encoding="utf-8"))


@functools.cache
def made_with() -> dict[str, str]:
    """The versions and the processor that may show in digests and snapshots."""
    versions = {"rankwood": WRITTEN_AS, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    extensions = [
        name for name, is_there in np._core._multiarray_umath.__cpu_features__.items() if is_there
    ]
    return versions | {
        "C library": " ".join(platform.libc_ver()),
        "processor": get_host_cpu_name(),
        "extensions": " ".join(extensions),
    }


def other_versions() -> str:
    """A sentence on what is not as it was where the digests were made; empty where nothing is."""
    then, now = stored()["made_with"], made_with()
    changed = [
        f"{name} {then.get(name)} then, {now[name]} now"
        for name in now
        if then.get(name) != now[name]
    ]
    return f"Made elsewhere: {'; '.join(changed)}. " if changed else ""
