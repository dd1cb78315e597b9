"""``compare_values``: which of several rankings of the same queries differ, by how much, and how certain that is.

Every name is compared with a baseline over the queries that both have a value of (``PairResult``). One test decides
what is called significant, and its interval is the one that is shown. P values are corrected over all of a baseline's
pairs, test by test. Where a name was picked by its mean, as the best always is, they are corrected over all pairs of
names instead: who has the best mean of several equal names is luck, and looks better than it is. The statistics
themselves are in ``paired_tests``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError, UnknownName, counted
from rankwood.evaluation.paired_tests import (
    CORRECTIONS,
    TESTS,
    Interval,
    Resampling,
    adjusted,
    all_pairs_p,
    bayesian_signed_rank,
    cohens_d,
    detectable_difference,
    equivalence_p,
    equivalent_within,
    hodges_lehmann,
    interval_of,
    p_value,
    paired_differences,
    rank_biserial,
)
from rankwood.evaluation.results import Result, Tables, show_interval, show_number, show_p

__all__ = ["MARKS", "Comparison", "PairResult", "compare_values"]

DEFAULT_TESTS = ("t", "wilcoxon", "randomization")  # the first decides
NO_SHARES = (math.nan, math.nan, math.nan)
POWER = 0.8  # of the difference that is called detectable
ALL_PAIRS = "all pairs"
_MOST_RESAMPLES = 10_000_000
MARKS = {"t": "+", "wilcoxon": "*", "randomization": "r"}  # of a significant difference, by test
_TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "t", "randomization": "randomisation"}
INTERVAL_NAMES = {
    "t": "Student's, of the mean difference",
    "wilcoxon": "of the Hodges-Lehmann median of the differences that are not 0, which stands before it",
    "randomization": "of the mean difference, by the randomisation test",
}


@dataclass(frozen=True)
class PairResult:
    """The comparison of one name with the baseline, over the queries that both have a value of.

    Parameters
    ----------
    difference
        ``mean - baseline_mean``.
    interval
        Of the test that decides, with confidence 1 - level, for this comparison by itself: what the test would not
        reject before any correction.
    median
        What the interval of Wilcoxon's test is of, where that decides: the Hodges-Lehmann median of the differences
        other than 0. The mean difference may be outside that interval. None with the other tests.
    effect_size
        Cohen's d_z: the mean difference in standard deviations of the differences.
    rank_biserial
        (W+ - W-) / (W+ + W-) of the signed ranks: -1 if every query is lower, 1 if every query is higher.
    p, adjusted
        By test; ``adjusted`` after the correction for several comparisons.
    wins, ties, losses
        Queries on which it is better than the baseline, equal, and worse.
    n_queries
        How many both have a value of.
    detectable
        The true mean difference that a t test would find in 80 % of such samples of queries, at the level divided by
        the number of comparisons.
    equivalent_within
        The smallest margin within which the two are equivalent by two one-sided t tests at the level.
    equivalence_p
        Of two one-sided t tests with the margin that was given; None without one. Small: equivalent.
    bayes
        By the Bayesian signed-rank test, the probabilities of a difference below minus the margin, within it, and
        above it; None without a margin.
    bootstrap_interval
        The percentile interval of the mean difference over ``n_bootstrap`` resamples of the queries; None without any.
    """

    name: str
    baseline: str
    mean: float
    baseline_mean: float
    difference: float
    interval: Interval
    effect_size: float
    rank_biserial: float
    p: Mapping[str, float]
    adjusted: Mapping[str, float]
    wins: int
    ties: int
    losses: int
    n_queries: int
    detectable: float = math.nan
    equivalent_within: float = math.nan
    equivalence_p: float | None = None
    bayes: tuple[float, float, float] | None = None
    bootstrap_interval: Interval | None = None
    median: float | None = None

    @property
    def center(self) -> float:
        """What the interval is of: the mean difference, or the median."""
        return self.difference if self.median is None else self.median

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON; without what was not asked for."""
        plain = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if value is not None
        }
        return plain | {"p": dict(self.p), "adjusted": dict(self.adjusted)}


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The comparisons of every name with the baseline.

    ``means`` are over the queries that every name has a value of; ``best`` has the best of them. ``test`` is the one of
    ``tests`` that decides. ``tied_with_best`` are the names that do not differ significantly from ``best``, which is
    among them; ``against_best`` has the p values, corrected over all pairs of names. ``notes`` say what could not be
    computed, and where an interval and a p value seem to disagree. ``candidates`` are the baselines of which the
    strongest was taken, if several were named. ``family`` says what p values against the baseline are corrected over:
    "baseline", its pairs, or "all pairs" where the baseline was picked by its mean. ``n_measures`` is above 1 where the
    correction counts comparisons by so many measures.
    """

    baseline: str
    best: str
    means: Mapping[str, float]
    pairs: list[PairResult]
    tied_with_best: set[str]
    tests: tuple[str, ...]
    correction: str
    level: float
    notes: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    test: str = ""
    against_best: Mapping[str, float] = field(default_factory=dict)
    family: str = "baseline"
    margin: float | None = None
    n_measures: int = 1

    def __getitem__(self, name: str) -> PairResult:
        for pair in self.pairs:
            if pair.name == name:
                return pair
        raise UnknownName("name compared with the baseline", str(name), self.means)

    def marks(self, name: str) -> str:
        """By which tests ``name`` differs significantly from the baseline, better or worse.

        ``+`` by the t test, ``*`` by Wilcoxon's, ``r`` by randomisation, in the order of ``tests``; the baseline has
        none.
        """
        if name == self.baseline:
            return ""
        p_values = self[name].adjusted
        return "".join(MARKS[test] for test in self.tests if p_values[test] < self.level)

    def is_significant(self, name: str) -> bool:
        """Whether ``name`` differs from the baseline by the test that decides; False of the baseline."""
        return name != self.baseline and self[name].adjusted[self.test] < self.level

    @property
    def n_compared(self) -> int:
        """How many p values of one test are corrected together."""
        n_compared = self.n_pairs if self.family == ALL_PAIRS else len(self.pairs)
        return n_compared * self.n_measures

    @property
    def n_pairs(self) -> int:
        """How many pairs of names there are; differences from the best are corrected over all of them."""
        return len(self.means) * (len(self.means) - 1) // 2

    @property
    def interval_title(self) -> str:
        """What the column of intervals is called."""
        return f"{100 * (1 - self.level):g} % interval"

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat mapping per pair, ready for CSV."""
        rows = []
        for pair in self.pairs:
            row = pair.to_dict()
            low, high = row.pop("interval")
            p, after = row.pop("p"), row.pop("adjusted")
            row |= {"low": low, "high": high}
            if pair.bootstrap_interval is not None:
                row["bootstrap_low"], row["bootstrap_high"] = row.pop("bootstrap_interval")
            if pair.bayes is not None:
                row["bayes_below"], row["bayes_within"], row["bayes_above"] = row.pop("bayes")
            for test in self.tests:
                row |= {f"p_{test}": p[test], f"adjusted_{test}": after[test]}
            best = {"p_best": self.against_best.get(pair.name, math.nan)}
            rows.append(row | best | {"marks": self.marks(pair.name), "decides": self.test})
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        pairs = [pair.to_dict() | {"marks": self.marks(pair.name)} for pair in self.pairs]
        candidates = {"candidates": list(self.candidates)} if self.candidates else {}
        return {
            "baseline": self.baseline,
            **candidates,
            "best": self.best,
            "means": dict(self.means),
            "tied_with_best": [name for name in self.means if name in self.tied_with_best],
            "against_best": dict(self.against_best),
            "tests": list(self.tests),
            "test": self.test,
            "correction": self.correction,
            "corrected_over": {"family": self.family, "comparisons": self.n_compared},
            "level": self.level,
            **({} if self.margin is None else {"margin": self.margin}),
            "pairs": pairs,
            "notes": list(self.notes),
        }

    def _tables(self) -> Tables:
        return {"": comparison_table(self, self.means)} | practical_tables({"": self})

    def _footnotes(self) -> list[str]:
        return [*legend(self), *self.notes]

    def _records(self) -> list[dict[str, Any]]:
        return self.to_rows()


