"""``rankwood score``: what it writes, in parts and as a whole, and what it refuses."""

from __future__ import annotations

import gzip
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankwood as rw
from rankwood.cli import models
from rankwood.data.reading import write_data

FORMATS = ("tsv", "parquet", "trec", "numbers")


@pytest.fixture(scope="module")
def data() -> rw.RankingData:
    made = rw.make_ranking(30, 10, 4, doc_ids=True, seed=1)
    # One feature is coarse, so that leaves hold many documents and scores are tied.
    return rw.RankingData(
        np.round(made.features, 0), made.labels, made.query_ids, made.doc_ids, feature_names=None
    )


@pytest.fixture(scope="module")
def model(data):
    return rw.RandomForest(n_trees=3, max_leaves=4, seed=1).fit(data)


@pytest.fixture
def files(data, model, tmp_path) -> Path:
    rw.save(model, tmp_path / "m.rankwood")
    for name in ("data.txt", "data.txt.gz", "data.parquet", "data.csv"):
        write_data(data, tmp_path / name)
    return tmp_path


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(models, "_PART_ROWS", 20)


def rows_of(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def slow_ranks(scores, query_ids) -> list[int]:
    """1 + how many of the query are better, or as good and come before."""
    return [
        1
        + sum(
            query_ids[other] == query_ids[row]
            and (scores[other] > scores[row] or (scores[other] == scores[row] and other < row))
            for other in range(len(scores))
        )
        for row in range(len(scores))
    ]


def test_tsv_has_document_query_score_and_rank(rankwood, files, data, model):
    outcome = rankwood("score", "m.rankwood", "data.txt")
    assert outcome.code == 0
    header, *rows = rows_of(outcome.out)
    assert header == ["doc_id", "qid", "score", "rank"]
    scores = model.predict(data)
    documents, queries, written, ranks = zip(*rows, strict=True)
    assert list(documents) == data.doc_ids.tolist()
    assert list(queries) == [str(query) for query in data.query_ids]
    assert [float(text) for text in written] == scores.tolist()  # to the last bit
    assert [int(text) for text in ranks] == slow_ranks(scores, data.query_ids)
    tied = [len(set(scores[data.query_of_row == q])) for q in range(data.n_queries)]
    assert min(tied) < 8  # equal scores within a query were there to be ranked


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["data.txt", "data.txt.gz", "data.parquet", "data.csv"])
@pytest.mark.parametrize("form", FORMATS)
def test_parts_give_what_the_whole_gives(rankwood, files, name, form):
    assert rankwood("score", "m.rankwood", name, "--out", "a", "--format", form).code == 0
    whole = ("score", "m.rankwood", name, "--out", "b", "--format", form, "--whole")
    assert rankwood(*whole).code == 0
    if form == "parquet":
        assert pq.read_table("a").equals(pq.read_table("b"))
        assert pq.ParquetFile("a").num_row_groups > 5
    else:
        assert Path("a").read_bytes() == Path("b").read_bytes()


def test_parts_are_small(rankwood, files, data, monkeypatch):
    monkeypatch.setattr(models, "_PART_VALUES", 24)  # of 4 features: six rows
    sizes = []
    score_parts = models._score

    def spied(parts, *arguments):
        for part in score_parts(parts, *arguments):
            sizes.append(part.data.n_documents)
            yield part

    monkeypatch.setattr(models, "_score", spied)
    assert rankwood("score", "m.rankwood", "data.parquet", "-o", "out.tsv").code == 0
    assert sum(sizes) == data.n_documents
    longest = int(np.diff(data.query_offsets).max())
    assert max(sizes) < 6 + longest


def test_numbers_are_what_evaluate_reads(rankwood, files, data, model):
    outcome = rankwood("score", "m.rankwood", "data.parquet", "--out", "scores.txt")
    assert outcome.code == 0
    assert "scores.txt: " in outcome.err
    assert np.loadtxt("scores.txt").tolist() == model.predict(data).tolist()
    value = rw.evaluate(model.predict(data), data, ["ndcg@10"])["ndcg@10"]
    evaluated = rankwood("evaluate", "scores.txt", "data.parquet", "-m", "ndcg@10")
    assert evaluated.code == 0
    assert f"{value.value:.4f}" in evaluated.out


