"""Waiting for kernels: what is counted, who compiles, and that no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rankwood._core import jit

WORKER = "import time; from rankwood._core import jit; jit.end_with_parent(); time.sleep(60)"


def test_a_stopwatch_leaves_out_the_seconds_of_compilation():
    stopwatch = jit.Stopwatch()
    with jit.waiting(None):
        time.sleep(0.2)
        assert stopwatch.seconds() < 0.1  # while it goes on, too
    assert stopwatch.seconds() < 0.1
    time.sleep(0.1)
    assert stopwatch.seconds() > 0.09


def test_compilations_at_the_same_time_are_counted_once():
    before = jit.seconds()
    with jit.waiting(None), jit.waiting(None):
        time.sleep(0.05)
    assert 0.04 < jit.seconds() - before < 0.1 + 0.05


def test_compilation_is_announced_once(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(jit, "_waiting", jit._Waiting())
    with caplog.at_level("INFO", "rankwood._core.jit"):
        for _ in range(2):
            with jit.waiting(tmp_path):
                pass
    assert [line for line in caplog.messages if "compiling kernels (once" in line] == [
        f"compiling kernels (once; kept in {tmp_path}) ..."
    ]


@pytest.mark.parametrize(
    "why", ["told", "one core", "frozen", "no locks", "no interpreter", "child"]
)
def test_no_second_process_where_it_may_not_be(monkeypatch, why):
    monkeypatch.delenv(jit.JOBS, raising=False)
    monkeypatch.setattr(jit, "usable_cores", lambda: 2)
    assert jit.may_start_processes()
    if why == "told":
        monkeypatch.setenv(jit.JOBS, "1")
    elif why == "one core":
        monkeypatch.setattr(jit, "usable_cores", lambda: 1)
    elif why == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif why == "no locks":
        monkeypatch.setattr(jit, "fcntl", None)
    elif why == "no interpreter":
        monkeypatch.setattr(sys, "executable", "")
    else:
        monkeypatch.setattr(jit.multiprocessing, "parent_process", object)
    assert not jit.may_start_processes()
    assert not jit.Ahead().start("trees")


def test_an_interpreter_that_cannot_be_started_is_no_error(monkeypatch):
    monkeypatch.delenv(jit.JOBS, raising=False)
    monkeypatch.setattr(jit, "usable_cores", lambda: 2)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert not jit.Ahead().start("trees")


def test_a_process_ends_when_it_is_stopped_and_leaves_none_behind(monkeypatch):
    monkeypatch.delenv(jit.JOBS, raising=False)
    monkeypatch.setattr(jit, "usable_cores", lambda: 2)
    ahead = jit.Ahead()
    assert ahead.start("trees")
    assert not ahead.start("trees")  # once
    process = ahead._processes["trees"]
    ahead.stop()
    assert process.returncode is not None


def test_threads_that_ask_at_once_start_one_process(monkeypatch):
    # Parallel fits come to their first kernel together. A second process of a task would take the place of the first,
    # which nobody ended then.
    monkeypatch.delenv(jit.JOBS, raising=False)
    monkeypatch.setattr(jit, "usable_cores", lambda: 2)
    barrier, popen, started = threading.Barrier(4), subprocess.Popen, []

    def slow(*arguments, **options):
        started.append(popen(*arguments, **options))
        time.sleep(0.2)
        return started[-1]

    monkeypatch.setattr(jit.subprocess, "Popen", slow)
    ahead, answers = jit.Ahead(), []

    def ask():
        barrier.wait()
        answers.append(ahead.start("trees"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ahead.stop()
    for process in started:  # none is left where there were several
        process.kill()
        process.wait()
        process.stdin.close()
    assert sorted(answers) == [False, False, False, True]
    assert len(started) == 1


def test_a_process_ends_with_the_one_that_started_it():
    """Killed, the starter cannot clean up: the operating system closes its pipe."""
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {WORKER!r}], stdin=subprocess.PIPE)\n"
        "print(p.pid, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    starter.kill()
    starter.wait()
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        with open(f"/proc/{pid}/stat") as file:  # ended, but not yet collected by its new parent
            if file.read().split()[2] == "Z":
                break
        time.sleep(0.1)
    else:
        os.kill(pid, signal.SIGKILL)
        pytest.fail("the process outlived its starter")
    starter.stdout.close()


def test_a_lock_is_waited_for(tmp_path):
    order = []
    code = (
        "import sys, time; from pathlib import Path; from rankwood._core import jit\n"
        "with jit.only_one(Path(sys.argv[1])):\n"
        "    print('held', flush=True); time.sleep(0.5)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    start = time.perf_counter()
    with jit.only_one(tmp_path):
        order.append(time.perf_counter() - start)
    assert other.wait() == 0
    other.stdout.close()
    assert order[0] > 0.2


def test_a_folder_that_cannot_be_locked_is_no_error(tmp_path):
    with jit.only_one(tmp_path / "missing"), jit.only_one(None):
        pass
