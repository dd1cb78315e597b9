"""``Loss``, and the losses of single rows: squared, exponential, and a function of the user's own.

A loss is made for one training set and gives, at any scores, its value and its gradient and hessian by the score of
each row. What a weak learner fits follows from these, but is another thing: see ``rankwood.losses.targets``.

Signs: losses are minimised. A document whose score should rise has a negative gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import ParameterError

LARGEST_EDGE = 1.0 - 1e-6  # no weight is larger than ½ ln(2·10⁶) = 7.3
LEAST_EDGE = 1e-8  # below, √(1 - r²) is 1 in float64 and a round changes nothing

# A function of (scores, data) that gives the gradient and the hessian of a loss to be minimised, row by row.
Gradients = Callable[[Floats, RankingData], tuple[Any, Any]]


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
            return float(self.labels.mean())
        # Scaled by the greatest weight, so that sums of extreme weights stay finite.
        return float(np.average(self.labels, weights=self.weights / self.weights.max()))

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
        hessian = weights / weights.sum() * np.exp(-self.classes * scores)
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
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise ParameterError(
            f"the loss's hessian[{row}] is {float(hessian[row]):g} where the gradient is "
            f"{float(gradient[row]):g}. It must be positive wherever the gradient is not 0; "
            "a loss without one can give ones, which makes leaves mean gradients."
        )
