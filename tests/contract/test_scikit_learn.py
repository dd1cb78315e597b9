"""scikit-learn's own checks of estimators, and routing of queries through its searches."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

import rankwood as rw
from rankwood.errors import DataError
from tests.contract.rankers import CONTRACTS, LOSES_BY_BAGS, LOSES_BY_PAIRS, has_torch, make

OUR_OWN_WORDS = "our message says the same in our own words, and names the place"
ALWAYS = dict.fromkeys(
    ("check_dtype_object", "check_estimators_empty_data_messages"), OUR_OWN_WORDS
)
WITHOUT_PAIRS = {"check_fit2d_1sample": "one document makes no pair, and the message says so"}
LEARNS_AN_ORDER = ("AdaBoost", "Blend")  # and fits without queries
WITHOUT_R2 = dict.fromkeys(
    ("check_fit_score_takes_y", "check_pipeline_consistency"),
    "its scores are not labels, and R² is refused",
)
WEIGHTS_AS_COPIES = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
ROUNDING = "of splits that gain the same, rounding of the residuals decides"
NOT_AS_COPIES = {
    "LambdaMART": LOSES_BY_PAIRS,
    "BoostingTree": LOSES_BY_PAIRS,
    "Exp3P": LOSES_BY_PAIRS,
    "MLPRanker": LOSES_BY_PAIRS,
    "RandomForest": LOSES_BY_BAGS,
    "BROOF": LOSES_BY_BAGS,
    "InitializedGBRT": LOSES_BY_BAGS,
    "OrdinalRanker": LOSES_BY_BAGS,
    "DeepForest": LOSES_BY_BAGS,
    "Blend": LOSES_BY_BAGS,
    "AutoRanker": LOSES_BY_BAGS,
    "AveragedGBRT": ROUNDING,
}
NO_ROW_WEIGHTS = dict.fromkeys(
    ("check_sample_weights_list", "check_sample_weights_not_overwritten", *WEIGHTS_AS_COPIES),
    "it weighs queries, not documents, and says so",
)


class InOneQuery:
    """A ranker that takes rows without query ids for one query: scikit-learn's checks know of no queries."""

    def fit(self, X, y=None, qid=None, *, valid=None, sample_weight=None, query_weight=None):
        is_table = y is not None and getattr(X, "ndim", 2) == 2
        if qid is None and is_table:
            qid = np.zeros(_num_samples(X), int)
        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        return super().fit(X, y, qid, valid=valid, **weights)

    def score(self, X, y=None, qid=None, sample_weight=None):
        if qid is None and y is not None:
            qid = np.zeros(_num_samples(X), int)
        return super().score(X, y, qid, sample_weight)


def in_one_query(kind):
    """The class of a ranker, of the same name, that needs no queries."""
    made = type(f"OneQuery{kind.__name__}", (InOneQuery, kind), {"__module__": __name__})
    globals()[made.__name__] = made  # so that it can be pickled
    return made


SMALL = {
    "RandomForest": {"n_trees": 5},
    "ExtraTrees": {"n_trees": 5},
    "CompletelyRandomForest": {"n_trees": 5},
    "GBRT": {"n_trees": 5, "min_leaf": 1},
    "AveragedGBRT": {"n_trees": 3, "n_runs": 2, "min_leaf": 1},
    "InitializedGBRT": {"n_trees": 3, "forest_trees": 5, "min_leaf": 1},
    "OrdinalRanker": {"base": rw.RandomForest(n_trees=3)},
    "Blend": {"parts": [rw.RandomForest(n_trees=3), rw.ExtraTrees(3)], "weights": "equal"},
    "AutoRanker": {"candidates": [rw.RandomForest(n_trees=3)], "time": None, "n_trials": 1},
    "BROOF": {"n_rounds": 3, "n_trees": 5},
    "DeepForest": {"n_forests": 2, "n_trees": 3, "max_layers": 2},
    "AdaBoost": {"n_rounds": 5},
    "LambdaMART": {"n_trees": 5, "min_leaf": 1},
    "NDCGBoost": {"n_rounds": 5, "min_leaf": 1},
    "RankBoost": {"n_rounds": 5},
    "BoostingTree": {"base": rw.LambdaMART(max_leaves=2, min_leaf=1), "budget": 8},
    "Exp3P": {"base": rw.LambdaMART(max_leaves=2, min_leaf=1), "n_rounds": 5},
    "AdaRank": {"n_rounds": 5},
    "RankSVM": {},
    "MLPRanker": {"hidden": (8,), "n_epochs": 3, "device": "cpu"},
}


