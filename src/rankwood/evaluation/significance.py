"""``compare_values``: which of several rankings of the same queries differ, by how much, and how certain that is.

Every name is compared with a baseline over the queries that both have a value of (``PairResult``). P values are
corrected over all of a baseline's pairs, test by test; the statistics themselves are in ``paired_tests``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.paired_tests import (
    CORRECTIONS,
    TESTS,
    Interval,
    Resampling,
    adjusted,
    cohens_d,
    p_value,
    paired_differences,
    rank_biserial,
)
from rankwood.evaluation.results import Result, Tables, show_interval, show_number, show_p

__all__ = ["MARKS", "Comparison", "PairResult", "compare_values"]

_CONFIDENCE = 0.95
_MOST_RESAMPLES = 10_000_000
MARKS = {"t": "+", "wilcoxon": "*", "randomization": "r"}  # of a significant difference, by test
_TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "t", "randomization": "randomisation"}


@dataclass(frozen=True)
class PairResult:
    """The comparison of one name with the baseline, over the queries that both have a value of.

    Parameters
    ----------
    difference
        ``mean - baseline_mean``.
    interval
        95 % of the mean difference over resampled queries.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            **vars(self),
            "interval": list(self.interval),
            "p": dict(self.p),
            "adjusted": dict(self.adjusted),
        }


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The comparisons of every name with the baseline.

    ``means`` are over the queries that every name has a value of; ``best`` has the best of them. ``tied_with_best`` are
    the names that do not differ significantly from ``best`` by the first of ``tests``, ``best`` among them. ``notes``
    say what could not be computed. ``candidates`` are the baselines of which the strongest was taken, if several were
    named.
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

    def to_rows(self) -> list[dict[str, Any]]:
        """A flat mapping per pair, ready for CSV."""
        rows = []
        for pair in self.pairs:
            row = pair.to_dict()
            low, high = row.pop("interval")
            p, after = row.pop("p"), row.pop("adjusted")
            row |= {"low": low, "high": high}
            for test in self.tests:
                row |= {f"p_{test}": p[test], f"adjusted_{test}": after[test]}
            rows.append(row | {"marks": self.marks(pair.name)})
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
            "tests": list(self.tests),
            "correction": self.correction,
            "level": self.level,
            "pairs": pairs,
            "notes": list(self.notes),
        }

    def _tables(self) -> Tables:
        return {"": comparison_table(self, self.means)}

    def _footnotes(self) -> list[str]:
        return [*legend(self), *self.notes]

    def _records(self) -> list[dict[str, Any]]:
        return self.to_rows()


