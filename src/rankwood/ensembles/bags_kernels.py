"""Drawing rows: how often each is drawn depends on the stream's number and on nothing else.

Draw ``d`` of a stream is ``uniform(stream, d)``. 720,000 of them take a few milliseconds, and no
lock is held.
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array
from rankwood.trees.state_kernels import uniform


@kernel
def draw_with_replacement(stream: int, n_draws: int, counts: Array) -> None:
    """Add 1 to the count of each item drawn; all are equally likely."""
    key = np.uint64(stream)  # the type that trees hash
    n_items = counts.size
    for draw in range(n_draws):
        counts[np.int64(uniform(key, draw) * n_items)] += 1


@kernel
def draw_without_replacement(stream: int, n_draws: int, counts: Array) -> None:
    """Set the counts of exactly ``n_draws`` different items to 1 (Knuth, volume 2, Algorithm S)."""
    key = np.uint64(stream)
    n_wanted = n_draws
    n_items = counts.size
    for item in range(n_items):
        if (n_items - item) * uniform(key, item) < n_wanted:
            counts[item] = 1
            n_wanted -= 1


@kernel
def draw_by_weight(
    stream: int, n_draws: int, cumulative: Array, guide: Array, counts: Array
) -> None:
    """Add 1 to the count of each item drawn, with probability in proportion to its weight.

    ``cumulative`` are running sums of the weights. An item is the first whose sum exceeds a number drawn below the
    total; the search for a share of the total begins at ``guide[share * guide.size]``, a step or two before its end.
    """
    key = np.uint64(stream)
    last = counts.size - 1
    total = cumulative[last]
    n_guides = guide.size
    for draw in range(n_draws):
        share = uniform(key, draw)
        mark = share * total
        item = guide[np.int64(share * n_guides)]
        while item < last and cumulative[item] <= mark:
            item += 1
        counts[item] += 1
