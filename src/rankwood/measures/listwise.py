"""Measures of a ranked list: DCG and its relatives, precision and its relatives, ERR and RBP.

DCG@k = Σ gain(label at rank i) · discount(i) for i = 1..k; NDCG@k = DCG@k / the DCG@k of the best
ranking (Järvelin & Kekäläinen 2002). MeanNDCG is the mean of NDCG@k over k = 1..m for a query of m
documents. A query is empty when the best ranking has no gain.

For precision, recall, average precision and reciprocal rank a document is relevant when its label is
at least ``relevant``. A query is empty when it has no relevant document.

ERR (Chapelle et al. 2009): the reader stops at a document of label y with probability (2^y - 1) /
2^max and gets 1 / rank there. RBP (Moffat & Zobel 2008): the reader goes on with probability p
whatever the documents are, and gets (1 - p) p^(rank - 1) times gain / largest gain. ``max`` is the
largest label of the scale; without it, of the data. A query is empty when all its gains are 0.

Gains, from labels: ``exponential`` 2^label - 1, ``linear`` the label itself, or a table of the gains of labels 0, 1,
2, ... Discounts, from ranks: ``log2`` 1 / log2(rank + 1); ``letor`` 1 at ranks 1 and 2, then 1 / log2(rank). Ranks
count from 1.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ParameterError
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import (
    Lists,
    QueryValues,
    Ranking,
    average_over_ties,
    run_lists,
    run_rankings,
)

# 2^1000 times sixteen million documents still fits into a float64, whose largest value is just
# under 2^1024.
LARGEST_EXPONENT = 1000

Gain = str | tuple[float, ...]
LINEAR, EXPONENTIAL, TABLE = 0, 1, 2  # kinds of gain, for the kernels
_ANY_GAIN = float(np.finfo(np.float64).smallest_subnormal)


class GainTable(NamedTuple):
    """How labels become gains, in the form the kernels take: a kind, and the gains of the labels 0, 1, 2, ..."""

    kind: int
    table: Array


class GainRule:
    """How labels become gains."""

    def __init__(self, gain: Gain) -> None:
        self.gain = gain
        if isinstance(gain, tuple):
            kind, table = TABLE, np.array(gain, np.float64)
        else:
            kind = LINEAR if gain == "linear" else EXPONENTIAL
            table = np.exp2(np.arange(64.0)) - 1.0
        self.table = GainTable(kind, checks.read_only(table))

    def check(self, lists: Lists) -> None:
        """Refuse labels that have no gain under this rule."""
        if isinstance(self.gain, tuple):
            _refuse_labels_outside(self.gain, lists)
        elif self.gain == "exponential" and lists.largest_label > LARGEST_EXPONENT:
            position = int(np.argmax(lists.labels))
            raise DataError(
                f"labels[{lists.row(position)}] is {lists.largest_label:g}, too large for the "
                f"exponential gain 2^label - 1 (at most {LARGEST_EXPONENT}). "
                "Use gain=linear, or map the labels to a few grades."
            )

    def of_labels(self, lists: Lists) -> Floats:
        """The gain of every document."""
        gains = np.empty(lists.labels.size, np.float64)
        run_lists(
            gains_of_labels,
            lists.offsets,
            lists.labels,
            self.table,
            gains,
            n_threads=lists.n_threads,
        )
        return checks.read_only(gains)

    def of_label(self, label: float) -> float:
        """The gain of one label; infinite for an exponential gain beyond floating point."""
        if isinstance(self.gain, tuple):
            if label != int(label) or label >= len(self.gain):
                raise ParameterError(
                    f"max={label:g} is not a label of the gain table, which has 0 to "
                    f"{len(self.gain) - 1}."
                )
            return self.gain[int(label)]
        if self.gain == "linear":
            return label
        with np.errstate(over="ignore"):
            return float(np.exp2(label) - 1.0)


def _refuse_labels_outside(table: tuple[float, ...], lists: Lists) -> None:
    labels = lists.labels
    unknown = (labels != np.floor(labels)) | (labels >= len(table))
    if (position := checks.first_true(unknown)) is not None:
        raise DataError(
            f"labels[{lists.row(position)}] is {float(labels[position]):g}, but the gain table has the "
            f"labels 0 to {len(table) - 1} only. Lengthen it, or use gain=exponential or gain=linear."
        )


@functools.lru_cache(maxsize=32)
def rule(gain: Gain) -> GainRule:
    """The rule for a gain, made once."""
    return GainRule(gain)


def discounts(name: str, n_ranks: int) -> Floats:
    """The discount of each of the first ``n_ranks`` ranks."""
    ranks = np.arange(1, n_ranks + 1, dtype=np.float64)
    if name == "letor":
        return checks.read_only(1.0 / np.log2(np.maximum(ranks, 2.0)))
    return checks.read_only(1.0 / np.log2(ranks + 1.0))


def sums_over_ranks(
    ranking: Ranking, labels: Floats, gain: GainRule, rank_weights: Floats, lists: Lists
) -> Floats:
    """Each query's sum over its ranking of gain times the weight of the rank."""
    sums = np.empty(lists.n_queries, np.float64)
    run_rankings(
        discounted_sums,
        ranking,
        lists,
        labels,
        gain.table,
        rank_weights,
        sums,
    )
    return sums


