"""Scores on the GPU: of boosting, with the targets that are made from them; and of rows by a model.

In boosting with squared loss nothing travels per row: a tree needs the values of its leaves there, and its nodes here.
For lambdas the scores come here, and the powers of the documents go back, in page-locked memory; documents are ranked
and pairs added up there. The numbers are those of ``losses/lambdarank.py`` and ``trees/packing.py``, operation by
operation: the same sums in the same order, the same scales from the same maxima.

Rows that a model scores come in slices, two of which are under way at any time: one is copied while the other one is
scored. The memory that this takes does not depend on the number of rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.sums import SumScale
from rankwood._core.threads import lazy, run_blocks
from rankwood.dtypes import Array, Floats
from rankwood.engines.cuda import device
from rankwood.engines.cuda.growing import DeviceRows, HeldTargets
from rankwood.engines.engine import Scores
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import SquaredLoss, weak_learner_targets
from rankwood.models.scoring import PackedForest, walked_by
from rankwood.trees.grower import Tree
from rankwood.trees.packing import EXTENTS, Scales, WholeTargets, choose_scales

_PER_ROW = "the scores of the rows"
_NO_WEIGHTS = np.zeros(0, np.int64)
_N_GREATEST = 4  # numbers of ``extents`` in rows.cu
_QUERY_THREADS = 128  # of a query's block
_BYTES_OF_RANK = 8 * 8 + 4  # of the shared memory of such a block


class CudaScores(Scores):
    """The scores of a boosted model: on the GPU from the first tree, or the first targets, on."""

    def __init__(self, rows: DeviceRows, totals: Floats, starts: Floats | float) -> None:
        self.rows = rows
        self.starts = starts
        self._first = totals
        self._labels: tuple[Any, Any] | None = None
        self._pairs: PairsThere | None = None

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

    def pairs(self, loss: LambdaRank) -> PairsThere:
        """What the lambdas of a loss are made from."""
        if self._pairs is None or self._pairs.loss is not loss:
            with self.rows.within_memory(_PER_ROW):
                self._pairs = PairsThere(self.rows, loss)
        return self._pairs

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

    def __init__(self, loss: Any, scores: CudaScores) -> None:
        self.loss = loss
        self.scores = scores

    def __iter__(self) -> Iterator[Any]:
        return iter(weak_learner_targets(self.loss, self.scores.on_host()))

    def there(self) -> RowsThere:
        """The targets on the GPU."""
        scores = self.scores
        given = (scores.labels(self.loss), scores.totals, *scores.starts_there)
        with scores.rows.within_memory(_PER_ROW):
            made = device.empty(scores.rows.n_rows, np.float64)
            greatest = device.zeros(_N_GREATEST, np.uint64)
        _run(scores.rows, "residuals", *given, made, greatest)
        return RowsThere(scores.rows, made, greatest=greatest)


class CudaLambdas(CudaTargets):
    """Newton's steps for LambdaRank: the GPU adds up the pairs; powers and logarithms are those of the CPU."""

    def there(self) -> RowsThere:
        """The steps and their weights on the GPU."""
        scores = self.scores
        return scores.pairs(self.loss).steps(scores.totals, *scores.starts_there)


