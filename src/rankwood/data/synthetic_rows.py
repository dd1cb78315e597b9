"""The rows of synthetic data: how many, their hidden qualities, their features, their labels.

Queries are drawn in blocks, each from its own streams of random numbers and straight into its rows
of the result: memory stays near the result's size, and threads change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwood import _checks
from rankwood._random import stream
from rankwood._threads import run_blocks
from rankwood.data.synthetic_features import (
    N_LATENTS,
    STREAMS,
    Columns,
    bend,
    relevance_of,
)
from rankwood.dtypes import Array, Features, Floats, Rows

_BLOCK = 32  # queries drawn together: two megabytes, which stay in the processor's cache
_LENGTH_SPREAD = 0.55  # of the logarithm; WEB10K has 1 to 908 documents a query, 120 on average
_DIFFICULTY = 0.5  # spread of the queries' own offset, in units of the documents' spread
_NORMAL = np.float32


@dataclass(frozen=True)
class Plan:
    """Everything that decides the features and the relevance of the rows."""

    seed: int
    sizes: Rows  # documents of each query
    columns: Columns
    noise: float
    is_foreign: Array | None = None  # rows that follow other tastes, for transfer
    shift: float = 0.0  # by which the latents of foreign rows are moved


def draw_sizes(n_queries: int, docs_per_query: float, seed: int) -> Rows:
    """Documents of each query: log-normal around the mean, at least 1."""
    n_queries = _checks.whole_number("n_queries", n_queries, 1)
    mean = _checks.real_number("docs_per_query", docs_per_query, "[1, 1e9]")
    normal = stream(seed, "synthetic sizes").standard_normal(n_queries)
    sizes = mean * np.exp(_LENGTH_SPREAD * normal - _LENGTH_SPREAD**2 / 2)
    return np.clip(np.rint(sizes), 1, np.ceil(8 * mean)).astype(np.int64)


def draw_rows(plan: Plan) -> tuple[Features, Features]:
    """The features, and the relevance with its noise and the query's difficulty, of every row."""
    offsets = np.concatenate([[0], np.cumsum(plan.sizes)])
    features = np.empty((int(offsets[-1]), len(plan.columns.names)), np.float32)
    relevance = np.empty(len(features), np.float32)

    def draw_blocks(first: int, last: int) -> None:
        for block in range(first, last):
            sizes = plan.sizes[block * _BLOCK : (block + 1) * _BLOCK]
            start = int(offsets[block * _BLOCK])
            rows = slice(start, start + int(sizes.sum()))
            difficulty = _normals(plan, "difficulty", block, sizes.size)
            latents, relevance[rows] = _draw_documents(plan, block, rows)
            relevance[rows] += np.repeat(_NORMAL(_DIFFICULTY) * difficulty, sizes)
            features[rows] = _draw_features(plan, block, latents, difficulty).T

    run_blocks(draw_blocks, -(-plan.sizes.size // _BLOCK))
    return features, relevance


def _normals(plan: Plan, purpose: str, block: int, *shape: int) -> Features:
    random = stream(plan.seed, f"synthetic {purpose}", block)
    return random.standard_normal(shape, dtype=np.float32)


def _draw_documents(plan: Plan, block: int, rows: slice) -> tuple[Features, Features]:
    """The latents (latents × documents) and the noisy relevance of a block's documents."""
    n_rows = rows.stop - rows.start
    latents = _normals(plan, "latents", block, N_LATENTS, n_rows)
    # The texts of one page are about the same thing: each has a correlation of 0.6 with the body.
    others = latents[1 : len(STREAMS)]
    others *= _NORMAL(0.8)
    others += _NORMAL(0.6) * latents[0]
    tastes = latents
    if plan.is_foreign is not None:
        is_foreign = plan.is_foreign[rows]
        latents += _NORMAL(plan.shift) * is_foreign
        tastes = np.where(is_foreign, latents[::-1], latents)  # elsewhere other qualities count
    chance = _normals(plan, "chance", block, n_rows)
    return latents, relevance_of(tastes) + _NORMAL(plan.noise) * chance


def _draw_features(plan: Plan, block: int, latents: Features, difficulty: Features) -> Features:
    """A block's features, as features × documents."""
    columns = plan.columns
    sizes = plan.sizes[block * _BLOCK : (block + 1) * _BLOCK]
    values = _normals(plan, "features", block, len(columns.names), latents.shape[1])
    for feature in np.flatnonzero(columns.loadings):
        loading = columns.loadings[feature]
        values[feature] *= np.sqrt(1 - loading * loading)
        values[feature] += loading * latents[columns.latents[feature]]
    # What is known about a query hints at its difficulty.
    own = _normals(plan, "query features", block, columns.query_level.size, sizes.size)
    own = _NORMAL(0.8) * own + _NORMAL(0.6) * difficulty
    values[columns.query_level] = np.repeat(own, sizes, axis=1)
    bend(values, columns)
    return values


def grade(
    relevance: Features, sizes: Rows, shares: Floats, empty_share: float, seed: int
) -> Floats:
    """Labels by thresholds on relevance, set so that each label has its share of all rows."""
    n_empty = round(empty_share * sizes.size)
    is_empty = np.zeros(sizes.size, bool)
    is_empty[stream(seed, "synthetic empty").permutation(sizes.size)[:n_empty]] = True
    rows = np.flatnonzero(~np.repeat(is_empty, sizes))
    edges = np.rint(np.cumsum(shares) * relevance.size).astype(np.int64)[:-1]
    # The rows of empty queries are zeros already; the others need that many zeros fewer.
    edges = np.maximum(edges - (relevance.size - rows.size), 0)
    labels = np.zeros(relevance.size)
    ascending = rows[np.argsort(relevance[rows], kind="stable")]
    labels[ascending] = np.searchsorted(edges, np.arange(rows.size), side="right")
    return labels


def name_documents(prefix: str, n_documents: int) -> Array:
    """One identifier per row, as text."""
    names = np.empty(n_documents, object)
    names[:] = [f"{prefix}{number}" for number in range(1, n_documents + 1)]
    return names
