"""Out-of-bag estimates: for each row, the mean of the trees that have not seen it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.ensembles.bags import Bags
from rankwood.measures.gains import LARGEST_EXPONENT
from rankwood.measures.parsing import parse_measure
from rankwood.models.forest import Forest
from rankwood.trees.grower import Tree


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Sums over the trees that left a row out, and how many they were; trees are added in their order."""

    sums: Floats
    n_trees: Array  # int32

    @classmethod
    def empty(cls, n_rows: int) -> OutOfBag:
        """No tree yet."""
        return cls(np.zeros(n_rows), np.zeros(n_rows, np.int32))

    def add(self, tree: Tree, counts: Array) -> None:
        """Add a tree that saw each row ``counts`` times."""
        from rankwood.ensembles.score_kernels import add_out_of_bag

        add_out_of_bag(counts, tree.leaf_of_row, tree.value, self.sums, self.n_trees)

    @classmethod
    def of_forest(cls, forest: Forest, bags: Bags, data: RankingData) -> OutOfBag:
        """The estimates of trees that are grown already, to the bit as if they had been added one by one."""
        found = cls.empty(data.n_documents)
        for tree in range(forest.n_trees):
            one = forest.take_trees([tree])
            left_out = bags.counts(tree) == 0
            values = dataclasses.replace(one, tree_weights=np.ones(1), base=0.0).predict(data)
            found.sums[left_out] += values[left_out]
            found.n_trees[left_out] += 1
        return found

    @property
    def scores(self) -> Floats:
        """The mean of the trees that left each row out; NaN where there are none."""
        scores: Floats = np.full(self.sums.size, np.nan)
        np.divide(self.sums, self.n_trees, out=scores, where=self.n_trees > 0)
        return scores

    def ndcg(self, data: RankingData) -> float | None:
        """NDCG@10 of the rows that have a score, over the queries that have such rows; None without queries.

        NaN where no row has a score, or labels are too large for a gain.
        """
        if data.query_ids is None:
            return None
        rows = np.flatnonzero(self.n_trees)
        labels = data.labels[rows]
        if rows.size == 0 or labels.max() > LARGEST_EXPONENT:
            return float("nan")
        part = RankingData(np.zeros((rows.size, 1), np.float32), labels, data.query_ids[rows])
        return float(parse_measure("ndcg@10").per_query(self.scores[rows], part).mean())
