"""The data that golden digests, snapshots and model files are made of: tiny, generated, the same everywhere."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import rankwood as rw


@functools.cache
def part(name: str) -> rw.RankingData:
    """A data set by name; ``train``, ``valid`` and ``test`` are parts of one, and so are those with ``gaps``."""
    whole, _, which = name.rpartition("/")
    place = ("train", "valid", "test").index(which)
    data = _whole(whole)
    if data.query_ids is not None:
        return rw.split_queries(data, (0.6, 0.2, 0.2), seed=1)[place]
    first, last = (data.n_documents * share // 10 for share in ((0, 6), (6, 8), (8, 10))[place])
    rows = slice(first, last)
    return rw.RankingData(data.features[rows], data.labels[rows], feature_names=data.feature_names)


@functools.cache
def _whole(name: str) -> rw.RankingData:
    if name == "":
        return rw.make_ranking(75, 18, 10, seed=1, doc_ids=True)
    if name == "gaps":
        return rw.make_ranking(70, 18, 10, missing=0.25, missing_by="low", seed=2)
    if name == "costs":
        return rw.make_ranking(60, 16, 10, costs=True, seed=3)
    if name == "binary":
        return rw.make_ranking(60, 14, 8, label_shares=(0.7, 0.3), seed=4)
    if name == "weights":
        return _weighted(rw.make_ranking(60, 16, 10, seed=5), of_rows=True)
    if name == "query weights":
        return _weighted(rw.make_ranking(60, 16, 10, seed=5), of_rows=False)
    if name == "large":  # enough rows for work to be dealt to threads
        return rw.make_ranking(800, 40, 6, missing=0.1, seed=7)
    if name == "no queries":
        data = rw.make_ranking(50, 16, 8, seed=6)
        return rw.RankingData(data.features, data.labels, feature_names=data.feature_names)
    raise KeyError(name)


@functools.cache
def huge() -> rw.RankingData:
    """Enough rows and features for rows to be laid out anew before trees are grown; made by counting, which is quick."""
    rows = np.arange(135_000, dtype=np.uint64)[:, np.newaxis]
    columns = np.arange(1, 25, dtype=np.uint64)[np.newaxis]
    mixed = (rows * (2 * columns + np.uint64(2654435761))) >> (
        np.uint64(7) + columns % np.uint64(5)
    )
    features = (mixed % (np.uint64(11) + columns)).astype(np.float32)
    labels = (features[:, 0] > 5).astype(np.float64)
    labels += features[:, 1] + features[:, 2] > 15
    return rw.RankingData(features, labels, rows[:, 0].astype(np.int64) // 50)


def _weighted(data: rw.RankingData, of_rows: bool) -> rw.RankingData:
    """The data with a weight per query, and one per row, some of them 0."""
    rows = np.arange(data.n_documents)
    return rw.RankingData(
        data.features,
        data.labels,
        data.query_ids,
        row_weights=(rows * 7 % 5) / 2.0 if of_rows else None,
        query_weights=1.0 + np.arange(data.n_queries) % 3,
        feature_names=data.feature_names,
    )


# What computing each of ten features costs.
COSTS = (1.0, 4.0, 16.0, 64.0, 256.0, 1.0, 4.0, 16.0, 64.0, 256.0)


def plain_gbrt(n_trees: int = 100, **options: Any) -> rw.GBRT:
    """GBRT with the defaults of version 0.1: nodes see all features, and steps are of 0.1."""
    return rw.GBRT(n_trees, **{"learning_rate": 0.1, "features_per_node": None, **options})
