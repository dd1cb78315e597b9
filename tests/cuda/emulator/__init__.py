"""CUDA kernels without a GPU: an emulator for tests.

``emulated_cupy()`` puts a module in the place of ``cupy`` whose ``RawModule`` compiles CUDA C++ with g++ and runs it
in this process. Every thread of a kernel is a fiber; one processor runs them in turn, from one point where they wait
for each other to the next. The fixture ``cupy`` of ``tests/cuda/conftest.py`` does that for a test, or skips it where
there is no g++.

What is emulated
    The language: launches of one to three dimensions, static and dynamic shared memory, constants, templates,
    atomics, barriers and votes of the block, shuffles, votes, reductions and __syncwarp of any mask, integers and
    floating point as the hardware has them, assertions, printf, a little assembler. Cooperative launches, whose
    blocks may wait for each other.
    CuPy: modules, kernels and their attributes, arrays that refuse to become NumPy arrays by themselves, devices with
    a limit of memory, streams, events, errors.

What is found, and reported as ``KernelMistake``, an AssertionError that names block, thread and, where it is known,
line
    Always: barriers that not all threads of a block reach, collectives of a warp without the lanes of their mask,
    threads that wait for ever, accesses after the end of a device array or of dynamic shared memory, writes just
    before an array, misaligned accesses, indices outside arrays of fixed length, failed assertions, divisions by
    zero, arguments whose size or kind is not the parameter's. Shared memory and new arrays begin as rubbish, so that
    nobody relies on zeros.
    With ``machine.seed``: threads run in a random order with pauses at atomics, fences and polls: results that depend
    on the order come to light. The same seed gives the same order.
    With ``machine.checks_accesses``: races in shared memory and device arrays, and every access outside an array,
    whatever the order; ten to thirty times as slow.

What is not emulated
    Time, caches, registers, occupancy beyond the rules of a launch. Memory is sequentially consistent: a missing
    __threadfence or a plain read of what another block wrote is noticed by ``checks_accesses`` at most. Warps do not
    run in lockstep, as they may not since Volta, and ``__activemask`` names the calling lane alone. Polling needs
    ``__ldcg``, an atomic or __nanosleep, or a volatile read with ``checks_accesses``; a loop of plain reads ends in
    an error after some seconds. Waiting flags must be atomics or volatile: ``checks_accesses`` takes ``__ldcg`` and
    ``__stcg`` for plain accesses, but for atomics.
    Textures, dynamic parallelism, clusters, named barriers, half precision, tensor cores, several devices at once.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType

from tests.cuda.emulator.compiling import COMPILER, KernelMistake
from tests.cuda.emulator.cupy_module import Machine, in_place, make_cupy

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
    in_place.append(machine)
    try:
        yield modules["cupy"]
    finally:
        in_place.remove(machine)
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)
