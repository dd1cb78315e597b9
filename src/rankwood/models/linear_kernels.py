"""The compiled half of ``linear.py``: weighted sums of rows, each in the order of the features."""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array

SIDE_BY_SIDE = (
    4  # rows summed at a time: an addition waits for the one before it, those of other rows do not
)


@kernel
def term(value: float, weight: float, fill: float) -> float:
    """What one feature adds to a score; NaN counts as ``fill``."""
    return weight * value if value == value else weight * fill  # noqa: PLR0124 - NaN


@kernel
def linear_scores(
    first: int,
    last: int,
    features: Array,
    used: Array,
    weights: Array,
    fill: Array,
    intercept: float,
    scores: Array,
) -> None:
    """The score of each row: features ``used``, in their order, then the intercept.

    Every row is summed on its own in the same order, so its score does not depend on the rows beside it.
    """
    whole = first + (last - first) // SIDE_BY_SIDE * SIDE_BY_SIDE
    for row in range(first, whole, SIDE_BY_SIDE):
        one = two = three = four = 0.0
        for place in range(used.size):
            feature = used[place]
            weight = weights[feature]
            instead = fill[feature]
            one += term(features[row, feature], weight, instead)
            two += term(features[row + 1, feature], weight, instead)
            three += term(features[row + 2, feature], weight, instead)
            four += term(features[row + 3, feature], weight, instead)
        scores[row] = one + intercept
        scores[row + 1] = two + intercept
        scores[row + 2] = three + intercept
        scores[row + 3] = four + intercept
    for row in range(whole, last):
        one = 0.0
        for place in range(used.size):
            feature = used[place]
            one += term(features[row, feature], weights[feature], fill[feature])
        scores[row] = one + intercept
