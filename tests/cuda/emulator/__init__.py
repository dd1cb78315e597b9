"""CUDA kernels without a GPU: an emulator for tests.

``emulated_cupy()`` puts a module in the place of ``cupy`` whose ``RawModule`` compiles CUDA C++ with g++ and runs it
here, a thread of the kernel at a time.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType

from tests.cuda.emulator.compiling import COMPILER, KernelMistake
from tests.cuda.emulator.cupy_module import Machine, make_cupy

__all__ = ["COMPILER", "KernelMistake", "Machine", "emulated_cupy"]


@contextlib.contextmanager
def emulated_cupy(machine: Machine | None = None) -> Iterator[ModuleType]:
    """``import cupy`` gives the emulator within; ``cupy.machine`` says what devices there are and how they run."""
    machine = machine or Machine()
    modules = make_cupy(machine)
    modules["cupy"].machine = machine
    hidden = {
        name: sys.modules.pop(name)
        for name in list(sys.modules)
        if name.partition(".")[0] in ("cupy", "cupyx")
    }
    sys.modules.update(modules)
    try:
        yield modules["cupy"]
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)
