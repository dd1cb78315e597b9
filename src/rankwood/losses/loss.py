"""``Loss``: what a boosting method tells its trees.

The life of a loss, in the order the boosting loop calls it:

1. ``start()`` gives the constant that scores begin with.
2. ``targets(scores)`` gives what the next tree should fit, row by row, and with which weights. A leaf then predicts
   ``Σ weight · target / (Σ weight + l2)``: for squared loss the mean residual; for a second-order loss, with
   ``target = -gradient / hessian`` and ``weight = hessian``, the Newton step.
3. Scores move by the learning rate times what the tree predicts, and 2 is called again.
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


class Loss(Protocol):
    """A loss over the rows of one training set."""

    def start(self) -> float:
        """The score of every row before the first tree."""
        ...

    def targets(self, scores: Floats) -> tuple[Floats, Floats | None]:
        """What the next tree fits, and the weight of each row; None where all weigh alike."""
        ...


# Squared loss: trees fit what is left of the labels (Friedman 2001, Algorithm 2).


@dataclass(frozen=True, eq=False)
class SquaredLoss:
    """``½ Σ weight · (label - score)²``; the negative gradient is the residual."""

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

    def targets(self, scores: Floats) -> tuple[Floats, Floats | None]:
        """The residuals, weighed like the rows."""
        return self.labels - scores, self.weights


# The exponential loss that AdaBoost lowers (Freund & Schapire 1997; Friedman, Hastie & Tibshirani 2000).
#
# ``Σ weight · exp(-class · score)`` with classes 1 and -1. Each row weighs ``D ∝ weight · exp(-class · score)``; votes
# h
# of edge ``r = Σ D · class · h`` are added with weight ``½ ln((1 + r) / (1 - r))``, which is ``½ ln((1 - ε) / ε)`` for
# votes 1 and -1 of error ε.


LARGEST_EDGE = 1.0 - 1e-6  # no weight is larger than ½ ln(2·10⁶) = 7.3
LEAST_EDGE = 1e-8  # below, √(1 - r²) is 1 in float64 and a round changes nothing


@dataclass(frozen=True, eq=False)
class ExponentialLoss:
    """The loss over rows of class 1 and -1."""

    classes: Floats
    weights: Floats | None = None

    def start(self) -> float:
        """Zero: neither class."""
        return 0.0

    def targets(self, scores: Floats) -> tuple[Floats, Floats]:
        """The class of each row, and D, which sums to 1."""
        exponents = -self.classes * scores
        found = np.exp(exponents - exponents.max())  # shifted, so that long sums stay finite
        if self.weights is not None:
            found *= self.weights
        return self.classes, found / found.sum()

    def value(self, scores: Floats) -> float:
        """The mean of ``exp(-class · score)``, no less than the share of rows on the wrong side of 0."""
        return float(np.average(np.exp(-self.classes * scores), weights=self.weights))


def step_of_edge(edge: float) -> float:
    """``½ ln((1 + r) / (1 - r))``; 0 for votes that are no better than chance."""
    return math.atanh(min(edge, LARGEST_EDGE)) if edge > LEAST_EDGE else 0.0


# Losses given by gradient and hessian, as Newton's step takes them; among them a function of the user's own.


# A function of (scores, data) that gives the gradient and the hessian of a loss to be minimised, row by row.
Gradients = Callable[[Floats, RankingData], tuple[Any, Any]]

_LEAST_HESSIAN = 1e-100  # below, the quotient may be no number; such a row has no say


def newton_targets(gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
    """``-gradient / hessian`` with weight ``hessian``: a leaf is then Newton's step ``-Σ gradient / (Σ hessian + l2)``.

    A row without hessian, such as a document that is in no pair, has target 0 and weight 0.
    """
    has_say = hessian >= _LEAST_HESSIAN
    target = np.divide(gradient, hessian, out=np.zeros_like(gradient), where=has_say)
    np.negative(target, out=target)
    return target, hessian if has_say.all() else np.where(has_say, hessian, 0.0)


@dataclass(frozen=True, eq=False)
class OwnLoss:
    """A loss whose gradient and hessian a user's function gives; weights of rows multiply both."""

    function: Gradients
    data: RankingData
    weights: Floats | None = None

    def start(self) -> float:
        """Scores begin at 0."""
        return 0.0

    def gradients(self, scores: Floats) -> tuple[Floats, Floats]:
        """What the function gives, checked and weighed."""
        found = self.function(checks.read_only(scores), self.data)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ParameterError(
                "loss must give two arrays, the gradient and the hessian of each row; "
                f"got {type(found).__name__}."
            )
        gradient, hessian = (
            checks.vector(f"the loss's {name}", values, self.data.n_documents)
            for name, values in zip(("gradient", "hessian"), found, strict=True)
        )
        _refuse_bends(gradient, hessian)
        if self.weights is None:
            return gradient, hessian
        return gradient * self.weights, hessian * self.weights

    def targets(self, scores: Floats) -> tuple[Floats, Floats | None]:
        """Newton's targets and weights."""
        return newton_targets(*self.gradients(scores))


def _refuse_bends(gradient: Floats, hessian: Floats) -> None:
    """Raise where Newton's step leads nowhere: a negative hessian, or none where there is a gradient."""
    is_wrong = (hessian < 0.0) | ((hessian == 0.0) & (gradient != 0.0))
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise ParameterError(
            f"the loss's hessian[{row}] is {float(hessian[row]):g} where the gradient is "
            f"{float(gradient[row]):g}. It must be positive wherever the gradient is not 0; "
            "a loss without one can give ones, which makes leaves mean gradients."
        )
