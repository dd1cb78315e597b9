"""Every ranker as the contract asks it: small settings, its own ways through the code, and declared exceptions."""

from __future__ import annotations

import functools
import importlib.util
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import rankwood as rw
from rankwood.models.format import kind_of, save_model
from rankwood.rankers.save import estimators

# Reasons for exceptions
NEEDS_QUERIES = "no query ids"
NEEDS_PAIRS = "none of the .* has two documents with different labels|no query has documents of di"
LOSES_BY_BAGS = "a bootstrap of weighted rows is not one of repeated rows: other rows are drawn"
LOSES_BY_PAIRS = "a document that is there twice is in twice as many pairs"


@dataclass(frozen=True)
class Contract:
    """What is asked of one ranker, and what is not, with the reason."""

    small: dict[str, Any]
    ways: dict[str, dict[str, Any]] = field(default_factory=dict)  # further settings, by name
    length: str | None = None  # the parameter that a shorter fit differs in
    draws: dict[str, Any] | None = (
        None  # settings under which the seed matters; None: nothing is drawn
    )
    needs_queries: bool = False
    needs_pairs: bool = False  # whether data without two different labels in a query are refused
    predicts_labels: bool = False  # whether scores stay within the labels
    takes_row_weights: bool = True
    takes_infinity: bool = True
    has_importances: bool = True
    exceptions: dict[str, str] = field(default_factory=dict)  # test: why it does not hold


_FOREST = {"n_trees": 4, "max_leaves": 6}
_BOOST = {"n_trees": 4, "max_leaves": 4, "min_leaf": 3}
_DRAWN = {"subsample": 0.6, "features_per_node": 0.5}
_STUMP = {"max_leaves": 2, "min_leaf": 3}
_HULL = {"search": "hull", "budget": 8}
_BAGS = {name: {"bag": name} for name in ("row", "query")} | {"no bag": {"bag": None}}
_COPIES_BY_BAGS = {"copies of rows": LOSES_BY_BAGS, "copies of queries": LOSES_BY_BAGS}

