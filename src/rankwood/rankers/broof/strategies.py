"""The five extension points of BROOF, as functions and small objects.

A round of the loop (``broof.broof``) asks, in this order:

1. ``initialize_weights``  what each row weighs at first; once, before the first round
2. ``update_examples``     what the round's forest fits
3. ``validation_set``      whose predictions of the training rows errors are taken from
4. ``learner_weights``     how wrong each row is, how wrong the forest is, what it weighs
5. ``update_weights``      what each row weighs in the next round

Terms
    prediction   of a training row by one forest; NaN where the forest may not predict it
    score        the combined prediction of a training row by all forests so far
    error        of a row: 0 is right, and 1 is the greatest error of the round, by which errors are divided
    ε            the weighted mean error of a round;  β  what follows from it: a forest weighs ln(1/β)
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rankwood._core.random import stream
from rankwood._core.sums import exact_sum
from rankwood.data.dataset import HasJudgments, RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import ParameterError
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import HasGradients, SquaredLoss, Targets, weak_learner_targets
from rankwood.losses.placement import height_errors, median_errors
from rankwood.rankers.broof.state import RoundForest

# β is kept this far from 0 and 1, so that a forest without error gets a finite weight and one that guesses gets a
# positive weight.
LEAST_BETA = 1e-6
WORST_ERROR = 0.5  # a forest that is more wrong than this is discarded: ln(1/β) would be negative

Errors = Callable[[Floats], Floats]  # from predictions; NaN where these are NaN
Predictions = Callable[[RoundForest], Floats]
_DATA_NAMES = ("data", "dataset", "train", "training_data", "ranking_data")
_SCORE_NAMES = ("scores", "score", "predictions", "prediction", "predicted", "y_pred")


class LossKind(Protocol):
    """What a loss decides: what forests fit, how wrong they are, and how they are added up."""

    is_additive: bool  # Σ η·RF(x); else the mean of the forests, weighed by ln(1/β)

    def examples(self, scores: Floats) -> Targets:
        """What the next forest fits, and what each row weighs in its trees' splits and leaves (None: all alike)."""
        ...

    def errors(self, targets: Floats, predictions: Floats) -> Floats:
        """How wrong the predictions are, row by row; NaN where they are."""
        ...

    def weight(self, error: float) -> float:
        """β of a forest with mean error ε."""
        ...


@dataclass(frozen=True, eq=False)
class Reweighting:
    """Every forest fits the labels; rows that the last one got wrong weigh more (absolute, median, height)."""

    labels: Floats
    errors_of: Errors
    learning_rate: float
    is_additive = False

    def examples(self, scores: Floats) -> Targets:  # noqa: ARG002 - of LossKind
        """The labels: ``identity``."""
        return self.labels, None

    def errors(self, targets: Floats, predictions: Floats) -> Floats:  # noqa: ARG002
        """What the loss says of the predictions."""
        return self.errors_of(predictions)

    def weight(self, error: float) -> float:
        """``η·ε / (1 - ε)``, away from 0 and 1."""
        beta = self.learning_rate * error / (1 - error) if error < 1 else 1.0
        return min(max(beta, LEAST_BETA), 1 - LEAST_BETA)


@dataclass(frozen=True, eq=False)
class Additive:
    """Every forest fits the targets of a loss at the scores so far (gradient, lambda)."""

    targets_of: Callable[[Floats], Targets]
    learning_rate: float
    is_additive = True

    def examples(self, scores: Floats) -> Targets:
        """The residuals, or a loss's Newton steps with their hessians."""
        return self.targets_of(scores)

    def errors(self, targets: Floats, predictions: Floats) -> Floats:
        """What the forest leaves of its targets."""
        errors: Floats = np.abs(targets - self.learning_rate * predictions)
        return errors

    def weight(self, error: float) -> float:  # noqa: ARG002 - of LossKind
        """The learning rate, whatever the error."""
        return self.learning_rate


# 1. initialize_weights


def uniform(data: RankingData, seed: int) -> Floats:  # noqa: ARG001 - as dirichlet
    """All rows alike."""
    return np.ones(data.n_documents)


def dirichlet(data: RankingData, seed: int) -> Floats:
    """A draw from Dirichlet(1, …, 1), uniform over all weights that sum to 1: exponentials over their sum."""
    drawn = stream(seed, "dirichlet").standard_exponential(data.n_documents)
    weights: Floats = drawn / exact_sum(drawn)
    return weights