# Kernels.


@kernel
def gain_of(label: float, gain: GainTable) -> float:
    """The gain of one label. Whole labels are looked up: a power costs twenty times as much."""
    if gain.kind == LINEAR:
        return label
    if label < gain.table.size:
        whole = int(label)
        if whole == label:
            return gain.table[whole]  # type: ignore[no-any-return]
    return 2.0**label - 1.0  # type: ignore[no-any-return]


@kernel
def gains_of_labels(
    first: int, last: int, offsets: Array, labels: Array, gain: GainTable, gains: Array
) -> None:
    """The gain of every document."""
    for position in range(offsets[first], offsets[last]):
        gains[position] = gain_of(labels[position], gain)


@kernel
def shown(ranking: Ranking, query: int) -> Array:
    """The positions of the documents that a query shows, best first."""
    start = ranking.starts[query]
    return ranking.order[start : start + ranking.lengths[query]]


@kernel
def discounted_sums(
    first: int,
    last: int,
    ranking: Ranking,
    labels: Array,
    gain: GainTable,
    discounts: Array,
    sums: Array,
) -> None:
    """Each query's sum over ranks of gain times discount."""
    for query in range(first, last):
        documents = shown(ranking, query)
        total = 0.0
        for rank in range(documents.size):
            total += gain_of(labels[documents[rank]], gain) * discounts[rank]
        sums[query] = total


@kernel
def mean_ratios(
    first: int,
    last: int,
    offsets: Array,
    lengths: Array,
    ranked_gains: Array,
    ideal_gains: Array,
    discounts: Array,
    means: Array,
) -> None:
    """Each query's mean over k of DCG@k / ideal DCG@k; 0 where the ideal is 0.

    ``lengths`` counts the documents shown; behind them the gain stays what it is while the ideal
    may grow.
    """
    for query in range(first, last):
        begin = offsets[query]
        n_documents = offsets[query + 1] - begin
        gained = 0.0
        possible = 0.0
        total = 0.0
        for rank in range(n_documents):
            if rank < lengths[query]:
                gained += ranked_gains[begin + rank] * discounts[rank]
            possible += ideal_gains[begin + rank] * discounts[rank]
            if possible > 0.0:
                total += gained / possible
        means[query] = total / n_documents if n_documents > 0 else 0.0


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
    gain = rule(measure["gain"])
    gain.check(lists)
    gains = gain.of_labels(lists)
    ranking, ranked_gains = ranked(str(measure["ties"]), gains, lists, None)
    ranked_gains = checks.read_only(ranked_gains[ranking.order])
    ideal_gains = checks.read_only(gains[lists.ideal().order])
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


# Precision, recall, average precision, reciprocal rank, judged.


def relevant_counts(lists: Lists, values: Floats, threshold: float) -> Rows:
    """How many documents of each query have a value of at least ``threshold``."""
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
    return _sum_at_top(checks.read_only(is_relevant), measure, lists)


def _sum_at_top(values: Floats, measure: Measure, lists: Lists) -> Floats:
    ranking, values = ranked(measure["ties"], values, lists, measure.k)
    ones = checks.read_only(np.ones(int(ranking.lengths.max(initial=0))))
    return sums_over_ranks(ranking, values, rule("linear"), ones, lists)


def average_precision(measure: Measure, lists: Lists) -> QueryValues:
    """Mean of the precisions at the ranks of relevant documents, those not shown counting 0.

    ``norm`` says what the sum is divided by: all ``relevant`` documents, at most k of them
    (``cutoff``), or only those ``found`` among the first k.
    """
    n_relevant = relevant_counts(lists, lists.labels, measure["relevant"])
    ranking = lists.ranking(measure.k)
    hits = np.empty(lists.n_queries, np.int64)
    sums = np.empty(lists.n_queries, np.float64)
    run_rankings(
        sum_precisions,
        ranking,
        lists,
        lists.labels,
        float(measure["relevant"]),
        hits,
        sums,
    )
    divisor = {
        "relevant": n_relevant,
        "cutoff": n_relevant if measure.k is None else np.minimum(n_relevant, measure.k),
        "found": hits,
    }[measure["norm"]]
    return QueryValues(sums / np.maximum(divisor, 1), n_relevant == 0)


