"""Attacks on processes: kills, signals, threads, forks, full disks and folders that cannot be written to.

Commands run in forked children of a process that has imported and compiled everything, so that a try takes as long as
the command's work. Each command runs undisturbed first; what it leaves then is what it must leave after any
disturbance and a second run.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.attacking import Attack, in_children, row
from benchmarks.robust_files import EXPERIMENT, figures_of, saving_every, small_data
from rankwood.cli.main import main
from rankwood.errors import RankwoodError

_LONGEST = 60.0  # seconds of a command; beyond them it hangs


@dataclass(frozen=True)
class Task:
    """A command that may be disturbed: its arguments, the names of what it writes, and what has to be equal then."""

    arguments: tuple[str, ...]
    written: tuple[str, ...]  # removed before a try
    result: Callable[[], Any]


def _digest(*names: str) -> Callable[[], Any]:
    def result() -> Any:
        paths = [
            path
            for name in names
            for path in (sorted(Path(name).rglob("*")) if Path(name).is_dir() else [Path(name)])
            if path.is_file()
        ]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}

    return result


TASKS = {
    "train": Task(
        ("train", "--data", "d.parquet", "--model", "GBRT", "--n-trees", "20", "--quiet",
         "--out", "m.rankwood", "--checkpoint", "kept"),
        ("m.rankwood", "kept"), _digest("m.rankwood"),
    ),
    "experiment": Task(
        ("experiment", "run.toml", "--out", "run", "--quiet"),
        ("run",), lambda: figures_of(rw.read_run("run")),
    ),
    "bin": Task(
        ("bin", "d.parquet", "e.parquet", "--out", "binned", "--max-bins", "16", "--quiet"),
        ("binned",), lambda: _codes("binned"),
    ),
    "convert": Task(
        ("convert", "d.parquet", "out.txt", "--quiet"), ("out.txt",), _digest("out.txt")
    ),
    "tune": Task(
        ("tune", "e.parquet", "--valid", "d.parquet", "--model", "GBRT:n_trees=5", "--space",
         "max_leaves=3,4,5,6", "--method", "grid", "--study", "study.json", "--quiet",
         "--out", "best.rankwood"),
        ("best.rankwood", "study.json"), _digest("best.rankwood"),
    ),
}  # fmt: skip


def _codes(folder: str) -> Any:
    """The arrays of a folder of binned data."""
    rw.open_binned(folder)
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).glob("*.npy"))
    }


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[None]:
    """Data and an experiment's file in ``folder``, which becomes the current one."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        rw.write_table(rw.make_ranking(60, 20, 8, seed=1), "d.parquet")
        more = rw.make_ranking(40, 20, 8, seed=2)
        ids, names = more.query_ids + 1000, more.feature_names
        more = rw.RankingData(more.features, more.labels, ids, feature_names=names)
        rw.write_table(more, "e.parquet")
        Path("run.toml").write_text(EXPERIMENT)
        with saving_every(0.0):
            yield
    finally:
        os.chdir(before)


