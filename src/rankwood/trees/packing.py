"""Packed targets: target and weight of a row in one int64, so that one addition sums both.

The low ``bits`` hold the weight (how often the row was drawn, or a scaled weight or hessian), the others the scaled
target. Sums of packed targets are exact, so their order does not matter. Small whole targets stay exact.

It happens in two steps. Targets and weights become whole numbers once for all trees that fit them (``WholeTargets``):
multiples of powers of two, fine enough for the values of leaves. For each tree the rows drawn are then packed: as many
low bits are dropped as the sums of the tree need to fit into an int64 together.

All scales follow from greatest values and whole sums (``choose_scales``, ``choose_units``). The rows may be in several
parts, each of which answers with maxima and whole numbers, so that nothing depends on the order of the rows or on their
division.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.sums import LEAST_ROWS, SumScale, add_blocks, exact_scale, merged, whole
from rankwood._core.threads import run_blocks
from rankwood.dtypes import Array, Floats

_WEIGHT_BITS = 31  # for the sum of weights that are not row counts; targets have as many
_SUM_BITS = 62  # that the sums of targets and of weights share; one more is the sign
_LARGEST_EXPONENT = 500  # of a unit: gains are in squares of it
_LEAST_TERMS = 1 << 9  # whole targets have at most 52 bits, as float64 has
_LARGEST = float(np.finfo(np.float64).max)
# Maxima over the rows: presence, and the keys of the others.
EXTENTS = ("-target", "target", "present", "weight", "|weight · target|")
CHUNK = 1024  # rows whose products are kept for a second loop, within the cache
# A float64 and its *key*, an int64, have the same order; a greatest key is found by vector instructions.
ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
NO_KEY = np.int64(-0x8000000000000000)  # less than all others


class Scales(NamedTuple):
    """How targets and weights become whole numbers."""

    shift: float  # subtracted from the targets
    of_targets: SumScale  # whole target = (target - shift) * weight * scale
    of_weights: SumScale
    has_weights: bool  # else each row weighs 1


@dataclass(frozen=True, eq=False)
class WholeTargets:
    """Targets and weights of all rows as whole numbers, by source; 0 for rows that no tree sees."""

    targets: Array  # int64
    weights: Array  # int64; empty where each row weighs 1
    scales: Scales


class Units(NamedTuple):
    """The units of the packed targets of a tree."""

    n_rows: int  # drawn at least once
    bits: int  # of a packed target that hold the weight
    drop: int  # bits of a whole target that are dropped
    drop_weight: int  # bits of a whole weight that are dropped
    shift: float  # subtracted from the targets
    target_unit: float  # scaled target = (target - shift) * weight * target_unit
    weight_unit: float

    @property
    def gain_unit(self) -> float:
        """A gain in integer units is the true gain times this."""
        return self.target_unit**2 / self.weight_unit


@dataclass(frozen=True, eq=False)
class PackedTargets:
    """The rows of a tree, their packed targets, and the units of these."""

    rows: Array  # uint32
    counts: (
        Array  # int64: how often each row was drawn; empty without weights, as the values say it
    )
    values: Array  # int64
    units: Units

    def without_values(self) -> PackedTargets:
        """The rows and the units only."""
        none = np.zeros(0, np.int64)
        return dataclasses.replace(self, values=none, counts=none)


# Whole numbers, once for all trees.


@dataclass(frozen=True, eq=False)
class TargetRows:
    """Rows that trees may see, or a part of them, by source, with what the trees fit."""

    present: Array  # int32: 1 for rows that trees may see, else 0
    targets: Floats
    weights: Floats  # empty where each row weighs 1
    n_threads: int = 1

    @classmethod
    def of(
        cls,
        targets: Floats,
        weights: Floats | None = None,
        present: Array | None = None,
        n_threads: int = 1,
    ) -> TargetRows:
        """The rows, as kernels take them; all are present by default."""
        if present is None:
            present = np.ones(targets.size, np.int32)
        return cls(
            read_only(np.ascontiguousarray(present, np.int32)),
            read_only(np.ascontiguousarray(targets, np.float64)),
            read_only(np.zeros(0) if weights is None else np.ascontiguousarray(weights, float)),
            n_threads,
        )

    @property
    def arrays(self) -> tuple[Array, Floats, Floats]:
        """Presence, targets and weights."""
        return self.present, self.targets, self.weights

    def extents(self) -> Array:
        """The ``EXTENTS`` of the rows; parts are merged by the greater of each."""
        return self._largest(len(EXTENTS), find_extents, *self.arrays)

    def largest_product(self, shift: float) -> Array:
        """The key of the largest |weight · (target - shift)|."""
        return self._largest(1, find_largest_product, *self.arrays, shift)

    def count_and_sum(self, scale: SumScale) -> Array:
        """How many rows are present, and the whole sum of their targets."""
        given = (self.present, self.targets, scale)
        return add_blocks(add_present, self.present.size, (2,), *given, n_threads=self.n_threads)

    def whole(self, scales: Scales) -> WholeTargets:
        """Targets and weights as whole numbers."""
        n_all = self.present.size
        targets = np.empty(n_all, np.int64)
        weights = np.empty(n_all if scales.has_weights else 0, np.int64)
        given = (*self.arrays, scales, targets, weights)
        run_blocks(make_whole, n_all, *given, n_threads=self.n_threads, least=LEAST_ROWS)
        return WholeTargets(read_only(targets), read_only(weights), scales)

    def _largest(self, size: int, finder: Callable[..., Any], *arguments: Any) -> Array:
        """The greatest keys that ``finder(first, last, *arguments, keys)`` finds in blocks of the rows."""
        parts: list[Array] = []

        def find(first: int, last: int) -> None:
            keys = np.zeros(size, np.int64)
            finder(first, last, *arguments, keys)
            parts.append(keys)

        run_blocks(find, self.present.size, n_threads=self.n_threads, least=LEAST_ROWS)
        return parts[0] if len(parts) == 1 else np.max(parts, axis=0)


def whole_targets(rows: TargetRows, n_draws: int, *, centre: bool) -> WholeTargets:
    """What trees fit, as whole numbers, for bags of at most ``n_draws`` rows, repeated ones counted.

    ``centre=False`` leaves the targets unshifted, as l2 needs it.
    """
    return rows.whole(choose_scales([rows], n_draws, centre=centre))


def choose_scales(parts: Sequence[TargetRows], n_draws: int, *, centre: bool) -> Scales:
    """The scales of all parts, from greatest values and a whole sum: the same for any division."""
    has_weights = any(part.weights.size > 0 for part in parts)
    keys = np.maximum.reduce([part.extents() for part in parts])
    if keys[2] == 0:  # no row is present
        return Scales(0.0, SumScale(), SumScale(), has_weights)
    low, most, _, heaviest, largest = _of_keys(keys).tolist()
    least = -low
    shift = 0.0
    if centre:
        steepest = max(abs(low), abs(most))
        scale = exact_scale(steepest, sum(part.present.size for part in parts))
        n_rows, total = merged([part.count_and_sum(scale) for part in parts]).tolist()
        shift = _shift(scale.back(total / n_rows), least, most)
    if not has_weights:
        heaviest, largest = 1.0, min(max(most - shift, shift - least), _LARGEST)
    elif shift != 0.0:
        largest = float(_of_keys(max(part.largest_product(shift) for part in parts))[0])
    n_terms = max(n_draws, _LEAST_TERMS)
    of_weights = exact_scale(heaviest, n_terms) if has_weights else SumScale()
    return Scales(shift, exact_scale(largest, n_terms), of_weights, has_weights)


def _of_keys(keys: Array) -> Floats:
    """The numbers that keys stand for."""
    numbers: Floats = (keys ^ ((keys >> 63) & ALL_BUT_SIGN)).view(np.float64)
    return numbers


def _shift(mean: float, least: float, most: float) -> float:
    """A number near the mean; whole targets of a small range minus it are whole multiples of a power of two."""
    spread = max(most - mean, mean - least)
    if spread <= 0.0:
        return mean
    _, exponent = math.frexp(spread)
    unit = math.ldexp(0.5, exponent)
    return round(mean / unit) * unit


# Packed targets, for each tree.


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """The rows of a tree, or a part of them, by source: what is summed over them, and their packed targets."""

    drawn: Array  # int32: how often each row was drawn
    whole: WholeTargets
    n_threads: int = 1

    @classmethod
    def of(cls, drawn: Array, whole: WholeTargets, n_threads: int = 1) -> DrawnRows:
        """The rows, as kernels take them."""
        return cls(read_only(np.ascontiguousarray(drawn, np.int32)), whole, n_threads)

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Draws, whole targets and whole weights."""
        return self.drawn, self.whole.targets, self.whole.weights

    def sizes(self) -> Array:
        """How many rows were drawn, and the sums of their whole weights and of the sizes of their whole targets."""
        return self._add(add_sizes, (3,), *self.arrays)

    def sum_leaves(self, leaf_of_source: Array, n_nodes: int) -> Array:
        """Each leaf's sums of whole targets and of whole weights: nodes × 2, and 0 in inner nodes."""
        return self._add(add_leaves, (n_nodes, 2), *self.arrays, leaf_of_source)

    def pack(self, units: Units, source_of_row: Array) -> PackedTargets:
        """The rows drawn at least once and their packed targets, in the order of ``source_of_row``."""
        n_all, n_rows = self.drawn.size, int(np.count_nonzero(self.drawn))
        by_source = np.empty(n_all, np.int64)
        block = {"n_threads": self.n_threads, "least": LEAST_ROWS}
        run_blocks(pack_rows, n_all, *self.arrays, units, by_source, **block)
        rows, packed = np.empty(n_rows + 1, np.uint32), np.empty(n_rows + 1, np.int64)
        counts = np.empty(n_rows + 1 if self.whole.scales.has_weights else 0, np.int64)
        gathered = (self.drawn, by_source, source_of_row, units.bits, rows, packed, counts)
        if n_rows == n_all:  # each row has a place of its own
            run_blocks(gather_bag, n_all, *gathered, **block)
        else:
            gather_bag(0, n_all, *gathered)
        return PackedTargets(rows[:n_rows], counts[:n_rows], packed[:n_rows], units)

    def _add(self, adder: Callable[..., Any], shape: tuple[int, ...], *arguments: Any) -> Array:
        return add_blocks(adder, self.drawn.size, shape, *arguments, n_threads=self.n_threads)


