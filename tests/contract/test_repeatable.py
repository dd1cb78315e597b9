"""The same data, parameters and seed give the same bytes: on any threads, in one fit or several, after a stop or a crash."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError
from tests.contract.rankers import (
    CONTRACTS,
    asked,
    asked_in_every_way,
    assert_same_fit,
    contract_of,
    fitted,
    make,
    saved,
    with_parameter,
)


class Stopped(Exception):
    """Raised by a callback, like a crash at that moment."""


def stop_at(iteration):
    def stop(news):
        if news.iteration == iteration:
            raise Stopped("now")

    return stop


@pytest.mark.usefixtures("many_threads")
@pytest.mark.parametrize("case", asked_in_every_way())
def test_the_same_bytes_for_any_number_of_threads(case, data, other, tmp_path):
    models = [make(case, n_threads=n).fit(data, valid=other) for n in (1, 2, 3)]
    one = saved(models[0], tmp_path / "1")
    for model in models[1:]:
        assert saved(model, tmp_path / "n") == one
        assert_same_fit(model, models[0])
        assert model.predict(other).tobytes() == models[0].predict(other).tobytes()


@pytest.mark.parametrize("name", asked())
def test_fitting_again_gives_the_same_bytes(name, data, other, tmp_path):
    once = fitted(name)
    again = make(name).fit(data)
    assert saved(again, tmp_path / "again") == saved(once, tmp_path / "once")
    # A fit on other data in between leaves no trace.
    again.fit(other).fit(data)
    assert saved(again, tmp_path / "again") == saved(once, tmp_path / "once")
    assert_same_fit(again, once)


@pytest.mark.parametrize("name", asked(of=lambda _, contract: contract.draws is not None))
def test_another_seed_gives_another_model(name, data):
    options = CONTRACTS[name].draws
    one, same, other = (make(name, **options, seed=seed).fit(data) for seed in (0, 0, 1))
    assert np.array_equal(one.predict(data), same.predict(data))
    assert not np.array_equal(one.predict(data), other.predict(data))


@pytest.mark.parametrize("case", asked_in_every_way(of=with_parameter("warm_start")))
def test_a_warm_start_equals_one_fit(case, data, other, tmp_path):
    length = contract_of(case).length
    every = {"early_stopping": None}  # else trees after the best one are discarded
    once = make(case, **every).fit(data, valid=other)
    model = make(case, warm_start=True, **every, **{length: 2}).fit(data, valid=other)
    rw.save(model, tmp_path / "model")
    model.set_params(**{length: 4}).fit(data, valid=other)
    assert_same_fit(model, once)
    loaded = rw.load(tmp_path / "model").set_params(warm_start=True, **{length: 4})
    assert loaded.fit(data, valid=other).forest_ == once.forest_
    with pytest.raises(ParameterError, match=f"{length} is 3, but the model to go on from has 4"):
        model.set_params(**{length: 3}).fit(data)
    narrow = rw.RankingData(data.features[:, :4], data.labels, data.query_ids)
    with pytest.raises(DataError, match="warm_start goes on with the same features"):
        model.set_params(**{length: 5}).fit(narrow)
    cold = model.set_params(warm_start=False, **{length: 2}).fit(data, valid=other)
    assert cold.forest_ == make(case, **every, **{length: 2}).fit(data, valid=other).forest_


@pytest.mark.usefixtures("checkpoint_at_once")
@pytest.mark.parametrize("with_valid", [False, True])
@pytest.mark.parametrize("case", asked_in_every_way(of=with_parameter("checkpoint")))
def test_a_stopped_fit_resumes_to_the_same_bytes(case, with_valid, data, other, tmp_path):
    valid = other if with_valid else None
    heard = []
    whole = make(case, progress=heard.append).fit(data, valid=valid)
    total = heard[-1].iteration
    path = tmp_path / "checkpoint"
    for moment in sorted({1, total // 2, total - 1}):
        with pytest.raises(Stopped, match="now"):
            make(case, checkpoint=path, callbacks=[stop_at(moment)]).fit(data, valid=valid)
    seen = []
    resumed = make(case, checkpoint=path, progress=seen.append, n_threads=1).fit(data, valid=valid)
    if "where a fit resumes" not in contract_of(case).exceptions:
        assert [news.iteration for news in seen] == [total]
    assert seen[0].iteration > 1
    assert {news.total for news in seen} == {news.total for news in heard}
    assert saved(resumed, tmp_path / "resumed") == saved(whole, tmp_path / "whole")
    assert_same_fit(resumed, whole)
    # A checkpoint that is finished gives the model at once.
    again = make(case, checkpoint=path, progress=seen.append, n_threads=2)
    n_seen = len(seen)
    again.fit(data, valid=valid)
    assert len(seen) == n_seen
    assert_same_fit(again, whole)
