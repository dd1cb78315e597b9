"""Cells on other processes: local ones and Dask's, some of which are killed."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from pathlib import Path

import pytest

import rankwood as rw
from rankwood.errors import RunError
from rankwood.experiments.config import read_experiment
from rankwood.experiments.runner import make_plan
from rankwood.experiments.workers import run_on_processes
from tests.unit.test_experiments import contents, same, tables

pytestmark = pytest.mark.slow  # every worker imports numba: two seconds each


@pytest.fixture
def undisturbed(tmp_path):
    rw.run_experiment(tables(), out=tmp_path / "undisturbed")
    return contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_number_of_processes_changes_nothing(tmp_path, undisturbed, jobs):
    results = rw.run_experiment(tables(), out=tmp_path / "run", jobs=jobs)
    assert {cell.status for cell in results.cells} == {"done"}
    assert same(contents(tmp_path / "run"), undisturbed)


def test_the_module_is_a_worker_when_it_is_run(tmp_path):
    """It says "ready", answers each task with an outcome, and ends with the pipe."""
    plan = make_plan(read_experiment(tables()), out=tmp_path / "run")
    ours, theirs = Pipe()
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "rankwood.experiments.workers"]
    paths = os.pathsep.join([str(Path(rw.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [*command, str(theirs.fileno())],
        env={**os.environ, "PYTHONPATH": paths},
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    assert ours.recv() == "ready"
    for task in plan.tasks[:2]:
        ours.send(task)
        outcome = ours.recv()
        assert (outcome.cell, outcome.record["status"]) == (task.cell, "done")
    ours.close()
    assert process.wait(60) == 0


def children() -> list[int]:
    """The processes that this one has started."""
    path = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return [int(text) for text in path.read_text().split()]


def test_a_killed_worker_costs_nothing_but_time(tmp_path, undisturbed):
    before = set(children())
    killed = []

    def kill_one(news):
        if news.done in (2, 6):
            victims = [one for one in children() if one not in before and one not in killed]
            os.kill(victims[0], signal.SIGKILL)
            killed.append(victims[0])

    results = rw.run_experiment(tables(), out=tmp_path / "run", jobs=2, progress=kill_one)
    assert len(killed) == 2
    assert {cell.status for cell in results.cells} == {"done"}
    assert same(contents(tmp_path / "run"), undisturbed)


class Deadly:
    """What ends any other process that unpickles it."""

    def __reduce__(self):
        return eval, (f"(os := __import__('os')).getpid() == {os.getpid()} or os._exit(7)",)


def test_a_cell_that_kills_its_workers_has_failed_and_the_rest_goes_on(tmp_path):
    plan = make_plan(read_experiment(tables(run={"repetitions": 1})), out=tmp_path / "run")
    tasks = list(plan.tasks)
    tasks[1] = dataclasses.replace(tasks[1], preset=Deadly())
    outcomes = {str(one.cell): one for one in run_on_processes(tasks, 2, 1)}
    assert len(outcomes) == 6
    bad = outcomes.pop(str(tasks[1].cell))
    assert bad.record["error"] == "its worker died 2 times: exit code 7"
    assert all(one.is_done for one in outcomes.values())


def start(file: Path, out: Path, jobs: int) -> subprocess.Popen:
    code = "from rankwood.cli.main import run; run()"
    paths = os.pathsep.join([str(Path(rw.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            "experiment",
            str(file),
            "--out",
            str(out),
            "--jobs",
            str(jobs),
            "-q",
        ],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


FILE = """
[data]
generate = { queries = 24, docs = 8, features = 6 }
folds = 3
[run]
repetitions = 20
seed = 1
[measures]
also = ["map"]
[[algorithm]]
name = "RF"
kind = "RandomForest"
n_trees = 60
[[algorithm]]
name = "tuned"
kind = "GBRT"
n_trees = 3
tune = { max_leaves = [2, 5] }
"""


def test_killed_ten_times_a_run_ends_like_an_undisturbed_one(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(FILE)
    rw.run_experiment(file, out=tmp_path / "undisturbed", jobs=0)
    chance = random.Random(20_261)
    out = tmp_path / "killed"
    for attempt in range(10):
        process = start(file, out, jobs=attempt % 3)
        n_before = len(list((out / "cells").glob("*"))) if out.exists() else 0
        wanted = n_before + chance.randrange(5)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            n_cells = len(list((out / "cells").glob("*"))) if out.exists() else -1
            if n_cells >= wanted:
                break
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
    n_left = 120 - len(list((out / "cells").glob("*.parquet")))
    assert n_left > 0  # or the last kills hit nothing
    process = start(file, out, jobs=2)
    assert process.wait(120) == 0, process.stderr.read()
    process.stderr.close()
    assert same(contents(tmp_path / "undisturbed"), contents(out))
    assert not list(out.rglob(".*.part"))  # half-written files are never read, and taken away


def test_workers_end_with_the_process_that_started_them(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(FILE.replace("n_trees = 60", "n_trees = 30000"))
    process = start(file, tmp_path / "run", jobs=2)
    listing = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 60
    workers: list[str] = []
    while len(workers) < 2 and time.monotonic() < deadline:
        workers = listing.read_text().split()
        time.sleep(0.01)
    assert len(workers) == 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    while any(is_alive(one) for one in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(one) for one in workers)


def is_alive(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(FILE.replace("n_trees = 60", "n_trees = 600"))
    out = tmp_path / "run"
    process = start(file, out, jobs=2)
    while process.poll() is None and len(list(out.glob("cells/*.parquet"))) < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    said = process.stderr.read()
    process.stderr.close()
    assert "the same command goes on with the rest" in said
    assert "Traceback" not in said
    results = rw.read_run(out)
    assert results.record["status"] == "interrupted"
    assert len(results.cells) >= 2


@pytest.fixture
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
    ) as found:
        yield found


pytest_dask = pytest.mark.filterwarnings("ignore")


@pytest_dask
def test_dask_gives_the_same_results(tmp_path, undisturbed):
    pytest.importorskip("distributed")
    results = rw.run_experiment(tables(), out=tmp_path / "run", dask="local", jobs=2)
    assert {cell.status for cell in results.cells} == {"done"}
    assert same(contents(tmp_path / "run"), undisturbed)


@pytest_dask
def test_a_dask_worker_killed_midway(tmp_path, undisturbed, cluster):
    killed = []

    def kill_one(news):
        if news.done == 3:
            victim = next(iter(cluster.workers.values())).pid
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    address = cluster.scheduler_address
    results = rw.run_experiment(tables(), out=tmp_path / "run", dask=address, progress=kill_one)
    assert killed
    assert {cell.status for cell in results.cells} == {"done"}
    assert same(contents(tmp_path / "run"), undisturbed)


class DeadlyElsewhere:
    """Like ``Deadly``; this process may unpickle it and pass it on, as Dask's scheduler does."""

    def __reduce__(self):
        return die_elsewhere, (os.getpid(),)


