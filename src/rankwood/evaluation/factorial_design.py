"""``factorial_design``: a ranker at every pair of levels of two parameters, and what makes the measure vary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood import _checks
from rankwood._threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.ensembles.progress import Callback, Watch, check_listeners
from rankwood.ensembles.validation import mean_value
from rankwood.errors import ParameterError, UnknownName
from rankwood.evaluation.factorial import Factorial, factorial
from rankwood.evaluation.fits import estimators_by_name, fitted, folds_of, parts_of, side_by_side
from rankwood.measures.measure import Measure
from rankwood.measures.parsing import parse_measure

REPLICATES = ("all", "repetitions", "folds")


def factorial_design(
    estimator: Any,
    factors: Mapping[str, Sequence[Any]],
    data: Any,
    test: RankingData | None = None,
    measure: str | Measure = "ndcg@10",
    *,
    valid: Any = None,
    repetitions: int = 5,
    replicates: str = "all",
    level: float = 0.05,
    n_threads: int | None = None,
    progress: Callback | None = None,
) -> Factorial:
    """What two parameters of a ranker, and their interaction, do to a measure on test data.

    Parameters
    ----------
    estimator
        The ranker; it is cloned, never fitted itself. Every fit gets a seed of its own.
    factors
        Two parameters, each with the values to try: ``{"loss": ["absolute", "gradient"], "validation": [...]}``.
    data, test, valid
        The training data beside ``test`` and perhaps ``valid``; or folds: (train, validation, test) each.
    measure
        The response.
    repetitions
        Fits of each pair of levels in each fold.
    replicates
        "all": each repetition in each fold is a replicate, so that the error holds what folds and seeds differ by.
        "repetitions": a replicate is the mean over folds. "folds": a replicate is the mean over repetitions.
    level
        What p values are compared with.
    n_threads
        How many fits run side by side.
    progress
        A function that is told after each fit.
    """
    (ranker,) = _one(estimator)
    names, cells = _cells(ranker, factors)
    wanted = parse_measure(measure)
    repetitions = _checks.whole_number("repetitions", repetitions, 1)
    _checks.one_of("replicates", replicates, REPLICATES)
    check_listeners(progress, ())
    threads = resolve_threads(n_threads)
    folds = folds_of(data, test, valid)
    _refuse_single_replicates(replicates, len(folds), repetitions)
    watch = Watch(len(folds) * len(cells) * repetitions, progress, (), unit="fit")
    found = np.empty((len(folds), len(cells), repetitions))
    for number in range(len(folds)):
        measured = _measured_fits(cells, folds[number], wanted, (number, repetitions, threads))
        jobs = side_by_side(
            measured, len(cells) * repetitions, threads, watch, number * found[0].size
        )
        found[number].flat = list(jobs)
    n_levels = tuple(len(levels) for levels in names.values())
    values = _as_replicates(found, replicates).reshape(*n_levels, -1)
    return factorial(values, names, level=level, response=str(wanted))


def _measured_fits(
    cells: Sequence[Any], fold: Any, measure: Measure, counts: tuple[int, int, int]
) -> Callable[[int], float]:
    """What fits a job's estimator in a fold and gives the measure of its test data."""
    number, repetitions, threads = counts
    parts = parts_of(fold)

    def measured(job: int) -> float:
        cell = job // repetitions
        iteration = number * len(cells) * repetitions + job  # no two fits share a seed
        model = fitted(cells[cell], parts.train, parts.valid, iteration, threads)
        return mean_value(measure, _checks.read_only(model.predict(parts.test)), parts.test)

    return measured


def _one(estimator: Any) -> Iterable[Any]:
    if isinstance(estimator, Mapping):
        raise ParameterError("a factorial design is of one estimator; pass it itself.")
    return estimators_by_name(estimator).values()


def _cells(
    estimator: Any, factors: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, tuple[str, ...]], list[Any]]:
    """Names of factors and levels, and an estimator for every pair of levels, checked before the first is fitted."""
    if not isinstance(factors, Mapping) or len(factors) != 2:
        raise ParameterError(
            "factors must be two parameters, each with the values to try, such as "
            "{'loss': ['absolute', 'gradient'], 'n_trees': [10, 50]}."
        )
    known = estimator.get_params()
    for name, levels in factors.items():
        if name not in known:
            raise UnknownName(f"parameter of {type(estimator).__name__}", str(name), known)
        if isinstance(levels, str) or len(levels) < 2 or len(set(map(str, levels))) < len(levels):
            raise ParameterError(f"{name} needs two different values or more, got {levels!r}.")
    (one, ones), (other, others) = factors.items()
    cells = []
    for level in ones:
        for level_of_other in others:
            cell = clone(estimator).set_params(**{one: level, other: level_of_other})
            if hasattr(cell, "_check_parameters"):
                cell._check_parameters()
            cells.append(cell)
    return {str(name): tuple(map(str, levels)) for name, levels in factors.items()}, cells


def _refuse_single_replicates(replicates: str, n_folds: int, repetitions: int) -> None:
    n_replicates = {
        "all": n_folds * repetitions,
        "repetitions": repetitions,
        "folds": n_folds,
    }[replicates]
    if n_replicates < 2:
        raise ParameterError(
            f"replicates={replicates!r} gives one replicate of each pair of levels with {n_folds} folds and "
            f"{repetitions} repetitions; error needs two or more. Raise repetitions, or pass folds."
        )


def _as_replicates(found: Floats, replicates: str) -> Floats:
    """Values by cell and replicate, from values by fold, cell and repetition."""
    by_cell = found.transpose(1, 0, 2)
    if replicates == "all":
        return by_cell.reshape(len(by_cell), -1)
    means: Floats = by_cell.mean(axis=1 if replicates == "repetitions" else 2)
    return means
