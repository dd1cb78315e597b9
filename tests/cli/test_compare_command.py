"""``rankwood compare``: models and score files, as text, JSON, CSV and a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.experiments.report.formatting import p_text


@pytest.fixture
def files(rankwood):
    data = rw.make_ranking(n_queries=40, docs_per_query=8, n_features=6, seed=1)
    train, test = rw.split_queries(data, (0.5, 0.5), seed=1)
    rw.write_letor(test, "test.txt")
    rw.save(rw.RandomForest(5, max_leaves=8).fit(train), "forest.rankwood")
    rw.save(rw.GBRT(5, min_leaf=5).fit(train), "boosted.rankwood")
    np.savetxt("first.txt", test.features[:, 0])
    return test


CALL = ("compare", "first.txt", "forest.rankwood", "--data", "test.txt")


def test_it_shows_what_the_library_finds(rankwood, files):
    outcome = rankwood(*CALL, "--json", "-m", "map", "--baseline", "first.txt")
    test = rw.read_letor("test.txt", n_features=6)
    expected = rw.compare(
        {"first.txt": np.loadtxt("first.txt"), "forest.rankwood": rw.load("forest.rankwood")},
        test,
        "map",
        baseline="first.txt",
    )
    assert json.loads(outcome.out) == json.loads(json.dumps(expected.to_dict()))


def test_several_baselines(rankwood, files):
    call = (*CALL[:2], "forest.rankwood", "boosted.rankwood", *CALL[3:])
    outcome = rankwood(
        *call, "--baseline", "first.txt", "--baseline", "forest", "-m", "map", "--html", "page.html"
    )
    assert outcome.code == 0, outcome.err
    assert "the strongest of first.txt, forest.rankwood" in outcome.out
    page = Path("page.html").read_text()
    assert (
        "--measure map --baseline first.txt --baseline forest<" in page
    )  # without what names other files
    assert "strongest" in page


def test_three_systems_with_files(rankwood, files):
    outcome = rankwood(
        *("compare", "first.txt", "forest.rankwood", "boosted.rankwood", "--data", "test.txt"),
        *("--baseline", "forest", "--csv", "t.csv", "--queries", 2, "--tests", "t", "--quiet"),
    )
    assert outcome.code == 0, outcome.err
    for text in (
        "p t",
        "baseline",
        "queries whose ndcg@10 differs most from forest.rankwood's",
        "→",
    ):
        assert text in outcome.out
    assert "p wilcoxon" not in outcome.out
    assert len(Path("t.csv").read_text().splitlines()) == 1 + 3 * 2


def test_segments_of_a_table(rankwood, files):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rw.write_table(files, "test.parquet")
    table = pq.read_table("test.parquet")
    market = pa.array(["n" if query % 2 else "s" for query in table["qid"].to_pylist()])
    pq.write_table(table.append_column("market", market), "test.parquet")
    outcome = rankwood(
        "compare", "first.txt", "forest.rankwood", "--data", "test.parquet", "--by", "market"
    )
    assert outcome.code == 0, outcome.err
    assert "ndcg@10, n" in outcome.out


def test_files_of_one_name_are_told_apart_by_their_folders(rankwood, files):
    for name in ("one", "two"):
        Path(name).mkdir()
        Path(name, "m.rankwood").write_bytes(Path("forest.rankwood").read_bytes())
    outcome = rankwood("compare", "one/m.rankwood", "two/m.rankwood", "--data", "test.txt")
    assert "one/m.rankwood and two/m.rankwood. Is it the same model twice?" in outcome.out


def test_a_page(rankwood, files):
    outcome = rankwood(*CALL, "--html", "page.html")
    assert outcome.code == 0, outcome.err
    page = Path("page.html").read_text()
    assert "forest.rankwood" in page
    assert "rankwood compare first.txt forest.rankwood --data test.txt" in page


def test_a_page_has_the_numbers_of_the_terminal_and_the_whole_command(rankwood, files):
    options = ("--tests", "randomization", "--resamples", 99, "--seed", 7, "--level", 0.1)
    outcome = rankwood(*CALL, *options, "--any-order", "--html", "page.html", "--json")
    assert outcome.code == 0, outcome.err
    pair = json.loads(outcome.out)["comparisons"]["ndcg@10"]["pairs"][0]
    page = Path("page.html").read_text()
    assert p_text(pair["adjusted"]["randomization"]) in page
    assert "from 99 resamples" in page
    typed = " ".join(map(str, (*options[:2], "--level", 0.1, *options[2:6], "--any-order")))
    assert f"rankwood {' '.join(CALL)} {typed}<" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "first.txt", "--data", "test.txt"), "needs two models or score files"),
        (("compare", "first.txt", "first.txt", "--data", "test.txt"), "first.txt is given twice"),
        (("compare", "first.txt", "short.txt", "--data", "test.txt"), "short.txt has 2 scores"),
        (("compare", "frst.txt", "first.txt", "--data", "test.txt"), "frst.txt"),
        (
            ("compare", "first.txt", "wide.rankwood", "--data", "test.parquet"),
            "test.parquet lacks 3 of the 9 features of the model",
        ),
        ((*CALL, "--baseline", "fores"), "Did you mean 'forest.rankwood'"),
        ((*CALL, "--tests", "chi"), "test 'chi' is not known"),
        ((*CALL, "--correction", "x"), "correction 'x' is not known"),
        ((*CALL, "--csv", "x.tsv"), "must end in .csv"),
        ((*CALL, "--html", "page.txt"), "must end in .html"),
        (
            ("compare", "run.trec", "first.txt", "--data", "test.txt"),
            "run.trec: the run and the data have no query in common: the run has 'q1', the data",
        ),
        (("compare", "other.trec", "first.txt", "--data", "test.txt"), "no document in common"),
        (
            ("compare", "run.trec", "first.txt", "--data", "qrels.txt"),
            "they go with TREC runs, and first.txt is none",
        ),
        (
            ("compare", "run.trec", "other.trec", "--data", "qrels.txt", "--by", "x"),
            "--by needs a column",
        ),
        (("compare", "-", "first.txt", "--data", "test.txt"), "standard input"),
    ],
)
def test_mistakes_are_named(rankwood, files, arguments, message):
    Path("short.txt").write_text("1\n2\n")
    Path("run.trec").write_text("q1 Q0 d1 1 9.1 demo\n")
    Path("other.trec").write_text(f"{files.queries[0]} Q0 d1 1 9.1 demo\n")
    Path("qrels.txt").write_text("q1 0 d1 1\n")
    wide = rw.make_ranking(n_queries=10, docs_per_query=6, n_features=9, seed=2)
    rw.save(rw.RandomForest(2).fit(wide), "wide.rankwood")
    rw.write_table(files, "test.parquet")
    outcome = rankwood(*arguments)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err


def test_scores_as_rankwood_score_writes_them(rankwood, files):
    for name in ("scores.tsv", "scores.parquet", "scores.txt"):
        assert rankwood("score", "forest.rankwood", "test.txt", "--out", name).code == 0
    assert rankwood("evaluate", "scores.tsv", "test.txt", "-m", "map").code == 0
    outcome = rankwood(
        "compare",
        "forest.rankwood",
        "scores.tsv",
        "scores.parquet",
        "scores.txt",
        "--data",
        "test.txt",
    )
    assert outcome.code == 0, outcome.err
    lines = [line for line in outcome.out.splitlines() if line.startswith("scores.")]
    assert len(lines) >= 3
    assert all("+0.0000" in line for line in lines[:3])


def test_scores_of_other_rows_are_refused(rankwood, files):
    assert rankwood("score", "forest.rankwood", "test.txt", "--out", "scores.tsv").code == 0
    lines = Path("scores.tsv").read_text().splitlines()
    for name, content, message in (
        ("short.tsv", lines[:-1], "There must be one score per row"),
        ("other.tsv", [lines[0], *reversed(lines[1:])], "Scores must be of these data"),
        ("bare.tsv", [line.replace("score", "points") for line in lines], "has no column 'score'"),
        ("empty.tsv", [], "cannot be read as TSV"),
    ):
        Path(name).write_text("\n".join(content) + "\n")
        outcome = rankwood("compare", "forest.rankwood", name, "--data", "test.txt")
        assert outcome.code == 2
        assert message in " ".join(outcome.err.split())


def write_run(path, queries, documents, scores):
    lines = [
        f"{query} Q0 {document} 0 {score!r} tag"
        for query, document, score in zip(queries, documents, scores, strict=True)
    ]
    Path(path).write_text("\n".join(lines) + "\n")


@pytest.fixture
def runs(rankwood):
    """Two runs, of which the second lacks documents and a query, with qrels and with the same data as a table."""
    data = rw.make_ranking(n_queries=12, docs_per_query=8, n_features=3, seed=5, doc_ids=True)
    rw.write_table(data, "test.parquet")
    queries, documents = data.query_ids.tolist(), data.doc_ids.tolist()
    lines = zip(queries, documents, data.labels.tolist(), strict=True)
    Path("qrels.txt").write_text("".join(f"{q} 0 {d} {int(label)}\n" for q, d, label in lines))
    scores = data.features.astype(float)
    write_run("one.run", queries, documents, scores[:, 0].tolist())
    kept = [row for row in range(data.n_documents) if row % 4 and queries[row] != data.queries[3]]
    write_run(
        "two.run",
        [queries[row] for row in kept],
        [documents[row] for row in kept],
        scores[kept, 1].tolist(),
    )
    return data


def compared(rankwood, *arguments):
    outcome = rankwood("compare", *arguments, "-m", "ndcg@5", "-m", "map", "--json")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out), outcome.err


def test_runs_with_their_qrels_have_the_values_of_evaluate(rankwood, runs):
    found, notices = compared(rankwood, "one.run", "two.run", "--data", "qrels.txt")
    assert "two.run does not answer 1 of 12 queries" in notices
    for name in ("one.run", "two.run"):
        alone = rankwood("evaluate", name, "qrels.txt", "-c", "-m", "ndcg@5", "-m", "map", "--json")
        expected = {text: one["value"] for text, one in json.loads(alone.out).items()}
        values = {text: one["value"] for text, one in found["systems"][name].items()}
        assert values == pytest.approx(expected, abs=1e-12)


def test_runs_with_data_are_compared_with_models_and_scores(rankwood, runs):
    np.savetxt("two.txt", runs.features[:, 1])
    rw.save(rw.RandomForest(3).fit(runs), "forest.rankwood")
    found, _ = compared(
        rankwood, *("one.run", "two.run", "two.txt", "forest.rankwood"), "--data", "test.parquet"
    )
    with_qrels, _ = compared(rankwood, "one.run", "two.run", "--data", "qrels.txt")
    for name in ("one.run", "two.run"):
        values, expected = (
            [one["value"] for one in each["systems"][name].values()] for each in (found, with_qrels)
        )
        assert values == pytest.approx(expected, abs=1e-12)
    lacking, whole = (found["systems"][name]["ndcg@5"]["value"] for name in ("two.run", "two.txt"))
    assert lacking < whole  # what a run has not retrieved counts as missed


def test_what_decides_and_what_counts_as_no_difference(rankwood, files):
    call = (*CALL, "-m", "map", "-m", "ndcg@5", "--baseline", "first.txt", "--queries", 0)
    outcome = rankwood(*call, "--test", "wilcoxon", "--level", 0.1, "--margin", 0.02)
    assert outcome.code == 0, outcome.err
    assert "decides: Wilcoxon, p < 0.1, Holm-corrected over 1 comparison" in outcome.out
    assert "90 % interval" in outcome.out
    assert "d_z" in outcome.out
    assert "map: differences of less than 0.02 count as none" in outcome.out
    across = rankwood(*call, "--across-measures", "--resamples", 200, "--json")
    found = json.loads(across.out)["comparisons"]["map"]
    assert found["corrected_over"] == {"family": "baseline", "comparisons": 2}
    assert found["test"] == "t"
    refused = rankwood(*call, "--test", "t", "--tests", "wilcoxon")
    assert refused.code != 0
    assert "Add it there" in refused.err
