"""Learning curves: nested samples, the same for all algorithms, and figures of plain fits."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ModelError, ParameterError, UnknownName
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.studies.fits import FoldParts, fitted
from rankwood.studies.learning_curve import TENTHS, _LearningFold, learning_curve

pytestmark = pytest.mark.jit_only  # no kernels of its own

MAP = parse_measure("map")
RANKERS = {"few": rw.RandomForest(2, max_leaves=4), "more": rw.RandomForest(6, max_leaves=8)}


@pytest.fixture(scope="module")
def parts():
    data = rw.make_ranking(n_queries=50, docs_per_query=8, n_features=6, seed=1)
    return rw.split_queries(data, (0.6, 0.4), seed=1)


def test_steps_of_ten_percent_are_the_default():
    assert TENTHS == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def test_samples_are_nested_and_of_the_size_asked_for(parts):
    job = _LearningFold(RANKERS, FoldParts(parts[0], None, parts[1]), MAP, TENTHS, 2, (0, 0, 1))
    assert job.counts == [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]
    queries = [set(job.sample(share, 1).queries.tolist()) for share in range(10)]
    assert [len(each) for each in queries] == job.counts
    assert all(one < other for one, other in itertools.pairwise(queries))
    assert set(job.sample(0, 0).queries.tolist()) != queries[0]
    assert job.sample(9, 0) is parts[0]


def test_figures_are_those_of_plain_fits(parts):
    train, test = parts
    found = learning_curve(RANKERS, train, test, "map", shares=(0.5, 1), repetitions=2)
    assert found.values["few"].shape == (2, 2)
    whole = fitted(RANKERS["more"], train, None, 1, 1)  # the second repetition
    assert found.values["more"][1, 1] == mean_value(MAP, whole.predict(test), test)
    assert found["more"][1] == pytest.approx(found.values["more"][1].mean())
    again = learning_curve(RANKERS, train, test, "map", shares=(0.5, 1), repetitions=2, n_threads=2)
    assert again.to_dict() == found.to_dict()


def test_more_training_queries_help():
    data = rw.make_ranking(n_queries=150, docs_per_query=10, n_features=6, seed=3)
    train, test = rw.split_queries(data, (0.5, 0.5), seed=1)
    found = learning_curve(
        rw.RandomForest(20, max_leaves=10), train, test, shares=(0.03, 1), repetitions=4
    )
    assert found["RandomForest"][1] > found["RandomForest"][0]


def test_folds_are_replicates(parts):
    folds = rw.make_folds(rw.make_ranking(n_queries=12, docs_per_query=6, n_features=5, seed=2), 3)
    found = learning_curve(RANKERS["few"], folds, shares=(0.5, 1), repetitions=2)
    assert found.values["RandomForest"].shape == (2, 6)
    assert found.n_queries == (2, 4)
    assert "2 repetitions in each of 3 folds" in str(found)


def test_tables_and_files(parts, tmp_path):
    train, test = parts
    found = learning_curve(RANKERS, train, test, shares=(0.2, 1), repetitions=2)
    text = str(found)
    for part in ("share", "20 %", "few", "±", "ndcg@10 on test data"):
        assert part in text
    json.dumps(found.to_dict())
    found.write_csv(tmp_path / "c.csv")
    assert len((tmp_path / "c.csv").read_text().splitlines()) == 5
    single = learning_curve(RANKERS["few"], train, test, shares=(1,))
    assert "±" not in str(single)
    assert single.deviations("RandomForest").tolist() == [0]
    pytest.importorskip("matplotlib")
    found.plot(tmp_path / "c.svg")
    first = (tmp_path / "c.svg").read_bytes()
    found.plot(tmp_path / "c.svg")
    assert (tmp_path / "c.svg").read_bytes() == first
    assert b"<svg" in first
    with pytest.raises(DataError, match=r"must end in \.png, \.svg or \.pdf"):
        found.plot(tmp_path / "c.doc")


def test_it_says_what_it_does(parts):
    train, test = parts
    heard = []
    learning_curve(RANKERS, train, test, shares=(0.5, 1), progress=heard.append)
    assert [news.iteration for news in heard] == [1, 2, 3, 4]
    assert heard[-1].total == 4


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"shares": (0.5, 0.2)}, ParameterError, "must ascend"),
        ({"shares": ()}, ParameterError, "one at least"),
        ({"shares": (0, 1)}, ParameterError, r"shares must be in \(0, 1\], got 0"),
        ({"shares": "half"}, ParameterError, "list of numbers"),
        ({"repetitions": 0}, ParameterError, "repetitions"),
        ({"measure": "mpa"}, UnknownName, "Did you mean 'map'"),
    ],
)
def test_what_is_no_curve(parts, options, error, message):
    with pytest.raises(error, match=message):
        learning_curve(RANKERS, *parts, **options)


def test_a_fit_that_fails_says_where(parts):
    train, test = parts
    flat = rw.RankingData(train.features, np.zeros(train.n_documents), train.query_ids)
    with pytest.raises(DataError, match="RankBoost on 3 of 30 queries: "):
        learning_curve(rw.RankBoost(2), flat, test)


def test_an_unknown_algorithm(parts):
    with pytest.raises(UnknownName, match="Did you mean 'few'"):
        _ = learning_curve(RANKERS, *parts, shares=(1,))["fw"]


# Checkpoints


def interrupt_at(iteration):
    def listen(news):
        if news.iteration == iteration:
            raise KeyboardInterrupt

    return listen


def test_an_interrupted_curve_goes_on(parts, tmp_path):
    path = tmp_path / "checkpoint"
    folds = [(parts[0], None, parts[1]), (parts[1], parts[0], parts[0])]

    def curve(**options):
        return learning_curve(RANKERS, folds, measure="map", shares=(0.5, 1), **options)

    whole = curve()
    for moment in (2, 6):  # in the first fold, in the second
        with pytest.raises(KeyboardInterrupt):
            curve(checkpoint=path, progress=interrupt_at(moment), n_threads=1)
    seen = []
    found = curve(checkpoint=path, progress=seen.append, n_threads=2)
    assert [news.iteration for news in seen] == [7, 8]
    assert found.to_dict() == whole.to_dict()
    assert curve(checkpoint=path, progress=seen.append).to_dict() == whole.to_dict()
    assert len(seen) == 2  # nothing is fitted again


def test_a_checkpoint_of_another_curve_is_refused(parts, tmp_path):
    path = tmp_path / "checkpoint"
    learning_curve(RANKERS, *parts, "map", shares=(1,), checkpoint=path)
    cases = [
        ((RANKERS, *parts, "map"), {"shares": (0.5,)}, r"made with shares=\[1.0\], not \[0.5\]"),
        ((RANKERS, *parts, "ndcg"), {"shares": (1,)}, "made with measure='map', not 'ndcg'"),
        ((RANKERS["few"], *parts, "map"), {"shares": (1,)}, "made with estimators="),
        ((dict(reversed(RANKERS.items())), *parts, "map"), {"shares": (1,)}, "with estimators="),
        ((RANKERS, *parts[::-1], "map"), {"shares": (1,)}, "made on other data"),
    ]
    for positional, options, message in cases:
        with pytest.raises(ModelError, match=message):
            learning_curve(*positional, checkpoint=path, **options)
    with pytest.raises(ParameterError, match="checkpoint must be a file in a folder that exists"):
        learning_curve(RANKERS, *parts, checkpoint=tmp_path)


def test_without_a_checkpoint_any_parameters_do(parts):
    class Mine(rw.RandomForest):
        def __init__(self, extra=None):
            super().__init__(n_trees=2)
            self.extra = extra

        def get_params(self, deep=True):  # noqa: ARG002 - scikit-learn's contract
            return {"extra": self.extra}

    found = learning_curve(Mine(object()), *parts, shares=(1,))
    assert found.values["Mine"].shape == (1, 1)
