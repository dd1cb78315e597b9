"""The command line as a user meets it."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw

TEXT = """\
2 qid:a 1:0.5 2:3 # docid = d1
0 qid:a 1:0.1 2:3 # docid = d2
1 qid:b 1:0.9 2:3 # docid = d3
0 qid:c 1:0.2 2:3 # docid = d4
0 qid:c 1:0.2 2:3 # docid = d5
"""


@pytest.fixture
def letor(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text(TEXT)
    return path


def test_no_arguments_show_the_commands(rankwood):
    outcome = rankwood()
    assert outcome.code == 2
    for name in ("inspect", "convert", "evaluate", "data", "demo", "warm-up", "versions"):
        assert name in outcome.out + outcome.err


@pytest.mark.parametrize(
    "command", ["inspect", "convert", "evaluate", "demo", "warm-up", "versions"]
)
def test_every_command_explains_itself(rankwood, command):
    outcome = rankwood(command, "--help")
    assert outcome.code == 0
    assert "Usage: rankwood" in outcome.out


def test_help_shows_how_conventions_are_written(rankwood):
    assert (
        "gain=linear,empty=1]" in rankwood("evaluate", "--help").out
    )  # square brackets are rich's markup


def test_the_version(rankwood):
    assert rankwood("--version").out.strip() == f"rankwood {rw.__version__}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspct"], "No such command 'inspct'"),
        (["inspect"], "Missing argument 'DATA_OR_MODEL...'"),
        (["inspect", "data.txt", "--no-such"], "No such option: --no-such"),
        (["inspect", "nowhere.txt"], "nowhere.txt"),
        (["inspect", "dat.txt"], "Did you mean"),
        (["inspect", "nothing"], "nothing has no data files: their names end in .parquet"),
        (["inspect", ""], "the name of a file is empty"),
        (["inspect", "data.txt", "--collection", "mq2008"], "--collection goes with a folder"),
        (["train", "data.txt", "--model", "GBRT", "--out", "m"], "write --data data.txt"),
        (["inspect", "data.txt", "--threads", "0"], "--threads"),
        (["convert", "data.txt", "out.parquet", "--normalise", "minmx"], "Did you mean 'minmax'?"),
        (["convert", "data.txt", "no/such/folder/out.txt"], "no/such/folder"),
        (["data", "synth", "out.txt", "--queries", "0"], "--queries"),
        (["data", "synth", "out.txt", "--missing", "nan"], "--missing"),
        (["evaluate", "scores.txt", "data.txt", "-m", "ndgc@10"], "Did you mean 'ndcg'?"),
        (
            ["evaluate", "scores.txt", "data.txt", "--preset", "lightgmb"],
            "Did you mean 'lightgbm'?",
        ),
        (["evaluate", "scores.txt", "data.txt", "--by", "7"], "feature '7' is not known"),
        (["evaluate", "scores.txt", "data.txt", "--complete"], "TREC run files"),
        (["evaluate", "short.txt", "data.txt"], "short.txt has 3 scores, but the data have 5 rows"),
        (["evaluate", "nan.txt", "data.txt"], "nan.txt, line 2"),
        (["evaluate", "empty.txt", "data.txt"], "empty.txt is empty"),
    ],
)
def test_a_mistake_is_a_message_and_exit_code_2(rankwood, letor, arguments, message):
    Path("scores.txt").write_text("1\n2\n3\n4\n5\n")
    Path("short.txt").write_text("1\n2\n3\n")
    Path("nan.txt").write_text("1\nnan\n3\n4\n5\n")
    Path("empty.txt").write_text("")
    Path("nothing").mkdir()
    outcome = rankwood(*arguments)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.replace("│", " ").split())
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


def test_inspect_shows_what_the_data_hold(rankwood, letor):
    outcome = rankwood("inspect", letor)
    facts = {line[:20].strip(): line[20:].strip() for line in outcome.out.splitlines()}
    assert outcome.code == 0
    assert facts["documents"] == "5"
    assert facts["queries"] == "3"
    assert facts["features"] == "2"
    assert facts["labels"] == "0: 3 (60.0%), 1: 1 (20.0%), 2: 1 (20.0%)"
    assert facts["documents per query"].startswith("least 1, median 2, mean 1.7, most 2")
    assert facts["empty queries"].startswith("1 ")
    assert facts["constant features"] == "1: 2"
    assert facts["duplicates"].startswith("1 row repeats")


def test_inspect_as_json(rankwood, letor):
    facts = json.loads(rankwood("inspect", letor, "--json", "--against", letor).out)
    assert (facts["documents"], facts["queries"], facts["features"]) == (5, 3, 2)
    assert facts["label_counts"] == {"0": 3, "1": 1, "2": 1}
    assert facts["against"]["n_queries"] == 3
    assert facts["against"]["n_documents"] == 5


def write_folds(folder: Path, tested: tuple[str, ...] = ("5", "1")) -> Path:
    """Two folds of two documents a query; ``tested`` has the test queries of each."""
    for number, test in enumerate(tested, start=1):
        place = folder / f"Fold{number}"
        place.mkdir(parents=True)
        for part, queries in (("train", "23"), ("vali", "4"), ("test", test)):
            rows = [f"{label} qid:{query} 1:{label} 2:0\n" for query in queries for label in (0, 2)]
            (place / f"{part}.txt").write_text("".join(rows))
    return folder


def test_inspect_a_folder_of_folds(rankwood):
    outcome = rankwood("inspect", write_folds(Path("good")))
    assert outcome.code == 0
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["Fold1", "train", "4", "2", "2", "0–2", "0"] in rows
    assert ["Fold2", "test", "2", "1", "2", "0–2", "0"] in rows
    assert "no query is in two parts of a fold" in outcome.out


def test_inspect_names_the_queries_that_parts_share(rankwood):
    write_folds(Path("bad"), tested=("35", "5"))
    outcome = rankwood("inspect", "bad")
    assert "1 query in train and test of Fold1 (for example 3)" in outcome.out
    assert "1 query in the test parts of several folds (for example 5)" in outcome.out
    found = json.loads(rankwood("inspect", "bad", "--json").out)
    assert [one["queries"] for one in found["shared"]] == [1, 1]
    assert found["folds"][0]["parts"]["test"]["queries"] == 2


def test_inspect_compares_a_folder_with_a_collection(rankwood):
    write_folds(Path("mine"))
    outcome = rankwood("inspect", "mine", "--collection", "mq2008")
    assert outcome.code == 0
    assert "not as in MQ2008: expected 5 folds, found 2\n" in outcome.out
    assert "expected 784 queries in all parts, found 4 (Fold1, Fold2)\n" in outcome.out
    assert "expected 46 features in train, found 2 (Fold1, Fold2)" in outcome.out
    unknown = rankwood("inspect", "mine", "--collection", "mq")
    assert (unknown.code, "collection 'mq' is not known. Did you mean" in unknown.err) == (2, True)
    against = rankwood("inspect", "mine", "--against", "mine")
    assert (against.code, "--against compares data; DATA is a folder of folds" in against.err) == (
        2,
        True,
    )


def test_public_collections_are_listed(rankwood):
    listed = rankwood("data", "list")
    assert listed.code == 0
    rows = {line.split()[0]: line.split() for line in listed.out.splitlines()}
    assert rows["mq2008"] == ["mq2008", "MQ2008", "5", "784", "15,211", "46", "0–2"]
    assert rows["ohsumed"][2:5] == ["5", "106", "–"]
    assert "1.79e308" in rankwood("data", "list", "istella-s").out
    (one,) = json.loads(rankwood("data", "list", "hp2003", "--json").out)
    assert (one["features"], one["documents"]) == ([64], None)
    assert "Did you mean 'mslr-web10k'" in rankwood("data", "list", "mslr10k").err


def test_values_beyond_float32_may_be_missing(rankwood):
    Path("huge.txt").write_text("0 qid:1 1:1.797e+308 2:1\n1 qid:1 1:2 2:1\n")
    refused = rankwood("inspect", "huge.txt")
    assert refused.code == 2
    assert "--overflow-missing" in refused.err
    outcome = rankwood("inspect", "huge.txt", "--overflow-missing")
    assert "1 (25.0%) in 1 feature: 1 (1)" in outcome.out


def test_inspect_names_missing_and_infinite_values(rankwood):
    Path("holes.txt").write_text("0 qid:1 1:NaN 2:1\n1 qid:1 1:NULL 2:inf\n0 qid:2 1:1 2:1\n")
    outcome = rankwood("inspect", "holes.txt")
    assert "2 (33.3%) in 1 feature: 1 (2)" in outcome.out
    assert "1 (16.7%) in 1 feature: 2 (1)" in outcome.out


def test_separated_queries_are_a_warning_or_refused(rankwood):
    Path("mixed.txt").write_text("0 qid:1 1:1\n1 qid:2 1:1\n0 qid:1 1:1\n")
    outcome = rankwood("inspect", "mixed.txt")
    assert outcome.code == 0
    assert outcome.err.startswith("warning: ")
    assert "separated queries" in outcome.out
    assert rankwood("inspect", "mixed.txt", "--strict").code == 2


@pytest.mark.parametrize(
    "name", ["out.parquet", "out.csv", "out.tsv.gz", "out.arrow", "out.txt.zst", "out.txt.bz2"]
)
def test_convert_there_and_back(rankwood, letor, name):
    assert rankwood("convert", letor, name).code == 0
    assert rankwood("convert", name, "back.txt").code == 0
    there, back = rw.read_letor(letor), rw.read_letor("back.txt")
    assert there == back
    assert back.doc_ids.tolist() == ["d1", "d2", "d3", "d4", "d5"]


def test_convert_normalises_within_queries(rankwood, letor):
    assert rankwood("convert", letor, "out.txt", "--normalise", "minmax").code == 0
    assert rw.read_letor("out.txt").features[:2, 0].tolist() == [1.0, 0.0]


def test_convert_keeps_the_old_file_when_it_fails(rankwood, letor):
    Path("out.parquet").write_text("old")
    Path("bad.txt").write_text("nonsense\n")
    assert rankwood("convert", "bad.txt", "out.parquet").code == 2
    assert Path("out.parquet").read_text() == "old"


def test_synth_is_seeded(rankwood):
    for name, seed in (("a.txt", 1), ("b.txt", 1), ("c.txt", 2)):
        assert (
            rankwood(
                "data", "synth", name, "--queries", 5, "--docs", 8, "--features", 6, "--seed", seed
            ).code
            == 0
        )
    assert Path("a.txt").read_bytes() == Path("b.txt").read_bytes()
    assert Path("a.txt").read_bytes() != Path("c.txt").read_bytes()


def test_evaluate_scores(rankwood, letor):
    Path("scores.txt").write_text("1\n2\n1\n0\n0\n")
    outcome = rankwood("evaluate", "scores.txt", letor, "-m", "mrr", "-m", "p@1", "--json")
    rows = json.loads(outcome.out)
    assert set(rows) == {"mrr", "p@1"}
    # a: the relevant document is second; b: first; c: no relevant document.
    values = {name: row["value"] for name, row in rows.items()}
    assert values == pytest.approx({"mrr": (0.5 + 1 + 0) / 3, "p@1": 1 / 3})


def test_evaluate_writes_every_querys_values(rankwood, letor):
    Path("scores.txt").write_text("1\n2\n1\n0\n0\n")
    assert (
        rankwood(
            "evaluate", "scores.txt", letor, "-m", "mrr[empty=skip]", "--per-query", "values.tsv"
        ).code
        == 0
    )
    assert Path("values.tsv").read_text() == "query\tmrr[empty=skip]\na\t0.5\nb\t1.0\nc\t\n"


def test_evaluate_by_a_column_of_a_table(rankwood):
    Path("t.csv").write_text(
        "qid,label,f,country\n1,1,5,de\n1,0,4,de\n2,0,3,fr\n2,1,1,fr\n3,1,9,de\n"
    )
    Path("scores.txt").write_text("5\n4\n3\n1\n9\n")
    outcome = rankwood("evaluate", "scores.txt", "t.csv", "-m", "mrr", "--by", "country")
    assert outcome.code == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()]
    found = {line[0]: line[2] for line in lines if len(line) > 2 and line[1] == "mrr"}
    assert found == {"de": "1.0000", "fr": "0.5000", "all": "0.8333"}


def test_evaluate_by_a_column_that_changes_within_a_query(rankwood):
    Path("t.csv").write_text("qid,label,f,country\n1,1,5,de\n1,0,4,fr\n")
    Path("scores.txt").write_text("5\n4\n")
    outcome = rankwood("evaluate", "scores.txt", "t.csv", "--by", "country")
    assert outcome.code == 2
    assert "query" in outcome.err


def test_evaluate_a_trec_run(rankwood):
    Path("run.txt").write_text("1 Q0 a 1 3.0 x\n1 Q0 b 2 2.0 x\n2 Q0 c 1 1.0 x\n")
    Path("qrels.txt").write_text("1 0 b 1\n1 0 z 1\n2 0 c 1\n3 0 d 1\n")
    arguments = ["evaluate", "run.txt", "qrels.txt", "--preset", "trec_eval", "-m", "map", "--json"]
    outcome = rankwood(*arguments)
    # query 1: b at rank 2 of two relevant documents, (1/2)/2; query 2: 1.
    assert json.loads(outcome.out)["map"]["value"] == pytest.approx((0.25 + 1) / 2)
    assert "1 query of the qrels is not in the run (such as 3)" in outcome.err
    complete = rankwood(*arguments, "--complete")
    assert json.loads(complete.out)["map"]["value"] == pytest.approx((0.25 + 1 + 0) / 3)


def test_versions_names_what_a_bug_report_needs(rankwood):
    outcome = rankwood("versions")
    for name in ("rankwood", "python", "numpy", "numba", "pyarrow", "threads", "cache folder"):
        assert name in outcome.out
    assert json.loads(rankwood("versions", "--json").out)["rankwood"] == rw.__version__


def test_warm_up_says_where_the_kernels_are(rankwood):
    outcome = rankwood("warm-up")
    assert outcome.code == 0
    assert "kernels ready after" in outcome.out
    assert rankwood("warm-up", "--quiet").out == ""


def test_the_cache_is_listed_and_cleared(rankwood, tmp_path, monkeypatch):
    from rankwood.data import cache

    monkeypatch.setattr(cache, "CACHE_FROM_BYTES", 1)
    path = tmp_path / "cached.txt"
    path.write_text(TEXT)
    assert rankwood("inspect", path).code == 0
    assert "cached.txt" in rankwood("data", "cache").out
    assert rankwood("data", "cache", "--clear").out.strip() == "1 entry removed"
    assert rankwood("data", "cache").out.strip() == "the cache is empty"


@pytest.mark.slow
def test_the_demo_runs_to_its_end(rankwood):
    outcome = rankwood("demo", "--positions", 20, "--folder", "demo", "--jobs", 0)
    assert outcome.code == 0, outcome.err
    assert "ndcg@10" in outcome.out
    assert "the first choice is" in outcome.out
    assert "[ ] engine: " in outcome.out
    page = Path("demo/report/report.html")
    assert f"The report: {page}" in outcome.out
    for name in ("RandomForest", "BROOF", "DeepForest", "BoostingTree"):
        assert name in page.read_text()
    names = {path.name for path in Path("demo").iterdir()}
    boards = {name for name in names if name.endswith(".svg")}
    assert 1 <= len(boards) <= 2
    parts = {f"{part}.txt" for part in ("train", "valid", "test")}
    assert names - boards == parts | {"demo.toml", "run", "report", "LambdaMART.rankwood"}
    # The commands that the demo names do what it did: nothing is left to run, and the model scores plain text.
    others = sum(importlib.util.find_spec(name) is not None for name in ("lightgbm", "xgboost"))
    expected = f"{16 + others} cells are there already"
    assert expected in rankwood("experiment", "demo/demo.toml").err
    assert rankwood("evaluate", "demo/LambdaMART.rankwood", "demo/test.txt").code == 0


def in_a_shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("rankwood")
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command.replace('rankwood', str(program))}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )


@pytest.mark.slow
def test_pipes_work_at_both_ends(letor, tmp_path):
    outcome = in_a_shell(
        "cat data.txt | rankwood convert - - | rankwood inspect - --json", tmp_path
    )
    assert json.loads(outcome.stdout)["documents"] == 5, outcome.stderr
    with gzip.open(tmp_path / "data.txt.gz", "wt") as file:
        file.write(TEXT)
    outcome = in_a_shell("rankwood inspect <(zcat data.txt.gz) --json", tmp_path)
    assert json.loads(outcome.stdout)["documents"] == 5, outcome.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    np.savetxt(tmp_path / "x.txt", np.zeros(1))
    outcome = in_a_shell("rankwood data synth - --queries 200 --docs 20 | head -1", tmp_path)
    assert outcome.returncode in (0, 141), outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert outcome.stdout.count("\n") == 1


@pytest.mark.slow
def test_the_first_call_says_that_it_compiles(letor, tmp_path):
    """On a new machine the wait is explained, on standard error; quiet means quiet."""
    fresh = "NUMBA_CACHE_DIR=$(mktemp -d)"
    for options, expected in (("", "compiling kernels (once"), ("--quiet", "")):
        outcome = in_a_shell(f"{fresh} rankwood inspect data.txt --json {options}", tmp_path)
        assert json.loads(outcome.stdout)["documents"] == 5
        assert outcome.stderr.startswith(expected) if expected else outcome.stderr == ""


@pytest.mark.slow
def test_the_real_collection(rankwood, mq2008):
    outcome = rankwood("inspect", mq2008 / "Fold1" / "train.txt.gz", "--json")
    facts = json.loads(outcome.out)
    assert (facts["documents"], facts["queries"], facts["features"]) == (9630, 471, 46)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_is_no_traceback(letor, stream):
    # `rankwood … >&-`: Python then has no sys.stdout at all
    close = {"stdout": 1, "stderr": 2}[stream]
    script = (
        f"import os, sys; os.close({close}); sys.{stream} = None; sys.argv[0] = 'rankwood'\n"
        "from rankwood.cli.main import run; run()"
    )
    command = [sys.executable, "-c", script, "inspect", str(letor)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if not line.startswith("compiling kernels")]
    assert (done.returncode, said) == (0, [])  # another process may have pruned the cache


def test_scores_are_looked_for_before_the_data_are_read(rankwood):
    outcome = rankwood("evaluate", "nowhere.txt", "not-there-either.txt")
    assert outcome.code == 2
    assert "nowhere.txt does not exist" in outcome.err


def test_scores_and_data_cannot_both_be_standard_input(rankwood):
    outcome = rankwood("evaluate", "-", "-")
    assert outcome.code == 2
    assert "cannot both be standard input" in outcome.err


def test_a_negative_seed_is_a_message(rankwood, letor, tmp_path):
    (tmp_path / "scores.txt").write_text("1\n2\n3\n4\n5\n")
    outcome = rankwood("evaluate", "scores.txt", letor, "--seed", "-1")
    assert outcome.code == 2
    assert "seed must be a whole number of at least 0, got -1." in outcome.err


def test_a_model_file_that_is_none_is_not_read_as_data(rankwood):
    Path("bad.rankwood").write_text("nope")
    outcome = rankwood("inspect", "bad.rankwood")
    assert outcome.code == 2
    assert "bad.rankwood is not a model file" in outcome.err


def test_names_cannot_command_the_terminal(rankwood, tmp_path):
    """Screens are cleared, titles set and lines overwritten by such names; they are shown by their codes."""
    made = rw.make_ranking(10, 8, 3, seed=1)
    names = ["a\x1b[2J", "b\rc\x07", "\u202ed[bold]"]
    data = rw.RankingData(made.features, made.labels, made.query_ids, feature_names=names)
    rw.save(rw.GBRT(3, min_leaf=2).fit(data), tmp_path / "m.rankwood")
    shown = rankwood("inspect", "m.rankwood").out
    assert not set(shown) & set("\x1b\r\x07\u202e")
    assert "\\x1b[2J" in shown or "\\x07" in shown or "\\u202ed[bold]" in shown
