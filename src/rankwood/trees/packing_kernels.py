"""Passes over a tree's rows that turn targets into words."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel


@kernel
def gather_bag(drawn, rows, counts):
    """The rows drawn at least once, ascending, and how often; the arrays have room for one more.

    Without branches: whether a row was drawn cannot be guessed.
    """
    n_rows = 0
    for row in range(drawn.size):
        rows[n_rows] = row
        counts[n_rows] = drawn[row]
        n_rows += drawn[row] > 0


@kernel
def span(rows, targets, found):
    """Sum, least and greatest target of the rows."""
    total = 0.0
    least = np.inf
    most = -np.inf
    for row in rows:
        target = targets[row]
        total += target
        least = min(least, target)
        most = max(most, target)
    found[0] = total
    found[1] = least
    found[2] = most


@kernel
def load(rows, counts, targets, weights, shift, found):
    """What the words must hold: sum and greatest of |weighted target|, and the sum of weights."""
    total = 0.0
    most = 0.0
    mass = 0.0
    for place in range(rows.size):
        row = rows[place]
        weight = np.float64(counts[place])
        if weights.size > 0:
            weight *= weights[row]
        product = abs((targets[row] - shift) * weight)
        total += product
        most = max(most, product)
        mass += weight
    found[0] = total
    found[1] = most
    found[2] = mass


@kernel
def whole_weights(rows, counts, weights, unit, words):
    """Each row's weight as a whole number; gives their sum."""
    total = np.int64(0)
    for place in range(rows.size):
        whole = np.int64(counts[place])
        if weights.size > 0:
            whole = np.int64(np.rint(np.float64(counts[place]) * weights[rows[place]] * unit))
        words[place] = whole
        total += whole
    return total


@kernel
def add_targets(rows, counts, targets, weights, shift, unit, bits, words):
    """Put each row's scaled target above its weight."""
    for place in range(rows.size):
        row = rows[place]
        weight = np.float64(counts[place])
        if weights.size > 0:
            weight *= weights[row]
        scaled = np.int64(np.rint((targets[row] - shift) * weight * unit))
        words[place] += scaled << bits
