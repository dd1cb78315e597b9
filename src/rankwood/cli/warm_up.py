"""``rankwood warm-up``: compile the kernels now."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from rankwood.cli import printing


def command(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Compile all kernels once, so that no later call waits for it.

    Run it when a container is built. The compiled code is kept in NUMBA_CACHE_DIR when that is set, else in the
    user's cache folder.
    """
    from rankwood import _jit
    from rankwood.evaluation.warm_up import warm_up

    start = time.monotonic()
    n_kernels = warm_up(
        None if quiet else lambda step: printing.notice(f"compiling (once): {step}")
    )
    if quiet:
        return
    folder = _jit.cache_folder()
    place = (
        f"kept in {folder}" if folder else "kept in memory only: the cache folder cannot be written"
    )
    printing.say(f"{n_kernels} kernels ready after {time.monotonic() - start:.1f} s, {place}")
