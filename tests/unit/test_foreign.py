"""Systems of other libraries, features and given scores as algorithms of an experiment; runs for other programs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.data.scores import distinct_scores, judge_run, read_qrels, read_run, scores_of_run
from rankwood.errors import DataError, DataWarning, ParameterError, RunError
from rankwood.experiments import foreign
from rankwood.experiments.config import read_experiment
from rankwood.experiments.foreign import FOREIGN, FeatureRanker, LightGBMRanker, XGBoostRanker
from rankwood.experiments.runner import make_plan
from rankwood.experiments.settings import Cell

pytestmark = pytest.mark.jit_only  # no kernels of its own

GENERATED = {"queries": 24, "docs": 8, "features": 6, "doc_ids": True}
FOREST = {"name": "RF", "kind": "RandomForest", "n_trees": 3, "max_leaves": 6}


def needs(package):
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed")


def tables(*algorithms, **changes):
    found = {
        "data": {"generate": GENERATED, "folds": 3},
        "run": {"seed": 1, "jobs": 0},
        "measures": {"primary": "ndcg@10", "also": ["map"]},
        "algorithm": list(algorithms),
    }
    for name, table in changes.items():
        found[name] = {**found.get(name, {}), **table}
    return found


def first_fold():
    return rw.make_folds(rw.make_ranking(24, 8, 6, doc_ids=True), 3, seed=0)[0]


def cell_of(results, algorithm, fold="Fold1", repetition=1):
    wanted = (algorithm, fold, repetition)
    return next(c for c in results.cells if (c.algorithm, c.fold, c.repetition) == wanted)


def values_of_first_fold(results, algorithm):
    in_fold = [fold == "Fold1" for fold, _ in results.queries]
    return results.values(algorithm, "ndcg@10")[in_fold]


def expected_values(scores, test):
    return rw.evaluate(np.asarray(scores, float), test, "ndcg@10")["ndcg@10"].per_query


# Libraries: a cell gives what a call of the library gives.


@needs("lightgbm")
def test_a_cell_of_lightgbm_is_a_call_of_lightgbm(tmp_path):
    import lightgbm

    params = {"num_leaves": 4, "min_data_in_leaf": 2, "num_iterations": 15}
    algorithm = {"name": "LGB", "kind": "lightgbm", "early_stopping": 5, "params": params}
    results = rw.run_experiment(tables(FOREST, algorithm), out=tmp_path / "run")
    train, vali, test = first_fold()
    rows, held_out = (
        lightgbm.Dataset(part.features, part.labels, group=np.diff(part.query_offsets))
        for part in (train, vali)
    )
    settings = {**params, "objective": "lambdarank", "metric": "ndcg", "eval_at": 10}
    settings |= {"verbosity": -1, "num_threads": 1, "deterministic": True, "force_row_wise": True}
    stop = lightgbm.early_stopping(5, verbose=False)
    model = lightgbm.train(settings, rows, valid_sets=[held_out], callbacks=[stop])
    expected = expected_values(model.predict(test.features), test)
    assert np.array_equal(values_of_first_fold(results, "LGB"), expected)
    cell = cell_of(results, "LGB")
    (values,) = cell.history.values()
    assert np.argmax(values) + 1 == model.best_iteration
    assert cell.parameters["params"]["num_leaves"] == 4
    assert results.record["versions"]["lightgbm"] == lightgbm.__version__


@needs("xgboost")
def test_a_cell_of_xgboost_is_a_call_of_xgboost(tmp_path):
    import xgboost

    algorithm = {
        "name": "XGB",
        "kind": "xgboost",
        "early_stopping": 3,
        "params": {"max_depth": 2, "n_estimators": 12, "subsample": 0.7},
    }
    results = rw.run_experiment(tables(FOREST, algorithm), out=tmp_path / "run")
    train, vali, test = first_fold()
    experiment = read_experiment(tables(FOREST, algorithm))
    model = xgboost.XGBRanker(
        objective="rank:ndcg",
        eval_metric="ndcg@10",
        early_stopping_rounds=3,
        n_jobs=1,
        random_state=experiment.seed_of(Cell("XGB", "Fold1", 1)),
        **algorithm["params"],
    )
    parts = {"eval_set": [(vali.features, vali.labels)], "eval_qid": [vali.query_of_row]}
    model.fit(train.features, train.labels, qid=train.query_of_row, verbose=False, **parts)
    expected = expected_values(model.predict(test.features), test)
    assert np.array_equal(values_of_first_fold(results, "XGB"), expected)
    assert results.record["versions"]["xgboost"] == xgboost.__version__


def test_a_cell_of_scikit_learn_is_a_fit_with_the_seed_of_the_cell(tmp_path):
    from sklearn.ensemble import ExtraTreesRegressor

    algorithm = {
        "name": "ET",
        "kind": "sklearn",
        "estimator": "ExtraTreesRegressor",
        "params": {"n_estimators": 4, "max_depth": 3},
    }
    given = tables(FOREST, algorithm, run={"repetitions": 2})
    results = rw.run_experiment(given, out=tmp_path / "run")
    train, _, test = first_fold()
    seed = read_experiment(given).seed_of(Cell("ET", "Fold1", 2))
    model = ExtraTreesRegressor(4, max_depth=3, random_state=seed).fit(train.features, train.labels)
    in_fold = [fold == "Fold1" for fold, _ in results.queries]
    found = results.values_by_repetition["ET", "ndcg@10"][:, in_fold]
    assert np.array_equal(found[1], expected_values(model.predict(test.features), test))
    assert not np.array_equal(found[0], found[1])
    assert cell_of(results, "ET", repetition=2).parameters["seed"] == seed


@needs("lightgbm")
@needs("xgboost")
@pytest.mark.parametrize("ranker", [LightGBMRanker, XGBoostRanker])
def test_rows_of_a_query_may_stand_apart_and_have_weights(ranker):
    train, _, test = first_fold()
    weights = np.linspace(0.5, 2.0, train.n_queries)
    weighted = rw.RankingData(train.features, train.labels, train.query_ids, query_weights=weights)
    number_in_query = np.concatenate([np.arange(size) for size in np.diff(train.query_offsets)])
    order = np.argsort(number_in_query, kind="stable")  # the first of each query, the second, …
    apart = weighted.take_rows(order)
    assert apart.grouping.n_separated > 0
    params = {"max_depth": 3, "num_boost_round": 5, "learning_rate": 0.3}
    params |= {"min_data_in_leaf": 2} if ranker is LightGBMRanker else {}
    plain, one, other = (
        ranker(params, n_threads=1).fit(data).predict(test) for data in (train, weighted, apart)
    )
    assert np.array_equal(one, other)
    assert not np.allclose(plain, one)


@needs("lightgbm")
def test_lightgbm_gives_the_same_for_any_number_of_threads():
    train, vali, test = (rw.make_ranking(60, 30, 12, seed=seed) for seed in range(3))
    params = {"num_iterations": 10, "bagging_fraction": 0.8, "bagging_freq": 1}
    one, two = (
        LightGBMRanker(params, seed=3, n_threads=n).fit(train, vali).predict(test) for n in (1, 2)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(
        one, LightGBMRanker(params, seed=4, n_threads=1).fit(train).predict(test)
    )


@needs("xgboost")
def test_weights_that_xgboost_does_not_take_are_refused():
    train = first_fold().train
    weighted = rw.RankingData(
        train.features, train.labels, train.query_ids, row_weights=np.ones(train.n_documents)
    )
    with pytest.raises(DataError, match="take weights of queries only"):
        XGBoostRanker(n_threads=1).fit(weighted)
    params = {"objective": "reg:squarederror", "num_boost_round": 2}
    XGBoostRanker(params, n_threads=1).fit(weighted)


@needs("lightgbm")
def test_parameters_of_a_library_are_tuned(tmp_path):
    algorithm = {
        "name": "tuned",
        "kind": "lightgbm",
        "params": {"num_iterations": 3, "min_data_in_leaf": 2},
        "tune": {"params": {"num_leaves": [2, 6]}},
    }
    results = rw.run_experiment(tables(algorithm), out=tmp_path / "run")
    cell = cell_of(results, "tuned")
    assert len(cell.tuned) == 2
    assert cell.parameters["params"]["num_leaves"] == cell.chosen["params.num_leaves"]
    assert cell.parameters["params"]["num_iterations"] == 3


def test_another_version_of_a_package_is_told(tmp_path, monkeypatch):
    given = tables({"name": "ridge", "kind": "sklearn", "estimator": "Ridge"})
    rw.run_experiment(given, out=tmp_path / "run")
    assert make_plan(read_experiment(given), out=tmp_path / "run").other_versions == ()
    import sklearn

    before = sklearn.__version__
    monkeypatch.setattr(sklearn, "__version__", "99.0")
    plan = make_plan(read_experiment(given), out=tmp_path / "run")
    assert not plan.tasks
    assert plan.other_versions == (f"sklearn {before}",)


# A feature.


@pytest.mark.parametrize(
    ("given", "column", "sign"),
    [
        ({"feature": 2}, 1, 1),
        ({"feature": "bm25_title"}, None, 1),
        ({"feature": 2, "order": "ascending"}, 1, -1),
    ],
)
def test_a_feature_is_a_ranking(tmp_path, given, column, sign):
    results = rw.run_experiment(
        tables({"name": "one", "kind": "feature", **given}), out=tmp_path / "run"
    )
    test = first_fold().test
    column = test.names.index(given["feature"]) if column is None else column
    expected = expected_values(sign * test.features[:, column], test)
    assert np.array_equal(values_of_first_fold(results, "one"), expected)


def test_the_best_feature_is_that_of_the_training_part(tmp_path):
    given = tables({"name": "best", "kind": "feature"}, measures={"primary": "map", "also": []})
    results = rw.run_experiment(given, out=tmp_path / "run")
    train = first_fold().train
    means = {
        (train.names[column], order): rw.evaluate(sign * train.features[:, column], train, "map")[
            "map"
        ].value
        for column in range(train.n_features)
        for order, sign in (("descending", 1), ("ascending", -1))
    }
    chosen = cell_of(results, "best").chosen
    assert (chosen["feature"], chosen["order"]) == max(means, key=means.get)
    assert cell_of(results, "best").parameters == chosen


def test_documents_without_the_feature_come_last():
    data = rw.RankingData([[np.nan], [-3.0], [2.0]], [0, 1, 2], [1, 1, 1])
    for order in ("ascending", "descending"):
        scores = FeatureRanker(1, order).fit(data).predict(data)
        assert np.argmin(scores) == 0
        assert np.isfinite(scores).all()


# Scores from elsewhere.


def run_lines(data, scores, tag="x"):
    ids = zip(data.query_ids.tolist(), data.doc_ids.tolist(), scores.tolist(), strict=True)
    return "".join(f"{query} Q0 {doc} 0 {score!r} {tag}\n" for query, doc, score in ids)


@pytest.fixture
def score_files(tmp_path, monkeypatch):
    """The first feature of the test parts: plain numbers for each fold, and one run of all folds."""
    monkeypatch.chdir(tmp_path)
    folds = rw.make_folds(rw.make_ranking(24, 8, 6, doc_ids=True), 3, seed=0)
    text = ""
    for name, fold in zip(folds.names, folds, strict=True):
        scores = fold.test.features[:, 0].astype(float)
        np.savetxt(f"scores-{name}.txt", scores, fmt="%.17g")
        text += run_lines(fold.test, scores)
    Path("all.run").write_text(text)
    return text


SCORES = {"name": "numbers", "kind": "scores", "path": "scores-{fold}.txt"}
RUN = {"name": "run", "kind": "scores", "path": "all.run"}


def test_scores_of_files_and_of_a_run_are_those_of_the_feature(score_files):
    feature = {"name": "feature", "kind": "feature", "feature": 1}
    results = rw.run_experiment(tables(feature, SCORES, RUN), out="run")
    for name in ("numbers", "run"):
        assert np.array_equal(results.values(name, "ndcg@10"), results.values("feature", "ndcg@10"))


def test_what_a_run_lacks_counts_as_missed(score_files):
    lines = score_files.splitlines(keepends=True)
    Path("all.run").write_text("".join(lines[::2]))
    results = rw.run_experiment(tables(SCORES, RUN), out="run")
    cell = cell_of(results, "run")
    assert any("count as not retrieved" in text for text in cell.warnings)
    test = first_fold().test
    labels = zip(test.query_ids.tolist(), test.doc_ids.tolist(), test.labels.tolist(), strict=True)
    Path("qrels.txt").write_text("".join(f"{q} 0 {d} {int(label)}\n" for q, d, label in labels))
    judged = judge_run(read_run("all.run"), read_qrels("qrels.txt"), complete=True)
    expected = rw.evaluate(judged.scores, judged.data, "ndcg@10", retrieved=judged.retrieved)
    by_query = dict(zip(judged.data.queries.tolist(), expected["ndcg@10"].per_query, strict=True))
    found = values_of_first_fold(results, "run")
    assert found == pytest.approx([by_query[str(query)] for query in test.queries], abs=1e-12)


def test_a_file_that_changed_is_read_again(score_files):
    given = tables(FOREST, SCORES)
    rw.run_experiment(given, out="run")
    assert not make_plan(read_experiment(given), out="run").tasks
    path = Path("scores-Fold2.txt")
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    plan = make_plan(read_experiment(given), out="run")
    assert [str(task.cell) for task in plan.tasks] == ["numbers, Fold2, repetition 1"]


def test_numbers_of_rows_stand_for_document_ids():
    data = rw.make_ranking(4, 5, 3)
    in_file = [str(row + 1) for row in range(data.n_documents)]
    in_query = [str(n + 1) for _, rows in data.iter_queries() for n in range(rows.size)]
    scores = data.features[:, 0].astype(float)
    from rankwood.data.scores import Run

    for ids in (in_file, in_query):
        queries = np.array([str(query) for query in data.query_ids.tolist()], object)
        assert np.array_equal(scores_of_run(Run(queries, np.array(ids), scores), data), scores)


# What is told before anything is fitted, and what a failing library says.


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ({"kind": "lightgb"}, "Did you mean 'lightgbm'"),
        ({"kind": "lightgbm", "num_leaves": 3}, "stands in params = { … }"),
        ({"kind": "lightgbm", "params": {"num_leavs": 3}}, "no parameter 'num_leavs'"),
        ({"kind": "lightgbm", "params": {"objective": "lambda"}}, "Unknown objective type name"),
        ({"kind": "lightgbm", "params": {"random_state": 3}}, "seeds follow from [run] seed"),
        ({"kind": "lightgbm", "params": {"n_jobs": 3}}, "threads are set by [run] threads"),
        ({"kind": "lightgbm", "params": 3}, "must be a table of the library's own parameters"),
        ({"kind": "lightgbm", "early_stopping": 0}, "whole number of at least 1, got 0"),
        ({"kind": "xgboost", "params": {"max_dpth": 3}}, "no parameter 'max_dpth'"),
        ({"kind": "xgboost", "params": {"objective": "rank:x"}}, "Unknown objective function"),
        ({"kind": "xgboost", "params": {"n_estimators": "x"}}, "whole number of at least 1"),
        ({"kind": "xgboost", "params": {"eta": -1}}, "learning_rate should be greater"),
        ({"kind": "sklearn"}, "such as 'ExtraTreesRegressor'"),
        ({"kind": "sklearn", "estimator": "RidgeX"}, "Did you mean 'Ridge'"),
        ({"kind": "sklearn", "estimator": "RidgeClassifier"}, "'RidgeClassifier' is not known"),
        ({"kind": "sklearn", "estimator": "Ridge", "params": {"alfa": 1}}, "Did you mean 'alpha'"),
        ({"kind": "sklearn", "estimator": "Ridge", "params": {"alpha": "x"}}, "Got 'x' instead"),
        ({"kind": "sklearn", "estimator": "StackingRegressor"}, "missing 1 required"),
        ({"kind": "feature", "feature": 0}, "whole number of at least 1, got 0"),
        ({"kind": "feature", "order": "up"}, "order 'up' is not known"),
        ({"kind": "scores"}, "path must name a file"),
        ({"kind": "scores", "path": "nowhere-{fold}.txt"}, "nowhere-Fold1.txt"),
        ({"kind": "scores", "path": "all.txt"}, "Write {fold} where their paths differ"),
        ({"kind": "OrdinalRanker", "base": {"kind": "lightgbm"}}, "'lightgbm' is no algorithm"),
        ({"kind": "lightgbm", "optional": "yes"}, "must be true or false"),
    ],
)
def test_mistakes_are_named(tmp_path, monkeypatch, algorithm, message):
    monkeypatch.chdir(tmp_path)
    Path("all.txt").write_text("1\n2\n")
    if algorithm["kind"] in ("lightgbm", "xgboost"):
        pytest.importorskip(algorithm["kind"])
    with pytest.raises(ParameterError, match=re.escape(message)):
        read_experiment(tables(FOREST, algorithm))


@pytest.fixture
def without_lightgbm(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(foreign, "is_installed", lambda name: name != "lightgbm" and find(name))


LIGHTGBM = {"name": "LGB", "kind": "lightgbm"}


@pytest.mark.usefixtures("without_lightgbm")
def test_a_missing_package_is_one_error_before_anything_is_fitted(tmp_path):
    with pytest.raises(ParameterError, match=r"number 2, kind: .*pip install lightgbm"):
        rw.run_experiment(tables(FOREST, LIGHTGBM), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("without_lightgbm")
def test_an_optional_algorithm_is_left_out_and_the_report_says_so(tmp_path):
    optional = {**LIGHTGBM, "optional": True}
    results = rw.run_experiment(tables(optional, FOREST), out=tmp_path / "run")
    assert results.algorithms == ["RF"]
    assert "pip install lightgbm" in results.record["left_out"]["LGB"]
    from rankwood.experiments.report import write_report

    page = write_report(results, tmp_path / "report", formats=["html", "md"])
    said = "Left out: LGB (the package 'lightgbm' is not installed)"
    assert said in (tmp_path / "report" / "report.md").read_text()
    assert said.replace("'", "&#x27;") in page.read_text() or said in page.read_text()
    with pytest.raises(ParameterError, match="'LGB' is left out: the package"):
        read_experiment(tables(optional, FOREST, compare={"baseline": "LGB"}))
    with pytest.raises(ParameterError, match="all are optional"):
        read_experiment(tables(optional))


def test_an_error_of_a_library_fails_its_cells_only(tmp_path):
    algorithm = {
        "name": "neighbours",
        "kind": "sklearn",
        "estimator": "KNeighborsRegressor",
        "params": {"n_neighbors": 10_000},
    }
    results = rw.run_experiment(tables(FOREST, algorithm), out=tmp_path / "run")
    assert cell_of(results, "RF").status == "done"
    failed = cell_of(results, "neighbours")
    assert failed.status == "failed"
    assert re.match(r"RunError: sklearn [\d.]+: ValueError: .*n_neighbors", failed.error)


@needs("xgboost")
def test_several_numbers_for_a_document_are_no_ranking():
    train, _, test = first_fold()
    params = {"objective": "multi:softprob", "num_class": 5, "num_boost_round": 1}
    with pytest.raises(RunError, match="a ranking needs one for each"):
        XGBoostRanker(params | {"eval_metric": "mlogloss"}, n_threads=1).fit(train).predict(test)


def test_small_trials_shrink_other_libraries_and_leave_given_scores_out():
    ranker = {"kind": "sklearn", "estimator": "ExtraTreesRegressor"}
    given = tables({**ranker, "params": {"n_estimators": 500}}, {"kind": "feature", "feature": 40})
    given["algorithm"].append(SCORES)
    experiment = read_experiment(given, small=True)
    trees, feature = experiment.algorithms
    assert trees.parameters["params"]["n_estimators"] == 4
    assert feature.parameters["feature"] == 12


def test_models_of_other_libraries_are_not_kept(tmp_path):
    algorithm = {"name": "ridge", "kind": "sklearn", "estimator": "Ridge"}
    given = tables(FOREST, algorithm, run={"keep_models": True, "fronts": True})
    results = rw.run_experiment(given, out=tmp_path / "run")
    assert {cell.status for cell in results.cells} == {"done"}
    assert {path.name[:2] for path in (tmp_path / "run" / "models").iterdir()} == {"RF"}


@pytest.mark.parametrize(
    ("kind", "parameters", "is_random"),
    [
        ("lightgbm", {}, False),
        ("lightgbm", {"params": {"num_leaves": 7, "num_iterations": 20}}, False),
        ("lightgbm", {"params": {"bagging_fraction": 0.5, "bagging_freq": 1}}, True),
        ("lightgbm", {"params": {"objective": "rank_xendcg"}}, True),
        ("xgboost", {}, False),
        ("xgboost", {"params": {"objective": "rank:ndcg", "max_depth": 4, "eta": 0.1}}, False),
        ("xgboost", {"params": {"subsample": 0.5}}, True),
        ("xgboost", {"params": {"lambdarank_pair_method": "mean"}}, True),
        ("sklearn", {"estimator": "ExtraTreesRegressor"}, True),
        ("sklearn", {"estimator": "KNeighborsRegressor"}, False),
        ("sklearn", {}, True),
        ("feature", {}, False),
        ("scores", {"path": "dense-{fold}.run"}, False),
        ("scores", {"path": "dense-{fold}-{repetition}.run"}, True),
    ],
)
def test_every_kind_says_whether_it_is_random(kind, parameters, is_random):
    assert FOREIGN[kind](**parameters).is_random == is_random


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("lightgbm", {"params": {"num_iterations": 5, "bin_construct_sample_cnt": 40}}),
        ("lightgbm", {"params": {"num_iterations": 5, "lambdarank_truncation_level": 3}}),
        ("xgboost", {"params": {"num_boost_round": 5}}),
        ("xgboost", {"params": {"num_boost_round": 5, "objective": "rank:pairwise"}}),
        ("sklearn", {"estimator": "KNeighborsRegressor"}),
    ],
)
def test_what_is_not_random_does_not_depend_on_the_seed(kind, parameters):
    train, test = rw.split_queries(rw.make_ranking(60, 8, 6, seed=1), (0.5, 0.5), seed=1)
    one, other = (
        FOREIGN[kind](**parameters).set_params(**seed).fit(train).predict(test)
        for seed in ({"seed": 1}, {"seed": 2})
    )
    assert (one == other).all()


def test_systems_that_are_not_random_run_once(tmp_path):
    algorithms = [
        {"kind": "lightgbm", "params": {"num_iterations": 3, "min_data_in_leaf": 1}},
        {"kind": "xgboost", "params": {"num_boost_round": 3, "subsample": 0.5}},
    ]
    results = rw.run_experiment(tables(*algorithms, run={"repetitions": 2}), out=tmp_path / "run")
    assert results.once == ("lightgbm",)
    assert {(cell.algorithm, cell.repetition) for cell in results.cells} == {
        ("lightgbm", 1),
        ("xgboost", 1),
        ("xgboost", 2),
    }


def test_the_best_feature_is_chosen_anew_for_another_primary_measure(tmp_path):
    given = tables(
        {"kind": "feature", "feature": "best"}, {"kind": "feature", "name": "first", "feature": 1}
    )
    rw.run_experiment(given, out=tmp_path / "run")
    changed = read_experiment({**given, "measures": {"primary": "p@5", "also": ["map"]}})
    plan = make_plan(changed, out=tmp_path / "run")
    assert {task.cell.algorithm for task in plan.tasks} == {"feature"}
    assert {cell.algorithm for cell in plan.lacking} == {"first"}


# Runs for other programs.


def test_distinct_scores_keep_the_ranking():
    rng = np.random.default_rng(1)
    queries = rng.integers(0, 20, 500)
    scores = rng.choice([0.0, 1e-9, 0.1, 0.1 + 1e-12, 3e38, 1e300, -7.0], 500)
    found = distinct_scores(queries, scores)
    assert found.dtype == np.float32
    for query in range(20):
        rows = np.flatnonzero(queries == query)
        expected = rows[np.argsort(-scores[rows], kind="stable")]
        assert np.array_equal(rows[np.argsort(-found[rows], kind="stable")], expected)
        assert np.unique(found[rows]).size == rows.size
    apart = np.array([2.0, 1.0])
    assert np.array_equal(distinct_scores(np.zeros(2), apart), apart)


def read_columns(path, column, kind):
    found: dict[str, dict] = {}
    for line in Path(path).read_text().splitlines():
        fields = line.split()
        found.setdefault(fields[0], {})[fields[2]] = kind(fields[column])
    return found


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run with many tied scores, and the folder that it was exported to."""
    folder = tmp_path_factory.mktemp("export")
    stump = {"name": "one tree", "kind": "RandomForest", "n_trees": 1, "max_leaves": 3}
    given = tables(stump, {"name": "f1", "kind": "feature", "feature": 1})
    given["measures"]["also"] = ["map", "mrr", "p@5", "ndcg@5[gain=linear]"]
    results = rw.run_experiment(given, out=folder / "run")
    paths = results.write_trec(folder / "trec")
    assert [path.name for path in paths] == ["qrels.txt", "one-tree.run", "f1.run"]
    return results, folder


