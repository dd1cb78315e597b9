"""``Cascade``: what it is made of, and files whose cascade is not as we write it."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ModelError
from rankwood.models.cascade import WHOLE, Cascade, ForeignModel, Layer
from rankwood.models.format import KINDS, load_model, save_model
from tests.reference import forest as reference

NOTHING = np.zeros((0, 2), np.int32)


def forest_of(rng, n_features, n_trees=2):
    return reference.random_forest(rng, n_trees=n_trees, n_features=n_features)


@pytest.fixture
def cascade(rng):
    """Two models, of which the first passes its score on and the second its second tree; then one model."""
    first = Layer((forest_of(rng, 3), forest_of(rng, 3)), np.array([[0, WHOLE], [1, 1]]))
    return Cascade((first, Layer((forest_of(rng, 5),), NOTHING)), 3, False, tuple("abc"))


@pytest.fixture
def path(cascade, tmp_path):
    save_model(cascade, tmp_path / "m")
    return tmp_path / "m"


def edit(path, change):
    """Rewrite a file after ``change`` had a look at its document and arrays; their record is made to agree."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members.pop("model.json"))
    names = {name: f"{name}.npy" for name in document["arrays"]}
    names = {
        name: next(member for member in members if member.endswith(ending))
        for name, ending in names.items()
    }
    arrays = {name: np.load(io.BytesIO(members[member])) for name, member in names.items()}
    folder = next(iter(names.values())).removesuffix(f"{next(iter(names))}.npy")
    change(document["cascade"], arrays)
    document["arrays"] = {}
    with zipfile.ZipFile(path, "w") as archive:
        written = {}
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, version=(1, 0))
            written[f"{folder}{name}.npy"] = buffer.getvalue()
            document["arrays"][name] = {
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
            }
        archive.writestr("model.json", json.dumps(document))
        for name, content in written.items():
            archive.writestr(name, content)


def test_a_cascade_by_hand(cascade, rng):
    features = rng.normal(size=(20, 3)).astype(np.float32)
    (one, other), (last,) = (layer.models for layer in cascade.layers)
    tree = dataclasses.replace(other.take_trees([1]), tree_weights=np.ones(1), base=0.0)
    tree = dataclasses.replace(tree, average=False)
    passed_on = [reference.predict(one, features), reference.predict(tree, features)]
    inputs = np.column_stack([features, *passed_on]).astype(np.float32)
    np.testing.assert_allclose(cascade.predict(features), reference.predict(last, inputs))
    first = (reference.predict(one, features) + reference.predict(other, features)) / 2
    np.testing.assert_allclose(cascade.predict_layers(features)[:, 0], first)


def test_what_a_cascade_says_of_itself(cascade):
    assert (cascade.n_layers, cascade.n_trees) == (2, 6)
    assert cascade.n_leaves == sum(model.n_leaves for model in cascade.models)
    assert cascade.max_depth == max(model.max_depth for model in cascade.models)
    sums = sum(model.importance("splits")[:3] for model in cascade.models)
    assert cascade.importance("splits").tolist() == sums.tolist()
    assert repr(cascade) == "Cascade(2 layers, 3 models, 6 trees, 3 features)"


def test_a_bare_cascade_in_a_file(cascade, path, rng):
    features = rng.normal(size=(9, 3)).astype(np.float32)
    loaded, _ = load_model(path)
    assert np.array_equal(loaded.predict_layers(features), cascade.predict_layers(features))
    assert loaded.feature_names == ("a", "b", "c")
    first = path.read_bytes()
    save_model(loaded, path)
    assert path.read_bytes() == first


def test_the_editor_itself_changes_nothing(cascade, path, rng):
    edit(path, lambda record, arrays: None)  # noqa: ARG005
    features = rng.normal(size=(9, 3)).astype(np.float32)
    assert np.array_equal(load_model(path)[0].predict(features), cascade.predict(features))


def put(name, value):
    def change(record, arrays):
        arrays[name] = value

    return change


def drop(name):
    return lambda record, arrays: arrays.pop(name)  # noqa: ARG005


def say(**values):
    return lambda record, arrays: record.update(values)  # noqa: ARG005


def describe(change):
    return lambda record, arrays: change(record["layers"])  # noqa: ARG005


