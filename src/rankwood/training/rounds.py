"""The driver of everything that is trained in rounds: stopping, checkpoints and progress reports.

A loop asks a ``Rounds`` for the number of the next round and tells it when the round is finished:

    for number in rounds:
        targets = plan.engine.targets(loss, state.runs[0])
        tree = plan.grow(number, targets)
        rounds.finish(state.add(tree))

``Rounds`` decides whether there is a next round, writes the checkpoint when it is due and at the end, and reports
progress. Estimators never print: they call the functions that the user passed as ``progress`` and ``callbacks``.

A Ctrl-C, like any other exception, passes through the loop and writes nothing: the checkpoint on disk stays as it is,
so that it never holds half a round. A loop that keeps its result on Ctrl-C runs inside ``Rounds.keep_on_interrupt``.

``Validation`` holds the scores of the validation rows, to which each new tree is added.

A checkpoint is the finished rounds on disk, so that a fit that was killed continues where it stopped: a file in the
model format, of kind ``checkpoint``. It stores the parameters and a digest of the data it belongs to, and is refused
where they differ: rounds of two different fits must never be mixed. Since all that is random in a round follows from
the seed and the number of the round, the finished model has the same bytes as one that was never stopped.
``CheckpointFile`` writes and reads such a file, whatever it holds. ``Checkpoint`` is that of an estimator whose rounds
add trees.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from rankwood import __version__
from rankwood._core.jit import Stopwatch
from rankwood._core.threads import Terminated, lazy, run_blocks
from rankwood.binning.folder import coded_features
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.engines.engine import add_to_totals
from rankwood.errors import InputError, ModelError, ParameterError, RankwoodWarning, RunError
from rankwood.losses.position_bias import ADDITIVE, JOINT, as_propensities
from rankwood.measures.measure import Measure
from rankwood.models.archive import forest_from_arrays, forest_to_arrays
from rankwood.models.forest import Forest
from rankwood.models.format import read_model, write_model
from rankwood.models.validate import ArrayRule, check_arrays
from rankwood.training.inputs import AnyMeasure, MeasuredSet, TrainingCosts, TrainingSet
from rankwood.trees.grower import Tree
from rankwood.trees.partition import route

_LEAST_ROWS = 20_000  # per thread: fewer find their leaves faster than a thread starts

ALL_ROUNDS = "all rounds are done"
NO_BETTER = "early stopping: the validation measure has not improved"
ASKED_TO = "a callback asked for it"

Notes = Mapping[str, float]  # further figures of a round, by name
KIND = "checkpoint"
# What Python raises for a value of JSON that is of another kind than it should be.
_OF_UNCHECKED_RECORDS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
SECONDS_BETWEEN = 10.0  # a killed fit loses at most this much work, and the current round
_PREFIX = "forest."
# Parameters that say how a fit is run, not what it gives; models do not store them.
OF_THE_RUN = ("callbacks", "checkpoint", "n_threads", "progress", "warm_start")
OF_LOGS = (
    "position_bias",
)  # stored where they are set: most models are not learned from click logs


@dataclass(frozen=True)
class Progress:
    """How far a fit has come.

    ``iteration`` trees of ``total`` are done after ``seconds``; ``seconds_left`` is an estimate for all the others.
    ``measure`` is the validation figure so far, if there is one. ``unit`` says what is counted where it is not trees,
    and ``notes`` has further figures by name.
    """

    iteration: int
    total: int
    seconds: float
    seconds_left: float
    measure: float | None = None
    unit: str = "tree"
    notes: Mapping[str, float] = field(default_factory=dict)


Callback = Callable[[Progress], Any]


class ProgressReporter:
    """Calls the user's functions with a ``Progress`` record; a callback that returns True asks to stop.

    Parameters
    ----------
    total
        How many iterations there are at most.
    progress, callbacks
        The functions to call; what ``progress`` returns is ignored.
    done
        Iterations that an earlier fit did: they do not count in the estimate of the time left.
    unit
        What an iteration is called.
    """

    def __init__(
        self,
        total: int,
        progress: Callback | None,
        callbacks: Sequence[Callback],
        done: int = 0,
        *,
        unit: str = "tree",
    ) -> None:
        self.total = total
        self.was_stopped = False  # whether a callback has asked to stop
        self._progress = progress
        self._callbacks = callbacks
        self._done_before = done
        self._unit = unit
        self._stopwatch = Stopwatch()

    def report(
        self, iteration: int, measure: float | None = None, notes: Notes | None = None
    ) -> bool:
        """Report that ``iteration`` iterations are done; returns whether a callback asked to stop now."""
        if self._progress is None and not self._callbacks:
            return False
        seconds = self._stopwatch.seconds()
        each = seconds / max(1, iteration - self._done_before)
        left = each * (self.total - iteration)
        record = Progress(
            iteration, self.total, seconds, left, measure, self._unit, dict(notes or {})
        )
        if self._progress is not None:
            self._progress(record)
        answers = [callback(record) for callback in self._callbacks]  # all are called every time
        asks_to_stop = any(answer is True for answer in answers)
        self.was_stopped |= asks_to_stop
        return asks_to_stop


def check_listeners(progress: Any, callbacks: Any) -> tuple[Callback, ...]:
    """The callbacks as a tuple, or an error for what cannot be called."""
    if progress is not None and not callable(progress):
        raise ParameterError(f"progress must be a function or None, got {progress!r}.")
    if callable(callbacks) or not isinstance(callbacks, list | tuple):
        raise ParameterError("callbacks must be a list or tuple of functions.")
    for callback in callbacks:
        if not callable(callback):
            raise ParameterError(f"a callback must be a function, got {callback!r}.")
    return tuple(callbacks)


BEST = "best"  # of ``early_stopping``: do all rounds, and keep those up to the best value where it is known


def needs_validation(early_stopping: int | str | None) -> bool:
    """Whether a fit with this ``early_stopping`` cannot do without validation data."""
    return early_stopping is not None and early_stopping != BEST


def patience_of(early_stopping: int | str | None) -> int | None:
    """Rounds without improvement after which ``early_stopping`` ends a fit; None where it never does."""
    return early_stopping if isinstance(early_stopping, int) else None


@dataclass(eq=False)
class EarlyStopping:
    """The validation measure after each round, and the best of them; of equal ones the first."""

    patience: int | None  # rounds without improvement; None never stops
    is_minimised: bool
    history: list[float] = field(default_factory=list)
    start: float = math.nan  # the measure before the first round, where that is a model too

    @property
    def best_iteration(self) -> int:
        """How many rounds gave the best value; 0 while there is none, or the start is best. NaN is never the best."""
        best_round, best_value = 0, self.start
        for number, value in enumerate(self.history, start=1):
            if math.isnan(value):
                continue
            if math.isnan(best_value) or self._is_better(value, best_value):
                best_round, best_value = number, value
        return best_round

    def is_over(self) -> bool:
        """Whether ``patience`` rounds have passed since the best one."""
        return (
            self.patience is not None and len(self.history) - self.best_iteration >= self.patience
        )

    def _is_better(self, value: float, than: float) -> bool:
        return value < than if self.is_minimised else value > than


def is_clearly_positive(differences: Floats) -> bool:
    """Whether the mean of some differences, one per query, is above their standard error; NaN are left out."""
    known = differences[~np.isnan(differences)]
    if known.size < 2:  # which have no standard error
        return bool(known.size == 1 and known[0] > 0)
    return float(known.mean()) > float(known.std(ddof=1)) / math.sqrt(known.size)


class Rounds:
    """The numbers of the rounds to do, until there is a reason to stop.

    Parameters
    ----------
    reporter
        Whom finished rounds are reported to. A fit of two phases gives the same reporter to both.
    total
        How many rounds there are at most; the reporter's total by default.
    done
        Rounds that are done already, by an earlier fit or by the fit that wrote the checkpoint.
    stopping
        Early stopping, which is looked at before each round.
    judges_last
        Whether early stopping is also looked at after the last round: then it is the reason why the rounds ended.
    save
        Writes the checkpoint; None where no file is kept. See ``Checkpoint.saver``.
    seconds_between
        How long after one checkpoint the next is due: ``SECONDS_BETWEEN`` by default, 0 for every round.
    all_done, no_better
        What ``stopped_because`` says when all rounds are done, and after early stopping.

    Attributes
    ----------
    stopped_because
        Why there are no more rounds; None while there are.
    n_done
        How many rounds are finished.
    """

    def __init__(
        self,
        reporter: ProgressReporter,
        *,
        total: int | None = None,
        done: int = 0,
        stopping: EarlyStopping | None = None,
        judges_last: bool = False,
        save: Callable[[], None] | None = None,
        seconds_between: float | None = None,
        all_done: str = ALL_ROUNDS,
        no_better: str = NO_BETTER,
    ) -> None:
        self.stopped_because: str | None = None
        self.n_done = done
        self._reporter = reporter
        self._total = reporter.total if total is None else total
        self._n_begun = done
        self._stopping = stopping
        self._judges_last = judges_last
        self._save = save
        self._has_warned = False  # that a checkpoint could not be written
        self._saved_at = time.monotonic()
        self._seconds_between = seconds_between
        self._all_done = all_done
        self._no_better = no_better

    def __iter__(self) -> Iterator[int]:
        while (reason := self._reason()) is None:
            self._n_begun += 1
            yield self._n_begun - 1
        self.stop(reason)

    def finish(self, measure: float | None = None, notes: Notes | None = None) -> None:
        """End a round: write the checkpoint if it is due, then report the round."""
        self.save_if_due()
        self.n_done += 1
        self.report(self.n_done, measure, notes)
        if self._reporter.was_stopped:
            self.stop(ASKED_TO)

    def report(
        self, iteration: int, measure: float | None = None, notes: Notes | None = None
    ) -> None:
        """Report progress within a round; if a callback asks to stop, the rounds end after this one."""
        self._reporter.report(iteration, measure, notes)

    def save_if_due(self) -> None:
        """Write the checkpoint if the last one is old enough."""
        seconds = self._seconds_between
        least = SECONDS_BETWEEN if seconds is None else seconds
        if self._save is not None and time.monotonic() - self._saved_at >= least:
            self._try_to_save(self._save)
            self._saved_at = time.monotonic()

    def stop(self, reason: str) -> None:
        """End the rounds and write the checkpoint; of several reasons the first one is kept."""
        if self.stopped_because is None:
            self.stopped_because = reason
            if self._save is not None:
                self._try_to_save(self._save)

    def _try_to_save(self, save: Callable[[], None]) -> None:
        """Write the checkpoint; a full disk costs the checkpoint, not the fit, and is tried again when it is due."""
        try:
            save()
        except RunError as error:
            if not self._has_warned:
                self._has_warned = True
                warnings.warn(
                    f"{error} The fit goes on without this checkpoint; the one before stays as it is.",
                    RankwoodWarning,
                    stacklevel=2,
                )

    @property
    def is_over(self) -> bool:
        """Whether the current round is the last."""
        return self._reason() is not None

    @contextlib.contextmanager
    def keep_on_interrupt(self, reason: str) -> Iterator[None]:
        """Stop for ``reason`` at a Ctrl-C, which ends the loop inside and is not raised further; SIGTERM is."""
        try:
            yield
        except KeyboardInterrupt:
            self.stop(reason)
        except Terminated:
            self.stop(reason)
            raise

    def _reason(self) -> str | None:
        """Why there is no next round; None where there is one."""
        if self.stopped_because is not None:
            return self.stopped_because
        if self._reporter.was_stopped:
            return ASKED_TO
        is_last = self._n_begun >= self._total
        is_judged = self._stopping is not None and (not is_last or self._judges_last)
        if is_judged and self._stopping.is_over():  # type: ignore[union-attr]
            return self._no_better
        return self._all_done if is_last else None


@dataclass(frozen=True, eq=False)
class Validation:
    """Binned validation rows, and the sums of the trees' predictions of them so far."""

    data: RankingData
    codes: Bytes
    measure: AnyMeasure
    totals: Floats
    n_threads: int
    starts: Floats | None = None  # scores that are no part of the model

    def __post_init__(self) -> None:
        _ = self._measured  # an error where the measure needs queries

    def add(self, tree: Tree, factor: float = 1.0) -> None:
        """Add ``factor`` times the prediction of ``tree`` to each row."""
        leaf_of_row = self.leaves(tree)
        add_to_totals(leaf_of_row, tree.value, factor, self.totals, self.n_threads)

    def leaves(self, tree: Tree) -> Array:
        """The leaf of each row."""
        leaf_of_row = np.full(self.totals.size, -1, np.int32)
        nodes = (*tree.routing, leaf_of_row)
        run_blocks(
            route,
            leaf_of_row.size,
            self.codes,
            *nodes,
            n_threads=self.n_threads,
            least=_LEAST_ROWS,
        )
        return leaf_of_row

    def value(self, base: float = 0.0, divisor: float = 1.0) -> float:
        """The measure of ``base + totals / divisor``."""
        scores = self.totals / divisor + base
        if self.starts is not None:
            scores += self.starts
        return self._measured.value(scores)

    @lazy
    def _measured(self) -> MeasuredSet:
        """The measure with what it takes from labels alone, computed once for all rounds."""
        return MeasuredSet.of(self.data, self.measure, self.n_threads)


