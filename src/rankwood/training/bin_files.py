"""``bin_files``: from files of any size to a folder of binned data, in little memory.

The files are read as a stream of parts, blocks of whole queries, and gone through up to three times:

1. *count*: how many rows there are, which decides which rows are sampled. Parquet files say it themselves.
2. *read*: labels, queries, weights and ids go to their files; the sampled rows, and what is special of the others
   (missing and infinite values), give the bins. They are those of the same data in memory.
3. *encode*: the codes of each part are written to their place in ``codes.npy``. Within its part a row is placed by its
   leaf in a pilot tree (see ``trees.row_order``), so that training need not sort the matrix, which would take a copy.

After each part the state is written to ``<folder>/unfinished``. A run that was interrupted goes on after the last part
that it finished, unless files or parameters have changed since. The manifest is written last (see ``binning.folder``).
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwood import __version__
from rankwood._core import checks
from rankwood._core.files import explained_writing
from rankwood._core.threads import resolve_threads, run_blocks
from rankwood.binning import folder as store
from rankwood.binning.bins import (
    CODE,
    MOST_BINS,
    Bins,
    checked_parameters,
    find_specials,
    fit_sample,
    sampled_rows,
)
from rankwood.binning.folder import BinnedFolder, StoredIds, open_binned
from rankwood.data.cache import Damaged, read_record, write_record
from rankwood.data.reading import ReadOptions, listed
from rankwood.data.sources import PathLike, Paths, find_inputs, size_and_time
from rankwood.data.streams import Part, Place, Stream, TableStream, open_stream, returned
from rankwood.dtypes import Array, Bytes, Features, Rows
from rankwood.errors import DataError, DataWarning, RunError
from rankwood.trees.grower import Tree
from rankwood.trees.row_order import as_matrix, grow_pilot, rows_by_leaf

STATE = "state.json"
PART_BYTES = 1 << 26  # of the raw features of a part
_MOST_PART_ROWS = 1 << 18
_LEAST_PART_ROWS = 1 << 10
_HEADER = 128  # bytes of a .npy file before its values
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_MOST_ROWS = 2**31 - 1  # rows are numbered by int32 in trees

log = logging.getLogger(__name__)


def bin_files(
    paths: Paths,
    folder: PathLike,
    *,
    bins: Any = None,
    max_bins: int = MOST_BINS,
    sample: int = 200_000,
    seed: int = 0,
    sort: bool | None = None,
    label: str = "label",
    query: str | None = "qid",
    doc: str | None = None,
    row_weight: str | None = None,
    query_weight: str | None = None,
    position: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    n_features: int | None = None,
    absent: Literal["zero", "missing"] = "zero",
    order: Literal["ascending", "any"] = "ascending",
    overflow: Literal["error", "missing"] = "error",
    overwrite: bool = False,
    n_threads: int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> BinnedFolder:
    """Bin files that need not fit into memory, and open the result as ``open_binned`` does.

    Parameters
    ----------
    paths
        LETOR text (plain or compressed), Parquet, Arrow or CSV files: a path, a pattern such as ``day-*.parquet``, a
        folder, or a list of these. A folder is searched for data files, in the order of their names; folders named
        ``column=value``, as in a partitioned Parquet data set, give a column if one of the parameters names it.
    folder
        Where the result goes. It must not exist, or be empty; or hold the same data, finished or not.
    bins
        Bins to use instead of new ones: another such folder, or what ``rankwood.bin`` gives. Validation data are binned
        by the bins of the training data.
    max_bins, sample, seed
        As for ``rankwood.bin``.
    sort
        Whether the codes are sorted for training, which makes it up to twice as fast. By default they are, unless
        ``bins`` are given.
    label, query, doc, row_weight, query_weight, position, features, drop
        The columns of tables, as for ``read_table``.
    n_features, absent, order, overflow
        How LETOR text is read, as for ``read_letor``.
    overwrite
        Replace other binned data in ``folder``.
    n_threads
        Number of threads; it does not change the result.
    progress
        Called now and then with the bytes read so far and the bytes to be read, over all passes.

    The rows of a query must be together; they may go on in the next file. Memory stays below 1 GB for any number of
    rows of some hundred features. Bins, and so models, are to the byte those of the same rows in memory. A run that
    was interrupted goes on where it stopped; after a change of the files or parameters it starts again.
    """
    max_bins, sample, seed = checked_parameters(max_bins, sample, seed)
    options = ReadOptions(
        label=label,
        query=query,
        doc=doc,
        row_weight=row_weight,
        query_weight=query_weight,
        position=position,
        features=None if features is None else listed(features),
        drop=listed(drop),
        n_features=n_features,
        absent=absent,
        order=order,
        overflow=overflow,
        n_threads=n_threads,
    )
    given = None if bins is None else store.bins_from(bins)
    sort = given is None if sort is None else checks.true_or_false("sort", sort)
    plan = BinningPlan(given, max_bins, sample, seed, sort, resolve_threads(n_threads))
    stream = open_stream(find_inputs(paths, are_reread=True), options)
    target = Path(folder)
    key = _key(stream, plan, options)
    if _is_done(target, key, overwrite):
        return open_binned(target)
    with _explained(target):
        run = _Run(target, stream, plan, _state(target, key), progress)
        run.count()
        run.read()
        run.encode()
        run.finish(key)
    return open_binned(target)


@dataclass(frozen=True)
class BinningPlan:
    """What the bins, and the order of the rows, are made by."""

    bins: Bins | None  # None: fitted to the data
    max_bins: int
    sample: int
    seed: int
    sort: bool
    n_threads: int

    @property
    def wants_sample(self) -> bool:
        """Whether rows are drawn: for the bins, or for the pilot tree."""
        return self.bins is None or self.sort


# The folder before a run.


def _key(stream: Stream, plan: BinningPlan, options: ReadOptions) -> dict[str, Any]:
    """What the result follows from: the files as they are now, and the parameters."""
    inputs = []
    for file in stream.inputs:
        path = file.path.absolute() if isinstance(file.path, Path) else file.path
        inputs.append([str(path), *size_and_time(file.path)])
    shown = dataclasses.asdict(options)
    for name in ("n_threads", "progress", "cache", "verify", "strict", "model"):
        del shown[name]
    if shown["position"] is None:  # as in folders of version 0.1, which had no positions
        del shown["position"]
    if plan.bins is not None:
        content = [plan.bins.thresholds.tobytes(), plan.bins.offsets.tobytes()]
        shown["bins"] = hashlib.sha256(b"".join(content)).hexdigest()
    shown |= {
        "max_bins": plan.max_bins,
        "sample": plan.sample,
        "seed": plan.seed,
        "sort": plan.sort,
    }
    key: dict[str, Any] = json.loads(
        json.dumps({"format": store.FORMAT, "inputs": inputs, "options": shown})
    )
    return key


def _difference(old: Any, new: dict[str, Any]) -> str:
    """What has changed between two runs, for a message."""
    if not isinstance(old, dict) or old.get("format") != new["format"]:
        return "another version of Rankwood wrote it"
    if old["inputs"] != new["inputs"]:
        before = {path: rest for path, *rest in old["inputs"]}
        for path, *rest in new["inputs"]:
            if path in before and before[path] != rest:
                return f"{path} has changed since"
        return "it is of other files"
    changed = [name for name in new["options"] if old["options"].get(name) != new["options"][name]]
    return f"it was made with another {', '.join(changed)}"


def _is_done(folder: Path, key: dict[str, Any], overwrite: bool) -> bool:
    """Whether the folder has the result already; it is made ready for a run otherwise."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file. Name a folder; it is made if need be.")
    if (folder / store.MANIFEST).exists():
        try:
            old = store.read_manifest(folder).get("key")
        except DataError:
            old = None
        if old == key:
            shutil.rmtree(folder / store.UNFINISHED, ignore_errors=True)
            return True
        if not overwrite:
            raise DataError(
                f"{folder} holds other binned data: {_difference(old, key)}. Choose another folder, or replace the "
                "data there with overwrite=True (--overwrite)."
            )
        _clear(folder)
    elif folder.is_dir() and not (folder / store.UNFINISHED).is_dir() and os.listdir(folder):
        raise DataError(f"{folder} is not empty. Name an empty folder, or one that does not exist.")
    return False


