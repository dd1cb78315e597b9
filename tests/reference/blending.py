"""Slow twins of how a blend is weighted: least squares by trying all sets of parts, the search by plain loops."""

from __future__ import annotations

import itertools
import math

from tests.reference import measures


def deviations(values, queries) -> list[float]:
    """Values minus the mean of their query."""
    result = []
    for value, query in zip(values, queries, strict=True):
        own = [other for other, q in zip(values, queries, strict=True) if q == query]
        result.append(float(value) - math.fsum(own) / len(own))
    return result


def spread(values, queries) -> float:
    """The standard deviation within queries."""
    return math.sqrt(math.fsum(x * x for x in deviations(values, queries)) / len(values))


def solve(matrix, right) -> list[float] | None:
    """Gaussian elimination with the greatest pivot; None where the equations have no single solution."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for column in range(n):
        pivot = max(range(column, n), key=lambda row: abs(rows[row][column]))
        if abs(rows[pivot][column]) < 1e-12:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(n):
            if row != column:
                factor = rows[row][column] / rows[column][column]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
    return [rows[row][n] / rows[row][row] for row in range(n)]


def least_squares_shares(columns, labels, queries) -> list[float]:
    """The best non-negative weights: every set of parts is fitted freely, and the best without a negative one wins."""
    target = deviations(labels, queries)
    units = [deviations(column, queries) for column in columns]
    best, least = [0.0] * len(units), math.fsum(y * y for y in target)
    for size in range(1, len(units) + 1):
        for chosen in itertools.combinations(range(len(units)), size):
            gram = [
                [math.fsum(a * b for a, b in zip(units[i], units[j], strict=True)) for j in chosen]
                for i in chosen
            ]
            moments = [
                math.fsum(a * y for a, y in zip(units[i], target, strict=True)) for i in chosen
            ]
            weights = solve(gram, moments)
            if weights is None or min(weights) < 0:
                continue
            fitted = [
                sum(w * units[i][row] for w, i in zip(weights, chosen, strict=True))
                for row in range(len(target))
            ]
            error = math.fsum((y - f) ** 2 for y, f in zip(target, fitted, strict=True))
            if error < least - 1e-9:
                least = error
                best = [0.0] * len(units)
                for weight, i in zip(weights, chosen, strict=True):
                    best[i] = weight
    total = sum(best)
    return [w / total for w in best] if total > 0 else [1 / len(best)] * len(best)


def mean_ndcg_at_10(scores, labels, queries) -> float:
    """NDCG@10 over the queries; one without a relevant document counts 0."""
    values = []
    for query in dict.fromkeys(queries):
        rows = [row for row, q in enumerate(queries) if q == query]
        ranking = measures.ranked([labels[r] for r in rows], [scores[r] for r in rows])
        values.append(measures.ndcg(ranking, 10) or 0.0)
    return math.fsum(values) / len(values)


def search_shares(columns, labels, queries) -> list[float]:
    """The search over moves of weight, in grains of 1/32 of an equal share."""
    n = len(columns)

    def value(grains):
        scores = [
            sum(g / (32 * n) * column[row] for g, column in zip(grains, columns, strict=True))
            for row in range(len(labels))
        ]
        return mean_ndcg_at_10(scores, labels, queries)

    here = [32] * n
    best = value(here)
    for part in range(n):
        corner = [32 * n if other == part else 0 for other in range(n)]
        if value(corner) > best + 1e-12:
            here, best = corner, value(corner)
    for step in (16, 8, 4, 2, 1):
        while True:
            found = None
            for giver in range(n):
                for taker in range(n):
                    moved = list(here)
                    moved[giver] -= min(step, here[giver])
                    moved[taker] += min(step, here[giver])
                    if giver != taker and here[giver] and value(moved) > best + 1e-12:
                        found, best = moved, value(moved)
            if found is None:
                break
            here = found
    return [grain / (32 * n) for grain in here]


def gated_score(units, weights, errors, strength) -> float:
    """The score of one document whose parts weigh the less the larger their predicted error."""
    powers = [
        weight * min(max(error, 0.01), 100.0) ** -strength
        for weight, error in zip(weights, errors, strict=True)
    ]
    return sum(power * unit for power, unit in zip(powers, units, strict=True)) / sum(powers)