class CheckpointFile:
    """A file that holds the finished rounds of one piece of work; without a path it does nothing.

    Parameters
    ----------
    path
        The argument ``checkpoint`` of an estimator or a study.
    owner
        What the rounds belong to: the name of the estimator or of the study.
    parameters
        Gives everything that decides the result, beside the data; only called where a file is kept.
    data
        Gives a digest of the data, likewise.
    costs
        The feature costs of a fit.
    """

    def __init__(
        self,
        path: Any,
        owner: str,
        parameters: Callable[[], dict[str, Any]],
        data: Callable[[], str],
        costs: list[float] | None = None,
    ) -> None:
        self._path = path_of(path)
        if self._path is not None:
            self._parameters = parameters()
            self._identity = {
                "estimator": owner,
                "version": __version__,
                "data": data(),
                "costs": costs,  # a cost file may change
            }

    def saver(self, save: Callable[[Self], None]) -> Callable[[], None] | None:
        """``save`` called with this checkpoint, for a ``Rounds``; None where no file is kept."""
        return None if self._path is None else functools.partial(save, self)

    def read(
        self, rules: Mapping[str, ArrayRule]
    ) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """What was written before, or None when there is nothing yet; the named arrays are there and keep the rules."""
        if self._path is None or not self._path.exists():
            return None
        with self.explained():
            stored = read_model(self._path)
            if stored.kind != KIND:
                raise ModelError(f"it holds a {stored.kind}, not a checkpoint.")
            self._refuse_others(stored.meta)
            check_arrays(rules, stored.arrays)
        return stored.meta, stored.arrays

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Surrounds whatever uses what was read: an error names the file, and says how to start afresh."""
        try:
            yield
        except (InputError, *_OF_UNCHECKED_RECORDS) as error:
            reason = str(error) if isinstance(error, InputError) else f"it is damaged ({error!r})."
            raise ModelError(
                f"the checkpoint {self._path} cannot be used: {reason} Delete it, or pass another path as "
                "checkpoint, to start afresh."
            ) from None

    def store(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Replace what was there; a crash leaves the old file or the new one."""
        if self._path is not None:
            own = {"checkpoint": self._identity, "parameters": self._parameters}
            write_model(self._path, KIND, {**own, **meta}, arrays)

    def _refuse_others(self, meta: Mapping[str, Any]) -> None:
        identity, theirs = meta.get("checkpoint"), meta.get("parameters")
        if not isinstance(identity, dict) or not isinstance(theirs, dict):
            raise ModelError("it does not say which fit it belongs to.")
        for name in ("estimator", "version"):
            if identity.get(name) != self._identity[name]:
                raise ModelError(
                    f"it belongs to {name} {identity.get(name)!r}, not {self._identity[name]!r}."
                )
        for name in sorted(set(theirs) | set(self._parameters)):
            if theirs.get(name) != self._parameters.get(name):
                raise ModelError(
                    f"it was made with {name}={theirs.get(name)!r}, not {self._parameters.get(name)!r}."
                )
        if identity.get("costs") != self._identity["costs"]:
            raise ModelError("it was made with other feature costs.")
        if identity.get("data") != self._identity["data"]:
            raise ModelError("it was made on other data.")


