"""Which function computes which measure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.sums import exact_mean
from rankwood.data.dataset import HasJudgments, Judgments
from rankwood.dtypes import Floats, Rows
from rankwood.errors import ParameterError
from rankwood.measures import agreement, listwise
from rankwood.measures.agreement import PooledCurve
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists, QueryValues, Ranking, lists_for

_FUNCTIONS: Mapping[str, Callable[[Measure, Lists], QueryValues]] = {
    "dcg": listwise.dcg,
    "ndcg": listwise.ndcg,
    "mean_ndcg": listwise.mean_ndcg,
    "map": listwise.average_precision,
    "p": listwise.precision,
    "r": listwise.recall,
    "mrr": listwise.reciprocal_rank,
    "judged": listwise.judged,
    "err": listwise.err,
    "rbp": listwise.rbp,
    "tau": agreement.tau,
    "auc": agreement.query_areas,
    "pauc": agreement.query_areas,
    "rmse": agreement.query_rmse,
}


def query_values(measure: Measure, lists: Lists) -> QueryValues:
    """The measure of each query, with the convention for empty queries applied."""
    values = _FUNCTIONS[measure.name](measure, lists)
    return values.with_empty(measure["empty"]) if "empty" in measure.form.options else values


def mean_value(measure: Measure, scores: Any, data: HasJudgments) -> float:
    """The measure over all queries: their weighted mean, or the value of all documents pooled."""
    judgments = data.judgments
    if not measure.needs_queries:
        return _rmse(scores, judgments)
    return _value_of_lists(measure, lists_for(measure, scores, judgments), judgments)


def values_by_query(measure: Measure, scores: Any, data: HasJudgments, rows: Rows) -> Floats:
    """The measure of every query of the data, from its rows among ``rows``; NaN for a query that has none of them."""
    judgments = data.judgments
    values: Floats = np.full(judgments.n_queries, np.nan)
    queries, first = np.unique(judgments.query_of_row[rows], return_index=True)
    if queries.size:
        in_order = queries[np.argsort(first, kind="stable")]  # as the part meets them
        part = judgments.take_rows(rows)
        values[in_order] = measure.per_query(checks.read_only(scores[rows]), part)
    return values


def _rmse(scores: Any, judgments: Judgments) -> float:
    """The root of the mean squared error of all documents; the only measure that needs no queries."""
    weights = judgments.query_weights
    of_row = None if weights is None else weights[judgments.query_of_row]
    return math.sqrt(exact_mean((scores - judgments.labels) ** 2, of_row))


def _value_of_lists(measure: Measure, lists: Lists, judgments: Judgments) -> float:
    weights = judgments.query_weights_or_ones
    if measure.is_pooled:
        everything: Rows = np.arange(lists.n_queries)
        curve = PooledCurve.of(lists, float(measure["relevant"]), everything)
        return float(curve.areas(weights[np.newaxis, :], measure.rates)[0])
    values = query_values(measure, lists).values
    is_counted = ~np.isnan(values)
    total = float(weights[is_counted].sum())
    return float((weights * values)[is_counted].sum() / total) if total > 0 else float("nan")


def tie_averaged(measure: Measure) -> Measure:
    """The measure as a mean over all orders of documents with equal scores, so that the data's order does not count."""
    if "ties" not in measure.form.options:  # such as auc, where ties have a meaning of their own
        return measure
    options: Mapping[str, object] = {**dict(measure.options), "ties": "average"}
    try:
        return Measure(measure.name, measure.cutoff, options)
    except ParameterError:
        raise ParameterError(
            f"measure '{measure}' has no mean over the orders of documents with equal scores, which models of few "
            "trees give many of. Use ndcg, mean_ndcg, dcg, p, r, rbp, auc or rmse."
        ) from None


@dataclass(frozen=True, eq=False)
class RepeatedMeasure:
    """One measure of many score vectors for the same documents; each vector is sorted once.

    What follows from labels alone, the grouping and the ideal ranking, is computed once.
    """

    measure: Measure
    judgments: Judgments
    template: Lists | None  # the documents with their ideal ranking; None without query ids
    n_threads: int | None

    @classmethod
    def of(
        cls, measure: Measure, data: HasJudgments, n_threads: int | None = None
    ) -> RepeatedMeasure:
        """Group and sort what does not depend on scores."""
        judgments = data.judgments
        template = None
        if judgments.query_ids is not None:
            zeros = np.zeros(judgments.n_documents)
            template = lists_for(measure, zeros, judgments, n_threads=n_threads)
            template.ideal()
        return cls(measure, judgments, template, n_threads)

    def lists(self, scores: Floats, ranking: Ranking | None = None) -> Lists:
        """The documents with their scores; sorted when first asked for, unless their ranking is known."""
        template = self.template
        assert template is not None  # only measures with queries use lists
        in_order = scores if template.rows is None else scores[template.rows]
        known = {"label": template.ideal()}
        if ranking is not None:
            known["score"] = ranking
        return dataclasses.replace(template, scores=checks.read_only(in_order), _whole=known)

    def value(self, scores: Floats, lists: Lists | None = None) -> float:
        """The measure over all queries: their weighted mean, or the value of all documents pooled."""
        if not self.measure.needs_queries:
            return _rmse(scores, self.judgments)
        lists = self.lists(scores) if lists is None else lists
        return _value_of_lists(self.measure, lists, self.judgments)

    def by_query(self, scores: Floats) -> Floats:
        """The measure of each query, NaN where it has none; without queries, the squared error of each row."""
        if self.template is None:
            return (scores - self.judgments.labels) ** 2
        return query_values(self.measure, self.lists(scores)).values

    @property
    def weights(self) -> Floats:
        """The weight of each value of ``by_query``."""
        if self.template is None:
            return np.ones(self.judgments.n_documents)
        return self.judgments.query_weights_or_ones
