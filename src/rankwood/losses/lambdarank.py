"""LambdaRank: each pair of documents is weighed by how much swapping the two would change a measure.

For each pair of a query whose first document is worth more (Burges 2010, sections 4 and 7)::

    rho    = 1 / (1 + e^(sigma · (score_better - score_worse)))
    lambda = sigma · rho · |ΔZ|                added to the better, subtracted from the worse document
    hessian = sigma² · rho · (1 - rho) · |ΔZ|  added to both

Z is NDCG, MAP, ERR or MRR, ΔZ its change when the two documents of the present ranking swap. It is held fixed: lambdas
are the negative gradient of Σ |ΔZ| · log(1 + e^(-sigma · (score_better - score_worse))).

``truncation`` is a number of ranks: one document of a pair must have one of these first ranks. ``normalise`` is
LightGBM's ``lambdarank_norm``: ΔZ is divided by 0.01 + the distance of the scores, unless all scores of the query are
equal; then the query's lambdas and hessians are multiplied by log2(1 + L) / L, where L is twice the sum of its pairs'
lambdas. Row weights multiply lambdas and hessians; rows of weight 0 are in no pair. All arithmetic is in float64.

Labels may be any numbers that are not negative. As in the measures, 2^label - 1 is refused for labels above 1000, with
the advice to take another gain.

Signs: gradients are of a loss to be minimised; a document that should rise has a negative gradient.

Terms
    position  an index into the grouped data; query q holds the positions ``offsets[q]`` to ``offsets[q + 1]``
    rank      an index into the model's list of a query, 0 is best
    worth     the document's part of the measure: its gain over the best possible DCG, its relevance, or its chance to
              satisfy the reader
    upper     the weight of a rank for the higher document of a pair
    lower     the weight of a rank for the lower document of a pair

For every measure, swapping the documents at ranks i < j changes it by (worth[i] - worth[j]) · (upper[i] - lower[j]),
up to the sign. Measures differ in how upper and lower follow from a ranking; only ERR's lower differs for each i.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood._core.threads import lazy, run_blocks
from rankwood.data.dataset import HasJudgments
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import ParameterError
from rankwood.measures.listwise import (
    discounts,
    largest_label,
    relevant_counts,
    rule,
    sums_over_ranks,
)
from rankwood.measures.measure import Measure, parse_measure
from rankwood.measures.ranking import Lists, group, order

# The measures that pairs can be weighed by, with the conventions that change the weights.
CONVENTIONS = {
    "ndcg": ("gain", "discount"),
    "map": ("relevant", "norm"),
    "mrr": ("relevant",),
    "err": ("max",),
}
NDCG, MAP, MRR, ERR = 0, 1, 2, 3
_KINDS = {"ndcg": NDCG, "map": MAP, "mrr": MRR, "err": ERR}
_ALL = np.iinfo(np.int64).max
_BLOCKS = 64  # of queries, equal in work: enough that each of a few threads gets its share
_PAIRS_PER_THREAD = 100_000  # fewer are weighed faster than a thread starts
DISTANCE = 0.01  # LightGBM's constant, kept for parity: added to the distance of scores before dividing by it
STEEPEST = 300.0  # larger exponents are clipped, so that products of two powers stay finite


def parse_target(text: str | Measure) -> Measure:
    """The measure that pairs are weighed by; one that cannot be, or a convention without meaning here, is refused."""
    measure = parse_measure(text)
    if measure.name not in CONVENTIONS:
        known = ", ".join(CONVENTIONS)
        raise ParameterError(f"target must be one of {known}, got '{measure}'.")
    used = (*CONVENTIONS[measure.name], "empty")  # queries without relevant documents have no pairs
    idle = [name for name in dict(measure.options) if name not in used]
    if idle:
        raise ParameterError(f"target '{measure}': {idle[0]} is no part of a target; leave it out.")
    if measure.name == "map" and measure["norm"] == "found":
        raise ParameterError(
            f"target '{measure}': norm=found rises when relevant documents are hidden. "
            "Use norm=relevant or norm=cutoff."
        )
    return measure


@dataclass(frozen=True, eq=False)
class LambdaRank:
    """Lambdas and hessians of the documents of ``data``.

    Parameters
    ----------
    data
        Documents with labels and query ids: ``RankingData`` or ``Judgments``.
    target
        The measure, or its text, whose changes weigh the pairs: ndcg, map, mrr or err, with cut-off and conventions.
    weights
        What each row weighs; None where all are 1.
    sigma
        The steepness of the logistic function of pairs.
    truncation
        One document of a pair must be among this many first ranks; None takes all pairs.
    normalise
        Whether lambdas are scaled as LightGBM's ``lambdarank_norm`` does.
    """

    data: HasJudgments
    target: str | Measure = "ndcg"
    weights: Floats | None = None
    sigma: float = 1.0
    truncation: int | None = 30
    normalise: bool = True
    n_threads: int | None = None

    def __post_init__(self) -> None:
        _ = self._worth  # wrong labels, and data without queries, are refused here
        self._lists.forget_rankings()  # by label: they are not needed again, and as large as the labels

    def start(self) -> float:
        """Scores start at 0: a constant changes no pair."""
        return 0.0

    def options_for_parts(self) -> dict[str, Any]:
        """The options of the loss of some of the queries: the largest label of all is named where it counts."""
        return {
            "target": self._measure.with_largest(self._lists.largest_label),
            "sigma": self.sigma,
            "truncation": self.truncation,
            "normalise": self.normalise,
        }

    def ranks_as(self, lists: Lists) -> bool:
        """Whether a ranking of ``lists`` is a ranking of the loss's own: the same documents at the same positions."""
        own = self._lists
        if own.rows is None or lists.rows is None:
            return own.rows is lists.rows
        return np.array_equal(own.rows, lists.rows)

    def gradients(self, scores: Floats, ranking: Rows | None = None) -> tuple[Floats, Floats]:
        """Gradient (minus lambda) and hessian of each row; ``ranking`` where the scores are sorted already."""
        scores = checks.vector("scores", scores, self._n_rows)
        lists = self._lists
        in_order = checks.read_only(scores if lists.rows is None else scores[lists.rows])
        lambdas, hessians = np.empty_like(in_order), np.empty_like(in_order)
        run_blocks(
            lambdas_of_queries,
            _BLOCKS,
            *self._edges,
            lists.offsets,
            ranking
            if ranking is not None
            else order(in_order, lists.offsets, self.n_threads).order,
            in_order,
            self._worth,
            self._discounts,
            self._rules,
            lambdas,
            hessians,
            n_threads=self.n_threads,
            least=self._least_blocks,
        )
        return self._of_rows(np.negative(lambdas, out=lambdas)), self._of_rows(hessians)

    def tables(self) -> PairTables | None:
        """What another processor weighs pairs by; None where rows are left out, or ranks need more than a discount."""
        if self._lists.rows is not None or self._rules.kind != NDCG:
            return None
        return PairTables(self._lists.offsets, self._worth, self._discounts, self._rules)

    def powers(self, scores: Floats, powers: Array) -> None:
        """Write the power of each row, which has a part in all its pairs."""
        scores = checks.read_only(checks.vector("scores", scores, self._n_rows))
        given = (*self._edges, self._lists.offsets, scores, self._rules, powers)
        run_blocks(
            powers_of_queries, _BLOCKS, *given, n_threads=self.n_threads, least=self._least_blocks
        )

    def factors(self, totals: Floats) -> Floats:
        """What the lambdas of each query are multiplied by, from the sum of those of its pairs."""
        factors = np.empty(totals.size)
        factors_of_queries(checks.read_only(totals), self._rules, factors)
        return factors

    def value(self, scores: Floats, swaps_at: Floats | None = None) -> float:
        """``Σ factor · |ΔZ| · log(1 + e^(-sigma · (score_better - score_worse)))`` over all pairs.

        ΔZ, the distances it is divided by and the factor of each query are those of the ranking by ``swaps_at``, else
        by ``scores``. ``gradients(s)`` are the derivatives of ``value(scores, swaps_at=s)`` at ``scores = s``. A pair
        weighs the mean weight of its documents; where these differ, no function has the weighed gradients.
        """
        lists, rules = self._lists, self._rules
        rows = slice(None) if lists.rows is None else lists.rows
        moved = checks.vector("scores", scores, self._n_rows)[rows]
        fixed = moved if swaps_at is None else checks.vector("scores", swaps_at, self._n_rows)[rows]
        weights = np.ones(fixed.size) if self.weights is None else self.weights[rows]
        best_first = order(checks.read_only(fixed), lists.offsets, self.n_threads).order
        total = 0.0
        for begin, end in itertools.pairwise(lists.offsets.tolist()):
            ranked = best_first[begin:end]
            changes, better, worse = _swaps(fixed, self._worth, ranked, self._discounts, rules)
            pair_weights = (weights[better] + weights[worse]) / 2.0
            lambdas = changes / (1.0 + np.exp(rules.sigma * (fixed[better] - fixed[worse])))
            pull = 2.0 * rules.sigma * float(lambdas.sum())
            factor = np.log2(1.0 + pull) / pull if rules.normalise and pull > 0.0 else 1.0
            costs = np.logaddexp(0.0, -rules.sigma * (moved[better] - moved[worse]))
            total += factor * float((pair_weights * changes * costs).sum())
        return total

    def _of_rows(self, values: Floats) -> Floats:
        """Weighted values by row from values by position; 0 for rows that are in no list."""
        rows = self._lists.rows
        if rows is not None:
            of_rows = np.zeros(self._n_rows)
            of_rows[rows] = values
            values = of_rows
        return values if self.weights is None else values * self.weights

    @property
    def _n_rows(self) -> int:
        return self.data.judgments.n_documents

    @lazy
    def _measure(self) -> Measure:
        return parse_target(self.target)

    @lazy
    def _lists(self) -> Lists:
        """The documents by query, without those of weight 0; scores are not looked at."""
        has_weight = None if self.weights is None or self.weights.all() else self.weights > 0.0
        judgments = self.data.judgments
        return group(judgments.labels, judgments, judged=has_weight, unjudged="condense")

    @lazy
    def _worth(self) -> Floats:
        """What each document brings, such that a swap changes the measure by a difference of it times one of ranks."""
        worth = {"ndcg": _gain_shares, "err": _chances}.get(self._measure.name, _relevance)
        return checks.read_only(worth(self._measure, self._lists))

    @lazy
    def _discounts(self) -> Floats:
        longest = int(np.diff(self._lists.offsets).max(initial=0))
        is_ndcg = self._measure.name == "ndcg"
        ranks = min(longest, self._measure.k or longest) if is_ndcg else 0
        return discounts(str(self._measure["discount"]) if is_ndcg else "log2", ranks)

    @lazy
    def _rules(self) -> PairRules:
        """Beyond the cut-off no swap changes anything: pairs are truncated there at the latest."""
        cutoff = self._measure.k or _ALL
        truncation = min(_ALL if self.truncation is None else self.truncation, cutoff)
        kind = _KINDS[self._measure.name]
        return PairRules(kind, cutoff, truncation, float(self.sigma), bool(self.normalise))

    @lazy
    def _work(self) -> Rows:
        """Pairs, and documents to be ranked, of all queries up to each."""
        sizes = np.diff(self._lists.offsets)
        return np.cumsum(sizes * (np.minimum(sizes, self._rules.truncation) + 8))

    @lazy
    def _edges(self) -> tuple[Array]:
        """The first query of each block, and where the last ends: blocks of about the same work."""
        total = int(self._work[-1]) if self._work.size else 0
        inner = np.searchsorted(self._work, np.arange(1, _BLOCKS) * (total / _BLOCKS))
        edges = np.concatenate([[0], inner, [self._work.size]]).astype(np.int64)
        return (checks.read_only(edges),)

    @property
    def _least_blocks(self) -> int:
        """The least number of blocks per thread."""
        total = int(self._work[-1]) if self._work.size else 0
        return 1 + _BLOCKS * _PAIRS_PER_THREAD // max(1, total)


