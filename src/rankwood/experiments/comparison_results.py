"""A comparison of systems on one data set, as the results of a run with one fold and one repetition: for reports."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.errors import ParameterError
from rankwood.evaluation.compare_results import SystemComparison
from rankwood.experiments.results import CellRecord, RankedDocuments, RunResults

_FOLD = "all"


def run_results(
    comparison: SystemComparison,
    data: RankingData,
    *,
    name: str,
    record: Mapping[str, Any],
    baseline: str | None = None,
) -> RunResults:
    """What a report reads, of systems that were measured already; measures without values per query are left out."""
    found, kept = comparison.evaluations, _by_query(comparison)
    one = next(iter(found.values()))
    measures = list(kept)
    first = comparison.comparisons[measures[0]]
    return RunResults(
        name=name,
        record=record,
        conventions={text: dict(one.results[p].conventions) for text, p in kept.items()},
        algorithms=list(found),
        folds=[_FOLD],
        measures=measures,
        baseline=first.baseline if baseline is None else baseline,
        tests=list(first.tests),
        correction=first.correction,
        queries=[(_FOLD, str(query)) for query in data.queries.tolist()],
        values_by_repetition={
            (system, text): evaluation.results[place].per_query[np.newaxis, :]
            for system, evaluation in found.items()
            for text, place in kept.items()
        },
        cells=[
            CellRecord(
                system, _FOLD, 1, "done", means={t: e.results[p].value for t, p in kept.items()}
            )
            for system, e in found.items()
        ],
        rankings=functools.partial(_ranking, comparison, data),
    )


def _by_query(comparison: SystemComparison) -> dict[str, int]:
    """The measures that have a value per query, with their places."""
    results = next(iter(comparison.evaluations.values())).results
    texts = enumerate(comparison.comparisons)
    kept = {text: place for place, text in texts if not results[place].measure.is_pooled}
    if not kept:
        raise ParameterError(
            "a report shows queries, and none of these measures has a value per query. Add one, such as ndcg@10."
        )
    return kept


def _ranking(
    comparison: SystemComparison, data: RankingData, system: str, query: int
) -> RankedDocuments | None:
    if system not in comparison.scores or not 0 <= query < data.n_queries:
        return None
    rows = data.row_order[data.query_offsets[query] : data.query_offsets[query + 1]]
    numbers = np.arange(1, rows.size + 1) if data.doc_ids is None else data.doc_ids[rows]
    return RankedDocuments(
        np.asarray(data.labels[rows], np.float64),
        comparison.scores[system][rows],
        [str(document) for document in numbers.tolist()],
    )
