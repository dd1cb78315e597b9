"""The model file: what goes in comes out, to fixed bytes, and nothing is lost when writing fails."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile

import numpy as np
import pytest

from rankwood import __version__
from rankwood.errors import ModelError
from rankwood.models.archive import Declared
from rankwood.models.forest import Forest
from rankwood.models.format import (
    forest_from_arrays,
    forest_to_arrays,
    load_model,
    read_model,
    save_model,
    write_model,
)
from tests.reference import forest as reference

META = {
    "estimator": "RandomForest",
    "parameters": {"n_trees": 5, "features_per_node": 0.3, "seed": None},
    "measures": {"ndcg@10": 0.5014},
    "training": {"n_documents": 9630, "n_queries": 471},
    "conventions": {"empty": 0},
    "note": "ΔNDCG, 日本語 and a \u2028 line",
}


@pytest.fixture
def forest(rng):
    return reference.random_forest(rng, third=0.3, average=True, feature_names=list("abcd"))


@pytest.mark.parametrize("third", [0.0, 0.5])
@pytest.mark.parametrize("named", [True, False])
def test_a_forest_comes_back_as_it_was(rng, tmp_path, third, named):
    names = ["BM25 of body", "ünïcode", "", "a\nb"] if named else None
    forest = reference.random_forest(rng, third=third, feature_names=names)
    save_model(forest, tmp_path / "model.rankwood", META)
    again, meta = load_model(tmp_path / "model.rankwood")
    assert again == forest
    assert meta == {**META, "feature_names": names}
    features = rng.choice(reference.nasty_values(), (20, 4))
    assert again.predict(features).tobytes() == forest.predict(features).tobytes()


def test_a_forest_without_trees_comes_back(tmp_path):
    forest = Forest.from_trees([], n_features=2, base=1 / 3)
    save_model(forest, tmp_path / "empty.rankwood")
    assert load_model(tmp_path / "empty.rankwood") == (forest, {"feature_names": None})


def test_the_same_model_gives_the_same_bytes(forest, tmp_path, monkeypatch):
    save_model(forest, tmp_path / "one", META)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    save_model(forest, tmp_path / "other", dict(reversed(META.items())))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_anyone_can_read_the_file(forest, tmp_path):
    """Nothing but zip, JSON and numpy's own reader, without pickle."""
    save_model(forest, tmp_path / "model.rankwood", META)
    with zipfile.ZipFile(tmp_path / "model.rankwood") as archive:
        assert archive.testzip() is None
        document = json.loads(archive.read("model.json"))
        assert archive.namelist() == [
            "model.json",
            *(f"arrays/{name}.npy" for name in sorted(document["arrays"])),
        ]
        for name, record in document["arrays"].items():
            array = np.load(io.BytesIO(archive.read(f"arrays/{name}.npy")), allow_pickle=False)
            assert np.array_equal(array, getattr(forest, name))
            assert [array.dtype.str, list(array.shape)] == [record["dtype"], record["shape"]]
            assert hashlib.sha256(array.tobytes()).hexdigest() == record["sha256"]
    assert document["format"] == "rankwood-model"
    assert document["format_version"] == 1
    assert document["rankwood_version"] == __version__
    assert document["kind"] == "forest"
    assert document["comparison"] == "<="
    assert document["forest"] == {"average": True, "base": forest.base, "n_features": 4}


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (1, 2, 3, 4), (10**12,)])
@pytest.mark.parametrize("dtype", ["|b1", "|u1", "<i4", "<i8", "<f4", "<f8"])
def test_our_header_is_numpys(shape, dtype):
    ours = Declared(dtype, shape, "").header
    assert len(ours) % 64 == 0
    file = io.BytesIO(ours)
    assert np.lib.format.read_magic(file) == (1, 0)
    assert np.lib.format.read_array_header_1_0(file) == (shape, False, np.dtype(dtype))
    assert file.read() == b""


