"""Models of every size from one fit: a ranker has stages that agree with its shorter models, or says that it has none."""

from __future__ import annotations

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ModelError, ParameterError
from rankwood.rankers.base import stages_of
from tests.contract.rankers import asked, asked_in_every_way, fitted, validation_data

ONE_SIZE = "it has one size only|clipped probabilities are no sum|keeps its best models of every le"


@pytest.mark.parametrize("case", asked_in_every_way())
def test_stages_score_as_the_shorter_models(case):
    model, data = fitted(case), validation_data()
    try:
        stages = stages_of(model)
    except ModelError as error:
        with pytest.raises(ModelError, match=ONE_SIZE):
            raise error
        return
    assert stages.n_trees[-1] == stages.forest.n_trees
    for n_rounds, n_trees in zip(stages.n_rounds.tolist(), stages.n_trees.tolist(), strict=True):
        first = stages.forest.predict(data, first_trees=n_trees)
        np.testing.assert_allclose(model.truncated(n_rounds).predict(data), first, atol=1e-12)
    np.testing.assert_allclose(model.predict(data), first, atol=1e-12)
    with pytest.raises(ParameterError, match="n_rounds must be a whole number between"):
        model.truncated(n_rounds + 1)


@pytest.mark.parametrize("case", asked())
def test_a_size_is_chosen_by_each_measure(case):
    model, data = fitted(case), validation_data()
    try:
        sizes = rw.best_sizes(model, data, ["ndcg@10", "p@5"])
    except ModelError as error:
        with pytest.raises(ModelError, match=ONE_SIZE):
            raise error
        return
    for size in sizes:
        shorter = model.truncated(size.n_rounds)
        value = rw.evaluate(shorter, data, size.measure, n_bootstrap=0)[size.measure].value
        assert size.valid == pytest.approx(value)
        whole = rw.evaluate(model, data, size.measure, n_bootstrap=0)[size.measure].value
        assert size.valid >= whole - 1e-12
