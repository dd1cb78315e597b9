"""``explain``: why documents have the scores they have, feature by feature."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.data.frames import to_matrix
from rankwood.dtypes import Array, Features, Floats, Rows
from rankwood.errors import DataError, ModelError, UnknownName
from rankwood.evaluation.results import aligned, as_html
from rankwood.models.format import kind_of
from rankwood.models.inputs import features_in_order
from rankwood.models.shapley import contributions
from rankwood.rankers.base import Ranker, learned_model

_SHOWN = 10  # features or documents of a table or plot that says nothing else
_FEATURES_PER_DOCUMENT = 3


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
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
        What the data say about each document, or None.
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
        """One document, by its row: from the base to its score. ``find`` knows rows of ids."""
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
        """The documents of one query, the best first; of equal scores the earlier row comes first."""
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
        """The row of a document, by its id; where there are no ids, by its place among its query's rows, from 1."""
        rows = np.arange(self.n_documents) if query is None else self.rows_of(query)
        if self.doc_ids is None:
            place = int(document) if str(document).isdecimal() else 0
            if not 1 <= place <= rows.size:
                raise DataError(
                    f"document '{document}' does not exist: these data have no document ids, so documents are "
                    f"counted from 1, here up to {rows.size:,}."
                )
            return int(rows[place - 1])
        found = rows[_matching("document", document, self.doc_ids[rows])]
        if found.size > 1:
            raise DataError(
                f"document '{document}' is there {found.size:,} times. Say of which query it is."
            )
        return int(found[0])

    def name_of(self, row: int) -> str:
        """What a document is called: by its id, else by its place in its query, else by its row; both from 1."""
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
            found = {"document": self.name_of(row), "score": float(scores[row]), **label}
            yield {**found, "contributions": parts}

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {"title": self.title, "base": self.base, "documents": list(self.rows(top))}

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """A line per document under a header: its name, score, label if there are labels, a column per feature."""
        with (
            explained_writing(path),
            atomic_path(path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.writer(file)
            label = [] if self.labels is None else ["label"]
            writer.writerow(["document", "score", *label, *self.names])
            for row in self.rows():
                *first, parts = row.values()
                writer.writerow([*first, *parts.values()])

    def plot(self, path: str | os.PathLike[str], top: int = _SHOWN) -> None:
        """Draw the contributions of the most important features, a mark per document: .png, .svg or .pdf."""
        from rankwood.evaluation.plots import strips

        importance = np.abs(self.contributions).mean(axis=0)
        chosen = np.argsort(-importance, kind="stable")[:top]
        names = [self.names[feature] for feature in chosen]
        strips(path, names, self.contributions[:, chosen], self.features[:, chosen])

    def _row(self, row: Any) -> int:
        return checks.whole_number("row", row, 0, max(0, self.n_documents - 1))

    def __len__(self) -> int:
        return self.n_documents

    def __repr__(self) -> str:
        return f"Explanation({self.n_documents:,} documents, {len(self.names):,} features, base {self.base:.4f})"

    def __str__(self) -> str:
        return "\n".join([self.title, *(aligned(self.texts()) if self.n_documents else [])])

    def _repr_html_(self) -> str:
        return as_html(self.texts(), [self.title])


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
    matrix = features_in_order(data, stored.n_features, stored.feature_names)
    found, base = contributions(stored, matrix, background=background, n_threads=n_threads)
    names = names_of(stored, data)
    if not isinstance(data, RankingData):
        return Explanation(found, base, names, matrix)
    return Explanation(found, base, names, matrix, data.query_ids, data.doc_ids, data.labels)


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
    """Where an id stands, compared as text; an error with the nearest one where it is not there."""
    is_wanted = np.array([str(given) == str(wanted) for given in ids.tolist()], bool)
    if not is_wanted.any():
        raise UnknownName(kind, str(wanted), dict.fromkeys(map(str, ids.tolist())))
    return np.flatnonzero(is_wanted)


# ``ScoreParts``: a score, or the difference of two scores, divided among features.


@dataclass(frozen=True, eq=False, repr=False)
class ScoreParts:
    """What leads from one number to another, feature by feature.

    Parameters
    ----------
    title
        What is explained.
    names, parts
        Features and what each adds, the largest part first, whatever its sign.
    values
        The features' values, one column for each document that is spoken of.
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
        for place in range(shown):
            values = {name: float(column[place]) for name, column in self.values.items()}
            yield {"feature": self.names[place], **values, "part": float(self.parts[place])}
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

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """A line per feature, under a header."""
        with (
            explained_writing(path),
            atomic_path(path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, ["feature", *self.values, "part"])
            writer.writeheader()
            writer.writerows(self.rows())

    def plot(self, path: str | os.PathLike[str], top: int = _SHOWN) -> None:
        """Draw the steps from start to end, to a file whose name says its kind: .png, .svg or .pdf."""
        from rankwood.evaluation.plots import waterfall

        steps = []
        for row in self.rows(top):
            values = [_shown(row[name]) for name in self.values if row[name] is not None]
            named = f" = {' / '.join(values)}" if values else ""
            steps.append((row["feature"] + named, row["part"]))
        waterfall(path, steps, (self.start, self.end), self.title)

    def __repr__(self) -> str:
        return f"ScoreParts({self.title}: {self.start[1]:.4f} to {self.end[1]:.4f})"

    def __str__(self) -> str:
        return "\n".join([self.title, *aligned(self.texts())])

    def _repr_html_(self) -> str:
        return as_html(self.texts(), [self.title])


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return "missing" if math.isnan(value) else f"{value:.6g}"


# ``Importance``: features and what they matter, as table, CSV and plot.


_SHOWN_FEATURES = 15
_MEANINGS = {
    "gain": "share of the gain of all splits",
    "cover": "share of the rows that splits part",
    "splits": "share of the splits",
    "contribution": "mean size of the contribution to a score",
}


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
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

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """A line per feature, under a header."""
        rows = list(self.rows())
        with (
            explained_writing(path),
            atomic_path(path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def plot(self, path: str | os.PathLike[str], top: int = _SHOWN_FEATURES) -> None:
        """Draw a bar per feature, to a file whose name says its kind: .png, .svg or .pdf."""
        from rankwood.evaluation.plots import bars

        rows = list(self.rows(top))
        intervals = [(row["low"], row["high"]) for row in rows] if self.low is not None else None
        lengths = [row["importance"] for row in rows]
        bars(path, [row["feature"] for row in rows], lengths, intervals, self.meaning)

    def __repr__(self) -> str:
        return f"Importance(by {self.by}, {len(self.names):,} features)"

    def __str__(self) -> str:
        return "\n".join([self.title, *aligned(self.texts())])

    def _repr_html_(self) -> str:
        return as_html(self.texts(), [self.meaning])
