"""``Engine``: the interface between the methods and whatever grows their trees; ``ThreadsEngine``, the default.

An engine holds the binned rows. It is given targets and weights of the rows, bags and policies, and gives trees. What
follows from a tree for each row, such as an out-of-bag sum or a score, the engine adds up wherever the rows are.

Two rules make a model the same bytes on every engine. A sum over rows is a sum of integers, so that it has no order.
What is per row is float64, and trees are added to it in the order of their numbers.

``ThreadsEngine`` has the rows in memory. Its trees are grown by the threads of this process: independent trees one per
thread, and a tree that is asked for alone by a team of threads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood._core.threads import parallel_map_ordered, run_blocks
from rankwood.binning.bins import MISSING_BIN
from rankwood.dtypes import Array, Floats, Rows
from rankwood.engines.bags import Bags, Draws, OutOfBag
from rankwood.errors import ModelError
from rankwood.losses.loss import Targets, weak_learner_targets
from rankwood.trees.grower import Growth, Policies, Tree, grow_tree
from rankwood.trees.packing import TargetRows, WholeTargets, whole_targets
from rankwood.trees.workspace import Matrix


@dataclass(frozen=True, eq=False)
class TreeRequest:
    """A tree that is asked for.

    ``bags`` and ``number`` say which rows it sees: an engine draws the bag itself, since all draws are hashed from a
    seed and the tree's number. Without ``bags`` it sees the rows that are ``present``, or all.
    """

    targets: Any  # what ``Engine.hold`` gave
    policies: Policies
    stream: int  # what the draws of its features and thresholds are hashed from
    bags: Bags | None = None
    number: int = 0
    present: Array | None = None  # int32: 1 for the rows it sees where there are no bags, else 0
    seen: Array | None = None  # int32: 0 for the rows it is held out from; None: those out of bag
    reaches_all: bool = True  # whether the leaf of rows outside its bag is wanted too

    def counts(self) -> Array | None:
        """How often the tree sees each row: int32. None where it sees every row once."""
        return self.present if self.bags is None else self.bags.counts(self.number)


Requests = Iterable[TreeRequest]
Trees = Generator[Tree, None, None]


class Scores(ABC):
    """The scores of the training rows of a boosted model, wherever the rows are."""

    @abstractmethod
    def add(self, tree: Tree, factor: float) -> None:
        """Add ``factor`` times the value of each row's leaf; the engine that made the scores has grown the tree."""

    @abstractmethod
    def on_host(self) -> Floats:
        """The scores as an array, in the caller's order."""


class Engine(ABC):
    """Holds binned rows and grows trees on them.

    ``matrix`` is the binned rows in the memory of this process; where an engine holds them elsewhere only, reading it
    is an error. ``n_threads`` is what everything beside the trees may use: losses, measures, validation rows.
    """

    matrix: Matrix
    n_threads: int
    knows_leaves = True  # whether a tree that it grows has the leaf of every row, in this process

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.matrix.source_of_row.size)

    def out_of_bag(self, sums: Floats | None = None, n_trees: Array | None = None) -> OutOfBag:
        """Estimates of the rows by the trees that have not seen them, for ``grow``: of no tree yet, or those given."""
        if sums is None or n_trees is None:
            return OutOfBag.empty(self.n_rows)
        return OutOfBag(sums, n_trees)

    def has_missing(self) -> Array:
        """Whether each feature has missing values."""
        return np.array([bool((column == MISSING_BIN).any()) for column in self.matrix.columns])

    def code_counts(self) -> Rows:
        """How many rows have each code, by feature: features × 256. Columns of a matrix may stand behind them."""
        return count_codes(self.matrix.columns)

    def codes_for_digest(self) -> Array:
        """Numbers that tell these rows' codes from others, for the digest of a checkpoint."""
        return self.matrix.columns

    @abstractmethod
    def with_threads(self, n_threads: int) -> Self:
        """The same rows, with another number of threads."""

    @abstractmethod
    def check(self, policies: Policies) -> None:
        """Raise for what the engine cannot do, before anything is grown; the error names the engine and the policy."""

    @abstractmethod
    def hold(self, targets: Targets, draws: Draws, *, centre: bool) -> Any:
        """Targets and weights of the rows as the engine wants them, for all trees that fit them.

        ``draws`` says which rows such a tree may see; ``centre`` lets targets be shifted, as l2 and l1 do not.
        """

    @abstractmethod
    def grow(
        self, requests: Requests, out_of_bag: OutOfBag | None = None, totals: Floats | None = None
    ) -> Trees:
        """The trees of independent requests, in their order; requests are taken as they are needed.

        When a tree is given, its values have been added to ``out_of_bag``, which ``Engine.out_of_bag`` has made, for
        the rows it has not seen. When all are given, they have been added to ``totals``, for all rows.
        """

    @abstractmethod
    def grow_one(self, request: TreeRequest) -> Tree:
        """One tree, on which all of the engine works."""

    @abstractmethod
    def scores(self, totals: Floats, starts: Floats | float) -> Scores:
        """Scores of the rows: ``starts + totals``, to which trees will be added."""

    @abstractmethod
    def targets(self, loss: Any, scores: Scores) -> Targets:
        """What the next tree of boosting fits, at the scores so far."""


