"""The compiled half of ``weak_rankers.py``: one pass over the binned columns finds the best cut of each feature."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array
from rankwood.trees.histogram_kernels import build_histograms
from rankwood.trees.state_kernels import MISSING, NO_SPLIT


@kernel
def search_features(
    first: int,
    last: int,
    matrix: Any,
    rows: Array,
    words: Array,
    features: Array,
    histograms: Array,
    slack: int,
    edges: Array,
    codes: Array,
) -> None:
    """The greatest |r| of the features ``first`` to ``last``, and the cut it belongs to."""
    build_histograms(  # type: ignore[no-untyped-call]
        first, last, matrix, rows, words, 0, rows.size, features, histograms
    )
    for feature in range(first, last):
        edges[feature], codes[feature] = best_cut(
            histograms[feature], matrix.n_bins[feature], slack
        )


@kernel
def best_cut(sums: Array, n_bins: int, slack: int) -> Any:
    """Twice the r of greatest size, and the last code below the cut; of those within ``slack`` the lowest cut's.

    Values above the cut count twice, missing ones once, the others not at all: halves stay whole numbers.
    """
    edge = np.int64(0)
    code = np.int64(NO_SPLIT)
    most = np.int64(0)
    above = np.int64(0)
    for place in range(n_bins - 1, 0, -1):
        above += sums[place]
        found = 2 * above + sums[MISSING]
        if found != 0 and abs(found) >= most - slack:
            edge = found
            code = np.int64(place - 1)
            most = max(most, abs(found))
    return edge, code
