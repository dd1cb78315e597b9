"""Every ranker under settings that take it through its different ways: what the digests of models are made of."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

import rankwood as rw
from tests.golden.golden_data import COSTS, huge, part, plain_gbrt

# What a fit gives beside the model, where a ranker has it.
_FOUND = (
    "best_iteration_",
    "history_",
    "train_history_",
    "stopped_because_",
    "oob_scores_",
    "oob_counts_",
    "oob_ndcg_",
    "weights_",
    "grades_",
    "worths_",
    "probabilities_",
    "loss_bounds_",
    "forest_measure_",
    "feature_importances_",
    "n_iter_",
    "objective_",
)


@dataclass(frozen=True)
class Case:
    """A ranker, and what it is fitted on."""

    ranker: Any
    data: str = ""  # a data set of golden_data
    valid: bool = False  # whether it gets validation data
    arrays: bool = False  # whether it gets X, y and qid instead of RankingData


@functools.cache
def fitted(name: str) -> Any:
    """The ranker of a case, fitted once."""
    case = CASES[name]
    ranker = clone(case.ranker)
    if case.data == "huge":
        return ranker.fit(huge())
    train, valid = part(f"{case.data}/train"), part(f"{case.data}/valid")
    if not case.arrays:
        return ranker.fit(train, valid=valid if case.valid else None)
    return ranker.fit(
        train.features,
        train.labels,
        train.query_ids,
        sample_weight=1.0 + train.labels,
        query_weight=np.linspace(0.5, 2.0, train.n_queries),
    )


def test_scores(name: str) -> np.ndarray:
    """The scores of a case's model on the test part."""
    data = CASES[name].data
    return fitted(name).predict(huge() if data == "huge" else part(f"{data}/test"))


test_scores.__test__ = False  # the scores of the test part, not a test


def found(name: str) -> dict[str, Any]:
    """What the fit of a case found out beside the model."""
    model = fitted(name)
    values = {attribute: getattr(model, attribute, None) for attribute in _FOUND}
    return {attribute: value for attribute, value in values.items() if value is not None}


# Own extension points; their names are in the model files.


def squared_errors(predictions: np.ndarray, data: rw.RankingData) -> np.ndarray:
    """A loss of the user's own for BROOF."""
    return (data.labels - predictions) ** 2


class HalfResidues:
    """An additive loss of the user's own for BROOF."""

    def targets(self, scores: np.ndarray, data: rw.RankingData) -> tuple[np.ndarray, np.ndarray]:
        """What the next forest fits, and what rows weigh in it."""
        return (data.labels - scores) / 2.0, 1.0 + data.labels


def labels_as_weights(data: rw.RankingData) -> np.ndarray:
    """First weights of the user's own."""
    return 1.0 + data.labels


def slower(weights: np.ndarray, errors: np.ndarray, beta: float) -> np.ndarray:
    """An update of the user's own: heavier where the error is larger."""
    return weights * (1.0 + beta * np.nan_to_num(errors))


def half_and_half(forest: Any) -> np.ndarray:
    """Predictions of the user's own: between those of all trees and the held-out ones."""
    return (forest.held_out + forest.training) / 2.0


def squared(scores: np.ndarray, data: rw.RankingData) -> tuple[np.ndarray, np.ndarray]:
    """A loss of the user's own for LambdaMART: gradient and hessian of half the squared error."""
    return scores - data.labels, np.ones(scores.size)


_FOREST = {"n_trees": 5, "max_leaves": 12}
_BOOST = {"n_trees": 6, "max_leaves": 6, "min_leaf": 5, "learning_rate": 0.2}
_ROUNDS = {"n_rounds": 8}
# All rounds are kept, so that each of them shows.
_BROOF = {"n_rounds": 3, "n_trees": 4, "max_leaves": 8, "stop": None}
_STUMP = {"max_leaves": 2, "learning_rate": 0.2, "min_leaf": 5}
_DEEP = {"n_forests": 2, "n_trees": 3, "max_leaves": 8, "max_layers": 2, "patience": None}
_PARTS = {"forest": rw.RandomForest(**_FOREST), "boosting": plain_gbrt(**_BOOST)}

