"""The features that documents meet on their ways through trees."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array


@kernel
def add_paths(
    first: int,
    last: int,
    rows: Array,
    first_tree: int,
    last_tree: int,
    matrix: Array,
    feature: Array,
    threshold: Array,
    left: Array,
    right: Array,
    missing: Array,
    offsets: Array,
    costs: Array,
    is_seen: Array,
    cost_of_row: Array,
) -> None:
    """Walk ``rows[first:last]`` down some trees; a feature met for the first time adds its cost to the row's."""
    for place in range(first, last):
        row = rows[place]
        for tree in range(first_tree, last_tree):
            node = int(offsets[tree])
            while feature[node] >= 0:
                tested = feature[node]
                if is_seen[row, tested] == 0:
                    is_seen[row, tested] = 1
                    cost_of_row[row] += costs[tested]
                value = matrix[row, tested]
                if np.isnan(value):
                    node = int(missing[node])
                elif value <= threshold[node]:
                    node = int(left[node])
                else:
                    node = int(right[node])
