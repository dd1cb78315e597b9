"""``rankwood.tune``: parameters chosen on queries that models have not seen, a fitted ranker, and a record of trials."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, InputError, ParameterError, UnknownName
from rankwood.studies import tune as module
from rankwood.studies.tune import Tuned, tune

pytestmark = pytest.mark.jit_only  # no kernels of its own

SPACE = {"max_leaves": [2, 4, 8], "learning_rate": {"low": 0.05, "high": 0.5, "log": True}}


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(n_queries=40, docs_per_query=10, n_features=6, seed=1)
    return rw.split_queries(data, (0.5, 0.25, 0.25), seed=1)


def boosted(**parameters):
    return rw.GBRT(n_trees=6, min_leaf=2, **parameters)


def same_trials(one, other):
    return [{k: v for k, v in trial.items() if k != "seconds"} for trial in one.trials] == [
        {k: v for k, v in trial.items() if k != "seconds"} for trial in other.trials
    ]


@pytest.mark.parametrize("method", ["random", "grid", "optuna"])
def test_the_best_candidate_is_fitted(parts, method):
    if method == "optuna":
        pytest.importorskip("optuna")
    train, valid, test = parts
    space = {"max_leaves": [2, 4, 8]} if method == "grid" else SPACE
    tuned = tune(boosted(), space, train, valid, trials=6, method=method, seed=3)
    assert isinstance(tuned, Tuned)
    assert len(tuned.trials) == (3 if method == "grid" else 6)
    means = [trial["mean"] for trial in tuned.trials]
    (chosen,) = [trial for trial in tuned.trials if trial["chosen"]]
    assert chosen["mean"] == max(means)
    assert tuned.best == chosen["parameters"]
    again = boosted(**tuned.best).fit(train, valid=valid)
    assert tuned.ranker.forest_ == again.forest_
    assert rw.evaluate(again, valid, "ndcg@10")["ndcg@10"].value == pytest.approx(
        chosen["mean"], abs=1e-12
    )
    assert tuned.ranker.predict(test).shape == (len(test),)
    assert same_trials(tuned, tune(boosted(), space, train, valid, trials=6, method=method, seed=3))


def test_without_validation_data_candidates_are_judged_on_folds(parts):
    train = parts[0]
    tuned = tune(boosted(), SPACE, train, trials=3, n_folds=3, measure="map")
    assert "3 query folds" in tuned.judged_on
    assert tuned.ranker.training_["rows"] == len(train)
    for trial in tuned.trials:
        assert trial["low"] <= trial["mean"] <= trial["high"]


def test_a_range_holds_and_parameters_of_a_base_are_reached(parts):
    train, valid, _ = parts
    tuned = tune(boosted(), {"max_leaves": {"low": 2, "high": 5}}, train, valid, trials=4)
    tried = [trial["parameters"]["max_leaves"] for trial in tuned.trials]
    assert set(tried) <= {2, 3, 4, 5}
    assert all(type(value) is int for value in tried)
    built = rw.OrdinalRanker(rw.GBRT(n_trees=2, min_leaf=2))
    space = {"base.max_leaves": [2, 4]}
    tuned = tune(built, space, train, valid, method="grid", trials=None)
    assert tuned.ranker.base.max_leaves == tuned.best["base.max_leaves"]


def test_without_a_space_the_ranker_s_own_is_tried(parts):
    train, valid, _ = parts
    tuned = tune(boosted(), None, train, valid, trials=2)
    assert {"learning_rate", "max_leaves"} <= set(tuned.best)
    assert "min_leaf" not in tuned.best  # it was set
    with pytest.raises(
        ParameterError, match="what to try of AdaRank is not known: name parameters"
    ):
        tune(rw.AdaRank(), None, train, valid)


def test_the_study_goes_on_to_the_same_end(parts, tmp_path, monkeypatch):
    train = parts[0]
    options = {"trials": 5, "n_folds": 2, "seed": 1}
    ranker = boosted(early_stopping=2)
    whole = tune(ranker, SPACE, train, **options, study=tmp_path / "whole.json")
    first = [json.loads((tmp_path / "whole.json").read_text())["trials"]]
    calls = []

    def judge_or_die(judging, trial, seconds, judge=module.Judging.judge):
        calls.append(trial)
        if len(calls) == 3:
            raise RuntimeError("killed")
        return judge(judging, trial, seconds)

    monkeypatch.setattr(module.Judging, "judge", judge_or_die)
    with pytest.raises(RuntimeError, match="killed"):
        tune(ranker, SPACE, train, **options, study=tmp_path / "s.json")
    assert len(json.loads((tmp_path / "s.json").read_text())["trials"]) == 2
    again = tune(ranker, SPACE, train, **options, study=tmp_path / "s.json")
    assert len(calls) == 6  # two, the one that died, and the three that were left
    assert same_trials(again, whole)
    assert again.ranker.forest_ == whole.ranker.forest_
    assert len(first[0]) == 5
    done = tune(ranker, SPACE, train, **options, study=tmp_path / "s.json")
    assert len(calls) == 6
    assert done.ranker.forest_ == whole.ranker.forest_


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no study, or is damaged"),
        ("[1]", "is no study, or is damaged"),
        ('{"format": 1, "key": {}, "trials": [{"parameters": {}}]}', "is no study, or is damaged"),
        ('{"format": 1, "key": {}, "trials": []}', "is of another study: its .* differs"),
    ],
)
def test_files_that_are_no_study(parts, tmp_path, content, message):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(DataError, match=message):
        tune(boosted(), SPACE, parts[0], parts[1], trials=1, study=tmp_path / "s.json")


def test_a_study_of_other_data_is_refused(parts, tmp_path):
    train, valid, test = parts
    tune(boosted(), SPACE, train, valid, trials=1, study=tmp_path / "s.json")
    with pytest.raises(
        DataError, match=r"is of another study: its data differs. Choose another file"
    ):
        tune(boosted(), SPACE, train, test, trials=1, study=tmp_path / "s.json")


def test_refit_is_on_both_parts(parts):
    train, valid, _ = parts
    tuned = tune(boosted(), SPACE, train, valid, trials=2, refit=True)
    assert tuned.ranker.training_["rows"] == len(train) + len(valid)


def test_the_model_file_records_the_choice(parts, tmp_path):
    train, valid, _ = parts
    tuned = tune(boosted(), SPACE, train, valid, trials=3, seed=5)
    rw.save(tuned.ranker, tmp_path / "m.rankwood")
    record = rw.load(tmp_path / "m.rankwood").training_["tuned"]
    assert record == tuned.summary()
    assert record["chosen"] == tuned.best
    assert (record["trials"], record["seed"], record["measure"]) == (3, 5, "ndcg@10")


def test_what_is_shown_and_written(parts, tmp_path):
    train, valid, _ = parts
    tuned = tune(boosted(), {"max_leaves": [2, 4, 8]}, train, valid, method="grid")
    text = str(tuned)
    assert "max_leaves=" in text
    assert "→ is the model" in text
    assert json.dumps(tuned.to_dict())
    tuned.write_html(tmp_path / "t.html")
    assert "What tune tried" in (tmp_path / "t.html").read_text()
    tuned.write_csv(tmp_path / "t.csv")
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 4
    varied = tune(boosted(), SPACE, train, valid, trials=8)
    assert set(varied.importance) == set(SPACE)
    assert all(math.isnan(share) or 0 <= share <= 1 for share in varied.importance.values())


def test_progress_and_time(parts):
    told = []
    tuned = tune(boosted(), SPACE, parts[0], parts[1], trials=3, progress=told.append)
    assert [news.iteration for news in told] == [1, 2, 3]
    assert told[-1].notes["best"] == max(trial["mean"] for trial in tuned.trials)
    short = tune(boosted(), SPACE, parts[0], parts[1], trials=50, time=1e-6)
    assert (len(short.trials), short.stopped_because) == (1, module.TIME_IS_UP)
    few = tune(boosted(), {"max_leaves": [2, 4]}, parts[0], parts[1], trials=50)
    assert (len(few.trials), few.stopped_because) == (2, module.NOTHING_LEFT)


def test_ctrl_c_keeps_the_best_so_far(parts):
    def stop(news):
        if news.iteration == 2:
            raise KeyboardInterrupt

    tuned = tune(boosted(), SPACE, parts[0], parts[1], trials=9, progress=stop)
    assert (len(tuned.trials), tuned.stopped_because) == (2, module.INTERRUPTED)
    assert tuned.ranker.predict(parts[2]).size


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"ranker": 3}, ParameterError, "tune takes a ranker of ours"),
        ({"space": {"max_leafs": [2]}}, UnknownName, "max_leafs' is not known. Did you mean 'max_leaves'"),
        ({"space": {"max_leaves": [-1]}}, ParameterError, "max_leaves must be"),
        ({"space": {"max_leaves": []}}, ParameterError, "max_leaves needs a list of values"),
        ({"space": {"max_leaves": "2"}}, ParameterError, "max_leaves needs a list of values"),
        ({"space": {"l2": {"low": 3, "high": 1}}}, ParameterError, "l2: a range is"),
        ({"space": {"l2": {"low": 0, "high": 1, "log": True}}}, ParameterError, "with log, low must be above 0"),
        ({"space": SPACE, "method": "grid"}, ParameterError, "has a range, which a grid cannot try"),
        ({"space": []}, ParameterError, "space must be a mapping"),
        ({"method": "bayes"}, UnknownName, "method 'bayes' is not known"),
        ({"trials": 0}, ParameterError, "trials must be a whole number"),
        ({"trials": None}, ParameterError, "random search needs trials"),
        ({"measure": "auc"}, ParameterError, "auc has no value by query"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for(parts, changes, error, message):
    given = {"ranker": boosted(), "space": SPACE} | changes
    with pytest.raises(error, match=message):
        tune(given.pop("ranker"), given.pop("space"), parts[0], parts[1], **given)


def test_data_that_candidates_cannot_be_judged_on(parts):
    flat = rw.RankingData(parts[0].features, parts[0].labels)
    with pytest.raises(DataError, match="train has no query ids"):
        tune(boosted(), SPACE, flat)
    with pytest.raises(DataError, match="valid has no query ids"):
        tune(boosted(), SPACE, parts[0], flat)
    with pytest.raises(DataError, match="train has one query"):
        tune(boosted(), SPACE, parts[0].take_queries([0]))
    huge = rw.RankingData(np.full((20, 2), np.inf), np.arange(20) % 2, np.arange(20) // 5)
    with pytest.raises(InputError, match="no candidate could be fitted; the last one"):
        tune(rw.RankSVM(), {"C": [0.1, 1.0]}, huge, trials=2)
