"""Statistics over queries: bootstrap intervals, paired tests, effect sizes, and corrections for multiple comparisons.

Terms
    differences   one per query, value minus the baseline's, without NaN
    p             how often chance alone would give a difference at least this large, in either direction
    family        the p values of one test that are corrected together

All p values are two-sided, 1 where no query differs, and NaN with fewer than two queries.

``wilcoxon``       the signed-rank test. Queries that do not differ are left out (Wilcoxon's own treatment of zeros),
                   and equal differences share their mean rank. Exact up to 16 queries that differ, and up to 50 if no
                   two differ by the same amount; else the normal approximation with tie correction, without continuity
                   correction.
``t``              Student's paired test.
``randomization``  Fisher's: each difference keeps or changes its sign by a coin. Exact up to 16 queries that differ,
                   otherwise by ``n_resamples`` draws, where p is (1 + as large ones) / (1 + draws), which is never 0.

Corrections keep the probability that any true null hypothesis of the family is rejected at the level. Without one,
twenty comparisons give one p < 0.05 by chance. Holm's (1979) is never weaker than Bonferroni's, and assumes no more.

Intervals are percentile bootstrap intervals. The queries of a collection are a sample of the queries that could be
asked, so queries are the unit that is resampled: as many as there are, with replacement, ``n_bootstrap`` times. The
interval covers the middle share of the resampled means. With fewer than two queries there is nothing to resample, and
the interval is (nan, nan). Above ``MOST_UNITS`` queries, they are first assigned at random to that many blocks of equal
size, and blocks are resampled instead. The mean over blocks varies as the mean over queries does, and the cost stays
bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankwood._core import random
from rankwood.dtypes import Floats, Rows

TESTS = ("wilcoxon", "t", "randomization")
CORRECTIONS = ("holm", "bonferroni", "none")
_MOST_ENUMERATED = 16  # queries: 65,536 ways to choose signs
_MOST_EXACT_RANKS = 50  # where scipy, too, leaves its exact distribution for the normal one
_GRAIN_BITS = 40  # of the largest value: 1e-12 of it is rounding, not a difference
_GROUP = 8  # queries whose signs are the bits of one byte
_GROUPS_AT_ONCE = 2048  # a table of 4 MB
_LOOKUPS_AT_ONCE = 1_000_000  # and 8 MB of sums
_ROUNDING = 1e-12  # of the sum of all amounts

MOST_UNITS = 10_000
_DRAWS_AT_ONCE = 2_000_000  # 16 MB of draws, whatever the number of queries

Interval = tuple[float, float]
NO_INTERVAL: Interval = (float("nan"), float("nan"))


# Tests of paired differences.


def paired_differences(values: Floats, baseline: Floats) -> Floats:
    """The differences over the queries that both have a value of.

    They are whole multiples of 2⁻⁴⁰ times the largest value (1e-12 of it), so that values which differ by rounding
    alone are equal, and equal differences are ties.
    """
    is_known = ~(np.isnan(values) | np.isnan(baseline))
    one, other = values[is_known], baseline[is_known]
    largest = max(np.abs(one).max(initial=0.0), np.abs(other).max(initial=0.0))
    if largest == 0.0:
        return np.zeros(one.size)
    grain = math.ldexp(1.0, max(math.frexp(largest)[1] - _GRAIN_BITS, -1000))
    rounded: Floats = np.round((one - other) / grain) * grain
    return rounded


def p_value(test: str, differences: Floats, *, n_resamples: int, seed: int) -> float:
    """The p value of one of ``TESTS``."""
    if differences.size < 2:
        return float("nan")
    if not differences.any():
        return 1.0
    if test == "t":
        return paired_t_test(differences)
    if test == "wilcoxon":
        return wilcoxon(differences)
    return randomization(differences, n_resamples, seed)


def paired_t_test(differences: Floats) -> float:
    """The p value of Student's paired test; NaN values are left out."""
    from scipy.special import stdtr  # heavy to load

    counted = differences[~np.isnan(differences)]
    if counted.size < 2:
        return float("nan")
    mean = float(counted.mean())
    error = float(counted.std(ddof=1)) / math.sqrt(counted.size)
    if error == 0.0 or (counted == counted[0]).all():  # no spread: certain, one way or the other
        return 1.0 if counted[0] == 0.0 else 0.0
    return float(2.0 * stdtr(counted.size - 1, -abs(mean) / error))


