"""LambdaRank: pairs of documents pull at each other, as hard as swapping them would change a measure.

For each pair of a query whose first document is worth more (Burges 2010, sections 4 and 7)::

    rho    = 1 / (1 + e^(sigma · (score_better - score_worse)))
    lambda = sigma · rho · |ΔZ|                added to the better, subtracted from the worse document
    hessian = sigma² · rho · (1 - rho) · |ΔZ|  added to both

Z is NDCG, MAP, ERR or MRR, ΔZ its change when the two documents of the present ranking swap. It is held fixed: lambdas
are the negative gradient of Σ |ΔZ| · log(1 + e^(-sigma · (score_better - score_worse))).

``truncation`` takes pairs of which one stands among the first so many ranks. ``normalise`` is LightGBM's
``lambdarank_norm``: ΔZ is divided by 0.01 + the distance of the scores, unless all scores of the query are equal; then
the query's lambdas and hessians are multiplied by log2(1 + L) / L, where L is twice the sum of its pairs' lambdas.
Weights of rows multiply what comes out; rows of weight 0 are in no pair. Everything is in float64.

Labels may be any numbers that are not negative. As in the measures, 2^label - 1 is refused for labels above 1000, with
the advice to take another gain.

Signs: gradients are of a loss to be minimised; a document that should rise has a negative gradient.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from rankwood import _checks
from rankwood._threads import run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import ParameterError
from rankwood.losses import lambdarank_kernels as kernels
from rankwood.losses.newton import newton_targets
from rankwood.measures.err import largest_label
from rankwood.measures.gains import discounts, rule, sums_over_ranks
from rankwood.measures.grouping import group
from rankwood.measures.measure import Measure
from rankwood.measures.parsing import parse_measure
from rankwood.measures.precision import relevant_counts
from rankwood.measures.ranking import Lists, order

# The measures that pairs can be weighed by, with the conventions that change the weights.
CONVENTIONS = {
    "ndcg": ("gain", "discount"),
    "map": ("relevant", "norm"),
    "mrr": ("relevant",),
    "err": ("max",),
}
_KINDS = {"ndcg": kernels.NDCG, "map": kernels.MAP, "mrr": kernels.MRR, "err": kernels.ERR}
_ALL = np.iinfo(np.int64).max
_BLOCKS = 64  # of queries, equal in work: enough that each of a few threads gets its share
_PAIRS_PER_THREAD = 100_000  # fewer are weighed faster than a thread starts


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
        Documents with labels and query ids.
    target
        The measure, or its text, whose changes weigh the pairs: ndcg, map, mrr or err, with cut-off and conventions.
    weights
        What each row weighs; None where all are 1.
    sigma
        How steep the pairs' logistic is.
    truncation
        One document of a pair must stand among so many first ranks; None takes all pairs.
    normalise
        Whether lambdas are scaled as LightGBM's ``lambdarank_norm`` does.
    """

    data: RankingData
    target: str | Measure = "ndcg"
    weights: Floats | None = None
    sigma: float = 1.0
    truncation: int | None = 30
    normalise: bool = True
    n_threads: int | None = None

    def __post_init__(self) -> None:
        _ = self._worth  # wrong labels, and data without queries, are refused here

    def start(self) -> float:
        """Scores begin at 0: a constant moves no pair."""
        return 0.0

    def targets(self, scores: Floats, ranking: Rows | None = None) -> tuple[Floats, Floats | None]:
        """``lambda / hessian`` and the hessian, for Newton's leaves."""
        return newton_targets(*self.gradients(scores, ranking))

    def ranks_as(self, lists: Lists) -> bool:
        """Whether a ranking of ``lists`` is a ranking of the loss's own: the same documents at the same places."""
        own = self._lists
        if own.rows is None or lists.rows is None:
            return own.rows is lists.rows
        return np.array_equal(own.rows, lists.rows)

    def gradients(self, scores: Floats, ranking: Rows | None = None) -> tuple[Floats, Floats]:
        """Gradient (minus lambda) and hessian of each row; ``ranking`` where the scores are sorted already."""
        scores = _checks.vector("scores", scores, self.data.n_documents)
        lists = self._lists
        in_order = _checks.read_only(scores if lists.rows is None else scores[lists.rows])
        lambdas, hessians = np.empty_like(in_order), np.empty_like(in_order)
        run_blocks(
            kernels.lambdas_of_queries,
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

    def _of_rows(self, values: Floats) -> Floats:
        """Values of the places as values of the rows, weighed; 0 for rows that are in no list."""
        rows = self._lists.rows
        if rows is not None:
            found = np.zeros(self.data.n_documents)
            found[rows] = values
            values = found
        return values if self.weights is None else values * self.weights

    @functools.cached_property
    def _measure(self) -> Measure:
        return parse_target(self.target)

    @functools.cached_property
    def _lists(self) -> Lists:
        """The documents by query, without those of weight 0; scores are not looked at."""
        has_weight = None if self.weights is None or self.weights.all() else self.weights > 0.0
        labels = self.data.labels
        return group(labels, self.data, judged=has_weight, unjudged="condense")

    @functools.cached_property
    def _worth(self) -> Floats:
        """What each document brings, such that a swap changes the measure by a difference of it times one of ranks."""
        worth = {"ndcg": _gain_shares, "err": _chances}.get(self._measure.name, _relevance)
        return _checks.read_only(worth(self._measure, self._lists))

    @functools.cached_property
    def _discounts(self) -> Floats:
        longest = int(np.diff(self._lists.offsets).max(initial=0))
        is_ndcg = self._measure.name == "ndcg"
        ranks = min(longest, self._measure.k or longest) if is_ndcg else 0
        return discounts(str(self._measure["discount"]) if is_ndcg else "log2", ranks)

    @functools.cached_property
    def _rules(self) -> kernels.Rules:
        """Beyond the cut-off no swap changes anything: pairs are truncated there at the latest."""
        cutoff = self._measure.k or _ALL
        truncation = min(_ALL if self.truncation is None else self.truncation, cutoff)
        kind = _KINDS[self._measure.name]
        return kernels.Rules(kind, cutoff, truncation, float(self.sigma), bool(self.normalise))

    @functools.cached_property
    def _work(self) -> Rows:
        """Pairs, and documents to be ranked, of all queries up to each."""
        sizes = np.diff(self._lists.offsets)
        return np.cumsum(sizes * (np.minimum(sizes, self._rules.truncation) + 8))

    @functools.cached_property
    def _edges(self) -> tuple[Array]:
        """The first query of each block, and where the last ends: blocks of about the same work."""
        total = int(self._work[-1]) if self._work.size else 0
        inner = np.searchsorted(self._work, np.arange(1, _BLOCKS) * (total / _BLOCKS))
        edges = np.concatenate([[0], inner, [self._work.size]]).astype(np.int64)
        return (_checks.read_only(edges),)

    @property
    def _least_blocks(self) -> int:
        """Blocks that are worth a thread."""
        total = int(self._work[-1]) if self._work.size else 0
        return 1 + _BLOCKS * _PAIRS_PER_THREAD // max(1, total)


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
    of_place = np.repeat(divisors, np.diff(lists.offsets))
    return np.divide(values, of_place, out=np.zeros_like(values), where=of_place > 0.0)
