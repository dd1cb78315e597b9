"""Tries a wheel as a user meets it: ``python -m tests.wheel dist/*.whl [PYTHON ...]``; ``make dist`` calls it.

Compares the files of the wheel and of the source distribution beside it with those of the checkout. Then, for each
interpreter, the wheel goes into an empty environment without any extra, where an empty folder of kernels is waited for:
it shows itself, makes data, trains, evaluates, scores and explains, names the extra that something needs, and imports
every module that needs none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "tests", "docs", "examples", "benchmarks", "experiments")
CALLS = """
versions
--help
data synth train.parquet --queries 40 --docs 12 --features 6 --seed 1
data synth test.parquet --queries 20 --docs 12 --features 6 --seed 2
train --data train.parquet --model LambdaMART --n-trees 10 --out model.rankwood
evaluate model.rankwood test.parquet
score model.rankwood test.parquet --out scores.tsv
explain model.rankwood test.parquet --top 3
export model.rankwood --to lightgbm model.txt --verify test.parquet
demo --help
""".strip().splitlines()
EXTRAS = {  # calls that need an extra, which the message names
    "serve model.rankwood": "serve",
    "explain model.rankwood test.parquet --plot plot.svg": "report",
    "export model.rankwood --to onnx model.onnx": "onnx",
    "train --data train.parquet --model MLPRanker --out neural.rankwood": "neural",
    "train --data train.parquet --model GBRT --device cuda --out gpu.rankwood": "gpu",
    "train --data train.parquet --model GBRT --dask local --out dask.rankwood": "dask",
}
INSIDE = """
import importlib, pkgutil, sys
import rankwood as rw
assert not {"numba", "sklearn", "pandas", "torch"} & set(sys.modules), "importing rankwood is slow"
for name in rw.__all__:
    getattr(rw, name)
assert rw.datasets.chess().n_queries == 1040
for module in pkgutil.walk_packages(rw.__path__, "rankwood."):
    if not module.name.startswith("rankwood.serve."):  # needs the extra serve
        importlib.import_module(module.name)
"""


def files_below(folder: Path) -> set[str]:
    """Every file of the checkout below a folder but compiled ones."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in paths}


def compare_files(wheel: Path) -> None:
    """Raise where the wheel, or the source distribution beside it, lacks a file of the checkout."""
    there = set(zipfile.ZipFile(wheel).namelist())
    lacking = {name for name in files_below(ROOT / "src") if name.removeprefix("src/") not in there}
    if lacking:
        raise SystemExit(f"{wheel.name} lacks {', '.join(sorted(lacking))}")
    source = wheel.with_name(f"{'-'.join(wheel.name.split('-')[:2])}.tar.gz")
    with tarfile.open(source) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Makefile", "mkdocs.yml", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"}
    lacking = wanted.union(*(files_below(ROOT / folder) for folder in SOURCES)) - there
    if lacking:
        raise SystemExit(f"{source.name} lacks {', '.join(sorted(lacking))}")


def try_in(python: str, wheel: Path, place: Path) -> None:
    """Install the wheel into an empty environment of this interpreter, and use it there."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"RANKWOOD_CACHE_DIR": str(place / "cache"), "COLUMNS": "120"}
    subprocess.run([python, "-m", "venv", place / "venv"], check=True)
    here = place / "venv" / "bin"
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([here / "python", "-m", "pip", "install", *quiet, wheel.resolve()], check=True)

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, arguments)), check=False, cwd=place, env=environment, capture_output=True, text=True
        )  # fmt: skip

    for line in CALLS:
        ran = call(here / "rankwood", *line.split())
        if ran.returncode != 0:
            raise SystemExit(f"{python}: rankwood {line}\n{ran.stdout}{ran.stderr}")
    for line, extra in EXTRAS.items():
        ran = call(here / "rankwood", *line.split())
        if ran.returncode != 2 or f"pip install 'rankwood[{extra}]'" not in ran.stderr:
            raise SystemExit(f"{python}: rankwood {line}\n{ran.stdout}{ran.stderr}")
    ran = call(here / "python", "-c", INSIDE)
    if ran.returncode != 0:
        raise SystemExit(f"{python}: {ran.stderr}")


def main(wheel: str, *pythons: str) -> None:
    """Compare the files, then try every interpreter."""
    compare_files(Path(wheel))
    for python in pythons or (sys.executable,):
        with tempfile.TemporaryDirectory() as folder:
            try_in(python, Path(wheel), Path(folder))
        sys.stdout.write(f"{Path(wheel).name} works in an empty environment of {python}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
