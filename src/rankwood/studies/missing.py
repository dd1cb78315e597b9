"""``compare_missing``: one ranker under every treatment of missing values, on the same queries.

The treatment "learned", where trees learn the direction of missing values, is the baseline of all differences.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.data.splits import shuffled_queries
from rankwood.dtypes import Array
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.evaluate import MeasureResult, evaluate
from rankwood.evaluation.paired_tests import (
    NO_INTERVAL,
    Interval,
    Resampling,
    adjusted,
    paired_t_test,
    weighted_values,
)
from rankwood.evaluation.results import Result, Tables, interval_ends, show_interval, show_number
from rankwood.measures.measure import Measure, parse_measure
from rankwood.models.validate import features_in_order
from rankwood.prepare.missing import TREATMENTS, PredictMissing, described, treated
from rankwood.training.rounds import Callback, ProgressReporter, check_listeners

BASELINE = "learned"  # what the others are compared with: the rankers' default


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

    Both the values that replace missing ones and the model are learned from the training data.

    Parameters
    ----------
    ranker
        An estimator of ours, such as ``RandomForest()``; it is cloned.
    train, test
        Data with missing values. Without ``test``, the queries of ``train`` are divided into ``n_folds`` folds, and
        each is scored by a model of the others.
    measure
        What is compared.
    treatments
        Some of "learned" (which is always there: the others are compared with it), "least", "greatest", "mean",
        "median", "predict", "three_way".
    predictor
        The step of the treatment "predict"; by default ``PredictMissing()`` with the ranker's seed and threads.
    n_bootstrap, confidence, seed
        Of the intervals, as for ``evaluate``; ``seed`` divides the folds too.
    progress
        A function that is called after every fit: see ``Progress``.

    p values are those of paired t tests over the queries against "learned", corrected by Holm for the number of
    treatments. Measures of all documents together (auc, rmse) have none, and no interval of the difference; those with
    ``over=queries`` do.
    """
    parsed = parse_measure(measure)
    names = _checked_treatments(treatments)
    check_listeners(progress, ())
    _refuse_complete_data(train, test)
    parts = _LearnedAndScored(train, test, n_folds, seed)
    ranker = _ready(ranker, train)
    reporter = ProgressReporter(len(names) * parts.n_fits, progress, (), unit="fit")
    measured: dict[str, tuple[MeasureResult, float]] = {}
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
        measured[name] = next(iter(evaluation)), seconds
    sampling = Resampling.of(parts.judged.n_queries, n_bootstrap, confidence, seed)
    results = _against_learned(measured, parts.judged, sampling)
    return MissingComparison(results, str(measure), confidence, parts.facts())


def _ready(ranker: Any, train: RankingData) -> Any:
    """A clone for many fits: without a checkpoint, which belongs to one fit, and with its kernels compiled."""
    copied = clone(ranker)
    known = copied.get_params(deep=False)
    if "checkpoint" in known:
        copied.set_params(checkpoint=None)
    if "n_trees" in known:  # else the first treatment's time would be that of compiling
        clone(copied).set_params(n_trees=1).fit(train.take_queries([0]))
    return copied


def _checked_treatments(treatments: Sequence[str]) -> list[str]:
    """The chosen treatments without repetitions, the baseline first."""
    if isinstance(treatments, str):
        raise ParameterError(f"treatments must be a list of names, got the text {treatments!r}.")
    for treatment in treatments:
        checks.one_of("treatment of missing values", treatment, TREATMENTS)
    return list(dict.fromkeys([BASELINE, *treatments]))


def _refuse_complete_data(train: RankingData, test: RankingData | None) -> None:
    for name, data in (("train", train), ("test", test)):
        if not isinstance(data, RankingData) and not (name == "test" and data is None):
            raise ParameterError(f"{name} must be RankingData, got {type(data).__name__}.")
    parts = [train] if test is None else [train, test]
    if not any(np.isnan(part.features).any() for part in parts):
        raise DataError(
            "the data have no missing values, so that there is nothing to treat. If features that a row of LETOR text "
            "leaves out are missing, and not 0, read it so: absent='missing', or --absent-missing."
        )


class _LearnedAndScored:
    """Pairs of training and scored data: the test data, or folds of the training queries."""

    def __init__(
        self, train: RankingData, test: RankingData | None, n_folds: int, seed: int
    ) -> None:
        self.train = train
        self.judged = train if test is None else test
        self.n_fits = 1
        if test is not None:
            # Raise before anything is trained, which may take long.
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
        """Sentences about the data and how they were scored."""
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
    measured: dict[str, tuple[MeasureResult, float]], data: RankingData, sampling: Resampling
) -> tuple[TreatmentResult, ...]:
    """Each treatment with its difference to the baseline."""
    own = measured[BASELINE][0]
    others = [name for name in measured if name != BASELINE]
    p_of, interval_of = {BASELINE: float("nan")}, dict.fromkeys(measured, NO_INTERVAL)
    if own.measure.is_pooled:  # it has no values of single queries
        p_of |= dict.fromkeys(others, float("nan"))
    else:
        weights = data.judgments.query_weights_or_ones
        differences = {name: measured[name][0].per_query - own.per_query for name in others}
        p_values = np.array([paired_t_test(differences[name]) for name in others], np.float64)
        p_of |= dict(zip(others, adjusted(p_values, "holm").tolist(), strict=True))
        for name in others:
            columns = weighted_values(differences[name][:, np.newaxis], weights)
            interval_of[name] = sampling.ratio_intervals(*columns)[0]
    return tuple(
        TreatmentResult(
            treatment=name,
            by=described(name),
            result=result,
            difference=result.value - own.value,
            difference_interval=interval_of[name],
            p_value=p_of[name],
            seconds=seconds,
        )
        for name, (result, seconds) in measured.items()
    )


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
            **interval_ends(self.interval),
            "difference": self.difference,
            **interval_ends(self.difference_interval, "difference_"),
            "p_value": self.p_value,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class MissingComparison(Result):
    """The results by treatment: ``comparison["median"].value``."""

    _csv_line_end = "\n"

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
                share: show_interval(result.interval),
                "difference": "–" if is_baseline else f"{result.difference:+.4f}",
                f"its {share}": show_interval(result.difference_interval, "+"),
                "p (Holm)": _p_value(result.p_value),
                "seconds": f"{result.seconds:,.1f}",
            }
            for result in self.results
            for is_baseline in [result.treatment == BASELINE]
        ]

    def notes(self) -> list[str]:
        """Sentences about the data and how they were scored, and the conventions of the measure."""
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

    def _tables(self) -> Tables:
        return {"": self.rows()}

    _footnotes = notes

    def _records(self) -> Iterator[dict[str, Any]]:
        """A record per treatment; a field is empty where there is no number."""
        for result in self.results:
            yield {
                name: "" if isinstance(value, float) and math.isnan(value) else value
                for name, value in result.to_dict().items()
            }


def _p_value(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
