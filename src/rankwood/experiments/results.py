"""What a run has found: its cells, and every measure by query.

Words used here
    cell         one algorithm on one fold in one repetition
    query        a test query of one fold; ``queries`` numbers those of all folds through
    values       a measure by query, averaged over the repetitions of an algorithm
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.dtypes import Floats


@dataclass(frozen=True)
class CellRecord:
    """One algorithm on one fold in one repetition, finished or failed."""

    algorithm: str
    fold: str
    repetition: int  # from 1
    status: str  # "done" or "failed"
    parameters: Mapping[str, Any] = field(default_factory=dict)  # as fitted, tuned ones among them
    seconds: Mapping[str, float] = field(default_factory=dict)  # by stage: tune, fit, score
    peak_memory: int = 0  # bytes, of the worker so far
    means: Mapping[str, float] = field(
        default_factory=dict
    )  # measure -> mean over the test queries
    history: Mapping[str, list[float]] = field(
        default_factory=dict
    )  # measure -> by round, where known
    message: str = ""  # of a failed cell: its traceback
    error: str = ""  # of a failed cell: the traceback's last line
    tuned: list[Mapping[str, Any]] = field(
        default_factory=list
    )  # every candidate: its parameters and its value on the validation queries
    chosen: Mapping[str, Any] = field(default_factory=dict)  # the tuned parameters' values
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RankedDocuments:
    """One query's documents in the data's order, with the scores of one algorithm (first repetition)."""

    labels: Floats
    scores: Floats
    names: list[str]  # the documents' ids, or their line numbers within the query


@dataclass(frozen=True, eq=False)
class RunResults:
    """A run as read from its folder, ready for statistics and reports."""

    name: str
    record: Mapping[str, Any]  # configuration, versions, seeds, machine, times, how to repeat
    conventions: Mapping[str, Mapping[str, str]]  # by measure
    algorithms: list[str]
    folds: list[str]
    measures: list[str]  # the primary one first
    baseline: str | None
    tests: list[str]
    correction: str
    queries: list[tuple[str, str]]  # (fold, query id) of every test query
    values_by_repetition: Mapping[
        tuple[str, str], Floats
    ]  # (algorithm, measure) -> (repetitions, queries); NaN where a cell failed
    cells: list[CellRecord]
    rankings: Callable[
        [str, int], RankedDocuments | None
    ]  # (algorithm, query number), read when asked for

    @property
    def primary(self) -> str:
        """The measure that decides."""
        return self.measures[0]

    def values(self, algorithm: str, measure: str) -> Floats:
        """A measure by query, the mean over the repetitions that finished; NaN where none did."""
        by_repetition = self.values_by_repetition[algorithm, measure]
        known = ~np.isnan(by_repetition)
        count = known.sum(axis=0)
        total = np.where(known, by_repetition, 0.0).sum(axis=0)
        means: Floats = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
        return means