def compare_values(
    values: Mapping[str, Any],
    baseline: str | Sequence[str] | None = None,
    *,
    tests: Sequence[str] = DEFAULT_TESTS,
    test: str | None = None,
    correction: str = "holm",
    level: float = 0.05,
    margin: float | None = None,
    n_resamples: int = 10_000,
    n_bootstrap: int = 0,
    seed: int = 0,
    higher_is_better: bool = True,
) -> Comparison:
    """Compare values per query of several rankings, each with a baseline.

    Parameters
    ----------
    values
        By name, one value per query, the same queries in the same order; NaN is left out pair by pair.
    baseline
        What the others are compared with; by default the name with the best mean. Of several names, the one of them
        with the best mean: the strongest baseline. A baseline that is picked by its mean is a winner, and p values
        are then corrected over all pairs of names.
    tests
        Some of "t", "wilcoxon", "randomization".
    test
        Which of them decides what is called significant, what is tied with the best, and which interval is shown; by
        default the first of ``tests``.
    correction
        "holm", "bonferroni" or "none", over all comparisons with the baseline, for each test on its own.
    level
        A difference is significant if its adjusted p value is smaller; intervals have confidence 1 - level.
    margin
        The largest difference that counts as none in practice: for the test of equivalence and the Bayesian one.
    n_resamples, seed
        Draws of the randomisation test, where it cannot be exact, of the comparison of all pairs, and of the posterior.
    n_bootstrap
        Resamples of the queries for bootstrap intervals of the differences; 0 leaves them out.
    higher_is_better
        False for errors, such as rmse.
    """
    named = _checked(values)
    chosen = checked_tests(tests)
    decides = checked_deciding(test, chosen)
    level = checks.real_number("level", level, "(0, 1)")
    margin = None if margin is None else checks.real_number("margin", margin, "(0, inf)")
    comparer = _Comparer(
        named,
        chosen,
        decides,
        checks.one_of("correction", correction, CORRECTIONS),
        level,
        margin,
        checks.whole_number("n_resamples", n_resamples, 1, _MOST_RESAMPLES),
        checks.whole_number("n_bootstrap", n_bootstrap, 0, _MOST_RESAMPLES),
        checks.whole_number("seed", seed, 0),
        1.0 if checks.true_or_false("higher_is_better", higher_is_better) else -1.0,
    )
    means = _means(named)
    best = max(named, key=lambda name: _or_least(comparer.sign * means[name]))
    candidates = checked_baselines(baseline, named)
    against = max(candidates or named, key=lambda name: _or_least(comparer.sign * means[name]))
    is_picked = len(candidates) != 1 and len(named) > 2
    pairs = comparer.pairs(against, is_picked)
    to_best = comparer.all_pairs(best, decides)
    tied = {best} | {name for name, p in to_best.items() if not p < level}
    comparison = Comparison(
        against,
        best,
        means,
        pairs,
        tied,
        chosen,
        correction,
        level,
        candidates=candidates if len(candidates) > 1 else (),
        test=decides,
        against_best=to_best,
        family=ALL_PAIRS if is_picked and correction != "none" else "baseline",
        margin=margin,
    )
    return replace(comparison, notes=tuple(_notes(comparison)))


