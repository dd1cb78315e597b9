"""``Loss``, the losses of single rows, and what a weak learner fits in a round of boosting.

A loss is made for one training set and gives, at any scores, its value and its gradient and hessian by the score of
each row. The losses of single rows are squared, exponential, and a function of the user's own.

Signs: losses are minimised. A document whose score should rise has a negative gradient.

What a weak learner fits follows from the loss and the scores so far, but is another thing: a target and a weight for
each row (``weak_learner_targets``). A leaf predicts ``Σ weight · target / (Σ weight + l2)``:

=================== ===================================== ========================= =================
loss                target of a row                       weight of a row           a leaf is then
=================== ===================================== ========================= =================
``SquaredLoss``     the residual ``label - score``        the row's weight          the mean residual
``ExponentialLoss`` the class, 1 or -1                    ``D ∝ weight · exp(-yF)`` a vote
``NDCGBoostLoss``   1 if the document should rise, else 0 size of the gradient      a vote
any other           ``-gradient / hessian``               the hessian               Newton's step
=================== ===================================== ========================= =================

A new loss that is lowered by Newton's step needs no entry here. RankBoost grows no trees: its rankers are chosen by
``PairLoss.potentials``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rankwood._core import checks
from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.sums import exact_mean, exact_sum
from rankwood._core.threads import run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.errors import ParameterError
from rankwood.losses.pairs import NDCGBoostLoss

LARGEST_EDGE = 1.0 - 1e-6  # no weight is larger than ½ ln(2·10⁶) = 7.3
LEAST_EDGE = 1e-8  # below, √(1 - r²) is 1 in float64 and a round changes nothing

# A function of (scores, data) that gives the gradient and the hessian of a loss to be minimised, row by row.
Gradients = Callable[[Floats, RankingData], tuple[Any, Any]]
Targets = tuple[Floats, Floats | None]  # target and weight of each row; None where all weigh alike

_LEAST_ROWS = 150_000  # per thread: fewer are divided faster than a thread is woken
_LEAST_HESSIAN = 1e-100  # below, the quotient may be no number; such a row has target and weight 0


class HasGradients(Protocol):
    """What boosting needs of a loss."""

    def start(self) -> float:
        """The score of every row before the first tree."""
        ...

    def gradients(self, scores: Floats) -> tuple[Floats, Floats | None]:
        """Gradient and hessian (the diagonal of second derivatives) of each row.

        The hessian is None for a loss that is never lowered by Newton's step.
        """
        ...


class Loss(HasGradients, Protocol):
    """A loss over the rows of one training set, with its value."""

    def value(self, scores: Floats) -> float:
        """What ``gradients`` are the derivatives of."""
        ...


@dataclass(frozen=True, eq=False)
class SquaredLoss:
    """``½ Σ weight · (label - score)²`` (Friedman 2001, Algorithm 2)."""

    labels: Floats
    weights: Floats | None = None
    starts_at_mean: bool = True

    def start(self) -> float:
        """The weighted mean label, the constant with the least loss; or 0."""
        if not self.starts_at_mean:
            return 0.0
        if self.weights is None:
            return exact_mean(self.labels)
        # Scaled by the greatest weight, so that sums of extreme weights stay finite.
        return exact_mean(self.labels, self.weights / self.weights.max())

    def gradients(self, scores: Floats) -> tuple[Floats, Floats]:
        """``weight · (score - label)``, and the weight."""
        weights = np.ones(scores.size) if self.weights is None else self.weights
        return weights * (scores - self.labels), weights

    def value(self, scores: Floats) -> float:
        """Half the weighted sum of squared errors."""
        errors = (self.labels - scores) ** 2
        return float(0.5 * (errors if self.weights is None else self.weights * errors).sum())


@dataclass(frozen=True, eq=False)
class ExponentialLoss:
    """The weighted mean of ``exp(-class · score)`` over rows of class 1 and -1.

    AdaBoost lowers it (Freund & Schapire 1997; Friedman, Hastie & Tibshirani 2000).
    """

    classes: Floats
    weights: Floats | None = None

    def start(self) -> float:
        """Zero for every row: neither class is favoured."""
        return 0.0

    def gradients(self, scores: Floats) -> tuple[Floats, Floats]:
        """``-class · share · exp(-class · score)``, and the same without ``-class``; shares of the weight sum to 1."""
        weights = np.ones(scores.size) if self.weights is None else self.weights
        hessian = weights / exact_sum(weights) * np.exp(-self.classes * scores)
        return -self.classes * hessian, hessian

    def value(self, scores: Floats) -> float:
        """The mean of ``exp(-class · score)``, no less than the share of rows on the wrong side of 0."""
        return float(np.average(np.exp(-self.classes * scores), weights=self.weights))


def step_of_edge(edge: float) -> float:
    """The weight ``½ ln((1 + r) / (1 - r))`` of votes h with edge ``r = Σ D · class · h``.

    For votes 1 and -1 of error ε this is ``½ ln((1 - ε) / ε)``. It is 0 for votes that are no better than chance.
    """
    return math.atanh(min(edge, LARGEST_EDGE)) if edge > LEAST_EDGE else 0.0


@dataclass(frozen=True, eq=False)
class OwnLoss:
    """A loss whose gradient and hessian a user's function gives; weights of rows multiply both.

    It has no value: the function gives none.
    """

    function: Gradients
    data: RankingData
    weights: Floats | None = None

    def start(self) -> float:
        """Zero for every row."""
        return 0.0

    def gradients(self, scores: Floats) -> tuple[Floats, Floats]:
        """What the function gives, checked and weighed."""
        answer = self.function(checks.read_only(scores), self.data)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ParameterError(
                "loss must give two arrays, the gradient and the hessian of each row; "
                f"got {type(answer).__name__}."
            )
        gradient, hessian = (
            checks.vector(f"the loss's {name}", values, self.data.n_documents)
            for name, values in zip(("gradient", "hessian"), answer, strict=True)
        )
        _refuse_hessian(gradient, hessian)
        if self.weights is None:
            return gradient, hessian
        return gradient * self.weights, hessian * self.weights


def _refuse_hessian(gradient: Floats, hessian: Floats) -> None:
    """Raise where Newton's step is undefined: a negative hessian, or none where there is a gradient."""
    is_wrong = (hessian < 0.0) | ((hessian == 0.0) & (gradient != 0.0))
    if (row := checks.first_true(is_wrong)) is not None:
        raise ParameterError(
            f"the loss's hessian[{row}] is {float(hessian[row]):g} where the gradient is "
            f"{float(gradient[row]):g}. It must be positive wherever the gradient is not 0; "
            "a loss without one can give ones, which makes leaves mean gradients."
        )


