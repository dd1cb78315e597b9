"""The folder of a run, and the record in it.

Every file is written under another name and renamed when it is complete, so that a killed run leaves no half-written
file. The record has all that is needed to know what was done, on what data, and how to repeat it.

::

    run.toml                         the experiment's file as it was
    record.json                      configuration, versions, seeds, machine, times, how to repeat
    queries.parquet                  a hash of each measured query's documents, by which folds that share it are found
    cells/RF~Fold1~1.parquet         a finished cell: measures by query, its record in the metadata
    cells/RF~Fold2~1.json            a failed one: its record, with the traceback
    scores/RF~Fold1~1.parquet        documents with labels and scores; version 0.1 wrote RF~Fold1 of repetition 1 only
    models/RF~Fold1~1.rankwood       the model, where the experiment keeps models
    trials/GBRT~Fold1~1.json         trials of a tuning that is not finished
    stale/cells/…, scores/…, models/…  what belongs to other settings or data, or to cells that are no part of it now
    lock                             held by the process that is writing
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood._core.files import atomic_path, explained_writing
from rankwood._core.threads import usable_cores
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, RunError
from rankwood.experiments.cells import Outcome, StoredCell, Task
from rankwood.experiments.config import repeat_command
from rankwood.experiments.foreign import FOREIGN, version_of
from rankwood.experiments.settings import Algorithm, Cell, Experiment, build
from rankwood.experiments.tuning import WHOLE
from rankwood.measures.measure import parse_measure
from rankwood.training.rounds import plain_parameters

CONTENTS = "queries.parquet"
RECORD, FILE, CELLS, SCORES, MODELS, TRIALS, STALE, LOCK = (
    "record.json",
    "run.toml",
    "cells",
    "scores",
    "models",
    "trials",
    "stale",
    "lock",
)
FORMAT = 1  # of the record
_METADATA = b"rankwood"
_SUM_OF_RECORD, _SUM_OF_VALUES = b"rankwood.record", b"rankwood.values"  # checksums
_QUERY = "query"
_NUMBER = (int, float)
_NUMBER_OR_NONE = (int, float, type(None))
# What the parts of a cell's record are; those of the first line are in all of them.
_SHAPES: dict[str, Any] = {
    **{"algorithm": str, "fold": str, "repetition": int, "status": str, "parameters": dict},
    **{"seconds": {str: _NUMBER}, "peak_memory": _NUMBER},
    **{"means": {str: _NUMBER_OR_NONE}, "history": {str: [_NUMBER_OR_NONE]}, "tuned": [dict]},
    **{"importance": {str: _NUMBER_OR_NONE}, "warnings": [str], "error": str, "message": str},
    **{"measures": {str: str}, "conventions": {str: {str: str}}, "fingerprint": str},
    **{"chosen": dict, "sizes": dict, "weights": dict, "empty_queries": dict},
}
_AGAIN = "rankwood experiment fits its cell again"
_GREATEST = 2.0**63  # of a number in a record
_IN_EVERY_RECORD = tuple(_SHAPES)[:7]
_CHECKSUM = "checksum"  # in the record of a run: of the record without it
_HAS_IDS = "document ids"  # of a file of scores: whether its documents have ids of the data
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
        for name in ("", CELLS, SCORES, MODELS, TRIALS):
            for path in (self.path / name).glob(".*.part"):
                path.unlink(missing_ok=True)
        for path in (self.path / TRIALS).glob("*.json"):
            if (self.path / CELLS / f"{path.stem}.parquet").exists():  # the record has its trials
                path.unlink(missing_ok=True)

    def _is_a_run(self) -> bool:
        return any((self.path / name).exists() for name in (RECORD, LOCK))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to this run; the lock ends with the process, however it ends."""
        import fcntl

        with contextlib.ExitStack() as stack:
            with explained_writing(self.path / LOCK):  # unbuffered: to close it writes nothing
                file = stack.enter_context((self.path / LOCK).open("ab+", buffering=0))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                holder = file.read().decode("utf-8", "replace").strip() or "unknown"
                raise RunError(
                    f"another process ({holder}) is writing to {self.path}. Wait until it has ended, "
                    "or choose another folder with --out."
                ) from None
            with explained_writing(self.path / LOCK):
                file.truncate(0)
                file.write(f"process {os.getpid()} on {os.uname().nodename}".encode())
            yield

    def record(self) -> dict[str, Any]:
        """The run's record; empty where there is none yet, or none that can be read."""
        try:
            record = json.loads((self.path / RECORD).read_text())
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) and has_its_checksum(record) else {}

    def write_record(self, record: Mapping[str, Any], text: str) -> None:
        """Replace the record, and the copy of the experiment's file if there is one."""
        whole = {name: part for name, part in record.items() if name != _CHECKSUM}
        self._write_json(self.path / RECORD, {**whole, _CHECKSUM: _sum(_text_of(whole).encode())})
        if text:
            path = self.path / FILE
            with explained_writing(path), atomic_path(path) as temporary:
                temporary.write_text(text)

    def write_contents(self, contents: Mapping[str, Mapping[str, int]]) -> None:
        """Write the hash of each measured query, by fold."""
        rows = [
            (fold, query, hashed) for fold, of in contents.items() for query, hashed in of.items()
        ]
        folds, queries, hashes = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {"fold": folds, _QUERY: queries, "content": np.array(hashes, np.uint64)}
        with explained_writing(self.path / CONTENTS):
            _write_table(self.path / CONTENTS, columns, {})

    def contents(self) -> dict[str, dict[str, int]]:
        """The hash of each measured query, by fold; nothing of runs of earlier versions."""
        contents: dict[str, dict[str, int]] = {}
        if not (self.path / CONTENTS).is_file():
            return contents
        remedy = "the survey of the data is made again"
        table = checked_table(self.path / CONTENTS, remedy)
        try:
            columns = [table.column(name).to_pylist() for name in ("fold", _QUERY, "content")]
        except KeyError:
            raise refuse_damaged(self.path / CONTENTS, remedy=remedy) from None
        for fold, query, hashed in zip(*columns, strict=True):
            contents.setdefault(fold, {})[query] = hashed
        return contents

    def cell_path(self, cell: Cell, status: str = "done") -> Path:
        """Where a cell's results are."""
        suffix = ".parquet" if status == "done" else ".json"
        return self.path / CELLS / f"{_name(cell.algorithm, cell.fold, cell.repetition)}{suffix}"

    def scores_path(self, cell: Cell) -> Path:
        """Where the documents' scores are written."""
        return self.path / SCORES / f"{_name(cell.algorithm, cell.fold, cell.repetition)}.parquet"

    def kept_scores(self, cell: Cell) -> Path | None:
        """The file of the documents' scores, which of repetition 1 may be version 0.1's; None where there is none."""
        old = self.path / SCORES / f"{_name(cell.algorithm, cell.fold)}.parquet"
        paths = [self.scores_path(cell), *([old] if cell.repetition == 1 else [])]
        return next((path for path in paths if path.is_file()), None)

    def model_path(self, cell: Cell) -> Path:
        """Where a cell's model is, if it was kept."""
        name = _name(cell.algorithm, cell.fold, cell.repetition)
        return self.path / MODELS / f"{name}.rankwood"

    def write(self, outcome: Outcome) -> None:
        """Write the outcome of a cell; scores and model first, since the file of a finished cell implies them."""
        with explained_writing(self.path):
            if outcome.model is not None:
                (self.path / MODELS).mkdir(exist_ok=True)
                with atomic_path(self.model_path(outcome.cell), durable=True) as temporary:
                    temporary.write_bytes(outcome.model)
            if outcome.documents is not None:
                about = {"version": __version__, _HAS_IDS: outcome.has_document_ids}
                _write_table(self.scores_path(outcome.cell), outcome.documents, about)
            done, failed = (self.cell_path(outcome.cell, status) for status in ("done", "failed"))
            if outcome.is_done:
                columns = {_QUERY: outcome.queries, **outcome.values}
                _write_table(done, columns, outcome.record)
                failed.unlink(missing_ok=True)
                self.trials_path(outcome.cell).unlink(missing_ok=True)  # the record has them
            else:
                self._write_json(failed, outcome.record)

    def trials_path(self, cell: Cell) -> Path:
        """Where the trials of a cell are while it is tuned."""
        name = _name(cell.algorithm, cell.fold, cell.repetition)
        return self.path / TRIALS / f"{name}.json"

    def trials(self, cell: Cell, fingerprint: str) -> tuple[dict[str, Any], ...]:
        """The trials of a cell whose tuning was stopped, in their order; none of other settings or versions."""
        try:
            kept = json.loads(self.trials_path(cell).read_text())
            mark = (kept["fingerprint"], kept["version"])
            return tuple(kept["trials"]) if mark == (fingerprint, __version__) else ()
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    def keep_trial(self, task: Task, trial: Mapping[str, Any]) -> None:
        """Add a finished trial to those of its cell, unless it is there already or the cell is finished."""
        kept = self.trials(task.cell, task.fingerprint)
        if self.cell_path(task.cell).exists() or trial["number"] < len(kept):
            return
        mark = {"fingerprint": task.fingerprint, "version": __version__}
        with explained_writing(self.path):
            (self.path / TRIALS).mkdir(exist_ok=True)
        self._write_json(self.trials_path(task.cell), {**mark, "trials": [*kept, trial]})

    def cell_record(self, cell: Cell) -> dict[str, Any] | None:
        """The record of a cell, finished or failed; None where there is none, or none that can be read."""
        record = _record_in(self.cell_path(cell))
        return _record_in(self.cell_path(cell, "failed")) if record is None else record

    def cell_values(self, cell: Cell) -> tuple[list[str], dict[str, Any]]:
        """The queries of a finished cell, and each measure's values."""
        path = self.cell_path(cell)
        table = checked_table(path)
        try:
            values = {
                name: table.column(name).to_numpy() for name in table.column_names if name != _QUERY
            }
            queries = _texts(table.column(_QUERY)).tolist()
        except (ValueError, KeyError):
            raise refuse_damaged(path, "it has no values by query") from None
        if any(of.dtype.kind not in "fiu" for of in values.values()):
            raise refuse_damaged(path, "its values are no numbers")
        return queries, values

    def stored(self, cell: Cell, record: Mapping[str, Any], *, with_model: bool) -> StoredCell:
        """A finished cell with its values, and with its model or the scores of its documents."""
        queries, values = self.cell_values(cell)
        model, path = self.model_path(cell), self.kept_scores(cell)
        if with_model or path is None:
            return StoredCell(dict(record), queries, values, model=model)
        return StoredCell(dict(record), queries, values, documents_in(path))

    def set_aside(self, cell: Cell, fingerprint: str) -> None:
        """Move a cell that belongs to other settings out of the way, then its scores and its model."""
        for status in ("done", "failed"):
            self._to_stale(self.cell_path(cell, status), fingerprint)
        scores = self.kept_scores(cell)
        if scores is not None:
            self._to_stale(scores, fingerprint)
        self._to_stale(self.model_path(cell), fingerprint)

    def set_others_aside(self, cells: Sequence[Cell]) -> int:
        """Move what belongs to no cell of the run out of the way; gives the number of cells."""
        names = {_name(cell.algorithm, cell.fold, cell.repetition) for cell in cells}
        old_scores = {_name(cell.algorithm, cell.fold) for cell in cells if cell.repetition == 1}
        marks: dict[str, str] = {}
        for folder, live in ((CELLS, names), (SCORES, names | old_scores), (MODELS, names)):
            for path in self.whole_files(folder):
                name = path.name.removesuffix(path.suffix)
                if folder == CELLS and name not in live:
                    marks[name] = str((_record_in(path) or {}).get("fingerprint", ""))
                if name not in live:
                    self._to_stale(path, marks.get(name, ""))
        return len(marks)

    def whole_files(self, folder: str) -> list[Path]:
        """The files of a folder of the run, in the order of their names, without those that are being written."""
        return [path for path in sorted((self.path / folder).glob("*.*")) if path.suffix != ".part"]

    def _to_stale(self, path: Path, fingerprint: str) -> None:
        if path.exists():
            folder = self.path / STALE / path.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            mark = f"~{fingerprint[:8]}" if fingerprint else ""
            path.replace(folder / f"{path.name.removesuffix(path.suffix)}{mark}{path.suffix}")

    def _write_json(self, path: Path, value: Mapping[str, Any]) -> None:
        with explained_writing(path), atomic_path(path) as temporary:
            temporary.write_text(_text_of(value) + "\n")


