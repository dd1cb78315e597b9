"""Files of scores: read for given data, and written part by part as TSV, Parquet, TREC run or bare numbers.

A row of TSV and Parquet has the document's id (or the row's number in the file, from 1, if documents have no ids), the
query's id, the score and the rank. Scores are written with as few digits as identify them.
"""

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
from rankwood.data.reading import is_run_file
from rankwood.data.sources import PathLike, is_standard_stream, open_sink, uncompressed_name
from rankwood.data.tables.files import join_lines, quoted
from rankwood.data.trec import read_run, read_scores, scores_of_run
from rankwood.dtypes import SCORE, Floats, Rows
from rankwood.errors import DataError, ParameterError

_ENDINGS = {".parquet": "Parquet", ".tsv": "TSV", ".csv": "CSV"}

FORMATS = ("tsv", "parquet", "trec", "numbers")
_FORMAT_OF = {".parquet": "parquet", ".trec": "trec", ".run": "trec", ".txt": "numbers"}
_NOT_A_FIELD = r"^$|[\t\n\v\f\r ]"  # matches texts that cannot be a field of a TREC run
_DELIMITER = "\t"


def read_scores_of(path: str | os.PathLike[str], data: RankingData) -> Floats:
    """One score per row of ``data``: the column ``score`` of a table, or one number per line.

    If the table has the columns ``qid`` and ``doc_id``, they must match the rows.
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


def read_ranking(path: str | os.PathLike[str], data: RankingData) -> Floats:
    """One score per row of ``data``, from a file of scores or a TREC run: −inf for what a run has not retrieved."""
    if is_run_file(path):
        return scores_of_run(read_run(path), data)
    return read_scores_of(path, data)


@dataclass(frozen=True, eq=False)
class ScoredPart:
    """Consecutive rows of a file with their scores, and ranks if there are queries."""

    data: RankingData
    first_row: int  # counted from 1
    scores: Floats
    ranks: Rows | None = None
    best_first: Rows | None = None  # rows of the part, query by query


@contextlib.contextmanager
def open_scores(path: PathLike, form: str, tag: str) -> Iterator[Write]:
    """Yield a function that writes parts to a file of scores; the file appears if the block succeeds.

    ``-`` is standard output, written immediately. ``tag`` names the system in a TREC run.
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


def format_of(path: PathLike, form: str | None) -> str:
    """The format ``form``, or if it is None the one that the name of the file suggests."""
    if form is not None:
        return checks.one_of("format", form, FORMATS)
    return _FORMAT_OF.get(Path(uncompressed_name(path)).suffix, "tsv")


class _TsvScores:
    """Writes lines of tab-separated fields below a header."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._names: list[str] = []

    def write(self, part: ScoredPart) -> None:
        columns = _columns(part)
        if not self._names:
            self._names = list(columns)
            self._sink.write((_DELIMITER.join(columns) + "\n").encode())
        _refuse_late_ids(self._names, part)
        texts = [quoted(_text(column), _DELIMITER) for column in columns.values()]
        self._sink.write(join_lines(texts, _DELIMITER))


class _ParquetScores(contextlib.AbstractContextManager["_ParquetScores"]):
    """Writes a Parquet file; ids are whole numbers until a part has text ids, then all become text."""

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
        """Rewrite the file so far with the types of ``schema``, and continue with it."""
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
    """The schema with text columns wherever the two differ."""
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
    """Raise for an id that is empty or contains blanks."""
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
    columns: dict[str, Any] = {}
    if data.doc_ids is None:
        columns["row"] = pa.array(np.arange(part.first_row, part.first_row + data.n_documents))
    else:
        columns["doc_id"] = frames.identifiers_to_arrow("doc_ids", data.doc_ids)
    if data.query_ids is not None:
        columns["qid"] = frames.identifiers_to_arrow("query_ids", data.query_ids)
    columns["score"] = pa.array(part.scores)
    if part.ranks is not None:
        columns["rank"] = pa.array(part.ranks)
    return columns


def _refuse_late_ids(names: list[str], part: ScoredPart) -> None:
    """Raise if documents have ids after row numbers were written for earlier ones."""
    if part.data.doc_ids is not None and "doc_id" not in names:
        raise DataError(
            f"documents have ids from about row {part.first_row:,} on, but not before. Give all of "
            "them an id or none, or read the file as a whole (rankwood score --whole)."
        )


def _text(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(pa.large_string())


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
        as_written = dict.fromkeys(("qid", "doc_id"), pa.string())  # whatever size ids have
        return pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
            convert_options=pyarrow.csv.ConvertOptions(column_types=as_written),
        )
    except (pa.ArrowInvalid, OSError) as error:
        kind = _ENDINGS[path.suffix.lower()]
        raise DataError(f"{path} cannot be read as {kind}: {error}") from None


def _refuse_other_rows(path: Any, name: str, actual: list[Any], expected: list[Any]) -> None:
    for row, (one, other) in enumerate(zip(actual, expected, strict=True)):
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


Write = Callable[[ScoredPart], None]
