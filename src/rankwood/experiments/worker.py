"""``python -m rankwood.experiments.worker DESCRIPTOR``: a process that runs the cells it is told to.

It says "ready" once, then answers every task with an outcome. It ends with the pipe, and with the process that
started it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from multiprocessing.connection import Connection

_LOOK_EVERY = 1.0  # seconds


def main(descriptor: int) -> None:
    """Serve until the pipe is closed."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    from rankwood.experiments.cell_work import run_cell
    from rankwood.experiments.fold_data import FoldCache

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
