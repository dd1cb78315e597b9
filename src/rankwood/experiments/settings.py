"""An experiment as its file describes it, once everything in it has been found right."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwood._random import stream
from rankwood.experiments.building import with_values

Tuned = Mapping[str, Any]  # parameter -> its values, or for Optuna a range {low, high, log, step}
_MOST_SEED = 2**31


@dataclass(frozen=True)
class FoldSource:
    """Where the parts of one fold are; without files it is cut from the whole."""

    name: str
    files: Mapping[str, str] = field(default_factory=dict)  # train, vali (if there is one), test


@dataclass(frozen=True)
class DataSource:
    """Where an experiment's data come from, in words that another process understands."""

    folds: tuple[FoldSource, ...]
    whole: Mapping[str, Any] = field(default_factory=dict)  # {"data": …}, {"generate": …}, …
    cut: Mapping[str, Any] = field(default_factory=dict)  # {"split": […]} or {"folds": n}; seed
    reading: Mapping[str, Any] = field(default_factory=dict)  # as ReadOptions has them
    normalise: str | None = None
    binarise: float | None = None  # labels from this one on become 1, the others 0
    has_vali: bool = True


@dataclass(frozen=True)
class Algorithm:
    """One row of the experiment's tables."""

    name: str
    kind: str
    parameters: Mapping[str, Any]  # as TOML says them
    tune: Tuned = field(default_factory=dict)
    tune_method: str = "grid"
    tune_trials: int = 20
    repetitions: int = 1

    def candidates(self) -> list[dict[str, Any]]:
        """What a grid tries: every combination of the values, the last parameter's changing fastest."""
        names = list(self.tune)
        return [
            dict(zip(names, values, strict=True))
            for values in itertools.product(*(self.tune[name] for name in names))
        ]

    def with_values(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with tuned ones in their place."""
        return with_values(self.parameters, changes)


@dataclass(frozen=True)
class Cell:
    """One algorithm on one fold in one repetition."""

    algorithm: str
    fold: str
    repetition: int  # from 1

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.fold}, repetition {self.repetition}"


@dataclass(frozen=True)
class Experiment:
    """Everything that a run needs to know."""

    name: str
    data: DataSource
    algorithms: tuple[Algorithm, ...]
    measures: tuple[str, ...]  # the primary one first, as the file writes them
    preset: str | None = None
    repetitions: int = 1
    seed: int = 0
    jobs: int | None = None
    threads: int | None = None
    keep_scores: bool = True
    baseline: str | None = None
    tests: tuple[str, ...] = ("wilcoxon", "t")
    correction: str = "holm"
    out: str | None = None
    text: str = ""  # the file as it was
    repeat: str = ""  # the command, or call, that gives the same run

    @property
    def fold_names(self) -> list[str]:
        """The folds in their order."""
        return [fold.name for fold in self.data.folds]

    def algorithm(self, name: str) -> Algorithm:
        """The algorithm of this name."""
        return next(one for one in self.algorithms if one.name == name)

    def cells(self) -> list[Cell]:
        """All cells; those of one fold stand together, so that a worker reads its data once."""
        return [
            Cell(algorithm.name, fold, repetition)
            for fold in self.fold_names
            for repetition in range(1, self.repetitions + 1)
            for algorithm in self.algorithms
            if repetition <= algorithm.repetitions
        ]

    def seed_of(self, cell: Cell) -> int:
        """The seed of a cell: that of its fold and repetition, the same for all algorithms."""
        return int(stream(self.seed, f"cell {cell.fold}", cell.repetition).integers(_MOST_SEED))
