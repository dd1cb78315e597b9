"""Files of scores and of judgments: tables of scores, bare numbers, TREC's runs and qrels.

Scores are read for given data, and written part by part as TSV, Parquet, TREC run or bare numbers. A row of TSV and
Parquet has the document's id (or the row's number in the file, from 1, if documents have no ids), the query's id, the
score and the rank. Scores are written with as few digits as identify them.

Terms
    run        the output of a system: lines ``qid Q0 docid rank score tag``
    qrels      the judgments of assessors: lines ``qid iteration docid label``
    judged     a document that the qrels contain for this query, whatever its label
    retrieved  a document that the run contains for this query

As in trec_eval, the rank in a run file is ignored and the score decides. Ids are always text. Files may be compressed
(``.gz``, ``.zst``, ``.bz2``); ``-`` is standard input.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

import numpy as np

from rankwood._core import checks
from rankwood._core.checks import read_only
from rankwood._core.files import atomic_path, explained_writing
from rankwood.data import frames
from rankwood.data.dataset import RankingData
from rankwood.data.reading import is_run_file
from rankwood.data.sources import (
    PathLike,
    is_standard_stream,
    open_sink,
    refuse_what_is_no_file,
    uncompressed_name,
)
from rankwood.data.table_files import COMPRESSIONS, join_lines, quoted, shown
from rankwood.dtypes import FEATURE, LABEL, SCORE, Array, Floats, Rows
from rankwood.errors import DataError, DataWarning, ParameterError

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


_BLANKS = r"^$|[\t\v\f\r ]"  # matches texts that cannot be a field of a well-formed line
_LONGEST_NUMBER = 64  # characters; files with longer lines are parsed line by line


class _ReadOnlyArrays:
    """Base of frozen dataclasses that makes their arrays read-only."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, read_only(value))


@dataclass(frozen=True, eq=False)
class Run(_ReadOnlyArrays):
    """The output of a system: one document and its score per row, in the order of the file."""

    query_ids: Array
    doc_ids: Array
    scores: Floats


@dataclass(frozen=True, eq=False)
class Qrels(_ReadOnlyArrays):
    """The judgments: one document and its label per row; some tracks have negative labels."""

    query_ids: Array
    doc_ids: Array
    labels: Floats


@dataclass(frozen=True, eq=False)
class JudgedRun(_ReadOnlyArrays):
    """A run joined with its qrels: one row per retrieved or judged document.

    Retrieved documents come first, in the order of the run; then the judged documents that the run
    missed, in the order of the qrels, with score −inf. The latter belong to the ideal ranking and
    to the number of relevant documents, but contribute nothing to the value of the run.

    ``data`` has the single feature ``score``; a document that is not judged has label 0.
    """

    data: RankingData
    scores: Floats
    judged: Array  # whether the qrels hold the row's document
    retrieved: Array  # whether the run holds it
    missing_queries: tuple[str, ...]  # in the qrels, not in the run
    unjudged_queries: tuple[str, ...]  # in the run, not in the qrels: left out
    n_negative: int  # qrels labels below 0, taken as 0


def read_run(path: str | os.PathLike[str]) -> Run:
    """The run in a file of lines ``qid Q0 docid rank score tag``; scores must be finite."""
    layout = ("qid", "Q0", "docid", "rank", "score", "tag")
    return Run(*_read_fields(path, layout, number=4))


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """The judgments in a file of lines ``qid iteration docid label``."""
    return Qrels(*_read_fields(path, ("qid", "iteration", "docid", "label"), number=3))