@pytest.mark.parametrize("name", ["run.trec", "a.run", "a.run.gz"])
def test_a_run_is_what_evaluate_reads(rankwood, files, data, model, name):
    assert rankwood("score", "m.rankwood", "data.txt", "-o", name, "--run-tag", "me").code == 0
    content = Path(name).read_bytes()
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().splitlines()
    fields = [line.split(" ") for line in lines]
    assert all(line[1] == "Q0" and line[5] == "me" for line in fields)
    ranks = [int(line[3]) for line in fields]
    sizes = np.diff(data.query_offsets)
    assert ranks == [rank for size in sizes for rank in range(1, size + 1)]
    with open("qrels.txt", "w") as file:
        for query, document, label in zip(data.query_ids, data.doc_ids, data.labels, strict=True):
            file.write(f"{query} 0 {document} {int(label)}\n")
    value = rw.evaluate(model.predict(data), data, ["map"])["map"]
    evaluated = rankwood("evaluate", name, "qrels.txt", "-m", "map")
    assert evaluated.code == 0
    assert f"{value.value:.4f}" in evaluated.out


def test_rows_stand_for_documents_without_ids(rankwood, files, data):
    bare = rw.RankingData(data.features, data.labels, data.query_ids)
    write_data(bare, "bare.txt")
    header, *rows = rows_of(rankwood("score", "m.rankwood", "bare.txt").out)
    assert header == ["row", "qid", "score", "rank"]
    assert [row[0] for row in rows] == [str(number + 1) for number in range(data.n_documents)]
    outcome = rankwood("score", "m.rankwood", "bare.txt", "--format", "trec")
    assert "bare.txt has no document ids" in outcome.err
    documents = [int(line.split()[2]) for line in outcome.out.splitlines()]
    assert sorted(documents) == list(range(1, data.n_documents + 1))
    assert rankwood("score", "m.rankwood", "bare.txt", "--format", "trec", "-q").err == ""


@pytest.mark.usefixtures("small_parts")
def test_standard_input(rankwood, files, monkeypatch):
    expected = rankwood("score", "m.rankwood", "data.txt").out
    for name in ("data.txt", "data.txt.gz"):
        stream = io.BytesIO((files / name).read_bytes())
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream))
        outcome = rankwood("score", "m.rankwood", "-")
        assert (outcome.code, outcome.out) == (0, expected)


@pytest.mark.parametrize("options", [(), ("--whole",)])
def test_a_table_needs_no_labels(rankwood, files, options):
    expected = rankwood("score", "m.rankwood", "data.parquet").out
    table = pq.read_table("data.parquet")
    pq.write_table(table.drop(["label"]), "bare.parquet")
    assert rankwood("score", "m.rankwood", "bare.parquet", *options).out == expected
    odd = table.set_column(
        table.schema.get_field_index("label"), "grade", pa.array([-1.0] * table.num_rows)
    )
    pq.write_table(odd, "odd.parquet")
    labelled = rankwood("score", "m.rankwood", "odd.parquet", "--label", "grade", *options)
    assert labelled.out == expected


def test_names_decide_which_column_is_which(rankwood, files, data):
    names = ("a", "b", "c", "d")
    named = rw.RankingData(
        data.features, data.labels, data.query_ids, data.doc_ids, feature_names=names
    )
    rw.save(rw.RandomForest(n_trees=3, seed=1).fit(named), "named.rankwood")
    write_data(named, "named.parquet")
    table = pq.read_table("named.parquet")
    pq.write_table(table.select(["d", "qid", "b", "doc_id", "a", "c"]), "other.parquet")
    one = rankwood("score", "named.rankwood", "named.parquet")
    other = rankwood("score", "named.rankwood", "other.parquet")
    assert (other.code, other.out) == (0, one.out)
    pq.write_table(table.drop(["b"]), "lacking.parquet")
    lacking = rankwood("score", "named.rankwood", "lacking.parquet")
    assert lacking.code == 2
    assert "lacking.parquet lacks 1 of the 4 features of the model: 'b'. It has" in lacking.err
    everything = table.append_column("url", [["/"] * len(table)])
    pq.write_table(everything, "more.parquet")
    more = rankwood("score", "named.rankwood", "more.parquet")
    assert (more.code, more.out) == (0, one.out)