def as_scikit_learn_checks(name):
    kind = getattr(rw, name)
    return (in_one_query(kind) if CONTRACTS[name].needs_queries else kind)(**SMALL[name])


def expected_failures(model) -> dict[str, str]:
    name = type(model).__name__.removeprefix("OneQuery")
    contract = CONTRACTS[name]
    failures = dict(ALWAYS)
    if contract.needs_pairs:
        failures |= WITHOUT_PAIRS
    if not contract.takes_row_weights:
        failures |= NO_ROW_WEIGHTS
    if name in LEARNS_AN_ORDER:
        failures |= WITHOUT_R2
    if name in NOT_AS_COPIES:
        failures |= dict.fromkeys(WEIGHTS_AS_COPIES, NOT_AS_COPIES[name])
    return failures


@parametrize_with_checks(
    [as_scikit_learn_checks(name) for name in CONTRACTS if name != "MLPRanker" or has_torch()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check, run_check):
    run_check(check, estimator)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_cross_validation_with_queries(data):
    model = rw.RandomForest(3).set_fit_request(qid=True).set_score_request(qid=True)
    splitter = GroupKFold(3)
    routed = {"qid": data.query_ids, "groups": data.query_ids}
    scores = cross_val_score(model, data.features, data.labels, cv=splitter, params=routed)
    expected = []
    for train, test in splitter.split(data.features, data.labels, data.query_ids):
        part = rw.RandomForest(3).fit(data.take_rows(train))
        expected.append(part.score(data.take_rows(test)))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


@pytest.mark.usefixtures("routing")
def test_grid_search_with_queries_and_weights(data):
    model = rw.GBRT(3, min_leaf=3).set_fit_request(qid=True, sample_weight=True)
    model.set_score_request(qid=True, sample_weight=False)
    search = GridSearchCV(model, {"max_leaves": [2, 6]}, cv=GroupKFold(2))
    weights = np.linspace(1, 2, data.n_documents)
    search.fit(
        data.features, data.labels, qid=data.query_ids, groups=data.query_ids, sample_weight=weights
    )
    assert search.best_params_["max_leaves"] in (2, 6)
    expected = rw.GBRT(3, min_leaf=3, **search.best_params_)
    expected.fit(data.features, data.labels, data.query_ids, sample_weight=weights)
    assert np.array_equal(search.predict(data.features), expected.predict(data.features))


def test_score_is_r2_without_queries(data):
    model = rw.GBRT(5, min_leaf=3).fit(data)
    scores = model.predict(data)
    left = ((data.labels - scores) ** 2).sum() / ((data.labels - data.labels.mean()) ** 2).sum()
    assert model.score(data.features, data.labels) == pytest.approx(1 - left)


@pytest.mark.parametrize("name", [name for name in CONTRACTS if name != "AutoRanker"])
def test_r2_is_refused_of_scores_that_are_not_labels(name, data):
    """Without routing, scikit-learn's searches would compare rankers by R² of scores that mean an order only."""
    if name == "MLPRanker" and not has_torch():
        pytest.skip("the extra 'neural' is not installed")
    model = make(name).fit(data)
    if name in ESTIMATES_LABELS:
        assert model.score(data.features, data.labels) <= 1.0
    else:
        with pytest.raises(DataError, match=r"learns an order.*set_score_request\(qid=True\)"):
            model.score(data.features, data.labels)


ESTIMATES_LABELS = {
    "RandomForest",
    "ExtraTrees",
    "CompletelyRandomForest",
    "GBRT",
    "AveragedGBRT",
    "InitializedGBRT",
    "OrdinalRanker",
    "BROOF",
    "DeepForest",
}


def test_the_order_of_rows_does_not_change_a_model_without_bags(data, rng):
    order = rng.permutation(data.n_documents)
    one = rw.ExtraTrees(3).fit(data)
    other = rw.ExtraTrees(3).fit(data.take_rows(order))
    np.testing.assert_allclose(one.predict(data), other.predict(data), rtol=1e-12)
