"""Files that version 0.1 wrote load, score the same bytes, and are gone on with."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from sklearn.base import clone

import rankwood as rw
from rankwood.models.format import load_model, save_model
from tests.golden.first_version import (
    FOLDER,
    RANKERS,
    SCORES,
    STOPPED,
    STOPPED_AT,
    VERSION,
    checkpoint_file,
    model_file,
    parts,
    saved_digest,
)

KEPT = json.loads(SCORES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RANKERS)
def test_a_model_scores_as_it_did(name):
    model = rw.load(model_file(name))
    expected = np.array([float.fromhex(score) for score in KEPT["scores"][name].split()])
    assert model.predict(parts()[2]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", RANKERS)
def test_a_model_is_the_estimator_it_was(name):
    model, ranker = rw.load(model_file(name)), RANKERS[name]
    assert type(model).__name__ == type(ranker).__name__ == name.partition("-")[0]
    assert repr(clone(model)) == repr(clone(ranker))  # the parameters that are not defaults
    assert model.n_features_in_ == 4
    assert model.training_["version"] == VERSION
    assert model.feature_names_in_.tolist() == list(parts()[0].feature_names)


@pytest.mark.parametrize(("loss", "target"), [("lambda", "map"), ("gradient", "ndcg")])
def test_lambda_learned_the_measure_it_was_judged_by(loss, target, tmp_path):
    path = tmp_path / "model"
    rw.save(rw.BROOF(loss, 1, 2, measure="map", stop=None).fit(parts()[0]), path)
    forest, meta = load_model(path)
    del meta["parameters"]["target"]  # version 0.1 had no such parameter
    save_model(forest, path, meta)
    assert rw.load(path).target == target


MOVED = ("GBRT",)  # sums over rows are exact since: trees that are added differ in the last digits


@pytest.mark.parametrize("name", STOPPED)
def test_a_fit_goes_on_from_a_checkpoint(name, tmp_path):
    path = tmp_path / "checkpoint"
    shutil.copy(checkpoint_file(name), path)
    told = []
    ranker = clone(STOPPED[name]).set_params(checkpoint=path, callbacks=[told.append])
    train, valid, _ = parts()
    if rw.__version__ != VERSION:
        with pytest.raises(ValueError, match=f"belongs to version '{VERSION}'"):
            ranker.fit(train, valid=valid)
        return
    is_kept = saved_digest(ranker.fit(train, valid=valid)) == KEPT["finished"][name]
    assert is_kept == (name not in MOVED)
    assert told[0].iteration == STOPPED_AT + 1


def test_other_data_are_refused(tmp_path):
    path = tmp_path / "checkpoint"
    shutil.copy(checkpoint_file("GBRT"), path)
    ranker = clone(STOPPED["GBRT"]).set_params(checkpoint=path)
    with pytest.raises(ValueError, match=r"was made on other data|belongs to version"):
        ranker.fit(parts()[1], valid=parts()[1])


# Written before there was a first version, in the same format: see make_forest_v1, make_linear_v1, make_neural_v1.
@pytest.mark.parametrize(
    ("name", "estimator", "documents", "scores"),
    [
        (
            "forest-v1",
            "RandomForest",
            [[1.5, 0], [2, -0.25], [2, 0.5], [np.nan, np.nan], [2, np.nan]],
            [0.125, -0.125, 5.625, 10.125, 11.625],
        ),
        (
            "linear-v1",
            "RankSVM",
            [[4, 0.5, 9], [np.nan, 0.5, np.nan], [0, np.nan, np.inf]],
            [1.125, -0.375, -0.375],
        ),
        ("neural-v1", "MLPRanker", [[3, 0, 9], [np.nan, 0, np.nan]], [2.0, -1.125]),
    ],
)
def test_an_older_file_scores_as_it_did(name, estimator, documents, scores):
    model = rw.load(FOLDER.with_name(f"{name}.rankwood"))
    assert type(model).__name__ == estimator
    found = model.predict(np.array(documents, np.float32))
    np.testing.assert_allclose(found, scores, rtol=1e-6)


def test_no_file_is_forgotten():
    expected = {model_file(name) for name in RANKERS}
    expected |= {checkpoint_file(name) for name in STOPPED} | {SCORES}
    assert set(FOLDER.iterdir()) == expected
    assert sum(path.stat().st_size for path in expected) <= 120 * 1024
