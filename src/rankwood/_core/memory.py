"""The memory of the machine: how much there is, and returning freed memory to the system."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

UNKNOWN = 1 << 62  # bytes assumed where the system does not report its memory
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def memory_of_machine() -> int:
    """Bytes of memory this process may use: the machine's, or the container's limit if it is lower."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        memory = UNKNOWN
    try:
        return min(memory, int(_CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):
        return memory


def release_freed() -> None:
    """Return freed memory that the C library still holds to the system; only glibc supports this.

    Freed arrays of some megabytes leave holes that new arrays do not always fit into.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
