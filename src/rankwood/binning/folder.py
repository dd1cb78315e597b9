"""Binned data in a folder, memory-mapped: ``open_binned``, and the files that ``rankwood.bin_files`` writes.

::

    <folder>/manifest.json       sizes, names, parts, and the size and hashes of every file; written last
             bins.json           thresholds
             codes.npy           uint8, features × rows, sorted for training within each part
             source_of_row.npy   int32: the row of the data that each row of codes.npy is; absent if not sorted
             labels.npy          float64; row_weights.npy likewise, and positions.npy (int32), if there are any
             rows.npy            int64: 0, 1, 2, …, since rows of a query are together
             query_of_row.npy    int64; query_offsets.npy: the first row of each query; query_weights.npy, if any
             query_ids.text      the ids end to end as UTF-8, and where each ends (query_ids.ends.npy);
             doc_ids.text        likewise, if there are any

A folder without a manifest is not whole. Opening checks the manifest, and of each file its size and a sample of 64
blocks; ``verify=True`` checks every byte.

Raw features are not kept: what stands for them (``CodedFeatures``) has their shape, and raises for their values. A
forest whose thresholds are those of the bins can score the codes.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rankwood._core.checks import read_only, refuse_cut
from rankwood._core.files import atomic_path
from rankwood._core.threads import lazy
from rankwood.binning.binned import BinnedData
from rankwood.binning.bins import CODE, Bins
from rankwood.data.cache import Damaged, full_hash, read_record, sample_hash
from rankwood.data.dataset import Grouping, Judgments, RankingData
from rankwood.data.frames import FeaturesElsewhere
from rankwood.data.sources import is_table
from rankwood.dtypes import FEATURE, LABEL, OFFSET, POSITION, ROW, WEIGHT, Array, Bytes, Rows
from rankwood.errors import DataError, ParameterError

FORMAT = 1  # of the folder; raise it when its files change
MANIFEST = "manifest.json"
BINS = "bins.json"
CODES = "codes.npy"
SOURCES = "source_of_row.npy"
UNFINISHED = "unfinished"  # the folder of a run that is not over
_ROWS_AT_ONCE = 1 << 20  # codes that are looked at together
NOBODY = "this"  # who needs raw features, until it is known
_THRESHOLD = "<f4"  # little-endian on every machine
_DTYPES = {  # of the arrays with one number per row or query
    "labels": LABEL,
    "row_weights": WEIGHT,
    "query_weights": WEIGHT,
    "positions": POSITION,
    "query_offsets": OFFSET,
    "query_of_row": ROW,
    "rows": ROW,
    "source_of_row": np.int32,
    "query_ids.ends": OFFSET,
    "doc_ids.ends": OFFSET,
}


def array_name(name: str) -> str:
    """The file of an array."""
    return f"{name}.npy"


def array_dtype(name: str) -> Any:
    """The dtype of an array."""
    return _DTYPES[name]


class RawFeaturesNeeded(DataError):
    """Raw values were asked of data that are kept as codes."""

    def __init__(self, folder: Path, who: str = NOBODY) -> None:
        self.folder = folder
        self.who = who
        super().__init__(
            f"{who} needs raw features, but {folder} keeps codes of bins only. Read the files themselves into memory "
            "(rankwood.read_letor, rankwood.read_table), a sample of the queries if they are too large; or choose a "
            "ranker of trees, such as LambdaMART or RandomForest."
        )

    def by(self, who: str) -> RawFeaturesNeeded:
        """The error with the name of who needs the values; the innermost name stays."""
        return RawFeaturesNeeded(self.folder, who) if self.who == NOBODY else self


class CodedFeatures(FeaturesElsewhere):
    """Stands for the features of data that are kept as codes: it has their shape and no values.

    Rows can be chosen by an array of their numbers or truth values; their codes are copied.
    """

    ndim = 2
    dtype = np.dtype(FEATURE)

    def __init__(
        self, folder: Path, columns: Bytes, source_of_row: Array | None, bins: Bins
    ) -> None:
        self.folder = folder
        self.stored = columns  # nobody has looked at the codes yet
        self.source_of_row = source_of_row
        self.bins = bins
        self.shape = (columns.shape[1], columns.shape[0])
        self._is_checked = False

    @property
    def columns(self) -> Bytes:
        """The codes as they are stored; the first time they are asked for, each is compared with the bins."""
        refuse_cut(f"the codes in {self.folder}", self.stored, self.source_of_row)
        if not self._is_checked:
            _check_codes(self.folder, self.stored, self.bins)
            self._is_checked = True
        return self.stored

    @property
    def size(self) -> int:
        """Number of values."""
        return int(self.stored.size)

    def __len__(self) -> int:
        return int(self.stored.shape[1])

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise RawFeaturesNeeded(self.folder)

    def __getitem__(self, rows: Any) -> CodedFeatures:
        if not (isinstance(rows, np.ndarray) and rows.ndim == 1):
            raise RawFeaturesNeeded(self.folder)
        chosen = np.flatnonzero(rows) if rows.dtype == bool else rows
        if self.source_of_row is not None:
            row_of_source = np.empty(len(self), np.int32)
            row_of_source[self.source_of_row] = np.arange(len(self), dtype=np.int32)
            chosen = row_of_source[chosen]
        return CodedFeatures(self.folder, self.columns.take(chosen, axis=1), None, self.bins)

    def codes(self) -> Bytes:
        """The codes in the data's order, features × rows: the map itself, or a copy in memory where it is sorted."""
        if self.source_of_row is None:
            return np.ascontiguousarray(self.columns)
        codes: Bytes = np.empty(self.columns.shape, CODE)
        for column, sorted_column in zip(codes, self.columns, strict=True):
            column[self.source_of_row] = sorted_column
        return codes

    def by_source(self, values: Array) -> Array:
        """Values of the rows of ``columns``, in the data's order."""
        sources = slice(None) if self.source_of_row is None else self.source_of_row
        ordered = np.empty_like(values)
        ordered[sources] = values
        return ordered


