"""What the query explorer of the page holds: values of every query, rankings of those that changed most.

The page must stay small enough for a mail, whatever the run: values are kept as 16-bit numbers, and both parts stop
where their share of the page is used up; the page says what was left out.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood.dtypes import Floats
from rankwood.experiments.report.drawing import shorten
from rankwood.experiments.report.findings import Findings, is_lower_better
from rankwood.experiments.report.markup import clean

MOST_RANKINGS = 200  # queries
DEPTH = 20  # documents of a ranking that are shown
_BYTES_FOR_VALUES = 2_000_000
_BYTES_FOR_RANKINGS = 1_400_000
_MISSING = 0xFFFF
_STEP = 1e-4  # what four decimals tell apart
_LONGEST_ID = 120  # letters of a query's id
_LONGEST_NAME = 48  # letters of a document's name


@dataclass(frozen=True)
class ExplorerData:
    """The JSON for the script, and what a reader should know of its limits."""

    content: dict[str, Any]
    n_queries: int
    n_rankings: int
    measures: list[str]


def explorer_data(findings: Findings) -> ExplorerData:
    """Values by query of every algorithm, and the rankings of the queries that changed most."""
    results = findings.results
    changed = queries_by_change(findings)
    kept = _affordable(findings, changed)
    measures = _affordable_measures(findings, len(kept))
    rankings = _rankings(findings, changed[:MOST_RANKINGS])
    folds = {fold: place for place, fold in enumerate(results.folds)}
    content = {
        "algorithms": results.algorithms,
        "folds": results.folds,
        "measures": [
            {
                "name": measure,
                "lower": is_lower_better(measure),
                "values": [
                    packed(findings.values[name, measure][kept]) for name in results.algorithms
                ],
            }
            for measure in measures
        ],
        "queries": [shorten(clean(results.queries[place][1]), _LONGEST_ID) for place in kept],
        "foldOf": [folds.get(results.queries[place][0], 0) for place in kept],
        "rankings": {
            str(place): rankings[int(query)]
            for place, query in enumerate(kept.tolist())
            if int(query) in rankings
        },
        "first": findings.baseline or results.algorithms[0],
        "second": _second(findings),
        "depth": DEPTH,
    }
    return ExplorerData(content, len(kept), len(rankings), measures)


def _second(findings: Findings) -> str:
    """The best algorithm; where that is the first, the next best."""
    first = findings.baseline or findings.results.algorithms[0]
    others = [name for name in findings.ranked() if name != first]
    return others[0] if others else first


def queries_by_change(findings: Findings) -> Any:
    """The numbers of the queries, those first on which algorithms differ most by the measure that decides.

    Where there is a baseline, by the largest difference from it; queries without a value are last.
    """
    names = findings.results.algorithms
    values = np.stack([findings.values[name, findings.primary] for name in names])
    if not values.shape[1]:
        return np.zeros(0, np.int64)
    if findings.baseline is not None:
        values = np.abs(values - findings.values[findings.baseline, findings.primary])
        change = np.where(np.isnan(values), -1.0, values).max(axis=0)
    else:
        change = -np.where(np.isnan(values), 2.0, values).min(
            axis=0
        )  # one algorithm: the worst first
    return np.argsort(-change, kind="stable")


def _affordable(findings: Findings, changed: Any) -> Any:
    """The queries whose values fit on the page, in the run's order; those that changed most, if not all fit."""
    per_query = 2.7 * len(findings.results.algorithms)
    ids = findings.results.queries
    sizes = np.array([min(len(ids[place][1].encode()), 4 * _LONGEST_ID) for place in changed])
    fitting = np.cumsum(sizes + 5 + per_query) <= _BYTES_FOR_VALUES
    return np.sort(changed[fitting])


def _affordable_measures(findings: Findings, n_queries: int) -> list[str]:
    """The measure that decides, and as many others as fit, by the run's order."""
    per_measure = max(2.7 * len(findings.results.algorithms) * n_queries, 1.0)
    return findings.results.measures[: max(1, int(_BYTES_FOR_VALUES / per_measure))]


def packed(values: Floats) -> dict[str, Any]:
    """Values as 16-bit numbers: value = low + step × number, exact to four decimals where the range allows it."""
    known = values[np.isfinite(values)]
    low = math.floor(float(known.min()) / _STEP) * _STEP if known.size else 0.0
    high = float(known.max()) if known.size else 0.0
    step = max(_STEP, (high - low) / (_MISSING - 1))
    scaled = np.where(np.isfinite(values), (values - low) / step, 0.0)
    numbers = np.where(np.isfinite(values), np.rint(scaled), _MISSING).astype("<u2")
    text = base64.b64encode(numbers.tobytes()).decode("ascii")
    return {"low": round(low, 6), "step": step, "data": text}


def _rankings(findings: Findings, queries: Any) -> dict[int, dict[str, Any]]:
    """By query: its documents' labels and names, and the rank each algorithm gives them."""
    results = findings.results
    wanted = sorted(int(query) for query in queries)
    found: dict[int, dict[str, Any]] = {query: {} for query in wanted}
    for (
        name
    ) in results.algorithms:  # by algorithm, then in order: a reader may keep the file it has open
        for query in wanted:
            ranked = results.rankings(name, query)
            if ranked is not None and len(ranked.labels):
                found[query][name] = ranked
    kept: dict[int, dict[str, Any]] = {}
    left = _BYTES_FOR_RANKINGS
    for query in (int(query) for query in queries):  # those that changed most first
        if found[query]:
            entry = _ranking_entry(results.algorithms, found[query])
            left -= len(json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode())
            if left < 0:
                break
            kept[query] = entry
    return kept


def _ranking_entry(algorithms: Sequence[str], by_name: dict[str, Any]) -> dict[str, Any]:
    """The documents that any algorithm ranks high, with the rank (from 1) that each algorithm gives them."""
    some = next(iter(by_name.values()))
    ranks = {name: ranks_of(ranked.scores) for name, ranked in by_name.items()}
    is_high = np.any([rank <= DEPTH for rank in ranks.values()], axis=0)
    documents = np.flatnonzero(is_high)
    return {
        "n": len(some.labels),
        "labels": [_label(some.labels[document]) for document in documents],
        "names": [shorten(clean(some.names[document]), _LONGEST_NAME) for document in documents],
        "ranks": [
            ranks[name][documents].tolist() if name in ranks else None for name in algorithms
        ],
    }


def ranks_of(scores: Floats) -> Any:
    """The rank of each document, from 1; equal scores keep the data's order."""
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    return ranks


def _label(label: float) -> float | int | None:
    if not math.isfinite(label):
        return None
    return int(label) if float(label).is_integer() else round(float(label), 4)
