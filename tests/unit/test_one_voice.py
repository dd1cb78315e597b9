"""A parameter means one thing everywhere: the same type, the same bounds, the same message, whichever ranker has it."""

from __future__ import annotations

import inspect

import pytest

import rankwood as rw
from rankwood.errors import ParameterError
from rankwood.rankers.base import Ranker

pytestmark = pytest.mark.jit_only  # no kernels of its own

RANKERS = [
    found
    for found in (getattr(rw, name) for name in rw.__all__)
    if inspect.isclass(found) and issubclass(found, Ranker)
]
# What may differ from ranker to ranker, since the papers' sizes do; every other shared parameter has one default.
OWN_DEFAULTS = {
    "dropout",  # of trees, and of a network's units
    "device",  # a network is trained by another library
    "bag", "base", "budget", "early_stopping", "features_per_node", "l2", "learning_rate", "loss", "max_leaves", "measure", "min_leaf",
    "min_split", "n_folds", "n_rounds", "n_trees", "patience", "seed", "validation", "weighting",
}  # fmt: skip
OWN_TYPES = {
    "base",
    "layer",
    "loss",
    "max_leaves",
    "measure",  # rankers that watch several measures take lists and functions too
}  # rankers, losses, layers; leaves that forests choose

BAD = [
    ("n_trees", -1, r"^n_trees must be .*, got -1"),
    ("n_rounds", 0, r"^n_rounds must be .*, got 0"),
    ("max_leaves", 0, r"^max_leaves must be .*, got 0"),
    ("learning_rate", -0.5, r"^learning_rate must be .*, got -0\.5"),
    ("features_per_node", 1.5, r"^features_per_node must be .*, got 1\.5"),
    ("min_leaf", 0, r"^min_leaf must be .*, got 0"),
    ("subsample", 0.0, r"^subsample must be .*, got 0"),
    ("seed", -1, r"^seed must be .*, got -1"),
    ("n_threads", 0, r"^n_threads must be .*, got 0"),
    ("max_bins", 1, r"^max_bins must be .*, got 1"),
]


def parameters_of(ranker):
    return inspect.signature(ranker).parameters


def having(name):
    return [ranker for ranker in RANKERS if name in parameters_of(ranker)]


SHARED = sorted(
    {name for ranker in RANKERS for name in parameters_of(ranker) if len(having(name)) > 1}
)


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_parameter_has_one_type_and_one_default(name):
    annotations = {
        str(parameters_of(ranker)[name].annotation).removesuffix(" | None")
        for ranker in having(name)
    }
    assert len(annotations) == 1 or name in OWN_TYPES, annotations
    defaults = {repr(parameters_of(ranker)[name].default) for ranker in having(name)}
    assert len(defaults) == 1 or name in OWN_DEFAULTS, defaults


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: ranker.__name__)
def test_every_ranker_has_threads_and_progress(ranker):
    assert {"n_threads", "progress", "callbacks"} <= set(parameters_of(ranker))


@pytest.mark.parametrize(("name", "value", "message"), BAD, ids=[name for name, *_ in BAD])
def test_a_bad_value_gives_the_same_message_everywhere(name, value, message):
    data = rw.make_ranking(n_queries=4, docs_per_query=5, n_features=3, seed=1)
    asked = 0
    for ranker in having(name):
        if ranker.__name__ == "MLPRanker":  # needs PyTorch to fit
            continue
        with pytest.raises(ParameterError, match=message):
            ranker(**{name: value}).fit(data)
        asked += 1
    assert asked > 0
