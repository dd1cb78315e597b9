"""The compiled half of ``ndcgboost.py``.

With ``e = exp(F)``, θ_ij = e_i e_j / (e_i + e_j)²: no exponential is taken per pair. Inner loops run over the documents
whose sums are wanted and outer ones over those they are compared with, so that the inner ones have no sum to carry and
are vectorised; and so that a block of places can be summed apart, in the same order whatever the blocks.

Words used here
    place    a document; those of a query stand by falling label
    mass     the document's weight times exp(F)
"""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.dtypes import Array


@kernel
def weights_of_documents(
    first: int,
    last: int,
    offsets: Array,
    gains: Array,
    masses: Array,
    exponentials: Array,
    weights: Array,
) -> None:
    """``Σ_j (g_i - g_j) θ_ij`` of the places ``first`` to ``last``; documents of equal gain pull each other nowhere."""
    query = np.searchsorted(offsets, first, side="right") - 1
    while query < offsets.size - 1 and offsets[query] < last:
        end = offsets[query + 1]
        low = max(first, offsets[query])
        high = min(last, end)
        weights[low:high] = 0.0
        begin = offsets[query]
        while begin < end:
            after = begin + 1
            while after < end and gains[after] == gains[begin]:
                after += 1
            for other in range(begin, after):
                for start, stop in ((low, min(high, begin)), (max(low, after), high)):
                    if start < stop:
                        pull(
                            gains[other],
                            masses[other],
                            exponentials[other],
                            gains[start:stop],
                            exponentials[start:stop],
                            weights[start:stop],
                        )
            begin = after
        for place in range(low, high):
            weights[place] *= masses[place]
        query += 1


@kernel
def pull(
    gain: float,
    mass: float,
    exponential: float,
    gains: Array,
    exponentials: Array,
    weights: Array,
) -> None:
    """Add what a document does to each of some others, but for their own mass."""
    for place in range(weights.size):
        both = exponential + exponentials[place]
        weights[place] += (gains[place] - gain) * mass / (both * both)


@kernel
def part_by_vote(
    first: int,
    last: int,
    offsets: Array,
    rows: Array,
    votes: Array,
    gains: Array,
    masses: Array,
    exponentials: Array,
    parted: Array,
    middles: Array,
) -> None:
    """Gain, mass and exponential of each list's documents, those with vote 1 first; where the others begin."""
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        front = begin
        for vote in (1.0, 0.0):
            for place in range(begin, end):
                if votes[rows[place]] == vote:
                    parted[0, front] = gains[place]
                    parted[1, front] = masses[place]
                    parted[2, front] = exponentials[place]
                    front += 1
            if vote == 1.0:
                middles[query] = front


@kernel
def sums_over_votes(
    first: int, last: int, offsets: Array, middles: Array, parted: Array, sums: Array
) -> None:
    """For the places with vote 1: Σ g_i θ_ij and Σ g_j θ_ij over the documents j of their query with vote 0."""
    gains = parted[0]
    masses = parted[1]
    exponentials = parted[2]
    up = sums[0]
    down = sums[1]
    query = np.searchsorted(offsets, first, side="right") - 1
    while query < offsets.size - 1 and offsets[query] < last:
        low = max(first, offsets[query])
        high = min(last, middles[query])
        for other in range(middles[query], offsets[query + 1]):
            if low < high:
                part(
                    gains[other],
                    masses[other],
                    exponentials[other],
                    exponentials[low:high],
                    up[low:high],
                    down[low:high],
                )
        for place in range(low, high):
            up[place] *= gains[place] * masses[place]
            down[place] *= masses[place]
        query += 1


@kernel
def part(
    gain: float, mass: float, exponential: float, exponentials: Array, up: Array, down: Array
) -> None:
    """Add a document with vote 0 to the sums of those with vote 1, but for what is their own."""
    for place in range(up.size):
        both = exponential + exponentials[place]
        slope = mass / (both * both)
        up[place] += slope
        down[place] += gain * slope


@kernel
def losses_of_documents(
    first: int,
    last: int,
    offsets: Array,
    gains: Array,
    weights: Array,
    exponentials: Array,
    losses: Array,
) -> None:
    """Each place's term of M: its gain times Σ_{j≠i} 1 / (1 + exp(F_i - F_j))."""
    query = np.searchsorted(offsets, first, side="right") - 1
    while query < offsets.size - 1 and offsets[query] < last:
        low = max(first, offsets[query])
        high = min(last, offsets[query + 1])
        for place in range(low, high):
            losses[place] = -0.5 * weights[place]  # what the loop below adds for the place itself
        for other in range(offsets[query], offsets[query + 1]):
            press(
                weights[other] * exponentials[other],
                exponentials[other],
                exponentials[low:high],
                losses[low:high],
            )
        for place in range(low, high):
            losses[place] *= gains[place] * weights[place]
        query += 1


@kernel
def press(mass: float, exponential: float, exponentials: Array, losses: Array) -> None:
    """Add the chance that a document stands above each of some others."""
    for place in range(losses.size):
        losses[place] += mass / (exponential + exponentials[place])
