"""Error, bias² and variance of ordered pairs, written as the definition says it."""

from __future__ import annotations


def of_query(labels, scores_of_trainings, pairs="different", ties="half"):
    """Means over every ordered pair of one query's documents; None without pairs."""
    tie = {"half": 0.5, "strict": 0.0}[ties]
    errors, biases, variances = [], [], []
    for i, label in enumerate(labels):
        for j, other_label in enumerate(labels):
            if i == j or (pairs == "different" and label == other_label):
                continue
            above = [
                1.0 if scores[i] > scores[j] else tie if scores[i] == scores[j] else 0.0
                for scores in scores_of_trainings
            ]
            p = sum(above) / len(above)
            t = 1.0 if label > other_label else 0.0
            errors.append(sum(abs(answer - t) for answer in above) / len(above))
            biases.append((p - t) ** 2)
            variances.append(p * (1 - p))
    if not errors:
        return None
    return tuple(sum(values) / len(values) for values in (errors, biases, variances))
