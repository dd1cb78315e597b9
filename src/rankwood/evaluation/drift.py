"""``check_data``: whether data are still like those that a model was trained on.

A fitted ranker records the distribution of each feature, of the labels and of the lengths of the queries
(``rankwood.training.record``). Other data are counted over the same intervals. A feature is told of where

    it is not among the columns,
    another share of its values is missing,
    more values than before are beyond the lowest and the highest cut of the training data's bins,
    or its population stability index is above a limit.

The index compares the shares p and q of the intervals, then and now: Σ (q − p) · ln(q / p). Between two samples of the
same distribution with k intervals it is about χ²(k − 1) · (1 / n + 1 / m) (Yurdakul, 2018). Rows of a query are alike,
so n and m are numbers of queries where there are queries. What such a sample would give once in a thousand times by
chance is no finding, whatever the limit; the same holds for shares.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri

from rankwood._core import checks
from rankwood.binning.folder import refuse_codes
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ModelError, counted
from rankwood.evaluation.results import Result, Table, Tables, write_page
from rankwood.rankers.save import features_of
from rankwood.training.record import (
    DIGEST,
    FEATURES,
    LABELS,
    LENGTHS,
    MOST_FEATURES,
    Spread,
    statistics_in,
)

COLUMN, MISSING, RANGE, DISTRIBUTION = "column", "missing values", "range", "distribution"
_BY_CHANCE = 0.001  # how often a finding may be one by chance
_STANDARD_ERRORS = 3.29  # the same for the difference of two shares, on both sides
_SMOOTHING = 0.5  # rows that are added to each interval, so that none is empty
_LARGEST_TAIL = 0.05  # of the values, that are taken to be extreme
_ROWS_SHOWN = 20  # features in printed tables
_DRAWN = 50  # features on a page
_WIDTH, _HEIGHT = 360, 90  # of a drawing


@dataclass(frozen=True)
class Limits:
    """What may change without being told of."""

    psi: float
    missing: float
    outside: float


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was.

    Attributes
    ----------
    kind
        "column", "missing values", "range" or "distribution".
    about
        A feature, "labels" or "query lengths".
    then, now
        Shares; of a distribution only ``now``, the stability index. None for columns that are not there.
    limit
        What they may differ by, or what the index may be.
    message
        The same in a sentence.
    """

    kind: str
    about: str
    then: float | None
    now: float | None
    limit: float | None
    message: str


@dataclass(frozen=True)
class Shift:
    """A feature, the labels or the lengths of queries, then and now.

    ``limit`` is the largest index ``psi`` that is no finding, more than was asked for where queries are few; None
    where all values were equal at training.
    """

    name: str
    then: Spread
    now: Spread
    psi: float
    limit: float | None

    @property
    def tails(self) -> dict[str, str]:
        """The outermost bins of the training data in words, by the field of ``Spread`` that has their rows.

        One that held more than ``_LARGEST_TAIL`` of the training data, such as that of 0, is none.
        """
        words = {
            "below": f"up to {_short(self.then.low)}",
            "above": f"above {_short(self.then.high)}",
        }
        most = _LARGEST_TAIL * self.then.present
        return {side: text for side, text in words.items() if getattr(self.then, side) <= most}

    @property
    def outside(self) -> tuple[float, float]:
        """The share of the values that are in the tails of the training data, then and now."""
        shares = [
            sum(getattr(each, side) for side in self.tails) / max(1, each.present)
            for each in (self.then, self.now)
        ]
        return shares[0], shares[1]

    def _record(self) -> dict[str, Any]:
        outside = self.outside
        return {
            "name": self.name,
            "psi": self.psi,
            "limit": self.limit,
            "missing_then": self.then.missing_share,
            "missing_now": self.now.missing_share,
            "outside_then": outside[0],
            "outside_now": outside[1],
            "median_then": self.then.median,
            "median_now": self.now.median,
        }