def coded_features(data: Any) -> CodedFeatures | None:
    """What stands for the features of ``data``, if they are kept as codes; None for raw features."""
    features = getattr(data, "features", None)
    return features if isinstance(features, CodedFeatures) else None


def refuse_codes(*parts: Any) -> None:
    """Raise if any of the data are kept as codes."""
    for part in parts:
        stored = coded_features(part)
        if stored is not None:
            raise RawFeaturesNeeded(stored.folder)


# Identifiers.


@dataclass(frozen=True)
class StoredIds:
    """Identifiers in a file: as text end to end, with the position of each end."""

    text: Bytes
    ends: Rows
    are_integers: bool

    def decode(self, first: int, last: int) -> Array:
        """The identifiers of numbers ``first`` to ``last``: int64, or Python strings."""
        begin = int(self.ends[first - 1]) if first else 0
        ends = self.ends[first:last].tolist()
        content = self.text[begin : ends[-1] if ends else begin].tobytes()
        starts = [begin, *ends]
        texts = [
            content[start - begin : end - begin].decode("utf-8", "surrogatepass")
            for start, end in zip(starts, ends, strict=False)
        ]
        if self.are_integers:
            try:
                return np.array([int(text) for text in texts], np.int64)
            except (ValueError, OverflowError):
                raise DataError("the identifiers of a folder of binned data are damaged.") from None
        ids = np.empty(len(texts), object)
        ids[:] = texts
        return ids


class StoredGrouping(Grouping):
    """The grouping of stored rows: queries are together, and their ids are decoded when they are asked for."""

    ids: StoredIds
    numbers: range  # of the queries among the ids

    def __init__(
        self, ids: StoredIds, queries: range, offsets: Rows, rows: Rows, of_row: Rows
    ) -> None:
        self.__dict__.update(
            ids=ids,
            numbers=queries,
            offsets=read_only(offsets),
            row_order=read_only(rows),
            query_of_row=read_only(of_row),
            n_separated=0,
        )

    @lazy
    def queries(self) -> Array:
        """The id of each query."""
        return read_only(self.ids.decode(self.numbers.start, self.numbers.stop))


# The opened folder.


