"""What studies that fit many models share: estimators by name or by cell, folds, a seed for every fit, parallel fits.

A cell is a combination of values of an estimator's parameters; factorial designs fit an estimator for each.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from rankwood._core import checks, random
from rankwood._core.threads import parallel_map_ordered
from rankwood.data.dataset import RankingData
from rankwood.data.splits import Fold
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure
from rankwood.models.validate import ArrayRule
from rankwood.rankers.base import Ranker, check_parameters
from rankwood.training.inputs import validation_data
from rankwood.training.rounds import (
    Callback,
    CheckpointFile,
    ProgressReporter,
    Rounds,
    digest_of_arrays,
)

Outcome = TypeVar("Outcome")
_LARGEST_SEED = 2**31
MOST_FACTORS = 6  # 63 sources of variation


@dataclass(frozen=True, eq=False)
class FoldParts:
    """The three parts of a fold; validation data may be missing."""

    train: RankingData
    valid: RankingData | None
    test: RankingData


def estimators_by_name(estimator: Any) -> dict[str, Any]:
    """The estimators to fit, from one, or from several by name."""
    named = estimator if isinstance(estimator, Mapping) else {type(estimator).__name__: estimator}
    if not named:
        raise ParameterError("estimator is empty; pass an estimator, or several by name.")
    for name, each in named.items():
        methods = ("fit", "predict", "get_params")
        if isinstance(each, type) or not all(hasattr(each, method) for method in methods):
            raise ParameterError(
                f"'{name}' must be an estimator such as RandomForest(n_trees=50), got {each!r}."
            )
    return {str(name): each for name, each in named.items()}


def folds_of(data: Any, test: Any, valid: Any) -> Any:
    """A sequence of folds from training and test data, or from folds, which are read when they are indexed."""
    if isinstance(data, RankingData):
        if test is None:
            raise ParameterError("test is missing: pass the data to test on, or pass folds.")
        return [(data, valid, test)]
    if test is not None or valid is not None:
        raise ParameterError("folds have test and validation data of their own; leave out yours.")
    folds = [data] if isinstance(data, Fold) else data
    if not hasattr(folds, "__getitem__") or not hasattr(folds, "__len__") or len(folds) == 0:
        raise ParameterError(
            f"data must be RankingData or folds, as read_folds gives them; got {type(data).__name__}."
        )
    return folds


def on_scale(measure: Measure, parts: Iterable[RankingData | None]) -> Measure:
    """The measure on one scale of labels, which ends at the largest of all parts: never a fold's own.

    Measures without such a scale, with a ``max`` of their own, or whose parts all end at the same label stay as they
    are.
    """
    if "max" not in measure.form.options or measure["max"] is not None:
        return measure
    largest = {float(part.labels.max(initial=0.0)) for part in parts if part is not None}
    return measure if len(largest) < 2 else measure.with_largest(max(largest))


def all_parts(folds: Any) -> Iterator[RankingData | None]:
    """Every part of every fold, read when it is asked for."""
    for number in range(len(folds)):
        fold = parts_of(folds[number])
        yield from (fold.train, fold.valid, fold.test)


def parts_of(fold: Any, need: str = "rankings are measured by query") -> FoldParts:
    """The three parts of a fold; raises unless the training and the test data have queries and rows."""
    if not isinstance(fold, tuple | list) or len(fold) != 3:
        raise ParameterError("a fold must be (train, validation, test); validation may be None.")
    train, valid, test = fold
    for name, part in (("training", train), ("test", test)):
        if not isinstance(part, RankingData):
            raise ParameterError(f"the {name} data must be RankingData, got {type(part).__name__}.")
        if part.query_ids is None:
            raise DataError(f"the {name} data have no query ids, and {need}.")
        if part.n_documents == 0:
            raise DataError(f"the {name} data have no rows.")
    return FoldParts(train, validation_data(valid, train), test)


def fitted(
    estimator: Any, train: RankingData, valid: RankingData | None, iteration: int, n_threads: int
) -> Any:
    """A clone of ``estimator``, fitted; its seed follows from its own one and ``iteration``."""
    model = clone(estimator)
    known = model.get_params(deep=False)
    if "seed" in known:
        drawn = random.stream(known["seed"] or 0, "seed of a training", iteration)
        model.set_params(seed=int(drawn.integers(_LARGEST_SEED)))
    if "checkpoint" in known:
        model.set_params(checkpoint=None)  # else a fit would continue from another's trees
    if "n_threads" in known and known["n_threads"] is None:
        model.set_params(n_threads=n_threads)
    options = {} if valid is None else {"valid": valid}
    model.fit(train, **options)
    return model


def side_by_side(
    function: Callable[[int], Outcome],
    n_jobs: int,
    n_threads: int,
    reporter: ProgressReporter,
    done: int = 0,
) -> Iterator[Outcome]:
    """``function`` of each job in order, one per thread; each is reported, counted from ``done``."""
    with contextlib.closing(
        parallel_map_ordered(function, range(n_jobs), max(1, min(n_threads, n_jobs)))
    ) as results:
        for job, result in enumerate(results):
            yield result
            reporter.report(done + job + 1)


def measure_fits(
    fits_of_fold: Callable[[int], Callable[[int], float]],
    n_folds: int,
    n_fits: int,
    *,
    checkpoint: CheckpointFile,
    n_threads: int,
    progress: Callback | None,
) -> Floats:
    """The value of each of ``n_fits`` fits in each fold: folds × fits.

    ``fits_of_fold(number)`` gives the function that does the fits of a fold. Each fit is written to the checkpoint when
    it is done, and those that the checkpoint has already are not repeated.
    """
    saved = checkpoint.read({"values": ArrayRule(np.float64, (None,), may_be_nan=True)})
    values: list[float] = [] if saved is None else saved[1]["values"].tolist()
    with checkpoint.explained():
        if len(values) > n_folds * n_fits:
            raise ModelError(f"it has {len(values):,} fits, but there are {n_folds * n_fits:,}.")

    def save(file: CheckpointFile) -> None:
        file.store({}, {"values": np.array(values, np.float64)})

    reporter = ProgressReporter(n_folds * n_fits, progress, (), len(values), unit="fit")
    rounds = Rounds(reporter, done=len(values), save=checkpoint.saver(save), seconds_between=0.0)
    remaining = _fits_from(len(values), fits_of_fold, n_folds, n_fits, n_threads)
    with contextlib.closing(remaining) as measured:
        for _ in rounds:
            values.append(next(measured))
            rounds.finish()
    return np.array(values, np.float64).reshape(n_folds, n_fits)


def _fits_from(
    first: int,
    fits_of_fold: Callable[[int], Callable[[int], float]],
    n_folds: int,
    n_fits: int,
    n_threads: int,
) -> Generator[float, None, None]:
    """The values of the fits from number ``first`` on, fold after fold; the fits of a fold run in parallel."""
    for fold in range(first // n_fits, n_folds):
        numbers = range(max(0, first - fold * n_fits), n_fits)
        threads = max(1, min(n_threads, n_fits))
        yield from parallel_map_ordered(fits_of_fold(fold), numbers, threads)


def digest_of_folds(folds: Any) -> str:
    """A digest of the data of all folds; they are read one after the other."""
    digests = []
    for number in range(len(folds)):
        fold = parts_of(folds[number])
        parts = [_arrays_of(data) for data in (fold.train, fold.valid, fold.test)]
        digests.append(digest_of_arrays([array for arrays in parts for array in arrays]))
    return " ".join(digests)


def digest_of_part(data: RankingData) -> str:
    """A digest of training, validation or test data."""
    return digest_of_arrays(_arrays_of(data))


def _arrays_of(data: RankingData | None) -> list[Array | None]:
    if data is None:
        return [None]
    queries = None if data.query_ids is None else data.query_of_row
    return [data.features, data.labels, data.row_weights, data.query_weights, queries]


# Estimators of all combinations of parameters' values.


def estimators_of_cells(
    estimator: Any,
    factors: Mapping[str | tuple[str, ...], Sequence[Any]],
    where: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> tuple[dict[str, tuple[str, ...]], list[Any]]:
    """Names of factors and levels, and an estimator for every cell, checked before the first is fitted."""
    if isinstance(estimator, Mapping):
        raise ParameterError("a factorial design is of one estimator; pass it itself.")
    (estimator,) = estimators_by_name(estimator).values()
    if not isinstance(factors, Mapping) or len(factors) < 2:
        raise ParameterError(
            "factors must be two parameters or more, each with the values to try, such as "
            "{'loss': ['absolute', 'gradient'], 'n_trees': [10, 50]}."
        )
    if len(factors) > MOST_FACTORS:
        raise ParameterError(f"a design has at most {MOST_FACTORS} factors, got {len(factors)}.")
    known = estimator.get_params()
    named = [
        _Factor.of(name, levels, type(estimator).__name__, known)
        for name, levels in factors.items()
    ]
    twice = [name for name, n in Counter(n for f in named for n in f.parameters).items() if n > 1]
    if twice:
        raise ParameterError(f"{twice[0]} is in two factors; a parameter belongs to one.")
    exceptions = [
        _checked_exception(each, named, type(estimator).__name__, known) for each in where
    ]
    cells, texts = [], []
    for chosen in itertools.product(*(factor.settings for factor in named)):
        values = {name: value for settings in chosen for name, value in settings.items()}
        for conditions, changes in exceptions:
            if all(str(values[name]) == text for name, text in conditions.items()):
                values |= changes
        cell = clone(estimator).set_params(**values)
        if isinstance(cell, Ranker):
            check_parameters(cell)
        cells.append(cell)
        texts.append({name: str(value) for name, value in values.items()})
    _refuse_equal_cells(texts)
    return {factor.name: factor.levels for factor in named}, cells


@dataclass(frozen=True)
class _Factor:
    """A parameter, or several that vary together, and what each level sets."""

    name: str
    parameters: tuple[str, ...]
    levels: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, name: Any, levels: Sequence[Any], owner: str, known: Mapping[str, Any]) -> _Factor:
        """A factor of the estimator ``owner``, whose parameters are ``known``."""
        parameters = tuple(name) if isinstance(name, tuple | list) else (str(name),)
        for each in parameters:
            if each not in known:
                raise UnknownName(f"parameter of {owner}", str(each), known)
        shown = " + ".join(parameters)
        if isinstance(levels, str) or len(levels) < 2 or len(set(map(str, levels))) < len(levels):
            raise ParameterError(f"{shown} needs two different values or more, got {levels!r}.")
        settings, texts = [], []
        for level in levels:
            values = level if isinstance(level, tuple | list) and len(parameters) > 1 else [level]
            if len(values) not in (1, len(parameters)):
                raise ParameterError(
                    f"a level of {shown} is one value for all, or {len(parameters)} values; got {level!r}."
                )
            texts.append(" + ".join(map(str, values)))
            each = list(values) * (len(parameters) // len(values))
            settings.append(dict(zip(parameters, each, strict=True)))
        return cls(shown, parameters, tuple(texts), tuple(settings))


def _checked_exception(
    given: Any, factors: Sequence[_Factor], owner: str, known: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """The conditions as texts and the changes of an exception, if there is a cell it concerns."""
    try:
        conditions, changes = given
        conditions, changes = dict(conditions), dict(changes)
    except (TypeError, ValueError):
        raise ParameterError(
            "where must hold pairs of mappings: levels, and what is set there, such as "
            f"({{'loss': 'gradient'}}, {{'n_rounds': 100}}); got {given!r}."
        ) from None
    varied = {name: factor for factor in factors for name in factor.parameters}
    for name, value in conditions.items():
        if name not in varied:
            raise UnknownName("where: parameter of a factor", str(name), varied)
        levels = dict.fromkeys(str(settings[name]) for settings in varied[name].settings)
        if str(value) not in levels:
            raise UnknownName(f"where: level of {name}", str(value), levels)
    for name in changes:
        if name not in known:
            raise UnknownName(f"parameter of {owner}", str(name), known)
    if not conditions or not changes:
        raise ParameterError("where needs levels and what is set there; one of the two is empty.")
    return {name: str(value) for name, value in conditions.items()}, changes


def _refuse_equal_cells(texts: Sequence[Mapping[str, str]]) -> None:
    """Raise where exceptions have made two cells the same ranker."""
    seen: list[Mapping[str, str]] = []
    for values in texts:
        if values in seen:
            listed = ", ".join(f"{name}={value}" for name, value in values.items())
            raise ParameterError(f"two cells of the design are the same ranker: {listed}.")
        seen.append(values)


def fits_of_cells(
    cells: Sequence[Any], parts: FoldParts, measure: Measure, counts: tuple[int, int, int]
) -> Callable[[int], float]:
    """What fits a job's estimator in a fold and gives the measure of its test data.

    A cell that is not random is fitted once; its other repetitions have the same value.
    """
    number, repetitions, threads = counts
    known: dict[int, float] = {}
    first = [threading.Lock() for _ in cells]

    def measured(job: int) -> float:
        cell = job // repetitions
        if getattr(cells[cell], "is_random", True):
            return fresh(cell, job)
        with first[cell]:
            if cell not in known:
                known[cell] = fresh(cell, job)
            return known[cell]

    def fresh(cell: int, job: int) -> float:
        iteration = number * len(cells) * repetitions + job  # no two fits share a seed
        model = fitted(cells[cell], parts.train, parts.valid, iteration, threads)
        return mean_value(measure, checks.read_only(model.predict(parts.test)), parts.test)

    return measured
