"""A slow search by size: the members of the beam and the front, by going through all models anew each time."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Model:
    parent: int
    size: int
    worth: float
    is_plain: bool


def steps_of(size):
    """k(d): 8 for d ≤ 3, 5 for d ≤ 10, then 3."""
    if size <= 3:
        return 8
    return 5 if size <= 10 else 3


def members_of(models, size, width):
    """Plain boosting's model of a size, then the best others; a worth that is there already is not taken again."""
    of_size = [number for number, model in enumerate(models) if model.size == size]
    members = [number for number in of_size if models[number].is_plain]
    while len(members) < width:
        known = [models[number].worth for number in members]
        left = [number for number in of_size if models[number].worth not in known]
        if not left:
            break
        members.append(max(left, key=lambda number: (models[number].worth, -number)))
    return members


def search(start, fit, n_sizes, width):
    """The models of a search; ``fit(model, place, is_free)`` gives the worth of an extension, or None."""
    models = [Model(-1, 0, start, True)]
    for size in range(1, n_sizes + 1):
        places = {}
        steps = []
        for member in members_of(models, size - 1, width):
            if models[member].is_plain:
                steps.insert(0, (member, True))
            times = 4 if member == 0 else 1
            steps += [(member, False)] * (times * steps_of(size))
        for member, is_free in steps:
            place = places[member] = places.get(member, -1) + 1
            worth = fit(member, place, is_free)
            if worth is not None:
                models.append(Model(member, size, worth, is_free))
    return models


def front(models, values):
    """For each number of trees the best alternative, where it is ahead by two standard errors; else plain boosting's.

    ``values(model)`` has the values of the queries, by part.
    """
    chosen = []
    for size in range(max(model.size for model in models) + 1):
        plain = max(
            (
                number
                for number, model in enumerate(models)
                if model.is_plain and model.size <= size
            ),
            key=lambda number: models[number].size,
        )
        others = [
            number
            for number, model in enumerate(models)
            if not model.is_plain and model.size <= size
        ]
        best = max(
            others,
            key=lambda number: (models[number].worth, -models[number].size, -number),
            default=None,
        )
        is_ahead = best is not None and lead_in_errors(values(best), values(plain)) > 2.0
        chosen.append(best if is_ahead else plain)
    return chosen


def lead_in_errors(one, other):
    """The difference of ½ training + ½ validation, divided by its standard error from paired differences."""
    lead, variance = 0.0, 0.0
    for ours, theirs in zip(one, other, strict=True):
        differences = [a - b for a, b in zip(ours, theirs, strict=True)]
        count = len(differences)
        mean = sum(differences) / count
        spread = sum((difference - mean) ** 2 for difference in differences) / (count - 1)
        lead += 0.5 * mean
        variance += 0.25 * spread / count
    if variance == 0.0:
        return math.inf if lead > 0 else 0.0
    return lead / math.sqrt(variance)
