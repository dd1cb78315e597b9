"""Runs, qrels and files of scores."""

from __future__ import annotations

import bz2
import gzip
import io
import sys

import numpy as np
import pytest
import pytrec_eval

from rankwood.data import scores as score_files
from rankwood.data.scores import Qrels, Run, judge_run, read_qrels, read_run, read_scores
from rankwood.errors import DataError, DataWarning

RUN = "q1 Q0 a 1 3.5 tag\nq1 Q0 b 2 2 tag\nq2 Q0 a 1 -1e3 tag\n"
QRELS = "q1 0 b 2\nq1 0 c 1\nq2 0 a 0\n"


@pytest.fixture
def write(tmp_path):
    def writes(content, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return writes


def objects(values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


def make_run(rows):
    queries, docs, scores = zip(*rows, strict=True)
    return Run(objects(queries), objects(docs), np.array(scores, float))


def make_qrels(rows):
    queries, docs, labels = zip(*rows, strict=True)
    return Qrels(objects(queries), objects(docs), np.array(labels, float))


def rows_of(run):
    values = run.scores if isinstance(run, Run) else run.labels
    return list(zip(run.query_ids.tolist(), run.doc_ids.tolist(), values.tolist(), strict=True))


EXPECTED = [("q1", "a", 3.5), ("q1", "b", 2.0), ("q2", "a", -1000.0)]


@pytest.mark.parametrize(
    "text",
    [
        RUN,
        RUN.rstrip("\n"),
        RUN.replace("\n", "\r\n"),
        RUN.replace(" ", "\t"),
        RUN.replace(" ", "  "),
        RUN.replace(" ", " \t "),
        "\ufeff" + RUN,
        "\n\n" + RUN.replace("\n", "\n\n"),
        RUN.replace("\n", "   \n   "),
    ],
    ids=["plain", "no end", "CRLF", "tabs", "two blanks", "mixed", "BOM", "empty lines", "padded"],
)
def test_runs_with_any_blanks(write, text):
    assert rows_of(read_run(write(text))) == EXPECTED


def test_the_fast_reader_reads_well_formed_files():
    """Otherwise the comparison below would compare the slow reader with itself."""
    assert score_files._read_well_formed(RUN.encode(), 6, 4) is not None
    assert score_files._read_well_formed(QRELS.encode(), 4, 3) is not None


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_the_fast_reader_equals_the_slow_one(blank, rng):
    lines = [
        blank.join([f"q{row % 7}", "Q0", f'd"{row},é', str(row), repr(score), "t"])
        for row, score in enumerate(
            (rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500)).tolist()
        )
    ]
    content = "\n".join(lines).encode()
    fast = score_files._read_well_formed(content, 6, 4)
    slow = score_files._read_line_by_line(
        "x", content, ("qid", "Q0", "docid", "rank", "score", "tag"), 4
    )
    for one, other in zip(fast, slow, strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize(
    ("name", "pack"), [("r.gz", gzip.compress), ("r.bz2", bz2.compress)], ids=["gz", "bz2"]
)
def test_compressed_files(write, name, pack):
    assert rows_of(read_run(write(pack(RUN.encode()), name))) == EXPECTED
    with pytest.raises(DataError, match=rf"{name} cannot be read, or is damaged or cut short"):
        read_run(write(pack(RUN.encode())[:-12], name))


def test_ids_stay_text_and_arrays_read_only(write):
    qrels = read_qrels(write("007 0 12 1\n7 0 12 0.5\n"))
    assert rows_of(qrels) == [("007", "12", 1.0), ("7", "12", 0.5)]
    with pytest.raises(ValueError, match="read-only"):
        qrels.labels[0] = 3


def test_the_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RUN.encode())))
    assert rows_of(read_run("-")) == EXPECTED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 a 1 3\n", "line 1: expected 'qid Q0 docid rank score tag' .*found 'q1 Q0 a 1 3'"),
        (RUN + "q3 Q0 a 1 3.5 t u\n", "line 4: expected .*found 'q3 Q0 a 1 3.5 t u'"),
        ("\n" + RUN + "q3 Q0 a 1 x t\n", "line 5: .* with a finite score, found 'q3 Q0 a 1 x t'"),
        ("q1 Q0 a 1 nan t\n", "line 1: expected .* with a finite score"),
        ("q1 Q0 a 1 -inf t\n", "line 1: expected .* with a finite score"),
        ("q1 Q0 a 1 1_0 t\n", "line 1: expected .* with a finite score"),
        # Split at single blanks, this has six fields, one of them empty.
        ("q1  Q0 doc 1 0.5\n", "line 1: expected .*found 'q1  Q0 doc 1 0.5'"),
        ("q1 Q0 a\tb 1 0.5 t\n", "line 1: expected"),
        ("q1 Q0 \xff 1 x t\n".encode("latin-1"), "line 1: expected .*found 'q1 Q0 � 1 x t'"),
        ("q1 Q0 \xff 1 1 t\n".encode("latin-1"), "line 1: expected"),
        (b"\x00\x01\x02", "line 1: expected"),
        ("x" * 10_000, "line 1: expected .*x…'"),
        ("\n \n", "there are no lines; expected 'qid Q0 docid rank score tag'"),
        ("", "is empty"),
        ("q1 Q0 a 1 1 t\n\nq2 Q0 a 1 1 t\nq1 Q0 a 2 1 t\n", "line 4: document 'a' .* query 'q1'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_run(write, text, message):
    with pytest.raises(DataError, match=rf"file.txt.*{message}"):
        read_run(write(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "q1 0 a\n",
            "line 1: expected 'qid iteration docid label' with a finite label, found 'q1 0 a'",
        ),
        (QRELS + "q1 0 d high\n", "line 4: expected .*found 'q1 0 d high'"),
        (RUN, "line 1: expected 'qid iteration docid label'"),
        (QRELS + "q1 0 b 2\n", "line 4: document 'b' stands more than once in query 'q1'"),
    ],
)
def test_what_is_wrong_with_qrels(write, text, message):
    with pytest.raises(DataError, match=rf"file.txt.*{message}"):
        read_qrels(write(text))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match="none does not exist"):
        read_run(tmp_path / "none")
    with pytest.raises(DataError, match="is a folder; pass a file"):
        read_qrels(tmp_path)


