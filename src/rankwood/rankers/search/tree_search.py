"""The search over boosting sequences (Kocsis, György & Bán 2013, Figure 3), whatever its models are.

Terms
    model      a sequence of weak hypotheses, by its number: 0 is the empty one; its parent has one hypothesis less
    worth      f, how good a model is; best is f̂, the greatest worth on the way from the empty model to it
    tried      constraints of a model that were used, whether or not they gave a hypothesis
    in vain    those of them, since the last hypothesis, that gave none
    length     n, the model's hypotheses plus those tried below it
    leader     I, the model of the greatest best; of equal ones the deepest, then that of the greatest worth, the oldest
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

RAN_OUT = "every constraint of every model was tried"
MOST_IN_VAIN = (
    100  # constraints; after that a model whose constraints have no end counts as out of them
)
_Entry = tuple[float, int, float, int]  # orders the models of one length: the least is first


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
