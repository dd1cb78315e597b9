"""What a network is trained on: standardised features, gains, and batches of whole queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rankwood import _random
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Features, Floats, Rows
from rankwood.losses.ndcg_loss2 import gains_over_ideal
from rankwood.models.neural import refuse_infinite, signed_logarithm, standardise

_SKEWED = 1.0  # the skewness of an exponential distribution is 2, of a normal one 0
_PAIRS_AT_ONCE = 4_000_000  # cells of lists × places × places in memory: 16 MB per array


@dataclass(frozen=True, eq=False)
class Standards:
    """Mean and standard deviation of each feature, and whether its logarithm is taken first."""

    centre: Floats
    spread: Floats
    is_skewed: Array

    @classmethod
    def of(cls, features: Features, weights: Floats | None) -> Standards:
        """The standards of rows that weigh so much; missing values and rows without weight count nowhere."""
        n_features = features.shape[1]
        found = cls(np.zeros(n_features), np.zeros(n_features), np.zeros(n_features, np.uint8))
        of_rows = np.ones(len(features)) if weights is None else weights
        refuse_infinite(features[of_rows > 0])
        for feature in range(n_features):
            column = features[:, feature].astype(np.float64)
            counts = ~np.isnan(column) & (of_rows > 0)
            values, weight = column[counts], of_rows[counts]
            if values.size == 0 or values.min() == values.max():
                found.centre[feature] = values[0] if values.size else 0.0
                continue
            plain, logarithm = (
                _moments(each, weight) for each in (values, signed_logarithm(values))
            )
            takes_logarithm = abs(plain[2]) > max(_SKEWED, abs(logarithm[2]))
            found.is_skewed[feature] = takes_logarithm
            found.centre[feature], found.spread[feature], _ = (
                logarithm if takes_logarithm else plain
            )
        return found

    def apply(self, features: Features) -> Features:
        """The features as the network sees them."""
        return standardise(features, self.centre, self.spread, self.is_skewed)


def _moments(values: Floats, weights: Floats) -> tuple[float, float, float]:
    """Mean, standard deviation and skewness."""
    centre = float(np.average(values, weights=weights))
    spread = float(np.sqrt(np.average((values - centre) ** 2, weights=weights)))
    if spread == 0.0:
        return centre, 0.0, 0.0
    return centre, spread, float(np.average(((values - centre) / spread) ** 3, weights=weights))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some lists of a batch, padded to the longest of them.

    ``rows`` are rows of the data; ``places`` say where each goes among the lists × longest places.
    """

    rows: Rows
    places: Rows
    n_lists: int
    longest: int
    weights: Floats  # of lists


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists to learn from: queries that have pairs and a weight."""

    features: Features  # standardised, in the order of the data's rows
    gains: Floats
    row_weights: Floats | None
    lists: tuple[Rows, ...]  # the rows of each
    weights: Floats  # of lists

    @classmethod
    def of(cls, data: RankingData, standards: Standards) -> Lists:
        """The lists of ``data``; rows without weight are no part of them."""
        gains = np.zeros(data.n_documents)
        of_place = gains_over_ideal(
            np.ascontiguousarray(data.labels[data.row_order]), data.query_offsets
        )
        gains[data.row_order] = of_place
        weights = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
        lists, of_lists = [], []
        for number, (_, rows) in enumerate(data.iter_queries()):
            counted = rows if data.row_weights is None else rows[data.row_weights[rows] > 0]
            has_pairs = counted.size > 1 and np.ptp(gains[counted]) > 0
            if has_pairs and weights[number] > 0:
                lists.append(counted)
                of_lists.append(weights[number])
        features = standards.apply(data.features)
        return cls(features, gains, data.row_weights, tuple(lists), np.array(of_lists))

    def batches(
        self, epoch: int, batch_size: int, max_list: int, seed: int
    ) -> Iterator[list[Chunk]]:
        """The lists in an order drawn for the epoch, ``batch_size`` at a time, as chunks that fit in memory.

        Of a list longer than ``max_list`` so many documents are drawn, others in each epoch.
        """
        generator = _random.stream(seed, "epoch", epoch)
        order = generator.permutation(len(self.lists))
        for first in range(0, order.size, batch_size):
            numbers = order[first : first + batch_size]
            drawn = [_at_most(self.lists[number], max_list, generator) for number in numbers]
            by_length = sorted(range(numbers.size), key=lambda place: drawn[place].size)
            yield [
                _chunk([drawn[place] for place in part], self.weights[numbers[part]])
                for part in _parts([drawn[place].size for place in by_length], by_length)
            ]


def _at_most(rows: Rows, most: int, generator: np.random.Generator) -> Rows:
    return rows if rows.size <= most else np.sort(generator.choice(rows, most, replace=False))


def _parts(lengths: list[int], lists: list[int]) -> Iterator[list[int]]:
    """Lists by ascending length, cut where the next one would make the pairs too many."""
    part: list[int] = []
    for length, each in zip(lengths, lists, strict=True):
        if part and (len(part) + 1) * length**2 > _PAIRS_AT_ONCE:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _chunk(lists: list[Rows], weights: Floats) -> Chunk:
    longest = max(rows.size for rows in lists)
    places = [np.arange(rows.size) + number * longest for number, rows in enumerate(lists)]
    return Chunk(np.concatenate(lists), np.concatenate(places), len(lists), longest, weights)