def _text_of(value: Mapping[str, Any]) -> str:
    return json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False)


def has_its_checksum(record: dict[str, Any]) -> bool:
    """Whether a run's record is as it was written; takes the checksum out. Earlier versions wrote none."""
    kept = record.pop(_CHECKSUM, None)
    try:
        return kept is None or kept == _sum(_text_of(record).encode())
    except ValueError:  # a number that no record has, or half a character
        return False


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


def _record_in(path: Path) -> dict[str, Any] | None:
    """The record in the file of a cell, finished or failed; None where there is none that can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix == ".json":
            record = json.loads(path.read_text())
        else:
            metadata = pq.read_schema(path).metadata or {}
            text = metadata[_METADATA]
            if metadata.get(_SUM_OF_RECORD, known := _sum(text).encode()) != known:
                return None
            record = json.loads(text)
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None
    if not isinstance(record, dict) or any(name not in record for name in _IN_EVERY_RECORD):
        return None
    fit = (has_shape(record[name], shape) for name, shape in _SHAPES.items() if name in record)
    return record if all(fit) else None


def has_shape(value: Any, shape: Any) -> bool:
    """Whether a value of JSON has the types of ``shape``; ``[shape]`` is of items, ``{str: shape}`` of values."""
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(one, shape[0]) for one in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(has_shape(one, shape[str]) for one in value.values())
    if isinstance(value, int | float) and not abs(value) < _GREATEST:  # NaN neither
        return False
    return isinstance(value, shape)


def scored_documents(path: Path) -> tuple[dict[str, Any], Any]:
    """The columns query, document, label and score of a file of scores, and the record in it."""
    table = checked_table(path)
    try:
        about = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
        found = {name: _numbers(table.column(name)) for name in ("label", "score")}
        found |= {name: _texts(table.column(name)) for name in ("query", "document")}
        if "query_weight" in table.column_names:
            found["query_weight"] = _numbers(table.column("query_weight"))
    except (ValueError, KeyError):
        raise refuse_damaged(path, "it has no scores of documents") from None
    return found, about if isinstance(about, dict) else {}


def documents_in(path: Path) -> dict[str, Any]:
    """A file of scores: query, label, score and, where the data have ids, document, by document in the data's order."""
    found, about = scored_documents(path)
    if not about.get(_HAS_IDS, _HAS_IDS not in about and not _are_lines(found)):
        del found["document"]
    return found


