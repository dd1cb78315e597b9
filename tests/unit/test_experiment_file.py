"""Mistakes in an experiment's file: one message that names the table, the key and the line."""

from __future__ import annotations

import re

import pytest

import rankwood as rw
from rankwood.errors import DataError, InputError, ParameterError
from rankwood.experiments.config import read_experiment
from rankwood.experiments.settings import find_lines

pytestmark = pytest.mark.jit_only  # no kernels of its own

GOOD = """\
[data]
generate = { queries = 20, docs = 5, features = 4 }

[run]
repetitions = 2
seed = 3

[measures]
primary = "ndcg@10"
also = ["map", "err"]

[[algorithm]]
name = "RF"
kind = "RandomForest"
n_trees = 5

[[algorithm]]
kind = "OrdinalRanker"
base = { kind = "RandomForest", n_trees = 5 }

[[algorithm]]
name = "boosted"
kind = "GBRT"
features_per_node = 1.0

[algorithm.tune]
learning_rate = [0.1, 0.3]
max_leaves = [4, 8]

[compare]
baseline = "RF"
tests = ["wilcoxon", "t"]
correction = "holm"
"""


@pytest.fixture
def read(tmp_path):
    def call(text: str, **options):
        path = tmp_path / "run.toml"
        path.write_text(text)
        return read_experiment(path, **options)

    return call


def test_several_baselines(read):
    several = GOOD.replace('baseline = "RF"', 'baseline = ["RF", "boosted", "RF"]')
    assert read(several).baseline == ("RF", "boosted")
    assert read(GOOD).baseline == "RF"


def test_a_good_file(read):
    experiment = read(GOOD)
    assert [one.name for one in experiment.algorithms] == ["RF", "OrdinalRanker", "boosted"]
    assert experiment.measures == ("ndcg@10", "map", "err")
    assert experiment.algorithms[2].candidates() == [
        {"learning_rate": 0.1, "max_leaves": 4},
        {"learning_rate": 0.1, "max_leaves": 8},
        {"learning_rate": 0.3, "max_leaves": 4},
        {"learning_rate": 0.3, "max_leaves": 8},
    ]
    assert len(experiment.cells()) == 2 * 2 + 1  # one split, two repetitions; boosted is not random
    assert experiment.fold_names == ["split"]


def test_lines_of_keys():
    lines = find_lines(GOOD)
    assert lines["data",] == 1
    assert lines["data", "generate"] == 2
    assert lines["data", "generate", "docs"] == 2
    assert lines["run", "seed"] == 6
    assert lines["algorithm", 0, "n_trees"] == 15
    assert lines["algorithm", 1, "base", "kind"] == 19
    assert lines["algorithm", 2, "kind"] == 23
    assert lines["algorithm", 2, "tune", "max_leaves"] == 28
    assert lines["compare", "tests"] == 32


def test_lines_of_dotted_and_quoted_keys():
    lines = find_lines('run.seed = 1\n[[algorithm]]\n"kind" = "GBRT"\ntune.base.n_trees = [1]\n')
    assert lines["run", "seed"] == 1
    assert lines["algorithm", 0, "kind"] == 3
    assert lines["algorithm", 0, "tune", "base", "n_trees"] == 4


