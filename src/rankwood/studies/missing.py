"""``compare_missing``: one ranker under every treatment of missing values, on the same queries."""

from __future__ import annotations

import csv
import io
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.data.dataset import RankingData
from rankwood.data.splits import shuffled_queries
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.evaluate import evaluate
from rankwood.evaluation.results import (
    NO_INTERVAL,
    Interval,
    MeasureResult,
    Resampling,
    aligned,
    as_html,
    show_number,
)
from rankwood.measures.compute import paired_t_test
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.inputs import features_in_order
from rankwood.prepare.missing import TREATMENTS, PredictMissing, described, treated
from rankwood.training.rounds import Callback, ProgressReporter, check_listeners


def compare_missing(
    ranker: Any,
    train: RankingData,
    test: RankingData | None = None,
    measure: str | Measure = "ndcg@10",
    *,
    treatments: Sequence[str] = TREATMENTS,
    predictor: PredictMissing | None = None,
    n_folds: int = 5,
    n_bootstrap: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callback | None = None,
) -> MissingComparison:
    """How well ``ranker`` ranks under each treatment of missing values.

    Everything is learned from the training part: what gaps are filled with, and the model.

    Parameters
    ----------
    ranker
        An estimator of ours, such as ``RandomForest()``; it is cloned.
    train, test
        Data with missing values. Without ``test``, the queries of ``train`` are dealt into ``n_folds`` folds, and each
        is scored by a model of the others.
    measure
        What is compared.
    treatments
        Some of "learned" (which is always there: the others are compared with it), "least", "greatest", "mean",
        "median", "predict", "three_way".
    predictor
        The step of the treatment "predict"; by default ``PredictMissing()`` with the ranker's seed and threads.
    n_bootstrap, confidence, seed
        Of the intervals, as for ``evaluate``; ``seed`` deals the folds too.
    progress
        A function that is told of every fit: see ``Progress``.

    p values are those of paired t tests over the queries against "learned", corrected by Holm for the number of
    treatments. Measures of all documents together (auc, rmse) have none, and no interval of the difference.
    """
    parsed = parse_measure(measure)
    names = _checked_treatments(treatments)
    check_listeners(progress, ())
    _refuse_what_has_nothing_to_treat(train, test)
    parts = _Parts(train, test, n_folds, seed)
    ranker = _ready(ranker, train)
    reporter = ProgressReporter(len(names) * parts.n_fits, progress, (), unit="fit")
    found: dict[str, tuple[MeasureResult, float]] = {}
    for number, name in enumerate(names):
        start = time.perf_counter()
        scores = np.zeros(parts.judged.n_documents)
        for fit, (learned_from, scored, rows) in enumerate(parts):
            model = treated(ranker, name, predictor).fit(learned_from)
            scores[rows] = model.predict(scored)
            reporter.report(number * parts.n_fits + fit + 1)
        seconds = time.perf_counter() - start
        options: dict[str, Any] = {"n_bootstrap": n_bootstrap, "confidence": confidence}
        evaluation = evaluate(scores, parts.judged, parsed, seed=seed, **options)
        found[name] = next(iter(evaluation)), seconds
    sampling = Resampling.of(parts.judged.n_queries, n_bootstrap, confidence, seed)
    results = _against_learned(found, parts.judged, sampling)
    return MissingComparison(results, str(measure), confidence, parts.facts())


def _ready(ranker: Any, train: RankingData) -> Any:
    """The ranker for many fits: without a checkpoint, which belongs to one, and with its kernels compiled."""
    copied = clone(ranker)
    known = copied.get_params(deep=False)
    if "checkpoint" in known:
        copied.set_params(checkpoint=None)
    if "n_trees" in known:  # else the first treatment's time would be that of compiling
        clone(copied).set_params(n_trees=1).fit(train.take_queries([0]))
    return copied


def _checked_treatments(treatments: Sequence[str]) -> list[str]:
    """The treatments asked for, each once, the one they are compared with first."""
    if isinstance(treatments, str):
        raise ParameterError(f"treatments must be a list of names, got the text {treatments!r}.")
    for treatment in treatments:
        checks.one_of("treatment of missing values", treatment, TREATMENTS)
    return list(dict.fromkeys([BASELINE, *treatments]))