class BinnedFolder(BinnedData):
    """Binned data that lie in a folder.

    Codes, labels and queries are memory maps: they take the memory that the system has to spare. There are no raw
    features. ``folder[first:last]`` are the queries of these numbers; where ``first`` and ``last`` are ends of parts,
    nothing is copied. An object that is pickled opens the folder again, where it is unpickled.

    Attributes
    ----------
    folder
        Where the files are.
    columns, source_of_row
        The codes as they are stored, and the row of the data that each of their rows is; None if they are not sorted.
    codes
        The codes in the data's order: a copy in memory if they are sorted.
    part_queries, part_rows
        The first query and the first row of each part, and the number of all at the end. Without queries every part
        has none.
    data
        Labels, queries and weights. ``data.queries`` are the ids of the queries, and ``data.query_ids`` the number of
        each row's query.
    """

    folder: Path
    source_of_row: Array | None
    part_queries: Rows
    part_rows: Rows
    _features: CodedFeatures
    _doc_ids: tuple[StoredIds, int] | None  # and the number of the first row among them
    _queries: tuple[int, int] | None  # of the whole folder; None: all

    def __init__(
        self,
        folder: Path,
        codes: CodedFeatures,
        judgments: Judgments,
        names: tuple[str, ...] | None,
        parts: tuple[Rows, Rows],
        doc_ids: tuple[StoredIds, int] | None = None,
        queries: tuple[int, int] | None = None,
        absent: str | None = None,
    ) -> None:
        features: Any = codes
        self.__dict__.update(
            folder=folder,
            source_of_row=codes.source_of_row,
            bins=codes.bins,
            data=RankingData.from_judgments(features, judgments, names).with_absent(absent),
            part_rows=read_only(parts[0]),
            part_queries=read_only(parts[1]),
            derived={},
            _features=codes,
            _doc_ids=doc_ids,
            _queries=queries,
        )

    @property
    def columns(self) -> Bytes:
        """The codes as they are stored."""
        return self._features.columns

    @property
    def queries(self) -> tuple[int, int] | None:
        """The queries of the folder that these are, from the first to before the last; None for all."""
        return self._queries

    @lazy
    def codes(self) -> Bytes:
        """The codes in the data's order; a copy in memory if they are stored in another."""
        return read_only(self._features.codes())

    @property
    def doc_ids(self) -> Array | None:
        """The document of each row, decoded now; None where the files had no such ids."""
        if self._doc_ids is None:
            return None
        ids, first = self._doc_ids
        return ids.decode(first, first + self.n_rows)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, queries: slice) -> BinnedFolder:
        if not isinstance(queries, slice) or queries.step not in (None, 1):
            raise ParameterError(
                f"binned data are cut into ranges of queries, as in folder[10:20]; got {queries!r}."
            )
        if self.data.query_ids is None:
            raise DataError(f"{self.folder} has no queries, and can be cut only between queries.")
        first, last, _ = queries.indices(self.data.query_offsets.size - 1)
        return _cut(self, first, max(first, last))

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_again, (str(self.folder), self._queries)

    def __repr__(self) -> str:
        return (
            f"BinnedFolder({str(self.folder)!r}, {self.n_rows:,} documents, {self.n_features:,} features, "
            f"at most {int(self.n_bins.max())} bins)"
        )


def _open_again(folder: str, queries: tuple[int, int] | None) -> BinnedFolder:
    opened = open_binned(folder)
    return opened if queries is None else opened[queries[0] : queries[1]]


