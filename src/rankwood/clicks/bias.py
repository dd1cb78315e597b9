"""``position_bias``: how much of a click is due to the position, estimated from a log.

All methods look at cells: a document at a position, with impressions and clicks. Documents with one id are one;
without ids, each row is a document of its own.

auto
    ``harvest`` if every position has 25 or more clicks on documents that were seen at other positions too, else ``em``:
    what the first sees in the data the second takes from its model, which no collection fits exactly.
em
    Regression EM (Wang, Golbandi, Bendersky, Metzler & Najork 2018). A click needs a look, with chance θ_k, and a
    liking, with chance γ = f(features). Given both, the E step says how likely a document that was not clicked was
    liked; f, a forest or boosted trees, is fitted to that; θ is then the best for f, found by bisection, not by a step
    of EM, which is the faster form of EM (ECME, Liu & Rubin 1994).
harvest
    Intervention harvesting (Agarwal, Zaitsev, Wang, Li, Najork & Joachims 2019, AllPairs). Documents that were seen at
    two positions k and k' have the ratio θ_k : θ_k' of click rates. A document with n and n' impressions there counts
    n n' / (n + n') in both rates. The bias is the most likely one for all pairs of positions; clicks taken as Poisson
    counts make that the likelihood of Bradley and Terry's model. With ``trust`` the click rate of document d at
    position k is slope_k · γ_d + offset_k (Vardasbi et al. 2020), fitted to the same documents by alternating least
    squares; the scale and the zero of γ are not in the data: 1 and 0 are its highest and lowest hundredth. What is
    learned with a bias does not depend on them.
power
    θ_k = k^-η with the most likely η for the same pairs.

Intervals come from the bootstrap: lists are drawn again, or, where labels are clicks out of impressions, the clicks
of each cell. For ``em`` the relevance is held fixed, so intervals say how sure θ is given f.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from rankwood._core import checks, random
from rankwood._core.threads import lazy
from rankwood.binning.binned import BinnedData, bin_data
from rankwood.data.dataset import RankingData, group_rows
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ParameterError
from rankwood.evaluation.plots import PlotLine, line_plot
from rankwood.evaluation.results import Result, Tables
from rankwood.losses.position_bias import (
    CLIP,
    Propensities,
    as_propensities,
    positions_of,
    read_bias,
    write_bias,
)
from rankwood.rankers.boosted import GBRT
from rankwood.training.inputs import multiplied_weights

METHODS = ("auto", "em", "harvest", "power")
ENOUGH_CLICKS = 25  # at every position, of documents seen at others too: auto harvests
MOST_ROUNDS = 100  # of EM
_TOLERANCE = 1e-3  # of EM: it ends when no θ changes by a larger share
_LEAST, _MOST = 1e-4, 1.0 - 1e-4  # chances stay between
_MOST_LOOKS = 2.0  # θ is relative: above 1 where f stays below the relevance of the best documents
_HALVINGS = 40
_STEPS = 100  # of Newton
MOST_TURNS = 200  # of least squares
_CLOSE = 1e-6  # turns end when no slope changes by a larger share of the largest
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class PositionBias(Result):
    """The chance that a position is looked at, relative to the top, with what it was estimated from.

    Attributes
    ----------
    propensities
        What rankers use: slope and offset of each position, and ``clip``.
    low, high
        The ends of the bootstrap intervals of ``examination``; None for given values.
    method
        How it was estimated: "em", "harvest", "power" or "given".
    eta
        Of "power": the exponent.
    counts
        Sessions (lists), documents, clicks and the share of impressions that were clicked.
    """

    propensities: Propensities
    method: str
    counts: dict[str, Any]
    low: Floats | None = None
    high: Floats | None = None
    level: float = 0.95
    eta: float | None = None

    @property
    def positions(self) -> Array:
        """The positions, ascending."""
        return self.propensities.positions

    @property
    def examination(self) -> Floats:
        """The chance that each position is looked at relative to the top; with trust bias, the relative slopes."""
        relative: Floats = self.propensities.slope / self.propensities.slope[0]
        return relative

    def with_clip(self, clip: float) -> PositionBias:
        """The same bias with another limit on what a click may count."""
        clip = checks.real_number("clip", clip, "[1, inf)")
        return dataclasses.replace(
            self, propensities=dataclasses.replace(self.propensities, clip=clip)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON."""
        return {
            **self.propensities.to_dict(),
            "method": self.method,
            "examination": self.examination.tolist(),
            "low": None if self.low is None else self.low.tolist(),
            "high": None if self.high is None else self.high.tolist(),
            "level": self.level,
            "eta": self.eta,
            "counts": self.counts,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bias as JSON; ``load`` and the parameter ``position_bias`` of rankers take the file."""
        write_bias(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A bias that ``save`` has written."""
        content = read_bias(path)
        ends = [content.get(name) for name in ("low", "high")]
        low, high = (None if end is None else np.asarray(end, np.float64) for end in ends)
        return cls(
            as_propensities(content),
            str(content.get("method", "given")),
            dict(content.get("counts") or {}),
            low,
            high,
            float(content.get("level", 0.95)),
            content.get("eta"),
        )

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the examination by position, with its intervals."""
        line = PlotLine(self.positions, self.examination, low=self.low, high=self.high)
        label = self.method if self.eta is None else f"position^-{self.eta:.2f}"
        line_plot(path, {label: line}, "position", "examination, relative to the top")

    def _tables(self) -> Tables:
        return {"": [self._row(number) for number in range(self.positions.size)]}

    def _row(self, number: int) -> dict[str, str]:
        row = {
            "position": str(int(self.positions[number])),
            "examination": f"{self.examination[number]:.4f}",
        }
        if self.low is not None and self.high is not None:
            row[f"{self.level:.0%} interval"] = f"{self.low[number]:.4f} – {self.high[number]:.4f}"
        if self.propensities.has_trust:
            row["slope"] = f"{self.propensities.slope[number]:.4f}"
            row["offset"] = f"{self.propensities.offset[number]:.4f}"
        return row

    def _footnotes(self) -> list[str]:
        if not self.counts:
            return ["given values"]
        counts = self.counts
        eta = "" if self.eta is None else f", η = {self.eta:.3f}"
        return [
            f"{self.method}{eta}: {counts['lists']:,} lists, {counts['documents']:,} documents, "
            f"{counts['clicks']:,.0f} clicks on {counts['impressions']:,.0f} impressions"
        ]

    def _records(self) -> Iterator[Mapping[str, Any]]:
        for number in range(self.positions.size):
            yield {
                "position": int(self.positions[number]),
                "examination": float(self.examination[number]),
                "low": "" if self.low is None else float(self.low[number]),
                "high": "" if self.high is None else float(self.high[number]),
                "slope": float(self.propensities.slope[number]),
                "offset": float(self.propensities.offset[number]),
            }


def position_bias(
    data: RankingData | None,
    method: Any = "auto",
    *,
    trust: bool = False,
    ranker: Any = None,
    clip: float | None = None,
    n_bootstrap: int = 100,
    level: float = 0.95,
    seed: int = 0,
) -> PositionBias:
    """The chance that a position is looked at, relative to the top of the list.

    Parameters
    ----------
    data
        A click log: labels are clicks (0 or 1, or clicks out of impressions with these as row weights), positions those
        of the lists that were shown. Document ids join the same document of the same query over lists. None for given
        values.
    method
        "harvest" compares documents that were seen at several positions; "em" fits a relevance model to all documents;
        "power" is ``position ** -eta``; "auto" harvests where every position has 25 or more clicks on documents seen at
        others too, and takes "em" elsewhere. Or the values themselves: a list from position 1 on, or a mapping from
        positions, which are taken as they are.
    trust
        Whether documents are also clicked for their position alone; ``harvest`` estimates that too.
    ranker
        The relevance model of ``em``: a forest or ``GBRT``; by default
        ``GBRT(60, 31, 0.3, min_leaf=3, features_per_node=None)``.
    clip
        The most that a click counts where rankers learn with the bias: 100 by default, and what a bias that is passed
        as ``method`` already has.
    n_bootstrap, level
        Samples and level of the intervals; 0 leaves them out.

    A log without clicks, with clicks on everything or with one position has no bias to be estimated: an error says
    so. One list has one: it is what its clicks say.

    Examples
    --------
    >>> position_bias(None, [1, 0.5, 0.25]).examination.tolist()
    [1.0, 0.5, 0.25]
    """
    if not isinstance(method, str):
        is_bias = isinstance(method, Propensities | PositionBias)
        given = as_propensities(method) if is_bias else Propensities.of(method)
        found = PositionBias(given, "given", {})
        return found if clip is None else found.with_clip(clip)
    checks.one_of("method", method, METHODS)
    if trust and method not in ("auto", "harvest"):
        raise ParameterError(
            f"trust=True needs method='harvest', got '{method}': only documents at several positions tell clicks "
            "for the position from clicks for the document."
        )
    if ranker is not None and (trust or method not in ("auto", "em")):
        raise ParameterError(f"ranker is the relevance model of method='em', got '{method}'.")
    n_bootstrap = checks.whole_number("n_bootstrap", n_bootstrap, 0)
    level = checks.real_number("level", level, "(0, 1)")
    clip = checks.real_number("clip", CLIP if clip is None else clip, "[1, inf)")
    if data is None:
        raise ParameterError(f"method='{method}' estimates from a log: pass one as data.")
    cells = Cells.of(data)
    if method == "auto":
        is_model = ranker is not None or not (trust or _can_harvest(cells))
        method = "em" if is_model else "harvest"
    estimate: Any = _Harvest(cells, method)
    if method == "em":
        estimate = _Regression(cells, ranker)
    elif trust:
        estimate = _Trust(cells)
    slope, offset = estimate.fit()
    bias = Propensities(cells.known, slope, offset, clip)
    low = high = None
    if n_bootstrap:
        drawn = [estimate.again(again) for again in cells.drawn(n_bootstrap, seed)]
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
    eta = getattr(estimate, "eta", None)
    return PositionBias(bias, method, cells.counts(), low, high, level, eta)


# Cells.


@dataclass(frozen=True, eq=False)
class Cells:
    """Documents at positions, with impressions and clicks; ``place`` is a number of ``known``."""

    data: RankingData
    known: Array
    document: Rows
    place: Rows
    shown: Floats
    clicked: Floats
    cell_of_row: Rows
    first_rows: Rows  # of each document

    @classmethod
    def of(cls, data: RankingData) -> Cells:
        """The cells of a log; one that says nothing about positions is refused."""
        positions = positions_of(data, "position_bias()")
        weights = _weights(data)
        _refuse_empty(data, positions, weights)
        known, place = np.unique(positions, return_inverse=True)
        if data.doc_ids is None:
            document, first_rows = np.arange(data.n_documents), np.arange(data.n_documents)
        else:
            groups = group_rows(data.doc_ids)
            document, first_rows = groups.query_of_row, groups.row_order[groups.offsets[:-1]]
        keys, cell_of_row = np.unique(document * known.size + place, return_inverse=True)
        shown = _sums(cell_of_row, weights, keys.size)
        clicked = _sums(cell_of_row, weights * data.labels, keys.size)
        return cls(
            data,
            known,
            keys // known.size,
            keys % known.size,
            shown,
            clicked,
            cell_of_row,
            first_rows,
        )

    @property
    def n_places(self) -> int:
        """Number of positions."""
        return int(self.known.size)

    def by_place(self, values: Floats) -> Floats:
        """Sums of values of cells by position."""
        return _sums(self.place, values, self.n_places)

    def by_document(self, values: Floats) -> Floats:
        """Sums of values of cells by document."""
        return _sums(self.document, values, self.first_rows.size)

    def counts(self) -> dict[str, Any]:
        """What the bias is estimated from."""
        return {
            "lists": self.data.n_queries,
            "documents": int(self.first_rows.size),
            "impressions": float(self.shown.sum()),
            "clicks": float(self.clicked.sum()),
        }

    def drawn(self, times: int, seed: int) -> Iterator[Cells]:
        """The cells of logs like this one: of lists drawn again, or of clicks drawn again in each cell."""
        weights, labels = _weights(self.data), self.data.labels
        are_clicks = ((labels == 0.0) | (labels == 1.0)).all()
        for number in range(times):
            generator = random.stream(seed, "bootstrap of clicks", number)
            if are_clicks:
                n_lists = self.data.n_queries
                drawn = np.bincount(generator.integers(n_lists, size=n_lists), minlength=n_lists)
                again = weights * drawn[self.data.query_of_row]
                shown = _sums(self.cell_of_row, again, self.shown.size)
                clicked = _sums(self.cell_of_row, again * labels, self.shown.size)
            else:
                shown = self.shown
                rate = self.clicked / np.maximum(shown, _TINY)
                throws = np.rint(shown).astype(np.int64)
                clicked = generator.binomial(throws, np.minimum(rate, 1.0)).astype(np.float64)
            yield dataclasses.replace(self, shown=shown, clicked=clicked)


def _sums(groups: Rows, values: Floats, n_groups: int) -> Floats:
    sums: Floats = np.bincount(groups, values, n_groups).astype(np.float64)
    return sums


def _weights(data: RankingData) -> Floats:
    weights = multiplied_weights(data)
    return np.ones(data.n_documents) if weights is None else weights


def _refuse_empty(data: RankingData, positions: Array, weights: Floats) -> None:
    """Raise for a log that no bias can be estimated from."""
    if data.n_documents == 0:
        raise DataError("the log has no rows.")
    clicks = float((weights * data.labels).sum())
    if clicks == 0.0:
        raise DataError("the log has no clicks: there is nothing to estimate a position bias from.")
    if clicks >= float(weights.sum()):
        raise DataError("everything in the log is clicked: clicks do not depend on positions.")
    if positions.min() == positions.max():
        raise DataError(
            f"all documents of the log stood at position {int(positions[0])}: a position bias needs two or more."
        )


# Regression EM.


class _Regression:
    """Looks θ and relevance γ from all cells, by EM with a regression."""

    def __init__(self, cells: Cells, ranker: Any) -> None:
        self._cells = cells
        if ranker is None:
            ranker = GBRT(60, 31, 0.3, min_leaf=3, features_per_node=None)
        self._ranker = clone(ranker)
        if not getattr(self._ranker, "_regresses", False):
            raise ParameterError(
                f"the relevance model must estimate labels, as forests and GBRT do, got {type(ranker).__name__}."
            )
        self._gamma = np.full(cells.shown.size, 0.5)

    def fit(self) -> tuple[Floats, Floats]:
        """The relative looks of each position; the offsets are 0."""
        cells = self._cells
        looks = self._start()
        for _ in range(MOST_ROUNDS):
            likely = cells.clicked + passed_likings(cells, self._gamma, looks[cells.place])
            self._gamma = self._regress(cells.by_document(likely) / self._shown)
            before, looks = looks, best_looks(cells, self._gamma)
            if np.abs(looks / before - 1.0).max() <= _TOLERANCE:
                break
        return looks / looks[0], np.zeros(looks.size)

    def _start(self) -> Floats:
        """Looks and relevance to begin with: those of documents at several positions, where there are enough."""
        cells = self._cells
        rate = cells.by_place(cells.clicked) / np.maximum(cells.by_place(cells.shown), _TINY)
        looks: Floats = np.sqrt(
            np.clip(rate / rate.max(), _LEAST, _MOST)
        )  # the best stood at the top
        wins = harvested(cells, pairs_of_cells(cells.document))
        if _is_linked(wins):
            looks = best_strengths(wins)
            looks = np.clip(looks, _LEAST, _MOST)
        seen = cells.by_document(cells.shown * looks[cells.place])
        gamma = cells.by_document(cells.clicked) / np.maximum(seen, _TINY)
        self._gamma = np.clip(gamma, 0.01, 0.99)[cells.document]
        return looks

    @lazy
    def _shown(self) -> Floats:
        """Impressions of each document."""
        return np.maximum(self._cells.by_document(self._cells.shown), _TINY)

    def _regress(self, targets: Floats) -> Floats:
        """What the model says of the relevance of each cell's document."""
        rows = self._rows
        labelled = dataclasses.replace(rows.data, labels=np.clip(targets, 0.0, 1.0))
        again = BinnedData(rows.codes, rows.bins, labelled)
        gamma = self._ranker.fit(again).predict(again)
        chances: Floats = np.clip(gamma, _LEAST, _MOST)[self._cells.document]
        return chances

    @lazy
    def _rows(self) -> BinnedData:
        """One row per document, binned once, with its impressions as weight."""
        first_rows = self._cells.first_rows
        rows = RankingData(
            self._cells.data.features[first_rows],
            np.zeros(first_rows.size),
            np.arange(first_rows.size),
            row_weights=self._shown,
        )
        return bin_data(rows, max_bins=self._ranker.max_bins)

    def again(self, cells: Cells) -> Floats:
        """The relative looks for other clicks, the relevance being held."""
        looks = best_looks(cells, self._gamma)
        relative: Floats = looks / looks[0]
        return relative


def passed_likings(cells: Cells, gamma: Floats, looks: Floats) -> Floats:
    """Of the impressions of each cell that were not clicked, those of liked documents on average: the E step."""
    unseen = np.maximum(1.0 - looks, 0.0)
    likely: Floats = (
        (cells.shown - cells.clicked) * gamma * unseen / (unseen + looks * (1.0 - gamma))
    )
    return likely


def best_looks(cells: Cells, gamma: Floats) -> Floats:
    """For each position the most likely θ, where P(click) = θ γ: the root of Σ clicks/θ = Σ passed · γ/(1 - θ γ)."""
    low, high = np.full(cells.n_places, _LEAST), np.full(cells.n_places, _MOST_LOOKS)
    passed = (cells.shown - cells.clicked) * gamma
    clicks = cells.by_place(cells.clicked)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        against = cells.by_place(passed / np.maximum(1.0 - middle[cells.place] * gamma, _LEAST))
        is_low = clicks > middle * against
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    looks: Floats = (low + high) / 2.0
    return looks


# Harvesting.


class _Harvest:
    """Looks from documents that were seen at two positions."""

    def __init__(self, cells: Cells, method: str) -> None:
        self._cells, self._method = cells, method
        self._pairs = pairs_of_cells(cells.document)
        self.eta: float | None = None

    def fit(self) -> tuple[Floats, Floats]:
        """Relative looks of each position; the offsets are 0."""
        cells = self._cells
        wins = harvested(cells, self._pairs)
        if not wins.any():
            raise DataError(
                "no document with a click was seen at two positions: there is nothing to harvest. Give document ids "
                "that join the same document of the same query over lists, or take method='em'."
            )
        if self._method == "power":
            self.eta = best_power(wins, cells.known)
            looks = cells.known.astype(np.float64) ** -self.eta
            return looks / looks[0], np.zeros(looks.size)
        _refuse_unlinked(wins, cells.known)
        return best_strengths(wins), np.zeros(cells.n_places)

    def again(self, cells: Cells) -> Floats:
        """The looks for other clicks."""
        wins = harvested(cells, self._pairs)
        if self._method == "power":
            looks = cells.known.astype(np.float64) ** -best_power(wins, cells.known)
            relative: Floats = looks / looks[0]
            return relative
        return best_strengths(wins)


def pairs_of_cells(document: Rows) -> tuple[Rows, Rows]:
    """All pairs of cells of the same document; cells are sorted by document."""
    lefts, rights = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for lag in range(1, document.size):
        left = np.flatnonzero(document[lag:] == document[:-lag])
        if left.size == 0:
            break
        lefts.append(left)
        rights.append(left + lag)
    return np.concatenate(lefts), np.concatenate(rights)


def harvested(cells: Cells, pairs: tuple[Rows, Rows]) -> Floats:
    """Weighted clicks at position k of documents that were also seen at k': positions × positions."""
    left, right = pairs
    both = cells.shown[left] + cells.shown[right]
    weight = cells.shown[left] * cells.shown[right] / np.maximum(both, _TINY)
    size = cells.n_places
    wins = np.zeros(size * size)
    for one, other in ((left, right), (right, left)):
        rates = cells.clicked[one] / np.maximum(cells.shown[one], _TINY)
        keys = cells.place[one] * size + cells.place[other]
        wins += _sums(keys, weight * rates, size * size)
    return wins.reshape(size, size)


def best_strengths(wins: Floats) -> Floats:
    """The most likely strengths of Bradley and Terry's model, relative to the first; by Newton's method."""
    both, total = wins + wins.T, wins.sum(axis=1)
    logs = np.zeros(len(wins))
    for _ in range(_STEPS):
        ahead = 1.0 / (1.0 + np.exp(logs[np.newaxis, :] - logs[:, np.newaxis]))
        slope = total - (both * ahead).sum(axis=1)
        curves = both * ahead * (1.0 - ahead)
        matrix = np.diag(curves.sum(axis=1) + 1e-9) - curves
        step = np.linalg.lstsq(matrix[1:, 1:], slope[1:], rcond=None)[0]
        step = np.clip(step, -1.0, 1.0)
        logs[1:] = np.clip(logs[1:] + step, np.log(_LEAST), -np.log(_LEAST))
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    strengths: Floats = np.exp(logs)
    return strengths


def best_power(wins: Floats, known: Array) -> float:
    """The η of k^-η that is most likely for the pairs; by bisection of the likelihood's slope."""
    distance = np.log(known[np.newaxis, :] / known[:, np.newaxis])  # of k' over k
    low, high = -10.0, 10.0
    for _ in range(2 * _HALVINGS):
        eta = (low + high) / 2.0
        slope = (wins * distance / (1.0 + np.exp(eta * distance))).sum()
        low, high = (eta, high) if slope > 0.0 else (low, eta)
    return (low + high) / 2.0


def _can_harvest(cells: Cells) -> bool:
    """Whether all positions have enough clicks on documents that stood elsewhere too."""
    wins = harvested(cells, pairs_of_cells(cells.document))
    return _is_linked(wins) and bool((wins.sum(axis=1) >= ENOUGH_CLICKS).all())


def _is_linked(wins: Floats) -> bool:
    """Whether every position has clicks, and shares documents with the first, directly or through others."""
    return not _lost(wins).any()


def _lost(wins: Floats) -> Array:
    """Which positions share no clicked documents with the first."""
    linked = np.zeros(len(wins), bool)
    linked[0] = True
    for _ in range(len(wins)):
        linked |= (wins + wins.T)[linked].any(axis=0)
    lost: Array = ~linked | (wins.sum(axis=1) == 0.0)
    return lost


def _refuse_unlinked(wins: Floats, known: Array) -> None:
    """Raise for a position that shares no clicked documents with the top, directly or through others."""
    lost = checks.first_true(_lost(wins))
    if lost is not None:
        raise DataError(
            f"position {int(known[lost])} shares no clicked documents with others: nothing can be "
            "harvested there. Cut the lists above it, add lists of other rankers, or take method='em'."
        )


class _Trust:
    """Slopes and offsets from documents that were seen at several positions."""

    def __init__(self, cells: Cells) -> None:
        _refuse_unlinked(harvested(cells, pairs_of_cells(cells.document)), cells.known)
        self._cells = cells

    def fit(self) -> tuple[Floats, Floats]:
        """Slope and offset of each position."""
        return affine(self._cells)

    def again(self, cells: Cells) -> Floats:
        """The relative slopes for other clicks."""
        slope, _ = affine(cells)
        relative: Floats = slope / slope[0]
        return relative


def affine(cells: Cells) -> tuple[Floats, Floats]:
    """Slope and offset of each position: rate ≈ slope · γ + offset by least squares, for γ and for both by turns.

    Cells weigh their impressions over the mean click rate of their position, which is about the inverse variance.
    """
    rate = cells.clicked / np.maximum(cells.shown, _TINY)
    of_place = cells.by_place(cells.clicked) / np.maximum(cells.by_place(cells.shown), _TINY)
    weight = cells.shown / np.maximum(of_place, _LEAST)[cells.place]
    gamma = cells.by_document(cells.clicked) / np.maximum(cells.by_document(cells.shown), _TINY)
    slope = np.zeros(cells.n_places)
    for _ in range(MOST_TURNS):
        of_cell = gamma[cells.document]
        mass, first, second = (cells.by_place(weight * of_cell**power) for power in range(3))
        clicks, both = (cells.by_place(weight * rate * of_cell**power) for power in range(2))
        before = slope
        spread = np.maximum(second - first**2 / np.maximum(mass, _TINY), _TINY)
        slope = (both - first * clicks / np.maximum(mass, _TINY)) / spread
        offset = (clicks - slope * first) / np.maximum(mass, _TINY)
        tilt = slope[cells.place]
        above = cells.by_document(weight * tilt * (rate - offset[cells.place]))
        gamma = above / np.maximum(cells.by_document(weight * tilt**2), _TINY)
        low, high = np.quantile(gamma, [0.01, 0.99])
        scale = max(float(high - low), _TINY)
        slope, offset, gamma = slope * scale, offset + slope * low, (gamma - low) / scale
        if np.abs(slope - before).max() <= _CLOSE * np.abs(slope).max():
            break
    return np.maximum(slope, _LEAST), np.maximum(offset, 0.0)