def judge_run(run: Run, qrels: Qrels, *, complete: bool = False) -> JudgedRun:
    """Join a run with the labels of its documents, and add the judged documents that it missed.

    Only queries that are in both are kept, as trec_eval does. With ``complete`` (trec_eval's -c),
    queries of the qrels that the run does not answer are kept too, with no document retrieved.
    Negative labels count as 0, with a warning.
    """
    run_queries, judged_queries, queries = _common_codes(run.query_ids, qrels.query_ids)
    run_docs, judged_docs, documents = _common_codes(run.doc_ids, qrels.doc_ids)
    in_run = np.bincount(run_queries, minlength=len(queries)) > 0
    in_qrels = np.bincount(judged_queries, minlength=len(queries)) > 0
    if not (in_run & in_qrels).any() and not complete:
        raise DataError(
            "the run and the qrels have no query in common: the run has "
            f"{shown(run.query_ids[0])}, the qrels {shown(qrels.query_ids[0])}. "
            "Do they belong together?"
        )
    run_keys = run_queries * len(documents) + run_docs
    judged_keys = judged_queries * len(documents) + judged_docs
    kept_run = np.flatnonzero(in_qrels[run_queries])
    kept = in_qrels if complete else in_qrels & in_run
    missed = np.flatnonzero(kept[judged_queries] & ~np.isin(judged_keys, run_keys))
    judgment = _find(run_keys[kept_run], judged_keys)
    judged = np.concatenate([judgment >= 0, np.ones(missed.size, bool)])
    labels = np.where(judgment >= 0, qrels.labels[judgment], 0.0)
    scores = np.concatenate([run.scores[kept_run], np.full(missed.size, -np.inf)])
    data = _run_data(run, qrels, kept_run, missed, np.concatenate([labels, qrels.labels[missed]]))
    return JudgedRun(
        data,
        scores.astype(SCORE, copy=False),
        judged,
        np.arange(scores.size) < kept_run.size,
        tuple(queries[in_qrels & ~in_run].tolist()),
        tuple(queries[in_run & ~in_qrels].tolist()),
        _warn_of_negative(qrels),
    )


def judge_runs(runs: Sequence[Run], qrels: Qrels) -> JudgedRun:
    """Several runs with the same qrels: all documents that any of them has retrieved, and those that all have missed.

    Queries of the qrels that no run answers are left out. ``scores_of_run`` gives the scores of each.
    """
    queries, documents = (
        np.concatenate([getattr(run, name) for run in runs]) for name in ("query_ids", "doc_ids")
    )
    query_codes, doc_codes = (_common_codes(ids, ids[:0])[0] for ids in (queries, documents))
    keys = query_codes * (int(doc_codes.max()) + 1) + doc_codes
    first = np.sort(np.unique(keys, return_index=True)[1])
    return judge_run(Run(queries[first], documents[first], np.zeros(first.size)), qrels)


def scores_of_run(run: Run, data: RankingData) -> Floats:
    """The score of each row of ``data`` in a run; −inf for documents that the run has not retrieved.

    Documents without ids are known by the number of their row in the file, or within the query, from 1: as
    ``rankwood score`` and the export of an experiment write them. What the run has beyond the data is ignored.
    """
    rows, queries, known = _common_codes(_texts(data.query_ids), run.query_ids)
    is_known = np.bincount(rows, minlength=len(known)) > 0
    if not is_known[queries].any():
        raise DataError(
            f"the run and the data have no query in common: the run has {shown(run.query_ids[0])}, the data "
            f"{shown(str(data.queries[0]))}. Do they belong together?"
        )
    place = max((_places(run, rows, queries, ids) for ids in _ids_of_rows(data)), key=_n_found)
    if not _n_found(place):
        raise DataError(
            f"the run and the data have no document in common: the run has {shown(run.doc_ids[0])}. "
            "Are these the ids of the data?"
        )
    return np.where(place >= 0, run.scores[place], -np.inf)


def _places(run: Run, rows: Rows, queries: Rows, ids: Array) -> Rows:
    """The place of each row of the data in the run, −1 where it has none; ``rows`` and ``queries`` are codes."""
    row_docs, run_docs, documents = _common_codes(ids, run.doc_ids)
    return _find(rows * len(documents) + row_docs, queries * len(documents) + run_docs)


def _n_found(place: Rows) -> int:
    return int((place >= 0).sum())


def _ids_of_rows(data: RankingData) -> list[Array]:
    """By which texts a run may name the documents: their ids, else their numbers in the file or within the query."""
    if data.doc_ids is not None:
        return [_texts(data.doc_ids)]
    return [_texts(np.arange(1, data.n_documents + 1)), _texts(_numbers_within_queries(data))]


def _numbers_within_queries(data: RankingData) -> Rows:
    """The number of each row among those of its query, from 1."""
    first = np.repeat(data.query_offsets[:-1], np.diff(data.query_offsets))
    numbers: Rows = np.empty(data.n_documents, np.int64)
    numbers[data.row_order] = np.arange(data.n_documents) - first + 1
    return numbers