def _numbers(column: Any) -> Floats:
    """A column of numbers, none of them missing, or a ``ValueError``."""
    values = column.to_numpy()
    if values.dtype.kind not in "iuf" or np.isnan(values).any():
        raise ValueError
    return np.asarray(values, np.float64)


def _texts(column: Any) -> Array:
    """A column of texts, none of them missing, or a ``ValueError``."""
    values = column.to_pylist()
    if not all(isinstance(value, str) for value in values):
        raise ValueError
    return np.array(values, object)


def _are_lines(documents: Mapping[str, Any]) -> bool:
    """Whether documents are numbered within their queries, as they are where the data have no ids."""
    lines: dict[str, int] = {}
    for query, name in zip(documents["query"], documents["document"], strict=True):
        lines[query] = lines.get(query, 0) + 1
        if name != str(lines[query]):
            return False
    return True


def _name(*parts: Any) -> str:
    """Parts joined by ``~``; characters that a file name should not have are written as ``%`` and their code."""
    quoted = (urllib.parse.quote(str(part), safe=" +,=()").replace("~", "%7E") for part in parts)
    return "~".join(quoted)


def _write_table(path: Path, columns: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(dict(columns))
    metadata = {_SUM_OF_VALUES: _sum_of_values(table)}
    if record:
        text = json.dumps(plain(record), ensure_ascii=False, allow_nan=False).encode()
        metadata |= {_METADATA: text, _SUM_OF_RECORD: _sum(text).encode()}
    table = table.replace_schema_metadata(metadata)
    of_floats = [name for name in table.column_names if pa.types.is_float32(table[name].type)]
    with atomic_path(path, durable=True) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=[name for name in table.column_names if name not in of_floats],
            column_encoding=dict.fromkeys(of_floats, "BYTE_STREAM_SPLIT") or None,
        )