def test_any_model_can_be_stored(tmp_path):
    arrays = {
        "layer0.weights": np.arange(6.0).reshape(2, 3)[:, ::-1],
        "layer0.is_used": np.array([True, False]),
        "scalar": np.array(2.5, np.float32),
        "none": np.zeros((0, 4), np.uint8),
        "swapped": np.arange(3, dtype=">i4"),
    }
    write_model(
        tmp_path / "model",
        "other",
        {"parameters": {"l2": np.float64(0.5), "n": np.int64(3)}},
        arrays,
    )
    stored = read_model(tmp_path / "model")
    assert stored.kind == "other"
    assert stored.meta == {"parameters": {"l2": 0.5, "n": 3}}
    assert stored.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert np.array_equal(stored.arrays[name], array)
        assert stored.arrays[name].shape == array.shape
        assert not stored.arrays[name].flags.writeable
    with pytest.raises(
        ModelError,
        match=r"holds something of kind 'other', which .* cannot score with\. Known: forest, linear",
    ):
        load_model(tmp_path / "model")


def test_several_forests_in_one_file(rng, tmp_path):
    forests = [reference.random_forest(rng, n_trees=count) for count in (2, 3)]
    records, arrays = [], {}
    for number, forest in enumerate(forests):
        record, of_forest = forest_to_arrays(forest, f"forest{number}.")
        records.append(record)
        arrays |= of_forest
    write_model(tmp_path / "model", "cascade", {"layers": records}, arrays)
    stored = read_model(tmp_path / "model")
    again = [
        forest_from_arrays(record, stored.arrays, prefix=f"forest{number}.")
        for number, record in enumerate(stored.meta["layers"])
    ]
    assert again == forests


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([None]), "is object of 1 dimensions; a model file holds"),
        (np.array(["text"]), "a model file holds"),
        (np.zeros(1, np.complex128), "a model file holds"),
        (np.zeros(1, np.uint16), "a model file holds"),
        (np.zeros(1, [("a", "<f8")]), "a model file holds"),
        (np.zeros((1, 1, 1, 1, 1)), "of 5 dimensions"),
    ],
)
def test_arrays_that_are_not_plain_numbers_are_not_written(tmp_path, array, message):
    with pytest.raises(ModelError, match=message):
        write_model(tmp_path / "model", "forest", {}, {"values": array})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "../evil", "a/b", "A", "a..b", ".a", "a.", "ä", "a" * 200])
def test_names_of_arrays_are_plain(tmp_path, name):
    with pytest.raises(ModelError, match="small letters, digits"):
        write_model(tmp_path / "model", "forest", {}, {name: np.zeros(1)})


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"kind": "x"}, "meta must not hold 'kind'"),
        ({"arrays": {}}, "meta must not hold 'arrays'"),
        ({"parameters": [1]}, "parameters must be dict, got list"),
        ({"feature_names": "abc"}, "feature_names must be list, got str"),
        ({"feature_names": [1]}, "feature_names must be texts"),
        ({"training": {"loss": float("nan")}}, "cannot be written to a model file as JSON"),
        ({"training": {"when": object()}}, "cannot be written to a model file as JSON: object"),
        ({"note": "\ud800"}, "cannot be written to a model file as JSON"),
        ({"note": "x" * (17 * 2**20)}, "16 MiB are allowed"),
    ],
)
def test_what_cannot_be_said_about_a_model(tmp_path, meta, message):
    with pytest.raises(ModelError, match=message):
        write_model(tmp_path / "model", "forest", meta, {})
    assert not list(tmp_path.iterdir())


def test_meta_that_contradicts_the_forest(forest, tmp_path):
    with pytest.raises(ModelError, match="other feature_names than the forest"):
        save_model(forest, tmp_path / "model", {"feature_names": ["x", "y", "z", "w"]})
    with pytest.raises(ModelError, match="meta must not hold 'forest'"):
        save_model(forest, tmp_path / "model", {"forest": {}})


def test_a_failed_write_leaves_the_old_file(forest, tmp_path, monkeypatch):
    path = tmp_path / "model.rankwood"
    save_model(forest, path)
    before = path.read_bytes()

    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "open", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_model(forest.take_trees([0]), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.rankwood"]


def test_places_that_cannot_be_written(forest, tmp_path):
    with pytest.raises(ModelError, match="cannot be written: No such file or directory"):
        save_model(forest, tmp_path / "no" / "such" / "folder")
    with pytest.raises(ModelError, match="cannot be written: Is a directory"):
        save_model(forest, tmp_path)


def test_a_link_to_a_model_is_followed(forest, tmp_path):
    save_model(forest, tmp_path / "v1.rankwood")
    os.symlink(tmp_path / "v1.rankwood", tmp_path / "current.rankwood")
    assert load_model(tmp_path / "current.rankwood")[0] == forest
