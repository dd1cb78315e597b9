"""Feature costs: cost files, and training that looks at them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import rankwood as rw
from rankwood.data.features import feature_costs, read_costs
from rankwood.data.synthetic import make_feature_costs
from rankwood.engines.bags import Bags, stream_number
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.models.forest import cost_of_trees, count_features, first_uses
from rankwood.training.inputs import root_impurity, training_set
from rankwood.trees.grower import FeatureChoice, Growth, Policies, grow_tree
from tests.reference import early_exit as slow

NAMES = ("bm25", "page rank", "3")
NODE_ARRAYS = ("feature", "threshold", "left", "right", "missing", "value", "cover", "gain")


@pytest.fixture
def costs_in(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "costs.tsv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        "bm25\t1\npage rank\t2.5\n3\t0\n",
        "3,0\n bm25 , 1\npage rank,2.5",
        "\ufefffeature\tcost\r\nbm25\t1\r\npage rank\t2.5\r\n3\t0\r\n",
        "# costs\n\nbm25 1e0  # cheap\n2   2.5\n3 0\n",  # 2 is no name: the second feature
        "1 1\n2 2.5\n3 0",
    ],
)
def test_cost_files(costs_in, text):
    assert read_costs(costs_in(text), NAMES).tolist() == [1.0, 2.5, 0.0]


def test_a_name_goes_before_a_number(costs_in):
    assert read_costs(costs_in("1 5\n2 7\n"), ("2", "1")).tolist() == [7.0, 5.0]


def test_compressed_cost_files(tmp_path):
    path = tmp_path / "costs.tsv.gz"
    path.write_bytes(gzip.compress(b"1 4\n"))
    assert read_costs(path, ["a"]).tolist() == [4.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "bm25 1\nbm52 2\n",
            r"costs.tsv, line 2: feature 'bm52' is not known. Did you mean 'bm25'",
        ),
        ("4 1\n", "line 1: feature '4' is not known"),
        ("0 1\n", "line 1: feature '0' is not known"),
        ("bm25 -1\n", "line 1: the cost of 'bm25' is -1; costs must be finite and not negative"),
        ("bm25 nan\n", "line 1: the cost of 'bm25' is nan; costs must be finite"),
        ("bm25 inf\n", "line 1: the cost of 'bm25' is inf; costs must be finite"),
        ("bm25 cheap\n", "line 1: the cost of 'bm25' is 'cheap', which is no number"),
        ("bm25 1\n\nbm25 2\n", "line 3: feature 'bm25' has a cost already, in line 1"),
        ("bm25 1\n1 2\n", "line 2: feature 'bm25' has a cost already, in line 1"),
        ("bm25\n", "line 1: expected a feature and its cost, got 'bm25'"),
        ("bm25\t\n", "line 1: expected a feature and its cost"),
        (",1\n", "line 1: expected a feature and its cost"),
        ("bm25 1 2\n", "line 1: expected a feature and its cost, got 'bm25 1 2'"),
        ("bm25 1\n", "costs.tsv has no cost for feature 'page rank' and 1 more"),
        ("bm25 1\n2 1\n", "has no cost for feature '3'\\."),
        ("", "has no cost for feature 'bm25' and 2 more"),
    ],
)
def test_bad_cost_files(costs_in, text, message):
    with pytest.raises(DataError, match=message):
        read_costs(costs_in(text), NAMES)


def test_files_that_are_no_cost_files(tmp_path):
    with pytest.raises(DataError, match=r"nowhere.tsv does not exist"):
        read_costs(tmp_path / "nowhere.tsv", NAMES)
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(DataError, match="is no text in UTF-8"):
        read_costs(path, NAMES)
    path.write_bytes(b"#" * (1 << 24))
    with pytest.raises(DataError, match="too large to be a cost file"):
        read_costs(path, NAMES)


def test_costs_as_numbers_and_mappings():
    assert feature_costs(None, NAMES).tolist() == [1, 1, 1]
    assert feature_costs([1, 2, 3], NAMES).tolist() == [1, 2, 3]
    assert feature_costs({"3": 1, "bm25": np.float32(2), "page rank": 0}, NAMES).tolist() == [
        2,
        0,
        1,
    ]


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1, 2], "feature_costs has 2 values, but there are 3 features"),
        ([[1, 2, 3, 4]], "feature_costs has 4 values, but there are 3"),
        ([1, np.nan, 2], "the cost of 'page rank' is nan; costs must be finite"),
        ([1, -2, 2], "the cost of 'page rank' is -2"),
        ([1, np.inf, 2], "the cost of 'page rank' is inf"),
        (["a", "b", "c"], "feature_costs must be one number per feature, a mapping"),
        (object(), "feature_costs must be one number per feature"),
        ({"bm25": 1}, "feature_costs has no cost for feature 'page rank' and 1 more"),
        ({"bm25": "1"}, "the cost of 'bm25' must be a number, got '1'"),
        ({"bm25": True}, "the cost of 'bm25' must be a number, got True"),
        ({"bm": 1}, "feature of feature_costs 'bm' is not known. Did you mean 'bm25'"),
    ],
)
def test_bad_costs(costs, message):
    with pytest.raises(ParameterError, match=message):
        feature_costs(costs, NAMES)


@given(
    seed=st.integers(0, 1000),
    l2=st.sampled_from([0.0, 0.5, 20.0]),
    has_counts=st.booleans(),
    has_weights=st.booleans(),
)
def test_the_roots_impurity_equals_the_slow_twin(seed, l2, has_counts, has_weights):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 30))
    targets = rng.normal(3, 2, size)
    counts = rng.integers(0, 3, size) if has_counts else None
    weights = rng.random(size) if has_weights else None
    expected = slow.root_impurity(
        targets,
        np.ones(size) if counts is None else counts,
        np.ones(size) if weights is None else weights,
        l2,
    )
    assert root_impurity(targets, counts, weights, l2) == pytest.approx(expected, abs=1e-9)


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 15, 12, seed=3)


@pytest.fixture(scope="module")
def costs():
    return make_feature_costs(12, seed=3)


KINDS = {
    "RandomForest": {"n_trees": 10, "max_leaves": 12, "cost_batch": 3},
    "ExtraTrees": {"n_trees": 10, "max_leaves": 12, "cost_batch": 3},
    "GBRT": {"n_trees": 10, "max_leaves": 6, "min_leaf": 3, "subsample": 0.7},
    "LambdaMART": {"n_trees": 10, "max_leaves": 6, "min_leaf": 3},
    "AveragedGBRT": {"n_trees": 10, "n_runs": 3, "max_leaves": 4, "min_leaf": 3},
    "InitializedGBRT": {
        **{"n_trees": 6, "max_leaves": 6, "min_leaf": 3},
        **{"forest_trees": 5, "forest_leaves": 8, "cost_batch": 3},
    },
    "BROOF": {"n_rounds": 7, "n_trees": 4, "max_leaves": 6, "cost_batch": 3},
}


def make(name, **options):
    return getattr(rw, name)(**{"seed": 5, "cost_weight": 0.05, **KINDS[name], **options})


def same_tree(forest, number, tree):
    nodes = slice(forest.tree_offsets[number], forest.tree_offsets[number + 1])
    return np.array_equal(forest.feature[nodes], tree.feature) and np.array_equal(
        forest.value[nodes], tree.value
    )


@pytest.mark.parametrize("scale", ["relative", "raw"])
@pytest.mark.parametrize("weight", [0.002, 0.05, 2.0])
def test_a_forest_pays_for_features_that_no_earlier_batch_has_used(data, costs, scale, weight):
    """The paper's procedure by hand: trees three by three, features free once an earlier three has used them."""
    forest = make("RandomForest", feature_costs=costs, cost_scale=scale, cost_weight=weight)
    forest = forest.fit(data).forest_
    train = training_set(data, data, 255, 1)
    bags = Bags(data.n_documents, seed=5)
    free: set[int] = set()
    for begin in range(0, 10, 3):
        used: set[int] = set()
        for number in range(begin, min(begin + 3, 10)):
            counts = bags.counts(number)
            unit = 1.0
            if scale == "relative":
                ones = np.ones(data.n_documents)
                unit = root_impurity(data.labels, counts, ones, 0.0) / costs.max()
            prices = [0 if f in free else weight * c * unit for f, c in enumerate(costs)]
            policies = Policies(Growth(12), FeatureChoice(0.3), costs=np.array(prices))
            stream = stream_number(5, "tree", number)
            tree = grow_tree(
                train.matrix, data.labels, policies, counts=counts, stream=stream, n_threads=1
            )
            assert same_tree(forest, number, tree)
            used |= {int(feature) for feature in tree.feature if feature >= 0}
        free |= used


