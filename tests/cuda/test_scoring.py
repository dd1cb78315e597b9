"""Scoring on emulated kernels: every model of trees gives the bytes of the CPU's scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

import rankwood as rw
from rankwood.data.reading import write_data
from rankwood.engines.cuda import scores
from rankwood.engines.engine import scoring_on
from rankwood.errors import ModelError, ParameterError, RunError
from rankwood.models import scoring
from rankwood.rankers.base import predict_where_grown
from tests.cli.conftest import rankwood  # noqa: F401 - a fixture
from tests.contract.rankers import training_data

SMALL = {"max_leaves": 6, "seed": 3}
RANKERS = {
    "forest": rw.RandomForest(6, **SMALL),
    "one tree": rw.RandomForest(1, **SMALL),
    "a leaf": rw.RandomForest(2, max_leaves=1),
    "random": rw.CompletelyRandomForest(3, seed=1),
    "own child": rw.RandomForest(5, missing="own_child", **SMALL),
    "GBRT": rw.GBRT(5, seed=3),
    "LambdaMART": rw.LambdaMART(6, seed=3),
    "DART": rw.LambdaMART(5, dropout=0.5, seed=3),
    "averaged": rw.AveragedGBRT(3, n_runs=2, seed=3),
    "initialized": rw.InitializedGBRT(3, forest_trees=3, seed=3),
    "ordinal": rw.OrdinalRanker(rw.GBRT(3, seed=3)),
    "ordinal, clipped": rw.OrdinalRanker(rw.RandomForest(3, **SMALL), clip=True),
    "BROOF": rw.BROOF("gradient", n_rounds=2, n_trees=3, **SMALL),
    "search": rw.BoostingTree(max_length=3, seed=3),
    "cascade": rw.DeepForest(n_forests=2, n_trees=3, max_layers=2, patience=None, seed=3),
    "cascade of trees": rw.DeepForest(
        n_forests=2, n_trees=3, max_layers=2, patience=None, augment="trees", seed=3
    ),
    "blend": rw.Blend(
        [("a", rw.RandomForest(3, **SMALL)), ("b", rw.LambdaMART(3, seed=3))], weights="equal"
    ),
}


@pytest.fixture
def gpu(cupy, monkeypatch):
    """A GPU of small blocks, which score small slices."""
    monkeypatch.setattr(scores, "_BLOCKS", (32,))
    monkeypatch.setattr(scores, "_SLICE", 1)  # a block
    return cupy


def assert_same(one, other):
    assert one.dtype == other.dtype
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", RANKERS)
def test_scores_have_the_same_bytes(name, gpu):
    data = training_data()
    ranker = clone(RANKERS[name]).fit(data)
    assert_same(ranker.predict(data, device="cuda"), ranker.predict(data))
    assert "walk_rows" in gpu.machine.launches
    assert len(gpu.machine.launches) >= -(-data.n_documents // 32)


def test_values_at_the_edges_go_the_same_way(gpu, rng):
    """Values that are a threshold, or the next float32, both zeros, infinities, NaN of either sign."""
    data = training_data()
    model = rw.RandomForest(4, max_leaves=12, seed=3).fit(data).forest_
    cuts = model.threshold[model.feature >= 0]
    some = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, *cuts]
    some += [*np.nextafter(cuts, np.float32(np.inf)), *np.nextafter(cuts, np.float32(-np.inf))]
    features = rng.choice(np.array(some, np.float32), (300, data.n_features))
    with scoring_on("cuda", model):
        there = model.predict(features), model.leaf_ids(features)
    assert_same(there[0], model.predict(features))
    assert_same(there[1], model.leaf_ids(features))


@pytest.mark.parametrize("name", ["forest", "own child"])
def test_keys_that_have_no_room_are_read_again(name, gpu, monkeypatch):
    data = training_data()
    ranker = clone(RANKERS[name]).fit(data)
    monkeypatch.setattr(scores, "_MOST_KEYS", 100)
    assert_same(ranker.predict(data, device="cuda"), ranker.predict(data))


def test_blocks_have_as_many_rows_as_have_room(gpu, monkeypatch):
    data = training_data()
    ranker = clone(RANKERS["forest"]).fit(data)
    monkeypatch.setattr(scores, "_BLOCKS", (96, 64, 32))
    for most in (10_000, 4 * 64 * ranker.forest_.packed.columns.size):
        monkeypatch.setattr(scores, "_MOST_KEYS", most)
        assert_same(ranker.predict(data, device="cuda"), ranker.predict(data))


@pytest.mark.parametrize("name", ["forest", "own child"])
def test_binned_rows_have_the_same_scores(name, gpu, tmp_path):
    data = training_data()
    write_data(data, tmp_path / "data.parquet")
    rw.bin_files(tmp_path / "data.parquet", tmp_path / "folder")
    stored = rw.open_binned(tmp_path / "folder")
    ranker = clone(RANKERS[name]).fit(stored)
    assert_same(ranker.predict(stored, device="cuda"), ranker.predict(stored))


def test_the_first_trees_and_no_rows(gpu):
    data = training_data()
    ranker = rw.LambdaMART(6, seed=3).fit(data)
    assert_same(ranker.predict(data, n_trees=2, device="cuda"), ranker.predict(data, n_trees=2))
    assert ranker.predict(data.features[:0], device="cuda").size == 0
    one = data.features[:1]
    assert_same(ranker.predict(one, device="cuda"), ranker.predict(one))


def test_trees_are_added_to_what_is_there(gpu):
    """Stages go on with the sums of the trees before."""
    data = training_data()
    model = rw.GBRT(5, seed=3).fit(data).forest_
    here = [found for _, found in model.predict_stages(data, 2)]
    with scoring_on("cuda", model):
        there = [found for _, found in model.predict_stages(data, 2)]
    for one, other in zip(there, here, strict=True):
        assert_same(one, other)


def test_slices_do_not_grow_with_the_rows(gpu, rng):
    ranker = rw.RandomForest(3, **SMALL).fit(training_data())
    used = []
    for n_rows in (100, 1000):
        gpu.machine.heap(0).most_used = 0
        ranker.predict(rng.random((n_rows, 5)), device="cuda")
        used.append(gpu.machine.heap(0).most_used)
    assert used[0] == used[1] > 0
    assert gpu.machine.heap(0).used == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forest", "own child"])
def test_accesses_are_in_order(name, gpu):
    gpu.machine.checks_accesses = True
    data = training_data()
    ranker = clone(RANKERS[name]).fit(data)
    for seed in range(3):
        gpu.machine.seed = seed
        assert_same(ranker.predict(data, device="cuda"), ranker.predict(data))


# What is refused, before anything runs.


def test_models_without_trees_are_refused(gpu):
    data = training_data()
    parts = [("a", rw.RandomForest(2, **SMALL)), ("b", rw.RankSVM())]
    for ranker, what in (
        (rw.RankSVM(), "not by a LinearModel: use device='cpu'"),
        (rw.Blend(parts, weights="equal"), "not by a BlendModel with a LinearModel"),
        (
            rw.DeepForest([DecisionTreeRegressor(max_depth=2)], max_layers=1),
            "with a ForeignModel",
        ),
    ):
        with pytest.raises(ModelError, match=what):
            ranker.fit(data).predict(data, device="cuda")
    with pytest.raises(ParameterError, match="device"):
        rw.RandomForest(1).fit(data).predict(data, device="gpu")
    assert gpu.machine.launches == []


def test_a_machine_without_a_gpu_is_an_error(cupy):
    data = training_data()
    model = rw.RandomForest(1, **SMALL).fit(data)
    cupy.machine.n_devices = 0
    with pytest.raises(RunError, match=r"needs an NVIDIA GPU .* Use device='cpu'"):
        model.predict(data, device="cuda")


def test_a_lack_of_memory_is_an_error_after_which_the_gpu_works(gpu):
    data = training_data()
    model = rw.RandomForest(3, **SMALL).fit(data)
    gpu.machine.memory = 600
    with pytest.raises(
        RunError, match=r"too little memory for a forest of .* nodes and two slices"
    ):
        model.predict(data, device="cuda")
    gpu.machine.memory = 1 << 30
    assert_same(model.predict(data, device="cuda"), model.predict(data))


# Where it is asked for.


@pytest.mark.parametrize("options", [(), ("--whole",)])
def test_the_command_scores_on_a_gpu(options, gpu, rankwood, tmp_path):  # noqa: F811
    data = training_data()
    write_data(data, tmp_path / "data.parquet")
    fitted = rw.RandomForest(3, **SMALL).fit(data)
    rw.save(fitted, tmp_path / "m.rankwood")
    asked = ("score", "m.rankwood", "data.parquet", *options)
    here = rankwood(*asked)
    there = rankwood(*asked, "--device", "cuda")
    assert (there.code, there.out) == (0, here.out)
    assert "walk_rows" in gpu.machine.launches


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--early-exit", "every=1,drop=0.1"), "--early-exit is not for --device"),
        (("--dask", "local"), "not for data on a Dask cluster"),
        ((), "needs an NVIDIA GPU"),
    ],
)
def test_the_command_refuses_a_gpu(options, said, cupy, rankwood, tmp_path):  # noqa: F811
    cupy.machine.n_devices = 0
    data = training_data()
    write_data(data, tmp_path / "data.parquet")
    rw.save(rw.RandomForest(3, **SMALL).fit(data), tmp_path / "m.rankwood")
    outcome = rankwood(
        "score", "m.rankwood", "data.parquet", "--device", "cuda", "--out", "o.tsv", *options
    )
    assert outcome.code != 0
    assert said in outcome.err
    assert not (tmp_path / "o.tsv").exists()


def test_a_cell_of_an_experiment_scores_where_its_trees_were_grown(gpu):
    data = training_data()
    grown = rw.GBRT(2, device="cuda").fit(data)
    for ranker, walks in (
        (grown, True),
        (rw.GBRT(2).fit(data), False),
        (rw.RankSVM().fit(data), False),
    ):
        gpu.machine.launches.clear()
        assert_same(predict_where_grown(ranker, data), ranker.predict(data))
        assert ("walk_rows" in gpu.machine.launches) == walks


def test_another_thread_scores_as_before(gpu):
    """The device is that of the thread that asked for it."""
    assert scoring._walker.get() is None
    data = training_data()
    model = rw.RandomForest(3, **SMALL).fit(data).forest_
    with scoring_on("cuda", model):
        assert scoring._walker.get() is not None
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(model.predict, data.features).result()
    assert gpu.machine.launches == []
    assert_same(found, model.predict(data))


@pytest.mark.parametrize("missing", ["learned", "own_child"])
def test_splits_by_categories_score_the_same(missing, gpu, rng):
    codes = rng.integers(0, 90, 400).astype(np.float32)
    codes[::17] = np.nan
    features = np.column_stack([rng.normal(size=400), codes]).astype(np.float32)
    worth = rng.normal(size=90)
    data = rw.RankingData(
        features,
        np.abs(worth[np.nan_to_num(codes).astype(int)]),
        query_ids=np.repeat(np.arange(40), 10),
        categorical={1: [f"brand {code}" for code in range(90)]},
    )
    ranker = rw.RandomForest(4, max_leaves=20, min_leaf=2, missing=missing, seed=1).fit(data)
    assert len(ranker.forest_.subsets)
    assert_same(ranker.predict(data, device="cuda"), ranker.predict(data))
