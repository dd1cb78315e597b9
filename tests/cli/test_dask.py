"""``--dask`` of ``rankwood train``, ``score`` and ``bin``: what is written is the same as without."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import rankwood as rw

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None, reason="the extra 'dask' is missing"
    ),
    pytest.mark.filterwarnings("ignore"),  # Dask's own, on shutting down
]


@pytest.fixture(scope="module")
def address():
    """A cluster of two workers in this process, at an address."""
    import distributed

    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        dashboard_address=None,
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def files(rankwood, tmp_path):
    made = rw.make_ranking(30, 10, 5, seed=1)
    for name, first, last in (("day-1", 0, 12), ("day-2", 12, 20), ("vali", 20, 30)):
        rw.write_table(made.take_queries(np.arange(first, last)), tmp_path / f"{name}.parquet")
    return made


@pytest.mark.jit_only
def test_what_is_written_is_the_same(rankwood, files, tmp_path, address):
    data = ("--data", "day-*.parquet", "--valid", "vali.parquet")
    train = ("train", "--model", "LambdaMART", "--n-trees", "4", "--min-leaf", "3", "-q", *data)
    assert rankwood(*train, "--dask", address, "--out", "there.rankwood").code == 0
    one = files.take_queries(np.arange(20)), files.take_queries(np.arange(20, 30))
    here = rw.LambdaMART(4, min_leaf=3).fit(one[0], valid=one[1])
    rw.save(here, tmp_path / "here.rankwood")
    assert rw.load(tmp_path / "there.rankwood").forest_ == here.forest_
    for out, more in (("a.tsv", ()), ("b.tsv", ("--dask", address))):
        scored = rankwood("score", "here.rankwood", "vali.parquet", "--out", out, "-q", *more)
        assert scored.code == 0
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()


@pytest.mark.jit_only
def test_a_log_is_read_on_a_cluster(rankwood, tmp_path, address):
    """Validation data are judged and have no positions; documents to be scored need none."""
    from pyarrow import parquet, table

    judged = rw.make_ranking(12, 8, 5, seed=2)
    log = rw.simulate_clicks(judged, judged.features[:, 0].astype(float), sessions=60, seed=3)
    for name, data in (("log", log.data()), ("vali", judged)):
        numbers = [str(row + 1) for row in range(data.n_documents)]
        columns = {"label": data.labels, "qid": data.query_ids, "url": numbers}
        columns |= {feature: data.features[:, n] for n, feature in enumerate("abcde")}
        if data.positions is not None:
            columns["shown_at"] = data.positions
        parquet.write_table(table(columns), tmp_path / f"{name}.parquet")
    train = ("train", "--model", "LambdaMART", "--n-trees", "3", "--position-bias", "joint")
    data = ("--data", "log.parquet", "--valid", "vali.parquet", "--doc", "url", "-q")
    for out, more in (("here", ()), ("there", ("--dask", address))):
        read = ("--position", "shown_at", *more)
        assert rankwood(*train, *data, *read, "--out", f"{out}.rankwood").code == 0
        score = ("score", "here.rankwood", "log.parquet", "--doc", "url", "-q")
        assert rankwood(*score, *read, "--out", f"{out}.tsv").code == 0
    assert rw.load("there.rankwood").forest_ == rw.load("here.rankwood").forest_
    here, there = ((tmp_path / f"{out}.tsv").read_text().splitlines() for out in ("here", "there"))
    assert here[1:] == there[1:]
    assert len(here) == 1 + log.data().n_documents


def test_a_worker_bins(rankwood, files, tmp_path, address):
    for out, more in (("a", ()), ("b", ("--dask", address))):
        assert rankwood("bin", "day-1.parquet", "--out", out, "-q", *more).code == 0
    one, other = (rw.open_binned(tmp_path / name) for name in ("a", "b"))
    assert np.array_equal(one.columns, other.columns)


@pytest.mark.slow
def test_local_is_a_cluster_of_this_machine(rankwood, files, tmp_path):
    local = ("--dask", "local", "-q")
    data = ("--data", "day-*.parquet", "--valid", "vali.parquet", "--min-leaf", "3")
    train = ("train", "--model", "LambdaMART", "--n-trees", "4", *data, *local)
    assert rankwood(*train, "--out", "there.rankwood").code == 0
    one = files.take_queries(np.arange(20)), files.take_queries(np.arange(20, 30))
    here = rw.LambdaMART(4, min_leaf=3).fit(one[0], valid=one[1])
    assert rw.load(tmp_path / "there.rankwood").forest_ == here.forest_
    score = ("score", "there.rankwood", "vali.parquet", "--out")
    assert rankwood(*score, "a.tsv", *local).code == 0
    assert rankwood(*score, "b.tsv", "-q").code == 0
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()
    assert rankwood("bin", "day-*.parquet", "--out", "binned", *local).code == 0
    assert rw.open_binned(tmp_path / "binned").n_rows == one[0].n_documents


@pytest.mark.slow
def test_two_local_clusters_do_not_want_the_same_port():
    import warnings

    from rankwood.experiments.workers import dask_client

    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        dask_client("local", 1),
        dask_client("local", 1) as second,
    ):
        assert len(second.scheduler_info(n_workers=-1)["workers"]) == 1
    assert not [one for one in caught if "already in use" in str(one.message)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "--model", "RankSVM", "--data", "day-1.parquet"), "RankSVM cannot train on"),
        (
            (
                *("train", "--model", "GBRT", "--data", "day-1.parquet"),
                *("--valid", "vali.parquet", "--refit"),
            ),
            "--refit reads all data into this process",
        ),
    ],
)
def test_what_cannot_be_done_says_so(rankwood, files, address, arguments, message):
    outcome = rankwood(*arguments, "--dask", address)
    assert outcome.code == 2
    assert message in outcome.err
