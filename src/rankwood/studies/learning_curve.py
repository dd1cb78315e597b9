"""``learning_curve``: a measure of rankers that were fitted to a tenth, two tenths, … of the training queries."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core import checks, random
from rankwood._core.threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.data.splits import rows_of_queries
from rankwood.dtypes import Floats, Rows
from rankwood.errors import DataError, InputError, ParameterError, UnknownName, counted
from rankwood.evaluation.plots import PlotLine, line_plot
from rankwood.evaluation.results import Result, Tables, show_number
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, parse_measure
from rankwood.studies.fits import (
    FoldParts,
    all_parts,
    digest_of_folds,
    estimators_by_name,
    fitted,
    folds_of,
    measure_fits,
    on_scale,
    parts_of,
)
from rankwood.training.rounds import Callback, CheckpointFile, check_listeners, plain

__all__ = ["TENTHS", "LearningCurve", "learning_curve"]

TENTHS = tuple(round(tenth / 10, 1) for tenth in range(1, 11))


@dataclass(frozen=True, eq=False)
class LearningCurve(Result):
    """A measure on test data by share of training queries: ``curve["RandomForest"]`` has a mean per share.

    ``values`` are by algorithm, shares × replicates: each repetition in each fold. ``n_queries`` has the mean number of
    training queries of each share.
    """

    measure: str
    shares: tuple[float, ...]
    n_queries: tuple[float, ...]
    values: Mapping[str, Floats] = field(repr=False)
    repetitions: int
    n_folds: int

    def __getitem__(self, name: str) -> Floats:
        if name not in self.values:
            raise UnknownName("algorithm", str(name), self.values)
        means: Floats = self.values[name].mean(axis=1)
        return means

    def deviations(self, name: str) -> Floats:
        """The standard deviation over replicates, by share; 0 with one replicate."""
        values = self.values[name]
        if values.shape[1] < 2:
            return np.zeros(len(values))
        deviations: Floats = values.std(axis=1, ddof=1)
        return deviations

    def rows(self) -> list[dict[str, Any]]:
        """A flat mapping per algorithm and share."""
        return [
            {
                "algorithm": name,
                "share": share,
                "queries": self.n_queries[index],
                "mean": float(self[name][index]),
                "deviation": float(self.deviations(name)[index]),
                "least": float(values[index].min()),
                "greatest": float(values[index].max()),
                "replicates": values.shape[1],
            }
            for name, values in self.values.items()
            for index, share in enumerate(self.shares)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "measure": self.measure,
            "shares": list(self.shares),
            "queries": list(self.n_queries),
            "repetitions": self.repetitions,
            "folds": self.n_folds,
            "values": {name: values.tolist() for name, values in self.values.items()},
            "means": {name: self[name].tolist() for name in self.values},
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the means, with bands of one standard deviation; the path's ending names the format."""
        lines = {}
        for group, name in enumerate(self.values):
            mean, deviation = self[name], self.deviations(name)
            x = np.array(self.n_queries)
            lines[name] = PlotLine(x, mean, mean - deviation, mean + deviation, group, group)
        has_spread = self.repetitions * self.n_folds > 1
        bands = "bands: one standard deviation\nover repetitions and folds" if has_spread else ""
        line_plot(path, lines, "training queries", self.measure, bands=bands)

    def table(self) -> list[dict[str, str]]:
        """A row per share as texts: the mean of each algorithm ± its standard deviation."""
        has_spread = self.repetitions * self.n_folds > 1
        rows = []
        for index, share in enumerate(self.shares):
            row = {"share": f"{100 * share:g} %", "queries": f"{self.n_queries[index]:,.0f}"}
            for name in self.values:
                spread = f" ± {self.deviations(name)[index]:.4f}" if has_spread else ""
                row[name] = show_number(float(self[name][index])) + spread
            rows.append(row)
        return rows

    def notes(self) -> list[str]:
        """What was measured, and how often."""
        folds = f" in each of {self.n_folds} folds" if self.n_folds > 1 else ""
        often = f"{counted(self.repetitions, 'repetition')}{folds}"
        notes = [f"{self.measure} on test data; {often}, each with its own nested samples"]
        if self.repetitions * self.n_folds > 1:
            notes.append(
                "±: one standard deviation over repetitions and folds; it is no interval of the mean"
            )
        return notes

    def _tables(self) -> Tables:
        return {"": self.table()}

    _footnotes = notes

    def _records(self) -> list[dict[str, Any]]:
        return self.rows()