def die_elsewhere(process: int) -> DeadlyElsewhere:
    if os.getpid() != process:
        os._exit(7)
    return DeadlyElsewhere()


@pytest_dask
def test_a_cell_that_kills_dask_workers_has_failed(tmp_path):
    pytest.importorskip("distributed")
    from rankwood.experiments.dask import run_on_dask

    plan = make_plan(read_experiment(tables(run={"repetitions": 1})), out=tmp_path / "run")
    deadly = dataclasses.replace(plan.tasks[1], preset=DeadlyElsewhere())
    tasks = [plan.tasks[0], deadly, *plan.tasks[2:]]
    outcomes = {str(one.cell): one for one in run_on_dask(tasks, "local", 2, 1)}
    bad = outcomes.pop(str(deadly.cell))
    assert "KilledWorker" in bad.record["error"]
    assert len(outcomes) == 5
    assert all(one.is_done for one in outcomes.values())


@pytest_dask
def test_a_cluster_without_workers_is_not_waited_for_forever(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("rankwood.experiments.dask._LOOK_EVERY", 0.2)
    monkeypatch.setattr("rankwood.experiments.dask._PATIENCE", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as empty,
        pytest.raises(RunError, match=r"has no workers left\. Finished cells are kept"),
    ):
        rw.run_experiment(tables(), out=tmp_path / "run", dask=empty.scheduler_address)


@pytest_dask
def test_no_scheduler_there(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("rankwood.experiments.dask._CONNECT_SECONDS", 1)
    with pytest.raises(RunError, match=r"there is no Dask scheduler at tcp://127.0.0.1:1"):
        rw.run_experiment(tables(), out=tmp_path / "run", dask="tcp://127.0.0.1:1")


def test_it_works_from_a_program_without_a_guard(tmp_path):
    """Workers do not run the caller's program again, as multiprocessing's would."""
    program = tmp_path / "program.py"
    program.write_text(
        "import rankwood as rw\n"
        "open('started', 'a').write('once ')\n"
        "config = {'data': {'generate': {'queries': 12, 'docs': 5, 'features': 4}}, 'run': {'jobs': 2},\n"
        "  'algorithm': [{'kind': 'RandomForest', 'n_trees': 2}, {'kind': 'GBRT', 'n_trees': 2}]}\n"
        "print(len(rw.run_experiment(config, out='run').cells))\n"
    )
    paths = os.pathsep.join([str(Path(rw.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    outcome = subprocess.run(
        [sys.executable, program.name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.stdout.strip() == "2", outcome.stderr
    assert (tmp_path / "started").read_text() == "once "


def test_another_thread_may_run_it(tmp_path):
    found = []
    thread = threading.Thread(
        target=lambda: found.append(rw.run_experiment(tables(), out=tmp_path / "run", jobs=1))
    )
    thread.start()
    thread.join()
    assert {cell.status for cell in found[0].cells} == {"done"}