def test_data_without_queries_have_no_ranks(rankwood, files, data, model):
    write_data(rw.RankingData(data.features, data.labels), "flat.parquet")
    header, *rows = rows_of(rankwood("score", "m.rankwood", "flat.parquet").out)
    assert header == ["row", "score"]
    assert [float(row[1]) for row in rows] == model.predict(data).tolist()
    outcome = rankwood("score", "m.rankwood", "flat.parquet", "--format", "trec")
    assert outcome.code == 2
    assert "a TREC run needs query ids" in outcome.err


@pytest.mark.parametrize("options", [(), ("--whole",)])
def test_rows_that_are_not_together(rankwood, files, small_parts, options):
    lines = (files / "data.txt").read_text().splitlines(keepends=True)
    (files / "mixed.txt").write_text("".join(lines[1:] + lines[:1]))
    outcome = rankwood("score", "m.rankwood", "mixed.txt", "--out", "out.tsv", *options)
    if options:
        assert outcome.code == 0
        assert len(Path("out.tsv").read_text().splitlines()) == len(lines) + 1
    else:
        assert outcome.code == 2
        assert f"mixed.txt, line {len(lines)}: query 1 comes again" in outcome.err
        assert "--whole" in outcome.err
        assert not Path("out.tsv").exists()


@pytest.mark.usefixtures("small_parts")
def test_parquet_ids_become_text_when_a_later_part_has_text(rankwood, files):
    with open("mixed.txt", "w") as file:
        for query in [*range(50), "x1"]:
            file.writelines(f"0 qid:{query} 1:{row} 4:1 # docid = {row}\n" for row in range(3))
    assert rankwood("score", "m.rankwood", "mixed.txt", "-o", "a.parquet").code == 0
    assert rankwood("score", "m.rankwood", "mixed.txt", "-o", "b.parquet", "--whole").code == 0
    table = pq.read_table("a.parquet")
    assert table["qid"].to_pylist()[::3] == [*(str(query) for query in range(50)), "x1"]
    assert table.equals(pq.read_table("b.parquet"))
    assert [path.name for path in files.iterdir() if "part" in path.name] == []


@pytest.mark.usefixtures("small_parts")
def test_document_ids_that_come_late(rankwood, files):
    lines = [f"0 qid:{row} 1:1\n" for row in range(40)] + ["0 qid:z 1:1 # docid = d\n"]
    (files / "late.txt").write_text("".join(lines))
    for form in ("tsv", "parquet"):
        outcome = rankwood("score", "m.rankwood", "late.txt", "-o", "out", "--format", form)
        assert outcome.code == 2
        assert "documents have ids from about row 41 on, but not before" in outcome.err
    whole = ("score", "m.rankwood", "late.txt", "--whole")
    assert rows_of(rankwood(*whole).out)[-1][:2] == ["d", "z"]
    run = rankwood(*whole, "--format", "trec")
    assert run.code == 2
    assert "row 1: the document id '' cannot stand in a TREC run" in run.err


