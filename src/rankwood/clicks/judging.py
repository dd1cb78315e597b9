"""``click_judgments``: what the clicks of a log say of each document of each query, as judgments to train on.

A document that was shown in several lists has many clicks and looks. Its label is the mean of what they say::

    label = Σ (clicks - offsets) / (Σ slopes + prior)

with the slope and the offset of each position where it stood. ``prior`` looks without a click keep a single click from
saying much; they draw towards 0, and not towards the mean of the log, because a document that few have looked at
was put low by every ranking that was shown. One row per document, with all documents of a query in one list, lets a
ranker compare documents that never stood in the same list. The label is a rate, not a grade: measures and targets take
it with ``gain=linear``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData, group_rows
from rankwood.dtypes import Array, Rows
from rankwood.errors import DataError, DataWarning
from rankwood.losses.position_bias import as_propensities, positions_of
from rankwood.training.inputs import multiplied_weights

_BLOCK = 1 << 16  # rows compared at a time


def click_judgments(
    log: RankingData, bias: Any, *, prior: float = 1.0, weights: bool = False
) -> RankingData:
    """Estimated judgments: one row per document of a click log, labelled by its clicks over its looks.

    Parameters
    ----------
    log
        A click log with positions and document ids. An id names a document of one query: lists that share a document
        belong to one query, and so do lists that are joined through others.
    bias
        The position bias: what ``position_bias`` gives, or the path of a saved one.
    prior
        Looks without a click that are added to each document's own, so that one click on a document that few have
        looked at does not count for much.
    weights
        Whether each document gets its looks, relative to their mean, as its weight. Forests and ``GBRT`` are the better
        for it, ``LambdaMART`` is not.

    Returns
    -------
    RankingData
        Features are those of the first row of each document, the query id is that of the first list of its query. The
        rows of a query lie together.

    Examples
    --------
    >>> import rankwood as rw
    >>> judged = rw.make_ranking(n_queries=20, docs_per_query=10, seed=1)
    >>> rankings = [judged.features[:, 0], judged.features[:, 1]]
    >>> log = rw.simulate_clicks(judged, rankings, sessions=5000, seed=1).counted()
    >>> learned = rw.click_judgments(log, rw.position_bias(log, "harvest", n_bootstrap=0))
    >>> log.n_queries, learned.n_queries
    (40, 20)
    >>> model = rw.LambdaMART(target="ndcg[gain=linear]").fit(learned)
    """
    prior = checks.real_number("prior", prior, "[0, inf)")
    slope, offset = as_propensities(bias).at(positions_of(log, "click_judgments()"))
    if log.doc_ids is None:
        raise DataError(
            "click_judgments() needs document ids, which join the same document of the same query over lists: pass "
            "RankingData(..., doc_ids=), or name the column with doc= (--doc)."
        )
    documents = group_rows(log.doc_ids)
    of_row, first_rows = documents.query_of_row, documents.row_order[documents.offsets[:-1]]
    _tell_of_other_features(log, of_row, first_rows)
    given = multiplied_weights(log)
    shown = np.ones(log.n_documents) if given is None else given
    looks = np.bincount(of_row, shown * slope, first_rows.size)
    clicks = np.bincount(of_row, shown * (log.labels - offset), first_rows.size)
    total = float(looks.sum())
    if total == 0.0:
        raise DataError("the log has no impressions: it has no rows, or all weights are 0.")
    if float(clicks.sum()) <= 0.0:
        raise DataError("the log has no clicks beyond what its position bias explains.")
    estimates = np.zeros(first_rows.size)
    np.divide(clicks, looks + prior, out=estimates, where=looks + prior > 0.0)
    query = _first_lists(log.query_of_row, of_row)[first_rows]
    order = np.argsort(query, kind="stable")  # the rows of a query lie together
    rows = first_rows[order]
    return RankingData(
        log.features[rows],
        np.maximum(estimates, 0.0)[order],
        log.queries[query[order]],
        log.doc_ids[rows],
        (looks / looks.mean())[order] if weights else None,
        feature_names=log.feature_names,
        categorical=log.categorical,
    )


def _first_lists(list_of_row: Rows, document_of_row: Rows) -> Array:
    """For each row the first of the lists that are joined with its own, directly or through others."""
    from scipy.sparse import coo_array  # heavy to load
    from scipy.sparse.csgraph import connected_components

    n_lists = int(list_of_row.max()) + 1
    size = n_lists + int(document_of_row.max()) + 1
    joins = (np.ones(list_of_row.size, np.int8), (list_of_row, n_lists + document_of_row))
    n_parts, part = connected_components(coo_array(joins, shape=(size, size)), directed=False)
    first = np.full(n_parts, n_lists)
    np.minimum.at(first, part[:n_lists], np.arange(n_lists))
    found: Array = first[part[list_of_row]]
    return found


def _tell_of_other_features(log: RankingData, document_of_row: Rows, first_rows: Rows) -> None:
    """Warn where rows of one document differ in their features: its id may name documents of several queries."""
    n_differing, example = 0, 0
    for start in range(0, log.n_documents, _BLOCK):
        block = slice(start, start + _BLOCK)
        one, other = log.features[block], log.features[first_rows[document_of_row[block]]]
        differs = ((one != other) & ~(np.isnan(one) & np.isnan(other))).any(axis=1)
        if differs.any() and n_differing == 0:
            example = start + int(np.argmax(differs))
        n_differing += int(differs.sum())
    if n_differing:
        document = document_of_row[example]
        warnings.warn(
            f"{n_differing:,} of {log.n_documents:,} rows have other features than the first row of their document "
            f"(document {log.doc_ids[example]}: rows {int(first_rows[document])} and {example}); the first row's are "  # type: ignore[index]
            "taken. An id must name a document of one query: join query and document in it, if it does not.",
            DataWarning,
            stacklevel=3,
        )
