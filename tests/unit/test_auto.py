"""AutoRanker: the order of trials, how they are judged, time, choices, blends, what is recorded, and bad input."""

from __future__ import annotations

import math
import os
import time as clock

import numpy as np
import pytest
from sklearn.base import clone

import rankwood as rw
from rankwood.errors import DataError, ParameterError
from rankwood.studies import auto
from rankwood.studies.auto import Search, blend_champions, choose
from rankwood.studies.trials import (
    DONE,
    NOT_BEGUN,
    OUT_OF_TIME,
    SPACES,
    Limit,
    OnFolds,
    OnValidation,
    OutOfTime,
    TrainingPart,
    Trial,
    propose,
    seconds_of,
    space_of,
)
from rankwood.training.blending import HeldOut
from rankwood.training.rounds import Progress

pytestmark = pytest.mark.jit_only  # no kernels of its own

FOREST = rw.RandomForest(3, max_leaves=6)
SMALL = {"time": None, "n_folds": 2, "n_threads": 1}


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(24, 10, 5, seed=3)


@pytest.fixture(scope="module")
def valid():
    return rw.make_ranking(20, 10, 5, seed=4)


def fit(data, valid=None, **options):
    options = SMALL | {"candidates": [FOREST], "n_trials": 1} | options
    return rw.AutoRanker(**options).fit(data, valid=valid)


def judging_of(data, n_folds=3):
    measure = rw.parse_measure("ndcg@10")
    return OnFolds(data, measure, n_folds=n_folds, seed=0, n_threads=1)


class Slow(rw.RandomForest):
    """A forest whose trees take their time."""

    _signature = rw.RandomForest._signature

    def _fit(self, train, valid):
        clock.sleep(0.05)
        super()._fit(train, valid)
        for callback in self.callbacks:
            callback(Progress(1, 2, 0.05, 0.05))


class NeverRight(rw.RandomForest):
    """A forest that ranks documents the wrong way round."""

    _signature = rw.RandomForest._signature

    def predict(self, X):
        return -super().predict(X)


# What is tried.


def test_candidates_come_first_and_then_tuned_settings_of_the_leaders(data):
    candidates = {"one": FOREST, "two": rw.ExtraTrees(2), "three": rw.RankSVM()}
    model = fit(data, candidates=candidates, n_trials=7, blend=False)
    names = [trial["name"] for trial in model.trials_]
    assert names[:3] == list(candidates)
    assert len(names) == 7
    assert all(trial["parameters"] == {} for trial in model.trials_[:3])
    assert all(trial["parameters"] for trial in model.trials_[3:])
    tried = [(trial["name"], sorted(trial["parameters"].items())) for trial in model.trials_]
    assert len({str(each) for each in tried}) == 7
    assert model.stopped_because_ == auto.ALL_TRIALS


def test_the_best_candidate_is_chosen(data, valid):
    bad = NeverRight(3, max_leaves=6)
    for part in (None, valid):
        model = fit(data, part, candidates={"bad": bad, "good": FOREST}, n_trials=2, blend=False)
        assert [trial["chosen"] for trial in model.trials_] == [False, True]
        assert model.trials_[0]["mean"] < model.trials_[1]["mean"]


def test_a_trial_on_validation_data_is_a_plain_fit(data, valid):
    model = fit(data, valid)
    alone = clone(FOREST).set_params(n_threads=1).fit(data, valid=valid)
    assert np.array_equal(model.predict(valid), alone.predict(valid))
    expected = rw.evaluate(alone, valid, "ndcg@10", n_bootstrap=1000)["ndcg@10"]
    trial = model.trials_[0]
    assert trial["mean"] == pytest.approx(expected.value)
    assert (trial["low"], trial["high"]) == pytest.approx(expected.interval)
    assert model.judged_on_.startswith("the validation data")


def test_trials_on_folds_score_each_query_by_models_that_have_not_seen_it(data):
    judging = judging_of(data)
    trial = judging.judge(Trial("forest", {}, FOREST), None)
    expected = np.empty(data.n_documents)
    for fold in range(3):
        rows = judging.fold_of_row == fold
        model = clone(FOREST).fit(data.take_rows(~rows))
        expected[rows] = model.predict(data.features[rows])
    assert np.array_equal(trial.scores, expected)
    queries = [set(data.query_of_row[judging.fold_of_row == fold]) for fold in range(3)]
    assert sum(map(len, queries)) == data.n_queries
    model = fit(data, n_folds=3)
    assert model.trials_[0]["mean"] == pytest.approx(trial.mean)
    assert np.array_equal(model.predict(data), clone(FOREST).fit(data).predict(data))  # all data