def _cut(whole: BinnedFolder, first: int, last: int) -> BinnedFolder:
    """The queries ``first`` to ``last``: a view if parts begin and end there, else a copy of the codes."""
    offsets = whole.data.query_offsets
    begin, end = int(offsets[first]), int(offsets[last])
    columns, sources = whole._features.stored, whole.source_of_row
    if sources is None:
        columns = columns[:, begin:end]
    elif begin in whole.part_rows and end in whole.part_rows:
        columns, sources = columns[:, begin:end], sources[begin:end] - begin
    else:
        parts = whole.part_rows
        low = int(parts[np.searchsorted(parts, begin, side="right") - 1])
        high = int(parts[np.searchsorted(parts, end)])
        near = sources[low:high]
        rows = np.flatnonzero((near >= begin) & (near < end))
        columns, sources = columns[:, low:high].take(rows, axis=1), near[rows] - begin
    judgments, grouping = whole.data.judgments, whole.data.grouping
    assert isinstance(grouping, StoredGrouping)
    cut_grouping = StoredGrouping(
        grouping.ids,
        range(grouping.numbers.start + first, grouping.numbers.start + last),
        offsets[first : last + 1] - begin,
        grouping.row_order[: end - begin],
        grouping.query_of_row[begin:end] - first,
    )
    weights = judgments.query_weights
    cut_judgments = Judgments(
        judgments.labels[begin:end],
        cut_grouping.query_of_row,
        None,
        None if judgments.row_weights is None else judgments.row_weights[begin:end],
        None if weights is None else weights[first:last],
        None if judgments.positions is None else judgments.positions[begin:end],
    )
    cut_judgments.__dict__["grouping"] = cut_grouping
    inside = (whole.part_rows > begin) & (whole.part_rows < end)
    parts_of_rows = np.array([begin, *whole.part_rows[inside].tolist(), end]) - begin
    parts_of_queries = np.array([first, *whole.part_queries[inside].tolist(), last]) - first
    start = 0 if whole._queries is None else whole._queries[0]
    doc_ids = None if whole._doc_ids is None else (whole._doc_ids[0], whole._doc_ids[1] + begin)
    return BinnedFolder(
        whole.folder,
        CodedFeatures(whole.folder, columns, sources, whole.bins),
        cut_judgments,
        whole.data.feature_names,
        (parts_of_rows, parts_of_queries),
        doc_ids,
        (start + first, start + last),
        whole.data.absent,
    )


def open_binned(folder: str | os.PathLike[str], *, verify: bool = False) -> BinnedFolder:
    """Open a folder of binned data, as ``rankwood.bin_files`` or ``rankwood bin`` writes it.

    Opening takes milliseconds: files are memory-mapped. The manifest, the size of each file and a sample of its bytes
    are checked; with ``verify`` every byte is. Whatever is missing, cut, changed or foreign is an error that names it.
    Every ranker of trees takes the result in ``fit``, as training data and as ``valid``.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    _check_files(folder, manifest, verify)
    try:
        return _opened(folder, manifest)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{folder} cannot be opened ({type(error).__name__}: {error}). Bin the files again."
        ) from None


def check_binned(folder: str | os.PathLike[str]) -> BinnedFolder:
    """Open a folder and compare every byte of its files with the manifest."""
    return open_binned(folder, verify=True)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, or an error that says what the folder is instead."""
    path = folder / MANIFEST
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise DataError(
            f"{folder} {what}. Make binned data with rankwood.bin_files or: rankwood bin."
        )
    if not path.exists():
        if (folder / UNFINISHED).is_dir():
            raise DataError(
                f"{folder} is not finished: binning was interrupted. The same rankwood.bin_files call, or rankwood "
                "bin command, goes on where it stopped."
            )
        raise DataError(
            f"{folder} has no {MANIFEST}, so it is not a folder of binned data. Make one with rankwood.bin_files or: "
            "rankwood bin."
        )
    try:
        manifest = read_record(folder, MANIFEST)
    except Damaged as reason:
        raise DataError(f"{path} is damaged: {reason}. Bin the files again.") from None
    if manifest.get("format") != FORMAT:
        raise DataError(
            f"{path} has format {manifest.get('format')}, and this version of Rankwood reads {FORMAT}. Bin the files "
            f"again, or use the version that wrote it, {manifest.get('version')}."
        )
    return manifest