def checked_table(path: Path, remedy: str = _AGAIN) -> Any:
    """A table of a run, compared with its checksums: a flipped bit is an error, never another figure.

    Files of version 0.1 have none.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(use_threads=False)  # small: threads would cost more than they save
        metadata = table.schema.metadata or {}
        sums = [(_SUM_OF_VALUES, _sum_of_values(table))]
        if _METADATA in metadata:
            sums.append((_SUM_OF_RECORD, _sum(metadata[_METADATA]).encode()))
        is_whole = all(metadata.get(name, found) == found for name, found in sums)
    except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError):
        is_whole = False
    if not is_whole:
        raise refuse_damaged(path, remedy=remedy)
    return table


def refuse_damaged(path: Path, reason: str = "", remedy: str = _AGAIN) -> DataError:
    """The error of a file of a run that cannot be what was written."""
    return DataError(f"{path} is damaged{reason and f': {reason}'}. Remove it, and {remedy}.")


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sum_of_values(table: Any) -> bytes:
    """The checksum of the names and values of all columns: page checksums do not cover what says how to read pages."""
    import pyarrow as pa

    digest = hashlib.sha256()
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            array = np.ascontiguousarray(column.to_numpy())
            content = f"{array.dtype} ".encode() + array.tobytes()
        else:
            content = json.dumps(column.to_pylist()).encode()
        about = f"{name} {len(column)} {len(content)} "
        digest.update(about.encode("utf-8", "surrogatepass") + content)
    return digest.hexdigest().encode()


def configuration(experiment: Experiment) -> dict[str, Any]:
    """The experiment as resolved: every default filled in."""
    settings = asdict(experiment)
    del settings["text"], settings["repeat"], settings["origin"], settings["algorithms"]
    del settings["left_out"]  # the record has it
    if not experiment.data.sample:
        del settings["data"]["sample"]
    if experiment.data.collection is None:
        del settings["data"]["collection"]
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
            "tune_trials": one.tune_trials if one.tune_method != "grid" else None,
            **tuning_options(one),
            "repetitions": one.repetitions,
            "is_random": one.is_random,
            **({} if one.early_exit is None else {"early_exit": one.early_exit}),
        }
        for one in experiment.algorithms
    ]
    return settings


def tuning_options(algorithm: Algorithm) -> dict[str, Any]:
    """What an algorithm says of its tuning beyond method and number of trials."""
    defaults = Algorithm("", "", {})
    names = ("tune_time", "tune_folds", "tune_on", "tune_refit")
    given = {name: getattr(algorithm, name) for name in names}
    return {name: value for name, value in given.items() if value != getattr(defaults, name)}


def make_record(
    experiment: Experiment,
    states: Mapping[str, Any],
    digests: Mapping[str, str],
    run: Mapping[str, Any],
) -> dict[str, Any]:
    """The record at the start of a run, which ``run`` says how to repeat; times and counts are added at its end."""
    seeds = {
        fold: [
            experiment.seed_of(Cell("", fold, repetition))
            for repetition in range(1, experiment.repetitions + 1)
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
        "versions": versions() | _foreign_versions(experiment),
        **({"left_out": dict(experiment.left_out)} if experiment.left_out else {}),
        "machine": machine(),
        "repeat": {
            "command": repeat_command(experiment.origin, **run),
            "folder": os.getcwd(),
            "origin": dict(experiment.origin),
            "run": dict(run),
        },
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


def _foreign_versions(experiment: Experiment) -> dict[str, str]:
    """Of the libraries that algorithms are of."""
    packages = {FOREIGN[one.kind].package for one in experiment.algorithms if one.kind in FOREIGN}
    return {name: version_of(name) for name in sorted(packages - {None, "sklearn"})}


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
