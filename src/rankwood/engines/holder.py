"""``Holder``: what a worker of a cluster holds, and what it does when the client asks: a Dask actor.

A holder has the codes of its rows and, for the time of a fit, what follows from them: targets, scores, trees that
grow. Everything but the codes comes from the client or follows from its trees, so that a worker may be lost at any
time. Dask owns the actor: it is gone with the client.

All work runs on threads of the holder's own, so that the worker goes on answering. The only method that waits for
other holders is ``step``, in which they exchange histograms; it waits on the worker's event loop.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood._core.threads import run_blocks
from rankwood.binning.bins import CODE, Bins
from rankwood.binning.folder import BinnedFolder, open_binned
from rankwood.data.dataset import Judgments
from rankwood.dtypes import Array, Bytes, Floats, Rows
from rankwood.engines.bags import add_out_of_bag
from rankwood.engines.engine import ThreadsEngine, TreeRequest, add_to_totals, count_codes
from rankwood.losses.lambdarank import LambdaRank
from rankwood.losses.loss import SquaredLoss, weak_learner_targets
from rankwood.models.scoring import predict_binned
from rankwood.trees.grower import Policies, Tree
from rankwood.trees.packing import DrawnRows, Scales, TargetRows, whole_targets
from rankwood.trees.partition import route
from rankwood.trees.parts import PartTree, TreePlan
from rankwood.trees.row_order import as_matrix, reorder_by_pilot_tree
from rankwood.trees.workspace import Matrix

_LEAST_ROUTED = 1 << 14  # rows per thread
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class PartRequest:
    """A ``TreeRequest`` as it travels: what is large is named by the key under which a holder has it."""

    targets: str
    policies: Policies
    stream: int
    bags: str | None
    number: int
    present: str | None
    reaches_all: bool
    scales: Scales | None = None  # of the targets, where the rows are dealt out


@dataclass(frozen=True, eq=False)
class Added:
    """A tree that is added to scores; its leaves are known here if it was grown in a ``session`` that goes on."""

    tree: Tree
    factor: float
    session: str | None = None
    index: int = 0


@dataclass(frozen=True, eq=False)
class Layout:
    """Which rows a holder has: blocks by their numbers, and the caller's numbers of the rows of each."""

    index: int  # of the holder among all
    peers: tuple[tuple[str, str], ...]  # the address and the key of every holder
    blocks: tuple[int, ...]
    numbers: tuple[Rows, ...]
    labels: Floats  # by number, ascending: similar rows are stored near each other by them
    bins: Bins
    folder: str | None = None  # of binned data that hold all rows, to be mapped

    @property
    def n_rows(self) -> int:
        """Rows of all blocks."""
        return sum(len(each) for each in self.numbers)

    def numbers_of_rows(self) -> Rows:
        """The caller's numbers of the rows, block by block; none where the other holders have all blocks."""
        return np.concatenate(self.numbers) if self.numbers else np.zeros(0, np.int64)


class Packet:
    """Arguments or results as one object: Dask would look into a list, and send each of its arrays by itself."""

    def __init__(self, content: Any) -> None:
        self.content = content


class PeerLost(Exception):
    """Another holder cannot be reached: the client has to deal the rows anew."""


