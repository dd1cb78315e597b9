"""Models in files, and the service over them, in process."""

from __future__ import annotations

import contextlib

import httpx
import pytest

import rankwood as rw
from rankwood.serve.answers import RequestLimits
from rankwood.serve.app import make_app
from rankwood.serve.store import ModelStore


@pytest.fixture(scope="session")
def data():
    named = rw.make_ranking(n_queries=20, docs_per_query=10, n_features=6, seed=1)
    return rw.RankingData(named.features, named.labels, named.query_ids)  # features 1 to 6


@pytest.fixture
def model_file(data, tmp_path):
    path = tmp_path / "boosted.rankwood"
    rw.save(rw.GBRT(n_trees=10, max_leaves=8, min_leaf=2, seed=1).fit(data), path)
    return path


@pytest.fixture
def linear_file(data, tmp_path):
    path = tmp_path / "linear.rankwood"
    rw.save(rw.RankSVM().fit(data), path)
    return path


@pytest.fixture
def ask():
    """Call the service over models as one client: ``ask(paths, method, path, ...)`` or an open client."""

    @contextlib.asynccontextmanager
    async def opened(paths, limits: RequestLimits | None = None):
        app = make_app(ModelStore(paths), limits, reload_seconds=0)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            yield client

    return opened
