"""Tuning in experiments: searches, budgets, inner folds, refitting, trials that are kept, importance."""

from __future__ import annotations

import csv
import json
import math
import time
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator

import rankwood as rw
from rankwood.errors import InputError, ParameterError
from rankwood.experiments import cells
from rankwood.experiments.config import read_experiment
from rankwood.experiments.runner import make_plan, tuning_fits
from rankwood.experiments.settings import Algorithm
from rankwood.experiments.store import RunFolder
from rankwood.experiments.tuning import Judged, on_folds, tune_cell
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.studies.trials import OnFolds
from rankwood.studies.tune import OptunaSearch, RandomSearch, importance_of
from tests.unit.test_experiments import contents, same, tables

pytestmark = pytest.mark.jit_only  # no kernels of its own

NDCG = parse_measure("ndcg@10")
RANGES = {
    "learning_rate": {"low": 0.01, "high": 0.5, "log": True},
    "max_leaves": {"low": 2, "high": 9, "int": True},
}


def experiment_of(algorithm, **changes):
    """One tuned algorithm on one split."""
    own = {"name": "tuned", "kind": "GBRT", "n_trees": 3, "min_leaf": 2, **algorithm}
    data = {"generate": {"queries": 24, "docs": 8, "features": 6}, "split": [0.5, 0.25, 0.25]}
    return tables(
        **{
            "data": data,
            "run": {"repetitions": 1},
            "measures": {"also": []},
            "algorithm": [own],
            **changes,
        }
    )


def tables_without_folds(config):
    del config["data"]["folds"]
    return config


def run(config, folder):
    return rw.run_experiment(tables_without_folds(config), out=folder)


# Searches.


def drawn(tuned, n_draws, seed=0):
    search = RandomSearch(tuned, seed)
    found = [search.propose() for _ in range(n_draws)]
    return [candidate for candidate in found if candidate is not None]


def test_random_search_draws_what_the_file_declares():
    tuned = {
        "even": {"low": -1.0, "high": 3.0},
        "log": {"low": 1e-4, "high": 1.0, "log": True},
        "whole": {"low": 2, "high": 5},
        "whole_log": {"low": 1, "high": 100, "log": True},
        "not_whole": {"low": 2, "high": 5, "int": False},
        "step": {"low": 0.1, "high": 0.4, "step": 0.1},
        "listed": ["a", None, [1, 2]],
    }
    found = drawn(tuned, 400)
    columns = {name: [candidate[name] for candidate in found] for name in tuned}
    assert all(-1 <= value <= 3 for value in columns["even"])
    assert np.mean(columns["even"]) == pytest.approx(1.0, abs=4 * 4 / math.sqrt(12 * 400))
    decades = Counter(math.floor(math.log10(value)) for value in columns["log"])
    assert set(decades) == {-4, -3, -2, -1}
    assert min(decades.values()) > 60  # 100 of each are expected, with a deviation of 9
    assert set(columns["whole"]) == {2, 3, 4, 5}
    assert all(type(value) is int for value in columns["whole"] + columns["whole_log"])
    assert min(columns["whole_log"]) == 1
    assert np.median(columns["whole_log"]) == pytest.approx(10, abs=4)
    assert all(type(value) is float for value in columns["not_whole"])
    assert {round(value, 9) for value in columns["step"]} == {0.1, 0.2, 0.3, 0.4}
    assert {str(value) for value in columns["listed"]} == {"a", "None", "[1, 2]"}


def test_random_search_repeats_nothing_and_ends_with_the_last():
    tuned = {"x": [1, 2, 3], "y": ["a", "b"]}
    found = drawn(tuned, 20)
    assert len(found) == 6
    assert len({json.dumps(one) for one in found}) == 6
    assert found == drawn(tuned, 20)
    assert found != drawn(tuned, 20, seed=1)