CONTRACTS: dict[str, Contract] = {
    "RandomForest": Contract(
        _FOREST,
        _BAGS | {"chosen leaves": {"max_leaves": "auto"}},
        "n_trees",
        {},
        predicts_labels=True,
        exceptions=_COPIES_BY_BAGS,
    ),
    "ExtraTrees": Contract(_FOREST, _BAGS, "n_trees", {}, predicts_labels=True),
    "CompletelyRandomForest": Contract(_FOREST, _BAGS, "n_trees", {}, predicts_labels=True),
    "GBRT": Contract(
        _BOOST,
        {
            "all features": {"features_per_node": None},
            "subsample": _DRAWN,
            "subsample by query": {"subsample": 0.6, "subsample_by": "query"},
            "features": {"features_per_node": 2},
            "features per tree": {"features_per_tree": 0.5, "l1": 0.2},
            "dropout": {"dropout": 0.4, "interactions": [[0, 1]]},
        },
        "n_trees",
        _DRAWN,
        predicts_labels=True,
    ),
    "AveragedGBRT": Contract(
        _BOOST | {"n_runs": 2},
        {"subsample": {"subsample": 0.6}},
        "n_trees",
        {},
        predicts_labels=True,
    ),
    "InitializedGBRT": Contract(
        _BOOST | {"forest_trees": 3, "forest_leaves": 6},
        {"in-bag": {"residuals": "in-bag", "subsample": 0.8}},
        "n_trees",
        {},
        exceptions=_COPIES_BY_BAGS
        | {"a shorter fit": "trees of the forest count in progress, but not in n_trees"},
    ),
    "LambdaMART": Contract(
        _BOOST,
        {
            "subsample": _DRAWN,
            "subsample by query": {"subsample": 0.6, "subsample_by": "query"},
            "features per tree": {"features_per_tree": 0.5, "interactions": [[0, 1]]},
            "dropout": {"dropout": 0.4, "l1": 0.2},
        },
        "n_trees",
        _DRAWN,
        needs_queries=True,
        exceptions={"copies of rows": LOSES_BY_PAIRS},
    ),
    "NDCGBoost": Contract(
        {"n_rounds": 4, "min_leaf": 3},
        {"features": {"features_per_node": 0.5}},
        "n_rounds",
        {"features_per_node": 0.5},
        needs_queries=True,
        needs_pairs=True,
        exceptions={
            "copies of rows": LOSES_BY_PAIRS,
            "a product of weights": "a pair has the product of its documents' weights",
        },
    ),
    "RankBoost": Contract(
        {"n_rounds": 4},
        length="n_rounds",
        needs_queries=True,
        needs_pairs=True,
        exceptions={"a product of weights": "a pair has the product of its documents' weights"},
    ),
    "AdaBoost": Contract({"n_rounds": 4}, {"trees": {"max_leaves": 3}}, "n_rounds"),
    "AdaRank": Contract(
        {
            "n_rounds": 4,
            "measure": "ndcg@10[ties=average]",  # else the order of tied documents is drawn row by row
            "when_stalled": "exclude",
            "tolerance": 1.0,
        },
        needs_queries=True,
        needs_pairs=True,
        takes_row_weights=False,
        takes_infinity=False,
        exceptions={
            "a shorter fit": "of the rounds that were done, the best are kept",
        },
    ),
    "RankSVM": Contract(
        {},
        needs_queries=True,
        needs_pairs=True,
        takes_infinity=False,
        exceptions={"a product of weights": "a pair has the product of its documents' weights"},
    ),
    "BROOF": Contract(
        {"n_rounds": 3, "n_trees": 3, "max_leaves": 6, "stop": None},
        {
            "stops": {"stop": "auto", "patience": 1},
            "extra": {"base": "extra", "bag": None, "validation": "train"},
            "median": {"loss": "median", "validation": "train", "region": "position"},
            "lambda": {"loss": "lambda", "validation": "query-folds", "n_folds": 3},
            "absolute": {"loss": "absolute", "validation": "query-folds", "n_folds": 2},
        },
        "n_rounds",
        {},
        exceptions=_COPIES_BY_BAGS,
    ),
    "DeepForest": Contract(
        {"n_forests": 2, "n_trees": 3, "max_leaves": 6, "max_layers": 2, "patience": None},
        {
            "trees": {"augment": "trees"},
            "pareto": {"select": "pareto"},
            "queries": {"boost": "query", "alpha": 0.8},
            "folds": {"layer": [rw.LambdaMART(3, min_leaf=3, subsample=0.8), rw.GBRT(3)]},
        },
        draws={},
        exceptions=_COPIES_BY_BAGS
        | {
            "rows without weight": "scores of a layer are binned over all rows",
            "queries without weight": "scores of a layer are binned over all rows",
            "where a fit resumes": "a checkpoint holds whole layers, and progress counts rankers",
        },
    ),
    "OrdinalRanker": Contract(
        {"base": rw.RandomForest(3, max_leaves=6)},
        {
            "clip": {"clip": True},
            "GBRT": {"base": rw.GBRT(**_BOOST)},
            "GBRT, clip": {"base": rw.GBRT(**_BOOST), "clip": True},
            "AveragedGBRT": {"base": rw.AveragedGBRT(2, 2, min_leaf=3), "scoring": "squared"},
            "InitializedGBRT": {"base": rw.InitializedGBRT(2, min_leaf=3, forest_trees=3)},
        },
        exceptions=_COPIES_BY_BAGS
        | {"a shorter fit": "a callback stops the model at hand, not those of further grades"},
    ),
    "Blend": Contract(
        {
            "parts": [
                ("forest", rw.RandomForest(3, max_leaves=6)),
                ("classes", rw.OrdinalRanker(rw.RandomForest(3, max_leaves=6))),
            ]
        },
        {
            "search": {"rule": "search", "scaling": "all"},
            "per document": {"weights": "per-document", "strength": 1.0},
            "given": {"weights": [0.3, 0.7], "scaling": None},
            "by kind": {"parts": [rw.RandomForest(3, bag="query"), rw.ExtraTrees(2, bag="row")]},
        },
        exceptions=_COPIES_BY_BAGS,
    ),
    "AutoRanker": Contract(
        {
            "candidates": [rw.RandomForest(3, max_leaves=6), rw.ExtraTrees(2, max_leaves=6)],
            "n_trials": 3,
            "time": None,
            "n_folds": 2,
        },
        {
            "stops early": {"candidates": [rw.GBRT(4, early_stopping=2, max_leaves=3)]},
            "a linear one": {"candidates": [rw.RankSVM()], "blend": False},
            "a cascade": {"candidates": [rw.DeepForest(n_forests=2, n_trees=2, max_layers=2)]},
        },
        "n_trials",
        {},
        needs_queries=True,
        exceptions=_COPIES_BY_BAGS
        | {
            "an interrupt": "Ctrl-C ends the search and keeps the best so far",
            "comes back as itself": "the file is that of the ranker that was chosen",
        },
    ),
    "BoostingTree": Contract(
        {"base": rw.LambdaMART(**_STUMP), "budget": 40},  # the first size takes 33 steps
        {
            "GBRT": {"base": rw.GBRT(max_leaves=4, min_leaf=3)},
            "NDCGBoost": {"base": rw.NDCGBoost(max_leaves=2, min_leaf=3)},
            "AdaBoost": {"base": rw.AdaBoost()},
            "to the end": {"budget": 5000, "max_length": 2, "cache_mb": 0},
            "hull": _HULL,
            "hull, GBRT": _HULL | {"base": rw.GBRT(max_leaves=4, min_leaf=3)},
            "hull, AdaBoost": _HULL | {"base": rw.AdaBoost()},
            "hull, no cache": _HULL | {"cache_mb": 0, "free_steps": True},
        },
        "budget",
        {},
        needs_queries=True,
        exceptions={
            "copies of rows": LOSES_BY_PAIRS,
            "copies of queries": "tied models of the search are told apart by rounding",
            "an interrupt": "Ctrl-C ends the search and keeps the models it has found",
            "where a fit resumes": "a search goes on from its last whole round",
        },
    ),
    "Exp3P": Contract(
        {"base": rw.LambdaMART(max_leaves=3, min_leaf=3), "n_rounds": 4},
        {
            "GBRT": {"base": rw.GBRT(max_leaves=3, min_leaf=3)},
            "NDCGBoost": {"base": rw.NDCGBoost(max_leaves=2, min_leaf=3)},
            "AdaBoost": {"base": rw.AdaBoost()},
        },
        "n_rounds",
        {},
        needs_queries=True,
        exceptions={"copies of rows": LOSES_BY_PAIRS},
    ),
    "MLPRanker": Contract(
        {"hidden": [8], "n_epochs": 4, "batch_size": 4, "dropout": 0.1, "device": "cpu"},
        draws={},
        needs_queries=True,
        needs_pairs=True,
        takes_infinity=False,
        has_importances=False,
        exceptions={
            "copies of rows": LOSES_BY_PAIRS,
            "copies of queries": "other queries come together in a batch",
            "rows without weight": "features are standardised over all rows of a query that counts",
            "a product of weights": "a pair has the product of its documents' weights",
            "an interrupt": "the record of the training is written while it goes on",
            "an error": "the record of the training is written while it goes on",
            "a shorter fit": "of the epochs that were done, the best is kept",
        },
    ),
}


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