def _started(task: Task, errors: str = os.devnull) -> int:
    """The id of a forked child that runs the command as the console script does."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            _write_to(errors)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            code = main(list(task.arguments))
        finally:
            os._exit(code)
    return child


def _write_to(errors: str) -> None:
    """Standard output goes nowhere and errors to a file, whatever a test has put in their place."""
    for number, name in ((1, os.devnull), (2, errors)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as long as the child
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


def _code(child: int) -> int:
    """The exit code of a child; that of SIGKILL where it has to be killed for its time."""
    until = time.monotonic() + _LONGEST
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -99
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(done[1])


def _clean(task: Task) -> None:
    for name in task.written:
        if Path(name).is_dir():
            shutil.rmtree(name)
        else:
            Path(name).unlink(missing_ok=True)


def _disturbed(attack: Attack, number: signal.Signals, count: int, n_seconds: float) -> None:
    """Send ``number`` to each command at a random moment of its run, then run it again."""
    with _workplace(attack.folder):
        for name, task in TASKS.items():
            _clean(task)
            with contextlib.redirect_stdout(io.StringIO()):
                main(list(task.arguments))  # here, so that children find everything imported
            _clean(task)
            started = time.monotonic()
            assert _code(_started(task)) == 0, name
            n_whole = time.monotonic() - started
            whole = task.result()

            def attempt(
                seed: int, task: Task = task, n_whole: float = n_whole, whole: Any = whole
            ) -> str:
                rng = np.random.default_rng(seed)
                _clean(task)
                errors = Path("errors")
                errors.unlink(missing_ok=True)
                child = _started(task, str(errors))
                time.sleep(float(rng.uniform(0.0, n_whole)))
                sent = time.monotonic()
                os.kill(child, number)
                code = _code(child)
                seconds = time.monotonic() - sent
                again = _code(_started(task))
                told = errors.read_text() if errors.exists() else ""
                left = [path.name for path in Path.cwd().glob(".*") if path.suffix == ".part"]
                if code == -99 or seconds > n_seconds:
                    return f"ended after {seconds:.1f} s"
                if code not in (0, -number, 128 + number) or again != 0:
                    return f"exit {code}, then {again}"
                if "Traceback" in told or left:
                    return f"a traceback: {bool(told)}, left behind: {left}"
                return "same" if task.result() == whole else "other bytes"

            part = name if number == signal.SIGKILL else f"{number.name} of {name}"
            attack.here(part, count, attempt, chunk=5)


@row("SIGKILL of commands, then the same command")
def kills(attack: Attack) -> None:
    """What is left after the second run has the bytes of a run that nobody disturbed."""
    _disturbed(attack, signal.SIGKILL, attack.counts["kills"], _LONGEST)


@row("SIGTERM and Ctrl-C of commands, then the same command")
def signals(attack: Attack) -> None:
    """The command ends within two seconds, without a traceback; the second run gives undisturbed bytes."""
    for number in (signal.SIGTERM, signal.SIGINT):
        _disturbed(attack, number, attack.counts["signals"], 2.0)


@row("SIGKILL during save, over an older model")
def killed_saves(attack: Attack) -> None:
    """The file is the old model or the new one, whole; what is left behind goes with the next save."""
    data, _ = small_data()
    path = attack.folder / "m.rankwood"
    models = [rw.RandomForest(3, max_leaves=20, seed=seed).fit(data) for seed in (1, 2)]
    expected = [model.predict(data).tobytes() for model in models]

    def attempt(seed: int) -> str:
        rng = np.random.default_rng(seed)
        rw.save(models[0], path)
        child = os.fork()
        if child == 0:
            while True:
                rw.save(models[1], path)
                rw.save(models[0], path)
        time.sleep(float(rng.uniform(0.0, 0.05)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = rw.load(path).predict(data).tobytes()
        rw.save(models[0], path)
        left = [each.name for each in attack.folder.iterdir() if each.name != path.name]
        return "same" if found in expected and not left else f"other bytes, or left: {left}"

    attack.here("save", attack.counts["kills"], attempt, chunk=20)


# Threads and forks.


@row("threads that fit, save to, load from and score one path")
def threads(attack: Attack) -> None:
    """Every load gives one of the models that were saved, whole; concurrent fits give the bytes of one alone."""
    data, _ = small_data()
    path = attack.folder / "m.rankwood"
    fits = [
        lambda seed=seed: rw.GBRT(3, min_leaf=2, seed=seed, subsample=0.7).fit(data)
        for seed in range(4)
    ]
    given = [fit() for fit in fits]
    expected = [model.predict(data).tobytes() for model in given]
    rw.save(given[0], path)
    uses: dict[str, Callable[[int], bool]] = {
        "saves and loads": lambda seed: _saved(given[seed % 4], path, data) in expected,
        "fits": lambda seed: fits[seed % 4]().predict(data).tobytes() == expected[seed % 4],
        "predictions": lambda _: given[0].predict(data).tobytes() == expected[0],
    }
    for name, use in uses.items():
        for seeds in attack.seeds(name, attack.counts["threads"], 500):
            attack.add(name, _in_threads(8, list(seeds), use))
    left = [each.name for each in attack.folder.iterdir() if each.name != path.name]
    if left:
        attack.add("saves and loads", {f"left behind: {left}": 1})


def _saved(model: Any, path: Path, data: Any) -> bytes:
    rw.save(model, path)
    return bytes(rw.load(path).predict(data).tobytes())


def _in_threads(n_threads: int, seeds: list[int], use: Callable[[int], bool]) -> dict[str, int]:
    """Outcomes of ``use`` on seeds that are dealt out to threads; an error is one too."""
    outcomes: collections.Counter[str] = collections.Counter()
    lock = threading.Lock()

    def work(first: int) -> None:
        for seed in seeds[first::n_threads]:
            try:
                told = "same" if use(seed) else "other bytes"
            except BaseException as error:  # an outcome like the others
                told = f"escaped: {type(error).__name__}"
            with lock:
                outcomes[told] += 1

    running = [threading.Thread(target=work, args=(first,)) for first in range(n_threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return outcomes


@row("forks while other threads fit and score")
def forks(attack: Attack) -> None:
    """The child fits and scores, and gives the same; none hangs."""
    data, _ = small_data()
    model = rw.LambdaMART(5, min_leaf=3, n_threads=2).fit(data)
    expected = model.predict(data).tobytes()
    is_over = threading.Event()

    def load() -> None:
        while not is_over.is_set():
            rw.RandomForest(2, max_leaves=8, n_threads=2).fit(data).predict(data)

    def attempt(_: int) -> str:
        child = os.fork()
        if child == 0:
            fresh = rw.RandomForest(2, max_leaves=8, n_threads=2).fit(data)
            is_same = model.predict(data).tobytes() == expected and fresh.predict(data).size > 0
            os._exit(0 if is_same else 3)
        code = _code(child)
        return "hang" if code == -99 else "same" if code == 0 else f"ended with {code}"

    running = [threading.Thread(target=load) for _ in range(3)]
    for thread in running:
        thread.start()
    try:
        attack.here("fork", attack.counts["forks"], attempt, chunk=20)
    finally:
        is_over.set()
        for thread in running:
            thread.join()


# Full disks.


@row("a disk that is full at every write")
def full_disk(attack: Attack) -> None:
    """A file may not grow beyond some bytes: each writer gives one of our errors, and the old file stays whole."""
    data, _ = small_data()
    model = rw.GBRT(3, min_leaf=3).fit(data)
    writers: dict[str, Callable[[Path], Any]] = {
        "save": lambda path: rw.save(model, path),
        "export": lambda path: rw.export(model, path, "lightgbm"),
        "letor": lambda path: rw.write_letor(data, path),
        "table": lambda path: rw.write_table(data, path.with_suffix(".parquet")),
        "results": lambda path: rw.evaluate(model, data, ["ndcg@10"]).write_csv(path),
    }
    for name, write in writers.items():
        path = attack.folder / name
        target = path.with_suffix(".parquet") if name == "table" else path

        def attempt(
            n_bytes: int, write: Any = write, path: Path = path, target: Path = target
        ) -> str:
            write(path)
            old = target.read_bytes()
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))
            try:
                write(path)
                told = "same"
            except RankwoodError:
                told = "error"
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            return told if target.read_bytes() == old else "the old file is damaged"

        attack.part(name)
        if not attack.part(name)["tries"]:
            attack.add(name, in_children([0, 1, 10, 100, 500, 1000], attempt)["outcomes"])


# Each command that writes, with what it writes; FULL stands for the folder that is full or cannot be written to.
WRITERS: dict[str, str] = {
    "convert": "convert d.parquet FULL/out.txt --quiet",
    "convert to Parquet": "convert d.parquet FULL/out.parquet --quiet",
    "bin": "bin d.parquet --out FULL/binned --quiet",
    "train": "train --data d.parquet --model GBRT --n-trees 4 --quiet --out FULL/m.rankwood",
    "train with a checkpoint": "train --data d.parquet --model GBRT --n-trees 4 --quiet "
    "--checkpoint FULL/kept --out m2",
    "tune": "tune d.parquet --valid e.parquet --model GBRT:n_trees=2 --space max_leaves=3,4 --method grid --quiet "
    "--out FULL/best.rankwood",
    "tune, its study": "tune d.parquet --valid e.parquet --model GBRT:n_trees=2 --space max_leaves=3,4 --method grid "
    "--quiet --out m3 --study FULL/study.json",
    "score": "score m.rankwood d.parquet --out FULL/scores.tsv --quiet",
    "score to Parquet": "score m.rankwood d.parquet --out FULL/scores.parquet --quiet",
    "compare": "compare m.rankwood m1.rankwood --data d.parquet --html FULL/page.html",
    "explain": "explain m.rankwood d.parquet --csv FULL/table.csv",
    "check": "check d.parquet --model m.rankwood --html FULL/page.html",
    "export": "export m.rankwood FULL/model.txt --to lightgbm",
    "import": "import model.txt FULL/model.rankwood --from lightgbm",
    "cost-curve": "cost-curve m.rankwood d.parquet --csv FULL/curve.csv",
    "experiment": "experiment run.toml --out FULL/run --quiet",
    "report": "report run --out FULL/report",
    "bundle": "bundle run --out FULL/run.zip",
    "learning-curve": "learning-curve --data d.parquet --test e.parquet --model GBRT:n_trees=2 --csv FULL/curve.csv",
    "clicks simulate": "clicks simulate d.parquet --ranking m.rankwood --out FULL/log.parquet",
    "data synth": "data synth FULL/made.parquet --queries 30",
}


@row("every command that writes, on a full disk and into a read-only folder")
def commands(attack: Attack) -> None:
    """Exit code 1 or 2, a message and no traceback; what stood there is as before. Each does its work elsewhere."""
    place = attack.folder / "place"
    place.mkdir()
    with _workplace(attack.folder), contextlib.redirect_stdout(io.StringIO()):
        for name, seed in (("m.rankwood", "1"), ("m1.rankwood", "2")):
            main(["train", "--data", "d.parquet", "--model", "GBRT", "--n-trees", "4", "--quiet", "--seed", seed,
                  "--out", name])  # fmt: skip
        main(["export", "m.rankwood", "model.txt", "--to", "lightgbm"])
        main(["experiment", "run.toml", "--out", "run", "--quiet"])
        kinds = {"an honest folder": ""}
        if _can_mount(place):  # root can
            kinds |= {"a full disk": "size=16k", "a read-only folder": "ro"}
        for kind, options in kinds.items():
            for name, line in WRITERS.items():
                part = f"{name}, {kind}"
                if not attack.part(part)["tries"]:
                    attack.add(part, {_in_a_place(line, place, options): 1})


def _can_mount(place: Path) -> bool:
    child = os.fork()
    if child == 0:
        _unshare()
        mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)]
        os._exit(subprocess.run(mount, check=False, capture_output=True).returncode)
    return _code(child) == 0


def _in_a_place(line: str, place: Path, options: str) -> str:
    """What a command tells whose files go to a small or read-only file system of its own."""
    arguments = tuple(line.replace("FULL", str(place)).split())
    errors = Path("errors")
    errors.unlink(missing_ok=True)
    if not options:
        shutil.rmtree(place)
        place.mkdir()
        code = _code(_started(Task(arguments, (), dict), str(errors)))
        return "same" if code == 0 and any(place.iterdir()) else f"exit {code}"
    child = os.fork()
    if child == 0:
        code = 99
        try:
            _write_to(str(errors))
            _unshare()
            mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)]
            if subprocess.run(mount, check=False).returncode:
                os._exit(98)
            (place / "old").write_text("x" * 100)
            filler = place / "filler"
            with contextlib.suppress(OSError), filler.open("wb") as file:
                for _ in range(4 if options != "ro" else 1):
                    file.write(b"x" * 4096)
                    file.flush()
            if options == "ro":
                subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            before = {path.name: path.read_bytes() for path in place.iterdir()}
            code = main(list(arguments))
            after = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
            if {name: after.get(name) for name in before} != before or any(
                name.endswith(".part") for name in after
            ):
                code = 97
        finally:
            os._exit(code)
    code = _code(child)
    told = errors.read_text()
    if "Traceback" in told:
        return "a traceback"
    if code in (1, 2) and "cannot be written" in told:
        return "error"
    if code == 0 and "cannot be written" in told and "checkpoint" in told:
        return "same"  # the fit goes on without its checkpoint, and says so
    last = told.strip().splitlines()[-1:] or [""]
    return f"exit {code}: {last[0][:120]}"


def _unshare() -> None:
    """Mounts of this process are its own from now on."""
    import ctypes

    new_mounts = 0x00020000  # CLONE_NEWNS
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(new_mounts):
        os._exit(98)
    subprocess.run(["mount", "--make-rprivate", "/"], check=False)