def _swaps(
    scores: Floats, worth: Floats, ranked: Rows, discounts: Floats, rules: PairRules
) -> tuple[Floats, Rows, Rows]:
    """|ΔZ| of each pair of a query, divided by the distance where lambdas are; its better and worse position."""
    size = ranked.size
    own_worth, own_scores = worth[ranked], scores[ranked]
    upper, lower = np.zeros(size), np.zeros(size)
    if rules.kind == NDCG:
        count_discounts(size, discounts, upper, lower)
    elif rules.kind == MAP:
        count_precisions(size, rules.cutoff, own_worth, upper, lower)
    elif rules.kind == MRR:
        count_firsts(size, rules.cutoff, own_worth, upper, lower)
    is_divided = rules.normalise and size > 0 and own_scores[0] != own_scores[-1]
    changes, above, below = [np.zeros(0)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    reading = 1.0
    for rank in range(min(size - 1, rules.truncation)):
        if rules.kind == ERR:
            upper[rank] = reading / (rank + 1)
            count_readers(rank, size, rules.cutoff, reading, own_worth, lower)
            reading *= 1.0 - own_worth[rank]
        gaps = own_worth[rank] - own_worth[rank + 1 :]
        apart = DISTANCE + own_scores[rank] - own_scores[rank + 1 :] if is_divided else 1.0
        changes.append(np.abs(gaps * (upper[rank] - lower[rank + 1 :])) / apart)
        here, others = np.full(gaps.size, ranked[rank]), ranked[rank + 1 :]
        above.append(np.where(gaps > 0.0, here, others))
        below.append(np.where(gaps > 0.0, others, here))
    return np.concatenate(changes), np.concatenate(above), np.concatenate(below)


def _gain_shares(measure: Measure, lists: Lists) -> Floats:
    """Gains over the best possible DCG of their query; 0 where that is 0."""
    gain = rule(measure["gain"])
    gain.check(lists)
    ideal = lists.ideal(measure.k)
    weights = discounts(measure["discount"], int(ideal.lengths.max(initial=0)))
    best = sums_over_ranks(ideal, lists.labels, gain, weights, lists)
    return _divide(gain.of_labels(lists), best, lists)


def _relevance(measure: Measure, lists: Lists) -> Floats:
    """1 for a relevant document; for MAP over what the sum of precisions is divided by."""
    is_relevant: Floats = (lists.labels >= measure["relevant"]).astype(np.float64)
    if measure.name == "mrr":
        return is_relevant
    divisor = relevant_counts(lists, lists.labels, measure["relevant"]).astype(np.float64)
    if measure["norm"] == "cutoff" and measure.k is not None:
        divisor = np.minimum(divisor, measure.k)
    return _divide(is_relevant, divisor, lists)


def _chances(measure: Measure, lists: Lists) -> Floats:
    """The chance that a reader stops at each document."""
    gain = rule("exponential")
    gain.check(lists)
    chances: Floats = gain.of_labels(lists) * np.exp2(-largest_label(measure, lists))
    return chances


def _divide(values: Floats, divisors: Floats, lists: Lists) -> Floats:
    """Values of documents over those of their queries; 0 over 0 is 0."""
    of_position = np.repeat(divisors, np.diff(lists.offsets))
    return np.divide(values, of_position, out=np.zeros_like(values), where=of_position > 0.0)


# Kernels.


class PairRules(NamedTuple):
    """What determines the lambdas, except the documents."""

    kind: int  # NDCG, MAP, MRR or ERR
    cutoff: int  # ranks that count in the measure
    truncation: int  # first ranks of which one document of a pair must have one
    sigma: float
    normalise: bool


class PairTables(NamedTuple):
    """What lambdas follow from, beside the scores, where the row of each position is its own."""

    offsets: Rows
    worth: Floats
    discounts: Floats
    rules: PairRules


class QuerySpace(NamedTuple):
    """One query in the order of its ranking; as long as the longest one."""

    scores: Array
    powers: Array  # e^(sigma · score)
    worth: Array
    upper: Array
    lower: Array
    pairs: Array  # of the current document with those below it
    curves: Array
    lambdas: Array
    hessians: Array


@kernel
def lambdas_of_queries(
    first: int,
    last: int,
    edges: Array,
    offsets: Array,
    order: Array,
    scores: Array,
    worth: Array,
    discounts: Array,
    rules: PairRules,
    lambdas: Array,
    hessians: Array,
) -> None:
    """Lambda and hessian of every position of the blocks ``first`` to ``last``; block b ends at query edges[b + 1]."""
    space = space_of(first, last, edges, offsets)
    for query in range(edges[first], edges[last]):
        begin = offsets[query]
        size = offsets[query + 1] - begin
        total = 0.0
        if take_query(begin, order[begin : begin + size], scores, worth, rules, space):
            total = lambdas_of_query(size, discounts, rules, space)
        factor = factor_of(total, rules)
        for rank in range(size):
            position = order[begin + rank]
            lambdas[position] = factor * space.lambdas[rank]
            hessians[position] = factor * rules.sigma * space.hessians[rank]


@kernel
def space_of(first: int, last: int, edges: Array, offsets: Array) -> QuerySpace:
    """Space for the longest query of the blocks ``first`` to ``last``."""
    longest = 0
    for query in range(edges[first], edges[last]):
        longest = max(longest, offsets[query + 1] - offsets[query])
    rows = np.empty((9, longest), np.float64)
    return QuerySpace(
        rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7], rows[8]
    )