@dataclass(frozen=True, eq=False, repr=False)
class DataCheck(Result):
    """What ``check_data`` has found.

    Attributes
    ----------
    findings
        What is not as it was, missing columns first, then by the stability index.
    shifts
        Every feature that the data have, in the order of the model.
    judgments
        The labels and the lengths of the queries, where both have them.
    new_columns
        Columns that the model does not know. They are no drift.
    rows, queries
        How many there were at training, and are now; None without queries.
    limits
        What could change without being a finding.
    """

    findings: tuple[Finding, ...]
    shifts: tuple[Shift, ...]
    judgments: tuple[Shift, ...]
    new_columns: tuple[str, ...]
    rows: tuple[int, int]
    queries: tuple[int | None, int | None]
    limits: Limits

    @property
    def has_drift(self) -> bool:
        """Whether anything was found."""
        return bool(self.findings)

    def with_new_columns(self, names: Sequence[str]) -> DataCheck:
        """The same with further columns that the model does not know, which were not read."""
        return replace(self, new_columns=(*self.new_columns, *names))

    def _tables(self) -> Tables:
        by_index = sorted(self.shifts, key=lambda shift: -shift.psi)[:_ROWS_SHOWN]
        tables: dict[str, Table] = {}
        if self.findings:
            tables["findings"] = [
                {
                    "feature": finding.about,
                    "finding": finding.kind,
                    "then": _figure(finding, finding.then),
                    "now": _figure(finding, finding.now),
                    "limit": _figure(finding, finding.limit),
                }
                for finding in self.findings
            ]
        shown = [*self.judgments, *by_index]
        if shown:
            n_left = len(self.shifts) - len(by_index)
            title = "then and now" + (f" (without {n_left:,} more stable features)" * (n_left > 0))
            tables[title] = [_row_of(shift) for shift in shown]
        return tables

    def _footnotes(self) -> Sequence[str]:
        notes = [finding.message for finding in self.findings]
        if not notes:
            notes = ["no drift: the data are like those that the model was trained on."]
        if self.new_columns:
            listed = ", ".join(self.new_columns[:_ROWS_SHOWN])
            more = len(self.new_columns) - _ROWS_SHOWN
            notes.append(
                f"not known to the model: {listed}" + (f" and {more:,} more" if more > 0 else "")
            )
        notes.append(
            f"{_of(self.rows[0], self.queries[0])} then, {_of(self.rows[1], self.queries[1])} now; limits: stability "
            f"index {self.limits.psi:g}, or what chance gives so few queries; missing {self.limits.missing:g}, outside "
            f"{self.limits.outside:g}."
        )
        return notes

    def _records(self) -> Iterator[Mapping[str, Any]]:
        about: dict[str, list[str]] = {}
        for finding in self.findings:
            about.setdefault(finding.about, []).append(finding.kind)
        for shift in (*self.judgments, *self.shifts):
            yield {**shift._record(), "findings": ", ".join(about.pop(shift.name, ()))}
        for name, kinds in about.items():  # columns that are not there
            yield {"name": name, **dict.fromkeys(_NUMBERS, ""), "findings": ", ".join(kinds)}

    def to_dict(self) -> dict[str, Any]:
        """The verdict, the findings and every feature, as plain numbers and texts."""
        return {
            "drift": self.has_drift,
            "findings": [asdict(finding) for finding in self.findings],
            "new_columns": list(self.new_columns),
            "rows": list(self.rows),
            "queries": list(self.queries),
            "limits": asdict(self.limits),
            "judgments": [shift._record() for shift in self.judgments],
            "features": [shift._record() for shift in self.shifts],
        }

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that needs no other file: findings, tables, and drawings of the features that have changed."""
        found = {finding.about for finding in self.findings}
        changed = [shift for shift in (*self.judgments, *self.shifts) if shift.name in found]
        changed.sort(key=lambda shift: -shift.psi)
        drawings = "".join(_drawing(shift) for shift in changed[:_DRAWN])
        verdict = f"{counted(len(found), 'column')} changed." if found else "Nothing has changed."
        write_page(path, "Data check", f"<p>{verdict}</p>{drawings}{self._repr_html_()}")


_NUMBERS = (
    *("psi", "limit", "missing_then", "missing_now", "outside_then", "outside_now"),
    *("median_then", "median_now"),
)


def check_data(
    model: Any,
    data: RankingData,
    *,
    labels: bool = True,
    psi: float = 0.2,
    missing: float = 0.05,
    outside: float = 0.05,
) -> DataCheck:
    """Compare data with what a fitted ranker records of its training data.

    The record is in model files too, so a ranker that was loaded has it. ``print`` shows the findings with every
    feature then and now; ``has_drift`` says whether there are any, and ``write_html`` draws them.

    Parameters
    ----------
    model
        A fitted ranker. Bare models, and files of versions without a record, have nothing to compare with.
    data
        Other documents with the same features: columns are found by their names, where both have names.
    labels
        Whether labels are compared too; say no for documents that nobody has judged.
    psi
        The largest population stability index that is no finding. By custom, below 0.1 is stable, and above 0.25 is
        another distribution.
    missing, outside
        How much the share of missing values may change, and the share of values beyond the training data's outermost
        bins may grow.

    Examples
    --------
    >>> import rankwood as rw
    >>> train = rw.make_ranking(n_queries=100, n_features=4, seed=1)
    >>> model = rw.RandomForest(n_trees=2).fit(train)
    >>> rw.check_data(model, rw.make_ranking(n_queries=100, n_features=4, seed=2)).has_drift
    False
    """
    limits = Limits(
        checks.real_number("psi", psi, "[0, inf)"),
        checks.real_number("missing", missing, "[0, 1]"),
        checks.real_number("outside", outside, "[0, 1]"),
    )
    if not isinstance(data, RankingData):
        raise DataError(f"data must be RankingData, got {type(data).__name__}.")
    refuse_codes(data)
    if data.n_documents == 0:
        raise DataError("there are no rows to compare.")
    training, statistics = _record_of(model)
    known = features_of(model)
    columns, new_columns = _matched(known.names, known.n_features, data)
    names = known.names or tuple(str(number + 1) for number in range(known.n_features))
    if len(statistics[FEATURES]) != len(names):
        raise ModelError("its record of the training data is damaged.")
    then_queries = training.get("queries")
    now_queries = None if data.query_ids is None else data.n_queries
    judge = _Judge(limits, (then_queries, now_queries))
    shifts, findings = [], []
    for name, then, column in zip(names, statistics[FEATURES], columns, strict=True):
        if column is None:
            message = f"'{name}' is not among the columns of the data, and the model knows it."
            findings.append(Finding(COLUMN, name, None, None, None, message))
        else:
            shifts.append(judge.shift(name, then, data.features[:, column]))
    judgments = []
    if labels:
        judgments.append(judge.shift("labels", statistics[LABELS][0], data.labels))
    if LENGTHS in statistics and data.query_ids is not None:
        lengths = np.diff(data.query_offsets).astype(np.float64)
        judgments.append(judge.shift("query lengths", statistics[LENGTHS][0], lengths))
    for shift in sorted((*judgments, *shifts), key=lambda shift: -shift.psi):
        findings += judge.findings(shift)
    return DataCheck(
        tuple(findings),
        tuple(shifts),
        tuple(judgments),
        new_columns,
        (training["rows"], data.n_documents),
        (then_queries, now_queries),
        limits,
    )


def _record_of(model: Any) -> tuple[dict[str, Any], dict[str, list[Spread]]]:
    """The training record of a model and its statistics; an error that says how to get them."""
    training = getattr(model, "training_", None)
    if not isinstance(training, dict):
        raise ModelError(
            f"this {type(model).__name__} has no record of its training data: it is not fitted, a bare model, or was "
            "imported. Fit a ranker and save that with rankwood.save; its file has the record."
        )
    statistics = statistics_in(training)
    if statistics is not None:
        rows, queries = training.get("rows"), training.get("queries")
        if type(rows) is not int or (queries is not None and type(queries) is not int):
            raise ModelError("its record of the training data is damaged.")
        return training, statistics
    if DIGEST in training:
        raise ModelError(
            f"this {type(model).__name__} has no statistics of its training data: they are recorded for at most "
            f"{MOST_FEATURES:,} features."
        )
    raise ModelError(
        f"this {type(model).__name__} has no statistics of its training data: it was fitted by a version that did not "
        "record them. Fit it again with this version, on the same data, seed and parameters, and save it."
    )


def _matched(
    names: tuple[str, ...] | None, n_features: int, data: RankingData
) -> tuple[list[int | None], tuple[str, ...]]:
    """The column of each of the model's features, or None; and the names of further columns."""
    if names is not None and data.feature_names is not None:
        place = {name: number for number, name in enumerate(data.feature_names)}
        known = set(names)
        new = tuple(name for name in data.feature_names if name not in known)
        return [place.get(name) for name in names], new
    within = [number if number < data.n_features else None for number in range(n_features)]
    return within, tuple(data.names[n_features:])


