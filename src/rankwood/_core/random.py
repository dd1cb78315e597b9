"""Independent random streams, one per purpose and iteration.

``stream(seed, "bootstrap", 7)`` always gives the same numbers, whatever was drawn before it, for whatever purpose and
on whatever thread. A run is therefore repeatable when its parts are reordered or run in parallel.
"""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, iteration: int = 0) -> np.random.Generator:
    """A generator that depends on ``seed``, ``purpose`` and ``iteration`` and on nothing else."""
    key = zlib.crc32(purpose.encode())
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key, iteration)))
    )