@kernel
def factor_of(total: float, rules: PairRules) -> float:
    """What the lambdas of a query are multiplied by; ``total`` is the sum of those of its pairs, without sigma."""
    factor = rules.sigma
    if rules.normalise and total > 0.0:
        total *= 2.0 * rules.sigma
        factor *= np.log2(1.0 + total) / total
    return factor


@kernel
def factors_of_queries(totals: Array, rules: PairRules, factors: Array) -> None:
    """The factor of each query."""
    for query in range(totals.size):
        factors[query] = factor_of(totals[query], rules)


@kernel
def powers_of_queries(
    first: int,
    last: int,
    edges: Array,
    offsets: Array,
    scores: Array,
    rules: PairRules,
    powers: Array,
) -> None:
    """The power of every position of the blocks ``first`` to ``last``."""
    for query in range(edges[first], edges[last]):
        begin, end = offsets[query], offsets[query + 1]
        top, least = -np.inf, np.inf
        for position in range(begin, end):
            top = max(top, scores[position])
            least = min(least, scores[position])
        middle = middle_of(top, least)
        for position in range(begin, end):
            powers[position] = power_of(scores[position], middle, rules)


@kernel
def middle_of(top: float, least: float) -> float:
    """The score whose power is 1, from the greatest and the least of a query."""
    return top + (least - top) / 2.0


