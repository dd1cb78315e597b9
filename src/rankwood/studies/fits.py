"""What studies that fit many models share: estimators by name, folds, a seed for every fit, fits in parallel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from rankwood._core import random
from rankwood._core.threads import parallel_map_ordered
from rankwood.data.dataset import RankingData
from rankwood.data.folds import Fold
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, ParameterError
from rankwood.training.checkpoint import CheckpointFile, digest_of_arrays
from rankwood.training.inputs import validation_data
from rankwood.training.rounds import Callback, ProgressReporter, Rounds

Outcome = TypeVar("Outcome")
_LARGEST_SEED = 2**31


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
    saved = checkpoint.read("values")
    values: list[float] = [] if saved is None else saved[1]["values"].tolist()

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
        arrays: list[Array | None] = []
        for data in (fold.train, fold.valid, fold.test):
            if data is None:
                arrays.append(None)
                continue
            arrays += [data.features, data.labels, data.row_weights, data.query_weights]
            arrays.append(None if data.query_ids is None else data.query_of_row)
        digests.append(digest_of_arrays(arrays))
    return " ".join(digests)
