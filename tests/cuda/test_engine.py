"""The CUDA engine on emulated kernels: its trees and models have the bytes of those grown on threads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone

import rankwood as rw
from rankwood.engines.bags import Bags, Draws
from rankwood.engines.cuda import device, growing
from rankwood.engines.cuda import scores as scores_there
from rankwood.engines.cuda.engine import CudaEngine
from rankwood.engines.cuda.scores import CudaLambdas
from rankwood.engines.engine import ThreadsEngine, TreeRequest, engine_on
from rankwood.errors import MissingExtra, ParameterError, RunError
from rankwood.losses.lambdarank import LambdaRank
from rankwood.training.inputs import training_set
from rankwood.trees.grower import FeatureChoice, Growth, Policies, grow_tree
from tests.contract.rankers import (
    asked_in_every_way,
    make,
    saved,
    training_data,
    validation_data,
)
from tests.unit.test_trees import assert_same_tree, matrix_of, random_problem

GROWN = [
    "RandomForest",
    "ExtraTrees",
    "CompletelyRandomForest",
    "GBRT",
    "AveragedGBRT",
    "InitializedGBRT",
    "OrdinalRanker",
    "LambdaMART",
    "BROOF",
    "DeepForest",
]
QUICK = {"RandomForest: query", "GBRT", "LambdaMART: subsample", "BROOF"}  # the others are slow
REFUSED = {"GBRT: dropout", "LambdaMART: features per tree"}  # they limit which features may meet


@pytest.fixture
def gpu(cupy, monkeypatch):
    """A GPU of small blocks, several of which share even a tiny tree."""
    monkeypatch.setattr(device, "LARGEST_BLOCK", 64)
    monkeypatch.setattr(growing, "_LEAST_SUMS", 20)
    return cupy


def problem(seed):
    """A random problem, without monotone features."""
    codes, thresholds, targets, counts, weights, policies = random_problem(seed)
    policies = dataclasses.replace(policies, direction=None)
    return matrix_of(codes, thresholds), targets, counts.astype(np.int32), weights, policies


def grown_alone(engine, targets, weights, counts, policies, stream):
    draws = Draws((counts > 0).astype(np.int32), int(counts.sum()))
    held = engine.hold((targets, weights), draws, centre=policies.lets_shift)
    tree = engine.grow_one(TreeRequest(held, policies, stream, present=counts))
    return dataclasses.replace(tree, leaf_of_row=np.asarray(tree.leaf_of_row))


def assert_grows_the_same(seed, change=lambda policies: policies):
    matrix, targets, counts, weights, policies = problem(seed)
    policies = change(policies)
    whole = grow_tree(matrix, targets, policies, counts=counts, weights=weights, stream=seed)
    engine = CudaEngine(matrix, 1)
    assert_same_tree(grown_alone(engine, targets, weights, counts, policies, seed), whole)


# Trees.


def test_records_are_as_long_as_those_of_the_kernels():
    """Every field of ``Node`` and ``Launch`` is aligned to its size, as C++ does it."""
    assert growing.NODE.itemsize == 88
    assert growing.LAUNCH.itemsize == 176


@pytest.mark.parametrize("first", [0, pytest.param(20, marks=pytest.mark.slow)])
def test_a_tree_that_all_blocks_share_has_the_same_bytes(first, gpu):
    for seed in range(first, first + (20 if first == 0 else 200)):
        assert_grows_the_same(seed)
    assert "grow_tree" in gpu.machine.launches


def test_a_tree_that_blocks_share_has_no_more_blocks_than_run_at_once(gpu, monkeypatch):
    """Blocks that wait for one that has not begun would wait for ever."""
    for n_at_once in (1, 3):
        monkeypatch.setattr(device, "blocks_at_once", lambda *_, most=n_at_once: most)
        assert_grows_the_same(1)
    monkeypatch.undo()
    assert device.blocks_at_once("one_tree.cu", "grow_tree", 64, 1000) > gpu.machine.n_processors
    assert device.blocks_at_once("one_tree.cu", "grow_tree", 1024, 200_000) == 4


def test_a_gpu_without_cooperative_launches_grows_each_tree_by_one_block(gpu, monkeypatch):
    ask = device.attribute
    monkeypatch.setattr(
        device, "attribute", lambda name: 0 if name == "CooperativeLaunch" else ask(name)
    )
    assert device.blocks_at_once("one_tree.cu", "grow_tree", 64, 1000) == 0
    assert_grows_the_same(1)
    assert gpu.machine.launches.count("grow_trees") == 1
    assert "grow_tree" not in gpu.machine.launches


def test_kernels_are_in_ascii():
    """CuPy writes them to a file in the encoding of the machine's language."""
    for file in ("rows.cu", "forest.cu", "one_tree.cu", "scoring.cu", "lambdas.cu"):
        assert device.source(file).isascii()


