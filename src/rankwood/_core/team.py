"""A team of threads that share the work of one kernel, without the interpreter.

One thread *leads*: it runs the algorithm. Where a step is large, the leader ``share``s it in blocks, takes blocks
itself and waits until the last one is finished. The others *follow*: each enters its own kernel once, takes blocks
(``next_block``) and returns when the team is closed. The leader never waits for a thread that has taken no block, so
a follower that starts late, or never, costs time only.

A block is taken by raising one number, the *ticket*: how many times work was shared, the number of blocks, and the
next block, in one int64. A follower therefore never takes a block of work that is already finished. What a step needs
to know beyond its block (``JOB_SIZE`` integers) is written before its ticket, and stays until its last block is
finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rankwood._core.atomics import (
    add_atomic,
    load_atomic,
    offer_core,
    pause,
    replace_atomic,
    sleep,
    store_atomic,
)
from rankwood._core.jit import kernel
from rankwood._core.threads import submit
from rankwood.dtypes import Array

NO_BLOCK = -1
MOST_BLOCKS = 0xFFFF
JOB_SIZE = 4

# The entries of ``Team.state``, two cache lines apart so that threads do not wait for each other's writes.
TICKET, FINISHED, FAILED, JOB = 0, 16, 32, 48
STATE_SIZE = 64
CLOSED = -1  # the ticket of a team whose work is done

SPINS = 2_000  # checks of the ticket before a waiting thread offers its core to others
YIELDS = 500  # offers of the core before it sleeps
SLEEP = 50  # microseconds


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
    errors: list[BaseException | None] = []
    try:
        lead(*arguments, team)
    finally:
        close(team)
        errors = [future.exception() for future in futures if not future.cancel()]
        for error in errors:
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
