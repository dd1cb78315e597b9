"""CuPy for the tests of kernels: the emulator, where there is a C++ compiler."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.cuda.emulator import COMPILER, emulated_cupy


@pytest.fixture
def cupy() -> Iterator[ModuleType]:
    """The emulator in the place of CuPy; ``cupy.machine`` says what devices there are."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler: kernels cannot be emulated")
    with emulated_cupy() as module:
        yield module
