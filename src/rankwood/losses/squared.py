"""Squared loss: trees fit what is left of the labels (Friedman 2001, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwood.dtypes import Floats


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
