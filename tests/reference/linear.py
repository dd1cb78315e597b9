"""Slow twins of linear models and of what trains them: plain loops over rows, pairs and rounds."""

from __future__ import annotations

import math


def linear_scores(features, weights, fill, intercept) -> list[float]:
    """Sums in the order of the features; those without a weight are not looked at."""
    scores = []
    for row in features:
        total = 0.0
        for value, weight, instead in zip(row, weights, fill, strict=True):
            if weight != 0:
                total += float(weight) * float(instead if math.isnan(value) else value)
        scores.append(total + intercept)
    return scores
