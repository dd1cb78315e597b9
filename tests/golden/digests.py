"""The digests as they are now, entry by entry, and those that ``digests.json`` holds."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import tempfile
from pathlib import Path
from typing import Any

import rankwood as rw
from tests.golden.digesting import ROUNDED_TO, digest_of
from tests.golden.golden_models import CASES, fitted, found, test_scores
from tests.golden.golden_results import ENTRIES

PATH = Path(__file__).with_name("digests.json")
REMEDY = (
    "Digests only change on purpose: whatever moves one gives users other numbers or other files than before. "
    "If that is meant, say so in CHANGELOG.md and run: python -m tests.golden.make_digests"
)
# Packages whose versions may show in what is written or in the last bits of numbers.
PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "onnx", "typer", "click", "rich")

# Entries whose last bits depend on the processor. Of these, floats are compared in ROUNDED_TO significant digits, and
# bytes of model files not at all.
ROUNDED: dict[str, str] = {}


def names() -> list[str]:
    """Every entry: models first, then results."""
    return [*(f"model: {name}" for name in CASES), *ENTRIES]


def digests_of(name: str) -> dict[str, str]:
    """The digests of an entry now, by what they are of."""
    digits = ROUNDED_TO if name in ROUNDED else None
    with tempfile.TemporaryDirectory() as folder:
        if name in ENTRIES:
            return {"result": digest_of(ENTRIES[name](Path(folder)), digits)}
        case = name.removeprefix("model: ")
        digests = {
            "scores": digest_of(test_scores(case), digits),
            "found": digest_of(found(case), digits),
        }
        if digits is None:
            rw.save(fitted(case), Path(folder) / "model")
            digests["file"] = hashlib.sha256((Path(folder) / "model").read_bytes()).hexdigest()
        return digests


@functools.cache
def stored() -> dict[str, Any]:
    """What ``digests.json`` holds."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def made_with() -> dict[str, str]:
    """The versions that may show in digests and snapshots."""
    versions = {"rankwood": rw.__version__}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def other_versions() -> str:
    """A sentence on what has another version than where the digests were made; empty where nothing has."""
    then, now = stored()["made_with"], made_with()
    changed = [
        f"{name} {then[name]} then, {now[name]} now" for name in then if then[name] != now[name]
    ]
    return f"Versions differ: {'; '.join(changed)}. " if changed else ""