def test_boosting_pays_for_features_that_no_earlier_tree_has_used(data, costs):
    model = make("GBRT", feature_costs=costs, subsample=1.0, features_per_node=None).fit(data)
    train = training_set(data, data, 255, 1)
    scores, free = np.full(data.n_documents, data.labels.mean()), set()
    for number in range(10):
        targets = data.labels - scores
        unit = 0.05 * root_impurity(targets, None, None, 0.0) / costs.max()
        prices = np.array([0 if f in free else unit * c for f, c in enumerate(costs)])
        policies = Policies(Growth(6, min_leaf=3), costs=prices)
        stream = stream_number(5, "tree", number)
        tree = grow_tree(train.matrix, targets, policies, stream=stream)
        nodes = slice(*model.forest_.tree_offsets[number : number + 2])
        assert np.array_equal(model.forest_.feature[nodes], tree.feature)
        np.testing.assert_allclose(model.forest_.value[nodes], tree.value, atol=1e-12)
        free |= {int(feature) for feature in tree.feature if feature >= 0}
        scores = scores + 0.05 * tree.value[tree.leaf_of_row]


def loss_of(targets):
    """I(D) of the thesis: the sum of squared differences from the mean."""
    return sum((target - sum(targets) / len(targets)) ** 2 for target in targets)


