"""Measures of a reader who goes down the list and may stop: ERR and rank-biased precision.

ERR (Chapelle et al. 2009): the reader stops at a document of label y with probability (2^y - 1) /
2^max and is worth 1 / rank there. RBP (Moffat & Zobel 2008): the reader goes on with probability p
whatever the documents are, and gets (1 - p) p^(rank - 1) times gain / largest gain. ``max`` is the
largest label of the scale; without it, of the data. A query is empty when all its gains are 0.
"""

from __future__ import annotations

import numpy as np

from rankwood import _checks
from rankwood.errors import DataError
from rankwood.measures.gains import rule, sums_over_ranks
from rankwood.measures.measure import Measure
from rankwood.measures.ndcg import ranked
from rankwood.measures.precision import relevant_counts
from rankwood.measures.ranking import Lists, run_queries
from rankwood.measures.values import QueryValues

_ANY_GAIN = float(np.finfo(np.float64).smallest_subnormal)


def largest_label(measure: Measure, lists: Lists) -> float:
    """The label that ``max`` stands for: what was given, else the data's largest."""
    given = measure["max"]
    if given is None:
        return lists.largest_label
    if lists.largest_label > given:
        place = int(np.argmax(lists.labels))
        raise DataError(
            f"labels[{lists.row(place)}] is {lists.largest_label:g}, "
            f"above the max={given:g} of {measure}. "
            f"Pass max={lists.largest_label:g} or leave it out."
        )
    return float(given)


def err(measure: Measure, lists: Lists) -> QueryValues:
    """Expected reciprocal rank of each query."""
    from rankwood.measures.relevance_kernels import expected_reciprocal_ranks

    gain = rule("exponential")
    gain.check(lists)
    ranking = lists.ranking(measure.k)
    scale = float(np.exp2(-largest_label(measure, lists)))
    values = np.empty(lists.n_queries, np.float64)
    run_queries(
        expected_reciprocal_ranks,
        lists.n_queries,
        ranking.starts,
        ranking.lengths,
        ranking.order,
        lists.labels,
        gain.kind,
        gain.table,
        scale,
        values,
        n_threads=lists.n_threads,
    )
    return QueryValues(values, relevant_counts(lists, lists.labels, _ANY_GAIN) == 0)


def rbp(measure: Measure, lists: Lists) -> QueryValues:
    """Rank-biased precision of each query."""
    gain = rule(measure["gain"])
    gain.check(lists)
    gains = gain.of_labels(lists)
    largest = gain.of_label(largest_label(measure, lists))
    ranking, values = ranked(measure["ties"], gains, lists, measure.k)
    ranks = np.arange(int(ranking.lengths.max(initial=0)))
    persistence = float(measure["p"])
    weights = _checks.read_only((1.0 - persistence) * persistence**ranks)
    sums = sums_over_ranks(ranking, values, rule("linear"), weights, lists)
    is_empty = relevant_counts(lists, gains, _ANY_GAIN) == 0
    return QueryValues(sums / largest if largest > 0 else np.zeros_like(sums), is_empty)
