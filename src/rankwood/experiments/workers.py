"""Cells in this process, on local worker processes, or on a Dask cluster.

Workers are started as ``python -m rankwood.experiments.workers DESCRIPTOR`` and not by ``multiprocessing``: the
caller's script is not run a second time, whether it is a notebook, a pipe or a program without a guard. A worker that
dies loses one attempt at one cell only.

The protocol, over a pipe: a worker sends "ready" once. It is then given one task at a time. It sends each trial of the
tuning as soon as that is finished, and answers the task with an outcome. It ends when the pipe is closed, or when the
process that started it is gone, in the middle of a cell too.

A Dask cluster (``run_on_dask``) is one of this machine's processes, or one at an address.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

import rankwood
from rankwood._core.threads import usable_cores
from rankwood.errors import MissingExtra, RunError

if TYPE_CHECKING:
    # Cells import numba: a worker must be tied to its parent before it spends seconds on that.
    from rankwood.experiments.cells import Outcome, Task

ATTEMPTS = 3  # a cell whose worker died is tried twice more; a finished trial begins the count anew
_MODULE = "rankwood.experiments.workers"  # this one; under ``python -m`` its name is __main__
# Workers in a row that end before their first task: by themselves, where something is wrong with all, or by a signal.
_MOST_DEAD_AT_START, _MOST_KILLED_AT_START = 5, 20
_LOOK_EVERY = 1.0  # seconds between looks at whether the parent is alive, besides those at the pipe
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
LOCAL = "local"
_CONNECT_SECONDS = 30
_AHEAD = 2  # tasks handed over for each thread of the cluster: one at work, one waiting
_LOOK_AT_CLUSTER_EVERY = 5.0  # seconds between looks at the cluster while no cell is finished
_PATIENCE = 120.0  # seconds that a cluster may be without workers: they may be starting again
_CACHE = "rankwood_folds"  # the attribute of a Dask worker that holds its fold
_TRIALS = "rankwood trials"  # the topic of events


@dataclass(frozen=True)
class Watch:
    """Who is told of what happens while cells run."""

    trial: Callable[[Task, Mapping[str, Any]], None] = lambda _task, _trial: None  # of a tuning
    lost: Callable[[str], None] = lambda _text: None  # a worker, and what becomes of its cell


def run_here(tasks: Sequence[Task], watch: Watch | None = None) -> Iterator[Outcome]:
    """The outcome of each task, one after the other in this process."""
    from rankwood.experiments.cells import FoldCache, run_cell

    cache, watch = FoldCache(), watch or Watch()
    for task in tasks:
        yield run_cell(task, cache, functools.partial(watch.trial, task))


def run_on_processes(
    tasks: Sequence[Task], jobs: int, threads: int, watch: Watch | None = None
) -> Iterator[Outcome]:
    """The outcome of each task as it is finished, on ``jobs`` processes."""
    watch = watch or Watch()
    waiting = collections.deque((task, 1) for task in tasks)
    workers: dict[Connection, _Worker] = {}
    n_dead_at_start = 0
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                worker = _Worker(threads)
                workers[worker.connection] = worker
            for connection in wait(list(workers)):
                worker = workers[connection]  # type: ignore[index]
                message = worker.receive()
                if message == "dead":
                    del workers[worker.connection]
                    how = worker.bury()
                    n_dead_at_start += not worker.was_ready
                    most = _MOST_DEAD_AT_START if worker.ended_itself else _MOST_KILLED_AT_START
                    if n_dead_at_start >= most:
                        raise RunError(f"workers end before they begin: {how}.")
                    if worker.task is None:
                        watch.lost(f"a worker was lost before it had a cell: {how}")
                        continue
                    task, attempt = worker.task
                    if attempt < ATTEMPTS:
                        watch.lost(f"a worker was lost: {how}; its cell is run again: {task.cell}")
                        waiting.appendleft((task, attempt + 1))
                    else:
                        yield failed(task, f"its worker died {ATTEMPTS} times: {how}")
                    continue
                if isinstance(message, tuple):  # a trial; the worker goes on
                    watch.trial(*message)
                    continue
                if isinstance(message, str):  # ready
                    n_dead_at_start = 0
                else:
                    yield message
                if waiting:
                    worker.give(*waiting.popleft())
                else:
                    del workers[worker.connection]
                    worker.bury()
    finally:
        for worker in workers.values():
            worker.kill()


def failed(task: Task, message: str) -> Outcome:
    """The outcome of a cell that ended without one, such as by the death of its worker."""
    from rankwood.experiments.cells import Outcome

    failure = {"status": "failed", "error": message, "message": message}
    return Outcome(task.cell, {**task.record(), **failure, "warnings": [], "peak_memory": 0})


class _Worker:
    """A process that runs tasks, and this process's end of the pipe to it."""

    def __init__(self, threads: int) -> None:
        self.connection, theirs = Pipe()
        environment = {
            **os.environ,
            "RANKWOOD_THREADS": str(threads),
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": os.pathsep.join(_import_paths()),
        }
        command = [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno()), str(os.getpid())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C in the terminal reaches only this process, which ends the workers
        )
        theirs.close()  # so that the worker's death ends the pipe
        self.task: tuple[Task, int] | None = None
        self.was_ready = False

    def receive(self) -> Outcome | tuple[Task, Mapping[str, Any]] | str:
        """An outcome, a trial with its task, "ready", or "dead"."""
        try:
            message: Outcome | Mapping[str, Any] | str = self.connection.recv()
        except (EOFError, OSError):
            return "dead"
        self.was_ready = True
        if isinstance(message, Mapping) and self.task is not None:
            task, _ = self.task
            self.task = (replace(task, trials=(*task.trials, message)), 1)  # it has got further
            return task, message
        self.task = None
        return message  # type: ignore[return-value]

    def give(self, task: Task, attempt: int) -> None:
        self.task = (task, attempt)
        with contextlib.suppress(OSError):  # it has died: the next receive says so
            self.connection.send(task)

    @property
    def ended_itself(self) -> bool:
        """Whether a process that has ended was not killed by a signal."""
        return (self._process.returncode or 0) >= 0

    def bury(self) -> str:
        """End the process; returns how it ended."""
        self.connection.close()
        code = self._process.wait()
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name
        hint = " (as the system does when memory is short)" if name == "SIGKILL" else ""
        return f"ended by {name}{hint}"

    def kill(self) -> None:
        self._process.kill()
        self.bury()


