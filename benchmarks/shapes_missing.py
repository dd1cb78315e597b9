"""The six treatments of missing values, and the learned side: table 2.1 of Mohan (2010) on generated data, with a plot.

Run as ``python -m benchmarks.shapes_missing``. Two kinds of gaps are planted: values missing by chance, and rather the
low ones, as where a search engine finds nothing to compute a feature from. The thesis' order on web search data, from
best to worst: 0 (least), 1 (greatest), 3-way split, mean, median, predict; "learned" is not in it.
Each figure is the mean over data sets of several seeds; the plot goes to ``results/shapes_missing.png``.
"""

from __future__ import annotations

import statistics
from typing import Any

import rankwood as rw
from benchmarks.common import RESULTS, keep
from rankwood.prepare.missing import TREATMENTS

SEEDS = (1, 2, 3)
SHARE = 0.4  # the share of missing values in LETOR's and Microsoft's sets; Yahoo's have 0.68
KINDS = {"low": "low values rather missing", "chance": "missing by chance"}
MEASURES = ("rmse", "ndcg@10")


def figures(
    kind: str, measure: str, n_queries: int = 400, n_trees: int = 60, seeds: Any = SEEDS
) -> dict[str, dict[str, float]]:
    """By treatment: the measure, its spread over the seeds, and the seconds of filling, training and scoring."""
    found: dict[str, list[Any]] = {name: [] for name in TREATMENTS}
    for seed in seeds:
        data = rw.make_ranking(n_queries, 30, 30, missing=SHARE, missing_by=kind, seed=seed)
        train, test = rw.split_queries(data, (0.6, 0.4), seed=seed)
        ranker = rw.RandomForest(n_trees, seed=seed)
        for result in rw.compare_missing(ranker, train, test, measure, n_bootstrap=0):
            found[result.treatment].append(result)
    return {
        name: {
            measure: statistics.mean(result.value for result in results),
            "difference": statistics.mean(result.difference for result in results),
            "least_difference": min(result.difference for result in results),
            "greatest_difference": max(result.difference for result in results),
            "seconds": statistics.median(result.seconds for result in results),
        }
        for name, results in found.items()
    }


def plot(result: dict[str, Any]) -> None:
    """Bars of the difference to "learned", a panel per measure and kind of gaps."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("no plot: pip install 'rankwood[report]'")
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(KINDS), len(MEASURES), figsize=(9, 6), sharey=True)
    for row, (kind, title) in enumerate(KINDS.items()):
        for column, measure in enumerate(MEASURES):
            rows = {name: of for name, of in result[kind][measure].items() if name != "learned"}
            better = -1 if measure == "rmse" else 1
            colors = [
                "tab:green" if better * of["difference"] > 0 else "tab:red" for of in rows.values()
            ]
            errors = [
                [of["difference"] - of["least_difference"] for of in rows.values()],
                [of["greatest_difference"] - of["difference"] for of in rows.values()],
            ]
            panel = axes[row][column]
            differences = [of["difference"] for of in rows.values()]
            panel.barh(list(rows), differences, xerr=errors, color=colors, capsize=3)
            panel.axvline(0, color="black", linewidth=0.8)
            panel.set_title(f"{title}: {measure}", fontsize=10)
            panel.set_xlabel("difference to 'learned'; green is better", fontsize=8)
    axes[0][0].invert_yaxis()
    figure.suptitle(f"RandomForest, {SHARE:.0%} missing, mean and range of {len(SEEDS)} data sets")
    figure.tight_layout()
    figure.savefig(RESULTS / "shapes_missing.png", dpi=80)
    plt.close(figure)


def main() -> None:
    result: dict[str, Any] = {"missing": SHARE, "seeds": list(SEEDS)}
    for kind, title in KINDS.items():
        result[kind] = {measure: figures(kind, measure) for measure in MEASURES}
        print(f"\n{title}")
        print(f"{'treatment':<12}{'rmse':>9}{'ndcg@10':>10}{'difference':>12}{'seconds':>9}")
        for name in TREATMENTS:
            rmse, ndcg = (result[kind][measure][name] for measure in MEASURES)
            print(
                f"{name:<12}{rmse['rmse']:9.4f}{ndcg['ndcg@10']:10.4f}{ndcg['difference']:+12.4f}"
                f"{ndcg['seconds']:9.1f}"
            )
    plot(result)
    keep("shapes_missing", result)


if __name__ == "__main__":
    main()
