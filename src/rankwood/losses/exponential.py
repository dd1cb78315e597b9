"""The exponential loss that AdaBoost lowers (Freund & Schapire 1997; Friedman, Hastie & Tibshirani 2000).

``Σ weight · exp(-class · score)`` with classes 1 and -1. Each row weighs ``D ∝ weight · exp(-class · score)``; votes h
of edge ``r = Σ D · class · h`` are added with weight ``½ ln((1 + r) / (1 - r))``, which is ``½ ln((1 - ε) / ε)`` for
votes 1 and -1 of error ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rankwood.dtypes import Floats

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