def _import_paths() -> list[str]:
    """The folder of this Rankwood, so that a worker imports the same one, and those of PYTHONPATH."""
    own = str(pathlib.Path(rankwood.__file__).parents[1])
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return [own, *(path for path in others if path != own)]


def main(descriptor: int, parent: int | None = None) -> None:
    """Run the tasks that come over the pipe with this file descriptor, until it is closed.

    ``parent`` is the process that has started this one; it may be gone already.
    """
    connection: Connection = Connection(descriptor)
    end_with(os.getppid() if parent is None else parent, connection)
    from rankwood.experiments.cells import FoldCache, run_cell

    cache = FoldCache()
    with contextlib.suppress(EOFError, ConnectionError):  # the other end is closed
        connection.send("ready")
        while True:
            connection.send(run_cell(_received(connection), cache, connection.send))


def _received(connection: Connection) -> Any:
    """The next message; ``EOFError`` if the other end is closed, also in the middle of a message."""
    try:
        return connection.recv()
    except OSError as error:
        raise EOFError from error


def end_with(parent: int, connection: Connection) -> None:
    """End this process at once when its parent is gone: the result of the current cell is no longer needed.

    Linux kills it as soon as the parent is gone, whatever it is doing. Elsewhere, and where the parent lives but has
    closed the pipe, a thread notices the end of the pipe.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    threading.Thread(target=_watch, args=(parent, connection), daemon=True).start()


def _watch(parent: int, connection: Connection) -> None:
    """End this process when the pipe is closed, or another process has become its parent."""
    poll = select.poll()
    poll.register(connection, 0)  # no events but the end
    while os.getppid() == parent and not poll.poll(1000 * _LOOK_EVERY):
        pass
    os._exit(0)


def run_on_dask(
    tasks: Sequence[Task],
    address: str,
    jobs: int,
    threads: int | None,
    watch: Watch | None = None,
) -> Iterator[Outcome]:
    """The outcome of each task as it is finished, on the cluster at ``address``, or on a local one.

    A task whose worker is lost is given to another. Dask gives up all tasks that were waiting on workers that died
    repeatedly, not only the one that killed them; each of these is tried once more, alone.
    """
    distributed = _need_distributed()
    watch = watch or Watch()
    with dask_client(address, jobs, threads) as client, _trials_kept(client, tasks, watch):
        suspects = []
        for task, outcome in _outcomes_in_parallel(distributed, client, tasks, watch):
            if outcome is None:
                suspects.append(task)
            else:
                yield outcome
        for task in suspects:
            for _, outcome in _outcomes_in_parallel(distributed, client, [task], watch):
                yield outcome or failed(task, "KilledWorker: it ended every worker it was given to")


def _outcomes_in_parallel(
    distributed: Any, client: Any, tasks: Sequence[Task], watch: Watch
) -> Iterator[tuple[Task, Outcome | None]]:
    """Each task with its outcome, None where Dask has lost too many workers over it."""
    waiting = collections.deque(tasks)
    task_of: dict[Any, Task] = {}
    threads_of: dict[str, int] = {}  # by the address of a worker
    while waiting or task_of:
        before, threads_of = threads_of, client.nthreads()
        for gone in sorted(before.keys() - threads_of.keys()):
            watch.lost(f"the Dask worker at {gone} is gone; its cells are run on others")
        n_threads = max(1, sum(threads_of.values()))
        while waiting and len(task_of) < _AHEAD * n_threads:
            task = waiting.popleft()
            key = f"{task.cell}-{uuid.uuid4()}"
            task_of[client.submit(run_on_worker, task, key=key, pure=False)] = task
        for future in _finished(distributed, client, list(task_of)):
            task = task_of.pop(future)
            yield task, _outcome(distributed, future, task)
            future.release()


def _finished(distributed: Any, client: Any, futures: list[Any]) -> list[Any]:
    """The futures that are done, as soon as one is; an error where the cluster has no workers left."""
    alone_since: float | None = None
    while True:
        try:
            status = distributed.wait(
                futures, timeout=_LOOK_AT_CLUSTER_EVERY, return_when="FIRST_COMPLETED"
            )
        except TimeoutError:
            has_workers = bool(client.scheduler_info(n_workers=-1)["workers"])
            alone_since = None if has_workers else alone_since or time.monotonic()
            if alone_since is not None and time.monotonic() - alone_since > _PATIENCE:
                raise RunError(
                    "the Dask cluster has no workers left. Finished cells are kept; start workers, and the same "
                    "command goes on with the rest."
                ) from None
        else:
            return list(status.done)


@contextlib.contextmanager
def _trials_kept(client: Any, tasks: Sequence[Task], watch: Watch) -> Iterator[None]:
    """Report the trials of tunings, which workers log as events, as long as the block lasts."""
    tuned = {task.fingerprint: task for task in tasks if task.algorithm.tune}
    if not tuned:
        yield
        return

    def tell(event: Any) -> None:
        _, (fingerprint, trial) = event
        if fingerprint in tuned:
            watch.trial(tuned[fingerprint], trial)

    client.subscribe_topic(_TRIALS, tell)
    try:
        yield
    finally:
        client.unsubscribe_topic(_TRIALS)


def run_on_worker(task: Task) -> Outcome:
    """What a Dask worker runs: the cell, with the fold that this worker has in memory."""
    from distributed import get_worker

    from rankwood.experiments.cells import FoldCache, run_cell

    worker = get_worker()
    if not hasattr(worker, _CACHE):
        setattr(worker, _CACHE, FoldCache())

    def tell(trial: Mapping[str, Any]) -> None:
        worker.log_event(_TRIALS, (task.fingerprint, dict(trial)))

    return run_cell(task, getattr(worker, _CACHE), tell)


def _outcome(distributed: Any, future: Any, task: Task) -> Outcome | None:
    """A finished task's outcome, None if its workers died; any other error of Dask is a failed cell."""
    try:
        outcome: Outcome = future.result()
    except distributed.KilledWorker:
        return None
    except (
        Exception
    ) as error:  # such as a worker of another version, which cannot unpickle the task
        return failed(task, f"{type(error).__name__}: {error}")
    return outcome


@contextlib.contextmanager
def dask_client(address: str, jobs: int | None = None, threads: int | None = None) -> Iterator[Any]:
    """A client of the cluster at an address, or of ``jobs`` processes of this machine: by default one per core."""
    distributed = _need_distributed()
    import dask

    settings = {"distributed.scheduler.allowed-failures": ATTEMPTS - 1}
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        target: Any = address
        if address == LOCAL:
            environment = {"RANKWOOD_THREADS": str(threads or 1)}
            target = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=jobs or usable_cores(),
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address="127.0.0.1:0",  # None takes port 8787, of which there is one
                    memory_limit=0,  # a cell may take what the machine has
                    env=environment,
                )
            )
        try:
            client = distributed.Client(target, timeout=_CONNECT_SECONDS)
        except (OSError, ValueError) as error:
            raise RunError(f"there is no Dask scheduler at {address}: {error}.") from None
        yield stack.enter_context(client)


def _need_distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtra("distributed", "dask", "--dask") from None
    return distributed


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