@pytest.mark.parametrize("first", [0, pytest.param(20, marks=pytest.mark.slow)])
def test_a_tree_of_one_block_has_the_same_bytes(first, gpu, monkeypatch):
    monkeypatch.setattr(growing, "_MOST_LEAVES", 0)
    for seed in range(first, first + (20 if first == 0 else 200)):
        assert_grows_the_same(seed)
    assert "grow_tree" not in gpu.machine.launches


@pytest.mark.parametrize("max_leaves", [None, 7])
def test_a_completely_random_tree_has_the_same_bytes(max_leaves, gpu):
    def random(policies):
        growth = dataclasses.replace(policies.growth, max_leaves=max_leaves)
        missing = "learned" if policies.missing == "own_child" else policies.missing
        return Policies(growth, thresholds="completely_random", missing=missing)

    for seed in range(12):
        assert_grows_the_same(seed, random)


@pytest.mark.parametrize(
    "options",
    [
        {"l1": 0.4},
        {"features": FeatureChoice(per_tree=2)},
        {"features": FeatureChoice(1, given=(0, 0, 0))},
    ],
)
def test_other_policies_give_the_same_bytes(options, gpu):
    for seed in range(6):
        if "features" in options and problem(seed)[0].columns.shape[0] < 2:
            continue
        assert_grows_the_same(seed, lambda policies: dataclasses.replace(policies, **options))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_threads_changes_nothing(seed, gpu):
    gpu.machine.seed = seed
    for number in range(15):
        assert_grows_the_same(100 * seed + number)


def test_many_features_need_several_tiles(gpu, monkeypatch, rng):
    """Histograms of more features than the shared memory holds are built one tile after the other."""
    monkeypatch.setattr(growing, "_MOST_AT_ONCE", 36)
    codes = rng.integers(0, 30, (75, 90)).astype(np.uint8)
    matrix = matrix_of(codes, [np.arange(29)] * 75)
    targets = rng.normal(size=90)
    for features in (FeatureChoice(), FeatureChoice(70)):
        policies = Policies(Growth(max_leaves=5), features)
        whole = grow_tree(matrix, targets, policies, stream=3)
        for most_leaves in (0, 100):
            monkeypatch.setattr(growing, "_MOST_LEAVES", most_leaves)
            engine = CudaEngine(matrix, 1)
            ones = np.ones(90, np.int32)
            assert_same_tree(grown_alone(engine, targets, None, ones, policies, 3), whole)


# Bags.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"share": 0.4},
        {"share": 20.0},  # more draws of a row than four bits hold
        {"replacement": False, "share": 0.5},
        {"by_query": True},
        {"by_query": True, "is_partial": True},
        {"is_partial": True},
        {"is_weighted": True},
        {"is_weighted": True, "by_query": True, "most_draws": 2.0},
    ],
)
def test_trees_see_the_rows_of_their_bags(options, gpu, rng, monkeypatch):
    monkeypatch.setattr(growing, "_MOST_COUNTED", 32)
    n_rows = 80
    given = dict(options)
    if given.pop("by_query", False):
        given["query_of_row"] = np.sort(rng.integers(0, 15, n_rows))
    if given.pop("is_partial", False):
        given["present"] = rng.random(n_rows) < 0.8
    if given.pop("is_weighted", False):
        given["weights"] = rng.random(n_rows)
    bags = Bags(n_rows, seed=4, **given)
    codes = rng.integers(0, 20, (4, n_rows)).astype(np.uint8)
    matrix, labels = matrix_of(codes, [np.arange(19)] * 4), rng.integers(0, 4, n_rows).astype(float)
    grown, estimates = [], []
    for engine in (ThreadsEngine(matrix, 1), CudaEngine(matrix, 1)):
        held = engine.hold((labels, None), bags.draws, centre=True)
        out_of_bag, totals = engine.out_of_bag(), np.zeros(n_rows)
        requests = (
            TreeRequest(held, Policies(Growth(max_leaves=6)), 9 + tree, bags, tree)
            for tree in range(5)
        )
        grown.append([])
        for tree in engine.grow(requests, out_of_bag, totals):
            leaf_of_row = np.asarray(tree.leaf_of_row)
            grown[-1].append(dataclasses.replace(tree, leaf_of_row=leaf_of_row))
            estimates.append(out_of_bag.sums.tobytes() + out_of_bag.n_trees.tobytes())
        estimates.append(totals.tobytes())
    for one, other in zip(*grown, strict=True):
        assert_same_tree(one, other)
    assert estimates[:6] == estimates[6:]