@kernel
def power_of(score: float, middle: float, rules: PairRules) -> float:
    """The power of a document; a common factor of all powers of a query cancels out."""
    exponent = rules.sigma * (score - middle)
    return float(np.exp(min(max(exponent, -STEEPEST), STEEPEST)))


@kernel
def take_query(
    begin: int, order: Array, scores: Array, worth: Array, rules: PairRules, space: QuerySpace
) -> bool:
    """Copy a query into ``space`` in the order of its ranking; False where all documents are worth the same."""
    if order.size == 0:
        return False
    middle = middle_of(scores[order[0]], scores[order[order.size - 1]])
    is_flat = True
    for rank in range(order.size):
        position = order[rank]
        score = scores[position]
        space.scores[rank] = score
        space.worth[rank] = worth[position]
        is_flat &= worth[position] == worth[begin]
        space.powers[rank] = power_of(score, middle, rules)
        space.lambdas[rank] = 0.0
        space.hessians[rank] = 0.0
    return not is_flat


@kernel
def lambdas_of_query(size: int, discounts: Array, rules: PairRules, space: QuerySpace) -> float:
    """Add up the pairs of one query, without sigma; gives the sum of their lambdas."""
    if rules.kind == NDCG:
        count_discounts(size, discounts, space.upper, space.lower)
    elif rules.kind == MAP:
        count_precisions(size, rules.cutoff, space.worth, space.upper, space.lower)
    elif rules.kind == MRR:
        count_firsts(size, rules.cutoff, space.worth, space.upper, space.lower)
    # Where all scores are tied, as before the first tree, there is no distance to divide by.
    is_divided = rules.normalise and space.scores[0] != space.scores[size - 1]
    total = 0.0
    reading = 1.0
    for rank in range(min(size - 1, rules.truncation)):
        if rules.kind == ERR:
            space.upper[rank] = reading / (rank + 1)
            count_readers(rank, size, rules.cutoff, reading, space.worth, space.lower)
            reading *= 1.0 - space.worth[rank]
        weigh_pairs(rank, size, is_divided, space)
        own_lambda, own_hessian, own_total = sums_of(
            space.pairs[rank + 1 : size], space.curves[rank + 1 : size]
        )
        space.lambdas[rank] += own_lambda
        space.hessians[rank] += own_hessian
        total += own_total
    return total


