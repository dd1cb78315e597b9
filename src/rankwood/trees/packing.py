"""Packed targets: target and weight of a row in one int64, so that one addition sums both.

The low ``bits`` hold the weight (how often the row was drawn, or a scaled weight or hessian), the others the scaled
target. Sums of packed targets are exact, so their order does not matter. The scales are powers of two, as large as
sums without overflow allow. Small whole targets stay exact.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood.dtypes import Array, Floats

_WEIGHT_BITS = 31  # for the sum of weights that are not row counts; targets have as many
_SUM_BITS = 62  # that the sums of targets and of weights share; one more is the sign
_LARGEST_EXPONENT = 500  # of a unit: gains are in squares of it
_LARGEST_TARGET = 2.0**52  # scaled targets stay whole numbers in float64


@dataclass(frozen=True, eq=False)
class PackedTargets:
    """The rows of a tree, their packed targets, and the units of these."""

    rows: Array  # uint32
    counts: (
        Array  # int64: how often each row was drawn; empty without weights, as the values say it
    )
    values: Array  # int64
    bits: int
    shift: float  # subtracted from the targets
    target_unit: float  # scaled target = (target - shift) * weight * target_unit
    weight_unit: float

    @property
    def gain_unit(self) -> float:
        """A gain in integer units is the true gain times this."""
        return self.target_unit**2 / self.weight_unit

    def without_values(self) -> PackedTargets:
        """The rows and the units only."""
        none = np.zeros(0, np.int64)
        return dataclasses.replace(self, values=none, counts=none)


def pack(
    targets: Floats,
    drawn: Array,
    weights: Floats | None = None,
    *,
    source_of_row: Array | None = None,
    centre: bool = True,
) -> PackedTargets:
    """Pack the targets of the rows drawn at least once: a row's target is ``drawn * weight * target``.

    ``targets``, ``drawn`` and ``weights`` are by source. The units follow from sums in that order, so they do not
    depend on the order of the rows. ``centre=False`` leaves the targets unshifted, as l2 needs it.
    """
    drawn = read_only(np.ascontiguousarray(drawn, np.int32))
    if source_of_row is None:
        source_of_row = read_only(np.arange(drawn.size, dtype=np.int32))
    n_rows = int(np.count_nonzero(drawn))
    rows, sources = np.empty(n_rows + 1, np.uint32), np.empty(n_rows + 1, np.int32)
    counts = np.empty(n_rows + 1, np.int32)
    gather_bag(drawn, source_of_row, rows, sources, counts)
    rows, sources, counts = rows[:n_rows], sources[:n_rows], counts[:n_rows]
    values, given = read_only(targets), read_only(np.zeros(0) if weights is None else weights)
    shift = _shift(drawn, values, n_rows) if centre and n_rows else 0.0
    sums = np.zeros(3)
    sum_absolute(drawn, values, given, shift, sums)
    total, most, all_weight = sums.tolist()
    weight_unit = 1.0
    if weights is not None:
        weight_unit = _power_of_two(2.0**_WEIGHT_BITS / max(all_weight, 1e-300))
    packed = np.empty(n_rows, np.int64)
    bits = max(1, int(pack_weights(sources, counts, given, weight_unit, packed)).bit_length())
    room = 2.0 ** (_SUM_BITS - bits) - n_rows  # rounding adds at most half a unit per row
    unit = _power_of_two(min(room / total, _LARGEST_TARGET / most)) if total > 0 else 1.0
    add_targets(sources, counts, values, given, shift, unit, bits, packed)
    kept = np.zeros(0, np.int64) if weights is None else counts.astype(np.int64)
    return PackedTargets(rows, kept, packed, bits, shift, unit, weight_unit)


def _shift(drawn: Array, targets: Floats, n_rows: int) -> float:
    """A number near the mean; whole targets of a small range minus it are whole multiples of a power of two."""
    summary = np.zeros(3)
    summarize(drawn, targets, summary)
    total, least, most = summary.tolist()
    mean = total / n_rows
    spread = max(most - mean, mean - least)
    if spread <= 0.0:
        return mean
    unit = _power_of_two(spread)
    return round(mean / unit) * unit


def _power_of_two(limit: float) -> float:
    """The largest power of two not above ``limit``, within the range in which squares are finite."""
    _, exponent = math.frexp(limit)
    return math.ldexp(0.5, min(max(exponent, -_LARGEST_EXPONENT), _LARGEST_EXPONENT))


# The passes over the rows.


@kernel
def gather_bag(drawn, source_of_row, rows, sources, counts):
    """List the rows drawn at least once, ascending, with sources and counts; the arrays need room for one more.

    The loop is branch-free, because whether a row was drawn cannot be predicted.
    """
    n_rows = 0
    for row in range(drawn.size):
        source = source_of_row[row]
        rows[n_rows] = row
        sources[n_rows] = source
        counts[n_rows] = drawn[source]
        n_rows += drawn[source] > 0


@kernel
def summarize(drawn, targets, summary):
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
    summary[0] = total
    summary[1] = least
    summary[2] = most


@kernel
def sum_absolute(drawn, targets, weights, shift, sums):
    """Sum and maximum of |weighted target|, and the sum of weights."""
    total = 0.0
    most = 0.0
    all_weight = 0.0
    for source in range(drawn.size):
        weight = np.float64(drawn[source])
        if weights.size > 0:
            weight *= weights[source]
        product = abs((targets[source] - shift) * weight)
        total += product
        most = max(most, product)
        all_weight += weight
    sums[0] = total
    sums[1] = most
    sums[2] = all_weight


@kernel
def pack_weights(sources, counts, weights, unit, packed):
    """Fill ``packed`` with the rows' weights as whole numbers; return their sum."""
    total = np.int64(0)
    for index in range(sources.size):
        whole = np.int64(counts[index])
        if weights.size > 0:
            whole = np.int64(np.rint(np.float64(counts[index]) * weights[sources[index]] * unit))
        packed[index] = whole
        total += whole
    return total


@kernel
def add_targets(sources, counts, targets, weights, shift, unit, bits, packed):
    """Add the scaled targets above the weights."""
    for index in range(sources.size):
        source = sources[index]
        weight = np.float64(counts[index])
        if weights.size > 0:
            weight *= weights[source]
        scaled = np.int64(np.rint((targets[source] - shift) * weight * unit))
        packed[index] += scaled << bits
