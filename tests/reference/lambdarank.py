"""The slow twin of LambdaRank: every pair is swapped in the ranking, and the measure computed anew."""

from __future__ import annotations

import itertools
import math

from tests.reference import measures


def value_of(target: dict, ranking: list[float], largest: float) -> float:
    """The measure of ranked labels; ``target`` is a name, a cut-off and conventions, 0 where it is not defined."""
    options = {name: value for name, value in target.items() if name not in ("name", "k")}
    k = target.get("k")
    if target["name"] == "ndcg":
        value = measures.ndcg(ranking, k, **options)
    elif target["name"] == "map":
        value = measures.average_precision(ranking, k, **options)
    elif target["name"] == "mrr":
        value = measures.reciprocal_rank(ranking, k, **options)
    else:
        value = measures.err(ranking, k, options.get("max", largest))
    return 0.0 if value is None else value


def is_better(target: dict, one: float, other: float) -> bool:
    """Whether a document of label ``one`` is worth more to the measure."""
    if target["name"] in ("map", "mrr"):
        relevant = target.get("relevant", 1.0)
        return (one >= relevant) > (other >= relevant)
    return one > other


def pairs_of(labels, scores, target, truncation=30, normalise=True, largest=None):
    """Every pair as (better, worse, weight): documents of one query, and how much they pull."""
    largest = max(labels) if largest is None else largest
    places = measures.order(scores)
    ranking = [labels[place] for place in places]
    before = value_of(target, ranking, largest)
    found = []
    for i, j in itertools.combinations(range(len(labels)), 2):
        if truncation is not None and i >= truncation:
            continue
        if not is_better(target, ranking[i], ranking[j]):
            if not is_better(target, ranking[j], ranking[i]):
                continue
            better, worse = places[j], places[i]
        else:
            better, worse = places[i], places[j]
        swapped = list(ranking)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        weight = abs(value_of(target, swapped, largest) - before)
        if normalise and max(scores) != min(scores):
            weight /= 0.01 + abs(scores[better] - scores[worse])
        found.append((better, worse, weight))
    return found


def gradients(labels, scores, target, sigma=1.0, normalise=True, **options):
    """Gradient and hessian of each document of one query."""
    gradient, hessian = [0.0] * len(labels), [0.0] * len(labels)
    total = 0.0
    for better, worse, weight in pairs_of(labels, scores, target, normalise=normalise, **options):
        rho = 1.0 / (1.0 + math.exp(sigma * (scores[better] - scores[worse])))
        lambda_ = sigma * rho * weight
        gradient[better] -= lambda_
        gradient[worse] += lambda_
        for document in (better, worse):
            hessian[document] += sigma**2 * rho * (1.0 - rho) * weight
        total += 2.0 * lambda_
    factor = math.log2(1.0 + total) / total if normalise and total > 0 else 1.0
    return [factor * value for value in gradient], [factor * value for value in hessian]


def cost(pairs, scores, sigma=1.0) -> float:
    """What lambdas are the negative gradient of, while the weights of the pairs are held fixed."""
    return math.fsum(
        weight * math.log1p(math.exp(-sigma * (scores[better] - scores[worse])))
        for better, worse, weight in pairs
    )
