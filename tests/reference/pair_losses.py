"""Slow twins of the losses over pairs: every pair is listed, every exponential taken."""

from __future__ import annotations

import itertools
import math

import numpy as np


def queries_of(query_ids) -> list[list[int]]:
    """The rows of each query, by first appearance."""
    rows: dict = {}
    for row, query in enumerate(query_ids):
        rows.setdefault(query, []).append(row)
    return list(rows.values())


def gains_of(labels, query_ids) -> np.ndarray:
    """(2^label - 1) over the ideal DCG of the query; 0 where that is 0."""
    gains = np.zeros(len(labels))
    for rows in queries_of(query_ids):
        best = sorted((2.0 ** labels[row] - 1 for row in rows), reverse=True)
        ideal = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(best))
        for row in rows:
            gains[row] = (2.0 ** labels[row] - 1) / ideal if ideal > 0 else 0.0
    return gains


def theta(one: float, other: float) -> float:
    ratio = math.exp(one - other)
    return ratio / (1 + ratio) ** 2


def weight_of(pair, row_weights, query_weight) -> float:
    one, other = pair
    return query_weight * row_weights[one] * row_weights[other]


def document_weights(labels, query_ids, scores, row_weights, query_weights) -> np.ndarray:
    """NDCGBoost's w_i = Σ_j (g_i - g_j) θ_ij."""
    gains, weights = gains_of(labels, query_ids), np.zeros(len(labels))
    for rows, weight in zip(queries_of(query_ids), query_weights, strict=True):
        for i, j in itertools.permutations(rows, 2):
            pull = (gains[i] - gains[j]) * theta(scores[i], scores[j])
            weights[i] += pull * weight_of((i, j), row_weights, weight)
    return weights


def surrogate(labels, query_ids, scores, row_weights, query_weights) -> float:
    """NDCGBoost's M = Σ_i g_i Σ_{j≠i} 1 / (1 + exp(F_i - F_j))."""
    gains, total = gains_of(labels, query_ids), 0.0
    for rows, weight in zip(queries_of(query_ids), query_weights, strict=True):
        for i, j in itertools.permutations(rows, 2):
            loss = gains[i] / (1 + math.exp(scores[i] - scores[j]))
            total += loss * weight_of((i, j), row_weights, weight)
    return total


def vote_sums(labels, query_ids, scores, votes, row_weights, query_weights) -> tuple[float, float]:
    """Σ g_i θ_ij over the ordered pairs with f_j < f_i, and over those with f_j > f_i."""
    gains, up, down = gains_of(labels, query_ids), 0.0, 0.0
    for rows, weight in zip(queries_of(query_ids), query_weights, strict=True):
        for i, j in itertools.permutations(rows, 2):
            share = gains[i] * theta(scores[i], scores[j])
            share *= weight_of((i, j), row_weights, weight)
            up += share * (votes[j] < votes[i])
            down += share * (votes[j] > votes[i])
    return up, down


def listed_pairs(labels, query_ids) -> list[tuple[int, int, int]]:
    """(number of the query, better row, worse row)."""
    return [
        (number, i, j)
        for number, rows in enumerate(queries_of(query_ids))
        for i, j in itertools.permutations(rows, 2)
        if labels[i] > labels[j]
    ]


def distribution(labels, query_ids, scores, row_weights, query_weights) -> list[float]:
    """RankBoost's D over the listed pairs, before it is made to sum to 1."""
    return [
        weight_of((i, j), row_weights, query_weights[number]) * math.exp(scores[j] - scores[i])
        for number, i, j in listed_pairs(labels, query_ids)
    ]


def potentials(labels, query_ids, scores, row_weights, query_weights) -> np.ndarray:
    """Σ_j D(i, j) - Σ_j D(j, i) by row."""
    found = np.zeros(len(labels))
    shares = distribution(labels, query_ids, scores, row_weights, query_weights)
    for (_, i, j), share in zip(listed_pairs(labels, query_ids), shares, strict=True):
        found[i] += share / sum(shares)
        found[j] -= share / sum(shares)
    return found


def best_weak_ranker(features, potentials, thresholds) -> tuple[int, float, float]:
    """(feature, threshold, r) of greatest |r| by trying all; of equal ones the first."""
    best = (-1, 0.0, 0.0)
    for feature, cuts in enumerate(thresholds):
        for cut in cuts:
            column = features[:, feature]
            says = np.where(np.isnan(column), 0.5, column > cut)
            edge = float((potentials * says).sum())
            if abs(edge) > abs(best[2]) + 1e-12:
                best = (feature, float(cut), edge)
    return best


def rankboost_scores(features, labels, query_ids, thresholds, n_rounds) -> np.ndarray:
    """Scores of the training rows after some rounds."""
    ones = np.ones(len(labels))
    scores = np.zeros(len(labels))
    for _ in range(n_rounds):
        found = potentials(labels, query_ids, scores, ones, ones)
        feature, cut, edge = best_weak_ranker(features, found, thresholds)
        column = features[:, feature]
        says = np.where(np.isnan(column), 0.5, column > cut)
        scores = scores + 0.5 * math.log((1 + edge) / (1 - edge)) * says
    return scores
