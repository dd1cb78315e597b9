"""The steps that a team shares: the same bytes for any number of threads, late, failing or interrupted ones included."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from rankwood import GBRT, LambdaMART, make_ranking
from rankwood._core import team as teams
from rankwood._core.checks import read_only
from rankwood._core.team import STATE_SIZE, Team
from rankwood.trees import grower, partition, steps
from rankwood.trees.grower import FeatureChoice, Growth, Policies, grow_tree
from rankwood.trees.packing import pack
from rankwood.trees.workspace import GO_LEFT, GO_RIGHT, LEARNED, N_CANDIDATES, OWN_CHILD, Bag
from tests.unit.test_trees import MISSING, matrix_of

N_ROWS, N_FEATURES = 3000, 40
MANY = (2, 3, 8, 16, 64)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of 30 rows, and a core for every thread: each step of a tree of 3,000 rows is shared."""
    monkeypatch.setattr(grower, "_LEAST_SHARED", 0)
    monkeypatch.setattr(grower, "_LEAST_FOR_TEAM", 0)
    monkeypatch.setattr(grower, "_LEAST_PART", 30)
    monkeypatch.setattr(grower, "usable_cores", lambda: 64)


def some_rows(seed=5):
    """A matrix with missing values, and targets."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 200, (N_FEATURES, N_ROWS)).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.05] = MISSING
    targets = rng.normal(size=N_ROWS) + (codes[3] > 90) + (codes[7] == MISSING)
    return matrix_of(codes, [np.arange(199)] * N_FEATURES), targets


def bytes_of(tree):
    return [getattr(tree, field.name).tobytes() for field in dataclasses.fields(tree)]


POLICIES = {
    "all features": Policies(Growth(max_leaves=31, min_leaf=5)),
    "some features": Policies(Growth(max_leaves=31), FeatureChoice(0.3)),
    "own child": Policies(Growth(max_leaves=31), missing="own_child"),
    "random cuts": Policies(Growth(max_leaves=31), thresholds="random"),
    "no limit": Policies(Growth(max_leaves=None, min_leaf=20)),
    "monotone": Policies(Growth(max_leaves=20), direction=np.tile([1, 0, -1, 0], N_FEATURES // 4)),
}


@pytest.mark.jit_only  # minutes without compilation; test_trees grows with a team there
@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("has_bag", [False, True])
def test_trees_are_the_same_bytes_for_any_number_of_threads(kind, has_weights, has_bag):
    matrix, targets = some_rows()
    rng = np.random.default_rng(1)
    weights = rng.random(N_ROWS) if has_weights else None
    counts = rng.integers(0, 3, N_ROWS).astype(np.int32) if has_bag else None

    def grow(n_threads, likely_gain=np.inf):
        return bytes_of(
            grow_tree(
                matrix,
                targets,
                POLICIES[kind],
                counts=counts,
                weights=weights,
                stream=3,
                n_threads=n_threads,
                likely_gain=likely_gain,
            )
        )

    expected = grow(1)
    for n_threads in MANY:
        assert grow(n_threads) == expected
    assert grow(3, likely_gain=0.0) == expected  # splits made early and not kept


@pytest.mark.jit_only
def test_rows_that_were_drawn_once_need_no_counts():
    matrix, targets = some_rows()
    weights = np.random.default_rng(1).random(N_ROWS)
    ones = np.ones(N_ROWS, np.int32)
    for n_threads in (1, 3):
        for policies in POLICIES.values():
            given, told = (
                grow_tree(
                    matrix, targets, policies, counts=counts, weights=weights, n_threads=n_threads
                )
                for counts in (None, ones)
            )
            assert bytes_of(given) == bytes_of(told)


# The blocks of a step.


def space(n_threads, weights=None):
    """What the kernels of a tree of all rows share, before it grows."""
    matrix, targets = some_rows()
    packed = pack(targets, np.ones(N_ROWS, np.int32), weights)
    policies = POLICIES["all features"]
    rules = grower.growth_rules(matrix, packed.units, policies, weights is not None, 0)
    bag = Bag(packed.rows, packed.values, packed.counts)
    nodes, work = grower._space(matrix, rules, bag, n_threads)
    team = Team(n_threads, np.zeros(STATE_SIZE, np.int64))
    return matrix, bag, rules, nodes, work, team


@pytest.mark.parametrize(
    ("n_threads", "n_rows", "expected"),
    [
        (2, 3000, (1, 4)),  # by candidates
        (16, 59, (1, 10)),
        (16, 180, (3, 10)),  # by rows and candidates: some two blocks for each thread
        (16, 3000, (8, 4)),
    ],
)
def test_leaves_are_cut_so_that_every_thread_has_blocks(n_threads, n_rows, expected):
    matrix, bag, rules, nodes, work, team = space(n_threads)
    nodes.begin[0], nodes.end[0], nodes.buffer[0] = 0, n_rows, 0
    work.counters[N_CANDIDATES] = N_FEATURES
    assert steps.divide(0, matrix, bag, rules, nodes, work, team) == expected


@pytest.mark.parametrize("n_items", [0, 1, 7, 100])
@pytest.mark.parametrize("n_blocks", [1, 3, 8])
def test_blocks_cover_every_item_once(n_items, n_blocks):
    found = [steps.bounds(block, n_blocks, 5, 5 + n_items) for block in range(n_blocks)]
    assert [item for first, last in found for item in range(first, last)] == [
        *range(5, 5 + n_items)
    ]


@pytest.mark.parametrize("side", [LEARNED, GO_LEFT, GO_RIGHT, OWN_CHILD])
@pytest.mark.parametrize("has_counts", [False, True])
@pytest.mark.parametrize("n_rows", [0, 1, 16, 17, 250])
def test_parts_of_a_node_are_moved_as_the_slow_twin_sorts_them(side, has_counts, n_rows):
    rng = np.random.default_rng(n_rows)
    column = rng.choice([0, 7, 8, 254, MISSING], 3000).astype(np.uint8)
    rows = np.sort(rng.permutation(3000)[: n_rows + 5]).astype(np.uint32)
    counts = rng.integers(1, 9, rows.size if has_counts else 0)
    bag = Bag(rows, rng.integers(-(2**62), 2**62, rows.size), counts)
    other = Bag(*(np.zeros_like(array) for array in bag))
    begin, end, n_parts = 2, 2 + n_rows, 4
    codes, sums = np.zeros(rows.size, np.uint8), np.zeros((n_parts, 3), np.int64)
    own = read_only(column)
    for part in range(n_parts):
        first, last = steps.bounds(part, n_parts, begin, end)
        partition.count_sides(own, 7, side, bag, first, last, codes, sums[part])

    def child(position):
        code = column[rows[position]]
        if code == MISSING:
            return {GO_LEFT: 0, OWN_CHILD: 2}.get(side, 1)
        return int(code > 7)

    order = sorted(range(begin, end), key=child)  # stable
    sizes = [sum(child(position) == which for position in order) for which in range(3)]
    assert sums.sum(axis=0).tolist() == sizes
    starts = begin + np.cumsum(sums.T.ravel()) - sums.T.ravel()
    for part in range(n_parts):
        first, last = steps.bounds(part, n_parts, begin, end)
        places = np.ascontiguousarray(starts.reshape(3, n_parts)[:, part])
        partition.move_part(7, side, bag, first, last, codes, other, places)
    for given, moved in zip(bag, other, strict=True):
        if given.size:
            assert moved[begin:end].tolist() == given[order].tolist()
            assert not moved[:begin].any()
            assert not moved[end:].any()


def test_rows_are_dealt_one_by_one_as_by_lanes():
    rng = np.random.default_rng(2)
    codes = rng.choice([0, 7, 8, MISSING], 100).astype(np.uint8)
    bag = Bag(np.arange(100, dtype=np.uint32), rng.integers(0, 2**62, 100), rng.integers(1, 9, 100))
    found = []
    for deal in (partition.deal, partition.deal_one_by_one):
        left, right = (Bag(*(np.zeros_like(array) for array in bag)) for _ in range(2))
        numbers = [np.uint64(number) for number in (3, 90)], [np.uint64(3), np.uint64(5)]
        ends = deal(
            codes,
            *numbers[0],
            np.uint8(1),
            np.uint8(8),
            bag,
            numbers[1][0],
            left,
            numbers[1][1],
            right,
            np.uint64(0),
        )
        found.append(([int(end) for end in ends], [array.tolist() for array in (*left, *right)]))
    assert found[0] == found[1]


# Threads that are late, fail, or come again.


@pytest.mark.jit_only
def test_followers_that_start_late_or_stop_in_between_change_nothing(monkeypatch):
    matrix, targets = some_rows()
    policies = POLICIES["all features"]
    expected = bytes_of(grow_tree(matrix, targets, policies))
    follow, rng = teams._follow, np.random.default_rng(4)
    delays = iter(rng.exponential(2e-3, 1000).tolist())

    def follow_late(*arguments):
        time.sleep(next(delays))
        follow(*arguments)

    monkeypatch.setattr(teams, "_follow", follow_late)
    for _ in range(20):
        assert bytes_of(grow_tree(matrix, targets, policies, n_threads=4)) == expected


@pytest.mark.jit_only
def test_a_follower_that_fails_is_an_error_and_leaves_nothing_behind(monkeypatch):
    matrix, targets = some_rows()
    policies = POLICIES["all features"]
    expected = bytes_of(grow_tree(matrix, targets, policies))

    def fail(*arguments):
        raise ValueError("a follower failed")

    with monkeypatch.context() as patch:
        patch.setattr(grower, "follow", fail)
        with pytest.raises((ValueError, RuntimeError), match="failed"):
            _ = [grow_tree(matrix, targets, policies, n_threads=3) for _ in range(100)]
    assert bytes_of(grow_tree(matrix, targets, policies, n_threads=3)) == expected


@pytest.mark.jit_only
def test_several_trees_at_once():
    matrix, targets = some_rows()
    found = {}

    def grow(kind):
        found[kind] = bytes_of(grow_tree(matrix, targets, POLICIES[kind], stream=3, n_threads=3))

    threads = [threading.Thread(target=grow, args=(kind,)) for kind in POLICIES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for kind, policies in POLICIES.items():
        assert found[kind] == bytes_of(grow_tree(matrix, targets, policies, stream=3))


@pytest.mark.jit_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_process_grows_the_same_tree():
    matrix, targets = some_rows()
    policies = POLICIES["all features"]
    expected = bytes_of(grow_tree(matrix, targets, policies, n_threads=3))
    child = os.fork()
    if child == 0:
        is_same = bytes_of(grow_tree(matrix, targets, policies, n_threads=3)) == expected
        os._exit(0 if is_same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.jit_only
@pytest.mark.parametrize("ranker", [GBRT(3, n_threads=3), LambdaMART(3, n_threads=3)])
def test_no_thread_is_left_after_a_fit(ranker):
    ranker.fit(make_ranking(20, 30, 8, seed=1))
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("rankwood_")]
    assert left == []


INTERRUPTED = """
import rankwood as rw
data = rw.bin(rw.make_ranking(500, 60, 60, seed=1))
ranker = rw.GBRT(1, n_threads=2).fit(data)
print("fits", flush=True)
rw.GBRT(100_000, n_threads=2).fit(data)
"""


@pytest.mark.slow
def test_an_interrupt_ends_a_fit_of_many_minutes():
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "fits\n"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)  # a second where nothing else runs
    assert "KeyboardInterrupt" in errors