I4 = np.int32
HOSTILE = {
    "no features": (say(n_features=0), "n_features must be a whole number"),
    "features as text": (say(n_features="3"), "n_features must be a whole number"),
    "other features": (say(n_features=4), "feature_names has 3 names, but there are 4"),
    "kept as text": (say(keep_augmented="no"), "keep_augmented must be True or False"),
    "another key": (say(more=1), "its record must hold"),
    "no layers": (say(layers=[]), "does not belong to a cascade"),
    "layers as text": (say(layers="ab"), "must be lists of at most 1,000 models"),
    "too many": (say(layers=[[]] * 1001), "must be lists of at most 1,000 models"),
    "an empty layer": (describe(lambda layers: layers[1].clear()), "does not belong|has no models"),
    "a model as text": (describe(lambda layers: layers[1].append("x")), "its record must hold"),
    "a kind as list": (
        describe(lambda layers: layers[0][0].update(kind=[1])),
        "must be of kind forest, linear, neural, family, ordinal",
    ),
    "a cascade in a cascade": (
        describe(lambda layers: layers[0][0].update(kind="cascade")),
        "must be of kind forest, linear, neural, family, ordinal",
    ),
    "another kind": (
        describe(lambda layers: layers[0][0].update(kind="linear")),
        "model 0 of layer 1: its record must hold",
    ),
    "one model more": (
        describe(lambda layers: layers[1].append(layers[1][0])),
        "model 1 of layer 2: array 'feature' is missing",
    ),
    "no outputs": (drop("outputs.0"), "array 'outputs.0' is missing"),
    "outputs of nothing": (put("outputs.0", NOTHING), "knows 5 features|every layer but the last"),
    "outputs as floats": (put("outputs.0", np.zeros((2, 2))), "must be int32"),
    "outputs of one number": (put("outputs.0", np.zeros(4, I4)), "must be pairs"),
    "an unknown model": (put("outputs.0", np.array([[0, -1], [2, 0]], I4)), "names model 2"),
    "a negative model": (put("outputs.0", np.array([[0, -1], [-1, 0]], I4)), "names model -1"),
    "an unknown tree": (put("outputs.0", np.array([[0, -1], [1, 2]], I4)), "names tree 2"),
    "a negative tree": (put("outputs.0", np.array([[0, -1], [1, -2]], I4)), "names tree -2"),
    "outputs of the last": (put("outputs.1", NOTHING), "'outputs.1' does not belong"),
    "a missing array": (drop("layers.1.0.left"), "model 0 of layer 2: array 'left' is missing"),
    "a stray array": (put("layers.7.0.left", np.zeros(1, I4)), "does not belong to a cascade"),
    "a stray array of a model": (put("layers.0.0.x", np.zeros(1, I4)), "does not belong"),
    "a broken forest": (put("layers.0.0.left", np.zeros(1, I4)), "model 0 of layer 1: left has 1"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_files_whose_cascade_is_not_as_we_write_it(path, case):
    change, message = HOSTILE[case]
    edit(path, change)
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_cascades_that_cannot_be(cascade, rng):
    forest = forest_of(rng, 3)
    with pytest.raises(ModelError, match="at least one layer"):
        Cascade((), 3)
    with pytest.raises(ModelError, match="knows 3 features, but the layer sees 4"):
        Cascade((Layer((forest,), NOTHING),), 4)
    with pytest.raises(ModelError, match="layer 1 has no models"):
        Cascade((Layer((), NOTHING),), 3)
    with pytest.raises(ModelError, match="the last has none"):
        Cascade((Layer((forest,), np.array([[0, WHOLE]])),), 3)
    with pytest.raises(ModelError, match=r"pairs \(model, part\)"):
        Layer((forest,), np.zeros((1, 3), np.int32))
    foreign = ForeignModel(rw.RandomForest(), 3)
    with pytest.raises(ModelError, match="names tree 0 of model 0, which has 0 trees"):
        Cascade((Layer((foreign,), np.array([[0, 0]])), cascade.layers[1]), 3)


def test_a_cascade_of_too_many_models_is_not_saved(rng, tmp_path):
    cascade = Cascade((Layer((forest_of(rng, 3),) * 1001, NOTHING),), 3)
    with pytest.raises(ModelError, match="1,001 models cannot be saved"):
        save_model(cascade, tmp_path / "m")


def test_forms_that_no_cascade_has(cascade):
    assert cascade.forms == ("scores",)
    for forms in ((), ("scores", "scores"), ("rank",)):
        with pytest.raises(ModelError, match="forms must be some of scores, standard, ranks, gaps"):
            Cascade(cascade.layers, cascade.n_features, forms=forms)
    record, arrays = KINDS["cascade"].to_arrays(cascade)
    assert "forms" not in record  # files of cascades that pass scores on are as they were
    for forms in ("ranks", [1], {}):
        with pytest.raises(ModelError, match="its forms must be a list"):
            KINDS["cascade"].from_arrays({**record, "forms": forms}, arrays, None)


def test_an_output_names_a_grade_that_is_there(rng):
    train = rw.make_ranking(6, 5, 3, seed=1)
    ordinal = rw.OrdinalRanker(rw.RandomForest(2, max_leaves=3)).fit(train).ordinal_
    n_grades = ordinal.grades.size
    last = Layer((forest_of(rng, 4),), NOTHING)
    whole = Cascade((Layer((ordinal,), np.array([[0, n_grades - 1]])), last), 3)
    assert whole.predict(train).shape == (train.n_documents,)
    with pytest.raises(ModelError, match=rf"names grade {n_grades} of model 0, which has"):
        Cascade((Layer((ordinal,), np.array([[0, n_grades]])), last), 3)