def compare_values(
    values: Mapping[str, Any],
    baseline: str | Sequence[str] | None = None,
    *,
    tests: Sequence[str] = TESTS,
    correction: str = "holm",
    level: float = 0.05,
    n_resamples: int = 10_000,
    n_bootstrap: int = 1_000,
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
        with the best mean: the strongest baseline.
    tests
        Some of "wilcoxon", "t", "randomization"; the first decides ties with the best.
    correction
        "holm", "bonferroni" or "none", over all comparisons with the baseline, for each test on its own.
    level
        A difference is significant if its adjusted p value is smaller.
    n_resamples, seed
        Draws of the randomisation test, where it cannot be exact.
    n_bootstrap
        Resamples of the queries for the intervals; 0 leaves them out.
    higher_is_better
        False for errors, such as rmse.
    """
    named = _checked(values)
    if isinstance(tests, str):
        tests = (tests,)
    chosen = tuple(dict.fromkeys(checks.one_of("test", test, TESTS) for test in tests))
    if not chosen:
        raise ParameterError(f"tests is empty; name some of {', '.join(TESTS)}.")
    comparer = _Comparer(
        named,
        chosen,
        checks.one_of("correction", correction, CORRECTIONS),
        checks.whole_number("n_resamples", n_resamples, 1, _MOST_RESAMPLES),
        checks.whole_number("n_bootstrap", n_bootstrap, 0, _MOST_RESAMPLES),
        checks.whole_number("seed", seed, 0),
        1.0 if checks.true_or_false("higher_is_better", higher_is_better) else -1.0,
    )
    level = checks.real_number("level", level, "(0, 1)")
    means = _means(named)
    best = max(named, key=lambda name: _or_least(comparer.sign * means[name]))
    candidates = checked_baselines(baseline, named)
    against = max(candidates or named, key=lambda name: _or_least(comparer.sign * means[name]))
    pairs = comparer.pairs(against, chosen)
    to_best = pairs if against == best else comparer.pairs(best, chosen[:1])
    tied = {best} | {pair.name for pair in to_best if not pair.adjusted[chosen[0]] < level}
    return Comparison(
        against,
        best,
        means,
        pairs,
        tied,
        chosen,
        correction,
        level,
        tuple(_notes(pairs)),
        candidates if len(candidates) > 1 else (),
    )


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
    correction: str
    n_resamples: int
    n_bootstrap: int
    seed: int
    sign: float  # 1 where higher is better

    def pairs(self, baseline: str, tests: tuple[str, ...]) -> list[PairResult]:
        """The comparison of every other name with ``baseline``; p values are adjusted over all of them."""
        others = [name for name in self.values if name != baseline]
        differences = {
            name: paired_differences(self.values[name], self.values[baseline]) for name in others
        }
        p = {
            test: np.array([self._p(test, differences[name]) for name in others], np.float64)
            for test in tests
        }
        after = {test: adjusted(p[test], self.correction) for test in tests}
        return [
            self._pair(
                name,
                baseline,
                differences[name],
                {test: float(p[test][index]) for test in tests},
                {test: float(after[test][index]) for test in tests},
            )
            for index, name in enumerate(others)
        ]

    def _p(self, test: str, differences: Floats) -> float:
        return p_value(test, differences, n_resamples=self.n_resamples, seed=self.seed)

    def _pair(
        self,
        name: str,
        baseline: str,
        differences: Floats,
        p: dict[str, float],
        after: dict[str, float],
    ) -> PairResult:
        is_common = ~(np.isnan(self.values[name]) | np.isnan(self.values[baseline]))
        resampling = Resampling.of(differences.size, self.n_bootstrap, _CONFIDENCE, self.seed)
        column = differences[:, np.newaxis]
        better = self.sign * differences
        return PairResult(
            name=name,
            baseline=baseline,
            mean=_mean(self.values[name][is_common]),
            baseline_mean=_mean(self.values[baseline][is_common]),
            difference=_mean(differences),
            interval=resampling.ratio_intervals(column, np.ones_like(column))[0],
            effect_size=cohens_d(differences),
            rank_biserial=rank_biserial(differences),
            p=p,
            adjusted=after,
            wins=int((better > 0).sum()),
            ties=int((better == 0).sum()),
            losses=int((better < 0).sum()),
            n_queries=differences.size,
        )


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
        try:
            array = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            raise DataError(f"the values of '{name}' are not numbers.") from None
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


def _notes(pairs: Sequence[PairResult]) -> list[str]:
    few = [pair.name for pair in pairs if pair.n_queries < 2]
    if not few:
        return []
    names = ", ".join(few)
    return [f"no test with fewer than two queries in common with the baseline: {names}."]


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
        "95 % interval": show_interval(pair.interval, "+"),
        "d": "–" if pair.n_queries < 2 else f"{pair.effect_size:+.2f}",
    }
    cells |= {f"p {test}": show_p(pair.adjusted[test]) for test in comparison.tests}
    return cells | {
        "wins": f"{pair.wins:,}",
        "ties": f"{pair.ties:,}",
        "losses": f"{pair.losses:,}",
    }


def _baseline_cells(comparison: Comparison) -> dict[str, str]:
    names = ["difference", "95 % interval", "d", *(f"p {test}" for test in comparison.tests)]
    cells = dict.fromkeys([*names, "wins", "ties", "losses"], "")
    return cells | {"difference": "baseline"}


def strongest(comparison: Comparison) -> str:
    """Which baseline was taken, and of which."""
    return f"baseline {comparison.baseline}: the strongest of {', '.join(comparison.candidates)}"


def legend(comparison: Comparison) -> list[str]:
    """The lines that explain marks, intervals and p values."""
    marks = ", ".join(f"{MARKS[test]} by {_TEST_NAMES[test]}" for test in comparison.tests)
    corrected = (
        "" if comparison.correction == "none" else f", {comparison.correction.title()}-corrected"
    )
    chosen = [strongest(comparison)] if comparison.candidates else []
    return [
        *chosen,
        f"marks: differs from the baseline, {marks} (p < {comparison.level:g}{corrected}); "
        f"=: no difference to the best is shown by {_TEST_NAMES[comparison.tests[0]]}",
        "difference with its bootstrap 95 % interval; d: in standard deviations of the differences",
    ]
