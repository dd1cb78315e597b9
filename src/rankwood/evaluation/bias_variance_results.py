"""What ``bias_variance`` gives: error, bias² and variance by algorithm, layer and fold, as table, JSON, CSV, plot."""

from __future__ import annotations

import csv
import html
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import ParameterError, UnknownName
from rankwood.evaluation.pairs import Pairs
from rankwood.evaluation.stacked_bars import PLOTS

PARTS = ("error", "bias²", "variance")


@dataclass(frozen=True)
class Conventions:
    """What was compared, and how."""

    pairs: str
    ties: str
    max_pairs: int
    seed: int


@dataclass(frozen=True, eq=False)
class FoldResult:
    """One algorithm in one fold.

    ``per_query`` has an array per layer, queries × (error, bias², variance) in the order of the test queries, NaN for
    queries without pairs; ``means`` their means, layers × 3.
    """

    per_query: tuple[Floats, ...] = field(repr=False)
    means: Floats
    n_queries: int  # that have pairs
    n_without_pairs: int
    n_pairs: int  # that were looked at
    n_sampled: int  # queries of whose pairs only some were looked at

    @classmethod
    def of(cls, per_query: Sequence[Floats], pairs: Pairs, test: RankingData) -> FoldResult:
        """The means over the queries that have pairs."""
        has_pairs = pairs.counts > 0
        weights = np.ones(has_pairs.size) if test.query_weights is None else test.query_weights
        weights = weights[has_pairs]
        if weights.sum() <= 0:
            weights = np.ones(weights.size)
        means = [np.average(values[has_pairs], axis=0, weights=weights) for values in per_query]
        return cls(
            tuple(per_query),
            np.array(means),
            int(has_pairs.sum()),
            int((~has_pairs).sum()),
            int(pairs.used.sum()),
            int(pairs.sampled.size),
        )

    def layer(self, number: int) -> Floats:
        """Error, bias² and variance after a layer; a fold with fewer layers answers with its last."""
        values: Floats = self.means[min(number, len(self.means) - 1)]
        return values


@dataclass(frozen=True)
class Decomposition:
    """Error = bias² + variance, means over folds."""

    error: float
    bias_squared: float
    variance: float

    def to_dict(self) -> dict[str, float]:
        """The three figures by name."""
        return {
            "error": self.error,
            "bias_squared": self.bias_squared,
            "variance": self.variance,
        }


