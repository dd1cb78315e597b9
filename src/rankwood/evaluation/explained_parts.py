"""``ScoreParts``: a score, or the difference of two scores, divided among features."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._files import atomic_path, explained_writing
from rankwood.dtypes import Floats
from rankwood.evaluation.results import aligned, as_html

_SHOWN = 10  # features of a table or plot that says nothing else


@dataclass(frozen=True, eq=False, repr=False)
class ScoreParts:
    """What leads from one number to another, feature by feature.

    Parameters
    ----------
    title
        What is explained.
    names, parts
        Features and what each adds, the largest part first, whatever its sign.
    values
        The features' values, one column for each document that is spoken of.
    start, end
        Names of the two numbers and the numbers: base and score, or the scores of two documents. The parts sum to
        their difference.
    """

    title: str
    names: tuple[str, ...]
    parts: Floats
    values: Mapping[str, Floats]
    start: tuple[str, float]
    end: tuple[str, float]

    @classmethod
    def sorted(
        cls,
        title: str,
        names: tuple[str, ...],
        parts: Floats,
        values: Mapping[str, Floats],
        start: tuple[str, float],
        end: tuple[str, float],
    ) -> ScoreParts:
        """The parts in order of their size; equal ones keep the features' order."""
        order = np.argsort(-np.abs(parts), kind="stable")
        columns = {name: column[order] for name, column in values.items()}
        return cls(title, tuple(names[i] for i in order), parts[order], columns, start, end)

    def rows(self, top: int | None = None) -> Iterator[dict[str, Any]]:
        """A mapping per feature: its name, value and part. After ``top`` of them, one for all the others."""
        shown = len(self.names) if top is None else min(top, len(self.names))
        for place in range(shown):
            values = {name: float(column[place]) for name, column in self.values.items()}
            yield {"feature": self.names[place], **values, "part": float(self.parts[place])}
        n_others = len(self.names) - shown
        if n_others:
            nothing = dict.fromkeys(self.values)
            rest = float(self.parts[shown:].sum())
            yield {"feature": f"{n_others:,} others", **nothing, "part": rest}

    def texts(self, top: int | None = _SHOWN) -> list[dict[str, str]]:
        """The rows of the table as texts, from the start to the end."""
        blank = dict.fromkeys(self.values, "")
        table = [{"feature": self.start[0], **blank, "part": f"{self.start[1]:.4f}"}]
        for row in self.rows(top):
            values = {name: _shown(row[name]) for name in self.values}
            table.append({"feature": row["feature"], **values, "part": f"{row['part']:+.4f}"})
        return [*table, {"feature": self.end[0], **blank, "part": f"{self.end[1]:.4f}"}]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        ends = {self.start[0]: self.start[1], self.end[0]: self.end[1]}
        return {"title": self.title, **ends, "features": list(self.rows(top))}

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """A line per feature, under a header."""
        with (
            explained_writing(path),
            atomic_path(path) as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, ["feature", *self.values, "part"])
            writer.writeheader()
            writer.writerows(self.rows())

    def plot(self, path: str | os.PathLike[str], top: int = _SHOWN) -> None:
        """Draw the steps from start to end, to a file whose name says its kind: .png, .svg or .pdf."""
        from rankwood.evaluation.figures import waterfall

        steps = []
        for row in self.rows(top):
            values = [_shown(row[name]) for name in self.values if row[name] is not None]
            named = f" = {' / '.join(values)}" if values else ""
            steps.append((row["feature"] + named, row["part"]))
        waterfall(path, steps, (self.start, self.end), self.title)

    def __repr__(self) -> str:
        return f"ScoreParts({self.title}: {self.start[1]:.4f} to {self.end[1]:.4f})"

    def __str__(self) -> str:
        return "\n".join([self.title, *aligned(self.texts())])

    def _repr_html_(self) -> str:
        return as_html(self.texts(), [self.title])


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return "missing" if math.isnan(value) else f"{value:.6g}"