SYSTEMS = {"one tree": "one-tree.run", "f1": "f1.run"}


def test_trec_eval_finds_our_values_in_what_a_run_exports(exported):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    results, folder = exported
    qrels = read_columns(folder / "trec" / "qrels.txt", 3, int)
    names = {"map": "map", "mrr": "recip_rank", "p@5": "P_5", "ndcg@5[gain=linear]": "ndcg_cut_5"}
    judge = pytrec_eval.RelevanceEvaluator(qrels, set(names.values()))
    for system, file in SYSTEMS.items():
        theirs = judge.evaluate(read_columns(folder / "trec" / file, 4, float))
        for ours, name in names.items():
            expected = [theirs[query][name] for _, query in results.queries]
            assert results.values(system, ours) == pytest.approx(expected, abs=1e-9), (system, ours)


@pytest.mark.filterwarnings("ignore")  # of ranx's kernels
@pytest.mark.slow  # ranx compiles
def test_ranx_finds_our_values_in_what_a_run_exports(exported):
    ranx = pytest.importorskip("ranx")
    results, folder = exported
    qrels = ranx.Qrels.from_file(str(folder / "trec" / "qrels.txt"), kind="trec")
    names = {"map": "map", "mrr": "mrr", "p@5": "precision@5", "ndcg@10": "ndcg_burges@10"}
    for system, file in SYSTEMS.items():
        run = ranx.Run.from_file(str(folder / "trec" / file), kind="trec")
        theirs = ranx.evaluate(qrels, run, list(names.values()))
        for ours, name in names.items():
            assert results.values(system, ours).mean() == pytest.approx(theirs[name], abs=1e-9)


