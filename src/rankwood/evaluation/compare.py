"""``compare``: two or more rankings of one data set, side by side, with tests and the queries that changed most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.ensembles.validation import is_minimised
from rankwood.errors import DataError, ParameterError
from rankwood.evaluation.changes import changed_queries
from rankwood.evaluation.compare_results import SystemComparison
from rankwood.evaluation.evaluate import DEFAULT_MEASURES, Evaluation, MeasureTexts, evaluate
from rankwood.evaluation.paired_tests import TESTS
from rankwood.evaluation.significance import Comparison, compare_values
from rankwood.measures.grouping import check_scores

__all__ = ["SystemComparison", "compare"]


def compare(
    systems: Mapping[str, Any],
    data: RankingData,
    measures: MeasureTexts = DEFAULT_MEASURES,
    *,
    baseline: str | None = None,
    preset: str | None = None,
    by: Any = None,
    tests: Sequence[str] = TESTS,
    correction: str = "holm",
    level: float = 0.05,
    n_resamples: int = 10_000,
    n_bootstrap: int = 1_000,
    n_changed: int = 10,
    seed: int = 0,
    n_threads: int | None = None,
) -> SystemComparison:
    """Measure several rankings of the same documents, and say which differences are more than chance.

    Parameters
    ----------
    systems
        By name, a fitted model or one score per row of ``data``; two or more. A model that was fitted to some of the
        data's features is given these, if they have names.
    data
        Labelled documents with queries.
    measures, preset, by
        As for ``evaluate``; the first measure decides which queries changed most.
    baseline
        The system that others are compared with; by default the best by each measure.
    tests, correction, level, n_resamples
        As for ``compare_values``.
    n_bootstrap
        Resamples of the queries for intervals.
    n_changed
        How many of the queries that changed most are kept for each system.
    """
    named = _checked(systems, baseline)
    _refuse_other_data(data)
    n_changed = _checks.whole_number("n_changed", n_changed, 0)
    scores = {name: scores_of(name, system, data) for name, system in named.items()}
    options = {"preset": preset, "by": by, "n_bootstrap": n_bootstrap, "seed": seed}
    found = {
        name: evaluate(each, data, measures, n_threads=n_threads, **options)
        for name, each in scores.items()
    }
    chosen = {
        "baseline": baseline,
        "tests": tests,
        "correction": correction,
        "level": level,
        "n_resamples": n_resamples,
        "n_bootstrap": n_bootstrap,
        "seed": seed,
    }
    comparisons = _comparisons(found, chosen)
    first = next(iter(comparisons.values()))
    values = {name: next(iter(each)).per_query for name, each in found.items()}
    changed = changed_queries(values, scores, first.baseline, data, n_changed, n_threads)
    segments = {
        segment: _comparisons(
            {name: each.segments[segment] for name, each in found.items()}, chosen
        )
        for segment in next(iter(found.values())).segments
    }
    return SystemComparison(
        found, comparisons, changed, segments, scores, tuple(_notes(found, data))
    )


def scores_of(name: str, system: Any, data: RankingData) -> Floats:
    """One score per row; what is wrong with a system is said with its name."""
    predict = getattr(system, "predict", None)
    try:
        given = system if predict is None else predict(_features_for(system, data))
        return check_scores(given, data.n_documents)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _features_for(model: Any, data: RankingData) -> RankingData:
    """The data, without the features that a model has never seen, where both have names."""
    known = getattr(model, "feature_names_in_", None)
    known = getattr(model, "feature_names", None) if known is None else known
    if known is None or data.feature_names is None:
        return data
    wanted = [str(name) for name in known]
    if len(wanted) == data.n_features or not set(wanted) <= set(data.feature_names):
        return data
    places = [data.feature_names.index(name) for name in wanted]
    return RankingData(
        data.features[:, places], data.labels, data.query_ids, feature_names=tuple(wanted)
    )


def _comparisons(
    found: Mapping[str, Evaluation], options: Mapping[str, Any]
) -> dict[str, Comparison]:
    """A comparison per measure, by the text it was asked for with."""
    one = next(iter(found.values()))
    comparisons = {}
    for place, text in enumerate(one.texts):
        measure = one.results[place].measure
        values = {name: each.results[place].per_query for name, each in found.items()}
        more: dict[str, Any] = {"higher_is_better": not is_minimised(measure)}
        if measure.is_pooled:  # its values of single queries do not make up its value
            values = {name: np.full(each.size, np.nan) for name, each in values.items()}
            if options["baseline"] is None:
                more["baseline"] = _best_by_value(found, place, is_minimised(measure))
        comparisons[text] = compare_values(values, **{**options, **more})
    return comparisons


def _best_by_value(found: Mapping[str, Evaluation], place: int, minimised: bool) -> str:
    of_name = {name: each.results[place].value for name, each in found.items()}
    return min(of_name, key=lambda name: of_name[name] if minimised else -of_name[name])


def _checked(systems: Any, baseline: str | None) -> dict[str, Any]:
    if not isinstance(systems, Mapping):
        raise ParameterError(
            "systems must be a mapping from names to models or scores, such as "
            f"{{'old': forest, 'new': boosted}}; got {type(systems).__name__}."
        )
    if len(systems) < 2:
        raise ParameterError(
            f"a comparison needs two systems or more, got {len(systems)}. Use evaluate for one."
        )
    named = {str(name): system for name, system in systems.items()}
    if baseline is not None:
        _checks.one_of("baseline", baseline, named)
    return named


def _refuse_other_data(data: Any) -> None:
    if not isinstance(data, RankingData):
        raise ParameterError(f"data must be RankingData, got {type(data).__name__}.")
    if data.n_documents == 0:
        raise DataError("the data have no rows: there is nothing to compare.")


def _notes(found: Mapping[str, Evaluation], data: RankingData) -> list[str]:
    """What a reader must know that no number says."""
    one = next(iter(found.values()))
    notes = one.notes()
    pooled = [text for text, row in zip(one.texts, one, strict=True) if row.measure.is_pooled]
    if pooled:
        notes.append(
            f"{', '.join(pooled)}: a value of all documents together, and no mean over queries: there are no tests."
        )
    if data.query_weights is not None:
        notes.append("values weigh queries by their weights; tests, differences and wins do not.")
    scores = {name: next(iter(each)).per_query for name, each in found.items()}
    equal = [
        f"{one} and {other}"
        for place, one in enumerate(scores)
        for other in list(scores)[place + 1 :]
        if np.array_equal(scores[one], scores[other], equal_nan=True)
    ]
    if equal:
        notes.append(f"the same on every query: {'; '.join(equal)}. Is it the same model twice?")
    return notes