def test_optuna_asked_and_told_is_optuna_optimising():
    """So that trials can be replayed after a kill, and a seed gives what earlier versions gave."""
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=5))
    expected = []

    def value_of(x, y):
        return -((math.log(x) + 3) ** 2) - y

    def objective(trial):
        values = {
            "x": trial.suggest_float("x", 0.01, 1.0, log=True),
            "y": trial.suggest_int("y", 0, 4),
        }
        expected.append(values)
        return value_of(**values)

    study.optimize(objective, n_trials=25, n_jobs=1)
    tuned = {"x": {"low": 0.01, "high": 1.0, "log": True}, "y": {"low": 0, "high": 4}}
    search, found = OptunaSearch(optuna, tuned, False, 5), []
    for _ in range(25):
        found.append(search.propose())
        search.learn(value_of(**found[-1]))
    assert found == expected
    shares = search.importance()
    assert sum(shares.values()) == pytest.approx(1.0)
    assert set(shares) == {"x", "y"}


def searched(method, judge, **budget):
    algorithm = Algorithm(
        "a", "GBRT", {}, {"x": {"low": 0.0, "high": 1.0}}, method, **{"tune_trials": None, **budget}
    )
    kept = budget.pop("kept", ())
    return tune_cell(algorithm, judge, NDCG, seeds=(1, 2), kept=kept)


def test_budgets_in_trials_and_in_time():
    assert len(searched("random", lambda c: Judged(c["x"]), tune_trials=7).trials) == 7

    def slow(candidate):
        time.sleep(0.02)
        return Judged(candidate["x"])

    n_trials = len(searched("random", slow, tune_time=0.1).trials)
    assert 1 <= n_trials <= 5  # sleeping may take longer, never less
    assert len(searched("random", slow, tune_time=1e-9).trials) == 1
    assert len(searched("random", slow, tune_time=1e9, tune_trials=2).trials) == 2


def test_the_time_of_kept_trials_counts():
    algorithm = Algorithm("a", "GBRT", {}, {"x": [1, 2, 3]}, "random", None, tune_time=10.0)
    first = tune_cell(algorithm, lambda c: Judged(float(c["x"])), NDCG, seeds=(1, 2))
    assert len(first.trials) == 3
    kept = [{**trial, "seconds": 6.0} for trial in first.trials]
    told = []
    again = tune_cell(
        algorithm, lambda _: Judged(0.0), NDCG, seeds=(1, 2), kept=kept, tell=told.append
    )
    assert again.trials == kept[:2]
    assert not told
    assert again.model is None


def test_the_best_is_kept_whatever_the_direction_and_the_first_of_equals():
    values = {1: 0.5, 2: math.nan, 3: 0.2, 4: 0.5}
    algorithm = Algorithm("a", "GBRT", {}, {"x": [2, 1, 3, 4]})

    def judge(candidate):
        return Judged(values[candidate["x"]], f"model {candidate['x']}")

    assert tune_cell(algorithm, judge, NDCG, seeds=(1, 2)).model == "model 1"
    lowest = tune_cell(algorithm, judge, parse_measure("rmse"), seeds=(1, 2))
    assert (lowest.best, lowest.value) == ({"x": 3}, 0.2)


def test_a_candidate_that_cannot_be_fitted_leaves_the_others():
    def judge(candidate):
        if candidate["x"] > 1:
            raise InputError(f"no {candidate['x']}")
        return Judged(0.5)

    choice = tune_cell(Algorithm("a", "GBRT", {}, {"x": [2, 1]}), judge, NDCG, seeds=(1, 2))
    assert choice.best == {"x": 1}
    assert choice.tried[0]["error"] == "no 2"
    with pytest.raises(InputError, match=r"no candidate could be fitted; the last one: no 3"):
        tune_cell(Algorithm("a", "GBRT", {}, {"x": [2, 3]}), judge, NDCG, seeds=(1, 2))


