"""Statistics over queries: paired tests and their intervals, effect sizes, corrections, equivalence, spread over seeds.

Terms
    differences   one per query, value minus the baseline's, without NaN
    p             the probability, under the null hypothesis of a test, of a statistic at least as extreme as the one
                  that was observed, in either direction; it is not the probability of the null hypothesis
    family        the p values of one test that are corrected together
    margin        the largest difference that counts as none in practice

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

``interval_of`` gives the interval of a test: the differences that it would not reject. It excludes 0 where p is below
the level. For t it is Student's. For Wilcoxon's test it is that of the Hodges-Lehmann median: Walsh averages, zeros
left out as the test leaves them out. For randomisation it is Hartigan's (1969): means of random subsets of the queries.

``all_pairs_p`` compares all systems with each other: the greatest statistic of all pairs over random signs of the
queries gives p values that keep the family's level whichever pair is looked at, the best system's among them.

Intervals of single means are percentile bootstrap intervals. The queries of a collection are a sample of the queries
that could be asked, so queries are the unit that is resampled: as many as there are, with replacement, ``n_bootstrap``
times. The interval covers the middle share of the resampled means. With fewer than two queries there is nothing to
resample, and the interval is (nan, nan). Above ``MOST_UNITS`` queries, they are first assigned at random to that many
blocks of equal size, and blocks are resampled instead. The mean over blocks varies as the mean over queries does, and
the cost stays bounded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rankwood._core import random
from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.dtypes import Array, Floats, Rows

TESTS = ("wilcoxon", "t", "randomization")
CORRECTIONS = ("holm", "bonferroni", "none")
_MOST_ENUMERATED = 16  # queries: 65,536 ways to choose signs
_MOST_EXACT_DRAWS = 10_000  # with queries that do not differ, of the subsets of an exact test
_MOST_EXACT_RANKS = 50  # where scipy, too, leaves its exact distribution for the normal one
_GRAIN_BITS = 40  # of the largest value: 1e-12 of it is rounding, not a difference
_GROUP = 8  # queries whose signs are the bits of one byte
_GROUPS_AT_ONCE = 2048  # a table of 4 MB
_LOOKUPS_AT_ONCE = 1_000_000  # and 8 MB of sums
_ROUNDING = 1e-12  # of the sum of all amounts

_MOST_BLOCKS = 2000  # of queries that change their signs together, in comparisons of all pairs
_UNIT_GRAIN = 2.0**-46  # sums of up to _MOST_BLOCKS parts of unit vectors are exact in any order
_WEIGHTS_IN_ALL = 2_000_000  # drawn for a posterior, whatever the number of queries
_PRIOR_WEIGHT = 0.5  # of one query without a difference, as baycomp has it

MOST_UNITS = 10_000
_DRAWS_AT_ONCE = 2_000_000  # 16 MB of draws, whatever the number of queries
_WORDS_AT_ONCE = 4_000_000  # 16 MB of random words for the draws of a bootstrap
_WORDS_OF_PIECE = 1 << 17  # words that one thread generates at a time
_DRAWS_PER_THREAD = 50_000  # fewer are counted faster than a thread starts
_LOWER_HALF = 0xFFFFFFFF

Interval = tuple[float, float]
NO_INTERVAL: Interval = (float("nan"), float("nan"))


# Tests of paired differences.


def paired_differences(values: Floats, baseline: Floats) -> Floats:
    """The differences over the queries that both have a value of.

    They are whole multiples of 2⁻⁴⁰ times the largest value (1e-12 of it), so that values which differ by rounding
    alone are equal, and equal differences are ties.
    """
    return _rounded_differences(values, baseline)[~(np.isnan(values) | np.isnan(baseline))]


def _rounded_differences(values: Floats, baseline: Floats) -> Floats:
    """A difference per query, rounded; NaN where one of the two has no value."""
    is_known = ~(np.isnan(values) | np.isnan(baseline))
    one, other = np.abs(values[is_known]), np.abs(baseline[is_known])
    largest = max(one.max(initial=0.0), other.max(initial=0.0))
    if largest == 0.0:
        return np.where(is_known, 0.0, np.nan)
    grain = math.ldexp(1.0, max(math.frexp(largest)[1] - _GRAIN_BITS, -1000))
    rounded: Floats = np.round((values - baseline) / grain) * grain
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


# Intervals of tests: the differences that a test does not reject.


def interval_of(
    test: str, differences: Floats, level: float, *, n_resamples: int, seed: int
) -> Interval:
    """The interval of one of ``TESTS``, with confidence 1 - ``level``; it excludes 0 where p < ``level``.

    (nan, nan) where there are so few queries that the test rejects nothing at this level.
    """
    if differences.size < 2:
        return NO_INTERVAL
    if not differences.any():
        return (0.0, 0.0)
    if test == "t":
        return _t_interval(differences, level)
    if test == "wilcoxon":
        return _walsh_interval(differences[differences != 0.0], level)
    return _subset_interval(differences, level, n_resamples, seed)


def _t_interval(differences: Floats, level: float) -> Interval:
    from scipy.special import stdtrit  # heavy to load

    mean = float(differences.mean())
    if (differences == differences[0]).all():
        return (mean, mean)
    error = float(differences.std(ddof=1)) / math.sqrt(differences.size)
    half = float(stdtrit(differences.size - 1, 1.0 - level / 2.0)) * error
    return (mean - half, mean + half)


def _walsh_interval(changed: Floats, level: float) -> Interval:
    """The Walsh averages (mean of two differences, or of one with itself) that the signed-rank test leaves."""
    n_rejected = _rejected_rank_sum(signed_ranks(changed), level)
    if n_rejected < 0:
        return NO_INTERVAL
    ascending = np.sort(changed)
    return (
        _walsh_average(ascending, n_rejected + 1),
        -_walsh_average(-ascending[::-1], n_rejected + 1),
    )


def _rejected_rank_sum(ranks: Floats, level: float) -> int:
    """The greatest sum of positive ranks that is rejected as too small; -1 where none is."""
    amounts = np.abs(ranks)
    is_plain = np.unique(amounts).size == ranks.size <= _MOST_EXACT_RANKS
    if is_plain or ranks.size <= _MOST_ENUMERATED:
        counts = np.ones(1)  # of choices of signs, by twice the sum of the positive ranks
        for twice in np.rint(2.0 * amounts).astype(int).tolist():
            counts = np.concatenate([counts, np.zeros(twice)]) + np.concatenate(
                [np.zeros(twice), counts]
            )
        is_rejected = 2.0 * np.cumsum(counts) / 2.0**ranks.size < level
        return (int(is_rejected.sum()) - 1) // 2
    from scipy.special import ndtri  # heavy to load

    quantile = -float(ndtri(level / 2.0))
    middle, deviation = float(amounts.sum()), math.sqrt(float(np.square(ranks).sum()))
    return math.ceil((middle - quantile * deviation) / 2.0) - 1


def hodges_lehmann(differences: Floats) -> float:
    """The median of the Walsh averages of the differences other than 0, which Wilcoxon's interval is of; 0 without any.

    It is in the middle of ``interval_of`` "wilcoxon", where the mean of skewed differences may lie outside.
    """
    ascending = np.sort(differences[differences != 0.0])
    if differences.size == 0 or ascending.size == 0:
        return 0.0 if differences.size else float("nan")
    n_averages = ascending.size * (ascending.size + 1) // 2
    low, high = (
        _walsh_average(ascending, rank) for rank in ((n_averages + 1) // 2, n_averages // 2 + 1)
    )
    return 0.5 * (low + high)


def _walsh_average(ascending: Floats, rank: int) -> float:
    """The Walsh average of this rank, from 1, without making all n (n + 1) / 2 of them."""
    own = np.arange(ascending.size)

    def firsts_above(limit: float) -> Rows:
        """For each difference the first at or after it with which its mean is above the limit."""
        above: Rows = np.searchsorted(ascending, 2.0 * limit - ascending, side="right")
        return np.maximum(above, own)

    low, high = float(ascending[0]) - 1.0, float(ascending[-1])
    for _ in range(70):  # the average of this rank is above low, and at most high
        middle = 0.5 * (low + high)
        if int((firsts_above(middle) - own).sum()) < rank:
            low = middle
        else:
            high = middle
    following = firsts_above(low)
    inside = following < ascending.size
    return float((0.5 * (ascending[own[inside]] + ascending[following[inside]])).min())


def _subset_interval(differences: Floats, level: float, n_resamples: int, seed: int) -> Interval:
    """The means of subsets of the queries that the randomisation test leaves.

    To reject a difference is to find few subsets (the queries that change their sign) whose mean is at most that
    difference. Draws are those of ``randomization``, each with its complement, so that the interval excludes 0 exactly
    where p is below the level. Queries without a difference join a subset by a coin.
    """
    changed = differences[differences != 0.0]
    n_equal, total = differences.size - changed.size, float(changed.sum())
    generator = random.stream(seed, "queries without a difference")
    if changed.size <= _MOST_ENUMERATED:
        bits = np.arange(2**changed.size)[:, np.newaxis] >> np.arange(changed.size) & 1
        copies = -(-_MOST_EXACT_DRAWS // len(bits))
        sums = np.tile(np.einsum("sq,q->s", bits.astype(np.float64), changed), copies)
        sizes = np.tile(bits.sum(axis=1), copies) + generator.binomial(n_equal, 0.5, sums.size)
        rank = math.ceil(level / 2.0 * sums.size - 1e-9)
    else:
        drawn = 0.5 * (total - _sums_by_random_signs(changed, n_resamples, seed))
        flipped = 0.5 * (
            changed.size - _sums_by_random_signs(np.ones(changed.size), n_resamples, seed)
        )
        flipped += generator.binomial(n_equal, 0.5, n_resamples)
        sums = np.concatenate([drawn, total - drawn])
        sizes = np.concatenate([flipped, differences.size - flipped])
        rank = math.ceil(level * (1.0 + n_resamples) - 1.0 - 1e-9)
    sums[np.abs(sums) <= _ROUNDING * float(np.abs(changed).sum())] = 0.0
    is_empty = sizes == 0
    means = np.divide(sums, sizes, out=np.zeros(sums.size), where=~is_empty)
    if rank < 1 or rank > means.size:
        return NO_INTERVAL
    low = np.partition(np.where(is_empty, -np.inf, means), rank - 1)[rank - 1]
    high = np.partition(np.where(is_empty, np.inf, means), -rank)[-rank]
    return (float(low), float(high)) if np.isfinite([low, high]).all() else NO_INTERVAL


# All pairs of systems at once.


def all_pairs_p(
    test: str, values: Sequence[Floats], *, n_resamples: int, seed: int
) -> dict[tuple[int, int], float]:
    """By pair of numbers (the smaller first), p values that are corrected over all pairs of systems.

    The statistic of a pair is |Σ x| / √(Σ x²) over queries, where x is the difference, or for "wilcoxon" its signed
    rank: the t statistic, and the normal score of the signed-rank test, in other units. All pairs change their signs
    together, query by query, which keeps the dependence between systems; p is the share of draws in which the greatest
    statistic of all pairs reaches that of the pair (Westfall and Young 1993, single step). It assumes what the
    randomisation test assumes of each pair, and holds whichever of the systems are alike.
    """
    pairs = list(combinations(range(len(values)), 2))
    if len(pairs) == 1:  # nothing to correct for
        p = p_value(test, paired_differences(*values), n_resamples=n_resamples, seed=seed)
        return {pairs[0]: p}
    columns = np.stack([_signed_parts(test, values[a], values[b]) for a, b in pairs], axis=1)
    n_common = (~np.isnan(columns)).sum(axis=0)
    parts = _unit_parts(np.nan_to_num(columns, nan=0.0), seed)
    reached = np.abs(parts.sum(axis=0)) - 1e-9
    greatest = np.sort(_greatest_by_random_signs(parts, n_resamples, seed))
    n_above = n_resamples - np.searchsorted(greatest, reached)
    p_values = np.where(parts.any(axis=0), (1.0 + n_above) / (1.0 + n_resamples), 1.0)
    p_values[n_common < 2] = np.nan
    return dict(zip(pairs, p_values.tolist(), strict=True))


def _signed_parts(test: str, one: Floats, other: Floats) -> Floats:
    """What a test of one pair adds up, query by query; NaN where one of the two has no value."""
    parts = _rounded_differences(one, other)
    if test == "wilcoxon":
        is_changed = (parts != 0.0) & ~np.isnan(parts)
        parts[is_changed] = signed_ranks(parts[is_changed])
    return parts


def _unit_parts(parts: Floats, seed: int) -> Floats:
    """The columns with length 1, summed over random blocks of queries where there are very many."""
    if len(parts) > _MOST_BLOCKS:
        shuffled = random.stream(seed, "blocks of pairs").permutation(len(parts))
        parts = Resampling(shuffled % _MOST_BLOCKS, _MOST_BLOCKS, 0, 0.0, seed).sums(parts)
    lengths = np.sqrt(np.square(parts).sum(axis=0))
    units = np.divide(parts, lengths, out=np.zeros_like(parts), where=lengths > 0.0)
    rounded: Floats = np.round(units / _UNIT_GRAIN) * _UNIT_GRAIN
    return rounded


def _greatest_by_random_signs(parts: Floats, n_resamples: int, seed: int) -> Floats:
    """For each draw of a sign per row, the greatest sum of a column, whatever its sign."""
    generator = random.stream(seed, "signs of all pairs")
    at_once = max(1, _DRAWS_AT_ONCE // max(parts.shape))
    greatest = np.empty(n_resamples)
    for start in range(0, n_resamples, at_once):
        n_rows = min(at_once, n_resamples - start)
        bits = generator.integers(0, 2, (n_rows, len(parts)), dtype=np.uint8)
        # `@` is safe here: these sums are exact, in whatever order a BLAS adds
        sums = (1.0 - 2.0 * bits) @ parts
        greatest[start : start + n_rows] = np.abs(sums).max(axis=1)
    return greatest


# How small a difference is: equivalence, what could have been detected, and the posterior.


def equivalence_p(differences: Floats, margin: float) -> float:
    """The p value of two one-sided t tests (TOST, Schuirmann 1987): small where the mean is within ±``margin``."""
    from scipy.special import stdtr  # heavy to load

    if differences.size < 2:
        return float("nan")
    mean = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(differences.size)
    if error == 0.0 or (differences == differences[0]).all():
        return 0.0 if abs(mean) < margin else 1.0
    return float(stdtr(differences.size - 1, (abs(mean) - margin) / error))


def equivalent_within(differences: Floats, level: float) -> float:
    """The smallest margin for which ``equivalence_p`` would be at most ``level``."""
    if differences.size < 2:
        return float("nan")
    return max(map(abs, _t_interval(differences, 2.0 * level)))


def detectable_difference(differences: Floats, level: float, power: float) -> float:
    """The true mean difference that a t test at ``level`` would find with probability ``power``.

    The number of queries and the standard deviation of their differences are those at hand.
    """
    if differences.size < 2:
        return float("nan")
    deviation = float(differences.std(ddof=1))
    return (
        0.0 if deviation == 0.0 else deviation * detectable_effect(differences.size, level, power)
    )


@functools.lru_cache(maxsize=256)
def detectable_effect(n_queries: int, level: float, power: float) -> float:
    """``detectable_difference`` in standard deviations of the differences (d_z)."""
    from scipy.optimize import brentq  # heavy to load
    from scipy.special import nctdtr, stdtrit

    limit = float(stdtrit(n_queries - 1, 1.0 - level / 2.0))
    root = math.sqrt(n_queries)

    def missing(effect: float) -> float:
        tails = nctdtr(n_queries - 1, effect * root, np.array([-limit, limit]))
        below, not_above = np.nan_to_num(tails, nan=0.0)  # scipy has NaN for what is almost 0
        return float(1.0 - not_above + below) - power

    most = 1.0
    while missing(most) < 0.0:
        most *= 2.0
    return float(brentq(missing, 0.0, most, xtol=1e-10))


def bayesian_signed_rank(
    differences: Floats, margin: float, *, n_resamples: int, seed: int
) -> tuple[float, float, float]:
    """The probabilities that differences are below -``margin``, within ±``margin``, and above it.

    Benavoli, Corani, Demšar and Zaffalon (2017): a Dirichlet process with one pseudo-query of no difference and weight
    0.5 as its prior. Each draw weighs the queries, and says how often the mean of two of them is in each of the three
    regions; the probability of a region is the share of draws in which it is the largest. At most two million weights
    are drawn, so that there are fewer than 10,000 draws above 200 queries, and never fewer than 200.
    """
    if differences.size < 2:
        return (float("nan"),) * 3
    ascending = np.sort(np.append(differences, 0.0))
    prior = int(np.searchsorted(ascending, 0.0))
    n_below = np.searchsorted(ascending, -2.0 * margin - ascending, side="left")
    n_up_to = np.searchsorted(ascending, 2.0 * margin - ascending, side="right")
    shapes = np.ones(ascending.size)
    shapes[prior] = _PRIOR_WEIGHT
    n_draws = min(n_resamples, max(200, _WEIGHTS_IN_ALL // ascending.size))
    generator = random.stream(seed, "weights of queries")
    wins = np.zeros(3)
    at_once = max(1, _DRAWS_AT_ONCE // ascending.size)
    for start in range(0, n_draws, at_once):
        n_rows = min(at_once, n_draws - start)
        weights = generator.standard_gamma(shapes, (n_rows, ascending.size))
        weights /= weights.sum(axis=1, keepdims=True)
        sums = np.concatenate([np.zeros((n_rows, 1)), np.cumsum(weights, axis=1)], axis=1)
        lower = (weights * sums[:, n_below]).sum(axis=1)
        higher = 1.0 - (weights * sums[:, n_up_to]).sum(axis=1)
        regions = np.stack([lower, 1.0 - lower - higher, higher], axis=1)
        if margin == 0.0:  # nothing is between the two but exact zeros, which favour neither
            regions[:, 1] = -1.0
        wins += np.bincount(regions.argmax(axis=1), minlength=3)
    worse, equal, better = (wins / n_draws).tolist()
    return worse, equal, better


# Spread over seeds.


@dataclass(frozen=True)
class VarianceComponents:
    """Variances of one value: of queries, of seeds (fits), and of what a seed does to a query; NaN where unknown."""

    query: float
    seed: float
    query_by_seed: float

    @property
    def shares(self) -> tuple[float, float, float]:
        """Of the three in their sum."""
        total = self.query + self.seed + self.query_by_seed
        if not total > 0.0:
            return (float("nan"),) * 3
        return self.query / total, self.seed / total, self.query_by_seed / total


def variance_components(values: Floats, fold_of_query: Rows) -> VarianceComponents:
    """The components of values (repetitions × queries), by the analysis of variance of two crossed random factors.

    Queries and seeds are crossed within a fold, where each repetition is one fit; sums of squares and degrees of
    freedom are added over folds. Only queries count that every counted repetition of their fold has a value of. A
    negative estimate is 0.
    """
    squares, freedom = np.zeros(3), np.zeros(3)  # query, seed, query × seed
    n_repetitions: list[int] = []
    n_queries: list[int] = []
    for fold in np.unique(fold_of_query):
        own = values[:, fold_of_query == fold]
        own = own[~np.isnan(own).all(axis=1)]
        own = own[:, ~np.isnan(own).any(axis=0)]
        if min(own.shape) < 2:
            continue
        n_rows, n_columns = own.shape
        by_query, by_seed = own.mean(axis=0), own.mean(axis=1)
        rest = own - by_query - by_seed[:, np.newaxis] + own.mean()
        squares += [
            n_rows * np.square(by_query - own.mean()).sum(),
            n_columns * np.square(by_seed - own.mean()).sum(),
            np.square(rest).sum(),
        ]
        freedom += [n_columns - 1, n_rows - 1, (n_columns - 1) * (n_rows - 1)]
        n_repetitions.append(n_rows)
        n_queries.append(n_columns)
    if not n_queries:
        return VarianceComponents(*(float("nan"),) * 3)
    of_query, of_seed, of_both = (squares / freedom).tolist()
    query = max((of_query - of_both) / float(np.mean(n_repetitions)), 0.0)
    seed = max((of_seed - of_both) / float(np.mean(n_queries)), 0.0)
    return VarianceComponents(query, seed, of_both)


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
    n_threads: int | None = None  # they change no result

    @classmethod
    def of(
        cls,
        n_queries: int,
        n_bootstrap: int,
        confidence: float,
        seed: int,
        n_threads: int | None = None,
    ) -> Resampling:
        """The resampling of ``n_queries`` queries: one unit per query, or blocks above ``MOST_UNITS``."""
        rules = (n_bootstrap, confidence, seed)
        if n_queries <= MOST_UNITS:
            return cls(np.arange(n_queries), n_queries, *rules, n_threads=n_threads)
        shuffled = random.stream(seed, "bootstrap blocks").permutation(n_queries)
        return cls(shuffled % MOST_UNITS, MOST_UNITS, *rules, n_threads=n_threads)

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
        for words, starts in self._draws(n_resamples):
            counts = np.empty((starts.size, self.n_units))
            self._run(count_draws, words, starts, counts)
            yield counts

    def _draws(self, n_resamples: int | None) -> Iterator[tuple[Array, Rows]]:
        """Random words in batches, and the first word of each resample among them.

        Word for word this is ``stream(seed, name).integers(0, n_units, (n_resamples, n_units))``, by Lemire's method:
        a unit is the upper half of a 32-bit word times ``n_units``, and one word in a million is refused.
        """
        left = self.n_bootstrap if n_resamples is None else n_resamples
        at_once = max(1, _WORDS_AT_ONCE // self.n_units)
        first_word = 0
        while left > 0:
            # One resample more than needed makes up for the words that are refused.
            words = np.empty((min(left, at_once) + 1) * self.n_units, np.uint32)
            n_pieces = -(-words.size // _WORDS_OF_PIECE)
            refused_of_piece: list[Rows] = [np.zeros(0, np.int64)] * n_pieces
            run_blocks(
                self._fill, n_pieces, first_word, words, refused_of_piece, n_threads=self.n_threads
            )
            refused = np.concatenate(refused_of_piece)
            n_rows = min(left, at_once, (words.size - refused.size) // self.n_units)
            starts: Rows = np.arange(n_rows + 1) * self.n_units
            starts += np.searchsorted(refused - np.arange(refused.size), starts, side="right")
            yield read_only(words), read_only(starts[:-1])
            first_word += int(starts[-1])
            left -= n_rows

    def _fill(
        self, first: int, last: int, first_word: int, words: Array, refused_of_piece: list[Rows]
    ) -> None:
        """Write the pieces ``first`` to ``last`` of the words from ``first_word`` on; note which are refused."""
        for piece in range(first, last):
            begin = piece * _WORDS_OF_PIECE
            part = words[begin : begin + _WORDS_OF_PIECE]
            n_skipped = (first_word + begin) % 2  # of the two words in 64 bits
            generator = random.stream(self.seed, self.name)
            generator.bit_generator.advance((first_word + begin) // 2)  # type: ignore[attr-defined]
            drawn = generator.integers(0, 1 << 32, part.size + n_skipped, np.uint32)
            part[:] = drawn[n_skipped:]
            if count_refused(part, self.n_units):
                rests = part.astype(np.int64) * self.n_units & _LOWER_HALF
                refused_of_piece[piece] = begin + np.flatnonzero(rests < (1 << 32) % self.n_units)

    def _run(self, kernel: Any, words: Array, starts: Rows, *arguments: Any) -> None:
        """Run a kernel over blocks of resamples."""
        least = 1 + _DRAWS_PER_THREAD // self.n_units
        shared = (words, starts, self.n_units, *arguments)
        run_blocks(kernel, starts.size, *shared, n_threads=self.n_threads, least=least)

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
        sums = read_only(np.ascontiguousarray(sums))
        drawn, first = np.empty((self.n_bootstrap, 2 * n_columns)), 0
        for words, starts in self._draws(None):
            self._run(add_draws, words, starts, sums, drawn[first : first + starts.size])
            first += starts.size
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


# Kernels. A word of 32 random bits becomes a unit; see ``Resampling._draws``.


@kernel
def count_refused(words: Array, n_units: int) -> int:
    """How many words are refused, since without them every unit is drawn equally often."""
    least_rest = (1 << 32) % n_units
    n_refused = 0
    for place in range(words.size):
        n_refused += int(np.int64(words[place]) * n_units & _LOWER_HALF < least_rest)
    return n_refused


@kernel
def draw_resample(words: Array, start: int, n_units: int, counts: Array) -> None:
    """How often each unit is in the resample whose words begin at ``start``."""
    least_rest = (1 << 32) % n_units
    for unit in range(n_units):
        counts[unit] = 0.0
    place = start
    n_left = n_units
    while n_left > 0:
        product = int(np.int64(words[place]) * n_units)
        place += 1
        if product & _LOWER_HALF >= least_rest:
            counts[product >> 32] += 1.0
            n_left -= 1


@kernel
def count_draws(
    first: int, last: int, words: Array, starts: Rows, n_units: int, counts: Array
) -> None:
    """How often each unit is in each resample."""
    for resample in range(first, last):
        draw_resample(words, starts[resample], n_units, counts[resample])


@kernel
def add_draws(
    first: int, last: int, words: Array, starts: Rows, n_units: int, sums: Array, totals: Array
) -> None:
    """Each resample's sum of the rows of ``sums`` (units × columns), by unit in ascending order."""
    counts = np.empty(n_units, np.float64)
    for resample in range(first, last):
        draw_resample(words, starts[resample], n_units, counts)
        for column in range(sums.shape[1]):
            totals[resample, column] = 0.0
        for unit in range(n_units):
            for column in range(sums.shape[1]):
                totals[resample, column] += counts[unit] * sums[unit, column]
