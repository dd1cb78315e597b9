"""How much memory there is, to refuse what it cannot hold before it is tried."""

from __future__ import annotations

import os
from pathlib import Path

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
