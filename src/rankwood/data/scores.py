"""Scores of a data set's rows from a file: what ``rankwood score`` writes, or bare numbers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.data import frames
from rankwood.data.dataset import RankingData
from rankwood.data.reading import COMPRESSION_SUFFIXES
from rankwood.data.sources import PathLike, is_standard_stream, open_sink
from rankwood.data.tables.files import join_lines, quoted
from rankwood.data.trec import read_scores
from rankwood.dtypes import SCORE, Floats, Rows
from rankwood.errors import DataError, ParameterError

_ENDINGS = {".parquet": "Parquet", ".tsv": "TSV", ".csv": "CSV"}


def read_scores_of(path: str | os.PathLike[str], data: RankingData) -> Floats:
    """One score per row of ``data``, in its order: the column ``score`` of a table, or one number per line.

    A table's ``qid`` and ``doc_id``, if it has them, must be those of the rows.
    """
    if Path(path).suffix.lower() not in _ENDINGS:
        return read_scores(path, n_rows=data.n_documents)
    table = _table(Path(path))
    if "score" not in table.column_names:
        names = ", ".join(table.column_names[:8])
        raise DataError(
            f"{path} has no column 'score'; it has {names}. rankwood score writes such a file."
        )
    if table.num_rows != data.n_documents:
        raise DataError(
            f"{path} has {table.num_rows:,} scores, but the data have {data.n_documents:,} rows. "
            "There must be one score per row, in the order of the rows."
        )
    for name, ids in (("qid", data.query_ids), ("doc_id", data.doc_ids)):
        if name in table.column_names and ids is not None:
            _refuse_other_rows(path, name, table.column(name).to_pylist(), ids.tolist())
    return _numbers(path, table.column("score"))


def _table(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    try:
        if path.suffix.lower() == ".parquet":
            return pyarrow.parquet.read_table(path)
        delimiter = "," if path.suffix.lower() == ".csv" else "\t"
        options = pyarrow.csv.ParseOptions(delimiter=delimiter)
        return pyarrow.csv.read_csv(path, parse_options=options)
    except (pa.ArrowInvalid, OSError) as error:
        kind = _ENDINGS[path.suffix.lower()]
        raise DataError(f"{path} cannot be read as {kind}: {error}") from None


def _refuse_other_rows(path: Any, name: str, found: list[Any], expected: list[Any]) -> None:
    for row, (one, other) in enumerate(zip(found, expected, strict=True)):
        if str(one) != str(other):
            raise DataError(
                f"{path}, row {row + 1:,}: {name} is {one}, but the data have {other} there. "
                "Scores must be of these data, in the order of their rows."
            )


def _numbers(path: Any, column: Any) -> Floats:
    try:
        scores = np.asarray(column.to_numpy(), dtype=SCORE)
    except (TypeError, ValueError):
        raise DataError(f"{path}: the column 'score' does not hold numbers.") from None
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise DataError(f"{path}, row {row + 1:,}: the score is missing or not finite.")
    return scores


# Files of scores, written part by part: TSV, Parquet, TREC runs and bare numbers.
#
# A row of TSV and Parquet has the document's id (where documents have none, the row's number in the
# file, counted from 1), the query's id, the score and the rank. Scores are written with as few digits
# as identify them.


FORMATS = ("tsv", "parquet", "trec", "numbers")
_FORMAT_OF = {".parquet": "parquet", ".trec": "trec", ".run": "trec", ".txt": "numbers"}
_NOT_A_FIELD = r"^$|[\t\n\v\f\r ]"  # what a field of a TREC run cannot be or contain
_DELIMITER = "\t"


@dataclass(frozen=True, eq=False)
class ScoredPart:
    """Consecutive rows of a file with their scores; ranks only where there are queries."""

    data: RankingData
    first_row: int  # counted from 1
    scores: Floats
    ranks: Rows | None = None
    best_first: Rows | None = None  # rows of the part, query by query


Write = Callable[[ScoredPart], None]


def format_of(path: PathLike, form: str | None) -> str:
    """The format asked for; by default the one that the name of the file suggests."""
    if form is not None:
        return checks.one_of("format", form, FORMATS)
    name = Path(path).name.lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return _FORMAT_OF.get(Path(name).suffix, "tsv")


@contextlib.contextmanager
def open_scores(path: PathLike, form: str, tag: str) -> Iterator[Write]:
    """What takes the parts of a file of scores, which appears when all are written.

    ``-`` is standard output, written as parts come. ``tag`` names the system in a TREC run.
    """
    if form == "parquet":
        if is_standard_stream(path):
            raise ParameterError("Parquet cannot be written to standard output; name a file.")
        with (
            explained_writing(path),
            atomic_path(path) as temporary,
            _ParquetScores(temporary) as parquet,
        ):
            yield parquet.write
        return
    if form == "trec" and (not tag or len(tag.split()) != 1 or tag != tag.strip()):
        raise ParameterError(f"the tag of a run must be one word, got {tag!r}.")
    with open_sink(path) as sink:
        if form == "numbers":
            yield lambda part: _write_numbers(sink, part)
        elif form == "trec":
            yield lambda part: _write_run(sink, part, tag)
        else:
            yield _TsvScores(sink).write


class _TsvScores:
    """Lines of tab-separated fields below a header."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._names: list[str] = []

    def write(self, part: ScoredPart) -> None:
        found = _columns(part)
        if not self._names:
            self._names = list(found)
            self._sink.write((_DELIMITER.join(found) + "\n").encode())
        _refuse_late_ids(self._names, part)
        texts = [quoted(_text(column), _DELIMITER) for column in found.values()]
        self._sink.write(join_lines(texts, _DELIMITER))


