"""TREC's run and qrels files, and files of plain scores.

Terms
    run        the output of a system: lines ``qid Q0 docid rank score tag``
    qrels      the judgments of assessors: lines ``qid iteration docid label``
    judged     a document that the qrels contain for this query, whatever its label
    retrieved  a document that the run contains for this query

As in trec_eval, the rank in a run file is ignored and the score decides. Ids are always text. Files may be compressed
(``.gz``, ``.zst``, ``.bz2``); ``-`` is standard input.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood.data import frames
from rankwood.data.dataset import RankingData
from rankwood.data.sources import refuse_what_is_no_file
from rankwood.data.tables.files import COMPRESSIONS, shown
from rankwood.dtypes import FEATURE, LABEL, SCORE, Array, Floats, Rows
from rankwood.errors import DataError, DataWarning

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
