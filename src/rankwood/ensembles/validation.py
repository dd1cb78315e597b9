"""The validation set of a fit: its scores grow with the ensemble, tree by tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._checks import read_only
from rankwood._threads import run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Bytes, Floats
from rankwood.errors import DataError
from rankwood.measures.auc import PooledCurve
from rankwood.measures.grouping import group
from rankwood.measures.measure import Measure
from rankwood.trees.grower import Tree

_LEAST_ROWS = 20_000  # per thread: fewer find their leaves faster than a thread starts


def is_minimised(measure: Measure) -> bool:
    """Whether less is better."""
    return measure.name == "rmse"


def mean_value(measure: Measure, scores: Any, data: RankingData) -> float:
    """The measure over all queries: their weighted mean, or the value of all documents pooled."""
    weights = np.ones(0) if data.query_weights is None else data.query_weights
    if measure.name == "rmse":
        of_row = weights[data.query_of_row] if weights.size else None
        return float(np.sqrt(np.average((scores - data.labels) ** 2, weights=of_row)))
    weights = weights if weights.size else np.ones(data.n_queries)
    if measure.is_pooled:
        lists = group(scores, data, ties=measure.ties)
        curve = PooledCurve.of(lists, float(measure["relevant"]), np.arange(data.n_queries))
        return float(curve.areas(weights[np.newaxis, :], measure.rates)[0])
    values = measure.per_query(scores, data)
    is_counted = ~np.isnan(values)
    total = float(weights[is_counted].sum())
    return float((weights * values)[is_counted].sum() / total) if total > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Validation:
    """Binned validation rows, and the sum of what the trees so far say about them."""

    data: RankingData
    codes: Bytes
    measure: Measure
    totals: Floats
    n_threads: int

    def __post_init__(self) -> None:
        if self.data.query_ids is None and self.measure.name != "rmse":
            raise DataError(
                f"valid has no query ids, which {self.measure} needs. Pass (X, y, qid), or measure='rmse'."
            )

    def add(self, tree: Tree, factor: float = 1.0) -> None:
        """Add ``factor`` times what ``tree`` says about each row."""
        from rankwood.ensembles.score_kernels import add_leaf_values
        from rankwood.trees.leaf_kernels import route

        leaf_of_row = np.full(self.totals.size, -1, np.int32)
        nodes = (tree.feature, tree.code, tree.left, tree.right, tree.missing, leaf_of_row)
        run_blocks(
            route,
            leaf_of_row.size,
            self.codes,
            *nodes,
            n_threads=self.n_threads,
            least=_LEAST_ROWS,
        )
        add_leaf_values(0, leaf_of_row.size, leaf_of_row, tree.value, factor, self.totals)

    def value(self, base: float = 0.0, divisor: float = 1.0) -> float:
        """The measure of ``base + totals / divisor``."""
        scores = self.totals / divisor + base
        return mean_value(self.measure, read_only(scores), self.data)