def test_an_exported_run_is_an_algorithm_again(exported, tmp_path):
    results, folder = exported
    again = {"name": "again", "kind": "scores", "path": str(folder / "trec" / "one-tree.run")}
    found = rw.run_experiment(tables(again), out=tmp_path / "run")
    for measure in ("ndcg@10", "map"):
        assert np.array_equal(found.values("again", measure), results.values("one tree", measure))


@pytest.mark.parametrize("seeds", [(0, 0), (0, 1)])
def test_folds_with_the_same_query_ids_are_exported_apart_if_documents_differ(tmp_path, seeds):
    for fold, seed in zip(("Fold1", "Fold2"), seeds, strict=True):
        data = rw.make_ranking(9, 5, 3, doc_ids=True, seed=seed)
        (tmp_path / fold).mkdir()
        for part in ("train", "vali", "test"):
            rw.write_letor(data, tmp_path / fold / f"{part}.txt")
    given = tables({"kind": "feature", "feature": 1})
    given["data"] = {"folds": str(tmp_path), "on_overlap": "ignore"}
    results = rw.run_experiment(given, out=tmp_path / "run")
    paths = results.write_trec(tmp_path / "trec")
    names = [str(path.relative_to(tmp_path / "trec")) for path in paths]
    files = ["qrels.txt", "feature.run"]
    apart = [f"Fold{n}/{file}" for n in (1, 2) for file in files]
    assert names == (files if seeds == (0, 0) else apart)


