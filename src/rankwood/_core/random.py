"""One stream of random numbers per purpose and iteration.

``stream(seed, "bootstrap", 7)`` gives the same numbers whatever was drawn before it, for whatever purpose, on
whatever thread: that is what makes a run repeatable when its parts are reordered or run side by side.
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