def checked_tests(tests: Any) -> tuple[str, ...]:
    """The names of tests, each once and each known."""
    if isinstance(tests, str):
        tests = (tests,)
    chosen = tuple(dict.fromkeys(checks.one_of("test", test, TESTS) for test in tests))
    if not chosen:
        raise ParameterError(f"tests is empty; name some of {', '.join(TESTS)}.")
    return chosen


def checked_deciding(test: str | None, tests: Sequence[str]) -> str:
    """The test that decides: the one that is named, which must be among the tests, or the first of them."""
    if test is None:
        return tests[0]
    checks.one_of("test", test, TESTS)
    if test not in tests:
        raise ParameterError(
            f"test is '{test}', which decides, but tests leaves it out: {', '.join(tests)}. Add it there."
        )
    return test


def corrected_across(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """The comparisons by several measures as one family: a p value is adjusted over all pairs and all measures.

    Where p values are corrected over all pairs of names already, and for ties with the best, they are multiplied by the
    number of measures (Bonferroni).
    """
    n = len(comparisons)
    if n < 2 or next(iter(comparisons.values())).correction == "none":
        return dict(comparisons)
    after: dict[tuple[str, str, str], float] = {}
    fixed = [key for key, each in comparisons.items() if each.family != ALL_PAIRS]
    for test in next(iter(comparisons.values())).tests:
        keys = [(key, pair.name, test) for key in fixed for pair in comparisons[key].pairs]
        raw = np.array([comparisons[key][name].p[test] for key, name, _ in keys], np.float64)
        correction = comparisons[keys[0][0]].correction if keys else "none"
        after |= dict(zip(keys, adjusted(raw, correction).tolist(), strict=True))
    result = {}
    for key, each in comparisons.items():
        pairs = [
            replace(
                pair,
                adjusted={
                    test: after.get((key, pair.name, test), min(n * pair.adjusted[test], 1.0))
                    for test in each.tests
                },
            )
            for pair in each.pairs
        ]
        to_best = {name: min(n * p, 1.0) for name, p in each.against_best.items()}
        tied = {each.best} | {name for name, p in to_best.items() if not p < each.level}
        changed = replace(
            each, pairs=pairs, against_best=to_best, tied_with_best=tied, n_measures=n
        )
        result[key] = replace(changed, notes=tuple(_notes(changed)))
    return result


def checked_baselines(
    baseline: str | Sequence[str] | None, known: Iterable[str]
) -> tuple[str, ...]:
    """The names that ``baseline`` gives, each once and each ``known``; none for None."""
    if baseline is None:
        return ()
    names = [baseline] if isinstance(baseline, str) else baseline
    if not isinstance(names, Sequence) or not names:
        raise ParameterError(
            f"baseline must be a name, or several of which the strongest counts; got {checks.plain(baseline)}."
        )
    return tuple(dict.fromkeys(checks.one_of("baseline", name, known) for name in names))


@dataclass(frozen=True, eq=False)
class _Comparer:
    """Compares names with a baseline; holds what all pairs share."""

    values: Mapping[str, Floats]
    tests: tuple[str, ...]
    test: str  # decides
    correction: str
    level: float
    margin: float | None
    n_resamples: int
    n_bootstrap: int
    seed: int
    sign: float  # 1 where higher is better
    known_pairs: dict[str, dict[tuple[int, int], float]] = field(default_factory=dict)  # by test

    def pairs(self, baseline: str, is_picked: bool) -> list[PairResult]:
        """The comparison of every other name with ``baseline``; p values are adjusted over all of them.

        They are adjusted over all pairs of names where the baseline was picked by its mean.
        """
        others = [name for name in self.values if name != baseline]
        differences = {
            name: paired_differences(self.values[name], self.values[baseline]) for name in others
        }
        p = {
            test: np.array([self._p(test, differences[name]) for name in others], np.float64)
            for test in self.tests
        }
        after = {test: adjusted(p[test], self.correction) for test in self.tests}
        if is_picked and self.correction != "none":
            to_baseline = {test: self.all_pairs(baseline, test) for test in self.tests}
            after = {
                test: np.array([to_baseline[test][name] for name in others]) for test in self.tests
            }
        n_names = len(self.values)
        n_compared = n_names * (n_names - 1) // 2 if is_picked else len(others)
        level = self.level if self.correction == "none" else self.level / n_compared
        return [
            self._pair(
                (name, baseline),
                differences[name],
                {test: float(p[test][index]) for test in self.tests},
                {test: float(after[test][index]) for test in self.tests},
                level,
            )
            for index, name in enumerate(others)
        ]

    def all_pairs(self, name: str, test: str) -> dict[str, float]:
        """The p values of ``name`` against each other one, corrected over all pairs of names.

        None is below that of the test itself. The correction draws signs, where Student's test assumes differences
        that are about normal: of a few queries with one far from the others it may give a smaller p value.
        """
        names = list(self.values)
        number = names.index(name)
        return {
            other: max(
                self._all_pairs(test)[min(number, index), max(number, index)],
                self._p(test, paired_differences(self.values[other], self.values[name])),
            )
            for index, other in enumerate(names)
            if other != name
        }

    def _all_pairs(self, test: str) -> dict[tuple[int, int], float]:
        if test not in self.known_pairs:
            self.known_pairs[test] = all_pairs_p(
                test,
                list(self.values.values()),
                n_resamples=self.n_resamples,
                seed=self.seed,
            )
        return self.known_pairs[test]

    def _p(self, test: str, differences: Floats) -> float:
        return p_value(test, differences, n_resamples=self.n_resamples, seed=self.seed)

    def _pair(
        self,
        names: tuple[str, str],
        differences: Floats,
        p: dict[str, float],
        after: dict[str, float],
        level: float,
    ) -> PairResult:
        name, baseline = names
        is_common = ~(np.isnan(self.values[name]) | np.isnan(self.values[baseline]))
        better = self.sign * differences
        drawn: dict[str, int] = {"n_resamples": self.n_resamples, "seed": self.seed}
        optional: dict[str, Any] = {}
        if self.margin is not None:
            optional["equivalence_p"] = equivalence_p(differences, self.margin)
            optional["bayes"] = bayesian_signed_rank(differences, self.margin, **drawn)
        if self.test == "wilcoxon":
            optional["median"] = hodges_lehmann(differences)
        return PairResult(
            name=name,
            baseline=baseline,
            mean=_mean(self.values[name][is_common]),
            baseline_mean=_mean(self.values[baseline][is_common]),
            difference=_mean(differences),
            interval=interval_of(self.test, differences, self.level, **drawn),
            effect_size=cohens_d(differences),
            rank_biserial=rank_biserial(differences),
            p=p,
            adjusted=after,
            wins=int((better > 0).sum()),
            ties=int((better == 0).sum()),
            losses=int((better < 0).sum()),
            n_queries=differences.size,
            detectable=detectable_difference(differences, level, POWER),
            equivalent_within=equivalent_within(differences, self.level),
            bootstrap_interval=self._bootstrap_interval(differences),
            **optional,
        )

    def _bootstrap_interval(self, differences: Floats) -> Interval | None:
        if not self.n_bootstrap:
            return None
        column = differences[:, np.newaxis]
        resampling = Resampling.of(differences.size, self.n_bootstrap, 1.0 - self.level, self.seed)
        return resampling.ratio_intervals(column, np.ones_like(column))[0]


def _checked(values: Any) -> dict[str, Floats]:
    """One array per name, all of one length, without infinities."""
    if not isinstance(values, Mapping):
        raise ParameterError(
            f"values must be a mapping from names to values per query, got {type(values).__name__}."
        )
    if len(values) < 2:
        raise ParameterError(f"a comparison needs two names or more, got {len(values)}.")
    named: dict[str, Floats] = {}
    for name, given in values.items():
        array = checks.numbers_in(given, f"the values of '{name}' are not numbers.")
        if array.ndim != 1:
            raise DataError(
                f"the values of '{name}' must have one dimension, one value per query, got {array.ndim}."
            )
        if np.isinf(array).any():
            query = int(np.argmax(np.isinf(array)))
            raise DataError(f"the values of '{name}' are infinite for query number {query + 1}.")
        named[str(name)] = array
    first, *others = named
    for other in others:
        if named[other].size != named[first].size:
            raise DataError(
                f"'{first}' has {named[first].size:,} values and '{other}' {named[other].size:,}: values "
                "must be of the same queries in the same order, NaN where a query has none."
            )
    return named


def _means(values: Mapping[str, Floats]) -> dict[str, float]:
    """The mean of each name over the queries that all have a value of; without such queries, over its own."""
    is_common = ~np.any([np.isnan(each) for each in values.values()], axis=0)
    if is_common.any():
        return {name: _mean(each[is_common]) for name, each in values.items()}
    return {name: _mean(each[~np.isnan(each)]) for name, each in values.items()}


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else float("nan")


def _or_least(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _notes(comparison: Comparison) -> list[str]:
    few = [pair.name for pair in comparison.pairs if pair.n_queries < 2]
    names = ", ".join(few)
    untested = [f"no test with fewer than two queries in common with the baseline: {names}."]
    return [*(untested if few else []), *disagreements(comparison)]


def disagreements(comparison: Comparison) -> list[str]:
    """Why a p value and the interval or the sign beside it are both right, where they seem to disagree."""
    notes = []
    touched, narrow = [], []
    for pair in comparison.pairs:
        low, high = pair.interval
        if comparison.is_significant(pair.name) and low <= 0.0 <= high:
            touched.append(pair.name)
        elif not comparison.is_significant(pair.name) and (low > 0.0 or high < 0.0):
            narrow.append(pair.name)
    if touched:
        notes.append(
            f"{', '.join(touched)}: significant, and the interval ends at 0, because pairs of queries with opposite "
            "differences count half in Wilcoxon's test."
        )
    if narrow:
        notes.append(
            f"{', '.join(narrow)}: the interval excludes 0, but it is that of one comparison; corrected over "
            f"{comparison.n_compared:,} comparisons, the difference is not significant."
        )
    both = [
        name
        for name in comparison.means
        if comparison.best == comparison.baseline
        and name in comparison.tied_with_best
        and comparison.is_significant(name)
    ]
    if both:
        notes.append(
            f"{', '.join(both)}: differs from {comparison.baseline} as the baseline, and not from {comparison.best} as "
            "the best: that is picked by its mean, so that a difference from it must pass a correction over all pairs."
        )
    return notes


# Tables of comparisons.


def comparison_table(comparison: Comparison, values: Mapping[str, float]) -> list[dict[str, str]]:
    """The systems as texts, the baseline first, each with its value; p values are the adjusted ones."""
    rows = []
    is_tested = any(pair.n_queries > 1 for pair in comparison.pairs)
    order = [
        comparison.baseline,
        *(name for name in comparison.means if name != comparison.baseline),
    ]
    for name in order:
        is_tied = (
            is_tested and name in comparison.tied_with_best and len(comparison.tied_with_best) > 1
        )
        row = {
            "name": name,
            "value": show_number(values[name]),
            "marks": comparison.marks(name) + ("=" if is_tied else ""),
        }
        rows.append(
            row
            | (
                _baseline_cells(comparison)
                if name == comparison.baseline
                else _cells(comparison, name)
            )
        )
    return rows


def _cells(comparison: Comparison, name: str) -> dict[str, str]:
    pair = comparison[name]
    cells = {
        "difference": "–" if pair.n_queries == 0 else f"{pair.difference:+.4f}",
        **({} if pair.median is None else {"median": show_number(pair.median, "+")}),
        comparison.interval_title: show_interval(pair.interval, "+"),
        "d_z": "–" if pair.n_queries < 2 else f"{pair.effect_size:+.2f}",
    }
    cells |= {f"p {test}": show_p(pair.adjusted[test]) for test in comparison.tests}
    return cells | {
        "wins": f"{pair.wins:,}",
        "ties": f"{pair.ties:,}",
        "losses": f"{pair.losses:,}",
    }


def _baseline_cells(comparison: Comparison) -> dict[str, str]:
    names = [
        "difference",
        *(["median"] if comparison.test == "wilcoxon" else []),
        comparison.interval_title,
        "d_z",
        *(f"p {test}" for test in comparison.tests),
    ]
    cells = dict.fromkeys([*names, "wins", "ties", "losses"], "")
    return cells | {"difference": "baseline"}


def strongest(comparison: Comparison) -> str:
    """Which baseline was taken, and of which."""
    return f"baseline {comparison.baseline}: the strongest of {', '.join(comparison.candidates)}"


def practical_tables(comparisons: Mapping[str, Comparison]) -> dict[str, list[dict[str, str]]]:
    """By title, how small differences are: equivalence, and the posterior; none without a margin."""
    tables = {}
    for text, comparison in comparisons.items():
        if comparison.margin is not None:
            what = f"{text}: " if text else ""
            title = f"{what}differences of less than {comparison.margin:g} count as none"
            tables[title] = [_practical_row(pair) for pair in comparison.pairs]
    return tables


def _practical_row(pair: PairResult) -> dict[str, str]:
    below, within, above = (show_number(share)[:5] for share in pair.bayes or NO_SHARES)
    return {
        "name": pair.name,
        "difference": "–" if pair.n_queries == 0 else f"{pair.difference:+.4f}",
        "detectable": show_number(pair.detectable),
        "p TOST": show_p(math.nan if pair.equivalence_p is None else pair.equivalence_p),
        "equivalent within": show_number(pair.equivalent_within),
        "P(below)": below,
        "P(within)": within,
        "P(above)": above,
    }


def correction_of(comparison: Comparison) -> str:
    """How p values against the baseline are corrected, and over what."""
    count = f"{comparison.n_compared:,} comparison" + ("s" if comparison.n_compared > 1 else "")
    if comparison.correction == "none":
        return "without correction"
    across = _across(comparison)
    if comparison.family == ALL_PAIRS:
        return f"corrected over all pairs by the greatest statistic, {count}{across}"
    return f"{comparison.correction.title()}-corrected over {count}{across}"


def _across(comparison: Comparison) -> str:
    return f" by {comparison.n_measures} measures" if comparison.n_measures > 1 else ""


def legend(comparison: Comparison) -> list[str]:
    """The lines that explain marks, intervals and p values."""
    marks = ", ".join(f"{MARKS[test]} by {_TEST_NAMES[test]}" for test in comparison.tests)
    chosen = [strongest(comparison)] if comparison.candidates else []
    practical = [
        f"detectable: the difference that a t test would find with a probability of {100 * POWER:g} %; p TOST: of two "
        "one-sided t tests of equivalence; P: by the Bayesian signed-rank test"
    ]
    return [
        *chosen,
        f"decides: {_TEST_NAMES[comparison.test]}, p < {comparison.level:g}, {correction_of(comparison)}",
        f"marks: differs from the baseline, {marks}; =: no difference to the best is shown by "
        f"{_TEST_NAMES[comparison.test]}, corrected over {counted(comparison.n_pairs, 'pair')}{_across(comparison)}",
        f"interval: {INTERVAL_NAMES[comparison.test]}, for each "
        "comparison by itself; d_z: the mean difference in standard deviations of the differences",
        *(practical if comparison.margin is not None else []),
    ]
