"""Exact sums: sums over rows in whole numbers, so that neither the order of the rows nor their division matters.

A sum in float64 depends on the order of its terms. Here each term is rounded to a whole multiple of a power of two,
and the multiples are added as int64. Sums of parts of the rows are merged by adding their whole numbers: any number of
threads, blocks or machines gives the same bits.

The ``SumScale`` follows from the largest term and the number of terms, so that no sum can overflow. The largest of a
million terms keeps 42 bits, and a sum of n terms is off by at most ``n · largest · 2^(bit_length(n) - 62)``, which is
2^-22 of the largest term for a million. Whole numbers of a small range, such as labels, are summed without error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.dtypes import Array, Floats

LEAST_ROWS = 150_000  # in a block: each thread that is woken costs the caller some 30 µs
_SUM_BITS = 62  # of a sum; rounding adds less than one more
_LARGEST_EXPONENT = 1000  # of a factor: larger scales are two factors
_LIFT = 500  # exponent of the second factor


class SumScale(NamedTuple):
    """A power of two in two factors, since the scale of very small terms is beyond the range of float64."""

    unit: float = 1.0
    lift: float = 1.0

    def back(self, sums: Any) -> Any:
        """What whole sums, or quotients of them, stand for."""
        return sums / self.unit / self.lift

    def times_power_of_two(self, power: int, most: int) -> float:
        """The scale times 2^power, as one factor between 2^-most and 2^most."""
        exponent = math.frexp(self.unit)[1] + math.frexp(self.lift)[1] - 2 + power
        return math.ldexp(1.0, min(max(exponent, -most), most))


def exact_scale(largest: float, n_terms: int) -> SumScale:
    """The scale at which ``n_terms`` numbers of at most ``largest`` have a sum below 2^62, rounding aside."""
    if largest <= 0.0:
        return SumScale()
    _, exponent = math.frexp(largest)
    power = _SUM_BITS - int(n_terms).bit_length() - exponent
    lift = _LIFT if power > _LARGEST_EXPONENT else 0
    return SumScale(math.ldexp(1.0, power - lift), math.ldexp(1.0, lift))


def add_blocks(
    adder: Callable[..., Any],
    n_rows: int,
    shape: tuple[int, ...],
    *arguments: Any,
    n_threads: int | None = 1,
) -> Array:
    """The whole sums (int64) that ``adder(first, last, *arguments, sums)`` adds up over blocks of the rows.

    Each block has sums of its own, which are added in the end. One thread makes one plain call.
    """
    parts: list[Array] = []

    def add(first: int, last: int) -> None:
        sums = np.zeros(shape, np.int64)
        adder(first, last, *arguments, sums)
        parts.append(sums)

    run_blocks(add, n_rows, n_threads=n_threads, least=LEAST_ROWS)
    return merged(parts)


def merged(sums: Sequence[Array]) -> Array:
    """The whole sums of several parts of the rows as those of all rows."""
    whole_sums: Array = sums[0] if len(sums) == 1 else np.add.reduce(sums)
    return whole_sums


def exact_sum(values: Any, weights: Any = None) -> float:
    """``Σ value`` or ``Σ weight · value``, the same in any order; one with a NaN or an infinity is what numpy says."""
    terms = _terms(values, weights)
    scale = _scale_of(terms)
    if scale is None:
        return float(terms.sum())
    return float(scale.back(float(_whole(terms, scale).sum())))


def exact_mean(values: Any, weights: Any = None) -> float:
    """The mean of the values, or ``Σ weight · value / Σ weight``, the same in any order."""
    total = exact_sum(values, weights)
    return total / (np.size(values) if weights is None else exact_sum(weights))


def exact_products(left: Floats, right: Floats) -> Floats:
    """``leftᵀ right``: the sum over the rows of the product of each column of one with each column of the other."""
    return np.array([[exact_sum(one, other) for other in right.T] for one in left.T])


def exact_bincount(
    groups: Array, values: Any, n_groups: int, largest: float | None = None
) -> Floats:
    """The sum of the values of each group, as ``numpy.bincount`` gives it but the same in any order.

    No value exceeds ``largest``. Sums that are compared need the same one, else it is found.
    """
    terms = _terms(values)
    scale = _scale_of(terms) if largest is None else exact_scale(largest, terms.size)
    if scale is None:
        return np.bincount(groups, terms, n_groups).astype(np.float64)
    sums = np.zeros(n_groups, np.int64)
    add_to_groups(read_only(np.ascontiguousarray(groups, np.int64)), read_only(terms), scale, sums)
    back: Floats = scale.back(sums.astype(np.float64))
    return back


def exact_cumsum(values: Any) -> Floats:
    """Running sums, each of which is the same however the rows before it are divided."""
    terms = _terms(values)
    scale = _scale_of(terms)
    if scale is None:
        return np.cumsum(terms)
    back: Floats = scale.back(np.cumsum(_whole(terms, scale)).astype(np.float64))
    return back


def _terms(values: Any, weights: Any = None) -> Floats:
    terms: Floats = np.ascontiguousarray(values, np.float64).ravel()
    return terms if weights is None else terms * weights


def _whole(terms: Floats, scale: SumScale) -> Array:
    """The terms as multiples of the scale's unit."""
    scaled = terms * scale.lift
    scaled *= scale.unit  # in place: new memory for as many rows takes longer than the product
    whole_terms: Array = np.rint(scaled, out=scaled).astype(np.int64)
    return whole_terms


def _scale_of(terms: Floats) -> SumScale | None:
    """The scale of a sum of all terms; None where it is no finite number."""
    largest = max(float(terms.max(initial=0.0)), -float(terms.min(initial=0.0)))
    return exact_scale(largest, terms.size) if math.isfinite(largest) else None


@kernel
def whole(term: float, scale: SumScale) -> Any:
    """The term as a multiple of the scale's unit."""
    return np.int64(np.rint(term * scale.lift * scale.unit))


@kernel
def add_to_groups(groups: Array, terms: Array, scale: SumScale, sums: Array) -> None:
    """Add each term to the sum of its group."""
    for row in range(groups.size):
        sums[groups[row]] += whole(terms[row], scale)
