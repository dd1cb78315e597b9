"""``ClusterEngine``: the rows on the workers of a Dask cluster, behind the interface of all engines.

The client decides and keeps what a method sees: labels, queries, weights and the trees. The workers hold the codes
(``rankwood.engines.holder``). Trees grow in one of two ways, which give the same bytes:

* *Rows dealt out.* Every worker has some of the rows, whole queries of them. All work on the same trees, level by
  level (``rankwood.trees.parts``). The scores of a boosted model, and the targets that follow from them, never leave
  the workers.
* *Trees dealt out.* Every worker has all rows and grows whole trees: those of a forest, of a round, of a layer, or of
  a run that is averaged with others.

A worker may be lost at any time. Its blocks of rows are then read again by the others; whatever was on a worker for
the time of the fit follows from the client's arrays and trees, and is made again; trees that were growing begin again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import uuid
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from rankwood._core.sums import SumScale, merged
from rankwood._core.threads import parallel_map_ordered
from rankwood.data.frames import RowsElsewhere
from rankwood.dtypes import FEATURE, Array, Floats
from rankwood.engines.bags import Bags, Draws, OutOfBag
from rankwood.engines.engine import Engine, Requests, Scores, TreeRequest, Trees
from rankwood.engines.holder import Added, PartLoss, PartRequest
from rankwood.engines.placement import (
    ROWS,
    TREES,
    ClusterRows,
    NotOnCluster,
    Placement,
    WorkerLost,
)
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import SquaredLoss, Targets, weak_learner_targets
from rankwood.models.forest import Forest
from rankwood.trees.grower import Policies, Tree
from rankwood.trees.leader import TreeLeader
from rankwood.trees.packing import Scales, choose_scales, choose_units
from rankwood.trees.parts import Found, TreePlan
from rankwood.trees.row_order import as_matrix
from rankwood.trees.workspace import Matrix

_TREES_AT_ONCE = 4  # that grow level by level together; twice as many are under way
_PENDING = 16  # trees that wait until they are added to out-of-bag sums
Result = TypeVar("Result")
Grown = Generator[tuple[Tree, TreeRequest], None, None]


# Targets and scores on the cluster.


class ClusterTargets:
    """What the next tree of boosting fits: a loss at scores that are on the workers.

    Whoever wants the arrays themselves unpacks it, which brings them here.
    """

    def __init__(self, loss: Any, scores: ClusterScores) -> None:
        self.loss = loss
        self.scores = scores

    def __iter__(self) -> Iterator[Any]:
        return iter(weak_learner_targets(self.loss, self.scores.on_host()))


@dataclass(eq=False)
class Held:
    """Targets that trees fit, wherever they are; ``scales`` are known once they have been made whole."""

    targets: Any
    draws: Draws
    centre: bool
    scales: Scales | None = None
    made_for: tuple[int, int] | None = None  # the placement, and its generation
    key: str = ""


class _AllRows:
    """The targets of all holders, as ``choose_scales`` asks for those of a part."""

    def __init__(self, placement: Placement, key: str, has_weights: bool, extents: Any) -> None:
        self._placement = placement
        self._key = key
        self._extents = extents
        self.weights = np.zeros(int(has_weights))
        self.present = np.broadcast_to(np.int32(1), placement.rows.n_rows)

    def extents(self) -> Array:
        greatest: Array = np.maximum.reduce(self._extents)
        return greatest

    def count_and_sum(self, scale: SumScale) -> Array:
        return merged(self._placement.all("count_and_sum", self._key, scale))

    def largest_product(self, shift: float) -> Array:
        found = self._placement.all("largest_product", self._key, shift)
        greatest: Array = np.maximum.reduce(found)
        return greatest


class ClusterScores(Scores):
    """The scores of a boosted model on the workers; where trees are dealt out, all are on one of them, the ``home``.

    Trees are added when the scores are needed next, in the same message.
    """

    def __init__(self, engine: ClusterEngine, totals: Floats, starts: Floats | float) -> None:
        self._engine = engine
        self._first = totals if totals.any() else None
        self._starts = float(starts) if np.ndim(starts) == 0 else np.asarray(starts)
        self._added: list[Added] = []
        self._fresh: list[tuple[Tree, Any]] = []  # trees whose leaves the holders still know
        self._n_sent = 0
        self._made_for: tuple[int, int] | None = None
        self._key = f"scores-{uuid.uuid4().hex}"
        self._home = engine.next_home()

    def add(self, tree: Tree, factor: float) -> None:
        """Add ``factor`` times the value of each row's leaf."""
        self._added.append(Added(_bare(tree), factor))
        self._fresh.append((tree, self._engine.place_of(tree)))

    def on_host(self) -> Floats:
        """The scores as an array."""

        def fetch(placement: Placement) -> Floats:
            added = self.lacking(placement)
            if placement.kind == TREES:
                found = [placement.one(self.home_in(placement), "scores", self._key, added)]
            else:
                found = placement.all("scores", self._key, added)
            self.has_sent()
            return placement.gather(found)

        return self._engine.surely(self._engine.rows.any_placement, fetch)

    @property
    def key(self) -> str:
        """The key under which the holders have the scores."""
        return self._key

    def lacking(self, placement: Placement) -> list[Added]:
        """The trees that the holders' scores lack; the scores themselves are sent if they have none."""
        now = (id(placement), placement.generation)
        if self._made_for != now:
            starts: Any = self._starts
            of_part = [starts] * len(placement.members)
            if not isinstance(starts, float):
                of_part = placement.deal(starts)
            given = list(zip(placement.deal(self._first), of_part, strict=True))
            if placement.kind == TREES:
                home = self.home_in(placement)
                placement.one(home, "keep_scores", self._key, *given[home])
            else:
                placement.each("keep_scores", [(self._key, *pair) for pair in given])
            self._made_for, self._n_sent = now, 0
        lacking = self._added[self._n_sent :]
        for index, (_, grown) in enumerate(self._fresh, start=len(lacking) - len(self._fresh)):
            if index >= 0 and grown is not None and grown[:2] == (placement, placement.generation):
                session, number = grown[2:]
                lacking[index] = dataclasses.replace(lacking[index], session=session, index=number)
        return lacking

    def has_sent(self) -> None:
        """The holders have added all trees."""
        self._n_sent = len(self._added)
        self._fresh.clear()

    def home_in(self, placement: Placement) -> int:
        """The holder that has the scores where trees are dealt out."""
        return self._home % len(placement.members)


