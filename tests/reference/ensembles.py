"""Slow twins of bags, out-of-bag sums, forests and boosting: plain loops over rows, and scikit-learn's trees."""

from __future__ import annotations

import bisect
import itertools

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from tests.reference.trees import uniform


def draw_with_replacement(stream: int, n_draws: int, n_items: int) -> list[int]:
    counts = [0] * n_items
    for draw in range(n_draws):
        counts[int(uniform(stream, draw) * n_items)] += 1
    return counts


def draw_without_replacement(stream: int, n_draws: int, n_items: int) -> list[int]:
    counts = []
    for item in range(n_items):
        n_left, n_wanted = n_items - item, n_draws - sum(counts)
        counts.append(int(n_left * uniform(stream, item) < n_wanted))
    return counts


def draw_by_weight(stream: int, n_draws: int, weights: list[float]) -> list[int]:
    cumulative = list(itertools.accumulate(weights))
    counts = [0] * len(weights)
    for draw in range(n_draws):
        counts[bisect.bisect_right(cumulative, uniform(stream, draw) * cumulative[-1])] += 1
    return counts


def add_leaf_values(leaf_of_row, value, factor, totals) -> list[float]:
    return [
        float(total) + factor * float(value[leaf])
        for total, leaf in zip(totals, leaf_of_row, strict=True)
    ]


def out_of_bag(predictions, counts) -> tuple[list[float], list[int]]:
    """Per row: mean prediction (trees × rows) of the trees with count 0, and their number."""
    means, numbers = [], []
    for row in range(len(predictions[0])):
        total, number = 0.0, 0
        for tree in range(len(predictions)):
            if counts[tree][row] == 0:
                total += float(predictions[tree][row])
                number += 1
        means.append(total / number if number else float("nan"))
        numbers.append(number)
    return means, numbers


def forest_trees(features, labels, counts, **limits) -> list[np.ndarray]:
    """What each tree of a forest without random features predicts, from the rows drawn for it."""
    predictions = []
    for of_tree in counts:
        tree = DecisionTreeRegressor(random_state=0, **limits)
        tree.fit(features, labels, sample_weight=of_tree)
        predictions.append(tree.predict(features))
    return predictions


def boosted_scores(features, labels, n_trees, learning_rate, weights=None, **limits) -> np.ndarray:
    """Scores of the training rows: start at the mean, then add what each tree says of the residuals."""
    scores = np.full(len(labels), np.average(labels, weights=weights))
    for _ in range(n_trees):
        tree = DecisionTreeRegressor(random_state=0, **limits)
        tree.fit(features, labels - scores, sample_weight=weights)
        scores = scores + learning_rate * tree.predict(features)
    return scores


def mean_of_runs(scores_of_run) -> list[float]:
    """The mean over runs of each row's score."""
    return [sum(of_row) / len(of_row) for of_row in zip(*scores_of_run, strict=True)]


def starts_from_forest(predictions, counts, residuals) -> list[float]:
    """What boosting that starts from a forest takes as the forest's prediction of each training row."""
    in_bag = [float(np.mean([tree[row] for tree in predictions])) for row in range(len(counts[0]))]
    if residuals == "in-bag":
        return in_bag
    means, numbers = out_of_bag(predictions, counts)
    return [
        mean if number else seen for mean, number, seen in zip(means, numbers, in_bag, strict=True)
    ]


def ordinal_score(cumulative, worths, clip) -> float:
    """The expected worth of one document, from its T_0 … T_{K-2}."""
    upper = [*cumulative, 1.0]
    probabilities = [high - low for high, low in zip(upper, [0.0, *cumulative], strict=True)]
    if clip:
        kept = [max(0.0, probability) for probability in probabilities]
        probabilities = [probability / sum(kept) for probability in kept]
    return sum(worth * p for worth, p in zip(worths, probabilities, strict=True))
