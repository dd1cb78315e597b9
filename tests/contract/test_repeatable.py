"""The same data, parameters and seed give the same bytes: on any threads, in one fit or several, after a stop or a crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ParameterError
from rankwood.rankers.save import estimators
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


@pytest.mark.parametrize("case", asked_in_every_way())
def test_a_ranker_that_is_not_random_ignores_the_seed(case, data, other):
    one, two = (make(case, seed=seed) for seed in (0, 1))
    assert one.is_random == two.is_random
    if not one.is_random:
        assert_same_fit(two.fit(data, valid=other), one.fit(data, valid=other))


def test_which_rankers_are_random():
    """The table in docs/concepts/reproducibility.md, by default settings."""
    fixed = {name for name in CONTRACTS if not estimators()[name]().is_random}
    assert fixed == {"AdaBoost", "LambdaMART", "NDCGBoost", "RankBoost", "RankSVM"}
    table = (Path(__file__).parents[2] / "docs/concepts/reproducibility.md").read_text()
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    listed = {
        name.strip("` "): text.split()[0] for names, text in rows for name in names.split(",")
    }
    assert set(listed) == set(CONTRACTS)
    assert {name for name, text in listed.items() if text == "no"} == fixed


@pytest.mark.parametrize(
    ("ranker", "is_random"),
    [
        (rw.GBRT(), True),
        (rw.GBRT(features_per_node=None), False),
        (rw.GBRT(features_per_node=1.0), False),
        (rw.GBRT(features_per_node=1), True),
        (rw.LambdaMART(subsample=0.5), True),
        (rw.AveragedGBRT(n_runs=1, features_per_node=None), False),
        (rw.RandomForest(bag=None, features_per_node=None, max_leaves=9), False),
        (rw.RandomForest(bag=None, features_per_node=None), True),  # leaves are chosen on bags
        (rw.ExtraTrees(bag=None, features_per_node=None, max_leaves=9), True),
        (rw.AdaRank(), True),
        (rw.AdaRank(measure="ndcg@10[ties=average]"), False),
        (rw.OrdinalRanker(rw.GBRT(features_per_node=None)), False),
        (rw.OrdinalRanker(rw.GBRT()), True),
        (rw.OrdinalRanker(rw.GBRT(features_per_node=None, subsample=0.5)), True),
        (rw.Blend([rw.LambdaMART(), rw.RankSVM()]), False),
        (rw.Blend([rw.LambdaMART(), rw.RankSVM()], "per-document"), True),
    ],
)
def test_parameters_decide_what_is_random(ranker, is_random):
    assert ranker.is_random is is_random


@pytest.mark.parametrize("name", ["OrdinalRanker", "Blend"])
def test_a_seed_reaches_the_rankers_inside(name, data, other):
    one, same, another = (make(name, seed=seed).fit(data, valid=other) for seed in (5, 5, 6))
    assert_same_fit(one, same)
    assert not np.array_equal(one.predict(other), another.predict(other))
    # None leaves the parts theirs
    part = rw.RandomForest(3, max_leaves=6, seed=5)
    inner = [("a", part)] if name == "Blend" else part
    plain, seeded = (estimators()[name](inner).fit(data, valid=other) for _ in range(2))
    assert_same_fit(plain, seeded)
    given = estimators()[name](inner, seed=5).fit(data, valid=other)
    assert np.array_equal(given.predict(other), plain.predict(other))


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


@pytest.mark.parametrize("case", asked(of=with_parameter("warm_start")))
def test_a_warm_start_is_judged_on_the_validation_data_of_its_own_fit(case, data, other):
    """Whatever the fit before was judged on: its measures are of other data, or of fewer rounds."""
    length = contract_of(case).length
    every = {"early_stopping": None}
    once = make(case).fit(data, valid=other)
    for valid in (None, data):
        model = make(case, warm_start=True, **every, **{length: 2}).fit(data, valid=valid)
        model.set_params(early_stopping="best", **{length: 4}).fit(data, valid=other)
        assert model.history_ == once.history_
        assert model.best_iteration_ == once.best_iteration_
        assert model.forest_ == once.forest_
    model = make(case, warm_start=True, **every, **{length: 2}).fit(data, valid=other)
    model.set_params(early_stopping="best", **{length: 4}).fit(data)
    assert model.forest_ == make(case).fit(data).forest_
    assert (model.history_, model.best_iteration_) == ([], 4)


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