def _texts(ids: Any) -> Array:
    return np.array([str(one) for one in ids.tolist()], object)


def distinct_scores(queries: Array, scores: Floats) -> Array:
    """float32 scores that rank the documents of each query as ``scores`` do, none equal to another of its query.

    Equal scores keep the order of the rows: each is lowered to the next smaller number. Other programs read scores in
    single precision and order equal ones by document ids, so that only such scores give them the same ranking.
    """
    limit = np.finfo(np.float32).max
    order = np.lexsort((-scores, queries))
    number = queries[order]
    values = np.clip(scores[order], -limit, limit).astype(np.float32)
    is_next = number[1:] == number[:-1]
    for place in (np.flatnonzero(is_next & (values[1:] >= values[:-1])) + 1).tolist():
        at = place
        while at < values.size and is_next[at - 1] and values[at] >= values[at - 1]:
            values[at] = np.nextafter(values[at - 1], np.float32(-np.inf))
            at += 1
    distinct = np.empty_like(values)
    distinct[order] = values
    return distinct


def read_scores(path: str | os.PathLike[str], n_rows: int | None = None) -> Floats:
    """One score per line, ``n_rows`` of them if given; empty lines are allowed at the end only."""
    content = _read_bytes(path)
    lines = content.rstrip().splitlines()
    if not lines:
        raise DataError(f"{path}: there are no scores; expected one number per line.")
    scores = _parse_numbers(lines)
    if scores is None or not np.isfinite(scores).all():
        scores = np.array(
            [_score(path, index + 1, line) for index, line in enumerate(lines)], SCORE
        )
    if n_rows is not None and scores.size != n_rows:
        raise DataError(
            f"{path} has {scores.size:,} scores, but the data have {n_rows:,} rows. "
            "There must be one score per row, in the order of the rows."
        )
    return scores


def _run_data(run: Run, qrels: Qrels, rows: Rows, missed: Rows, labels: Floats) -> RankingData:
    """Ranking data of ``rows`` of the run and the ``missed`` rows of the qrels."""
    limit = np.finfo(FEATURE).max
    score = np.clip(run.scores[rows], -limit, limit).astype(FEATURE)
    score = np.concatenate([score, np.full(missed.size, -np.inf, FEATURE)])
    return RankingData(
        score.reshape(-1, 1),
        np.maximum(labels, 0.0).astype(LABEL, copy=False),
        np.concatenate([run.query_ids[rows], qrels.query_ids[missed]]),
        np.concatenate([run.doc_ids[rows], qrels.doc_ids[missed]]),
        feature_names=("score",),
    )


def _warn_of_negative(qrels: Qrels) -> int:
    n_negative = int((qrels.labels < 0).sum())
    if n_negative:
        warnings.warn(
            f"{n_negative:,} of {qrels.labels.size:,} judgments are negative; they count as 0.",
            DataWarning,
            stacklevel=3,
        )
    return n_negative


def _common_codes(one: Array, other: Array) -> tuple[Rows, Rows, Array]:
    """Integer codes of the ids of both arrays, and the distinct ids."""
    import pyarrow as pa

    coded = pa.array(np.concatenate([one, other]), pa.large_string()).dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    distinct = np.asarray(coded.dictionary.to_numpy(zero_copy_only=False))
    return codes[: one.size], codes[one.size :], distinct


def _find(keys: Rows, among: Rows) -> Rows:
    """The index of each key in ``among``, −1 if it is missing."""
    order = np.argsort(among, kind="stable")
    positions = np.minimum(np.searchsorted(among[order], keys), among.size - 1)
    candidates = order[positions]
    return np.where(among[candidates] == keys, candidates, -1)


# Parsing.


def _read_fields(
    path: str | os.PathLike[str], layout: Sequence[str], number: int
) -> tuple[Array, Array, Floats]:
    """Query ids, document ids and the numbers in field ``number`` of a file of lines of fields."""
    content = _read_bytes(path)
    read = _read_well_formed(content, len(layout), number)
    if read is None:
        read = _read_line_by_line(path, content, layout, number)
    query_ids, doc_ids, values = read
    if values.size == 0:
        raise DataError(f"{path}: there are no lines; expected '{' '.join(layout)}'.")
    queries, docs = (_common_codes(ids, ids[:0])[0] for ids in (query_ids, doc_ids))
    _, first = np.unique(queries * (int(docs.max()) + 1) + docs, return_index=True)
    if first.size != values.size:
        row = int(np.setdiff1d(np.arange(values.size), first)[0])
        raise DataError(
            f"{path}, line {_line_of_row(content, row)}: document {shown(doc_ids[row])} stands "
            f"more than once in query {shown(query_ids[row])}. Keep one of the lines."
        )
    return query_ids, doc_ids, values