# Rankers.


def on_gpu(ranker):
    names = [name for name in ranker.get_params(deep=True) if name.split("__")[-1] == "device"]
    return ranker.set_params(**dict.fromkeys(names, "cuda"))


def ways():
    for case in asked_in_every_way(of=lambda name, _: name in GROWN):
        is_quick = case.values[0] in QUICK
        yield pytest.param(
            *case.values, marks=[*case.marks, *([] if is_quick else [pytest.mark.slow])]
        )


@pytest.mark.jit_only  # it is about the engine, not about kernels of the CPU
@pytest.mark.parametrize("case", list(ways()))
def test_a_ranker_has_the_same_bytes(case, gpu, tmp_path):
    train, valid = training_data(), validation_data()
    ranker = on_gpu(make(case, n_threads=2))
    if case in REFUSED:
        with pytest.raises(ParameterError, match=r"CUDA engine .* groups of features"):
            ranker.fit(train, valid=valid)
        assert {"grow_tree", "grow_trees"}.isdisjoint(gpu.machine.launches)
        return
    one = saved(make(case, n_threads=1).fit(train, valid=valid), tmp_path / "cpu")
    assert saved(ranker.fit(train, valid=valid), tmp_path / "cuda") == one
    assert {"grow_tree", "grow_trees"} & set(gpu.machine.launches)


@pytest.mark.parametrize(
    "ranker",
    [
        rw.AveragedGBRT(2, 2, subsample=0.5),  # trees of several targets grow in one launch
        rw.GBRT(3, feature_costs=[1, 2, 0, 0, 1], cost_weight=0.1, cost_scale="relative"),
        rw.GBRT(3, dropout=0.5),
        rw.GBRT(3, l2=0.5, subsample=0.5),
    ],
)
def test_squared_loss_on_the_gpu_gives_the_same_bytes(ranker, gpu, tmp_path):
    train = training_data()
    starts = np.linspace(-1.0, 1.0, train.n_documents)
    for given in ({}, {"init_scores": starts}):
        if given and not isinstance(ranker, rw.GBRT):
            continue
        one = saved(clone(ranker).fit(train, **given), tmp_path / "cpu")
        assert saved(on_gpu(clone(ranker)).fit(train, **given), tmp_path / "cuda") == one
    assert "make_whole" in gpu.machine.launches


MEET = [[0, 1], [2, 3, 4]]
LAMBDAS = {
    "plain": rw.LambdaMART(4, seed=3),
    "a cut-off": rw.LambdaMART(4, target="ndcg@3", seed=3),
    "few pairs": rw.LambdaMART(4, truncation=2, normalise=False, sigma=2.5, seed=3),
    "all pairs": rw.LambdaMART(4, truncation=None, missing="own_child", seed=3),
    "dropout": rw.LambdaMART(4, dropout=0.5, seed=3),
    "bags": rw.LambdaMART(4, subsample=0.6, seed=3),
}


