"""Which features a model uses: ``explain`` for the scores of documents, ``importance`` for the model as a whole.

``explain`` returns an ``Explanation`` of all documents. From it follow the parts of one document's score, or of the
difference of two scores (``ScoreParts``), and how much each feature matters over all documents (``Importance``).

``importance`` counts "gain", "cover" and "splits" in the model itself. "permutation" is what a measure loses when the
values of a feature are shuffled within queries. "contribution" is the mean size of the feature's Shapley values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core import random as _random
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.data.frames import to_matrix
from rankwood.dtypes import Array, Features, Floats, Rows
from rankwood.errors import DataError, ModelError, UnknownName
from rankwood.evaluation import plots
from rankwood.evaluation.paired_tests import Resampling, weighted_values
from rankwood.evaluation.results import Result, Tables, tables_as_html
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.models.format import kind_of
from rankwood.models.shapley import additive_form, contributions
from rankwood.models.validate import features_of
from rankwood.rankers.base import Ranker, learned_model

_SHOWN = 10  # features or documents of a table or plot that says nothing else
_FEATURES_PER_DOCUMENT = 3
_SHOWN_FEATURES = 15  # of a table or plot of importances
_MEANINGS = {
    "gain": "share of the gain of all splits",
    "cover": "share of the rows that splits part",
    "splits": "share of the splits",
    "contribution": "mean size of the contribution to a score",
}
COUNTED = ("gain", "cover", "splits")
KINDS = (*COUNTED, "permutation", "contribution")
_CONFIDENCE, _N_BOOTSTRAP = 0.95, 1000
_VALUES_AT_ONCE = 1 << 24  # 128 MiB of contributions


class _Explained(Result):
    """A result with one table, which has its title above it as text and below it in notebooks."""

    def _repr_html_(self) -> str:
        ((title, rows),) = self._tables().items()
        return tables_as_html({"": rows}, [title])


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(_Explained):
    """What each feature adds to the score of each document.

    Parameters
    ----------
    contributions
        Documents × features. A document's sum, and the base, make its score.
    base
        The score of a document of which nothing is known.
    names
        The features' names, or their numbers counted from 1.
    features
        The documents' values, documents × features.
    query_ids, doc_ids, labels
        From the data, for each document; None where the data have none.
    """

    contributions: Floats
    base: float
    names: tuple[str, ...]
    features: Features
    query_ids: Array | None = None
    doc_ids: Array | None = None
    labels: Floats | None = None

    @property
    def n_documents(self) -> int:
        """How many documents are explained."""
        return len(self.contributions)

    @property
    def scores(self) -> Floats:
        """The documents' scores, up to rounding."""
        scores: Floats = self.contributions.sum(axis=1) + self.base
        return scores

    def to_array(self) -> Floats:
        """Contributions with the base as last column, as LightGBM's ``pred_contrib`` gives them."""
        base = np.full((self.n_documents, 1), self.base)
        return np.concatenate([self.contributions, base], axis=1)

    def document(self, row: int) -> ScoreParts:
        """One document, by its row: from the base to its score. ``find`` gives the row of an id."""
        row = self._row(row)
        return ScoreParts.sorted(
            f"why {self.name_of(row)} has its score",
            self.names,
            self.contributions[row],
            {"value": self.features[row]},
            ("base", self.base),
            ("score", float(self.scores[row])),
        )

    def why(self, a: int, b: int) -> ScoreParts:
        """Why one document, by its row, has a higher score than another: from the score of ``b`` to that of ``a``."""
        a, b = self._row(a), self._row(b)
        if a == b:
            raise DataError(f"row {a} was given twice; a document does not stand above itself.")
        scores, names = self.scores, [self.name_of(a), self.name_of(b)]
        if names[0] == names[1] and self.query_ids is not None:
            names = [f"{names[0]} of query {self.query_ids[row]}" for row in (a, b)]
        relation = "above" if scores[a] > scores[b] else "not above"
        return ScoreParts.sorted(
            f"why {names[0]} is {relation} {names[1]}",
            self.names,
            self.contributions[a] - self.contributions[b],
            {names[0]: self.features[a], names[1]: self.features[b]},
            (f"score of {names[1]}", float(scores[b])),
            (f"score of {names[0]}", float(scores[a])),
        )

    def query(self, query: Any) -> Explanation:
        """The documents of one query, the best first; equal scores keep the order of rows."""
        rows = self.rows_of(query)
        return self.take(rows[np.argsort(-self.scores[rows], kind="stable")])

    def take(self, rows: Any) -> Explanation:
        """The documents of some rows, in that order."""
        columns = (self.features, self.query_ids, self.doc_ids, self.labels)
        features, *others = (None if column is None else column[rows] for column in columns)
        assert features is not None
        return Explanation(self.contributions[rows], self.base, self.names, features, *others)

    def rows_of(self, query: Any) -> Rows:
        """The rows of a query's documents, in the data's order; ids may be given as text."""
        if self.query_ids is None:
            raise DataError("these documents have no query ids, so none can be asked for.")
        return _matching("query", query, self.query_ids)

    def find(self, document: Any, query: Any = None) -> int:
        """The row of a document, by its id; where there are no ids, by its number among its query's rows, from 1."""
        rows = np.arange(self.n_documents) if query is None else self.rows_of(query)
        if self.doc_ids is None:
            number = int(document) if str(document).isdecimal() else 0
            if not 1 <= number <= rows.size:
                raise DataError(
                    f"document '{document}' does not exist: these data have no document ids, so documents are "
                    f"counted from 1, here up to {rows.size:,}."
                )
            return int(rows[number - 1])
        matches = rows[_matching("document", document, self.doc_ids[rows])]
        if matches.size > 1:
            raise DataError(
                f"document '{document}' is there {matches.size:,} times. Say of which query it is."
            )
        return int(matches[0])

    def name_of(self, row: int) -> str:
        """The name of a document: its id, else its number in its query, else its row; both from 1."""
        if self.doc_ids is not None and str(self.doc_ids[row]):
            return str(self.doc_ids[row])
        if self.query_ids is None:
            return f"document {row + 1}"
        return f"document {int((self.query_ids[: row + 1] == self.query_ids[row]).sum())}"

    def importance(self) -> Importance:
        """The mean size of each feature's contributions, whatever their sign."""
        if self.n_documents == 0:
            raise DataError("there are no documents, so there is no mean contribution.")
        return Importance("contribution", self.names, np.abs(self.contributions).mean(axis=0))

    def texts(self, top: int | None = _SHOWN, features: int = _FEATURES_PER_DOCUMENT) -> list[Any]:
        """A table of the documents, as texts: score, label and the largest contributions of each."""
        table = []
        scores = self.scores
        for row in range(min(self.n_documents, self.n_documents if top is None else top)):
            texts = {"document": self.name_of(row), "score": f"{scores[row]:.4f}"}
            if self.labels is not None:
                texts["label"] = f"{self.labels[row]:g}"
            largest = np.argsort(-np.abs(self.contributions[row]), kind="stable")[:features]
            parts = [f"{self.names[f]} {self.contributions[row, f]:+.4f}" for f in largest]
            table.append({**texts, "largest contributions": ", ".join(parts)})
        return table

    @property
    def title(self) -> str:
        """What is explained."""
        queries = [] if self.query_ids is None else list(dict.fromkeys(self.query_ids.tolist()))
        of = f" of query {queries[0]}" if len(queries) == 1 else ""
        return f"{self.n_documents:,} documents{of}, base {self.base:.4f}"

    def rows(self, top: int | None = None) -> Iterator[dict[str, Any]]:
        """A mapping per document: its name, score, label if there are labels, and contributions by feature."""
        scores = self.scores
        for row in range(self.n_documents)[:top]:
            label = {} if self.labels is None else {"label": float(self.labels[row])}
            parts = dict(zip(self.names, self.contributions[row].tolist(), strict=True))
            document = {"document": self.name_of(row), "score": float(scores[row])}
            yield {**document, **label, "contributions": parts}

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {"title": self.title, "base": self.base, "documents": list(self.rows(top))}

    def _tables(self) -> Tables:
        return {self.title: self.texts()}

    def _csv_lines(self) -> Iterator[list[Any]]:
        """A line per document: its name, score, label if there are labels, and a column per feature."""
        label = [] if self.labels is None else ["label"]
        yield ["document", "score", *label, *self.names]
        for row in self.rows():
            *first, parts = row.values()
            yield [*first, *parts.values()]

    def plot(self, path: str | os.PathLike[str], top: int = _SHOWN) -> None:
        """Draw the contributions of the most important features, a mark per document: .png, .svg or .pdf."""
        importance = np.abs(self.contributions).mean(axis=0)
        chosen = np.argsort(-importance, kind="stable")[:top]
        names = [self.names[feature] for feature in chosen]
        plots.strips(path, names, self.contributions[:, chosen], self.features[:, chosen])

    def _row(self, row: Any) -> int:
        return checks.whole_number("row", row, 0, max(0, self.n_documents - 1))

    def __len__(self) -> int:
        return self.n_documents

    def __repr__(self) -> str:
        return f"Explanation({self.n_documents:,} documents, {len(self.names):,} features, base {self.base:.4f})"


