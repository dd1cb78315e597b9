"""One cell on one worker: read its fold, tune, fit, score, measure. All that a worker must know is in a ``Task``.

The test part is read after the parameters have been chosen and the model fitted. Features that only the test part has
are left out, and those that it lacks are added: training does not depend on the test part in any way.

A worker keeps one fold at a time in a ``FoldCache``, read once and binned once for all the cells of the fold.

What is measured is what is kept: ``_as_kept`` rounds scores to float32 before they are measured. ``measured_again``
computes further measures from the kept scores, and so gives exactly the values that the cell would have given.
"""

from __future__ import annotations

import dataclasses
import pathlib
import resource
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood._core.jit import Stopwatch
from rankwood.binning.binned import BinnedData, bin_data
from rankwood.data.collections import PartCounts, differences, known_collection, report
from rankwood.data.dataset import RankingData
from rankwood.data.features import normalise_per_query
from rankwood.data.reading import ReadOptions, position_if_there, read_data
from rankwood.data.splits import Fold, Folds, make_folds, same_width, sample_queries, split_queries
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, ModelError, RankwoodWarning
from rankwood.evaluation.evaluate import MeasureResult, evaluate
from rankwood.evaluation.paired_tests import weighted_values
from rankwood.experiments.foreign import ForeignRanker
from rankwood.experiments.settings import (
    PRESENT_NAMES,
    TRAIN,
    Algorithm,
    Cell,
    DataSource,
    build,
    max_bins_of,
    paths_of,
    prepare,
)
from rankwood.experiments.tuning import (
    VALIDATED,
    ScoringRules,
    SizedScores,
    keep_every_round,
    on_folds,
    on_validation,
    sized_scores,
    tune_cell,
)
from rankwood.measures.measure import Measure, is_minimised, parse_measure
from rankwood.rankers.base import Ranker, learned_model, predict_where_grown, weights_by_name
from rankwood.rankers.save import join, load, refit, save
from rankwood.studies.sizes import size_quality_front
from rankwood.studies.trials import Limit, OnFolds, StoppedPart
from rankwood.training.inputs import deciding_history, deciding_measure
from rankwood.training.rounds import plain_parameters

PARTS = ("train", "vali", "test")
Tell = Callable[[Mapping[str, Any]], None]
_FLOAT32_LIMIT = 1e38
BUNDLED = {"chess": None, "chess-B84": "B84", "chess-E97": "E97"}  # name -> opening


@dataclass(frozen=True)
class Task:
    """One cell, with all that a worker on any machine must know to run it."""

    cell: Cell
    algorithm: Algorithm
    data: DataSource
    digest: str  # of the fold's data
    fingerprint: str
    measures: tuple[str, ...]
    preset: str | None
    scoring: ScoringRules
    seed: int
    threads: int | None
    keeps_scores: bool
    keeps_model: bool = False
    with_front: bool = False
    largest_label: float | None = None  # of the collection, which ends the scale of err and rbp
    seed_of_draws: int = 0  # of random search: the run's, so that all cells try the same candidates
    trials: tuple[Mapping[str, Any], ...] = ()  # of a tuning that was stopped: those that are known

    def parsed(self) -> dict[str, Measure]:
        """The measures by their texts, on the collection's scale of labels."""
        measures = {text: parse_measure(text, self.preset) for text in self.measures}
        return {text: one.with_largest(self.largest_label) for text, one in measures.items()}

    def record(self) -> dict[str, Any]:
        """What is known of the cell before it is run."""
        return {
            "algorithm": self.cell.algorithm,
            "fold": self.cell.fold,
            "repetition": self.cell.repetition,
            "fingerprint": self.fingerprint,
            "kind": self.algorithm.kind,
            "seed": self.seed,
            "version": __version__,
            "parameters": dict(self.algorithm.parameters),
            "seconds": {},
        }

    def canonical_measures(self) -> dict[str, str]:
        """Each measure as the experiment writes it, with all that the preset and the collection say of it."""
        return {text: str(measure) for text, measure in self.parsed().items()}


@dataclass
class Outcome:
    """What became of a cell: its record, its values by query, and the documents' scores and model if they are kept."""

    cell: Cell
    record: dict[str, Any]
    queries: list[str] = field(default_factory=list)
    values: Mapping[str, Floats] = field(default_factory=dict)  # by measure
    documents: Mapping[str, Any] | None = None  # query, document, label, score
    has_document_ids: bool = (
        False  # whether those are ids of the data, not numbers within the query
    )
    model: bytes | None = None  # a model file

    @property
    def is_done(self) -> bool:
        """Whether there are results."""
        return bool(self.record["status"] == "done")


