"""Attacks, and what stood: ``python -m benchmarks.robustness [--full] [--only forks threads] [--files 1000]``.

Each row of the table in docs/concepts/robustness.md is a function that gives its figures: how many tries there were,
and how each kind of outcome was counted. Cases run in forked children, so that a signal or a hang is an outcome and
not the end. Without options the counts fit into minutes; ``--full`` takes those of the table. Rows that another module
brings, such as those of the scoring service and of the report's page in a browser, are added by ``row``.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import json
import os
import pickle
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import RESULTS, keep
from rankwood.binning.folder import MANIFEST, describe_file
from rankwood.data.cache import read_record, write_record
from rankwood.errors import RankwoodError
from rankwood.models.format import read_model, write_model
from rankwood.training import rounds

Figures = dict[str, Any]
FULL = {
    "files": 10_000,
    "lines": 1_000_000,
    "kills": 100,
    "signals": 50,
    "threads": 10_000,
    "forks": 200,
}
SMALL = {"files": 100, "lines": 10_000, "kills": 5, "signals": 4, "threads": 200, "forks": 50}
SECONDS = 10.0  # a case that takes longer hangs
NUMBERS = [0, 1, -1, 2, 255, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, 0.5, 1e300, -1e300]
NUMBERS += [float("nan"), float("inf"), -float("inf")]
DTYPES = ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")
NOT_WRITTEN = "no file can say it"  # of a mutation: nothing was attacked
JUNK = [None, True, 0, -1, 2**63, 10**400, 0.5, "", "x", [], {}, [None], {"a": 1}]
GOOD = (
    "same",
    "error",
    "consistent",
    NOT_WRITTEN,
)  # the last: a file that lies, but in everything alike


ROWS: dict[str, Callable[[dict[str, int], Path], Figures]] = {}


def row(name: str) -> Callable[[Callable[..., Figures]], Callable[..., Figures]]:
    """Add a row; it gets the counts and an empty folder."""

    def add(function: Callable[..., Figures]) -> Callable[..., Figures]:
        ROWS[name] = function
        return function

    return add


def in_children(
    cases: Iterable[Any], attempt: Callable[[Any], str], seconds: float = SECONDS
) -> Figures:
    """Count what ``attempt`` gives for each case; a child that dies or hangs is replaced and counted as such."""
    waiting = list(cases)
    outcomes: collections.Counter[str] = collections.Counter()
    while waiting:
        n_done, ended = _child(waiting, attempt, seconds, outcomes)
        waiting = waiting[n_done:]
        if ended and waiting:
            outcomes[ended] += 1
            waiting = waiting[1:]
    bad = {name: count for name, count in outcomes.items() if name not in GOOD}
    return {"tries": sum(outcomes.values()), "outcomes": dict(outcomes), "bad": bad}


def _child(
    cases: list[Any],
    attempt: Callable[[Any], str],
    seconds: float,
    outcomes: collections.Counter[str],
) -> tuple[int, str]:
    """Run cases in one child; how many it did, and how it ended where it did not do all."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for case in cases:
            try:
                told = attempt(case)
            except RankwoodError:
                told = "error"
            except BaseException as error:  # an outcome like the others
                told = f"escaped: {type(error).__name__}"
            content = pickle.dumps(told)
            os.write(writing, struct.pack("<I", len(content)) + content)
        os._exit(0)
    os.close(writing)
    n_done, ended = 0, ""
    with os.fdopen(reading, "rb") as file:
        while n_done < len(cases):
            if not select.select([file], [], [], seconds)[0]:
                os.kill(child, signal.SIGKILL)
                ended = "hang"
                break
            header = file.read(4)
            if len(header) < 4:
                ended = "signal"
                break
            outcomes[pickle.loads(file.read(struct.unpack("<I", header)[0]))] += 1
            n_done += 1
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return n_done, f"signal {-status}" if ended == "signal" else ended


# Mutated files.


