"""The collections that come with the package, for examples, tutorials and the demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.data.chess_collection import read_description
from rankwood.data.chess_features import FEATURE_NAMES
from rankwood.data.chess_positions import ChessPosition
from rankwood.data.dataset import RankingData

_FOLDER = Path(__file__).parent / "collections"
_OPENINGS = ("B84", "E97")
_PARTS = {"train": (0.0, 0.6), "vali": (0.6, 0.8), "test": (0.8, 1.0)}  # shares of the positions


def chess(opening: str | None = None, part: str | None = None) -> RankingData:
    """Chess positions as queries, their legal moves as documents, labelled by how good an engine thinks they are.

    Parameters
    ----------
    opening
        ``"B84"`` (Sicilian, open positions), ``"E97"`` (King's Indian, closed ones), or None for both.
    part
        ``"train"`` (the first 60 % of each opening's positions), ``"vali"`` (the next 20 %), ``"test"`` (the last
        20 %), or None for all.

    Query ids are those of ``chess_positions``, document ids are moves in UCI notation such as ``e2e4``. Labels run
    from 4 (within a tenth of a pawn of the best move) to 0 (half a pawn worse, or more). The 71 features are the 64
    squares as the side to move sees them, then the move; they have names.

    Examples
    --------
    >>> chess("B84", "test")
    RankingData(2,369 documents, 60 queries, 71 features)
    """
    chosen = [_load(name) for name in _openings(opening)]
    if part is not None:
        chosen = [_part(data, part) for data in chosen]
    if len(chosen) == 1:
        return chosen[0]
    return RankingData(
        np.concatenate([data.features for data in chosen]),
        np.concatenate([data.labels for data in chosen]),
        np.concatenate([data.query_ids for data in chosen]),
        np.concatenate([data.doc_ids for data in chosen]),
        feature_names=FEATURE_NAMES,
    )


def chess_positions(opening: str | None = None) -> dict[str, ChessPosition]:
    """The positions of ``chess`` by query id: FEN, the moves that led there, the engine's score of every move."""
    found = [read_description(_FOLDER / f"chess-{name}.json")[1] for name in _openings(opening)]
    return {position.query: position for positions in found for position in positions}


def chess_provenance(opening: str) -> dict[str, Any]:
    """How the positions of an opening were made: engine, its version and options, nodes, seed, rules of play."""
    name = _checks.one_of("opening", opening, _OPENINGS)
    return read_description(_FOLDER / f"chess-{name}.json")[0]


def _openings(opening: str | None) -> tuple[str, ...]:
    return _OPENINGS if opening is None else (_checks.one_of("opening", opening, _OPENINGS),)


def _load(name: str) -> RankingData:
    """An opening's data, with feature names, for which LETOR text has no place."""
    from rankwood.data.letor import read_letor

    data = read_letor(_FOLDER / f"chess-{name}.txt.gz", n_features=len(FEATURE_NAMES), cache=False)
    return RankingData(
        data.features, data.labels, data.query_ids, data.doc_ids, feature_names=FEATURE_NAMES
    )


def _part(data: RankingData, part: str) -> RankingData:
    first, last = _PARTS[_checks.one_of("part", part, _PARTS)]
    return data.take_queries(np.arange(round(first * data.n_queries), round(last * data.n_queries)))
