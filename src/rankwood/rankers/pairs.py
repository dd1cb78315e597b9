"""``NDCGBoost``: boosting of 0/1 trees on the expected NDCG (Valizadegan, Jin, Zhang & Mao 2009)."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.jit import kernel
from rankwood._core.threads import resolve_threads, run_blocks
from rankwood.dtypes import Array, Floats
from rankwood.errors import ParameterError
from rankwood.losses.ndcgboost import NDCGBoostLoss, ndcgboost_loss
from rankwood.losses.pairs import GradedLists, PairLoss, graded_lists
from rankwood.losses.targets import rising_documents
from rankwood.measures.gains import Gain
from rankwood.measures.options import FORMS
from rankwood.rankers.boosted import Boosted, RoundRanker
from rankwood.training.boosting import BoostingPlan, BoostingState
from rankwood.training.checkpoint import Checkpoint
from rankwood.training.inputs import TrainingSet
from rankwood.training.rounds import ALL_ROUNDS, ASKED_TO, NO_BETTER, Callback, ProgressReporter
from rankwood.trees.grower import Tree
from rankwood.trees.histograms import build_histograms
from rankwood.trees.leaves import sum_inner_nodes
from rankwood.trees.policies import Policies
from rankwood.trees.workspace import MISSING, NO_SPLIT, Matrix

NO_USEFUL_TREE = "no tree tells documents that should rise from those that should fall"


def ndcgboost(
    loss: NDCGBoostLoss,
    plan: BoostingPlan,
    state: BoostingState,
    checkpoint: Checkpoint,
    watch: ProgressReporter,
) -> str:
    """Add 0/1 trees to ``state``, each lowering the surrogate of NDCG; gives why it stopped."""
    for number in range(len(state.trees), plan.n_trees):
        if state.stopping.is_over():
            return NO_BETTER
        classes, weights = rising_documents(loss, state.scores)  # sign(w) as 0 or 1, and |w|
        tree, alpha = weigh(loss, state.scores, plan.grow(number, classes, weights))
        if alpha <= 0.0:
            return NO_USEFUL_TREE
        measure = state.add(tree, plan.n_threads, plan.learning_rate * alpha)  # F ← F + α f
        if checkpoint.is_due():
            state.save(checkpoint)
        if watch.report(number + 1, measure):
            return ASKED_TO
    return ALL_ROUNDS


def weigh(loss: NDCGBoostLoss, scores: Floats, tree: Tree) -> tuple[Tree, float]:
    """The 0/1 tree f, of greatest Σ |w| f sign(w), and its weight α; not positive where it tells nothing apart."""
    classifier = as_classifier(tree)
    return classifier, loss.step(scores, classifier.value[classifier.leaf_of_row])


def as_classifier(tree: Tree, other: float = 0.0) -> Tree:
    """The tree with leaves that say 1 where more weight lies with class 1, else ``other``, what class 2 is called."""
    is_leaf = tree.left == 0
    votes = np.where(is_leaf, np.where(tree.value > (1.0 + other) / 2.0, 1.0, other), 0.0)
    sums, masses = votes * tree.cover, np.where(is_leaf, tree.cover, 0.0)
    children = (tree.left, tree.right, tree.missing)
    sum_inner_nodes(*children, sums, masses)  # type: ignore[no-untyped-call]
    means = np.divide(sums, masses, out=np.zeros(votes.size), where=masses > 0)
    return dataclasses.replace(tree, value=np.where(is_leaf, votes, means))


class NDCGBoost(Boosted):
    """Boosted classification trees that raise the expected NDCG (Valizadegan et al. 2009).

    Each document weighs what its query would win if it rose past the others; a tree with leaves 0 and 1 tells those
    that should rise from those that should fall, and is added with the weight that lowers the expected loss of NDCG
    most, by a bound. Time grows with the square of a query's length, memory does not. Needs query ids.

    ``query_weight`` multiplies what a query counts; ``sample_weight`` multiplies every pair the document is in.

    Parameters
    ----------
    n_rounds
        Number of trees, or the most there may be with ``early_stopping``.
    max_leaves, max_depth, min_leaf, min_gain
        Where a tree ends: leaves (the most promising is split first), splits from the root, rows in a leaf, what a
        split must remove of the loss. None is no limit.
    gain
        How labels become gains: "exponential" (2^label - 1), "linear", or a table of the gains of labels 0, 1, 2, …
    learning_rate
        What is taken of each tree's weight; 1 is the paper's.
    features_per_node
        Features a node looks at: a number (int), a share (float), or None for all.
    early_stopping
        Stop when the measure on the validation data has not improved for so many rounds, and keep the rounds up to
        the best value. None goes on to the end. Needs ``valid``.
    measure
        What is looked at on the validation data: any measure; rmse is to fall, the others are to rise.
    warm_start
        Whether a further ``fit`` adds the rounds that lack to ``n_rounds``, on the same data.
    missing
        Where missing values go: "learned", "left", "right", or into a child of their own ("own_child").
    monotone
        For each feature 1 (scores rise with it), -1 or 0; or a mapping from feature names. None leaves all free.
    max_bins, seed, n_threads, progress, callbacks, checkpoint
        As for ``RandomForest``.

    Attributes
    ----------
    history_
        The measure on the validation data after each round.
    best_iteration_
        How many rounds gave the best value; all of them without validation data.
    stopped_because_
        Why there are no more rounds.
    feature_importances_
        The share of each feature in the gain of all splits.
    """

    _length = "n_rounds"
    l2 = 0.0
    subsample = 1.0
    subsample_by = "row"

    def __init__(
        self,
        n_rounds: int = 100,
        max_leaves: int | None = 4,
        min_leaf: int = 20,
        max_depth: int | None = None,
        min_gain: float = 0.0,
        gain: str | Sequence[float] = "exponential",
        learning_rate: float = 1.0,
        features_per_node: int | float | None = None,
        early_stopping: int | None = None,
        measure: str = "ndcg@10",
        warm_start: bool = False,
        missing: str = "learned",
        monotone: Any = None,
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.max_leaves = max_leaves
        self.min_leaf = min_leaf
        self.max_depth = max_depth
        self.min_gain = min_gain
        self.gain = gain
        self.learning_rate = learning_rate
        self.features_per_node = features_per_node
        self.early_stopping = early_stopping
        self.measure = measure
        self.warm_start = warm_start
        self.missing = missing
        self.monotone = monotone
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def _loss(self, train: TrainingSet) -> NDCGBoostLoss:
        lists = graded_lists(train.data, resolve_threads(self.n_threads))
        return ndcgboost_loss(lists, _checked_gain(self.gain))

    def _boost(
        self,
        loss: Any,
        plan: BoostingPlan,
        state: BoostingState,
        checkpoint: Checkpoint,
        watch: ProgressReporter,
    ) -> None:
        self.stopped_because_ = ndcgboost(loss, plan, state, checkpoint, watch)
        if checkpoint.is_kept:
            state.save(checkpoint)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checked_gain(self.gain)


def _checked_gain(gain: Any) -> Gain:
    """The argument ``gain``, read as measures read theirs."""
    if not isinstance(gain, str | list | tuple | np.ndarray):
        raise ParameterError(f"gain must be a name or a table of numbers, got {gain!r}.")
    found: Gain = FORMS["ndcg"].options["gain"].read("gain", gain)
    return found


# ``RankBoost``: boosting of single-feature rankers on pairs (Freund, Iyer, Schapire & Singer 2003).


NO_USEFUL_RANKER = "no weak ranker orders the weighted pairs better than chance"


def rankboost(
    loss: PairLoss,
    rankers: ThresholdRankers,
    state: BoostingState,
    n_rounds: int,
    checkpoint: Checkpoint,
    watch: ProgressReporter,
) -> str:
    """Add weak rankers to ``state``, each on the pairs that those before got wrong; gives why it stopped."""
    for _ in range(len(state.trees), n_rounds):
        if state.stopping.is_over():
            return NO_BETTER
        potentials = loss.potentials(state.scores)  # of D(i, j) ∝ exp(F_j - F_i), i better than j
        ranker = rankers.best(potentials)  # h of greatest |r|, r = Σ D(i, j) (h_i - h_j)
        if ranker.is_worthless:
            return NO_USEFUL_RANKER
        measure = state.add(rankers.stump(ranker), rankers.n_threads, ranker.alpha)  # F ← F + α h
        if checkpoint.is_due():
            state.save(checkpoint)
        if watch.report(len(state.trees), measure):
            return ASKED_TO
    return ALL_ROUNDS


class RankBoost(RoundRanker):
    """Weak rankers "feature above threshold", added one by one for the pairs still in the wrong order.

    Each round weighs every pair of documents of a query with different labels by ``exp(F_worse - F_better)``, takes the
    feature and threshold of largest ``r = Σ D (h_better - h_worse)``, up or down, and adds it with weight
    ``½ ln((1 + r) / (1 - r))`` (Freund et al. 2003, third method). A missing value abstains: it counts as ½, neither
    above nor below. Nothing is random. Needs query ids.

    ``query_weight`` multiplies the pairs of a query; ``sample_weight`` multiplies every pair the document is in.

    Parameters
    ----------
    n_rounds
        Number of weak rankers, or the most there may be with ``early_stopping``.
    early_stopping
        Stop when the measure on the validation data has not improved for so many rounds, and keep the rounds up to
        the best value. None goes on to the end. Needs ``valid``.
    measure
        What is looked at on the validation data: any measure; rmse is to fall, the others are to rise.
    warm_start
        Whether a further ``fit`` adds the rounds that lack to ``n_rounds``, on the same data.
    max_bins
        Thresholds come from so many bins per feature, at most 255.
    n_threads, progress, callbacks, checkpoint
        As for ``RandomForest``.

    Attributes
    ----------
    forest_
        One stump per round, with leaves 0, 1 and ½; its weight is the round's.
    history_
        The measure on the validation data after each round.
    best_iteration_
        How many rounds gave the best value; all of them without validation data.
    stopped_because_
        Why there are no more rounds.
    loss_bounds_
        After each round, a bound on the share of training pairs in the wrong order; it falls round by round.
    """

    seed = 0  # nothing is drawn

    def __init__(
        self,
        n_rounds: int = 300,
        early_stopping: int | None = None,
        measure: str = "ndcg@10",
        warm_start: bool = False,
        max_bins: int = 255,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.early_stopping = early_stopping
        self.measure = measure
        self.warm_start = warm_start
        self.max_bins = max_bins
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

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
        threads = resolve_threads(self.n_threads)
        return BoostingPlan(train.matrix, Policies(), None, self.n_rounds, 1.0, self.seed, threads)

    def _boost(
        self,
        loss: Any,
        plan: BoostingPlan,
        state: BoostingState,
        checkpoint: Checkpoint,
        watch: ProgressReporter,
    ) -> None:
        rankers = ThresholdRankers.of(plan.matrix, loss.lists)
        self.stopped_because_ = rankboost(loss, rankers, state, plan.n_trees, checkpoint, watch)
        if checkpoint.is_kept:
            state.save(checkpoint)


# Weak rankers of one feature and one threshold, and the search for the best of them.
#
# A weak ranker says 1 of a document with ``x > threshold``, 0 of one with ``x <= threshold``, and ½, which is neither
# above nor below, where the value is missing.


_UNIT = (
    2.0**60
)  # potentials are whole numbers of 1/unit, and sum to 2 at most: sums are exact, whatever their order
_SLACK = int(
    2 * _UNIT * 1e-12
)  # of 2 r: nearer ones differ by rounding, which must not choose among equals
_LEAST_ROWS = 50_000  # per thread: fewer find their side faster than a thread starts
_LEAST_FEATURES = 4  # the histograms' kernel takes four columns per pass
LARGEST_EDGE = 1.0 - 1e-6  # of |r|: no weight is larger than ½ ln(2·10⁶) = 7.3
LEAST_EDGE = 1e-8  # of |r|: below, √(1 - r²) is 1 in float64 and a round changes nothing
ABSTAINED = 0.5


@dataclass(frozen=True)
class WeakRanker:
    """The ranker [x_feature > threshold after ``code``] and what it is worth."""

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
        """Those over the rows of the lists."""
        is_paired = np.zeros(matrix.source_of_row.size, np.bool_)
        is_paired[lists.rows] = True
        rows = np.flatnonzero(is_paired[matrix.source_of_row]).astype(np.uint32)
        return cls(matrix, rows, lists.by_row(lists.weights), lists.n_threads)

    def best(self, potentials: Floats) -> WeakRanker:
        """The weak ranker of greatest ``|r| = |Σ potential · h|``; of equal ones that of the first feature and cut."""
        sources = self.matrix.source_of_row[self.rows]
        words = np.rint(potentials[sources] * _UNIT).astype(np.int64)
        n_features = self.matrix.columns.shape[0]
        edges, codes = np.empty(n_features, np.int64), np.empty(n_features, np.int64)
        run_blocks(
            search_features,
            n_features,
            self.matrix,
            self.rows,
            words,
            np.arange(n_features),
            np.empty((n_features, 256), np.int64),
            _SLACK,
            edges,
            codes,
            n_threads=self.n_threads,
            least=_LEAST_FEATURES,
        )
        sizes = np.abs(edges)
        feature = int(np.argmax(sizes >= sizes.max() - _SLACK))  # the first of them
        return WeakRanker(feature, int(codes[feature]), float(edges[feature]) / (2.0 * _UNIT))

    def stump(self, ranker: WeakRanker) -> Tree:
        """The weak ranker as a tree with three leaves: below, above, missing."""
        feature, code = np.full(4, -1, np.int32), np.zeros(4, np.uint8)
        feature[0], code[0] = ranker.feature, ranker.code
        threshold = np.zeros(4, np.float32)
        first = self.matrix.offsets[ranker.feature]
        threshold[0] = self.matrix.thresholds[first + ranker.code]
        left, right, missing = (np.array([child, 0, 0, 0], np.int32) for child in (1, 2, 3))
        leaf_of_row = self._leaves(feature, code, left, right, missing)
        cover: Floats = np.bincount(leaf_of_row, self.weights, minlength=4).astype(np.float64)
        value = np.array([0.0, 0.0, 1.0, ABSTAINED])
        cover[0] = cover.sum()
        value[0] = (cover[1:] * value[1:]).sum() / cover[0]
        gain = np.array([math.log(math.cosh(ranker.alpha)), 0.0, 0.0, 0.0])
        return Tree(feature, threshold, code, left, right, missing, value, cover, gain, leaf_of_row)

    def _leaves(self, *nodes: Array) -> Array:
        """The leaf of every training row."""
        from rankwood.trees.leaves import route

        leaf_of_row = np.full(self.matrix.columns.shape[1], -1, np.int32)
        run_blocks(
            route,
            leaf_of_row.size,
            self.matrix.columns,
            *nodes,
            leaf_of_row,
            n_threads=self.n_threads,
            least=_LEAST_ROWS,
        )
        leaf_of_source = np.empty_like(leaf_of_row)
        leaf_of_source[self.matrix.source_of_row] = leaf_of_row
        return leaf_of_source


@kernel
def search_features(
    first: int,
    last: int,
    matrix: Any,
    rows: Array,
    words: Array,
    features: Array,
    histograms: Array,
    slack: int,
    edges: Array,
    codes: Array,
) -> None:
    """The greatest |r| of the features ``first`` to ``last``, and the cut it belongs to."""
    build_histograms(  # type: ignore[no-untyped-call]
        first, last, matrix, rows, words, 0, rows.size, features, histograms
    )
    for feature in range(first, last):
        edges[feature], codes[feature] = best_cut(
            histograms[feature], matrix.n_bins[feature], slack
        )


@kernel
def best_cut(sums: Array, n_bins: int, slack: int) -> Any:
    """Twice the r of greatest size, and the last code below the cut; of those within ``slack`` the lowest cut's.

    Values above the cut count twice, missing ones once, the others not at all: halves stay whole numbers.
    """
    edge = np.int64(0)
    code = np.int64(NO_SPLIT)
    most = np.int64(0)
    above = np.int64(0)
    for place in range(n_bins - 1, 0, -1):
        above += sums[place]
        found = 2 * above + sums[MISSING]
        if found != 0 and abs(found) >= most - slack:
            edge = found
            code = np.int64(place - 1)
            most = max(most, abs(found))
    return edge, code