def test_fields_with_tabs_and_blanks(rankwood, files):
    table = {"qid": ["a b", "a b"], "doc_id": ["x\ty", 'say "x"']}
    pq.write_table(pa.table({**table, **{f: [1.0, 2.0] for f in "pqrs"}}), "odd.parquet")
    rw.save(rw.load("m.rankwood").forest_, "bare.rankwood")  # a forest without an estimator
    outcome = rankwood("score", "bare.rankwood", "odd.parquet", "--threads", "2")
    names = [line.split("\ta b\t")[0] for line in outcome.out.splitlines()[1:]]
    assert names == ['"x\ty"', '"say ""x"""']
    run = rankwood("score", "bare.rankwood", "odd.parquet", "--format", "trec")
    assert run.code == 2
    assert "row 1: the query id 'a b' cannot stand in a TREC run" in run.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.rankwood"], "Missing argument 'DATA...'"),
        (["data.csv", "data.txt"], "data.csv is not a model file"),
        (["nothing", "data.txt"], "nothing does not exist. Pass the path of a model file"),
        (["m.rankwood", "dta.txt"], "Did you mean"),
        (["m.rankwood", "empty.txt"], "empty.txt is empty"),
        (["m.rankwood", "narrow.csv"], "narrow.csv has 1 column that may be features, but the model knows 4. Say which with --features"),
        (["m.rankwood", "wide.txt"], "wide.txt has features up to 5, but the model was trained on 4. Say which to take with --features"),
        (["m.rankwood", "data.parquet", "--query", "query"], "column 'query' is not known"),
        (["m.rankwood", "data.parquet", "--label", "grade"], "column 'grade' is not known"),
        (["m.rankwood", "data.txt", "--format", "tvs"], "Did you mean 'tsv'?"),
        (["m.rankwood", "data.txt", "--format", "parquet"], "standard output; name a file"),
        (["m.rankwood", "data.txt", "--format", "trec", "--run-tag", "a b"], "must be one word"),
        (["m.rankwood", "data.txt", "--out", "no/such/out.tsv"], "no/such/out.tsv cannot be written"),
        (["m.rankwood", "data.txt", "--out", "no/such/out.parquet"], "cannot be written: No such"),
        (["m.rankwood", "data.txt", "--out", "."], ". cannot be written: Is a directory"),
        (["m.rankwood", "data.txt", "--out", "data.txt"], "OUT is data.txt, which is read"),
        (["m.rankwood", "data.txt", "--out", "m.rankwood"], "OUT is m.rankwood, which is read"),
    ],
)  # fmt: skip
def test_mistakes_are_named(rankwood, files, arguments, message):
    (files / "empty.txt").write_text("")
    (files / "narrow.csv").write_text("qid,x\n1,2\n")
    (files / "wide.txt").write_text("0 qid:1 5:1\n")
    before = sorted(path.name for path in files.iterdir())
    outcome = rankwood("score", *arguments)
    assert outcome.code == 2
    assert " ".join(message.split()) in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err
    assert outcome.out == ""
    assert sorted(path.name for path in files.iterdir()) == before


@pytest.mark.parametrize("name", ["out.tsv", "out.parquet"])
def test_an_error_midway_leaves_the_old_file(rankwood, files, small_parts, name):
    with open("data.txt", "a") as file:
        file.write("oops\n")
    Path(name).write_text("old")
    outcome = rankwood("score", "m.rankwood", "data.txt", "--out", name)
    assert outcome.code == 2
    assert Path(name).read_text() == "old"
    assert not [path.name for path in files.iterdir() if "part" in path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("name", ["out.tsv", "out.parquet"])
def test_an_interrupt_leaves_no_half_written_file(files, name):
    """The data come from a pipe that stays open, so that the command waits for more in the middle."""
    command = [sys.executable, "-c", "from rankwood.cli.main import run; run()"]
    process = subprocess.Popen(
        [*command, "score", "m.rankwood", "-", "--out", name],
        cwd=files,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not list(files.glob(f".{name}.*.part")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert list(files.glob(f".{name}.*.part"))  # it is being written
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    assert not (files / name).exists()
    assert not list(files.glob("*.part"))


@pytest.mark.slow
def test_a_reader_that_has_enough(files):
    """As in ``rankwood score … | head``: no error, whatever is left unread."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from rankwood.cli.main import run; run()"]
    outcome = subprocess.run(
        [*command, "score", "m.rankwood", "data.txt"],
        cwd=files,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert outcome.returncode == 0
    assert "Traceback" not in outcome.stderr
