"""``NDCGBoost``: boosting of 0/1 trees on the expected NDCG (Valizadegan, Jin, Zhang & Mao 2009)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood._threads import resolve_threads
from rankwood.dtypes import Floats
from rankwood.ensembles.boosted import Boosted
from rankwood.ensembles.boosting import BoostingPlan, BoostingState
from rankwood.ensembles.checkpointing import Checkpoint
from rankwood.ensembles.early_stopping import ALL_ROUNDS, ASKED_TO, NO_BETTER
from rankwood.ensembles.inputs import TrainingSet
from rankwood.ensembles.progress import Callback, Watch
from rankwood.errors import ParameterError
from rankwood.losses.graded import graded_lists
from rankwood.losses.ndcgboost import NDCGBoostLoss, ndcgboost_loss
from rankwood.measures.gains import Gain
from rankwood.measures.options import FORMS
from rankwood.trees.grower import Tree
from rankwood.trees.leaf_kernels import sum_inner_nodes

NOTHING_LEFT = "no tree tells documents that should rise from those that should fall"


def ndcgboost(
    loss: NDCGBoostLoss,
    plan: BoostingPlan,
    state: BoostingState,
    checkpoint: Checkpoint,
    watch: Watch,
) -> str:
    """Add 0/1 trees to ``state``, each lowering the surrogate of NDCG; gives why it stopped."""
    for number in range(len(state.trees), plan.n_trees):
        if state.stopping.is_over():
            return NO_BETTER
        classes, weights = loss.targets(state.scores)  # sign(w) as 0 or 1, and |w|
        tree, alpha = weigh(loss, state.scores, plan.grow(number, classes, weights))
        if alpha <= 0.0:
            return NOTHING_LEFT
        measure = state.add(tree, plan.n_threads, plan.learning_rate * alpha)  # F ← F + α f
        if checkpoint.is_due():
            state.save(checkpoint)
        if watch.says_stop(number + 1, measure):
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
        watch: Watch,
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
