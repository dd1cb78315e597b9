"""Which sequence of a search over boosting sequences is extended next: by the paper's tree search, or by size.

``boosting_tree`` (Kocsis, György & Bán 2013, Figure 3) takes models as they come, whatever they are. Its terms
    model      a sequence of weak hypotheses, by its number: 0 is the empty one; its parent has one hypothesis less
    worth      f, how good a model is; best is f̂, the greatest worth on the way from the empty model to it
    tried      constraints of a model that were used, whether or not they gave a hypothesis
    in vain    those of them, since the last hypothesis, that gave none
    length     n, the model's hypotheses plus those tried below it
    leader     I, the model of the greatest best; of equal ones the deepest, then that of the greatest worth, the oldest

``beam_search`` (``BoostingTree(search="beam")``) goes by size and contains plain boosting::

    for size d = 1 … N:
        plain boosting's model takes its free step
        each member of the beam takes k(d) steps, every node seeing a random share of the features (the empty model
        takes 4 k(d))
        the new beam is plain boosting's model and the best of the others, by ½ training + ½ validation measure
    the front at n is the best alternative of at most n trees, if it is ahead of plain boosting's n trees by more than
    two standard errors of their paired differences by query; else plain boosting's n trees

Its terms
    size           the number of hypotheses of a model; models of one size are made in one round
    plain          a model of plain boosting: each of its hypotheses was fitted on all features
    alternative    any other model
    worth          ½ training + ½ validation measure, such that more is better
    values         the measure of each query (each row, without queries) on the training and on the validation data
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rankwood._core.random import stream
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats

RAN_OUT = "every constraint of every model was tried"
MOST_IN_VAIN = (
    100  # constraints; after that a model whose constraints have no end counts as out of them
)
_Entry = tuple[float, int, float, int]  # orders the models of one length: the least is first
LONGEST = "the models have the greatest length"
SHARES = (0.3, 0.5, 0.7)  # of the features, one of which every constrained hypothesis has
STEPS = ((3, 8), (10, 5))  # up to this size: steps of each member
LATER_STEPS = 3
STEPS_OF_EMPTY = 4  # times those of another member: the first beam has one member
N_ERRORS = 2.0  # standard errors that an alternative must be ahead of plain boosting
MOST_TREES = 100  # of a model, where nothing else is said
HELD_OUT = 0.2  # of the queries, where there are no validation data
EMPTY = 0

Values = Sequence[tuple[Floats, Floats]]  # by part: the value of each query, and its weight


@dataclass(eq=False)
class Models:
    """The models so far, and the bookkeeping that decides which of them to extend."""

    n_constraints: int | None  # of each model; None if there is no limit
    exponent: float = 0.5  # of t in h(n) = exp(-n / t^exponent)
    max_length: int | None = None  # models of so many hypotheses are not extended
    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    worth: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    in_vain: list[int] = field(default_factory=list)
    round_of_model: list[int] = field(default_factory=list)
    leader: int = -1
    n_rounds: int = 0  # begun, with the current one
    _of_length: dict[int, list[_Entry]] = field(default_factory=dict)
    _n_of_depth: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.parent)

    def add(self, parent: int, worth: float) -> int:
        """A new model, one hypothesis longer than its parent (-1: the empty model); gives its number."""
        model = len(self)
        depth = 0 if parent < 0 else self.depth[parent] + 1
        self.parent.append(parent)
        self.depth.append(depth)
        self.worth.append(worth)
        self.best.append(worth if parent < 0 else max(self.best[parent], worth))
        self.tried.append(0)
        self.in_vain.append(0)
        self.round_of_model.append(self.n_rounds)
        self._n_of_depth.extend([0] * (depth + 1 - len(self._n_of_depth)))
        self._n_of_depth[depth] += 1
        if self.is_active(model):
            self._put(model)
        if self.leader < 0 or self._rank(model) > self._rank(self.leader):
            self.leader = model
        return model

    def use_constraint(self, model: int, is_found: bool = True) -> None:
        """Count one more constraint of the model as tried; ``is_found`` says whether it gave a hypothesis."""
        self.tried[model] += 1
        self.in_vain[model] = 0 if is_found else self.in_vain[model] + 1
        if self.is_active(model):
            self._put(model)

    def is_active(self, model: int) -> bool:
        """Whether the model has constraints left, and may grow."""
        if self.max_length is not None and self.depth[model] >= self.max_length:
            return False
        if self.n_constraints is None:
            return self.in_vain[model] < MOST_IN_VAIN
        return self.tried[model] < self.n_constraints

    def leader_is_ahead(self) -> bool:
        """Whether the leader was made in this round, and no other model is as deep."""
        depth = self.depth[self.leader]
        is_deepest = depth == len(self._n_of_depth) - 1 and self._n_of_depth[depth] == 1
        return is_deepest and self.round_of_model[self.leader] == self.n_rounds

    def corners(self) -> list[int]:
        """The active models that maximise ``best + c · h(length)`` for some c > 0, the shortest first.

        ``h(n)`` is ``exp(-n / √t)`` in the paper; t is the number of models.
        """
        points = []
        scale = len(self) ** self.exponent
        for length in sorted(self._of_length):
            entry = self._first(length)
            if entry is not None:
                points.append((math.exp(-length / scale), -entry[0], entry[3]))
        return [model for _, _, model in upper_corners(points)]

    def _rank(self, model: int) -> tuple[float, int, float, int]:
        return self.best[model], self.depth[model], self.worth[model], -model

    def _put(self, model: int) -> None:
        """Push the model to the heap of its present length; its entries under earlier lengths are dropped later."""
        entry = (-self.best[model], self.depth[model], -self.worth[model], model)
        length = self.depth[model] + self.tried[model]
        heapq.heappush(self._of_length.setdefault(length, []), entry)

    def _first(self, length: int) -> _Entry | None:
        """The entry of the model to take among those of one length: best, then shortest, then worth, then oldest."""
        heap = self._of_length[length]
        while heap:
            model = heap[0][3]
            if self.is_active(model) and self.depth[model] + self.tried[model] == length:
                return heap[0]
            heapq.heappop(heap)
        del self._of_length[length]
        return None


def upper_corners(points: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """The corners of the upper convex hull of ``points`` (x, y, model) and (0, greatest y), x falling and different.

    Points on a line between two others are no corners. What is left of the first point of greatest y is below the line
    to (0, greatest y), and no corner either.
    """
    hull: list[tuple[float, float, int]] = []
    for point in points:
        x, y, _ = point
        if hull and y <= hull[-1][1]:
            continue  # further left and no higher than the last: never the maximum for c > 0
        while len(hull) >= 2:
            (x2, y2, _), (x1, y1, _) = hull[-2], hull[-1]
            if (y1 - y2) * (x1 - x) > (y - y1) * (x2 - x1):  # slopes grow flatter: a corner
                break
            hull.pop()
        hull.append(point)
    return hull


def boosting_tree(models: Models, at_end_of_round: Callable[[], None]) -> Iterator[int]:
    """The models to extend, one after the other, until nothing is left to try.

    The caller extends each model before it asks for the next: it uses one constraint of the model and adds the new
    model, if there is one. The leader is extended until it was made in this round and is deeper than all others; where
    it has no constraints left, the round ends.
    """
    while selected := models.corners():  # (a)
        models.n_rounds += 1
        yield from selected  # (b)
        while not models.leader_is_ahead() and models.is_active(models.leader):  # (c)
            yield models.leader
        at_end_of_round()


def share_of(constraint: int) -> float:
    """The share of the features that each node sees under a constraint, which is a random number."""
    return SHARES[constraint % len(SHARES)]


def n_steps(size: int) -> int:
    """k(d), the constrained steps of each member of the beam towards models of this size."""
    return next((steps for most, steps in STEPS if size <= most), LATER_STEPS)


def most_steps(n_sizes: int, width: int) -> int:
    """The steps of a whole search, the free ones included."""
    members = [STEPS_OF_EMPTY] + [width] * (n_sizes - 1)
    return sum(1 + n * n_steps(size) for size, n in enumerate(members, start=1))


@dataclass(eq=False)
class Beam:
    """The models of a search, and which of them are extended next."""

    models: Models
    width: int  # members, plain boosting's among them
    n_sizes: int  # N
    # Plain boosting's models by size; fewer than N where it finds no further tree.
    plain: list[int] = field(default_factory=lambda: [EMPTY])

    def members(self) -> list[int]:
        """Plain boosting's model of the last size, and the best others; of models of equal worth the oldest."""
        models = self.models
        newest = [
            model
            for model in range(len(models) - 1, -1, -1)
            if models.round_of_model[model] == models.n_rounds
        ]
        by_worth: dict[float, int] = {models.worth[model]: model for model in newest}
        plain = [model for model in self.plain[-1:] if model in newest]
        taken = {models.worth[model] for model in plain}
        others = [by_worth[worth] for worth in sorted(by_worth, reverse=True) if worth not in taken]
        return (plain + others)[: self.width]

    def front(self, values: Callable[[int], Values], n_models: int | None = None) -> list[int]:
        """The model for each number of trees, from 0 to that of the longest model; of all models or the first ones."""
        models, front = self.models, [EMPTY]
        count = len(models) if n_models is None else n_models
        plain_models = [model for model in self.plain if model < count]
        best: int | None = None  # alternative so far
        known: dict[int, Values] = {}
        for size in range(1, max(models.depth[:count]) + 1):
            for model in range(count):
                is_of_size = models.depth[model] == size and model not in plain_models
                if is_of_size and (best is None or models.worth[model] > models.worth[best]):
                    best = model
            plain = plain_models[min(size, len(plain_models) - 1)]
            chosen = plain
            if best is not None and models.worth[best] > models.worth[plain]:
                known = {model: known.get(model) or values(model) for model in (best, plain)}
                chosen = best if is_clearly_ahead(known[best], known[plain]) else plain
            front.append(chosen)
        return front


