"""Atomic operations on elements of int64 arrays, and ways to wait, for kernels that run in several threads at once.

numba does not expose these LLVM instructions. Without compilation each has a plain form under a lock.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def _element(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """A pointer to one element of an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def _load(typing: Any, array: Any, index: Any) -> Any:
    """The element, as the thread that wrote it last left it; later reads see what that thread wrote before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _element(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(where, "acquire", 8)

    return types.int64(array, types.int64), generate


@intrinsic
def _store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write the element after everything this thread has written before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _element(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], where, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def _add(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Add to the element at once, between the reads and writes of other threads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = _element(context, builder, signature.args[0], *arguments[:2])
        builder.atomic_rmw("add", where, arguments[2], "seq_cst")
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def _replace(typing: Any, array: Any, index: Any, expected: Any, value: Any) -> Any:
    """Write the element if it is still ``expected``; whether it was."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, expected, value = arguments
        where = _element(context, builder, signature.args[0], array, index)
        pair = builder.cmpxchg(where, expected, value, "seq_cst", "monotonic")
        return builder.extract_value(pair, 1)

    return types.boolean(array, types.int64, types.int64, types.int64), generate


@intrinsic
def _pause(typing: Any) -> Any:
    """Tell the processor that this thread waits in a loop."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine().lower() in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause")
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


_one_at_a_time = threading.RLock()  # without compilation


def _load_plainly(array: Any, index: int) -> Any:
    return array[index]


def _store_plainly(array: Any, index: int, value: int) -> None:
    array[index] = value


def _add_plainly(array: Any, index: int, value: int) -> None:
    with _one_at_a_time:
        array[index] += value


def _replace_plainly(array: Any, index: int, expected: int, value: int) -> bool:
    with _one_at_a_time:
        was_expected = bool(array[index] == expected)
        if was_expected:
            array[index] = value
        return was_expected


def _pause_plainly() -> None:
    time.sleep(0)


def _sleep_plainly(microseconds: int) -> None:
    time.sleep(microseconds * 1e-6)


@intrinsic
def _sleep_not(typing: Any, microseconds: Any) -> Any:
    """Does nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_dummy_value()

    return types.void(types.int64), generate


_IS_COMPILED = not numba.config.DISABLE_JIT
load_atomic = _load if _IS_COMPILED else _load_plainly
store_atomic = _store if _IS_COMPILED else _store_plainly
add_atomic = _add if _IS_COMPILED else _add_plainly
replace_atomic = _replace if _IS_COMPILED else _replace_plainly
pause = _pause if _IS_COMPILED else _pause_plainly

offer_core: Any = pause  # a waiting thread keeps its core, except on systems with these functions
sleep: Any = _sleep_not if _IS_COMPILED else _sleep_plainly
if _IS_COMPILED and os.name == "posix":
    offer_core = types.ExternalFunction("sched_yield", types.int32())
    sleep = types.ExternalFunction("usleep", types.int32(types.uint32))
