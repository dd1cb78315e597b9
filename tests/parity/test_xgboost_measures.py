"""Under the ``xgboost`` preset, means are XGBoost's."""

import numpy as np
import pytest

from rankwood.data.dataset import RankingData
from rankwood.evaluation.evaluate import evaluate

xgboost = pytest.importorskip("xgboost")

THEIR_NAME = {"ndcg": "ndcg", "map": "map", "p": "pre"}


def theirs(data, scores, metrics):
    """XGBoost's measures of ``scores``: they are the base margin of a model without trees."""
    matrix = xgboost.DMatrix(np.zeros((len(data), 1), np.float32), data.labels, base_margin=scores)
    matrix.set_group(np.diff(data.query_offsets))
    settings = {"objective": "rank:ndcg", "eval_metric": metrics, "nthread": 1, "verbosity": 0}
    booster = xgboost.Booster(settings, [matrix])
    text = booster.eval_set([(matrix, "data")], 0)  # "[0]\tdata-ndcg@3:0.61\t..."
    pairs = (part.rsplit(":", 1) for part in text.split("\t")[1:])
    return {name.removeprefix("data-"): float(value) for name, value in pairs}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", ["ndcg", "map", "p"])
def test_means_are_those_of_xgboost(name, tied):
    rng = np.random.default_rng(13)
    query_ids = np.repeat(np.arange(200), rng.integers(1, 20, 200))
    highest = 5 if name == "ndcg" else 2  # the others take labels of 0 and 1 only
    labels = rng.integers(0, highest, query_ids.size) * (query_ids % 6 > 0)
    noise = rng.normal(0, 2, query_ids.size)
    scores = np.round(labels + noise) if tied else labels + noise
    data = RankingData(np.zeros((query_ids.size, 1)), labels, query_ids)
    texts = [f"{name}@{k}" for k in (1, 3, 10, 50)]
    expected = theirs(data, scores, [text.replace(name, THEIR_NAME[name]) for text in texts])
    ours = evaluate(scores, data, texts, preset="xgboost", n_bootstrap=0)
    for text in texts:
        value = expected[text.replace(name, THEIR_NAME[name])]
        assert ours[text].value == pytest.approx(value, abs=2e-6)  # printed with six digits
