"""Slow twin of BROOF's loop: lists and plain Python, over predictions that the fitted forests have made.

A prediction, and an error, is None where there is none.
"""

from __future__ import annotations

import math
import statistics


def ranked(rows, predictions):
    """Rows by descending prediction; equal ones keep their order."""
    return sorted(rows, key=lambda row: -predictions[row])


def lists(queries, predictions):
    """The rows of each query that have a prediction, in the data's order."""
    found = {}
    for row, query in enumerate(queries):
        if predictions[row] is not None:
            found.setdefault(query, []).append(row)
    return found.values()


def absolute_errors(labels, queries, predictions):
    return [
        None if guess is None else abs(label - guess)
        for label, guess in zip(labels, predictions, strict=True)
    ]


def median_errors(labels, queries, predictions, region="place"):
    errors = [None] * len(labels)
    for rows in lists(queries, predictions):
        best_first = ranked(rows, predictions)
        ideal = sorted((labels[row] for row in rows), reverse=True)
        for row in rows:
            if region == "grade":
                where = [other for other in rows if labels[other] == labels[row]]
            else:
                where = [
                    best_first[rank] for rank in range(len(rows)) if ideal[rank] == labels[row]
                ]
            median = statistics.median(predictions[other] for other in where)
            is_right = region == "place" and row in where
            errors[row] = 0.0 if is_right else abs(median - predictions[row])
    return errors


def height_errors(labels, queries, predictions):
    errors = [None] * len(labels)
    for rows in lists(queries, predictions):
        best_first = ranked(rows, predictions)
        for rank, row in enumerate(best_first):
            above = sum(labels[other] < labels[row] for other in best_first[:rank])
            below = sum(labels[other] > labels[row] for other in best_first[rank + 1 :])
            errors[row] = float(above + below)
    return errors


LOSSES = {"absolute": absolute_errors, "median": median_errors, "height": height_errors}


def normalized(errors, normalize):
    known = [error for error in errors if error is not None]
    greatest = max(known, default=0.0)
    if normalize is None or greatest == 0:
        return errors
    return [None if error is None else error / greatest for error in errors]


def broof(loss, labels, queries, weights, rounds, *, rate, validation, update, region, normalize):
    """Algorithm 1 over ``rounds``: pairs of held-out and training predictions, one pair per forest that was grown.

    Gives, round by round: the targets and weights a forest is grown with, ε and β (None where the forest was
    discarded), and in the end the weights that are left. ``loss`` "gradient", or one of LOSSES.
    """
    is_gradient = loss == "gradient"
    targets = list(labels)
    trace = []
    for number, (held_out, training) in enumerate(rounds):
        predictions_of = {"oob": held_out, "query-folds": held_out, "train": training}

        def errors_of(predictions, targets=targets):
            if is_gradient:
                guesses = [None if guess is None else rate * guess for guess in predictions]
                found = absolute_errors(targets, queries, guesses)
            elif loss == "median":
                found = median_errors(labels, queries, predictions, region)
            else:
                found = LOSSES[loss](labels, queries, predictions)
            return normalized(found, normalize)

        predictions = predictions_of[validation]
        errors = errors_of(predictions)
        known = [row for row, error in enumerate(errors) if error is not None]
        total = sum(weights[row] for row in known)
        error = sum(errors[row] * weights[row] for row in known) / total
        step = {"targets": targets, "weights": weights, "error": error, "beta": rate}
        trace.append(step)
        if not is_gradient:
            beta = rate * error / (1 - error) if error < 1 else 1.0
            step["beta"] = min(max(beta, 1e-6), 1 - 1e-6)
            if error >= 0.5:
                if number > 0:
                    step["beta"] = None
                return trace, weights
        if update != "constant":
            errors = errors_of(predictions_of[update])
            known = [row for row, error in enumerate(errors) if error is not None]
            raised = {row: weights[row] * step["beta"] ** (1 - errors[row]) for row in known}
            scale = sum(weights[row] for row in known) / math.fsum(raised.values())
            weights = [
                raised[row] * scale if row in raised else weight
                for row, weight in enumerate(weights)
            ]
        if is_gradient:
            targets = [
                target if guess is None else target - rate * guess
                for target, guess in zip(targets, predictions, strict=True)
            ]
    return trace, weights


def combined(is_additive, betas, predictions):
    """What forests with these βs say together: rounds × rows of predictions in, one score per row out."""
    scores = []
    for of_row in zip(*predictions, strict=True):
        if is_additive:
            scores.append(sum(beta * guess for beta, guess in zip(betas, of_row, strict=True)))
        else:
            logs = [math.log(1 / beta) for beta in betas]
            total = sum(log * guess for log, guess in zip(logs, of_row, strict=True))
            scores.append(total / sum(logs))
    return scores
