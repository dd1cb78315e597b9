"""The weights of a blend, learned from held-out scores: least squares or a search, and how scores are scaled.

Everything here works on a ``HeldOut``: the scores that several models give to documents that they have not seen, and
what is known of these documents. All sums over rows are exact, so that results depend neither on threads nor on order.

Terms
    part     one of the models; a column of the scores
    unit     a part's score minus its centre, divided by its spread
    share    the weight of a part; shares are 0 or more and sum to 1
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from rankwood._core.sums import exact_bincount, exact_mean, exact_products, exact_sum
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError
from rankwood.measures.compute import RepeatedMeasure
from rankwood.measures.measure import Measure
from rankwood.training.inputs import rows_that_count, weights_of_rows

Judge = Callable[[Floats], float]  # of the scores of all rows; the greater, the better
Value = Callable[[Floats], float]  # of the shares of all parts; the greater, the better

STEPS = (16, 8, 4, 2, 1)  # what the search moves at once, in grains
GRAINS = 2 * STEPS[0]  # that each part has where all have the same share
_RIDGE = 1e-9  # of the mean of the diagonal: parts that are equal get equal shares
_LEAST_RISE = 1e-12  # of the measure, for a step of the search


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Documents with the scores that each part gives them without having seen them."""

    data: RankingData
    scores: Floats  # rows × parts

    @classmethod
    def of(cls, data: RankingData, scores: Floats) -> HeldOut | None:
        """The rows that count and have a score by every part; None where there is no such row."""
        is_known = ~np.isnan(scores).any(axis=1)
        present = rows_that_count(weights_of_rows(data))
        if present is not None:
            is_known &= present
        if not is_known.any():
            return None
        if is_known.all():
            return cls(data, scores)
        return cls(data.take_rows(is_known), scores[is_known])

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return int(self.scores.shape[1])

    @property
    def group_of_row(self) -> Rows:
        """The query of each row; without query ids, all rows are one group."""
        if self.data.query_ids is None:
            return np.zeros(self.data.n_documents, np.int64)
        return self.data.query_of_row

    def row_weights(self) -> Floats:
        """The weight of each row times that of its query; their mean is 1."""
        weights = weights_of_rows(self.data)
        if weights is None:
            return np.ones(self.data.n_documents)
        scaled: Floats = weights / exact_mean(weights)
        return scaled

    def scaled(self, scaling: str | None) -> tuple[Floats, Floats]:
        """Centres and spreads of the parts.

        The centre is the mean over all rows. The spread is the standard deviation within queries ("query"), or over
        all rows ("all"). A part that gives all rows one score has the spread 1. None leaves scores as they are.
        """
        if scaling is None:
            return np.zeros(self.n_parts), np.ones(self.n_parts)
        weights = self.row_weights()
        everything = np.zeros(len(self.scores), np.int64)
        groups = self.group_of_row if scaling == "query" else everything
        centres, spreads = np.zeros(self.n_parts), np.ones(self.n_parts)
        for part, column in enumerate(self.scores.T):
            centres[part] = exact_mean(column, weights)
            deviations = centred(column, groups, weights)
            spread = math.sqrt(exact_mean(deviations**2, weights))
            if spread > 1e-12 * float(np.abs(column).max()):  # else it is rounding
                spreads[part] = spread
        return centres, spreads

    def judge(self, measure: Measure, n_threads: int | None) -> Judge:
        """The function that gives the measure of scores; without query ids, their correlation with the labels."""
        if self.data.query_ids is None:
            return self._correlation
        repeated = RepeatedMeasure.of(measure, self.data, n_threads)
        return lambda scores: repeated.value(np.ascontiguousarray(scores))

    def _correlation(self, scores: Floats) -> float:
        groups, weights = self.group_of_row, self.row_weights()
        labels = centred(self.data.labels, groups, weights)
        scores = centred(scores, groups, weights)
        size = exact_sum(scores**2, weights) * exact_sum(labels**2, weights)
        return exact_sum(scores * labels, weights) / size**0.5 if size > 0 else 0.0


def blended(units: Floats, shares: Floats) -> Floats:
    """Σ share · unit of each row, added in the order of the parts."""
    total: Floats = np.zeros(len(units))
    for part, share in enumerate(shares.tolist()):
        if share:
            total += share * units[:, part]
    return total


def centred(values: Floats, group_of_row: Array, weights: Floats) -> Floats:
    """Values minus the weighted mean of their group."""
    n_groups = int(group_of_row.max(initial=-1)) + 1
    sums = exact_bincount(group_of_row, weights * values, n_groups)
    masses = exact_bincount(group_of_row, weights, n_groups)
    means = np.divide(sums, masses, out=np.zeros_like(sums), where=masses > 0)
    deviations: Floats = values - means[group_of_row]
    return deviations


