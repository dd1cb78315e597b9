"""Cells on other processes: local ones and Dask's, some of which are killed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
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
from rankwood.experiments.store import RunFolder
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
    """It says "ready", answers each task with its trials and an outcome, and ends with the pipe."""
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
        trials = [ours.recv() for _ in task.algorithm.candidates() if task.algorithm.tune]
        assert [trial["parameters"] for trial in trials] == [
            {"max_leaves": leaves} for leaves in task.algorithm.tune.get("max_leaves", ())
        ]
        outcome = ours.recv()
        assert (outcome.cell, outcome.record["status"]) == (task.cell, "done")
    ours.close()
    assert process.wait(60) == 0


@pytest.mark.parametrize("is_within_a_message", [False, True])
def test_a_worker_whose_pipe_breaks_ends_without_a_word(is_within_a_message):
    """Its starter was killed before it read "ready", or while it sent a task."""
    ours, theirs = Pipe()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "rankwood.experiments.workers", str(theirs.fileno())],
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    assert ours.poll(60)
    if is_within_a_message:
        assert ours.recv() == "ready"
        os.write(ours.fileno(), b"\0\0\1\0 the first of 256 bytes")
    ours.close()
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0


def children() -> list[int]:
    """The processes that this one has started."""
    path = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return [int(text) for text in path.read_text().split()]


def test_a_killed_worker_costs_nothing_but_time(tmp_path, undisturbed):
    before = set(children())
    killed = []

    def kill_one(news):
        if news.cell is not None and news.done in (2, 6):
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
    assert bad.record["error"] == "its worker died 3 times: exit code 7"
    assert all(one.is_done for one in outcomes.values())


def start(file: Path, out: Path, jobs: int, *options: str) -> subprocess.Popen:
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
            *options,
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


CAMPAIGN = (
    FILE.replace("repetitions = 20", "repetitions = 14")
    + """
[[algorithm]]
name = "searched"
kind = "GBRT"
n_trees = 5
tune_method = "random"
tune_trials = 5
tune_folds = 2
tune = { learning_rate = { low = 0.05, high = 0.5, log = true }, max_leaves = { low = 2, high = 9 } }
"""
)
MOMENTS = 20


class Campaign:
    """A run that is disturbed at random moments, and what it must end like."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.file, self.out = folder / "run.toml", folder / "run"
        self.file.write_text(CAMPAIGN)
        rw.run_experiment(self.file, out=folder / "undisturbed", jobs=0)
        self.expected = contents(folder / "undisturbed")
        self.chance = random.Random(seed)

    def finished(self) -> set[str]:
        """The cells and trials that are there."""
        cells = {path.name for path in self.out.glob("cells/*.parquet")}
        trials = {f"{one.name} {one.stat().st_size}" for one in self.out.glob("trials/[!.]*")}
        return cells | trials

    def wait_for_a_moment(self, process: subprocess.Popen) -> None:
        """Wait until some cells and trials were finished and a little longer, or while the process starts."""
        if self.chance.random() < 0.25:
            time.sleep(self.chance.random() * 1.5)
            return
        seen, wanted, deadline = self.finished(), self.chance.randrange(1, 6), time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and wanted > 0:
            with contextlib.suppress(FileNotFoundError):  # trials of a cell that was just finished
                now = self.finished()
                wanted -= len(now - seen)
                seen = now
            time.sleep(0.01)
        time.sleep(self.chance.random() * 0.05)

    def check_the_end(self) -> None:
        """Nothing of the run may differ from one that was left alone."""
        done = {path: path.stat().st_mtime_ns for path in self.out.glob("cells/*.parquet")}
        assert len(done) < 126  # or the last kills hit nothing
        process = start(self.file, self.out, jobs=2)
        said = process.communicate(timeout=300)[1]
        assert process.returncode == 0, said
        assert {path: path.stat().st_mtime_ns for path in done} == done  # finished cells stay
        assert same(contents(self.out), self.expected)
        assert not list(self.out.rglob(".*.part"))  # half-written files are never read, and removed
        assert not list(self.out.glob("trials/*"))


