"""Data and settings that tests of the contract share."""

from __future__ import annotations

import pytest

from tests.contract import rankers


@pytest.fixture(scope="session")
def data():
    return rankers.training_data()


@pytest.fixture(scope="session")
def other():
    return rankers.validation_data()


@pytest.fixture
def checkpoint_at_once(monkeypatch):
    """A checkpoint is written after each round, not every few seconds."""
    monkeypatch.setattr("rankwood.training.rounds.SECONDS_BETWEEN", 0.0)


# Work that is smaller than these stays on one thread.
LEAST_WORK = {
    "rankwood.engines.engine.LEAST_VALUES": 1,
    "rankwood.losses.lambdarank._PAIRS_PER_THREAD": 1,
    "rankwood.losses.pairs._LEAST_COMPARED": 1,
    "rankwood.losses.ranksvm._BLOCK_ROWS": 16,
    "rankwood.trees.edges._LEAST_FEATURES": 1,
    "rankwood.measures.ranking.DOCUMENTS_PER_BLOCK": 10,
    "rankwood.models.linear._BLOCK_ROWS": 16,
    "rankwood.models.linear._LEAST_TERMS": 10,
}


@pytest.fixture
def many_threads(monkeypatch):
    """Small data are worked on by as many threads as large ones."""
    for name, value in LEAST_WORK.items():
        monkeypatch.setattr(name, value)