@pytest.mark.parametrize("name", LAMBDAS)
@pytest.mark.parametrize("weighed", [None, "positive", "some 0"])
def test_lambdas_on_the_gpu_give_the_same_bytes(name, weighed, gpu, rng, tmp_path):
    train = training_data()
    given = {}
    if weighed is not None:
        given["sample_weight"] = 0.1 + rng.random(train.n_documents)
        if weighed == "some 0":
            given["sample_weight"][::5] = 0.0
    one, other = (
        saved(make_one.fit(train, **given), tmp_path / "model")
        for make_one in (clone(LAMBDAS[name]), on_gpu(clone(LAMBDAS[name])))
    )
    assert one == other
    assert ("lambdas_of_queries" in gpu.machine.launches) == (weighed != "some 0")


def assert_steps_are_the_same(seed, rng):
    """Queries of 1 to 90 documents, some with one label, tied scores, starts by row; and those of large exponents."""
    sizes = [1, 2, 3, 90, 5, 31, 32, 33, 4, 64]
    query_ids = np.repeat(np.arange(len(sizes)), sizes)
    labels = rng.integers(0, 4, query_ids.size).astype(float)
    labels[query_ids == 2] = 1.0
    data = rw.RankingData(rng.random((labels.size, 2)), labels, query_ids)
    values = np.round(rng.normal(size=labels.size), 1) * [0.0, 1.0, 30.0, 1000.0][seed]
    weights = None if seed % 2 else rng.random(labels.size) + 0.1
    loss = LambdaRank(data, weights=weights, truncation=[None, 30, 3, 7][seed], n_threads=1)
    engine = engine_on("cuda", training_set(data, data, 255, 1).matrix, 1)
    totals, starts = (
        values.copy(),
        rng.random(labels.size) * min(seed, 1),
    )  # of the first, all are tied
    targets = engine.targets(loss, engine.scores(totals, starts))
    there = targets.there()
    assert isinstance(targets, CudaLambdas)
    for found, wanted in zip((there._targets, there._weights), targets, strict=True):
        assert device.download(found).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_steps_for_lambdas_have_the_same_bytes(seed, gpu, rng, monkeypatch):
    monkeypatch.setattr(scores_there, "_QUERY_THREADS", 32)
    assert_steps_are_the_same(seed, rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "few pairs"])
def test_accesses_of_lambdas_are_in_order(name, gpu, tmp_path):
    gpu.machine.checks_accesses = True
    train = training_data()
    one = saved(clone(LAMBDAS[name]).fit(train), tmp_path / "cpu")
    for seed in range(2):
        gpu.machine.seed = seed
        other = on_gpu(clone(LAMBDAS[name])).fit(train)
        assert saved(other, tmp_path / "cuda") == one


def test_other_losses_of_pairs_stay_with_the_cpu(gpu, monkeypatch, tmp_path):
    train = training_data()
    for options in ({"target": "map"}, {"target": "err@5"}, {"target": "ndcg"}):
        if options["target"] == "ndcg":
            monkeypatch.setattr(device, "shared_bytes", lambda: 50)  # no query has room
            monkeypatch.setattr(growing, "_most_features", lambda: 5)
        one, other = (
            saved(rw.LambdaMART(3, device=name, **options).fit(train), tmp_path / "model")
            for name in ("cpu", "cuda")
        )
        assert one == other
    assert "lambdas_of_queries" not in gpu.machine.launches


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("centre", [True, False])
def test_whole_numbers_made_on_the_gpu_are_those_of_the_cpu(seed, centre, gpu, rng):
    n_rows = 333
    targets = rng.normal(size=n_rows) * [1.0, 1e-200, 1e100, 0.0, 1.0, 1.0][seed]
    weights = [None, rng.random(n_rows), rng.random(n_rows) * 1e5, np.ones(n_rows)][seed % 4]
    if seed == 4:
        targets, weights = np.full(n_rows, -0.0), np.where(rng.random(n_rows) < 0.5, -0.0, 2.0)
    matrix = matrix_of(rng.integers(0, 9, (2, n_rows)).astype(np.uint8), [np.arange(8)] * 2)
    draws = Draws(None, 2 * n_rows)
    here, there = (
        engine(matrix, 1).hold((targets, weights), draws, centre=centre)
        for engine in (ThreadsEngine, CudaEngine)
    )
    assert there.scales == here.scales
    assert there.whole.targets.tobytes() == here.targets.tobytes()
    assert there.whole.weights.tobytes() == here.weights.tobytes()


# What cannot be done.