_needs_torch = pytest.mark.skipif(not has_torch(), reason="the extra 'neural' is not installed")


def asked(what: str = "", *, of: Callable[[str, Contract], bool] = lambda *_: True) -> list[Any]:
    """Every ranker that ``of`` holds for, as values of a parametrised test.

    A ranker whose contract declares ``what`` as an exception is expected to fail: an exception that is none any more
    fails the test, and is to be taken out of the contract.
    """
    return [_parameter(name, what) for name, contract in CONTRACTS.items() if of(name, contract)]


def asked_in_every_way(
    what: str = "", *, of: Callable[[str, Contract], bool] = lambda *_: True
) -> list[Any]:
    """Like ``asked``, with each of a ranker's ways: "GBRT" is the plain one, "GBRT: subsample" another."""
    return [
        _parameter(case, what)
        for name, contract in CONTRACTS.items()
        if of(name, contract)
        for case in (name, *(f"{name}: {way}" for way in contract.ways))
    ]


def _parameter(case: str, what: str) -> Any:
    name = case.split(":", maxsplit=1)[0]
    reason = CONTRACTS[name].exceptions.get(what)
    marks = [] if reason is None else [pytest.mark.xfail(reason=reason)]
    return pytest.param(case, marks=[_needs_torch, *marks] if name == "MLPRanker" else marks)