def choose_units(scales: Scales, sizes: Any) -> Units:
    """The units of a tree from the ``DrawnRows.sizes`` of its rows; those of parts are added before.

    The packed sums of a tree are at most its sums of sizes without the dropped bits, and one more for each row, since
    rows are rounded. Both fit into 62 bits together.
    """
    n_rows, weight, size = (int(number) for number in sizes)
    drop_weight = max(0, weight.bit_length() - _WEIGHT_BITS) if scales.has_weights else 0
    most_weight = (weight >> drop_weight) + (n_rows if drop_weight else 0)
    bits = max(1, most_weight.bit_length())
    drop = max(0, size.bit_length() - (_SUM_BITS - bits))
    while (size >> drop) + n_rows >= 1 << (_SUM_BITS - bits):
        drop += 1
    target_unit = scales.of_targets.times_power_of_two(-drop, _LARGEST_EXPONENT)
    weight_unit = scales.of_weights.times_power_of_two(-drop_weight, _LARGEST_EXPONENT)
    return Units(n_rows, bits, drop, drop_weight, scales.shift, target_unit, weight_unit)


def pack(
    targets: Floats,
    drawn: Array,
    weights: Floats | None = None,
    *,
    centre: bool = True,
) -> PackedTargets:
    """Pack the targets of the rows drawn at least once, in the order of the sources: both steps for one tree."""
    whole = whole_targets(
        TargetRows.of(targets, weights, drawn > 0), int(np.sum(drawn)), centre=centre
    )
    rows = DrawnRows.of(drawn, whole)
    source_of_row = read_only(np.arange(rows.drawn.size, dtype=np.int32))
    return rows.pack(choose_units(whole.scales, rows.sizes()), source_of_row)