class PairsThere:
    """What the lambdas of a loss are made from, on the GPU, and memory here that copies begin and end in."""

    def __init__(self, rows: DeviceRows, loss: LambdaRank) -> None:
        tables = loss.tables()
        assert tables is not None  # as can_weigh_pairs has found
        self.rows, self.loss, self.rules = rows, loss, tables.rules
        self.n_queries = tables.offsets.size - 1
        self.longest = int(np.diff(tables.offsets).max(initial=1))
        n_rows, weights = rows.n_rows, loss.weights
        self.has_weights = weights is not None
        self.offsets, self.worth = device.upload(tables.offsets), device.upload(tables.worth)
        self.discounts = device.upload(tables.discounts)
        self.n_discounts = tables.discounts.size
        self.weights = device.upload(np.zeros(1) if weights is None else np.asarray(weights, float))
        self.scores, self.powers = (device.empty(n_rows, np.float64) for _ in range(2))
        self.scores_here, self.powers_here = (device.pinned(n_rows, np.float64) for _ in range(2))

    def steps(self, totals: Any, starts: Any, n_starts: Any) -> RowsThere:
        """Newton's steps at the scores ``totals + starts``, and what they weigh."""
        rows, rules = self.rows, self.rules
        _run(rows, "add_starts", totals, starts, n_starts, self.scores)
        with rows.within_memory(_PER_ROW):
            device.download_to(self.scores_here, self.scores)
            self.loss.powers(self.scores_here, self.powers_here)
            device.upload_to(self.powers, self.powers_here)
            lambdas, hessians = (device.empty(rows.n_rows, np.float64) for _ in range(2))
            sums = device.empty(self.n_queries, np.float64)
            of_rows = (self.offsets, self.scores, self.powers, self.worth)
            truncation = np.int64(min(rules.truncation, rows.n_rows))
            of_ranks = (self.discounts, np.int64(self.n_discounts), truncation)
            sizes = (np.int32(rules.normalise), np.int64(self.longest))
            given = (*of_rows, *of_ranks, *sizes, lambdas, hessians, sums)
            grid, shared = (self.n_queries,), _BYTES_OF_RANK * self.longest
            device.run("lambdas.cu", "lambdas_of_queries", grid, _QUERY_THREADS, given, shared)
            factors = device.upload(self.loss.factors(device.download(sums)))
            step = (self.offsets, factors, np.float64(rules.sigma), np.int32(self.has_weights))
            made = (*step, self.weights, lambdas, hessians)
            device.run("lambdas.cu", "newton_steps", grid, _QUERY_THREADS, made)
        return RowsThere(rows, lambdas, hessians)


def can_weigh_pairs(loss: LambdaRank) -> bool:
    """Whether the GPU adds up the pairs of a loss: those of NDCG, where the longest query has room."""
    tables = loss.tables()
    if tables is None:
        return False
    longest = int(np.diff(tables.offsets).max(initial=0))
    return _BYTES_OF_RANK * longest <= device.shared_bytes()


class RowsThere:
    """Targets and weights on the GPU, of rows that are all present, as ``choose_scales`` asks for those of a part."""

    def __init__(
        self, rows: DeviceRows, targets: Any, weights: Any = None, *, greatest: Any = None
    ) -> None:
        self._rows, self._targets, self._greatest = rows, targets, greatest
        self._has_weights = weights is not None
        self._weights = rows.upload(_NO_WEIGHTS) if weights is None else weights
        self.present = np.broadcast_to(np.int32(1), rows.n_rows)
        # Only how many there are is looked at.
        self.weights = np.broadcast_to(np.float64(1), rows.n_rows if self._has_weights else 0)

    @classmethod
    def uploaded(cls, rows: DeviceRows, targets: Floats, weights: Floats | None) -> RowsThere:
        """The targets and weights of the rows here."""
        with rows.within_memory(_PER_ROW):
            given = [targets] if weights is None else [targets, weights]
            return cls(rows, *(device.upload(np.asarray(one, np.float64)) for one in given))

    def extents(self) -> Array:
        """The ``EXTENTS``: keys of the greatest target, and of its negative; and of products with weights."""
        found = self._find(0.0) if self._greatest is None else self._fetch(self._greatest)
        keys = np.zeros(len(EXTENTS), np.int64)
        # Of unsigned numbers, which are in the order of the keys.
        keys[:2] = (found[:2] ^ np.uint64(1 << 63)).view(np.int64)
        keys[2] = 1
        keys[3:] = found[2:].view(np.int64)
        return keys

    def largest_product(self, shift: float) -> Array:
        """The key of the largest |weight · (target - shift)|."""
        return self._find(shift)[3:].view(np.int64)

    def count_and_sum(self, scale: SumScale) -> Array:
        """How many rows there are, and the whole sum of their targets."""
        with self._rows.within_memory(_PER_ROW):
            total = device.zeros(1, np.uint64)
        given = (self._targets, np.float64(scale.lift), np.float64(scale.unit), total)
        _run(self._rows, "add_whole", *given)
        return np.array([self._rows.n_rows, self._fetch(total).view(np.int64)[0]])

    def held(self, n_draws: int, *, centre: bool) -> HeldOnDevice:
        """Whole numbers for trees of at most ``n_draws`` rows, repeated ones counted."""
        scales = choose_scales([self], n_draws, centre=centre)  # type: ignore[list-item]
        n_rows = self._rows.n_rows
        with self._rows.within_memory(_PER_ROW):
            targets = device.empty(n_rows, np.int64)
            weights = device.empty(n_rows, np.int64) if self._has_weights else self._weights
        of_targets, of_weights = (
            (np.float64(one.lift), np.float64(one.unit))
            for one in (scales.of_targets, scales.of_weights)
        )
        made = (self._targets, np.float64(scales.shift), *of_targets, targets)
        of_rows = (np.int32(self._has_weights), self._weights, *of_weights, weights)
        _run(self._rows, "make_whole", *made, *of_rows)
        return HeldOnDevice(scales, targets, weights)

    def _find(self, shift: float) -> Array:
        with self._rows.within_memory(_PER_ROW):
            greatest = device.zeros(_N_GREATEST, np.uint64)
        of_weights = (np.int32(self._has_weights), self._weights, np.float64(shift))
        _run(self._rows, "extents", self._targets, *of_weights, greatest)
        return self._fetch(greatest)

    def _fetch(self, array: Any) -> Array:
        with device.selected(self._rows.number):
            return device.download(array)