def learning_curve(
    estimator: Any,
    data: Any,
    test: RankingData | None = None,
    measure: str | Measure = "ndcg@10",
    *,
    valid: Any = None,
    shares: Sequence[float] = TENTHS,
    repetitions: int = 1,
    seed: int = 0,
    n_threads: int | None = None,
    progress: Callback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> LearningCurve:
    """Fit rankers to growing shares of the training queries, and measure them on the same test data.

    Samples are nested: a repetition shuffles the queries once, and each share takes the first of them. All algorithms
    see the same samples. Validation data, where there are any, are used whole.

    Parameters
    ----------
    estimator
        An estimator, or several by name. It is cloned, never fitted itself.
    data, test, valid
        The training data beside ``test`` and perhaps ``valid``; or folds: (train, validation, test) each.
    measure
        Any measure.
    shares
        Of the training queries, in (0, 1], ascending; a share has at least one query.
    repetitions
        How often the queries are shuffled, in each fold; the estimators' seeds differ too.
    seed, n_threads
        Same data, seed and version: same result, however many fits run side by side.
    progress
        A function that is told after each fit.
    checkpoint
        A file that keeps the finished fits; a call that finds one there goes on with it.
    """
    algorithms = estimators_by_name(estimator)
    wanted = parse_measure(measure)
    asked = _checked_shares(shares)
    repetitions = checks.whole_number("repetitions", repetitions, 1)
    seed = checks.whole_number("seed", seed, 0)
    check_listeners(progress, ())
    threads = resolve_threads(n_threads)
    folds = folds_of(data, test, valid)
    wanted = on_scale(wanted, all_parts(folds))
    counts: dict[int, list[int]] = {}  # queries of each share, by fold

    def fits_of_fold(number: int) -> Callable[[int], float]:
        parts = parts_of(folds[number])
        job = _LearningFold(algorithms, parts, wanted, asked, repetitions, (number, seed, threads))
        counts[number] = job.counts
        return job.measured

    def settings() -> dict[str, Any]:
        named = {"estimators": list(algorithms.items()), "measure": wanted, "shares": asked}
        return dict(plain("estimator", named | {"repetitions": repetitions, "seed": seed}))

    values = measure_fits(
        fits_of_fold,
        len(folds),
        len(algorithms) * len(asked) * repetitions,
        checkpoint=CheckpointFile(
            checkpoint, "learning_curve", settings, functools.partial(digest_of_folds, folds)
        ),
        n_threads=threads,
        progress=progress,
    )
    for number in range(len(folds)):
        if number not in counts:  # all fits of the fold were in the checkpoint
            fits_of_fold(number)
    by_fold = values.reshape(len(folds), len(algorithms), len(asked), repetitions)
    by_algorithm = by_fold.transpose(1, 2, 0, 3).reshape(len(algorithms), len(asked), -1)
    return LearningCurve(
        str(wanted),
        asked,
        tuple(np.mean([counts[number] for number in range(len(folds))], axis=0).tolist()),
        dict(zip(algorithms, by_algorithm, strict=True)),
        repetitions,
        len(folds),
    )


@dataclass(frozen=True, eq=False)
class _LearningFold:
    """The fits of one fold: algorithms × shares × repetitions."""

    algorithms: Mapping[str, Any]
    parts: FoldParts
    measure: Measure
    shares: tuple[float, ...]
    repetitions: int
    number_seed_threads: tuple[int, int, int]

    @property
    def counts(self) -> list[int]:
        """How many queries each share has."""
        n_queries = self.parts.train.n_queries
        return [max(1, round(share * n_queries)) for share in self.shares]

    def sample(self, share: int, repetition: int) -> RankingData:
        """The first queries of the repetition's order."""
        number, seed, _ = self.number_seed_threads
        train = self.parts.train
        stream = random.stream(seed, "learning curve", number * self.repetitions + repetition)
        order: Rows = stream.permutation(train.n_queries)
        count = self.counts[share]
        return train if count == train.n_queries else rows_of_queries(train, order[:count])

    def measured(self, job: int) -> float:
        """Fit an algorithm to a share, and measure it on the test data."""
        shape = (len(self.algorithms), len(self.shares), self.repetitions)
        algorithm, share, repetition = (int(index) for index in np.unravel_index(job, shape))
        number, _, threads = self.number_seed_threads
        name = list(self.algorithms)[algorithm]
        iteration = number * self.repetitions + repetition
        sample = self.sample(share, repetition)
        try:
            model = fitted(self.algorithms[name], sample, self.parts.valid, iteration, threads)
        except InputError as error:
            where = f"{name} on {sample.n_queries:,} of {self.parts.train.n_queries:,} queries"
            raise DataError(f"{where}: {error}") from None
        scores = checks.read_only(model.predict(self.parts.test))
        return mean_value(self.measure, scores, self.parts.test)


def _checked_shares(shares: Any) -> tuple[float, ...]:
    try:
        asked = tuple(
            checks.real_number("each of shares", float(share), "(0, 1]") for share in shares
        )
    except (TypeError, ValueError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(
            f"shares must be a list of numbers in (0, 1], got {shares!r}."
        ) from None
    if not asked or any(one >= other for one, other in itertools.pairwise(asked)):
        raise ParameterError(
            f"shares must ascend, and there must be one at least; got {list(asked)}."
        )
    return asked
