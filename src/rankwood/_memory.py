"""Memory that was freed, handed back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import sys


def release_freed() -> None:
    """Give the system back what has been freed and the C library keeps for later; only glibc can be asked to.

    Arrays of some megabytes leave such holes, and new ones do not always fit into them.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
