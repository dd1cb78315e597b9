"""Progress: what callbacks are told while an ensemble grows. Estimators never print."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rankwood.errors import ParameterError


@dataclass(frozen=True)
class Progress:
    """How far a fit has come.

    ``iteration`` trees of ``total`` are done after ``seconds``; ``seconds_left`` is an estimate for all the others.
    ``measure`` is the validation figure so far, if there is one.
    """

    iteration: int
    total: int
    seconds: float
    seconds_left: float
    measure: float | None = None


Callback = Callable[[Progress], Any]


class Watch:
    """Tells everyone who listens after each tree; a callback that returns True stops the growing."""

    def __init__(
        self, total: int, progress: Callback | None, callbacks: Sequence[Callback], done: int = 0
    ) -> None:
        self._total = total
        self._listener = progress
        self._callbacks = callbacks
        self._done_before = done
        self.was_stopped = False
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._start

    def says_stop(self, iteration: int, measure: float | None = None) -> bool:
        """Tell that ``iteration`` trees are done; whether someone wants no more."""
        if self._listener is None and not self._callbacks:
            return False
        seconds = self.seconds
        each = seconds / max(1, iteration - self._done_before)
        news = Progress(iteration, self._total, seconds, each * (self._total - iteration), measure)
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
