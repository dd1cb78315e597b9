"""Scores of boosting on the GPU, and the targets of squared loss that are made from them there.

Per row nothing travels then: a boosted tree needs the values of its leaves there, and its nodes here. The numbers are
those of ``trees/packing.py``, operation by operation: the same scales, from the same maxima and whole sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.sums import SumScale
from rankwood._core.threads import lazy
from rankwood.dtypes import Array, Floats
from rankwood.engines.cuda import device
from rankwood.engines.cuda.growing import DeviceRows, HeldTargets
from rankwood.engines.engine import Scores
from rankwood.losses.loss import SquaredLoss, weak_learner_targets
from rankwood.trees.grower import Tree
from rankwood.trees.packing import EXTENTS, Scales, WholeTargets, choose_scales

_PER_ROW = "the scores of the rows"
_NO_WEIGHTS = np.zeros(0, np.int64)


class CudaScores(Scores):
    """The scores of a boosted model: on the GPU from the first tree, or the first targets, on."""

    def __init__(self, rows: DeviceRows, totals: Floats, starts: Floats | float) -> None:
        self.rows = rows
        self.starts = starts
        self._first = totals
        self._labels: tuple[Any, Any] | None = None

    @lazy
    def totals(self) -> Any:
        """What the trees add up to."""
        with self.rows.within_memory(_PER_ROW):
            return device.upload(self._first)

    @lazy
    def starts_there(self) -> tuple[Any, Any]:
        """What the totals are added to: a number for each row, or one; and how many there are."""
        starts = np.atleast_1d(np.asarray(self.starts, np.float64))
        with self.rows.within_memory(_PER_ROW):
            return device.upload(starts), np.int64(starts.size)

    def labels(self, loss: SquaredLoss) -> Any:
        """The labels of a loss."""
        if self._labels is None or self._labels[0] is not loss:
            with self.rows.within_memory(_PER_ROW):
                self._labels = (loss, device.upload(np.asarray(loss.labels, np.float64)))
        return self._labels[1]

    def add(self, tree: Tree, factor: float) -> None:
        """Add ``factor`` times the value of each row's leaf."""
        leaves: Any = tree.leaf_of_row  # LeavesOnDevice: the engine has grown the tree
        leaves.grown.add_values(leaves.index, factor * tree.value, self.totals)

    def on_host(self) -> Floats:
        """The scores as an array."""
        if "totals" not in vars(self):
            return self._first + self.starts
        with device.selected(self.rows.number):
            scores: Floats = device.download(self.totals)
        scores += self.starts
        return scores


class CudaTargets:
    """What the next tree fits under squared loss; whoever wants the arrays themselves unpacks it."""

    def __init__(self, loss: SquaredLoss, scores: CudaScores) -> None:
        self.loss = loss
        self.scores = scores

    def __iter__(self) -> Iterator[Any]:
        return iter(weak_learner_targets(self.loss, self.scores.on_host()))

    def held(self, n_draws: int, *, centre: bool) -> HeldOnDevice:
        """Whole numbers for trees of at most ``n_draws`` rows, repeated ones counted."""
        rows = _Residuals(self.loss, self.scores)
        scales = choose_scales([rows], n_draws, centre=centre)  # type: ignore[list-item]
        return HeldOnDevice(scales, rows.whole(scales), self.scores.rows.upload(_NO_WEIGHTS))


class _Residuals:
    """The targets of all rows, none of which has a weight, as ``choose_scales`` asks for those of a part."""

    weights = np.zeros(0)

    def __init__(self, loss: SquaredLoss, scores: CudaScores) -> None:
        self._rows = scores.rows
        self.present = np.broadcast_to(np.int32(1), self._rows.n_rows)
        given = (scores.labels(loss), scores.totals, *scores.starts_there)
        with self._rows.within_memory(_PER_ROW):
            self._targets = device.empty(self._rows.n_rows, np.float64)
            self._greatest = device.zeros(2, np.uint64)
        self._run("residuals", *given, self._targets, self._greatest)

    def extents(self) -> Array:
        """The ``EXTENTS``: keys of the greatest target, and of its negative."""
        keys = np.zeros(len(EXTENTS), np.int64)
        # Of unsigned numbers, which are in the order of the keys.
        keys[:2] = (self._fetch(self._greatest) ^ np.uint64(1 << 63)).view(np.int64)
        keys[2] = 1
        return keys

    def count_and_sum(self, scale: SumScale) -> Array:
        """How many rows there are, and the whole sum of their targets."""
        with self._rows.within_memory(_PER_ROW):
            total = device.zeros(1, np.uint64)
        self._run("add_whole", self._targets, np.float64(scale.lift), np.float64(scale.unit), total)
        return np.array([self._rows.n_rows, self._fetch(total).view(np.int64)[0]])

    def whole(self, scales: Scales) -> Any:
        """The targets as whole numbers, on the GPU."""
        with self._rows.within_memory(_PER_ROW):
            made = device.empty(self._rows.n_rows, np.int64)
        lift, unit = map(np.float64, (scales.of_targets.lift, scales.of_targets.unit))
        self._run("make_whole", self._targets, np.float64(scales.shift), lift, unit, made)
        return made

    def _run(self, name: str, *arguments: Any) -> None:
        self._rows.run(name, (np.int64(self._rows.n_rows), *arguments))

    def _fetch(self, array: Any) -> Array:
        with device.selected(self._rows.number):
            return device.download(array)


@dataclass(frozen=True, eq=False)
class HeldOnDevice(HeldTargets):
    """Targets that became whole numbers on the GPU; they come here only when trees of several targets grow together."""

    scales: Scales
    targets: Any
    weights: Any  # an address

    @lazy
    def whole(self) -> WholeTargets:
        """The whole targets, here."""
        return WholeTargets(device.download(self.targets), _NO_WEIGHTS, self.scales)

    @lazy
    def on_device(self) -> tuple[Any, Any]:
        """The whole targets and weights."""
        return self.targets, self.weights
