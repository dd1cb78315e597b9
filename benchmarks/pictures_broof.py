"""Draws ``docs/methods/broof-losses.svg``: what each of BROOF's losses sees in one small ranked list.

Run as ``python -m benchmarks.pictures_broof``; it needs matplotlib (``pip install 'rankwood[report]'``). The errors
drawn are what the library computes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from rankwood.losses.placement import height_errors, median_errors
from rankwood.rankers.broof.strategies import absolute_errors

PATH = Path(__file__).parents[1] / "docs" / "methods" / "broof-losses.svg"
# Eight documents by descending prediction, two of them relevant: grade 4, the others 0.
LABELS = np.array([0, 0, 0, 4, 0, 4, 0, 0], float)
PREDICTIONS = np.array([3.4, 3.0, 2.6, 2.2, 1.6, 1.2, 0.8, 0.4])
PLACES = np.arange(1, 9)
RELEVANT, OTHER, ERROR = "#0b5394", "#cc0000", "#555555"


def list_of_documents(axes: Any, title: str) -> None:
    """The predictions by place; relevant documents are filled squares, the others hollow circles."""
    is_relevant = LABELS > 0
    axes.plot(
        PLACES[is_relevant], PREDICTIONS[is_relevant], "s", color=RELEVANT, markersize=9, zorder=3
    )
    axes.plot(
        PLACES[~is_relevant],
        PREDICTIONS[~is_relevant],
        "o",
        color=OTHER,
        markerfacecolor="white",
        markeredgewidth=1.6,
        markersize=9,
        zorder=3,
    )
    axes.set_title(title, loc="left", fontsize=10)
    axes.set(xlim=(0.3, 8.7), ylim=(-0.75, 4.6), xticks=PLACES, yticks=range(5))
    axes.set(xlabel="place in the list", ylabel="prediction")


def numbers(axes: Any, errors: Any) -> None:
    """Each document's error below its place."""
    for place, error in zip(PLACES, errors, strict=True):
        axes.text(place, -0.5, f"{error:.3g}", ha="center", va="center", fontsize=9)
    axes.text(0.42, -0.5, "e", ha="center", va="center", fontsize=9, style="italic")


def distances(axes: Any, ends: Any) -> None:
    for place, guess, end in zip(PLACES, PREDICTIONS, ends, strict=True):
        if not np.isnan(end):
            axes.annotate(
                "",
                xy=(place, end),
                xytext=(place, guess),
                arrowprops={"arrowstyle": "->", "color": ERROR, "shrinkA": 5, "shrinkB": 0},
            )


def draw_absolute(axes: Any, data: rw.RankingData) -> None:
    list_of_documents(axes, "absolute: how far is the prediction from the grade?")
    distances(axes, LABELS)
    numbers(axes, absolute_errors(PREDICTIONS, data))


def draw_median(axes: Any, data: rw.RankingData) -> None:
    list_of_documents(axes, "median: how far from the region where its grade belongs?")
    regions = {4.0: (0.5, 2.5, RELEVANT), 0.0: (2.5, 8.5, OTHER)}
    medians = {4.0: float(np.median(PREDICTIONS[:2])), 0.0: float(np.median(PREDICTIONS[2:]))}
    for grade, (left, right, colour) in regions.items():
        axes.axvspan(left, right, color=colour, alpha=0.08, linewidth=0)
        axes.hlines(medians[grade], left, right, color=colour, linestyle="--", linewidth=1.2)
        axes.text((left + right) / 2, 4.3, f"region of grade {grade:.0f}", ha="center", fontsize=7)
    errors = median_errors(PREDICTIONS, data)
    ends = [
        medians[label] if error else np.nan for label, error in zip(LABELS, errors, strict=True)
    ]
    distances(axes, ends)
    numbers(axes, errors)


def draw_height(axes: Any, data: rw.RankingData) -> None:
    list_of_documents(axes, "height: how many documents are on the wrong side of it?")
    for place in PLACES:
        for other in PLACES[place:]:
            if LABELS[place - 1] < LABELS[other - 1]:  # stands above one that is better
                axes.annotate(
                    "",
                    xy=(other, PREDICTIONS[other - 1]),
                    xytext=(place, PREDICTIONS[place - 1]),
                    arrowprops={
                        "arrowstyle": "<->",
                        "color": ERROR,
                        "linewidth": 0.8,
                        "connectionstyle": "arc3,rad=-0.35",
                        "shrinkA": 6,
                        "shrinkB": 6,
                    },
                )
    numbers(axes, height_errors(PREDICTIONS, data))


def draw_gradient(axes: Any) -> None:
    """One relevant document: what is left of its grade after each round of rate 0.5, 0.6 of it predicted."""
    left, rounds = [4.0], range(1, 8)
    for _ in rounds:
        left.append(left[-1] - 0.5 * 0.6 * left[-1])
    axes.set_title(
        "gradient: what is left of the grade for the next forest?", loc="left", fontsize=10
    )
    axes.bar(rounds, left[:-1], width=0.55, color="#cfe2f3", edgecolor=RELEVANT)
    for number in rounds:
        predicted = 0.6 * left[number - 1]
        axes.plot(number, predicted, "s", color=RELEVANT, markersize=7, zorder=3)
        axes.text(
            number, left[number - 1] + 0.1, f"{left[number - 1]:.2f}", ha="center", fontsize=8
        )
    axes.set(xlabel="round", ylabel="target (bar) and prediction (square)", ylim=(0, 4.6))
    axes.set(xticks=list(rounds))


def main() -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "rankwood", "svg.fonttype": "none", "font.size": 9}
    from matplotlib import pyplot as plt

    data = rw.RankingData(np.zeros((8, 1)), LABELS, np.zeros(8, int))
    figure, ((absolute, median), (height, gradient)) = plt.subplots(2, 2, figsize=(10, 7))
    draw_absolute(absolute, data)
    draw_median(median, data)
    draw_height(height, data)
    draw_gradient(gradient)
    figure.tight_layout(pad=1.5)
    figure.savefig(PATH, format="svg", metadata={"Date": None})
    plt.close(figure)
    print(f"drawn: {PATH}")


if __name__ == "__main__":
    main()