def _bare(tree: Tree) -> Tree:
    """A tree without the leaves of the rows."""
    return dataclasses.replace(tree, leaf_of_row=np.zeros(0, np.int32))


class ClusterOutOfBag(OutOfBag):
    """Out-of-bag estimates that the workers add up; they come here when they are looked at."""

    _engine: ClusterEngine
    _first: tuple[Floats, Array]
    _added: list[tuple[Tree, TreeRequest]]  # workers that are lost have their sums made again
    _n_sent: int
    _made_for: tuple[int, int] | None
    _key: str
    _fetched: tuple[Floats, Array] | None

    def __init__(self, engine: ClusterEngine, sums: Floats, n_trees: Array) -> None:
        self.__dict__.update(
            _engine=engine,
            _first=(sums, n_trees),
            _added=[],
            _n_sent=0,
            _made_for=None,
            _key=f"sums-{uuid.uuid4().hex}",
            _fetched=None,
        )

    def note(self, tree: Tree, request: TreeRequest) -> None:
        """Add a tree, when there are some of them."""
        if request.seen is None and request.bags is None and request.present is None:
            return
        bare = _bare(tree)
        self._added.append((bare, request))
        self.__dict__["_fetched"] = None
        if len(self._added) - self._n_sent >= _PENDING:
            self._engine.surely(self._engine.batches_placement(), self._send)

    def _send(self, placement: Placement) -> None:
        own = self.__dict__
        now = (id(placement), placement.generation)
        if self._made_for != now:
            sums, n_trees = self._first
            parts = map(placement.deal_ranges, (sums, n_trees))
            given = zip(placement.ranges(), *parts, strict=True)
            placement.each("keep_sums", [(self._key, a, b, *part) for (a, b), *part in given])
            own["_made_for"], own["_n_sent"] = now, 0
        while self._n_sent < len(self._added):
            some = self._added[self._n_sent : self._n_sent + 4 * _PENDING]
            added = [self._engine.bag_keys(placement, tree, request) for tree, request in some]
            placement.all("add_to_sums", self._key, added)
            own["_n_sent"] += len(some)

    @property
    def _arrays(self) -> tuple[Floats, Array]:
        def fetch(placement: Placement) -> tuple[Floats, Array]:
            self._send(placement)
            parts = placement.all("sums", self._key)
            sums, n_trees = zip(*parts, strict=True)
            return placement.join_ranges(sums), placement.join_ranges(n_trees)

        if self._fetched is None:
            found = (
                self._engine.surely(self._engine.batches_placement(), fetch)
                if self._added
                else self._first
            )
            self.__dict__["_fetched"] = found
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


