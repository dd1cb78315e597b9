"""The shapes of the dissertation's Figures 6.1 and 6.2 on generated data: convergence, and learning curves.

Run as ``python -m benchmarks.shapes_broof --processes 16``; it draws with matplotlib (``pip install
'rankwood[report]'``). NDCG@10 on 1,000 test queries. Convergence: after every round of BROOF's gradient and lambda
kinds (a forest each), of MART and of LambdaMART (a tree each). Learning curve: trained on 10 % to 100 % of 3,000
queries. All rounds are kept, as in the figures. Gradient, with a fifth of the queries and with all of them, is compared
with MART and LambdaMART on all of them over the test queries, by Wilcoxon's signed-rank test and the paired t-test.
Goal: gradient beats a single forest of as many trees and leaves by at least 0.01.

``--quick`` takes 300 queries, 10 rounds and 10 trees, writes its figures here and keeps nothing.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.broof_mq2008 import compare
from benchmarks.common import PUBLISHED_GBRT, keep

FULL = (3000, 100, 20)  # queries, rounds, trees per round
QUICK = (300, 10, 10)
N_TEST = 1000
TENTHS = range(1, 11)
N_LEAVES = 100
GOAL = 0.01
FIGURES = Path(__file__).parents[1] / "docs" / "methods"
STYLES = {  # told apart without colour too
    "BROOF gradient": {"color": "#0b5394", "linestyle": "-", "marker": "o"},
    "BROOF lambda": {"color": "#6aa84f", "linestyle": "-", "marker": "s"},
    "MART": {"color": "#cc0000", "linestyle": "--", "marker": "^"},
    "LambdaMART": {"color": "#e69138", "linestyle": ":", "marker": "v"},
    "RandomForest": {"color": "#444444", "linestyle": "-.", "marker": "x"},
}


def makers(n_rounds: int, n_trees: int) -> dict[str, Callable[[], Any]]:
    """Each method as often as it is wanted; boosted trees with 31 leaves and steps of 0.1."""
    shared: dict[str, Any] = {"max_leaves": N_LEAVES, "n_threads": 1}
    broof = {**shared, "stop": None}
    return {
        "BROOF gradient": lambda: rw.BROOF("gradient", n_rounds, n_trees, 0.1, **broof),
        "BROOF lambda": lambda: rw.BROOF("lambda", n_rounds, n_trees, 0.1, **broof),
        "MART": lambda: rw.GBRT(n_rounds, n_threads=1, **PUBLISHED_GBRT),
        "LambdaMART": lambda: rw.LambdaMART(n_rounds, n_threads=1),
        "RandomForest": lambda: rw.RandomForest(n_rounds * n_trees, **shared),
    }


Sizes = tuple[int, int, int]


def parts_of(n_queries: int, tenth: int) -> tuple[rw.RankingData, rw.RankingData]:
    """The first so many tenths of the training queries, and the test queries."""
    everything = rw.make_ranking(n_queries + N_TEST, 40, 46, seed=1)
    train = everything.take_queries(range(round(tenth / 10 * n_queries)))
    return train, everything.take_queries(range(n_queries, n_queries + N_TEST))


def fit(cell: tuple[str, int, Sizes]) -> tuple[Any, list[float]]:
    """The measure by test query of a method that saw a part of the queries; by round where it saw all of them."""
    name, tenth, (n_queries, n_rounds, n_trees) = cell
    train, test = parts_of(n_queries, tenth)
    follows = tenth == max(TENTHS) and name != "RandomForest"
    model = makers(n_rounds, n_trees)[name]().fit(train, valid=test if follows else None)
    values = rw.parse_measure("ndcg@10").per_query(model.predict(test), test)
    return values, curve(model, name) if follows else []


def curve(model: Any, name: str) -> list[float]:
    """The measure after each round."""
    return [record["valid"] if name.startswith("BROOF") else record for record in model.history_]


def rounds_to(values: list[float], goal: float) -> int | None:
    """How many rounds it took to get there."""
    reached = [place for place, value in enumerate(values, 1) if value >= goal]
    return reached[0] if reached else None


def draw(
    path: Path, lines: dict[str, tuple[list[float], list[float]]], x_label: str, title: str
) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "rankwood", "svg.fonttype": "none", "font.size": 10}
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4))
    for name, (x, y) in lines.items():
        axes.plot(x, y, label=name, markevery=max(1, len(x) // 10), markersize=5, **STYLES[name])
    axes.set(xlabel=x_label, ylabel="NDCG@10 on test queries")
    axes.set_title(title, fontsize=9, loc="left")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)


def compare_gradient(found: dict[tuple[str, int], tuple[Any, list[float]]]) -> dict[str, Any]:
    """Gradient on a fifth of the queries and on all of them, against MART and LambdaMART on all of them."""
    result = {}
    for tenth, other in itertools.product((2, max(TENTHS)), ("MART", "LambdaMART")):
        test = compare(found["BROOF gradient", tenth][0], found[other, max(TENTHS)][0])
        print(
            f"gradient on {tenth}0 % against {other}: {test['difference']:+.4f}, "
            f"p {test['p_wilcoxon']:.3g} (Wilcoxon), {test['p_t']:.3g} (t)"
        )
        result[f"{tenth}0 % against {other}"] = test
    return result


def fit_all(sizes: Sizes, processes: int) -> dict[tuple[str, int], tuple[Any, list[float]]]:
    """Every method on every tenth of the queries, the costly ones first."""
    cells = [(name, tenth, sizes) for tenth in reversed(TENTHS) for name in makers(*sizes[1:])]
    found = {}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for cell, answer in zip(cells, pool.imap(fit, cells, chunksize=1), strict=True):
            found[cell[0], cell[1]] = answer
            print(f"  {cell[1]:3d}0 % {cell[0]:<15} {answer[0].mean():.4f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    n_queries, n_rounds, n_trees = sizes
    folder = Path.cwd() if options.quick else FIGURES
    title = f"{n_queries:,} training queries, {n_rounds} rounds, forests of {n_trees} trees"
    found = fit_all(sizes, options.processes)

    curves = {name: values for (name, _), (_, values) in found.items() if values}
    needed = {
        name: {other: rounds_to(values, max(curves[other])) for other in ("MART", "LambdaMART")}
        for name, values in curves.items()
    }
    for name, values in curves.items():
        print(
            f"{name:<15} NDCG@10 {values[-1]:.4f} after {len(values)} rounds, best {max(values):.4f}; "
            f"rounds to the best of MART: {needed[name]['MART']}, of LambdaMART: {needed[name]['LambdaMART']}"
        )
    draw(
        folder / "broof-convergence.svg",
        {name: (list(range(1, len(y) + 1)), y) for name, y in curves.items()},
        "rounds of boosting",
        title,
    )

    shares = [tenth / 10 for tenth in TENTHS]
    learned = {
        name: [float(np.mean(found[name, tenth][0])) for tenth in TENTHS]
        for name in makers(n_rounds, n_trees)
    }
    lines = {name: ([100 * share for share in shares], y) for name, y in learned.items()}
    draw(folder / "broof-learning-curve.svg", lines, "share of the training queries, %", title)
    gain = learned["BROOF gradient"][-1] - learned["RandomForest"][-1]
    verdict = "reached" if gain >= GOAL else "MISSED"
    print(f"gradient over one forest of as many trees: {gain:+.4f} (goal: {GOAL}: {verdict})")
    tests = compare_gradient(found)
    if not options.quick:
        record = {"convergence": curves, "rounds_needed": needed, "shares": shares, "tests": tests}
        keep("shapes_broof", record | {"learning_curve": learned, "gain_over_forest": gain})


if __name__ == "__main__":
    main()