def test_a_run_meets_its_judgments(write):
    judged = judge_run(read_run(write(RUN)), read_qrels(write(QRELS)))
    data = judged.data
    assert data.query_ids.tolist() == ["q1", "q1", "q2", "q1"]
    assert data.doc_ids.tolist() == ["a", "b", "a", "c"]
    assert data.labels.tolist() == [0, 2, 0, 1]
    assert data.feature_names == ("score",)
    assert data.features[:, 0].tolist() == judged.scores.tolist() == [3.5, 2.0, -1000.0, -np.inf]
    assert judged.judged.tolist() == [False, True, True, True]
    assert judged.retrieved.tolist() == [True, True, True, False]
    assert judged.missing_queries == judged.unjudged_queries == ()
    assert judged.n_negative == 0


def test_queries_that_only_one_side_has():
    run = make_run([("both", "a", 1), ("run only", "a", 1)])
    qrels = make_qrels([("qrels only", "a", 1), ("both", "b", 1)])
    judged = judge_run(run, qrels)
    assert judged.data.query_ids.tolist() == ["both", "both"]
    assert judged.missing_queries == ("qrels only",)
    assert judged.unjudged_queries == ("run only",)
    complete = judge_run(run, qrels, complete=True)
    assert complete.data.query_ids.tolist() == ["both", "qrels only", "both"]
    assert complete.retrieved.tolist() == [True, False, False]
    assert complete.missing_queries == ("qrels only",)


def test_negative_labels_count_as_zero_with_a_warning():
    run = make_run([("q", "a", 1), ("q", "b", 2)])
    qrels = make_qrels([("q", "a", -2), ("q", "b", 1), ("q", "c", -1)])
    with pytest.warns(DataWarning, match="2 of 3 judgments are negative; they count as 0"):
        judged = judge_run(run, qrels)
    assert judged.data.labels.tolist() == [0, 1, 0]
    assert judged.judged.all()
    assert judged.n_negative == 2


