"""Cells in this process, or on local worker processes. A worker that dies loses one attempt at one cell only.

Workers are started as ``python -m rankwood.experiments.workers DESCRIPTOR`` and not by ``multiprocessing``: the
caller's script is not run a second time, whether it is a notebook, a pipe or a program without a guard.

The protocol, over a pipe: a worker sends "ready" once. It is then given one task at a time and answers each with an
outcome. It ends when the pipe is closed, or when the process that started it is gone.
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
_MODULE = "rankwood.experiments.workers"  # this one; under ``python -m`` its name is __main__
_MOST_DEAD_AT_START = 3  # workers that end before their first task: something is wrong with all
_LOOK_EVERY = 1.0  # seconds between a worker's looks at whether its parent is alive


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
                message = worker.receive()
                if isinstance(message, Outcome):
                    yield message
                elif message == "dead":
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
    """The outcome of a cell that ended without one, such as by the death of its worker."""
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
        command = [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())]
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

    def receive(self) -> Outcome | str:
        """An outcome, "ready", or "dead"."""
        try:
            message: Outcome | str = self.connection.recv()
        except (EOFError, OSError):
            return "dead"
        self.was_ready = True
        self.task = None
        return message

    def give(self, task: Task, attempt: int) -> None:
        self.task = (task, attempt)
        with contextlib.suppress(OSError):  # it has died: the next receive says so
            self.connection.send(task)

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


def main(descriptor: int) -> None:
    """Run the tasks that come over the pipe with this file descriptor, until it is closed."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    connection: Connection = Connection(descriptor)
    cache = FoldCache()
    with contextlib.suppress(EOFError, BrokenPipeError):  # the other end is closed
        connection.send("ready")
        while True:
            connection.send(run_cell(connection.recv(), cache))


def _end_with(parent: int) -> None:
    """End this process at once when its parent is gone: the result of the current cell is no longer needed."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