@functools.singledispatch
def weak_learner_targets(loss: Any, scores: Floats, *ranking: Any) -> Targets:
    """What the next weak learner fits at ``scores``; Newton's targets for a loss without a rule of its own.

    ``ranking`` may be passed on to a loss that takes a ranking of the scores, if one is known already.
    """
    gradient, hessian = loss.gradients(scores, *ranking)
    return newton_targets(gradient, hessian, getattr(loss, "n_threads", 1))


@weak_learner_targets.register
def residuals(loss: SquaredLoss, scores: Floats) -> Targets:
    """What the scores leave of the labels; the mean of them is the best leaf."""
    return loss.labels - scores, loss.weights


@weak_learner_targets.register
def weighted_classes(loss: ExponentialLoss, scores: Floats) -> tuple[Floats, Floats]:
    """The class of each row, and AdaBoost's distribution D over the rows, which sums to 1."""
    exponents = -loss.classes * scores
    weights = np.exp(exponents - exponents.max())  # shifted, so that long sums stay finite
    if loss.weights is not None:
        weights *= loss.weights
    return loss.classes, weights / exact_sum(weights)


@weak_learner_targets.register
def rising_documents(loss: NDCGBoostLoss, scores: Floats) -> tuple[Floats, Floats]:
    """1 for a document that should rise and 0 for one that should fall, and how much that weighs."""
    weights = loss.document_weights(scores)
    return (weights > 0).astype(np.float64), np.abs(weights)


def newton_targets(
    gradient: Floats, hessian: Floats, n_threads: int | None = None
) -> tuple[Floats, Floats]:
    """``-gradient / hessian`` with weight ``hessian``: a leaf is then Newton's step ``-Σ gradient / (Σ hessian + l2)``.

    A row without hessian, such as a document that is in no pair, has target 0 and weight 0.
    """
    given = [read_only(np.ascontiguousarray(part, np.float64)) for part in (gradient, hessian)]
    target, weight = np.empty(len(gradient)), np.empty(len(gradient))
    rows = (*given, target, weight)
    run_blocks(newton_steps, target.size, *rows, n_threads=n_threads, least=_LEAST_ROWS)
    return target, weight


@kernel
def newton_steps(
    first: int, last: int, gradient: Array, hessian: Array, target: Array, weight: Array
) -> None:
    """Target and weight of each row."""
    for row in range(first, last):
        has_hessian = hessian[row] >= _LEAST_HESSIAN
        step = gradient[row] / hessian[row] if has_hessian else 0.0
        target[row] = -step
        weight[row] = hessian[row] if has_hessian else 0.0
