"""A chess collection in files: the ranking data, and a description of how they came to be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rankwood
from rankwood._files import atomic_path, explained_writing
from rankwood.data.chess_features import FEATURE_NAMES
from rankwood.data.chess_positions import ChessPosition, ranking_data
from rankwood.data.reading import write_data
from rankwood.errors import DataError

_LABELS = "gap to the best move in pawns: <= 0.1 is 4, <= 0.2 is 3, < 0.3 is 2, < 0.5 is 1, else 0"
_ENDINGS = (".gz", ".zst", ".bz2")


def description_path(path: str | Path) -> Path:
    """Where the description of a collection stands: ``moves.txt.gz`` has ``moves.json``."""
    path = Path(path)
    if path.suffix in _ENDINGS:
        path = path.with_suffix("")
    return path.with_suffix(".json")


def write_collection(
    path: str | Path, settings: dict[str, Any], positions: list[ChessPosition]
) -> None:
    """Write ranking data to ``path`` and the description beside it; each appears when it is complete."""
    data = ranking_data(positions)
    counts = {str(label): int((data.labels == label).sum()) for label in range(5)}
    facts = {
        "made_by": f"rankwood {rankwood.__version__}",
        **settings,
        "labels": _LABELS,
        "n_positions": data.n_queries,
        "n_moves": data.n_documents,
        "n_moves_of_label": counts,
        "feature_names": list(FEATURE_NAMES),
    }
    target = description_path(path)
    with explained_writing(target), atomic_path(target) as temporary:
        temporary.write_text(_as_text(facts, positions), encoding="utf-8")
    write_data(data, path)


def _as_text(facts: dict[str, Any], positions: list[ChessPosition]) -> str:
    """JSON with a line per fact and a line per position."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in facts.items()]
    records = [
        "    " + json.dumps(position.as_record(), separators=(",", ":")) for position in positions
    ]
    return "\n".join(["{", *lines, '  "positions": [', ",\n".join(records), "  ]", "}"]) + "\n"


def read_description(path: str | Path) -> tuple[dict[str, Any], list[ChessPosition]]:
    """The facts and the positions of a collection, from its description."""
    try:
        facts = json.loads(Path(path).read_text(encoding="utf-8"))
        positions = [ChessPosition.from_record(record) for record in facts.pop("positions")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not the description of a chess collection: {error}.") from None
    return facts, positions