class _ParquetScores(contextlib.AbstractContextManager["_ParquetScores"]):
    """A Parquet file; ids are whole numbers until a part has others, then all of them are text."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] = path.open("wb")
        self._writer: Any = None

    def write(self, part: ScoredPart) -> None:
        import pyarrow as pa

        table = pa.table(_columns(part))
        if self._writer is None:
            self._writer = _parquet_writer(self._file, table.schema)
        _refuse_late_ids(self._writer.schema.names, part)
        schema = _common_schema(self._writer.schema, table.schema)
        if schema != self._writer.schema:
            self._write_again(schema)
        self._writer.write_table(table.cast(schema))

    def _write_again(self, schema: Any) -> None:
        """Write what is written so far with the types of ``schema``, and go on there."""
        import pyarrow.parquet as pq

        self._close()
        before = self._path.with_name(self._path.name + ".numbers")
        self._path.replace(before)
        try:
            self._file = self._path.open("wb")
            self._writer = _parquet_writer(self._file, schema)
            with pq.ParquetFile(os.fspath(before)) as old:
                for group in range(old.num_row_groups):
                    self._writer.write_table(old.read_row_group(group).cast(schema))
        finally:
            before.unlink(missing_ok=True)

    def _close(self) -> None:
        with self._file:
            if self._writer is not None:
                self._writer.close()

    def __exit__(self, *_: object) -> None:
        self._close()


def _parquet_writer(file: IO[bytes], schema: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)


def _common_schema(one: Any, other: Any) -> Any:
    """The schema with text wherever the two differ."""
    import pyarrow as pa

    return pa.schema(
        [
            field if field.type == twin.type else pa.field(field.name, pa.large_string())
            for field, twin in zip(one, other, strict=True)
        ]
    )


def _write_numbers(sink: IO[bytes], part: ScoredPart) -> None:
    import pyarrow as pa

    sink.write(join_lines([_text(pa.array(part.scores))], ""))


def _write_run(sink: IO[bytes], part: ScoredPart, tag: str) -> None:
    """Lines ``qid Q0 docid rank score tag``, query by query, best first."""
    import pyarrow as pa

    if part.best_first is None:
        raise DataError("a TREC run needs query ids, and these data have none.")
    rows = pa.array(part.best_first)
    document, query, score, rank = (_text(column) for column in _columns(part).values())
    _refuse_blanks("query", query, part)
    _refuse_blanks("document", document, part)
    query, document, rank, score = (text.take(rows) for text in (query, document, rank, score))
    zero, name = (pa.repeat(pa.scalar(word, pa.large_string()), len(rows)) for word in ("Q0", tag))
    sink.write(join_lines([query, zero, document, rank, score, name], " "))


def _refuse_blanks(kind: str, texts: Any, part: ScoredPart) -> None:
    """Raise for an id that is empty or has blanks in it."""
    import pyarrow.compute as pc

    wrong = pc.index(pc.match_substring_regex(texts, _NOT_A_FIELD), True).as_py()
    if wrong >= 0:
        raise DataError(
            f"row {part.first_row + wrong}: the {kind} id {texts[wrong].as_py()!r} cannot stand in a "
            "TREC run, whose fields are words between blanks. Write TSV or Parquet."
        )


def _columns(part: ScoredPart) -> dict[str, Any]:
    """The columns of a file of scores, as Arrow arrays."""
    import pyarrow as pa

    data = part.data
    found: dict[str, Any] = {}
    if data.doc_ids is None:
        found["row"] = pa.array(np.arange(part.first_row, part.first_row + data.n_documents))
    else:
        found["doc_id"] = frames.identifiers_to_arrow("doc_ids", data.doc_ids)
    if data.query_ids is not None:
        found["qid"] = frames.identifiers_to_arrow("query_ids", data.query_ids)
    found["score"] = pa.array(part.scores)
    if part.ranks is not None:
        found["rank"] = pa.array(part.ranks)
    return found


def _refuse_late_ids(names: list[str], part: ScoredPart) -> None:
    """Raise where documents have ids after row numbers were written for those before."""
    if part.data.doc_ids is not None and "doc_id" not in names:
        raise DataError(
            f"documents have ids from about row {part.first_row:,} on, but not before. Give all of "
            "them an id or none, or read the file as a whole (rankwood score --whole)."
        )


def _text(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(pa.large_string())
