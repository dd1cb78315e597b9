"""``OrdinalRanker``: cumulative models, scoring functions, files."""

from __future__ import annotations

import pickle
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.models.forest import Forest
from rankwood.models.format import load_model, read_model, write_model
from rankwood.models.ordinal import OrdinalModel
from rankwood.rankers.ordinal import least_squares_worths
from rankwood.training import inputs
from tests.reference import ensembles as slow

BASES = {
    "RandomForest": lambda: rw.RandomForest(6, max_leaves=10),
    "ExtraTrees": lambda: rw.ExtraTrees(4, max_leaves=10),
    "CompletelyRandomForest": lambda: rw.CompletelyRandomForest(4, max_leaves=10),
    "GBRT": lambda: rw.GBRT(5, max_leaves=6, min_leaf=3),
    "AveragedGBRT": lambda: rw.AveragedGBRT(3, 2, max_leaves=6, min_leaf=3),
    "InitializedGBRT": lambda: rw.InitializedGBRT(
        3, max_leaves=6, min_leaf=3, forest_trees=5, forest_leaves=20
    ),
}
SCORINGS = {
    "expected": [0, 1, 2, 3, 4],
    "squared": [0, 1, 4, 9, 16],
    "exponential": [1, 2, 4, 8, 16],
}


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(25, 10, 8, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(10, 10, 8, seed=4)


def ordinal(base="RandomForest", **options):
    return rw.OrdinalRanker(BASES[base](), **options)


def cumulative_by_hand(base, data, other, grades):
    """T_c of each row of ``other``, each model fitted by itself."""
    columns = []
    for grade in grades[:-1]:
        part = rw.RankingData(data.features, (data.labels <= grade) * 1.0, data.query_ids)
        columns.append(BASES[base]().fit(part).predict(other))
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("scoring", SCORINGS)
@pytest.mark.parametrize("base", BASES)
def test_scores_equal_the_slow_twin_over_separate_models(base, scoring, clip, data, other):
    model = ordinal(base, scoring=scoring, clip=clip).fit(data)
    assert model.grades_.tolist() == [0, 1, 2, 3, 4]
    assert model.worths_.tolist() == SCORINGS[scoring]
    rows = cumulative_by_hand(base, data, other, model.grades_)
    np.testing.assert_allclose(model.cumulative(other), rows, rtol=1e-12, atol=1e-13)
    expected = [slow.ordinal_score(row, SCORINGS[scoring], clip) for row in rows]
    np.testing.assert_allclose(model.predict(other), expected, rtol=1e-11, atol=1e-11)


def test_expected_relevance_is_four_minus_the_sum(data, other):
    model = ordinal("GBRT").fit(data)
    assert model.weights_.tolist() == [-1, -1, -1, -1, 4]  # Mohan 2010, Eq. 3.6
    expected = 4 - model.cumulative(other).sum(axis=1)
    np.testing.assert_allclose(model.predict(other), expected, rtol=1e-12)


def test_the_score_is_one_forest(data, other):
    model = ordinal(scoring="exponential").fit(data)
    assert isinstance(model.forest_, Forest)
    assert model.forest_.n_trees == 4 * 6
    assert not model.forest_.average
    # F(c) - F(c + 1) over six trees each
    expected = np.repeat([-1, -2, -4, -8], 6) / 6
    np.testing.assert_allclose(model.forest_.tree_weights, expected, rtol=1e-15)
    assert model.predict(other).tobytes() == model.forest_.predict(other).tobytes()
    clipped = ordinal(clip=True).fit(data)
    with pytest.raises(ModelError, match=r"are no sum of trees.* Fit with clip=False"):
        _ = clipped.forest_


@pytest.mark.parametrize("clip", [False, True])
def test_probabilities_sum_to_one(clip, data, other):
    model = ordinal(clip=clip).fit(data)
    found = model.probabilities(other)
    assert found.shape == (other.n_documents, 5)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert (found.min() >= 0) == clip  # the models do not know of each other
    np.testing.assert_allclose(found @ model.worths_, model.predict(other), rtol=1e-9, atol=1e-12)
    assert np.array_equal(model.probabilities(rw.bin(other)), found)


@pytest.mark.parametrize("values", [(0, 1, 2, 3, 4), (0, 5, 10, 50, 100), (0.5, 0.7, 2, 3, 4)])
def test_label_values_are_taken_from_the_data(values, data, other):
    plain = ordinal().fit(data)
    labels = np.array(values, float)[data.labels.astype(int)]
    model = ordinal().fit(rw.RankingData(data.features, labels, data.query_ids))
    assert model.grades_.tolist() == list(values)
    # The same indicators [y ≤ c] give the same models, whatever the values are called.
    assert np.array_equal(model.cumulative(other), plain.cumulative(other))
    expected = plain.probabilities(other) @ np.array(values, float)
    np.testing.assert_allclose(model.predict(other), expected, rtol=1e-9, atol=1e-9)


def test_least_squares_equal_numpys_over_the_same_rows(data, other):
    base = rw.RandomForest(6, max_leaves=10)
    rows_of = {}
    columns = []
    for grade in range(4):
        part = rw.RankingData(data.features, (data.labels <= grade) * 1.0, data.query_ids)
        columns.append(clone(base).fit(part).oob_scores_)
    out_of_bag = np.stack(columns, axis=1)
    known = ~np.isnan(out_of_bag).any(axis=1)
    assert 0 < known.sum() < known.size  # six trees leave some rows without an estimate
    rows_of["train"] = (out_of_bag[known], data.labels[known])
    of_valid = ordinal().fit(data).cumulative(other)
    rows_of["valid"] = (of_valid, other.labels)
    rows_of["both"] = tuple(
        np.concatenate(pair) for pair in zip(rows_of["train"], rows_of["valid"], strict=True)
    )
    for fitted_on, (columns, labels) in rows_of.items():
        model = ordinal(scoring="least_squares", fitted_on=fitted_on).fit(data, valid=other)
        design = np.column_stack([columns, np.ones(len(columns))])
        expected, *_ = np.linalg.lstsq(design, labels, rcond=None)
        np.testing.assert_allclose(model.weights_, expected, rtol=1e-7, atol=1e-8)
        scores = of_valid @ expected[:-1] + expected[-1]
        np.testing.assert_allclose(model.predict(other), scores, rtol=1e-7, atol=1e-7)


def test_least_squares_weigh_rows(rng):
    cumulative, labels = rng.random((50, 3)), rng.random(50)
    weights = rng.integers(0, 4, 50).astype(float)
    repeated = np.repeat(np.arange(50), weights.astype(int))
    one = least_squares_worths([(cumulative, labels, weights)])
    other = least_squares_worths([(cumulative[repeated], labels[repeated], None)])
    np.testing.assert_allclose(one, other, rtol=1e-9)
    with pytest.raises(DataError, match="no row has an out-of-bag estimate"):
        least_squares_worths([(np.full((4, 2), np.nan), labels[:4], None)])


def test_out_of_bag_scores_are_those_of_the_models(data):
    model = ordinal().fit(data)
    columns = []
    for grade in range(4):
        part = rw.RankingData(data.features, (data.labels <= grade) * 1.0, data.query_ids)
        columns.append(rw.RandomForest(6, max_leaves=10).fit(part).oob_scores_)
    expected = 4 - np.sum(columns, axis=0)
    np.testing.assert_allclose(model.oob_scores_, expected, rtol=1e-12)
    known = ~np.isnan(expected)
    part = data.take_rows(known)
    ndcg = rw.evaluate(model.oob_scores_[known], part, "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert model.oob_ndcg_ == pytest.approx(ndcg)
    model.set_params(base=BASES["GBRT"]()).fit(data)
    assert model.oob_scores_ is None
    assert model.oob_ndcg_ is None


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("base", BASES)
def test_a_saved_model_comes_back(base, clip, data, other, tmp_path):
    model = ordinal(base, clip=clip, scoring="squared").fit(data)
    rw.save(model, tmp_path / "model")
    back = rw.load(tmp_path / "model")
    assert type(back.base).__name__ == base
    assert back.base.get_params() == model.base.get_params()
    assert (back.scoring, back.clip) == ("squared", clip)
    assert back.predict(other).tobytes() == model.predict(other).tobytes()
    assert back.probabilities(other).tobytes() == model.probabilities(other).tobytes()
    assert back.grades_.tolist() == model.grades_.tolist()
    assert back.n_features_in_ == 8
    assert np.array_equal(back.feature_importances_, model.feature_importances_)
    rw.save(back, tmp_path / "again")
    one, two = (read_model(tmp_path / name) for name in ("model", "again"))
    assert one.meta["parameters"] == two.meta["parameters"]
    assert all(np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(other), model.predict(other))
    assert np.array_equal(back.fit(data).predict(other), model.predict(other))


@pytest.mark.jit_only
def test_a_base_of_none_is_a_random_forest(data, other, tmp_path):
    small = data.take_queries(range(3))
    model = rw.OrdinalRanker().fit(small)
    expected = rw.OrdinalRanker(rw.RandomForest()).fit(small)
    assert np.array_equal(model.predict(other), expected.predict(other))
    rw.save(model, tmp_path / "model")
    assert rw.load(tmp_path / "model").base is None


def damaged(path, change):
    """The model file once more, after ``change`` of what it holds."""
    stored = read_model(path)
    change(stored)
    write_model(path, stored.kind, stored.meta, stored.arrays)


DAMAGES = {
    "no record": (lambda stored: stored.meta.pop("ordinal"), "must hold clip, trees"),
    "no grades": (
        lambda stored: stored.arrays.pop("ordinal.grades"),
        "array 'ordinal.grades' is missing",
    ),
    "unsorted grades": (
        lambda stored: stored.arrays.update({"ordinal.grades": np.array([0.0, 1, 1, 2, 3])}),
        "grades must be finite and ascend",
    ),
    "NaN worths": (
        lambda stored: stored.arrays.update({"ordinal.worths": np.full(5, np.nan)}),
        "worths must be 5 finite numbers for 5 grades",
    ),
    "too few starts": (
        lambda stored: stored.arrays.update({"ordinal.starts": np.zeros(3)}),
        "starts must be 4 finite numbers",
    ),
    "other counts": (
        lambda stored: stored.arrays.update({"ordinal.tree_counts": np.array([6, 6, 6, 7])}),
        r"tree_counts must sum to the number of trees \(24\)",
    ),
    "negative counts": (
        lambda stored: stored.arrays.update({"ordinal.tree_counts": np.array([-6, 18, 6, 6])}),
        "tree_counts must sum",
    ),
    "other dtype": (
        lambda stored: stored.arrays.update({"ordinal.starts": np.zeros(4, np.float32)}),
        "one dimension of float64",
    ),
    "a stranger": (
        lambda stored: stored.arrays.update({"extra": np.zeros(4)}),
        "array 'extra' does not belong",
    ),
    "averaged trees": (
        lambda stored: stored.meta["ordinal"]["trees"].update(average=True),
        "the trees must be summed",
    ),
    "clip as text": (
        lambda stored: stored.meta["ordinal"].update(clip="yes"),
        "clip must be True or False, got 'yes'",
    ),
    "another estimator": (
        lambda stored: stored.meta.update(estimator="GBRT", parameters={}),
        "another kind than GBRT: ordinal model",
    ),
    "an unknown base": (
        lambda stored: stored.meta["parameters"]["base"].update(estimator="os.system"),
        "holds a 'os.system', which this version does not know",
    ),
    "an unknown parameter": (
        lambda stored: stored.meta["parameters"]["base"]["parameters"].update(depth=3),
        "RandomForest has no parameter 'depth'",
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_file_is_refused(case, data, tmp_path):
    path = tmp_path / "model"
    rw.save(ordinal(clip=True).fit(data), path)
    change, message = DAMAGES[case]
    damaged(path, change)
    with pytest.raises(ModelError, match=message):
        rw.load(path)


def test_the_file_says_what_it_is(data, tmp_path):
    path = tmp_path / "model"
    rw.save(ordinal().fit(data), path)
    model, meta = load_model(path)
    assert isinstance(model, OrdinalModel)
    assert meta["parameters"]["base"]["estimator"] == "RandomForest"
    assert "ordinal" not in meta
    assert "arrays/ordinal.grades.npy" in zipfile.ZipFile(path).namelist()


def test_rows_are_binned_once(data, monkeypatch):
    calls = []
    fit_bins = inputs.fit_bins
    monkeypatch.setattr(
        inputs,
        "fit_bins",
        lambda *given, **options: calls.append(1) or fit_bins(*given, **options),
    )
    ordinal().fit(data)
    assert len(calls) == 1


def test_early_stopping_of_the_models(data, other):
    options = {"learning_rate": 0.5, "early_stopping": 3, "measure": "rmse", "min_leaf": 3}
    model = rw.OrdinalRanker(rw.GBRT(20, **options)).fit(data, valid=other)
    counts = model.ordinal_.tree_counts
    for grade in range(4):
        parts = [
            rw.RankingData(part.features, (part.labels <= grade) * 1.0, part.query_ids)
            for part in (data, other)
        ]
        alone = rw.GBRT(20, **options).fit(parts[0], valid=parts[1])
        assert counts[grade] == alone.best_iteration_
    again = rw.refit(model, data, other)
    assert again.base.n_trees == round(counts.mean())
    assert again.base.early_stopping is None
    assert set(again.ordinal_.tree_counts) == {round(counts.mean())}
    averaged = rw.AveragedGBRT(6, 2, **options)
    chosen = rw.refit(rw.OrdinalRanker(averaged).fit(data, valid=other), data, other)
    assert chosen.ordinal_.n_trees == 4 * 2 * chosen.base.n_trees


def test_weights_and_rows_without_weight(data, other):
    weights = (data.labels < 4).astype(float)  # the highest grade is no part of the data
    model = ordinal("GBRT").fit(data, sample_weight=weights)
    assert model.grades_.tolist() == [0, 1, 2, 3]
    without = ordinal("GBRT").fit(data.take_rows(weights > 0))
    np.testing.assert_allclose(model.predict(other), without.predict(other), rtol=1e-9)


def test_progress_of_all_models_and_of_base(data):
    seen, heard = [], []
    base = rw.GBRT(3, min_leaf=3, callbacks=[lambda news: heard.append(news.iteration)])
    rw.OrdinalRanker(base, progress=seen.append).fit(data)
    assert [news.iteration for news in seen] == list(range(1, 13))
    assert seen[-1].seconds_left == 0.0
    assert heard == [1, 2, 3] * 4
    stop = [lambda news: news.iteration == 2]
    model = rw.OrdinalRanker(rw.GBRT(3, min_leaf=3), callbacks=stop).fit(data)
    assert model.ordinal_.tree_counts.tolist() == [2, 3, 3, 3]  # of the model at hand


def test_cloning_reaches_the_base():
    model = ordinal("GBRT", scoring="squared")
    copy = clone(model)
    assert copy.base is not model.base
    assert copy.base.get_params() == model.base.get_params()
    assert model.get_params()["base__n_trees"] == 5
    model.set_params(base__n_trees=7)
    assert model.base.n_trees == 7
    assert copy.base.n_trees == 5


def test_one_grade_and_one_document(data):
    same = rw.RankingData(data.features, np.full(data.n_documents, 3.0), data.query_ids)
    for clip in (False, True):
        model = ordinal(clip=clip).fit(same)
        assert (model.predict(data) == 3.0).all()
        assert model.probabilities(data).tolist() == [[1.0]] * data.n_documents
        assert model.cumulative(data).shape == (data.n_documents, 0)
    assert ordinal(scoring="exponential").fit(data.take_rows([0])).predict(data)[0] == (
        2.0 ** data.labels[0]
    )
    fitted = ordinal(scoring="least_squares").fit(same)
    assert fitted.predict(data) == pytest.approx(3.0)


def test_a_single_tree_leaves_too_little_for_least_squares(data):
    one = rw.OrdinalRanker(rw.RandomForest(1, bag="query"), scoring="least_squares")
    with pytest.raises(DataError, match="no row has an out-of-bag estimate"):
        one.fit(data.take_queries([0]))


@pytest.mark.parametrize(
    ("scoring", "largest", "message"),
    [
        ("exponential", 2000, r"the greatest label is .*scoring='exponential' turns into"),
        ("squared", 1e160, r"is 1e\+160, beyond 1e\+110: squares of labels are summed"),
        ("expected", 1e305, r"is 1e\+305, beyond 1e\+110: squares of labels are summed"),
    ],
)
def test_labels_too_large_for_the_scoring_function_are_refused(scoring, largest, message, data):
    labels = np.where(data.labels == 4, largest, data.labels)
    huge = rw.RankingData(data.features, labels, data.query_ids)
    with pytest.raises(DataError, match=message):
        ordinal("GBRT", scoring=scoring).fit(huge)


def test_large_labels_that_fit_are_fine(data):
    labels = np.where(data.labels == 4, 900.0, data.labels)
    model = ordinal("GBRT", scoring="exponential").fit(
        rw.RankingData(data.features, labels, data.query_ids)
    )
    assert np.isfinite(model.predict(data)).all()


def test_labels_that_are_no_grades_are_refused(data, rng):
    many = rw.RankingData(data.features, rng.random(data.n_documents), data.query_ids)
    with pytest.raises(DataError, match=r"have \d+ different values, .* at most 100 are allowed"):
        ordinal().fit(many)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: rw.OrdinalRanker("GBRT"),
            ParameterError,
            "base must be an estimator whose .*'GBRT'",
        ),
        (lambda: rw.OrdinalRanker(rw.GBRT), ParameterError, "base must be an estimator"),
        (
            lambda: rw.OrdinalRanker(rw.OrdinalRanker()),
            ParameterError,
            "base must be an estimator whose .* got OrdinalRanker",
        ),
        (lambda: rw.OrdinalRanker(rw.GBRT(0)), ParameterError, "n_trees must be"),
        (
            lambda: rw.OrdinalRanker(rw.GBRT(checkpoint="c")),
            ParameterError,
            "base must have no checkpoint",
        ),
        (
            lambda: ordinal("GBRT", scoring="least_squares"),
            ParameterError,
            "needs out-of-bag estimates, which this GBRT does not have",
        ),
        (
            lambda: ordinal("ExtraTrees", scoring="least_squares", fitted_on="both"),
            ParameterError,
            "needs out-of-bag estimates, which this ExtraTrees",
        ),
        (
            lambda: ordinal(scoring="least_squares", fitted_on="valid"),
            ParameterError,
            "fitted_on='valid' needs validation data",
        ),
        (
            lambda: rw.OrdinalRanker(rw.GBRT(early_stopping=3, measure="rmse")),
            ParameterError,
            "early_stopping needs validation data",
        ),
        (
            lambda: rw.OrdinalRanker(rw.GBRT(early_stopping=3)),
            ParameterError,
            "pass measure='rmse' to base, not 'ndcg@10'",
        ),
    ],
)
def test_wrong_parameters_are_named(make, error, message, data):
    with pytest.raises(error, match=message):
        make().fit(data)


def test_an_unfitted_model_says_so(data, tmp_path):
    for ask in ("predict", "probabilities", "cumulative"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(ordinal(), ask)(data)
    for name in ("forest_", "grades_", "weights_", "feature_importances_"):
        with pytest.raises(AttributeError, match="not fitted yet"):
            getattr(ordinal(), name)
    with pytest.raises(ModelError, match="nothing to save"):
        rw.save(ordinal(), tmp_path / "model")
    model = ordinal().fit(data)
    with pytest.raises(DataError, match="X has 4 features, but OrdinalRanker is expecting 8"):
        model.probabilities(data.features[:, :4])