def _run(rows: DeviceRows, name: str, *arguments: Any) -> None:
    """Run a kernel of ``rows.cu`` whose first argument is the number of rows."""
    rows.run(name, (np.int64(rows.n_rows), *arguments))


@dataclass(frozen=True, eq=False)
class HeldOnDevice(HeldTargets):
    """Targets that became whole numbers on the GPU; they come here only when trees of several targets grow together."""

    scales: Scales
    targets: Any
    weights: Any  # an address where each row weighs 1

    @lazy
    def whole(self) -> WholeTargets:
        """The whole targets, here."""
        weights = device.download(self.weights) if self.scales.has_weights else _NO_WEIGHTS
        return WholeTargets(device.download(self.targets), weights, self.scales)

    @lazy
    def on_device(self) -> tuple[Any, Any]:
        """The whole targets and weights."""
        return self.targets, self.weights


# Rows that a model scores.

_BLOCKS = (128, 64, 32)  # rows of a block, one to a thread: as many as have room for their keys
_SLICE = 1 << 25  # bytes of a slice
_MOST_KEYS = (
    1 << 16
)  # bytes of a block's keys in shared memory, so that some blocks share a multiprocessor
_LEAST_COPIED = 1 << 20  # bytes per thread
# ``Walk`` of scoring.cu.
WALK = np.dtype(
    [
        ("n_features", np.int64),
        ("n_columns", np.int64),
        ("n_trees", np.int64),
        ("first", np.int64),
        ("last", np.int64),
        ("from_codes", np.int32),
        ("left_shift", np.int32),
        ("is_wide", np.int32),
        ("wants_leaves", np.int32),
        ("is_shared", np.int32),
        ("unused", np.int32),
    ],
    align=True,
)


def scoring_by(number: int | None) -> contextlib.AbstractContextManager[None]:
    """The context within which a GPU walks rows down trees; an error at once where there is none."""
    return walked_by(CudaWalker(device.number_of(number)))


@dataclass(eq=False)
class CudaWalker:
    """Walks rows down trees on a GPU, slice by slice; the forest that it was asked for last stays there."""

    number: int
    _known: tuple[PackedForest, tuple[Any, ...]] | None = None

    def walk(
        self, forest: PackedForest, trees: range, rows: Array, found: Array, n_threads: int | None
    ) -> None:
        """Add the trees' values to ``found``, or write the rows' leaves."""
        if found.size == 0 or not trees:
            return
        slices: list[_Slice] = []
        what = f"a forest of {forest.values.size:,} nodes and two slices of the rows"
        with device.selected(self.number), device.within_memory(what):
            try:
                given = (_launch(forest, trees, rows, found), self._there(forest))
                step = _rows_of_slice(rows, found)
                firsts = range(0, len(found), step)
                for _ in firsts[:2]:
                    slices.append(_Slice(*given, rows, found, step, n_threads))
                device.wait()
                for turn, first in enumerate(firsts):
                    slices[turn % 2].start(first, min(first + step, len(found)))
                for one in slices:
                    one.finish()
            finally:
                for one in slices:
                    one.stream.synchronize()  # nothing may be freed that a copy still reads

    def _there(self, forest: PackedForest) -> tuple[Any, ...]:
        """The arrays of a forest on the GPU."""
        if self._known is None or self._known[0] is not forest:
            self._known = None
            nodes: tuple[Array, ...] = (
                *(forest.packed, forest.wide, forest.subsets),
                *(forest.values, forest.numbers),
            )
            arrays = (forest.columns, forest.missing_keys, forest.offsets, *nodes)
            self._known = (forest, tuple(map(device.upload, arrays)))
        return self._known[1]


