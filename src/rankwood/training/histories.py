"""What a fit looks at: validation sets and measures, and a history for each pair of them.

The first set and the first measure decide: early stopping looks at nothing else. Every other pair is only recorded. It
changes nothing that is learned, so it is computed when the trees are grown, from the scores after each round.

The history is a list where there is one unnamed set and one measure. Where ``valid`` is a mapping, or ``measure`` a
list, it is a mapping from the name of a set to a mapping from measures to lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankwood._core import checks
from rankwood._core.checks import read_only
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError
from rankwood.measures.compute import RepeatedMeasure
from rankwood.measures.measure import Measure, OwnMeasure, parse_measure
from rankwood.measures.ranking import check_scores
from rankwood.training.inputs import validation_data

ONLY = "valid"  # the name of a set that was given without one

AnyMeasure = Measure | OwnMeasure
History = list[float] | dict[str, dict[str, list[float]]]
Stages = Callable[[str, RankingData], Iterator[Floats]]


def measures_of(measure: Any) -> list[AnyMeasure]:
    """The parameter ``measure``: a text, a function of (scores, data), or several; the first one decides."""
    several = measure if isinstance(measure, list | tuple) else [measure]
    if not several:
        raise ParameterError("measure is an empty list: name at least one measure.")
    parsed = [OwnMeasure.of(each) if callable(each) else parse_measure(each) for each in several]
    names = [str(each) for each in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"measure names {name} twice.")
    return parsed


def deciding_measure(measure: Any) -> AnyMeasure:
    """The measure that early stopping looks at."""
    return measures_of(measure)[0]


def one_or_several_measures(_: str, value: Any) -> object:
    """Raise for what the parameter ``measure`` of a ranker that grows in rounds cannot be."""
    return measures_of(value)


@dataclass(frozen=True, eq=False)
class ValidationSets:
    """The validation data of a fit by name; the first set decides."""

    by_name: Mapping[str, RankingData]
    has_names: bool = False  # whether the caller has named them

    @classmethod
    def of(cls, valid: Any, train: RankingData) -> ValidationSets:
        """The argument ``valid`` of ``fit``."""
        if not isinstance(valid, Mapping):
            only = validation_data(valid, train)
            return cls({} if only is None else {ONLY: only})
        if not valid:
            raise ParameterError(
                "valid is an empty mapping: name at least one set, or leave it out."
            )
        sets = {}
        for name, given in valid.items():
            if not isinstance(name, str) or not name:
                raise ParameterError(
                    f"valid must map names to data, got the name {checks.plain(name)}."
                )
            data = validation_data(given, train)
            if data is None:
                raise ParameterError(f"valid has nothing under the name '{name}'.")
            sets[name] = data
        return cls(sets, has_names=True)

    @property
    def first(self) -> RankingData | None:
        """The set that early stopping looks at; None without validation data."""
        return next(iter(self.by_name.values()), None)


@dataclass(frozen=True, eq=False)
class StartScores:
    """Scores that boosting starts from, which are no part of the model: of training rows, and of sets by name."""

    train: Floats
    valid: Mapping[str, Floats]

    @classmethod
    def of(cls, train: Any, valid: Any, n_rows: int, sets: ValidationSets) -> StartScores | None:
        """The arguments ``init_scores`` and ``valid_init_scores`` of ``fit``; None where neither is given."""
        if train is None:
            if valid is not None:
                raise ParameterError("valid_init_scores was passed without init_scores.")
            return None
        names = list(sets.by_name)
        if valid is None and names:
            raise ParameterError(
                "init_scores was passed with validation data, whose scores start somewhere too: pass "
                "valid_init_scores, one number per row, or a mapping from the names of sets."
            )
        given = valid if isinstance(valid, Mapping) else dict(zip(names[:1], [valid], strict=False))
        for name in names:
            if name not in given:
                raise ParameterError(f"valid_init_scores lacks the set '{name}' of valid.")
        for name in given:
            if name not in names:
                raise ParameterError(
                    f"valid_init_scores names '{name}', which valid does not have."
                )
        of_valid = {
            name: checks.vector(f"valid_init_scores of '{name}'", given[name], data.n_documents)
            for name, data in sets.by_name.items()
        }
        return cls(checks.vector("init_scores", train, n_rows), of_valid)


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """One measure of one set, with what follows from labels alone computed once for all rounds."""

    data: RankingData
    measure: AnyMeasure
    n_threads: int | None
    repeated: RepeatedMeasure | None  # None: a measure of the user's own

    @classmethod
    def of(cls, data: RankingData, measure: AnyMeasure, n_threads: int | None) -> MeasuredSet:
        """A measure of a set; an error where the set lacks the queries that it needs."""
        if isinstance(measure, OwnMeasure):
            return cls(data, measure, n_threads, None)
        if data.query_ids is None and measure.needs_queries:
            raise DataError(
                f"valid has no query ids, which {measure} needs. Pass (X, y, qid), or measure='rmse'."
            )
        return cls(data, measure, n_threads, RepeatedMeasure.of(measure, data, n_threads))

    def value(self, scores: Floats) -> float:
        """The measure of some scores."""
        if isinstance(self.measure, OwnMeasure):
            return self.measure.value(read_only(scores), self.data)
        assert self.repeated is not None
        if self.measure.needs_queries:
            scores = check_scores(scores, scores.size)
        return self.repeated.value(read_only(scores))


def history_of(
    decided: list[float],
    sets: ValidationSets,
    measure: Any,
    stages: Stages,
    n_threads: int | None,
) -> History:
    """The history of a fit: ``decided`` alone, or those of all sets and measures.

    ``decided`` is the first measure of the first set by round. ``stages`` gives the scores of a set after each round.
    """
    if not sets.has_names and not isinstance(measure, list | tuple):
        return list(decided)
    first, *others = measures_of(measure)
    history: dict[str, dict[str, list[float]]] = {}
    for number, (name, data) in enumerate(sets.by_name.items()):
        values: dict[str, list[float]] = {str(first): list(decided) if number == 0 else []}
        asked = others if number == 0 else [first, *others]
        measured = [MeasuredSet.of(data, each, n_threads) for each in asked]
        for scores in stages(name, data) if asked else ():
            for each in measured:
                values.setdefault(str(each.measure), []).append(each.value(scores.copy()))
        history[name] = values
    return history


def check_sets(sets: ValidationSets, measure: Any) -> None:
    """Raise before anything is grown where a set lacks the query ids that a measure needs."""
    for data in sets.by_name.values():
        for each in measures_of(measure):
            if data.query_ids is None and not isinstance(each, OwnMeasure):
                MeasuredSet.of(data, each, 1)


def deciding_history(history: Any) -> list[Any]:
    """The part of ``history_`` that early stopping looked at: by round, whatever else was recorded."""
    if isinstance(history, Mapping):
        return deciding_history(next(iter(history.values()), []))
    return list(history or [])


def first_rounds(history: Any, n_rounds: int) -> Any:
    """The history up to a round, whatever its shape."""
    if isinstance(history, Mapping):
        return {name: first_rounds(each, n_rounds) for name, each in history.items()}
    return history[:n_rounds]


def stages_at(stages: Iterator[tuple[int, Floats]], counts: Sequence[int]) -> Iterator[Floats]:
    """The scores after these numbers of trees, of pairs (number of trees, scores)."""
    wanted = frozenset(counts)
    return (scores for n_trees, scores in stages if n_trees in wanted)
