"""A team of threads in one kernel: every block once, whatever the number of threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from rankwood._core import team as teams
from rankwood._core.jit import kernel
from rankwood._core.team import (
    JOB,
    NO_BLOCK,
    Team,
    await_blocks,
    close,
    finish_block,
    next_block,
    run_team,
    share,
    take_block,
)

N_STEPS, N_BLOCKS = 200, 7


@kernel
def lead(sums, team):
    """Each step adds its number to every block, and needs the sums of the step before to be complete."""
    for step in range(N_STEPS):
        team.state[JOB] = step
        share(team, N_BLOCKS)
        block = take_block(team)
        while block != NO_BLOCK:
            add(block, sums, team)
            block = take_block(team)
        await_blocks(team)
        for block in range(N_BLOCKS):
            if sums[block] != step * (step + 1) // 2:
                sums[N_BLOCKS] += 1


@kernel
def follow(sums, team):
    block = next_block(team)
    while block != NO_BLOCK:
        add(block, sums, team)
        block = next_block(team)


@kernel
def add(block, sums, team):
    sums[block] += team.state[JOB]
    finish_block(team)


@pytest.mark.parametrize("size", [1, 2, 3, 8])  # more threads than this machine may have cores
def test_every_block_is_done_once_and_before_the_next_step(size):
    sums = np.zeros(N_BLOCKS + 1, np.int64)
    run_team(size, lead, follow, sums)
    assert sums[:N_BLOCKS].tolist() == [N_STEPS * (N_STEPS - 1) // 2] * N_BLOCKS
    assert sums[N_BLOCKS] == 0


def test_a_leader_alone_does_not_wait_for_threads_that_never_came():
    sums = np.zeros(N_BLOCKS + 1, np.int64)
    lead(sums, Team(2, np.zeros(teams.STATE_SIZE, np.int64)))
    assert sums[:N_BLOCKS].tolist() == [N_STEPS * (N_STEPS - 1) // 2] * N_BLOCKS


def test_two_teams_at_once():
    several = [np.zeros(N_BLOCKS + 1, np.int64) for _ in range(4)]
    threads = [threading.Thread(target=run_team, args=(3, lead, follow, sums)) for sums in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sums in several:
        assert sums[:N_BLOCKS].tolist() == [N_STEPS * (N_STEPS - 1) // 2] * N_BLOCKS


def test_an_error_of_a_follower_is_raised_and_the_leader_does_not_wait_for_ever():
    taken = threading.Event()

    def fail(sums, team):
        next_block(team)
        taken.set()
        raise ValueError("block failed")

    def lead_slowly(sums, team):
        share(team, 1)
        assert taken.wait(10)
        await_blocks(team)

    with pytest.raises(ValueError, match="block failed"):
        run_team(2, lead_slowly, fail, np.zeros(1, np.int64))


def test_an_error_of_the_leader_ends_the_followers():
    def fail(sums, team):
        raise ValueError("leader failed")

    with pytest.raises(ValueError, match="leader failed"):
        run_team(2, fail, follow, np.zeros(N_BLOCKS + 1, np.int64))


def test_a_closed_team_has_no_block():
    team = Team(2, np.zeros(teams.STATE_SIZE, np.int64))
    share(team, 3)
    close(team)
    assert next_block(team) == NO_BLOCK
    assert take_block(team) == NO_BLOCK
