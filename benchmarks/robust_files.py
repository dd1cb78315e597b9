"""Attacks by files: models, checkpoints, codes, caches, cells and models of other systems with something changed.

Most mutations change an array or a value and make the checksums right again, so that rules have to find what is
impossible; the others flip bits, which checksums find.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.attacking import CONSISTENT, NOT_WRITTEN, SECONDS, Attack, row
from rankwood.binning.folder import MANIFEST, describe_file
from rankwood.data.cache import read_record, write_record
from rankwood.errors import RankwoodError
from rankwood.exports.exporting import READERS
from rankwood.models.format import read_model, write_model
from rankwood.training import rounds

NUMBERS = [0, 1, -1, 2, 255, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, 0.5, 1e300, -1e300]
NUMBERS += [float("nan"), float("inf"), -float("inf")]
DTYPES = ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")
JUNK = [None, True, 0, -1, 2**63, 10**400, 0.5, "", "x", [], {}, [None], {"a": 1}]


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
    return _with_junk(rng, meta), arrays


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


def small_data() -> tuple[Any, Any]:
    """Two small collections of the same features."""
    return rw.make_ranking(30, 10, 6, seed=3), rw.make_ranking(10, 10, 6, seed=4)


@contextlib.contextmanager
def saving_every(seconds: float) -> Iterator[None]:
    """Checkpoints are written that often."""
    before, rounds.SECONDS_BETWEEN = rounds.SECONDS_BETWEEN, seconds
    try:
        yield
    finally:
        rounds.SECONDS_BETWEEN = before


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
def checkpoints(attack: Attack) -> None:
    """Each ranker's checkpoint with something changed, and the fit that finds it."""
    data, _ = small_data()
    for name, make in RANKERS.items():
        path = attack.folder / name
        with contextlib.suppress(_Stop), saving_every(0.0):
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
            return _compared(scores, expected)

        with saving_every(3600.0):  # what is written after the attack takes time and tells nothing
            attack.in_children(name, attack.counts["files"], attempt)


def _compared(scores: Any, expected: bytes) -> str:
    if not np.isfinite(scores).all():
        return "scores that are no numbers"
    return "same" if scores.tobytes() == expected else CONSISTENT


def _use(model: Any, data: Any, folder: Path, form: str = "lightgbm") -> None:
    """Explain and export; an error of ours is an answer."""
    for use in (
        lambda: rw.explain(model, data),
        lambda: rw.export(model, folder / "x", form),
    ):
        with contextlib.suppress(RankwoodError):
            use()


@row("mutated models, then predict, explain, export")
def models(attack: Attack) -> None:
    """Model files of several kinds with something changed."""
    data, other = small_data()
    few = data.take_queries(data.queries[:3])
    made = {
        "forest": lambda: rw.RandomForest(3, max_leaves=8).fit(data),
        "linear": lambda: rw.RankSVM().fit(data),
        "ordinal": lambda: rw.OrdinalRanker(rw.RandomForest(2, max_leaves=4)).fit(data),
        "family": lambda: RANKERS["BoostingTree"]().fit(data),
        "cascade": lambda: RANKERS["DeepForest"]().fit(data),
        "blend": lambda: rw.Blend.of(
            {"a": rw.RankSVM().fit(data), "b": rw.GBRT(3, min_leaf=3).fit(data)}, other
        ),
    }
    for name, make in made.items():
        path = attack.folder / f"{name}.rankwood"
        model = make()
        rw.save(model, path)
        stored, expected = read_model(path), model.predict(data).tobytes()
        _use(rw.load(path), few, attack.folder)

        def attempt(
            seed: int, stored: Any = stored, path: Path = path, expected: bytes = expected
        ) -> str:
            if not _written(path, stored, seed):
                return NOT_WRITTEN
            loaded = rw.load(path)
            told = _compared(loaded.predict(data), expected)
            _use(loaded, few, attack.folder)
            return told

        attack.in_children(name, attack.counts["files"], attempt, 3 * SECONDS)