CASES: dict[str, Case] = {
    # forests
    "RandomForest": Case(rw.RandomForest(**_FOREST, seed=3)),
    "RandomForest: valid": Case(rw.RandomForest(**_FOREST, measure="map"), valid=True),
    "RandomForest: bag=query": Case(rw.RandomForest(**_FOREST, bag="query")),
    "RandomForest: bag=None": Case(rw.RandomForest(**_FOREST, bag=None)),
    "RandomForest: half, without replacement": Case(
        rw.RandomForest(**_FOREST, bag_share=0.5, replacement=False)
    ),
    "RandomForest: half of the queries": Case(
        rw.RandomForest(**_FOREST, bag="query", bag_share=0.5)
    ),
    "RandomForest: weights": Case(rw.RandomForest(**_FOREST), "weights"),
    "RandomForest: weights, resample": Case(
        rw.RandomForest(**_FOREST, weighting="resample"), "weights"
    ),
    "RandomForest: weights given to fit": Case(rw.RandomForest(**_FOREST), arrays=True),
    "RandomForest: no limits": Case(
        rw.RandomForest(n_trees=3, max_leaves=None, features_per_node=None)
    ),
    "RandomForest: max_depth, min_leaf, min_gain": Case(
        rw.RandomForest(n_trees=5, max_depth=3, min_leaf=10, min_gain=0.5, features_per_node=4)
    ),
    "RandomForest: 1 thread": Case(rw.RandomForest(**_FOREST, seed=3, n_threads=1)),
    "RandomForest: 3 threads": Case(rw.RandomForest(**_FOREST, seed=3, n_threads=3)),
    "RandomForest: 16 bins": Case(rw.RandomForest(**_FOREST, max_bins=16)),
    "RandomForest: no queries": Case(rw.RandomForest(**_FOREST), "no queries"),
    "RandomForest: monotone": Case(rw.RandomForest(**_FOREST, monotone=[1, -1] * 5)),
    **{
        f"RandomForest: missing={way}": Case(rw.RandomForest(**_FOREST, missing=way), "gaps")
        for way in ("learned", "left", "right", "own_child")
    },
    "RandomForest: costs": Case(
        rw.RandomForest(**_FOREST, feature_costs=COSTS, cost_weight=0.5, cost_batch=2), "costs"
    ),
    "RandomForest: raw costs": Case(
        rw.RandomForest(**_FOREST, feature_costs=COSTS, cost_scale="raw", cost_weight=0.1), "costs"
    ),
    "ExtraTrees": Case(rw.ExtraTrees(**_FOREST, seed=3)),
    "ExtraTrees: gaps, bag=row": Case(rw.ExtraTrees(**_FOREST, bag="row"), "gaps"),
    "ExtraTrees: own_child, weights to fit": Case(
        rw.ExtraTrees(**_FOREST, missing="own_child", max_depth=4), "gaps", arrays=True
    ),
    "ExtraTrees: costs": Case(
        rw.ExtraTrees(**_FOREST, feature_costs=COSTS, cost_weight=0.5), "costs"
    ),
    "ExtraTrees: monotone, all features": Case(
        rw.ExtraTrees(**_FOREST, monotone=[1, 0] * 5, features_per_node=1.0)
    ),
    "CompletelyRandomForest": Case(rw.CompletelyRandomForest(n_trees=3, min_split=11)),
    "CompletelyRandomForest: bag=query": Case(
        rw.CompletelyRandomForest(n_trees=4, max_leaves=12, bag="query")
    ),
    "CompletelyRandomForest: gaps, weights": Case(
        rw.CompletelyRandomForest(n_trees=4, max_depth=4, min_leaf=3, bag="row"),
        "gaps",
        arrays=True,
    ),
    # boosting for squared loss
    "GBRT": Case(plain_gbrt(**_BOOST)),
    "GBRT: subsample": Case(plain_gbrt(**_BOOST, subsample=0.5, seed=4)),
    "GBRT: subsample by query": Case(plain_gbrt(**_BOOST, subsample=0.5, subsample_by="query")),
    "GBRT: features_per_node": Case(plain_gbrt(**_BOOST, features_per_node=3)),
    "GBRT: l2, min_gain, max_depth, start=zero": Case(
        plain_gbrt(**_BOOST, l2=2.0, min_gain=0.1, max_depth=2, start="zero")
    ),
    "GBRT: early stopping": Case(
        plain_gbrt(12, max_leaves=6, learning_rate=0.2, early_stopping=2), "gaps", valid=True
    ),
    "GBRT: early stopping by rmse": Case(
        plain_gbrt(12, max_leaves=6, learning_rate=0.4, early_stopping=2, measure="rmse"),
        valid=True,
    ),
    "GBRT: weights": Case(plain_gbrt(**_BOOST), "weights", valid=True),
    "GBRT: weights given to fit": Case(plain_gbrt(**_BOOST), arrays=True),
    "GBRT: costs": Case(plain_gbrt(**_BOOST, feature_costs=COSTS, cost_weight=0.5), "costs"),
    "GBRT: raw costs": Case(
        plain_gbrt(**_BOOST, feature_costs=COSTS, cost_weight=0.05, cost_scale="raw"), "costs"
    ),
    "GBRT: monotone": Case(plain_gbrt(**_BOOST, monotone=[1, -1] * 5)),
    **{
        f"GBRT: missing={way}": Case(plain_gbrt(**_BOOST, missing=way), "gaps")
        for way in ("learned", "left", "right", "own_child")
    },
    "GBRT: 16 bins, 1 thread": Case(plain_gbrt(**_BOOST, max_bins=16, n_threads=1)),
    "GBRT: 16 bins, 3 threads": Case(plain_gbrt(**_BOOST, max_bins=16, n_threads=3)),
    "GBRT: no queries": Case(plain_gbrt(**_BOOST), "no queries"),
    "AveragedGBRT": Case(rw.AveragedGBRT(**{**_BOOST, "n_trees": 4}, n_runs=3)),
    "AveragedGBRT: subsample, early stopping": Case(
        rw.AveragedGBRT(
            6, n_runs=2, max_leaves=8, learning_rate=0.5, subsample=0.6, early_stopping=2
        ),
        valid=True,
    ),
    "AveragedGBRT: costs": Case(
        rw.AveragedGBRT(4, n_runs=2, max_leaves=6, feature_costs=COSTS, cost_weight=0.5), "costs"
    ),
    "InitializedGBRT": Case(rw.InitializedGBRT(**_BOOST, forest_trees=4, forest_leaves=10)),
    "InitializedGBRT: in-bag, bag=query": Case(
        rw.InitializedGBRT(
            **_BOOST, forest_trees=4, forest_leaves=10, forest_bag="query", residuals="in-bag"
        ),
        "gaps",
    ),
    "InitializedGBRT: early stopping": Case(
        rw.InitializedGBRT(
            8, max_leaves=6, forest_trees=4, forest_depth=4, early_stopping=2, measure="rmse"
        ),
        "weights",
        valid=True,
    ),
    "InitializedGBRT: costs": Case(
        rw.InitializedGBRT(
            **_BOOST, forest_trees=4, feature_costs=COSTS, cost_weight=0.5, cost_batch=2
        ),
        "costs",
    ),
    "InitializedGBRT: the forest alone": Case(
        rw.InitializedGBRT(8, max_leaves=6, forest_trees=4, forest_depth=2, early_stopping=2),
        valid=True,
    ),
    # ordinal
    **{
        f"OrdinalRanker: {scoring}": Case(
            rw.OrdinalRanker(rw.RandomForest(n_trees=4, max_leaves=6), scoring)
        )
        for scoring in ("expected", "squared", "exponential", "least_squares")
    },
    "OrdinalRanker: clip": Case(rw.OrdinalRanker(rw.ExtraTrees(3, max_leaves=6), clip=True)),
    "OrdinalRanker: GBRT, least squares on valid": Case(
        rw.OrdinalRanker(
            plain_gbrt(n_trees=3, max_leaves=4), scoring="least_squares", fitted_on="valid"
        ),
        valid=True,
    ),
    "OrdinalRanker: least squares on both, weights": Case(
        rw.OrdinalRanker(
            rw.RandomForest(n_trees=4, max_leaves=6), scoring="least_squares", fitted_on="both"
        ),
        "weights",
        valid=True,
    ),
    "OrdinalRanker: InitializedGBRT stops early": Case(
        rw.OrdinalRanker(
            rw.InitializedGBRT(3, forest_trees=3, forest_leaves=5, early_stopping=2, measure="rmse")
        ),
        valid=True,
    ),
    # LambdaMART
    "LambdaMART": Case(rw.LambdaMART(**_BOOST)),
    **{
        f"LambdaMART: target={target}": Case(rw.LambdaMART(**_BOOST, target=target))
        for target in ("ndcg@5[gain=linear]", "map", "mrr", "err")
    },
    "LambdaMART: all pairs, not normalised, sigma": Case(
        rw.LambdaMART(**_BOOST, truncation=None, normalise=False, sigma=2.0, min_hessian=0.1)
    ),
    "LambdaMART: own loss": Case(rw.LambdaMART(**_BOOST, loss=squared)),
    "LambdaMART: subsample by query": Case(
        rw.LambdaMART(**_BOOST, subsample=0.6, subsample_by="query", features_per_node=0.5)
    ),
    "LambdaMART: early stopping": Case(
        rw.LambdaMART(12, max_leaves=6, learning_rate=0.2, early_stopping=2), valid=True
    ),
    "LambdaMART: weights": Case(rw.LambdaMART(**_BOOST, l2=1.0), "weights"),
    "LambdaMART: gaps, own_child": Case(rw.LambdaMART(**_BOOST, missing="own_child"), "gaps"),
    "LambdaMART: monotone, 3 threads": Case(
        rw.LambdaMART(**_BOOST, monotone=[1, 0] * 5, n_threads=3)
    ),
    "LambdaMART: costs": Case(
        rw.LambdaMART(**_BOOST, feature_costs=COSTS, cost_weight=0.5), "costs"
    ),
    "LambdaMART: raw costs": Case(
        rw.LambdaMART(**_BOOST, feature_costs=COSTS, cost_weight=0.05, cost_scale="raw"), "costs"
    ),
    # other methods in rounds
    "NDCGBoost": Case(rw.NDCGBoost(**_ROUNDS)),
    "NDCGBoost: linear gain, early stopping": Case(
        rw.NDCGBoost(12, gain="linear", early_stopping=3), valid=True
    ),
    "NDCGBoost: rate, early stopping by map": Case(
        rw.NDCGBoost(12, learning_rate=0.5, early_stopping=3, measure="map"), "binary", valid=True
    ),
    "NDCGBoost: table of gains, weights, gaps": Case(
        rw.NDCGBoost(5, gain=[0, 1, 2, 5, 9], features_per_node=4), "gaps", arrays=True
    ),
    "RankBoost": Case(rw.RankBoost(**_ROUNDS)),
    "RankBoost: gaps, early stopping": Case(
        rw.RankBoost(12, early_stopping=3, max_bins=32), "gaps", valid=True
    ),
    "RankBoost: weights": Case(rw.RankBoost(**_ROUNDS), "weights"),
    "AdaBoost": Case(rw.AdaBoost(**_ROUNDS), "binary"),
    "AdaBoost: trees": Case(rw.AdaBoost(6, max_leaves=6, min_leaf=4, relevant=2.0)),
    "AdaBoost: weights, early stopping, rate": Case(
        rw.AdaBoost(10, learning_rate=0.5, early_stopping=3), "weights", valid=True
    ),
    "AdaBoost: gaps": Case(rw.AdaBoost(**_ROUNDS, missing="left"), "gaps"),
    "AdaRank": Case(rw.AdaRank(20)),
    "AdaRank: ndcg, not scaled, early stopping": Case(
        rw.AdaRank(20, "ndcg@10", scale=False, early_stopping=3), valid=True
    ),
    "AdaRank: gaps, not scaled": Case(rw.AdaRank(20, "ndcg@10", scale=False), "gaps"),
    "AdaRank: exclude": Case(rw.AdaRank(20, "err@10", when_stalled="exclude"), "gaps"),
    "AdaRank: weights": Case(rw.AdaRank(20, max_repeats=2, tolerance=0.01), "query weights"),
    "RankSVM": Case(rw.RankSVM(C=0.01)),
    "RankSVM: gaps, valid": Case(rw.RankSVM(C=0.001), "gaps", valid=True),
    "RankSVM: weights": Case(rw.RankSVM(C=0.001, tol=1e-3), "weights"),
    # BROOF
    **{
        f"BROOF: {loss}": Case(rw.BROOF(loss, **_BROOF, seed=2))
        for loss in ("absolute", "median", "height", "gradient", "lambda")
    },
    **{
        f"BROOF: {loss}, valid, stops": Case(
            rw.BROOF(loss, **{**_BROOF, "n_rounds": 6, "stop": "valid"}, patience=2), valid=True
        )
        for loss in ("absolute", "lambda")
    },
    "BROOF: gradient, stops out of bag": Case(
        rw.BROOF(**{**_BROOF, "n_rounds": 8, "stop": "oob"}, learning_rate=0.5, patience=2), "costs"
    ),
    "BROOF: lambda, rate, stops": Case(
        rw.BROOF(
            "lambda", **{**_BROOF, "n_rounds": 8, "stop": "valid"}, learning_rate=0.5, patience=2
        ),
        valid=True,
    ),
    **{
        f"BROOF: {loss}, {validation}, update {update}": Case(
            rw.BROOF(loss, **_BROOF, validation=validation, update_weights=update, n_folds=2)
        )
        for loss, validation, update in (
            ("absolute", "train", "train"),
            ("absolute", "oob", "constant"),
            ("height", "query-folds", "oob"),
            ("median", "oob", "train"),
            ("gradient", "train", "oob"),
            ("gradient", "query-folds", None),
            ("lambda", "train", None),
        )
    },
    "BROOF: median by grade, dirichlet": Case(
        rw.BROOF("median", **_BROOF, region="grade", initial_weights="dirichlet")
    ),
    "BROOF: median by position": Case(rw.BROOF("median", **_BROOF, region="position")),
    "BROOF: absolute, not normalised, rate": Case(
        rw.BROOF("absolute", **_BROOF, normalize=None, learning_rate=0.5), "binary"
    ),
    "BROOF: own errors, weights and update": Case(
        rw.BROOF(squared_errors, **_BROOF, initial_weights=labels_as_weights, update_weights=slower)
    ),
    "BROOF: own targets and predictions": Case(
        rw.BROOF(HalfResidues(), **_BROOF, validation=half_and_half)
    ),
    "BROOF: lambda of map, bag=query, gaps": Case(
        rw.BROOF("lambda", **_BROOF, target="map", measure="map", bag="query", bag_share=0.7),
        "gaps",
    ),
    "BROOF: height, weights": Case(rw.BROOF("height", **_BROOF), "weights"),
    "BROOF: absolute, resample": Case(
        rw.BROOF("absolute", **{**_BROOF, "n_trees": 20}, weighting="resample"), "weights"
    ),
    "BROOF: height, as version 0.1": Case(
        rw.BROOF("height", **{**_BROOF, "n_trees": 40}, bag="row", weighting="resample")
    ),
    "BROOF: gradient, bag=row, stop=oob": Case(
        rw.BROOF(**{**_BROOF, "n_rounds": 8, "stop": "oob"}, bag="row", patience=2)
    ),
    "BROOF: defaults": Case(rw.BROOF(), "binary"),
    "BROOF: absolute, defaults but for the trees": Case(
        rw.BROOF("absolute", n_trees=20), valid=True
    ),
    "BROOF: extra trees": Case(rw.BROOF("absolute", **_BROOF, base="extra")),
    "BROOF: extra trees, all rows": Case(
        rw.BROOF(**_BROOF, base="extra", bag=None, validation="train"), "gaps"
    ),
    "BROOF: lambda of err, pairs of the first 5, sigma": Case(
        rw.BROOF("lambda", **_BROOF, target="err", truncation=5, normalise=False, sigma=2.0)
    ),
    "BROOF: absolute, costs": Case(
        rw.BROOF("absolute", **_BROOF, feature_costs=COSTS, cost_weight=0.5, cost_batch=2), "costs"
    ),
    "BROOF: gradient, raw costs": Case(
        rw.BROOF(**_BROOF, feature_costs=COSTS, cost_weight=0.05, cost_scale="raw"), "costs"
    ),
    "BROOF: gradient, weights, own_child": Case(
        rw.BROOF(**_BROOF, max_depth=4, min_leaf=3, missing="own_child"), "gaps", arrays=True
    ),
    "BROOF: gradient, monotone, 3 threads": Case(
        rw.BROOF(**_BROOF, monotone=[1, -1] * 5, n_threads=3)
    ),
    # cascades
    "DeepForest": Case(rw.DeepForest(**_DEEP)),
    "DeepForest: valid, patience": Case(
        rw.DeepForest(**{**_DEEP, "max_layers": 5, "patience": 1}), "gaps", valid=True
    ),
    "DeepForest: keep_augmented": Case(
        rw.DeepForest(**{**_DEEP, "max_layers": 3}, keep_augmented=True)
    ),
    "DeepForest: trees": Case(rw.DeepForest(**_DEEP, augment="trees")),
    "DeepForest: pareto": Case(rw.DeepForest(**_DEEP, augment="trees", select="pareto")),
    "DeepForest: boost=query": Case(rw.DeepForest(**_DEEP, boost="query", alpha=0.6)),
    "DeepForest: boost=document": Case(rw.DeepForest(**_DEEP, boost="document", beta=0.4)),
    "DeepForest: LambdaMART": Case(
        rw.DeepForest.lambdamart(2, 3, max_layers=2, n_folds=2, patience=None)
    ),
    "DeepForest: a list": Case(
        rw.DeepForest(
            [
                plain_gbrt(n_trees=3, max_leaves=4),
                rw.RandomForest(n_trees=3, max_leaves=6),
                rw.RankSVM(C=0.001),
                rw.OrdinalRanker(rw.ExtraTrees(n_trees=2, max_leaves=4)),
            ],
            max_layers=2,
            n_folds=2,
            patience=None,
        ),
        "gaps",
    ),
    "DeepForest: weights": Case(rw.DeepForest(**_DEEP), "weights"),
    "DeepForest: grades": Case(rw.DeepForest(**_DEEP, augment="grades")),
    "DeepForest: scores and ranks": Case(rw.DeepForest(**_DEEP, passes="scores+ranks"), "gaps"),
    "DeepForest: standard and gaps, kept": Case(
        rw.DeepForest(
            **{**_DEEP, "max_layers": 3}, passes="standard+gaps", keep_augmented=True, bag="row"
        )
    ),
    "DeepForest: LambdaMART, mean of the folds": Case(
        rw.DeepForest.lambdamart(
            2, 3, max_layers=2, n_folds=2, patience=None, fold_models="average"
        )
    ),
    "DeepForest: judged as by version 0.1": Case(
        rw.DeepForest(
            **{**_DEEP, "max_layers": 4, "patience": 1}, bag="row", judged_on="valid", lead=0.0
        ),
        valid=True,
    ),
    "DeepForest: judged on held-out scores": Case(
        rw.DeepForest(**{**_DEEP, "max_layers": 4, "patience": 2}, judged_on="held_out", lead=0.5)
    ),
    # several as one
    "Blend: held-out": Case(rw.Blend(_PARTS), valid=True),
    "Blend: search by map": Case(
        rw.Blend(_PARTS, rule="search", measure="map"), "gaps", valid=True
    ),
    "Blend: out of bag, scaled over all": Case(
        rw.Blend(
            [rw.RandomForest(**_FOREST), rw.OrdinalRanker(rw.RandomForest(4, max_leaves=6))],
            "oob",
            "all",
        )
    ),
    "Blend: per document": Case(
        rw.Blend(_PARTS, "per-document", gate=rw.RandomForest(4, max_leaves=5), strength=1.0),
        valid=True,
    ),
    "Blend: per document, strength by folds": Case(
        rw.Blend(_PARTS, "per-document", gate=rw.RandomForest(4, max_leaves=5)), valid=True
    ),
    "Blend: given weights, as they are, weights to fit": Case(
        rw.Blend(_PARTS, [0.25, 0.75], None), arrays=True
    ),
    "Blend: equal, with a linear part": Case(
        rw.Blend([*_PARTS.items(), ("linear", rw.RankSVM(C=0.001))], "equal"), "weights"
    ),
    # enough rows for work to be dealt to threads
    **{
        f"{name}: large": Case(ranker, "large")
        for name, ranker in {
            "RandomForest": rw.RandomForest(n_trees=2, max_leaves=12, n_threads=2),
            "GBRT": plain_gbrt(3, max_leaves=8, n_threads=2),
            "LambdaMART": rw.LambdaMART(3, max_leaves=8, n_threads=2),
            "RankBoost": rw.RankBoost(3, n_threads=2),
            "RankSVM": rw.RankSVM(n_threads=2),
            "BROOF": rw.BROOF("height", 2, 2, max_leaves=8, stop=None, n_threads=2),
            "Exp3P": rw.Exp3P(n_rounds=3, n_threads=2),
        }.items()
    },
    # enough rows to be laid out anew
    **{
        f"{name}: huge": Case(ranker, "huge")
        for name, ranker in {
            "RandomForest": rw.RandomForest(2, max_leaves=20, n_threads=2),
            "ExtraTrees": rw.ExtraTrees(1, max_leaves=20),
            "GBRT": plain_gbrt(2, max_leaves=20, n_threads=1),
            "GBRT of some rows": plain_gbrt(2, max_leaves=20, subsample=0.3, subsample_by="query"),
            "LambdaMART": rw.LambdaMART(1, max_leaves=20),
        }.items()
    },
    # searches
    **{
        f"BoostingTree: {name}": Case(
            rw.BoostingTree(base, budget=30, search="hull"), data, valid=True
        )
        for name, base, data in (
            ("LambdaMART", None, ""),
            ("LambdaMART, 4 leaves", rw.LambdaMART(max_leaves=4, min_leaf=5), ""),
            ("NDCGBoost", rw.NDCGBoost(max_leaves=2, min_leaf=5), ""),
            ("AdaBoost", rw.AdaBoost(), "binary"),
            ("AdaBoost, trees", rw.AdaBoost(max_leaves=4), "binary"),
            ("GBRT", plain_gbrt(**_STUMP), "gaps"),
            ("GBRT, 3 leaves", plain_gbrt(max_leaves=3, learning_rate=0.3, min_leaf=5), "weights"),
        )
    },
    "BoostingTree: free steps, on valid": Case(
        rw.BoostingTree(
            budget=30,
            evaluate_on="valid",
            free_steps=True,
            n_constraints=4,
            max_trees=5,
            search="hull",
        ),
        valid=True,
    ),
    "BoostingTree: rmse, no cache": Case(
        rw.BoostingTree(plain_gbrt(**_STUMP), budget=25, measure="rmse", cache_mb=0, search="hull"),
        "no queries",
    ),
    "BoostingTree: bandit": Case(
        rw.BoostingTree(
            plain_gbrt(**_STUMP),
            budget=30,
            constraints="bandit",
            exploration=0.6,
            smoothing=0.5,
            search="hull",
        )
    ),
    "BoostingTree: LambdaMART, 4 leaves, bandit": Case(
        rw.BoostingTree(
            rw.LambdaMART(max_leaves=4, min_leaf=5),
            budget=30,
            constraints="bandit",
            search="hull",
        ),
        "gaps",
    ),
    "BoostingTree: LambdaMART, chosen by p@5, short models": Case(
        rw.BoostingTree(budget=30, select_by="p@5", max_length=4, exponent=0.8, search="hull"),
        valid=True,
    ),
    "BoostingTree: beam": Case(rw.BoostingTree(max_length=4), valid=True),
    "BoostingTree: beam of LambdaMART, 4 leaves, queries held out": Case(
        rw.BoostingTree(
            rw.LambdaMART(max_leaves=4, min_leaf=5, l2=0.0), max_length=5, beam_width=2
        ),
        "weights",
    ),
    **{
        f"Exp3P: {name}": Case(rw.Exp3P(base, 10), data)
        for name, base, data in (
            ("LambdaMART", None, ""),
            ("LambdaMART, 4 leaves", rw.LambdaMART(max_leaves=4, min_leaf=5), "gaps"),
            ("NDCGBoost", rw.NDCGBoost(max_leaves=2, min_leaf=5), ""),
            ("AdaBoost", rw.AdaBoost(), "binary"),
            ("GBRT", plain_gbrt(**_STUMP), "weights"),
        )
    },
    "Exp3P: reward": Case(rw.Exp3P(plain_gbrt(**_STUMP), 10, reward="p@5"), valid=True),
    "Exp3P: explores, early stopping by p@5": Case(
        rw.Exp3P(
            n_rounds=12, exploration=0.8, smoothing=0.5, measure="p@5", early_stopping=3, seed=7
        ),
        "weights",
        valid=True,
    ),
}
