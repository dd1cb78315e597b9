"""Ten thousand hostile model files of every kind: each gives one of our errors, or a model that scores.

Four sorts of harm, since each is stopped elsewhere: bytes of the file as they come; documents that lie; sizes beyond
the file's, and content that unfolds; arrays that lie, with sizes and checksums made to agree, so that only the models'
own checks are left.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import resource
import signal
import warnings
import zipfile

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import RankwoodError
from rankwood.models.archive import DTYPES, Declared
from rankwood.models.linear import LinearModel
from rankwood.models.neural import NeuralModel
from tests.reference import forest as reference

pytestmark = pytest.mark.jit_only  # no kernels of its own

N_CASES = 10_000
MOST_KIB = 2**18  # of memory beyond what loading whole files took; the files have some kB
MOST_SECONDS = 20  # a watchdog for walks that do not end, not a measurement

NASTY_VALUES = [
    *(None, True, False, 0, 1, -1, 2, 2**31, -(2**31), 2**63, 10**30, 0.5, -0.0, 1e308, -1e308),
    *("", "x", "forest", "GBRT", "MLPRanker", "\x00", "é" * 500, "../../etc/passwd", "nan"),
    *([], {}, [[]], [None], {"": None}, [0] * 1000, {"estimator": "GBRT", "parameters": {}}),
    {"estimator": "os.system", "parameters": {"command": "true"}},
]
NASTY_NUMBERS = [0, 1, -1, 2, 3, 7, 255, 2**31 - 1, -(2**31), 2**62, -(2**62), 0.5, 1e300, -1e300]
NASTY_NUMBERS += [float("nan"), float("inf"), -float("inf")]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A small model file of each kind, and some of estimators."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(5)
    data = rw.make_ranking(10, 8, 4, seed=1)
    widths = np.array([4, 3, 1])
    models = {
        "forest": reference.random_forest(rng, n_trees=3, third=0.3, most_splits=6),
        "linear": LinearModel(rng.normal(size=4), np.zeros(4), np.ones(4), 0.5, tuple("abcd")),
        "neural": NeuralModel(
            widths,
            rng.normal(size=15).astype(np.float32),
            rng.normal(size=4).astype(np.float32),
            np.zeros(4),
            np.ones(4),
            np.array([0, 1, 0, 1], np.uint8),
        ),
        "GBRT": rw.GBRT(3, max_leaves=4, min_leaf=3).fit(data, valid=data),
        "RankSVM": rw.RankSVM().fit(data),
        "OrdinalRanker": rw.OrdinalRanker(rw.RandomForest(1, max_leaves=3)).fit(data),
        "DeepForest": rw.DeepForest(n_forests=2, n_trees=1, max_layers=2, patience=None).fit(data),
    }
    for name, model in models.items():
        rw.save(model, folder / f"{name}.rankwood")
    return {name: (folder / f"{name}.rankwood").read_bytes() for name in models}


def damage_bytes(rng, content):
    """Cut off, flipped, removed, repeated or blanked bytes."""
    first, last = sorted(rng.integers(0, len(content) + 1, 2).tolist())
    piece = content[first:last]
    kind = int(rng.integers(6))
    if kind == 0:
        return content[:first]
    if kind in (1, 2):
        damaged = bytearray(content)
        start = 0 if kind == 1 else content.index(b"PK\x01\x02")  # where the list of members begins
        for _ in range(int(rng.integers(1, 5))):
            damaged[int(rng.integers(start, len(content)))] ^= 1 << int(rng.integers(8))
        return bytes(damaged)
    if kind == 3:
        return content[:first] + content[last:]
    if kind == 4:
        return content[:first] + piece + piece + content[last:]
    return content[:first] + bytes(len(piece)) + content[last:]


def pick(rng, choices):
    return copy.deepcopy(choices[int(rng.integers(len(choices)))])


def places_of(value, place=()):
    """Every place in a JSON value, as a path of keys and numbers."""
    yield place
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value[:20])
        for key, part in items:
            yield from places_of(part, (*place, key))


def damage_document(rng, document):
    """Values replaced, keys lost, keys added, parts moved, anywhere in the document."""
    for _ in range(int(rng.integers(1, 4))):
        places = [place for place in places_of(document) if place]
        if not places:
            return document
        place = places[int(rng.integers(len(places)))]
        parent = document
        for key in place[:-1]:
            parent = parent[key]
        kind = int(rng.integers(5))
        if kind == 0 and isinstance(parent, dict):
            del parent[place[-1]]
        elif kind == 1 and isinstance(parent, dict):
            parent[pick(rng, ["x", "", "estimator", "kind", "n_trees"])] = pick(rng, NASTY_VALUES)
        elif kind == 2:
            source = document
            for key in places[int(rng.integers(len(places)))]:
                source = source[key]
            parent[place[-1]] = copy.deepcopy(source)
        else:
            parent[place[-1]] = pick(rng, NASTY_VALUES)
    return document


def damage_array(rng, array, others):
    """An array with other values, of another length, shape or dtype, or another array in its place."""
    kind = int(rng.integers(7))
    damaged = np.array(array)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind <= 2 and damaged.size:
            for _ in range(int(rng.integers(1, 4))):
                number = pick(rng, NASTY_NUMBERS)
                flat = damaged.reshape(-1)
                flat[int(rng.integers(flat.size))] = np.array(number).astype(damaged.dtype)
        elif kind == 3:
            damaged = np.resize(damaged, int(rng.integers(0, 2 * damaged.size + 2)))
        elif kind == 4:
            damaged = damaged.astype(pick(rng, list(DTYPES)))
        elif kind == 5:
            shapes = [(damaged.size, 1), (1, damaged.size), (1, 1, 1, damaged.size)]
            damaged = damaged.reshape(pick(rng, shapes))
        else:
            damaged = np.array(others[int(rng.integers(len(others)))])
    return damaged


def read_apart(content):
    """The document and the arrays of a good file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        document = json.loads(archive.read("model.json"))
        arrays = {
            name: np.load(io.BytesIO(archive.read(f"arrays/{name}.npy")))
            for name in document["arrays"]
        }
    return document, arrays