_PAIRS = 1 << 16  # of two codes
_PIECE = 1 << 22  # rows that are counted at a time: counting makes a copy of 8 bytes per two rows


def count_codes(columns: Array) -> Rows:
    """How many rows have each code, by column: columns × 256.

    Two rows are counted at once, by their two codes as one number of 16 bits: half as many steps, where rows are many.
    """
    n_columns, n_rows = columns.shape
    counts = np.zeros((n_columns, 256), np.int64)
    for number, column in enumerate(columns):
        if n_rows < _PAIRS or not column.flags.c_contiguous:
            counts[number] = np.bincount(column, minlength=256)
            continue
        for first in range(0, n_rows, _PIECE):
            piece = column[first : first + _PIECE]
            n_even = piece.size // 2 * 2
            pairs = np.bincount(piece[:n_even].view(np.uint16), minlength=_PAIRS).reshape(256, 256)
            counts[number] += pairs.sum(axis=0) + pairs.sum(axis=1)
            counts[number] += np.bincount(piece[n_even:], minlength=256)
    return counts


# The engine of each device: the module and the class, which is made from a ``Matrix`` and a number of threads.
CPU, CUDA = "cpu", "cuda"
ENGINES = {
    CPU: ("rankwood.engines.engine", "ThreadsEngine"),
    CUDA: ("rankwood.engines.cuda.engine", "CudaEngine"),
}
_NUMBERED = re.compile(rf"{CUDA}:[0-9]{{1,4}}")  # one of several GPUs


def engine_on(device: str, matrix: Matrix, n_threads: int) -> Engine:
    """The engine of a device, with these rows."""
    check_device("device", device)
    kind, _, number = device.partition(":")
    module, name = ENGINES[kind]
    given = {"number": int(number)} if number else {}
    engine: Engine = getattr(importlib.import_module(module), name)(matrix, n_threads, **given)
    return engine


def scoring_on(device: str, model: Any) -> contextlib.AbstractContextManager[None]:
    """The context within which a device scores by a model, in this thread; the scores are the same on every one."""
    check_device("device", device)
    kind, _, number = device.partition(":")
    if kind == CPU:
        return contextlib.nullcontext()
    if (part := part_without_trees(model)) is not None:
        whole = type(model).__name__
        of = f"a {whole}" if part == whole else f"a {whole} with a {part}"
        raise ModelError(f"device='{device}' scores by trees alone, not by {of}: use device='cpu'.")
    made = importlib.import_module(ENGINES[kind][0]).scoring_by
    context: contextlib.AbstractContextManager[None] = made(int(number) if number else None)
    return context


def part_without_trees(model: Any) -> str | None:
    """The class of a model, or of a part of it, whose scores do not come from trees; None where all do."""
    from rankwood.models import blend, cascade, family, forest, ordinal

    if isinstance(model, forest.Forest | family.Family | ordinal.OrdinalModel):
        return None
    if isinstance(model, cascade.Cascade | blend.BlendModel):
        parts = model.models if isinstance(model, cascade.Cascade) else model.parts
        return next((name for part in parts if (name := part_without_trees(part))), None)
    return type(model).__name__


def check_device(name: str, device: Any) -> None:
    """Raise for a device that has no engine."""
    if not (isinstance(device, str) and _NUMBERED.fullmatch(device)):
        checks.one_of(name, device, tuple(ENGINES))


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

    def scores(self, totals: Floats, starts: Floats | float) -> Scores:
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
