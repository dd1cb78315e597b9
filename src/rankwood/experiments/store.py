"""The folder of a run, and the record in it.

Every file is written under another name and renamed when it is complete, so that a killed run leaves no half-written
file. The record has all that is needed to know what was done, on what data, and how to repeat it.

::

    run.toml                         the experiment's file as it was
    record.json                      configuration, versions, seeds, machine, times, how to repeat
    cells/RF~Fold1~1.parquet         a finished cell: measures by query, its record in the metadata
    cells/RF~Fold2~1.json            a failed one: its record, with the traceback
    scores/RF~Fold1.parquet          documents with labels and scores, of repetition 1
    models/RF~Fold1~1.rankwood       the model, where the experiment keeps models
    replaced/…                       cells whose settings or data have changed since
    lock                             held by the process that is writing
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import math
import os
import platform
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood._core.files import atomic_path, explained_writing
from rankwood._core.threads import usable_cores
from rankwood.errors import DataError, RunError
from rankwood.experiments.cells import Outcome
from rankwood.experiments.settings import Cell, Experiment, build
from rankwood.experiments.tuning import WHOLE
from rankwood.measures.measure import parse_measure
from rankwood.training.checkpoint import plain_parameters

RECORD, FILE, CELLS, SCORES, MODELS, REPLACED, LOCK = (
    "record.json",
    "run.toml",
    "cells",
    "scores",
    "models",
    "replaced",
    "lock",
)
FORMAT = 1  # of the record
_METADATA = b"rankwood"
_QUERY = "query"
_PACKAGES = ("numpy", "numba", "pyarrow", "scipy", "scikit-learn", "optuna", "distributed", "torch")


class RunFolder:
    """A run on disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def make(self) -> None:
        """Make the folder; one that holds something else is refused."""
        if self.path.exists() and not self.path.is_dir():
            raise DataError(f"{self.path} is a file: choose another folder for the run.")
        if self.path.is_dir() and any(self.path.iterdir()) and not self._is_a_run():
            raise DataError(
                f"{self.path} is not empty and holds no run. Choose another folder with --out."
            )
        with explained_writing(self.path):
            for name in (CELLS, SCORES):
                (self.path / name).mkdir(parents=True, exist_ok=True)

    def remove_unfinished(self) -> None:
        """Remove the unfinished files of a killed process; the run must be locked."""
        for name in ("", CELLS, SCORES, MODELS):
            for path in (self.path / name).glob(".*.part"):
                path.unlink(missing_ok=True)

    def _is_a_run(self) -> bool:
        return any((self.path / name).exists() for name in (RECORD, LOCK))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to this run; the lock ends with the process, however it ends."""
        import fcntl

        with (self.path / LOCK).open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                raise RunError(
                    f"another process ({holder}) is writing to {self.path}. Wait until it has ended, "
                    "or choose another folder with --out."
                ) from None
            file.seek(0)
            file.truncate()
            file.write(f"process {os.getpid()} on {os.uname().nodename}")
            file.flush()
            yield

    def record(self) -> dict[str, Any]:
        """The run's record; empty where there is none yet, or none that can be read."""
        try:
            record = json.loads((self.path / RECORD).read_text())
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def write_record(self, record: Mapping[str, Any], text: str) -> None:
        """Replace the record, and the copy of the experiment's file if there is one."""
        self._write_json(self.path / RECORD, record)
        if text:
            with atomic_path(self.path / FILE) as temporary:
                temporary.write_text(text)

    def cell_path(self, cell: Cell, status: str = "done") -> Path:
        """Where a cell's results are."""
        suffix = ".parquet" if status == "done" else ".json"
        return self.path / CELLS / f"{_name(cell.algorithm, cell.fold, cell.repetition)}{suffix}"

    def scores_path(self, algorithm: str, fold: str) -> Path:
        """Where the documents' scores are."""
        return self.path / SCORES / f"{_name(algorithm, fold)}.parquet"

    def model_path(self, cell: Cell) -> Path:
        """Where a cell's model is, if it was kept."""
        name = _name(cell.algorithm, cell.fold, cell.repetition)
        return self.path / MODELS / f"{name}.rankwood"

    def write(self, outcome: Outcome) -> None:
        """Write the outcome of a cell; scores and model first, since the file of a finished cell implies them."""
        with explained_writing(self.path):
            if outcome.model is not None:
                (self.path / MODELS).mkdir(exist_ok=True)
                with atomic_path(self.model_path(outcome.cell)) as temporary:
                    temporary.write_bytes(outcome.model)
            if outcome.documents is not None:
                path = self.scores_path(outcome.cell.algorithm, outcome.cell.fold)
                _write_table(path, outcome.documents, {})
            done, failed = (self.cell_path(outcome.cell, status) for status in ("done", "failed"))
            if outcome.is_done:
                columns = {_QUERY: outcome.queries, **outcome.values}
                _write_table(done, columns, outcome.record)
                failed.unlink(missing_ok=True)
            else:
                self._write_json(failed, outcome.record)

    def cell_record(self, cell: Cell) -> dict[str, Any] | None:
        """The record of a cell, finished or failed; None where there is none, or none that can be read."""
        import pyarrow.parquet as pq

        try:
            metadata = pq.read_schema(self.cell_path(cell)).metadata or {}
            record = json.loads(metadata[_METADATA])
        except (OSError, ValueError, KeyError):  # pyarrow's errors are ValueErrors and OSErrors
            record = self._failed_record(cell)
        return record if isinstance(record, dict) else None

    def _failed_record(self, cell: Cell) -> Any:
        try:
            return json.loads(self.cell_path(cell, "failed").read_text())
        except (OSError, ValueError):
            return None

    def cell_values(self, cell: Cell) -> tuple[list[str], dict[str, Any]]:
        """The queries of a finished cell, and each measure's values."""
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.cell_path(cell)) as file:
            table = file.read(use_threads=False)  # small: threads would cost more than they save
        values = {
            name: table.column(name).to_numpy() for name in table.column_names if name != _QUERY
        }
        return table.column(_QUERY).to_pylist(), values

    def set_aside(self, cell: Cell, fingerprint: str) -> None:
        """Move a cell that belongs to other settings out of the way."""
        folder = self.path / REPLACED
        folder.mkdir(exist_ok=True)
        for status in ("done", "failed"):
            path = self.cell_path(cell, status)
            if path.exists():
                path.replace(folder / f"{path.stem}~{fingerprint[:8]}{path.suffix}")

    def _write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        with explained_writing(path), atomic_path(path) as temporary:
            text = json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False)
            temporary.write_text(text + "\n")


