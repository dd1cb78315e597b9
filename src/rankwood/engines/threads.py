"""``ThreadsEngine``: the rows in memory, trees grown by the threads of this process.

Independent trees grow one per thread. A tree that is asked for alone is grown by a team of threads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from rankwood._core.jit import kernel
from rankwood._core.threads import parallel_map_ordered, run_blocks
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import Draws, OutOfBag
from rankwood.engines.engine import Engine, Requests, Scores, TreeRequest, Trees
from rankwood.losses.loss import Targets, weak_learner_targets
from rankwood.trees.grower import Growth, Policies, Tree, grow_tree
from rankwood.trees.packing import TargetRows, WholeTargets, whole_targets
from rankwood.trees.workspace import Matrix

LEAST_VALUES = 2_000_000  # of the matrix, per thread: below, threads cost more time than they save
_LEAST_ROWS = 150_000  # per thread: adding up fewer takes less time than waking a thread
_MARGIN = 1.1  # over the gain of another tree's last split: a lower guess makes more splits that are discarded


@dataclass(frozen=True, eq=False)
class ThreadsEngine(Engine):
    """Grows trees on the threads of this process."""

    matrix: Matrix
    n_threads: int
    # Guesses at the least gain of a split that is kept, from earlier trees. They change speed only, never a tree.
    likely_gains: dict[Growth, float] = field(default_factory=dict)

    def with_threads(self, n_threads: int) -> ThreadsEngine:
        """The same rows, with another number of threads."""
        return dataclasses.replace(self, n_threads=n_threads)

    def check(self, policies: Policies) -> None:
        """Threads can do everything."""

    def hold(self, targets: Targets, draws: Draws, *, centre: bool) -> WholeTargets:
        """Targets and weights as whole numbers."""
        values, weights = targets
        rows = TargetRows.of(values, weights, draws.present, self.n_threads)
        return whole_targets(rows, draws.most_rows, centre=centre)

    def grow(
        self, requests: Requests, out_of_bag: OutOfBag | None = None, totals: Floats | None = None
    ) -> Trees:
        """The trees of independent requests, each grown by one thread."""
        grown = parallel_map_ordered(self._grow_alone, requests, self.n_threads)
        with contextlib.closing(grown):
            for tree, seen in grown:
                if out_of_bag is not None and seen is not None:
                    out_of_bag.add(tree, seen)
                if totals is not None:
                    self.add_values(tree, 1.0, totals)
                yield tree
                del tree, seen  # they are as large as the data, and the next ones are growing

    def _grow_alone(self, request: TreeRequest) -> tuple[Tree, Array | None]:
        """A tree grown by one thread, and the rows it is not held out from."""
        counts, growth = request.counts(), request.policies.growth
        likely_gain = self.likely_gains.get(growth, math.inf)
        tree = self._grow(request, counts, 1, likely_gain)
        self.likely_gains[growth] = _MARGIN * tree.last_gain
        return tree, counts if request.seen is None else request.seen

    def grow_one(self, request: TreeRequest) -> Tree:
        """One tree, grown by a team of threads."""
        threads = max(1, min(self.n_threads, self.matrix.columns.size // LEAST_VALUES))
        return self._grow(request, request.counts(), threads, math.inf)

    def _grow(
        self, request: TreeRequest, counts: Array | None, n_threads: int, likely_gain: float
    ) -> Tree:
        return grow_tree(
            self.matrix,
            request.targets,
            request.policies,
            counts=counts,
            stream=request.stream,
            n_threads=n_threads,
            route_others=request.reaches_all,
            likely_gain=likely_gain,
        )

    def scores(self, totals: Floats, starts: Floats | float) -> ThreadScores:
        """Scores in the memory of this process."""
        return ThreadScores(self, totals, starts)

    def targets(self, loss: Any, scores: Scores) -> Targets:
        """What the next tree of boosting fits."""
        return weak_learner_targets(loss, scores.on_host())

    def add_values(self, tree: Tree, factor: float, totals: Floats) -> None:
        """Add ``factor`` times the value of each row's leaf to its total."""
        add_to_totals(tree.leaf_of_row, tree.value, factor, totals, self.n_threads)


@dataclass(frozen=True, eq=False)
class ThreadScores(Scores):
    """Scores in the memory of this process."""

    engine: ThreadsEngine
    totals: Floats
    starts: Floats | float

    def add(self, tree: Tree, factor: float) -> None:
        """Add ``factor`` times the value of each row's leaf."""
        self.engine.add_values(tree, factor, self.totals)

    def on_host(self) -> Floats:
        """The scores as an array."""
        return self.totals + self.starts


def add_to_totals(
    leaf_of_row: Array, value: Floats, factor: float, totals: Floats, n_threads: int
) -> None:
    """Add ``factor`` times the value of each row's leaf to its total, on threads where there are many rows."""
    values = (leaf_of_row, value, factor, totals)
    run_blocks(add_leaf_values, totals.size, *values, n_threads=n_threads, least=_LEAST_ROWS)


@kernel
def add_leaf_values(
    first: int, last: int, leaf_of_row: Array, value: Array, factor: float, totals: Array
) -> None:
    """Add ``factor`` times the value of each row's leaf to its total."""
    for row in range(first, last):
        totals[row] += factor * value[leaf_of_row[row]]
