"""NDCGLoss2++ of one query, pair by pair; and the scores of a network, number by number."""

from __future__ import annotations

import math

import numpy as np


def ndcg_loss2pp(scores, labels, sigma=1.0, mu=10.0):
    n = len(scores)
    by_score = sorted(range(n), key=lambda i: -scores[i])  # stable
    rank = {document: place + 1 for place, document in enumerate(by_score)}
    ideal = sum(
        (2.0**label - 1.0) / math.log2(1 + place)
        for place, label in enumerate(sorted(labels, reverse=True), 1)
    )

    def discount(place):
        return math.log2(1 + place)

    total = 0.0
    for i in range(n):
        for j in range(n):
            if labels[i] > labels[j]:
                distance = abs(rank[i] - rank[j])
                delta = abs(1 / discount(distance) - 1 / discount(distance + 1))
                between = abs(1 / discount(rank[i]) - 1 / discount(rank[j]))
                gain = abs((2.0 ** labels[i] - 2.0 ** labels[j]) / ideal)
                cost = math.log2(1 + math.exp(-sigma * (scores[i] - scores[j])))
                total += (mu * delta + between) * gain * cost
    return total


def layer_outputs(inputs, weights, biases, is_hidden):
    """One layer, unit by unit, in float32 as the network has it."""
    found = []
    for row in inputs:
        units = []
        for unit, bias in enumerate(biases):
            total = np.float32(bias)
            for value, weight in zip(row, weights[:, unit], strict=True):
                total = np.float32(total + np.float32(value * weight))
            units.append(np.float32(max(total, np.float32(0))) if is_hidden else total)
        found.append(units)
    return np.array(found, np.float32)