INITIAL_WEIGHTS = {"uniform": uniform, "dirichlet": dirichlet}


def initialize_weights(
    choice: Any, data: RankingData, sample_weights: Floats | None, seed: int
) -> Floats:
    """What each row weighs at first: the choice, times what the caller says it weighs; the sum is 1."""
    if isinstance(choice, str):
        weights = INITIAL_WEIGHTS[choice](data, seed)
    else:
        weights = checked_weights("initial_weights", choice(data), data.n_documents)
    if sample_weights is not None:
        weights = weights * (sample_weights / sample_weights.max())  # which may be extreme
    scaled: Floats = weights / exact_sum(weights)
    return scaled


# 2. update_examples


@dataclass(frozen=True)
class PairSettings:
    """Which pairs of documents lambda looks at, and what they weigh; as the parameters of ``LambdaMART``."""

    target: Any = "ndcg"
    truncation: int | None = 30
    normalise: bool = True
    sigma: float = 1.0


@dataclass(frozen=True)
class KindSettings:
    """What a loss needs besides the data."""

    learning_rate: float
    region: str
    pairs: PairSettings
    present: Array | None  # the rows that have a weight; None where all have
    n_threads: int


@dataclass(frozen=True)
class LossChoice:
    """A loss that users choose by name: how it is made, and what it needs to know beforehand."""

    make: Callable[
        [RankingData, KindSettings], Any
    ]  # a loss, or a function of predictions that gives errors
    is_additive: bool = False
    compares_documents: bool = False  # of a query, so that data need query ids


def absolute_errors(predictions: Floats, data: HasJudgments) -> Floats:
    """How far each prediction is from the label."""
    errors: Floats = np.abs(data.judgments.labels - predictions)
    return errors


def _absolute(data: RankingData, settings: KindSettings) -> Errors:  # noqa: ARG001 - as the others
    return functools.partial(absolute_errors, data=data)


def _median(data: RankingData, settings: KindSettings) -> Errors:
    options = {"region": settings.region, "n_threads": settings.n_threads}
    return functools.partial(median_errors, data=data, **options)  # type: ignore[arg-type]


def _height(data: RankingData, settings: KindSettings) -> Errors:
    return functools.partial(height_errors, data=data, n_threads=settings.n_threads)


def _gradient(data: RankingData, settings: KindSettings) -> HasGradients:  # noqa: ARG001
    return SquaredLoss(data.labels, starts_at_mean=False)


@dataclass(frozen=True, eq=False)
class BoundedSteps:
    """A loss of pairs whose Newton steps are at most 1 / sigma: a row's hessian is at least sigma times its gradient.

    For a pair in the wrong order, gradient over hessian is 1 + e^(sigma · gap) over sigma. Out of bag such a pair may
    stay wrong whatever forests learn, so that the gap would grow, and the steps with it, round by round.
    """

    loss: LambdaRank
    sigma: float

    def gradients(self, scores: Floats) -> tuple[Floats, Floats]:
        """Gradient and hessian of each row."""
        gradient, hessian = self.loss.gradients(scores)
        return gradient, np.maximum(hessian, self.sigma * np.abs(gradient))


def _lambda(data: RankingData, settings: KindSettings) -> BoundedSteps:
    """LambdaRank's gradients of the target; rows that are no part of the data are in no pair."""
    present, pairs = settings.present, settings.pairs
    weights = None if present is None else present.astype(np.float64)
    loss = LambdaRank(
        data,
        pairs.target,
        weights,
        float(pairs.sigma),
        pairs.truncation,
        pairs.normalise,
        settings.n_threads,
    )
    return BoundedSteps(loss, float(pairs.sigma))


LOSSES = {
    "absolute": LossChoice(_absolute),
    "median": LossChoice(_median, compares_documents=True),
    "height": LossChoice(_height, compares_documents=True),
    "gradient": LossChoice(_gradient, is_additive=True),
    "lambda": LossChoice(_lambda, is_additive=True, compares_documents=True),
}


def is_additive(loss: Any) -> bool:
    """Whether forests are added up: by name, or an object of the user's own that has ``targets``."""
    return LOSSES[loss].is_additive if isinstance(loss, str) else hasattr(loss, "targets")


def kind_of(loss: Any, data: RankingData, settings: KindSettings) -> LossKind:
    """The kind that ``loss`` names, or that a function or object of the user's makes."""
    rate = settings.learning_rate
    if isinstance(loss, str):
        made = LOSSES[loss].make(data, settings)
        if LOSSES[loss].is_additive:
            return Additive(functools.partial(weak_learner_targets, made), rate)
        return Reweighting(data.labels, made, rate)
    if is_additive(loss):
        return Additive(checked_targets(loss, data), rate)
    return Reweighting(data.labels, checked_errors(loss, data), rate)