@dataclass(frozen=True, eq=False)
class Resumed:
    """What a checkpoint holds: the trees so far, and the arrays that go with them."""

    forest: Forest
    arrays: dict[str, Array]


class Checkpoint(CheckpointFile):
    """The checkpoint of an estimator whose rounds add trees to a forest, ``most_trees`` in all."""

    def __init__(
        self,
        estimator: Any,
        train: TrainingSet,
        valid: RankingData | None,
        costs: TrainingCosts | None = None,
        *,
        most_trees: int | None = None,
    ) -> None:
        super().__init__(
            estimator.checkpoint,
            type(estimator).__name__,
            functools.partial(plain_parameters, estimator),
            functools.partial(digest_of_fit, train, valid),
            None if costs is None else costs.prices.tolist(),
        )
        self._n_features, self._names = train.data.n_features, train.data.feature_names
        self._has_valid = valid is not None
        self._most_trees = most_trees

    def history_of(self, n_rounds: int) -> ArrayRule:
        """The rule for the validation measure after each round; without validation data there is none."""
        return ArrayRule(np.float64, (n_rounds if self._has_valid else 0,), may_be_nan=True)

    def load(self, rules: Callable[[int], Mapping[str, ArrayRule]]) -> Resumed | None:
        """The trees and arrays that were written before, or None.

        ``rules`` gives, for a number of trees, the arrays there must be and what they must be like.
        """
        stored = self.read({})
        if stored is None:
            return None
        meta, arrays = stored
        with self.explained():
            names = meta.get("feature_names")
            forest = forest_from_arrays(meta.get("forest"), arrays, names, _PREFIX)
            if (forest.n_features, forest.feature_names) != (self._n_features, self._names):
                raise ModelError("its trees are of other features.")
            if self._most_trees is not None and forest.n_trees > self._most_trees:
                raise ModelError(
                    f"it has {forest.n_trees:,} trees, more than the {self._most_trees:,} of the fit."
                )
            check_arrays(rules(forest.n_trees), arrays)
        others = {
            name: np.array(array)  # those in the file cannot be written to
            for name, array in arrays.items()
            if not name.startswith(_PREFIX)
        }
        return Resumed(forest, others)

    def write(self, forest: Forest, arrays: Mapping[str, Array]) -> None:
        """Replace what was there by the trees so far."""
        record, of_forest = forest_to_arrays(forest, _PREFIX)
        names = None if self._names is None else list(self._names)
        self.store({"feature_names": names, "forest": record}, {**of_forest, **arrays})


