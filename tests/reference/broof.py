"""Slow twin of BROOF's loop: lists and plain Python, over the trees of the fitted forests.

The twin draws the bags itself, from its own weights, and scores rows by walking through the trees. A prediction, and
an error, is None where there is none.
"""

from __future__ import annotations

import math
import statistics

from rankwood._core.random import stream
from rankwood.engines.bags import stream_number
from tests.reference import ensembles
from tests.reference.forest import leaf_of


def round_predictions(
    forest, data, number, weights, *, seed, bag, resamples, clips=False, n_folds=None
):
    """What the forest of round ``number`` says about the training rows: held-out predictions, and those of all trees.

    A tree is held out from the rows it has not drawn, or, where there are folds, from those of its fold.
    """
    each, counts = [], []
    queries = data.query_of_row.tolist()
    for tree in range(forest.n_trees):
        each.append([float(forest.value[leaf_of(forest, tree, row)]) for row in data.features])
        place = number * forest.n_trees + tree  # trees are numbered through all rounds
        if n_folds is None:
            drawn_by = weights
            if resamples and clips:
                drawn_by = clipped(weights, most_draws(forest.n_trees, len(weights)) / len(weights))
            counts.append(bag_counts(queries, drawn_by, place, seed, bag, resamples))
        else:
            fold_of = fold_of_query(queries, n_folds, seed)
            counts.append([int(fold_of[query] != place % n_folds) for query in queries])
    held_out, _ = ensembles.out_of_bag(each, counts)
    training = [sum(of_row) / len(each) for of_row in zip(*each, strict=True)]
    return [None if math.isnan(guess) else guess for guess in held_out], training


def most_draws(n_trees, n_rows):
    """d such that a row drawn d times in the mean is left out by 3 + log(n_rows) of the trees."""
    return math.log(n_trees / (3 + math.log(n_rows)))


def clipped(weights, most):
    """Weights of which none is above ``most``; row by row the greatest is cut and the rest is raised, until it holds."""
    cut = set()
    while True:
        rest = math.fsum(weight for row, weight in enumerate(weights) if row not in cut)
        left = 1 - most * len(cut)
        now = [most if row in cut else weight * left / rest for row, weight in enumerate(weights)]
        over = {row for row, weight in enumerate(now) if weight > most and row not in cut}
        if not over:
            return now
        cut.add(max(over, key=lambda row: now[row]))


def bag_counts(queries, weights, tree, seed, bag, resamples):
    """How often each row is drawn for a tree; once where there are no bags."""
    if bag is None:
        return [1] * len(weights)
    number = stream_number(seed, "bag", tree)
    if resamples and min(weights) < max(weights):
        assert bag == "row"  # the twin draws no queries by weight
        scaled = [weight / max(weights) for weight in weights]
        return ensembles.draw_by_weight(number, len(weights), scaled)
    if bag == "row":
        return ensembles.draw_with_replacement(number, len(weights), len(weights))
    n_queries = max(queries) + 1
    drawn = ensembles.draw_with_replacement(number, n_queries, n_queries)
    return [drawn[query] for query in queries]


def fold_of_query(queries, n_folds, seed):
    """Queries dealt to the folds in turn, in a drawn order."""
    shuffled = stream(seed, "query-folds").permutation(sorted(set(queries))).tolist()
    return {query: place % n_folds for place, query in enumerate(shuffled)}


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
            if region == "position":
                own = best_first.index(row)
                ranks = [rank for rank, label in enumerate(ideal) if label == labels[row]]
                errors[row] = abs(statistics.median(rank - own for rank in ranks))
                continue
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


def bounded_targets(gradients, hessians, sigma):
    """Newton's steps and their weights, where a hessian is at least sigma times the size of its gradient."""
    raised = [
        max(hessian, sigma * abs(slope)) for slope, hessian in zip(gradients, hessians, strict=True)
    ]
    steps = [
        -slope / hessian if hessian >= 1e-100 else 0.0
        for slope, hessian in zip(gradients, raised, strict=True)
    ]
    return steps, raised


def kept_rounds(values, patience, *, guards_first):
    """How many rounds are kept and how many grown; ``values`` has, for each round, the measure of every query.

    A value is None for a query without a score. The mean over the others is what is to rise.
    """
    best, best_mean, grown = 0, -math.inf, 0
    for number, of_round in enumerate(values, start=1):
        grown = number
        mean = statistics.fmean(value for value in of_round if value is not None)
        if mean > best_mean:
            best, best_mean = number, mean
        if number - best >= patience:
            break
    gains = [
        after - before
        for before, after in zip(values[0], values[best - 1], strict=True)
        if before is not None and after is not None
    ]
    error = statistics.stdev(gains) / math.sqrt(len(gains))
    is_first = guards_first and best > 1 and not statistics.fmean(gains) > error
    return (1 if is_first else best), grown


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


def broof(
    loss,
    labels,
    queries,
    weights,
    predict,
    n_rounds,
    *,
    rate,
    validation,
    update,
    region,
    normalize,
):
    """Algorithm 1: ``predict(number, weights)`` gives the held-out and the training predictions of a round's forest.

    Gives, round by round: the targets and weights a forest is grown with, ε and β (None where the forest was
    discarded), and in the end the weights that are left. ``loss`` "gradient", or one of LOSSES.
    """
    is_gradient = loss == "gradient"
    targets = list(labels)
    trace = []
    for number in range(n_rounds):
        held_out, training = predict(number, weights)
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
