"""Percentile bootstrap intervals by resampling queries.

The queries of a collection are a sample of the queries that could be asked, so queries are the unit that is resampled:
as many as there are, with replacement, ``n_bootstrap`` times. The interval covers the middle share of the resampled
means. With fewer than two queries there is nothing to resample, and the interval is (nan, nan).

Above ``MOST_UNITS`` queries, they are first assigned at random to that many blocks of equal size, and blocks are
resampled instead. The mean over blocks varies as the mean over queries does, and the cost stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankwood._core import random
from rankwood.dtypes import Floats, Rows

MOST_UNITS = 10_000
_DRAWS_AT_ONCE = 2_000_000  # 16 MB of draws, whatever the number of queries

Interval = tuple[float, float]
NO_INTERVAL: Interval = (float("nan"), float("nan"))


@dataclass(frozen=True, eq=False)
class Resampling:
    """How often each unit (a query, or a block of queries) is drawn, resample by resample."""

    unit_of_query: Rows
    n_units: int
    n_bootstrap: int
    confidence: float
    seed: int
    name: str = "bootstrap"

    @classmethod
    def of(cls, n_queries: int, n_bootstrap: int, confidence: float, seed: int) -> Resampling:
        """The resampling of ``n_queries`` queries: one unit per query, or blocks above ``MOST_UNITS``."""
        if n_queries <= MOST_UNITS:
            return cls(np.arange(n_queries), n_queries, n_bootstrap, confidence, seed)
        shuffled = random.stream(seed, "bootstrap blocks").permutation(n_queries)
        return cls(shuffled % MOST_UNITS, MOST_UNITS, n_bootstrap, confidence, seed)

    def sums(self, values: Floats) -> Floats:
        """The sum of ``values`` (queries × columns) over each unit's queries."""
        if self.n_units == len(values):
            return values
        columns = [np.bincount(self.unit_of_query, column, self.n_units) for column in values.T]
        return np.stack(columns, axis=1)

    def counts(self, n_resamples: int | None = None) -> Iterator[Floats]:
        """How often each unit is drawn (resamples × units), in batches of resamples.

        The counts depend on the seed alone: neither on the size of batches nor on threads.
        """
        generator = random.stream(self.seed, self.name)
        left = self.n_bootstrap if n_resamples is None else n_resamples
        at_once = max(1, _DRAWS_AT_ONCE // self.n_units)
        while left > 0:
            n_rows = min(left, at_once)
            draws = generator.integers(0, self.n_units, (n_rows, self.n_units))
            draws += np.arange(n_rows)[:, np.newaxis] * self.n_units
            counts = np.bincount(draws.ravel(), minlength=n_rows * self.n_units)
            yield counts.reshape(n_rows, self.n_units).astype(np.float64)
            left -= n_rows

    def interval(self, estimates: Floats) -> Interval:
        """The middle ``confidence`` share of the estimates, ignoring undefined ones."""
        defined = estimates[np.isfinite(estimates)]
        if defined.size == 0:
            return NO_INTERVAL
        tail = (1.0 - self.confidence) / 2.0
        low, high = np.quantile(defined, [tail, 1.0 - tail])
        return float(low), float(high)

    def ratio_intervals(self, numerators: Floats, denominators: Floats) -> list[Interval]:
        """Intervals of Σ numerator / Σ denominator over queries, one per column."""
        n_columns = numerators.shape[1]
        if len(numerators) < 2 or self.n_bootstrap == 0:
            return [NO_INTERVAL] * n_columns
        sums = self.sums(np.concatenate([numerators, denominators], axis=1))
        # not `counts @ sums`: a BLAS may add in another order with another number of threads
        drawn = np.concatenate([np.einsum("ru,uc->rc", counts, sums) for counts in self.counts()])
        above, below = drawn[:, :n_columns], drawn[:, n_columns:]
        estimates = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
        return [self.interval(column) for column in estimates.T]


def weighted_values(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Values (queries × columns) times the weights of queries, and the weights; NaN values have weight 0.

    The sum of the first divided by the sum of the second is the weighted mean of a column.
    """
    is_counted = ~np.isnan(values)
    weight = weights[:, np.newaxis] * is_counted
    return weight * np.where(is_counted, values, 0.0), weight