def least_by_eq_6_1(features, targets, rows, prices):
    """The feature and the rows on the left of the split with the least I(D_L) + I(D_R) + λ · c(f), one by one."""
    found = []
    for feature, price in enumerate(prices):
        for value in sorted({features[row][feature] for row in rows})[:-1]:
            left = [row for row in rows if features[row][feature] <= value]
            right = [row for row in rows if features[row][feature] > value]
            loss = loss_of([targets[r] for r in left]) + loss_of([targets[r] for r in right])
            found.append((loss + price, feature, left))
    return min(found, key=lambda split: split[:2])[1:]


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_raw_costs_are_eq_6_1_as_printed(seed, weight):
    """A tree of two levels on binary labels, each split against all others by hand; λ = 1 and costs as they are."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(60, 6)).round(
        1
    )  # no two losses are equal, nor do 255 bins join any values
    labels = (features[:, :3].sum(axis=1) + rng.normal(0, 0.5, 60) > 0).astype(float)
    costs = np.array([4.0, 1.0, 2.0, 0.25, 0.5, 0.0])
    options = {
        "max_leaves": 4,
        "max_depth": 2,
        "min_leaf": 1,
        "learning_rate": 1.0,
        "features_per_node": None,
    }
    model = rw.GBRT(
        1, **options, start="zero", feature_costs=costs, cost_weight=weight, cost_scale="raw"
    )
    forest = model.fit(features.astype(np.float32), labels).forest_
    values, prices = features.astype(np.float32).tolist(), (weight * costs).tolist()
    root, left = least_by_eq_6_1(values, labels.tolist(), list(range(60)), prices)
    right = [row for row in range(60) if row not in left]
    expected = [root, *(least_by_eq_6_1(values, labels, rows, prices)[0] for rows in (left, right))]
    nodes = [0, int(forest.left[0]), int(forest.right[0])]
    assert forest.feature[nodes].tolist() == expected
    for rows, node in ((left, nodes[1]), (right, nodes[2])):
        assert forest.cover[node] == len(rows)


def test_eq_6_1_takes_another_feature_than_the_loss_alone():
    """A costly feature that separates the labels, and a free one with one mistake: by hand, λ = 1."""
    features = np.array([[0, 0], [0, 0], [0, 0], [1, 0], [1, 1], [1, 1]], np.float32)
    labels = np.array([0, 0, 0, 1, 1, 1])
    # Feature 0 leaves loss 0; feature 1 has (0, 0, 0, 1) on its left: 4 · ¼ · ¾ = 0.75.
    for cost, expected in ((0.74, 0), (0.76, 1)):
        model = rw.GBRT(
            1,
            2,
            min_leaf=1,
            feature_costs=[cost, 0.0],
            cost_weight=1.0,
            cost_scale="raw",
            features_per_node=None,
        )
        assert model.fit(features, labels).forest_.feature[0] == expected


def used_by(forest, first, last):
    nodes = slice(int(forest.tree_offsets[first]), int(forest.tree_offsets[last]))
    return {int(feature) for feature in forest.feature[nodes] if feature >= 0}


@pytest.mark.parametrize("name", ["GBRT", "LambdaMART", "InitializedGBRT", "AveragedGBRT", "BROOF"])
def test_after_a_first_tree_that_pays_nothing_new_is_worth_a_fortune(name, data):
    """With λ far above any gain no round buys a feature that no earlier one has used.

    Nodes look at all features: one that is only offered new ones has to buy.
    """
    every_feature = {
        "GBRT": {"features_per_node": None},
        "AveragedGBRT": {"features_per_node": None, "subsample": 0.7},
        "InitializedGBRT": {"forest_features": None},
        "BROOF": {"features_per_node": None},
    }.get(name, {})
    options = {"seed": 2, **every_feature}
    forest = make(name, feature_costs=np.ones(12), cost_weight=1e6, **options).fit(data).forest_
    blind = {"AveragedGBRT": 3, "InitializedGBRT": 3, "BROOF": 3}  # trees that grow side by side
    first = blind.get(name, 1)
    assert used_by(forest, 0, forest.n_trees) == used_by(forest, 0, first)
    free = make(name, **options).fit(data).forest_
    assert used_by(free, 0, free.n_trees) > used_by(free, 0, first)


@pytest.mark.parametrize("name", KINDS)
def test_the_same_bytes_for_any_number_of_threads(name, data, costs):
    models = [make(name, feature_costs=costs, n_threads=n).fit(data).forest_ for n in (1, 2, 8)]
    for array in NODE_ARRAYS:
        assert len({getattr(forest, array).tobytes() for forest in models}) == 1


@pytest.mark.parametrize("name", KINDS)
def test_no_weight_and_no_costs_are_the_same(name, data, costs):
    plain = make(name).fit(data).forest_
    for options in ({"feature_costs": costs, "cost_weight": 0}, {"feature_costs": np.zeros(12)}):
        assert make(name, **options).fit(data).forest_ == plain
    assert make(name, feature_costs=costs).fit(data).forest_ != plain


@pytest.mark.parametrize("name", KINDS)
def test_costs_given_in_every_way_give_the_same_model(name, data, costs, tmp_path):
    expected = make(name, feature_costs=costs).fit(data).forest_
    path = tmp_path / "costs.tsv"
    path.write_text("".join(f"{n}\t{c}\n" for n, c in zip(data.names, costs.tolist(), strict=True)))
    mapping = dict(zip(data.names, costs.tolist(), strict=True))
    for given_as in (costs.tolist(), mapping, path, str(path)):
        model = clone(make(name, feature_costs=given_as)).fit(data)
        assert model.forest_ == expected
        rw.save(model, tmp_path / "model.rankwood")
        again = rw.load(tmp_path / "model.rankwood")
        assert clone(again).fit(data).forest_ == expected
    # only what a cost is of the largest matters, unless costs are taken as they are
    assert make(name, feature_costs=costs * 7).fit(data).forest_ == expected


class Stopped(Exception):
    """Raised by a callback, like a Ctrl-C at that moment."""


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("moment", [1, 4, 6])  # within a batch of three, and between two
def test_a_stopped_fit_knows_which_features_are_used(
    name, moment, data, costs, tmp_path, monkeypatch
):
    def stop(news):
        if news.iteration == moment:
            raise Stopped("now")

    monkeypatch.setattr("rankwood.training.rounds.SECONDS_BETWEEN", 0.0)
    options = {"feature_costs": costs, "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(Stopped, match="now"):
        make(name, **options, callbacks=[stop]).fit(data)
    assert (
        make(name, **options).fit(data).forest_ == make(name, feature_costs=costs).fit(data).forest_
    )


def test_a_checkpoint_of_other_costs_is_refused(data, costs, tmp_path):
    path = tmp_path / "costs.tsv"

    def fit(factor):
        lines = [f"{name} {cost}\n" for name, cost in zip(data.names, costs**factor, strict=True)]
        path.write_text("".join(lines))
        return make("GBRT", feature_costs=path, checkpoint=tmp_path / "kept").fit(data)

    fit(1.0)
    fit(1.0)
    with pytest.raises(ModelError, match=r"was made with other feature costs\. Delete"):
        fit(0.5)


def test_warm_start_goes_on_with_the_features_used(data, costs):
    whole = make("GBRT", feature_costs=costs).fit(data).forest_
    model = make("GBRT", feature_costs=costs, n_trees=4, warm_start=True).fit(data)
    assert model.set_params(n_trees=10).fit(data).forest_ == whole


def test_the_greater_the_weight_the_less_a_model_costs(data, costs):
    for name in KINDS:
        spent = [
            cost_of_trees(make(name, feature_costs=costs, cost_weight=w).fit(data).forest_, costs)[
                -1
            ]
            for w in (0.0, 0.05, 1.0)
        ]
        assert spent[0] > spent[1] > spent[2]


@pytest.mark.jit_only
@pytest.mark.parametrize("name", ["RandomForest", "GBRT"])
def test_costs_save_much_and_hurt_little(name):
    """At most a third of the cost, and precision@5 within two standard errors, over 90 queries.

    λ = 0.03 was chosen for data of this size; λ = 1 of this scale loses precision (benchmarks/shapes_costs.py).
    """
    changes = []
    for seed in (1, 2, 3):
        everything = rw.make_ranking(60, 25, 100, seed=seed)
        costs = make_feature_costs(100, seed=seed)
        train, test = rw.split_queries(everything, (0.5, 0.5), seed=1)
        models = [
            getattr(rw, name)(20, max_leaves=16, feature_costs=costs, cost_weight=w).fit(train)
            for w in (0.0, 0.03)
        ]
        free, aware = (cost_of_trees(model.forest_, costs)[-1] for model in models)
        assert aware <= free / 3
        free_values, aware_values = (
            rw.evaluate(model, test, "p@5", n_bootstrap=0)["p@5"].per_query for model in models
        )
        changes.append(aware_values - free_values)
    change = np.concatenate(changes)
    change = change[~np.isnan(change)]
    assert abs(change.mean()) <= 2 * change.std() / np.sqrt(change.size)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"cost_weight": -0.1}, ParameterError, r"cost_weight must be in \[0, inf\), got -0.1"),
        ({"cost_weight": np.nan}, ParameterError, r"cost_weight must be in \[0, inf\)"),
        ({"cost_weight": "much"}, ParameterError, r"cost_weight must be in \[0, inf\)"),
        ({"cost_scale": "row"}, UnknownName, "cost_scale 'row' is not known. Did you mean 'raw'"),
        ({"feature_costs": [1, 2]}, ParameterError, "has 2 values, but there are 12 features"),
        ({"feature_costs": {"13": 1}}, UnknownName, "feature of feature_costs '13' is not known"),
        ({"feature_costs": "nowhere.tsv"}, DataError, "nowhere.tsv does not exist"),
        ({"feature_costs": [np.nan] * 12}, ParameterError, "is nan; costs must be finite"),
    ],
)
def test_bad_parameters(options, kind, message, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in KINDS:
        with pytest.raises(kind, match=message):
            make(name, **options).fit(data)


def test_a_batch_has_at_least_one_tree(data):
    with pytest.raises(ParameterError, match="cost_batch must be a whole number of at least 1"):
        make("RandomForest", cost_batch=0).fit(data)


def test_prices_say_which_split_is_taken_not_whether_there_is_one(data):
    every = {"features_per_node": None}
    free = make("GBRT", **every).fit(data).forest_
    costly = make("GBRT", **every, feature_costs=np.ones(12), cost_weight=10).fit(data).forest_
    first = slice(0, 1)
    one, other = costly.take_trees(first), free.take_trees(first)
    assert one.feature.tolist() == other.feature.tolist()  # all features cost the same there
    assert one.value.tolist() == other.value.tolist()
    np.testing.assert_allclose(one.gain, other.gain)
    used = set(other.feature.tolist())
    assert set(costly.feature.tolist()) == used  # and nothing is worth a new one afterwards
    assert costly.n_leaves == free.n_leaves


def test_what_trees_use_and_cost(data):
    forest = make("GBRT").fit(data).forest_
    costs = np.arange(12.0)
    running, counted = cost_of_trees(forest, costs), count_features(forest)
    for n_trees in range(11):
        used = slow.features_in_trees(forest, n_trees)
        assert running[n_trees] == slow.cost(used, costs, n_trees)
        assert counted[n_trees] == len(used)
    assert {f for f, tree in enumerate(first_uses(forest)) if tree == 0} == slow.features_in_trees(
        forest, 1
    )


@pytest.mark.parametrize(
    "options",
    [{"validation": "query-folds", "n_folds": 2}, {"loss": "absolute"}, {"loss": "lambda"}],
    ids=lambda options: next(iter(options.values())),
)
def test_every_kind_of_broof_pays(data, costs, options):
    free = make("BROOF", **options).fit(data).forest_
    aware = make("BROOF", feature_costs=costs, cost_weight=1.0, **options).fit(data).forest_
    per_round = [cost_of_trees(forest, costs)[-1] / forest.n_trees for forest in (free, aware)]
    assert per_round[1] < per_round[0]