def _refuse_what_has_nothing_to_treat(train: RankingData, test: RankingData | None) -> None:
    for name, data in (("train", train), ("test", test)):
        if not isinstance(data, RankingData) and not (name == "test" and data is None):
            raise ParameterError(f"{name} must be RankingData, got {type(data).__name__}.")
    parts = [train] if test is None else [train, test]
    if not any(np.isnan(part.features).any() for part in parts):
        raise DataError(
            "the data have no missing values, so that there is nothing to treat. If features that a row of LETOR text "
            "leaves out are missing, and not 0, read it so: absent='missing', or --absent-missing."
        )


class _Parts:
    """What is learned from and what is scored: one test part, or folds of the training queries."""

    def __init__(
        self, train: RankingData, test: RankingData | None, n_folds: int, seed: int
    ) -> None:
        self.train = train
        self.judged = train if test is None else test
        self.n_fits = 1
        if test is not None:
            # Said before anything is trained, which may take long.
            features_in_order(test, train.n_features, train.feature_names)
            _ = test.grouping
            return
        self.n_fits = checks.whole_number("n_folds", n_folds, 2)
        if self.n_fits > train.n_queries:
            raise ParameterError(
                f"n_folds is {self.n_fits}, but there are only {train.n_queries} queries; a fold needs one."
            )
        order = shuffled_queries(train, seed, "folds")
        fold_of_query = np.empty(order.size, np.int64)
        fold_of_query[order] = np.arange(order.size) % self.n_fits
        self.fold_of_row: Array = fold_of_query[train.query_of_row]

    def __iter__(self) -> Iterator[tuple[RankingData, RankingData, Any]]:
        """Rows to learn from, rows to score, and which rows of ``judged`` those are."""
        if self.judged is not self.train:
            yield self.train, self.judged, slice(None)
            return
        for fold in range(self.n_fits):
            is_scored = self.fold_of_row == fold
            yield self.train.take_rows(~is_scored), self.train.take_rows(is_scored), is_scored

    def facts(self) -> list[str]:
        """What the figures are about, in sentences."""
        gaps = np.isnan(self.train.features)
        n_gappy = int(np.logical_or.reduce(gaps, axis=0).sum())
        how = (
            "scored by a model of the training data"
            if self.judged is not self.train
            else f"each scored by a model of the other folds ({self.n_fits} folds)"
        )
        return [
            f"{gaps.mean():.1%} of the training values are missing, in {n_gappy:,} of "
            f"{self.train.n_features:,} features",
            f"{self.judged.n_documents:,} documents of {self.judged.n_queries:,} queries, {how}",
        ]


def _against_learned(
    found: dict[str, tuple[MeasureResult, float]], data: RankingData, sampling: Resampling
) -> tuple[TreatmentResult, ...]:
    """Each treatment with its difference to the one that learns where missing values go."""
    own = found[BASELINE][0]
    others = [name for name in found if name != BASELINE]
    values = [
        float("nan")
        if own.measure.is_pooled
        else paired_t_test(found[name][0].per_query - own.per_query)
        for name in others
    ]
    p_of = dict(zip(others, _holm(values), strict=True)) | {BASELINE: float("nan")}
    results = []
    for name, (result, seconds) in found.items():
        interval = NO_INTERVAL
        if name != BASELINE and not result.measure.is_pooled:
            interval = _interval(result.per_query - own.per_query, data, sampling)
        apart = result.value - own.value
        results.append(
            TreatmentResult(name, described(name), result, apart, interval, p_of[name], seconds)
        )
    return tuple(results)


def _interval(differences: Floats, data: RankingData, sampling: Resampling) -> Interval:
    """The bootstrap interval of the weighted mean difference."""
    weights = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
    is_counted = ~np.isnan(differences)
    weight = (weights * is_counted)[:, np.newaxis]
    weighted = weight * np.where(is_counted, differences, 0.0)[:, np.newaxis]
    return sampling.ratio_intervals(weighted, weight)[0]


