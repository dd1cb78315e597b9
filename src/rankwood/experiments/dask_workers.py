"""Cells on a Dask cluster: one of this machine's processes, or one at an address."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from rankwood.errors import MissingExtra, RunError
from rankwood.experiments.cell_work import Outcome, Task, run_cell
from rankwood.experiments.fold_data import FoldCache
from rankwood.experiments.local_workers import ATTEMPTS, failed

LOCAL = "local"
_CONNECT_SECONDS = 30
_LOOK_SECONDS = 5  # between looks whether there are workers at all
_WITHOUT_WORKERS_SECONDS = 120
_AHEAD = 2  # tasks handed over for each thread of the cluster: one at work, one waiting
_CACHE = "rankwood_folds"  # the attribute of a Dask worker that holds its fold


def run_on_dask(
    tasks: Sequence[Task], address: str, jobs: int, threads: int | None
) -> Iterator[Outcome]:
    """The outcome of each task as it is finished, on the cluster at ``address``, or on a local one.

    A task whose worker is lost is given to another. Dask gives up those that were waiting on workers that died again
    and again, the guilty with the innocent; each of them is tried once more, alone.
    """
    distributed = _need_distributed()
    with _client(distributed, address, jobs, threads) as client:
        suspects = []
        for task, outcome in _side_by_side(distributed, client, tasks):
            if outcome is None:
                suspects.append(task)
            else:
                yield outcome
        for task in suspects:
            for _, outcome in _side_by_side(distributed, client, [task]):
                yield outcome or failed(task, "KilledWorker: it ended every worker it was given to")


def _side_by_side(
    distributed: Any, client: Any, tasks: Sequence[Task]
) -> Iterator[tuple[Task, Outcome | None]]:
    """Each task with its outcome, None where Dask has lost too many workers over it."""
    waiting = iter(tasks)
    task_of: dict[Any, Task] = {}

    def submit_next() -> Any:
        task = next(waiting, None)
        if task is None:
            return None
        future = client.submit(run_on_worker, task, key=f"{task.cell}-{uuid.uuid4()}", pure=False)
        task_of[future.key] = task
        return future

    n_threads = max(1, sum(client.nthreads().values()))
    first = [submit_next() for _ in range(min(len(tasks), _AHEAD * n_threads))]
    pending = {future.key: future for future in first if future is not None}
    while pending:
        for future in _next_done(distributed, client, list(pending.values())):
            del pending[future.key]
            task = task_of.pop(future.key)
            yield task, _outcome(distributed, future, task)
            future.release()
            following = submit_next()
            if following is not None:
                pending[following.key] = following


def _next_done(distributed: Any, client: Any, pending: list[Any]) -> list[Any]:
    """Those that are finished, as soon as there is one; raises where nobody is left to work."""
    idle_since = time.monotonic()
    while True:
        try:
            found = distributed.wait(pending, timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")
            return list(found.done)
        except (TimeoutError, distributed.TimeoutError):
            if client.nthreads():
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _WITHOUT_WORKERS_SECONDS:
                raise RunError(
                    f"the Dask cluster has had no worker for {_WITHOUT_WORKERS_SECONDS} s. Finished cells are kept; "
                    "start workers, and the same command goes on with the rest."
                ) from None
            elif client.cluster is not None and hasattr(client.cluster, "scale"):
                client.cluster.scale(
                    len(client.cluster.worker_spec)
                )  # workers that could not start are started again


def run_on_worker(task: Task) -> Outcome:
    """What a Dask worker runs: the cell, with the fold that this worker has in memory."""
    from distributed import get_worker

    worker = get_worker()
    if not hasattr(worker, _CACHE):
        setattr(worker, _CACHE, FoldCache())
    return run_cell(task, getattr(worker, _CACHE))


def _outcome(distributed: Any, future: Any, task: Task) -> Outcome | None:
    """A finished task's outcome, None if its workers died; what else Dask could not do is a failed cell."""
    try:
        found: Outcome = future.result()
    except distributed.KilledWorker:
        return None
    except (
        Exception
    ) as error:  # such as a worker of another version, which cannot unpickle the task
        return failed(task, f"{type(error).__name__}: {error}")
    return found


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
