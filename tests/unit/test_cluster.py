"""Training on a Dask cluster: the same bytes as in one process, whatever the workers, the division and the way."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood._core.checks import read_only
from rankwood.binning.binned import bin_data
from rankwood.data.frames import NotAFeatureError, UnusableColumn
from rankwood.engines import placement as placements
from rankwood.engines.bags import Bags
from rankwood.engines.holder import Holder, Layout
from rankwood.errors import DataError, MissingExtra, ParameterError, RunError, UnknownName
from tests.contract.rankers import (
    asked_in_every_way,
    make,
    saved,
    training_data,
    validation_data,
)
from tests.property.test_exact_sums import GROWN

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None, reason="the extra 'dask' is missing"
    ),
    pytest.mark.filterwarnings("ignore"),  # Dask's own, on shutting down
]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def client():
    """A cluster of three workers in this process."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def written(data, folder, n_files, name="part", form="parquet"):
    """The data in files, cut anywhere."""
    from rankwood.data.reading import write_data

    edges = [data.n_documents * number // n_files for number in range(n_files + 1)]
    paths = []
    for number, (first, last) in enumerate(itertools.pairwise(edges)):
        paths.append(folder / f"{name}-{number}.{form}")
        write_data(data.take_rows(np.arange(first, last)), paths[-1])
    return paths


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return written(training_data(), folder, 3), written(validation_data(), folder, 1, "valid")


@pytest.fixture(scope="module")
def distributed_data(client, files):
    """The training data in both ways, and the validation data."""

    @functools.cache
    def made(by):
        train = rw.distribute(client, files[0], by=by)
        return train, rw.distribute(client, files[1], bins=train)

    return made


@functools.cache
def in_process(case, folder):
    path = folder / "in-process"
    return saved(make(case, n_threads=1).fit(training_data(), valid=validation_data()), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def cases():
    every = asked_in_every_way(of=lambda name, _: name in GROWN)
    return [case for case in every if "dropout" not in case.values[0]]  # which is refused


@pytest.mark.jit_only  # it is about messages, not about kernels
@pytest.mark.parametrize("by", ["rows", "trees"])
@pytest.mark.parametrize("case", cases())
def test_a_ranker_has_the_same_bytes_on_a_cluster(case, by, distributed_data, folder, tmp_path):
    train, valid = distributed_data(by)
    model = make(case).fit(train, valid=valid)
    assert saved(model, tmp_path / "cluster") == in_process(case, folder)


SETTINGS = {
    "costs": rw.RandomForest(
        6, max_leaves=6, feature_costs=[1, 2, 3, 4, 5], cost_batch=4, cost_weight=0.5
    ),
    "boosted costs": rw.GBRT(4, max_leaves=4, min_leaf=3, feature_costs=[1, 2, 3, 4, 5]),
    "monotone": rw.GBRT(4, max_leaves=6, min_leaf=3, monotone=[1, 0, -1, 0, 0]),
    "own child": rw.RandomForest(4, max_leaves=8, missing="own_child"),
    "a loss of the user's": rw.LambdaMART(
        4, min_leaf=3, loss=lambda scores, data: (scores - data.labels, np.ones(scores.size))
    ),
    "err": rw.LambdaMART(4, min_leaf=3, target="err"),
}


@pytest.mark.jit_only
@pytest.mark.parametrize("by", ["rows", "trees"])
@pytest.mark.parametrize("name", SETTINGS)
def test_further_settings(name, by, distributed_data, tmp_path):
    from sklearn.base import clone

    train, _ = distributed_data(by)
    one = clone(SETTINGS[name]).fit(training_data())
    other = clone(SETTINGS[name]).fit(train)
    assert saved(other, tmp_path / "b") == saved(one, tmp_path / "a")
    assert np.array_equal(other.predict(train).compute(), one.predict(training_data()))


# Where data come from.


def assert_same_data(found, data):
    assert np.array_equal(found.data.labels, data.labels)
    assert found.data.queries.tolist() == data.queries.tolist()
    assert np.array_equal(found.data.query_of_row, data.query_of_row)
    bins = bin_data(data).bins
    assert np.array_equal(found.bins.thresholds, bins.thresholds)
    assert np.array_equal(found.bins.offsets, bins.offsets)
    assert np.array_equal(found.on_host().codes, bin_data(data).codes)


@pytest.mark.parametrize("form", ["parquet", "csv", "txt"])
def test_files_are_read_by_the_workers(client, tmp_path, form):
    """Queries go on in the next file."""
    data = rw.make_ranking(15, 8, 4, seed=1)
    found = rw.distribute(client, written(data, tmp_path, 4, form=form))
    assert_same_data(found, data)


def test_a_dask_frame(client, tmp_path):
    dataframe = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    data = rw.make_ranking(15, 8, 4, missing=0.1, seed=1)
    frame = pandas.DataFrame(data.features, columns=["a", "b", "c", "d"])
    frame["label"], frame["qid"] = data.labels, data.query_ids
    found = rw.distribute(client, dataframe.from_pandas(frame, npartitions=4, sort=False))
    assert_same_data(found, data)
    one = rw.RandomForest(4, max_leaves=6).fit(
        rw.RankingData(data.features, data.labels, data.query_ids, feature_names=list("abcd"))
    )
    for by in ("rows", "trees"):
        found = rw.distribute(client, dataframe.from_pandas(frame, npartitions=4), by=by)
        other = rw.RandomForest(4, max_leaves=6).fit(found)
        assert other.forest_ == one.forest_
        assert np.array_equal(other.predict(found).compute(), one.predict(data.features))


def a_log_frame():
    """A log as a frame whose columns have the usual names, and further ones."""
    pandas = pytest.importorskip("pandas")
    data = rw.make_ranking(15, 8, 4, seed=1)
    frame = pandas.DataFrame(data.features, columns=list("abcd"))
    frame["label"], frame["qid"] = (data.labels > 1).astype(float), data.query_ids
    inside = np.arange(data.n_documents) - data.query_offsets[data.query_of_row]
    frame["position"], frame["shown_at"] = 1 + inside, 2 + 3 * inside
    frame["doc_id"] = [f"document {number}" for number in range(data.n_documents)]
    frame["row_weight"] = 1.0 + np.arange(data.n_documents) % 3
    frame["query_weight"] = 1.0 + data.query_of_row % 2
    frame["w"], frame["name"] = frame["row_weight"] + 1.0, frame["doc_id"]
    return frame


@pytest.mark.parametrize(
    "roles",
    [
        {"drop": ["name"]},
        {"drop": ["name", "shown_at", "w"], "query": None},
        {"doc": "name", "position": "shown_at", "row_weight": "w"},
        {"features": ["b", "position"], "query_weight": "query_weight"},
        {"features": ["label", "a"], "label": "w"},
    ],
    ids=str,
)
def test_the_columns_of_a_dask_frame_are_those_of_a_frame(client, tmp_path, roles):
    dataframe = pytest.importorskip("dask.dataframe")
    frame = a_log_frame()
    frame.to_parquet(tmp_path / "log.parquet")
    expected = rw.from_frame(frame, **roles)
    partitions = dataframe.from_pandas(frame, npartitions=3, sort=False)
    for source in (partitions, tmp_path / "log.parquet"):
        found = rw.distribute(client, source, **roles).data
        assert found.feature_names == expected.feature_names
        assert (found.query_ids is None) == (expected.query_ids is None)
        for name in ("labels", "row_weights", "query_weights", "positions"):
            one, other = getattr(found, name), getattr(expected, name)
            assert (one is None) == (other is None), name
            assert one is None or np.array_equal(one, other), name


@pytest.mark.parametrize(
    "roles",
    [
        {"label": "grade"},
        {"label": None},
        {"query": "session"},
        {"drop": ["nothing"]},
        {"features": ["a", "nothing"]},
        {"features": "a"},
        {"features": ["a", "label"]},
        {"drop": ["a"], "position": "a"},
        {"drop": ["name"], "position": "shown_at", "query": None},
        {"drop": ["name"], "position": "w"},
        {"drop": ["name"], "position": "c"},
        {"drop": ["name"], "query_weight": "w"},
        {"features": ["name"]},
        {},
    ],
    ids=str,
)
def test_what_a_frame_refuses_a_dask_frame_refuses(client, roles):
    dataframe = pytest.importorskip("dask.dataframe")
    frame = a_log_frame()
    try:
        rw.from_frame(frame, **roles)
    except (DataError, ParameterError) as error:
        expected = error
    said = re.escape(str(expected).replace("the table", "the frame"))
    with pytest.raises(type(expected), match=f"^{said}$"):
        rw.distribute(client, dataframe.from_pandas(frame, npartitions=1, sort=False), **roles)


def test_positions_that_come_again_in_another_partition_are_refused(client, tmp_path):
    dataframe = pytest.importorskip("dask.dataframe")
    frame = a_log_frame().drop(columns=["name", "query_weight"])
    frame["qid"] = 1
    frame["position"] = 1 + np.arange(len(frame)) % (len(frame) - 1)
    frame[:50].to_parquet(tmp_path / "1.parquet")
    frame[50:].to_parquet(tmp_path / "2.parquet")
    for source in (dataframe.from_pandas(frame, npartitions=3, sort=False), tmp_path):
        with pytest.raises(DataError, match=r"2.*: the position is 1, which an earlier row"):
            rw.distribute(client, source)


@pytest.mark.jit_only
def test_a_folder_of_binned_data(client, tmp_path):
    data = rw.make_ranking(15, 8, 4, missing=0.1, seed=1)
    folder = tmp_path / "folder"
    binned = rw.bin_files(written(data, tmp_path, 2), folder)
    one = rw.LambdaMART(4, min_leaf=3).fit(binned)
    for by in ("rows", "trees"):
        found = rw.distribute(client, folder, by=by)
        other = rw.LambdaMART(4, min_leaf=3).fit(found)
        assert other.forest_ == one.forest_
        assert np.array_equal(other.predict(found).compute(), one.predict(binned))
    with pytest.raises(ParameterError, match="has bins already"):
        rw.distribute(client, folder, bins=folder)


@pytest.mark.jit_only
@pytest.mark.parametrize("by", ["rows", "trees"])
def test_a_position_bias_is_learned_with_on_a_cluster(client, tmp_path, by):
    judged = rw.make_ranking(12, 8, 5, seed=2)
    log = rw.simulate_clicks(judged, judged.features[:, 0].astype(float), sessions=200, seed=3)
    rw.write_table(log.data(), tmp_path / "log.parquet")
    binned = rw.bin_files(tmp_path / "log.parquet", tmp_path / "folder")
    found = rw.distribute(client, binned, by=by)
    for bias in (log.truth.bias, "joint", "additive"):
        model = rw.LambdaMART(4, 4, position_bias=bias)
        one = model.fit(binned)
        known = one.forest_, getattr(one, "position_history_", None)
        plain = rw.LambdaMART(4, 4).fit(binned).forest_
        assert known[0] != plain
        other = model.fit(found)
        assert (other.forest_, getattr(other, "position_history_", None)) == known
    for model in (
        rw.GBRT(3, 4),
        rw.RandomForest(3, 4),
        rw.AveragedGBRT(2, 2, max_leaves=4),
        rw.InitializedGBRT(2, forest_trees=2, forest_leaves=4, max_leaves=4),
        rw.BROOF(n_rounds=2, n_trees=2, max_leaves=4),
        rw.DeepForest(n_forests=2, n_trees=2, max_leaves=4, max_layers=1),
    ):
        model.set_params(position_bias=log.truth.bias)
        expected = model.fit(binned).predict(log.data())
        assert np.array_equal(model.fit(found).predict(log.data()), expected)


@pytest.mark.jit_only
def test_a_folder_without_queries_is_scored_block_by_block(client, tmp_path):
    pandas = pytest.importorskip("pandas")
    data = rw.make_ranking(15, 8, 4, missing=0.1, seed=1)
    frame = pandas.DataFrame(data.features, columns=["a", "b", "c", "d"])
    frame.assign(label=data.labels).to_parquet(tmp_path / "rows.parquet")
    for name, sort in (("sorted", True), ("unsorted", False)):
        binned = rw.bin_files(tmp_path / "rows.parquet", tmp_path / name, query=None, sort=sort)
        one = rw.GBRT(4, min_leaf=3).fit(binned)
        for by in ("rows", "trees"):
            found = rw.distribute(client, tmp_path / name, by=by)
            assert len(found.rows.blocks) > 1
            assert rw.GBRT(4, min_leaf=3).fit(found).forest_ == one.forest_
            scores = one.predict(found)
            assert scores.shape == (data.n_documents,)
            assert np.array_equal(scores.compute(), one.predict(binned))


@pytest.mark.jit_only
def test_a_part_of_a_folder(client, tmp_path):
    data = rw.make_ranking(15, 8, 4, missing=0.1, seed=1)
    binned = rw.bin_files(written(data, tmp_path, 2), tmp_path / "folder")[4:11]
    one = rw.LambdaMART(4, min_leaf=3).fit(binned)
    for by in ("rows", "trees"):
        found = rw.distribute(client, binned, by=by)
        other = rw.LambdaMART(4, min_leaf=3).fit(found)
        assert other.forest_ == one.forest_
        assert np.array_equal(other.predict(found).compute(), one.predict(binned))


@pytest.mark.jit_only
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_a_model_knows_what_lines_leave_out(client, tmp_path, absent):
    """The record of the training has it, whatever the way to the data: a service that scores needs it."""
    paths = written(rw.make_ranking(15, 8, 4, seed=1), tmp_path, 2, form="txt")
    rw.bin_files(paths, tmp_path / "folder", absent=absent)
    data = rw.read_letor(paths, absent=absent)
    expected = rw.GBRT(2, min_leaf=3).fit(data).training_["absent"]
    assert expected == absent
    for source in (paths, tmp_path / "folder"):
        found = rw.distribute(client, source, absent=absent)
        assert rw.GBRT(2, min_leaf=3).fit(found).training_["absent"] == expected


def test_bins_of_a_sample_are_those_of_the_same_rows_in_memory(client, tmp_path):
    data = rw.make_ranking(40, 8, 4, missing=0.1, seed=1)
    found = rw.distribute(client, written(data, tmp_path, 3), sample=50, max_bins=20)
    bins = bin_data(data, sample=50, max_bins=20).bins
    assert np.array_equal(found.bins.thresholds, bins.thresholds)
    assert np.array_equal(found.bins.has_missing, bins.has_missing)


@pytest.mark.jit_only
def test_weights(client, tmp_path):
    pandas = pytest.importorskip("pandas")
    data = rw.make_ranking(15, 8, 4, seed=1)
    weights = np.arange(data.n_documents) % 3.0
    of_query = 1.0 + np.arange(data.n_queries) % 2
    frame = pandas.DataFrame(data.features, columns=["a", "b", "c", "d"])
    frame["label"], frame["qid"] = data.labels, data.query_ids
    frame["w"], frame["v"] = weights, of_query[data.query_of_row]
    frame.to_parquet(tmp_path / "weighted.parquet")
    whole = rw.RankingData(
        data.features, data.labels, data.query_ids, None, weights, of_query, list("abcd")
    )
    for by in ("rows", "trees"):
        found = rw.distribute(
            client, tmp_path / "weighted.parquet", row_weight="w", query_weight="v", by=by
        )
        for model in (rw.RandomForest(4, max_leaves=6), rw.LambdaMART(4, min_leaf=3), rw.GBRT(3)):
            one = model.fit(whole).forest_
            assert model.fit(found).forest_ == one


@pytest.mark.jit_only
def test_queries_that_are_scattered(client, tmp_path):
    data = rw.make_ranking(15, 8, 4, seed=1)
    order = np.random.default_rng(0).permutation(data.n_documents)
    scattered = data.take_rows(order)
    paths = written(scattered, tmp_path, 3)
    with pytest.raises(
        DataError, match=r"comes again after rows of another query\. .*shuffle=True"
    ):
        rw.distribute(client, paths)
    one = rw.LambdaMART(3, min_leaf=3).fit(scattered)
    for by in ("rows", "trees"):
        found = rw.distribute(client, paths, shuffle=True, by=by)
        assert_same_data(found, scattered)
        other = rw.LambdaMART(3, min_leaf=3).fit(found)
        for name in ("feature", "threshold", "value"):
            assert np.array_equal(getattr(other.forest_, name), getattr(one.forest_, name))
        assert np.array_equal(other.predict(found).compute(), one.predict(scattered))


@pytest.mark.jit_only
def test_scores_and_their_evaluation(client, distributed_data):
    train, valid = distributed_data("rows")
    model = rw.LambdaMART(4, min_leaf=3).fit(train)
    scores = model.predict(valid)
    expected = model.predict(validation_data())
    assert np.array_equal(scores.compute(), expected)
    whole = rw.evaluate(expected, validation_data(), "ndcg@10", n_bootstrap=0)["ndcg@10"].value
    assert rw.evaluate(scores, valid, "ndcg@10", n_bootstrap=0)["ndcg@10"].value == whole
    assert rw.evaluate(model, valid, "ndcg@10", n_bootstrap=0)["ndcg@10"].value == whole


@pytest.mark.jit_only
def test_a_checkpoint_goes_on_with_another_number_of_workers(client, files, tmp_path):
    import distributed

    for model in (rw.RandomForest(6, max_leaves=6), rw.LambdaMART(6, min_leaf=3)):
        path = tmp_path / type(model).__name__
        whole = type(model)(**model.get_params()).fit(training_data())
        train = rw.distribute(client, files[0], by="rows")
        stops = model.set_params(checkpoint=path, callbacks=[lambda p: p.iteration == 3])
        assert stops.fit(train).forest_.n_trees == 3
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as other,
        ):
            again = rw.distribute(other, files[0], by="rows")
            resumed = model.set_params(callbacks=[]).fit(again)
        assert resumed.forest_ == whole.forest_


@pytest.mark.parametrize(
    "error",
    [
        UnknownName("column", "a", ["b"], "Say which."),
        NotAFeatureError([UnusableColumn("a", "text", "Encode it")]),
        MissingExtra("distributed", "dask", "this"),
        placements.NotOnCluster("AdaBoost"),
        DataError("plain"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_back_from_workers_as_they_are(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.__dict__) == (str(error), error.__dict__)


# Bags of parts.


@pytest.mark.parametrize("by_query", [False, True])
@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("has_weights", [False, True])
def test_a_part_draws_the_bags_of_its_rows(by_query, replacement, has_weights, rng):
    if has_weights and not replacement:
        return
    queries = np.repeat(np.arange(12), 5)
    present = read_only(rng.random(60) > 0.2)
    for known in (None, present):
        bags = Bags(
            60,
            queries if by_query else None,
            0.7,
            replacement,
            rng.random(60) if has_weights else None,
            known,
            seed=3,
        )
        for rows in (np.arange(60), np.sort(rng.permutation(60)[:25]), np.zeros(0, np.int64)):
            part = bags.of_part(rows)
            for tree in range(3):
                assert np.array_equal(part.counts(tree), bags.counts(tree)[rows])


# What goes wrong.


@pytest.mark.parametrize(
    "model",
    [
        rw.AdaBoost(2),
        rw.RankBoost(2),
        rw.BoostingTree(rw.LambdaMART(max_leaves=2), budget=2),
        rw.RankSVM(),
        rw.AdaRank(2),
        rw.DeepForest(layer=[rw.RankSVM()], max_layers=1),
    ],
)
def test_what_looks_at_features_is_refused_by_name(model, distributed_data):
    train, _ = distributed_data("rows")
    with pytest.raises(ParameterError, match=f"{type(model).__name__}.* cannot train on distrib"):
        model.fit(train)


def test_dropout_is_refused(distributed_data):
    train, _ = distributed_data("rows")
    with pytest.raises(ParameterError, match="dropout needs the leaf of every row in every tree"):
        rw.GBRT(3, dropout=0.5).fit(train)


def test_parameters_of_distribute(client, files):
    with pytest.raises(ParameterError, match="by 'columns' is not known"):
        rw.distribute(client, files[0], by="columns")
    with pytest.raises(DataError, match="there are 5 features, but the bins are for 1"):
        rw.distribute(client, files[0], bins=bin_data(rw.RankingData([[1.0]], [1])))
    train = rw.distribute(client, files[0])
    with pytest.raises(ParameterError, match="cannot train on distributed data"):
        _ = train.codes
    with pytest.raises(ParameterError, match="cannot be pickled"):
        train.__reduce__()
    assert "blocks" in repr(train)


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rankwood\[dask\]'"):
        rw.distribute(None, "nowhere.parquet")


def test_a_worker_of_another_version_is_refused_by_name(client):
    class Other:
        def run(self, *_, **__):
            return {"tcp://one:1": rw.__version__, "tcp://two:2": "0.0.9"}

    placements.refuse_other_versions(client)
    with pytest.raises(
        RunError, match=r"worker tcp://two:2 has Rankwood 0\.0\.9, but this process"
    ):
        placements.refuse_other_versions(Other())


def test_a_worker_that_is_lost_while_it_is_asked_for_its_version(files):
    """When rows are distributed whoever takes its place is asked later; a named worker is lost."""
    import dask
    import distributed

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "100ms"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        gone = "tcp://127.0.0.1:1"
        answer = client.run

        def run(function, workers=None, **options):
            asked = workers or [*client.scheduler_info()["workers"], gone]
            return answer(function, workers=asked, **options)

        client.run = run
        placements.refuse_other_versions(client)
        assert rw.distribute(client, files[0]).rows.n_rows == training_data().n_documents
        with pytest.raises(placements.WorkerLost, match=gone):
            placements.refuse_other_versions(client, [gone])


@pytest.mark.parametrize("error", [OSError("reset by peer"), ValueError("not running")])
def test_whatever_dask_says_of_a_worker_it_is_lost(error):
    class Closing:
        def run(self, *_, **__):
            return {"tcp://one:1": rw.__version__, "tcp://two:2": error}

    placements.refuse_other_versions(Closing())
    with pytest.raises(placements.WorkerLost, match=f"tcp://two:2: {error}"):
        placements.refuse_other_versions(Closing(), ["tcp://two:2"])


def test_a_worker_that_cannot_import_the_package_says_why():
    class Broken:
        def run(self, *_, **__):
            return {"tcp://two:2": RuntimeError("its numba is broken")}

    with pytest.raises(RuntimeError, match="its numba is broken"):
        placements.refuse_other_versions(Broken())


def test_a_cluster_that_does_not_answer():
    class Gone:
        def run(self, *_, **__):
            raise OSError("Timed out trying to connect to tcp://nowhere:8786")

    with pytest.raises(RunError, match=r"the Dask cluster does not answer: .*nowhere"):
        placements.refuse_other_versions(Gone())


LET_GO = threading.Event()


def held(number):
    LET_GO.wait(60.0)
    return number


@pytest.mark.jit_only
def test_what_a_lost_worker_was_to_make_is_not_waited_for(files):
    import distributed

    LET_GO.clear()
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        placement = rw.distribute(client, files[0]).rows.placement("rows")

        def lost(n_left, task, *arguments, **options):
            """A future on the worker that goes away."""
            before = sorted(client.scheduler_info()["workers"])
            futures = {
                address: client.submit(task, *arguments, workers=[address], pure=False, **options)
                for address in before
            }
            if options:
                distributed.wait(list(futures.values()))
            cluster.scale(n_left)
            client.sync(asyncio_wait, client, n_left)
            (gone,) = set(before) - set(client.scheduler_info()["workers"])
            return futures[gone], gone

        try:
            for future, gone in (lost(2, Holder, actor=True), lost(1, held, 0)):
                with pytest.raises(placements.WorkerLost, match=gone):
                    placement._wait(future, gone)
            (alive,) = client.scheduler_info()["workers"]
            with pytest.raises(placements.WorkerLost, match="did not answer"):
                placement._wait(client.submit(held, 1, workers=[alive]), alive, 0.1)
        finally:
            LET_GO.set()
        with pytest.raises(RuntimeError, match="the task's own"):
            placement._wait(client.submit(wrong, workers=[alive]), alive)


def wrong():
    raise RuntimeError("the task's own")


def test_how_independent_trees_grow_follows_from_memory(client, files):
    train = rw.distribute(client, files[0])
    assert train.rows.batches_by() == "trees"
    wide = dataclasses.replace(train.rows, labels=np.broadcast_to(0.0, 1 << 50), placements={})
    assert wide.batches_by() == "rows"


def test_blocks_are_dealt_evenly():
    shares = placements._even_shares([5, 5, 5, 5], ["a", "b"])
    assert shares == {"a": (0, 1), "b": (2, 3)}
    uneven = placements._even_shares([1000, 1, 1], ["a", "b", "c"])
    assert sorted(block for share in uneven.values() for block in share) == [0, 1, 2]
    assert all(uneven.values())


def test_a_holder_without_rows_takes_some_over(monkeypatch):
    """A worker that comes back when the others hold all blocks has none until one of them goes away."""
    import distributed

    worker = types.SimpleNamespace(state=types.SimpleNamespace(nthreads=1))
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    holder = Holder()
    data = training_data()
    binned = bin_data(data, n_threads=1)
    bins, rows = binned.bins, np.arange(data.n_documents)

    def layout(*blocks):
        numbers = tuple(np.array_split(rows, 2)[block] for block in blocks)
        labels = data.labels[np.concatenate(numbers)] if numbers else np.zeros(0)
        return Layout(0, (), blocks, numbers, labels, bins)

    for _ in range(2):
        holder.place(layout())
        assert holder.matrix.columns.shape == (data.n_features, 0)
        assert not holder.digest().any()
    codes = bins.transform(data.features)
    for block in (1, 0):
        holder.put_block(block, np.ascontiguousarray(codes[:, np.array_split(rows, 2)[block]]))
        holder.place(layout(*holder.blocks()))
    assert np.array_equal(holder.codes_in_order(), codes)


@pytest.mark.jit_only
@pytest.mark.parametrize("by", ["rows", "trees"])
def test_a_worker_that_goes_away_is_replaced(by, files):
    """Its rows are read again by the others, and the trees go on where they were."""
    import distributed

    models = [
        rw.LambdaMART(6, min_leaf=3),
        rw.RandomForest(12, max_leaves=6),
        rw.AveragedGBRT(4, 3),
    ]
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        for model, n_left in zip(models[: 2 if by == "rows" else 3], (2, 1, 1), strict=False):
            whole = type(model)(**model.get_params()).fit(training_data())
            train = rw.distribute(client, files[0], by=by)

            def lose_one(progress, n_left=n_left):
                if progress.iteration == 2 and len(cluster.workers) > n_left:
                    cluster.scale(n_left)
                    client.sync(asyncio_wait, client, n_left)

            found = model.set_params(callbacks=[lose_one]).fit(train)
            assert found.forest_ == whole.forest_


async def asyncio_wait(client, n_left):
    import asyncio

    while len((await client.scheduler.identity())["workers"]) > n_left:
        await asyncio.sleep(0.01)


def test_nobody_left(files, tmp_path, monkeypatch):
    import distributed

    monkeypatch.setattr(placements, "_PATIENCE", 0.2)
    for checkpoint, said in (
        (None, "nothing is saved"),
        (tmp_path / "c", "are saved in .*c: start"),
    ):
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            train = rw.distribute(client, files[0], by="rows")

            def lose(progress):
                if progress.iteration == 2:
                    cluster.scale(0)
                    client.sync(asyncio_wait, client, 0)

            model = rw.GBRT(50, min_leaf=3, callbacks=[lose], checkpoint=checkpoint)
            with pytest.raises(RunError, match=f"has no workers left.*{said}"):
                model.fit(train)


# Processes.


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2, 3, 5])
def test_any_number_of_processes_gives_the_same_bytes(n_workers, files, folder, tmp_path):
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        for by in ("rows", "trees"):
            train = rw.distribute(client, files[0], by=by)
            valid = rw.distribute(client, files[1], bins=train)
            for case in ("RandomForest", "GBRT", "LambdaMART: subsample", "BROOF", "DeepForest"):
                model = make(case).fit(train, valid=valid)
                assert saved(model, tmp_path / "cluster") == in_process(case, folder), (case, by)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["rows", "trees"])
def test_workers_that_are_killed_change_nothing(by, tmp_path):
    """At 10 random moments each way; the nanny starts them again."""
    import distributed

    data = rw.make_ranking(200, 50, 20, seed=1)
    paths = written(data, tmp_path, 4)
    rng = np.random.default_rng(7)
    models = {"boosted": rw.LambdaMART(12), "forest": rw.RandomForest(40, max_leaves=30)}
    wholes = {name: type(m)(**m.get_params()).fit(data).forest_ for name, m in models.items()}
    n_kills = 0
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        while n_kills < 10:
            for name, model in models.items():
                train = rw.distribute(client, paths, by=by)
                stop = threading.Event()

                def kill(stop=stop):
                    nonlocal n_kills
                    while not stop.wait(rng.uniform(0.1, 2.0)):
                        workers = [
                            w for w in cluster.workers.values() if w.process and w.process.pid
                        ]
                        if len(workers) > 1:
                            os.kill(workers[rng.integers(len(workers))].process.pid, signal.SIGKILL)
                            n_kills += 1
                            stop.wait(4.0)

                killer = threading.Thread(target=kill)
                killer.start()
                try:
                    forest = model.fit(train).forest_
                finally:
                    stop.set()
                    killer.join()
                for field in ("feature", "threshold", "value", "gain"):
                    assert np.array_equal(getattr(forest, field), getattr(wholes[name], field))


CLIENT = """
import sys, distributed, rankwood as rw
if __name__ == "__main__":
    client = distributed.Client(sys.argv[1])
    train = rw.distribute(client, sys.argv[2], by=sys.argv[3])
    print("ready", flush=True)
    rw.GBRT(100_000, min_leaf=3).fit(train)
"""


@pytest.mark.slow
@pytest.mark.parametrize("by", ["rows", "trees"])
def test_a_client_that_is_killed_leaves_nothing_on_the_workers(by, files, tmp_path):
    import distributed

    program = tmp_path / "client.py"
    program.write_text(textwrap.dedent(CLIENT))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        started = subprocess.Popen(
            [sys.executable, program, cluster.scheduler_address, files[0][0], by],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(rw.__file__).parents[1])},
        )
        assert started.stdout.readline() == b"ready\n"
        while not any(client.run(n_actors).values()):
            time.sleep(0.1)
        time.sleep(1.0)
        started.kill()
        started.wait()
        deadline = time.monotonic() + 60
        while any(client.run(n_actors).values()) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert set(client.run(n_actors).values()) == {0}


def n_actors(dask_worker):
    return len(dask_worker.state.actors)
