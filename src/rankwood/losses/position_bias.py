"""Learning from clicks: a position bias as weights, targets and pairs; biases learned beside the trees.

A click says that a document was looked at and liked. The models here are affine in the chance γ that the document is
liked (Vardasbi, Oosterhuis & de Rijke 2020)::

    P(click | γ, position k) = slope_k · γ + offset_k

Without trust bias the offset is 0 and the slope is the chance that position k is looked at. ``Propensities`` holds both
by position. ``weighed`` and ``targets_of`` are the one place where rankers get weights and targets of it:

=========================== =================================== =====================================
a ranker that               label of a row                      weight of a row
=========================== =================================== =====================================
estimates labels            (click - offset) / slope            slope
compares or classifies rows the click                           (1 - offset) / slope where clicked,
                                                                else 1 + offset / slope
=========================== =================================== =====================================

A leaf of a tree that estimates labels is then Σ (clicks - offsets) / Σ slopes: clicks over looks. A pair of a clicked
and another document weighs 1 / slope of the clicked one (Joachims, Swaminathan & Schnabel 2017). Labels between 0 and 1
are clicks out of impressions, whose number is the row weight; a ranker that compares rows gets corrected ones too.

``CorrectedPairs`` are LambdaRank's pairs with corrected gains: the change of a measure by a swap is linear in them, so
the gradient at equal scores is that of the true relevance on average. ``JointPairs`` estimates the bias of clicked and
of passed-over positions round by round (Hu, Wang, Peng & Li 2019), ``AdditivePositions`` adds a score per position to
those of the trees (LightGBM's way).
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood._core.jit import kernel
from rankwood._core.sums import exact_bincount
from rankwood._core.threads import lazy, run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ParameterError
from rankwood.losses.lambdarank import (
    DISTANCE,
    ERR,
    MAP,
    MRR,
    NDCG,
    STEEPEST,
    LambdaRank,
    PairRules,
    count_discounts,
    count_firsts,
    count_precisions,
    count_readers,
    sums_of,
)
from rankwood.measures.listwise import rule
from rankwood.measures.ranking import order

JOINT, ADDITIVE = "joint", "additive"
CLIP = 100.0  # the most that a click counts: at η = 2 it is the weight of position 10
_FORMAT = 1  # of a saved bias
_REGULARITY = (
    1.0  # Hu et al.'s p: ratios are taken to the power 1 / (1 + p), which pulls them towards 1
)
_LEAST_RATIO = 1e-6
_DAMPING = (
    1e-3  # LightGBM's constant, kept for parity: added to the curvature of a position's score
)


@dataclass(frozen=True, eq=False)
class Propensities:
    """How positions turn relevance into clicks: P(click | γ, k) = slope_k · γ + offset_k.

    ``positions`` ascend. A position between two of them has the values of the one above, as one below the last has
    those of the last. ``clip`` is the most that a click may count: slopes below 1 / clip count as that.
    """

    positions: Array
    slope: Floats
    offset: Floats
    clip: float = CLIP

    @classmethod
    def of(cls, values: Any, offset: Any = None, clip: float = CLIP) -> Self:
        """Given values: a list from position 1 on, or a mapping from positions; the slope of the first is usually 1."""
        if isinstance(values, Mapping):
            positions, slopes = list(values), list(values.values())
        else:
            slopes = np.asarray(values, dtype=object).ravel().tolist()
            positions = list(range(1, len(slopes) + 1))
        array = checks.positions("the positions of a bias", positions, len(positions))
        slope = checks.vector("the values of a bias", slopes, array.size)
        shift = np.zeros(array.size)
        if offset is not None:
            shift = checks.vector("the offsets of a bias", offset, array.size)
        order_of = np.argsort(array, kind="stable")
        made = cls(array[order_of], slope[order_of], shift[order_of], clip)
        made._check()
        return made

    def _check(self) -> None:
        if self.positions.size == 0 or (np.diff(self.positions) <= 0).any():
            raise DataError("a position bias needs a value for at least one position, each once.")
        wrong = (self.slope <= 0) | ~np.isfinite(self.slope) | (self.offset < 0)
        if (place := checks.first_true(wrong)) is not None:
            raise DataError(
                f"the bias of position {int(self.positions[place])} is {self.slope[place]:g}"
                f"{f' and {self.offset[place]:g}' if self.offset.any() else ''}: chances are above 0."
            )
        checks.real_number("clip", self.clip, "[1, inf)")

    @property
    def has_trust(self) -> bool:
        """Whether documents are clicked for their position alone."""
        return bool(self.offset.any())

    def at(self, positions: Array) -> tuple[Floats, Floats]:
        """Slope, clipped, and offset of each of these positions."""
        places = np.searchsorted(self.positions, positions, side="right") - 1
        places = np.maximum(places, 0)
        return np.maximum(self.slope, 1.0 / self.clip)[places], self.offset[places]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON; ``as_propensities`` takes them."""
        return {
            "position_bias": _FORMAT,
            "positions": self.positions.tolist(),
            "slope": self.slope.tolist(),
            "offset": self.offset.tolist(),
            "clip": float(self.clip),
        }


