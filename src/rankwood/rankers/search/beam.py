"""The search by size that contains plain boosting: ``BoostingTree(search="beam")``.

    for size d = 1 … N:
        plain boosting's model takes its free step
        each member of the beam takes k(d) steps, every node seeing a random share of the features (the empty model
        takes 4 k(d))
        the new beam is plain boosting's model and the best of the others, by ½ training + ½ validation measure
    the front at n is the best alternative of at most n trees, if it is ahead of plain boosting's n trees by more than
    two standard errors of their paired differences by query; else plain boosting's n trees

Terms
    size           the number of hypotheses of a model; models of one size are made in one round
    plain          a model of plain boosting: each of its hypotheses was fitted on all features
    alternative    any other model
    worth          ½ training + ½ validation measure, such that more is better
    values         the measure of each query (each row, without queries) on the training and on the validation data
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rankwood._core.random import stream
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.rankers.search.tree_search import Models

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
