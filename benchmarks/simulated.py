"""What many threads would take, found on one core: ``simulated(run, 16)``.

Everything that the package hands to its pool of threads is run at once, in the calling thread, and timed. A clock then
says when 16 threads would have finished it: each piece starts on the thread that is free first, and the caller waits
where it asks for a result. What remains is the time that the caller spends on its own, the *serial part*, and the
longest piece. Starting threads, the interpreter lock and shared memory cost nothing in this model, so that its speed-up
is a bound of the true one. All times are processor times, which other programs disturb least. The model does not suit
the threads of a team, which wait for each other while they run.
"""

from __future__ import annotations

import heapq
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rankwood._core import threads


class Clock:
    """The time of a caller whose pieces of work run on ``n_threads`` threads."""

    def __init__(self, n_threads: int) -> None:
        self._free_at = [0.0] * n_threads
        self._shift = (
            -time.process_time()
        )  # waiting adds to it, and work of other threads is taken off

    def now(self) -> float:
        """Seconds since the start."""
        return time.process_time() + self._shift

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Piece:
        """Run a piece of work on the thread that is free first, at no cost to the caller."""
        begin = self.now()
        thread = threading.current_thread()
        name, thread.name = thread.name, "rankwood-simulated"  # pieces do not use threads again
        value, error = None, None
        try:
            value = function(*arguments)
        except Exception as raised:  # it is raised where the result is asked for
            error = raised
        finally:
            thread.name = name
        seconds = self.now() - begin
        self._shift -= seconds
        finish = max(begin, heapq.heappop(self._free_at)) + seconds
        heapq.heappush(self._free_at, finish)
        return Piece(self, finish, value, error)

    def wait_until(self, moment: float) -> None:
        """Let the caller wait."""
        self._shift += max(0.0, moment - self.now())


class Piece:
    """A finished piece of work, with the part of a ``Future`` that the package uses."""

    def __init__(
        self, clock: Clock, finish: float, value: Any, error: BaseException | None
    ) -> None:
        self._clock = clock
        self._finish = finish
        self._value = value
        self._error = error

    def result(self) -> Any:
        """The value, or the error raised; the caller waits for it."""
        error = self.exception()
        if error is not None:
            raise error
        return self._value

    def exception(self) -> BaseException | None:
        """The error, if there was one; the caller waits for it."""
        self._clock.wait_until(self._finish)
        return self._error

    def cancel(self) -> bool:
        """It is too late."""
        return False


def alone(run: Callable[[int], Any]) -> float:
    """The seconds of ``run(1)``."""
    start = time.process_time()
    run(1)
    return time.process_time() - start


def simulated(run: Callable[[int], Any], n_threads: int) -> float:
    """The seconds of ``run(n_threads)`` in the model."""
    clock = Clock(n_threads)
    original = threads.submit

    def submit(_: int, function: Callable[..., Any], *arguments: Any) -> Piece:
        return clock.run(function, arguments)

    places = [
        (module, name)
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("rankwood")
        for name, value in list(vars(module).items())
        if value is original
    ]
    for module, name in places:
        setattr(module, name, submit)
    try:
        start = clock.now()
        run(n_threads)
        return clock.now() - start
    finally:
        for module, name in places:
            setattr(module, name, original)