@dataclass(frozen=True, eq=False)
class StoredCell:
    """A finished cell as it was read from the folder of its run."""

    record: dict[str, Any]
    queries: list[str]
    values: Mapping[str, Floats]  # by measure
    documents: Mapping[str, Any] = field(default_factory=dict)  # empty where a model is to score
    model: pathlib.Path | None = None


def run_cell(task: Task, cache: FoldCache, tell: Tell = lambda _trial: None) -> Outcome:
    """The results of a cell; of a cell that failed, its record with the traceback.

    ``tell`` is called with each trial of the tuning as soon as it is finished.
    """
    record = {**task.record(), "stage": "read"}
    outcome = Outcome(task.cell, record)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RankwoodWarning)
        try:
            _work(task, cache, outcome, tell)
            record["status"] = "done"
        except Exception as error:  # any error fails this cell only
            record |= {"status": "failed", "message": traceback.format_exc()}
            record["error"] = f"{type(error).__name__}: {error}"
    record["warnings"] = sorted({str(one.message) for one in caught})
    record["peak_memory"] = peak_memory()
    return outcome


def _work(task: Task, cache: FoldCache, outcome: Outcome, tell: Tell) -> None:
    record, clock = outcome.record, _Clock(outcome.record)
    with clock.stage("read"):
        fold = cache.get(task.data, task.cell.fold, task.digest, task.threads)
    model = _fitted(task, fold, record, clock, tell)
    record["parameters"] = plain_parameters(model)
    record |= _model_facts(model)
    with clock.stage("read test"):
        test = fold.test()
    with clock.stage("score"):
        scored = _scores(task, model, fold.vali, test)
        scored = _as_kept(scored, test)
    with clock.stage("measure"):
        result = _measured(task, scored, test)
    _add_results(outcome, result, scored.sizes)
    outcome.queries = [str(query) for query in test.queries.tolist()]
    if task.keeps_scores:
        outcome.documents = _documents(test, scored.scores[task.measures[0]])
        outcome.has_document_ids = test.doc_ids is not None
    if task.keeps_model and not isinstance(model, ForeignRanker):
        outcome.model = _model_file(model)
    if task.with_front:
        with clock.stage("front"):
            record |= _front(model, test)
    del record["stage"]


def _add_results(
    outcome: Outcome, results: Mapping[str, MeasureResult], sizes: Mapping[str, Any]
) -> None:
    """Put the results of measures into an outcome, beside those that it has."""
    found: dict[str, Mapping[str, Any]] = {
        "measures": {text: str(one.measure) for text, one in results.items()},
        "means": {text: one.value for text, one in results.items()},
        "conventions": {text: dict(one.conventions) for text, one in results.items()},
        "empty_queries": {text: one.n_empty for text, one in results.items()},
        "sizes": sizes,
    }
    for name, by_measure in found.items():
        if by_measure:
            outcome.record[name] = {**outcome.record.get(name, {}), **by_measure}
    outcome.values = {**outcome.values, **{text: one.per_query for text, one in results.items()}}


def _scores(task: Task, model: Any, vali: RankingData | None, test: RankingData) -> SizedScores:
    """The scores of the test documents by measure: the same for all, unless each has a size of its own."""
    if task.scoring.is_plain:
        return SizedScores(dict.fromkeys(task.measures, predict_where_grown(model, test)), {})
    return sized_scores(model, task.scoring, task.parsed(), vali, test, task.threads)


def _measured(task: Task, scored: SizedScores, test: RankingData) -> dict[str, MeasureResult]:
    """The result of each measure; measures of the same scores are computed together."""
    results: dict[str, MeasureResult] = {}
    measures = task.parsed()
    for scores in {id(one): one for one in scored.scores.values()}.values():
        texts = [text for text in task.measures if scored.scores[text] is scores]
        given = [measures[text] for text in texts]
        is_retrieved = scores > -np.inf  # by a TREC run, which may lack documents
        result = evaluate(
            scores,
            test,
            given,
            retrieved=None if is_retrieved.all() else is_retrieved,
            n_bootstrap=0,
            n_threads=task.threads,
        )
        results |= {text: _on_scale(task, text, result[measures[text]]) for text in texts}
    return {text: _mean_by_itself(results[text], test) for text in task.measures}


