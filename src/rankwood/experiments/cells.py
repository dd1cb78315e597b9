"""One cell on one worker: read its fold, tune, fit, score, measure. All that a worker must know is in a ``Task``.

The test part is read after the parameters have been chosen and the model fitted. Features that only the test part has
are left out, and those that it lacks are added: training does not depend on the test part in any way.

A worker keeps one fold at a time in a ``FoldCache``, read once and binned once for all the cells of the fold.
"""

from __future__ import annotations

import dataclasses
import pathlib
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood.binning.binned import BinnedData, bin_data
from rankwood.data.dataset import RankingData
from rankwood.data.folds import Fold, Folds, make_folds, same_width
from rankwood.data.normalise import normalise_per_query
from rankwood.data.reading import ReadOptions, read_data
from rankwood.data.splits import sample_queries, split_queries
from rankwood.dtypes import Array, Floats
from rankwood.errors import DataError, ModelError, RankwoodWarning
from rankwood.evaluation.evaluate import MeasureResult, evaluate
from rankwood.experiments.settings import Algorithm, Cell, DataSource, build, max_bins_of, prepare
from rankwood.experiments.tuning import (
    VALIDATED,
    ScoringRules,
    SizedScores,
    keep_every_round,
    sized_scores,
    tune,
)
from rankwood.measures.measure import is_minimised, parse_measure
from rankwood.rankers.base import learned_model, weights_by_name
from rankwood.rankers.save import save
from rankwood.studies.cost_curve import size_quality_front
from rankwood.training.checkpoint import plain_parameters

PARTS = ("train", "vali", "test")
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


@dataclass
class Outcome:
    """What became of a cell: its record, its values by query, and the documents' scores and model if they are kept."""

    cell: Cell
    record: dict[str, Any]
    queries: list[str] = field(default_factory=list)
    values: Mapping[str, Floats] = field(default_factory=dict)  # by measure
    documents: Mapping[str, Any] | None = None  # query, document, label, score
    model: bytes | None = None  # a model file

    @property
    def is_done(self) -> bool:
        """Whether there are results."""
        return bool(self.record["status"] == "done")


def run_cell(task: Task, cache: FoldCache) -> Outcome:
    """The results of a cell; of a cell that failed, its record with the traceback."""
    record = {**task.record(), "stage": "read"}
    outcome = Outcome(task.cell, record)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RankwoodWarning)
        try:
            _work(task, cache, outcome)
            record["status"] = "done"
        except Exception as error:  # any error fails this cell only
            record |= {"status": "failed", "message": traceback.format_exc()}
            record["error"] = f"{type(error).__name__}: {error}"
    record["warnings"] = sorted({str(one.message) for one in caught})
    record["peak_memory"] = peak_memory()
    return outcome


def _work(task: Task, cache: FoldCache, outcome: Outcome) -> None:
    record, clock = outcome.record, _Clock(outcome.record)
    with clock.stage("read"):
        fold = cache.get(task.data, task.cell.fold, task.digest, task.threads)
    model = _fitted(task, fold, record, clock)
    record["parameters"] = plain_parameters(model)
    record |= _model_facts(model)
    with clock.stage("read test"):
        test = fold.test()
    with clock.stage("score"):
        scored = _scores(task, model, fold.vali, test)
    with clock.stage("measure"):
        result = _measured(task, scored, test)
    if scored.sizes:
        record["sizes"] = scored.sizes
    record["means"] = {text: one.value for text, one in result.items()}
    record["conventions"] = {text: dict(one.conventions) for text, one in result.items()}
    record["empty_queries"] = {text: one.n_empty for text, one in result.items()}
    outcome.queries = [str(query) for query in test.queries.tolist()]
    outcome.values = {text: one.per_query for text, one in result.items()}
    if task.keeps_scores:
        outcome.documents = _documents(test, scored.scores[task.measures[0]])
    if task.keeps_model:
        outcome.model = _model_file(model)
    if task.with_front:
        with clock.stage("front"):
            record |= _front(model, test)
    del record["stage"]


