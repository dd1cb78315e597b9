"""The number of threads, running blocks of work on a thread pool, and what a process does at a fork and at SIGTERM.

Kernels are serial and release the GIL; Python owns the threads. One pool per number of threads serves the whole
process. It is created on first use and again after a fork, and ends with the fit that used it
(``ending_threads``). No numba or OpenMP threading layer is ever started.
"""

from __future__ import annotations

import contextlib
import functools
import numbers
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from rankwood.errors import ParameterError

_WORKER = "rankwood"  # prefix of the names of worker threads

_NO_QUOTA = 1 << 30  # cores
_IS_ENDING = 10.0  # seconds after SIGTERM in which another one is not heard

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}
_users: list[int] = []  # one entry for each call that will end the threads, if it is the last

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")


class Terminated(SystemExit):
    """The process was sent SIGTERM; exit code 143, as shells report that signal."""


class _Ending:
    """The handler of SIGTERM within ``ended_by_sigterm``."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._came: list[float] = []

    def __call__(self, *_: object) -> None:
        """Raise ``Terminated``; a second signal soon after would cost the record, and is not heard."""
        if os.getpid() != self._owner:  # a forked child ends as if there were no handler
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        moment = time.monotonic()
        if not self._came or moment - self._came[-1] > _IS_ENDING:
            self._came.append(moment)
            self.look()

    def look(self) -> None:
        """Raise ``Terminated`` if the signal has come."""
        if self._came:
            raise Terminated(128 + signal.SIGTERM)

    def release(self) -> None:
        """Give the signal back to the system."""
        if os.getpid() == self._owner:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[Callable[[], None]]:
    """Raise ``Terminated`` within the block when SIGTERM comes, unless the program handles that signal itself.

    An exception is lost if the signal comes while C code calls Python, such as in a finalizer: Python prints
    "Exception ignored" and goes on. The function that this gives raises it again.
    """
    current = signal.getsignal(signal.SIGTERM)
    if isinstance(current, _Ending):
        yield current.look
        return
    if current is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield _nothing_came  # only the main thread may set handlers
        return
    ending = _Ending()
    signal.signal(signal.SIGTERM, ending)
    try:
        yield ending.look
    finally:
        ending.release()


def _nothing_came() -> None:
    """Stand for a look at a signal that somebody else handles."""


class lazy(Generic[Value]):  # noqa: N801 - a decorator, as property is
    """A property that is computed on its first use and kept in the object: ``functools.cached_property`` without lock.

    Until Python 3.12 that one holds a lock, shared by all objects of a class, while it computes: threads wait for each
    other, and a child that is forked meanwhile waits for ever. Here two threads may compute the same value; all get the
    one that was kept first.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__
        self.__module__ = compute.__module__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[Value]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...

    def __get__(self, owner: object | None, kind: type) -> lazy[Value] | Value:
        if owner is None:
            return self
        kept: Value = vars(owner).setdefault(self._name, self._compute(owner))
        return kept


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
    return max(1, min(cores or 1, _container_quota()))


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
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int
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
    with _lock:  # until the pool has the work, nobody may end it
        pool = _pools.get(n_threads)
        if pool is None:
            pool = ThreadPoolExecutor(n_threads, thread_name_prefix=_WORKER)
            _pools[n_threads] = pool
        return pool.submit(function, *arguments)


@contextlib.contextmanager
def ending_threads() -> Iterator[None]:
    """Leave no thread behind: when the outermost of such calls is over, on whatever thread, all pools end.

    Work that others have given to a pool is finished first. On a worker thread this does nothing, as a pool cannot
    wait for the thread that ends it.
    """
    if _is_worker():
        yield
        return
    with _lock:
        _users.append(threading.get_ident())
    try:
        yield
    finally:
        with _lock:
            if threading.get_ident() in _users:  # a fork has forgotten it
                _users.remove(threading.get_ident())
            ended = [] if _users else list(_pools.values())
            if not _users:
                _pools.clear()
        for pool in ended:
            pool.shutdown()


def _is_worker() -> bool:
    return threading.current_thread().name.startswith(_WORKER)


@functools.cache  # reading the files takes longer than growing a small tree
def _container_quota(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int:
    """Whole cores that the process's control groups and the groups above them allow; a very large number if all.

    A line of ``groups`` is ``number:controllers:path``; version 2 has no controllers. A container may see its own
    group as the root, so the root is always looked at.
    """
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except OSError:
        lines = []
    found = [_cgroup_quota(root / "cpu.max"), _first_version_quota(root / "cpu")]
    for _, controllers, path in (line for line in lines if len(line) == len(("n", "c", "p"))):
        folders = [Path(path.lstrip("/"))]
        folders += folders[0].parents
        if not controllers:
            found += [_cgroup_quota(root / folder / "cpu.max") for folder in folders]
        elif "cpu" in controllers.split(","):
            mounts = (root / controllers, root / "cpu")
            found += [_first_version_quota(each / folder) for each in mounts for folder in folders]
    return min(found)


def _cgroup_quota(path: Path) -> int:
    """Whole cores of a cgroup-v2 quota; a very large number if there is none."""
    try:
        quota, period = path.read_text().split()
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return _NO_QUOTA


def _first_version_quota(folder: Path) -> int:
    """The same for a group of cgroup v1."""
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        period = int((folder / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError):
        return _NO_QUOTA
    return max(1, quota // period) if quota > 0 and period > 0 else _NO_QUOTA


def _forget_pools() -> None:
    """Forget the pools in a forked child, in which the parent's threads do not exist."""
    global _lock  # noqa: PLW0603 - the parent's lock may be held at the moment of the fork
    _lock = threading.Lock()
    _pools.clear()
    _users.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