# The passes over the rows from ``first`` to ``last``, by source. Rows that are not present, or not drawn, count for
# nothing, whatever their targets are. Loops run over slices and select whole numbers, so that the compiler can use
# vector instructions.


@kernel
def weight_of(row, present, weights):
    """The weight of a row; 0 where it is not present."""
    weight = np.float64(present[row])
    return weight * weights[row] if weights.size > 0 else weight


@kernel
def find_extents(first, last, present, targets, weights, extents):
    """The ``EXTENTS`` of the rows; those of weights only where rows have them."""
    present, targets, weights = present[first:last], targets[first:last], weights[first:last]
    bits = targets.view(np.int64)
    low = NO_KEY
    high = NO_KEY
    is_any = np.int32(0)
    for row in range(present.size):
        key = bits[row] ^ ((bits[row] >> 63) & ALL_BUT_SIGN)
        low = max(low, ~key if present[row] > 0 else NO_KEY)
        high = max(high, key if present[row] > 0 else NO_KEY)
        is_any = max(is_any, present[row])
    extents[0] = low
    extents[1] = high
    extents[2] = is_any
    if weights.size > 0:
        heaviest, largest = largest_products(present, targets, weights, 0.0)
        extents[3] = heaviest
        extents[4] = largest


@kernel
def find_largest_product(first, last, present, targets, weights, shift, keys):
    """The key of the largest |weight · (target - shift)|."""
    present, targets, weights = present[first:last], targets[first:last], weights[first:last]
    _, largest = largest_products(present, targets, weights, shift)
    keys[0] = largest


