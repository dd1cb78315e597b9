"""Which function computes which measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rankwood.measures import auc, correlation, err, ndcg, precision
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists
from rankwood.measures.values import QueryValues

_FUNCTIONS: Mapping[str, Callable[[Measure, Lists], QueryValues]] = {
    "dcg": ndcg.dcg,
    "ndcg": ndcg.ndcg,
    "mean_ndcg": ndcg.mean_ndcg,
    "map": precision.average_precision,
    "p": precision.precision,
    "r": precision.recall,
    "mrr": precision.reciprocal_rank,
    "judged": precision.judged,
    "err": err.err,
    "rbp": err.rbp,
    "tau": correlation.tau,
    "auc": auc.query_areas,
    "pauc": auc.query_areas,
    "rmse": auc.query_rmse,
}


def query_values(measure: Measure, lists: Lists) -> QueryValues:
    """The measure of each query, with the convention for empty queries applied."""
    found = _FUNCTIONS[measure.name](measure, lists)
    return found.with_empty(measure["empty"]) if "empty" in measure.form.options else found
