"""``simulate_clicks``: the log that readers of judged rankings would leave, with the truth it was drawn from.

A document of label y is liked with the chance γ = noise + (1 - noise) · (2^y - 1) / (2^max - 1) (Ai et al. 2018). What
a reader does with a list is one of four models:

========== =====================================================================================================
position   looks at position k with the chance k^-eta, and clicks on what is seen and liked
trust      as ``position``, but who sees position k clicks on a liked document with 1 - (k + 1) / 100 and on another
           one with 0.65 / k (k up to 20 and 10): P(click) = slope_k · γ + offset_k (Agarwal et al. 2019)
cascade    reads from the top, clicks on the first liked document and leaves
dbn        reads from the top and clicks on liked documents; is then content with 0.9 · γ and leaves, and else goes on
           with the chance 0.9 (Chapelle & Zhang 2009)
========== =====================================================================================================

Sessions are drawn in blocks from random streams of their own: a log is the same however it is read, and is never in
memory as a whole unless it is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks, random
from rankwood._core.files import atomic_path, explained_writing
from rankwood.data.dataset import RankingData
from rankwood.data.table_files import write_batches
from rankwood.data.tables import MARKER, RESERVED
from rankwood.dtypes import POSITION, Array, Floats, Rows
from rankwood.errors import DataError
from rankwood.losses.position_bias import Propensities
from rankwood.measures.ranking import check_scores, order

MODELS = ("position", "trust", "cascade", "dbn")
CUTOFF = 10
_BLOCK = 1 << 16  # sessions drawn at a time
_CONTENT, _GOES_ON = 0.9, 0.9  # of the dynamic Bayesian network
_LARGEST_LABEL = 50.0  # 2^label keeps its place among others below


class Sessions(NamedTuple):
    """Consecutive sessions: the list each was shown, its rows, and what was clicked; -1 where a list is shorter."""

    first: int
    lists: Rows
    rows: Array
    clicks: Array


@dataclass(frozen=True, eq=False)
class ClickTruth:
    """What a simulated log was drawn from.

    Attributes
    ----------
    relevance
        For each row of the judged data the chance that a reader who looks at it likes it.
    bias
        How positions turn that into clicks. For ``cascade`` and ``dbn``, where it depends on what stands above, the
        mean chance that a position is looked at.
    parameters
        The arguments of the simulation.
    """

    relevance: Floats
    bias: Propensities
    parameters: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON."""
        return {
            **self.parameters,
            "bias": self.bias.to_dict(),
            "relevance": self.relevance.tolist(),
        }