@dataclass(frozen=True)
class AlgorithmResult(Decomposition):
    """An algorithm's figures; ``layers`` has those after each layer where its models have several."""

    folds: tuple[FoldResult, ...] = field(repr=False)
    layers: tuple[Decomposition, ...] = ()

    @classmethod
    def of(cls, folds: Sequence[FoldResult]) -> AlgorithmResult:
        """The means over folds, layer by layer; the last layer is the algorithm's own."""
        n_layers = max(len(fold.means) for fold in folds)
        layers = [
            np.mean([fold.layer(number) for fold in folds], axis=0) for number in range(n_layers)
        ]
        by_layer = tuple(Decomposition(*map(float, values)) for values in layers)
        whole = by_layer[-1].to_dict()
        return cls(**whole, folds=tuple(folds), layers=by_layer if n_layers > 1 else ())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON; single queries are left out."""
        return {
            **super().to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
            "folds": [Decomposition(*map(float, fold.means[-1])).to_dict() for fold in self.folds],
        }


@dataclass(frozen=True, eq=False)
class BiasVariance:
    """The figures of each algorithm: ``result["RandomForest"].variance``."""

    algorithms: Mapping[str, AlgorithmResult]
    trainings: int
    conventions: Conventions

    @classmethod
    def of(
        cls, found: Mapping[str, list[FoldResult]], trainings: int, conventions: Conventions
    ) -> BiasVariance:
        """The result of all folds."""
        algorithms = {name: AlgorithmResult.of(folds) for name, folds in found.items()}
        return cls(algorithms, trainings, conventions)

    def __getitem__(self, name: str) -> AlgorithmResult:
        if name not in self.algorithms:
            raise UnknownName("algorithm", str(name), self.algorithms)
        return self.algorithms[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.algorithms)

    def __len__(self) -> int:
        return len(self.algorithms)

    def rows(self) -> list[tuple[str, Decomposition]]:
        """A name and its figures: each algorithm, and below it its layers."""
        rows: list[tuple[str, Decomposition]] = []
        for name, result in self.algorithms.items():
            rows.append((name, result))
            rows += [
                (f"{name}, layer {number}", layer) for number, layer in enumerate(result.layers, 1)
            ]
        return rows

    def notes(self) -> list[str]:
        """What was compared, and what was left out."""
        folds = next(iter(self.algorithms.values())).folds
        n_pairs = sum(fold.n_pairs for fold in folds)
        kind = "labels differ" if self.conventions.pairs == "different" else "all"
        lines = [
            f"{self.trainings} trainings on resampled queries in each of {len(folds)} folds"
            if len(folds) > 1
            else f"{self.trainings} trainings on resampled queries",
            f"{n_pairs:,} pairs ({kind}) of {sum(fold.n_queries for fold in folds):,} queries, "
            f"ties {self.conventions.ties}",
        ]
        without = sum(fold.n_without_pairs for fold in folds)
        if without:
            lines.append(f"queries without pairs, which do not count: {without:,}")
        sampled = sum(fold.n_sampled for fold in folds)
        if sampled:
            lines.append(
                f"{sampled:,} queries have more than {self.conventions.max_pairs:,} pairs: so many were drawn of each"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        folds = next(iter(self.algorithms.values())).folds
        counts = ("n_queries", "n_without_pairs", "n_pairs", "n_sampled")
        return {
            "algorithms": {name: result.to_dict() for name, result in self.algorithms.items()},
            "trainings": self.trainings,
            "n_folds": len(folds),
            **vars(self.conventions),
            **{name: sum(getattr(fold, name) for fold in folds) for name in counts},
        }

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a row per algorithm and layer; the layer of the model as a whole is empty."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["algorithm", "layer", "error", "bias_squared", "variance"])
            for name, result in self.algorithms.items():
                for number, part in enumerate([result, *result.layers]):
                    figures = Decomposition.to_dict(part).values()
                    writer.writerow([name, number or "", *map(repr, figures)])

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw bias² and variance as stacked bars, whose height is the error; the path's ending says which format."""
        from rankwood.evaluation.stacked_bars import stacked_bars

        rows = self.rows()
        parts = {
            "bias²": [part.bias_squared for _, part in rows],
            "variance": [part.variance for _, part in rows],
        }
        stacked_bars(path, [name for name, _ in rows], parts, "error = bias² + variance")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a table (.csv) or a plot (.png, .svg, .pdf), as the path ends."""
        ending = Path(path).suffix.lower()
        if ending == ".csv":
            self.to_csv(path)
        elif ending in PLOTS:
            self.plot(path)
        else:
            raise ParameterError(
                f"{os.fspath(path)} must end in .csv for a table, or in .png, .svg or .pdf for a plot."
            )

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len("algorithm"), *(len(name) for name, _ in rows))
        head = f"{'algorithm':<{width}}" + "".join(f"{part:>10}" for part in PARTS)
        lines = [head.rstrip(), "-" * len(head)]
        for name, part in rows:
            cells = "".join(f"{value:>10.4f}" for value in Decomposition.to_dict(part).values())
            lines.append(f"{name:<{width}}{cells}")
        return "\n".join([*lines, "", *self.notes()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("algorithm", *PARTS))
        body = ""
        for name, part in self.rows():
            cells = "".join(f"<td>{v:.4f}</td>" for v in Decomposition.to_dict(part).values())
            body += f"<tr><td>{html.escape(name)}</td>{cells}</tr>"
        notes = "<br>".join(html.escape(note) for note in self.notes())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{notes}</p>"
