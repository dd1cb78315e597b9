"""Slow twins of linear models and of what trains them: plain loops over rows, pairs and rounds."""

from __future__ import annotations

import math


def linear_scores(features, weights, fill, intercept) -> list[float]:
    """Sums in the order of the features; those without a weight are not looked at."""
    scores = []
    for row in features:
        total = 0.0
        for value, weight, instead in zip(row, weights, fill, strict=True):
            if weight != 0:
                total += float(weight) * float(instead if math.isnan(value) else value)
        scores.append(total + intercept)
    return scores


def pairs_of(labels, query_of_row) -> list[tuple[int, int]]:
    """Every (better, worse) pair of rows of the same query."""
    rows = range(len(labels))
    return [
        (better, worse)
        for better in rows
        for worse in rows
        if query_of_row[better] == query_of_row[worse] and labels[better] > labels[worse]
    ]


def sum_pairs(labels, query_of_row, scores, vector, masses, query_weights):
    """Per row, over its active pairs: weighted differences of the vector, and worse minus better; (1 - d)² per query."""
    product, balance = [0.0] * len(labels), [0.0] * len(labels)
    totals = [0.0] * len(query_weights)
    for better, worse in pairs_of(labels, query_of_row):
        if scores[better] - scores[worse] >= 1.0:
            continue
        query = query_of_row[better]
        weight = query_weights[query] * masses[better] * masses[worse]
        difference = vector[better] - vector[worse]
        product[better] += weight * difference
        product[worse] -= weight * difference
        balance[better] -= weight
        balance[worse] += weight
        totals[query] += weight * (1.0 - difference) ** 2
    return product, balance, totals


def ranksvm_objective(features, labels, query_of_row, weights, C) -> tuple[float, list[float]]:
    """½‖w‖² + C Σ max(0, 1 - (s_better - s_worse))², pair by pair, and its gradient."""
    value = 0.5 * sum(float(weight) ** 2 for weight in weights)
    gradient = [float(weight) for weight in weights]
    for better, worse in pairs_of(labels, query_of_row):
        difference = [
            float(b) - float(w) for b, w in zip(features[better], features[worse], strict=True)
        ]
        slack = 1.0 - sum(w * d for w, d in zip(weights, difference, strict=True))
        if slack > 0:
            value += C * slack**2
            gradient = [g - 2 * C * slack * d for g, d in zip(gradient, difference, strict=True)]
    return value, gradient


def moments(values, weights) -> tuple[float, float, float]:
    """Mean, standard deviation and least of the values that are present."""
    kept = [
        (float(v), float(w))
        for v, w in zip(values, weights, strict=True)
        if w > 0 and not math.isnan(v)
    ]
    if not kept:
        return 0.0, 0.0, 0.0
    total = sum(w for _, w in kept)
    mean = sum(v * w for v, w in kept) / total
    spread = math.sqrt(sum(w * (v - mean) ** 2 for v, w in kept) / total)
    least, greatest = min(v for v, _ in kept), max(v for v, _ in kept)
    return mean, spread if greatest > least else 0.0, least


def adarank(features, performance, n_rounds) -> tuple[list[tuple[int, int, float]], list[float]]:
    """Rounds of (feature, sign, weight), and the mean performance after each; nothing stops it.

    ``performance(scores)`` gives one value per query; features are added as they are.
    """
    n_features = len(features[0])
    columns = [
        [sign * float(row[f]) for row in features] for sign in (1, -1) for f in range(n_features)
    ]
    of_ranker = [performance(column) for column in columns]
    n_queries = len(of_ranker[0])
    P = [1 / n_queries] * n_queries
    scores = [0.0] * len(features)
    rounds, history = [], []
    for _ in range(n_rounds):
        values = [sum(p * e for p, e in zip(P, E, strict=True)) for E in of_ranker]
        best = max(range(len(values)), key=values.__getitem__)
        E = of_ranker[best]
        won = sum(p * (1 + e) for p, e in zip(P, E, strict=True))
        lost = sum(p * (1 - e) for p, e in zip(P, E, strict=True))
        alpha = 0.5 * math.log(won / lost)
        rounds.append((best % n_features, 1 if best < n_features else -1, alpha))
        scores = [s + alpha * value for s, value in zip(scores, columns[best], strict=True)]
        E = performance(scores)
        history.append(sum(E) / n_queries)
        P = [math.exp(-e) for e in E]
        P = [p / sum(P) for p in P]
    return rounds, history
