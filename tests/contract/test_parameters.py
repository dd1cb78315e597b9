"""Parameters of every ranker: kept by the constructor, checked by ``fit``, refused by name and value."""

from __future__ import annotations

import inspect
import math
import re

import pytest
from sklearn.base import BaseEstimator, clone

from rankwood.errors import ParameterError
from rankwood.rankers.save import estimators
from tests.contract.rankers import (
    CONTRACTS,
    asked,
    make,
    plain_parameters,
    training_data,
    with_parameter,
)

pytestmark = pytest.mark.jit_only  # no kernels of its own

PARAMETERS = [
    (name, parameter)
    for name, kind in estimators().items()
    for parameter in inspect.signature(kind).parameters
]
NAN, INF, TEXT = math.nan, math.inf, "nonsense"

# Bad values of each kind of parameter.
COUNT = (-1, 2.5, NAN, INF, TEXT)
AMOUNT = (-1, NAN, INF, TEXT)
SHARE = (-1, 2.5, NAN, INF, TEXT)
CHOICE = (TEXT, -1, NAN)

BAD_VALUES = {
    "C": (*AMOUNT, 0), "alpha": SHARE, "augment": CHOICE, "bag": CHOICE, "bag_share": SHARE, "batch_size": COUNT,
    "beam_width": (*COUNT, 0, None), "beta": SHARE, "boost": CHOICE, "budget": (*COUNT, 0, None), "cache_mb": AMOUNT, "clip": (TEXT,),
    "constraints": CHOICE, "exponent": SHARE, "max_length": (*COUNT, 0), "fold_models": CHOICE, "judged_on": CHOICE,
    "lead": (*AMOUNT, 101), "passes": CHOICE, "blend": (TEXT, 1, None), "time": (*AMOUNT, 0, True, "10x", ""),
    "n_trials": (*COUNT, 0),
    "cost_batch": COUNT, "cost_scale": CHOICE, "cost_weight": AMOUNT, "device": (TEXT,), "dropout": SHARE,
    "early_stopping": (*COUNT, 0), "evaluate_on": CHOICE, "exploration": SHARE, "features_per_node": (*SHARE, 0, 0.0),
    "features_per_tree": (*SHARE, 0, 0.0), "l1": AMOUNT, "skip_dropout": SHARE,
    "fitted_on": CHOICE, "forest_bag": (*CHOICE, None), "forest_depth": COUNT, "forest_features": SHARE,
    "forest_leaves": (*COUNT, 0), "forest_min_leaf": (*COUNT, 0), "forest_trees": (*COUNT, 0), "free_steps": (TEXT,),
    "gain": (TEXT,), "initial_weights": (TEXT,), "keep_augmented": (TEXT,), "l2": AMOUNT,
    "learning_rate": (*SHARE, 0, 0.0), "max_bins": (*COUNT, 1, 256), "max_depth": COUNT,
    "max_iter": (*COUNT, 0), "max_layers": (*COUNT, 0, 101), "max_leaves": (*COUNT, 0), "max_list": COUNT,
    "max_repeats": (*COUNT, 0), "max_trees": COUNT, "min_gain": AMOUNT, "min_hessian": AMOUNT, "min_leaf": (*COUNT, 0),
    "min_split": COUNT, "mu": AMOUNT, "n_constraints": (*COUNT, 0), "n_epochs": COUNT, "n_folds": (*COUNT, 1),
    "n_forests": (*COUNT, 0), "n_rounds": (*COUNT, 0, None), "n_runs": (*COUNT, 0, None), "n_threads": (*COUNT, 0),
    "n_trees": COUNT, "normalise": (TEXT,), "normalize": CHOICE, "patience": (*COUNT, 0), "region": CHOICE,
    "relevant": AMOUNT, "residuals": CHOICE, "rule": CHOICE, "scaling": CHOICE, "scoring": CHOICE, "search": CHOICE,
    "seed": COUNT, "select": CHOICE, "sigma": (*AMOUNT, 0.0),
    "smoothing": AMOUNT, "start": CHOICE, "strength": (*AMOUNT, 0, 11), "stop": CHOICE, "subsample": (*SHARE, 0.0),
    "subsample_by": CHOICE,
    "tol": (*SHARE, 0), "tolerance": SHARE, "truncation": (*COUNT, 0), "update_weights": (TEXT,),
    "validation": (TEXT, None), "weighting": CHOICE, "when_stalled": CHOICE, "progress": (TEXT, 3),
}  # fmt: skip
# What is told in other words: value and message.
IN_OTHER_WORDS = {
    "base": [
        (3, "^base (must be .*got (3|int)|'3' is not known)"),
        (TEXT, "^base (must be .*got (str|'nonsense')|'nonsense' is not known)"),
    ],
    "callbacks": [
        (TEXT, "^callbacks must be a list or tuple of functions"),
        (print, "^callbacks must be a list or tuple of functions"),
        ([3], "^a callback must be a function, got 3"),
    ],
    "checkpoint": [(3, "^checkpoint must be the path of a file, got 3")],
    "interactions": [
        (TEXT, "^interactions must be a list of groups"),
        ([["x"]], "^interactions name a feature"),
    ],
    "feature_costs": [([1.0], "^feature_costs has 1 values, but there are 5 features")],
    "gate": [(3, "^gate must be a forest .*got 3"), (TEXT, "^gate must be a forest")],
    "hidden": [(TEXT, "^hidden must be"), ([0], "^hidden must be")],
    "layer": [(TEXT, "^layer .*'nonsense'"), (3, "^layer must be .*got (3|int)"), ([], "^layer")],
    "loss": [(TEXT, "^loss ('nonsense' is not known|must be a function .*got 'nonsense')")],
    "measure": [
        (TEXT, "^measure 'nonsense' is not known"),
        (3, "^a measure is text such as 'ndcg@10', got int"),
    ],
    "missing": [(TEXT, "^treatment of missing values 'nonsense' is not known|^missing 'nonsense'")],
    "monotone": [
        ([1], "^monotone has 1 values, but there are 5 features"),
        ([2] * 5, "^monotone must be 1, -1 or 0 for each feature, got 2"),
    ],
    "position_bias": [
        (3, "^position_bias must be .*got 3"),
    ],
    "reward": [(TEXT, "^measure 'nonsense' is not known"), ("map", "has no mean over the orders")],
    "select_by": [
        (TEXT, "^measure 'nonsense' is not known"),
        ("map", "has no mean over the orders"),
    ],
    "parts": [
        (TEXT, "^parts must be .*got 'nonsense'"),
        (3, "^parts must be .*got 3"),
        ([], "^parts must be a list of at least one ranker"),
        ([3], "^parts must be rankers of ours other than Blend, got 3 as 'int'"),
        ([("a", TEXT)], "^parts must be rankers of ours .*got 'nonsense' as 'a'"),
    ],
    "candidates": [
        (TEXT, "^candidates must be .*got 'nonsense'"),
        ([], "^candidates must be a list of at least one ranker"),
        ([3], "^candidates must be rankers of ours other than Blend and AutoRanker, got 3 as"),
    ],
    "weights": [
        (TEXT, "^weights 'nonsense' is not known"),
        ([1.0], "^weights has 1 values, but there are 2 parts"),
        ([-1.0, 2.0], r"^weights must be one of .*got \[-1.0, 2.0\]"),
        ([NAN, 2.0], "^weights must be one of"),
        ([0, 0], "^weights must be one of .*all zero"),
        (3, "^weights must be one of .*got 3"),
        (None, "^weights must be one of .*got None"),
    ],
    "target": [
        (TEXT, "^measure 'nonsense' is not known"),
        ("rmse", "^target must be one of ndcg, map, mrr, err"),
    ],
}
# Flags that any value sets by its truth.
BY_TRUTH = {"replacement", "scale", "warm_start"}
MAY_BE_EMPTY = "InitializedGBRT"  # n_trees=0 is its forest alone
# Values beyond the usual bounds that a ranker takes.
TAKEN = {("MLPRanker", "learning_rate", 2.5)}


