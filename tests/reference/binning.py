"""Slow, obvious twins of the binning kernels: Python numbers, lists and fractions."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np

MISSING = 255
LARGEST = float(np.finfo(np.float32).max)


def code_of(value: float, thresholds) -> int:
    """The number of thresholds below the value."""
    if math.isnan(value):
        return MISSING
    return sum(1 for threshold in thresholds if threshold < value)


def codes(features, thresholds_of_feature) -> np.ndarray:
    return np.array(
        [
            [code_of(value, thresholds) for value in column]
            for column, thresholds in zip(
                np.transpose(features).tolist(), thresholds_of_feature, strict=True
            )
        ],
        np.uint8,
    ).reshape(len(thresholds_of_feature), len(features))


def thresholds(column, max_bins: int) -> list[float]:
    """Cut points of one feature, from all its values."""
    # `+ 0.0` makes -0.0 and 0.0 one value.
    rows_of = Counter(
        value + 0.0 for value in np.asarray(column, np.float32).tolist() if not math.isnan(value)
    )
    values = sorted(rows_of)
    counts = [rows_of[value] for value in values]
    middles = [
        midpoint(values[cut], values[cut + 1]) for cut in feature_cuts(values, counts, max_bins)
    ]
    return [middle for middle in middles if middle is not None]


def midpoint(lower: float, upper: float) -> float | None:
    """The middle of two float32 values as float32, not below the lower and below the upper."""
    low, high = max(lower, -LARGEST), min(upper, LARGEST)
    low, high = min(low, LARGEST), max(high, -LARGEST)
    middle = float(np.float32(low) / np.float32(2) + np.float32(high) / np.float32(2))
    if not low <= middle < high:
        middle = low
    return middle + 0.0 if lower <= middle < upper else None


def feature_cuts(values: list[float], counts: list[int], max_bins: int) -> list[int]:
    """Places to cut: cut v lies between values v and v + 1. Infinite values stay alone."""
    if len(values) <= max_bins:
        return list(range(len(values) - 1))
    first, last, bins = 0, len(values), max_bins
    if values[-1] == math.inf:
        last, bins = last - 1, bins - 1
    if values[0] == -math.inf and bins > 1:
        first, bins = 1, bins - 1
    inner = [first + cut for cut in cuts(counts[first:last], bins)]
    return [0] * (first > 0) + inner + [last - 1] * (last < len(values))


def cuts(counts: list[int], n_bins: int) -> list[int]:
    """Cut values with these row counts into at most ``n_bins`` bins."""
    if len(counts) <= n_bins:
        return list(range(len(counts) - 1))
    heavy = heavy_values(counts, n_bins)
    runs = light_runs(len(counts), heavy)
    if len(heavy) + 2 * len(runs) > n_bins:
        heavy = {
            value for value, count in enumerate(counts) if count > 2 * Fraction(sum(counts), n_bins)
        }
        runs = light_runs(len(counts), heavy)
    found = {edge for value in heavy for edge in (value - 1, value)}
    bins_left = n_bins - len(heavy)
    rows_left = sum(sum(counts[value] for value in run) for run in runs)
    for number, run in enumerate(runs):
        rows = sum(counts[value] for value in run)
        fair = math.floor(Fraction(rows * bins_left, rows_left) + Fraction(1, 2))
        fair = max(1, min(fair, bins_left - (len(runs) - number - 1), len(run)))
        found |= {run[0] + cut for cut in even_cuts([counts[value] for value in run], fair)}
        bins_left -= fair
        rows_left -= rows
    return sorted(cut for cut in found if 0 <= cut < len(counts) - 1)


def heavy_values(counts: list[int], n_bins: int) -> set[int]:
    """From the heaviest down: those with more rows than an equal share of what is left."""
    heavy: set[int] = set()
    rows_left = sum(counts)
    for value in sorted(range(len(counts)), key=lambda value: -counts[value]):
        if counts[value] <= Fraction(rows_left, n_bins - len(heavy)):
            break
        heavy.add(value)
        rows_left -= counts[value]
    return heavy


def light_runs(n_values: int, heavy: set[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in range(n_values):
        if value in heavy:
            continue
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def even_cuts(counts: list[int], n_bins: int) -> list[int]:
    """Bins of like size, from the left: each ends where it is nearest to its share of the rest."""
    found: list[int] = []
    start = 0
    for bins_left in range(n_bins, 1, -1):
        share = Fraction(sum(counts[start:]), bins_left)
        end = start + 1
        while len(counts) - end > bins_left - 1:
            without, with_next = sum(counts[start:end]), sum(counts[start : end + 1])
            if share - without <= with_next - share:
                break
            end += 1
        found.append(end - 1)
        start = end
    return found