def test_boosting_stops_on_queries_set_apart_and_is_fitted_to_all(data):
    boosting = rw.GBRT(20, early_stopping=3, max_leaves=3, min_leaf=3)
    model = fit(data, candidates=[boosting], n_folds=3)
    chosen = model.ranker_
    assert chosen.early_stopping is None
    assert 1 <= chosen.n_trees <= 20
    assert chosen.training_["rows"] == data.n_documents
    again = clone(boosting).set_params(n_trees=chosen.n_trees, early_stopping=None).fit(data)
    assert np.array_equal(model.predict(data), again.predict(data))


def test_what_the_user_has_set_is_not_tuned():
    assert set(space_of(rw.RandomForest(5))) == set(SPACES["RandomForest"])
    assert "max_leaves" not in space_of(rw.RandomForest(5, max_leaves=7))
    assert space_of(rw.AdaRank()) == {}


@pytest.mark.parametrize("kind", SPACES)
def test_every_value_of_a_space_can_be_set(kind):
    for name, values in SPACES[kind].items():
        for value in values:
            getattr(rw, kind)(**{name: value})._check_parameters()


def test_proposals_are_new_and_end_when_all_is_tried():
    tried, forest = [{}], rw.RankSVM()
    generator = np.random.default_rng(0)
    while (changes := propose(forest, {}, tried, generator)) is not None:
        assert changes not in tried
        tried.append(changes)
    assert len(tried) == len(SPACES["RankSVM"]["C"])


def test_the_search_ends_when_every_setting_was_tried(data):
    model = fit(data, candidates=[rw.RankSVM()], n_trials=100)
    assert len(model.trials_) == len(SPACES["RankSVM"]["C"])
    assert model.stopped_because_ == auto.NOTHING_LEFT


# What is chosen.


def trial_of(judging, name, scores):
    return judging.measured(Trial(name, {}, FOREST, scores=scores))


def test_a_tuned_setting_must_be_clearly_ahead(data, rng):
    judging = judging_of(data)
    noise = rng.normal(size=data.n_documents)
    first = trial_of(judging, "a", data.labels + 2 * noise)
    better = trial_of(judging, "a", data.labels + 0.1 * noise)
    search = Search({"a": FOREST}, judging, auto.Clock(None), 0)
    search.trials = [first, better]
    assert judging.is_ahead(better, first)
    assert not judging.is_ahead(first, better)
    assert not judging.is_ahead(first, first)
    assert search.champions() == [better]
    # Ahead on one query alone: the difference is its own standard error.
    scores = first.scores.copy()
    values = np.where(first.values > 0, first.values, np.inf)  # others have no relevant document
    rows = data.query_of_row == int(np.argmin(values))
    scores[rows] = data.labels[rows]
    lucky = trial_of(judging, "a", scores)
    assert lucky.mean > first.mean
    search.trials = [first, lucky]
    assert search.champions() == [first]


def test_the_guard_is_the_standard_error_of_paired_differences(data, rng):
    judging = judging_of(data)
    one, other = (trial_of(judging, "a", rng.normal(size=data.n_documents)) for _ in range(2))
    for shift in np.linspace(-0.2, 0.2, 9):
        one.values = other.values + rng.normal(shift, 0.3, data.n_queries)
        gains = one.values - other.values
        error = gains.std(ddof=1) / math.sqrt(gains.size)
        assert judging.is_ahead(one, other) == (gains.mean() > error)


def test_parts_that_err_independently_are_blended(data, rng):
    judging = judging_of(data)
    trials = [
        trial_of(judging, name, data.labels + 1.5 * rng.normal(size=data.n_documents))
        for name in "abc"
    ]
    champions = sorted(trials, key=judging.rank, reverse=True)
    blend, is_ahead = blend_champions(champions, champions[0], champions[0], judging)
    assert is_ahead
    assert blend.mean > champions[0].mean
    assert blend.weights.sum() == pytest.approx(1)
    assert (blend.weights >= 0).all()
    # Three copies of one ranker are no better than one.
    copies = [trial_of(judging, name, trials[0].scores) for name in "abc"]
    assert blend_champions(copies, copies[0], copies[0], judging)[1] is False
    assert blend_champions(copies[:1], copies[0], copies[0], judging) == (None, False)
    # A blend that is below the leader does not take its place, whatever the simple leader is.
    perfect = trial_of(judging, "d", data.labels)
    worst = trial_of(judging, "e", -data.labels)
    assert blend_champions(trials, perfect, worst, judging)[1] is False


