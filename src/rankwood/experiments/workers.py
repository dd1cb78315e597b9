"""Cells on local processes. A worker that dies takes one attempt at one cell with it, and nothing else.

Workers are started as programs of their own and not by ``multiprocessing``: the caller's script is not run a second
time, whether it is a notebook, a pipe or a program without a guard. A worker is told one task at a time over a pipe,
and ends when the pipe does.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

import rankwood
from rankwood.errors import RunError
from rankwood.experiments.cells import FoldCache, Outcome, Task, run_cell

ATTEMPTS = 2  # a cell whose worker died is tried once more
_MOST_DEAD_AT_START = 3  # workers that end before their first task: something is wrong with all


def run_here(tasks: Sequence[Task]) -> Iterator[Outcome]:
    """The outcome of each task, one after the other in this process."""
    cache = FoldCache()
    for task in tasks:
        yield run_cell(task, cache)


def run_on_processes(tasks: Sequence[Task], jobs: int, threads: int) -> Iterator[Outcome]:
    """The outcome of each task as it is finished, on ``jobs`` processes."""
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
                found = worker.receive()
                if isinstance(found, Outcome):
                    yield found
                elif found == "dead":
                    del workers[worker.connection]
                    how = worker.bury()
                    n_dead_at_start += not worker.was_ready
                    if n_dead_at_start >= _MOST_DEAD_AT_START:
                        raise RunError(f"workers end before they begin: {how}.")
                    if worker.task is not None:
                        task, attempt = worker.task
                        if attempt < ATTEMPTS:
                            waiting.appendleft((task, attempt + 1))
                        else:
                            yield failed(task, f"its worker died {ATTEMPTS} times: {how}")
                    continue
                if waiting:
                    worker.give(*waiting.popleft())
                else:
                    del workers[worker.connection]
                    worker.bury()
    finally:
        for worker in workers.values():
            worker.kill()


def failed(task: Task, message: str) -> Outcome:
    """The record of a cell that could not even say why."""
    cell = task.cell
    return Outcome(
        cell,
        {
            "algorithm": cell.algorithm,
            "fold": cell.fold,
            "repetition": cell.repetition,
            "fingerprint": task.fingerprint,
            "kind": task.algorithm.kind,
            "seed": task.seed,
            "version": rankwood.__version__,
            "parameters": dict(task.algorithm.parameters),
            "seconds": {},
            "status": "failed",
            "error": message,
            "message": message,
            "warnings": [],
            "peak_memory": 0,
        },
    )


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
        command = [sys.executable, "-P", "-m", "rankwood.experiments.workers", str(theirs.fileno())]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C in the terminal is for us; we end the workers
        )
        theirs.close()  # so that the worker's death ends the pipe
        self.task: tuple[Task, int] | None = None
        self.was_ready = False

    def receive(self) -> Outcome | str:
        """An outcome, "ready", or "dead"."""
        try:
            found: Outcome | str = self.connection.recv()
        except (EOFError, OSError):
            return "dead"
        self.was_ready = True
        self.task = None
        return found

    def give(self, task: Task, attempt: int) -> None:
        self.task = (task, attempt)
        with contextlib.suppress(OSError):  # it has died: the next receive says so
            self.connection.send(task)

    def bury(self) -> str:
        """End the process, and say how it ended."""
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
    """Where a worker finds this very Rankwood, and what else the environment says."""
    own = str(pathlib.Path(rankwood.__file__).parents[1])
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return [own, *(path for path in others if path != own)]


# ``python -m rankwood.experiments.workers DESCRIPTOR``: a process that runs the cells it is told to.
#
# It says "ready" once, then answers every task with an outcome. It ends with the pipe, and with the process that
# started it.


_LOOK_EVERY = 1.0  # seconds


def main(descriptor: int) -> None:
    """Serve until the pipe is closed."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    from rankwood.experiments.cells import FoldCache, run_cell

    connection: Connection = Connection(descriptor)
    cache = FoldCache()
    connection.send("ready")
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(run_cell(task, cache))


def _end_with(parent: int) -> None:
    """End this process at once when the one that started it is gone: nobody waits for the cell at hand."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