# The engine.


class ClusterEngine(Engine):
    """Grows trees on the workers of a Dask cluster."""

    knows_leaves = False

    def __init__(self, rows: ClusterRows, n_threads: int) -> None:
        self.rows = rows
        self.n_threads = n_threads
        self._features = as_matrix(np.zeros((rows.all_bins.n_features, 0), np.uint8), rows.all_bins)
        self._fresh: dict[int, tuple[weakref.ref[Tree], Placement, int, str, int]] = {}
        self._n_scores = 0

    @property
    def matrix(self) -> Matrix:  # type: ignore[override]
        """No process has all columns."""
        raise NotOnCluster

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.rows.n_rows

    def with_threads(self, n_threads: int) -> ClusterEngine:
        """The same rows; workers use their own threads."""
        return ClusterEngine(self.rows, n_threads)

    def check(self, policies: Policies) -> None:
        """A cluster can do all that threads can."""

    def has_missing(self) -> Array:
        """Whether each feature has missing values."""
        return self.rows.has_missing

    def codes_for_digest(self) -> Array:
        """Sums over the rows that tell their codes and numbers, whatever the division."""
        return self._sum_over_rows("digest")

    def code_counts(self) -> Array:
        """How many rows have each code, by original feature."""
        return self._sum_over_rows("code_counts")

    def _sum_over_rows(self, name: str) -> Array:
        """What this method of the holders gives for all rows: theirs are added up."""

        def ask_all(placement: Placement) -> list[Array]:
            if placement.kind == TREES:
                return [placement.one(0, name)]
            return placement.all(name)

        return merged(self.surely(self.rows.any_placement, ask_all))

    def out_of_bag(self, sums: Floats | None = None, n_trees: Array | None = None) -> OutOfBag:
        """Estimates that the workers add up."""
        if sums is None or n_trees is None:
            return ClusterOutOfBag(self, np.zeros(self.n_rows), np.zeros(self.n_rows, np.int32))
        return ClusterOutOfBag(self, sums, n_trees)

    def hold(self, targets: Targets, draws: Draws, *, centre: bool) -> Held:
        """Targets, which go to the workers when the first tree is asked for."""
        return Held(targets, draws, centre)

    def scores(self, totals: Floats, starts: Floats | float) -> ClusterScores:
        """Scores on the workers."""
        return ClusterScores(self, totals, starts)

    def targets(self, loss: Any, scores: Scores) -> Targets:
        """What the next tree of boosting fits: on the workers, if they can compute the loss from their rows alone.

        The pairs of a click log are derived from ``LambdaRank``; they need positions, and some of them sums over all
        rows, so that they are computed here.
        """
        if type(loss) in (SquaredLoss, LambdaRank) and isinstance(scores, ClusterScores):
            return ClusterTargets(loss, scores)  # type: ignore[return-value]
        return weak_learner_targets(loss, scores.on_host())

    def predict(self, forest: Forest, first_trees: int | None = None) -> Floats:
        """The scores of all rows, here."""

        def ask_all(placement: Placement) -> Floats:
            if placement.kind == TREES:
                return np.array(placement.one(0, "predict_forest", forest, first_trees))
            return placement.gather(placement.all("predict_forest", forest, first_trees))

        return self.surely(self.rows.any_placement, ask_all)

    def leaves(self, tree: Tree) -> Array:
        """The leaf of every row in a tree."""

        def ask_all(placement: Placement) -> Array:
            if placement.kind == TREES:
                return np.array(placement.one(0, "leaves", tree))
            return placement.gather(placement.all("leaves", tree))

        return self.surely(self.rows.any_placement, ask_all)

    # Where things are.

    def batches_placement(self) -> Callable[[], Placement]:
        """The placement that independent trees grow on."""
        return lambda: self.rows.placement(self.rows.batches_by())

    def next_home(self) -> int:
        """The number of scores so far: the runs of an average are dealt to the workers."""
        self._n_scores += 1
        return self._n_scores - 1

    def place_of(self, tree: Tree) -> tuple[Placement, int, str, int] | None:
        """Where the leaves of a tree that was just grown are."""
        known = self._fresh.get(id(tree))
        if known is None or known[0]() is not tree:
            return None
        return known[1:]

    def surely(
        self, placement: Callable[[], Placement], work: Callable[[Placement], Result]
    ) -> Result:
        """The result of some work, which is done again as often as workers are lost."""
        while True:
            where = placement()
            generation = where.settled()
            try:
                return work(where)
            except WorkerLost:
                where.recover(generation)

    # Growing.

    def grow(
        self, requests: Requests, out_of_bag: OutOfBag | None = None, totals: Floats | None = None
    ) -> Trees:
        """The trees of independent requests: dealt to the workers, or several at a time on all of them."""
        of_trees = self.rows.batches_by() == TREES
        growing = self._deal_trees(requests) if of_trees else self._deal_rows(requests)
        added: list[Tree] = []
        with contextlib.closing(growing):
            for tree, request in growing:
                if isinstance(out_of_bag, ClusterOutOfBag):
                    out_of_bag.note(tree, request)
                if totals is not None:
                    added.append(_bare(tree))
                yield tree
        if totals is not None and added:
            totals[:] = self._with_values(totals, added)

    def _with_values(self, totals: Floats, trees: list[Tree]) -> Floats:
        def add(placement: Placement) -> Floats:
            ranges = placement.ranges()
            own = placement.deal_ranges(totals)
            given = [(trees, a, b, part) for (a, b), part in zip(ranges, own, strict=True)]
            return placement.join_ranges(placement.each("values_of", given))

        return self.surely(self.batches_placement(), add)

    def grow_one(self, request: TreeRequest) -> Tree:
        """One tree, on which all workers work; with ``by="trees"`` the one that has the scores."""
        self._fresh.clear()
        if self.rows.by == TREES:
            (tree, _) = self._grow_at_home(request)
            return tree
        (tree,) = self._grow_in_parts([request])
        return tree

    # Trees dealt out.

    def _deal_trees(self, requests: Iterable[TreeRequest]) -> Grown:
        placement = self.rows.placement(TREES)
        free: queue.SimpleQueue[int] = queue.SimpleQueue()
        n_lanes = 2 * len(placement.members)
        for lane in range(n_lanes):
            free.put(lane)

        def grow(batch: list[TreeRequest]) -> list[tuple[Tree, TreeRequest]]:
            if isinstance(batch[0].targets.targets, ClusterTargets):
                return [self._grow_at_home(one) for one in batch]
            lane = free.get()
            try:
                return self.surely(
                    lambda: self.rows.placement(TREES),
                    lambda where: self._grow_whole(where, lane % len(where.members), batch),
                )
            finally:
                free.put(lane)

        self._fresh.clear()
        grown = parallel_map_ordered(grow, _in_groups(requests, 1), n_lanes)
        with contextlib.closing(grown):
            for batch in grown:
                yield from batch

    def _grow_whole(
        self, placement: Placement, index: int, batch: list[TreeRequest]
    ) -> list[tuple[Tree, TreeRequest]]:
        held: Held = batch[0].targets
        asked = [
            dataclasses.replace(self._part_request(placement, one), reaches_all=False)
            for one in batch
        ]
        grown = placement.one(index, "grow_trees", asked, held.draws.most_rows, held.centre)
        trees = [self._with_leaves(tree) for tree in grown]
        placement.has_grown()
        return list(zip(trees, batch, strict=True))

    def _grow_at_home(self, request: TreeRequest) -> tuple[Tree, TreeRequest]:
        """A tree of a run whose scores are on one worker, grown there."""
        held: Held = request.targets
        session = f"session-{uuid.uuid4().hex}"

        def grow(placement: Placement) -> Tree:
            index = 0
            if isinstance(held.targets, ClusterTargets):
                index = held.targets.scores.home_in(placement)
            asked = self._part_request(placement, request)
            given = (asked, held.draws.most_rows, held.centre, session)
            tree = self._with_leaves(placement.one(index, "grow_and_add", *given))
            self._fresh[id(tree)] = (weakref.ref(tree), placement, placement.generation, session, 0)
            weakref.finalize(tree, placement._forget, placement.generation, session)
            placement.has_grown()
            return tree

        return self.surely(lambda: self.rows.placement(TREES), grow), request

    # Rows dealt out.

    def _deal_rows(self, requests: Iterable[TreeRequest]) -> Grown:
        def grow(batch: list[TreeRequest]) -> list[tuple[Tree, TreeRequest]]:
            return list(zip(self._grow_in_parts(batch), batch, strict=True))

        self._fresh.clear()
        # Two groups are under way, so that one is at work while the other waits for messages.
        grown = parallel_map_ordered(grow, _in_groups(requests, _TREES_AT_ONCE), 2)
        with contextlib.closing(grown):
            for batch in grown:
                yield from batch

    def _grow_in_parts(self, batch: list[TreeRequest]) -> list[Tree]:
        return self.surely(
            lambda: self.rows.placement(ROWS), lambda where: self._grow_batch(where, batch)
        )

    def _grow_batch(self, placement: Placement, batch: list[TreeRequest]) -> list[Tree]:
        """Trees that grow together on all holders, level by level."""
        session = f"session-{uuid.uuid4().hex}"
        generation = placement.generation
        asked = [self._part_request(placement, request) for request in batch]
        gone = placement.take_gone()
        sizes = np.add.reduce(placement.all("plant", session, asked, gone))
        plans = []
        for request, own in zip(batch, sizes, strict=True):
            scales = request.targets.scales
            units = choose_units(scales, own)
            plans.append(TreePlan(request.policies, request.stream, units, scales))
        leaders = [TreeLeader(self._features, plan) for plan in plans]
        number = 0
        while True:
            splits = [leader.next_splits() for leader in leaders]
            if all(own is None for own in splits):
                break
            given = (session, number, splits, *([plans] if number == 0 else []))
            self._step(placement, given, leaders, splits)
            number += 1
        complete = [leader.nodes_in_order() for leader in leaders]
        told = [(leaf_of_node, tree) for tree, leaf_of_node in complete]
        sums = placement.all("finish", session, told)
        trees = []
        for index, (leader, (tree, _)) in enumerate(zip(leaders, complete, strict=True)):
            grown = self._with_leaves(leader.finish(tree, [part[index] for part in sums]))
            self._fresh[id(grown)] = (weakref.ref(grown), placement, generation, session, index)
            trees.append(grown)
        _finalize_all(trees, placement, generation, session)
        placement.has_grown()
        return trees

    def _step(
        self,
        placement: Placement,
        given: tuple[Any, ...],
        leaders: list[TreeLeader],
        splits: list[Array | None],
    ) -> None:
        """One step of the trees that are not complete."""
        session = given[0]
        answers = placement.step(*given)
        growing = [index for index, own in enumerate(splits) if own is not None]
        for index in growing:
            told = [part[index][0] for part in answers]
            found = [part[index][1] for part in answers if part[index][1] is not None]
            leaders[index].receive(told, [Found(*each) for each in found])
            counted = [part[index][2] for part in answers]
            if counted[0] is not None:
                leaders[index].receive_best_counts(counted)
        self._count_rows(placement, session, leaders, growing)
        self._draw_features(placement, session, leaders, growing)

    def _count_rows(
        self, placement: Placement, session: str, leaders: list[TreeLeader], growing: list[int]
    ) -> None:
        while True:
            wanted: list[Array | None] = [None] * len(leaders)
            for index in growing:
                pairs = leaders[index].counts_wanted()
                wanted[index] = pairs if len(pairs) else None
            if all(own is None for own in wanted):
                return
            answers = placement.all("count", session, wanted)
            for index, own in enumerate(wanted):
                if own is not None:
                    leaders[index].receive_counts(own, [part[index] for part in answers])

    def _draw_features(
        self, placement: Placement, session: str, leaders: list[TreeLeader], growing: list[int]
    ) -> None:
        while True:
            wanted: list[Any] = [None] * len(leaders)
            for index in growing:
                wanted[index] = leaders[index].ranges_wanted()
            if all(own is None for own in wanted):
                return
            answers = placement.all("ranges", session, wanted)
            for index, own in enumerate(wanted):
                if own is not None:
                    leaders[index].receive_ranges(own[1], [part[index] for part in answers])

    def _with_leaves(self, tree: Tree) -> Tree:
        """A tree whose leaves of the rows are found when somebody looks at them."""
        leaves: Any = LeavesOnCluster(self, tree)
        return dataclasses.replace(tree, leaf_of_row=leaves)

    # What requests name.

    def _part_request(self, placement: Placement, request: TreeRequest) -> PartRequest:
        bags = None if request.bags is None else self._key_of_bags(placement, request.bags)
        present = None
        if request.bags is None and request.present is not None:
            present = self._key_of_rows(placement, request.present)
        return PartRequest(
            self._key_of_held(placement, request.targets),
            request.policies,
            request.stream,
            bags,
            request.number,
            present,
            request.reaches_all,
            request.targets.scales,
        )

    def bag_keys(
        self, placement: Placement, tree: Tree, request: TreeRequest
    ) -> tuple[Tree, str | None, int, str | None]:
        """What a holder needs to know which rows a tree has not seen."""
        bags = seen = None
        if request.seen is not None:
            seen = self._key_of_rows(placement, request.seen)
        elif request.bags is not None:
            bags = self._key_of_bags(placement, request.bags)
        else:
            assert request.present is not None
            seen = self._key_of_rows(placement, request.present)
        return tree, bags, request.number, seen

    def _key_of_bags(self, placement: Placement, bags: Bags) -> str:
        return placement.keep(bags, lambda: [(bags.of_part(own),) for own in placement.numbers])

    def _key_of_rows(self, placement: Placement, counts: Array) -> str:
        return placement.keep(
            counts,
            lambda: [(np.ascontiguousarray(own, np.int32),) for own in placement.deal(counts)],
        )

    def _key_of_loss(self, placement: Placement, loss: Any) -> str:
        return placement.keep(
            loss, lambda: [(part,) for part in _parts_of_loss(placement, loss)], "keep_loss"
        )

    def _key_of_held(self, placement: Placement, held: Held) -> str:
        """The key of targets, which the holders have as whole numbers once they are asked for."""
        with placement._lock:
            now = (id(placement), placement.generation)
            if held.made_for == now:
                return held.key
            key = f"targets-{uuid.uuid4().hex}"
            extents = self._send_targets(placement, held, key)
            if placement.kind == ROWS:
                has_weights = not isinstance(held.targets, tuple) or held.targets[1] is not None
                if isinstance(held.targets, ClusterTargets):
                    has_weights = getattr(held.targets.loss, "weights", None) is not None
                    has_weights |= isinstance(held.targets.loss, LambdaRank)
                if extents is None:
                    extents = placement.all("extents", key)
                every: Any = _AllRows(placement, key, has_weights, extents)
                held.scales = choose_scales([every], held.draws.most_rows, centre=held.centre)
            held.key, held.made_for = key, now
            weakref.finalize(held, placement._forget, placement.generation, key)
            return key

    def _send_targets(self, placement: Placement, held: Held, key: str) -> list[Array] | None:
        """Bring targets to the holders; gives their extents where they are known at once."""
        present = placement.deal(held.draws.present)
        targets = held.targets
        if isinstance(targets, ClusterTargets):
            loss = self._key_of_loss(placement, targets.loss)
            scores = targets.scores
            added = scores.lacking(placement)
            given = [(key, loss, scores.key, added, own) for own in present]
            if placement.kind == ROWS:
                extents = placement.each("keep_targets_of_loss", given)
                scores.has_sent()
                return extents
            home = scores.home_in(placement)
            placement.one(home, "keep_targets_of_loss", *given[home])
            scores.has_sent()
            return None
        values, weights = targets
        parts = zip(placement.deal(values), placement.deal(weights), present, strict=True)
        placement.each("keep_targets", [(key, *part) for part in parts])
        return None