def test_all_cells_draw_the_same_candidates(tmp_path):
    config = tables(run={"repetitions": 2})
    config["algorithm"] = [
        {"kind": "RandomForest", "n_trees": 2, "tune_method": "random", "tune_trials": 3}
        | {"tune": {"features_per_node": {"low": 0.1, "high": 0.9}}}
    ]
    results = rw.run_experiment(config, out=tmp_path / "run")
    drawn_by_cell = {
        json.dumps([trial["parameters"] for trial in cell.tuned]) for cell in results.cells
    }
    assert len(results.cells) == 6
    assert len(drawn_by_cell) == 1
    for cell in results.cells:
        best = max(cell.tuned, key=lambda trial: trial["value"])
        assert cell.chosen == best["parameters"]
        assert cell.parameters["features_per_node"] == best["parameters"]["features_per_node"]


# Inner folds, and the model in the end.


def parts_of(config):
    data = config["data"]
    made = rw.make_ranking(24, 8, 6)
    return rw.split_queries(made, data["split"], seed=0)


def test_nested_cross_validation_by_hand(tmp_path):
    """Each inner fold is ranked by a forest of the others; the test part has no say."""
    own = {"kind": "RandomForest", "tune": {"max_leaves": [2, 6]}, "tune_folds": 3}
    config = experiment_of(own)
    train, vali, test = parts_of(config)
    cell = run(config, tmp_path / "run").cells[0]
    seed = cell.parameters["seed"]
    inner = OnFolds(train, NDCG, n_folds=3, seed=seed, n_threads=1)
    queries = {(int(q), int(f)) for q, f in zip(train.query_of_row, inner.fold_of_row, strict=True)}
    assert len(queries) == train.n_queries == 12  # none is cut in two
    assert Counter(fold for _, fold in queries) == {0: 4, 1: 4, 2: 4}
    for trial in cell.tuned:
        scores, by_fold = np.empty(train.n_documents), []
        for fold in range(3):
            rows = inner.fold_of_row == fold
            forest = rw.RandomForest(3, min_leaf=2, seed=seed, **trial["parameters"])
            forest.fit(train.take_rows(~rows))
            scores[rows] = forest.predict(train.take_rows(rows))
            by_fold.append(mean_value(NDCG, scores[rows], train.take_rows(rows)))
        assert trial["value"] == mean_value(NDCG, scores, train)
        assert trial["folds"] == by_fold
    model = rw.RandomForest(3, min_leaf=2, seed=seed, **cell.chosen).fit(train, valid=vali)
    assert cell.means["ndcg@10"] == mean_value(NDCG, model.predict(test), test)


def test_inner_folds_of_train_and_validation_queries(tmp_path):
    own = {"kind": "RandomForest", "tune": {"max_leaves": [2, 6]}, "tune_folds": 3}
    of_train = run(experiment_of(own), tmp_path / "train").cells[0]
    of_both = run(experiment_of({**own, "tune_on": "train+valid"}), tmp_path / "both").cells[0]
    assert of_train.tuned != of_both.tuned
    assert of_train.parameters == {**of_both.parameters, **of_train.chosen}


def test_the_chosen_model_fitted_to_train_and_validation_queries(tmp_path):
    own = {"kind": "GBRT", "n_trees": 12, "early_stopping": 2, "tune": {"max_leaves": [2, 4]}}
    config = experiment_of({**own, "tune_refit": "train+valid"})
    train, vali, test = parts_of(config)
    results = run(config, tmp_path / "run")
    cell = results.cells[0]
    parameters = {"min_leaf": 2, "early_stopping": 2, "seed": cell.parameters["seed"]}
    stopped = rw.GBRT(12, **parameters, **cell.chosen).fit(train, valid=vali)
    again = rw.refit(stopped, train, vali)
    assert again.training_["queries"] == train.n_queries + vali.n_queries
    expected = rw.evaluate(again, test, "ndcg@10", n_bootstrap=0)["ndcg@10"].per_query
    assert np.array_equal(results.values("tuned", "ndcg@10"), expected)
    assert cell.parameters["n_trees"] == again.n_trees <= 12


def test_without_validation_queries_inner_folds_judge_and_stop(tmp_path):
    own = {"n_trees": 10, "early_stopping": 2, "tune": {"max_leaves": [2, 4]}, "tune_folds": 2}
    config = experiment_of(own)
    config["data"]["split"] = [0.75, 0.25]
    results = run(config, tmp_path / "run")
    cell = results.cells[0]
    assert cell.status == "done", cell.message
    assert len(cell.tuned) == 2
    assert (
        cell.parameters["early_stopping"] is None
    )  # its rounds were found, and it was fitted again


