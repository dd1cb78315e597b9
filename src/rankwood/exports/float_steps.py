"""Thresholds moved so that another engine's comparison says what ours says.

Ours is ``value <= threshold`` with both in float32. Words used here
    grid    the numbers float32 can hold
    above   the next of them upwards
"""

from __future__ import annotations

import numpy as np

from rankwood.dtypes import Array, Features, Floats

SOLR_SLACK = np.float32(1e-6)  # what Solr adds to every threshold it reads
_GREATEST = float(np.finfo(np.float32).max)
_TRIED_STEPS = (
    4  # grid steps either way that a compensated threshold may be off the plain difference
)


def above(thresholds: Features) -> Features:
    """The next number of float32 upwards: ``value <= t`` is ``value < above(t)`` for every float32 value."""
    moved = _stepped(thresholds, np.inf)
    return moved + np.float32(0.0)  # -0 becomes 0


def greatest_rounded_to(thresholds: Features) -> Floats:
    """The greatest float64 that float32 rounds to the threshold or below.

    An engine that compares float64 values with it decides as we do after rounding the value to float32, for every
    float64 value, not only for those that float32 can hold.
    """
    upper = above(thresholds).astype(np.float64)
    upper[np.isinf(upper)] = 2.0**128  # where float32 would go on
    middle: Floats = thresholds.astype(np.float64) / 2 + upper / 2
    with np.errstate(over="ignore"):
        stays = middle.astype(np.float32) <= thresholds  # a tie goes to the even one
    return np.where(stays, middle, np.nextafter(middle, -np.inf))


def at_most(numbers: Floats) -> Features:
    """The greatest float32 that is not above each number; -inf where there is none."""
    with np.errstate(over="ignore"):
        near: Features = np.asarray(numbers, np.float64).astype(np.float32)
    too_high = near.astype(np.float64) > numbers
    lowered: Features = np.where(too_high, _stepped(near, -np.inf), near)
    return np.minimum(lowered, np.float32(_GREATEST)) + np.float32(0.0)


def below(numbers: Floats) -> Features:
    """The greatest float32 that is below each number; -inf where there is none."""
    found = at_most(numbers)
    is_equal = found.astype(np.float64) == numbers
    return np.where(is_equal, _stepped(found, -np.inf), found) + np.float32(0.0)


def _stepped(numbers: Features, direction: float) -> Features:
    """The next float32 in a direction; beyond the greatest there is infinity, and no warning."""
    with np.errstate(over="ignore", under="ignore"):
        stepped: Features = np.nextafter(numbers, np.float32(direction))
    return stepped


def before_slack(thresholds: Features) -> tuple[Features, Array]:
    """What to write for Solr, which adds 1e-6 in float32; and whether the sum is the threshold to the bit.

    Where no float32 number plus 1e-6 gives the threshold, the written number gives the nearest one there is.
    """
    plain: Features = thresholds - SOLR_SLACK
    best, least = plain.copy(), _distance(plain, thresholds)
    for direction in (-np.inf, np.inf):
        tried = plain
        for _ in range(_TRIED_STEPS):
            tried = _stepped(tried, direction)
            distance = _distance(tried, thresholds)
            is_better = distance < least
            best = np.where(is_better, tried, best)
            least = np.where(is_better, distance, least)
    return best, least == 0


def _distance(written: Features, thresholds: Features) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        seen = (written + SOLR_SLACK).astype(np.float64)
        distance: Floats = np.abs(seen - thresholds.astype(np.float64))
    return np.where(np.isfinite(distance) & np.isfinite(written), distance, np.inf)


def short(number: float) -> str:
    """A float32 number with the nine digits that identify it."""
    return f"{number:.9g}"


def exact(number: float) -> str:
    """A float64 number with as many digits as identify it."""
    return repr(float(number))
