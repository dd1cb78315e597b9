"""``LinearModel``: scores as the slow twin gives them, the same to the bit in any company; and its file."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import rankwood as rw
from rankwood.errors import DataError, ModelError
from rankwood.models.format import load_model, read_model, save_model
from rankwood.models.linear import LinearModel
from tests.reference import linear as reference
from tests.unit.test_model_file_hostile import edit_document, put_array

NAMES = ("a", "b", "c")


@pytest.fixture
def model():
    return LinearModel(
        np.array([0.5, -1.5, 0.0]),
        np.array([1.0, 2.0, 3.0]),
        np.array([2.0, 1.0, 9.0]),
        0.25,
        NAMES,
    )


def random_model(rng, n_features):
    weights = rng.normal(size=n_features) * rng.integers(0, 2, n_features)
    return LinearModel(weights, rng.normal(size=n_features), np.ones(n_features), 0.1)


@pytest.mark.parametrize("n_rows", [0, 1, 3, 4, 5, 31])
@pytest.mark.parametrize("n_features", [1, 2, 17])
def test_scores_equal_the_slow_twin_to_the_bit(rng, n_rows, n_features):
    model = random_model(rng, n_features)
    features = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    features[rng.random(features.shape) < 0.2] = np.nan
    expected = reference.linear_scores(features, model.weights, model.fill, model.intercept)
    assert model.predict(features).tolist() == expected


def test_a_row_scores_the_same_in_any_company_and_on_any_threads(rng, monkeypatch):
    monkeypatch.setattr("rankwood.models.linear._LEAST_TERMS", 1)
    model = random_model(rng, 13)
    features = rng.normal(size=(101, 13)).astype(np.float32)
    together = model.predict(features)
    for n_threads in (1, 2, 3):
        assert model.predict(features, n_threads=n_threads).tobytes() == together.tobytes()
    alone = [model.predict(features[row : row + 1])[0] for row in range(101)]
    assert alone == together.tolist()


def test_a_feature_without_a_weight_is_not_looked_at(model):
    features = np.array([[1, 2, np.inf], [1, 2, 7]], np.float32)
    assert model.predict(features).tolist() == [0.25 + 0.5 - 3.0] * 2


def test_infinite_values_are_refused_by_place(model):
    features = np.array([[1, 2, 3], [1, -np.inf, 3]], np.float32)
    with pytest.raises(DataError, match=r"features\[1, 1\] is -inf: a linear model needs finite"):
        model.predict(features)
    large = LinearModel(np.array([1e308]), np.zeros(1), np.ones(1))
    with pytest.raises(DataError, match="the score of row 0 is beyond floating point"):
        large.predict(np.full((1, 1), 1e3, np.float32))


def test_names_are_put_in_order(model):
    frame = pd.DataFrame({"c": [1.0], "b": [2.0], "a": [4.0]})
    assert model.predict(frame).tolist() == [0.25 + 2.0 - 3.0]
    with pytest.raises(DataError, match="the model does not know 'z'"):
        model.predict(frame.rename(columns={"c": "z"}))
    with pytest.raises(DataError, match="knows 3 features, but the data have 2"):
        model.predict(np.ones((1, 2)))


def test_importance_is_weight_in_units_of_spread(model):
    assert model.importance().tolist() == [1.0, 1.5, 0.0]


def test_equality_pickling_and_repr(model):
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert not again.weights.flags.writeable
    assert again != LinearModel(model.weights, model.fill, model.spread, 0.5, NAMES)
    assert again != "model"
    assert repr(model) == "LinearModel(2 of 3 features have a weight)"


def test_a_bare_model_is_saved_and_loaded(model, tmp_path):
    rw.save(model, tmp_path / "m.rankwood")
    assert rw.load(tmp_path / "m.rankwood") == model
    stored = read_model(tmp_path / "m.rankwood")
    assert (stored.kind, stored.meta["linear"]) == ("linear", {"intercept": 0.25})


@pytest.fixture
def path(model, tmp_path):
    save_model(model, tmp_path / "m.rankwood", {"training": {}})
    return tmp_path / "m.rankwood"


def change(name, **values):
    array = np.array([1.0, 2.0, 3.0])
    for place, value in values.items():
        array[int(place[1:])] = value
    return name, array


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (change("weights", _1=np.nan), r"weights\[1\] is nan; it must be finite"),
        (change("weights", _0=np.inf), r"weights\[0\] is inf; it must be finite"),
        (change("fill", _2=np.nan), r"fill\[2\] is nan; it must be finite"),
        (change("spread", _2=-np.inf), r"spread\[2\] is -inf; it must be finite"),
        (change("spread", _0=-1), r"spread\[0\] is -1; it must not be negative"),
        (("weights", np.ones(3, np.float32)), "weights must be an array of float64"),
        (("weights", np.ones(3, np.int64)), "weights must be an array of float64"),
        (("fill", np.ones((3, 1))), "with one dimension, got float64 of 2 dimensions"),
        (("weights", np.ones(4)), "fill has 3 values, but there are 4 features"),
        (("spread", np.ones(2)), "spread has 2 values, but there are 3 features"),
        (("weights", np.ones(0)), "weights has no values"),
        (("stowaway", np.ones(3)), "'stowaway' does not belong to a linear model"),
    ],
)
def test_arrays_that_are_no_linear_model(path, array, message):
    put_array(path, *array)
    with pytest.raises(ModelError, match=rf"m\.rankwood holds no usable linear model: .*{message}"):
        load_model(path)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.pop("linear"), "its record must hold intercept and nothing else"),
        (lambda d: d.update(linear=[]), "its record must hold intercept and nothing else"),
        (lambda d: d["linear"].update(more=1), "its record must hold intercept and nothing else"),
        (lambda d: d["linear"].update(intercept="0"), "intercept must be a finite number, got '0'"),
        (lambda d: d["linear"].update(intercept=True), "intercept must be a finite number"),
        (lambda d: d["linear"].update(intercept=None), "intercept must be a finite number"),
        (lambda d: d.update(feature_names=["a"]), "has 1 names, but there are 3 features"),
        (lambda d: d.update(feature_names=["a", "a", "b"]), "a name more than once"),
        (lambda d: d.update(kind="forest"), "holds no usable forest: its record must hold"),
        (lambda d: d.update(kind="spline"), "holds something of kind 'spline'.*Known: forest, lin"),
    ],
)
def test_documents_that_lie(path, edit, message):
    edit_document(path, edit)
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_an_array_that_is_missing(path, model):
    edit_document(path, lambda d: d.update(kind="linear"))
    stored = read_model(path)
    from rankwood.models.format import write_model

    arrays = {name: array for name, array in stored.arrays.items() if name != "fill"}
    write_model(path, "linear", dict(stored.meta), arrays)
    with pytest.raises(ModelError, match="holds no usable linear model: array 'fill' is missing"):
        load_model(path)


def test_meta_must_agree_with_the_model(model, tmp_path):
    with pytest.raises(ModelError, match="other feature_names than the linear model"):
        save_model(model, tmp_path / "m", {"feature_names": ["x", "y", "z"]})
    with pytest.raises(ModelError, match="meta must not hold 'linear'"):
        save_model(model, tmp_path / "m", {"linear": {}})
    with pytest.raises(ModelError, match="dict is not a model that a file can hold"):
        save_model({}, tmp_path / "m")


def test_an_estimator_made_of_another_kind_is_refused(model, tmp_path):
    save_model(model, tmp_path / "m", {"estimator": "GBRT", "parameters": {}})
    with pytest.raises(ModelError, match="another kind than GBRT: linear model"):
        rw.load(tmp_path / "m")