def _read_well_formed(
    content: bytes, n_fields: int, number: int
) -> tuple[Array, Array, Floats] | None:
    """The fields by Arrow's CSV reader; None if the file must be parsed line by line."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    names = [str(field) for field in range(n_fields)]
    types: dict[str, Any] = {**dict.fromkeys(names, pa.string()), str(number): pa.float64()}
    first_line = content.lstrip().partition(b"\n")[0]
    try:
        table = csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(column_names=names),
            csv.ParseOptions(delimiter="\t" if b"\t" in first_line else " ", quote_char=False),
            csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None
    texts = [name for name in names if name != str(number)]
    if any(pc.any(pc.match_substring_regex(table[name], _BLANKS)).as_py() for name in texts):
        return None
    values = table[str(number)].to_numpy()
    if not np.isfinite(values).all():
        return None
    return frames.identifiers("qid", table["0"]), frames.identifiers("docid", table["2"]), values


def _read_line_by_line(
    path: str | os.PathLike[str], content: bytes, layout: Sequence[str], number: int
) -> tuple[Array, Array, Floats]:
    """The fields by plain Python, which accepts any blanks and names the line of an error."""
    rows: list[tuple[str, str, float]] = []
    for index, line in enumerate(content.splitlines()):
        parts = line.split()
        if not parts:
            continue
        try:
            if len(parts) != len(layout):
                raise ValueError
            rows.append((parts[0].decode(), parts[2].decode(), _finite(parts[number])))
        except ValueError:
            raise DataError(
                f"{path}, line {index + 1}: expected '{' '.join(layout)}' with a finite "
                f"{layout[number]}, found {_shown_bytes(line)}."
            ) from None
    query_ids, doc_ids, values = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(query_ids, object), np.array(doc_ids, object), np.array(values, np.float64)


def _line_of_row(content: bytes, row: int) -> int:
    """The line, from 1, of the given row; blank lines are not rows."""
    lines = [index + 1 for index, line in enumerate(content.splitlines()) if line.strip()]
    return lines[row]


def _finite(text: bytes) -> float:
    """``text`` as a finite number, or a ``ValueError``."""
    value = float(text.decode("ascii"))
    if b"_" in text or not math.isfinite(value):  # Python accepts 1_000, other programs do not
        raise ValueError
    return value


def _parse_numbers(lines: Sequence[bytes]) -> Floats | None:
    """All lines as numbers, or None if they must be parsed one by one."""
    if max(map(len, lines)) > _LONGEST_NUMBER or any(
        b"\0" in line or b"_" in line for line in lines
    ):
        return None
    try:
        return np.array(lines).astype(SCORE)
    except ValueError:
        return None


def _score(path: str | os.PathLike[str], line_number: int, line: bytes) -> float:
    try:
        return _finite(line.strip())
    except ValueError:
        hint = " A TREC run must be a file, not a pipe." if len(line.split()) == 6 else ""
        raise DataError(
            f"{path}, line {line_number}: expected one finite number, found {_shown_bytes(line)}.{hint}"
        ) from None


def _shown_bytes(line: bytes) -> str:
    return shown(line[:200].decode("utf-8", errors="replace").strip())


def _read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The whole content of a file, decompressed by the ending of its name."""
    import pyarrow as pa

    if os.fspath(path) == "-":
        return sys.stdin.buffer.read()
    file = Path(path)
    refuse_what_is_no_file(file)
    compression = COMPRESSIONS.get(file.suffix.lower())
    try:
        with file.open("rb") as stream:
            if compression is None:
                content = stream.read()
            else:
                with pa.CompressedInputStream(stream, compression) as unpacked:
                    content = unpacked.read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read, or is damaged or cut short ({error}).") from None
    return content.removeprefix(b"\xef\xbb\xbf")
