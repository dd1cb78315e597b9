"""Data at the edge: a row, a query, equal labels, constant and missing features, extreme values."""

from __future__ import annotations

import numpy as np
import pytest

from rankwood.errors import DataError
from tests.contract.rankers import NEEDS_PAIRS, asked, contract_of, make

TWO_QUERIES = [1, 1, 1, 2, 2, 2]
GRADES = [0, 1, 2, 0, 1, 2]
TABLE = np.arange(12.0).reshape(6, 2)

# features, labels, query ids
SMALL = {
    "one row": (np.ones((1, 3)), [2.0], [1]),
    "one query": (TABLE, GRADES, [1] * 6),
    "one document per query": (TABLE, GRADES, range(6)),
    "one document beside a query": (TABLE, GRADES, [1, 1, 1, 1, 1, 2]),
    "equal labels": (TABLE, [1] * 6, TWO_QUERIES),
    "no relevant document": (TABLE, [0] * 6, TWO_QUERIES),
    "constant features": (np.ones((6, 2)), GRADES, TWO_QUERIES),
    "a feature without values": (np.c_[[np.nan] * 6, range(6)], GRADES, TWO_QUERIES),
    "no values at all": (np.full((6, 2), np.nan), GRADES, TWO_QUERIES),
    "large values": ([[1e38, 0], [-1e38, 1], [3e38, 2], [0, 3]], [0, 1, 2, 1], [1] * 4),
    "large labels": (TABLE[:4], [900, 0, 5, 1], [1] * 4),
    "fractions of labels": (TABLE[:4], [2.5, 0, 1.25, 1e-9], [1] * 4),
    "minus zero": ([[-0.0, 1], [0.0, 1], [-0.0, 1], [1.0, 1]], [0, 1, 0, 1], [1] * 4),
    "duplicated rows": (np.repeat(TABLE[:2], 5, axis=0), [0, 1] * 5, [1] * 10),
    "more leaves than rows": (TABLE, GRADES, TWO_QUERIES),
}
WITHOUT_PAIRS = ("one row", "one document per query", "equal labels", "no relevant document")


def small(name, case):
    """A ranker whose leaves may hold one row."""
    options = {"min_leaf": 1} if "min_leaf" in make(name).get_params(deep=False) else {}
    if case == "more leaves than rows" and "max_leaves" in make(name).get_params(deep=False):
        options["max_leaves"] = 1000
    return make(name, **options)


@pytest.mark.parametrize("name", asked())
def test_small_data_give_a_model_or_a_reason(name):
    contract = contract_of(name)
    for case, (features, labels, qid) in SMALL.items():
        model = small(name, case)
        if contract.needs_pairs and case in WITHOUT_PAIRS:
            with pytest.raises(DataError, match=NEEDS_PAIRS):
                model.fit(features, labels, list(qid))
            continue
        scores = model.fit(features, labels, list(qid)).predict(features)
        assert scores.shape == (len(labels),), case
        assert np.isfinite(scores).all(), case
        if contract.predicts_labels:
            slack = 1e-9 * max(labels)
            assert min(labels) - slack <= scores.min(), case
            assert scores.max() <= max(labels) + slack, case


@pytest.mark.parametrize("name", asked(of=lambda _, contract: contract.takes_infinity))
def test_infinite_features_are_values_like_others(name):
    features = [[np.inf, 1], [-np.inf, 2], [0.0, 3], [1.0, 4], [np.nan, 5]]
    scores = small(name, "").fit(features, [2, 0, 1, 1, 0], [1] * 5).predict(features)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", asked(of=lambda _, contract: contract.predicts_labels))
def test_extreme_labels_are_learned(name):
    for labels in ([1e38, 0, 5, 1e30], [1e-30, 0, 3e-31, 1e-30]):
        scores = small(name, "").fit(TABLE[:4], labels, [1] * 4).predict(TABLE[:4])
        slack = 1e-9 * max(labels)
        assert -slack <= scores.min()
        assert scores.max() <= max(labels) + slack


@pytest.mark.parametrize("name", asked())
def test_one_row_can_be_scored(name, data, other):
    model = make(name).fit(data)
    one = [model.predict(other.features[row : row + 1])[0] for row in range(5)]
    assert np.array_equal(one, model.predict(other)[:5])