def _holm(values: Sequence[float]) -> list[float]:
    """The p values corrected for how many there are (Holm 1979); NaN stays and does not count."""
    corrected = np.array(values, np.float64)
    tested = np.flatnonzero(~np.isnan(corrected))
    ascending = tested[np.argsort(corrected[tested], kind="stable")]
    factors = np.arange(ascending.size, 0, -1)
    corrected[ascending] = np.minimum(1.0, np.maximum.accumulate(corrected[ascending] * factors))
    return [float(value) for value in corrected]


# What ``compare_missing`` gives: a row per treatment of missing values, as a table, as numbers, as a file.


BASELINE = "learned"  # what the others are compared with: the rankers' default


@dataclass(frozen=True, eq=False)
class TreatmentResult:
    """A ranker under one treatment of missing values.

    ``difference`` is to the treatment "learned", with its interval; ``p_value`` is of a paired t test, corrected by
    Holm. ``seconds`` are those of filling, training and scoring.
    """

    treatment: str
    by: str  # the step or policy
    result: MeasureResult
    difference: float
    difference_interval: Interval
    p_value: float
    seconds: float

    @property
    def value(self) -> float:
        """The measure."""
        return self.result.value

    @property
    def interval(self) -> Interval:
        """The interval of the measure."""
        return self.result.interval

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts."""
        return {
            "treatment": self.treatment,
            "by": self.by,
            "measure": str(self.result.measure),
            "value": self.value,
            "low": self.interval[0],
            "high": self.interval[1],
            "difference": self.difference,
            "difference_low": self.difference_interval[0],
            "difference_high": self.difference_interval[1],
            "p_value": self.p_value,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class MissingComparison:
    """The results by treatment: ``comparison["median"].value``."""

    results: tuple[TreatmentResult, ...]
    text: str  # the measure as it was asked for
    confidence: float
    facts: Sequence[str]

    def __getitem__(self, treatment: str) -> TreatmentResult:
        for result in self.results:
            if result.treatment == treatment:
                return result
        names = [result.treatment for result in self.results]
        raise UnknownName("treatment of this comparison", str(treatment), names)

    def __iter__(self) -> Iterator[TreatmentResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def rows(self) -> list[dict[str, str]]:
        """The table's rows as texts."""
        share = f"{100 * self.confidence:g} % interval"
        return [
            {
                "treatment": result.treatment,
                "by": result.by,
                self.text: show_number(result.value),
                share: _between(result.interval, ""),
                "difference": "–" if is_baseline else f"{result.difference:+.4f}",
                f"its {share}": _between(result.difference_interval, "+"),
                "p (Holm)": _p_value(result.p_value),
                "seconds": f"{result.seconds:,.1f}",
            }
            for result in self.results
            for is_baseline in [result.treatment == BASELINE]
        ]

    def notes(self) -> list[str]:
        """What the figures are about, and the conventions of the measure."""
        conventions = self.results[0].result.conventions
        listed = ", ".join(f"{name} {value}" for name, value in conventions.items())
        return [
            *self.facts,
            f"differences and paired t tests over queries are to '{BASELINE}'",
            f"{self.text}: {listed or 'no conventions'}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "measure": self.text,
            "confidence": self.confidence,
            "baseline": BASELINE,
            "conventions": dict(self.results[0].result.conventions),
            "treatments": [result.to_dict() for result in self.results],
            "notes": self.notes(),
        }

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a row per treatment, numbers in full; a field is empty where there is no number."""
        out = io.StringIO()
        rows = [result.to_dict() for result in self.results]
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _in_full(value) for name, value in row.items()})
        with explained_writing(path), atomic_path(path) as temporary:
            temporary.write_text(out.getvalue())

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows()), "", *self.notes()])

    def _repr_html_(self) -> str:
        return as_html(self.rows(), self.notes())


def _between(interval: Interval, sign: str) -> str:
    if math.isnan(interval[0]):
        return "–"
    return f"{interval[0]:{sign}.4f} – {interval[1]:{sign}.4f}"


def _p_value(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _in_full(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return str(value)