WRONG = [
    # what is replaced, by what, where it is said to be, and what is said of it
    ("repetitions = 2", "repetitons = 2", 5, r"\[run\] repetitons: .* Did you mean 'repetitions'"),
    ("repetitions = 2", "repetitions = 0", 5, r"\[run\] repetitions: must be a whole number of at"),
    ("repetitions = 2", 'repetitions = "2"', 5, r"\[run\] repetitions: must be .* got '2'"),
    ("repetitions = 2", "repetitions = true", 5, r"\[run\] repetitions: .* got true"),
    ("seed = 3", "seed = 2.5", 6, r"\[run\] seed: must be a whole number .* got 2.5"),
    ("seed = 3", "seed = 99999999999999999999", 6, r"\[run\] seed: must be at most"),
    ("[run]", "[rum]", 4, r"\[rum\]: there is no such table. Did you mean \[run\]"),
    ("ndcg@10", "ndgc@10", 9, r"\[measures\] primary: measure 'ndgc' .* Did you mean 'ndcg'"),
    ('"map", "err"', '"map", "map"', 10, r"\[measures\] also: names 'map' a second time"),
    ('["map", "err"]', '"map"', 10, r"\[measures\] also: must be a list of texts, got 'map'"),
    ("also", 'preset = "ms"\nalso', 10, r"\[measures\] preset: .* got 'ms'"),
    ('"RandomForest"\nn', '"RandomForrest"\nn', 14, r"number 1, kind: .* mean 'RandomForest'"),
    ("n_trees = 5", "n_tree = 5", 15, r"number 1, n_tree: RandomForest .* mean 'n_trees'"),
    ("n_trees = 5", "n_trees = -5", 15, r"number 1, n_trees: n_trees must be .* got -5"),
    ("n_trees = 5", 'n_trees = "many"', 15, r"number 1, n_trees: .* got 'many'"),
    ("n_trees = 5", "seed = 5", 15, r"number 1, seed: .* seeds follow from \[run\] seed"),
    ("n_trees = 5", "n_threads = 5", 15, r"n_threads: .* set by \[run\] threads"),
    ("n_trees = 5", 'checkpoint = "c"', 15, r"checkpoint: cannot be set here"),
    ("n_trees = 5", "max_bins = 900", 15, r"number 1, max_bins: max_bins must be"),
    ("n_trees = 5", 'missing = "lost"', 15, r"number 1, missing: .*'lost'"),
    ("n_trees = 5", "repetitions = 3", 15, r"repetitions: is 3, more than the 2 of \[run\]"),
    ("n_trees = 5 }", "n_treess = 5 }", 19, r"number 2, base.n_treess: .* mean 'n_trees'"),
    ("n_trees = 5 }", "n_trees = 0 }", 19, r"number 2, base.n_trees: n_trees must be"),
    ('{ kind = "RandomForest"', '{ kind = "GBTR"', 19, r"base.kind: 'GBTR' .* mean 'GBRT'"),
    (
        '{ kind = "RandomForest"',
        '{ kind = "LambdaMART"',
        19,
        r"number 2, base: base must be an est",
    ),
    ('name = "boosted"', 'name = "RF"', 22, r"number 3, name: 'RF' is the name of another"),
    ('kind = "GBRT"', "", 21, r"number 3: has no kind"),
    ("[0.1, 0.3]", "[0.1, 1.5]", 27, r"number 3, tune.learning_rate: .* got 1.5"),
    ("[0.1, 0.3]", "0.1", 27, r"tune.learning_rate: must be a list of the values"),
    ("[0.1, 0.3]", "[]", 27, r"tune.learning_rate: must be a list of the values"),
    ("[0.1, 0.3]", "{ low = 0.1, high = 0.3 }", 27, r"is a range, which a grid cannot try"),
    (
        "learning_rate = [",
        "learning_rat = [",
        27,
        r"learning_rat: GBRT has .* mean 'learning_rate'",
    ),
    (
        "max_leaves = [4",
        "features_per_node = [4",
        24,
        r"features_per_node: is tuned and given a value too",
    ),
    (
        "max_leaves = [4",
        "base.n_trees = [4",
        28,
        r"tune.base.n_trees: there is no estimator 'base'",
    ),
    ("[algorithm.tune]", "tune_trials = 3\n[algorithm.tune]", 26, r"a grid tries all"),
    (
        'baseline = "RF"',
        'baseline = "RFF"',
        31,
        r"\[compare\] baseline: .* got 'RFF'. Did you mean 'RF'",
    ),
    (
        'baseline = "RF"',
        'baseline = ["RF", "bosted"]',
        31,
        r"\[compare\] baseline: 'bosted' is no algorithm .* Did you mean 'boosted'",
    ),
    ('baseline = "RF"', "baseline = []", 31, r"\[compare\] baseline: is empty"),
    ('baseline = "RF"', "baseline = 3", 31, r"\[compare\] baseline"),
    ('"wilcoxon", "t"', '"wilcoxen"', 32, r"\[compare\] tests: must be some of .* 'wilcoxen'"),
    ('"wilcoxon", "t"', "", 32, r"\[compare\] tests: is empty"),
    ('correction = "holm"', 'test = "z"', 33, r"\[compare\] test: must be one of .* got 'z'"),
    ('correction = "holm"', 'test = "randomization"', 33, "which tests leaves out. Add it there"),
    ('correction = "holm"', "level = 1.0", 33, "level: must be a number between 0 and 1, got 1.0"),
    ('correction = "holm"', "level = true", 33, "level: must be a number between 0 and 1"),
    ('correction = "holm"', "level = nan", 33, "level: must be a number between 0 and 1"),
    ('correction = "holm"', "margin = 0", 33, "margin: must be a number above 0, got 0"),
    ('correction = "holm"', 'margin = "x"', 33, "margin: must be a number above 0, got 'x'"),
    ('correction = "holm"', "resamples = 0", 33, "resamples: must be a whole number of at least 1"),
    ('correction = "holm"', "resamples = 99999999", 33, "resamples: must be at most 10,000,000"),
    ('correction = "holm"', "across_measures = 1", 33, "across_measures: must be true or false"),
    ('"holm"', '"homl"', 33, r"correction: .* Did you mean 'holm'"),
    ("queries = 20", "queries = 0", 2, r"\[data\] generate: n_queries must be"),
    (
        "queries = 20",
        "n_queries = 20",
        2,
        r"\[data\] generate.n_queries: .* Did you mean 'queries'",
    ),
    ("generate =", 'folds = "nowhere"\ngenerate =', 3, r"generate: contradicts folds"),
    ("generate =", "split = [0.5, 0.4]\ngenerate =", 2, r"split: must sum to 1, got 0.9"),
    ("generate =", "split = [0.5, -1]\ngenerate =", 2, r"split: must be the shares"),
    ("generate =", "split = [0.5, 0.5]\ngenerate =", 27, r"tune: needs validation queries"),
    ("generate =", "split = [0.5, 0.5]\nfolds = 3\ngenerate =", 2, r"split: contradicts folds"),
    ("generate =", "folds = 2\ngenerate =", 2, r"folds: must be a whole number of at least 3"),
    ("generate =", 'test = "x"\ngenerate =', 2, r"test: contradicts generate. It goes with train"),
    ("generate =", 'normalise = "max"\ngenerate =', 2, r"normalise: must be one of none, minmax"),
    ("generate = { queries = 20, docs = 5, features = 4 }", "", 1, r"\[data\]: says nothing about"),
    ("generate = { queries = 20, docs = 5, features = 4 }", 'folds = "no"', 2, r"no folder .*no"),
    (
        "generate = { queries = 20, docs = 5, features = 4 }",
        'data = "no.txt"',
        2,
        r"no.txt does not exist",
    ),
    ("generate = { queries = 20, docs = 5, features = 4 }", 'train = "t.txt"', 2, r"has no test"),
    ("generate = { queries = 20, docs = 5, features = 4 }", "folds = 5", 2, r"says how many folds"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), WRONG)
