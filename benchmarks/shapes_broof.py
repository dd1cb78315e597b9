"""The shapes of the dissertation's Figures 6.1 and 6.2 on generated data: convergence, and learning curves.

Run as ``python -m benchmarks.shapes_broof``; it draws with matplotlib (``pip install 'rankwood[report]'``). NDCG@10 on
1,000 test queries. Convergence: after every round of BROOF's gradient and lambda kinds (a forest each), of MART and of
LambdaMART (a tree each). Learning curve: trained on 10 % to 100 % of 3,000 queries. Goal: gradient beats a single
forest of as many trees and leaves by at least 0.01.

``python -m benchmarks.shapes_broof 300 10 10`` tries it on 300 queries, 10 rounds and 10 trees, and keeps nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rankwood as rw
from benchmarks.common import keep
from benchmarks.training import N_THREADS, ndcg

FULL = (3000, 100, 20)  # queries, rounds, trees per round
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
    """Each method as often as it is wanted; boosted trees with their own defaults."""
    shared: dict[str, Any] = {"max_leaves": N_LEAVES, "n_threads": N_THREADS}
    return {
        "BROOF gradient": lambda: rw.BROOF("gradient", n_rounds, n_trees, 0.1, **shared),
        "BROOF lambda": lambda: rw.BROOF("lambda", n_rounds, n_trees, 0.1, **shared),
        "MART": lambda: rw.GBRT(n_rounds, n_threads=N_THREADS),
        "LambdaMART": lambda: rw.LambdaMART(n_rounds, n_threads=N_THREADS),
        "RandomForest": lambda: rw.RandomForest(n_rounds * n_trees, **shared),
    }


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


def main(n_queries: int = FULL[0], n_rounds: int = FULL[1], n_trees: int = FULL[2]) -> None:
    is_full = (n_queries, n_rounds, n_trees) == FULL
    everything = rw.make_ranking(n_queries + 1000, 40, 46, seed=1)
    train = everything.take_queries(range(n_queries))
    test = everything.take_queries(range(n_queries, n_queries + 1000))
    made = makers(n_rounds, n_trees)
    folder = FIGURES if is_full else Path.cwd()
    title = f"{n_queries:,} training queries, {n_rounds} rounds, forests of {n_trees} trees"

    curves = {
        name: curve(make().fit(train, valid=test), name)
        for name, make in made.items()
        if name != "RandomForest"
    }
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

    shares = [round(0.1 * tenth, 1) for tenth in range(1, 11)]
    learned: dict[str, list[float]] = {name: [] for name in made}
    for share in shares:
        part = train.take_queries(range(round(share * n_queries)))
        for name, make in made.items():
            learned[name].append(ndcg(make().fit(part), test))
        print(f"{share:4.0%} " + "  ".join(f"{name} {y[-1]:.4f}" for name, y in learned.items()))
    lines = {name: ([100 * share for share in shares], y) for name, y in learned.items()}
    draw(folder / "broof-learning-curve.svg", lines, "share of the training queries, %", title)
    gain = learned["BROOF gradient"][-1] - learned["RandomForest"][-1]
    verdict = "reached" if gain >= GOAL else "MISSED"
    print(f"gradient over one forest of as many trees: {gain:+.4f} (goal: {GOAL}: {verdict})")
    if is_full:
        record = {"convergence": curves, "rounds_needed": needed, "shares": shares}
        keep("shapes_broof", record | {"learning_curve": learned, "gain_over_forest": gain})


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