def test_a_tuned_leader_must_be_clearly_ahead_of_the_best_candidate(data, rng):
    judging = judging_of(data)
    simple = trial_of(judging, "a", data.labels + 2 * rng.normal(size=data.n_documents))
    perfect = trial_of(judging, "b", data.labels)
    assert choose([perfect, simple], simple, judging) is perfect
    assert choose([simple], simple, judging) is simple
    scores = simple.scores.copy()
    values = np.where(simple.values > 0, simple.values, np.inf)
    rows = data.query_of_row == int(np.argmin(values))
    scores[rows] = data.labels[rows]
    lucky = trial_of(judging, "b", scores)  # ahead on one query
    assert choose([lucky, simple], simple, judging) is simple


def test_weights_of_a_blend_are_judged_on_other_queries(data, rng):
    """Labels of one fold cannot raise the blend's own value there: its weights come from the other folds."""
    judging = judging_of(data)
    noise = rng.normal(size=(data.n_documents, 2))
    parts = [
        trial_of(judging, name, data.labels + each)
        for name, each in zip("ab", noise.T, strict=True)
    ]
    rows = judging.fold_of_row == 0
    relabelled = np.where(rows, data.labels[::-1], data.labels)
    again = judging_of(rw.RankingData(data.features, relabelled, data.query_ids))
    scores = np.stack([part.scores for part in parts], axis=1)
    one, other = (
        auto._blend_trial(parts, HeldOut(each.data, scores), "least squares", each).scores
        for each in (judging, again)
    )
    assert np.array_equal(one[rows], other[rows])
    assert not np.array_equal(one[~rows], other[~rows])


def test_a_blend_is_one_model_that_can_be_saved_and_exported(data, valid, tmp_path, monkeypatch):
    monkeypatch.setattr(auto.Judging, "is_ahead", lambda _, one, other: one is not other)
    boosting = rw.GBRT(4, 4, 0.1, early_stopping=2, features_per_node=None)
    candidates = {"forest": FOREST, "boosting": boosting}
    for part in (valid, None):
        model = fit(data, part, candidates=candidates, n_trials=2)
        assert isinstance(model.ranker_, rw.Blend)
        assert model.trials_[-1]["name"] == "blend"
        assert model.trials_[-1]["chosen"]
        assert set(model.ranker_.held_out_) == {"forest", "boosting", "blend"}
        rw.save(model, tmp_path / "model")
        back = rw.load(tmp_path / "model")
        assert isinstance(back, rw.Blend)
        assert np.array_equal(back.predict(valid), model.predict(valid))
        rw.export(model.ranker_, tmp_path / "model.txt", "lightgbm", verify=valid)
        again = rw.refit(model, data, valid)
        assert again.training_["rows"] == data.n_documents + valid.n_documents


def test_without_blends_one_ranker_is_chosen(data, valid):
    model = fit(data, valid, candidates=[FOREST, rw.ExtraTrees(3)], n_trials=2, blend=False)
    assert [trial["name"] for trial in model.trials_] == ["RandomForest", "ExtraTrees"]


# Time.


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (5, 5.0),
        (0.5, 0.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("1.5m", 90.0),
        ("1 h", 3600.0),
    ],
)
def test_time_is_a_number_or_a_text(value, seconds):
    assert seconds_of(value) == seconds


def test_the_time_is_kept_and_a_model_comes_back(data, valid):
    start = clock.perf_counter()
    model = fit(data, valid, candidates=[Slow(2, max_leaves=4)], n_trials=None, time=0.6)
    assert clock.perf_counter() - start < 0.6 * 1.2 + 10.0  # a loaded machine
    assert model.stopped_because_ == auto.TIME_IS_UP
    assert len(model.trials_) >= 1
    assert np.isfinite(model.predict(data)).all()


def test_a_time_that_is_too_short_gives_the_first_candidate(data):
    model = fit(data, candidates=[Slow(2), FOREST], n_trials=None, time=1e-6)
    assert model.judged_on_ == auto.TOO_SHORT
    assert isinstance(model.ranker_, Slow)
    assert math.isnan(model.trials_[-1]["mean"])
    assert np.isfinite(model.predict(data)).all()
    assert auto.TOO_SHORT in str(model.report())


