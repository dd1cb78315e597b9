"""Work done side by side whose results come in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from rankwood._threads import submit

Result = TypeVar("Result")


def in_order(
    function: Callable[[int], Result], items: Iterable[int], n_threads: int
) -> Generator[Result, None, None]:
    """``function`` of each item, in the items' order, on ``n_threads`` threads.

    No more than one result waits for its turn while all threads are busy. When the caller stops early, or is
    interrupted, what has not begun never does, and what has is waited for.
    """
    if n_threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            waiting.append(submit(n_threads, function, item))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        started = [future for future in waiting if not future.cancel()]
        for future in started:
            future.exception()