class Weighing(BaseEstimator):
    """An estimator of another library: it knows ``fit``, ``predict`` and ``get_params`` only."""

    def __init__(self, share=0.5):
        self.share = share

    def fit(self, data, valid=None):  # noqa: ARG002 - it cannot use them
        self.fitted_to_ = data.n_queries
        return self

    def predict(self, data):
        return self.share * data.features[:, 0] + (1 - self.share) * data.features[:, 1]


def test_estimators_of_other_libraries_are_judged_on_folds():
    data = rw.make_ranking(12, 6, 4)
    judge = on_folds(lambda c: Weighing(**c), OnFolds(data, NDCG, n_folds=3, seed=0, n_threads=1))
    for share in (0.1, 0.9):
        expected = mean_value(NDCG, Weighing(share).predict(data), data)
        assert judge({"share": share}).value == expected


def test_a_single_query_cannot_be_cut(tmp_path):
    config = experiment_of({"tune": {"max_leaves": [2, 3]}, "tune_folds": 2})
    config["data"]["sample"] = [1, 6, 6]
    cell = run(config, tmp_path / "run").cells[0]
    assert "tune_folds needs at least two queries to cut, and there are 1" in cell.error


# Trials are kept.

METHODS = {
    "grid": {"tune": {"max_leaves": [2, 3, 4], "learning_rate": [0.1, 0.3]}},
    "random": {"tune_method": "random", "tune_trials": 6, "tune": RANGES},
    "optuna": {"tune_method": "optuna", "tune_trials": 6, "tune": RANGES},
    "folds": {"tune_method": "random", "tune_trials": 6, "tune": RANGES, "tune_folds": 2},
}


def stop_after(n_trials, monkeypatch):
    """Press Ctrl-C when so many trials were kept."""
    keep = RunFolder.keep_trial

    def keep_some(folder, task, trial):
        keep(folder, task, trial)
        if trial["number"] == n_trials - 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "keep_trial", keep_some)


def count_trials(monkeypatch):
    told = []
    keep = RunFolder.keep_trial

    def note(folder, task, trial):
        told.append(trial["number"])
        keep(folder, task, trial)

    monkeypatch.setattr(RunFolder, "keep_trial", note)
    return told


@pytest.mark.parametrize("method", METHODS)
def test_a_stopped_tuning_goes_on_after_its_trials(tmp_path, monkeypatch, method):
    if method == "optuna":
        pytest.importorskip("optuna")
    config = tables_without_folds(experiment_of(METHODS[method]))
    whole = rw.run_experiment(config, out=tmp_path / "whole")
    assert len(whole.cells[0].tuned) == 6
    for n_trials in (1, 4):
        with monkeypatch.context() as patch:
            stop_after(n_trials, patch)
            with pytest.raises(KeyboardInterrupt):
                rw.run_experiment(config, out=tmp_path / "run")
    plan = make_plan(read_experiment(config), out=tmp_path / "run")
    assert [trial["number"] for trial in plan.tasks[0].trials] == [0, 1, 2, 3]
    assert tuning_fits(plan.tasks[0]) == {"folds": 2 * 4}.get(method, 2)
    told = count_trials(monkeypatch)
    rw.run_experiment(config, out=tmp_path / "run")
    assert told == [4, 5]
    assert same(contents(tmp_path / "run"), contents(tmp_path / "whole"))
    assert not list((tmp_path / "run" / "trials").iterdir())


def test_trials_of_other_settings_and_torn_files_are_not_used(tmp_path, monkeypatch):
    config = tables_without_folds(experiment_of(METHODS["grid"]))
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            rw.run_experiment(config, out=tmp_path / "run")

    def kept(changed):
        plan = make_plan(read_experiment(changed), out=tmp_path / "run")
        return len(plan.tasks[0].trials)

    assert kept(config) == 2
    other = json.loads(json.dumps(config))
    other["algorithm"][0]["n_trees"] = 4
    assert kept(other) == 0
    (path,) = (tmp_path / "run" / "trials").iterdir()
    whole = path.read_text()
    for text in (whole[:-20], "[]", "3", "", whole.replace(rw.__version__, "0.0.0")):
        path.write_text(text)
        assert kept(config) == 0


