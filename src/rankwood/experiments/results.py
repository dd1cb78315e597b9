"""The results of a run: its cells, and every measure by query.

``read_run`` reads them from the run's folder, complete or not. ``run_results`` makes the same of a comparison of
systems on one data set, as a run with one fold and one repetition, so that both have the same report.

Terms
    cell         one algorithm on one fold in one repetition
    query        a test query of one fold; ``queries`` numbers those of all folds through
    values       a measure by query, averaged over the repetitions of an algorithm
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, InputError, ParameterError, UnknownName, counted
from rankwood.evaluation.compare import SystemComparison
from rankwood.experiments.foreign import write_trec
from rankwood.experiments.settings import MOST_REPETITIONS, Cell, CompareSettings
from rankwood.experiments.store import (
    FORMAT,
    RECORD,
    RunFolder,
    has_its_checksum,
    has_shape,
    refuse_damaged,
    scored_documents,
)

_MOST_CELLS = 1_000_000
# What the parts of a run's record are, besides its configuration.
_SHAPES: dict[str, Any] = {
    **{"name": str, "measures": {str: str}, "conventions": {str: {str: str}}, "repeat": dict},
    **{
        "data": dict,
        "versions": {str: str},
        "machine": dict,
        "seeds": dict,
        "started": str,
        "status": str,
    },
    **{"left_out": dict, "lost_workers": list},
}
_SHAPES_OF_DATA: dict[str, Any] = {
    **{"files": {str: dict}, "digests": {str: str}, "warnings": [str], "notes": [str]},
}
_ONLY_FOLD = "all"  # of a comparison that was no experiment


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
    importance: Mapping[str, float] = field(default_factory=dict)  # of tuned parameters, by Optuna
    warnings: list[str] = field(default_factory=list)
    sizes: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # measure -> rounds, trees, valid, cost, where sizes were chosen or costs counted
    weights: Mapping[str, float] = field(
        default_factory=dict
    )  # by name, of what a score is composed of: grades' models (OrdinalRanker), parts (Blend)


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
    baseline: str | tuple[str, ...] | None  # of several the strongest by each measure
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
    notes: list[str] = field(default_factory=list)  # what a reader must know of the data
    folds_share_queries: bool = False  # then a query of several folds is here once, in the first
    compare: CompareSettings = field(default_factory=CompareSettings)
    once: tuple[
        str, ...
    ] = ()  # algorithms that are not random: one repetition, whatever the others have

    @property
    def primary(self) -> str:
        """The measure that decides."""
        return self.measures[0]

    @property
    def n_repetitions(self) -> int:
        """How often each algorithm was fitted on a fold, at most; those that are not random (``once``) only once."""
        return max((len(array) for array in self.values_by_repetition.values()), default=0)

    def baseline_among(self, known: Collection[str]) -> str | tuple[str, ...] | None:
        """The baseline as ``compare_values`` takes it, without names that are not ``known``; None where none is."""
        if self.baseline is None or isinstance(self.baseline, str):
            return self.baseline if self.baseline in known else None
        return tuple(name for name in self.baseline if name in known) or None

    def values(self, algorithm: str, measure: str) -> Floats:
        """A measure by query, the mean over the repetitions that finished; NaN where none did."""
        by_repetition = self.values_by_repetition[algorithm, measure]
        known = ~np.isnan(by_repetition)
        count = known.sum(axis=0)
        total = np.where(known, by_repetition, 0.0).sum(axis=0)
        means: Floats = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
        return means

    def to_arrow(self) -> Any:
        """Every value as an Arrow table: algorithm, fold, repetition, query, measure, value.

        There is a row for each measure of each test query of each finished cell. A value is NaN where the measure
        leaves the query out, or is one of all documents together. A query that several folds share stands under the
        first of them, with its mean over folds.
        """
        import pyarrow as pa

        done = {(c.algorithm, c.fold, c.repetition) for c in self.cells if c.status == "done"}
        places = []  # number of algorithm, repetition, number of measure, and the numbers of the queries
        values = [np.empty(0)]
        for (algorithm, measure), by_repetition in self.values_by_repetition.items():
            for repetition, of_query in enumerate(by_repetition, start=1):
                finished = {fold for fold in self.folds if (algorithm, fold, repetition) in done}
                known = [n for n, (fold, _) in enumerate(self.queries) if fold in finished]
                which = (self.algorithms.index(algorithm), repetition, self.measures.index(measure))
                places.append((*which, np.array(known, np.int64)))
                values.append(of_query[known])
        sizes = [known.size for *_, known in places]
        one, two, three = (
            np.repeat([p[n] for p in places], sizes).astype(np.int64) for n in range(3)
        )
        query = np.concatenate([np.empty(0, np.int64), *(known for *_, known in places)])
        folds, queries = (pa.array([q[n] for q in self.queries], pa.string()) for n in range(2))
        columns = {
            "algorithm": pa.array(self.algorithms, pa.string()).take(pa.array(one)),
            "fold": folds.take(pa.array(query)),
            "repetition": pa.array(two),
            "query": queries.take(pa.array(query)),
            "measure": pa.array(self.measures, pa.string()).take(pa.array(three)),
            "value": pa.array(np.concatenate(values)),
        }
        return pa.table(columns)

    def to_frame(self) -> Any:
        """The table of ``to_arrow`` as a pandas frame.

        Examples
        --------
        >>> frame = read_run("runs/broof").to_frame()                              # doctest: +SKIP
        >>> frame.groupby(["algorithm", "measure"])["value"].mean()                # doctest: +SKIP
        """
        try:
            import pandas  # noqa: F401 - Arrow makes the frame
        except ImportError:
            raise InputError(
                "to_frame needs the package 'pandas'. Install it with: pip install pandas, or use to_arrow()."
            ) from None
        return self.to_arrow().to_pandas()

    def sizes(self) -> list[dict[str, Any]]:
        """For each algorithm and measure the size it was measured at and its cost: means over the cells that have them.

        ``valid`` is the measure on the validation part, which the size was chosen by; None where it was not chosen.
        """
        rows = []
        for algorithm in self.algorithms:
            for measure in self.measures:
                cells = [cell for cell in self.cells if cell.algorithm == algorithm]
                found = [cell.sizes[measure] for cell in cells if measure in cell.sizes]
                tested = [cell.means[measure] for cell in cells if measure in cell.sizes]
                if found:
                    row = {"algorithm": algorithm, "measure": measure}
                    names = ("rounds", "trees", "valid", "cost")
                    rows.append(
                        row
                        | {name: _mean([one[name] for one in found]) for name in names}
                        | {"test": _mean(tested)}
                    )
        return rows

    def write_trec(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write ``qrels.txt`` and a run file per algorithm, for ranx, ir_measures, PyTerrier and trec_eval.

        The runs rank as Rankwood does: equal scores, which other programs order by document ids, are written a last
        digit apart. They are of the first repetition, and need a run that kept its scores. A query that several folds
        share is ranked by the first fold's model; where folds have other documents under the same query ids, each fold
        has a folder of its own. Gives the paths, the qrels first.
        """
        return write_trec(self, folder)

    def weights(self, algorithm: str) -> dict[tuple[str, int], Mapping[str, float]]:
        """The weights that an algorithm's score is composed with, by fold and repetition, then by name.

        ``OrdinalRanker`` has those of its cumulative models and a constant, ``Blend`` those of its parts; for other
        rankers the result is empty.
        """
        if algorithm not in self.algorithms:
            raise UnknownName("algorithm of this run", algorithm, self.algorithms)
        return {
            (cell.fold, cell.repetition): cell.weights
            for cell in self.cells
            if cell.algorithm == algorithm and cell.weights
        }


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def read_run(folder: str | os.PathLike[str]) -> RunResults:
    """The results of the run in ``folder``; cells that have not been run yet are left out.

    Examples
    --------
    >>> results = read_run("runs/broof")                       # doctest: +SKIP
    >>> results.values("BROOF", results.primary).mean()        # doctest: +SKIP
    """
    run = RunFolder(folder)
    record = _record(run)
    configuration = record["configuration"]
    algorithms = [one["name"] for one in configuration["algorithms"]]
    folds = [one["name"] for one in configuration["data"]["folds"]]
    measures = list(configuration["measures"])
    records = _cell_records(run, configuration, algorithms, folds)
    queries, values = _values(run, records, measures)
    queries, values, shared = merge_shared(queries, values, _content_of_query(run, record))
    unknown = np.full(len(queries), np.nan)
    repetitions = range(1, int(configuration["repetitions"]) + 1)
    conventions = _conventions(record, records)
    return RunResults(
        name=str(record["name"]),
        record=record,
        conventions=conventions,
        algorithms=algorithms,
        folds=folds,
        measures=measures,
        baseline=_baseline(configuration["baseline"]),
        tests=list(configuration["tests"]),
        correction=str(configuration["correction"]),
        queries=queries,
        values_by_repetition={
            (algorithm, measure): np.stack(
                [values.get((algorithm, measure, one), unknown) for one in repetitions]
            )
            for algorithm in algorithms
            for measure in measures
        },
        cells=[_cell_record(each, measures) for each in records.values()],
        rankings=_rankings(run, algorithms, queries),
        notes=[*_said_of_data(record), *shared],
        folds_share_queries=bool(shared),
        compare=CompareSettings(**configuration.get("compare", {})),
        once=tuple(
            one["name"] for one in configuration["algorithms"] if not one.get("is_random", True)
        ),
    )