def stability_index(then: Sequence[int], now: Sequence[int]) -> float:
    """The population stability index of rows by interval; 0 where either has no rows."""
    if sum(then) == 0 or sum(now) == 0:
        return 0.0
    p, q = _shares(then), _shares(now)
    return float(((q - p) * np.log(q / p)).sum())


def _shares(counts: Sequence[int]) -> Floats:
    smoothed = np.asarray(counts, np.float64) + _SMOOTHING
    shares: Floats = smoothed / smoothed.sum()
    return shares


@dataclass(frozen=True)
class _Judge:
    """Says what of a shift is a finding: beyond its limit, and beyond chance for so many queries, or rows."""

    limits: Limits
    queries: tuple[int | None, int | None]

    def shift(self, name: str, then: Spread, values: Any) -> Shift:
        """The values of a feature beside its spread in the training data."""
        now = then.again(np.asarray(values))
        by_chance = self._index_by_chance(len(then.counts), [then.present, now.present])
        limit = None if by_chance is None else max(self.limits.psi, by_chance)
        return Shift(name, then, now, stability_index(then.counts, now.counts), limit)

    def findings(self, shift: Shift) -> Iterator[Finding]:
        then, now = shift.then, shift.now
        name = shift.name if shift.name in ("labels", "query lengths") else f"'{shift.name}'"
        shares = (then.missing_share, now.missing_share)
        of_rows = [each.present + each.missing for each in (then, now)]
        if self._differ(shares, self.limits.missing, of_rows):
            text = f"{name}: {shares[1]:.1%} of the values are missing; {shares[0]:.1%} were."
            yield Finding(MISSING, shift.name, *shares, self.limits.missing, text)
        present = [then.present, now.present]
        if min(present) == 0:
            return
        outside = shift.outside
        if outside[1] > outside[0] and self._differ(outside, self.limits.outside, present):
            text = (
                f"{name}: {outside[1]:.1%} of the values are {' or '.join(shift.tails.values())}; {outside[0]:.1%} "
                "were."
            )
            yield Finding(RANGE, shift.name, *outside, self.limits.outside, text)
        if shift.limit is not None and shift.psi > shift.limit:
            text = (
                f"{name}: the stability index is {shift.psi:.2f}, above {shift.limit:.2f}; the median was "
                f"{_short(then.median)} and is {_short(now.median)}."
            )
            yield Finding(DISTRIBUTION, shift.name, None, shift.psi, shift.limit, text)

    def _differ(self, shares: tuple[float, float], limit: float, rows: Sequence[int]) -> bool:
        difference = abs(shares[1] - shares[0])
        one, other = self._sizes(rows)
        pooled = (shares[0] * one + shares[1] * other) / (one + other)
        error = math.sqrt(pooled * (1 - pooled) * (1 / one + 1 / other))
        return difference > limit and difference > _STANDARD_ERRORS * error

    def _index_by_chance(self, n_intervals: int, rows: Sequence[int]) -> float | None:
        if n_intervals < 2:
            return None
        one, other = self._sizes(rows)
        return float(chdtri(n_intervals - 1, _BY_CHANCE)) * (1 / one + 1 / other)

    def _sizes(self, rows: Sequence[int]) -> tuple[int, int]:
        """How many independent values there are, then and now: at most one per query."""
        sizes = [
            n_rows if n_queries is None else min(n_rows, n_queries)
            for n_rows, n_queries in zip(rows, self.queries, strict=True)
        ]
        return max(1, sizes[0]), max(1, sizes[1])


