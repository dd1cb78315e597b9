"""What holds of every forest: scores equal the slow twin's to the bit, and files give back what they got."""

from __future__ import annotations

import dataclasses
import tempfile
import unittest.mock
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankwood.binning.bins import Bins
from rankwood.errors import ModelError
from rankwood.models import validate
from rankwood.models.forest import Forest
from rankwood.models.format import load_model, save_model
from rankwood.models.scoring import ordered_keys
from tests.reference import forest as reference

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def forests(draw):
    """Forests of any shape, and documents whose values often stand exactly on a threshold."""
    rng = np.random.default_rng(draw(SEEDS))
    n_features = draw(st.integers(1, 5))
    thresholds = np.array(draw(st.lists(FINITE, min_size=1, max_size=6)), np.float32)
    third = draw(st.sampled_from([0.0, 0.0, 0.5]))
    sizes = draw(st.lists(st.integers(0, 15), max_size=10))
    trees = [reference.random_tree(rng, size, n_features, thresholds, third) for size in sizes]
    forest = Forest.from_trees(
        trees,
        n_features=n_features,
        tree_weights=rng.random(len(trees)),
        base=draw(FINITE),
        average=draw(st.booleans()),
    )
    with np.errstate(over="ignore", under="ignore"):
        near = [np.nextafter(thresholds, np.float32(end)) for end in (-np.inf, np.inf)]
    values = np.concatenate([thresholds, -thresholds, *near, reference.NASTY])
    features = rng.choice(values, (draw(st.integers(0, 20)), n_features))
    return forest, features


@given(forests())
def test_scores_and_leaves_equal_the_slow_twin(case):
    forest, features = case
    assert forest.predict(features).tobytes() == reference.predict(forest, features).tobytes()
    assert np.array_equal(forest.leaf_ids(features), reference.leaf_ids(forest, features))


@given(forests(), st.data())
def test_kernels_and_rules_agree_on_which_nodes_are_sound(case, data):
    """One number of a forest is changed, or none: what the kernels let pass has nothing that could be named."""
    forest, _ = case
    name = data.draw(st.sampled_from(list(validate.NODE_ARRAYS)))
    arrays = {each: np.array(getattr(forest, each)) for each in validate.NODE_ARRAYS}
    if forest.n_nodes:
        node = data.draw(st.integers(0, forest.n_nodes - 1))
        numbers = [-2, -1, 0, 1, node, node + 1, forest.n_nodes - 1, forest.n_nodes, 2**31 - 1]
        arrays[name][node] = data.draw(st.sampled_from(numbers))
        if arrays[name].dtype.kind == "f" and data.draw(st.booleans()):
            arrays[name][node] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e-40]))
    outcomes = []
    for many in (2**31, 0):
        with unittest.mock.patch.object(validate, "_MANY_NODES", many):
            try:
                dataclasses.replace(forest, **arrays)
                outcomes.append(None)
            except ModelError as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@given(forests())
def test_every_row_ends_in_a_leaf(case):
    forest, features = case
    nodes = forest.leaf_ids(features) + forest.tree_offsets[:-1]
    assert (forest.feature[nodes] == -1).all()


@given(forests())
def test_binned_scores_equal_raw_scores(case):
    forest, features = case
    pieces = [
        np.unique(forest.threshold[forest.feature == feature] + np.float32(0))  # one zero only
        for feature in range(forest.n_features)
    ]
    offsets = np.cumsum([0, *map(len, pieces)])
    bins = Bins(np.concatenate(pieces), offsets, np.ones(forest.n_features, bool))
    scores = forest.predict_binned(bins.transform(features), bins)
    assert scores.tobytes() == forest.predict(features).tobytes()


@given(forests(), st.integers(1, 4))
def test_the_parts_of_a_forest_make_the_forest(case, every):
    forest, features = case
    stages = list(forest.predict_stages(features, every))
    for n_trees, scores in stages:
        assert scores.tobytes() == forest.take_trees(slice(n_trees)).predict(features).tobytes()
    if forest.average:
        parts = [forest.take_trees([tree]) for tree in range(forest.n_trees)]
        assert not parts or Forest.concatenate(parts) == forest


@given(
    forests(), st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text() | FINITE)
)
def test_files_give_back_what_they_got(case, training):
    forest, _ = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save_model(forest, path, {"training": training})
        again, meta = load_model(path)
    assert again == forest
    assert meta["training"] == training


@given(st.lists(FINITE | st.just(float("inf")) | st.just(float("-inf")), min_size=2, max_size=2))
def test_keys_order_as_values_do(values):
    one, other = np.array(values, np.float32)
    key_of_one, key_of_other = ordered_keys(np.array(values, np.float32))
    assert (one < other) == (key_of_one < key_of_other)
    assert (one == other) == (key_of_one == key_of_other)
