"""Rows and columns of another collection as training data (Mohan 2010, chapter 5): what is computed from the data.

Rows: a domain forest learns which of two collections a document is from, and its prediction says which documents of
the source look like the target's (``DomainForests``). Columns: the predictions of a model of another collection become
features (``model_columns``, ``add_columns``). ``common_features`` cuts both collections to the features that both have:
a column that has one value throughout a collection is not there in it. In LETOR text a feature that is never written
reads as such a column, and a forest could tell the two collections apart by it alone.
``rankwood.studies.transfer`` chooses rows and columns by these, and measures whether they help.

Terms
    source      the collection with many judgements, from which documents are taken
    target      the collection that is to be ranked better
    domain      which of the two a document is from: 0 the source, 1 the target
    similarity  P(target): how likely a source document is from the target, by a forest that has not seen it
    Q, P, C     kinds of model columns: the score; the probability P(y = c) of each grade; the cumulative probability
                P(y ≤ c) of each grade but the highest
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood._core.random import stream
from rankwood.data.dataset import Judgments, RankingData
from rankwood.data.splits import deal_folds
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ParameterError
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.models.validate import some_names
from rankwood.rankers.base import Ranker
from rankwood.rankers.save import join

KINDS = "QPC"
_ROWS_COMPARED = 4096  # at a time, in the search for constant columns
_METHOD_OF = {"Q": "predict", "P": "probabilities", "C": "cumulative"}


@dataclass(frozen=True, eq=False)
class DomainForests:
    """Two collections with the same features, and forests that learn to tell their documents apart.

    Parameters
    ----------
    source, target
        The collections.
    forest
        The ranker that is cloned and fitted to domains.
    balance
        Whether both collections have the same weight.
    query_features
        Whether features that are constant within every query are used.
    """

    source: RankingData
    target: RankingData
    forest: Ranker
    balance: bool
    query_features: bool

    def __post_init__(self) -> None:
        if self.query_features or self.source.query_ids is None:
            return
        telling = varying_columns(self.source) | varying_columns(self.target)
        if telling.any():  # not so where every query has one document
            for name in ("source", "target"):
                part = take_columns(getattr(self, name), np.flatnonzero(telling))
                object.__setattr__(self, name, part)

    def fit(self, source_rows: Array, target_rows: Array) -> Any:
        """A forest that was fitted to 0 for some rows of the source and to 1 for some of the target."""
        rows = join(self.source.take_rows(source_rows), self.target.take_rows(target_rows))
        counts = np.array([np.count_nonzero(source_rows), np.count_nonzero(target_rows)])
        weights = None
        if self.balance:  # on average 1
            weights = np.repeat(counts.sum() / (2.0 * counts), counts)
        domain = np.repeat([0.0, 1.0], counts)
        data = RankingData(
            rows.features, domain, rows.query_ids, None, weights, None, rows.feature_names
        )
        return clone(self.forest).fit(data)

    def similarity(self, folds: Rows, n_folds: int) -> Floats:
        """P(target) of each source document, by a forest that has not seen its fold."""
        similarity = np.empty(folds.size)
        everything = np.ones(self.target.n_documents, bool)
        for fold in range(n_folds):
            left_out = folds == fold
            forest = self.fit(~left_out, everything)
            similarity[left_out] = forest.predict(self.source.take_rows(left_out))
        return similarity

    def auc(self, of_source: Array, of_target: Array) -> float:
        """The area under the ROC curve of a forest that has not seen these rows of both collections."""
        forest = self.fit(~of_source, ~of_target)
        parts = [self.source.take_rows(of_source), self.target.take_rows(of_target)]
        scores = np.concatenate([forest.predict(part) for part in parts])
        domain = np.repeat([0.0, 1.0], [part.n_documents for part in parts])
        # One query for all: the area is taken over documents, whatever their queries.
        everything = Judgments(domain, np.zeros(domain.size, np.int64))
        return mean_value(parse_measure("auc"), scores, everything)


def folds_of_rows(data: RankingData, name: str, n_folds: int, unit: str, seed: int) -> Rows:
    """The fold of each row, drawn by ``seed``; folds differ by at most one query or row in size."""
    n_units = data.n_queries if unit == "query" else data.n_documents
    if name == "target":  # only one fold of it is left out, for the AUC
        n_folds = min(n_folds, max(2, n_units))
    kind = {"query": "queries", "row": "rows"}[unit]
    if n_units < n_folds:
        count = f"one {unit}" if n_units == 1 else f"{n_units:,} {kind}"
        remedy = "Use fewer folds (n_folds=)" if n_units > 1 else "Use more data"
        other = ", or folds_by='row'" if unit == "query" else ""
        raise DataError(f"{name} has {count}, too few for {n_folds} folds. {remedy}{other}.")
    generator = stream(seed, f"folds of the {name}")
    fold_of_unit = deal_folds(np.arange(n_units), n_units, n_folds, generator)
    return fold_of_unit[data.query_of_row] if unit == "query" else fold_of_unit


def check_kinds(model: Any, kinds: str) -> str:
    """The kinds in the order Q, P, C, if the model can give them."""
    if (
        not isinstance(kinds, str)
        or not kinds
        or set(kinds) - set(KINDS)
        or len(set(kinds)) < len(kinds)
    ):
        raise ParameterError(
            f"kinds must be some of the letters Q, P and C, each once, got {checks.plain(kinds)}."
        )
    lacking = [kind for kind in KINDS if not callable(getattr(model, _METHOD_OF[kind], None))]
    if "Q" in lacking:
        raise ParameterError(f"model must be a ranker, got {type(model).__name__}.")
    refused = [kind for kind in lacking if kind in kinds]
    if refused:
        possible = "".join(kind for kind in KINDS if kind not in lacking)
        raise ParameterError(
            f"kinds has {' and '.join(refused)}, but {type(model).__name__} gives no class probabilities. "
            f"Use kinds='{possible}', or a model that does, such as OrdinalRanker."
        )
    return "".join(kind for kind in KINDS if kind in kinds)


def model_columns(model: Any, data: RankingData, kinds: str) -> tuple[list[str], Floats]:
    """The names of the new columns, and the columns: rows × new features."""
    if not isinstance(data, RankingData):
        raise ParameterError(
            f"features are added to RankingData, not to {type(data).__name__}: pass RankingData(X, y, qid)."
        )
    if data.n_documents == 0:
        raise DataError("there are no documents to add features to.")
    known = _known_to(model, data)
    names: list[str] = []
    columns: list[Floats] = []
    for kind in kinds:
        predicted = np.asarray(getattr(model, _METHOD_OF[kind])(known), np.float64)
        columns.append(predicted.reshape(data.n_documents, -1))
        grades = [] if kind == "Q" else model.grades_[: columns[-1].shape[1]]
        names += ["Q"] if kind == "Q" else [f"{kind}{grade:g}" for grade in grades]
    return names, np.concatenate(columns, axis=1)


def _known_to(model: Any, data: RankingData) -> RankingData:
    """The data without features that the model has never seen, where both have names."""
    known = getattr(model, "feature_names_in_", None)
    if known is None or data.feature_names is None:
        return data
    names = [str(name) for name in known]
    lacking = sorted(set(names) - set(data.feature_names))
    if lacking:
        common = sorted(set(names) & set(data.feature_names))
        raise DataError(
            f"the data lack {some_names(lacking)}, which the model needs; common are "
            f"{some_names(common) if common else 'none'}. Train the model on common_features(source, target)."
        )
    return take_columns(data, np.array([data.feature_names.index(name) for name in names]))


def add_columns(data: RankingData, names: tuple[str, ...], columns: Floats) -> RankingData:
    """The data with columns added on the right."""
    own = data.feature_names
    twice = [] if own is None else sorted(set(own) & set(names))
    if twice:
        raise DataError(
            f"the data have features called {some_names(twice)} already. Pass prefix= for the new ones."
        )
    return dataclasses.replace(
        data,
        features=np.concatenate([data.features, checks.feature_matrix(columns)], axis=1),
        feature_names=None if own is None else own + names,
    )


@dataclass(frozen=True, eq=False)
class CommonColumns:
    """Where the common features stand in the two collections, and why the others are not common.

    ``dropped`` has a reason by name: the target's features in their order, then those that only the source has.
    """

    in_source: Rows
    in_target: Rows
    dropped: Mapping[str, str]


def common_features(
    source: RankingData, target: RankingData, *, keep_constant: bool = False
) -> tuple[RankingData, RankingData]:
    """Both collections with the features that both have, in the target's order.

    By name where both have names, else by position, and then there must be equally many. A feature that has one value
    throughout one of the collections, or is missing throughout, counts as absent there, unless ``keep_constant``.
    """
    common = common_columns(source, target, keep_constant)
    return take_columns(source, common.in_source), take_columns(target, common.in_target)


def common_columns(
    source: RankingData, target: RankingData, keep_constant: bool = False
) -> CommonColumns:
    """The columns of the common features in the source and in the target, and why the others are left out."""
    keep_constant = checks.true_or_false("keep_constant", keep_constant)
    in_source, in_target, dropped = _columns_of_both(source, target)
    if not keep_constant:
        constant = _constant_columns(source, in_source, target, in_target)
        dropped |= {target.names[in_target[index]]: why for index, why in constant.items()}
        kept = np.array([i for i in range(in_target.size) if i not in constant], np.int64)
        if kept.size == 0:
            raise DataError(
                f"source and target have no feature in common: {shown_reasons(dropped)}. "
                "Pass keep_constant=True if such columns shall count."
            )
        in_source, in_target = in_source[kept], in_target[kept]
    order = [*target.names, *source.names]
    ordered = {name: dropped[name] for name in dict.fromkeys(order) if name in dropped}
    return CommonColumns(in_source, in_target, ordered)


def _columns_of_both(source: RankingData, target: RankingData) -> tuple[Rows, Rows, dict[str, str]]:
    """The columns with the same name, or position, in both; and why the others have no counterpart."""
    if source.feature_names is None or target.feature_names is None:
        if source.n_features != target.n_features:
            least = min(source.n_features, target.n_features)
            raise DataError(
                f"source has {source.n_features:,} features and target {target.n_features:,}, and without names "
                f"in both only their positions can be compared: at most the first {least:,} are common. Pass "
                "feature_names= for both, or cut both to the columns that mean the same."
            )
        columns = np.arange(target.n_features)
        return columns, columns, {}
    column_of = {name: column for column, name in enumerate(source.feature_names)}
    common = [name for name in target.feature_names if name in column_of]
    if not common:
        raise DataError(
            f"source and target have no feature in common: source has {some_names(source.feature_names)}, "
            f"target {some_names(target.feature_names)}. Rename the columns that mean the same."
        )
    in_target = [column for column, name in enumerate(target.feature_names) if name in column_of]
    dropped = {name: "not in the source" for name in target.feature_names if name not in column_of}
    known = set(target.feature_names)
    dropped |= {name: "not in the target" for name in source.feature_names if name not in known}
    return np.array([column_of[name] for name in common]), np.array(in_target), dropped


def _constant_columns(
    source: RankingData, in_source: Rows, target: RankingData, in_target: Rows
) -> dict[int, str]:
    """Which of the pairs of columns have one value throughout a collection, and in which of the two."""
    values = _constants(source)[in_source], _constants(target)[in_target]
    reasons = {}
    for index, (of_source, of_target) in enumerate(zip(*values, strict=True)):
        if of_source is None and of_target is None:
            continue
        if of_source is not None and of_source == of_target:
            reasons[index] = f"{of_source} in both collections"
        elif of_source is None:
            reasons[index] = f"{of_target} in the target"
        elif of_target is None:
            reasons[index] = f"{of_source} in the source"
        else:
            reasons[index] = f"{of_source} in the source and {of_target} in the target"
    return reasons


def _constants(data: RankingData) -> Array:
    """By feature, "always 0" or "always missing" where it has one value in all rows; None where it varies."""
    words = np.full(data.n_features, None, object)
    columns = np.arange(data.n_features if data.n_documents else 0)
    for start in range(0, data.n_documents, _ROWS_COMPARED):
        rows, first = (
            data.features[start : start + _ROWS_COMPARED, columns],
            data.features[0, columns],
        )
        is_same = (rows == first) | (np.isnan(rows) & np.isnan(first))
        columns = columns[is_same.all(axis=0)]
    for column in columns.tolist():
        value = float(data.features[0, column])
        words[column] = "always missing" if np.isnan(value) else f"always {value:g}"
    return words


def shown_reasons(dropped: Mapping[str, str]) -> str:
    """Dropped features by reason: ``2, 4, 6 (always 0 in the source); 9 (not in the target)``."""
    names_of: dict[str, list[str]] = {}
    for name, reason in dropped.items():
        names_of.setdefault(reason, []).append(name)
    return "; ".join(f"{_listed(names)} ({reason})" for reason, names in names_of.items())


def _listed(names: list[str]) -> str:
    """All of the names; numbers that follow each other as a range."""
    if not all(name.isdecimal() for name in names):
        return ", ".join(f"'{name}'" for name in names)
    numbers = sorted(int(name) for name in names)
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in ranges)


def take_columns(data: RankingData, columns: Rows) -> RankingData:
    """The data with these columns of features, in this order."""
    if np.array_equal(columns, np.arange(data.n_features)):
        return data
    own = data.feature_names
    return dataclasses.replace(
        data,
        features=np.ascontiguousarray(data.features[:, columns]),
        feature_names=None if own is None else tuple(own[column] for column in columns.tolist()),
    )


def varying_columns(data: RankingData) -> Array:
    """Whether each feature differs between documents of some query; missing values equal each other."""
    starts = data.query_offsets[:-1]
    grouped = data.features[data.row_order]
    # Infinity equals itself and differs from any finite value.
    np.copyto(grouped, np.inf, where=np.isnan(grouped))
    highest, lowest = np.maximum.reduceat(grouped, starts), np.minimum.reduceat(grouped, starts)
    varies: Array = (highest != lowest).any(axis=0)
    return varies
