"""The compiled half of ``adaboost.py``: the stump of least weighted error.

Words used here
    word    weight of a row, negative for class -1, as a whole number: sums are exact, and equal errors are found equal
    edge    |Σ words on the right - Σ words on the left|: what is right minus what is wrong
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array
from rankwood.trees.state_kernels import GO_LEFT, GO_RIGHT, MISSING, NO_SPLIT


@kernel
def search_stumps(
    first: int,
    last: int,
    features: Array,
    matrix: Any,
    words: Array,
    present: Array,
    min_leaf: int,
    missing_rule: int,
    slack: int,
    edges: Array,
    codes: Array,
    sides: Array,
) -> None:
    """The greatest edge of the features at the places ``first`` to ``last``, its cut and the side of missing values."""
    sums = np.empty(MISSING + 1, np.int64)
    counts = np.empty(MISSING + 1, np.int64)
    for place in range(first, last):
        feature = features[place]
        column = matrix.columns[feature]
        for code in range(MISSING + 1):
            sums[code] = 0
            counts[code] = 0
        for row in range(words.size):
            code = column[row]
            sums[code] += words[row]
            counts[code] += present[row]
        found = best_stump(sums, counts, matrix.n_bins[feature], min_leaf, missing_rule, slack)
        edges[place], codes[place], sides[place] = found


@kernel
def best_stump(
    sums: Array, counts: Array, n_bins: int, min_leaf: int, missing_rule: int, slack: int
) -> Any:
    """Edge (0: none), code and side of the missing values; of edges within ``slack`` the greatest threshold's."""
    total = sums[MISSING]
    n_rows = counts[MISSING]
    for code in range(n_bins):
        total += sums[code]
        n_rows += counts[code]
    edge = np.int64(0)
    best_code = np.int64(NO_SPLIT)
    side = np.int64(GO_RIGHT)
    left = np.int64(0)
    n_left = np.int64(0)
    for code in range(n_bins - 1):
        if counts[code] == 0:  # the same cut as the one before
            continue
        left += sums[code]
        n_left += counts[code]
        for goes in (GO_RIGHT, GO_LEFT):
            if counts[MISSING] == 0 and goes == GO_LEFT:
                continue
            if counts[MISSING] > 0 and missing_rule in (GO_LEFT, GO_RIGHT) and goes != missing_rule:
                continue
            moved = goes == GO_LEFT
            here = left + (sums[MISSING] if moved else np.int64(0))
            n_here = n_left + (counts[MISSING] if moved else np.int64(0))
            if n_here < min_leaf or n_rows - n_here < min_leaf:
                continue
            found = abs(total - 2 * here)
            is_later = code > best_code and found >= edge - slack
            if found > 0 and (found > edge + slack or is_later):
                edge = max(edge, found)
                best_code = np.int64(code)
                side = np.int64(goes)
    return edge, best_code, side
