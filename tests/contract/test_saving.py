"""Fitted rankers in files, in pickles and as copies: the same scores, the same parameters, the same record."""

from __future__ import annotations

import io
import pickle

import joblib
import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ModelError
from rankwood.models.format import load_model
from tests.contract.rankers import (
    asked,
    asked_in_every_way,
    assert_same_fit,
    fitted,
    make,
    plain_parameters,
    saved,
    with_parameter,
)

pytestmark = pytest.mark.jit_only  # kernels are asked by the other files

RECORDED = (
    "history_",
    "train_history_",
    "best_iteration_",
    "stopped_because_",
    "n_iter_",
    "n_rounds_",
)


@pytest.mark.parametrize("case", asked_in_every_way("comes back as itself"))
def test_a_saved_ranker_comes_back(case, data, other, tmp_path):
    model = fitted(case, with_valid=True)
    content = saved(model, tmp_path / "model")
    back = rw.load(tmp_path / "model")
    assert type(back) is type(model)
    assert plain_parameters(back) == plain_parameters(model)
    assert back.predict(other).tobytes() == model.predict(other).tobytes()
    assert back.feature_names_in_.tolist() == list(data.feature_names)
    assert back.n_features_in_ == 5
    record = {name: value for name, value in model.training_.items() if name != "seconds"}
    assert back.training_ == record
    assert (record["rows"], record["queries"], record["features"]) == (data.n_documents, 12, 5)
    for name in RECORDED:
        assert getattr(back, name, None) == getattr(model, name, None)
    importances = getattr(model, "feature_importances_", None)
    if importances is not None:
        assert np.array_equal(back.feature_importances_, importances)
    again = saved(back, tmp_path / "again")
    if not hasattr(model, "oob_ndcg_"):  # an out-of-bag figure stays with the fit
        assert again == content
    assert (
        load_model(tmp_path / "again")[1]["parameters"]
        == load_model(tmp_path / "model")[1]["parameters"]
    )
    assert np.array_equal(back.fit(data, valid=other).predict(other), model.predict(other))


@pytest.mark.parametrize("name", asked(of=with_parameter("max_bins")))
def test_numbers_of_numpy_become_plain_ones(name, data, tmp_path):
    model = make(name, max_bins=np.int64(30), n_threads=np.int32(1)).fit(data)
    rw.save(model, tmp_path / "model")
    back = rw.load(tmp_path / "model")
    assert back.max_bins == 30
    assert type(back.max_bins) is int


@pytest.mark.parametrize("name", asked())
def test_rankers_survive_pickle_and_joblib(name, other):
    model = fitted(name)
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(buffer)):
        assert np.array_equal(copy.predict(other), model.predict(other))
        assert plain_parameters(copy) == plain_parameters(model)
        assert_same_fit(copy, model)


@pytest.mark.parametrize("name", asked())
def test_unfitted_rankers_survive_pickle(name, data, other):
    copy = pickle.loads(pickle.dumps(make(name)))
    assert plain_parameters(copy) == plain_parameters(make(name))
    assert np.array_equal(copy.fit(data).predict(other), fitted(name).predict(other))


@pytest.mark.parametrize("name", asked())
def test_what_is_not_fitted_cannot_be_saved(name, tmp_path):
    with pytest.raises(ModelError, match="not fitted yet: there is nothing to save"):
        rw.save(make(name), tmp_path / "model")
    assert not (tmp_path / "model").exists()