def test_a_trial_that_takes_too_long_is_given_up(data, valid):
    judging = judging_of(data)
    trial = judging.judge(Trial("slow", {}, Slow(2)), 0.01)
    assert trial.outcome == OUT_OF_TIME
    assert not trial.is_done
    # The others go on.
    model = fit(data, valid, candidates=[FOREST, Slow(2)], n_trials=2, time=60)
    assert [each["outcome"] for each in model.trials_[:2]] == [DONE, DONE]


def test_with_validation_data_a_fit_that_takes_too_long_is_judged_as_it_is(data, valid):
    part = TrainingPart(data, 1)
    measure = rw.parse_measure("ndcg@10")
    judging = OnValidation(part, valid, measure, n_folds=2, seed=0)
    trial = judging.judge(Trial("forest", {}, rw.RandomForest(50, n_threads=1)), 1e-9)
    assert trial.is_done
    assert trial.record()["cut_short"]
    assert 1 <= trial.fitted.forest_.n_trees < 50
    assert not judging.judge(Trial("forest", {}, FOREST), 60.0).is_cut


def test_a_candidate_is_not_begun_where_an_earlier_one_took_longer_than_is_left(data):
    search = Search({"a": Slow(2), "b": FOREST}, judging_of(data), auto.Clock(100.0), 0)
    trial, limit = search.next_trial()
    assert trial.name == "a"
    assert limit == pytest.approx(50.0, abs=1.0)
    search.run(trial, limit)
    search.clock.seconds = search.clock.spent + trial.seconds
    following = search.next_trial()
    assert following is None
    assert search.nothing_left == auto.TIME_IS_UP
    assert search.trials[-1].name == "b"
    assert search.trials[-1].outcome == NOT_BEGUN


def test_a_hopeless_fit_is_given_up_before_its_time_is_over():
    limit = Limit(10.0)
    limit(Progress(1, 100, 1.0, 1e6))  # it is too early to say
    limit._start -= 3.0
    limit(Progress(1, 100, 3.0, 12.0))
    with pytest.raises(OutOfTime, match=r"^$"):
        limit(Progress(1, 100, 3.0, 100.0))


def test_progress_estimates_how_many_trials_there_will_be(data, valid):
    heard = []
    stop = [lambda news: news.iteration == 3]
    fit(data, valid, n_trials=None, time=60, progress=heard.append, callbacks=stop)
    assert [news.iteration for news in heard] == [1, 2, 3]
    assert all(news.total > 3 for news in heard)
    assert all(news.unit == "trial" for news in heard)
    assert heard[0].notes["best"] == heard[0].measure


def test_ctrl_c_keeps_the_best_so_far(data, valid):
    def interrupt(news):
        if news.iteration == 2:
            raise KeyboardInterrupt

    model = fit(data, valid, n_trials=9, callbacks=[interrupt])
    assert model.stopped_because_ == auto.INTERRUPTED
    assert len([trial for trial in model.trials_ if trial["name"] != "blend"]) == 2
    assert np.isfinite(model.predict(valid)).all()


def test_ctrl_c_before_the_first_trial_is_done_ends_the_fit(data):
    class Interrupted(rw.RandomForest):
        _signature = rw.RandomForest._signature

        def _fit(self, *_):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, candidates=[Interrupted(2)])


# What is recorded.