# How a check is shown.


def _row_of(shift: Shift) -> dict[str, str]:
    outside = shift.outside
    return {
        "feature": shift.name,
        "index": f"{shift.psi:.3f}",
        "limit": "–" if shift.limit is None else f"{shift.limit:.3f}",
        "missing then": f"{shift.then.missing_share:.1%}",
        "missing now": f"{shift.now.missing_share:.1%}",
        "outside then": f"{outside[0]:.1%}",
        "outside now": f"{outside[1]:.1%}",
        "median then": _short(shift.then.median),
        "median now": _short(shift.now.median),
    }


def _figure(finding: Finding, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if finding.kind == DISTRIBUTION else f"{value:.1%}"


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _of(rows: int, queries: int | None) -> str:
    of_queries = "" if queries is None else f" of {counted(queries, 'query')}"
    return f"{counted(rows, 'document')}{of_queries}"


def _drawing(shift: Shift) -> str:
    """The shares of the intervals, then and now, as bars beside each other."""
    then, now = (np.array(each.counts) / max(1, each.present) for each in (shift.then, shift.now))
    largest = max(float(then.max()), float(now.max()), 1e-9)
    width = _WIDTH / then.size
    ends = [*(f"up to {_short(cut)}" for cut in shift.then.cuts)]
    ends.append(f"above {_short(shift.then.cuts[-1])}" if shift.then.cuts else "all values")
    bars = []
    for number, (name, *shares) in enumerate(zip(ends, then, now, strict=True)):
        for side, (share, when, opacity) in enumerate(
            zip(shares, ("then", "now"), ("0.35", "0.9"), strict=True)
        ):
            height = _HEIGHT * share / largest
            bars.append(
                f'<rect x="{width * (number + 0.1 + 0.4 * side):.1f}" y="{_HEIGHT - height:.1f}" '
                f'width="{0.4 * width:.1f}" height="{height:.1f}" opacity="{opacity}">'
                f"<title>{name}: {share:.1%} {when}</title></rect>"
            )
    caption = (
        f"{html.escape(shift.name)}: shares of the values by interval, then (light) and now (dark)"
    )
    return (
        f'<figure><svg role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'fill="currentColor" aria-label="{caption}">{"".join(bars)}</svg><figcaption>{caption}</figcaption></figure>'
    )
