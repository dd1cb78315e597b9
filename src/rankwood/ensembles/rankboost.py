"""``RankBoost``: boosting of single-feature rankers on pairs (Freund, Iyer, Schapire & Singer 2003)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood._threads import resolve_threads
from rankwood.dtypes import Floats
from rankwood.ensembles.boosted import InRounds
from rankwood.ensembles.boosting import BoostingPlan, BoostingState
from rankwood.ensembles.checkpointing import Checkpoint
from rankwood.ensembles.early_stopping import ALL_ROUNDS, ASKED_TO, NO_BETTER
from rankwood.ensembles.inputs import TrainingSet
from rankwood.ensembles.progress import Callback, Watch
from rankwood.ensembles.weak_rankers import WeakRankers
from rankwood.losses.graded import graded_lists
from rankwood.losses.pairs import PairLoss
from rankwood.trees.policies import Policies

NOTHING_LEFT = "no weak ranker orders the weighted pairs better than chance"


def rankboost(
    loss: PairLoss,
    rankers: WeakRankers,
    state: BoostingState,
    n_rounds: int,
    checkpoint: Checkpoint,
    watch: Watch,
) -> str:
    """Add weak rankers to ``state``, each on the pairs that those before got wrong; gives why it stopped."""
    for _ in range(len(state.trees), n_rounds):
        if state.stopping.is_over():
            return NO_BETTER
        potentials, _ = loss.targets(state.scores)  # of D(i, j) ∝ exp(F_j - F_i), i better than j
        ranker = rankers.best(potentials)  # h of greatest |r|, r = Σ D(i, j) (h_i - h_j)
        if ranker.is_worthless:
            return NOTHING_LEFT
        measure = state.add(rankers.stump(ranker), rankers.n_threads, ranker.alpha)  # F ← F + α h
        if checkpoint.is_due():
            state.save(checkpoint)
        if watch.says_stop(len(state.trees), measure):
            return ASKED_TO
    return ALL_ROUNDS


class RankBoost(InRounds):
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
        watch: Watch,
    ) -> None:
        rankers = WeakRankers.of(plan.matrix, loss.lists)
        self.stopped_because_ = rankboost(loss, rankers, state, plan.n_trees, checkpoint, watch)
        if checkpoint.is_kept:
            state.save(checkpoint)
