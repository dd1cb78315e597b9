"""``rankwood train --model BoostingTree`` and ``rankwood front``."""

from __future__ import annotations

import json

import pytest

import rankwood as rw
from rankwood.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training, validation and test files, and a search on them."""
    folder = tmp_path_factory.mktemp("front")
    data = rw.make_ranking(n_queries=40, docs_per_query=12, n_features=6, seed=1)
    parts = rw.split_queries(data, (0.6, 0.2, 0.2), seed=1)
    for name, part in zip(("train", "vali", "test"), parts, strict=True):
        rw.write_letor(part, folder / f"{name}.txt")
    assert train(folder, "BoostingTree", "--budget", "40", "--max-leaves", "2") == 0
    return folder


def train(folder, model, *options):
    return main(
        [
            *("train", "--model", model, "--data", str(folder / "train.txt")),
            *("--valid", str(folder / "vali.txt"), "--out", str(folder / f"{model}.rankwood")),
            *("--min-leaf", "3", *options),
        ]
    )


def test_options_that_the_search_does_not_know_are_those_of_its_base(folder):
    model = rw.load(folder / "BoostingTree.rankwood")
    assert type(model.base) is rw.LambdaMART
    assert (model.base.max_leaves, model.base.min_leaf) == (2, 3)
    assert len(model.tree_) == 41


@pytest.mark.parametrize("base", ["NDCGBoost", "AdaBoost", "GBRT"])
def test_every_base_can_be_named(folder, base, capsys):
    assert train(folder, "BoostingTree", "--base", base, "--budget", "10", "--quiet") == 0
    assert type(rw.load(folder / "BoostingTree.rankwood").base).__name__ == base
    assert train(folder, "Exp3P", "--base", base, "--n-rounds", "5") == 0
    assert "all rounds are done" in capsys.readouterr().out
    train(folder, "BoostingTree", "--budget", "40", "--max-leaves", "2")


def test_training_says_what_was_searched(folder, capsys):
    train(folder, "BoostingTree", "--budget", "40", "--max-leaves", "2")
    printed = capsys.readouterr().out
    assert "ExploredTree of 41 models" in printed
    assert "the budget is spent" in printed


def test_a_search_with_every_default(tmp_path, capsys):
    rw.write_letor(rw.make_ranking(10, 6, 4, seed=1), tmp_path / "train.txt")
    out = tmp_path / "model.rankwood"
    options = ["--data", str(tmp_path / "train.txt"), "--out", str(out), "--quiet"]
    assert main(["train", "--model", "BoostingTree", *options]) == 0
    model = rw.load(out)
    assert (model.search, model.beam_width, model.max_length) == ("beam", 4, None)
    assert model.n_held_out_ == 2
    assert model.tree_.depth.max() <= 100
    assert main(["front", str(out), "--max-trees", "2", "--out", str(tmp_path / "small")]) == 0
    assert rw.load(tmp_path / "small").n_trees <= 2


def test_options_of_the_other_search_are_refused(folder, capsys):
    assert train(folder, "BoostingTree", "--free-steps", "true") == 2
    assert "free_steps=True is of search='hull'" in capsys.readouterr().err
    options = ("--search", "hull", "--free-steps", "true", "--budget", "5", "--max-leaves", "2")
    assert train(folder, "BoostingTree", *options) == 0
    assert rw.load(folder / "BoostingTree.rankwood").search == "hull"
    train(folder, "BoostingTree", "--budget", "40", "--max-leaves", "2")


def test_a_base_that_cannot_be_is_refused(folder, capsys):
    assert train(folder, "BoostingTree", "--base", "RandomForest") == 2
    assert "base must be one of LambdaMART" in capsys.readouterr().err


def test_the_front_as_a_table(folder, capsys):
    path = str(folder / "BoostingTree.rankwood")
    assert main(["front", path, "--data", str(folder / "test.txt"), "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ndcg@10[ties=average]"
    assert lines[1].split() == ["trees", "train", "valid", "data"]
    assert lines[2].split()[0] == "0"
    valid = [float(line.split()[2]) for line in lines[2:]]
    assert valid == sorted(valid)


def test_the_front_for_scripts_and_as_a_plot(folder, capsys):
    path = str(folder / "BoostingTree.rankwood")
    plot = folder / "front.svg"
    assert main(["front", path, "--json", "--every-length", "--plot", str(plot)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [point["trees"] for point in found["points"]] == list(range(len(found["points"])))
    assert "<svg" in plot.read_text()


def test_a_small_model_of_the_front_can_be_written(folder):
    path, out = str(folder / "BoostingTree.rankwood"), folder / "small.rankwood"
    assert main(["front", path, "--max-trees", "4", "--out", str(out), "--quiet"]) == 0
    assert rw.load(out) == rw.load(path).best(4)


def test_a_search_can_be_inspected_scored_and_evaluated(folder, capsys):
    path = str(folder / "BoostingTree.rankwood")
    assert main(["inspect", path]) == 0
    printed = capsys.readouterr().out
    assert "models searched" in printed
    assert main(["inspect", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models searched"] == 41
    assert main(["evaluate", path, str(folder / "test.txt"), "-m", "ndcg@10"]) == 0


def test_the_front_of_plain_boosting(folder, capsys):
    options = ("--n-trees", "12", "--max-leaves", "4")
    assert train(folder, "LambdaMART", *options) == 0
    capsys.readouterr()
    path, out = str(folder / "LambdaMART.rankwood"), folder / "short.rankwood"
    limits = ["--max-trees", "5", "--out", str(out)]
    assert main(["front", path, "--data", str(folder / "test.txt"), *limits, "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["trees", "valid", "data"]
    trees = [int(line.split()[0]) for line in lines[2:]]
    assert rw.load(out).n_trees == max(length for length in trees if length <= 5)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with three boosted rankers and one that is not, which keeps models and fronts."""
    folder = tmp_path_factory.mktemp("run") / "run"
    base = {"kind": "LambdaMART", "max_leaves": 2, "min_leaf": 3}
    algorithms = [
        {"name": "plain", "kind": "LambdaMART", "n_trees": 8, "max_leaves": 2, "min_leaf": 3},
        {"name": "search", "kind": "BoostingTree", "base": base, "budget": 30},
        {"name": "bandit", "kind": "Exp3P", "base": base, "n_rounds": 8},
        {"name": "forest", "kind": "RandomForest", "n_trees": 3},
    ]
    data = {"generate": {"queries": 40, "docs": 10, "features": 6}, "folds": 3}
    settings = {"keep_models": True, "fronts": True}
    tables = {"data": data, "run": settings, "measures": {"primary": "ndcg@10"}}
    rw.run_experiment({**tables, "algorithm": algorithms}, out=folder, jobs=0)
    return folder


