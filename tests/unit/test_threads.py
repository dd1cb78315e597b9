"""How many threads, and what happens to their blocks."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from rankwood._core import threads
from rankwood.errors import ParameterError


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("RANKWOOD_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


def mark(first, last, marks):
    marks[first:last] += 1


@pytest.mark.parametrize("n_threads", [1, 2, 8])
@pytest.mark.parametrize("n_items", [0, 1, 2, 7, 1000])
def test_blocks_cover_every_item_once(n_threads, n_items):
    marks = np.zeros(n_items, int)
    threads.run_blocks(mark, n_items, marks, n_threads=n_threads)
    assert (marks == 1).all()


def test_few_items_stay_on_the_callers_thread():
    names = set()
    threads.run_blocks(lambda *_: names.add(threading.get_ident()), 100, n_threads=4, least=60)
    assert names == {threading.get_ident()}


def test_an_error_in_any_block_reaches_the_caller():
    def fail(first, last):
        if last == 10:
            raise RuntimeError("block failed")

    with pytest.raises(RuntimeError, match="block failed"):
        threads.run_blocks(fail, 10, n_threads=2)


def test_threads_come_from_the_argument_then_the_environment_then_the_machine(monkeypatch):
    assert threads.resolve_threads() == threads.usable_cores()
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")  # what joblib's workers set
    assert threads.resolve_threads() == 3
    monkeypatch.setenv("RANKWOOD_THREADS", "5")
    assert threads.resolve_threads() == 5
    assert threads.resolve_threads(7) == 7


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_a_wrong_number_of_threads_is_named(value):
    with pytest.raises(
        ParameterError, match=f"n_threads must be a whole number of at least 1, got {value!r}"
    ):
        threads.resolve_threads(value)


@pytest.mark.parametrize("value", ["0", "two", "-1", "1.5"])
def test_a_wrong_environment_variable_is_named(value, monkeypatch):
    monkeypatch.setenv("RANKWOOD_THREADS", value)
    with pytest.raises(ParameterError, match=f"RANKWOOD_THREADS must be .* got '{value}'"):
        threads.resolve_threads()


@pytest.mark.parametrize(
    ("text", "cores"),
    [("200000 100000", 2), ("150000 100000", 1), ("50000 100000", 1), ("max 100000", 1 << 30)],
)
def test_a_containers_quota_counts(tmp_path, text, cores):
    (tmp_path / "cpu.max").write_text(text)
    assert threads._cgroup_quota(tmp_path / "cpu.max") == cores


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/", {"cpu.max": "300000 100000"}, 3),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "400000 100000"}, 4),
        ("0::/a/b", {"a/b/cpu.max": "200000 100000", "cpu.max": "700000 100000"}, 2),
        ("0::/not/seen/here", {"cpu.max": "500000 100000"}, 5),  # the container's own root
        (
            "4:memory:/a\n3:cpu,cpuacct:/a/b",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "600000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            },
            6,
        ),
        (
            "3:cpu:/",
            {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            threads._NO_QUOTA,
        ),
        ("", {}, threads._NO_QUOTA),
        ("nonsense", {"cpu.max": "nonsense"}, threads._NO_QUOTA),
    ],
)
def test_the_quota_of_every_group_above_counts(tmp_path, groups, files, cores):
    (tmp_path / "cgroup").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert threads._container_quota(tmp_path / "cgroup", tmp_path / "root") == cores


def test_a_process_without_control_groups_has_no_quota(tmp_path):
    assert threads._container_quota(tmp_path / "none", tmp_path / "none") == threads._NO_QUOTA


def n_workers() -> int:
    """Threads of the pools; those of a service, which another test may have left, are called rankwood-serve."""
    return sum(thread.name.startswith(threads._WORKER + "_") for thread in threading.enumerate())


def test_no_thread_is_left_when_the_outermost_call_is_over():
    marks = np.zeros(10, int)
    with threads.ending_threads():
        with threads.ending_threads():
            threads.run_blocks(mark, 10, marks, n_threads=3)
        assert n_workers() > 0  # the inner call leaves them to the outer one
        threads.run_blocks(mark, 10, marks, n_threads=3)
    assert n_workers() == 0
    threads.run_blocks(mark, 10, marks, n_threads=3)  # and there are threads again
    assert (marks == 3).all()


def test_threads_that_others_use_end_with_the_last_of_them():
    entered, leave = threading.Event(), threading.Event()

    def use():
        with threads.ending_threads():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=use)
    other.start()
    assert entered.wait(10)
    with threads.ending_threads():
        threads.submit(2, int).result(timeout=10)
    assert n_workers() > 0
    leave.set()
    other.join()
    assert n_workers() == 0


def test_a_worker_does_not_end_its_own_pool():
    def use():
        with threads.ending_threads():
            return threading.current_thread().name

    assert threads.submit(2, use).result(timeout=10).startswith(threads._WORKER)
    assert threads.submit(2, int).result(timeout=10) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_the_pool_works_again_after_a_fork():
    marks = np.zeros(10, int)
    threads.run_blocks(mark, 10, marks, n_threads=2)  # the pool exists in the parent
    child = os.fork()
    if child == 0:
        marks = np.zeros(10, int)
        threads.run_blocks(mark, 10, marks, n_threads=2)
        os._exit(0 if (marks == 1).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_number_of_threads_may_come_from_numpy():
    assert threads.resolve_threads(np.int64(3)) == 3
    assert type(threads.resolve_threads(np.int64(3))) is int


def test_work_on_one_of_our_threads_is_not_cut_up_again():
    # It would wait for a pool whose only threads are waiting for it.
    assert threads.submit(2, threads.resolve_threads, 2).result(timeout=30) == 1
    assert threads.submit(2, threads.resolve_threads).result(timeout=30) == 1
    with pytest.raises(ParameterError, match="n_threads must be"):
        threads.submit(2, threads.resolve_threads, 0).result(timeout=30)