def path_of(path: Any) -> Path | None:
    """The argument ``checkpoint``; what cannot be written to is refused before the work begins, not after."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"checkpoint must be the path of a file, got {path!r}.")
    file = Path(path)
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise ParameterError(f"checkpoint must be a file in a folder that exists, got '{file}'.")
    return file


def digest_of_arrays(arrays: Iterable[Array | None]) -> str:
    """A digest of the values, types and shapes of arrays."""
    digest = hashlib.blake2b(digest_size=20)
    for array in arrays:
        if array is None:
            digest.update(b"none")
        else:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def digest_of_fit(train: TrainingSet, valid: RankingData | None) -> str:
    """A digest of everything that the trees, and when to stop, are learned from."""
    bins = train.bins
    parts: list[Array | None] = [
        bins.thresholds,
        bins.offsets,
        train.engine.codes_for_digest(),
        train.labels,
        train.weights,
    ]
    parts.append(None if train.data.query_ids is None else train.data.query_of_row)
    if train.data.positions is not None:
        parts.append(train.data.positions)
    if train.starts is not None:
        parts += [train.starts.train, *train.starts.valid.values()]
    if valid is not None:
        stored = coded_features(valid)
        parts += [valid.features] if stored is None else [stored.columns, stored.source_of_row]
        parts += [valid.labels, valid.query_weights]
        parts.append(None if valid.query_ids is None else valid.query_of_row)
    return digest_of_arrays(parts)


# Parameters as JSON holds them, for model files and for checkpoints.


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Every parameter that decides what is learned, made of numbers, texts, lists and mappings."""
    parameters = estimator.get_params(deep=False)
    left_out = (*OF_THE_RUN, *getattr(estimator, "without_effect", ()))
    later = {
        name: declared.default
        for name, declared in getattr(estimator, "_parameters", {}).items()
        if declared.is_later
    }
    return {
        name: plain(name, parameters[name])
        for name in sorted(parameters)
        if name not in left_out and (name not in later or parameters[name] != later[name])
    }


def plain(name: str, value: Any) -> Any:
    """``value`` without numpy and tuples; a function or loss of the user's own becomes its name."""
    if name in OF_LOGS and not (value is None or value in (JOINT, ADDITIVE)):
        return as_propensities(value).to_dict()  # also of a file, which may change
    if value is None or isinstance(value, str | bool | int | float):
        # numpy's float64 is a subclass of float, which some readers refuse
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Measure):
        return str(value)
    if isinstance(value, np.ndarray | list | tuple):
        return [
            plain(name, item)
            for item in (value.tolist() if isinstance(value, np.ndarray) else value)
        ]
    if isinstance(value, dict) and any(isinstance(item, BaseEstimator) for item in value.values()):
        # Pairs: the order of estimators counts, and a file sorts the keys of a mapping.
        return [[str(key), plain(name, item)] for key, item in value.items()]
    if isinstance(value, dict):
        return {str(key): plain(name, item) for key, item in value.items()}
    if isinstance(value, BaseEstimator):
        return {"estimator": type(value).__name__, "parameters": plain_parameters(value)}
    if callable(value) or hasattr(value, "targets"):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    raise ParameterError(f"{name} cannot be written to a file: it is {type(value).__name__}.")
