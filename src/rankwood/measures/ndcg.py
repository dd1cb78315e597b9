"""DCG, NDCG and MeanNDCG.

DCG@k = Σ gain(label at rank i) · discount(i) for i = 1..k; NDCG@k = DCG@k / the DCG@k of the best
ranking (Järvelin & Kekäläinen 2002). MeanNDCG is the mean of NDCG@k over k = 1..m for a query of m
documents. A query is empty when the best ranking has no gain.
"""

from __future__ import annotations

import numpy as np

from rankwood import _checks
from rankwood.dtypes import Floats
from rankwood.measures.gains import discounts, rule, sums_over_ranks
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists, Ranking, average_over_ties, run_lists
from rankwood.measures.values import QueryValues


def dcg(measure: Measure, lists: Lists) -> QueryValues:
    """DCG@k of each query."""
    gained, possible = _gained_and_possible(measure, lists)
    return QueryValues(gained, possible == 0)


def ndcg(measure: Measure, lists: Lists) -> QueryValues:
    """NDCG@k of each query."""
    gained, possible = _gained_and_possible(measure, lists)
    is_empty = possible == 0
    values = np.divide(gained, possible, out=np.zeros_like(gained), where=~is_empty)
    if measure["short"] == "zero" and measure.k is not None:
        values[lists.listed < measure.k] = 0.0
    return QueryValues(values, is_empty)


def mean_ndcg(measure: Measure, lists: Lists) -> QueryValues:
    """Mean over k = 1..m of NDCG@k, for a query of m documents."""
    from rankwood.measures.gains_kernels import mean_ratios

    gain = rule(measure["gain"])
    gain.check(lists)
    gains = gain.of_labels(lists)
    ranking, ranked_gains = ranked(str(measure["ties"]), gains, lists, None)
    ranked_gains = _checks.read_only(ranked_gains[ranking.order])
    ideal_gains = _checks.read_only(gains[lists.ideal().order])
    sizes = np.diff(lists.offsets)
    weights = discounts(measure["discount"], int(sizes.max(initial=0)))
    means = np.empty(lists.n_queries, np.float64)
    run_lists(
        mean_ratios,
        lists.offsets,
        ranking.lengths,
        ranked_gains,
        ideal_gains,
        weights,
        means,
        n_threads=lists.n_threads,
    )
    best = np.zeros(lists.n_queries)
    has_documents = sizes > 0
    best[has_documents] = ideal_gains[lists.offsets[:-1][has_documents]]
    return QueryValues(means, best == 0)


def ranked(ties: str, values: Floats, lists: Lists, cutoff: int | None) -> tuple[Ranking, Floats]:
    """The ranking up to a cut-off and the values it points at, with ties averaged if asked for."""
    if ties == "average":
        return average_over_ties(values, lists, cutoff)
    return lists.ranking(cutoff), values


def _gained_and_possible(measure: Measure, lists: Lists) -> tuple[Floats, Floats]:
    """DCG@k of each query's ranking and of its best ranking."""
    gain = rule(measure["gain"])
    gain.check(lists)
    ideal = lists.ideal(measure.k)
    weights = discounts(measure["discount"], int(ideal.lengths.max(initial=0)))
    possible = sums_over_ranks(ideal, lists.labels, gain, weights, lists)
    if measure["ties"] == "average":
        ranking, gains = average_over_ties(gain.of_labels(lists), lists, measure.k)
        return sums_over_ranks(ranking, gains, rule("linear"), weights, lists), possible
    return sums_over_ranks(lists.ranking(measure.k), lists.labels, gain, weights, lists), possible