def test_the_same_trials_can_be_made_again_from_the_file(data, tmp_path):
    model = fit(data, candidates=[FOREST, rw.RankSVM()], n_trials=4, seed=5)
    rw.save(model, tmp_path / "model")
    record = rw.load(tmp_path / "model").training_["auto"]
    candidates = {
        name: getattr(rw, each["estimator"])(**each["parameters"])
        for name, each in record["candidates"].items()
    }
    again = rw.AutoRanker(candidates=candidates, **record["settings"]).fit(data)
    rw.save(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert [trial["name"] for trial in record["trials"]] == [t["name"] for t in model.trials_]
    assert all("seconds" not in trial for trial in record["trials"])


def test_the_report_is_a_table_a_page_and_numbers(data, valid, tmp_path):
    model = fit(data, valid, candidates=[FOREST, rw.RankSVM()], n_trials=3)
    report = model.report()
    text = str(report)
    assert "→" in text
    assert "95 % interval" in text
    assert "RandomForest" in text
    assert "the validation data" in text
    assert report.to_dict()["trials"] == model.trials_
    means = [trial["mean"] for trial in report.ranked()]
    assert means == sorted(means, reverse=True)
    report.write_html(tmp_path / "page.html")
    assert "What AutoRanker tried" in (tmp_path / "page.html").read_text()
    report.write_csv(tmp_path / "trials.csv")
    lines = (tmp_path / "trials.csv").read_text().splitlines()
    assert lines[0].startswith("name,parameters,mean,low,high,seconds,outcome,chosen")
    assert len(lines) == 1 + len(model.trials_)


def test_candidates_that_cannot_learn_are_named_and_left_out(data):
    features = np.where(np.arange(5) == 0, np.inf, data.features)
    infinite = rw.RankingData(features, data.labels, data.query_ids)
    model = fit(infinite, candidates=[rw.RankSVM(), FOREST], n_trials=2)
    assert isinstance(model.ranker_, rw.RandomForest)
    assert model.trials_[0]["outcome"] != DONE
    assert f"RankSVM: {model.trials_[0]['outcome']}" in str(model.report())


def test_a_measure_that_is_to_fall_is_not_taken_for_one_that_is_to_rise(data, valid):
    good = fit(data, valid, candidates={"bad": NeverRight(3), "good": FOREST}, n_trials=2)
    assert good.trials_[1]["mean"] > good.trials_[0]["mean"]
    with pytest.raises(ParameterError, match="rmse says nothing about scores"):
        fit(data, measure="rmse")


# Bad input.


def test_without_an_end_there_is_no_search(data):
    with pytest.raises(ParameterError, match="time and n_trials are both None"):
        rw.AutoRanker(time=None).fit(data)


@pytest.mark.parametrize("value", [0, -1, "0s", "soon", math.nan, True])
def test_wrong_times_are_refused(data, value):
    with pytest.raises(ParameterError, match=r"^time must be a number of seconds above 0"):
        rw.AutoRanker(time=value).fit(data)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([rw.Blend()], "other than Blend and AutoRanker, got Blend as 'Blend'"),
        ([rw.AutoRanker()], "other than Blend and AutoRanker, got AutoRanker"),
        ([("a", FOREST), ("a", FOREST)], "names of candidates must differ"),
        ([("blend", FOREST)], "names of candidates must differ"),
        ([rw.RandomForest(0)], r"candidate 'RandomForest' \(RandomForest\): n_trees must be"),
    ],
)
def test_wrong_candidates_are_refused(data, candidates, message):
    with pytest.raises(ParameterError, match=message):
        fit(data, candidates=candidates)


def test_data_without_queries_rows_or_pairs(data):
    with pytest.raises(DataError, match="the training data have no query ids"):
        fit(rw.RankingData(data.features, data.labels))
    with pytest.raises(DataError, match="valid has no query ids"):
        fit(data, rw.RankingData(data.features, data.labels))
    with pytest.raises(DataError, match="no rows"):
        fit(data.take_rows(np.zeros(data.n_documents, bool)))
    flat = rw.RankingData(data.features, np.zeros(data.n_documents), data.query_ids)
    assert isinstance(fit(flat, candidates=[rw.RankSVM(), FOREST]).ranker_, rw.RandomForest)
    with pytest.raises(DataError, match="different labels"):
        fit(flat, candidates=[rw.RankSVM()])


def test_one_query_gives_the_first_candidate_and_says_so(data):
    model = fit(data.take_queries([0]))
    assert model.judged_on_ == auto.ONE_QUERY
    assert "one query only" in str(model.report())


@pytest.mark.slow
@pytest.mark.skipif("RANKWOOD_DATA" not in os.environ, reason="needs MQ2008")
def test_on_mq2008_it_is_not_behind_its_candidates():
    train, vali, test = rw.read_folds(f"{os.environ['RANKWOOD_DATA']}/MQ2008")[0]
    candidates = [rw.RankSVM(), rw.NDCGBoost(200, early_stopping=30), rw.RandomForest(100)]
    model = rw.AutoRanker(time=None, n_trials=6, candidates=candidates).fit(train, valid=vali)
    values = {type(c).__name__: clone(c).fit(train, valid=vali).score(test) for c in candidates}
    assert model.score(test) > max(values.values()) - 0.02  # about two standard errors
    chosen = next(trial for trial in model.trials_ if trial["chosen"])
    assert chosen["mean"] >= max(t["mean"] for t in model.trials_ if not t["parameters"]) - 1e-12