def _scores(task: Task, model: Any, vali: RankingData | None, test: RankingData) -> SizedScores:
    """The scores of the test documents by measure: the same for all, unless each has a size of its own."""
    if task.scoring.is_plain:
        return SizedScores(dict.fromkeys(task.measures, model.predict(test)), {})
    measures = {text: parse_measure(text, task.preset) for text in task.measures}
    return sized_scores(model, task.scoring, measures, vali, test, task.threads)


def _measured(task: Task, scored: SizedScores, test: RankingData) -> dict[str, MeasureResult]:
    """The result of each measure; measures of the same scores are computed together."""
    results: dict[str, MeasureResult] = {}
    for scores in {id(one): one for one in scored.scores.values()}.values():
        texts = [text for text in task.measures if scored.scores[text] is scores]
        result = evaluate(
            scores, test, texts, preset=task.preset, n_bootstrap=0, n_threads=task.threads
        )
        results |= {text: result[text] for text in texts}
    return {text: results[text] for text in task.measures}


def _fitted(task: Task, fold: FoldData, record: dict[str, Any], clock: _Clock) -> Any:
    """The model of the cell; where parameters are tuned, the one that validated best."""
    algorithm = task.algorithm

    def fit(changes: Mapping[str, Any]) -> Any:
        estimator = build(algorithm.kind, algorithm.with_values(changes))
        prepare(estimator, task.seed, task.threads)
        if task.scoring.size == VALIDATED:
            keep_every_round(estimator)
        estimator.fit(fold.for_training(max_bins_of(estimator)), valid=fold.vali)
        return estimator

    if not algorithm.tune:
        with clock.stage("fit"):
            return fit({})
    with clock.stage("tune"):
        measure = parse_measure(task.measures[0], task.preset)
        choice = tune(algorithm, fit, fold.vali, measure, task.seed)
    record |= {"tuned": choice.tried, "chosen": choice.best}
    record["seconds"]["fit"] = float(choice.model.training_["seconds"])
    return choice.model


def _model_facts(model: Any) -> dict[str, Any]:
    """The history of a fitted model's rounds, the weights that its score is composed with, and its size."""
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
    rounds = getattr(model, "history_", None) or []
    measure = str(getattr(model, "measure", "measure"))
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
    return {
        "query": [queries[number] for number in number_of_query.tolist()],
        "document": names,
        "label": np.asarray(test.labels, np.float64),
        "score": np.asarray(scores, np.float64),
    }


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
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._record["seconds"][self._name] = time.perf_counter() - self._start


class FoldData:
    """Training, validation and test part of one fold."""

    def __init__(self, source: DataSource, fold: str, wholes: Wholes, threads: int | None) -> None:
        self._source = source
        self._files = next(one.files for one in source.folds if one.name == fold)
        self._threads = threads
        self._binned: dict[int, BinnedData] = {}
        self._test: RankingData | None = None
        if self._files:
            known = [part for part in ("train", "vali") if part in self._files]
            read = [self._read(self._files[part]) for part in known]
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
            test = self._read(self._files["test"])
            self._test = self._prepared(self._as_wide_as_train(test), "test")
        return self._test

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

    def _read(self, path: str) -> RankingData:
        return read_data(path, ReadOptions(**self._source.reading, n_threads=self._threads))

    def _prepared(self, data: RankingData, part: str) -> RankingData:
        if self._source.sample:
            data = _sampled(data, part, self._source.sample[PARTS.index(part)])
        if self._source.binarise is not None:
            relevant = np.asarray(data.labels >= self._source.binarise, np.float64)
            data = dataclasses.replace(data, labels=relevant)
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
        others = (data.doc_ids, data.row_weights, data.query_weights)
        return RankingData(features, data.labels, data.query_ids, *others)


def _sampled(data: RankingData, part: str, size: int) -> RankingData:
    """So many of the queries, drawn at random but always the same."""
    if size > data.n_queries:
        raise DataError(
            f"[data] sample asks for {size:,} queries of the part '{part}', which has {data.n_queries:,}."
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
        return read_data(source.whole["data"], ReadOptions(**source.reading))
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
