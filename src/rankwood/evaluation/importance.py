"""``importance``: which features matter to a model, by its own counts or measured on data.

"gain", "cover" and "splits" are counted by the model itself. "permutation" is what a measure loses when the values of a
feature are shuffled within queries. "contribution" is the mean size of the feature's Shapley values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core import random as _random
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError, ModelError
from rankwood.evaluation.explain import Importance, model_of, names_of
from rankwood.evaluation.paired_tests import Resampling, weighted_values
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.models.inputs import features_in_order
from rankwood.models.shapley import additive_form, contributions

COUNTED = ("gain", "cover", "splits")
KINDS = (*COUNTED, "permutation", "contribution")
_CONFIDENCE, _N_BOOTSTRAP = 0.95, 1000
_VALUES_AT_ONCE = 1 << 24  # 128 MiB of contributions


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
    checks.whole_number("repetitions", repetitions, 1)
    checks.whole_number("seed", seed, 0)
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
    matrix = features_in_order(data, model.n_features, model.feature_names)
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
        matrix = features_in_order(self.data, self.model.n_features, self.model.feature_names)
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
