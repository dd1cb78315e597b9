"""``compare``: two or more rankings of one data set, with significance tests and the queries that changed most.

Every system is scored and evaluated (``evaluate``); the values per query are compared measure by measure
(``compare_values``), over all queries and in each segment; and for each system the queries that differ most from the
baseline are listed with the ranks of their relevant documents (``changed_queries``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.data.scores import Run, scores_of_run
from rankwood.dtypes import Floats, Rows
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.evaluate import DEFAULT_MEASURES, Evaluation, MeasureTexts, evaluate
from rankwood.evaluation.results import Result, Tables, attributes, show_number
from rankwood.evaluation.significance import (
    DEFAULT_TESTS,
    Comparison,
    checked_baselines,
    compare_values,
    comparison_table,
    corrected_across,
    disagreements,
    legend,
    practical_tables,
    strongest,
)
from rankwood.measures.measure import is_minimised, squeeze
from rankwood.measures.ranking import check_scores, rank_rows

__all__ = ["SystemComparison", "compare"]

_MOVES_SHOWN = 3


def compare(
    systems: Mapping[str, Any],
    data: RankingData,
    measures: MeasureTexts = DEFAULT_MEASURES,
    *,
    baseline: str | Sequence[str] | None = None,
    preset: str | None = None,
    by: Any = None,
    tests: Sequence[str] = DEFAULT_TESTS,
    test: str | None = None,
    correction: str = "holm",
    level: float = 0.05,
    margin: float | None = None,
    across_measures: bool = False,
    n_resamples: int = 10_000,
    n_bootstrap: int = 10_000,
    n_changed: int = 10,
    judged: Any = None,
    seed: int = 0,
    n_threads: int | None = None,
) -> SystemComparison:
    """Measure several rankings of the same documents, and test which differences are significant.

    Parameters
    ----------
    systems
        By name, a fitted model or one score per row of ``data``; two or more. A model that was fitted to some of the
        data's features is given these, if they have names. A TREC run, as ``rankwood.data.scores`` reads it, serves
        too: documents that it has not retrieved count as missed.
    data
        Labelled documents with queries.
    measures, preset, by
        As for ``evaluate``; the first measure decides which queries changed most.
    baseline
        The system that others are compared with; by default the best by each measure. Of several, the strongest of
        them by each measure.
    tests, test, correction, level, margin, n_resamples
        As for ``compare_values``.
    across_measures
        Correct over the comparisons by all measures together, as well as over systems.
    n_bootstrap
        Resamples of the queries for the interval of each system's own value.
    n_changed
        How many of the queries that changed most are kept for each system.
    judged
        Marks the rows whose label is known; the others have label 0.
    """
    named = _checked(systems, baseline)
    _refuse_other_data(data)
    n_changed = checks.whole_number("n_changed", n_changed, 0)
    scores = {name: scores_of(name, system, data) for name, system in named.items()}
    options = {
        "preset": preset,
        "by": by,
        "n_bootstrap": n_bootstrap,
        "seed": seed,
        "judged": judged,
    }
    retrieved = {
        name: scores[name] > -np.inf for name, one in named.items() if isinstance(one, Run)
    }
    evaluations = {
        name: evaluate(
            each, data, measures, retrieved=retrieved.get(name), n_threads=n_threads, **options
        )
        for name, each in scores.items()
    }
    chosen = {
        "baseline": baseline,
        "tests": tests,
        "test": test,
        "correction": correction,
        "level": level,
        "margin": margin,
        "n_resamples": n_resamples,
        "seed": seed,
    }
    is_across = checks.true_or_false("across_measures", across_measures)
    comparisons = _comparisons(evaluations, chosen, is_across)
    first = next(iter(comparisons.values()))
    values = {name: next(iter(each)).per_query for name, each in evaluations.items()}
    changed = changed_queries(values, scores, first.baseline, data, n_changed, n_threads)
    segments = {
        segment: _comparisons(
            {name: each.segments[segment] for name, each in evaluations.items()}, chosen, is_across
        )
        for segment in next(iter(evaluations.values())).segments
    }
    notes = tuple(_notes(evaluations, data))
    return SystemComparison(evaluations, comparisons, changed, segments, scores, notes)


def scores_of(name: str, system: Any, data: RankingData) -> Floats:
    """One score per row; errors are prefixed with the name of the system."""
    predict = getattr(system, "predict", None)
    try:
        if isinstance(system, Run):
            return scores_of_run(system, data)
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
    columns = [data.feature_names.index(name) for name in wanted]
    own = data.categorical
    return RankingData(
        data.features[:, columns],
        data.labels,
        data.query_ids,
        feature_names=tuple(wanted),
        categorical=None if own is None else tuple(own[column] for column in columns),
    )


def _comparisons(
    evaluations: Mapping[str, Evaluation], options: Mapping[str, Any], is_across: bool
) -> dict[str, Comparison]:
    """A comparison per measure, by the text that names it."""
    one = next(iter(evaluations.values()))
    comparisons = {}
    for index, text in enumerate(one.texts):
        measure = one.results[index].measure
        values = {name: each.results[index].per_query for name, each in evaluations.items()}
        more: dict[str, Any] = {"higher_is_better": not is_minimised(measure)}
        if measure.is_pooled:  # its values of single queries do not make up its value
            values = {name: np.full(each.size, np.nan) for name, each in values.items()}
            if options["baseline"] is None:
                more["baseline"] = _best_by_value(evaluations, index, is_minimised(measure))
            elif not isinstance(options["baseline"], str):
                among = {name: evaluations[name] for name in options["baseline"]}
                more["baseline"] = _best_by_value(among, index, is_minimised(measure))
        comparisons[text] = compare_values(values, **{**options, **more})
    return corrected_across(comparisons) if is_across else comparisons


def _best_by_value(evaluations: Mapping[str, Evaluation], index: int, minimised: bool) -> str:
    of_name = {name: each.results[index].value for name, each in evaluations.items()}
    return min(of_name, key=lambda name: of_name[name] if minimised else -of_name[name])


def _checked(systems: Any, baseline: str | Sequence[str] | None) -> dict[str, Any]:
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
    checked_baselines(baseline, named)
    return named


def _refuse_other_data(data: Any) -> None:
    if not isinstance(data, RankingData):
        raise ParameterError(f"data must be RankingData, got {type(data).__name__}.")
    if data.n_documents == 0:
        raise DataError("the data have no rows: there is nothing to compare.")


def _notes(evaluations: Mapping[str, Evaluation], data: RankingData) -> list[str]:
    """Conventions, measures without tests, weights, and systems that rank alike."""
    one = next(iter(evaluations.values()))
    notes = one.notes()
    pooled = {
        t: row.measure for t, row in zip(one.texts, one, strict=True) if row.measure.is_pooled
    }
    if pooled:
        tested = ", ".join(str(measure.over_queries) for measure in pooled.values())
        notes.append(
            f"{', '.join(pooled)}: a value of all documents together, and no mean over queries: there are no tests. "
            f"Means over queries, which are tested: {tested}."
        )
    if data.query_weights is not None:
        notes.append("values weigh queries by their weights; tests, differences and wins do not.")
    scores = {name: next(iter(each)).per_query for name, each in evaluations.items()}
    equal = [
        f"{one} and {other}"
        for index, one in enumerate(scores)
        for other in list(scores)[index + 1 :]
        if np.array_equal(scores[one], scores[other], equal_nan=True)
    ]
    if equal:
        notes.append(f"the same on every query: {'; '.join(equal)}. Is it the same model twice?")
    return notes


@dataclass(frozen=True, eq=False)
class SystemComparison(Result):
    """Several systems on one data set.

    Parameters
    ----------
    evaluations
        By system, as ``evaluate`` gives them.
    comparisons
        By measure, as ``compare_values`` gives them.
    changed
        By system, the queries on which the first measure differs most from the baseline's.
    segments
        By segment and measure, with ``by``.
    scores
        By system, one per row.
    notes
        Conventions, and what could not be tested.
    """

    evaluations: Mapping[str, Evaluation]
    comparisons: Mapping[str, Comparison]
    changed: Mapping[str, tuple[ChangedQuery, ...]]
    segments: Mapping[Any, Mapping[str, Comparison]] = field(default_factory=dict)
    scores: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def __getitem__(self, measure: str) -> Comparison:
        for text, comparison in self.comparisons.items():
            if squeeze(text) == squeeze(str(measure)):
                return comparison
        raise UnknownName("measure of this comparison", str(measure), self.comparisons)

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    @property
    def systems(self) -> list[str]:
        """The names of the systems."""
        return list(self.evaluations)

    def table(self, measure: str) -> list[dict[str, str]]:
        """The systems by one measure as texts, the baseline first; p values are the adjusted ones."""
        return comparison_table(self[measure], self._values(measure))

    def rows(self) -> list[dict[str, Any]]:
        """A flat mapping per segment, measure and system compared, numbers in full."""
        rows = [
            {"segment": "all", "measure": text} | row
            for text, comparison in self.comparisons.items()
            for row in comparison.to_rows()
        ]
        for segment, comparisons in self.segments.items():
            for text, comparison in comparisons.items():
                rows += [
                    {"segment": str(segment), "measure": text} | r for r in comparison.to_rows()
                ]
        return rows

    def changed_table(self) -> list[dict[str, str]]:
        """The queries that changed most as texts, system by system."""
        return [
            {
                "name": name,
                "query": each.query,
                "baseline": show_number(each.baseline_value),
                "value": show_number(each.value),
                "difference": f"{each.difference:+.4f}",
                "places": f"{each.places:+,}",
                "moves": _moves_as_text(each),
            }
            for name, queries in self.changed.items()
            for each in queries
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        return {
            "systems": {name: each.to_dict() for name, each in self.evaluations.items()},
            "comparisons": {
                text: comparison.to_dict() for text, comparison in self.comparisons.items()
            },
            "segments": {
                str(segment): {
                    text: comparison.to_dict() for text, comparison in comparisons.items()
                }
                for segment, comparisons in self.segments.items()
            },
            "changed": {
                name: [q.to_dict() for q in queries] for name, queries in self.changed.items()
            },
            "notes": list(self.notes),
        }

    def _footnotes(self) -> list[str]:
        first, *others = self.comparisons
        chosen = [
            f"{text}: {strongest(self.comparisons[text])}"
            for text in others
            if self.comparisons[text].candidates
        ]
        disagreeing = [
            f"{text}: {note}"
            for text, comparison in self.comparisons.items()
            for note in disagreements(comparison)
        ]
        return [*legend(self.comparisons[first]), *chosen, *disagreeing, *self.notes]

    def _records(self) -> list[dict[str, Any]]:
        return self.rows()

    def _tables(self) -> Tables:
        tables = {text: self.table(text) for text in self.comparisons}
        for segment, comparisons in self.segments.items():
            for text, comparison in comparisons.items():
                tables[f"{text}, {segment}"] = comparison_table(
                    comparison, self._values(text, segment)
                )
        tables |= practical_tables(self.comparisons)
        changed = self.changed_table()
        if changed:
            text, first = next(iter(self.comparisons.items()))
            measure = next(iter(self.evaluations.values())).results[0].measure
            name = str(measure.over_queries) if measure.is_pooled else text
            tables[f"queries whose {name} differs most from {first.baseline}'s"] = changed
        return tables

    def _values(self, measure: str, segment: Any = None) -> dict[str, float]:
        """The value of each system, weighted by query weights if there are any."""
        texts = [squeeze(text) for text in self.comparisons]
        index = texts.index(squeeze(str(measure)))
        return {
            name: (each if segment is None else each.segments[segment]).results[index].value
            for name, each in self.evaluations.items()
        }


def _moves_as_text(changed: ChangedQuery) -> str:
    """The ranks of the relevant documents that moved, before and after, the longest moves first."""
    moved = [move for move in changed.moves if move.places]
    shown = [f"{move.document}: {move.before}→{move.after}" for move in moved[:_MOVES_SHOWN]]
    more = f" and {len(moved) - _MOVES_SHOWN} more" if len(moved) > _MOVES_SHOWN else ""
    return ", ".join(shown) + more


# The queries on which two rankings differ most, and how far their relevant documents moved.


@dataclass(frozen=True)
class Move:
    """A relevant document's rank with the baseline, and with the other system; 1 is the top."""

    document: str
    label: float
    before: int
    after: int

    @property
    def places(self) -> int:
        """By how many ranks it rose; negative if it fell."""
        return self.before - self.after