# 3. validation_set


def held_out(forest: RoundForest) -> Floats:
    """Each row as the trees see it that have not seen it: out of their bag, or out of their query fold."""
    return forest.held_out


def training(forest: RoundForest) -> Floats:
    """Each row as all trees see it."""
    return forest.training


VALIDATIONS: dict[str, Predictions] = {
    "oob": held_out,
    "train": training,
    "query-folds": held_out,
}


# 4. learner_weights


def mean_error(errors: Floats, weights: Floats) -> float:
    """ε: the mean error, by weight, of the rows that have one; NaN where none has."""
    is_known = ~np.isnan(errors)
    if not is_known.all():
        errors, weights = errors[is_known], weights[is_known]
    total = exact_sum(weights)
    return exact_sum(errors, weights) / total if total > 0 else math.nan


def over_greatest(errors: Floats) -> Floats:
    """Errors divided by the greatest of them, as AdaBoost.R2 does (Drucker 1997); all 0 stay 0."""
    greatest = float(np.fmax.reduce(errors, initial=0.0))
    return errors / greatest if greatest > 0 else errors


NORMALIZATIONS: dict[str | None, Callable[[Floats], Floats]] = {
    "max": over_greatest,
    None: lambda errors: errors,
}


# 5. update_weights


def reweight(weights: Floats, errors: Floats, beta: float) -> Floats:
    """``w·β^(1 - e)``, then scaled so that the rows with an error weigh together what they did before.

    Rows without an error keep their weight to the bit, and Σ w stays 1.
    """
    is_known = ~np.isnan(errors)
    powers = (1 - errors[is_known]) * math.log(beta)
    if powers.size == 0:
        return weights
    before = weights[is_known]
    after = before * np.exp(powers - powers.max())  # from the greatest, so that none is infinite
    changed = weights.copy()
    total = exact_sum(after)
    if total > 0:
        changed[is_known] = after * (exact_sum(before) / total)
    return changed


def constant(weights: Floats, errors: Floats, beta: float) -> Floats:  # noqa: ARG001 - as reweight
    """The weights as they are."""
    return weights


# By name: the predictions whose errors change the weights, and the rule of the change.
UPDATES: dict[str, tuple[Predictions, Callable[[Floats, Floats, float], Floats]]] = {
    "oob": (held_out, reweight),
    "train": (training, reweight),
    "constant": (held_out, constant),
}


@dataclass(frozen=True, eq=False)
class Strategy:
    """A choice for each extension point; the first is made before the loop begins."""

    kind: LossKind
    validation_set: Predictions
    normalize: Callable[[Floats], Floats]
    update_set: Predictions
    update: Callable[[Floats, Floats, float], Floats]

    def update_examples(self, scores: Floats) -> Targets:
        """What the next forest fits, and what rows weigh in its trees."""
        return self.kind.examples(scores)

    def learner_weights(
        self, targets: Floats, predictions: Floats, weights: Floats
    ) -> tuple[Floats, float, float]:
        """The rows' errors, their mean ε, and β."""
        errors = self.normalize(self.kind.errors(targets, predictions))
        error = mean_error(errors, weights)
        return errors, error, self.kind.weight(error)

    def is_too_wrong(self, error: float) -> bool:
        """Whether a forest of mean error ε is discarded; one whose error is unknown is."""
        return not self.kind.is_additive and not error < WORST_ERROR

    def update_weights(
        self,
        weights: Floats,
        targets: Floats,
        forest: RoundForest,
        errors: Floats,
        beta: float,
    ) -> Floats:
        """The weights of the next round, from the errors and β of this one."""
        if self.update is not constant and self.update_set is not self.validation_set:
            errors = self.normalize(self.kind.errors(targets, self.update_set(forest)))
        return self.update(weights, errors, beta)


# Extension points of the user's own; their results are checked before they are used.