def reciprocal_rank(measure: Measure, lists: Lists) -> QueryValues:
    """One over the rank of the first relevant document; 0 if none stands among the first k."""
    n_relevant = relevant_counts(lists, lists.labels, measure["relevant"])
    ranking = lists.ranking(measure.k)
    values = np.empty(lists.n_queries, np.float64)
    run_rankings(
        reciprocal_ranks,
        ranking,
        lists,
        lists.labels,
        float(measure["relevant"]),
        values,
    )
    return QueryValues(values, n_relevant == 0)


# ERR and RBP.


def largest_label(measure: Measure, lists: Lists) -> float:
    """The label that ``max`` stands for: what was given, else the data's largest."""
    given = measure["max"]
    if given is None:
        return lists.largest_label
    if lists.largest_label > given:
        position = int(np.argmax(lists.labels))
        raise DataError(
            f"labels[{lists.row(position)}] is {lists.largest_label:g}, "
            f"above the max={given:g} of {measure}. "
            f"Pass max={lists.largest_label:g} or leave it out."
        )
    return float(given)


def err(measure: Measure, lists: Lists) -> QueryValues:
    """Expected reciprocal rank of each query."""
    gain = rule("exponential")
    gain.check(lists)
    ranking = lists.ranking(measure.k)
    scale = float(np.exp2(-largest_label(measure, lists)))
    values = np.empty(lists.n_queries, np.float64)
    run_rankings(
        expected_reciprocal_ranks,
        ranking,
        lists,
        lists.labels,
        gain.table,
        scale,
        values,
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
    weights = checks.read_only((1.0 - persistence) * persistence**ranks)
    sums = sums_over_ranks(ranking, values, rule("linear"), weights, lists)
    is_empty = relevant_counts(lists, gains, _ANY_GAIN) == 0
    return QueryValues(sums / largest if largest > 0 else np.zeros_like(sums), is_empty)


# Kernels. A document is relevant when its label reaches ``threshold``.


@kernel
def count_relevant(
    first: int, last: int, offsets: Array, labels: Array, threshold: float, counts: Array
) -> None:
    """Relevant documents of each list."""
    for query in range(first, last):
        documents = labels[offsets[query] : offsets[query + 1]]
        n_relevant = 0
        for document in range(documents.size):
            n_relevant += documents[document] >= threshold
        counts[query] = n_relevant


@kernel
def sum_precisions(
    first: int,
    last: int,
    ranking: Ranking,
    labels: Array,
    threshold: float,
    hits: Array,
    sums: Array,
) -> None:
    """Relevant documents shown, and the sum of the precisions at their ranks."""
    for query in range(first, last):
        documents = shown(ranking, query)
        n_hits = 0
        total = 0.0
        for rank in range(documents.size):
            is_hit = int(labels[documents[rank]] >= threshold)
            n_hits += is_hit
            total += is_hit * (n_hits / (rank + 1))  # a branch would be guessed wrong half the time
        hits[query] = n_hits
        sums[query] = total


@kernel
def reciprocal_ranks(
    first: int,
    last: int,
    ranking: Ranking,
    labels: Array,
    threshold: float,
    reciprocals: Array,
) -> None:
    """One over the rank of the first relevant document shown; 0 if there is none."""
    for query in range(first, last):
        documents = shown(ranking, query)
        reciprocals[query] = 0.0
        for rank in range(documents.size):
            if labels[documents[rank]] >= threshold:
                reciprocals[query] = 1.0 / (rank + 1)
                break


@kernel
def expected_reciprocal_ranks(
    first: int,
    last: int,
    ranking: Ranking,
    labels: Array,
    gain: GainTable,
    scale: float,
    expectations: Array,
) -> None:
    """The mean of 1 / rank where a reader stops: at a document with probability gain · scale."""
    for query in range(first, last):
        documents = shown(ranking, query)
        still_reading = 1.0
        total = 0.0
        for rank in range(documents.size):
            stops = gain_of(labels[documents[rank]], gain) * scale
            total += still_reading * stops / (rank + 1)
            still_reading *= 1.0 - stops
        expectations[query] = total