def explain(
    model: Any, data: Any, *, background: Any = None, n_threads: int | None = None
) -> Explanation:
    """Exact Shapley values: what each feature adds to the score of each document.

    Parameters
    ----------
    model
        A fitted ranker that is a sum of trees or of features, or its bare model.
    data
        Documents: RankingData, or rows × features as for ``predict``. Labels are only shown.
    background
        Documents to compare with instead of the training rows; needed where a model does not say how many rows
        went where, as those made elsewhere.

    Contributions and base sum to the score. Features that are not known are averaged over the rows as the trees
    split them (path-dependent TreeSHAP).
    """
    stored = model_of(model)
    if isinstance(data, BinnedData):
        data = data.data
    matrix = features_of(data, stored)
    parts, base = contributions(stored, matrix, background=background, n_threads=n_threads)
    names = names_of(stored, data)
    if not isinstance(data, RankingData):
        return Explanation(parts, base, names, matrix)
    return Explanation(parts, base, names, matrix, data.query_ids, data.doc_ids, data.labels)


def model_of(model: Any) -> Any:
    """The model that a fitted ranker has learned; a bare model as it is."""
    if isinstance(model, Ranker):
        return learned_model(model)
    if kind_of(model) is None:
        raise ModelError(
            f"{type(model).__name__} is no ranker or model of ours, so what it learned cannot be looked at."
        )
    return model