def test_scores_beyond_float32_keep_their_order():
    judged = judge_run(
        make_run([("q", "a", 1e300), ("q", "b", -1e300)]), make_qrels([("q", "a", 1)])
    )
    assert judged.scores.tolist() == [1e300, -1e300]
    assert np.isfinite(judged.data.features).all()  # −inf means: not retrieved


def test_a_run_and_qrels_of_different_topics():
    with pytest.raises(DataError, match="no query in common: the run has '7', the qrels 'q7'"):
        judge_run(make_run([("7", "a", 1)]), make_qrels([("q7", "a", 1)]))


def test_the_join_equals_trec_eval(rng):
    """Relevant retrieved and relevant in all, per query, as trec_eval counts them."""
    run_rows, qrels_rows = [], []
    for query in range(30):
        for doc in rng.permutation(40)[: rng.integers(1, 30)]:
            run_rows.append((f"q{query}", f"d{doc}", float(rng.normal())))
        for doc in rng.permutation(40)[: rng.integers(1, 30)]:
            qrels_rows.append((f"q{query + 3}", f"d{doc}", int(rng.integers(0, 3))))
    judged = judge_run(make_run(run_rows), make_qrels(qrels_rows))
    run, qrels = {}, {}
    for query, doc, score in run_rows:
        run.setdefault(query, {})[doc] = score
    for query, doc, label in qrels_rows:
        qrels.setdefault(query, {})[doc] = label
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"num_rel", "num_rel_ret", "num_ret"}).evaluate(
        run
    )
    assert sorted(theirs) == sorted(judged.data.queries.tolist())
    for query, rows in judged.data.iter_queries():
        relevant, retrieved = judged.data.labels[rows] > 0, judged.retrieved[rows]
        assert relevant.sum() == theirs[query]["num_rel"]
        assert (relevant & retrieved).sum() == theirs[query]["num_rel_ret"]
        assert retrieved.sum() == theirs[query]["num_ret"]


@pytest.mark.parametrize(
    "text",
    ["1\n-2.5\n1e-3\n", "1\r\n-2.5\r\n1e-3", " 1 \n-2.5\t\n1e-3\n\n \n", "\ufeff1\n-2.5\n0.001\n"],
)
def test_scores(write, text):
    scores = read_scores(write(text), n_rows=3)
    assert scores.tolist() == [1.0, -2.5, 0.001]
    assert scores.dtype == np.float64


def test_scores_keep_every_bit(write, rng):
    scores = rng.normal(size=1000) * 10.0 ** rng.integers(-300, 300, 1000)
    path = write("\n".join(map(repr, scores.tolist())))
    assert read_scores(path).tolist() == scores.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2\n", "has 2 scores, but the data have 3 rows"),
        ("1\nx\n3\n", "line 2: expected one finite number, found 'x'"),
        ("1\n\n3\n", "line 2: expected one finite number, found ''"),
        ("1\n2 3\n", "line 2: expected one finite number, found '2 3'"),
        ("1\nNaN\n", "line 2: expected one finite number, found 'NaN'"),
        ("1\n-inf\n", "line 2: expected one finite number, found '-inf'"),
        ("1\n1_0\n", "line 2: expected one finite number, found '1_0'"),
        ("1\n2\x00\n", "line 2: expected one finite number"),
        ("1\n" + "y" * 10_000, "line 2: expected one finite number, found 'y+…'"),
        ("\n\n", "there are no scores; expected one number per line"),
    ],
)
def test_what_is_wrong_with_scores(write, text, message):
    with pytest.raises(DataError, match=rf"file.txt.*{message}"):
        read_scores(write(text), n_rows=3)


def test_a_very_long_line_costs_only_its_own_length(write):
    """A fixed-width array of these lines would take a terabyte."""
    text = b"1\n" * 1000 + b"0." + b"1" * 10**6 + b"\n"
    assert read_scores(write(text)).size == 1001


def test_a_run_where_scores_are_expected_gets_a_hint(tmp_path):
    path = tmp_path / "run"
    path.write_text("q1 Q0 d1 1 0.5 tag\n")
    with pytest.raises(DataError, match=r"expected one finite number.*must be a file, not a pipe"):
        read_scores(path)