def _clear(folder: Path) -> None:
    """Remove binned data; the manifest first, so that no half is taken for the whole."""
    (folder / store.MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder / store.UNFINISHED, ignore_errors=True)
    for path in folder.iterdir():
        if path.is_file() and path.suffix in (".npy", ".text", ".json"):
            path.unlink()


def _state(folder: Path, key: dict[str, Any]) -> dict[str, Any]:
    """The state of an interrupted run of the same files and parameters, or a new one."""
    work = folder / store.UNFINISHED
    try:
        state = read_record(work, STATE)
        if state["key"] == key:
            log.info("%s: going on after part %d", folder, len(state["part_rows"]) - 1)
            return state
        warnings.warn(
            f"{folder}: an interrupted run is not continued, {_difference(state['key'], key)}. It starts again.",
            DataWarning,
            stacklevel=3,
        )
    except Damaged:
        pass
    with explained_writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder)
        work.mkdir()
    return {"key": key, **copy.deepcopy(_NEW)}


_NEW: dict[str, Any] = {
    "counted": None,  # rows, rows of a weight above 0, features
    "is_read": False,
    "part_rows": [0],  # the first row of each finished part, and of the next
    "part_queries": [0],
    "begins": [[0, 0]],  # the place of each of these
    "n_weighted": 0,
    "special": None,  # of each feature: whether there are NaN, +inf, -inf
    "lengths": {},  # values in each file that grows
    "integer_ids": {},
    "n_coded": 0,  # parts whose codes are written
}


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn a full disk into an error that says what is needed."""
    try:
        with explained_writing(folder):
            yield
    except RunError as error:
        cause = error.__context__
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            raise RunError(
                f"{folder} cannot be written: no space is left on the disk. The result takes a byte per value, and "
                "about 40 more per row. Free some space and run the same again, which goes on where it stopped; or "
                "name a folder on another disk."
            ) from None
        raise


# Files that grow part by part.


class GrowingFile:
    """A file that values are appended to, and that an interrupted run cuts back to what it had finished."""

    def __init__(self, path: Path, dtype: Any, n_values: int, *, header: int = 0) -> None:
        self.path = path
        self.n_values = n_values
        self._dtype = np.dtype(dtype)
        self._header = header
        n_bytes = header + n_values * self._dtype.itemsize
        if n_values and (not path.exists() or path.stat().st_size < n_bytes):
            raise RunError(
                f"{path} is not as the interrupted run left it. Remove its folder, and bin the files again."
            )
        self._file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115 - closed by close
        self._file.truncate(n_bytes)
        self._file.seek(0, os.SEEK_END)

    def append(self, values: Array | None) -> None:
        """Write values behind those that there are."""
        assert values is not None
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self.n_values += len(values)

    def skip(self, n_values: int) -> None:
        """Append zeros, which take no time."""
        self.n_values += n_values
        self._file.truncate(self._header + self.n_values * self._dtype.itemsize)
        self._file.seek(0, os.SEEK_END)

    def flush(self) -> None:
        """Hand everything to the system."""
        self._file.flush()

    def close(self) -> None:
        """Complete the file: with a header it is a .npy file."""
        if self._header:
            self._file.seek(0)
            self._file.write(npy_header(self._dtype, (self.n_values,)))
        self._file.close()


def npy_header(dtype: Any, shape: tuple[int, ...]) -> bytes:
    """The first bytes of a .npy file, always as many."""
    import io

    header = io.BytesIO()
    described = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    if len(header.getvalue()) != _HEADER:
        raise RunError(f"the header of a file of {shape} values is longer than expected.")
    return header.getvalue()


class _Ids:
    """Identifiers that are appended to files: their texts, and where each ends."""

    def __init__(self, name: str, run: _Run, are_typed: bool) -> None:
        self.name = name
        self._run = run
        self._are_typed = are_typed
        self._text = run.grow(f"{name}.text", np.uint8, header=0)
        self._ends = run.grow(f"{name}.ends.npy", np.int64)

    def append(self, ids: Sequence[Any], n_before: int = 0) -> None:
        """Append ids; ``n_before`` rows without ids come first, if none were appended yet."""
        if self._ends.n_values < n_before:
            self._ends.skip(n_before - self._ends.n_values)
        known = self._run.state["integer_ids"]
        if known.get(self.name, True):
            known[self.name] = (
                all(isinstance(value, int) for value in ids)
                if self._are_typed
                else all(is_int64(value) for value in ids)
            )
        texts = [str(value).encode("utf-8", "surrogatepass") for value in ids]
        ends = self._text.n_values + np.cumsum([len(text) for text in texts])
        self._text.append(np.frombuffer(b"".join(texts), np.uint8))
        self._ends.append(ends)


def is_int64(text: str) -> bool:
    """Whether an id of an untyped file is a whole number."""
    return _WHOLE_NUMBER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


# The run.


class _Run:
    """One run: the files that it writes, and its state."""

    def __init__(
        self,
        folder: Path,
        stream: Stream,
        plan: BinningPlan,
        state: dict[str, Any],
        progress: Callable[[int, int | None], None] | None,
    ) -> None:
        self.folder = folder
        self.work = folder / store.UNFINISHED
        self.stream = stream
        self.plan = plan
        self.state = state
        self._progress = progress
        self._growing: dict[str, GrowingFile] = {}

    def count(self) -> None:
        """The first pass: how many rows there are, and how many features."""
        counted = self.state["counted"]
        if counted is None:
            found = self.stream.count(self._pass(0))
            counted = [found.n_rows, found.n_weighted, found.width]
            self.state["counted"] = counted
            self._save()
        self.stream.fix_width(counted[2])
        if counted[0] == 0:
            raise DataError(f"{self._names()}: there are no rows. Binned data have at least one.")
        if counted[1] == 0:
            raise DataError(
                f"{self._names()}: all weights are zero. At least one row needs a weight above 0."
            )
        if counted[0] > _MOST_ROWS:
            raise DataError(
                f"{counted[0]:,} rows are too many: trees number them up to {_MOST_ROWS:,}."
            )
        if self.plan.bins is not None and self.plan.bins.n_features != self.stream.n_features:
            raise DataError(
                f"{self._names()}: there are {self.stream.n_features:,} features, but the bins are for "
                f"{self.plan.bins.n_features:,}. Name the same features in the same order"
                f"{'' if self.stream.feature_names else ', or pass n_features='}."
            )

    def read(self) -> None:
        """The second pass: everything but the codes."""
        while not self.state["is_read"]:
            self._read_parts()
            counted, n_rows = self.state["counted"], self.state["part_rows"][-1]
            if n_rows == 0:
                raise DataError(
                    f"{self._names()}: there are no rows. Binned data have at least one."
                )
            if n_rows != counted[0] and max(n_rows, counted[0]) > self.plan.sample:
                # Lines without a document were counted: other rows have to be sampled.
                self._restart_reading([n_rows, n_rows, counted[2]])
                continue
            self._refuse_changes()
            self._refuse_returning_queries()
            self.stream.warn_at_the_end()
            self.state["is_read"] = True
            self._save()

    def encode(self) -> None:
        """The third pass: the codes of each part, at their place."""
        bins = self._bins()
        pilot = self._pilot(bins)
        rows = self.state["part_rows"]
        first = self.state["n_coded"]
        lengths = np.diff(rows)[first:].tolist()
        begin = Place(*self.state["begins"][first])
        shape = (bins.n_features, rows[-1])
        with contextlib.ExitStack() as stack:
            codes = stack.enter_context(_reserved(self.folder / store.CODES, CODE, shape))
            sources = None
            if pilot is not None:
                path = self.folder / store.SOURCES
                sources = stack.enter_context(_reserved(path, np.int32, shape[1:]))
            parts = self.stream.features(lengths, begin, self._pass(2)) if lengths else iter(())
            for number, matrix in enumerate(parts, start=first):
                self._encode_part(matrix, rows[number], bins, pilot, codes, sources)
                self.state["n_coded"] = number + 1
                self._save()
        self._refuse_changes()

    def finish(self, key: dict[str, Any]) -> None:
        """Write the manifest, which makes the folder whole."""
        state = self.state
        names = [store.BINS, store.CODES, *([store.SOURCES] if self.plan.sort else [])]
        names += [name for name in state["lengths"] if (self.folder / name).exists()]
        for name in names:
            with (self.folder / name).open("rb") as file:
                os.fsync(file.fileno())
        manifest = {
            "format": store.FORMAT,
            "version": __version__,
            "key": key,
            "rows": state["part_rows"][-1],
            "queries": state["part_queries"][-1] if self.stream.has_queries else None,
            "features": state["counted"][2],
            "names": self.stream.feature_names,
            "part_rows": state["part_rows"],
            "part_queries": state["part_queries"],
            "integer_ids": {"query_ids": False, "doc_ids": False} | state["integer_ids"],
            "files": {name: store.describe_file(self.folder / name) for name in sorted(names)},
        }
        write_record(self.folder, manifest, store.MANIFEST)
        shutil.rmtree(self.work, ignore_errors=True)

    # Reading.

    def grow(
        self, name: str, dtype: Any, *, header: int = _HEADER, work: bool = False
    ) -> GrowingFile:
        """The file of this name, opened behind what was finished of it."""
        if name not in self._growing:
            path = (self.work if work else self.folder) / name
            n_values = self.state["lengths"].get(name, 0)
            self._growing[name] = GrowingFile(path, dtype, n_values, header=0 if work else header)
        return self._growing[name]

    def _read_parts(self) -> None:
        state, plan = self.state, self.plan
        n_rows = max(_LEAST_PART_ROWS, PART_BYTES // (4 * state["counted"][2]))
        sampled = sampled_rows(state["counted"][1], plan.sample, plan.seed)
        parts = self.stream.parts(
            min(n_rows, _MOST_PART_ROWS), Place(*state["begins"][-1]), self._pass(1)
        )
        pending = None  # what the state will say once the next part has begun
        try:
            for part in parts:
                if pending is not None:
                    self._finish_part(pending, part.begin)
                pending = self._write_part(part, sampled)
            if pending is not None:
                self._finish_part(pending, Place(len(self.stream.inputs), 0))
        finally:
            for file in self._growing.values():
                file.close()
            self._growing.clear()

    def _write_part(self, part: Part, sampled: Rows) -> dict[str, Any]:
        """Append what is known of a part, and return the changes of the state."""
        state, stream = self.state, self.stream
        first_row, first_query = state["part_rows"][-1], state["part_queries"][-1]
        self._array("labels").append(part.labels)
        if stream.has_row_weights:
            self._array("row_weights").append(part.row_weights)
        if stream.has_positions:
            self._array("positions").append(part.positions)
        if part.query_ids is not None:
            self._write_queries(part, first_row, first_query)
        has_ids = "doc_ids.ends.npy" in state["lengths"] or "doc_ids.ends.npy" in self._growing
        if part.doc_ids is not None or has_ids:
            ids = [""] * part.n_rows if part.doc_ids is None else part.doc_ids.tolist()
            are_typed = stream.ids_have_types or not isinstance(stream, TableStream)
            _Ids("doc_ids", self, are_typed).append(ids, first_row)
        n_weighted, special = self._sample_part(part, sampled)
        return {
            "part_rows": [*state["part_rows"], first_row + part.n_rows],
            "part_queries": [*state["part_queries"], first_query + part.sizes.size],
            "n_weighted": n_weighted,
            "special": special,
        }

    def _write_queries(self, part: Part, first_row: int, first_query: int) -> None:
        assert part.query_ids is not None
        if self.stream.has_query_weights:
            self._array("query_weights").append(part.query_weights)
        offsets = self._array("query_offsets")
        if first_query == 0 and offsets.n_values == 0:
            offsets.append(np.zeros(1, np.int64))
        offsets.append(first_row + np.cumsum(part.sizes))
        numbers = np.arange(first_query, first_query + part.sizes.size)
        self._array("query_of_row").append(np.repeat(numbers, part.sizes))
        self._array("rows").append(np.arange(first_row, first_row + part.n_rows))
        _Ids("query_ids", self, self.stream.ids_have_types).append(part.query_ids)
        hashes = [_hash(query) for query in part.query_ids]
        self.grow("hashes", np.uint64, work=True).append(np.array(hashes, np.uint64))
        self.grow("places", np.int64, work=True).append(part.places.ravel())

    def _sample_part(self, part: Part, sampled: Rows) -> tuple[int, Any]:
        """Append the sampled rows of a part; gives the rows with a weight so far, and what is special of them."""
        weights = np.ones(part.n_rows)
        if part.row_weights is not None:
            weights = weights * part.row_weights
        if part.query_weights is not None:
            weights = weights * np.repeat(part.query_weights, part.sizes)
        rows = np.flatnonzero(weights > 0)
        before = self.state["n_weighted"]
        inside = slice(*np.searchsorted(sampled, [before, before + rows.size]).tolist())
        if self.plan.wants_sample:
            taken = rows[sampled[inside] - before]
            self.grow("sample", np.float32, work=True).append(part.features[taken].ravel())
            self.grow("sample_labels", np.float64, work=True).append(part.labels[taken])
        special = self.state["special"]
        if self.plan.bins is None and self.state["counted"][1] > self.plan.sample:
            all_rows = rows.size == part.n_rows
            matrix = np.ascontiguousarray(part.features if all_rows else part.features[rows])
            found = find_specials(matrix, self.plan.n_threads)
            special = (found if special is None else found | np.array(special)).tolist()
        return before + rows.size, special

    def _finish_part(self, changes: dict[str, Any], next_begin: Place) -> None:
        """Take a part that is written into the state."""
        for name, file in self._growing.items():
            file.flush()
            self.state["lengths"][name] = file.n_values
        self.state |= changes
        self.state["begins"].append(list(next_begin))
        self._save()

    def _array(self, name: str) -> GrowingFile:
        return self.grow(store.array_name(name), store.array_dtype(name))

    def _restart_reading(self, counted: list[int]) -> None:
        self.state |= {**copy.deepcopy(_NEW), "counted": counted}
        self._save()

    def _refuse_returning_queries(self) -> None:
        """Raise for a query whose rows are in two places. Ids are compared by hash first."""
        if not self.stream.has_queries:
            return
        hashes = np.fromfile(self.work / "hashes", np.uint64)
        order = np.argsort(hashes, kind="stable")
        twins = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        for later in np.sort(order[twins + 1]).tolist():
            earlier = np.flatnonzero(hashes[:later] == hashes[later]).tolist()
            (query,) = self._query_ids(later, later + 1)
            if any(self._query_ids(one, one + 1)[0] == query for one in earlier):
                places = np.fromfile(self.work / "places", np.int64).reshape(-1, 2)
                where = self.stream.describe(Place(*places[later].tolist()))
                raise returned(where, query)

    def _query_ids(self, first: int, last: int) -> list[Any]:
        text = np.memmap(self.folder / "query_ids.text", np.uint8, mode="r")
        ends = np.load(self.folder / "query_ids.ends.npy", mmap_mode="r")
        decoded: list[Any] = StoredIds(text, ends, False).decode(first, last).tolist()
        return decoded

    # Bins and codes.

    def _bins(self) -> Bins:
        """The bins of the run: given, of an earlier start, or fitted to the sample."""
        path = self.folder / store.BINS
        if self.plan.bins is not None:
            store.write_bins(path, self.plan.bins)
            return self.plan.bins
        if path.exists():
            return store.read_bins(path)
        sample = self._sample()
        special = self.state["special"]
        bins = fit_sample(
            sample,
            np.arange(len(sample)),
            None if special is None else np.array(special),
            self.plan.max_bins,
            self.plan.n_threads,
        )
        store.write_bins(path, bins)
        return bins

    def _sample(self) -> Features:
        """The sampled rows, memory-mapped."""
        sample: Features = np.memmap(self.work / "sample", np.float32, mode="r")
        return checks.read_only(np.asarray(sample).reshape(-1, self.state["counted"][2]))

    def _pilot(self, bins: Bins) -> Tree | None:
        """The tree whose leaves the rows of a part are sorted by; None where they stay as they are."""
        if not self.plan.sort:
            return None
        labels = np.fromfile(self.work / "sample_labels", np.float64)
        codes = bins.transform(self._sample(), self.plan.n_threads)
        return grow_pilot(as_matrix(codes, bins), labels)

    def _encode_part(
        self,
        matrix: Features,
        first_row: int,
        bins: Bins,
        pilot: Tree | None,
        codes_file: int,
        sources_file: int | None,
    ) -> None:
        n_threads = self.plan.n_threads
        codes: Bytes = bins.transform(matrix, n_threads)
        n_rows, n_all = codes.shape[1], self.state["part_rows"][-1]
        if pilot is not None and sources_file is not None:
            order = rows_by_leaf(pilot, codes, n_threads)
            run_blocks(_reorder, len(codes), order, codes, n_threads=n_threads)
            _write_at(sources_file, (first_row + order).astype(np.int32), _HEADER + 4 * first_row)
        for feature, column in enumerate(codes):
            _write_at(codes_file, column, _HEADER + feature * n_all + first_row)
        log.debug("%s: rows %d to %d are coded", self.folder, first_row, first_row + n_rows)

    # Bookkeeping.

    def _pass(self, number: int) -> Callable[[int, int | None], None] | None:
        """Reports the bytes of one pass as a share of all."""
        progress = self._progress
        if progress is None:
            return None
        has_count = not self.stream.ids_have_types
        before, n_passes = (number, 3) if has_count else (max(0, number - 1), 2)

        def tell(done: int, total: int | None) -> None:
            assert total is not None
            progress(before * total + done, n_passes * total)

        return tell

    def _refuse_changes(self) -> None:
        """Raise if a file has changed while it was read."""
        inputs = self.state["key"]["inputs"]
        for file, (_, *known) in zip(self.stream.inputs, inputs, strict=True):
            if list(size_and_time(file.path)) != known:
                raise DataError(
                    f"{file.path} changed while it was read. Bin the files again, when they are complete."
                )

    def _save(self) -> None:
        write_record(self.work, self.state, STATE)

    def _names(self) -> str:
        names = [str(file.path) for file in self.stream.inputs]
        return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _hash(query: Any) -> int:
    digest = hashlib.blake2b(str(query).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _reorder(first: int, last: int, order: Rows, codes: Bytes) -> None:
    """Sort the columns ``first`` to ``last`` of a part; ``take`` copies."""
    for feature in range(first, last):
        codes[feature] = codes[feature].take(order)


@contextlib.contextmanager
def _reserved(path: Path, dtype: Any, shape: tuple[int, ...]) -> Iterator[int]:
    """A .npy file of this shape, opened for writing anywhere, with its space on the disk allocated."""
    n_bytes = _HEADER + int(np.prod(shape)) * np.dtype(dtype).itemsize
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
    file = os.open(path, flags, 0o666)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, n_bytes)
        os.ftruncate(file, n_bytes)
        _write_at(file, np.frombuffer(npy_header(dtype, shape), np.uint8), 0)
        yield file
    finally:
        os.close(file)


def _write_at(file: int, values: Array, position: int) -> None:
    """Write all bytes of an array at a position of a file."""
    content = np.ascontiguousarray(values).data.cast("B")
    os.lseek(file, position, os.SEEK_SET)
    while content:
        content = content[os.write(file, content) :]
