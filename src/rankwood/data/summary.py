"""``summarise``: counts over documents, queries, features and labels of a data set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.data.splits import duplicates
from rankwood.dtypes import Array

_COLUMNS_AT_ONCE = 16  # keeps temporary arrays small


@dataclass(frozen=True)
class Summary:
    """Counts over documents, queries, features and labels; features are given by name."""

    documents: int
    queries: int
    features: int
    label_counts: dict[float, int]
    documents_per_query: dict[str, float]  # least, median, mean, most
    constant_features: list[str]
    missing_values: dict[str, int]  # only features with missing values
    infinite_values: dict[str, int]  # only features with infinite values
    empty_queries: int
    one_document_queries: int
    duplicate_rows: int
    separated_queries: int


def summarise(data: RankingData) -> Summary:
    """The summary of ``data``."""
    lengths = np.diff(data.query_offsets)
    values, counts = np.unique(data.labels, return_counts=True)
    best_label = np.maximum.reduceat(data.labels[data.row_order], data.query_offsets[:-1])
    constant, missing, infinite = _feature_facts(data.features)
    return Summary(
        documents=data.n_documents,
        queries=data.n_queries,
        features=data.n_features,
        label_counts=dict(zip(values.tolist(), counts.tolist(), strict=True)),
        documents_per_query={
            "least": int(lengths.min()),
            "median": float(np.median(lengths)),
            "mean": float(lengths.mean()),
            "most": int(lengths.max()),
        },
        constant_features=[data.names[feature] for feature in np.flatnonzero(constant)],
        missing_values=_named_counts(data, missing),
        infinite_values=_named_counts(data, infinite),
        empty_queries=int((best_label == 0).sum()),
        one_document_queries=int((lengths == 1).sum()),
        duplicate_rows=int(duplicates(data).size),
        separated_queries=data.grouping.n_separated,
    )


def _feature_facts(features: Array) -> tuple[Array, Array, Array]:
    """For each feature: whether it is constant (ignoring missing values), its missing and its infinite values."""
    n_features = features.shape[1]
    constant = np.zeros(n_features, bool)
    missing = np.zeros(n_features, np.int64)
    infinite = np.zeros(n_features, np.int64)
    for first in range(0, n_features, _COLUMNS_AT_ONCE):
        block = slice(first, first + _COLUMNS_AT_ONCE)
        columns = features[:, block]
        is_missing = np.isnan(columns)
        missing[block] = is_missing.sum(axis=0)
        infinite[block] = np.isinf(columns).sum(axis=0)
        least = np.where(is_missing, np.inf, columns).min(axis=0)
        most = np.where(is_missing, -np.inf, columns).max(axis=0)
        constant[block] = least >= most  # all missing: inf ≥ −inf
    return constant, missing, infinite


def _named_counts(data: RankingData, counts: Array) -> dict[str, int]:
    return {data.names[feature]: int(counts[feature]) for feature in np.flatnonzero(counts)}
