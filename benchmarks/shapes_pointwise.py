"""Shapes of the point-wise methods on generated data: what starts best, and which scoring function ranks best.

Run as ``python -m benchmarks.shapes_pointwise``. Expected, after Mohan (2010), tables 3.1 and 4.2: boosting that starts
from a forest has a test RMSE no worse than the forest's and than plain boosting's; of the fixed scoring functions of
ordinal classification the expected relevance ranks best, and least squares tie with it. Figures are means over seeds of
generator, split and model together. With matplotlib installed the curves are drawn next to the result.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import PUBLISHED_GBRT, RESULTS, keep

SEEDS = (1, 2, 3, 4, 5)
QUERIES, DOCUMENTS, FEATURES = 400, 30, 30
TREES = 200
EVERY = 10  # trees between points of a curve
TIED = 0.002  # of RMSE or NDCG@10: smaller differences of means are called a tie
REGRESSION: dict[str, Any] = {
    "RandomForest": lambda seed: rw.RandomForest(TREES, seed=seed),
    "GBRT": lambda seed: rw.GBRT(TREES, 8, seed=seed, **PUBLISHED_GBRT),
    "GBRT, 0.3 of the features": lambda seed: rw.GBRT(
        TREES, 8, 0.1, features_per_node=0.3, seed=seed
    ),
    "AveragedGBRT, 10 runs": lambda seed: rw.AveragedGBRT(TREES, 10, max_leaves=8, seed=seed),
    "InitializedGBRT, out-of-bag": lambda seed: rw.InitializedGBRT(
        TREES, max_leaves=8, forest_trees=TREES, seed=seed
    ),
    "InitializedGBRT, in-bag": lambda seed: rw.InitializedGBRT(
        TREES, max_leaves=8, forest_trees=TREES, residuals="in-bag", seed=seed
    ),
}
SCORINGS = ("expected", "squared", "exponential", "least_squares")
BASES: dict[str, Any] = {
    "RandomForest": lambda seed: rw.RandomForest(100, seed=seed),
    "GBRT": lambda seed: rw.GBRT(60, 8, seed=seed, **PUBLISHED_GBRT),
}


def parts_of(seed: int) -> tuple[Any, ...]:
    data = rw.make_ranking(QUERIES, DOCUMENTS, FEATURES, seed=seed)
    train, vali, test = rw.split_queries(data, (0.6, 0.2, 0.2), seed=seed)
    return rw.bin(train), vali, test


def rmse(scores: Any, data: Any) -> float:
    return float(np.sqrt(np.mean((scores - data.labels) ** 2)))


def ndcg(scores: Any, data: Any) -> float:
    return rw.evaluate(scores, data, "ndcg@10", n_bootstrap=0)["ndcg@10"].value


def regress() -> tuple[dict[str, dict[str, float]], dict[str, list[float]]]:
    """Test RMSE and NDCG@10 of each method, at the number of trees that is best on validation data; RMSE by trees."""
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in REGRESSION}
    curves: dict[str, list[list[float]]] = {name: [] for name in REGRESSION}
    for seed in SEEDS:
        train, vali, test = parts_of(seed)
        for name, make in REGRESSION.items():
            model = make(seed)
            if hasattr(model, "early_stopping"):
                model.set_params(
                    early_stopping=TREES + 1, measure="rmse"
                )  # all trees are looked at
            model.fit(train, valid=vali)
            scores = model.predict(test)
            values[name].append((rmse(scores, test), ndcg(scores, test)))
            model.set_params(**{"early_stopping": None} if hasattr(model, "early_stopping") else {})
            curves[name].append(curve(model.fit(train), test))
    means = {
        name: {
            "rmse": statistics.mean(value for value, _ in found),
            "ndcg@10": statistics.mean(value for _, value in found),
        }
        for name, found in values.items()
    }
    return means, {name: np.mean(found, axis=0).tolist() for name, found in curves.items()}


def curve(model: Any, test: Any) -> list[float]:
    """Test RMSE every so many rounds of boosting; of a forest, the same figure throughout."""
    if isinstance(model, rw.RandomForest):
        return [rmse(model.predict(test), test)] * (TREES // EVERY + 1)
    runs = getattr(model, "n_runs", 1)
    before = getattr(model, "forest_trees", 0)
    return [
        rmse(model.forest_.predict(test, first_trees=before + runs * rounds), test)
        for rounds in range(0, TREES + 1, EVERY)
    ]


def classify() -> dict[str, dict[str, float]]:
    """Test NDCG@10 of each scoring function, for each base."""
    found: dict[str, dict[str, list[float]]] = {
        base: {scoring: [] for scoring in SCORINGS} for base in BASES
    }
    for seed in SEEDS:
        train, vali, test = parts_of(seed)
        for base, make in BASES.items():
            for scoring in SCORINGS:
                model = rw.OrdinalRanker(make(seed), scoring=scoring, fitted_on="valid")
                found[base][scoring].append(ndcg(model.fit(train, valid=vali).predict(test), test))
    return {
        base: {scoring: statistics.mean(values) for scoring, values in of_base.items()}
        for base, of_base in found.items()
    }


def draw(curves: dict[str, list[float]], scorings: dict[str, dict[str, float]]) -> None:
    try:
        import matplotlib as mpl
    except ImportError:
        print("no plot: pip install 'rankwood[report]' brings matplotlib")
        return
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "rankwood"  # the same figure gives the same bytes
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    rounds = range(0, TREES + 1, EVERY)
    for name, values in curves.items():
        style = {"color": "black", "linewidth": 2.5} if name == "RandomForest" else {}
        left.plot(rounds[1:], values[1:], label=name, **style)
    left.set(xlabel="boosted trees", ylabel="test RMSE", title="Boosting from a forest")
    left.legend(fontsize=8)
    width = 0.8 / len(SCORINGS)
    for place, scoring in enumerate(SCORINGS):
        heights = [scorings[base][scoring] for base in scorings]
        right.bar(np.arange(len(scorings)) + place * width, heights, width, label=scoring)
    least = min(value for of_base in scorings.values() for value in of_base.values())
    right.set(ylim=(least - 0.02, None), ylabel="test NDCG@10", title="Scoring functions")
    right.set_xticks(np.arange(len(scorings)) + 1.5 * width, list(scorings))
    right.legend(fontsize=8)
    figure.savefig(RESULTS / "shapes_pointwise.svg", metadata={"Date": None})
    print(f"plot: {RESULTS / 'shapes_pointwise.svg'}")


def main() -> None:
    methods, curves = regress()
    print(f"{QUERIES} queries of {DOCUMENTS} documents, {FEATURES} features, {len(SEEDS)} seeds")
    print(f"{'':<30} {'test RMSE':>10} {'NDCG@10':>9}")
    for name, value in methods.items():
        print(f"{name:<30} {value['rmse']:>10.4f} {value['ndcg@10']:>9.4f}")
    initialized = methods["InitializedGBRT, out-of-bag"]["rmse"]
    others = {name: methods[name]["rmse"] for name in ("RandomForest", "GBRT")}
    is_best = all(initialized <= value + TIED for value in others.values())
    print(f"initialized no worse than the forest and GBRT: {'yes' if is_best else 'NO'}")
    scorings = classify()
    print(f"\nordinal classification, NDCG@10\n{'':<14} " + " ".join(f"{s:>13}" for s in SCORINGS))
    for base, values in scorings.items():
        print(f"{base:<14} " + " ".join(f"{values[scoring]:>13.4f}" for scoring in SCORINGS))
        is_best = values["expected"] >= max(values.values()) - TIED
        print(f"{'':<14} expected relevance best or tied: {'yes' if is_best else 'NO'}")
    draw(curves, scorings)
    result = {
        "seeds": list(SEEDS),
        "trees": TREES,
        "regression": methods,
        "ordinal_ndcg@10": scorings,
    }
    keep("shapes_pointwise", result)


if __name__ == "__main__":
    main()
