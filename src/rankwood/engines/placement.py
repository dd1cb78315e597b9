"""``ClusterRows``: rows in blocks, and ``Placement``: which worker of a Dask cluster has which of them.

A placement puts a holder (``rankwood.engines.holder``) on every worker, gives it its blocks, and asks all holders at
once. When a worker is lost, its blocks are read again by the others. Nothing listens on a port but Dask.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.binning.bins import Bins
from rankwood.dtypes import Array, Floats, Rows
from rankwood.engines.holder import Holder, Layout, PeerLost, ask
from rankwood.errors import ParameterError, RunError

ROWS, TREES = "rows", "trees"
WAYS = (ROWS, TREES)
_MOST_LOSSES = 100  # of workers in a row without a tree in between
_PATIENCE = 30.0  # seconds that a cluster may be without workers: they may be starting again
_BYTES_PER_ROW = (
    80  # of a worker besides codes: targets, packed targets, two buffers of rows, scores
)
_SHARE_OF_MEMORY = 0.6  # of a worker's limit that rows may take
_CREATED = 60.0  # seconds to wait for a holder
_LOOK_EVERY = 0.5  # seconds, at whether its worker is still there
_STOPPED = 5.0  # seconds to wait for holders to stop
_UNREACHABLE = (
    OSError,
    ValueError,
)  # what Dask raises for workers, and a scheduler, that are gone or closing


class WorkerLost(Exception):
    """A worker does not answer any more."""


class ClusterLost(RunError):
    """No workers are left; the message says what is saved, once that is known."""

    def with_checkpoint(self, path: Any) -> ClusterLost:
        """The error with the checkpoint of the fit."""
        if path is None:
            return ClusterLost(
                f"{self} No checkpoint was kept, so nothing is saved: start workers and fit again, with checkpoint= "
                "to keep the trees so far."
            )
        return ClusterLost(
            f"{self} The trees up to the last checkpoint are saved in {path}: start workers, distribute the data "
            "again, and the same fit goes on with them."
        )


class NotOnCluster(ParameterError):
    """A method looks at the features themselves, which no process has; the message names the method if it is known."""

    def __init__(self, who: str = "this method") -> None:
        super().__init__(
            f"{who} cannot train on distributed data: it looks at the features themselves, and a Dask cluster has them "
            "in parts. The cluster engine grows the trees of forests, GBRT, LambdaMART, AveragedGBRT, InitializedGBRT, "
            "BROOF, DeepForest, and OrdinalRanker over them. Train the others on data in memory."
        )

    def by(self, who: str) -> NotOnCluster:
        """The error with the name of the method."""
        return NotOnCluster(who)


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows that stay together: the caller's numbers of them, and how a worker gets their codes.

    ``read(bins, n_threads)`` gives the codes on a worker; or ``send(client, worker, put, bins)`` has a task of Dask
    make them there and ``put`` them into the holder.
    """

    numbers: Rows
    read: Callable[[Bins, int], Any] | None = None
    send: Callable[..., Any] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.numbers)


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """All rows: their blocks, bins and labels, and the client of the cluster they are on."""

    client: Any
    blocks: tuple[RowBlock, ...]
    bins: Bins
    labels: Floats
    has_missing: Array  # of each feature
    by: str | None  # "rows", "trees", or None: by memory
    folder: str | None = None  # of binned data on a disk that all share
    placements: dict[str, Placement] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    wide: list[Any] = field(default_factory=list)  # bins of all columns, and further columns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.labels.size)

    @property
    def all_bins(self) -> Bins:
        """The bins of all columns that the workers have."""
        bins: Bins = self.wide[0] if self.wide else self.bins
        return bins

    def widen(self, bins: Bins, columns: dict[int, Array]) -> None:
        """Let the workers have further columns behind the features: codes by the caller's rows, by number."""
        if not columns and not self.wide:
            return
        self.wide[:] = [bins, columns] if columns else []
        for placement in self.placements.values():
            generation = placement.settled()
            try:
                placement.send_columns(bins, columns)
            except WorkerLost:
                placement.recover(generation)

    def placement(self, kind: str) -> Placement:
        """The rows as they lie on the workers, for one of the ways to grow trees."""
        with self.lock:
            if kind not in self.placements:
                for other in list(self.placements):  # two of them would take twice the memory
                    self.placements.pop(other).close()
                self.placements[kind] = Placement(self, kind)
            return self.placements[kind]

    def any_placement(self) -> Placement:
        """Whatever placement there is, else one of rows."""
        return next(iter(self.placements.values()), None) or self.placement(ROWS)

    def batches_by(self) -> str:
        """How independent trees grow: whole on one worker each if all rows fit into the memory of every worker."""
        if self.by is not None:
            return self.by
        n_codes = (
            0 if self.folder is not None else self.bins.n_features
        )  # which are mapped from the disk
        needed = self.n_rows * (n_codes + _BYTES_PER_ROW)
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [each.get("memory_limit") or np.inf for each in workers]
        return TREES if needed <= _SHARE_OF_MEMORY * min(limits, default=0.0) else ROWS


