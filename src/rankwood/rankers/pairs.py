"""Boosting on pairs of documents: ``NDCGBoost`` and ``RankBoost``.

``NDCGBoost`` adds trees with leaves 0 and 1 that raise the expected NDCG (Valizadegan, Jin, Zhang & Mao 2009).

``RankBoost`` adds weak rankers of one feature and one threshold (Freund, Iyer, Schapire & Singer 2003). A weak ranker
predicts 1 for a document with ``x > threshold``, 0 for one with ``x <= threshold``, and ½ if the value is missing.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.sums import exact_bincount
from rankwood._core.threads import lazy, resolve_threads
from rankwood.binning.bins import MISSING_BIN
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataWarning, ParameterError
from rankwood.losses.loss import LARGEST_EDGE, LEAST_EDGE, rising_documents
from rankwood.losses.pairs import GradedLists, NDCGBoostLoss, PairLoss, graded_lists, ndcgboost_loss
from rankwood.measures.listwise import Gain
from rankwood.measures.measure import FORMS
from rankwood.rankers.boosted import ADD_ROUNDS, STOP_BY_ROUNDS, Boosted, RoundRanker
from rankwood.rankers.parameters import NOTHING_DRAWN, parameter
from rankwood.training.boosting import BoostingPlan, BoostingState
from rankwood.training.inputs import TrainingSet
from rankwood.training.rounds import BEST, Rounds
from rankwood.trees.edges import ABSTAIN, UNIT, EdgeSearch
from rankwood.trees.grower import Policies, Tree
from rankwood.trees.partition import sum_inner_nodes
from rankwood.trees.workspace import Matrix

NO_USEFUL_TREE = "no tree tells documents that should rise from those that should fall"
NO_USEFUL_RANKER = "no weak ranker orders the weighted pairs better than chance"
_SLACK = int(2 * UNIT * 1e-12)  # of 2 r: edges that differ by less differ by rounding
ABSTAINED = 0.5  # the prediction for a missing value


def ndcgboost(
    loss: NDCGBoostLoss,
    plan: BoostingPlan,
    state: BoostingState,
    rounds: Rounds,
) -> None:
    """Add 0/1 trees to ``state``, each of which lowers the surrogate of NDCG."""
    for number in rounds:
        classes, weights = rising_documents(loss, state.scores)  # sign(w) as 0 or 1, and |w|
        tree, alpha = weigh(loss, state.scores, plan.grow(number, (classes, weights)))
        if alpha <= 0.0:
            rounds.stop(NO_USEFUL_TREE)
            break
        rounds.finish(state.add(tree, plan.learning_rate * alpha))  # F ← F + α f


def weigh(loss: NDCGBoostLoss, scores: Floats, tree: Tree) -> tuple[Tree, float]:
    """The 0/1 tree f, of greatest Σ |w| f sign(w), and its weight α; not positive where f does not help."""
    classifier = as_classifier(tree)
    return classifier, loss.step(scores, classifier.value[classifier.leaf_of_row])


def as_classifier(tree: Tree, other: float = 0.0) -> Tree:
    """The tree with leaves that predict 1 where class 1 has more weight, else ``other``."""
    is_leaf = tree.left == 0
    votes = np.where(is_leaf, np.where(tree.value > (1.0 + other) / 2.0, 1.0, other), 0.0)
    sums, weight_sums = votes * tree.cover, np.where(is_leaf, tree.cover, 0.0)
    children = (tree.left, tree.right, tree.missing)
    sum_inner_nodes(*children, sums, weight_sums)  # type: ignore[no-untyped-call]
    means = np.divide(sums, weight_sums, out=np.zeros(votes.size), where=weight_sums > 0)
    return dataclasses.replace(tree, value=np.where(is_leaf, votes, means))


_MANY_PAIRS = 1e11  # of all rounds together; a core compares some hundred million in a second


class NDCGBoost(Boosted):
    """Boosted classification trees that raise the expected NDCG (Valizadegan et al. 2009).

    Each document weighs what its query would win if it rose past the others; a tree with leaves 0 and 1 tells those
    that should rise from those that should fall, and is added with the weight that lowers the expected loss of NDCG
    most, by a bound. Time grows with the square of a query's length, memory does not. Needs query ids.

    ``query_weight`` multiplies what a query counts; ``sample_weight`` multiplies every pair the document is in.

    Attributes
    ----------
    stopped_because_
        Why there are no more rounds.
    """

    _takes_categories = True

    _signature = (
        "n_rounds max_leaves min_leaf max_depth min_gain gain learning_rate features_per_node early_stopping measure "
        "warm_start missing monotone max_bins seed n_threads progress callbacks checkpoint position_bias"
    )
    _length = "n_rounds"

    n_rounds: int = parameter(
        default=100, doc="Number of trees, or the most there may be with ``early_stopping``."
    )
    max_leaves: int | None = parameter(default=4)
    gain: str | Sequence[float] = parameter(
        default="exponential",
        doc="""How labels become gains: "exponential" (2^label - 1), "linear", or a table of the gains of labels 0, 1,
        2, …""",
        check=lambda _, value: _checked_gain(value),
        kw_only=True,
    )
    learning_rate: float = parameter(
        default=1.0, doc="What is taken of each tree's weight; 1 is the paper's.", kw_only=True
    )
    early_stopping: int | str | None = parameter(default=BEST, doc=STOP_BY_ROUNDS, kw_only=True)
    warm_start: bool = parameter(default=False, doc=ADD_ROUNDS, kw_only=True)

    l2 = 0.0
    subsample = 1.0
    subsample_by = "row"

    def _loss(self, train: TrainingSet) -> NDCGBoostLoss:
        _warn_of_long_queries(train, self.n_rounds)
        lists = graded_lists(train.data, resolve_threads(self.n_threads))
        return ndcgboost_loss(lists, _checked_gain(self.gain))

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        ndcgboost(loss, plan, state, rounds)
        self.stopped_because_ = rounds.stopped_because


def _warn_of_long_queries(train: TrainingSet, n_rounds: int) -> None:
    """Say what a fit will take where queries are so long that their pairs are: each round compares all of them."""
    lengths = np.diff(train.data.query_offsets).astype(np.float64)
    n_pairs = float((lengths**2).sum()) / 2 * n_rounds
    if n_pairs > _MANY_PAIRS:
        warnings.warn(
            f"the longest query has {int(lengths.max()):,} documents, so that {n_rounds:,} rounds compare "
            f"{n_pairs:.1e} pairs: minutes to hours. Sample the documents of long queries, lower n_rounds, or use "
            "LambdaMART, which looks at the first ranks only.",
            DataWarning,
            stacklevel=3,
        )


def _checked_gain(gain: Any) -> Gain:
    """The argument ``gain``, read as measures read theirs."""
    if not isinstance(gain, str | list | tuple | np.ndarray):
        raise ParameterError(f"gain must be a name or a table of numbers, got {gain!r}.")
    checked: Gain = FORMS["ndcg"].options["gain"].read("gain", gain)
    return checked


# RankBoost.


def rankboost(
    loss: PairLoss,
    rankers: ThresholdRankers,
    state: BoostingState,
    rounds: Rounds,
) -> None:
    """Add weak rankers to ``state``, each fitted to the pairs that are still in the wrong order."""
    for _ in rounds:
        potentials = loss.potentials(state.scores)  # of D(i, j) ∝ exp(F_j - F_i), i better than j
        ranker = rankers.best(potentials)  # h of greatest |r|, r = Σ D(i, j) (h_i - h_j)
        if ranker.is_worthless:
            rounds.stop(NO_USEFUL_RANKER)
            break
        stump = rankers.stump(ranker)
        rounds.finish(state.add(stump, ranker.alpha))  # F ← F + α h


class RankBoost(RoundRanker):
    """Weak rankers "feature above threshold", added one by one for the pairs still in the wrong order.

    Each round weighs every pair of documents of a query with different labels by ``exp(F_worse - F_better)``, takes the
    feature and threshold of largest ``r = Σ D (h_better - h_worse)``, up or down, and adds it with weight
    ``½ ln((1 + r) / (1 - r))`` (Freund et al. 2003, third method). A missing value abstains: it counts as ½, neither
    above nor below. Nothing is random. Needs query ids.

    ``query_weight`` multiplies the pairs of a query; ``sample_weight`` multiplies every pair the document is in.

    Attributes
    ----------
    forest_
        One stump per round, with leaves 0, 1 and ½; its weight is the round's.
    stopped_because_
        Why there are no more rounds.
    loss_bounds_
        After each round, a bound on the share of training pairs in the wrong order; it falls round by round.
    """

    _signature = (
        "n_rounds early_stopping measure warm_start max_bins n_threads progress callbacks checkpoint seed "
        "position_bias"
    )

    n_rounds: int = parameter(
        default=300, doc="Number of weak rankers, or the most there may be with ``early_stopping``."
    )
    max_bins: int = parameter(
        default=255, doc="Thresholds come from so many bins per feature, at most 255.", kw_only=True
    )

    seed: int = parameter(default=0, doc=NOTHING_DRAWN, kw_only=True)

    is_random = False
    _compiles = ""

    @property
    def loss_bounds_(self) -> Floats:
        """``Π √(1 - r²)`` after each round, which is ``Π 1 / cosh(α)``."""
        if not hasattr(self, "forest_"):
            raise AttributeError("this RankBoost is not fitted yet.")
        bounds: Floats = np.cumprod(1.0 / np.cosh(self.forest_.tree_weights)).astype(np.float64)
        return bounds

    def _loss(self, train: TrainingSet) -> PairLoss:
        return PairLoss(graded_lists(train.data, resolve_threads(self.n_threads)))

    def _plan(self, train: TrainingSet) -> BoostingPlan:
        engine = train.engine.with_threads(resolve_threads(self.n_threads))
        return BoostingPlan(engine, Policies(), None, self.n_rounds, 1.0, self.seed)

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        rankboost(loss, ThresholdRankers.of(plan.engine.matrix, loss.lists), state, rounds)
        self.stopped_because_ = rounds.stopped_because


# Weak rankers of one feature and one threshold.


@dataclass(frozen=True)
class WeakRanker:
    """The ranker [x_feature > threshold after ``code``] and its edge."""

    feature: int
    code: int
    edge: float  # r = Σ D(better, worse) (h_better - h_worse), between -1 and 1

    @property
    def is_worthless(self) -> bool:
        """Whether it orders pairs no better, and no worse, than chance."""
        return abs(self.edge) <= LEAST_EDGE

    @property
    def alpha(self) -> float:
        """``½ ln((1 + r) / (1 - r))``, negative where lower values are better."""
        return math.atanh(min(max(self.edge, -LARGEST_EDGE), LARGEST_EDGE))


@dataclass(frozen=True, eq=False)
class ThresholdRankers:
    """All weak rankers over the bins of the training rows."""

    matrix: Matrix
    rows: Array  # uint32, ascending: the rows of the matrix that are part of a pair
    weights: Floats  # of all rows; 0 where a row is in no pair
    n_threads: int

    @classmethod
    def of(cls, matrix: Matrix, lists: GradedLists) -> ThresholdRankers:
        """The weak rankers over the rows of the lists."""
        is_paired = np.zeros(matrix.source_of_row.size, np.bool_)
        is_paired[lists.rows] = True
        rows = np.flatnonzero(is_paired[matrix.source_of_row]).astype(np.uint32)
        return cls(matrix, rows, lists.by_row(lists.weights), lists.n_threads)

    @lazy
    def _search(self) -> EdgeSearch:
        return EdgeSearch(self.matrix, self.rows, ABSTAIN, _SLACK, self.n_threads)

    def best(self, potentials: Floats) -> WeakRanker:
        """The weak ranker of greatest ``|r| = |Σ potential · h|``; of equal ones that of the first feature and cut."""
        sources = self.matrix.source_of_row[self.rows]
        signed_weights = np.rint(potentials[sources] * UNIT).astype(np.int64)
        cut = self._search.best(signed_weights)
        return WeakRanker(cut.feature, cut.code, cut.edge / (2.0 * UNIT))

    def stump(self, ranker: WeakRanker) -> Tree:
        """The weak ranker as a tree with three leaves: below, above, missing."""
        codes = self.matrix.columns[ranker.feature]
        leaf_of_source = np.empty(codes.size, np.int32)
        leaf_of_source[self.matrix.source_of_row] = np.where(
            codes == MISSING_BIN, 3, np.where(codes <= ranker.code, 1, 2)
        )
        cover = exact_bincount(leaf_of_source, self.weights, 4)
        value = np.array([0.0, 0.0, 1.0, ABSTAINED])
        cover[0] = cover.sum()
        value[0] = (cover[1:] * value[1:]).sum() / cover[0]
        gain = math.log(math.cosh(ranker.alpha))
        return Tree.stump(
            self.matrix, ranker.feature, ranker.code, 3, value, cover, gain, leaf_of_source
        )
