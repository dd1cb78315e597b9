"""``Importance``: features and what they matter, as table, CSV and plot."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._files import atomic_path, explained_writing
from rankwood.dtypes import Floats
from rankwood.evaluation.results import aligned, as_html

_SHOWN = 15
_MEANINGS = {
    "gain": "share of the gain of all splits",
    "cover": "share of the rows that splits part",
    "splits": "share of the splits",
    "contribution": "mean size of the contribution to a score",
}


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    """How much each feature matters.

    Parameters
    ----------
    by
        What is counted: gain, cover, splits, permutation or contribution.
    names, values
        In the order of the features.
    low, high
        An interval around each value, where there is one.
    measure
        What permutation lowers.
    """

    by: str
    names: tuple[str, ...]
    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    measure: str | None = None

    @property
    def meaning(self) -> str:
        """What the values are."""
        return _MEANINGS.get(self.by, f"{self.measure} lost when values are shuffled in queries")

    @property
    def title(self) -> str:
        """What the table shows."""
        return f"features by {self.meaning}"

    def rows(self, top: int | None = None) -> Iterator[dict[str, Any]]:
        """A mapping per feature, the most important first; equal ones in the features' order."""
        for feature in np.argsort(-self.values, kind="stable")[:top].tolist():
            row = {"feature": self.names[feature], "importance": float(self.values[feature])}
            if self.low is not None and self.high is not None:
                row |= {"low": float(self.low[feature]), "high": float(self.high[feature])}
            yield row

    def texts(self, top: int | None = _SHOWN) -> list[dict[str, str]]:
        """The rows as texts."""
        table = []
        for row in self.rows(top):
            texts = {"feature": row["feature"], "importance": f"{row['importance']:.4f}"}
            if "low" in row:
                is_known = not math.isnan(row["low"])
                texts["95 % interval"] = (
                    f"{row['low']:.4f} – {row['high']:.4f}" if is_known else "–"
                )
            table.append(texts)
        return table

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {"by": self.by, "meaning": self.meaning, "features": list(self.rows(top))}

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """A line per feature, under a header."""
        rows = list(self.rows())
        with (
            explained_writing(path),
            atomic_path(path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def plot(self, path: str | os.PathLike[str], top: int = _SHOWN) -> None:
        """Draw a bar per feature, to a file whose name says its kind: .png, .svg or .pdf."""
        from rankwood.evaluation.figures import bars

        rows = list(self.rows(top))
        intervals = [(row["low"], row["high"]) for row in rows] if self.low is not None else None
        lengths = [row["importance"] for row in rows]
        bars(path, [row["feature"] for row in rows], lengths, intervals, self.meaning)

    def __repr__(self) -> str:
        return f"Importance(by {self.by}, {len(self.names):,} features)"

    def __str__(self) -> str:
        return "\n".join([self.title, *aligned(self.texts())])

    def _repr_html_(self) -> str:
        return as_html(self.texts(), [self.meaning])
