"""The compiled half of ``graded.py``."""

from __future__ import annotations

import math

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array

FARTHEST = 300.0  # from the centre: products of four exponentials' sums stay within float64


@kernel
def centred_exponentials(
    first: int, last: int, offsets: Array, rows: Array, scores: Array, exponentials: Array
) -> None:
    """``exp(score - centre)`` of each place, where the centre is midway between a list's extreme scores.

    Losses depend on differences within a list only, so any centre will do. Scores farther than ``FARTHEST`` from it
    count as that far: their pairs weigh nothing, or everything, either way.
    """
    for query in range(first, last):
        least = np.inf
        most = -np.inf
        for place in range(offsets[query], offsets[query + 1]):
            least = min(least, scores[rows[place]])
            most = max(most, scores[rows[place]])
        centre = 0.5 * least + 0.5 * most
        for place in range(offsets[query], offsets[query + 1]):
            distance = scores[rows[place]] - centre
            exponentials[place] = math.exp(min(max(distance, -FARTHEST), FARTHEST))
