"""Cells on a Dask cluster: one of this machine's processes, or one at an address."""

from __future__ import annotations

import collections
import contextlib
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from rankwood.errors import MissingExtra, RunError
from rankwood.experiments.cells import FoldCache, Outcome, Task, run_cell
from rankwood.experiments.workers import ATTEMPTS, failed

LOCAL = "local"
_CONNECT_SECONDS = 30
_AHEAD = 2  # tasks handed over for each thread of the cluster: one at work, one waiting
_LOOK_EVERY = 5.0  # seconds between looks at the cluster while no cell is finished
_PATIENCE = 120.0  # seconds that a cluster may be without workers: they may be starting again
_CACHE = "rankwood_folds"  # the attribute of a Dask worker that holds its fold


def run_on_dask(
    tasks: Sequence[Task], address: str, jobs: int, threads: int | None
) -> Iterator[Outcome]:
    """The outcome of each task as it is finished, on the cluster at ``address``, or on a local one.

    A task whose worker is lost is given to another. Dask gives up all tasks that were waiting on workers that died
    repeatedly, not only the one that killed them; each of these is tried once more, alone.
    """
    distributed = _need_distributed()
    with _client(distributed, address, jobs, threads) as client:
        suspects = []
        for task, outcome in _outcomes_in_parallel(distributed, client, tasks):
            if outcome is None:
                suspects.append(task)
            else:
                yield outcome
        for task in suspects:
            for _, outcome in _outcomes_in_parallel(distributed, client, [task]):
                yield outcome or failed(task, "KilledWorker: it ended every worker it was given to")


def _outcomes_in_parallel(
    distributed: Any, client: Any, tasks: Sequence[Task]
) -> Iterator[tuple[Task, Outcome | None]]:
    """Each task with its outcome, None where Dask has lost too many workers over it."""
    waiting = collections.deque(tasks)
    task_of: dict[Any, Task] = {}
    while waiting or task_of:
        n_threads = max(1, sum(client.nthreads().values()))
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
            status = distributed.wait(futures, timeout=_LOOK_EVERY, return_when="FIRST_COMPLETED")
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


def run_on_worker(task: Task) -> Outcome:
    """What a Dask worker runs: the cell, with the fold that this worker has in memory."""
    from distributed import get_worker

    worker = get_worker()
    if not hasattr(worker, _CACHE):
        setattr(worker, _CACHE, FoldCache())
    return run_cell(task, getattr(worker, _CACHE))


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
def _client(distributed: Any, address: str, jobs: int, threads: int | None) -> Iterator[Any]:
    import dask

    settings = {"distributed.scheduler.allowed-failures": ATTEMPTS - 1}
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        target: Any = address
        if address == LOCAL:
            environment = {"RANKWOOD_THREADS": str(threads or 1)}
            target = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=jobs,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
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
