"""Passes over a tree's rows that turn targets into words."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel


@kernel
def gather_bag(drawn, source_of_row, rows, sources, counts):
    """The rows drawn at least once, ascending, their sources, and how often; the arrays have room for one more.

    Without branches: whether a row was drawn cannot be guessed.
    """
    n_rows = 0
    for row in range(drawn.size):
        source = source_of_row[row]
        rows[n_rows] = row
        sources[n_rows] = source
        counts[n_rows] = drawn[source]
        n_rows += drawn[source] > 0


@kernel
def span(drawn, targets, found):
    """Sum, least and greatest target of the rows drawn, in the order of the sources."""
    total = 0.0
    least = np.inf
    most = -np.inf
    for source in range(drawn.size):
        is_drawn = drawn[source] > 0
        target = targets[source]
        total += target if is_drawn else 0.0
        least = min(least, target if is_drawn else np.inf)
        most = max(most, target if is_drawn else -np.inf)
    found[0] = total
    found[1] = least
    found[2] = most


@kernel
def load(drawn, targets, weights, shift, found):
    """What the words must hold: sum and greatest of |weighted target|, and the sum of weights."""
    total = 0.0
    most = 0.0
    mass = 0.0
    for source in range(drawn.size):
        weight = np.float64(drawn[source])
        if weights.size > 0:
            weight *= weights[source]
        product = abs((targets[source] - shift) * weight)
        total += product
        most = max(most, product)
        mass += weight
    found[0] = total
    found[1] = most
    found[2] = mass


@kernel
def whole_weights(sources, counts, weights, unit, words):
    """Each row's weight as a whole number; gives their sum."""
    total = np.int64(0)
    for place in range(sources.size):
        whole = np.int64(counts[place])
        if weights.size > 0:
            whole = np.int64(np.rint(np.float64(counts[place]) * weights[sources[place]] * unit))
        words[place] = whole
        total += whole
    return total


@kernel
def add_targets(sources, counts, targets, weights, shift, unit, bits, words):
    """Put each row's scaled target above its weight."""
    for place in range(sources.size):
        source = sources[place]
        weight = np.float64(counts[place])
        if weights.size > 0:
            weight *= weights[source]
        scaled = np.int64(np.rint((targets[source] - shift) * weight * unit))
        words[place] += scaled << bits