def contract_of(case: str) -> Contract:
    return CONTRACTS[case.split(":", maxsplit=1)[0]]


def with_parameter(parameter: str) -> Callable[[str, Contract], bool]:
    """For ``asked``: rankers that have this parameter."""
    return lambda name, _: parameter in estimators()[name]().get_params(deep=False)


def make(case: str, **options: Any) -> Any:
    """A new, small, unfitted ranker; ``case`` is its name, or its name and one of its ways."""
    name, _, way = case.partition(": ")
    contract = CONTRACTS[name]
    chosen = {**contract.small, **(contract.ways[way] if way else {}), **options}
    # Estimators among the parameters are shared by all cases: each ranker gets copies of its own.
    return estimators()[name](**pickle.loads(pickle.dumps(_split(chosen)[0])), **_split(chosen)[1])


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters that hold estimators, and the others."""
    nested = {
        name: value
        for name, value in options.items()
        if isinstance(value, BaseEstimator)
        or (isinstance(value, list) and name in ("layer", "parts", "candidates"))
    }
    return nested, {name: value for name, value in options.items() if name not in nested}


@functools.cache
def training_data() -> rw.RankingData:
    """12 queries, about 120 documents, 5 features with names and some missing values."""
    return rw.make_ranking(12, 10, 5, missing=0.05, seed=3)


@functools.cache
def validation_data() -> rw.RankingData:
    return rw.make_ranking(6, 10, 5, missing=0.05, seed=4)


@functools.cache
def fitted(case: str, *, with_valid: bool = False) -> Any:
    """The ranker of a case, fitted once for all tests: do not change it."""
    return make(case).fit(training_data(), valid=validation_data() if with_valid else None)


def learned(model: Any) -> dict[str, Any]:
    """What a fit has set, without the seconds it took and the callbacks it was given."""
    values = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_")
    }
    values["training_"] = {
        name: value for name, value in values["training_"].items() if name != "seconds"
    }
    for records in {"layers_", "trials_"} & values.keys():
        values[records] = [
            {name: value for name, value in report.items() if name != "seconds"}
            for report in values[records]
        ]
    return values


def assert_same_fit(one: Any, other: Any) -> None:
    """Whether two fits learned the same to the bit."""
    first, second = learned(one), learned(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert_same(value, second[name], name)


def assert_same(one: Any, other: Any, name: str) -> None:
    if kind_of(one) is not None:  # a model: not every kind can be compared
        assert model_bytes(one) == model_bytes(other), name
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, name
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), name
    else:
        np.testing.assert_equal(one, other, err_msg=name)


def model_bytes(model: Any) -> bytes:
    """The bytes of a bare model's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save_model(model, path)
        return path.read_bytes()


def saved(model: Any, path: Any) -> bytes:
    """The bytes of the model's file."""
    rw.save(model, path)
    return path.read_bytes()


def plain_parameters(model: Any) -> dict[str, Any]:
    """Parameters by name, with those of estimators among them in place of the estimators."""
    values = model.get_params(deep=True)
    return {
        name: type(value).__name__ if isinstance(value, BaseEstimator) else _plain(value)
        for name, value in values.items()
    }


def _plain(value: Any) -> Any:
    """A value of a parameter that can be compared: estimators in lists are replaced by their parameters."""
    if isinstance(value, BaseEstimator):
        return (type(value).__name__, plain_parameters(value))
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