def _launch(forest: PackedForest, trees: range, rows: Array, found: Array) -> Any:
    """What all slices have in common."""
    launch = np.zeros((), WALK)
    launch["from_codes"] = rows.dtype == np.uint8
    launch["n_features"] = rows.shape[0 if launch["from_codes"] else 1]
    launch["n_columns"], launch["n_trees"] = forest.columns.size, forest.offsets.size - 1
    launch["first"], launch["last"] = trees.start, trees.stop
    launch["left_shift"], launch["is_wide"] = forest.left_shift, len(forest.wide) > 0
    launch["wants_leaves"] = found.ndim == 2
    launch["is_shared"] = 4 * _BLOCKS[-1] * forest.columns.size <= _most_keys()
    return launch


def _most_keys() -> int:
    """Bytes of shared memory for the keys of a block."""
    return min(_MOST_KEYS, device.shared_bytes())


def _block(launch: Any) -> int:
    """The rows of a block: many, whose keys have room in shared memory, if those of a few do."""
    if not launch["is_shared"]:
        return _BLOCKS[0]
    return next(size for size in _BLOCKS if 4 * size * int(launch["n_columns"]) <= _most_keys())


def _rows_of_slice(rows: Array, found: Array) -> int:
    """How many rows a slice has: full blocks, and no more than there are."""
    n_rows = len(found)
    of_row = (rows.nbytes + found.nbytes) // n_rows + 1
    return min(n_rows, max(1, _SLICE // of_row // _BLOCKS[0]) * _BLOCKS[0])


class _Slice:
    """Some rows at a time: a queue of the GPU, with memory on both sides that one slice after the other uses."""

    def __init__(
        self,
        launch: Any,
        forest: tuple[Any, ...],
        rows: Array,
        found: Array,
        n_rows: int,
        n_threads: int | None,
    ) -> None:
        self.stream = device.stream()
        self._launch, self._forest, self._n_threads = launch, forest, n_threads
        self._rows, self._found = rows, found
        self._range = range(0)
        self._common = device.upload(launch.reshape(1).view(np.uint8))
        of_row = rows.nbytes // len(found)
        shape = (n_rows, *found.shape[1:])
        self._rows_here = device.pinned(n_rows * of_row, np.uint8)
        self._rows_there = device.empty(n_rows * of_row, np.uint8)
        self._found_here = device.pinned(shape, found.dtype)
        self._found_there = device.empty(shape, found.dtype)
        self._unused = device.zeros(1, np.int64)

    def start(self, first: int, last: int) -> None:
        """Wait for the rows before, and begin with these."""
        self.finish()
        self._range = range(first, last)
        n_rows = last - first
        by_code = bool(self._launch["from_codes"])
        rows = self._rows[:, first:last] if by_code else self._rows[first:last]
        copied = self._rows_here[: rows.nbytes].view(rows.dtype).reshape(rows.shape)
        least = max(1, _LEAST_COPIED * len(rows) // max(1, rows.nbytes))
        run_blocks(
            lambda begin, end: np.copyto(copied[begin:end], rows[begin:end]),
            len(rows),
            n_threads=self._n_threads,
            least=least,
        )
        numbers, wants_leaves = self._found_here[:n_rows], bool(self._launch["wants_leaves"])
        there = self._rows_there[: rows.nbytes]
        device.upload_to(there, self._rows_here[: rows.nbytes], self.stream)
        if not wants_leaves:
            numbers[:] = self._found[first:last]
            device.upload_to(self._found_there[:n_rows], numbers, self.stream)
        totals, leaves = (self._unused, self._found_there)[:: 1 if wants_leaves else -1]
        block = _block(self._launch)
        grid = (-(-n_rows // block),)
        given = (self._common, np.int64(n_rows), there, *self._forest, totals, leaves)
        keys = 4 * block * int(self._launch["n_columns"])
        shared = keys if self._launch["is_shared"] else 0
        with self.stream:
            device.run("scoring.cu", "walk_rows", grid, block, given, shared)
        device.download_to(numbers, self._found_there[:n_rows], self.stream)

    def finish(self) -> None:
        """Wait for the rows, and store what was found."""
        self.stream.synchronize()
        if self._range:
            self._found[self._range.start : self._range.stop] = self._found_here[: len(self._range)]
            self._range = range(0)