def foreign_files() -> dict[str, tuple[str, bytes]]:
    """Small models in the formats that can be imported: what the systems themselves write where they are installed."""
    from rankwood.exports.exporting import FORMATS
    from tests.reference import hostile

    data, _ = small_data()
    rng = np.random.default_rng(5)
    files = {name: (name, hostile.valid_file(name, rng)) for name in READERS}
    files["xgboost saved, JSON"] = "xgboost", json.dumps(hostile.saved_by_xgboost()).encode()
    files["xgboost saved, UBJSON"] = "xgboost", hostile.saved_as_ubjson()
    files["lightgbm, JSON"] = "lightgbm", hostile.lightgbm_json(rng)
    sizes = np.diff(data.query_offsets)
    with contextlib.suppress(ImportError):
        import lightgbm

        options = {"objective": "lambdarank", "num_leaves": 5, "verbose": -1, "num_threads": 1}
        table = lightgbm.Dataset(data.features, data.labels, group=sizes)
        booster = lightgbm.train(options, table, 3)
        files["lightgbm"] = "lightgbm", booster.model_to_string().encode()
        files["lightgbm, JSON"] = "lightgbm", json.dumps(booster.dump_model()).encode()
    with contextlib.suppress(ImportError):
        import xgboost

        options = {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1}
        table = xgboost.DMatrix(data.features, data.labels, qid=np.repeat(range(30), sizes))
        booster = xgboost.train(options, table, 3)
        for form in ("json", "ubj"):
            name = f"xgboost saved, {'JSON' if form == 'json' else 'UBJSON'}"
            files[name] = "xgboost", bytes(booster.save_raw(form))
    assert set(READERS) <= set(FORMATS) | {"xgboost"}
    return files


@row("mutated models of other systems, then import, predict, explain, export")
def foreign(attack: Attack) -> None:
    """Bits and bytes changed, pieces cut out, doubled, or replaced by absurd tokens; or another number in a place."""
    from tests.reference import hostile

    data, _ = small_data()
    for name, (form, content) in foreign_files().items():
        path = attack.folder / "model"
        path.write_bytes(content)
        model = rw.import_model(path, form)
        rows = np.resize(data.features, (10, model.n_features))
        expected = model.predict(rows).tobytes()
        few = rw.RankingData(rows, np.zeros(10), np.zeros(10))
        _use(model, few, attack.folder, "json")

        def attempt(
            seed: int,
            name: str = name,
            form: str = form,
            content: bytes = content,
            path: Path = path,
            rows: Any = rows,
            expected: bytes = expected,
        ) -> str:
            rng = np.random.default_rng(seed)
            if seed % 2 and not name.endswith("UBJSON"):
                path.write_bytes(hostile.renumbered(content, rng))
            else:
                path.write_bytes(hostile.mutated(content, rng, hostile.TOKENS))
            model = rw.import_model(path, form)
            if model.n_features != rows.shape[1]:
                wide = min(model.n_features, 1000)
                rows = np.resize(rows, (10, model.n_features if wide < 1000 else 1))
            if model.n_features > 1000:
                return CONSISTENT
            scores = model.predict(rows.astype(np.float32))
            told = _compared(scores, expected)
            _use(model, rw.RankingData(rows, np.zeros(10), np.zeros(10)), attack.folder, "json")
            return told

        attack.in_children(name, attack.counts["files"], attempt)


@row("mutated codes, then fit and predict")
def codes(attack: Attack) -> None:
    """Folders of binned data with an array changed, the manifest made to agree."""
    data, _ = small_data()
    folder = attack.folder
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
        return _compared(
            rw.CompletelyRandomForest(2).fit(rw.open_binned(case)).predict(data), expected
        )

    attack.in_children("arrays", attack.counts["files"], attempt)


@row("flipped bytes of the data cache")
def cache(attack: Attack) -> None:
    """The binary copy of a text with a byte changed: the same data or an error, never other data."""
    from rankwood.data import cache as stored

    before = os.environ.get("RANKWOOD_CACHE_DIR")
    os.environ["RANKWOOD_CACHE_DIR"] = str(attack.folder / "cache")
    data = rw.make_ranking(60, 20, 20, seed=1)
    path = attack.folder / "d.txt"
    path.write_text("the text is never parsed: the reader gives the data")
    stored.cached(path, {}, lambda: data)

    def attempt(seed: int) -> str:
        rng = np.random.default_rng(seed)
        (entry,) = stored.entries()
        flip(rng, sorted(entry.folder.iterdir()))
        found = stored.cached(path, {}, lambda: data)
        return "same" if found == data else "other data"

    attack.in_children("bytes", attack.counts["files"], attempt)
    if before is None:
        del os.environ["RANKWOOD_CACHE_DIR"]
    else:
        os.environ["RANKWOOD_CACHE_DIR"] = before


def flip(rng: np.random.Generator, paths: list[Path]) -> Path:
    """Flip a bit of one of the files, in place; gives the file."""
    path = paths[int(rng.integers(len(paths)))]
    content = bytearray(path.read_bytes())
    content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
    return path


# Runs of experiments.

EXPERIMENT = """
[data]
generate = { queries = 18, docs = 6, features = 4 }
folds = 3
[run]
jobs = 0
[measures]
primary = "ndcg@10"
also = ["map"]
[[algorithm]]
name = "RF"
kind = "RandomForest"
n_trees = 2
max_leaves = 4
[[algorithm]]
name = "SVM"
kind = "RankSVM"
"""