def least_squares_shares(held_out: HeldOut, units: Floats) -> Floats:
    """The non-negative weights that fit the labels best, as shares: stacking (Breiman 1996).

    Labels and units are taken as deviations from the mean of their query, since a constant that a query's documents
    share does not change their order. Equal shares where no part has anything to do with the labels.
    """
    groups, weights = held_out.group_of_row, held_out.row_weights()
    labels = centred(held_out.data.labels, groups, weights)
    columns = np.stack([centred(column, groups, weights) for column in units.T], axis=1)
    weighted = columns * weights[:, np.newaxis]
    gram = exact_products(weighted, columns)
    moments = exact_products(weighted, labels[:, np.newaxis])[:, 0]
    return _shares(non_negative_solution(gram, moments))


def non_negative_solution(gram: Floats, moments: Floats) -> Floats:
    """The vector w ≥ 0 that minimises wᵀ G w - 2 wᵀ m, for a symmetric G without negative eigenvalues."""
    n_parts = moments.size
    scale = float(np.trace(gram)) / n_parts
    if scale <= 0:
        return np.zeros(n_parts)
    # A root R of G, G = Rᵀ R, turns it into a problem of least squares: |R w - R⁻ᵀ m|².
    values, vectors = np.linalg.eigh(gram / scale + _RIDGE * np.eye(n_parts))
    roots = np.sqrt(np.maximum(values, _RIDGE))
    solution, _ = nnls(roots[:, np.newaxis] * vectors.T, (vectors.T @ (moments / scale)) / roots)
    return np.asarray(solution, np.float64)


def search_shares(value: Value, n_parts: int) -> Floats:
    """The shares that a search finds best for a measure; never worse than equal shares or any single part.

    The search starts from equal shares, or from the best part where that is better. A move takes grains from one part
    and gives them to another; the best of all moves is made as long as one improves the measure. Then the moves get
    smaller. Of moves that are equally good, the first is made, by giver and then by taker.
    """
    total = GRAINS * n_parts

    def judge(grains: Array) -> float:
        result = value(grains / total)
        return result if np.isfinite(result) else -np.inf

    grains = np.full(n_parts, GRAINS)
    best = judge(grains)
    for corner in total * np.eye(n_parts, dtype=np.int64):
        grains, best = _better(grains, best, corner, judge(corner))
    for step in STEPS:
        moved = True
        while moved:
            start, moved = grains, False
            for giver in np.flatnonzero(start).tolist():
                for taker in range(n_parts):
                    if taker != giver:
                        neighbour = _move(start, giver, taker, step)
                        reached = judge(neighbour)
                        moved |= reached > best + _LEAST_RISE
                        grains, best = _better(grains, best, neighbour, reached)
    return grains / total


def _better(grains: Array, best: float, other: Array, reached: float) -> tuple[Array, float]:
    return (other, reached) if reached > best + _LEAST_RISE else (grains, best)


def _move(grains: Array, giver: int, taker: int, step: int) -> Array:
    """The grains after a move; a part gives no more than it has."""
    moved = grains.copy()
    n_moved = min(step, int(grains[giver]))
    moved[giver] -= n_moved
    moved[taker] += n_moved
    return moved


def _shares(weights: Floats) -> Floats:
    """Weights as shares of their sum; equal ones where all are 0."""
    total = float(weights.sum())
    return weights / total if total > 0 else equal_shares(weights.size)


def equal_shares(n_parts: int) -> Floats:
    """The same share for each part."""
    return np.full(n_parts, 1.0 / n_parts)


def squared_errors(held_out: HeldOut, units: Floats) -> Floats:
    """How far each part errs on each row, in units of the mean over all rows and parts: rows × parts.

    A part's error is the squared distance of the label from the straight line that fits labels to its scores best.
    """
    weights, labels = held_out.row_weights(), held_out.data.labels
    everything = np.zeros(labels.size, np.int64)
    residues = np.empty_like(units)
    target = centred(labels, everything, weights)
    for part, column in enumerate(units.T):
        unit = centred(column, everything, weights)
        size = exact_sum(unit**2, weights)
        slope = exact_sum(unit * target, weights) / size if size > 0 else 0.0
        residues[:, part] = (target - slope * unit) ** 2
    all_weight = exact_sum(weights) * units.shape[1]
    mean = exact_sum(weights[:, np.newaxis] * residues) / all_weight
    if not np.isfinite(mean):
        raise DataError("labels are too large for their squared errors to be learned.")
    return residues / mean if mean > 0 else np.ones_like(residues)