@pytest.mark.parametrize(
    ("ranker", "what"),
    [
        (rw.RandomForest(2, monotone=[1, 0, 0, 0, 0]), "monotone features"),
        (rw.BROOF("gradient", n_rounds=2, monotone=[1, 0, 0, 0, 0]), "monotone features"),
        (rw.OrdinalRanker(rw.GBRT(2, monotone=[1, 0, 0, 0, 0])), "monotone features"),
        (rw.GBRT(2, interactions=MEET), "groups of features that may meet"),
        (rw.InitializedGBRT(2, forest_trees=2, interactions=MEET), "groups of features that may"),
        (rw.DeepForest([rw.RandomForest(2), rw.GBRT(2, interactions=MEET)]), "groups of features"),
    ],
)
def test_what_the_engine_cannot_do_is_an_error(ranker, what, gpu):
    with pytest.raises(ParameterError, match=f"the CUDA engine .* cannot grow trees with {what}"):
        on_gpu(clone(ranker)).fit(training_data())
    assert {"grow_tree", "grow_trees"}.isdisjoint(gpu.machine.launches)


def test_chances_of_features_are_refused(gpu):
    engine = training_set(training_data(), training_data(), 255, 1, "cuda").engine
    choice = FeatureChoice(1, probability=np.full(5, 0.2))
    with pytest.raises(ParameterError, match="features drawn by a probability"):
        engine.check(Policies(features=choice))


def test_a_lack_of_memory_is_an_error_after_which_the_gpu_works(gpu):
    data = training_data()
    gpu.machine.memory = 1000
    with pytest.raises(RunError, match=r"the GPU has too little memory for .* rows of 5 features"):
        rw.RandomForest(2, device="cuda").fit(data)
    gpu.machine.memory = 1 << 30
    rw.RandomForest(2, max_leaves=4, device="cuda").fit(data)


def test_a_number_names_one_of_several_gpus(gpu, tmp_path):
    gpu.machine.n_devices = 2
    data = training_data()
    for make_one in (rw.GBRT, rw.RandomForest):
        models = [make_one(3, device=name).fit(data) for name in ("cpu", "cuda:1")]
        one, other = (saved(model, tmp_path / "model") for model in models)
        assert one == other
    assert gpu.machine.heap(0).most_used == 0
    assert gpu.machine.heap(1).most_used > 0
    assert gpu.cuda.get_device_id() == 0
    with pytest.raises(RunError, match=r"no GPU device='cuda:2'. There is .*'cuda:0' to 'cuda:1'"):
        rw.GBRT(3, device="cuda:2").fit(data)
    for name in ("cuda:", "cuda:x", "cpu:1", 3):
        with pytest.raises(ParameterError, match="device"):
            rw.GBRT(3, device=name).fit(data)


def test_a_lack_of_memory_for_numbers_of_rows_is_an_error(gpu):
    engine = engine_on("cuda", training_set(training_data(), training_data(), 255, 1).matrix, 1)
    gpu.machine.memory = gpu.machine.heap(0).used
    with pytest.raises(RunError, match="the GPU has too little memory for a number for each row"):
        engine.out_of_bag()


def test_large_arrays_are_copied_as_they_are(gpu, monkeypatch):
    monkeypatch.setattr(device, "_LARGE", 40)
    for size in (0, 3, 12):
        values = np.arange(size)
        assert device.download(device.upload(values))[:size].tolist() == values.tolist()


def test_a_machine_without_a_gpu_is_an_error(cupy):
    cupy.machine.n_devices = 0
    with pytest.raises(RunError, match=r"needs an NVIDIA GPU .* Use device='cpu'"):
        rw.RandomForest(2, device="cuda").fit(training_data())
    assert device.description() is None


def test_a_machine_without_cupy_is_an_error(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rankwood\[gpu\]'"):
        rw.RandomForest(2, device="cuda").fit(training_data())
    assert device.description() is None


def test_the_gpu_has_a_name(gpu):
    assert "Emulated GPU, CuPy" in device.description()


def test_the_engine_with_other_threads_has_the_same_rows(gpu):
    engine = engine_on("cuda", training_set(training_data(), training_data(), 255, 1).matrix, 1)
    other = engine.with_threads(2)
    assert other.n_threads == 2
    assert other.rows is engine.rows
