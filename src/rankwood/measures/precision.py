"""Precision, recall, average precision, reciprocal rank, and the share of judged documents.

A document is relevant when its label is at least ``relevant``. A query is empty when it has no
relevant document.
"""

from __future__ import annotations

import numpy as np

from rankwood import _checks
from rankwood.dtypes import Floats, Rows
from rankwood.measures.gains import rule, sums_over_ranks
from rankwood.measures.measure import Measure
from rankwood.measures.ndcg import ranked
from rankwood.measures.ranking import Lists, run_lists, run_queries
from rankwood.measures.values import QueryValues


def relevant_counts(lists: Lists, values: Floats, threshold: float) -> Rows:
    """How many documents of each query have a value of at least ``threshold``."""
    from rankwood.measures.relevance_kernels import count_relevant

    counts = np.empty(lists.n_queries, np.int64)
    run_lists(
        count_relevant, lists.offsets, values, float(threshold), counts, n_threads=lists.n_threads
    )
    return counts


def precision(measure: Measure, lists: Lists) -> QueryValues:
    """Share of relevant documents among the first k."""
    n_relevant = relevant_counts(lists, lists.labels, measure["relevant"])
    shown: Floats | int = measure.k or 1
    if measure["norm"] == "retrieved":
        shown = np.clip(lists.listed, 1, shown)
    return QueryValues(_hits(measure, lists) / shown, n_relevant == 0)


def recall(measure: Measure, lists: Lists) -> QueryValues:
    """Share of the query's relevant documents that stand among the first k."""
    n_relevant = relevant_counts(lists, lists.labels, measure["relevant"])
    return QueryValues(_hits(measure, lists) / np.maximum(n_relevant, 1), n_relevant == 0)


def judged(measure: Measure, lists: Lists) -> QueryValues:
    """Share of the documents shown among the first k whose label is known."""
    nothing_is_empty = np.zeros(lists.n_queries, bool)
    if lists.judged is None:
        return QueryValues(np.ones(lists.n_queries), nothing_is_empty)
    counts = _sum_at_top(lists.judged, measure, lists)
    shown = np.clip(lists.listed, 1, measure.k)
    return QueryValues(counts / shown, nothing_is_empty)


def _hits(measure: Measure, lists: Lists) -> Floats:
    """Relevant documents among the first k; a mean over orders where ties are averaged."""
    is_relevant = (lists.labels >= measure["relevant"]).astype(np.float64)
    return _sum_at_top(_checks.read_only(is_relevant), measure, lists)


def _sum_at_top(values: Floats, measure: Measure, lists: Lists) -> Floats:
    ranking, values = ranked(measure["ties"], values, lists, measure.k)
    ones = _checks.read_only(np.ones(int(ranking.lengths.max(initial=0))))
    return sums_over_ranks(ranking, values, rule("linear"), ones, lists)


def average_precision(measure: Measure, lists: Lists) -> QueryValues:
    """Mean of the precisions at the ranks of relevant documents, those not shown counting 0.

    ``norm`` says what the sum is divided by: all ``relevant`` documents, at most k of them
    (``cutoff``), or only those ``found`` among the first k.
    """
    from rankwood.measures.relevance_kernels import sum_precisions

    n_relevant = relevant_counts(lists, lists.labels, measure["relevant"])
    ranking = lists.ranking(measure.k)
    hits = np.empty(lists.n_queries, np.int64)
    sums = np.empty(lists.n_queries, np.float64)
    run_queries(
        sum_precisions,
        lists.n_queries,
        ranking.starts,
        ranking.lengths,
        ranking.order,
        lists.labels,
        float(measure["relevant"]),
        hits,
        sums,
        n_threads=lists.n_threads,
    )
    divisor = {
        "relevant": n_relevant,
        "cutoff": n_relevant if measure.k is None else np.minimum(n_relevant, measure.k),
        "found": hits,
    }[measure["norm"]]
    return QueryValues(sums / np.maximum(divisor, 1), n_relevant == 0)


def reciprocal_rank(measure: Measure, lists: Lists) -> QueryValues:
    """One over the rank of the first relevant document; 0 if none stands among the first k."""
    from rankwood.measures.relevance_kernels import reciprocal_ranks

    n_relevant = relevant_counts(lists, lists.labels, measure["relevant"])
    ranking = lists.ranking(measure.k)
    values = np.empty(lists.n_queries, np.float64)
    run_queries(
        reciprocal_ranks,
        lists.n_queries,
        ranking.starts,
        ranking.lengths,
        ranking.order,
        lists.labels,
        float(measure["relevant"]),
        values,
        n_threads=lists.n_threads,
    )
    return QueryValues(values, n_relevant == 0)