def test_every_ranker_and_every_parameter_is_asked():
    assert set(CONTRACTS) == set(estimators())
    asked = set(BAD_VALUES) | set(IN_OTHER_WORDS) | BY_TRUTH
    assert {parameter for _, parameter in PARAMETERS} == asked


@pytest.mark.parametrize("name", asked())
def test_wrong_values_are_refused_by_name(name):
    for parameter in inspect.signature(estimators()[name]).parameters:
        for value in BAD_VALUES.get(parameter, ()):
            if (name, parameter, value) in TAKEN:
                continue
            shown = re.escape(repr(value))
            known = re.escape(f"'{value}'")
            message = rf"^{parameter} (must be .*got {shown}|{known} is not known)"
            with pytest.raises(ParameterError, match=message):
                make(name, **{parameter: value}).fit(training_data())
        for value, message in IN_OTHER_WORDS.get(parameter, ()):
            with pytest.raises(ParameterError, match=message):
                make(name, **{parameter: value}).fit(training_data())


@pytest.mark.parametrize("name", asked(of=lambda name, of: of.length and name != MAY_BE_EMPTY))
def test_a_length_of_nothing_is_refused(name):
    length = CONTRACTS[name].length
    message = f"^{length} must be a whole number of at least 1, got 0"
    with pytest.raises(ParameterError, match=message):
        make(name, **{length: 0}).fit(training_data())


@pytest.mark.parametrize("name", asked(of=with_parameter("measure")))
def test_a_misspelt_name_suggests_the_right_one(name):
    with pytest.raises(ParameterError, match=r"^measure 'ndgc' is not known\. Did you mean 'ndcg'"):
        make(name, measure="ndgc@10").fit(training_data())


@pytest.mark.parametrize("name", asked())
def test_a_parameter_that_does_not_exist(name):
    with pytest.raises(TypeError, match="no_such_parameter"):
        make(name, no_such_parameter=1)
    with pytest.raises(ValueError, match="Invalid parameter 'no_such_parameter'"):
        make(name).set_params(no_such_parameter=1)


@pytest.mark.parametrize("name", asked())
def test_the_constructor_keeps_its_arguments(name):
    kind = estimators()[name]
    given = {parameter: ["not checked", parameter] for parameter in kind().get_params(deep=False)}
    model = kind(**given)
    for parameter, value in given.items():
        assert getattr(model, parameter) is value
    assert model.get_params(deep=False) == given


@pytest.mark.parametrize("name", asked())
def test_a_clone_has_the_same_parameters_and_nothing_learned(name):
    model = make(name).fit(training_data())
    before = plain_parameters(model)
    copy = clone(model)
    assert plain_parameters(copy) == before == plain_parameters(make(name))
    assert set(vars(copy)) == set(vars(make(name)))
    if isinstance(getattr(model, "base", None), BaseEstimator):
        assert copy.base is not model.base


@pytest.mark.parametrize("name", asked())
def test_fitting_changes_no_parameter(name):
    model = make(name)
    before = plain_parameters(model)
    model.fit(training_data(), valid=training_data())
    assert plain_parameters(model) == before
