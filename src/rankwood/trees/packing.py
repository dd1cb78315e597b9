"""Targets as integers: one int64 word per row holds its target and its weight, so that one addition sums both.

The low ``bits`` of a word hold the weight (rows drawn, or scaled weights or hessians), the rest the scaled target. Sums
of words are exact, whatever their order. Scales are powers of two, as large as no sum can overflow: small whole targets
stay exact.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood.dtypes import Array, Floats

_WEIGHT_BITS = 31  # of a sum of weights that are not rows; the targets' sum has as many
_SUM_BITS = 62  # what a target sum and its weights share; the sign has the last one
_LARGEST_EXPONENT = 500  # of a unit: gains are in squares of it
_LARGEST_TARGET = 2.0**52  # scaled targets stay whole numbers in float64


@dataclass(frozen=True, eq=False)
class Packed:
    """The rows of a tree, their words, and the units the words are in."""

    rows: Array  # uint32
    counts: Array  # int64: how often each was drawn; empty without weights, when the words say it
    words: Array  # int64
    bits: int
    shift: float  # subtracted from the targets
    target_unit: float  # scaled target = (target - shift) * weight * target_unit
    weight_unit: float

    @property
    def gain_unit(self) -> float:
        """A gain in integer units is the true gain times this."""
        return self.target_unit**2 / self.weight_unit

    def without_words(self) -> Packed:
        """The rows and the units, for who needs no more."""
        none = np.zeros(0, np.int64)
        return dataclasses.replace(self, words=none, counts=none)


def pack(
    targets: Floats,
    drawn: Array,
    weights: Floats | None = None,
    *,
    source_of_row: Array | None = None,
    centre: bool = True,
) -> Packed:
    """Words of the rows drawn at least once; a row's summed target is ``drawn * weight * target``.

    Targets, ``drawn`` and weights are by source, and so are the sums that scales follow from: the order of the rows
    changes nothing. ``centre=False`` keeps zero where it is, as l2 needs it.
    """
    drawn = read_only(np.ascontiguousarray(drawn, np.int32))
    if source_of_row is None:
        source_of_row = read_only(np.arange(drawn.size, dtype=np.int32))
    n_rows = int(np.count_nonzero(drawn))
    rows, sources = np.empty(n_rows + 1, np.uint32), np.empty(n_rows + 1, np.int32)
    counts = np.empty(n_rows + 1, np.int32)
    gather_bag(drawn, source_of_row, rows, sources, counts)
    rows, sources, counts = rows[:n_rows], sources[:n_rows], counts[:n_rows]
    values, mass = read_only(targets), read_only(np.zeros(0) if weights is None else weights)
    shift = _shift(drawn, values, n_rows) if centre and n_rows else 0.0
    found = np.zeros(3)
    load(drawn, values, mass, shift, found)
    total, most, all_weight = found.tolist()
    weight_unit = 1.0
    if weights is not None:
        weight_unit = _power_of_two(2.0**_WEIGHT_BITS / max(all_weight, 1e-300))
    words = np.empty(n_rows, np.int64)
    bits = max(1, int(whole_weights(sources, counts, mass, weight_unit, words)).bit_length())
    room = 2.0 ** (_SUM_BITS - bits) - n_rows  # rounding adds at most half a unit per row
    unit = _power_of_two(min(room / total, _LARGEST_TARGET / most)) if total > 0 else 1.0
    add_targets(sources, counts, values, mass, shift, unit, bits, words)
    kept = np.zeros(0, np.int64) if weights is None else counts.astype(np.int64)
    return Packed(rows, kept, words, bits, shift, unit, weight_unit)


def _shift(drawn: Array, targets: Floats, n_rows: int) -> float:
    """A number near the mean, whose distance to whole targets of a small range is whole."""
    found = np.zeros(3)
    span(drawn, targets, found)
    mean = float(found[0]) / n_rows
    spread = max(float(found[2]) - mean, mean - float(found[1]))
    if spread <= 0.0:
        return mean
    unit = _power_of_two(spread)
    return round(mean / unit) * unit


def _power_of_two(limit: float) -> float:
    """The largest power of two that is not above ``limit``, as long as its square is a number."""
    _, exponent = math.frexp(limit)
    return math.ldexp(0.5, min(max(exponent, -_LARGEST_EXPONENT), _LARGEST_EXPONENT))


# Passes over a tree's rows that turn targets into words.


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
