"""The driver of everything that is trained in rounds: stopping, checkpoints and progress reports.

A loop asks a ``Rounds`` for the number of the next round and tells it when the round is finished:

    for number in rounds:
        targets, weights = weak_learner_targets(loss, state.scores)
        tree = plan.grow(number, targets, weights)
        rounds.finish(state.add(tree, plan.n_threads))

``Rounds`` decides whether there is a next round, writes the checkpoint when it is due and at the end, and reports
progress. Estimators never print: they call the functions that the user passed as ``progress`` and ``callbacks``.

A Ctrl-C, like any other exception, passes through the loop and writes nothing: the checkpoint on disk stays as it is,
so that it never holds half a round. A loop that keeps its result on Ctrl-C runs inside ``Rounds.keep_on_interrupt``.

``Validation`` holds the scores of the validation rows, to which each new tree is added.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.jit import kernel
from rankwood._core.threads import run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.errors import DataError, ParameterError
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure
from rankwood.training import checkpoint
from rankwood.trees.grower import Tree
from rankwood.trees.leaves import route

_LEAST_ROWS = 20_000  # per thread: fewer find their leaves faster than a thread starts

ALL_ROUNDS = "all rounds are done"
NO_BETTER = "early stopping: the validation measure has not improved"
ASKED_TO = "a callback asked for it"

Notes = Mapping[str, float]  # further figures of a round, by name


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
        self._start = time.perf_counter()

    def report(
        self, iteration: int, measure: float | None = None, notes: Notes | None = None
    ) -> bool:
        """Report that ``iteration`` iterations are done; returns whether a callback asked to stop now."""
        if self._progress is None and not self._callbacks:
            return False
        seconds = time.perf_counter() - self._start
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
        How long after one checkpoint the next is due: ``checkpoint.SECONDS_BETWEEN`` by default, 0 for every round.
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
        least = checkpoint.SECONDS_BETWEEN if seconds is None else seconds
        if self._save is not None and time.monotonic() - self._saved_at >= least:
            self._save()
            self._saved_at = time.monotonic()

    def stop(self, reason: str) -> None:
        """End the rounds and write the checkpoint; of several reasons the first one is kept."""
        if self.stopped_because is None:
            self.stopped_because = reason
            if self._save is not None:
                self._save()

    @property
    def is_over(self) -> bool:
        """Whether the current round is the last."""
        return self._reason() is not None

    @contextlib.contextmanager
    def keep_on_interrupt(self, reason: str) -> Iterator[None]:
        """Stop for ``reason`` at a Ctrl-C, which ends the loop inside and is not raised further."""
        try:
            yield
        except KeyboardInterrupt:
            self.stop(reason)

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
    measure: Measure
    totals: Floats
    n_threads: int

    def __post_init__(self) -> None:
        if self.data.query_ids is None and self.measure.name != "rmse":
            raise DataError(
                f"valid has no query ids, which {self.measure} needs. Pass (X, y, qid), or measure='rmse'."
            )

    def add(self, tree: Tree, factor: float = 1.0) -> None:
        """Add ``factor`` times the prediction of ``tree`` to each row."""
        leaf_of_row = np.full(self.totals.size, -1, np.int32)
        nodes = (tree.feature, tree.code, tree.left, tree.right, tree.missing, leaf_of_row)
        run_blocks(
            route,
            leaf_of_row.size,
            self.codes,
            *nodes,
            n_threads=self.n_threads,
            least=_LEAST_ROWS,
        )
        add_leaf_values(0, leaf_of_row.size, leaf_of_row, tree.value, factor, self.totals)

    def value(self, base: float = 0.0, divisor: float = 1.0) -> float:
        """The measure of ``base + totals / divisor``."""
        scores = self.totals / divisor + base
        return mean_value(self.measure, read_only(scores), self.data)


@kernel
def add_leaf_values(
    first: int, last: int, leaf_of_row: Array, value: Array, factor: float, totals: Array
) -> None:
    """Add ``factor`` times the value of each row's leaf to its total."""
    for row in range(first, last):
        totals[row] += factor * value[leaf_of_row[row]]
