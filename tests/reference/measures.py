"""Slow, obvious twins of the measures: one query at a time, in the words of the definitions.

``labels`` and ``scores`` are lists in the data's order. A function gives None for an empty query.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rankwood._core.random import stream

Labels = Sequence[float]
Scores = Sequence[float]


def order(values: Scores) -> list[int]:
    """Places by descending value; Python's sort is stable."""
    return sorted(range(len(values)), key=lambda place: -values[place])


def ranked(labels: Labels, scores: Scores) -> list[float]:
    return [labels[place] for place in order(scores)]


def orders_of_ties(labels: Labels, scores: Scores) -> Iterator[list[float]]:
    """The ranked labels under every order of documents with equal scores."""
    places = order(scores)
    groups = [
        list(group) for _, group in itertools.groupby(places, key=lambda place: scores[place])
    ]
    for chosen in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [labels[place] for group in chosen for place in group]


def mean_over_ties(
    measure: Callable[[list[float]], float], labels: Labels, scores: Scores
) -> float:
    values = [measure(ranking) for ranking in orders_of_ties(labels, scores)]
    return math.fsum(values) / len(values)


def gain_of(label: float, gain: str | Sequence[float]) -> float:
    if gain == "exponential":
        return 2.0**label - 1.0
    if gain == "linear":
        return label
    return gain[int(label)]


def discount_of(rank: int, discount: str) -> float:
    """The discount of a rank, counted from 1."""
    if discount == "letor":
        return 1.0 if rank <= 2 else 1.0 / math.log2(rank)
    return 1.0 / math.log2(rank + 1)


def dcg(ranking: Labels, k: int | None, gain="exponential", discount="log2") -> float:
    return sum(
        gain_of(label, gain) * discount_of(rank, discount)
        for rank, label in enumerate(ranking[:k], start=1)
    )


def ndcg(ranking: Labels, k: int | None, gain="exponential", discount="log2") -> float | None:
    best = dcg(sorted(ranking, reverse=True), k, gain, discount)
    return None if best == 0 else dcg(ranking, k, gain, discount) / best


def mean_ndcg(ranking: Labels, gain="exponential", discount="log2") -> float | None:
    values = [ndcg(ranking, k, gain, discount) for k in range(1, len(ranking) + 1)]
    return None if None in values or not values else sum(values) / len(values)


def average_precision(
    ranking: Labels, k: int | None, relevant=1.0, norm="relevant"
) -> float | None:
    hits = [label >= relevant for label in ranking]
    if not any(hits):
        return None
    total = sum(sum(hits[:rank]) / rank for rank in range(1, len(hits[:k]) + 1) if hits[rank - 1])
    n_relevant = sum(hits)
    divisor = {
        "relevant": n_relevant,
        "cutoff": n_relevant if k is None else min(n_relevant, k),
        "found": sum(hits[:k]) or 1,
    }[norm]
    return total / divisor


def precision(ranking: Labels, k: int, relevant=1.0) -> float:
    return sum(label >= relevant for label in ranking[:k]) / k


def recall(ranking: Labels, k: int, relevant=1.0) -> float | None:
    n_relevant = sum(label >= relevant for label in ranking)
    return None if n_relevant == 0 else sum(label >= relevant for label in ranking[:k]) / n_relevant


def reciprocal_rank(ranking: Labels, k: int | None, relevant=1.0) -> float | None:
    if not any(label >= relevant for label in ranking):
        return None
    for rank, label in enumerate(ranking[:k], start=1):
        if label >= relevant:
            return 1.0 / rank
    return 0.0


def err(ranking: Labels, k: int | None, largest: float) -> float | None:
    if not any(label > 0 for label in ranking):
        return None
    stops = [(2.0**label - 1.0) / 2.0**largest for label in ranking]
    return sum(
        stops[rank] / (rank + 1) * math.prod(1.0 - stop for stop in stops[:rank])
        for rank in range(len(ranking[:k]))
    )


def rbp(
    ranking: Labels, k: int | None, p: float, largest: float, gain="exponential"
) -> float | None:
    if not any(gain_of(label, gain) > 0 for label in ranking):
        return None
    return sum(
        (1.0 - p) * p ** (rank - 1) * gain_of(label, gain) / gain_of(largest, gain)
        for rank, label in enumerate(ranking[:k], start=1)
    )


def tau_b(labels: Labels, scores: Scores) -> float | None:
    """Over all pairs of documents."""
    agreement = untied_labels = untied_scores = 0
    for one, other in itertools.combinations(range(len(labels)), 2):
        by_label = np.sign(labels[one] - labels[other])
        by_score = float(scores[one] > scores[other]) - float(scores[one] < scores[other])
        agreement += by_label * by_score
        untied_labels += by_label != 0
        untied_scores += by_score != 0
    if untied_labels == 0 or untied_scores == 0:
        return None
    return agreement / math.sqrt(untied_labels * untied_scores)


def auc(labels: Labels, scores: Scores, relevant=1.0, weights=None) -> float:
    """Over all pairs of a relevant and another document; ties count half."""
    weights = [1.0] * len(labels) if weights is None else weights
    won = possible = 0.0
    for one, other in itertools.permutations(range(len(labels)), 2):
        if labels[one] >= relevant > labels[other]:
            pair = weights[one] * weights[other]
            possible += pair
            won += pair * ((scores[one] > scores[other]) + 0.5 * (scores[one] == scores[other]))
    return won / possible if possible else math.nan


def pauc(labels: Labels, scores: Scores, low: float, high: float, relevant=1.0) -> float:
    """The area under the polygon through the ROC points, between the rates ``low`` and ``high``."""
    positives = sum(label >= relevant for label in labels)
    negatives = len(labels) - positives
    if not positives or not negatives:
        return math.nan
    points = [(0.0, 0.0)]
    for score in sorted(set(scores), reverse=True):
        shown = [label for label, other in zip(labels, scores, strict=True) if other >= score]
        hits = sum(label >= relevant for label in shown)
        points.append(((len(shown) - hits) / negatives, hits / positives))
    area = 0.0
    for (left, bottom), (right, top) in itertools.pairwise(points):
        begin, end = max(left, low), min(right, high)
        if end > begin:
            heights = [bottom + (top - bottom) * (x - left) / (right - left) for x in (begin, end)]
            area += (end - begin) * sum(heights) / 2
    return area


def rmse(labels: Labels, scores: Scores) -> float:
    return math.sqrt(
        sum((score - label) ** 2 for label, score in zip(labels, scores, strict=True)) / len(labels)
    )


def resample_counts(seed: int, name: str, n_units: int, n_resamples: int) -> np.ndarray:
    """How often each unit is drawn in each resample, by one call of one generator."""
    draws = stream(seed, name).integers(0, n_units, (n_resamples, n_units))
    return np.array([np.bincount(row, minlength=n_units) for row in draws], float)