def test_a_failed_trial_is_kept_too(tmp_path, monkeypatch):
    """JSON has no NaN: the value comes back as one."""
    config = tables_without_folds(experiment_of({"tune": {"max_leaves": [2, 3, 4]}}))
    build = cells.build

    def refuse_two(kind, parameters):
        if parameters.get("max_leaves") == 2:
            raise InputError("two are too few")
        return build(kind, parameters)

    monkeypatch.setattr(cells, "build", refuse_two)
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            rw.run_experiment(config, out=tmp_path / "run")
    cell = rw.run_experiment(config, out=tmp_path / "run").cells[0]
    assert [trial.get("error") for trial in cell.tuned] == ["two are too few", None, None]
    assert cell.chosen["max_leaves"] > 2


# The file.

TIMED_GRID = {"tune_method": "grid", "tune_time": "1m", "tune": {"max_leaves": [2, 3]}}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"tune_time": "1x"}, r"tune_time: it must be a number of seconds above 0.*got '1x'"),
        ({"tune_time": 0}, r"tune_time: it must be a number of seconds"),
        ({"tune_trials": 0}, r"tune_trials: must be a whole number of at least 1"),
        ({"tune_folds": 1}, r"tune_folds: must be a whole number of at least 2"),
        ({"tune_on": "train"}, r"tune_on: says what is cut .* give tune_folds = 5 too"),
        ({"tune_on": "test", "tune_folds": 2}, r"tune_on: must be one of train, train\+valid"),
        ({"tune_refit": "all"}, r"tune_refit: must be one of train, train\+valid, got 'all'"),
        ({"tune_method": "randm"}, r"tune_method: .*Did you mean 'random'"),
        (TIMED_GRID, r"tune_time: goes with .*a grid tries all"),
        ({"tune": {"max_leaves": {"low": 2.5, "high": 4, "int": True}}}, r"must be whole numbers"),
        ({"tune": {"max_leaves": {"low": 2, "high": 4, "int": 1}}}, r"log and int true or false"),
        ({"tune": {"max_leaves": {"low": 4, "high": 4}}}, r"low must be less than high, got 4"),
        ({"tune": {"max_leaves": {"low": 2}}}, r"a range needs low and high; high must be"),
        ({"tune": {"l2": {"low": 0.0, "high": 1.0, "log": True}}}, r"low must be above 0"),
        ({"tune": {}}, r"tune_method: says how to tune, but there is no tune"),
    ],
)
def test_mistakes_are_named_with_their_key(own, message):
    config = experiment_of({"tune_method": "random", "tune": RANGES, **own})
    with pytest.raises(ParameterError, match=message):
        read_experiment(tables_without_folds(config))


def test_what_does_not_go_together():
    config = tables_without_folds(experiment_of({"tune": {"max_leaves": [2, 3]}}))
    config["data"]["split"] = [0.75, 0.25]
    with pytest.raises(ParameterError, match=r"tune: needs validation queries.*tune_folds = 5"):
        read_experiment(config)
    config["algorithm"][0] |= {"tune_folds": 2, "tune_refit": "train+valid"}
    with pytest.raises(ParameterError, match=r"tune_refit: .*\[data\] has no validation queries"):
        read_experiment(config)
    config["data"] |= {"split": [0.5, 0.25, 0.25], "measure_on": "valid"}
    with pytest.raises(ParameterError, match=r"tune_refit: trains on the validation queries"):
        read_experiment(config)


def test_small_trials_have_small_budgets():
    own = {"tune_method": "random", "tune_time": "2h", "tune": RANGES, "tune_folds": 10}
    algorithm = read_experiment(experiment_of(own), small=True).algorithms[0]
    assert (algorithm.tune_time, algorithm.tune_trials, algorithm.tune_folds) == (None, 2, 2)