def test_every_mistake_is_named_with_its_place(read, old, new, line, message):
    assert old in GOOD
    with pytest.raises(InputError, match=message) as caught:
        read(GOOD.replace(old, new, 1))
    assert re.search(rf"run\.toml, line {line}: ", str(caught.value)), str(caught.value)


def test_files_that_cannot_be_read(tmp_path, read):
    with pytest.raises(DataError, match=r"nowhere.toml does not exist"):
        read_experiment(tmp_path / "nowhere.toml")
    with pytest.raises(DataError, match=r"run.toml cannot be read as TOML: .*line 2"):
        read("[data]\nfolds = = 3\n")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_experiment(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"there is no table \[data\]"),
        ("[data]\ngenerate = {}\n", r"\[algorithm\]: an experiment needs at least one"),
        ("seed = 1\n" + GOOD, r"line 1: .*it is a key of \[data\]"),
        ("run = 3\n[data]\ngenerate={}\n", r"line 1: \[run\]: must be a table, got 3"),
    ],
)
def test_what_is_missing_or_misplaced(read, text, message):
    with pytest.raises(ParameterError, match=message):
        read(text)


def test_missing_files_are_found_before_anything_is_run(tmp_path, read):
    rw.write_letor(rw.make_ranking(6, 4, 3), tmp_path / "train.txt")
    table = '[data]\ntrain = "train.txt"\ntest = "trian.txt"\n'
    rest = GOOD[GOOD.index("[run]") :]
    with pytest.raises(ParameterError, match=r"line 3: \[data\] test: .* Did you mean .*train.txt"):
        read(table + rest)
    (tmp_path / "Fold1").mkdir()
    with pytest.raises(ParameterError, match=r"line 2: \[data\] folds: .*Fold1 has no file for"):
        read('[data]\nfolds = "."\n' + rest)


def test_a_mapping_needs_no_file():
    tables = {
        "data": {"generate": {"queries": 10, "docs": 4, "features": 3}},
        "algorithm": [{"kind": "RandomForest", "n_trees": 2}],
    }
    experiment = read_experiment(tables)
    assert experiment.name == "experiment"
    assert experiment.repeat.startswith("rankwood.run_experiment({'data'")
    tables["run"] = {"jbos": 2}
    with pytest.raises(ParameterError, match=r"^\[run\] jbos: there is no such key. Did you mean"):
        read_experiment(tables)