@dataclass(frozen=True)
class ChangedQuery:
    """A query whose value differs from the baseline's.

    ``moves`` are of the documents with a label above 0, the longest move first. ``places`` is their sum: how many ranks
    relevant documents rose in all, minus those they fell.
    """

    name: str
    query: str
    number: int  # of the query in the data, from 0
    baseline_value: float
    value: float
    moves: tuple[Move, ...]

    @property
    def difference(self) -> float:
        """The value minus the baseline's."""
        return self.value - self.baseline_value

    @property
    def places(self) -> int:
        """By how many ranks relevant documents rose in all."""
        return sum(move.places for move in self.moves)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        names = ("name", "query", "baseline_value", "value", "difference", "places")
        moves = [{**vars(move), "places": move.places} for move in self.moves]
        return {**attributes(self, *names), "moves": moves}


def changed_queries(
    values: Mapping[str, Floats],
    scores: Mapping[str, Floats],
    baseline: str,
    data: RankingData,
    n_changed: int,
    n_threads: int | None = None,
) -> dict[str, tuple[ChangedQuery, ...]]:
    """For each other system its most changed queries, by the size of the difference whatever its sign."""
    changed: dict[str, tuple[ChangedQuery, ...]] = {}
    before, _ = rank_rows(scores[baseline], data, n_threads)
    names = data.queries.tolist()
    for name in values:
        if name == baseline:
            continue
        after, _ = rank_rows(scores[name], data, n_threads)
        difference = np.abs(values[name] - values[baseline])
        by_size = np.argsort(-np.nan_to_num(difference, nan=0.0), kind="stable")[:n_changed]
        changed[name] = tuple(
            ChangedQuery(
                name,
                str(names[query]),
                query,
                float(values[baseline][query]),
                float(values[name][query]),
                _moves(query, before, after, data),
            )
            for query in by_size.tolist()
            if difference[query] > 0.0
        )
    return changed


def _moves(query: int, before: Rows, after: Rows, data: RankingData) -> tuple[Move, ...]:
    rows = data.row_order[data.query_offsets[query] : data.query_offsets[query + 1]]
    moves = [
        Move(
            str(number) if data.doc_ids is None else str(data.doc_ids[row]),
            float(data.labels[row]),
            int(before[row]),
            int(after[row]),
        )
        for number, row in enumerate(rows.tolist(), 1)
        if data.labels[row] > 0.0
    ]
    return tuple(sorted(moves, key=lambda move: -abs(move.places)))