def changed(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """An array cut, lengthened, of another type or shape, or with absurd numbers in it."""
    kind = int(rng.integers(7))
    if kind == 0:
        return array[: int(rng.integers(0, len(array) + 1))] if array.ndim else array
    if kind == 1:
        return np.concatenate([array, array[:3]])
    with np.errstate(all="ignore"):
        if kind == 2:
            return array.astype(DTYPES[int(rng.integers(len(DTYPES)))])
        if kind == 3:
            return array[None]
        flat = array.copy().reshape(-1)
        for _ in range(int(rng.integers(1, 4)) if flat.size else 0):
            value = NUMBERS[int(rng.integers(len(NUMBERS)))]
            try:
                flat[int(rng.integers(flat.size))] = np.array(value).astype(array.dtype)
            except OverflowError:
                continue
    return flat.reshape(array.shape)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value of JSON."""
    if place:
        yield place
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:10])
        if isinstance(value, list)
        else ()
    )
    for key, part in items:
        yield from places(part, (*place, key))


def mutated(
    rng: np.random.Generator, meta: dict[str, Any], arrays: dict[str, Any]
) -> tuple[Any, Any]:
    """The content of a model file with one thing changed; checksums will be made to agree."""
    meta, arrays = copy.deepcopy(meta), {name: np.array(array) for name, array in arrays.items()}
    if rng.integers(4):
        name = sorted(arrays)[int(rng.integers(len(arrays)))]
        arrays[name] = changed(rng, arrays[name])
        return meta, arrays
    found = list(places(meta))
    place = found[int(rng.integers(len(found)))]
    parent = meta
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = copy.deepcopy(JUNK[int(rng.integers(len(JUNK)))])
    return meta, arrays


def _written(path: Path, stored: Any, seed: int) -> bool:
    """Write the mutation of a number; False for one that JSON or the format cannot say."""
    try:
        write_model(
            path, stored.kind, *mutated(np.random.default_rng(seed), stored.meta, stored.arrays)
        )
    except RankwoodError:
        return False
    return True


class _Stop(Exception):
    pass


def _stop(news: Any) -> None:
    if news.iteration >= 4:
        raise _Stop


def _data() -> tuple[Any, Any]:
    return rw.make_ranking(30, 10, 6, seed=3), rw.make_ranking(10, 10, 6, seed=4)


RANKERS: dict[str, Callable[..., Any]] = {
    "RandomForest": lambda **o: rw.RandomForest(8, bag="query", max_leaves=20, **o),
    "GBRT": lambda **o: rw.GBRT(8, min_leaf=3, max_leaves=6, **o),
    "BROOF": lambda **o: rw.BROOF("median", n_rounds=6, n_trees=3, max_leaves=6, **o),
    "DeepForest": lambda **o: rw.DeepForest(
        n_forests=2, n_trees=2, max_layers=3, patience=1, max_leaves=8, **o
    ),
    "BoostingTree": lambda **o: rw.BoostingTree(
        rw.GBRT(1, max_leaves=3, min_leaf=3), budget=10, search="hull", **o
    ),
    "Exp3P": lambda **o: rw.Exp3P(rw.GBRT(1, max_leaves=2, min_leaf=3), n_rounds=8, **o),
}


@row("mutated checkpoints, then fit")
def checkpoints(counts: dict[str, int], folder: Path) -> Figures:
    """Each ranker's checkpoint with something changed, and the fit that finds it."""
    data, _ = _data()
    figures: Figures = {}
    for name, make in RANKERS.items():
        path = folder / name
        with contextlib.suppress(_Stop):
            make(checkpoint=path, callbacks=[_stop]).fit(data)
        stored = read_model(path)
        expected = make().fit(data).predict(data).tobytes()

        def attempt(
            seed: int,
            make: Any = make,
            stored: Any = stored,
            path: Path = path,
            expected: bytes = expected,
        ) -> str:
            if not _written(path, stored, seed):
                return NOT_WRITTEN
            scores = make(checkpoint=path).fit(data).predict(data)
            if not np.isfinite(scores).all():
                return "scores that are no numbers"
            return "same" if scores.tobytes() == expected else "consistent"

        figures[name] = in_children(range(counts["files"]), attempt)
    return figures


@row("mutated models, then predict, explain, export")
def models(counts: dict[str, int], folder: Path) -> Figures:
    """Model files of several kinds with something changed."""
    data, other = _data()
    made = {
        "forest": rw.RandomForest(3, max_leaves=8).fit(data),
        "linear": rw.RankSVM().fit(data),
        "ordinal": rw.OrdinalRanker(rw.RandomForest(2, max_leaves=4)).fit(data),
        "family": RANKERS["BoostingTree"]().fit(data),
        "cascade": RANKERS["DeepForest"]().fit(data),
        "blend": rw.Blend.of(
            {"a": rw.RankSVM().fit(data), "b": rw.GBRT(3, min_leaf=3).fit(data)}, other
        ),
    }
    figures: Figures = {}
    for name, model in made.items():
        path = folder / f"{name}.rankwood"
        rw.save(model, path)
        stored, expected = read_model(path), model.predict(data).tobytes()

        def attempt(
            seed: int, stored: Any = stored, path: Path = path, expected: bytes = expected
        ) -> str:
            if not _written(path, stored, seed):
                return NOT_WRITTEN
            loaded = rw.load(path)
            scores = loaded.predict(data)
            if not np.isfinite(scores).all():
                return "scores that are no numbers"
            for use in (
                lambda: rw.explain(loaded, data),
                lambda: rw.export(loaded, folder / "x", "lightgbm"),
            ):
                try:
                    use()
                except RankwoodError:
                    continue
            return "same" if scores.tobytes() == expected else "consistent"

        figures[name] = in_children(range(counts["files"]), attempt, 3 * SECONDS)
    return figures


@row("mutated codes, then fit and predict")
def codes(counts: dict[str, int], folder: Path) -> Figures:
    """Folders of binned data with an array changed, the manifest made to agree."""
    data, _ = _data()
    rw.write_table(data, folder / "d.parquet")
    rw.bin_files([folder / "d.parquet"], folder / "whole", max_bins=16)
    expected = (
        rw.CompletelyRandomForest(2).fit(rw.open_binned(folder / "whole")).predict(data).tobytes()
    )

    def attempt(seed: int) -> str:
        rng = np.random.default_rng(seed)
        case = folder / "case"
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(folder / "whole", case)
        names = sorted(path.name for path in case.glob("*.npy"))
        name = names[int(rng.integers(len(names)))]
        np.save(case / name, changed(rng, np.load(case / name)))
        manifest = read_record(case, MANIFEST)
        manifest["files"][name] = describe_file(case / name)
        write_record(case, manifest, MANIFEST)
        scores = rw.CompletelyRandomForest(2).fit(rw.open_binned(case)).predict(data)
        return "same" if scores.tobytes() == expected else "consistent"

    return in_children(range(counts["files"]), attempt)


@row("flipped bytes of the data cache")
def cache(counts: dict[str, int], folder: Path) -> Figures:
    """The binary copy of a text with a byte changed: the same data or an error, never other data."""
    from rankwood.data import cache as stored

    os.environ["RANKWOOD_CACHE_DIR"] = str(folder / "cache")
    data = rw.make_ranking(200, 60, 40, seed=1)
    path = folder / "d.txt"
    path.write_text("the text is never parsed: the reader gives the data")
    stored.cached(path, {}, lambda: data)

    def attempt(seed: int) -> str:
        rng = np.random.default_rng(seed)
        (entry,) = stored.entries()
        names = sorted(each for each in entry.folder.iterdir())
        changed_file = names[int(rng.integers(len(names)))]
        content = bytearray(changed_file.read_bytes())
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        changed_file.write_bytes(content)
        found = stored.cached(path, {}, lambda: data)
        return "same" if found == data else "other data"

    return in_children(range(counts["files"]), attempt)


# Text.


@row("mutated LETOR lines against a slow parser")
def lines(counts: dict[str, int], folder: Path) -> Figures:
    """Lines with characters changed: the same data as the slow parser's, or an error of both."""
    from tests.reference import letor

    rng = np.random.default_rng(0)
    alphabet = np.frombuffer(b"0123456789:.-+ eEqid#\tnaxf", np.uint8)
    outcomes: collections.Counter[str] = collections.Counter()
    path = folder / "lines.txt"
    for _ in range(counts["lines"] // 2):
        text = bytearray(b"2 qid:7 1:0.5 2:-3.25 4:1e3 # doc\n1 qid:7 1:1 2:2 3:3 4:4\n")
        for place in rng.integers(0, len(text) - 1, int(rng.integers(1, 4))).tolist():
            text[place] = alphabet[int(rng.integers(alphabet.size))]
        path.write_bytes(text)
        outcomes[_compared(path, bytes(text), letor)] += 2
    bad = {name: count for name, count in outcomes.items() if name not in GOOD}
    return {"tries": counts["lines"], "outcomes": dict(outcomes), "bad": bad}


def _compared(path: Path, text: bytes, letor: Any) -> str:
    """What the library and the slow parser make of the same text."""
    ours = theirs = None
    with contextlib.suppress(RankwoodError):
        ours = rw.read_letor(path, cache=False)
    with contextlib.suppress(letor.Wrong):
        theirs = letor.parse(text)
    if ours is None or theirs is None:
        return "error" if ours is theirs else "one of the two refuses it"
    width = ours.n_features
    is_same = (
        ours.labels.tolist() == theirs.labels
        and np.array_equal(ours.features, theirs.features(0.0, width), equal_nan=True)
        and ours.query_ids.tolist() == list(theirs.ids())
    )
    return "same" if is_same else "other data"


# Kills and signals.


def _train(folder: Path, *more: str) -> list[str]:
    data = folder / "d.parquet"
    if not data.exists():
        rw.write_table(rw.make_ranking(400, 60, 20, seed=1), data)
    base = [
        sys.executable,
        "-c",
        "from rankwood.cli.main import run; run()",
        "train",
        "--data",
        str(data),
    ]
    options = [
        "--model",
        "GBRT",
        "--n-trees",
        "400",
        "--quiet",
        "--out",
        str(folder / "m.rankwood"),
    ]
    return [*base, *options, "--checkpoint", str(folder / "kept"), *more]


def _ended(folder: Path, counts: int, number: int, n_seconds: float) -> Figures:
    """Send ``number`` to a training at random moments, then let it end: the bytes of one that nobody disturbed."""
    command = _train(folder)
    subprocess.run(command, check=True)
    whole = (folder / "m.rankwood").read_bytes()
    rng = np.random.default_rng(1)
    outcomes: collections.Counter[str] = collections.Counter()
    slowest, n_cut = 0.0, 0
    for _ in range(counts):
        for name in ("m.rankwood", "kept"):
            (folder / name).unlink(missing_ok=True)
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(float(rng.uniform(1.0, 3.0)))
        sent = time.monotonic()
        process.send_signal(number)
        code = process.wait()
        slowest = max(slowest, time.monotonic() - sent)
        if not (folder / "m.rankwood").exists():
            n_cut += 1
            subprocess.run(command, check=True)
        is_same = (folder / "m.rankwood").read_bytes() == whole
        is_known = code in (0, -number, 128 + number, -signal.SIGKILL)
        outcomes[
            "same" if is_same and is_known else f"exit {code}, other bytes: {not is_same}"
        ] += 1
    bad = {name: count for name, count in outcomes.items() if name not in GOOD}
    figures = {
        "tries": counts,
        "ended before the model": n_cut,
        "outcomes": dict(outcomes),
        "bad": bad,
    }
    if number != signal.SIGKILL:
        figures["slowest end in seconds"] = round(slowest, 2)
        if slowest > n_seconds:
            figures["bad"] = {**bad, "later than the bar": 1}
    return figures


@row("SIGKILL of a checkpointed fit, then the same command")
def kills(counts: dict[str, int], folder: Path) -> Figures:
    """The model has the bytes of a fit that nobody disturbed."""
    return _ended(folder, counts["kills"], signal.SIGKILL, 0.0)


@row("SIGTERM and Ctrl-C of a checkpointed fit")
def signals(counts: dict[str, int], folder: Path) -> Figures:
    """It ends within two seconds, and the same command goes on to the same bytes."""
    figures: Figures = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        figures[number.name] = _ended(folder, counts["signals"], number, 2.0)
    return figures


# Threads and forks.


@row("threads that save to, load from and score one path")
def threads(counts: dict[str, int], folder: Path) -> Figures:
    """Every load gives one of the models that were saved, whole."""
    data, _ = _data()
    path = folder / "m.rankwood"
    given = [rw.GBRT(3, min_leaf=2, seed=seed, subsample=0.7).fit(data) for seed in range(4)]
    expected = {model.predict(data).tobytes() for model in given}
    rw.save(given[0], path)
    outcomes: collections.Counter[str] = collections.Counter()
    lock = threading.Lock()

    def work(number: int) -> None:
        for _ in range(counts["threads"] // 8):
            rw.save(given[number % 4], path)
            told = "same" if rw.load(path).predict(data).tobytes() in expected else "other bytes"
            with lock:
                outcomes[told] += 1

    running = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    left = [each.name for each in folder.iterdir() if each.name != path.name]
    bad = {name: count for name, count in outcomes.items() if name not in GOOD}
    return {
        "tries": sum(outcomes.values()),
        "outcomes": dict(outcomes),
        "bad": {**bad, **dict.fromkeys(left, 1)},
    }


@row("forks while other threads fit and score")
def forks(counts: dict[str, int], folder: Path) -> Figures:  # noqa: ARG001 - of every row
    """The child fits and scores, and gives the same; none hangs."""
    data, _ = _data()
    model = rw.LambdaMART(5, min_leaf=3, n_threads=2).fit(data)
    expected = model.predict(data).tobytes()
    is_over = threading.Event()

    def load() -> None:
        while not is_over.is_set():
            rw.RandomForest(2, max_leaves=8, n_threads=2).fit(data).predict(data)

    running = [threading.Thread(target=load) for _ in range(3)]
    for thread in running:
        thread.start()
    outcomes: collections.Counter[str] = collections.Counter()
    for _ in range(counts["forks"]):
        child = os.fork()
        if child == 0:
            fresh = rw.RandomForest(2, max_leaves=8, n_threads=2).fit(data)
            is_same = model.predict(data).tobytes() == expected and fresh.predict(data).size > 0
            os._exit(0 if is_same else 3)
        until = time.monotonic() + 20
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
            time.sleep(0.005)
        if done == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            outcomes["hang"] += 1
        else:
            outcomes[
                "same" if done[1] == 0 else f"ended with {os.waitstatus_to_exitcode(done[1])}"
            ] += 1
    is_over.set()
    for thread in running:
        thread.join()
    bad = {name: count for name, count in outcomes.items() if name not in GOOD}
    return {"tries": counts["forks"], "outcomes": dict(outcomes), "bad": bad}


# Full disks.


@row("a disk that is full at every write")
def full_disk(counts: dict[str, int], folder: Path) -> Figures:  # noqa: ARG001
    """A file may not grow beyond some bytes: each writer gives one of our errors, and the old file stays whole."""
    data, _ = _data()
    model = rw.GBRT(3, min_leaf=3).fit(data)
    writers: dict[str, Callable[[Path], Any]] = {
        "save": lambda path: rw.save(model, path),
        "export": lambda path: rw.export(model, path, "lightgbm"),
        "letor": lambda path: rw.write_letor(data, path),
        "table": lambda path: rw.write_table(data, path.with_suffix(".parquet")),
        "results": lambda path: rw.evaluate(model, data, ["ndcg@10"]).write_csv(path),
    }
    figures: Figures = {}
    for name, write in writers.items():
        path = folder / name

        def attempt(n_bytes: int, write: Any = write, path: Path = path) -> str:
            target = path.with_suffix(".parquet") if path.name == "table" else path
            write(path)
            old = target.read_bytes()
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))
            try:
                write(path)
                told = "same"
            except RankwoodError:
                told = "error"
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
            return told if target.read_bytes() == old else "the old file is damaged"

        figures[name] = in_children([0, 1, 10, 100, 500, 1000], attempt)
    return figures


def n_bad(figures: Figures) -> int:
    """How many outcomes are none of the good ones, in a row or in its parts."""
    if "bad" in figures:
        return int(sum(figures["bad"].values()))
    return sum(n_bad(part) for part in figures.values() if isinstance(part, dict))


def run(names: Iterable[str] | None, counts: dict[str, int]) -> Figures:
    """The figures of the rows, by name."""
    warnings.simplefilter("ignore")
    rounds.SECONDS_BETWEEN = 0.0
    figures: Figures = {}
    for name, attack in ROWS.items():
        if names and not any(each in (attack.__name__, name) for each in names):
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            figures[name] = attack(counts, Path(folder))
        print(f"{name}: {n_bad(figures[name])} bad, {time.monotonic() - started:.0f} s", flush=True)
    return figures


def main() -> None:
    """Run the rows and keep the figures with the counts that were used."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="the counts of the table")
    parser.add_argument("--only", nargs="+", help="rows, by their functions' names")
    for name, count in SMALL.items():
        parser.add_argument(f"--{name}", type=int, help=f"{count} by default, {FULL[name]} in full")
    given = parser.parse_args()
    counts = dict(FULL if given.full else SMALL)
    counts |= {name: value for name in SMALL if (value := getattr(given, name)) is not None}
    figures = run(given.only, counts)
    path = RESULTS / "robustness.json"
    before = json.loads(path.read_text())["result"]["rows"] if path.exists() else {}
    kept = {name: {"counts": counts, **part} for name, part in figures.items()}
    print(f"kept in {keep('robustness', {'rows': {**before, **kept}})}")


if __name__ == "__main__":
    main()