def swell(rng, document, arrays):
    """A file that claims more than it holds: a huge shape, or zeros by the million, compressed to nothing."""
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    if rng.random() < 0.8:
        shapes = [[2**47], [10**6, 10**6], [2**31, 2**31, 2, 2], [2**62], [2**40, 0], [0]]
        document["arrays"][name]["shape"] = pick(rng, shapes)
        return put_together(document, arrays, declares=False)
    arrays[name] = np.zeros(2**20, arrays[name].dtype)
    return put_together(document, arrays, declares=True, compression=zipfile.ZIP_DEFLATED)


def put_together(document, arrays, *, declares, **options):
    """A file of a document and arrays; with ``declares`` sizes and checksums agree."""
    members = {}
    for name, array in arrays.items():
        declared = Declared(array.dtype.str, array.shape, "")
        members[f"arrays/{name}.npy"] = declared.header + array.tobytes()
        if declares:
            sha256 = hashlib.sha256(array.tobytes()).hexdigest()
            record = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": sha256}
            document["arrays"][name] = record
    text = json.dumps(document)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        archive.writestr("model.json", text)
        for name, body in members.items():
            archive.writestr(name, body)
    return file.getvalue()


def damaged(rng, content):
    """One hostile file."""
    kind = int(rng.integers(4))
    if kind == 0:
        return damage_bytes(rng, content)
    document, arrays = read_apart(content)
    if rng.random() < 0.05:
        return swell(rng, document, arrays)
    if kind == 1:
        return put_together(damage_document(rng, document), arrays, declares=False)
    names = sorted(arrays)
    for _ in range(int(rng.integers(1, 3))):
        name = names[int(rng.integers(len(names)))]
        arrays[name] = damage_array(rng, arrays[name], list(arrays.values()))
    if kind == 3:
        own = {name: part for name, part in document.items() if name != "arrays"}
        document = {**damage_document(rng, own), "arrays": {}}
    return put_together(document, arrays, declares=True)


def outcome_of(path):
    """What comes of a file: our error, or a model that scores or says why not."""
    try:
        model = rw.load(path)
    except RankwoodError:
        return "refused"
    n_features = int(getattr(model, "n_features_in_", None) or model.n_features)
    if n_features > 10_000:  # such rows would take more memory than the file does
        return "loaded"
    rows = np.random.default_rng(1).normal(size=(3, n_features)).astype(np.float32)
    repr(model)
    try:
        with np.errstate(all="ignore"):
            scores = model.predict(rows)
    except RankwoodError:
        return "scores refused"
    assert scores.shape == (3,)
    return "scored"


def stop(*_):
    raise TimeoutError("a walk that does not end")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_files_of_every_kind(files, tmp_path):
    path = tmp_path / "hostile.rankwood"
    names = sorted(files)
    found = {}
    for content in files.values():
        path.write_bytes(content)
        outcome_of(path)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for case in range(N_CASES):
            rng = np.random.default_rng([20_260, case])
            name = names[case % len(names)]
            path.write_bytes(damaged(rng, files[name]))
            signal.alarm(MOST_SECONDS)
            try:
                outcome = outcome_of(path)
            except BaseException as error:
                raise AssertionError(f"case {case}, a {name}: {error!r}") from error
            finally:
                signal.alarm(0)
            found[outcome] = found.get(outcome, 0) + 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MOST_KIB
    assert sum(found.values()) == N_CASES
    assert found["refused"] > N_CASES // 2
    assert found["scored"] > N_CASES // 50  # harm that does none, such as another cover


def test_undamaged_files_score(files, tmp_path):
    """What the cases above are made from is whole, also when taken apart and put together again."""
    path = tmp_path / "whole.rankwood"
    for content in files.values():
        path.write_bytes(content)
        assert outcome_of(path) == "scored"
        path.write_bytes(put_together(*read_apart(content), declares=True))
        assert outcome_of(path) == "scored"