def wilcoxon(differences: Floats) -> float:
    """The p value of the signed-rank test, zeros left out."""
    ranks, amounts = signed_ranks(differences), np.unique(np.abs(differences[differences != 0.0]))
    if ranks.size <= _MOST_ENUMERATED:
        return _share_of_signs(ranks)
    if amounts.size == ranks.size <= _MOST_EXACT_RANKS:
        from scipy.stats import wilcoxon as exact  # heavy to load

        return float(exact(ranks, method="exact").pvalue)
    # W+ - W- has mean 0 and the sum of the squared ranks as its variance, whether or not ranks are shared
    from scipy.special import ndtr

    deviation = math.sqrt(float(np.square(ranks).sum()))
    return float(2.0 * ndtr(-abs(float(ranks.sum())) / deviation))


def signed_ranks(differences: Floats) -> Floats:
    """The ranks of the amounts of the differences other than 0, from 1, shared by equals, with their signs."""
    changed = differences[differences != 0.0]
    _, group, count = np.unique(np.abs(changed), return_inverse=True, return_counts=True)
    last = np.cumsum(count)  # the rank of each group's last member
    ranks: Floats = np.copysign((last - (count - 1) / 2.0)[group], changed)
    return ranks


def randomization(differences: Floats, n_resamples: int, seed: int) -> float:
    """The p value of Fisher's randomisation test of the mean."""
    changed = differences[differences != 0.0]
    if changed.size <= _MOST_ENUMERATED:
        return _share_of_signs(changed)
    reached = abs(float(changed.sum())) - _ROUNDING * float(np.abs(changed).sum())
    sums = _sums_by_random_signs(changed, n_resamples, seed)
    return (1.0 + float((np.abs(sums) >= reached).sum())) / (1.0 + n_resamples)


def _share_of_signs(amounts: Floats) -> float:
    """The share of all choices of signs whose sum is at least as far from 0 as that of ``amounts``."""
    sums = np.zeros(1)
    for amount in np.abs(amounts):
        sums = np.concatenate([sums + amount, sums - amount])
    reached = abs(float(amounts.sum())) - _ROUNDING * float(np.abs(amounts).sum())
    return float((np.abs(sums) >= reached).mean())


def _sums_by_random_signs(amounts: Floats, n_resamples: int, seed: int) -> Floats:
    """Sums with random signs. A byte of random bits has the signs of eight queries, whose sum stands in a table.

    So a resample of n queries takes n / 8 random bytes and as many look-ups, and memory does not grow with n.
    """
    sums = np.zeros(n_resamples)
    padded = np.zeros(-(-amounts.size // _GROUP) * _GROUP)
    padded[: amounts.size] = amounts
    groups = padded.reshape(-1, _GROUP)
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1)
    signs = 1.0 - 2.0 * bits
    for first in range(0, len(groups), _GROUPS_AT_ONCE):
        # not `@`: a BLAS may add in another order with another number of threads
        table = np.einsum("gq,bq->gb", groups[first : first + _GROUPS_AT_ONCE], signs)
        starts = np.arange(len(table)) * 256
        generator = random.stream(seed, "signs of differences", first)
        at_once = max(1, _LOOKUPS_AT_ONCE // len(table))
        for start in range(0, n_resamples, at_once):
            n_rows = min(at_once, n_resamples - start)
            drawn = generator.integers(0, 256, (n_rows, len(table)), dtype=np.uint8)
            sums[start : start + n_rows] += table.ravel()[drawn + starts].sum(axis=1)
    return sums


def cohens_d(differences: Floats) -> float:
    """Cohen's d of paired differences (d_z): their mean in units of their standard deviation.

    0 where nothing differs, infinite where all differ by the same, NaN with fewer than two queries.
    """
    if differences.size < 2:
        return float("nan")
    if (differences == differences[0]).all():
        return 0.0 if differences[0] == 0.0 else math.copysign(math.inf, differences[0])
    return float(differences.mean()) / float(differences.std(ddof=1))


def rank_biserial(differences: Floats) -> float:
    """The matched-pairs rank-biserial correlation: (W+ - W-) / (W+ + W-), from -1 (all worse) to 1 (all better).

    0 where nothing differs, NaN without queries.
    """
    if differences.size == 0:
        return float("nan")
    ranks = signed_ranks(differences)
    return float(ranks.sum() / np.abs(ranks).sum()) if ranks.size else 0.0


def adjusted(p_values: Floats, correction: str) -> Floats:
    """The p values of a family after a correction; compare them with the level itself. NaN stays and does not count."""
    result = np.full(p_values.shape, np.nan)
    is_known = ~np.isnan(p_values)
    known = p_values[is_known]
    if correction == "bonferroni":
        known = np.minimum(known * known.size, 1.0)
    elif correction == "holm":
        known = _holm(known)
    result[is_known] = known
    return result


def _holm(p_values: Floats) -> Floats:
    """Holm's step-down: the smallest p value times their number, the next times one less, …, never decreasing."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(p_values.size, 0, -1)
    result = np.empty(p_values.size)
    result[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return result


# Bootstrap intervals.


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