class Holder:
    """Holds the rows of some blocks; see the module's docstring. ``n_threads`` may work at a time."""

    def __init__(self) -> None:
        from distributed import get_worker

        self._worker = get_worker()
        self.n_threads = max(1, int(self._worker.state.nthreads))
        self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix="rankwood-holder")
        self._inbox: dict[Any, _Letters] = {}
        self._layout: Layout | None = None
        self._codes_of_block: dict[int, Bytes] = {}
        self._matrix: Matrix | None = None
        self._kept: dict[str, Any] = {}
        self._growing: dict[str, list[tuple[PartRequest, DrawnRows, PartTree | None]]] = {}

    # How the client asks.

    async def answer(self, asked: Packet) -> Packet:
        """Call one of the async methods."""
        method, *arguments = asked.content
        return Packet(await getattr(self, method)(*arguments))

    async def call(self, name: str, *arguments: Any) -> Any:
        """Run one of the methods on a thread of the holder's own."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, getattr(self, name), *arguments)

    async def reset(self) -> None:
        """Forget everything but the rows; whoever waits for another holder stops waiting."""
        for letters in self._inbox.values():
            letters.cancel()
        self._inbox.clear()
        self._kept.clear()
        self._growing.clear()

    async def swap(self, tag: Any, sender: int, content: Any) -> Any:
        """Take what another holder sends, and answer with what this one has for it, once that is made."""
        letters = self._letters(tag)
        letters.put(sender, content)
        return (await letters.outgoing())[sender]

    async def step(
        self,
        session: str,
        number: int,
        splits: list[Array | None],
        plans: list[TreePlan] | None = None,
    ) -> Any:
        """One step of the trees of a session, of which the first brings their plans.

        Gives, by tree, what is told of nodes, the best cuts found, and, where weights are not row counts, the rows of
        the best candidate of each node.
        """
        shares = await self.call("advance", session, splits, plans)
        answers: list[tuple[Any, Any, Any]] = [(told, None, None) for told, _ in shares]
        asks = [index for index, (_, own) in enumerate(shares) if own]
        if not asks:
            return answers
        n_peers = len(self._known_layout().peers)
        outgoing = [
            [(shares[index][0], shares[index][1][peer]) for index in asks]
            for peer in range(n_peers)
        ]
        incoming = await self._exchange((session, number), outgoing)
        del shares, outgoing
        found, best = await self.call("search", session, asks, incoming)
        del incoming
        counted = [None] * len(asks)
        if any(own is not None for own in best):
            of_all = await self._exchange((session, number, "best"), [best] * n_peers)
            counted = await self.call("count_best", session, asks, of_all)
        for index, one, counts in zip(asks, found, counted, strict=True):
            answers[index] = (answers[index][0], tuple(one), counts)
        return answers

    async def _exchange(self, tag: Any, outgoing: list[Any]) -> list[Any]:
        """What every holder has for this one, in their order; this one's content goes to them.

        Of two holders the later one calls the earlier, whose answer is its own content: one message each way.
        """
        layout = self._known_layout()
        letters = self._letters(tag)
        letters.offer(outgoing)
        letters.put(layout.index, outgoing[layout.index])
        try:
            earlier = range(layout.index)
            await asyncio.gather(*(self._swap(peer, tag, letters) for peer in earlier))
            return await letters.all(len(layout.peers))
        finally:
            self._inbox.pop(tag, None)

    async def _swap(self, peer: int, tag: Any, letters: _Letters) -> None:
        layout = self._known_layout()
        address, key = layout.peers[peer]
        content = (await letters.outgoing())[peer]
        try:
            asked = ("swap", tag, layout.index, content)
            letters.put(peer, await ask(self._worker.rpc(address), key, *asked))
        except (OSError, RuntimeError, KeyError) as error:  # it is gone, closing, or has no holder
            raise PeerLost(f"{address}: {error}") from None

    def _letters(self, tag: Any) -> _Letters:
        return self._inbox.setdefault(tag, _Letters())

    def _known_layout(self) -> Layout:
        if self._layout is None:
            raise PeerLost("this worker holds no rows.")
        return self._layout

    # Rows.

    def put_block(self, block: int, codes: Bytes) -> None:
        """Take the codes of a block, features × rows."""
        self._codes_of_block[block] = codes

    def read_block(self, block: int, read: Callable[[Bins, int], Bytes], bins: Bins) -> None:
        """Read a block's codes from where they lie."""
        self.put_block(block, read(bins, self.n_threads))

    def blocks(self) -> list[int]:
        """The blocks that this holder has."""
        own = () if self._layout is None else self._layout.blocks
        return sorted({*own, *self._codes_of_block})

    def place(self, layout: Layout) -> None:
        """Make the matrix of the blocks, which are here."""
        self._kept.clear()
        self._growing.clear()
        if layout.folder is not None:
            self._map(layout, open_binned(layout.folder))
            return
        known = self._blocks_of_matrix()
        n_features = layout.bins.n_features
        self._matrix = None
        columns = np.empty((n_features, layout.n_rows), CODE)
        first = 0
        for block, numbers in zip(layout.blocks, layout.numbers, strict=True):
            codes = self._codes_of_block.pop(block, None)
            columns[:, first : first + len(numbers)] = known[block] if codes is None else codes
            known.pop(block, None)
            first += len(numbers)
        self._codes_of_block.clear()
        self._layout = layout
        joined = layout.numbers_of_rows()
        order = np.argsort(joined, kind="stable")
        rank = np.empty(joined.size, np.int32)
        rank[order] = np.arange(joined.size, dtype=np.int32)
        self._bins = layout.bins
        labels = np.asarray(layout.labels)[rank]
        matrix = reorder_by_pilot_tree(
            columns, layout.bins, labels, in_place=True, n_threads=self.n_threads
        )
        sources = read_only(np.ascontiguousarray(rank[matrix.source_of_row]))
        self._matrix = matrix._replace(source_of_row=sources)
        self._columns = columns

    def _map(self, layout: Layout, folder: BinnedFolder) -> None:
        self._layout, self._bins = layout, layout.bins
        self._columns = np.ascontiguousarray(folder.columns)
        self._matrix = as_matrix(self._columns, layout.bins, folder.source_of_row)

    def _blocks_of_matrix(self) -> dict[int, Bytes]:
        """The codes of the blocks that are in the matrix already, in the order of their rows."""
        if self._layout is None or self._matrix is None:
            return {}
        layout, codes = self._layout, self.codes_in_order()
        joined = layout.numbers_of_rows()
        rank = np.empty(joined.size, np.int64)
        rank[np.argsort(joined, kind="stable")] = np.arange(joined.size)
        found, first = {}, 0
        for block, numbers in zip(layout.blocks, layout.numbers, strict=True):
            found[block] = codes[:, rank[first : first + len(numbers)]]
            first += len(numbers)
        return found

    def codes_in_order(self, first: int = 0, last: int | None = None) -> Bytes:
        """The codes of the original features by the caller's order of the rows ``first`` to ``last``."""
        layout, matrix = self._known_layout(), self.matrix
        n_rows = layout.n_rows
        row_of_source = np.empty(n_rows, np.int64)
        row_of_source[matrix.source_of_row] = np.arange(n_rows)
        columns: Bytes = self._columns[: layout.bins.n_features]
        return columns.take(row_of_source[first:last], axis=1)

    @property
    def matrix(self) -> Matrix:
        """The binned rows; a source is a row's place among the caller's numbers of the rows that are here."""
        if self._matrix is None:
            raise PeerLost("this worker holds no rows.")
        return self._matrix

    def digest(self) -> Array:
        """For each feature a sum over the rows that tells their codes and numbers; those of holders are added."""
        layout, matrix = self._known_layout(), self.matrix
        numbers = np.sort(layout.numbers_of_rows()).astype(np.uint64)
        keys = (
            numbers[matrix.source_of_row] + np.uint64(1)
        ) * _MIX  # modulo 2^64, as everything here
        keys = (keys ^ (keys >> np.uint64(29))) * _MIX
        codes = matrix.columns[: layout.bins.n_features]
        sums = [((column.astype(np.uint64) + np.uint64(1)) * keys).sum() for column in codes]
        return np.array(sums, np.uint64).view(np.int64)

    def code_counts(self) -> Array:
        """How many of the rows here have each code, by original feature."""
        return count_codes(self.matrix.columns[: self._known_layout().bins.n_features])

    def widen(self, bins: Bins, codes: list[tuple[int, Bytes]]) -> None:
        """Let the matrix have as many columns as bins; ``codes`` are new ones with their numbers, by source."""
        matrix, width = self.matrix, bins.n_features
        if width > len(self._columns):
            wider = np.empty((width, self._columns.shape[1]), CODE)
            wider[: len(self._columns)] = self._columns
            self._columns = wider
        for column, values in codes:
            self._columns[column] = np.asarray(values)[matrix.source_of_row]
        self._bins = bins
        self._matrix = as_matrix(
            self._columns[:width], bins, matrix.source_of_row, matrix.row_major_prefix
        )

    # What is kept for a fit, by key.

    def keep(self, key: str, value: Any) -> None:
        """Keep something that the client sends."""
        self._kept[key] = value

    def _known(self, key: str, things: dict[str, Any] | None = None) -> Any:
        """What is kept under a key; it may be gone where the rows were dealt anew in between."""
        things = self._kept if things is None else things
        if key not in things:
            raise PeerLost(f"'{key}' is not kept here any more.")
        return things[key]

    def drop(self, keys: Sequence[str]) -> None:
        """Forget what is not needed any more."""
        for key in keys:
            self._kept.pop(key, None)
            self._growing.pop(key, None)

    def keep_loss(self, key: str, loss: PartLoss) -> None:
        """Make the loss of the rows that are here."""
        self._kept[key] = loss.made(self.n_threads)

    def keep_targets(
        self, key: str, values: Floats, weights: Floats | None, present: Array | None
    ) -> None:
        """Keep what trees fit."""
        self._kept[key] = TargetRows.of(np.asarray(values), weights, present, self.n_threads)

    def keep_targets_of_loss(
        self, key: str, loss: str, scores: str, added: list[Added], present: Array | None
    ) -> Array:
        """What the next tree of boosting fits, at the scores that are here and trees; gives the extents."""
        values, weights = weak_learner_targets(self._known(loss), self.scores(scores, added))
        self.keep_targets(key, values, weights, present)
        return self.extents(key)

    def extents(self, key: str) -> Array:
        """The extents of targets."""
        rows: TargetRows = self._known(key)
        return rows.extents()

    def count_and_sum(self, key: str, scale: Any) -> Array:
        """How many rows are present, and the whole sum of their targets."""
        rows: TargetRows = self._known(key)
        return rows.count_and_sum(scale)

    def largest_product(self, key: str, shift: float) -> Array:
        """The key of the largest |weight · (target - shift)|."""
        rows: TargetRows = self._known(key)
        return rows.largest_product(shift)

    # Trees whose rows are dealt out.

    def plant(self, session: str, requests: list[PartRequest], gone: Sequence[str]) -> Array:
        """Begin trees: draw their bags; gives the sizes of the rows of each. What is ``gone`` is forgotten."""
        self.drop(gone)
        growing: list[Any] = []
        for request in requests:
            whole = self._known(request.targets)
            if isinstance(whole, TargetRows):
                assert request.scales is not None
                whole = self._kept[request.targets] = whole.whole(request.scales)
            growing.append(
                (request, DrawnRows.of(self._counts(request), whole, self.n_threads), None)
            )
        self._growing[session] = growing
        return np.array([drawn.sizes() for _, drawn, _ in growing])

    def _counts(self, request: PartRequest) -> Array:
        if request.bags is not None:
            counts: Array = self._known(request.bags).counts(request.number)
            return counts
        if request.present is not None:
            present: Array = self._known(request.present)
            return present
        return np.ones(self._known_layout().n_rows, np.int32)

    def pack(self, session: str, plans: list[TreePlan]) -> None:
        """Pack the targets of trees, whose units are known now."""
        layout = self._known_layout()
        given = (layout.index, len(layout.peers), self.n_threads)
        self._growing[session] = [
            (request, drawn, PartTree(self.matrix, plan, drawn, *given))
            for (request, drawn, _), plan in zip(
                self._known(session, self._growing), plans, strict=True
            )
        ]

    def _trees(self, session: str) -> list[PartTree]:
        trees = [tree for *_, tree in self._known(session, self._growing)]
        return [tree for tree in trees if tree is not None]

    def advance(
        self, session: str, splits: list[Array | None], plans: list[TreePlan] | None
    ) -> list[tuple[Any, list[Array]]]:
        """Split the nodes that the client names, tree by tree; None for trees that are complete."""
        if plans is not None:
            self.pack(session, plans)
        return [
            (None, []) if own is None else tree.advance(np.asarray(own))
            for tree, own in zip(self._trees(session), splits, strict=True)
        ]

    def search(
        self, session: str, asks: list[int], incoming: list[list[Any]]
    ) -> tuple[list[Any], list[Any]]:
        """Search the own slice of the candidates of the trees ``asks``, from what all holders have sent.

        Gives the cuts found, and the best candidates of trees whose rows have to be counted.
        """
        trees = self._trees(session)
        found = [
            trees[index].search(
                [content[place][0] for content in incoming],
                [content[place][1] for content in incoming],
            )
            for place, index in enumerate(asks)
        ]
        pairs = zip(asks, found, strict=True)
        return found, [trees[index].best_of_slice(own) for index, own in pairs]

    def count_best(self, session: str, asks: list[int], best: list[list[Any]]) -> list[Any]:
        """The best candidates of the trees ``asks`` among those of all holders, and their rows that are here."""
        trees = self._trees(session)
        return [
            None
            if best[0][place] is None
            else trees[index].count_best([own[place] for own in best])
            for place, index in enumerate(asks)
        ]

    def count(self, session: str, wanted: list[Array | None]) -> list[Any]:
        """Count the rows of candidates, tree by tree."""
        pairs = zip(self._trees(session), wanted, strict=True)
        return [None if own is None else tree.count(np.asarray(own)) for tree, own in pairs]

    def ranges(self, session: str, wanted: list[Any]) -> list[Any]:
        """The ranges of features in nodes, tree by tree."""
        pairs = zip(self._trees(session), wanted, strict=True)
        return [None if own is None else tree.ranges(*own) for tree, own in pairs]

    def finish(self, session: str, complete: list[tuple[Array, Tree]]) -> list[Array]:
        """The sums of the leaves of complete trees; the leaf of every row stays here until the session is dropped."""
        growing = zip(
            self._known(session, self._growing), self._trees(session), complete, strict=True
        )
        return [
            tree.finish(np.asarray(leaf_of_node), whole, request.reaches_all)
            for (request, *_), tree, (leaf_of_node, whole) in growing
        ]

    # Trees that are dealt out: this holder has all rows.

    def grow_trees(self, requests: list[PartRequest], most_rows: int, centre: bool) -> list[Tree]:
        """Grow whole trees, on all threads; the rows outside of their bags are not looked at."""
        engine = ThreadsEngine(self.matrix, self.n_threads)
        asked = [self._request(request, most_rows, centre) for request in requests]
        none = np.zeros(0, np.int32)
        return [dataclasses.replace(tree, leaf_of_row=none) for tree in engine.grow(iter(asked))]

    def grow_and_add(
        self, request: PartRequest, most_rows: int, centre: bool, session: str
    ) -> Tree:
        """One tree with all threads; the leaf of every row stays here until the session is dropped."""
        asked = self._request(request, most_rows, centre)
        tree = ThreadsEngine(self.matrix, self.n_threads).grow_one(asked)
        self._kept[session] = tree.leaf_of_row
        return dataclasses.replace(tree, leaf_of_row=np.zeros(0, np.int32))

    def _request(self, request: PartRequest, most_rows: int, centre: bool) -> TreeRequest:
        rows = self._known(request.targets)
        if isinstance(rows, TargetRows):
            rows = self._kept[request.targets] = whole_targets(rows, most_rows, centre=centre)
        counts = None if request.bags is None else self._known(request.bags)
        present = None if request.present is None else self._known(request.present)
        return TreeRequest(
            rows,
            request.policies,
            request.stream,
            counts,
            request.number,
            present,
            reaches_all=request.reaches_all,
        )

    # What is per row: scores and sums, to which trees are added in their order.

    def keep_scores(self, key: str, totals: Floats | None, starts: Floats | float) -> None:
        """Scores of the rows that are here; without totals they are 0."""
        own = np.zeros(self._known_layout().n_rows) if totals is None else np.array(totals)
        self._kept[key] = (own, starts if isinstance(starts, float) else np.asarray(starts))

    def scores(self, key: str, added: list[Added]) -> Floats:
        """The scores as an array, after trees are added to them."""
        totals, starts = self._known(key)
        for one in added:
            leaves = self._leaves(one.tree) if one.session is None else self._grown_leaves(one)
            add_to_totals(leaves, np.array(one.tree.value), one.factor, totals, self.n_threads)
        scores: Floats = totals + starts
        return scores

    def _grown_leaves(self, added: Added) -> Array:
        """The leaves of a tree that was just grown here."""
        session = str(added.session)
        if session in self._kept:
            leaves: Array = self._kept[session]
            return leaves
        return self._trees(session)[added.index].leaf_of_source

    def leaves(self, tree: Tree) -> Array:
        """The leaf of each row in a tree."""
        return self._leaves(tree)

    def keep_sums(self, key: str, first: int, last: int, sums: Floats, n_trees: Array) -> None:
        """Sums over trees of the rows ``first`` to ``last`` of those that are here."""
        self._kept[key] = (first, last, np.array(sums), np.array(n_trees))

    def add_to_sums(self, key: str, added: list[tuple[Tree, str | None, int, str | None]]) -> None:
        """Add trees, for rows that they have not seen: out of a bag, or rows that a mask leaves out."""
        first, last, sums, n_trees = self._known(key)
        for tree, bags, number, seen in added:
            if seen is not None:
                counts = self._known(seen)
            elif bags is not None:
                counts = self._known(bags).counts(number)
            else:
                continue
            own = np.ascontiguousarray(counts[first:last])
            leaves = self._leaves(tree, first, last, own == 0)
            add_out_of_bag(own, leaves, np.array(tree.value), sums, n_trees)

    def sums(self, key: str) -> tuple[Floats, Array]:
        """The sums and the numbers of trees so far."""
        _, _, sums, n_trees = self._known(key)
        return sums, n_trees

    def values_of(self, trees: list[Tree], first: int, last: int, totals: Floats) -> Floats:
        """``totals`` of the rows ``first`` to ``last`` plus the values of trees, in their order."""
        own = np.array(totals)
        for tree in trees:
            leaves = self._leaves(tree, first, last)
            add_to_totals(leaves, np.array(tree.value), 1.0, own, self.n_threads)
        return own

    def _leaves(
        self, tree: Tree, first: int = 0, last: int | None = None, wanted: Array | None = None
    ) -> Array:
        """The leaf of each row from source ``first`` to ``last``; 0 for those that are not wanted."""
        matrix, sources = self.matrix, self.matrix.source_of_row
        n_rows = sources.size
        last = n_rows if last is None else last
        leaf_of_row = np.full(n_rows, -1, np.int32)
        if wanted is not None or (first, last) != (0, n_rows):
            is_wanted = np.zeros(n_rows, bool)
            is_wanted[first:last] = True if wanted is None else wanted
            leaf_of_row[~is_wanted[sources]] = 0
        arrays = tree.routing
        given = (matrix.columns, *map(np.array, arrays), leaf_of_row)
        run_blocks(route, n_rows, *given, n_threads=self.n_threads, least=_LEAST_ROUTED)
        leaf_of_source = np.empty(n_rows, np.int32)
        leaf_of_source[sources] = leaf_of_row
        return leaf_of_source[first:last]

    # Scoring.

    def predict_forest(self, forest: Any, first_trees: int | None) -> Floats:
        """The scores of the rows by a forest whose thresholds are among those of the bins."""
        matrix = self.matrix
        width = forest.n_features
        scores = predict_binned(
            forest, matrix.columns[:width], self._bins, self.n_threads, first_trees
        )
        by_source: Floats = np.empty_like(scores)
        by_source[matrix.source_of_row] = scores
        return by_source


