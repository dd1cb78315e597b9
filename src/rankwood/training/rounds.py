"""Progress: what callbacks are told while an ensemble grows. Estimators never print."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankwood.errors import ParameterError


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
    """Tells everyone who listens after each tree; a callback that returns True stops the growing."""

    def __init__(
        self,
        total: int,
        progress: Callback | None,
        callbacks: Sequence[Callback],
        done: int = 0,
        *,
        unit: str = "tree",
    ) -> None:
        self._total = total
        self._listener = progress
        self._callbacks = callbacks
        self._done_before = done
        self.was_stopped = False
        self._unit = unit
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._start

    def report(
        self,
        iteration: int,
        measure: float | None = None,
        notes: Mapping[str, float] | None = None,
    ) -> bool:
        """Tell that ``iteration`` trees are done; whether someone wants no more."""
        if self._listener is None and not self._callbacks:
            return False
        seconds = self.seconds
        each = seconds / max(1, iteration - self._done_before)
        left = each * (self._total - iteration)
        news = Progress(
            iteration, self._total, seconds, left, measure, self._unit, dict(notes or {})
        )
        if self._listener is not None:
            self._listener(news)
        answers = [callback(news) for callback in self._callbacks]  # everyone hears of every tree
        self.was_stopped = any(answer is True for answer in answers)
        return self.was_stopped


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


# When to stop boosting: the validation measure has not improved for a while.


ALL_ROUNDS = "all rounds are done"
NO_BETTER = "early stopping: the validation measure has not improved"
ASKED_TO = "a callback asked for it"


@dataclass(eq=False)
class EarlyStopping:
    """The measure after each round, and the best of them; of equal ones the first."""

    patience: int | None  # rounds without improvement; None never stops
    is_minimised: bool
    history: list[float] = field(default_factory=list)
    start: float = math.nan  # the measure before the first round, where that is a model too

    @property
    def best_iteration(self) -> int:
        """How many rounds gave the best value; 0 while there is none, or the start is best. NaN is never the best."""
        best, found = 0, self.start
        for place, value in enumerate(self.history):
            if not math.isnan(value) and (math.isnan(found) or self._is_better(value, found)):
                best, found = place + 1, value
        return best

    def is_over(self) -> bool:
        """Whether ``patience`` rounds have passed since the best one."""
        return (
            self.patience is not None and len(self.history) - self.best_iteration >= self.patience
        )

    def _is_better(self, value: float, than: float) -> bool:
        return value < than if self.is_minimised else value > than