def as_propensities(value: Any) -> Propensities:
    """A bias in any of its forms: estimated, saved (the path of its file), or as a model file keeps it."""
    if isinstance(value, Propensities):
        return value
    own = getattr(value, "propensities", None)
    if isinstance(own, Propensities):
        return own
    if isinstance(value, str | os.PathLike):
        return as_propensities(read_bias(value))
    if isinstance(value, Mapping) and value.get("position_bias") == _FORMAT:
        try:
            known = {name: value[name] for name in ("positions", "slope", "offset", "clip")}
            values = dict(zip(known["positions"], known["slope"], strict=True))
        except (KeyError, TypeError, ValueError):
            raise DataError("the position bias is not whole: estimate it again.") from None
        return Propensities.of(values, known["offset"], known["clip"])
    raise ParameterError(
        "position_bias must be what rankwood.position_bias gives, or the path of a saved one, got "
        f"{checks.plain(value)}."
    )


def read_bias(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file of a saved bias holds."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            f"the position bias {os.fspath(path)} cannot be read: {error.strerror}."
        ) from None
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("position_bias") != _FORMAT:
        raise DataError(f"{os.fspath(path)} does not hold a position bias that was saved.")
    return content


def write_bias(content: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Save a bias; the file appears when it is complete."""
    with explained_writing(path), atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def check_bias(name: str, value: Any) -> None:
    """Raise for a parameter ``position_bias`` that is none; words are LambdaMART's alone."""
    if value in (JOINT, ADDITIVE) and isinstance(value, str):
        raise ParameterError(
            f"{name}={value!r} is LambdaMART's: other rankers take what rankwood.position_bias estimates."
        )
    if value is not None:
        as_propensities(value)


def check_pair_bias(name: str, value: Any) -> None:
    """Raise for a parameter ``position_bias`` of LambdaMART that is none."""
    if not (isinstance(value, str) and value in (JOINT, ADDITIVE)):
        check_bias(name, value)


# A bias as weights and targets.


def positions_of(data: RankingData, what: str = "position_bias") -> Array:
    """The positions of a log; an error for data without, and for labels that are no clicks."""
    positions = data.judgments.positions
    if positions is None:
        raise DataError(
            f"{what} needs the position of each document: pass RankingData(..., positions=), or name the column with "
            "position= (--position)."
        )
    wrong = data.labels > 1.0
    if (row := checks.first_true(wrong)) is not None:
        raise DataError(
            f"labels[{row}] is {float(data.labels[row]):g}: with {what}, labels are clicks, 0 or 1, or clicks out of "
            "impressions."
        )
    return positions


def weighed(data: RankingData, bias: Any, *, regresses: bool) -> RankingData:
    """The log with the weights that a bias gives its rows; see the table above. None changes nothing."""
    if bias is None:
        return data
    positions = positions_of(data)
    slope, offset = as_propensities(bias).at(positions)
    clicks = data.labels
    if regresses:
        return _with(data, slope, clicks)
    if ((clicks == 0.0) | (clicks == 1.0)).all():
        weights = np.where(clicks > 0.0, (1.0 - offset) / slope, 1.0 + offset / slope)
        return _with(data, weights, clicks)
    return _with(data, slope, np.maximum((clicks - offset) / slope, 0.0))


def _with(data: RankingData, weights: Floats, labels: Floats) -> RankingData:
    """The data with other labels, and weights that multiply theirs; as they are where nothing changes."""
    judgments = data.judgments
    changes: dict[str, Any] = {}
    if (weights != 1.0).any():
        changes["row_weights"] = checks.read_only(weights * judgments.row_weights_or_ones)
    if labels is not data.labels and (labels != data.labels).any():
        changes["labels"] = checks.read_only(labels)
    if not changes:
        return data
    return RankingData.from_judgments(
        data.features,
        judgments.with_weights(**changes),
        data.feature_names,
        data.categorical,
    )


def targets_of(data: RankingData, bias: Any) -> Floats | None:
    """The relevance that the click of each row stands for, on average; None without a bias."""
    if bias is None:
        return None
    slope, offset = as_propensities(bias).at(positions_of(data))
    targets: Floats = (data.labels - offset) / slope
    return targets


# Pairs.


@dataclass(frozen=True, eq=False)
class CorrectedPairs(LambdaRank):
    """LambdaRank's pairs of a click log, with gains corrected by a known bias.

    What scales the gradients of a list (``normalise``) is that of the clicks as they are: a list whose click counts
    more is not scaled back for it.
    """

    bias: Propensities | None = None

    def gradients(self, scores: Floats, ranking: Rows | None = None) -> tuple[Floats, Floats]:
        """Gradient (minus lambda) and hessian of each row."""
        ones = checks.read_only(np.ones(self._worth.size))
        lambdas, hessians, _ = self._add_up(scores, ranking, self._corrected, ones, ones)
        return self._of_rows(-lambdas), self._of_rows(hessians)

    @lazy
    def _corrected(self) -> Floats:
        """The worth of each document, as it is on average over clicks: (worth - offset · unit) / slope."""
        if self.bias is None:
            return self._worth
        slope, offset = self.bias.at(self._by_position(positions_of(self.data)))  # type: ignore[arg-type]
        return checks.read_only((self._worth - offset * self._unit) / slope)

    @lazy
    def _unit(self) -> Floats:
        """The worth of a document that is clicked for certain, in the list of each document."""
        labels = self._lists.labels
        is_clicked = labels > 0.0
        share = self._worth / np.where(is_clicked, self._gains(labels), 1.0)
        sizes = np.diff(self._lists.offsets)
        filled = sizes > 0
        of_list = np.zeros(sizes.size)
        found = np.where(is_clicked, share, 0.0)
        of_list[filled] = np.maximum.reduceat(found, self._lists.offsets[:-1][filled])
        return np.repeat(of_list, sizes)

    def _gains(self, labels: Floats) -> Floats:
        """Gains relative to that of label 1."""
        if self._measure.name != "ndcg":
            return np.ones(labels.size)
        gain = rule(self._measure["gain"])
        ones = checks.read_only(np.ones(labels.size))
        one = dataclasses.replace(self._lists, labels=ones)
        gains: Floats = gain.of_labels(self._lists) / gain.of_labels(one)
        return np.where(gains > 0.0, gains, 1.0)

    def _by_position(self, values: Array) -> Array:
        """Values of rows in the grouped order."""
        rows = self._lists.rows
        return values if rows is None else values[rows]

    def _add_up(
        self, scores: Floats, ranking: Rows | None, corrected: Floats, up: Floats, down: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Lambdas, hessians, and the costs of each document as the better and as the worse one of its pairs."""
        scores = checks.vector("scores", scores, self._n_rows)
        lists = self._lists
        in_order = checks.read_only(self._by_position(scores))
        lambdas, hessians = np.empty_like(in_order), np.empty_like(in_order)
        costs = np.zeros((2, in_order.size))
        if ranking is None:
            ranking = order(in_order, lists.offsets, self.n_threads).order
        log = ClickedLists(in_order, self._worth, corrected, up, down)
        run_blocks(
            lambdas_of_lists,
            self._edges[0].size - 1,
            *self._edges,
            lists.offsets,
            ranking,
            log,
            self._discounts,
            self._rules,
            lambdas,
            hessians,
            costs,
            n_threads=self.n_threads,
            least=self._least_blocks,
        )
        return lambdas, hessians, costs


class LearnsPositions:
    """The base of losses that learn a bias beside the trees; ``estimates`` has it after each round.

    Attributes
    ----------
    learned
        One list per round: a number for each position of ``known``.
    known
        The positions that the log has, ascending.
    """

    learned: list[Floats]
    known: Array

    @property
    def estimates(self) -> list[list[float]]:
        """The estimate of each round."""
        return [values.tolist() for values in self.learned]


@dataclass(frozen=True, eq=False)
class JointPairs(CorrectedPairs, LearnsPositions):
    """Pairs of a click log, weighed by ratios that are estimated in every round (Hu et al. 2019).

    A pair of a clicked document at position i and another at j weighs 1 / (t⁺_i · t⁻_j). After a round::

        t⁺_i = (cost⁺_i / cost⁺_1) ^ (1 / (1 + p)),   cost⁺_i = Σ |ΔZ| · log(1 + e^(s_worse - s_better)) / t⁻_j

    over the pairs whose clicked document stood at i, and t⁻ likewise; p = 1. They begin at 1.
    """

    learned: list[Floats] = field(default_factory=list)
    _ratios: dict[str, Floats] = field(default_factory=dict, repr=False)

    @lazy
    def known(self) -> Array:
        """The positions that the log has."""
        return np.unique(positions_of(self.data))  # type: ignore[arg-type]

    @lazy
    def _place(self) -> Array:
        """The number of each document's position among those known, in the grouped order."""
        positions = self._by_position(positions_of(self.data))  # type: ignore[arg-type]
        return np.searchsorted(self.known, positions)

    def gradients(self, scores: Floats, ranking: Rows | None = None) -> tuple[Floats, Floats]:
        """Gradient and hessian of each row at the present ratios, which are then estimated anew."""
        ones = np.ones(self.known.size)
        above, below = self._ratios.get("up", ones), self._ratios.get("down", ones)
        up, down = (checks.read_only(1.0 / ratio[self._place]) for ratio in (above, below))
        lambdas, hessians, costs = self._add_up(scores, ranking, self._corrected, up, down)
        self._ratios["up"] = self._ratio(costs[0], above)
        self._ratios["down"] = self._ratio(costs[1], below)
        self.learned.append(self._ratios["up"])
        return self._of_rows(-lambdas), self._of_rows(hessians)

    def _ratio(self, costs: Floats, before: Floats) -> Floats:
        """The ratio of each position by its share of the costs; those without pairs keep theirs."""
        sums = exact_bincount(self._place, checks.read_only(costs), self.known.size)
        if sums[0] <= 0.0:
            return before
        ratio = (sums / sums[0]) ** (1.0 / (1.0 + _REGULARITY))
        return np.where(sums > 0.0, np.maximum(ratio, _LEAST_RATIO), before)


@dataclass(frozen=True, eq=False)
class AdditivePositions(LambdaRank, LearnsPositions):
    """LambdaRank at scores to which one per position is added, learned by a Newton step per round (LightGBM's way).

    ``learning_rate`` is what is taken of each step. The trees' scores alone are the model.
    """

    learning_rate: float = 0.1
    learned: list[Floats] = field(default_factory=list)

    @lazy
    def known(self) -> Array:
        """The positions that the log has."""
        return np.unique(positions_of(self.data))  # type: ignore[arg-type]

    @lazy
    def _place(self) -> Array:
        """The number of each row's position among those known."""
        return np.searchsorted(self.known, positions_of(self.data))  # type: ignore[arg-type]

    def gradients(self, scores: Floats, ranking: Rows | None = None) -> tuple[Floats, Floats]:
        """Gradient and hessian of each row with the present scores of positions, which are then moved on."""
        added = self.learned[-1] if self.learned else np.zeros(self.known.size)
        if added.any():
            scores, ranking = scores + added[self._place], None
        gradient, hessian = super().gradients(scores, ranking)
        slopes = exact_bincount(self._place, checks.read_only(gradient), self.known.size)
        curves = exact_bincount(self._place, checks.read_only(hessian), self.known.size)
        self.learned.append(added - self.learning_rate * slopes / (curves + _DAMPING))
        return gradient, hessian


# Kernels.


class ClickedLists(NamedTuple):
    """Documents in the grouped order."""

    scores: Array
    worth: Array  # by the clicks as they are
    corrected: Array  # by the clicks as they count
    up: Array  # what a pair counts by its better document
    down: Array  # and by its worse one


class ListSpace(NamedTuple):
    """One list in the order of its ranking; as long as the longest one."""

    scores: Array
    powers: Array  # e^(sigma · score)
    worth: Array
    corrected: Array
    up: Array
    down: Array
    upper: Array
    lower: Array
    pairs: Array  # of the current document with those below it
    curves: Array
    plain: Array  # the pairs by the clicks as they are
    lambdas: Array
    hessians: Array
    costs: Array  # 2 × documents: as the better one, as the worse one


@kernel
def lambdas_of_lists(
    first: int,
    last: int,
    edges: Array,
    offsets: Array,
    order: Array,
    log: ClickedLists,
    discounts: Array,
    rules: PairRules,
    lambdas: Array,
    hessians: Array,
    costs: Array,
) -> None:
    """Lambda, hessian and costs of every position of the blocks ``first`` to ``last``."""
    longest = 0
    for query in range(edges[first], edges[last]):
        longest = max(longest, offsets[query + 1] - offsets[query])
    rows = np.empty((13, longest), np.float64)
    space = ListSpace(
        rows[0],
        rows[1],
        rows[2],
        rows[3],
        rows[4],
        rows[5],
        rows[6],
        rows[7],
        rows[8],
        rows[9],
        rows[10],
        rows[11],
        rows[12],
        np.empty((2, longest), np.float64),
    )
    for query in range(edges[first], edges[last]):
        begin = offsets[query]
        size = offsets[query + 1] - begin
        total = 0.0
        if take_list(begin, order[begin : begin + size], log, rules, space):
            total = lambdas_of_list(size, discounts, rules, space)
        factor = rules.sigma
        if rules.normalise and total > 0.0:
            total *= 2.0 * rules.sigma
            factor *= np.log2(1.0 + total) / total
        for rank in range(size):
            position = order[begin + rank]
            lambdas[position] = factor * space.lambdas[rank]
            hessians[position] = factor * rules.sigma * space.hessians[rank]
            costs[0, position] = space.costs[0, rank]
            costs[1, position] = space.costs[1, rank]


@kernel
def take_list(
    begin: int, order: Array, log: ClickedLists, rules: PairRules, space: ListSpace
) -> bool:
    """Copy a list into ``space`` in the order of its ranking; False where all documents are worth the same."""
    if order.size == 0:
        return False
    top = log.scores[order[0]]
    middle = top + (log.scores[order[order.size - 1]] - top) / 2.0
    is_flat = True
    for rank in range(order.size):
        position = order[rank]
        score = log.scores[position]
        space.scores[rank] = score
        space.worth[rank] = log.worth[position]
        space.corrected[rank] = log.corrected[position]
        space.up[rank] = log.up[position]
        space.down[rank] = log.down[position]
        is_flat &= log.corrected[position] == log.corrected[begin]
        exponent = rules.sigma * (score - middle)
        space.powers[rank] = np.exp(min(max(exponent, -STEEPEST), STEEPEST))
        space.lambdas[rank] = 0.0
        space.hessians[rank] = 0.0
        space.costs[0, rank] = 0.0
        space.costs[1, rank] = 0.0
    return not is_flat


@kernel
def lambdas_of_list(size: int, discounts: Array, rules: PairRules, space: ListSpace) -> float:
    """Add up the pairs of one list, without sigma; gives the sum of their lambdas by the clicks as they are."""
    if rules.kind == NDCG:
        count_discounts(size, discounts, space.upper, space.lower)
    elif rules.kind == MAP:
        count_precisions(size, rules.cutoff, space.worth, space.upper, space.lower)
    elif rules.kind == MRR:
        count_firsts(size, rules.cutoff, space.worth, space.upper, space.lower)
    is_divided = rules.normalise and space.scores[0] != space.scores[size - 1]
    total = 0.0
    reading = 1.0
    for rank in range(min(size - 1, rules.truncation)):
        if rules.kind == ERR:
            space.upper[rank] = reading / (rank + 1)
            count_readers(rank, size, rules.cutoff, reading, space.worth, space.lower)
            reading *= 1.0 - space.worth[rank]
        weigh_clicks(rank, size, is_divided, space)
        pairs, curves = space.pairs[rank + 1 : size], space.curves[rank + 1 : size]
        own_lambda, own_hessian, _ = sums_of(pairs, curves)
        _, _, own_total = sums_of(space.plain[rank + 1 : size], curves)
        space.lambdas[rank] += own_lambda
        space.hessians[rank] += own_hessian
        total += own_total
    return total


@kernel
def weigh_clicks(rank: int, size: int, is_divided: bool, space: ListSpace) -> None:
    """Add the document at ``rank`` to those below it, and write what each of these pairs adds to itself."""
    offset = DISTANCE if is_divided else 1.0
    scale = 1.0 if is_divided else 0.0
    power = space.powers[rank]
    for below in range(rank + 1, size):
        other = space.powers[below]
        gap = space.corrected[rank] - space.corrected[below]
        drop = space.upper[rank] - space.lower[below]
        apart = offset + scale * (space.scores[rank] - space.scores[below])
        inverse = 1.0 / ((power + other) * apart)
        better, worse = (power, other) if gap > 0.0 else (other, power)
        weight = (
            space.up[rank] * space.down[below] if gap > 0.0 else space.up[below] * space.down[rank]
        )
        pair = gap * drop * worse * inverse * weight
        curve = abs(pair) * better * inverse * apart
        space.pairs[below] = pair
        space.curves[below] = curve
        space.lambdas[below] -= pair
        space.hessians[below] += curve
        plain = space.worth[rank] - space.worth[below]
        space.plain[below] = plain * drop * (other if plain > 0.0 else power) * inverse
        cost = abs(gap * drop) * np.log1p(worse / better)
        high, low = (rank, below) if gap > 0.0 else (below, rank)
        space.costs[0, high] += cost * space.down[low]
        space.costs[1, low] += cost * space.up[high]