@kernel
def count_discounts(size: int, discounts: Array, upper: Array, lower: Array) -> None:
    """NDCG: both sides count what the discount says, and nothing beyond the cut-off."""
    for rank in range(size):
        discount = discounts[rank] if rank < discounts.size else 0.0
        upper[rank] = discount
        lower[rank] = discount


@kernel
def count_precisions(size: int, cutoff: int, worth: Array, upper: Array, lower: Array) -> None:
    """Average precision: the precision at a rank, and 1 / rank for each relevant document between the two."""
    n_hits = 0
    between = 0.0  # Σ 1 / rank over the relevant documents so far
    for rank in range(size):
        if rank >= cutoff:
            upper[rank] = -between
            lower[rank] = -between
            continue
        is_hit = 1 if worth[rank] > 0.0 else 0
        higher = (n_hits + 1) / (rank + 1)
        n_hits += is_hit
        lower[rank] = n_hits / (rank + 1) - between
        between += is_hit / (rank + 1)
        upper[rank] = higher - between


@kernel
def count_firsts(size: int, cutoff: int, worth: Array, upper: Array, lower: Array) -> None:
    """Reciprocal rank: the first relevant document counts, and the second once the first has gone below it."""
    first = 0.0  # 1 / rank of the first relevant document; 0 if none is shown
    second = 0.0
    for rank in range(min(size, cutoff)):
        if worth[rank] > 0.0:
            if first > 0.0:
                second = 1.0 / (rank + 1)
                break
            first = 1.0 / (rank + 1)
    for rank in range(size):
        here = 1.0 / (rank + 1) if rank < cutoff else 0.0
        if worth[rank] > 0.0:
            upper[rank] = first if here == first else second
            lower[rank] = first
        else:
            upper[rank] = max(here, first)
            lower[rank] = max(here, second)