def figures_of(run: Any) -> dict[str, bytes]:
    """Every figure of a run, to the bit."""
    return {
        f"{name} {measure}": run.values(name, measure).tobytes()
        for name in run.algorithms
        for measure in run.measures
    }


@row("mutated runs of experiments, then read, measure, report")
def cells(attack: Attack) -> None:
    """A bit flipped gives the same figures or an error; an array changed, with its checksum, is refused or alike."""
    from rankwood.cli.main import main

    folder, case = attack.folder / "run", attack.folder / "case"
    (attack.folder / "run.toml").write_text(EXPERIMENT)
    with contextlib.redirect_stdout(io.StringIO()):
        main(["experiment", str(attack.folder / "run.toml"), "--out", str(folder), "--quiet"])
    expected = figures_of(rw.read_run(folder))

    def read(seed: int) -> str:
        run = rw.read_run(case)
        if seed % 20 == 0:
            rw.write_report(run, attack.folder / "page.html")
            rw.measure_run(case, ["p@3"])
        found = figures_of(run)
        return "same" if found == expected else "other figures"

    def flipped(seed: int) -> str:
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(folder, case)
        flip(
            np.random.default_rng(seed),
            [path for path in sorted(case.rglob("*")) if path.is_file() and path.stat().st_size],
        )
        return read(seed)

    def rewritten(seed: int) -> str:
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(folder, case)
        if not _with_a_column_changed(np.random.default_rng(seed), case):
            return NOT_WRITTEN
        told = read(seed)
        return CONSISTENT if told == "other figures" else told

    attack.in_children("bits", attack.counts["files"], flipped)
    attack.in_children("columns, with their checksums", attack.counts["files"], rewritten)


def _with_a_column_changed(rng: np.random.Generator, run: Path) -> bool:
    """Change a column of a table, or a value of a record, of a run; False for what cannot be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rankwood.experiments import store

    paths = [path for path in sorted(run.rglob("*.*")) if path.suffix in (".parquet", ".json")]
    path = paths[int(rng.integers(len(paths)))]
    if path.suffix == ".json":
        path.write_text(json.dumps(_with_junk(rng, json.loads(path.read_text()))))
        return True
    table = pq.read_table(path)
    record = json.loads((table.schema.metadata or {}).get(b"rankwood", b"{}"))
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    if rng.integers(3) == 0 and record:
        record = _with_junk(rng, record)
    else:
        name = table.column_names[int(rng.integers(len(columns)))]
        with contextlib.suppress(ValueError):  # of text that is to be a number
            columns[name] = changed(rng, columns[name])
        shortest = min(map(len, columns.values()))
        if rng.integers(2):
            columns = {name: column[:shortest] for name, column in columns.items()}
    try:
        store._write_table(path, columns, record)
    except (pa.ArrowException, ValueError, TypeError):
        return False
    return True


def _with_junk(rng: np.random.Generator, value: Any) -> Any:
    """A value of JSON with something else at one of its places."""
    found = list(places(value))
    place = found[int(rng.integers(len(found)))]
    parent = value
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = copy.deepcopy(JUNK[int(rng.integers(len(JUNK)))])
    return value


# Memory.


def _peak_kib(use: Callable[[], Any]) -> int:
    """By how much ``use`` raises the peak of memory of a fresh child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with contextlib.suppress(RankwoodError):
            use()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(writing, str(grown).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = file.read()
    os.waitpid(child, 0)
    return int(told) if told else 1 << 40


@row("memory of large files with something changed")
def memory(attack: Attack) -> None:
    """Reading a mutated file takes at most twice the memory that the honest one of some megabytes takes."""
    from tests.reference import hostile

    data = rw.make_ranking(400, 60, 20, seed=1)
    model = rw.RandomForest(40, max_leaves=800, n_threads=2).fit(data)
    path, text = attack.folder / "m.rankwood", attack.folder / "m.txt"
    rw.save(model, path)
    rw.export(model, text, "lightgbm")
    stored, content = read_model(path), text.read_bytes()
    parts: dict[str, tuple[Callable[[], Any], Callable[[int], Any]]] = {
        "model": (lambda: rw.load(path), lambda seed: _written(path, stored, seed)),
        "lightgbm": (
            lambda: rw.import_model(text, "lightgbm"),
            lambda seed: text.write_bytes(
                hostile.mutated(content, np.random.default_rng(seed), hostile.TOKENS)
            ),
        ),
    }
    for name, (use, mutate) in parts.items():
        honest = max(_peak_kib(use) for _ in range(3))

        def attempt(seed: int, use: Any = use, mutate: Any = mutate, honest: int = honest) -> str:
            if mutate(seed) is False:
                return NOT_WRITTEN
            taken = _peak_kib(use)
            return "same" if taken <= 2 * honest else f"{taken >> 10} MiB of {honest >> 10}"

        attack.here(name, attack.counts["files"] // 20, attempt)
