"""``Bags``: which rows each tree of an ensemble sees, and how often.

Words used here
    unit      what is drawn: a row, or a query with all its rows
    count     how often a row was drawn; a row with count 0 is *out of the bag* of its tree
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood._core.random import stream
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import ParameterError
from rankwood.trees.workspace import uniform

UNITS = ("row", "query")


def stream_number(seed: int, purpose: str, tree: int) -> int:
    """The number that a tree's draws for one purpose are hashed from; it fits into int64."""
    return int(stream(seed, purpose, tree).integers(1 << 62))


@dataclass(frozen=True, eq=False)
class Bags:
    """The bag of every tree, by its number.

    Parameters
    ----------
    n_rows
        Rows of the training data.
    query_of_row
        The query of each row when whole queries are drawn; None to draw rows.
    share
        How many units are drawn, as a share of those there are; at least one.
    replacement
        Whether a unit may be drawn twice.
    weights
        Draw rows in proportion to these, and queries in proportion to the mean weight of their rows; None draws all
        alike. Needs replacement.
    present
        One truth value per row: the others are no part of the data and never in a bag. None where all are.
    """

    n_rows: int
    query_of_row: Rows | None = None
    share: float = 1.0
    replacement: bool = True
    weights: Floats | None = None
    present: Array | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.weights is not None and not self.replacement:
            raise ParameterError("drawing by weight needs replacement.")

    @functools.cached_property
    def units(self) -> Rows:
        """The rows, or the numbers of the queries, that can be drawn."""
        rows = np.arange(self.n_rows) if self.present is None else np.flatnonzero(self.present)
        return rows if self.query_of_row is None else np.unique(self.query_of_row[rows])

    def counts(self, tree: int) -> Array:
        """How often each row is drawn for a tree: int32."""
        n_units = self.n_rows if self._has_all_rows else self.units.size
        drawn: Array = np.zeros(n_units, np.int32)
        n_draws = max(1, round(self.share * drawn.size))
        number = stream_number(self.seed, "bag", tree)
        if self.weights is not None:
            draw_by_weight(number, n_draws, *self._search, drawn)
        elif self.replacement:
            draw_with_replacement(number, n_draws, drawn)
        else:
            draw_without_replacement(number, n_draws, drawn)
        return self._counts_of_rows(drawn)

    def _counts_of_rows(self, drawn: Array) -> Array:
        """Counts of rows from those of the units."""
        if self._has_all_rows:
            return drawn
        if self.query_of_row is None:
            counts: Array = np.zeros(self.n_rows, np.int32)
            counts[self.units] = drawn
            return counts
        of_query = np.zeros(int(self.query_of_row.max()) + 1, np.int32)
        of_query[self.units] = drawn
        counts = of_query[self.query_of_row]
        return counts if self.present is None else counts * self.present

    @property
    def _has_all_rows(self) -> bool:
        """Whether the units are the rows, as they are: nobody need list them."""
        return self.query_of_row is None and self.present is None

    @functools.cached_property
    def _search(self) -> tuple[Floats, Rows]:
        """Running sums of the units' weights, and where to begin looking among them."""
        assert self.weights is not None
        of_unit = self.weights / self.weights.max()  # so that sums of extreme weights stay finite
        if self.query_of_row is not None:
            of_query = np.bincount(self.query_of_row, of_unit) / np.bincount(self.query_of_row)
            of_unit = of_query
        cumulative = np.cumsum(of_unit if self._has_all_rows else of_unit[self.units])
        # One mark early: rounding may carry a draw into the next entry of the guide.
        marks = (np.arange(cumulative.size) - 1) / cumulative.size * cumulative[-1]
        guide = np.searchsorted(cumulative, marks, side="right").astype(np.int64)
        return checks.read_only(cumulative), checks.read_only(guide)


# Drawing rows: how often each is drawn depends on the stream's number and on nothing else.
#
# Draw ``d`` of a stream is ``uniform(stream, d)``. 720,000 of them take a few milliseconds, and no
# lock is held.


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