@kernel
def count_readers(
    rank: int, size: int, cutoff: int, reading: float, worth: Array, lower: Array
) -> None:
    """ERR: what the ranks below ``rank`` count, if a reader passes over the document there.

    ``reading`` is the chance that a reader comes to ``rank``. Nothing is divided by the chance to pass over a document,
    which may be 0.
    """
    passed = 0.0
    for below in range(rank + 1, size):
        here = reading / (below + 1) if below < cutoff else 0.0
        lower[below] = passed + here
        passed += worth[below] * here
        reading *= 1.0 - worth[below]


@kernel
def weigh_pairs(rank: int, size: int, is_divided: bool, space: QuerySpace) -> None:
    """Add the document at ``rank`` to those below it, and write what each of these pairs adds to itself."""
    add_pairs(
        space.scores[rank],
        space.powers[rank],
        space.worth[rank],
        space.upper[rank],
        DISTANCE if is_divided else 1.0,
        1.0 if is_divided else 0.0,
        space.scores[rank + 1 : size],  # views, since indices would be tested for their sign
        space.powers[rank + 1 : size],
        space.worth[rank + 1 : size],
        space.lower[rank + 1 : size],
        space.pairs[rank + 1 : size],
        space.curves[rank + 1 : size],
        space.lambdas[rank + 1 : size],
        space.hessians[rank + 1 : size],
    )


@kernel
def add_pairs(
    score: float,
    power: float,
    own_worth: float,
    upper: float,
    offset: float,
    scale: float,
    scores: Array,
    powers: Array,
    worth: Array,
    lower: Array,
    pairs: Array,
    curves: Array,
    lambdas: Array,
    hessians: Array,
) -> None:
    """The inner loop: a document and those below it, without a branch, so that the compiler makes vectors of it.

    With powers a of the better and b of the worse document, 1 / (1 + e^(sigma · (better - worse))) is b / (a + b): one
    division per pair and no exponential.
    """
    for below in range(pairs.size):
        other = powers[below]
        gap = own_worth - worth[below]
        change = gap * (upper - lower[below])
        apart = offset + scale * (score - scores[below])
        inverse = 1.0 / ((power + other) * apart)
        better = power if gap > 0.0 else other
        worse = other if gap > 0.0 else power
        pair = change * worse * inverse
        curve = abs(pair) * better * inverse * apart
        pairs[below] = pair
        curves[below] = curve
        lambdas[below] -= pair
        hessians[below] += curve


@kernel
def sums_of(pairs: Array, curves: Array) -> tuple[float, float, float]:
    """Σ pairs, Σ curves and Σ |pairs|, in four lanes, so that additions do not wait for each other."""
    pair0 = pair1 = pair2 = pair3 = 0.0
    curve0 = curve1 = curve2 = curve3 = 0.0
    size0 = size1 = size2 = size3 = 0.0
    n_whole = pairs.size // 4
    for step in range(n_whole):
        position = 4 * step
        pair0 += pairs[position]
        pair1 += pairs[position + 1]
        pair2 += pairs[position + 2]
        pair3 += pairs[position + 3]
        curve0 += curves[position]
        curve1 += curves[position + 1]
        curve2 += curves[position + 2]
        curve3 += curves[position + 3]
        size0 += abs(pairs[position])
        size1 += abs(pairs[position + 1])
        size2 += abs(pairs[position + 2])
        size3 += abs(pairs[position + 3])
    for position in range(4 * n_whole, pairs.size):
        pair0 += pairs[position]
        curve0 += curves[position]
        size0 += abs(pairs[position])
    return (
        (pair0 + pair1) + (pair2 + pair3),
        (curve0 + curve1) + (curve2 + curve3),
        (size0 + size1) + (size2 + size3),
    )
