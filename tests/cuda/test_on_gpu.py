"""The CUDA engine on a real GPU; skipped where there is none."""

from __future__ import annotations

import pytest
from sklearn.base import clone

from rankwood.engines.cuda import device
from tests.contract.rankers import asked_in_every_way, make, saved, training_data, validation_data
from tests.cuda.test_engine import (
    GROWN,
    REFUSED,
    assert_grows_the_same,
    assert_steps_are_the_same,
    on_gpu,
)
from tests.cuda.test_scoring import RANKERS, assert_same

pytestmark = pytest.mark.skipif(device.description() is None, reason="there is no GPU with CuPy")
CASES = asked_in_every_way(of=lambda name, _: name in GROWN)


@pytest.mark.parametrize("seed", range(100))
def test_a_tree_has_the_same_bytes(seed):
    assert_grows_the_same(seed)


@pytest.mark.parametrize("case", CASES)
def test_a_ranker_has_the_same_bytes(case, tmp_path):
    if case in REFUSED:
        pytest.skip("the engine refuses groups of features")
    train, valid = training_data(), validation_data()
    one = saved(make(case, n_threads=1).fit(train, valid=valid), tmp_path / "cpu")
    assert saved(on_gpu(make(case)).fit(train, valid=valid), tmp_path / "cuda") == one


@pytest.mark.parametrize("seed", range(4))
def test_steps_for_lambdas_have_the_same_bytes(seed, rng):
    assert_steps_are_the_same(seed, rng)


@pytest.mark.parametrize("name", RANKERS)
def test_scores_have_the_same_bytes(name):
    data = training_data()
    ranker = clone(RANKERS[name]).fit(data)
    assert_same(ranker.predict(data, device="cuda"), ranker.predict(data))
