"""``AveragedGBRT``: the mean of several runs of boosting that differ in their random features."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataWarning, ParameterError
from rankwood.models.forest import Forest
from rankwood.rankers.boosted import GBRT
from rankwood.rankers.parameters import Whole, parameter
from rankwood.training.bags import stream_number
from rankwood.training.boosting import BoostingPlan, BoostingState, Runs, boost_runs, totals_of_runs
from rankwood.training.checkpoint import Checkpoint
from rankwood.training.rounds import Rounds
from rankwood.trees.policies import FeatureChoice


class AveragedGBRT(GBRT):
    """The mean of several runs of boosting, each with random features of its own (Mohan 2010, section 2.3.3).

    Run r is a ``GBRT`` of ``n_trees`` trees with a seed that follows from ``seed`` and r. What makes the runs differ is
    ``features_per_node`` (or ``subsample``): where neither draws anything, the runs would be equal and are refused.
    The runs grow round by round, side by side on all cores, and the model is one forest: in each round the trees of
    all runs, with weight ``learning_rate / n_runs``. Progress and ``early_stopping`` count rounds: growing stops when
    the mean of all runs has not improved for so many, and every run keeps the rounds up to the best value. Where
    features cost, one is free for all runs after the round that uses it first.

    Attributes
    ----------
    history_
        The measure on the validation data after each round.
    best_iteration_
        How many rounds gave the best value; all of them without validation data.
    """

    _signature = (
        "n_trees n_runs max_leaves learning_rate min_leaf l2 max_depth min_gain features_per_node subsample "
        "subsample_by start early_stopping measure warm_start missing monotone feature_costs cost_weight cost_scale "
        "max_bins seed n_threads progress callbacks checkpoint"
    )

    n_runs: int = parameter(
        default=20,
        doc="Runs of boosting that are averaged; the source found 5 or more clearly better than fewer, and 20 best.",
        check=Whole(1),
        kw_only=True,
    )
    features_per_node: int | float | None = parameter(default=0.3, kw_only=True)

    def _boost(self, loss: Any, plan: BoostingPlan, state: BoostingState, rounds: Rounds) -> None:
        self._warn_of_equal_runs(state.trees.n_features)
        runs = Runs(loss, [self._plan_of_run(plan, run) for run in range(self.n_runs)], state)
        boost_runs(runs, resolve_threads(self.n_threads), rounds)

    def _plan_of_run(self, plan: BoostingPlan, run: int) -> BoostingPlan:
        """The plan of one run: a seed of its own, and one thread, since the runs grow in parallel."""
        seed = seed_of_run(self.seed, run)
        bags = None if plan.bags is None else dataclasses.replace(plan.bags, seed=seed)
        return dataclasses.replace(plan, seed=seed, bags=bags, n_threads=1)

    def _tree_weight(self, plan: BoostingPlan) -> float:
        return plan.learning_rate / self.n_runs

    def _totals(self, data: RankingData, earlier: Forest | None) -> Floats:
        return totals_of_runs(earlier, self.n_runs, float(self.learning_rate), data)

    def _earlier(
        self, data: RankingData, checkpoint: Checkpoint
    ) -> tuple[Forest | None, list[float]]:
        forest, history = super()._earlier(data, checkpoint)
        if forest is not None and (forest.tree_weights != self.learning_rate / self.n_runs).any():
            raise ParameterError(
                "warm_start goes on with the same n_runs and learning_rate; "
                "set warm_start=False to start afresh."
            )
        return forest, history

    def _trees_of(self, n_rounds: int) -> int:
        return n_rounds * self.n_runs

    def _rounds_of(self, n_trees: int) -> int:
        return n_trees // self.n_runs

    def _warn_of_equal_runs(self, n_features: int) -> None:
        sees_all = FeatureChoice(self.features_per_node).count(n_features) == n_features
        if self.n_runs > 1 and sees_all and self.subsample == 1.0:
            warnings.warn(
                f"with features_per_node={self.features_per_node!r} of {n_features} features every node "
                f"sees all of them: the {self.n_runs} runs are equal. Ask for fewer, or set subsample below 1.",
                DataWarning,
                stacklevel=3,
            )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        sees_all = self.features_per_node is None or self.features_per_node == 1.0
        is_share = not isinstance(self.features_per_node, int)
        if self.n_runs > 1 and sees_all and is_share and self.subsample == 1.0:
            raise ParameterError(
                f"with features_per_node={self.features_per_node!r} and subsample=1.0 nothing is random and all "
                f"{self.n_runs} runs are equal. Set features_per_node, to 0.3 say, or subsample, or use GBRT."
            )


def seed_of_run(seed: int, run: int) -> int:
    """The seed of one run; each is the model of a ``GBRT`` with it."""
    return stream_number(seed, "run", run)
