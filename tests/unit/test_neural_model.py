"""``NeuralModel``: scores as the slow twin gives them, the same to the bit in any company; its file; no PyTorch."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import rankwood as rw
from rankwood.errors import DataError, MissingExtra, ModelError, ParameterError
from rankwood.models.format import load_model, save_model
from rankwood.models.neural import NeuralModel, layer_outputs
from rankwood.rankers.mlp import QueryLists, Standards, gains_over_ideal, widths_of
from tests.reference import ndcg_loss2 as reference
from tests.unit.test_model_file_hostile import edit_document, put_array


def network(rng, *widths, **changes):
    widths = np.array([*widths, 1], np.int64)
    parts = {
        "widths": widths,
        "weights": rng.normal(size=int((widths[:-1] * widths[1:]).sum())).astype(np.float32),
        "biases": rng.normal(size=int(widths[1:].sum())).astype(np.float32),
        "centre": rng.normal(size=widths[0]),
        "spread": rng.random(widths[0]) + 0.5,
        "is_skewed": rng.integers(0, 2, widths[0]).astype(np.uint8),
    }
    return NeuralModel(**(parts | changes))


def by_hand(model, features):
    """Standardised number by number, then layer by layer with the slow twin."""
    values = np.zeros(features.shape, np.float32)
    for row, feature in np.ndindex(features.shape):
        value = float(features[row, feature])
        if math.isnan(value) or model.spread[feature] == 0:
            continue
        if model.is_skewed[feature]:
            value = math.copysign(math.log1p(abs(value)), value)
        values[row, feature] = (value - model.centre[feature]) * (1 / model.spread[feature])
    for number, (weights, biases) in enumerate(model.layers, 1):
        values = reference.layer_outputs(values, weights, biases, number < len(model.layers))
    return values[:, 0].astype(float)


@pytest.mark.parametrize("widths", [(1,), (3,), (4, 5), (2, 9, 3)])
@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 9])
def test_scores_equal_the_slow_twin(rng, widths, n_rows):
    model = network(rng, *widths)
    features = rng.normal(size=(n_rows, widths[0])).astype(np.float32) * 3
    features[rng.random(features.shape) < 0.2] = np.nan
    expected = by_hand(model, features) if n_rows else []
    np.testing.assert_allclose(model.predict(features), expected, rtol=1e-6, atol=1e-6)


def test_kernel_equals_the_slow_twin_to_the_bit(rng):
    inputs = rng.normal(size=(11, 6)).astype(np.float32)
    inputs[rng.random(inputs.shape) < 0.3] = 0.0
    weights = rng.normal(size=(6, 5)).astype(np.float32)
    biases = rng.normal(size=5).astype(np.float32)
    arguments = [np.asarray(array) for array in (inputs, weights, biases)]
    for array in arguments:
        array.flags.writeable = False
    for is_hidden in (False, True):
        outputs = np.empty((11, 5), np.float32)
        layer_outputs(0, 11, *arguments, is_hidden, outputs)
        expected = reference.layer_outputs(*arguments, is_hidden)
        assert outputs.tolist() == expected.tolist()


def test_a_row_scores_the_same_in_any_company_and_on_any_threads(rng, monkeypatch):
    monkeypatch.setattr("rankwood.models.neural._LEAST_ROWS", 1)
    model = network(rng, 6, 17, 9)
    features = rng.normal(size=(101, 6)).astype(np.float32)
    together = model.predict(features)
    for n_threads in (1, 2, 3):
        assert model.predict(features, n_threads=n_threads).tobytes() == together.tobytes()
    alone = [model.predict(features[row : row + 1])[0] for row in range(101)]
    assert alone == together.tolist()
    monkeypatch.setattr("rankwood.models.neural._ROWS_AT_ONCE", 10)
    assert model.predict(features).tobytes() == together.tobytes()


def test_a_constant_feature_and_a_missing_value_enter_as_zero(rng):
    model = network(rng, 2, 4, spread=np.array([0.0, 1.0]), is_skewed=np.zeros(2, np.uint8))
    same = model.predict(np.array([[1, 5], [-7, 5], [np.nan, 5]], np.float32))
    assert len(set(same.tolist())) == 1
    at_mean = np.array([[0, np.nan], [0, np.float32(model.centre[1])]], np.float32)
    np.testing.assert_allclose(*model.predict(at_mean), rtol=1e-6)


def test_names_are_put_in_order(rng):
    model = network(rng, 2, 3, feature_names=("a", "b"))
    frame = pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]})
    assert model.predict(frame).tolist() == model.predict(frame[["a", "b"]].to_numpy()).tolist()
    with pytest.raises(DataError, match="the data lack 'a'"):
        model.predict(frame.rename(columns={"a": "c"}))


def test_infinite_values_and_scores_are_refused(rng):
    model = network(rng, 2, 3)
    features = np.ones((3, 2), np.float32)
    for value in (np.inf, -np.inf):
        features[1, 1] = value
        with pytest.raises(DataError, match=r"features\[1, 1\] is -?inf: a neural network"):
            model.predict(features)
    huge = network(rng, 1, weights=np.full(1, 3e38, np.float32), is_skewed=np.zeros(1, np.uint8))
    with pytest.raises(DataError, match="score of row 0 is beyond"):
        huge.predict(np.full((1, 1), 1e30, np.float32))


def test_saved_loaded_and_pickled_to_the_same_bits(rng, tmp_path):
    model = network(rng, 3, 8, 4, feature_names=("a", "b", "c"))
    save_model(model, tmp_path / "m.rankwood")
    loaded, _ = load_model(tmp_path / "m.rankwood")
    features = rng.normal(size=(20, 3)).astype(np.float32)
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        assert other == model
        assert other.predict(features).tobytes() == model.predict(features).tobytes()
        assert not other.weights.flags.writeable
    assert repr(model) == "NeuralModel(3-8-4-1)"
    assert model != network(rng, 3, 8, 4)
    assert rw.load(tmp_path / "m.rankwood") == model  # a bare model


ONE = np.ones(1)


@pytest.mark.parametrize(
    ("name", "array", "match"),
    [
        ("widths", np.array([2, 3, 2]), "the last layer has one"),
        ("widths", np.array([2, 0, 1]), "at least 1 each"),
        ("widths", np.array([2]), "widths must be"),
        ("widths", np.zeros(0, np.int64), "widths must be"),
        ("widths", np.array([-2, 3, 1]), "at least 1 each"),
        ("widths", np.array([2**62, 2**62, 1]), "weights has 9 values, but these widths need"),
        ("widths", np.array([2, 4, 1]), "weights has 9 values, but these widths need 12"),
        ("widths", np.array([2.0, 3.0, 1.0]), "widths must be an array of int64"),
        ("weights", np.full(9, np.nan, np.float32), r"weights\[0\] is nan"),
        ("weights", np.ones(9), "weights must be an array of float32"),
        ("weights", np.ones((3, 3), np.float32), "with one dimension"),
        ("biases", np.ones(3, np.float32), "biases has 3 values"),
        ("centre", np.array([1.0, np.inf]), r"centre\[1\] is inf"),
        ("spread", np.array([1.0, -1.0]), r"spread\[1\] is -1"),
        ("is_skewed", np.array([0, 2], np.uint8), "is_skewed must be 0 or 1"),
        ("more", ONE, "array 'more' does not belong to a neural network"),
    ],
)
def test_hostile_files_are_refused(rng, tmp_path, name, array, match):
    path = tmp_path / "m.rankwood"
    save_model(network(rng, 2, 3), path)
    put_array(path, name, array)
    with pytest.raises(ModelError, match=match):
        load_model(path)


def test_a_record_with_more_or_names_of_another_number_are_refused(rng, tmp_path):
    path = tmp_path / "m.rankwood"
    save_model(network(rng, 2, 3), path)
    for record, match in (
        ({"code": "import os"}, "record must hold activation and nothing else"),
        (None, "record must hold"),
        ({"activation": "tanh"}, "activation must be 'relu', got 'tanh'"),
    ):
        edit_document(path, lambda document, record=record: document.update(neural=record))
        with pytest.raises(ModelError, match=match):
            load_model(path)
    edit_document(
        path,
        lambda document: document.update(neural={"activation": "relu"}, feature_names=["a"]),
    )
    with pytest.raises(ModelError, match="feature_names has 1 names"):
        load_model(path)


def test_standards_of_skewed_constant_and_missing_features(rng):
    n_rows = 500
    columns = [
        rng.normal(size=n_rows) + 3,
        np.exp(rng.normal(size=n_rows) * 2),  # lognormal: skewed, and less so by its logarithm
        np.full(n_rows, 7.0),
        np.full(n_rows, np.nan),
    ]
    features = np.stack(columns, axis=1).astype(np.float32)
    features[::3, 0] = np.nan
    standards = Standards.of(features, None)
    assert standards.is_skewed.tolist() == [0, 1, 0, 0]
    present = features[:, 0][~np.isnan(features[:, 0])].astype(float)
    assert standards.centre[0] == pytest.approx(present.mean())
    assert standards.spread[0] == pytest.approx(present.std())
    assert standards.spread[2:].tolist() == [0, 0]
    applied = standards.apply(features)
    assert np.isfinite(applied).all()
    assert applied[:, 1].mean() == pytest.approx(0, abs=1e-5)
    assert applied[:, 1].std() == pytest.approx(1, abs=1e-5)
    assert applied[::3, 0].tolist() == [0.0] * len(applied[::3])
    # A row of weight 2 counts as two rows, one of weight 0 not at all.
    weights = rng.integers(0, 3, n_rows).astype(float)
    copies = Standards.of(np.repeat(features, weights.astype(int), axis=0), None)
    weighted = Standards.of(features, weights)
    np.testing.assert_allclose(weighted.centre, copies.centre, rtol=1e-12)
    np.testing.assert_allclose(weighted.spread, copies.spread, rtol=1e-12)


def test_gains_over_ideal_by_hand():
    # Labels 0, 2, 1: gains 0, 3, 1; ideal DCG 3 + 1 / log2(3). A list without gain has none; nor do huge labels overflow.
    labels = np.array([0.0, 2.0, 1.0, 0.0, 0.0, 5000.0, 4999.0])
    found = gains_over_ideal(labels, np.array([0, 3, 5, 7]))
    ideal = 3 + 1 / math.log2(3)
    np.testing.assert_allclose(found[:3], [0, 3 / ideal, 1 / ideal], rtol=1e-14)
    assert found[3:5].tolist() == [0, 0]
    huge = 1 + 0.5 / math.log2(3)  # relative to 2^5000
    np.testing.assert_allclose(found[5:], [1 / huge, 0.5 / huge], rtol=1e-14)


def test_batches_hold_every_list_once_and_draw_from_long_ones(rng, monkeypatch):
    monkeypatch.setattr("rankwood.rankers.mlp._PAIRS_AT_ONCE", 100)
    data = rw.make_ranking(n_queries=20, docs_per_query=9, n_features=3, seed=1)
    lists = QueryLists.of(data, Standards.of(data.features, None))
    assert all(np.ptp(data.labels[rows]) > 0 for rows in lists.lists)
    for most in (5, 1000):
        chunks = [chunk for batch in lists.batches(0, 6, most, 3) for chunk in batch]
        assert sum(chunk.n_lists for chunk in chunks) == len(lists.lists)
        rows = np.concatenate([chunk.rows for chunk in chunks])
        assert len(set(rows.tolist())) == rows.size
        assert rows.size == sum(min(most, each.size) for each in lists.lists)
        for chunk in chunks:
            assert chunk.n_lists == 1 or chunk.n_lists * chunk.longest**2 <= 100
            assert chunk.slots.max() < chunk.n_lists * chunk.longest
            list_of = chunk.slots // chunk.longest
            assert all(
                len(set(data.query_of_row[chunk.rows[list_of == number]])) == 1
                for number in range(chunk.n_lists)
            )
    first = [chunk.rows.tolist() for batch in lists.batches(0, 6, 5, 3) for chunk in batch]
    again = [chunk.rows.tolist() for batch in lists.batches(0, 6, 5, 3) for chunk in batch]
    other = [chunk.rows.tolist() for batch in lists.batches(1, 6, 5, 3) for chunk in batch]
    assert first == again != other


def test_hidden_layers_as_numbers_or_text():
    assert widths_of((3, 2)) == widths_of([3, 2]) == widths_of("3-2") == widths_of("3,2") == (3, 2)
    assert widths_of(4) == widths_of(np.int64(4)) == widths_of("4") == (4,)
    for wrong in ((), "", "a-b", (0,), (-1,), (1.5,), None, 2.5, (True,), (10**9,)):
        with pytest.raises(ParameterError, match="hidden must be numbers of units"):
            widths_of(wrong)


def test_wrong_parameters_are_named_with_or_without_torch():
    for parameters, match in (
        ({"dropout": 1.0}, "dropout must be"),
        ({"learning_rate": 0}, "learning_rate must be"),
        ({"n_epochs": 0}, "n_epochs must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"max_list": 1}, "max_list must be"),
        ({"sigma": -1}, "sigma must be"),
        ({"mu": math.nan}, "mu must be"),
        ({"early_stopping": 0}, "early_stopping must be"),
        ({"device": "tpu"}, "device 'tpu' is not known"),
        ({"measure": "rmse"}, "rmse says nothing"),
        ({"seed": -1}, "seed must be"),
    ):
        with pytest.raises(ParameterError, match=match):
            rw.MLPRanker(**parameters).fit([[1.0], [2.0]], [0, 1], [1, 1])


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # what an import of it then finds: nothing
    with pytest.raises(MissingExtra, match=r"pip install 'rankwood\[neural\]'"):
        rw.MLPRanker(n_epochs=1).fit([[1.0], [2.0]], [0, 1], [1, 1])


def test_nothing_but_training_imports_torch(rng, tmp_path):
    save_model(network(rng, 2, 3), tmp_path / "m.rankwood")
    code = (
        "import sys, rankwood as rw, rankwood.cli.main, rankwood.studies.warm_up\n"
        "rw.MLPRanker()\n"
        f"model = rw.load({str(tmp_path / 'm.rankwood')!r})\n"
        "model.predict([[1.0, 2.0]])\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