def _mean_by_itself(result: MeasureResult, test: RankingData) -> MeasureResult:
    """The result with queries added up one by one: the last digit then does not depend on what else was measured."""
    if result.measure.is_pooled or not result.per_query.size:
        return result
    weights = test.judgments.query_weights_or_ones
    weighted, weight = weighted_values(result.per_query[:, np.newaxis], weights)
    above, below = (float(np.add.accumulate(one[:, 0])[-1]) for one in (weighted, weight))
    return dataclasses.replace(result, value=above / below if below > 0 else np.nan)


def _on_scale(task: Task, text: str, result: MeasureResult) -> MeasureResult:
    """The result; its conventions say that the collection ended the scale, where the text did not."""
    if parse_measure(text, task.preset) == result.measure:
        return result
    found = {"max": f"{result.conventions['max']} (the collection's)"}
    return dataclasses.replace(result, conventions={**result.conventions, **found})


def _fitted(task: Task, fold: FoldData, record: dict[str, Any], clock: _Clock, tell: Tell) -> Any:
    """The model of the cell; where parameters are tuned, that of the best candidate."""
    algorithm = task.algorithm

    def prepared(changes: Mapping[str, Any]) -> Any:
        estimator = build(algorithm.kind, algorithm.with_values(changes))
        prepare(estimator, task.seed, task.threads, task.largest_label)
        if isinstance(estimator, ForeignRanker):
            measure = task.parsed()[task.measures[0]]
            estimator.place(task.cell.fold, task.cell.repetition, measure)
        return estimator

    def fit(changes: Mapping[str, Any]) -> Any:
        estimator = prepared(changes)
        if isinstance(estimator, ForeignRanker):
            return estimator.fit(fold.train, valid=fold.vali)
        if task.scoring.size == VALIDATED:
            keep_every_round(estimator)
        estimator.fit(fold.for_training(max_bins_of(estimator)), valid=fold.vali)
        return estimator

    if not algorithm.tune:
        with clock.stage("fit"):
            return fit({})
    with clock.stage("tune"):
        measure = task.parsed()[task.measures[0]]
        if algorithm.tune_folds:
            data = fold.train if algorithm.tune_on == TRAIN else fold.train_and_vali()
            numbers = {"n_folds": algorithm.tune_folds, "seed": task.seed}
            judge = on_folds(prepared, OnFolds(data, measure, **numbers, n_threads=task.threads))
        else:
            assert fold.vali is not None
            judge = on_validation(fit, fold.vali, measure)
        seeds = (task.seed_of_draws, task.seed)
        choice = tune_cell(algorithm, judge, measure, seeds=seeds, kept=task.trials, tell=tell)
    record |= {"tuned": choice.tried, "chosen": choice.best}
    record |= {"importance": choice.importance} if choice.importance else {}
    with clock.stage("fit"):
        model = _final(task, fold, choice.model, lambda: fit(choice.best), prepared(choice.best))
    if model is choice.model:  # it was fitted while candidates were compared
        record["seconds"]["fit"] = float(getattr(model, "training_", {}).get("seconds", 0.0))
    return model


def _final(task: Task, fold: FoldData, model: Any, fit: Callable[[], Any], estimator: Any) -> Any:
    """The model that is measured: of the training part, or of all that is not measured.

    The validation queries decide when it stops. Where there are none, a fifth of the training queries does, and the
    model is fitted again to all of them.
    """
    if fold.vali is None:
        return StoppedPart(fold.train, task.threads, task.seed).fit(estimator, Limit(None))
    model = fit() if model is None else model
    if task.algorithm.tune_refit == TRAIN:
        return model
    if isinstance(model, Ranker):
        return refit(model, fold.train, fold.vali)
    return estimator.fit(fold.train_and_vali())  # of another library


def _model_facts(model: Any) -> dict[str, Any]:
    """The history of a fitted model's rounds, the weights that its score is composed with, and its size."""
    if isinstance(model, ForeignRanker):
        return model.facts()
    facts: dict[str, Any] = {"history": _history(model)}
    for name in ("best_iteration_", "stopped_because_", "oob_ndcg_"):
        value = getattr(model, name, None)
        if value is not None:
            facts[name.rstrip("_")] = value
    weights = weights_by_name(model)
    if weights:
        facts["weights"] = weights
    learned = learned_model(model)
    for name in ("n_trees", "n_leaves"):
        if hasattr(learned, name):
            facts[name] = int(getattr(learned, name))
    return facts


