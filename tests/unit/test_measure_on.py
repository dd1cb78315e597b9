"""``measure_on = "valid"``: an experiment whose tables are of the validation part."""

from __future__ import annotations

import pytest

import rankwood as rw
from rankwood.errors import ParameterError
from rankwood.experiments.config import read_experiment
from rankwood.experiments.runner import fold_digests

ALGORITHMS = [{"kind": "RandomForest", "n_trees": 3, "max_leaves": 5}]


def experiment(**data):
    generate = {"queries": 30, "docs": 6, "features": 4, "seed": 2}
    return {"data": {"generate": generate, "seed": 3, **data}, "algorithm": ALGORITHMS}


@pytest.mark.parametrize("part", ["test", "valid"])
def test_the_part_that_is_measured(part, tmp_path):
    result = rw.run_experiment(experiment(measure_on=part), out=tmp_path / "run", jobs=0)
    data = rw.make_ranking(30, 6, 4, seed=2)
    parts = dict(zip(("train", "valid", "test"), rw.split_queries(data, seed=3), strict=True))
    found = sorted(query for _, query in result.queries)
    assert found == sorted(str(query) for query in parts[part].queries.tolist())


def test_a_run_of_the_one_part_is_none_of_the_other():
    digests = [
        fold_digests(read_experiment(experiment(measure_on=part)).data, {})
        for part in ("test", "valid")
    ]
    assert digests[0] != digests[1]
    assert digests[0] == fold_digests(read_experiment(experiment()).data, {})


def test_validation_data_that_are_not_there():
    with pytest.raises(ParameterError, match=r"measure_on: .*there are no validation data"):
        read_experiment(experiment(measure_on="valid", split=[0.7, 0.3]))
    with pytest.raises(ParameterError, match="measure_on"):
        read_experiment(experiment(measure_on="train"))
