"""Single features as rankers: how well each, or its negation, ranks each query."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from rankwood._checks import read_only
from rankwood._random import stream
from rankwood.data.dataset import RankingData
from rankwood.dtypes import FEATURE, Floats, Rows
from rankwood.ensembles.side_by_side import in_order
from rankwood.measures.measure import Measure


class Judge:
    """A measure of scores of the training rows, query by query.

    Documents with equal scores stand in an order drawn once from the seed: in that of the data, a file sorted by label
    would make a perfect ranker of a feature that is the same everywhere.
    """

    def __init__(self, measure: Measure, data: RankingData, seed: int) -> None:
        # Labels that the measure cannot take are refused here, by the caller's row.
        values = measure.per_query(np.zeros(data.n_documents), data)
        self.is_counted = ~np.isnan(values)
        self._measure = measure
        chance = stream(seed, "ties").random(data.n_documents)
        self._rows: Rows = np.lexsort((chance, data.query_of_row))
        self._drawn = RankingData(
            np.zeros((data.n_documents, 1), FEATURE),
            data.labels[self._rows],
            data.query_of_row[self._rows],  # ascending: queries keep their numbers
            None if data.doc_ids is None else data.doc_ids[self._rows],
        )

    def __call__(self, scores: Floats, n_threads: int | None = None) -> Floats:
        """The measure of each query that counts."""
        drawn = read_only(scores[self._rows])
        values = self._measure.per_query(drawn, self._drawn, n_threads=n_threads)
        return values[self.is_counted]


@dataclass(frozen=True, eq=False)
class WeakRankers:
    """Features that vary, each with both signs, and the measure of each: float64, rankers × queries."""

    features: Rows
    signs: Floats
    performance: Floats

    @classmethod
    def of(
        cls, data: RankingData, judge: Judge, varying: Rows, fill: Floats, n_threads: int
    ) -> WeakRankers:
        """The rankers of the ``varying`` features; a missing value counts as that of ``fill``."""
        n_queries = int(judge.is_counted.sum())
        performance = np.empty((2 * varying.size, n_queries))

        def rank_by(place: int) -> None:
            feature = int(varying[place])
            values = data.features[:, feature].astype(np.float64)
            values[np.isnan(values)] = fill[feature]
            performance[place] = judge(values, 1)
            performance[varying.size + place] = judge(-values, 1)

        for _ in in_order(rank_by, range(varying.size), n_threads):
            pass
        signs = np.repeat([1.0, -1.0], varying.size)
        return cls(np.tile(varying, 2), signs, performance)

    def best(self, query_weights: Floats, excluded: Collection[int]) -> int | None:
        """The ranker of the highest Σ P(q) · E(q) but for the excluded ones; of equal ones the first."""
        sums = np.einsum("rq,q->r", self.performance, query_weights)
        sums[list(excluded)] = -np.inf
        return int(np.argmax(sums)) if len(excluded) < sums.size else None

    def name(self, ranker: int, names: tuple[str, ...]) -> str:
        """What a message calls a ranker."""
        of_feature = f"feature '{names[self.features[ranker]]}'"
        return of_feature if self.signs[ranker] > 0 else f"the negation of {of_feature}"