def test_a_run_has_the_curves_of_its_boosted_rankers(run, capsys):
    plot = run.parent / "curves.svg"
    assert main(["front", str(run), "--plot", str(plot)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ndcg@10[ties=average]"
    assert lines[1].split() == ["trees", "plain", "search", "bandit"]
    assert [int(line.split()[0]) for line in lines[2:5]] == [1, 2, 3]
    assert "<svg" in plot.read_text()
    assert main(["front", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (growth, *_) = found["growth"]["search"].values()
    assert sum(growth["length"]) == 30
    fronts = rw.run_fronts(run)
    models = [rw.load(path) for path in sorted((run / "models").glob("plain~*"))]
    assert len(models) == 3
    at_one = next(point["plain"] for point in found["points"])
    tests = [rw.size_quality_front(model).points[0].n_trees for model in models]
    assert tests == [1, 1, 1]
    assert fronts.curves["plain"][0] == at_one
    assert len(list((run / "models").glob("*.rankwood"))) == 12


def test_what_a_run_cannot_show_is_told(run, tmp_path, capsys):
    assert main(["front", str(run), "--data", "test.txt"]) == 2
    assert "which --data has no meaning for" in capsys.readouterr().err
    assert main(["front", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    data = {"generate": {"queries": 12, "docs": 5, "features": 4}, "split": [0.6, 0.2, 0.2]}
    tables = {"data": data, "measures": {"primary": "ndcg"}}
    forest = {"name": "forest", "kind": "RandomForest", "n_trees": 2}
    rw.run_experiment({**tables, "algorithm": [forest]}, out=tmp_path / "bare", jobs=0)
    assert main(["front", str(tmp_path / "bare")]) == 2
    assert "fronts = true under [run]" in capsys.readouterr().err


WRONG = {
    "another model": (["front", "{other}"], "has no front"),
    "a plot of no kind": (["front", "{path}", "--plot", "front.txt"], "--plot must end in"),
    "a limit for nothing": (["front", "{path}", "--max-trees", "3"], "pass --out too"),
    "no file": (["front", "nowhere.rankwood"], "nowhere.rankwood"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_named(folder, case, capsys):
    arguments, message = WRONG[case]
    other = folder / "forest.rankwood"
    rw.save(rw.RandomForest(1).fit(rw.make_ranking(5, 5, 6, seed=1)), other)
    places = {"path": folder / "BoostingTree.rankwood", "other": other}
    assert main([argument.format(**places) for argument in arguments]) == 2
    assert message in capsys.readouterr().err
