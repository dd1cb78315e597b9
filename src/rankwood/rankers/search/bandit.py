"""``Exp3P``: boosting whose features are drawn by a bandit (Busa-Fekete & Kégl 2010; Kocsis, György & Bán 2013).

Terms
    weight      ω of a feature, kept as its logarithm
    reward      the change of the measure on the training data that a round brought
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.random import stream
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import stream_number
from rankwood.errors import DataError
from rankwood.losses.loss import HasGradients
from rankwood.measures.compute import RepeatedMeasure, tie_averaged
from rankwood.measures.measure import is_minimised, parse_measure
from rankwood.models.forest import Forest
from rankwood.models.validate import ArrayRule
from rankwood.rankers.base import Ranker
from rankwood.rankers.boosted import RoundRanker
from rankwood.rankers.parameters import OrNone, Real, parameter
from rankwood.rankers.search.steps import (
    BASE_DOC,
    BaseBooster,
    BuiltOnBooster,
    Constraint,
    booster_of,
    check_base,
    check_tie_averaged,
)
from rankwood.training.boosting import BoostingPlan, BoostingState
from rankwood.training.inputs import TrainingSet
from rankwood.training.rounds import Checkpoint, Rounds
from rankwood.trees.grower import Tree

NOTHING_LEFT = "no hypothesis was found under a hundred constraints, or on any feature"
_MOST_DRAWS = 100  # of constraints, for one tree


@dataclass(eq=False)
class Bandit:
    """Probabilities of the features, learned from rewards."""

    log_weights: Floats  # of the features
    exploration: float  # λ
    smoothing: float  # η

    @property
    def probabilities(self) -> Floats:
        """``p_k = (1 - λ) · ω_k / Σ ω + λ / K``."""
        shares = np.exp(self.log_weights - self.log_weights.max())
        shares /= shares.sum()
        probabilities: Floats = (1.0 - self.exploration) * shares + self.exploration / shares.size
        return probabilities

    def learn(self, features: Array, reward: float) -> None:
        """``ω_k ← ω_k · exp(λ / 3K · (ρ_k + η / (p_k √K)))``; ρ is reward / p for the ``features`` drawn, else 0."""
        probabilities = self.probabilities
        count = probabilities.size
        gained = np.zeros(count)
        gained[features] = reward / probabilities[features]
        gained += self.smoothing / (probabilities * math.sqrt(count))
        self.log_weights += self.exploration / (3.0 * count) * gained
        self.log_weights -= self.log_weights.max()  # only their differences count


def exp3p(
    booster: BaseBooster,
    bandit: Bandit,
    state: BoostingState,
    draws: BanditDraws,
    rounds: Rounds,
) -> None:
    """Add hypotheses to ``state``, each under a constraint that the bandit has drawn."""
    before = draws.value(state)
    for number in rounds:
        weights = booster.weights(state.scores, number)
        hypothesis = draws.draw(booster, bandit, state.scores, weights)
        if hypothesis is None:
            rounds.stop(NOTHING_LEFT)
            break
        tree, factor = hypothesis
        measure = state.add(tree, factor)
        after = draws.value(state)
        bandit.learn(np.unique(tree.feature[tree.feature >= 0]), after - before)
        before = after
        rounds.finish(measure)


@dataclass(frozen=True, eq=False)
class BanditDraws:
    """Draws the hypothesis of each round, and measures the model for its reward."""

    seed: int
    measure: RepeatedMeasure
    sign: float  # -1 where less of the measure is better

    def value(self, state: BoostingState) -> float:
        """The measure on the training data, such that more is better; 0 where it is no number."""
        value = self.sign * self.measure.value(state.scores)
        return 0.0 if math.isnan(value) else value

    def draw(
        self, booster: BaseBooster, bandit: Bandit, scores: Floats, weights: Any
    ) -> tuple[Tree, float] | None:
        """A hypothesis under a drawn constraint; where it allows none, under the next one."""
        constraints = self._features if booster.grower.grows_stumps else self._numbers
        for constraint in constraints(weights.number, bandit.probabilities):
            hypothesis = booster.step(scores, weights, booster.fit(weights, constraint))
            if hypothesis is not None:
                return hypothesis
        return None

    def _features(self, number: int, probabilities: Floats) -> Iterator[Constraint]:
        """Features for a stump, drawn in proportion to their probabilities, each at most once."""
        random = stream(self.seed, "bandit", number * _MOST_DRAWS)
        left = probabilities.copy()
        for _ in range(left.size):
            sums = np.cumsum(left)
            if sums[-1] <= 0.0:  # what is left is never drawn
                return
            feature = int(np.searchsorted(sums, random.random() * sums[-1], side="right"))
            feature = min(feature, int(np.flatnonzero(left)[-1]))
            yield Constraint(feature)
            left[feature] = 0.0

    def _numbers(self, number: int, probabilities: Floats) -> Iterator[Constraint]:
        """Numbers for trees, whose nodes draw their features by the probabilities."""
        for attempt in range(_MOST_DRAWS):
            draw = number * _MOST_DRAWS + attempt
            yield Constraint(stream_number(self.seed, "bandit", draw), probabilities)


class Exp3P(BuiltOnBooster, RoundRanker):
    """Boosting on few features at a time, drawn by a bandit that learns which of them pay (Busa-Fekete & Kégl 2010).

    Every node of a tree looks at one feature, drawn by probabilities ``p_k = (1 - λ) · ω_k / Σ ω + λ / K``. After each
    round the features of the tree are rewarded with the change of the training measure, and all weights grow by
    ``exp(λ / 3K · (ρ_k + η / (p_k √K)))``, where ρ is reward / p for those features and 0 for the others.

    Attributes
    ----------
    probabilities_
        p of each feature after the last round.
    stopped_because_
        Why there are no more rounds.
    """

    _signature = (
        "base n_rounds exploration smoothing measure reward early_stopping seed n_threads progress "
        "callbacks checkpoint"
    )

    base: Ranker | None = parameter(default=None, doc=BASE_DOC.format("Exp3P"), check=check_base)
    n_rounds: int = parameter(
        default=1000, doc="Number of hypotheses, or the most there may be with ``early_stopping``."
    )
    exploration: float = parameter(
        default=0.3,
        doc="λ, the share of draws that go to all features alike.",
        check=Real("[0, 1]"),
    )
    smoothing: float = parameter(
        default=0.1, doc="η, what features that were not drawn gain.", check=Real("[0, inf)")
    )
    measure: str = parameter(
        default="ndcg@10",
        doc="""What is looked at on the validation data, and the reward unless ``reward`` says otherwise. rmse is to
        fall, the others are to rise.""",
        check=check_tie_averaged,
        kw_only=True,
    )
    reward: str | None = parameter(
        default=None,
        doc="""The measure whose change on the training data is the reward, as a mean over all orders of documents with
        equal scores; None is ``measure``.""",
        check=OrNone(check_tie_averaged),
        kw_only=True,
    )
    seed: int = parameter(default=0, kw_only=True)

    warm_start = False  # the model does not contain what the bandit has learned

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        measure = tie_averaged(parse_measure(self.reward or self.measure))
        if train.data.query_ids is None and measure.needs_queries:
            raise DataError(
                f"the training data have no query ids, which {measure.name} needs. "
                f"Pass qid, or {'measure' if self.reward is None else 'reward'}='rmse'."
            )
        self._booster = booster_of(self._base(), train, self.n_threads)
        sign = -1.0 if is_minimised(measure) else 1.0
        repeated = RepeatedMeasure.of(measure, train.data, self._booster.plan.n_threads)
        self._draws = BanditDraws(self.seed, repeated, sign)
        zeros = np.zeros(train.data.n_features)
        self._bandit = Bandit(zeros, float(self.exploration), float(self.smoothing))
        try:
            super()._fit(train, valid)
            self.probabilities_ = self._bandit.probabilities
        finally:
            del self._booster, self._draws, self._bandit  # as large as the data

    def _loss(self, train: TrainingSet) -> HasGradients:  # noqa: ARG002 - the booster has it
        loss: HasGradients = self._booster.loss
        return loss

    def _plan(self, train: TrainingSet) -> BoostingPlan:  # noqa: ARG002
        return self._booster.plan

    def _earlier(
        self,
        data: RankingData,
        checkpoint: Checkpoint,
    ) -> tuple[Forest | None, list[float] | None]:
        saved = checkpoint.load(
            lambda n_trees: {
                **self._rules(checkpoint, n_trees),
                "log_weights": ArrayRule(np.float64, (data.n_features,), most=0.0),
            }
        )
        if saved is None:
            return None, []
        self._bandit.log_weights[:] = saved.arrays["log_weights"]
        return saved.forest, saved.arrays["history"].tolist()

    def _boost(
        self,
        loss: Any,  # noqa: ARG002 - the booster has them
        plan: BoostingPlan,  # noqa: ARG002
        state: BoostingState,
        rounds: Rounds,
    ) -> None:
        exp3p(self._booster, self._bandit, state, self._draws, rounds)
        self.stopped_because_ = rounds.stopped_because

    def _save(self, state: BoostingState, checkpoint: Checkpoint) -> None:
        """Write the trees, the history and the weights of the bandit."""
        history = np.array(state.stopping.history)
        arrays = {"history": history, "log_weights": self._bandit.log_weights}
        checkpoint.write(state.trees.forest(), arrays)