@kernel
def largest_products(present, targets, weights, shift):
    """The keys of the greatest weight and the greatest |weight · (target - shift)|."""
    masses, sizes = np.empty(CHUNK), np.empty(CHUNK)
    mass_keys, size_keys = masses.view(np.int64), sizes.view(np.int64)
    heaviest = np.int64(0)
    largest = np.int64(0)
    for begin in range(0, present.size, CHUNK):
        is_there, some = present[begin : begin + CHUNK], targets[begin : begin + CHUNK]
        given = weights[begin : begin + CHUNK]
        for row in range(is_there.size):
            weight = weight_of(row, is_there, given)
            masses[row] = weight
            sizes[row] = abs((some[row] - shift) * weight)
        for row in range(is_there.size):
            key = size_keys[row]
            heaviest = max(heaviest, mass_keys[row])
            largest = max(largest, key if is_there[row] > 0 else np.int64(0))
    return heaviest, largest


@kernel
def add_present(first, last, present, targets, scale, sums):
    """Count the rows that are present, and add their targets."""
    present, targets = present[first:last], targets[first:last]
    n_rows = np.int64(0)
    total = np.int64(0)
    for row in range(present.size):
        target = targets[row] if present[row] > 0 else 0.0  # another's may be beyond the scale
        n_rows += present[row] > 0
        total += whole(target, scale)
    sums[0] += n_rows
    sums[1] += total


@kernel
def make_whole(first, last, present, targets, weights, scales, whole_targets, whole_weights):
    """Fill in the whole targets, and the whole weights where rows have weights."""
    present, targets, weights = present[first:last], targets[first:last], weights[first:last]
    whole_targets, whole_weights = whole_targets[first:last], whole_weights[first:last]
    for row in range(present.size):
        weight = weight_of(row, present, weights)
        target = whole((targets[row] - scales.shift) * weight, scales.of_targets)
        whole_targets[row] = target if present[row] > 0 else np.int64(0)
    if weights.size > 0:
        for row in range(present.size):
            whole_weights[row] = whole(weight_of(row, present, weights), scales.of_weights)


@kernel
def add_sizes(first, last, drawn, targets, weights, sums):
    """Count the rows drawn; add their weights and the sizes of their targets."""
    drawn, targets, weights = drawn[first:last], targets[first:last], weights[first:last]
    n_rows = np.int64(0)
    weight = np.int64(0)
    size = np.int64(0)
    for row in range(drawn.size):
        n_draws = np.int64(drawn[row])
        n_rows += n_draws > 0
        size += n_draws * abs(targets[row])
        weight += n_draws * weights[row] if weights.size > 0 else n_draws
    sums[0] += n_rows
    sums[1] += weight
    sums[2] += size


@kernel
def add_leaves(first, last, drawn, targets, weights, leaf_of_source, sums):
    """Add the whole target and the whole weight of each row, as often as it was drawn, to the sums of its leaf."""
    drawn, targets, weights = drawn[first:last], targets[first:last], weights[first:last]
    leaves = leaf_of_source[first:last]
    for row in range(drawn.size):
        n_draws = np.int64(drawn[row])
        node = np.uint64(max(leaves[row], 0))
        sums[node, 0] += n_draws * targets[row]
        sums[node, 1] += n_draws * weights[row] if weights.size > 0 else n_draws


@kernel
def pack_rows(first, last, drawn, targets, weights, units, packed):
    """The packed target of each row."""
    drawn, targets, weights = drawn[first:last], targets[first:last], weights[first:last]
    packed = packed[first:last]
    half = (np.int64(1) << units.drop) >> 1
    half_weight = (np.int64(1) << units.drop_weight) >> 1
    for row in range(drawn.size):
        n_draws = np.int64(drawn[row])
        weight = n_draws * weights[row] if weights.size > 0 else n_draws
        scaled = (n_draws * targets[row] + half) >> units.drop
        packed[row] = (scaled << units.bits) + ((weight + half_weight) >> units.drop_weight)


@kernel
def gather_bag(first, last, drawn, by_source, source_of_row, bits, rows, packed, counts):
    """List the rows drawn at least once, ascending, with their packed targets; the arrays need room for one more.

    All rows before ``first`` were drawn. ``counts`` are filled unless empty; if they are, packed targets hold the
    draws. The loop is branch-free, because whether a row was drawn cannot be predicted.
    """
    mask = (np.int64(1) << bits) - 1
    n_rows = np.uint64(first)
    for row in range(np.uint64(first), np.uint64(last)):
        source = np.uint64(source_of_row[row])
        rows[n_rows] = row
        value = by_source[source]
        packed[n_rows] = value
        n_draws = value & mask
        if counts.size > 0:
            n_draws = np.int64(drawn[source])
            counts[n_rows] = n_draws
        n_rows += np.uint64(n_draws > 0)
