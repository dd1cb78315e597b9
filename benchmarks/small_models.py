"""Test quality by the most trees a model may have: for plain boosting, bandit boosting and the search.

Of every method the model of at most so many trees that is best on the validation data is taken, and measured on the
test data; ties of scores are averaged on all parts. ``run_cells`` fits many of them on several processes.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any

import rankwood as rw
from benchmarks.common import RESULTS


def run_cells(
    cells: Sequence[Any], work: Callable[[Any], dict[str, Any]], processes: int
) -> list[dict[str, Any]]:
    """What ``work`` gives for each cell, in their order; on several processes, with a line as each is done.

    Ctrl-C gives those that are done.
    """
    start = time.perf_counter()
    found: dict[int, dict[str, Any]] = {}
    numbered = [(number, cell, work) for number, cell in enumerate(cells)]
    try:
        if processes <= 1:
            for one in map(_work_on, numbered):
                _note(found, one, cells, start)
        else:
            with multiprocessing.get_context("spawn").Pool(min(processes, len(cells))) as pool:
                for one in pool.imap_unordered(_work_on, numbered):
                    _note(found, one, cells, start)
    except KeyboardInterrupt:
        print("interrupted: what follows is what is known so far")
    return [found[number] for number in sorted(found)]


def _work_on(task: tuple[int, Any, Callable[[Any], dict[str, Any]]]) -> tuple[int, dict[str, Any]]:
    number, cell, work = task
    start = time.perf_counter()
    result = work(cell)
    return number, {**result, "cell_seconds": time.perf_counter() - start}


def _note(
    found: dict[int, dict[str, Any]], one: tuple[int, Any], cells: Sequence[Any], start: float
) -> None:
    number, result = one
    found[number] = result
    taken, whole = result["cell_seconds"], time.perf_counter() - start
    print(
        f"{len(found):3} of {len(cells)} after {whole:4.0f} s: {cells[number]} {taken:.0f} s",
        flush=True,
    )


def chosen(model: Any, test: rw.RankingData, measure: str) -> dict[str, float]:
    """Trees, validation and test measure of the model that validates best among all lengths."""
    n_trees, forest = _best(model, 10**9)
    if isinstance(model, rw.BoostingTree):
        valid = float(model.tree_.values[model.family_.best()])
    else:
        valid = float(max(model.history_))
    return {
        "trees": n_trees,
        "valid": valid,
        "test": value_of(forest.predict(test), test, measure),
    }


def curve(model: Any, test: rw.RankingData, measure: str, limits: Sequence[int]) -> list[float]:
    """The test measure for each limit; ``model`` was fitted with validation data."""
    known: dict[int, float] = {}
    values = []
    for limit in limits:
        n_trees, forest = _best(model, limit)
        if n_trees not in known:
            known[n_trees] = value_of(forest.predict(test), test, measure)
        values.append(known[n_trees])
    return values


def _best(model: Any, limit: int) -> tuple[int, Any]:
    """Trees and forest of the best model of at most ``limit`` trees."""
    if isinstance(model, rw.BoostingTree):
        forest = model.best(limit)
        return forest.n_trees, forest
    history = model.history_[:limit]
    best = max(range(len(history)), key=lambda place: (history[place], -place)) + 1
    return best, model.forest_.take_trees(slice(0, best))


def value_of(scores: Any, data: rw.RankingData, measure: str) -> float:
    """A measure of some scores, without an interval."""
    return float(rw.evaluate(scores, data, measure, n_bootstrap=0)[measure].value)


def print_table(rows: dict[str, list[float]], columns: Sequence[str]) -> None:
    """Rows of figures under their columns; what is not known yet is a dash."""
    width = max(map(len, rows), default=0)
    print(" " * width, *(f"{column:>8}" for column in columns))
    for name, values in rows.items():
        cells = [f"{value:8.4f}" if not math.isnan(value) else f"{'-':>8}" for value in values]
        print(f"{name:<{width}}", *cells)


def draw(
    name: str,
    panels: dict[str, dict[str, list[float]]],
    limits: Sequence[int],
    labels: tuple[str, str],
) -> None:
    """One panel of curves per base, over the most trees of a model, to ``results/NAME.svg``."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("no plot: pip install 'rankwood[report]' brings matplotlib")
        return
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "rankwood"  # the same figure gives the same bytes
    from matplotlib import pyplot as plt

    size = (5.5 * len(panels), 4.2)
    figure, axes = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for place, (title, curves) in enumerate(panels.items()):
        panel = axes[0][place]
        for label, values in curves.items():
            panel.plot(limits, values, marker="o", markersize=3, label=label)
        panel.set(xscale="log", xlabel=labels[0], ylabel=labels[1], title=title)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    path = RESULTS / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(f"plot: {path.name}")