def is_binned_folder(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a folder of binned data, finished or not."""
    folder = Path(path)
    return (folder / MANIFEST).is_file() or (folder / UNFINISHED).is_dir()


def describe_file(path: Path) -> dict[str, Any]:
    """What the manifest says of a file."""
    return {"bytes": path.stat().st_size, "sample": sample_hash(path), "sha256": full_hash(path)}


def _check_files(folder: Path, manifest: Mapping[str, Any], verify: bool) -> None:
    remedy = "Copy the folder again, or bin the files again."
    for name, known in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise DataError(f"{path} is missing. {remedy}")
        n_bytes = path.stat().st_size
        if n_bytes != known["bytes"]:
            what = "cut" if n_bytes < known["bytes"] else "changed"
            raise DataError(
                f"{path} was {what}: it has {n_bytes:,} bytes, and the manifest says {known['bytes']:,}. {remedy}"
            )
        if sample_hash(path) != known["sample"] or (verify and full_hash(path) != known["sha256"]):
            raise DataError(
                f"{path} is damaged, or of other data: its bytes are not those that the manifest knows. {remedy}"
            )
    known_names = {*manifest["files"], MANIFEST}
    for entry in sorted(os.listdir(folder)):
        if entry not in known_names and not entry.startswith("."):
            raise DataError(
                f"{folder / entry} does not belong to the binned data in this folder. Move it elsewhere."
            )


def _opened(folder: Path, manifest: Mapping[str, Any]) -> BinnedFolder:
    arrays = {
        name: _map(folder / array_name(name), dtype)
        for name, dtype in _DTYPES.items()
        if array_name(name) in manifest["files"]
    }
    bins = read_bins(folder / BINS)
    columns = _map(folder / CODES, CODE)
    expected = (manifest["features"], manifest["rows"])
    if columns.shape != expected or bins.n_features != expected[0]:
        raise DataError(
            f"{folder / CODES} has another shape than the manifest says. Bin the files again."
        )
    parts = tuple(np.array(manifest[f"part_{kind}"], OFFSET) for kind in ("rows", "queries"))
    _check_arrays(folder, arrays, expected[1], manifest["queries"], parts)
    judgments = Judgments(
        arrays["labels"],
        arrays.get("query_of_row"),
        None,
        arrays.get("row_weights"),
        arrays.get("query_weights"),
        arrays.get("positions"),
    )
    if manifest["queries"] is not None:
        judgments.__dict__["grouping"] = StoredGrouping(
            _stored_ids(folder, "query_ids", arrays, manifest),
            range(manifest["queries"]),
            arrays["query_offsets"],
            arrays["rows"],
            arrays["query_of_row"],
        )
    doc_ids = None
    if "doc_ids.ends" in arrays:
        doc_ids = (_stored_ids(folder, "doc_ids", arrays, manifest), 0)
    names = None if manifest["names"] is None else tuple(manifest["names"])
    codes = CodedFeatures(folder.absolute(), columns, arrays.get("source_of_row"), bins)
    absent = _absent_in(manifest.get("key"))
    return BinnedFolder(folder.absolute(), codes, judgments, names, parts, doc_ids, absent=absent)  # type: ignore[arg-type]


def _absent_in(key: Any) -> str | None:
    """What features were that rows of the files left out; None where there were other files than LETOR text."""
    if not isinstance(key, dict) or any(is_table(path) for path, *_ in key["inputs"]):
        return None
    return str(key["options"]["absent"])


def _stored_ids(
    folder: Path, name: str, arrays: Mapping[str, Array], manifest: Mapping[str, Any]
) -> StoredIds:
    path = folder / f"{name}.text"
    is_empty = path.stat().st_size == 0  # an empty file cannot be mapped
    text = np.zeros(0, np.uint8) if is_empty else np.memmap(path, np.uint8, mode="r")
    ends = arrays[f"{name}.ends"]
    is_fine = ends.ndim == 1 and bool((np.diff(ends, prepend=0) >= 0).all())
    if not is_fine or (ends.size and int(ends[-1]) != text.size):
        _refuse(folder / array_name(f"{name}.ends"), "does not divide the identifiers")
    return StoredIds(np.asarray(text), ends, bool(manifest["integer_ids"][name]))


def _refuse(path: Path, what: str) -> NoReturn:
    raise DataError(f"{path} {what}. Bin the files again.")


def _check_arrays(
    folder: Path,
    arrays: Mapping[str, Array],
    n_rows: int,
    n_queries: int | None,
    parts: tuple[Rows, ...],
) -> None:
    """Raise unless the arrays fit together: kernels follow them without looking."""
    lengths = {
        "query_weights": n_queries,
        "query_offsets": None if n_queries is None else n_queries + 1,
    }
    for name, array in arrays.items():
        is_of_ids = name.endswith(".ends")
        if array.ndim != 1 or (not is_of_ids and array.size != lengths.get(name, n_rows)):
            _refuse(folder / array_name(name), "has another length than the manifest says")
    for name in ("labels", "row_weights", "query_weights"):
        if name in arrays and arrays[name].size:
            low, high = float(arrays[name].min()), float(arrays[name].max())
            if not (low >= 0.0 and high < np.inf):  # NaN is neither
                _refuse(folder / array_name(name), f"holds a number from {low} to {high}")
    for ends in parts:
        if ends.ndim != 1 or ends.size < 1 or ends[0] != 0 or (np.diff(ends) < 0).any():
            _refuse(folder / MANIFEST, "has parts that do not follow each other")
    of_rows = parts[0]
    if of_rows[-1] != n_rows:
        _refuse(folder / MANIFEST, "has parts of another number of rows")
    if n_queries is not None:
        _check_queries(folder, arrays, n_rows)
    if "source_of_row" in arrays:
        sources = arrays["source_of_row"]
        is_there = np.zeros(n_rows, bool)
        is_fine = n_rows == 0 or (sources.min() >= 0 and sources.max() < n_rows)
        if is_fine:
            is_there[sources] = True
            first = (
                np.minimum.reduceat(sources, of_rows[:-1][np.diff(of_rows) > 0])
                if n_rows
                else sources
            )
            is_fine = is_there.all() and np.array_equal(first, of_rows[:-1][np.diff(of_rows) > 0])
        if not is_fine:
            _refuse(folder / SOURCES, "does not name each row of its part once")


def _check_queries(folder: Path, arrays: Mapping[str, Array], n_rows: int) -> None:
    """Raise unless rows and queries name each other."""
    offsets = arrays["query_offsets"]
    is_fine = offsets[0] == 0 and offsets[-1] == n_rows and (np.diff(offsets) > 0).all()
    if not is_fine:
        _refuse(folder / array_name("query_offsets"), "does not divide the rows into queries")
    of_row = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    for name, expected in (("query_of_row", of_row), ("rows", np.arange(n_rows))):
        if not np.array_equal(arrays[name], expected):
            _refuse(folder / array_name(name), "does not fit the queries")


def _check_codes(folder: Path, columns: Bytes, bins: Bins) -> None:
    """Raise for a code beyond the bins of its feature; 255, for a missing value, is always one."""
    for feature, n_bins in enumerate(bins.n_value_bins.tolist()):
        for first in range(0, columns.shape[1], _ROWS_AT_ONCE):
            shifted = columns[feature, first : first + _ROWS_AT_ONCE] + np.uint8(1)  # 255 becomes 0
            if shifted.max(initial=0) > n_bins:
                _refuse(
                    folder / CODES, f"holds codes of feature {feature} beyond its {n_bins} bins"
                )


def _map(path: Path, dtype: Any) -> Array:
    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype != dtype:
        raise DataError(
            f"{path} holds {array.dtype}, expected {np.dtype(dtype)}. Bin the files again."
        )
    return read_only(np.asarray(array))


# Bins as a file.


def write_bins(path: Path, bins: Bins) -> None:
    """Write thresholds as JSON."""
    record = {
        "thresholds": base64.b64encode(bins.thresholds.astype(_THRESHOLD).tobytes()).decode(),
        "offsets": bins.offsets.tolist(),
        "has_missing": bins.has_missing.tolist(),
    }
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(record), encoding="utf-8")


def read_bins(path: Path) -> Bins:
    """Thresholds that ``write_bins`` wrote."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        thresholds = np.frombuffer(base64.b64decode(record["thresholds"]), _THRESHOLD)
        return Bins(thresholds, record["offsets"], record["has_missing"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path} cannot be read as bins ({error}). Bin the files again.") from None


def bins_from(given: Any) -> Bins:
    """Bins from a folder of binned data, its path, other binned data, or bins themselves."""
    if isinstance(given, Bins):
        return given
    if isinstance(given, BinnedData):
        return given.bins
    if isinstance(given, str | os.PathLike):
        read_manifest(Path(given))
        return read_bins(Path(given) / BINS)
    raise ParameterError(
        f"bins must be a folder of binned data, or what rankwood.bin gives; got {type(given).__name__}."
    )


def same_bins(one: Bins, other: Bins) -> bool:
    """Whether codes of both mean the same."""
    pairs: Sequence[tuple[Array, Array]] = (
        (one.offsets, other.offsets),
        (one.thresholds, other.thresholds),
    )
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)
