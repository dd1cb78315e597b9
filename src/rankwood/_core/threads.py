"""The number of threads, and running blocks of work on a thread pool.

Kernels are serial and release the GIL; Python owns the threads. One pool per number of threads serves the whole
process. It is created on first use and again after a fork. No numba or OpenMP threading layer is ever started.
"""

from __future__ import annotations

import functools
import numbers
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from rankwood.errors import ParameterError

_WORKER = "rankwood"  # prefix of the names of worker threads

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}

Result = TypeVar("Result")


def resolve_threads(n_threads: int | None = None) -> int:
    """The number of threads to use: ``n_threads``, else the environment's, else every usable core.

    ``RANKWOOD_THREADS`` sets it for a process. ``NUMBA_NUM_THREADS`` is honoured too, because joblib's workers
    set it to their share of the cores, so that jobs times threads does not exceed the cores. A worker thread of this
    module always gets 1: nested work on the same pool would deadlock.
    """
    if n_threads is not None:
        given: Any = n_threads  # numpy integers are allowed too
        is_whole = isinstance(given, numbers.Integral) and not isinstance(given, bool)
        if not is_whole or given < 1:
            raise ParameterError(f"n_threads must be a whole number of at least 1, got {given!r}.")
        return 1 if _is_worker() else int(given)
    if _is_worker():
        return 1
    for variable in ("RANKWOOD_THREADS", "NUMBA_NUM_THREADS"):
        text = os.environ.get(variable, "")
        if not text:
            continue
        if not text.isdecimal() or int(text) < 1:
            raise ParameterError(f"{variable} must be a whole number of at least 1, got {text!r}.")
        return int(text)
    return usable_cores()


def usable_cores() -> int:
    """Cores this process may use: its affinity, limited by the container's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, _cgroup_quota(Path("/sys/fs/cgroup/cpu.max"))))


def run_blocks(
    kernel: Callable[..., Any],
    n_items: int,
    *arguments: Any,
    n_threads: int | None = None,
    least: int = 1,
) -> None:
    """Call ``kernel(first, last, *arguments)`` on blocks that together cover ``range(n_items)``.

    Each block owns its items, so the result must not depend on the number of blocks. Fewer than ``2 * least`` items,
    or one thread, make one plain call: a dispatch to two threads costs about 30 µs.
    """
    n_blocks = min(resolve_threads(n_threads), max(1, n_items // max(1, least)))
    if n_blocks == 1:
        kernel(0, n_items, *arguments)
        return
    edges = [n_items * block // n_blocks for block in range(n_blocks + 1)]
    futures = [
        submit(n_blocks, kernel, edges[block], edges[block + 1], *arguments)
        for block in range(1, n_blocks)
    ]
    try:
        kernel(edges[0], edges[1], *arguments)
    finally:
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error


def parallel_map_ordered(
    function: Callable[[int], Result], items: Iterable[int], n_threads: int
) -> Generator[Result, None, None]:
    """``function`` of each item, in the items' order, on ``n_threads`` threads.

    At most one finished result waits for its turn while all threads are busy. If the caller stops early or is
    interrupted, pending work is cancelled and running work is awaited.
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


def submit(n_threads: int, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Start ``function(*arguments)`` on the pool of ``n_threads`` threads."""
    with _lock:
        pool = _pools.get(n_threads)
        if pool is None:
            pool = ThreadPoolExecutor(n_threads, thread_name_prefix=_WORKER)
            _pools[n_threads] = pool
    return pool.submit(function, *arguments)


def _is_worker() -> bool:
    return threading.current_thread().name.startswith(_WORKER)


@functools.cache  # reading the file takes longer than growing a small tree
def _cgroup_quota(path: Path) -> int:
    """Whole cores of a cgroup-v2 quota; a very large number if there is none."""
    try:
        quota, period = path.read_text().split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return 1 << 30


def _forget_pools() -> None:
    """Forget the pools in a forked child, in which the parent's threads do not exist."""
    global _lock  # noqa: PLW0603 - the parent's lock may be held at the moment of the fork
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