def names_of(model: Any, data: Any = None) -> tuple[str, ...]:
    """The model's feature names, else the data's, else numbers counted from 1."""
    if model.feature_names is not None:
        return tuple(model.feature_names)
    names = None
    if isinstance(data, RankingData):
        names = data.feature_names
    elif data is not None and hasattr(data, "columns"):
        names = to_matrix(data)[1]
    return names or tuple(str(number + 1) for number in range(model.n_features))


def _matching(kind: str, wanted: Any, ids: Array) -> Rows:
    """The positions of an id, compared as text; an unknown id raises an error that names the nearest one."""
    is_wanted = np.array([str(given) == str(wanted) for given in ids.tolist()], bool)
    if not is_wanted.any():
        raise UnknownName(kind, str(wanted), dict.fromkeys(map(str, ids.tolist())))
    return np.flatnonzero(is_wanted)


@dataclass(frozen=True, eq=False, repr=False)
class ScoreParts(_Explained):
    """A score, or the difference of two scores, divided among features: what leads from one number to another.

    Parameters
    ----------
    title
        What is explained.
    names, parts
        Features and what each adds, the largest part first, whatever its sign.
    values
        The features' values, one column for each document of the title.
    start, end
        Names of the two numbers and the numbers: base and score, or the scores of two documents. The parts sum to
        their difference.
    """

    title: str
    names: tuple[str, ...]
    parts: Floats
    values: Mapping[str, Floats]
    start: tuple[str, float]
    end: tuple[str, float]

    @classmethod
    def sorted(
        cls,
        title: str,
        names: tuple[str, ...],
        parts: Floats,
        values: Mapping[str, Floats],
        start: tuple[str, float],
        end: tuple[str, float],
    ) -> ScoreParts:
        """The parts in order of their size; equal ones keep the features' order."""
        order = np.argsort(-np.abs(parts), kind="stable")
        columns = {name: column[order] for name, column in values.items()}
        return cls(title, tuple(names[i] for i in order), parts[order], columns, start, end)

    def rows(self, top: int | None = None) -> Iterator[dict[str, Any]]:
        """A mapping per feature: its name, value and part. After ``top`` of them, one for all the others."""
        shown = len(self.names) if top is None else min(top, len(self.names))
        for index in range(shown):
            values = {name: float(column[index]) for name, column in self.values.items()}
            yield {"feature": self.names[index], **values, "part": float(self.parts[index])}
        n_others = len(self.names) - shown
        if n_others:
            nothing = dict.fromkeys(self.values)
            rest = float(self.parts[shown:].sum())
            yield {"feature": f"{n_others:,} others", **nothing, "part": rest}

    def texts(self, top: int | None = _SHOWN) -> list[dict[str, str]]:
        """The rows of the table as texts, from the start to the end."""
        blank = dict.fromkeys(self.values, "")
        table = [{"feature": self.start[0], **blank, "part": f"{self.start[1]:.4f}"}]
        for row in self.rows(top):
            values = {name: _shown(row[name]) for name in self.values}
            table.append({"feature": row["feature"], **values, "part": f"{row['part']:+.4f}"})
        return [*table, {"feature": self.end[0], **blank, "part": f"{self.end[1]:.4f}"}]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        ends = {self.start[0]: self.start[1], self.end[0]: self.end[1]}
        return {"title": self.title, **ends, "features": list(self.rows(top))}

    def _tables(self) -> Tables:
        return {self.title: self.texts()}

    def _records(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def plot(self, path: str | os.PathLike[str], top: int = _SHOWN) -> None:
        """Draw the steps from start to end, to a file whose ending names its format: .png, .svg or .pdf."""
        steps = []
        for row in self.rows(top):
            values = [_shown(row[name]) for name in self.values if row[name] is not None]
            named = f" = {' / '.join(values)}" if values else ""
            steps.append((row["feature"] + named, row["part"]))
        plots.waterfall(path, steps, self.start, self.end, self.title)

    def __repr__(self) -> str:
        return f"ScoreParts({self.title}: {self.start[1]:.4f} to {self.end[1]:.4f})"


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return "missing" if math.isnan(value) else f"{value:.6g}"


@dataclass(frozen=True, eq=False, repr=False)
class Importance(Result):
    """How much each feature matters.

    Parameters
    ----------
    by
        What is counted: gain, cover, splits, permutation or contribution.
    names, values
        In the order of the features.
    low, high
        An interval around each value, where there is one.
    measure
        What permutation lowers.
    """

    by: str
    names: tuple[str, ...]
    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    measure: str | None = None

    @property
    def meaning(self) -> str:
        """What the values are."""
        return _MEANINGS.get(self.by, f"{self.measure} lost when values are shuffled in queries")

    @property
    def title(self) -> str:
        """What the table shows."""
        return f"features by {self.meaning}"

    def rows(self, top: int | None = None) -> Iterator[dict[str, Any]]:
        """A mapping per feature, the most important first; equal ones in the features' order."""
        for feature in np.argsort(-self.values, kind="stable")[:top].tolist():
            row = {"feature": self.names[feature], "importance": float(self.values[feature])}
            if self.low is not None and self.high is not None:
                row |= {"low": float(self.low[feature]), "high": float(self.high[feature])}
            yield row

    def texts(self, top: int | None = _SHOWN_FEATURES) -> list[dict[str, str]]:
        """The rows as texts."""
        table = []
        for row in self.rows(top):
            texts = {"feature": row["feature"], "importance": f"{row['importance']:.4f}"}
            if "low" in row:
                is_known = not math.isnan(row["low"])
                texts["95 % interval"] = (
                    f"{row['low']:.4f} – {row['high']:.4f}" if is_known else "–"
                )
            table.append(texts)
        return table

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {"by": self.by, "meaning": self.meaning, "features": list(self.rows(top))}

    def _tables(self) -> Tables:
        return {self.title: self.texts()}

    def _records(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def plot(self, path: str | os.PathLike[str], top: int = _SHOWN_FEATURES) -> None:
        """Draw a bar per feature, to a file whose ending names its format: .png, .svg or .pdf."""
        rows = list(self.rows(top))
        intervals = [(row["low"], row["high"]) for row in rows] if self.low is not None else None
        lengths = [row["importance"] for row in rows]
        plots.bars(path, [row["feature"] for row in rows], lengths, intervals, self.meaning)

    def __repr__(self) -> str:
        return f"Importance(by {self.by}, {len(self.names):,} features)"

    def _repr_html_(self) -> str:
        return tables_as_html({"": self.texts()}, [self.meaning])


def importance(
    model: Any,
    data: Any = None,
    by: str = "gain",
    *,
    measure: str | Measure = "ndcg@10",
    repetitions: int = 5,
    seed: int = 0,
    background: Any = None,
    n_threads: int | None = None,
) -> Importance:
    """How much each feature matters to a model.

    Parameters
    ----------
    model
        A fitted ranker, or its bare model.
    data
        What "permutation" and "contribution" are measured on; the first needs labels and queries.
    by
        "gain", "cover" or "splits": the feature's share of the gain of all splits, of the rows they part, of
        their number; of linear models "gain" is the share of weight times spread. "permutation": what the
        measure loses when the feature's values are shuffled among the documents of each query. "contribution":
        the mean size of the feature's contribution to a score.
    measure, repetitions, seed
        Permutation: any measure, the mean over so many shuffles, repeatable.
    background
        Contribution: as for ``explain``.
    """
    checks.one_of("by", by, KINDS)
    stored = model_of(model)
    if isinstance(data, BinnedData):
        data = data.data
    if by in COUNTED:
        return Importance(by, names_of(stored, data), _counted(stored, by))
    if data is None:
        raise DataError(f"importance by {by} is measured on data: pass data=.")
    if by == "contribution":
        return _by_contribution(stored, data, background, n_threads)
    if not isinstance(data, RankingData):
        raise DataError("importance by permutation needs labels and queries: pass RankingData.")
    repetitions = checks.whole_number("repetitions", repetitions, 1)
    seed = checks.whole_number("seed", seed, 0)
    task = _Permutation(stored, data, parse_measure(measure), repetitions, seed, n_threads)
    return task.importance()


def _counted(model: Any, by: str) -> Floats:
    """The share of each feature in what the model itself counts."""
    count = getattr(model, "importance", None)
    if count is None:
        raise ModelError(
            f"a {type(model).__name__} counts nothing by feature. Ask for importance by permutation."
        )
    if hasattr(model, "n_trees"):
        parts: Floats = count(by)
    elif by == "gain":
        parts = count()
    else:
        raise ModelError(
            f"a {type(model).__name__} has no splits, so it has no {by}; use by='gain'."
        )
    total = float(parts.sum())
    return parts / total if total > 0 else parts


def _by_contribution(model: Any, data: Any, background: Any, n_threads: int | None) -> Importance:
    matrix = features_of(data, model)
    sizes = MeanSizes.of(model, background, n_threads)
    step = max(1, _VALUES_AT_ONCE // model.n_features)
    for first in range(0, len(matrix), step):
        sizes.add(matrix[first : first + step])
    return sizes.importance(names_of(model, data))


@dataclass(eq=False)
class MeanSizes:
    """The mean size of each feature's contributions, over documents that are added in batches."""

    form: Any
    n_threads: int | None
    sums: Floats
    n_documents: int = 0

    @classmethod
    def of(cls, model: Any, background: Any = None, n_threads: int | None = None) -> MeanSizes:
        """The means of a model, before any document."""
        form = additive_form(model, background=background, n_threads=n_threads)
        return cls(form, n_threads, np.zeros(model.n_features))

    def add(self, features: Any) -> None:
        """Add the contributions of some more documents."""
        parts, _ = contributions(self.form, features, n_threads=self.n_threads)
        self.sums += np.abs(parts).sum(axis=0)
        self.n_documents += len(parts)

    def importance(self, names: tuple[str, ...]) -> Importance:
        """The importance by the documents added so far."""
        if self.n_documents == 0:
            raise DataError("there are no documents, so there is no mean contribution.")
        return Importance("contribution", names, self.sums / self.n_documents)


@dataclass(frozen=True, eq=False)
class _Permutation:
    """Importance by permutation: what a measure loses when a feature's values are shuffled within queries."""

    model: Any
    data: RankingData
    measure: Measure
    repetitions: int
    seed: int
    n_threads: int | None

    def importance(self) -> Importance:
        matrix = features_of(self.data, self.model)
        before = self._values(matrix)
        values, low, high = np.zeros((3, self.model.n_features))
        for feature in self._used():
            lost: Floats = np.zeros(before.size)
            for shuffled in self._shuffles(matrix, feature):
                lost += before - self._values(shuffled)
            values[feature], low[feature], high[feature] = self._summary(lost / self.repetitions)
        names = names_of(self.model, self.data)
        return Importance("permutation", names, values, low, high, str(self.measure))

    def _used(self) -> list[int]:
        """The features that the model uses; permuting others changes nothing."""
        if not hasattr(self.model, "importance"):
            return list(range(self.model.n_features))
        has_trees = hasattr(self.model, "n_trees")
        parts = self.model.importance("splits") if has_trees else self.model.importance()
        used: list[int] = np.flatnonzero(parts > 0).tolist()
        return used

    def _shuffles(self, matrix: Features, feature: int) -> Iterator[Features]:
        """The matrix with one column shuffled within queries, once per repetition; its memory is reused."""
        shuffled = matrix.copy()
        column: Array = matrix[:, feature]
        for repetition in range(self.repetitions):
            random = _random.stream(self.seed, f"shuffle feature {feature}", repetition)
            order = np.lexsort((random.random(len(matrix)), self.data.query_of_row))
            shuffled[self.data.row_order, feature] = column[order]
            yield shuffled

    def _values(self, matrix: Features) -> Floats:
        """The measure of each query, or of all documents where they are pooled; more is better."""
        scores = self.model.predict(matrix, n_threads=self.n_threads)
        if self.measure.is_pooled:
            value = mean_value(self.measure, checks.read_only(scores), self.data)
            return np.array([-value if is_minimised(self.measure) else value])
        return self.measure.per_query(scores, self.data, n_threads=self.n_threads)

    def _summary(self, lost: Floats) -> tuple[float, float, float]:
        """The mean over queries, and its interval over resampled queries; none for pooled measures."""
        if self.measure.is_pooled:
            return float(lost[0]), float("nan"), float("nan")
        weights = self.data.judgments.query_weights_or_ones
        weighted, weight = weighted_values(lost[:, np.newaxis], weights)
        total = float(weight.sum())
        mean = float(weighted.sum()) / total if total > 0 else float("nan")
        resampling = Resampling.of(lost.size, _N_BOOTSTRAP, _CONFIDENCE, self.seed)
        return mean, *resampling.ratio_intervals(weighted, weight)[0]
