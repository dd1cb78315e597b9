"""Progress, callbacks, Ctrl-C and validation data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import rankwood as rw
from rankwood.errors import DataError, ParameterError
from tests.contract.rankers import (
    asked,
    assert_same_fit,
    contract_of,
    fitted,
    make,
    with_parameter,
)

pytestmark = pytest.mark.jit_only  # kernels are asked by the other files


@pytest.mark.parametrize("name", asked())
def test_listeners_hear_of_every_round(name, data, other):
    seen, heard = [], []
    # Only True stops: what else a callback gives does not count.
    callbacks = [lambda news: heard.append(news.iteration), str]
    model = make(name, progress=seen.append, callbacks=callbacks).fit(data, valid=other)
    assert [news.iteration for news in seen] == list(range(1, len(seen) + 1)) == heard
    assert len({news.total for news in seen}) == 1
    assert all(earlier.seconds <= later.seconds for earlier, later in itertools.pairwise(seen))
    if seen[-1].iteration == seen[-1].total:
        assert seen[-1].seconds_left == 0.0
    assert_same_fit(model, fitted(name, with_valid=True))  # to listen changes nothing


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("name", asked())
def test_a_callback_stops_the_fit(name, n_threads, data, other):
    heard = []

    def stop(news):
        heard.append(news.iteration)
        return news.iteration == 2

    model = make(name, callbacks=[stop], n_threads=n_threads).fit(data, valid=other)
    assert heard[:2] == [1, 2]
    if (
        name != "OrdinalRanker"
    ):  # it stops the model at hand, and goes on with that of the next grade
        assert heard == [1, 2]
    assert np.isfinite(model.predict(other)).all()
    if hasattr(model, "stopped_because_"):
        assert model.stopped_because_ == "a callback asked for it"


@pytest.mark.parametrize("name", asked("a shorter fit", of=lambda _, of: of.length))
def test_a_stopped_fit_is_a_shorter_one(name, data):
    length = contract_of(name).length
    stopped = make(name, callbacks=[lambda news: news.iteration == 2]).fit(data)
    shorter = make(name, **{length: 2}).fit(data)
    assert np.array_equal(stopped.predict(data), shorter.predict(data))


def raising(error):
    def callback(news):
        if news.iteration == 2:
            raise error

    return callback


def assert_left_as_it_was(name, error, data, other):
    """Whether a fit that ends in ``error`` leaves a fitted ranker fitted, and an unfitted one unfitted."""
    model = make(name).fit(data).set_params(callbacks=[raising(error)], n_threads=2)
    with pytest.raises(type(error), match=str(error.args[0])):
        model.fit(other)
    assert_same_fit(model, fitted(name))
    unfitted = make(name, callbacks=[raising(error)])
    with pytest.raises(type(error), match=str(error.args[0])):
        unfitted.fit(data)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        unfitted.predict(data)


@pytest.mark.parametrize("name", asked("an interrupt"))
def test_an_interrupt_leaves_the_ranker_as_it_was(name, data, other):
    assert_left_as_it_was(name, KeyboardInterrupt("Ctrl-C"), data, other)


@pytest.mark.parametrize("name", asked("an error"))
def test_an_error_in_a_callback_leaves_the_ranker_as_it_was(name, data, other):
    assert_left_as_it_was(name, KeyError("from a callback"), data, other)


@pytest.mark.parametrize("name", asked(of=with_parameter("measure")))
def test_validation_data_are_measured(name, data, other):
    seen = []
    model = make(name, progress=seen.append).fit(data, valid=other)
    if not getattr(model, "history_", None) or isinstance(model.history_[0], dict):
        pytest.skip("it records more than the measure")
    measure = rw.parse_measure(model.measure)
    expected = rw.evaluate(model, other, model.measure, n_bootstrap=0)[str(measure)].value
    known = [*model.history_, getattr(model, "forest_measure_", np.nan)]
    assert any(value == pytest.approx(expected, abs=1e-12) for value in known)
    told = [news.measure for news in seen if news.measure is not None]
    assert told == pytest.approx(model.history_) or not told


@pytest.mark.parametrize("name", asked())
def test_validation_columns_are_put_in_order(name, data, other):
    names = other.feature_names[::-1]
    turned = rw.RankingData(
        other.features[:, ::-1].copy(), other.labels, other.query_ids, feature_names=names
    )
    assert_same_fit(make(name).fit(data, valid=turned), fitted(name, with_valid=True))


@pytest.mark.parametrize("name", asked())
def test_wrong_validation_data_are_refused(name, data):
    wrong = [
        ("text", ParameterError, "valid must be RankingData or"),
        ((np.ones((2, 3)), [0, 1], [1, 1]), DataError, "valid has 3 features, but the training d"),
        ((np.ones((0, 5)), [], []), DataError, "valid has no rows"),
    ]
    for valid, error, message in wrong:
        with pytest.raises(error, match=message):
            make(name).fit(data, valid=valid)


@pytest.mark.parametrize("name", asked(of=with_parameter("measure")))
def test_a_measure_of_rankings_needs_queries_in_validation_data(name, data, other):
    with pytest.raises(DataError, match="no query ids"):
        make(name).fit(data, valid=(other.features, other.labels))


@pytest.mark.parametrize("name", asked(of=with_parameter("early_stopping")))
def test_early_stopping_keeps_the_best_rounds(name, data, other):
    with pytest.raises(ParameterError, match="early_stopping needs validation data"):
        make(name, early_stopping=1).fit(data)
    model = make(name, early_stopping=1).fit(data, valid=other)
    n_best = 1 + int(np.argmax(model.history_))
    assert n_best <= len(model.history_) <= n_best + 1
    if model.best_iteration_:  # 0 where nothing is ahead of what the rounds start from
        assert max(model.history_) == model.history_[model.best_iteration_ - 1]
    again = rw.refit(model, data, other)
    assert again.early_stopping is None
    assert again.training_["rows"] == data.n_documents + other.n_documents
    assert again.training_["queries"] == data.n_queries + other.n_queries


@pytest.mark.parametrize("name", asked())
def test_refit_needs_a_fitted_ranker(name, data, other):
    with pytest.raises(ParameterError, match="not fitted yet: refit needs to know what was chosen"):
        rw.refit(make(name), data, other)
    assert (
        rw.refit(fitted(name), data, other).training_["rows"]
        == data.n_documents + other.n_documents
    )
