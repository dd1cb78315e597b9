"""Which function computes which measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats, Rows
from rankwood.errors import ParameterError
from rankwood.measures import auc, correlation, listwise
from rankwood.measures.auc import PooledCurve
from rankwood.measures.lists import QueryValues, lists_for
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists, Ranking

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
    "tau": correlation.tau,
    "auc": auc.query_areas,
    "pauc": auc.query_areas,
    "rmse": auc.query_rmse,
}


def query_values(measure: Measure, lists: Lists) -> QueryValues:
    """The measure of each query, with the convention for empty queries applied."""
    found = _FUNCTIONS[measure.name](measure, lists)
    return found.with_empty(measure["empty"]) if "empty" in measure.form.options else found


# ``RepeatedMeasure``: one measure of many scores for the same documents, each sorted once.
#
# What follows from labels alone, the grouping and the best possible ranking, is computed once. The ranking of some
# scores is kept with them, for a loss that needs it too.


_WITHOUT_ORDER = ("auc", "pauc", "rmse", "tau")  # ties have a meaning of their own there


def tie_averaged(measure: Measure) -> Measure:
    """The measure as a mean over all orders of documents with equal scores, so that the data's order does not count."""
    if measure.name in _WITHOUT_ORDER:
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
    """A measure over the documents of ``data``."""

    measure: Measure
    data: RankingData
    template: (
        Lists | None
    )  # the documents with their best ranking; None where the measure knows no lists
    n_threads: int | None

    @classmethod
    def of(
        cls, measure: Measure, data: RankingData, n_threads: int | None = None
    ) -> RepeatedMeasure:
        """Group and sort what does not depend on scores."""
        template = None
        if data.query_ids is not None:
            zeros = np.zeros(data.n_documents)
            template = lists_for(measure, zeros, data, n_threads=n_threads)
            template.ideal()
        return cls(measure, data, template, n_threads)

    def lists(self, scores: Floats, ranking: Ranking | None = None) -> Lists:
        """The documents with their scores; sorted when first asked for, unless their ranking is known."""
        template = self.template
        assert template is not None  # whoever asks for lists has queries
        in_order = scores if template.rows is None else scores[template.rows]
        known = {"label": template.ideal()}
        if ranking is not None:
            known["score"] = ranking
        return dataclasses.replace(template, scores=checks.read_only(in_order), _whole=known)

    def value(self, scores: Floats, lists: Lists | None = None) -> float:
        """The measure over all queries: their weighted mean, or the value of all documents pooled."""
        data, measure = self.data, self.measure
        if measure.name == "rmse":
            weights = data.query_weights
            of_row = None if weights is None else weights[data.query_of_row]
            return float(np.sqrt(np.average((scores - data.labels) ** 2, weights=of_row)))
        lists = self.lists(scores) if lists is None else lists
        weights = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
        if measure.is_pooled:
            everything: Rows = np.arange(data.n_queries)
            curve = PooledCurve.of(lists, float(measure["relevant"]), everything)
            return float(curve.areas(weights[np.newaxis, :], measure.rates)[0])
        values = query_values(measure, lists).values
        is_counted = ~np.isnan(values)
        total = float(weights[is_counted].sum())
        return float((weights * values)[is_counted].sum() / total) if total > 0 else float("nan")