def _finalize_all(trees: list[Tree], placement: Placement, generation: int, session: str) -> None:
    """Have holders forget a session when all of its trees are gone."""
    left = [len(trees)]

    def gone() -> None:
        left[0] -= 1
        if left[0] == 0:
            placement._forget(generation, session)

    for tree in trees:
        weakref.finalize(tree, gone)


def _in_groups(requests: Iterable[TreeRequest], size: int) -> Iterator[list[TreeRequest]]:
    group: list[TreeRequest] = []
    for request in requests:
        group.append(request)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def _parts_of_loss(placement: Placement, loss: Any) -> list[PartLoss]:
    """A loss as the holders make it for their rows."""
    if isinstance(loss, SquaredLoss):
        pairs = zip(placement.deal(loss.labels), placement.deal(loss.weights), strict=True)
        return [PartLoss(*pair) for pair in pairs]
    judgments = loss.data.judgments
    options = loss.options_for_parts()
    columns = (judgments.labels, loss.weights, judgments.query_of_row)
    parts = zip(*map(placement.deal, columns), strict=True)
    return [PartLoss(labels, weights, queries, options) for labels, weights, queries in parts]


@dataclass(frozen=True, eq=False)
class LeavesOnCluster:
    """Stands for the leaf of every row in a tree, which few methods look at: as an array it is fetched."""

    engine: ClusterEngine
    tree: Tree  # without leaves of rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        leaves = self.engine.leaves(self.tree)
        return leaves if dtype is None else leaves.astype(dtype)


class ClusterFeatures(RowsElsewhere):
    """Stands for the features of rows on a cluster: it has their shape and no values."""

    ndim = 2
    dtype = np.dtype(FEATURE)

    def __init__(self, rows: ClusterRows) -> None:
        self.rows = rows
        self.shape = (rows.n_rows, rows.bins.n_features)

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NotOnCluster

    def __getitem__(self, _: Any) -> Any:
        raise NotOnCluster

    def predict(self, forest: Forest, first_trees: int | None) -> Floats:
        """The scores of all rows by a forest whose thresholds are those of the bins."""
        return ClusterEngine(self.rows, 1).predict(forest, first_trees)
