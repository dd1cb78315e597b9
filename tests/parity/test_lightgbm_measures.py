"""Under the ``lightgbm`` preset, means are LightGBM's."""

import numpy as np
import pytest

from rankwood.data.dataset import RankingData
from rankwood.evaluation.evaluate import evaluate

lightgbm = pytest.importorskip("lightgbm")

CUTOFFS = [1, 3, 5, 10, 50]


def theirs(data, scores, metric):
    """LightGBM's measures of ``scores``: the initial scores of a model that adds nothing."""
    sizes = np.diff(data.query_offsets)
    features = np.zeros((len(data), 1), np.float32)  # a constant feature cannot be split on
    part = lightgbm.Dataset(
        features,
        data.labels,
        group=sizes,
        init_score=scores,
        params={"verbose": -1},
        free_raw_data=False,
    )
    found = {}
    lightgbm.train(
        {
            "objective": "lambdarank",
            "metric": metric,
            "eval_at": CUTOFFS,
            "verbose": -1,
            "num_threads": 1,
            "boost_from_average": False,
        },
        part,
        num_boost_round=1,
        valid_sets=[part],
        valid_names=["data"],
        callbacks=[lightgbm.record_evaluation(found)],
    )
    return {cutoff: found["data"][f"{metric}@{cutoff}"][0] for cutoff in CUTOFFS}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("metric", ["ndcg", "map"])
def test_means_are_those_of_lightgbm(metric, tied):
    rng = np.random.default_rng(11)
    query_ids = np.repeat(np.arange(200), rng.integers(1, 20, 200))
    labels = rng.integers(0, 5, query_ids.size) * (query_ids % 6 > 0)  # every sixth query is empty
    noise = rng.normal(0, 2, query_ids.size)
    scores = np.round(labels + noise) if tied else labels + noise
    data = RankingData(np.zeros((query_ids.size, 1)), labels, query_ids)
    expected = theirs(data, scores, metric)
    ours = evaluate(
        scores, data, [f"{metric}@{k}" for k in CUTOFFS], preset="lightgbm", n_bootstrap=0
    )
    for cutoff, value in expected.items():
        assert ours[f"{metric}@{cutoff}"].value == pytest.approx(value, abs=1e-9)
    assert ours[f"{metric}@10"].n_empty >= 33
