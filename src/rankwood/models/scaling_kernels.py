"""The compiled half of ``scaling.py``: sums and extremes of each feature, block of rows by block of rows."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array

WEIGHT, FIRST, SECOND, LEAST, GREATEST = range(5)
N_MOMENTS = 5


@kernel
def sum_moments(
    first: int, last: int, block: int, features: Array, centre: Array, weights: Array, sums: Array
) -> None:
    """Moments of each feature over each block of rows, of the values that are present.

    They are the sums of weight, of weight times the distance from the centre, and of weight times its square; the
    least and the greatest value. Rows of weight 0 are passed over. Blocks have a fixed size, so that adding them up in
    their order gives the same bits for any number of threads.
    """
    for number in range(first, last):
        moments = sums[number]
        moments[:] = 0.0
        moments[LEAST] = np.inf
        moments[GREATEST] = -np.inf
        for row in range(number * block, min((number + 1) * block, weights.size)):
            weight = weights[row]
            if weight == 0.0:
                continue
            for feature in range(centre.size):
                value = features[row, feature]
                if np.isnan(value):
                    continue
                distance = value - centre[feature]
                moments[WEIGHT, feature] += weight
                moments[FIRST, feature] += weight * distance
                moments[SECOND, feature] += weight * distance * distance
                moments[LEAST, feature] = min(moments[LEAST, feature], value)
                moments[GREATEST, feature] = max(moments[GREATEST, feature], value)