def plain(value: Any) -> Any:
    """``value`` in types that JSON has: no numpy types, and None for NaN."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | bool | int) else str(value)


def _name(*parts: Any) -> str:
    """Parts joined by ``~``; characters that a file name should not have are written as ``%`` and their code."""
    quoted = (urllib.parse.quote(str(part), safe=" +,=()").replace("~", "%7E") for part in parts)
    return "~".join(quoted)


def _write_table(path: Path, columns: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(dict(columns))
    if record:
        text = json.dumps(plain(record), ensure_ascii=False, allow_nan=False)
        table = table.replace_schema_metadata({_METADATA: text.encode()})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def configuration(experiment: Experiment) -> dict[str, Any]:
    """The experiment as resolved: every default filled in."""
    settings = asdict(experiment)
    del settings["text"], settings["repeat"], settings["algorithms"]
    if not experiment.data.sample:
        del settings["data"]["sample"]
    if experiment.size == WHOLE and experiment.costs is None:
        del settings["size"], settings["size_every"], settings["costs"]
    settings["algorithms"] = [
        {
            "name": one.name,
            "kind": one.kind,
            "parameters": {
                name: value
                for name, value in plain_parameters(build(one.kind, one.parameters)).items()
                if name != "seed"  # each cell has its own
            },
            "given": dict(one.parameters),
            "tune": dict(one.tune),
            "tune_method": one.tune_method if one.tune else None,
            "tune_trials": one.tune_trials if one.tune_method == "optuna" else None,
            "repetitions": one.repetitions,
            **({} if one.early_exit is None else {"early_exit": one.early_exit}),
        }
        for one in experiment.algorithms
    ]
    return settings


def make_record(
    experiment: Experiment, states: Mapping[str, Any], digests: Mapping[str, str]
) -> dict[str, Any]:
    """The record at the start of a run; times and counts are added at its end."""
    seeds = {
        fold: [
            experiment.seed_of(cell)
            for cell in experiment.cells()
            if cell.fold == fold and cell.algorithm == experiment.algorithms[0].name
        ]
        for fold in experiment.fold_names
    }
    measures = {text: parse_measure(text, experiment.preset) for text in experiment.measures}
    return {
        "format": FORMAT,
        "name": experiment.name,
        "status": "running",
        "configuration": configuration(experiment),
        "measures": {text: str(measure) for text, measure in measures.items()},
        "conventions": {text: measure.conventions for text, measure in measures.items()},
        "seeds": {"run": experiment.seed, "by fold and repetition": seeds},
        "data": {"files": dict(states), "digests": dict(digests)},
        "versions": versions(),
        "machine": machine(),
        "repeat": {"command": experiment.repeat, "folder": os.getcwd()},
        "started": now(),
    }


def now() -> str:
    """The time, with its zone."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Of Python, Rankwood and what it computes with."""
    version_of = {"python": platform.python_version(), "rankwood": __version__}
    for package in _PACKAGES:
        try:
            version_of[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return version_of


def machine() -> dict[str, Any]:
    """Processor, cores, memory and system."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": model,
        "cores": usable_cores(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.system(),
    }
