"""``chess()`` and the files of chess collections: the ranking data, and a JSON description of how they were built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankwood
from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.data.chess.positions import FEATURE_NAMES, PAWN, labels_of_scores, move_features
from rankwood.data.dataset import RankingData
from rankwood.data.letor.text import read_letor
from rankwood.data.reading import write_data
from rankwood.data.sources import COMPRESSION_SUFFIXES
from rankwood.errors import DataError, warn_of_former_name

_FOLDER = Path(__file__).parent / "collections"
_OPENINGS = ("B84", "E97")
_PARTS = {"train": (0.0, 0.6), "valid": (0.6, 0.8), "test": (0.8, 1.0)}  # shares of the positions

_FORMER_PART = "vali"
_LABELS = "gap to the best move in pawns: <= 0.1 is 4, <= 0.2 is 3, < 0.3 is 2, < 0.5 is 1, else 0"


def chess(opening: str | None = None, part: str | None = None) -> RankingData:
    """Chess positions as queries, their legal moves as documents, labelled by how good an engine thinks they are.

    Parameters
    ----------
    opening
        ``"B84"`` (Sicilian, open positions), ``"E97"`` (King's Indian, closed ones), or None for both.
    part
        ``"train"`` (the first 60 % of each opening's positions), ``"valid"`` (the next 20 %), ``"test"`` (the last
        20 %), or None for all.

    Query ids are those of ``chess_positions``, document ids are moves in UCI notation such as ``e2e4``. Labels run
    from 4 (within a tenth of a pawn of the best move) to 0 (half a pawn worse, or more); what a pawn is worth to the
    engine was chosen such that a quarter of the moves has a label above 0. The 71 features are the 64 squares as the
    side to move sees them, then the move; they have names.

    Examples
    --------
    >>> chess("B84", "test")
    RankingData(3,952 documents, 104 queries, 71 features)
    """
    if part == _FORMER_PART:
        warn_of_former_name("chess", part, "valid")
        part = "valid"
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
    by_opening = [
        read_description(_FOLDER / f"chess-{name}.json")[1] for name in _openings(opening)
    ]
    return {position.query: position for positions in by_opening for position in positions}


def chess_provenance(opening: str) -> dict[str, Any]:
    """How the positions of an opening were made: engine, its version and options, nodes, seed, rules of play."""
    name = checks.one_of("opening", opening, _OPENINGS)
    return read_description(_FOLDER / f"chess-{name}.json")[0]


@dataclass(frozen=True)
class ChessPosition:
    """A query of a chess collection.

    ``query`` is its id, ``fen`` the position, ``line`` the moves (UCI) that led there, and ``scores`` the engine's
    centipawns of every legal move, as the side to move sees them; a mate is worth 10,000.
    """

    query: str
    fen: str
    line: tuple[str, ...]
    scores: Mapping[str, int]

    @property
    def best_moves(self) -> tuple[str, ...]:
        """The legal moves, best first; equal ones by name."""
        return tuple(sorted(self.scores, key=lambda move: (-self.scores[move], move)))

    def as_record(self) -> dict[str, Any]:
        """The position as a JSON object."""
        return {
            "query": self.query,
            "fen": self.fen,
            "line": " ".join(self.line),
            "scores": dict(self.scores),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ChessPosition:
        """The position from the result of ``as_record``."""
        return cls(record["query"], record["fen"], tuple(record["line"].split()), record["scores"])


def write_collection(
    path: str | Path, settings: dict[str, Any], positions: list[ChessPosition], pawn: int = PAWN
) -> None:
    """Write ranking data to ``path`` and the description beside it, each atomically.

    ``pawn`` is what a pawn is worth in the engine's centipawns, for the labels.
    """
    data = ranking_data(positions, pawn)
    counts = {str(label): int((data.labels == label).sum()) for label in range(5)}
    facts = {
        "made_by": f"rankwood {rankwood.__version__}",
        **settings,
        "labels": _LABELS,
        "pawn": pawn,
        "n_positions": data.n_queries,
        "n_moves": data.n_documents,
        "n_moves_of_label": counts,
        "feature_names": list(FEATURE_NAMES),
    }
    target = description_path(path)
    with explained_writing(target), atomic_path(target) as temporary:
        temporary.write_text(_as_text(facts, positions), encoding="utf-8")
    write_data(data, path)


def read_description(path: str | Path) -> tuple[dict[str, Any], list[ChessPosition]]:
    """The facts and the positions of a collection, from its description."""
    try:
        facts = json.loads(Path(path).read_text(encoding="utf-8"))
        positions = [ChessPosition.from_record(record) for record in facts.pop("positions")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not the description of a chess collection: {error}.") from None
    return facts, positions


def description_path(path: str | Path) -> Path:
    """The path of a collection's description: ``moves.json`` for ``moves.txt.gz``."""
    path = Path(path)
    if path.suffix in COMPRESSION_SUFFIXES:
        path = path.with_suffix("")
    return path.with_suffix(".json")


def ranking_data(positions: list[ChessPosition], pawn: int = PAWN) -> RankingData:
    """A query per position and a document per legal move, with its label; a pawn is worth ``pawn`` centipawns."""
    moves = [list(position.scores) for position in positions]
    return RankingData(
        np.concatenate([move_features(p.fen, m) for p, m in zip(positions, moves, strict=True)]),
        np.concatenate([labels_of_scores(list(p.scores.values()), pawn) for p in positions]),
        [p.query for p, m in zip(positions, moves, strict=True) for _ in m],  # type: ignore[arg-type]
        [move for m in moves for move in m],  # type: ignore[arg-type]
        feature_names=FEATURE_NAMES,
    )


def _openings(opening: str | None) -> tuple[str, ...]:
    return _OPENINGS if opening is None else (checks.one_of("opening", opening, _OPENINGS),)


def _load(name: str) -> RankingData:
    """The data of an opening, with feature names, which LETOR text does not store."""
    data = read_letor(_FOLDER / f"chess-{name}.txt.gz", n_features=len(FEATURE_NAMES), cache=False)
    return RankingData(
        data.features, data.labels, data.query_ids, data.doc_ids, feature_names=FEATURE_NAMES
    )


def _part(data: RankingData, part: str) -> RankingData:
    first, last = _PARTS[checks.one_of("part", part, _PARTS)]
    return data.take_queries(np.arange(round(first * data.n_queries), round(last * data.n_queries)))


def _as_text(facts: dict[str, Any], positions: list[ChessPosition]) -> str:
    """JSON with a line per fact and a line per position."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in facts.items()]
    records = [
        "    " + json.dumps(position.as_record(), separators=(",", ":")) for position in positions
    ]
    return "\n".join(["{", *lines, '  "positions": [', ",\n".join(records), "  ]", "}"]) + "\n"