class _Letters:
    """What has arrived under one tag."""

    def __init__(self) -> None:
        self._content: dict[int, Any] = {}
        self._outgoing: list[Any] | None = None
        self._news = asyncio.Event()
        self._is_cancelled = False

    def offer(self, outgoing: list[Any]) -> None:
        """What the others get, by their number."""
        self._outgoing = outgoing
        self._news.set()

    def put(self, sender: int, content: Any) -> None:
        self._content[sender] = content
        self._news.set()

    def cancel(self) -> None:
        self._is_cancelled = True
        self._news.set()

    async def all(self, n_senders: int) -> list[Any]:
        """The contents by sender, once all have arrived."""
        await self._until(lambda: len(self._content) == n_senders)
        return [self._content[sender] for sender in range(n_senders)]

    async def outgoing(self) -> list[Any]:
        """What the others get, once it is made."""
        await self._until(lambda: self._outgoing is not None)
        assert self._outgoing is not None
        return self._outgoing

    async def _until(self, is_there: Callable[[], bool]) -> None:
        while not is_there():
            if self._is_cancelled:
                raise PeerLost("another worker is lost.")
            self._news.clear()
            await self._news.wait()


async def ask(rpc: Any, key: str, method: str, *arguments: Any) -> Any:
    """Call an async method of a holder through a connection to its worker; errors of the method are raised."""
    from distributed.protocol import to_serialize

    answer = await rpc.actor_execute(
        function="answer", actor=key, args=[to_serialize(Packet((method, *arguments)))], kwargs={}
    )
    if answer["status"] == "OK":
        return answer["result"].content
    raise answer["exception"]


@dataclass(frozen=True, eq=False)
class PartLoss:
    """A loss of some of the rows: what is known of them, and how the loss is made."""

    labels: Floats
    weights: Floats | None
    query_of_row: Array | None = None  # None: a squared loss
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def made(self, n_threads: int) -> Any:
        """The loss."""
        labels = np.array(self.labels)
        weights = None if self.weights is None else np.array(self.weights)
        if self.query_of_row is None:
            return SquaredLoss(labels, weights)
        judgments = Judgments(read_only(labels), read_only(np.array(self.query_of_row)))
        return LambdaRank(judgments, weights=weights, n_threads=n_threads, **self.options)
