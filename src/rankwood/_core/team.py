"""A team of threads that share the work of one kernel, without the interpreter.

One thread *leads*: it runs the algorithm. Where a step is large, the leader ``share``s it in blocks, takes blocks
itself and waits until the last one is finished. The others *follow*: each enters its own kernel once, takes blocks
(``next_block``) and returns when the team is closed. The leader never waits for a thread that has taken no block, so
a follower that starts late, or never, costs time only.

A block is taken by raising one number, the *ticket*: how many times work was shared, the number of blocks, and the
next block, in one int64. A follower therefore never takes a block of work that is already finished. What a step needs
to know beyond its block (``state[JOB:]``) is written before its ticket, and stays until its last block is
finished.

Threads meet in atomic operations on elements of int64 arrays, and wait by pausing, offering their core or sleeping.
numba does not expose these LLVM instructions, so they are written here. Without compilation each has a plain form,
under a lock where it reads and writes.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from rankwood._core.jit import kernel
from rankwood._core.threads import submit
from rankwood.dtypes import Array

NO_BLOCK = -1
MOST_BLOCKS = 0xFFFF

# The entries of ``Team.state``, two cache lines apart so that threads do not wait for each other's writes.
TICKET, FINISHED, FAILED, JOB = 0, 16, 32, 48
STATE_SIZE = 64
CLOSED = -1  # the ticket of a team whose work is done

SPINS = 2_000  # checks of the ticket before a waiting thread offers its core to others
YIELDS = 500  # offers of the core before it sleeps
SLEEP = 50  # microseconds


# Atomic operations, and ways to wait.


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


# The team.


class Team(NamedTuple):
    """The threads that work together, and the numbers they share."""

    size: int
    state: Array  # int64 (STATE_SIZE)


def run_team(
    size: int, lead: Callable[..., Any], follow: Callable[..., Any], *arguments: Any
) -> None:
    """Call ``lead(*arguments, team)`` here and ``follow(*arguments, team)`` on ``size - 1`` other threads.

    The followers return when the leader does. An error of a follower is raised here.
    """
    team = Team(size, np.zeros(STATE_SIZE, np.int64))
    if size == 1:
        lead(*arguments, team)
        return
    futures = [submit(size, _follow, follow, arguments, team) for _ in range(1, size)]
    try:
        lead(*arguments, team)
    finally:
        close(team)
        started = [future for future in futures if not future.cancel()]
        for error in [
            future.exception() for future in started
        ]:  # all have returned before one is raised
            if error is not None:
                raise error


def _follow(follow: Callable[..., Any], arguments: tuple[Any, ...], team: Team) -> None:
    """Run a follower's kernel; if it fails, tell the leader, who would wait for its block."""
    try:
        follow(*arguments, team)
    except BaseException:
        team.state[FAILED] = 1
        raise


# What the leader does.


@kernel
def share(team: Any, n_blocks: Any) -> Any:
    """Offer the blocks ``0`` to ``n_blocks`` of a step to the team; ``team.state[JOB:]`` describes it."""
    n_times = load_atomic(team.state, TICKET) >> 32
    store_atomic(team.state, FINISHED, 0)
    store_atomic(team.state, TICKET, (n_times + 1) << 32 | n_blocks << 16)


@kernel
def take_block(team: Any) -> Any:
    """Take the next block of the shared step; NO_BLOCK if none is left."""
    while True:
        ticket = load_atomic(team.state, TICKET)
        block = ticket & MOST_BLOCKS
        if ticket == CLOSED or block >= (ticket >> 16) & MOST_BLOCKS:
            return NO_BLOCK
        if replace_atomic(team.state, TICKET, ticket, ticket + 1):
            return block


@kernel
def await_blocks(team: Any) -> Any:
    """Wait until all blocks of the shared step are finished."""
    n_blocks = (load_atomic(team.state, TICKET) >> 16) & MOST_BLOCKS
    n_checks = 0
    while load_atomic(team.state, FINISHED) < n_blocks:
        if load_atomic(team.state, FAILED) != 0:
            raise RuntimeError("a thread of the team failed")
        n_checks = wait(n_checks)


@kernel
def close(team: Any) -> Any:
    """End the work: followers return when they look for their next block."""
    store_atomic(team.state, TICKET, CLOSED)


# What followers do.


@kernel
def next_block(team: Any) -> Any:
    """Wait for a block and take it; NO_BLOCK if the team is closed."""
    n_checks = 0
    while load_atomic(team.state, TICKET) != CLOSED:
        block = take_block(team)
        if block != NO_BLOCK:
            return block
        n_checks = wait(n_checks)
    return NO_BLOCK


@kernel
def finish_block(team: Any) -> Any:
    """Say that a block is finished; its results can be read by the leader from then on."""
    add_atomic(team.state, FINISHED, 1)


@kernel
def wait(n_checks: Any) -> Any:
    """Wait a moment, the longer the more checks there were; return their number."""
    if n_checks < SPINS:
        pause()
    elif n_checks < SPINS + YIELDS:
        offer_core()
    else:
        sleep(SLEEP)
    return n_checks + 1
