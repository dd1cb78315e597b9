"""What a worker does for one cell: tune, fit, score, measure. Everything it needs comes in one plain ``Task``.

The order is the promise: the test part is read after the parameters have been chosen and the model fitted.
"""

from __future__ import annotations

import resource
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.ensembles.parameters import plain_parameters
from rankwood.errors import RankwoodWarning
from rankwood.evaluation.evaluate import evaluate
from rankwood.experiments.building import build, max_bins_of, prepare
from rankwood.experiments.fold_data import FoldCache, FoldData
from rankwood.experiments.settings import Algorithm, Cell, DataSource
from rankwood.experiments.tuning import tune
from rankwood.measures.parsing import parse_measure


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
    seed: int
    threads: int | None
    keeps_scores: bool


@dataclass
class Outcome:
    """What became of a cell: its record, its values by query, and the documents' scores if they are kept."""

    cell: Cell
    record: dict[str, Any]
    queries: list[str] = field(default_factory=list)
    values: Mapping[str, Floats] = field(default_factory=dict)  # by measure
    documents: Mapping[str, Any] | None = None  # query, document, label, score

    @property
    def is_done(self) -> bool:
        """Whether there are results."""
        return bool(self.record["status"] == "done")


def run_cell(task: Task, cache: FoldCache) -> Outcome:
    """The results of a cell, or of a cell that failed the record with its traceback."""
    record: dict[str, Any] = {
        "algorithm": task.cell.algorithm,
        "fold": task.cell.fold,
        "repetition": task.cell.repetition,
        "fingerprint": task.fingerprint,
        "kind": task.algorithm.kind,
        "seed": task.seed,
        "version": __version__,
        "parameters": dict(task.algorithm.parameters),
        "seconds": {},
        "stage": "read",
    }
    outcome = Outcome(task.cell, record)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RankwoodWarning)
        try:
            _work(task, cache, outcome)
            record["status"] = "done"
        except Exception as error:  # whatever it is: it belongs to this cell, and the rest goes on
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
    record |= _found(model)
    with clock.stage("read test"):
        test = fold.test()
    with clock.stage("score"):
        scores = model.predict(test)
    with clock.stage("measure"):
        result = evaluate(
            scores,
            test,
            list(task.measures),
            preset=task.preset,
            n_bootstrap=0,
            n_threads=task.threads,
        )
    record["means"] = {text: result[text].value for text in task.measures}
    record["conventions"] = {text: dict(result[text].conventions) for text in task.measures}
    record["empty_queries"] = {text: result[text].n_empty for text in task.measures}
    outcome.queries = [str(query) for query in test.queries.tolist()]
    outcome.values = {text: result[text].per_query for text in task.measures}
    if task.keeps_scores:
        outcome.documents = _documents(test, scores)
    del record["stage"]


def _fitted(task: Task, fold: FoldData, record: dict[str, Any], clock: _Clock) -> Any:
    """The model of the cell; where parameters are tuned, the one that validated best."""
    algorithm = task.algorithm

    def fit(changes: Mapping[str, Any]) -> Any:
        estimator = build(algorithm.kind, algorithm.with_values(changes))
        prepare(estimator, task.seed, task.threads)
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


def _found(model: Any) -> dict[str, Any]:
    """What a fit tells of its rounds and its size."""
    found: dict[str, Any] = {"history": _history(model)}
    for name in ("best_iteration_", "stopped_because_", "oob_ndcg_"):
        value = getattr(model, name, None)
        if value is not None:
            found[name.rstrip("_")] = value
    learned = getattr(model, model._model)
    for name in ("n_trees", "n_leaves"):
        if hasattr(learned, name):
            found[name] = int(getattr(learned, name))
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
        place: Array = np.empty(test.n_documents, np.int64)
        starts = np.repeat(test.query_offsets[:-1], np.diff(test.query_offsets))
        place[test.row_order] = np.arange(test.n_documents) - starts + 1
        names = [str(one) for one in place.tolist()]
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
    """Seconds by stage, written into a record; the stage at hand is named there until it is over."""

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