def test_values_from_outside_win(read):
    changes = ("run.repetitions=1", "algorithm.RF.n_trees=7", "measures.primary=p@5")
    experiment = read(GOOD, overrides=changes)
    assert experiment.repetitions == 1
    assert experiment.algorithms[0].parameters["n_trees"] == 7
    assert experiment.measures[0] == "p@5"
    assert experiment.repeat.endswith(
        "--set run.repetitions=1 --set algorithm.RF.n_trees=7 --set measures.primary=p@5"
    )
    with pytest.raises(ParameterError, match=r"table.key=value, got 'repetitions=1'"):
        read(GOOD, overrides=["repetitions=1"])
    with pytest.raises(ParameterError, match=r"algorithm 'R' is not known. Did you mean"):
        read(GOOD, overrides=["algorithm.R.n_trees=7"])
    with pytest.raises(
        ParameterError, match=r"^--set run.repetitons=1: \[run\] repetitons: there is no such key"
    ):
        read(GOOD, overrides=["run.repetitons=1"])
    with pytest.raises(
        ParameterError, match=r"^--set rum.seed=1: \[rum\]: .* Did you mean \[run\]"
    ):
        read(GOOD, overrides=["rum.seed=1"])
    with pytest.raises(ParameterError, match=r"^--set run.seed.x=1: there is no such table"):
        read(GOOD, overrides=["run.seed.x=1"])


def test_a_place_of_data_from_outside_wins_over_the_file(tmp_path):
    tables = {
        "data": {"folds": "nowhere", "names": ["a", "b", "c"]},
        "algorithm": [{"kind": "GBRT"}],
    }
    experiment = read_experiment(tables, overrides=["data.bundled=chess-B84", "data.folds=4"])
    assert len(experiment.data.folds) == 4
    for part in ("train", "vali", "test"):
        (tmp_path / f"{part}.txt").write_text("0 qid:1 1:1\n1 qid:1 1:2\n")
    tables["data"] = {"generate": {"queries": 9}, "folds": 3, "seed": 2}
    experiment = read_experiment(tables, overrides=[f"data.folds={tmp_path}"])
    assert [fold.name for fold in experiment.data.folds] == [tmp_path.name]
    experiment = read_experiment(tables, overrides=["data.bundled=chess-B84"])
    assert experiment.data.cut == {"folds": 3, "seed": 2}


def test_a_small_trial_of_a_large_experiment(read):
    text = GOOD.replace("n_trees = 5", "n_trees = 5000").replace(
        "repetitions = 2", "repetitions = 9"
    )
    experiment = read(text, small=True)
    assert experiment.repetitions == 1
    assert [one.parameters.get("n_trees") for one in experiment.algorithms] == [4, None, 4]
    assert experiment.algorithms[1].parameters["base"]["n_trees"] == 4


def test_none_stands_for_nothing(read):
    from rankwood.experiments.settings import build

    experiment = read(GOOD.replace("n_trees = 5", 'max_leaves = "none"', 1))
    one = experiment.algorithms[0]
    assert build(one.kind, one.parameters).max_leaves is None


def test_seeds_are_those_of_fold_and_repetition(read):
    experiment = read(GOOD)
    seeds = {cell: experiment.seed_of(cell) for cell in experiment.cells()}
    by_repetition = {}
    for cell, seed in seeds.items():
        by_repetition.setdefault(cell.repetition, set()).add(seed)
    assert [len(found) for found in by_repetition.values()] == [1, 1]
    assert by_repetition[1] != by_repetition[2]


def test_how_algorithms_are_compared(read):
    plain = read(GOOD).compare
    assert (plain.test, plain.level, plain.margin) == ("wilcoxon", 0.05, 0.01)
    assert (plain.resamples, plain.across_measures) == (10_000, False)
    more = 'test = "t"\nlevel = 0.01\nmargin = "none"\nresamples = 500\nacross_measures = true'
    chosen = read(GOOD + more).compare
    assert (chosen.test, chosen.level, chosen.margin) == ("t", 0.01, None)
    assert (chosen.resamples, chosen.across_measures) == (500, True)
    usual = read(GOOD.replace('tests = ["wilcoxon", "t"]\n', ""))
    assert (usual.tests, usual.compare.test) == (("t", "wilcoxon"), "t")
    other = read(GOOD.replace('tests = ["wilcoxon", "t"]', 'test = "randomization"'))
    assert other.tests == ("randomization", "t", "wilcoxon")
