"""A slow twin of the cascade: every layer is fitted to a whole new matrix through the public face of its rankers."""

from __future__ import annotations

import math

import numpy as np
from sklearn.base import clone

import rankwood as rw
from rankwood._core.random import stream
from rankwood.training.bags import stream_number
from tests.reference import forest as reference
from tests.reference.ensembles import draw_with_replacement


def cascade(learners, data, valid, n_layers, seed=0, **how):
    """Held-out scores of the training rows and scores of the validation rows, both rows × layers; rows trained."""
    train_values, valid_values = data.features, valid.features
    is_trained = np.ones(data.n_documents, bool)
    held_outs, valids, n_rows = [], [], []
    for number in range(n_layers):
        whole = rw.RankingData(train_values, data.labels, data.query_ids)
        fitted = [
            fit(
                clone(learner).set_params(seed=stream_number(seed, f"layer {number}", place)),
                whole,
                is_trained,
                folds(data, is_trained, how.get("n_folds", 3), seed, number),
            )
            for place, learner in enumerate(learners)
        ]
        of_valid = [model.predict(valid_values) for model, _ in fitted]
        held_outs.append(mean_known([scores for _, scores in fitted]))
        valids.append(np.mean(of_valid, axis=0))
        n_rows.append(int(is_trained.sum()))
        added = augmented(fitted, of_valid, whole, valid_values, how)
        keeps = how.get("keep_augmented", False)
        old_train = train_values if keeps else data.features
        old_valid = valid_values if keeps else valid.features
        train_values = np.column_stack([old_train, *(pair[0] for pair in added)]).astype("f4")
        valid_values = np.column_stack([old_valid, *(pair[1] for pair in added)]).astype("f4")
        is_trained = next_rows(held_outs[-1], data, is_trained, how)
    return np.column_stack(held_outs), np.column_stack(valids), n_rows


def fit(learner, data, is_trained, fold_of_row):
    """The model of all trained rows, and a score of each row from trees or models that have not seen it."""
    binned = rw.bin(data)
    weights = None if is_trained.all() else is_trained.astype(float)
    model = clone(learner).fit(binned, sample_weight=weights)
    if getattr(learner, "bag", None) is not None:
        return model, model.oob_scores_
    held_out = model.predict(data)
    for fold in range(fold_of_row.max() + 1):
        seen = (is_trained & (fold_of_row != fold)).astype(float)
        scores = clone(learner).fit(binned, sample_weight=seen).predict(data)
        held_out[fold_of_row == fold] = scores[fold_of_row == fold]
    return model, held_out


def folds(data, is_trained, n_folds, seed, number):
    """Trained queries dealt to the folds in turn, in a drawn order; -1 for the others."""
    queries = sorted(set(data.query_of_row[is_trained].tolist()))
    order = stream(seed, "deep forest folds", number).permutation(queries).tolist()
    fold_of = {query: place % min(n_folds, len(queries)) for place, query in enumerate(order)}
    return np.array(
        [
            fold_of[query] if trained else -1
            for query, trained in zip(data.query_of_row.tolist(), is_trained, strict=True)
        ]
    )


def mean_known(scores):
    found = []
    for of_row in zip(*scores, strict=True):
        known = [score for score in of_row if not math.isnan(score)]
        found.append(sum(known) / len(known) if known else math.nan)
    return np.array(found)


def augmented(fitted, of_valid, data, valid_values, how):
    """Pairs of columns, of the training and of the validation rows."""
    if how.get("augment", "forests") == "forests" and how.get("select") is None:
        return [(held, valid) for (_, held), valid in zip(fitted, of_valid, strict=True)]
    pairs, qualities = [], []
    for model, held_out in fitted:
        for tree in range(model.forest_.n_trees):
            number = stream_number(model.seed, "bag", tree)
            n_rows = data.n_documents
            is_out = np.array(draw_with_replacement(number, n_rows, n_rows)) == 0
            of_train = [
                value_of(model.forest_, tree, row) if out else stand_in
                for row, out, stand_in in zip(data.features, is_out, held_out, strict=True)
            ]
            pairs.append((of_train, [value_of(model.forest_, tree, row) for row in valid_values]))
            part = data.take_rows(is_out)
            scores = np.array(of_train)[is_out]
            qualities.append(rw.parse_measure("ndcg@10").per_query(scores, part).mean())
    if how.get("select") is None:
        return pairs
    likeness = mean_correlations([filled(pair[0]) for pair in pairs])
    return [pairs[place] for place in pareto_front(qualities, likeness)]


def value_of(forest, tree, row):
    return float(forest.value[reference.leaf_of(forest, tree, row)])


def filled(column):
    known = [score for score in column if not math.isnan(score)]
    return [sum(known) / len(known) if math.isnan(score) else score for score in column]


def mean_correlations(columns):
    found = []
    for place, column in enumerate(columns):
        others = [other for number, other in enumerate(columns) if number != place]
        is_constant = max(column) - min(column) < 1e-12
        found.append(
            1.0
            if is_constant
            else sum(abs(pearson(column, other)) for other in others) / len(others)
        )
    return found


def pearson(one, other):
    if max(other) - min(other) < 1e-12:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def pareto_front(quality, likeness):
    places = range(len(quality))

    def beats(one, other):
        is_as_good = quality[one] >= quality[other] and likeness[one] <= likeness[other]
        return is_as_good and (quality[one] > quality[other] or likeness[one] < likeness[other])

    return [place for place in places if not any(beats(other, place) for other in places)]


def next_rows(scores, data, is_trained, how):
    """Rows that train the next layer; the same again where those would be of fewer than two grades."""
    boost = how.get("boost")
    if boost is None:
        return is_trained
    chosen = np.zeros(data.n_documents, bool)
    is_known = ~np.isnan(scores)
    scores = np.where(is_known, scores, -1e9)  # rows without a score stand last, and are not chosen
    ndcg = rw.parse_measure("ndcg@10").per_query(scores, data)
    for number, (_, rows) in enumerate(data.iter_queries()):
        if boost == "query":
            chosen[rows] = ndcg[number] < how["alpha"]
        else:
            chosen[rows] = [
                error > how["beta"] for error in height_errors(data.labels[rows], scores[rows])
            ]
    chosen &= is_known
    return chosen if len(set(data.labels[chosen].tolist())) > 1 else is_trained


def height_errors(labels, scores):
    """By document of one query: pairs in the wrong order, over the documents of other grades."""
    documents = range(len(labels))
    rank_of = {d: r for r, d in enumerate(sorted(documents, key=lambda d: (-scores[d], d)))}
    errors = []
    for one in documents:
        others = [other for other in documents if labels[other] != labels[one]]
        wrong = [
            other
            for other in others
            if (rank_of[other] < rank_of[one]) == (labels[other] < labels[one])
        ]
        errors.append(len(wrong) / len(others) if others else 0.0)
    return errors