def beam_search(beam: Beam, at_end_of_size: Callable[[], None]) -> Iterator[tuple[int, bool]]:
    """The steps to take, one after the other: the model to extend, and whether on all features.

    The caller takes each step before it asks for the next: it adds the new model, if there is one.
    """
    models = beam.models
    while models.n_rounds < beam.n_sizes and (members := beam.members()):
        models.n_rounds += 1
        if beam.plain[-1] in members:
            yield beam.plain[-1], True
        for member in members:
            times = STEPS_OF_EMPTY if member == EMPTY else 1
            for _ in range(times * n_steps(models.n_rounds)):
                yield member, False
        at_end_of_size()


def is_clearly_ahead(one: Values, other: Values, n_errors: float = N_ERRORS) -> bool:
    """Whether the mean over the parts is greater by more than so many standard errors of the paired differences."""
    lead = variance = 0.0
    for (ours, weights), (theirs, _) in zip(one, other, strict=True):
        is_counted = ~np.isnan(ours - theirs) & (weights > 0)
        difference, weight = (ours - theirs)[is_counted], weights[is_counted]
        if difference.size < 2:
            return False
        weight = weight / weight.sum()
        mean = float(weight @ difference)
        freedom = difference.size / (difference.size - 1)
        lead += mean
        variance += freedom * float(weight**2 @ (difference - mean) ** 2)
    return lead > n_errors * math.sqrt(variance)


def hold_out(
    rows: RankingData | BinnedData, seed: int
) -> tuple[RankingData | BinnedData, RankingData | None]:
    """The rows to train on, and those of a random fifth of the queries (of the rows, without queries) to judge by.

    Those without weight are not held out. Where there is one query only, nothing is.
    """
    data = rows.data if isinstance(rows, BinnedData) else rows
    judgments, has_queries = data.judgments, data.query_ids is not None
    weights = judgments.query_weights_or_ones if has_queries else judgments.row_weights_or_ones
    units = np.flatnonzero(weights > 0)
    if units.size < 2:
        return rows, None
    drawn = stream(seed, "held out of a search").permutation(units.size)
    is_held = np.zeros(weights.size, bool)
    is_held[units[drawn[: max(1, round(HELD_OUT * units.size))]]] = True
    if has_queries:
        is_held = is_held[data.query_of_row]
    kept, held = data.take_rows(~is_held), data.take_rows(is_held)
    if isinstance(rows, BinnedData):
        return BinnedData(rows.codes[:, ~is_held], rows.bins, kept), held
    return kept, held