def test_what_cannot_be_exported_is_refused(tmp_path):
    given = tables(FOREST, run={"keep_scores": False})
    without = rw.run_experiment(given, out=tmp_path / "run")
    with pytest.raises(DataError, match="keep_scores = true"):
        without.write_trec(tmp_path / "trec")
    labels = {
        "halves": ([0.5, 1.0], ["a", "b"], "qrels hold whole numbers, and there is a label 0.5"),
        "blanks": ([0.0, 1.0], ["a b", "b"], "the id 'a b' cannot stand in a TREC file"),
        "twice": ([0.0, 1.0], ["a", "a"], "document 'a' stands more than once in query"),
    }
    for name, (two, ids, message) in labels.items():
        data = rw.RankingData(
            np.arange(12.0)[:, np.newaxis], two * 6, np.repeat(np.arange(6), 2), doc_ids=ids * 6
        )
        rw.write_table(data, tmp_path / f"{name}.parquet")
        given = tables({"kind": "feature", "feature": 1})
        given["data"] = {"data": str(tmp_path / f"{name}.parquet"), "doc": "doc_id"}
        results = rw.run_experiment(given, out=tmp_path / name)
        with pytest.raises(DataError, match=message):
            results.write_trec(tmp_path / "trec")


def test_given_scores_warn_of_what_they_lack(score_files):
    ranker = foreign.ScoresRanker("all.run")
    ranker.place("Fold1", 1, rw.parse_measure("map"))
    Path("all.run").write_text("".join(score_files.splitlines(keepends=True)[1:]))
    with pytest.warns(DataWarning, match="lacks 1 of"):
        ranker.predict(first_fold().test)