def scores_first(function: Callable[..., Any], shown: str) -> Callable[[Floats, RankingData], Any]:
    """A user's function, called as ``function(scores, data)``.

    Up to version 0.1 the order was ``(data, scores)``. A function whose parameters have the names of that order is
    still called so, with a warning. Where names do not tell, the first call decides: one that fails with a
    ``TypeError`` or ``AttributeError`` in the new order and succeeds in the old one is taken for old.
    """
    is_old = _takes_data_first(function)
    if is_old:
        _warn_of_old_order(shown)

    def call(scores: Floats, data: RankingData) -> Any:
        nonlocal is_old
        if is_old is None:
            try:
                answer = function(scores, data)
            except (TypeError, AttributeError) as error:
                try:
                    answer = function(data, scores)
                except Exception:  # the error in the order asked for is the one to see
                    raise error from None
                _warn_of_old_order(shown)
                is_old = True
                return answer
            is_old = False
            return answer
        return function(data, scores) if is_old else function(scores, data)

    return call


def _takes_data_first(function: Callable[..., Any]) -> bool | None:
    """Whether the first of two parameters is the data, by their names; None where these do not tell."""
    try:
        names = [name.lower().strip("_") for name in inspect.signature(function).parameters]
    except (TypeError, ValueError):  # such as of a built-in function
        return None
    first, second = (*names, "", "")[:2]
    if first in _DATA_NAMES or second in _SCORE_NAMES:
        return True
    return False if second in _DATA_NAMES or first in _SCORE_NAMES else None


def _warn_of_old_order(shown: str) -> None:
    warnings.warn(
        f"{shown} takes (data, scores); from the next version on it will be called with (scores, data), as the loss of "
        "LambdaMART is. Swap the two parameters.",
        FutureWarning,
        stacklevel=2,
    )


def checked_targets(loss: Any, data: RankingData) -> Callable[[Floats], Targets]:
    """``loss.targets(scores, data)`` of a user's object: targets, or targets and weights."""
    function = scores_first(loss.targets, f"targets of {type(loss).__name__}")
    n_rows = data.n_documents

    def targets(scores: Floats) -> Targets:
        answer = function(scores, data)
        values, weights = answer if isinstance(answer, tuple) else (answer, None)
        values = _numbers("the targets of loss", values, n_rows)
        if weights is not None:
            weights = checked_weights("the weights of loss", weights, n_rows)
        return values, weights

    return targets


def checked_errors(loss: Callable[..., Any], data: RankingData) -> Errors:
    """A user's function ``errors(predictions, data)``."""
    own_name = getattr(loss, "__name__", "loss")
    name = f"the errors of {own_name}"
    function = scores_first(loss, own_name)

    def errors(predictions: Floats) -> Floats:
        is_unknown = np.isnan(predictions)
        values = _numbers(name, function(predictions, data), data.n_documents, is_unknown)
        if (values < 0).any():
            raise ParameterError(f"{name} must not be negative.")
        return np.where(is_unknown, np.nan, values)

    return errors


def checked_update(
    function: Callable[..., Any],
) -> Callable[[Floats, Floats, float], Floats]:
    """A user's function ``weights(weights, errors, beta)``; its answers are scaled to a sum of 1."""

    def update(weights: Floats, errors: Floats, beta: float) -> Floats:
        updated = checked_weights("update_weights", function(weights, errors, beta), weights.size)
        scaled: Floats = updated / exact_sum(updated)
        return scaled

    return update


def checked_predictions(function: Callable[..., Any]) -> Callable[[Any], Floats]:
    """A user's function ``predictions(forest)``; NaN where a row has none."""

    def predictions(forest: Any) -> Floats:
        n_rows = forest.held_out.size
        return _numbers("validation", function(forest), n_rows, np.ones(n_rows, bool))

    return predictions


def checked_weights(name: str, values: Any, n_rows: int) -> Floats:
    """One weight per row, none negative, not all 0."""
    weights = _numbers(name, values, n_rows)
    if weights.min() < 0 or not weights.any():
        raise ParameterError(f"{name} must not be negative, and not all 0.")
    return weights


def _numbers(name: str, values: Any, n_rows: int, may_be_nan: Array | None = None) -> Floats:
    """One number per row, or an error that says what was given instead."""
    try:
        numbers = np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be numbers, got {type(values).__name__}.") from None
    if numbers.shape != (n_rows,):
        shape = " × ".join(f"{length:,}" for length in numbers.shape) or "one"
        raise ParameterError(f"{name} must be one number for each of {n_rows:,} rows, got {shape}.")
    is_missing = np.zeros(n_rows, bool) if may_be_nan is None else np.isnan(numbers) & may_be_nan
    if not (np.isfinite(numbers) | is_missing).all():
        raise ParameterError(f"{name} must be finite wherever there is a prediction.")
    return numbers