@dataclass(frozen=True, eq=False)
class SimulatedLog:
    """Sessions of readers over the queries of judged data. ``lists`` has one row per query and ranking."""

    source: RankingData
    truth: ClickTruth
    n_sessions: int
    lists: Array  # (rankings · queries) × positions: rows of the source; -1 where a list is shorter
    seed: int

    @property
    def n_queries(self) -> int:
        """Queries of the judged data."""
        return self.source.n_queries

    def __repr__(self) -> str:
        model = self.truth.parameters["model"]
        return f"SimulatedLog({self.n_sessions:,} sessions, model={model!r})"

    def sessions(self) -> Iterator[Sessions]:
        """The sessions, block by block."""
        gamma = np.append(self.truth.relevance, 0.0)  # row -1 is never liked
        for first in range(0, self.n_sessions, _BLOCK):
            size = min(_BLOCK, self.n_sessions - first)
            generator = random.stream(self.seed, "clicks", first // _BLOCK)
            lists = generator.integers(len(self.lists), size=size)
            rows = self.lists[lists]
            model = self.truth.parameters["model"]
            clicks = read_lists(model, self.truth.bias, gamma[rows], generator) & (rows >= 0)
            yield Sessions(first, lists, rows, clicks)

    def data(self) -> RankingData:
        """The log as ranking data, one query per session; features are repeated in every session."""
        parts = [self._columns(block) for block in self.sessions()]
        queries, rows, positions, clicks = (
            np.concatenate([part[column] for part in parts]) for column in range(4)
        )
        return RankingData(
            self.source.features[rows],
            clicks.astype(np.float64),
            queries,
            rows,
            feature_names=self.source.feature_names,
            categorical=self.source.categorical,
            positions=positions,
        )

    def counted(self) -> RankingData:
        """The log as clicks out of impressions: one query per different list, with its impressions as row weights."""
        shape = self.lists.shape
        n_shown, n_clicks = np.zeros(shape[0]), np.zeros(shape)
        for block in self.sessions():
            n_shown += np.bincount(block.lists, minlength=shape[0])
            places = block.lists[:, np.newaxis] * shape[1] + np.arange(shape[1])
            n_clicks += np.bincount(places[block.clicks], minlength=n_clicks.size).reshape(shape)
        is_shown = (self.lists >= 0) & (n_shown > 0)[:, np.newaxis]
        of_list, column = np.nonzero(is_shown)
        rows = self.lists[is_shown]
        return RankingData(
            self.source.features[rows],
            n_clicks[is_shown] / n_shown[of_list],
            of_list,
            rows,
            n_shown[of_list],
            feature_names=self.source.feature_names,
            categorical=self.source.categorical,
            positions=column + 1,
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the log as a table, block by block, and its truth as JSON beside it; gives the path of the truth.

        The columns are ``qid`` (the session), ``label`` (the click), ``doc_id`` and ``position``, then the features.
        """
        import pyarrow as pa

        path = Path(path)
        clash = sorted(RESERVED.intersection(self.source.names))
        if clash:
            raise DataError(f"{path}: a feature is named '{clash[0]}'. Rename it.")
        kinds = [("qid", pa.int64()), ("label", pa.int8()), ("doc_id", pa.int64())]
        kinds += [("position", pa.int32()), *((name, pa.float32()) for name in self.source.names)]
        schema = pa.schema(kinds, metadata={MARKER: b'{"version": 1}'})

        def batches() -> Iterator[Any]:
            for block in self.sessions():
                queries, rows, positions, clicks = self._columns(block)
                columns = [queries, clicks.astype(np.int8), rows, positions]
                features = self.source.features[rows]
                columns += [np.ascontiguousarray(column) for column in features.T]
                yield pa.record_batch([pa.array(column) for column in columns], schema=schema)

        write_batches(path, schema, batches())
        truth = path.with_name(f"{path.name}.truth.json")
        with explained_writing(truth), atomic_path(truth) as temporary:
            temporary.write_text(json.dumps(self.truth.to_dict()) + "\n", encoding="utf-8")
        return truth

    def _columns(self, block: Sessions) -> tuple[Rows, Array, Array, Array]:
        """Session, row of the source, position and click of each document that was shown."""
        is_shown = block.rows >= 0
        session, column = np.nonzero(is_shown)
        positions = (column + 1).astype(POSITION)
        return session + block.first, block.rows[is_shown], positions, block.clicks[is_shown]


def simulate_clicks(
    data: RankingData,
    scores_or_ranker: Any,
    *,
    sessions: int,
    model: str = "position",
    eta: float = 1.0,
    noise: float = 0.1,
    cutoff: int = CUTOFF,
    seed: int = 0,
) -> SimulatedLog:
    """The log that readers would leave of judged data, ranked by scores.

    Parameters
    ----------
    data
        Judged documents with queries. The numbers of their rows are the document ids of the log.
    scores_or_ranker
        What ranks the lists: a fitted ranker, one score per row, or a list of these, of which each session is served
        by one at random. Documents that several rankers put at several positions are what harvesting needs.
    sessions
        How many lists are shown; the query of each is drawn at random.
    model
        How readers click: "position", "trust", "cascade" or "dbn"; see the module.
    eta
        How fast attention falls with the position: k^-eta. Of the models position and trust.
    noise
        The chance that a document of label 0 is liked.
    cutoff
        How many documents are shown of a list.

    Examples
    --------
    >>> import rankwood as rw
    >>> judged = rw.make_ranking(n_queries=20, seed=1)
    >>> log = rw.simulate_clicks(judged, judged.features[:, 0], sessions=1000, seed=1)
    >>> log.data().positions.max(), log.truth.bias.slope[:3].round(2).tolist()
    (np.int32(10), [1.0, 0.5, 0.33])
    """
    checks.one_of("model of clicks", model, MODELS)
    n_sessions = checks.whole_number("sessions", sessions, 1)
    eta = checks.real_number("eta", eta, "[0, inf)")
    noise = checks.real_number("noise", noise, "[0, 1)")
    cutoff = checks.whole_number("cutoff", cutoff, 1)
    seed = checks.whole_number("seed", seed, 0)
    if data.n_queries == 0:
        raise DataError("there are no judged queries to show.")
    relevance = relevance_of(data.labels, noise)
    lists = np.concatenate(
        [lists_of(data, scores, cutoff) for scores in _all_scores(data, scores_or_ranker)]
    )
    parameters = {"model": model, "eta": eta, "noise": noise, "cutoff": cutoff, "seed": seed}
    parameters["sessions"] = n_sessions
    bias = true_bias(model, eta, np.append(relevance, 0.0)[lists])
    return SimulatedLog(data, ClickTruth(relevance, bias, parameters), n_sessions, lists, seed)


def read_lists(
    model: str, bias: Propensities, gamma: Floats, generator: np.random.Generator
) -> Array:
    """What readers of lists of this relevance click: lists × positions."""
    luck = generator.random(gamma.shape)
    if model in ("position", "trust"):
        width = gamma.shape[1]
        are_clicked: Array = luck < bias.slope[:width] * gamma + bias.offset[:width]
        return are_clicked
    is_liked = luck < gamma
    if model == "cascade":
        first: Array = is_liked & (np.cumsum(is_liked, axis=1) == 1)
        return first
    leaves = generator.random(gamma.shape) < np.where(
        is_liked, 1.0 - _GOES_ON * (1.0 - _CONTENT * gamma), 1.0 - _GOES_ON
    )
    has_left = np.cumsum(leaves, axis=1) - leaves > 0
    return is_liked & ~has_left


def relevance_of(labels: Floats, noise: float) -> Floats:
    """The chance that documents of these labels are liked."""
    largest = float(labels.max(initial=0.0))
    if largest == 0.0:
        raise DataError("all labels are 0: there is nothing that readers would click but noise.")
    if largest > _LARGEST_LABEL:
        raise DataError(f"labels go up to {largest:g}; grades are at most {_LARGEST_LABEL:g}.")
    liked: Floats = noise + (1.0 - noise) * (np.exp2(labels) - 1.0) / (np.exp2(largest) - 1.0)
    return liked


def _all_scores(data: RankingData, given: Any) -> list[Floats]:
    """One score per row, of each of the rankers."""
    several = isinstance(given, Sequence) and any(
        hasattr(one, "predict") or np.ndim(one) == 1 for one in given
    )
    rankers = list(given) if several else [given]
    return [
        check_scores(one.predict(data) if hasattr(one, "predict") else one, data.n_documents)
        for one in rankers
    ]


def lists_of(data: RankingData, scores: Floats, cutoff: int) -> Array:
    """The rows of each query by descending score: queries × positions; -1 where a query has fewer documents."""
    grouping = data.grouping
    ranked = grouping.row_order[
        order(checks.read_only(scores[grouping.row_order]), grouping.offsets).order
    ]
    sizes = np.diff(grouping.offsets)
    width = min(cutoff, int(sizes.max()))
    places = np.arange(width)
    lists = np.full((sizes.size, width), -1)
    is_shown = places < sizes[:, np.newaxis]
    lists[is_shown] = ranked[(grouping.offsets[:-1, np.newaxis] + places)[is_shown]]
    return lists


def true_bias(model: str, eta: float, gamma: Floats) -> Propensities:
    """How positions turn the relevance of these lists into clicks."""
    k = np.arange(1, gamma.shape[1] + 1, dtype=np.float64)
    if model == "position":
        return Propensities.of(k**-eta)
    if model == "trust":
        liked = 1.0 - (np.minimum(k, 20.0) + 1.0) / 100.0
        other = 0.65 / np.minimum(k, 10.0)
        return Propensities.of(k**-eta * (liked - other), k**-eta * other)
    stays = 1.0 - gamma
    if model == "dbn":
        stays = _GOES_ON * (1.0 - gamma * _CONTENT * gamma)
    looks = np.cumprod(np.column_stack([np.ones(len(gamma)), stays[:, :-1]]), axis=1).mean(axis=0)
    return Propensities.of(looks)