def _model_file(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.rankwood"
        save(model, path)
        return path.read_bytes()


def _front(model: Any, test: RankingData) -> dict[str, Any]:
    """Quality by number of trees, and of a search its growth; nothing of models that have no such front."""
    try:
        front = size_quality_front(model, test)
    except ModelError:
        return {}
    found: dict[str, Any] = {"front": {"measure": front.measure, **front.columns}}
    family = getattr(model, "family_", None)
    if family is not None:
        is_falling = is_minimised(parse_measure(model.measure))
        found["growth"] = family.explored.growth(is_minimised=is_falling)
    return found


def _history(model: Any) -> dict[str, list[float | None]]:
    """Measures by round: on the validation data, and what else a round's record has."""
    rounds = deciding_history(getattr(model, "history_", None))
    measure = getattr(model, "measure", "measure")
    measure = str(deciding_measure(measure) if isinstance(measure, list) else measure)
    if not rounds or not isinstance(rounds[0], dict):
        return {measure: [float(value) for value in rounds]} if rounds else {}
    names = {"valid": measure, "oob": f"{measure} out of bag", "error": "error", "beta": "beta"}
    history = {shown: [one.get(name) for one in rounds] for name, shown in names.items()}
    return {name: values for name, values in history.items() if any(v is not None for v in values)}


def _documents(test: RankingData, scores: Floats) -> dict[str, Array | list[str]]:
    """The documents in the data's order, with their labels and scores."""
    number_of_query = test.query_of_row
    if test.doc_ids is not None:
        names = [str(name) for name in test.doc_ids.tolist()]
    else:  # the line within the query, from 1
        line_of_row: Array = np.empty(test.n_documents, np.int64)
        starts = np.repeat(test.query_offsets[:-1], np.diff(test.query_offsets))
        line_of_row[test.row_order] = np.arange(test.n_documents) - starts + 1
        names = [str(line) for line in line_of_row.tolist()]
    queries = [str(query) for query in test.queries.tolist()]
    in_float32 = scores.astype(np.float32)
    documents: dict[str, Array | list[str]] = {
        "query": [queries[number] for number in number_of_query.tolist()],
        "document": names,
        "label": np.asarray(test.labels, np.float64),
        "score": in_float32 if np.array_equal(in_float32, scores) else scores,
    }
    if test.query_weights is not None:
        documents["query_weight"] = test.query_weights[number_of_query]
    return documents


# Scores as they are kept.


def as_kept(scores: Floats, query_of_row: Array) -> Floats:
    """Scores rounded to float32, but so that those of a query that differ still differ, in the same order.

    Where rounding would make two scores of a query equal, the greater becomes the next float32 above the other. No
    measure of rankings changes by this, and rmse by less than a millionth of the scores. Scores that float32 cannot
    hold (beyond 1e38, or infinite) are returned as they are.
    """
    if not scores.size or not np.abs(scores).max() < _FLOAT32_LIMIT:
        return scores
    order = np.lexsort((scores, query_of_row))
    ascending, queries = scores[order], query_of_row[order]
    is_first = np.concatenate([[True], queries[1:] != queries[:-1]])  # of its query
    is_new = is_first | np.concatenate([[True], ascending[1:] != ascending[:-1]])
    rounded, is_first = ascending[is_new].astype(np.float32), is_first[is_new]
    for clash in (np.flatnonzero(~is_first[1:] & (rounded[1:] <= rounded[:-1])) + 1).tolist():
        place = clash
        while place < rounded.size and not is_first[place] and rounded[place] <= rounded[place - 1]:
            rounded[place] = np.nextafter(rounded[place - 1], np.float32(np.inf))
            place += 1  # which may be reached by this one
    kept = np.empty(scores.size)
    kept[order] = rounded[np.cumsum(is_new) - 1]
    return kept


def _as_kept(scored: SizedScores, test: RankingData) -> SizedScores:
    """The scores of every measure as they are kept; those that measures share stay shared."""
    kept = {id(one): as_kept(one, test.query_of_row) for one in scored.scores.values()}
    return SizedScores({text: kept[id(one)] for text, one in scored.scores.items()}, scored.sizes)


def measured_again(task: Task, stored: StoredCell, cache: FoldCache) -> Outcome:
    """A finished cell with the measures of ``task`` beside its own, computed from its scores without a fit.

    Where each measure is taken at a size of its own, the kept model scores the test part at the sizes of the new ones.
    """
    outcome = Outcome(task.cell, dict(stored.record), stored.queries, stored.values)
    if task.scoring.size == VALIDATED:
        assert stored.model is not None
        fold = cache.get(task.data, task.cell.fold, task.digest, task.threads)
        test = fold.test()
        scored = _as_kept(_scores(task, load(stored.model), fold.vali, test), test)
    else:
        test, scores = _test_part(stored.documents), stored.documents["score"]
        _refuse_other_scores(task, stored, scores, test)
        sizes = next(iter(stored.record.get("sizes", {}).values()), None)
        scored = SizedScores(
            dict.fromkeys(task.measures, scores),
            {} if sizes is None else dict.fromkeys(task.measures, sizes),
        )
    _add_results(outcome, _measured(task, scored, test), scored.sizes)
    return outcome


def _refuse_other_scores(task: Task, stored: StoredCell, scores: Floats, test: RankingData) -> None:
    """Raise unless the scores give the values that the cell has."""
    text, canonical = next(iter(stored.record["measures"].items()))
    as_then = dataclasses.replace(task, measures=(canonical,), preset=None)
    found = _measured(as_then, SizedScores({canonical: scores}, {}), test)[canonical]
    names = [str(query) for query in test.queries.tolist()]
    if names != stored.queries or not np.allclose(
        found.per_query, stored.values[text], rtol=1e-9, atol=1e-12, equal_nan=True
    ):
        raise DataError(
            f"the scores that are kept of {task.cell} do not give the {text} of that cell: one of the two files was "
            "changed. Remove both, and rankwood experiment fits the cell again."
        )


def _test_part(documents: Mapping[str, Any]) -> RankingData:
    """The labels of the test part with its queries, as a file of scores has them; there are no features."""
    labels = np.asarray(documents["label"], np.float64)
    weights = documents.get("query_weight")
    queries = np.asarray(documents["query"], object)
    if weights is not None:  # of the queries in the order of their first documents
        first = np.sort(np.unique(queries, return_index=True)[1])
        weights = np.asarray(weights, np.float64)[first]
    return RankingData(
        np.zeros((labels.size, 1), np.float32),
        labels,
        queries,
        documents.get("document"),
        query_weights=weights,
    )


def peak_memory() -> int:
    """The most memory, in bytes, that this process has held so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


class _Clock:
    """Seconds by stage, written into a record together with the name of the current stage."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    def stage(self, name: str) -> _Clock:
        self._record["stage"] = name
        self._name = name
        return self

    def __enter__(self) -> None:
        self._stopwatch = Stopwatch()

    def __exit__(self, *_: object) -> None:
        self._record["seconds"][self._name] = self._stopwatch.seconds()


class FoldData:
    """Training, validation and test part of one fold."""

    def __init__(self, source: DataSource, fold: str, wholes: Wholes, threads: int | None) -> None:
        self._source = source
        self._files = next(one.files for one in source.folds if one.name == fold)
        self._threads = threads
        self._binned: dict[int, BinnedData] = {}
        self._test: RankingData | None = None
        self._counts: dict[str, PartCounts] = {}
        if self._files:
            known = [part for part in ("train", "vali") if part in self._files]
            read = [self._read(part) for part in known]
            if not any(part.feature_names for part in read):
                read = same_width(read, str(source.reading.get("absent", "zero")))
        else:
            read = list(wholes.parts(source, fold))
            self._test = self._prepared(read.pop(), "test")
        read = [self._prepared(part, PARTS[number]) for number, part in enumerate(read)]
        self.train = read[0]
        self.vali = read[1] if len(read) > 1 else None

    def test(self) -> RankingData:
        """The part that is measured, the test part unless ``measure_on`` says else; read when this is first called."""
        if self._source.measure_on == "vali":
            assert self.vali is not None
            return self.vali
        if self._test is None:
            test = self._read("test")
            self._test = self._prepared(self._as_wide_as_train(test), "test")
        return self._test

    def train_and_vali(self) -> RankingData:
        """Both parts together, their queries numbered anew."""
        assert self.vali is not None
        return join(self.train, self.vali)

    def for_training(self, max_bins: int | None) -> RankingData | BinnedData:
        """The training part, binned where an estimator wants bins; all that want the same share them."""
        if max_bins is None or self._has_rows_without_weight():
            return self.train
        if max_bins not in self._binned:
            self._binned[max_bins] = bin_data(
                self.train, max_bins=max_bins, n_threads=self._threads
            )
        return self._binned[max_bins]

    def _has_rows_without_weight(self) -> bool:
        """Whether a row has weight 0: then each estimator bins, so that such rows do not change the cut points."""
        weights = (self.train.row_weights, self.train.query_weights)
        return any(one is not None and one.min(initial=1.0) <= 0 for one in weights)

    def _read(self, part: str) -> RankingData:
        path = self._files[part]
        options = ReadOptions(**self._source.reading, n_threads=self._threads)
        paths = paths_of(path)
        data = read_data(paths, options if part == PARTS[0] else position_if_there(paths, options))
        if self._source.collection is not None:
            self._check(part, data, *self._source.collection)
        return data

    def _check(self, part: str, data: RankingData, name: str, check: str) -> None:
        """Compare a part with what the collection should hold; what differs is said once."""
        collection = known_collection(name)
        said = differences(collection, self._counts)
        self._counts[PRESENT_NAMES.get(part, part)] = PartCounts.of(data)
        found = [one for one in differences(collection, self._counts) if one not in said]
        report(collection, pathlib.Path(self._files[part]).parent, found, check)

    def _prepared(self, data: RankingData, part: str) -> RankingData:
        data = prepared_part(self._source, data, part)
        method = self._source.normalise
        return data if method is None else normalise_per_query(data, method)

    def _as_wide_as_train(self, data: RankingData) -> RankingData:
        width = self.train.n_features
        if data.feature_names or data.n_features == width:
            return data
        if data.n_features < width:
            absent = str(self._source.reading.get("absent", "zero"))
            return same_width([data, self.train], absent)[0]
        features = np.ascontiguousarray(data.features[:, :width])
        return dataclasses.replace(data, features=features).with_absent(data.absent)


def prepared_part(source: DataSource, data: RankingData, part: str) -> RankingData:
    """A part with the queries and labels that cells see; features are as they were read."""
    if source.sample:
        data = _sampled(data, part, source.sample[PARTS.index(part)])
    if source.binarise is not None:
        relevant = np.asarray(data.labels >= source.binarise, np.float64)
        data = dataclasses.replace(data, labels=relevant)
    return data


def _sampled(data: RankingData, part: str, size: int) -> RankingData:
    """So many of the queries, drawn at random but always the same."""
    if size > data.n_queries:
        raise DataError(
            f"[data] sample asks for {size:,} queries of the part '{PRESENT_NAMES.get(part, part)}', which has "
            f"{data.n_queries:,}."
        )
    return sample_queries(data, size)


class Wholes:
    """The data set that folds are cut from, kept while it is the same."""

    def __init__(self) -> None:
        self._source: DataSource | None = None
        self._data: Any = None

    def parts(self, source: DataSource, fold: str) -> Sequence[RankingData]:
        """Training, validation (if there is one) and test part of a fold."""
        if self._source != source:
            self._data, self._source = None, source
            self._data = load_whole(source)
        folds: Any = self._data
        if "folds" in source.cut:
            folds = make_folds(self._data, source.cut["folds"], seed=source.cut["seed"])
        elif "split" in source.cut:
            return split_queries(self._data, source.cut["split"], seed=source.cut["seed"])
        if isinstance(folds, Folds):
            return folds[folds.names.index(fold)]
        parts: Sequence[RankingData] = folds
        return parts


class FoldCache:
    """The fold that a worker has in memory; asking for another one releases it."""

    def __init__(self) -> None:
        self._key: Any = None
        self._data: FoldData | None = None
        self._wholes = Wholes()

    def get(self, source: DataSource, fold: str, digest: str, threads: int | None) -> FoldData:
        """The data of a fold; ``digest`` distinguishes folds of the same name."""
        key = (source, fold, digest)
        if self._data is None or self._key != key:
            self._data = None  # before the next one is read
            self._data = FoldData(source, fold, self._wholes, threads)
            self._key = key
        return self._data


def load_whole(source: DataSource) -> Any:
    """The data set that a source names: read, generated, or one that comes with Rankwood."""
    if "data" in source.whole:
        return read_data(paths_of(source.whole["data"]), ReadOptions(**source.reading))
    if "bundled" in source.whole:
        return _load_bundled(source.whole["bundled"], in_parts=not source.cut)
    from rankwood.data.synthetic import make_ranking

    return make_ranking(**source.whole["generate"])


def _load_bundled(name: str, in_parts: bool) -> RankingData | Fold:
    """A collection that comes with Rankwood: all of it, or the parts that it has of its own."""
    from rankwood.data.chess.collection import chess

    opening = BUNDLED[name]
    if not in_parts:
        return chess(opening)
    return Fold(*(chess(opening, part) for part in Fold._fields))