@dataclass(frozen=True)
class Member:
    """A worker with a holder."""

    address: str
    key: str
    future: Any


class Placement:
    """Holders on the workers of a cluster, and the rows that each of them has.

    ``generation`` counts how often rows were dealt: what was kept on the holders before is lost.
    """

    def __init__(self, rows: ClusterRows, kind: str) -> None:
        self.rows = rows
        self.kind = kind
        self.client = rows.client
        self.generation = 0
        self.members: list[Member] = []
        self.numbers: list[Rows] = []  # of the rows of each member, ascending
        self._blocks: dict[str, tuple[int, ...]] = {}  # by address
        self._kept: dict[int, tuple[Any, str]] = {}
        self._to_drop: list[str] = []
        self._lock = threading.RLock()
        self._losses_in_a_row = 0
        self._deal()

    # Dealing the rows out.

    def _deal(self) -> None:
        """Give every worker its blocks; those that it has stay with it."""
        while True:
            try:
                self._try_to_deal()
            except WorkerLost:
                self._count_loss()
            else:
                return

    def _try_to_deal(self) -> None:
        addresses = self._living()
        known = {member.address: member for member in self.members}
        self.members = [known.get(each) or self._new_member(each) for each in addresses]
        for address in set(self._blocks) - set(addresses):
            del self._blocks[address]
        self._blocks = self._shares(addresses)
        blocks = self.rows.blocks
        self.numbers = []
        peers = tuple((member.address, member.key) for member in self.members)
        layouts = []
        for index, address in enumerate(addresses):
            own = self._blocks[address]
            numbers = tuple(blocks[block].numbers for block in own)
            ordered = np.sort(np.concatenate(numbers)) if numbers else np.zeros(0, np.int64)
            self.numbers.append(ordered)
            labels = self.rows.labels[ordered]
            folder = self.rows.folder if self.kind == TREES else None
            layouts.append(Layout(index, peers, own, numbers, labels, self.rows.bins, folder))
        self.generation += 1
        self._kept.clear()
        self._to_drop.clear()
        self.client.sync(self._reset_all)
        self._load()
        self.each("place", [(layout,) for layout in layouts])
        if self.rows.wide:
            self.send_columns(*self.rows.wide)

    def send_columns(self, bins: Bins, columns: dict[int, Array]) -> None:
        """Send further columns to the holders."""
        self.each(
            "widen",
            [
                (bins, [(column, codes[own]) for column, codes in columns.items()])
                for own in self.numbers
            ],
        )

    def _living(self) -> list[str]:
        """The addresses of the workers, in an order of their own; an error where there are none for a while."""
        since = time.monotonic()
        while True:
            found = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
            if found:
                return found[: len(self.rows.blocks)] if self.kind == ROWS else found
            if time.monotonic() - since > _PATIENCE:
                raise ClusterLost("the Dask cluster has no workers left.")
            time.sleep(0.1)

    def _new_member(self, address: str) -> Member:
        refuse_other_versions(self.client, [address])
        key = f"rankwood-holder-{uuid.uuid4().hex}"
        future = self.client.submit(
            Holder, actor=True, workers=[address], allow_other_workers=False, key=key, pure=False
        )
        try:
            self._wait(future, address, _CREATED)
        except WorkerLost:
            future.release()
            raise
        return Member(address, key, future)

    def _wait(self, future: Any, address: str, patience: float = np.inf) -> None:
        """Wait for what one worker makes; Dask alone would wait for ever for a worker that is lost."""
        from distributed import CancelledError, KilledWorker

        began = time.monotonic()
        while time.monotonic() - began < patience:
            try:
                future.result(timeout=_LOOK_EVERY)
            except TimeoutError:
                if future.status == "error" or self._is_gone(address):
                    break
            except (KilledWorker, CancelledError, OSError, PeerLost, RuntimeError) as error:
                if isinstance(error, RuntimeError) and not self._is_gone(address):
                    raise  # the task's own, not Dask's for a holder that is lost
                raise WorkerLost(f"{address}: {error}") from None
            else:
                return
        raise WorkerLost(f"{address} did not answer.")

    def _is_gone(self, address: str) -> bool:
        return address not in self.client.scheduler_info(n_workers=-1)["workers"]

    def _shares(self, addresses: list[str]) -> dict[str, tuple[int, ...]]:
        """The blocks of each worker: all, or the next free ones for whoever has the fewest rows."""
        blocks = self.rows.blocks
        if self.kind == TREES:
            return dict.fromkeys(addresses, tuple(range(len(blocks))))
        if not self._blocks:
            return _even_shares([block.n_rows for block in blocks], addresses)
        shares = {each: list(self._blocks.get(each, ())) for each in addresses}
        owned = {block for share in shares.values() for block in share}
        sizes = {each: sum(blocks[b].n_rows for b in share) for each, share in shares.items()}
        for block in sorted(set(range(len(blocks))) - owned, key=lambda b: (-blocks[b].n_rows, b)):
            least = min(addresses, key=lambda each: (sizes[each], each))
            shares[least].append(block)
            sizes[least] += blocks[block].n_rows
        return {each: tuple(sorted(share)) for each, share in shares.items()}

    def _load(self) -> None:
        """Have every holder read the blocks that it lacks."""
        if self.kind == TREES and self.rows.folder is not None:
            return  # it maps the folder
        present = self.all("blocks")
        reading, sending = [], []
        for member, known in zip(self.members, present, strict=True):
            for block in sorted(set(self._blocks[member.address]) - set(known)):
                one = self.rows.blocks[block]
                if one.read is not None:
                    reading.append((member, ("read_block", block, one.read, self.rows.bins)))
                elif one.send is not None:
                    sending.append((member, block, one.send))
        self._together([(member, "call", *arguments) for member, arguments in reading])
        futures = [
            (send(self.client, member, block, self.rows.bins), member.address)
            for member, block, send in sending
        ]
        for future, address in futures:
            self._wait(future, address)

    async def _reset_all(self) -> None:
        await self._ask_many([(member, "reset") for member in self.members])

    def settled(self) -> int:
        """The generation, once no rows are being dealt."""
        with self._lock:
            return self.generation

    def recover(self, generation: int) -> None:
        """Deal the rows anew, unless that has happened since ``generation``."""
        with self._lock:
            if generation == self.generation:
                self._count_loss()
                self._deal()

    def _count_loss(self) -> None:
        self._losses_in_a_row += 1
        if self._losses_in_a_row > _MOST_LOSSES:
            raise ClusterLost(
                f"workers of the Dask cluster were lost {_MOST_LOSSES} times without one tree grown in between: "
                "they may lack memory."
            )
        time.sleep(0.05)

    def has_grown(self) -> None:
        """Trees are being grown, so that it is worth going on."""
        self._losses_in_a_row = 0

    def close(self) -> None:
        """Let the holders go."""
        for member in self.members:
            member.future.release()
        self.members = []

    # Asking holders.

    def all(self, name: str, *arguments: Any) -> list[Any]:
        """Call a method of all holders with the same arguments."""
        return self.each(name, [arguments] * len(self.members))

    def each(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every holder with arguments of its own."""
        calls = zip(self.members, arguments, strict=True)
        return self._together([(member, "call", name, *own) for member, own in calls])

    def one(self, index: int, name: str, *arguments: Any) -> Any:
        """Call a method of one holder."""
        return self._together([(self.members[index], "call", name, *arguments)])[0]

    def step(self, *arguments: Any) -> list[Any]:
        """One step of trees on all holders."""
        return self._together([(member, "step", *arguments) for member in self.members])

    def _together(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        answers: list[Any] = self.client.sync(self._ask_many, calls)
        return answers

    async def _ask_many(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        tasks = [asyncio.ensure_future(self._ask(*call)) for call in calls]
        pending = set(tasks)
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=_LOOK_EVERY, return_when=asyncio.FIRST_EXCEPTION
                )
                for task in done:
                    task.result()
                if pending and not done:
                    await self._refuse_lost([call[0] for call in calls])
            return [task.result() for task in tasks]
        except BaseException:
            for task in tasks:
                task.cancel()
            await self._stop_waiting()
            raise

    async def _refuse_lost(self, members: Sequence[Member]) -> None:
        """Raise if a worker is gone: Dask would try to connect to it for half a minute."""
        living = (await self.client.scheduler.identity(n_workers=-1))["workers"]
        for member in members:
            if member.address not in living:
                raise WorkerLost(f"{member.address} is gone.")

    async def _stop_waiting(self) -> None:
        """Tell the holders, as far as they are alive, not to wait for one that has failed."""
        living = (await self.client.scheduler.identity(n_workers=-1))["workers"]
        asking = [
            asyncio.ensure_future(self._ask(member, "reset"))
            for member in self.members
            if member.address in living
        ]
        if asking:
            _, pending = await asyncio.wait(asking, timeout=_STOPPED)
            for task in pending:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, member: Member, method: str, *arguments: Any) -> Any:
        try:
            return await ask(self._rpc(member.address), member.key, method, *arguments)
        except (OSError, PeerLost, TimeoutError) as error:
            raise WorkerLost(f"{member.address}: {error}") from None
        except KeyError as error:
            if member.key in str(error):  # the worker has no holder any more
                raise WorkerLost(f"{member.address}: {error}") from None
            raise

    def _rpc(self, address: str) -> Any:
        return self.client.rpc(address)

    # What is kept on the holders.

    def keep(
        self, thing: Any, make: Callable[[], Sequence[tuple[Any, ...]]], how: str = "keep"
    ) -> str:
        """The key under which the holders have something; it is sent when they do not have it yet.

        ``make`` gives the arguments that follow the key, for each holder.
        """
        with self._lock:
            known = self._kept.get(id(thing))
            if known is not None and known[0]() is thing:
                return known[1]
            key = f"{how}-{uuid.uuid4().hex}"
            gone = self.take_gone()
            if gone:
                self.all("drop", gone)
            self.each(how, [(key, *own) for own in make()])
            generation = self.generation
            self._kept[id(thing)] = (weakref.ref(thing), key)
            weakref.finalize(thing, self._forget, generation, key)
            return key

    def _forget(self, generation: int, key: str) -> None:
        if generation == self.generation:
            self._to_drop.append(key)

    def take_gone(self) -> list[str]:
        """The keys of what is not needed any more since the last call, for the holders to forget."""
        gone, self._to_drop = self._to_drop, []
        return gone

    def deal(self, values: Array | None) -> list[Any]:
        """An array by the caller's rows, as the holders' parts of it."""
        if values is None:
            return [None] * len(self.members)
        return [values[numbers] for numbers in self.numbers]

    def gather(self, parts: Sequence[Array]) -> Array:
        """The parts of the holders as one array, by the caller's rows."""
        if self.kind == TREES:
            return np.array(parts[0])
        whole = np.empty(self.rows.n_rows, parts[0].dtype)
        for numbers, part in zip(self.numbers, parts, strict=True):
            whole[numbers] = part
        return whole

    def ranges(self) -> list[tuple[int, int]]:
        """For each holder the sources, from the first to the last, whose sums it adds up."""
        n_members = len(self.members)
        if self.kind == ROWS:
            return [(0, len(numbers)) for numbers in self.numbers]
        n_rows = self.rows.n_rows
        edges = [n_rows * member // n_members for member in range(n_members + 1)]
        return list(itertools.pairwise(edges))

    def deal_ranges(self, values: Array) -> list[Any]:
        """An array by the caller's rows, as the ``ranges`` of all holders."""
        if self.kind == ROWS:
            return self.deal(values)
        return [values[first:last] for first, last in self.ranges()]

    def join_ranges(self, parts: Sequence[Array]) -> Array:
        """Arrays of the ``ranges`` of all holders, by the caller's rows."""
        return np.concatenate(parts) if self.kind == TREES else self.gather(parts)


def _even_shares(sizes: list[int], addresses: list[str]) -> dict[str, tuple[int, ...]]:
    """Consecutive blocks for each worker, with about as many rows each."""
    ends = np.cumsum(sizes)
    middles = ends - np.array(sizes) / 2
    owner = np.minimum(middles * len(addresses) // max(1, int(ends[-1])), len(addresses) - 1)
    shares = {
        address: tuple(np.flatnonzero(owner == number).tolist())
        for number, address in enumerate(addresses)
    }
    if all(shares.values()):
        return shares
    return {  # very uneven blocks: as many for each
        address: tuple(
            range(len(sizes) * n // len(addresses), len(sizes) * (n + 1) // len(addresses))
        )
        for n, address in enumerate(addresses)
    }


def refuse_other_versions(client: Any, workers: list[str] | None = None) -> None:
    """Raise for workers that run another version of the package, or lack it, and for named workers that are lost."""
    from rankwood import __version__

    def look() -> str:
        try:
            import rankwood

            return str(rankwood.__version__)
        except ImportError:
            return ""

    try:
        versions = client.run(look, workers=workers, on_error="return")
    except _UNREACHABLE as error:
        if workers is None:
            raise RunError(f"the Dask cluster does not answer: {error}.") from None
        raise WorkerLost(str(error)) from None
    for address, version in versions.items():
        if isinstance(version, _UNREACHABLE):
            if workers is None:
                continue  # it is lost: whoever takes its place is asked before it gets rows
            raise WorkerLost(f"{address}: {version}")
        if isinstance(version, Exception):
            raise version
        if version != __version__:
            has = f"has Rankwood {version}" if version else "has no Rankwood"
            raise RunError(
                f"the Dask worker {address} {has}, but this process has {__version__}. Models are the same bytes on "
                f"every machine only if all have the same version: install rankwood=={__version__} on the worker."
            )
