"""Forests as arrays: building, taking apart, and everything the checks refuse."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from rankwood.errors import InputError, ModelError, ParameterError, UnknownName
from rankwood.models import validate
from rankwood.models.forest import Forest, NodeArrays
from tests.reference import forest as reference


def stump(**changes):
    """x0 <= 0.5 gives 1, else 2; missing goes left."""
    tree = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0, 0],
        "left": [1, 0, 0],
        "right": [2, 0, 0],
        "missing": [1, 0, 0],
        "value": [1.5, 1.0, 2.0],
        "cover": [4.0, 2.0, 2.0],
        "gain": [0.25, 0.0, 0.0],
    }
    return {**tree, **changes}


LEAF = {
    "feature": [-1],
    "threshold": [0],
    "left": [0],
    "right": [0],
    "missing": [0],
    "value": [7.0],
}


def two_trees(**options):
    return Forest.from_trees([stump(), LEAF, stump()], n_features=2, **options)


def test_a_forest_counts_what_it_holds():
    forest = two_trees()
    assert (forest.n_trees, forest.n_nodes, forest.n_leaves, forest.max_depth) == (3, 7, 5, 1)
    assert forest.tree_offsets.tolist() == [0, 3, 4, 7]
    assert forest.left.tolist() == [1, 0, 0, 0, 5, 0, 0]  # positions in the whole arrays
    assert repr(forest) == "Forest(3 trees summed, 5 leaves, 2 features)"


def test_depth_counts_splits():
    assert Forest.from_trees([LEAF], n_features=1).max_depth == 0
    assert Forest.from_trees([], n_features=1).max_depth == 0
    assert Forest.from_trees([reference.chain(40), LEAF], n_features=1).max_depth == 40


def test_arrays_cannot_be_written_to_and_are_our_own():
    weights = np.ones(3)
    forest = two_trees(tree_weights=weights)
    with pytest.raises(ValueError, match="read-only"):
        forest.value[0] = 3.0
    values = np.array(forest.value)
    copy = dataclasses.replace(forest, value=values)
    values[:] = 99.0
    weights[:] = 99.0
    assert copy == forest == two_trees()


def test_a_forest_survives_pickling_and_stays_read_only(rng):
    forest = reference.random_forest(rng, feature_names=list("abcd"))
    again = pickle.loads(pickle.dumps(forest))
    assert again == forest
    assert not again.value.flags.writeable


def test_forests_differ_in_anything_they_hold():
    forest = two_trees()
    others = [
        dataclasses.replace(forest, base=1.0),
        dataclasses.replace(forest, average=True),
        dataclasses.replace(forest, n_features=3),
        dataclasses.replace(forest, feature_names=("a", "b")),
        dataclasses.replace(forest, gain=forest.gain * 2),
        forest.take_trees([0, 1]),
    ]
    assert all(forest != other for other in others)
    assert forest != "a forest"


def test_trees_can_be_taken_in_any_order(rng):
    forest = reference.random_forest(rng, n_trees=6, third=0.3)
    features = rng.choice(reference.nasty_values(), (20, 4))
    leaves = forest.leaf_ids(features)
    for chosen in (slice(2, 5), slice(None, None, -1), [4, 0, 0], np.array([5]), [-1], []):
        part = forest.take_trees(chosen)
        assert np.array_equal(part.leaf_ids(features), leaves[:, chosen])
        assert np.array_equal(part.tree_weights, forest.tree_weights[chosen])


def test_taking_trees_that_are_not_there():
    with pytest.raises(ParameterError, match="tree 3 does not exist; there are 3 trees"):
        two_trees().take_trees([0, 3])
    with pytest.raises(ParameterError, match="a slice or a list of tree numbers"):
        two_trees().take_trees([0.5])


def test_concatenating_undoes_taking(rng):
    forest = reference.random_forest(rng, n_trees=6, third=0.3, base=0.0)
    parts = [forest.take_trees(slice(0, 2)), forest.take_trees([]), forest.take_trees(slice(2, 6))]
    assert Forest.concatenate(parts) == forest


def test_concatenating_adds_the_bases_of_sums_only():
    one, other = two_trees(base=1.0), two_trees(base=2.5)
    assert Forest.concatenate([one, other]).base == 3.5
    average = two_trees(base=1.0, average=True)
    assert Forest.concatenate([average, average]).base == 1.0
    with pytest.raises(ModelError, match="the bases must be equal"):
        Forest.concatenate([average, two_trees(base=2.0, average=True)])


def test_forests_that_do_not_belong_together():
    with pytest.raises(ParameterError, match="no forests to concatenate"):
        Forest.concatenate([])
    with pytest.raises(ModelError, match="forest 1 differs from the first in n_features"):
        Forest.concatenate([two_trees(), Forest.from_trees([LEAF], n_features=5)])


def test_importance():
    forest = Forest.from_trees([stump(), stump(feature=[2, -1, -1]), stump(), LEAF], n_features=3)
    assert forest.importance().tolist() == [0.5, 0.0, 0.25]  # two stumps of gain 0.25 on feature 0
    assert forest.importance("splits").tolist() == [2, 0, 1]
    assert forest.importance("cover").tolist() == [8, 0, 4]
    with pytest.raises(UnknownName, match=r"importance 'gains' is not known\. Did you mean 'gain'"):
        forest.importance("gains")


@pytest.fixture(params=["few nodes", "many nodes"])
def _either_way(request, monkeypatch):
    """Large forests are looked at by kernels first."""
    monkeypatch.setattr(validate, "_MANY_NODES", 2**31 if request.param == "few nodes" else 0)


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature": [2, -1, -1]}, "node 0 tests feature 2, but features run from 0 to 1"),
        ({"feature": [-2, -1, -1], "left": [0] * 3}, "node 0"),
        ({"left": [0, 0, 0]}, "node 0: its left child 0 must stand after it"),
        ({"left": [3, 0, 0]}, "node 0: its left child 3 must stand after it"),
        ({"left": [-1, 0, 0]}, "node 0: its left child -1 must stand after it"),
        ({"missing": [3, 0, 0]}, "node 0: its missing child 3"),
        ({"left": [2, 0, 0], "missing": [2, 0, 0]}, "left and right child are the same"),
        ({"threshold": [np.nan, 0, 0]}, r"threshold\[0\] is nan; it must be finite"),
        ({"threshold": [np.inf, 0, 0]}, r"threshold\[0\] is inf"),
        ({"value": [0, np.inf, 0]}, r"value\[1\] is inf"),
        ({"gain": [np.nan, 0, 0]}, r"gain\[0\] is nan"),
        ({"cover": [1, -2, 0]}, r"cover\[1\] is -2; it must not be negative"),
        ({"gain": [0, 1, 0]}, "node 1 is a leaf .feature -1., so its gain must be 0"),
        ({"threshold": [0.5, 1, 0]}, "node 1 is a leaf .feature -1., so its threshold must be 0"),
        ({"left": [1, 0, 1]}, "node 2 is a leaf .feature -1., so its left must be 0"),
        ({"threshold": [0.1, 0, 0]}, "tree 0, node 0: threshold 0.1 cannot be kept as float32"),
        ({"threshold": [1e39, 0, 0]}, "cannot be kept as float32"),
        ({"left": [2**40, 0, 0]}, "left 1099511627776 cannot be kept as int32"),
        ({"left": [1.5, 0, 0]}, "left 1.5 cannot be kept as int32"),
        ({"left": [1, 0]}, "tree 0: left must be 3 numbers in one dimension"),
        ({"value": ["1", "2", "3"]}, "tree 0: value must be 3 numbers in one dimension"),
    ],
)
def test_what_is_wrong_with_a_tree_is_named(changes, message):
    with pytest.raises(ModelError, match=message):
        Forest.from_trees([stump(**changes)], n_features=2)


@pytest.mark.usefixtures("_either_way")
def test_a_child_in_another_tree_is_refused():
    forest = two_trees()
    for child in (3, 5):
        left = np.array(forest.left)
        left[0] = child
        with pytest.raises(
            ModelError, match=f"left child {child} must stand after it in the same tree"
        ):
            dataclasses.replace(forest, left=left)


@pytest.mark.usefixtures("_either_way")
def test_wrong_nodes_are_named_in_whichever_tree_they_are():
    trees = [reference.chain(2), stump(), stump(), reference.chain(3)]  # of 5, 3, 3 and 7 nodes
    assert Forest.from_trees(trees, n_features=1).n_nodes == 18
    for number, first in enumerate((0, 5, 8, 11)):
        wrong = [dict(tree) for tree in trees]
        wrong[number]["right"] = wrong[number]["left"]
        with pytest.raises(ModelError, match=f"node {first}: its left and right child are the"):
            Forest.from_trees(wrong, n_features=1)
        wrong = [dict(tree) for tree in trees]
        wrong[number]["left"] = np.array([19 - first, *wrong[number]["left"][1:]])
        with pytest.raises(ModelError, match=f"node {first}: its left child 19 must stand after"):
            Forest.from_trees(wrong, n_features=1)
        wrong = [dict(tree) for tree in trees]
        wrong[number]["threshold"] = np.array([*wrong[number]["threshold"][:-1], 1.0])
        last = first + len(wrong[number]["threshold"]) - 1
        with pytest.raises(ModelError, match=f"node {last} is a leaf .*, so its threshold must"):
            Forest.from_trees(wrong, n_features=1)


def test_a_forest_keeps_the_joined_arrays_and_leaves_the_trees_alone():
    tree = {name: np.array(values) for name, values in stump().items()}
    before = {name: array.copy() for name, array in tree.items()}
    forest = Forest.from_trees([tree, tree], n_features=1)
    joined = Forest.concatenate([forest, forest.take_trees([1])])
    for name, array in before.items():
        np.testing.assert_array_equal(tree[name], array)
        assert tree[name].flags.writeable
        assert not getattr(forest, name).flags.writeable
        assert not np.shares_memory(getattr(joined, name), getattr(forest, name))


@pytest.mark.usefixtures("_either_way")
def test_every_node_has_one_parent():
    orphan = {name: [*values, values[-1]] for name, values in stump().items()}
    with pytest.raises(ModelError, match="node 3 has no parent"):
        Forest.from_trees([orphan], n_features=1)
    shared = reference.chain(2)  # 0 -> 1, 2; 2 -> 3, 4
    shared["left"] = shared["missing"] = np.array([1, 0, 3, 0, 0])
    shared["right"] = np.array([3, 0, 4, 0, 0])
    with pytest.raises(ModelError, match="node 2 has no parent"):
        Forest.from_trees([shared], n_features=1)
    shared["right"] = np.array([2, 0, 4, 0, 0])
    shared["missing"] = np.array([3, 0, 3, 0, 0])  # a third child of node 0 that node 2 has too
    with pytest.raises(ModelError, match="node 3 has more than one parent"):
        Forest.from_trees([shared], n_features=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_features": 0}, "n_features must be a whole number from 1 to 1,048,576, got 0"),
        ({"n_features": 2.0}, "n_features must be a whole number"),
        ({"average": 1}, "average must be True or False, got 1"),
        ({"base": np.nan}, "base must be a finite number, got nan"),
        ({"base": "0"}, "base must be a finite number, got '0'"),
        ({"feature_names": ("a",)}, "feature_names has 1 names, but there are 2 features"),
        ({"feature_names": ("a", "a")}, "a name more than once"),
        ({"feature_names": (1, 2)}, "feature_names must be texts"),
        ({"tree_weights": np.ones(2)}, "tree_offsets must have one value more"),
        ({"tree_weights": np.array([1, 1, np.nan])}, r"tree_weights\[2\] is nan"),
        ({"tree_weights": np.array([1.0, -1, 1]), "average": True}, r"tree_weights\[1\] is -1"),
        ({"tree_weights": np.ones(3, np.float32)}, "tree_weights must be an array of float64"),
        ({"tree_weights": [1.0, 1.0, 1.0]}, "tree_weights must be an array of float64 .* got list"),
        ({"tree_offsets": np.array([0, 3, 3, 7])}, "every tree has at least one node"),
        ({"tree_offsets": np.array([1, 3, 4, 7])}, "tree_offsets must ascend from 0"),
        ({"tree_offsets": np.array([0, 3, 4, 8])}, "tree_offsets must ascend from 0"),
        ({"tree_offsets": np.array([0, 2**62, -(2**62), 7])}, "tree_offsets must ascend from 0"),
        ({"value": np.ones(6)}, "value has 6 values, but there are 7 nodes"),
        ({"value": np.ones((7, 1))}, "value must be an array of float64 with one dimension"),
        ({"feature": np.zeros(7, np.int64)}, "feature must be an array of int32"),
    ],
)
def test_what_is_wrong_with_a_forest_is_named(changes, message):
    with pytest.raises(ModelError, match=message):
        dataclasses.replace(two_trees(), **changes)


def test_a_tree_without_an_array_is_refused():
    with pytest.raises(ModelError, match="tree 1 has no missing"):
        Forest.from_trees(
            [LEAF, {name: LEAF[name] for name in LEAF if name != "missing"}], n_features=1
        )


def test_trees_may_be_objects_that_hold_more():
    class Tree:
        def __init__(self):
            self.__dict__.update(stump(), leaf_of_row=np.zeros(9))

    assert Forest.from_trees([Tree()], n_features=1) == Forest.from_trees([stump()], n_features=1)


def test_an_error_of_a_model_is_an_error_of_input():
    assert issubclass(ModelError, InputError)


@pytest.mark.parametrize("n_expected", [0, 1, 3, 50])
def test_trees_that_come_one_by_one_are_joined_like_all_at_once(n_expected):
    trees = [
        {
            "feature": [-1],
            "threshold": [0.0],
            "left": [0],
            "right": [0],
            "missing": [0],
            "value": [1.0],
        },
        *[
            {
                "feature": [0, -1, -1],
                "threshold": [number, 0.0, 0.0],
                "left": [1, 0, 0],
                "right": [2, 0, 0],
                "missing": [2, 0, 0],
                "value": [0.0, number, -number],
            }
            for number in range(5)
        ],
    ]
    joined = NodeArrays(n_expected)
    early = {}
    for number, tree in enumerate(trees):
        joined.add(tree)
        if number == 2:
            early = {name: array.copy() for name, array in joined.arrays().items()}
            kept = joined.arrays()
    whole = Forest.from_trees(trees, n_features=1)
    for name, array in joined.arrays().items():
        np.testing.assert_array_equal(array, getattr(whole, name))
        np.testing.assert_array_equal(kept[name], early[name])  # trees to come do not change it
        assert not array.flags.writeable
    assert joined.n_trees == 6