def run_results(
    comparison: SystemComparison,
    data: RankingData,
    *,
    name: str,
    record: Mapping[str, Any],
    baseline: str | Sequence[str] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> RunResults:
    """What a report reads, of systems that were measured already; measures without values per query are left out.

    ``resamples`` and ``seed`` are those of the comparison, so that the report has its numbers.
    """
    evaluations, kept = comparison.evaluations, _by_query(comparison)
    one = next(iter(evaluations.values()))
    measures = list(kept)
    first = comparison.comparisons[measures[0]]
    return RunResults(
        name=name,
        record=record,
        conventions={text: dict(one.results[number].conventions) for text, number in kept.items()},
        algorithms=list(evaluations),
        folds=[_ONLY_FOLD],
        measures=measures,
        baseline=first.baseline if baseline is None else _baseline(baseline),
        tests=list(first.tests),
        correction=first.correction,
        queries=[(_ONLY_FOLD, str(query)) for query in data.queries.tolist()],
        values_by_repetition={
            (system, text): evaluation.results[number].per_query[np.newaxis, :]
            for system, evaluation in evaluations.items()
            for text, number in kept.items()
        },
        cells=[
            CellRecord(
                system,
                _ONLY_FOLD,
                1,
                "done",
                means={t: e.results[p].value for t, p in kept.items()},
            )
            for system, e in evaluations.items()
        ],
        rankings=functools.partial(_ranking, comparison, data),
        compare=CompareSettings(
            first.test, first.level, first.margin, resamples, first.n_measures > 1, seed
        ),
    )


def _baseline(given: str | Sequence[str] | None) -> str | tuple[str, ...] | None:
    """A name, or several as a tuple."""
    return given if given is None or isinstance(given, str) else tuple(given)


def _record(run: RunFolder) -> dict[str, Any]:
    path = run.path / RECORD
    if not run.path.is_dir():
        raise DataError(f"there is no folder {run.path}: a run is made by rankwood experiment.")
    if not path.is_file():
        raise DataError(f"{run.path} holds no run: {RECORD} is missing.")
    try:
        record = json.loads(path.read_text())
        version = record["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path} is damaged: it cannot be read as the record of a run.") from None
    if not has_its_checksum(record):
        raise DataError(
            f"{path} is damaged: it is not what was written. Run the experiment again: finished cells are kept."
        )
    if version != FORMAT:
        raise DataError(
            f"{path} has format {version}, and this version of Rankwood reads format {FORMAT}."
        )
    problem = _problem_of(record)
    if problem:
        raise DataError(f"{path} is damaged: {problem}.")
    return dict(record)


def _problem_of(record: Mapping[str, Any]) -> str:
    """What is wrong with the parts of a record that say how many cells there are; empty where nothing is."""
    try:
        configuration = record["configuration"]
        algorithms, folds = configuration["algorithms"], configuration["data"]["folds"]
        named = [(one["name"], "repetitions" in one) for one in algorithms]
        named += [(one["name"], True) for one in folds]
        counts = [configuration["repetitions"], *(one["repetitions"] for one in algorithms)]
        texts = [*configuration["measures"], *(name for name, _ in named)]
    except (LookupError, TypeError, AttributeError):
        return "its configuration does not name algorithms, folds, measures and repetitions"
    if not all(isinstance(text, str) for text in texts):
        return "names of algorithms, folds and measures must be texts"
    if not all(type(count) is int and 1 <= count <= MOST_REPETITIONS for count in counts):
        return f"repetitions must be whole numbers from 1 to {MOST_REPETITIONS:,}"
    if len(folds) * sum(counts[1:]) > _MOST_CELLS:
        return f"it has more than {_MOST_CELLS:,} cells"
    return _problem_of_kinds(record, folds)


def _problem_of_kinds(record: Mapping[str, Any], folds: Sequence[Mapping[str, Any]]) -> str:
    """Which part of a record is no text, list or table where it has to be one; empty where none is."""
    configuration = record["configuration"]
    parts: list[tuple[Any, Mapping[str, Any]]] = [
        (record, _SHAPES),
        (configuration, {"tests": [str], "correction": str}),
        (configuration["data"], {"measure_on": str}),
        (record.get("data", {}), _SHAPES_OF_DATA),
        *((one, {"files": {str: (str, type(None))}}) for one in folds),
    ]
    for part, shapes in parts:
        for name, shape in shapes.items():
            if name in part and not has_shape(part[name], shape):
                return f"its part '{name}' is not what Rankwood writes there"
    try:
        CompareSettings(**configuration.get("compare", {}))
    except TypeError:
        return "its part 'compare' is not what Rankwood writes there"
    lacking = [name for name in ("name", "conventions") if name not in record]
    lacking += [name for name in ("tests", "correction", "baseline") if name not in configuration]
    return f"its part '{lacking[0]}' is missing" if lacking else ""


def _cell_records(
    run: RunFolder, configuration: Mapping[str, Any], algorithms: list[str], folds: list[str]
) -> dict[Cell, dict[str, Any]]:
    """The records that there are, of the cells of the run as it stands."""
    most = {one["name"]: int(one["repetitions"]) for one in configuration["algorithms"]}
    records: dict[Cell, dict[str, Any]] = {}
    for fold in folds:
        for algorithm in algorithms:
            for repetition in range(1, most[algorithm] + 1):
                cell = Cell(algorithm, fold, repetition)
                record = run.cell_record(cell)
                if record is not None:
                    where = (record["algorithm"], record["fold"], record["repetition"])
                    if where != (algorithm, fold, repetition):
                        raise refuse_damaged(run.cell_path(cell), "it is of another cell")
                    records[cell] = record
                elif (path := run.cell_path(cell)).exists():  # left out, other figures would follow
                    raise refuse_damaged(path)
    return records


def _values(
    run: RunFolder, records: Mapping[Cell, Mapping[str, Any]], measures: list[str]
) -> tuple[list[tuple[str, str]], dict[tuple[str, str, int], Floats]]:
    """The test queries of all folds, and each finished cell's values, aligned with them.

    The values are by algorithm, measure and repetition, NaN for queries of folds where that cell is not finished.
    """
    done = [cell for cell, record in records.items() if record["status"] == "done"]
    read = {cell: run.cell_values(cell) for cell in done}
    queries_of = {cell.fold: read[cell][0] for cell in reversed(done)}
    queries = [
        (fold, query) for fold in dict.fromkeys(c.fold for c in done) for query in queries_of[fold]
    ]
    first_of: dict[str, int] = {}
    for number, (fold, _) in enumerate(queries):
        first_of.setdefault(fold, number)
    values: dict[tuple[str, str, int], Floats] = {}
    for cell, (names, of_measure) in read.items():
        if not names:
            raise refuse_damaged(run.cell_path(cell), "it has no queries")
        if names != queries_of[cell.fold]:
            raise DataError(
                f"{run.cell_path(cell)} has other queries than the cells before it on {cell.fold}: "
                "remove it and run the experiment again."
            )
        first = first_of[cell.fold]
        conventions = records[cell].get("conventions", {})
        for measure in measures:
            if measure not in conventions or measure not in of_measure:
                raise refuse_damaged(run.cell_path(cell), f"it lacks {measure}")
            key = (cell.algorithm, measure, cell.repetition)
            row = values.setdefault(key, np.full(len(queries), np.nan))
            if "pooled" not in conventions[measure]:  # else means over queries are other numbers
                row[first : first + len(names)] = of_measure[measure]
    return queries, values


Key = tuple[str, Any]  # of a query: its id, and what tells its content


def _content_of_query(run: RunFolder, record: Mapping[str, Any]) -> Callable[[str, str], Any]:
    """A function that gives the content of a fold's query; equal for queries that are the same.

    Runs of earlier versions have no hashes of queries: there the queries of one file are the same.
    """
    contents = run.contents()
    data = record["configuration"]["data"]
    files = record.get("data", {}).get("files", {})
    part = data.get("measure_on", "test")
    file_of = {one["name"]: files.get(one.get("files", {}).get(part), {}) for one in data["folds"]}

    def content(fold: str, query: str) -> Any:
        if query in contents.get(fold, {}):
            return contents[fold][query]
        return file_of.get(fold, {}).get("sha256", fold)

    return content


def merge_shared(
    queries: list[tuple[str, str]],
    values: Mapping[tuple[str, str, int], Floats],
    content: Callable[[str, str], Any],
) -> tuple[list[tuple[str, str]], dict[tuple[str, str, int], Floats], list[str]]:
    """Test queries that several folds share as one query each, with the mean of its values over folds.

    Such values are not independent: counted one by one, they would make every p value and interval too small. Also
    gives a sentence that says so, where it happened.
    """
    place_of: dict[Key, int] = {}
    place = np.array(
        [
            place_of.setdefault((query, content(fold, query)), len(place_of))
            for fold, query in queries
        ],
        np.int64,
    )
    if len(place_of) == len(queries):
        return queries, dict(values), []
    merged = {}
    for key, row in values.items():
        known = ~np.isnan(row)
        count = np.bincount(place[known], minlength=len(place_of))
        total = np.bincount(place[known], row[known], len(place_of))
        merged[key] = np.divide(total, count, out=np.full(count.size, np.nan), where=count > 0)
    first = np.unique(place, return_index=True)[1]
    n_shared = int((np.bincount(place) > 1).sum())
    n_folds = len({queries[number][0] for number in np.flatnonzero(np.bincount(place)[place] > 1)})
    note = (
        f"{counted(n_shared, 'test query')} {'is' if n_shared == 1 else 'are'} in several folds ({n_folds} folds share "
        "some): their values are averaged over folds, and each counts as one query in means, intervals and tests "
        f"({len(place_of):,} queries instead of {len(queries):,})."
    )
    return [queries[number] for number in first.tolist()], merged, [note]


def _said_of_data(record: Mapping[str, Any]) -> list[str]:
    """Warnings and notes about the parts of the folds, as the run's start gave them."""
    data = record.get("data", {})
    warned = [
        f"Overlap: {line} Measures of it look better than they are."
        for line in data.get("warnings", [])
    ]
    return [*warned, *(f"Not an overlap: {line}" for line in data.get("notes", []))]


def _cell_record(record: Mapping[str, Any], measures: Sequence[str]) -> CellRecord:
    return CellRecord(
        algorithm=record["algorithm"],
        fold=record["fold"],
        repetition=int(record["repetition"]),
        status=record["status"],
        parameters=record["parameters"],
        seconds=record["seconds"],
        peak_memory=int(record["peak_memory"]),
        means={
            name: np.nan if mean is None else mean
            for name, mean in record.get("means", {}).items()
            if name in measures
        },
        history={
            name: [np.nan if value is None else float(value) for value in values]
            for name, values in record.get("history", {}).items()
        },
        message=record.get("message", ""),
        tuned=record.get("tuned", []),
        chosen=record.get("chosen", {}),
        importance=record.get("importance", {}),
        warnings=record.get("warnings", []),
        error=record.get("error", ""),
        sizes=record.get("sizes", {}),
        weights=record.get("weights", {}),
    )


def _conventions(
    record: Mapping[str, Any], records: Mapping[Cell, Mapping[str, Any]]
) -> dict[str, dict[str, str]]:
    """By measure, with what the data decided filled in as soon as a cell is finished."""
    for one in records.values():
        if one["status"] == "done":
            wanted = record["configuration"]["measures"]
            return {text: dict(one["conventions"][text]) for text in wanted}
    return dict(record["conventions"])


def _rankings(
    run: RunFolder, algorithms: list[str], queries: list[tuple[str, str]]
) -> Callable[[str, int], RankedDocuments | None]:
    """A function that reads one query's documents; the files of the last few folds stay in memory."""

    @functools.lru_cache(maxsize=4)
    def scores_of(path: Path) -> Any:
        found, _ = scored_documents(path)
        rows: dict[str, list[int]] = {}
        for row, query in enumerate(found["query"].tolist()):
            rows.setdefault(query, []).append(row)
        return rows, found["label"], found["score"], found["document"]

    def ranking(algorithm: str, number: int) -> RankedDocuments | None:
        if algorithm not in algorithms:
            raise UnknownName("algorithm of this run", algorithm, algorithms)
        fold, query = queries[number]
        path = run.kept_scores(Cell(algorithm, fold, 1))
        if path is None:
            return None
        rows, labels, scores, names = scores_of(path)
        if query not in rows:
            return None
        chosen = np.asarray(rows[query])
        return RankedDocuments(labels[chosen], scores[chosen], names[chosen].tolist())

    return ranking


def _by_query(comparison: SystemComparison) -> dict[str, int]:
    """The measures that have a value per query, with their numbers among the results."""
    results = next(iter(comparison.evaluations.values())).results
    texts = enumerate(comparison.comparisons)
    kept = {text: number for number, text in texts if not results[number].measure.is_pooled}
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
