"""Memory that was freed, handed back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path


def release_freed() -> None:
    """Give the system back what has been freed and the C library keeps for later; only glibc can be asked to.

    Arrays of some megabytes leave such holes, and new ones do not always fit into them.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


# How much memory there is, to refuse what it cannot hold before it is tried.


UNKNOWN = 1 << 62  # where the system does not say
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def memory_of_machine() -> int:
    """Bytes of memory this process may use: the machine's, or the container's if it is less."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        memory = UNKNOWN
    try:
        return min(memory, int(_CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):
        return memory