def workers_of(parent: int) -> list[int]:
    """The live workers that this process has started, by their command lines; they name their parent."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_text().rstrip("\0").split("\0")
            if "rankwood.experiments.workers" in words and words[-1] == str(parent):
                found.append(int(path.parent.name))
    return [process for process in found if is_alive(str(process))]


def check_no_orphans(parent: int) -> None:
    deadline = time.monotonic() + 5
    while workers_of(parent) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not workers_of(parent)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
def test_ended_at_random_moments_a_run_loses_nothing(tmp_path, sent):
    campaign = Campaign(tmp_path, seed=20_261)
    n_in_order = 0
    for attempt in range(MOMENTS):
        process = start(campaign.file, campaign.out, jobs=attempt % 3)
        campaign.wait_for_a_moment(process)
        process.send_signal(sent)
        said = process.communicate(timeout=120)[
            1
        ]  # ends when no worker holds standard error any more
        check_no_orphans(process.pid)
        if process.returncode == 143 and said != "error: ended by SIGTERM.\n":
            n_in_order += 1
            assert "the same command goes on with the rest" in said
            assert rw.read_run(campaign.out).record["status"] == "interrupted"
        elif process.returncode != 143:  # killed, or terminated before the command began
            assert process.returncode == -sent
            assert said == ""
        # where C code called Python as the signal came, Python itself says that it has ignored an exception
        assert "Traceback" not in said or "Exception ignored" in said
    assert n_in_order >= (MOMENTS // 2 if sent == signal.SIGTERM else 0)
    campaign.check_the_end()


def test_workers_killed_at_random_moments_lose_nothing(tmp_path):
    campaign = Campaign(tmp_path, seed=20_262)
    n_killed = 0
    while n_killed < MOMENTS:  # a run may be finished before all of them
        shutil.rmtree(campaign.out, ignore_errors=True)
        process, n_before = start(campaign.file, campaign.out, jobs=2), n_killed
        while n_killed < MOMENTS and process.poll() is None:
            campaign.wait_for_a_moment(process)
            workers = workers_of(process.pid)
            if workers:
                os.kill(campaign.chance.choice(workers), signal.SIGKILL)
                n_killed += 1
        said = process.communicate(timeout=300)[1]
        check_no_orphans(process.pid)
        n_failed = said.count("its worker died 3 times")  # chance may hit one cell three times
        assert process.returncode == (1 if n_failed else 0), said
        n_lost = said.count("a worker was lost")
        # The last kills may hit workers that have nothing left to do.
        assert n_killed - n_before >= n_lost + n_failed > 0
        assert len(rw.read_run(campaign.out).record["lost_workers"]) == n_lost
        if n_failed:
            again = start(campaign.file, campaign.out, 2, "--retry-failed")
            said = again.communicate(timeout=300)[1]
            assert again.returncode == 0, said
        assert same(contents(campaign.out), campaign.expected)


def test_workers_end_with_the_process_that_started_them(tmp_path):
    """In the middle of a long cell, and while they start."""
    file = tmp_path / "run.toml"
    file.write_text(FILE.replace("n_trees = 60", "n_trees = 30000"))
    for seconds in (0.0, 5.0):
        process = start(file, tmp_path / "run", jobs=2)
        deadline = time.monotonic() + 60
        while len(workers_of(process.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(seconds)
        assert len(workers_of(process.pid)) == 2
        process.send_signal(signal.SIGKILL)
        assert process.communicate(timeout=5)[1] == ""
        check_no_orphans(process.pid)


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
def test_trials_on_dask_are_kept(tmp_path, monkeypatch):
    """They come as events; those that a resumed run is given are not made again."""
    pytest.importorskip("distributed")
    config = tables(run={"repetitions": 1})
    del config["algorithm"][0]
    config["algorithm"][0] |= {"n_trees": 200, "tune": {"max_leaves": [2, 3, 4, 5, 6, 7]}}
    rw.run_experiment(config, out=tmp_path / "undisturbed")
    told = threading.Event()
    keep = RunFolder.keep_trial

    def note(folder, task, trial):
        keep(folder, task, trial)
        told.set()

    def stop(_):
        assert told.wait(60)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "keep_trial", note)
        patch.setattr("rankwood.experiments.workers._finished", lambda *_: stop(_))
        with pytest.raises(KeyboardInterrupt):
            rw.run_experiment(config, out=tmp_path / "run", dask="local", jobs=1)
    plan = make_plan(read_experiment(config), out=tmp_path / "run")
    assert sum(len(task.trials) for task in plan.tasks) > 0
    rw.run_experiment(config, out=tmp_path / "run", dask="local", jobs=1)
    assert same(contents(tmp_path / "run"), contents(tmp_path / "undisturbed"))


@pytest_dask
def test_a_dask_worker_killed_midway(tmp_path, undisturbed, cluster):
    killed = []

    def kill_one(news):
        if news.done == 3 and not killed:
            victim = next(iter(cluster.workers.values())).pid
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    address = cluster.scheduler_address
    results = rw.run_experiment(tables(), out=tmp_path / "run", dask=address, progress=kill_one)
    assert killed
    assert "is gone; its cells are run on others" in results.record["lost_workers"][0]
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
    from rankwood.experiments.workers import run_on_dask

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
    monkeypatch.setattr("rankwood.experiments.workers._LOOK_AT_CLUSTER_EVERY", 0.2)
    monkeypatch.setattr("rankwood.experiments.workers._PATIENCE", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as empty,
        pytest.raises(RunError, match=r"has no workers left\. Finished cells are kept"),
    ):
        rw.run_experiment(tables(), out=tmp_path / "run", dask=empty.scheduler_address)


@pytest_dask
def test_no_scheduler_there(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("rankwood.experiments.workers._CONNECT_SECONDS", 1)
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
