"""A slow search over boosting sequences: every step goes through all models anew, and selection scans over c."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Model:
    parent: int
    depth: int
    f: float
    f_hat: float
    round: int
    tried: int = 0
    in_vain: int = 0  # tried since the last success

    @property
    def n(self) -> int:
        return self.depth + self.tried


def maximal_for_some_c(points):
    """Places of the points (h, f̂) that are strictly best for some c > 0 among different ones, from intervals of c."""
    different = set(points)
    maximal = {point for point in different if is_best_for_some_c(point, different - {point})}
    return [place for place, point in enumerate(points) if point in maximal]


def is_best_for_some_c(point, others):
    (x, y), low, high = point, 0.0, math.inf
    for other_x, other_y in others:
        if other_x == x:
            if other_y > y:
                high = -1.0
        elif other_x < x:
            low = max(low, (other_y - y) / (x - other_x))
        else:
            high = min(high, (y - other_y) / (other_x - x))
    return low < high


def can_be_extended(model, n_constraints, max_length=None):
    """Whether constraints are left: of endless ones, whether the last hundred were not all in vain."""
    if max_length is not None and model.depth >= max_length:
        return False
    return model.in_vain < 100 if n_constraints is None else model.tried < n_constraints


def select(models, n_constraints, exponent=0.5, max_length=None):
    """(a): the active models that are maximal for some c > 0; one per n."""
    scale = len(models) ** exponent
    active = [
        number
        for number, model in enumerate(models)
        if can_be_extended(model, n_constraints, max_length)
    ]
    points = [(math.exp(-models[number].n / scale), models[number].f_hat) for number in active]
    maximal = [active[place] for place in maximal_for_some_c(points)]
    chosen = {}
    for number in maximal:
        model = models[number]
        key = (-model.f_hat, model.depth, -model.f, number)
        if model.n not in chosen or key < chosen[model.n][0]:
            chosen[model.n] = (key, number)
    return [chosen[n][1] for n in sorted(chosen)]


def leader_of(models):
    return max(
        range(len(models)),
        key=lambda number: (
            models[number].f_hat,
            models[number].depth,
            models[number].f,
            -number,
        ),
    )


def search(start, fit, n_constraints, budget, exponent=0.5, max_length=None):
    """The models, and (round, hypotheses, depth of the leader, whether a leader ran out) after every whole round.

    ``fit(model, place)`` gives f of the model's extension under its constraint number ``place``, or None.
    """
    models = [Model(-1, 0, start, start, 0)]
    rounds, log = [], []

    def extend(number, round_number):
        if len(log) >= budget:
            raise StopIteration
        model = models[number]
        f = fit(number, model.tried)
        model.tried += 1
        model.in_vain = model.in_vain + 1 if f is None else 0
        log.append(number)
        if f is not None:
            models.append(Model(number, model.depth + 1, f, max(model.f_hat, f), round_number))

    def is_active(number):
        return can_be_extended(models[number], n_constraints, max_length)

    round_number, ran_out = 0, False
    try:
        while True:
            selected = select(models, n_constraints, exponent, max_length)
            if not selected:
                break
            round_number += 1
            for number in selected:
                extend(number, round_number)
            while True:
                leader = leader_of(models)
                others = [m.depth for number, m in enumerate(models) if number != leader]
                is_ahead = all(depth < models[leader].depth for depth in others)
                if models[leader].round == round_number and is_ahead:
                    break
                if not is_active(leader):
                    ran_out = True
                    break
                extend(leader, round_number)
            rounds.append((round_number, len(models) - 1, models[leader_of(models)].depth, ran_out))
    except StopIteration:
        pass
    return models, rounds


def exp3p_probabilities(weights, exploration):
    total = sum(weights)
    return [(1 - exploration) * w / total + exploration / len(weights) for w in weights]


def exp3p_weights(weights, exploration, smoothing, features, reward):
    count = len(weights)
    probabilities = exp3p_probabilities(weights, exploration)
    found = []
    for feature, (weight, p) in enumerate(zip(weights, probabilities, strict=True)):
        gained = reward / p if feature in features else 0.0
        gained += smoothing / (p * math.sqrt(count))
        found.append(weight * math.exp(exploration / (3 * count) * gained))
    return found


def best_stump(columns, n_bins, classes, weights, min_leaf=1):
    """Feature, code and edge of the stump of least weighted error: first feature, then greatest threshold."""
    best = (0.0, None, None)
    for feature, column in enumerate(columns):
        for code in range(n_bins[feature] - 1):
            left = [row for row, value in enumerate(column) if value <= code]
            right = [row for row, value in enumerate(column) if value > code]
            if len(left) < min_leaf or len(right) < min_leaf:
                continue
            edge = abs(
                sum(classes[row] * weights[row] for row in right)
                - sum(classes[row] * weights[row] for row in left)
            )
            same_feature = best[1] == feature
            if edge > best[0] + 1e-12 or (same_feature and edge >= best[0] - 1e-12):
                best = (max(edge, best[0]), feature, code)
    return best
