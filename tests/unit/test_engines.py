"""The interface between the methods and what grows their trees."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone

import rankwood as rw
from rankwood.engines import engine as engines
from rankwood.engines.bags import Bags, Draws, OutOfBag
from rankwood.engines.engine import Engine, ThreadsEngine, TreeRequest, engine_on
from rankwood.errors import ParameterError
from rankwood.losses.loss import SquaredLoss
from rankwood.training.inputs import training_set
from rankwood.trees.grower import Growth, Policies

RANKERS = {
    "forest": rw.RandomForest(6, seed=2),
    "extra": rw.ExtraTrees(5, bag="query"),
    "random": rw.CompletelyRandomForest(3),
    "costs": rw.RandomForest(6, feature_costs=[1, 2, 3, 4, 5, 6], cost_batch=4),
    "gbrt": rw.GBRT(5, min_leaf=3, subsample=0.5),
    "averaged": rw.AveragedGBRT(3, n_runs=4, min_leaf=3),
    "initialized": rw.InitializedGBRT(4, forest_trees=5, min_leaf=3),
    "lambdamart": rw.LambdaMART(4, min_leaf=3),
    "ordinal": rw.OrdinalRanker(rw.GBRT(3, min_leaf=3)),
    "broof": rw.BROOF("gradient", n_rounds=2, n_trees=5),
    "broof folds": rw.BROOF("height", n_rounds=2, n_trees=5, validation="query-folds"),
    "broof lambda": rw.BROOF("lambda", n_rounds=2, n_trees=5),
    "deep": rw.DeepForest(n_forests=2, n_trees=4, max_layers=2),
}


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(n_queries=30, docs_per_query=10, n_features=6, missing=0.1, seed=5)


@pytest.fixture
def train(data):
    return training_set(data, data, 255, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Witness(ThreadsEngine):
    """An engine that remembers what it is asked for."""

    asked: list = dataclasses.field(default_factory=list)

    def grow(self, requests, out_of_bag=None, totals=None):
        remembered = map(self._remember, requests)
        yield from super().grow(remembered, out_of_bag, totals)

    def grow_one(self, request):
        return super().grow_one(self._remember(request))

    def _remember(self, request):
        self.asked.append(request)
        return request


@pytest.mark.jit_only  # it is about the engine, not about kernels
@pytest.mark.parametrize("name", RANKERS)
def test_every_tree_of_every_method_comes_from_the_engine(name, data, monkeypatch):
    made = []

    def witness(matrix, n_threads):
        made.append(Witness(matrix, n_threads))
        return made[-1]

    ranker = clone(RANKERS[name])
    expected = ranker.fit(data).predict(data)
    monkeypatch.setitem(engines.ENGINES, "witness", (__name__, "made_by_test"))
    monkeypatch.setitem(globals(), "made_by_test", witness)
    target = "base__device" if name == "ordinal" else "device"
    found = ranker.set_params(**{target: "witness"}).fit(data).predict(data)
    np.testing.assert_array_equal(found, expected)
    n_asked = sum(len(one.asked) for one in made)
    model = getattr(ranker, "forest_", None)
    assert n_asked >= (1 if model is None else model.n_trees)


def test_a_device_without_an_engine_is_refused(data):
    with pytest.raises(ParameterError, match=r"device 'tpu' is not known"):
        rw.RandomForest(2, device="tpu").fit(data)


def test_the_device_is_no_part_of_a_model(data, tmp_path, monkeypatch):
    monkeypatch.setitem(engines.ENGINES, "threads", ("rankwood.engines.engine", "ThreadsEngine"))
    for device in ("cpu", "threads"):
        rw.save(rw.GBRT(3, device=device).fit(data), tmp_path / device)
    contents = [rw.load(tmp_path / device) for device in ("cpu", "threads")]
    assert [model.device for model in contents] == ["cpu", "cpu"]
    np.testing.assert_array_equal(contents[0].predict(data), contents[1].predict(data))


def test_what_an_engine_cannot_do_is_refused_before_anything_grows(data, monkeypatch):
    class Narrow(ThreadsEngine):
        def check(self, policies):
            if policies.direction is not None:
                raise ParameterError("engine 'narrow' grows no trees with monotone features.")

        def grow(self, *_):
            raise AssertionError

    monkeypatch.setitem(engines.ENGINES, "narrow", (__name__, "made_by_test"))
    monkeypatch.setitem(globals(), "made_by_test", Narrow)
    for kind in (rw.RandomForest, rw.GBRT, rw.LambdaMART, rw.BROOF):
        ranker = kind(n_trees=20, max_leaves=9, monotone=[1, 0, 0, 0, 0, 0], device="narrow")
        with pytest.raises(ParameterError, match="no trees with monotone features"):
            ranker.fit(data)


def test_trees_are_in_the_out_of_bag_sums_when_they_are_given(train, data):
    engine: Engine = engine_on("cpu", train.matrix, 2)
    bags = Bags(data.n_documents, seed=3)
    policies = Policies(Growth(max_leaves=6))
    held = engine.hold((data.labels, None), bags.draws, centre=True)
    requests = [TreeRequest(held, policies, n, bags, n) for n in range(4)]
    sums, totals = OutOfBag.empty(data.n_documents), np.zeros(data.n_documents)
    expected, expected_totals = OutOfBag.empty(data.n_documents), np.zeros(data.n_documents)
    for number, tree in enumerate(engine.grow(iter(requests), sums, totals)):
        expected.add(tree, bags.counts(number))
        expected_totals += tree.value[tree.leaf_of_row]
        np.testing.assert_array_equal(sums.sums, expected.sums)
        np.testing.assert_array_equal(sums.n_trees, expected.n_trees)
        np.testing.assert_array_equal(totals, expected_totals)


def test_a_request_may_name_the_rows_it_is_held_out_from(train, data):
    seen = (np.arange(data.n_documents) % 3 > 0).astype(np.int32)
    bags = Bags(data.n_documents)
    held = train.engine.hold((data.labels, None), bags.draws, centre=True)
    request = TreeRequest(held, Policies(), 1, bags, 0, seen=seen)
    sums = OutOfBag.empty(data.n_documents)
    next(train.engine.grow([request], sums))
    np.testing.assert_array_equal(sums.n_trees, 1 - seen)


def test_scores_follow_the_trees(train, data):
    loss = SquaredLoss(data.labels, None, starts_at_mean=False)
    scores = train.engine.scores(np.zeros(data.n_documents), 0.5)
    targets, weights = train.engine.targets(loss, scores)
    np.testing.assert_array_equal(targets, data.labels - 0.5)
    assert weights is None
    held = train.engine.hold((targets, None), Draws(None, data.n_documents), centre=True)
    tree = train.engine.grow_one(TreeRequest(held, Policies(), 0))
    scores.add(tree, 0.1)
    np.testing.assert_array_equal(scores.on_host(), 0.1 * tree.value[tree.leaf_of_row] + 0.5)
