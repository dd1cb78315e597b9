"""``CudaEngine``: rows, trees and scores on a GPU; losses stay with the CPU, but for squared loss and pairs of lambdas.

Targets become whole numbers as on threads, so that the GPU adds up the same integers. What it grows are records of
nodes, and sums of the trees' values by row, out of bag or for all rows, in the order of the trees.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.threads import lazy
from rankwood.dtypes import Array, Floats
from rankwood.engines.bags import Draws, OutOfBag
from rankwood.engines.cuda import device
from rankwood.engines.cuda.growing import (
    DeviceRows,
    GrownTrees,
    HeldOnHost,
    can_grow_together,
    in_batches,
)
from rankwood.engines.cuda.scores import (
    CudaLambdas,
    CudaScores,
    CudaTargets,
    RowsThere,
    can_weigh_pairs,
    scoring_by,
)
from rankwood.engines.engine import Requests, Scores, ThreadsEngine, TreeRequest, Trees
from rankwood.errors import ParameterError
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import SquaredLoss, Targets, weak_learner_targets
from rankwood.trees.grower import Policies, Tree

__all__ = [
    "CudaEngine",
    "CudaOutOfBag",
    "scoring_by",
]  # engine.py asks for the first and the last by name

_PER_ROW = "a number for each row"


@dataclass(frozen=True, eq=False)
class CudaEngine(ThreadsEngine):
    """Grows trees on a GPU and adds up their values; the rest is done by the threads of this process."""

    given_rows: DeviceRows | None = None  # those of an engine that this one was made from
    number: int | None = None  # of the GPU; None: the one that the thread works with

    @lazy
    def rows(self) -> DeviceRows:
        """The rows on the GPU."""
        return self.given_rows or DeviceRows(self.matrix, self.number)

    def __post_init__(self) -> None:
        _ = self.rows  # an error where there is no GPU comes at once

    def with_threads(self, n_threads: int) -> CudaEngine:
        """The same rows, with another number of threads."""
        return dataclasses.replace(self, n_threads=n_threads, given_rows=self.rows)

    def check(self, policies: Policies) -> None:
        """Raise for monotone features, chances of features and groups of them."""
        refused = {
            "monotone features": policies.direction,
            "features drawn by a probability": policies.features.probability,
            "groups of features that may meet": policies.features.groups,
            "categorical features": self.matrix.is_categorical
            if self.matrix.is_categorical.any()
            else None,
        }
        for what, value in refused.items():
            if value is not None:
                raise ParameterError(
                    f"the CUDA engine (device='cuda') cannot grow trees with {what}. Use device='cpu'."
                )

    def hold(self, targets: Targets, draws: Draws, *, centre: bool) -> Any:
        """Targets and weights as whole numbers, made on the GPU where trees may see all rows."""
        given: Any = targets
        if draws.present is not None:
            return HeldOnHost(super().hold(targets, draws, centre=centre))
        is_there = isinstance(given, CudaTargets)
        there = given.there() if is_there else RowsThere.uploaded(self.rows, *targets)
        return there.held(draws.most_rows, centre=centre)

    def out_of_bag(self, sums: Floats | None = None, n_trees: Array | None = None) -> OutOfBag:
        """Estimates that the GPU adds up."""
        return CudaOutOfBag(self.rows, sums, n_trees)

    def grow(
        self, requests: Requests, out_of_bag: OutOfBag | None = None, totals: Floats | None = None
    ) -> Trees:
        """The trees of independent requests, each grown by one block of threads."""
        with self.rows.within_memory(_PER_ROW):
            sums = None if totals is None else device.upload(totals)
        batches = in_batches(self.rows, requests, self.n_threads)
        with contextlib.closing(batches):
            for batch in batches:
                for request, grown, index in batch:
                    if isinstance(out_of_bag, CudaOutOfBag):
                        out_of_bag.note(request, grown, index)
                    if sums is not None:
                        grown.add_all(index, index + 1, sums)
                    yield grown.trees[index]
                del batch, grown
        if totals is not None:
            totals[:] = device.download(sums)

    def grow_one(self, request: TreeRequest) -> Tree:
        """One tree; the leaf of every row stays on the GPU."""
        together = can_grow_together(self.rows, request)
        grown = GrownTrees(self.rows, [request], self.n_threads, together=together)
        return grown.trees[0]

    def scores(self, totals: Floats, starts: Floats | float) -> Scores:
        """Scores on the GPU."""
        return CudaScores(self.rows, totals, starts)

    def targets(self, loss: Any, scores: Scores) -> Targets:
        """What the next tree of boosting fits: on the GPU for squared loss without weights, and for lambdas of NDCG."""
        if isinstance(scores, CudaScores):
            if type(loss) is SquaredLoss and loss.weights is None:
                return CudaTargets(loss, scores)  # type: ignore[return-value]
            if type(loss) is LambdaRank and can_weigh_pairs(loss):
                return CudaLambdas(loss, scores)  # type: ignore[return-value]
        return weak_learner_targets(loss, scores.on_host())


class CudaOutOfBag(OutOfBag):
    """Out-of-bag estimates that the GPU adds up; they come here when they are looked at."""

    _rows: DeviceRows
    _on_device: tuple[Any, Any]
    _waiting: list[tuple[GrownTrees, int, Array | None]]
    _seen: dict[int, tuple[Array, Any]]
    _fetched: tuple[Floats, Array] | None

    def __init__(self, rows: DeviceRows, sums: Floats | None, n_trees: Array | None) -> None:
        fetched = None
        with rows.within_memory(_PER_ROW):
            if sums is None or n_trees is None:
                n_rows = rows.n_rows
                on_device = (device.zeros(n_rows, np.float64), device.zeros(n_rows, np.int32))
            else:
                on_device = (device.upload(sums), device.upload(n_trees))
                fetched = (sums.copy(), n_trees.copy())
        self.__dict__.update(
            _rows=rows, _on_device=on_device, _waiting=[], _seen={}, _fetched=fetched
        )

    def note(self, request: TreeRequest, grown: GrownTrees, index: int) -> None:
        """Add a tree; those of one launch are added together."""
        if request.seen is None and request.bags is None and request.present is None:
            return
        if self._waiting and self._waiting[0][0] is not grown:
            self._flush()
        self._waiting.append((grown, index, request.seen))
        self.__dict__["_fetched"] = None

    def _flush(self) -> None:
        waiting = self._waiting
        while waiting:
            grown, first, seen = waiting.pop(0)
            last = first + 1
            while waiting and waiting[0][1] == last and waiting[0][2] is seen:
                waiting.pop(0)
                last += 1
            grown.add_unseen(first, last, self._marks(seen), *self._on_device)

    def _marks(self, seen: Array | None) -> Any:
        """The rows that are not held out, on the GPU."""
        if seen is None:
            return None
        if id(seen) not in self._seen:
            with self._rows.within_memory(_PER_ROW):
                self._seen[id(seen)] = (seen, device.upload(seen))
        return self._seen[id(seen)][1]

    @property
    def _arrays(self) -> tuple[Floats, Array]:
        if self._fetched is None:
            self._flush()
            with device.selected(self._rows.number):
                sums, n_trees = map(device.download, self._on_device)
            self.__dict__["_fetched"] = (sums, n_trees)
        assert self._fetched is not None
        return self._fetched

    @property
    def sums(self) -> Floats:
        """By row: the sum of the values of trees that have not seen it."""
        return self._arrays[0]

    @property
    def n_trees(self) -> Array:
        """By row: how many trees have not seen it."""
        return self._arrays[1]