# Importance and the report.


def test_importance_is_the_epsilon_squared_of_an_analysis_of_variance():
    generator = np.random.default_rng(3)
    trials = []
    for x in range(4):
        for y in range(6):
            value = 0.1 * x + 0.02 * generator.normal()
            trials.append({"parameters": {"x": x, "y": "abcdef"[y]}, "value": value})
    shares = importance_of([trials])
    for name in ("x", "y"):
        groups = {}
        for trial in trials:
            groups.setdefault(trial["parameters"][name], []).append(trial["value"])
        f_value = stats.f_oneway(*groups.values()).statistic
        between = len(groups) - 1
        within = len(trials) - len(groups)
        epsilon = (f_value - 1) * between / (f_value * between + within)
        assert shares[name] == pytest.approx(max(0.0, epsilon))
    assert shares["x"] > 0.9
    assert shares["y"] < 0.1


def test_importance_of_ranges_and_of_several_cells():
    """Cells differ in their level, which is no matter of the parameters."""
    generator = np.random.default_rng(4)
    cells_of = []
    for level in (0.0, 100.0):
        found = []
        for x in generator.uniform(size=60).tolist():
            found.append({"parameters": {"x": x, "noise": generator.random()}, "value": level + x})
        cells_of.append(found)
    shares = importance_of(cells_of)
    assert shares["x"] > 0.8
    assert shares["noise"] < 0.1


@pytest.mark.parametrize("values", [[], [None, None], [0.5], [0.5, 0.5, 0.5], [math.nan, 0.1]])
def test_importance_of_nothing_is_unknown(values):
    trials = [
        {"parameters": {"x": number % 2}, "value": value} for number, value in enumerate(values)
    ]
    assert all(math.isnan(share) for share in importance_of([trials, []]).values())


def test_the_report_shows_candidates_and_importance(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    monkeypatch.setattr("rankwood.experiments.report.tables._MOST_CANDIDATES", 4)
    config = tables(run={"repetitions": 1})
    shared = {"kind": "GBRT", "n_trees": 2, "min_leaf": 2, "tune": RANGES, "tune_trials": 6}
    config["algorithm"] = [
        {**shared, "name": "drawn", "tune_method": "random"}
        | {"n_trees": 1, "early_stopping": "none", "tune_folds": 2},
        {**shared, "name": "searched", "tune_method": "optuna", "tune_trials": 4},
    ]
    results = rw.run_experiment(config, out=tmp_path / "run")
    page = rw.write_report(results, tmp_path / "report", formats=["html", "md", "csv"]).read_text()
    assert "Candidates of the tuning" in page
    assert "drawn on 2 inner folds of the training queries" in page
    assert "10 candidates more in tuning.csv" in page  # 2 of random search, 3 × 4 - 4 of Optuna's
    assert "Importance of the tuned parameters" in page
    assert "fANOVA" in page
    lines = (tmp_path / "report" / "tables" / "tuning.csv").read_text().splitlines()
    rows = list(csv.DictReader(lines))
    assert len(rows) == 3 * (6 + 4)
    assert sum(row["chosen"] == "1" for row in rows) >= 6
    first = results.cells[0]
    assert float(rows[0]["ndcg@10"]) == first.tuned[0]["value"]
    assert float(rows[0]["learning_rate"]) == first.tuned[0]["parameters"]["learning_rate"]
    assert "Importance of the tuned parameters" in (tmp_path / "report" / "report.md").read_text()
    optuna_cells = [cell for cell in results.cells if cell.algorithm == "searched"]
    assert all(sum(cell.importance.values()) == pytest.approx(1.0) for cell in optuna_cells)


def test_lost_workers_are_in_the_report(tmp_path):
    results = run(experiment_of({"tune": {"max_leaves": [2, 3]}}), tmp_path / "run")
    results.record["lost_workers"] = ["a worker was lost: ended by SIGKILL"]
    page = rw.write_report(results, tmp_path / "page.html").read_text()
    assert "a worker was lost: ended by SIGKILL" in page
