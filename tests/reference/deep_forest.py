"""A slow twin of the cascade: every layer is fitted to a whole new matrix through the public face of its rankers."""

from __future__ import annotations

import math

import numpy as np
from sklearn.base import clone

import rankwood as rw
from rankwood._core.random import stream
from rankwood.engines.bags import stream_number
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
        of_valid = [model.predict(valid_values) for model, _, _ in fitted]
        held_outs.append(mean_known([scores for _, scores, _ in fitted]))
        valids.append(np.mean(of_valid, axis=0))
        n_rows.append(int(is_trained.sum()))
        added = in_forms(augmented(fitted, of_valid, whole, valid_values, how), data, valid, how)
        keeps = how.get("keep_augmented", False)
        old_train = train_values if keeps else data.features
        old_valid = valid_values if keeps else valid.features
        train_values = np.column_stack([old_train, *(pair[0] for pair in added)]).astype("f4")
        valid_values = np.column_stack([old_valid, *(pair[1] for pair in added)]).astype("f4")
        is_trained = next_rows(held_outs[-1], data, is_trained, how)
    return np.column_stack(held_outs), np.column_stack(valids), n_rows


def fit(learner, data, is_trained, fold_of_row):
    """The model of all trained rows, a score of each row from what has not seen it, and the models of other folds."""
    binned = rw.bin(data)
    weights = None if is_trained.all() else is_trained.astype(float)
    model = clone(learner).fit(binned, sample_weight=weights)
    others = {-1: model}  # rows that no model was trained on: the whole one has not seen them
    for fold in range(fold_of_row.max() + 1):
        seen = (is_trained & (fold_of_row != fold)).astype(float)
        others[fold] = clone(learner).fit(binned, sample_weight=seen)
    of_row = [others[fold] for fold in fold_of_row.tolist()]
    if getattr(learner, "bag", None) is not None:
        return model, model.oob_scores_, of_row
    scores = {fold: other.predict(data) for fold, other in others.items()}
    held_out = [scores[fold][row] for row, fold in enumerate(fold_of_row.tolist())]
    return model, np.array(held_out), of_row


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
        return [(held, valid) for (_, held, _), valid in zip(fitted, of_valid, strict=True)]
    if how.get("augment") == "grades":
        return [pair for model, _, _ in fitted for pair in class_vectors(model, data, valid_values)]
    pairs, qualities = [], []
    for model, _, of_row in fitted:
        for tree in range(model.forest_.n_trees):
            of_train = [
                value_of(other.forest_, tree, row)
                for row, other in zip(data.features, of_row, strict=True)
            ]
            pairs.append((of_train, [value_of(model.forest_, tree, row) for row in valid_values]))
            scores = np.array(of_train)
            qualities.append(rw.parse_measure("ndcg@10").per_query(scores, data).mean())
    if how.get("select") is None:
        return pairs
    likeness = mean_correlations([filled(pair[0]) for pair in pairs])
    return [pairs[place] for place in pareto_front(qualities, likeness)]


def class_vectors(model, data, valid_values):
    """For each grade: its share in the leaves of the trees that left a row out; in all leaves for new rows."""
    grades = sorted(set(data.labels.tolist()))
    forest, n_rows = model.forest_, data.n_documents
    of_train = np.zeros((n_rows, len(grades)))
    of_valid = np.zeros((len(valid_values), len(grades)))
    n_out = np.zeros(n_rows)
    for tree in range(forest.n_trees):
        counts = draw_with_replacement(stream_number(model.seed, "bag", tree), n_rows, n_rows)
        leaves = [reference.leaf_of(forest, tree, row) for row in data.features]
        vectors = {leaf: np.zeros(len(grades)) for leaf in leaves}
        for leaf, label, count in zip(leaves, data.labels.tolist(), counts, strict=True):
            vectors[leaf][grades.index(label)] += count
        for row, (leaf, count) in enumerate(zip(leaves, counts, strict=True)):
            if count == 0:
                of_train[row] += vectors[leaf] / vectors[leaf].sum()
                n_out[row] += 1
        for row, values in enumerate(valid_values):
            vector = vectors[reference.leaf_of(forest, tree, values)]
            of_valid[row] += vector / vector.sum() / forest.n_trees
    with np.errstate(invalid="ignore"):
        of_train /= n_out[:, np.newaxis]
    return list(zip(of_train.T, of_valid.T, strict=True))


def in_forms(pairs, data, valid, how):
    """Each pair of columns in each form that is passed on."""
    forms = how.get("passes", "scores").split("+")
    return [
        tuple(
            within_query(column, part, form)
            for column, part in zip(pair, (data, valid), strict=True)
        )
        for pair in pairs
        for form in forms
    ]


def within_query(column, data, form):
    """A column in relation to the other documents of each query; documents without a value stay so."""
    column = np.asarray(column, np.float32).astype(float)
    if form == "scores":
        return column
    found = np.full(column.size, np.nan)
    for _, rows in data.iter_queries():
        known = [row for row in rows.tolist() if not math.isnan(column[row])]
        values = [column[row] for row in known]
        for row in known:
            value = column[row]
            below = sum(other < value for other in values)
            equal = sum(other == value for other in values) - 1
            if form == "ranks":
                found[row] = (below + equal / 2) / (len(values) - 1) if len(values) > 1 else 0.5
            elif form == "gaps":
                found[row] = value - max(values)
            else:
                spread = float(np.std(values)) if max(values) > min(values) else 0.0
                found[row] = (value - float(np.mean(values))) / spread if spread else 0.0
    return found


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
