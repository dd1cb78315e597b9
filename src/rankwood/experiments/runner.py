"""``run_experiment``: plan the cells, run those that have no results yet, write each as soon as it is finished.

A cell has results if its file is there with the same fingerprint: a hash of the algorithm, the seed and the data of its
fold. Measures that it lacks are computed from the scores that were kept of it. Only this module writes to the run's
folder, whatever runs the cells: this process, others, or Dask.

Ctrl-C and SIGTERM end a run in order: the workers are ended, the record says "interrupted", and the same call
continues. SIGTERM raises ``Terminated``, which ends the process with exit code 143 where nobody catches it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwood import __version__
from rankwood._core.threads import ended_by_sigterm, usable_cores
from rankwood.data.cache import full_hash
from rankwood.data.reading import ReadOptions, read_data
from rankwood.data.sources import Located, RemoteFile, find_inputs, size_and_time
from rankwood.data.splits import PartContent, shared_content
from rankwood.errors import DataError, DataWarning, InputError, UnknownName
from rankwood.experiments.cells import (
    PARTS,
    FoldCache,
    Outcome,
    Task,
    Wholes,
    measured_again,
    prepared_part,
)
from rankwood.experiments.config import read_experiment
from rankwood.experiments.foreign import FOREIGN, other_versions
from rankwood.experiments.results import RunResults, read_run
from rankwood.experiments.settings import (
    PRESENT_NAMES,
    Algorithm,
    Cell,
    DataSource,
    Experiment,
    FoldSource,
    build,
    paths_of,
)
from rankwood.experiments.store import CONTENTS, RunFolder, make_record, now, tuning_options
from rankwood.experiments.tuning import VALIDATED, ScoringRules
from rankwood.experiments.workers import Watch, run_here, run_on_processes
from rankwood.measures.measure import is_minimised, parse_measure
from rankwood.rankers.base import parameters_called
from rankwood.training.rounds import plain_parameters

RUNS = "runs"  # the default folder of runs
_HASHED = "measures in fingerprint"  # of a cell of version 0.1 that was measured further
_SEEDED_LATE = ("Blend", "OrdinalRanker", "RankBoost", "RankSVM")  # had no seed in version 0.1
Listener = Callable[["RunNews"], None]
_SURVEY = 1  # version of what is looked for in the data
_FOLDS_SHOWN = 3
FileStates = Mapping[str, Mapping[str, Any]]  # path -> size, time and sha256 at the last look
_logger = logging.getLogger("rankwood.experiments")


@dataclass(frozen=True)
class RunNews:
    """How far a run is: told once before the first cell, and after each."""

    done: int  # cells with results, those of earlier runs among them
    failed: int
    total: int
    seconds_left: float | None
    cell: Cell | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    lost: str = ""  # of a worker that has died: how, and what becomes of its cell


@dataclass(frozen=True)
class Plan:
    """What a run will do, determined before anything is written."""

    experiment: Experiment
    folder: RunFolder
    tasks: list[Task]  # to be run, in this order
    kept: dict[Cell, str]  # cell -> status, of those whose results are there already
    stale: dict[Cell, str]  # cell -> old fingerprint, of those whose settings or data have changed
    states: Mapping[str, Any]  # of the files of the data
    digests: Mapping[str, str]  # of each fold's data
    jobs: int
    threads: int
    other_versions: tuple[str, ...] = ()  # that made some of the kept cells
    survey: Survey = field(default_factory=lambda: Survey("", None))
    lacking: dict[Cell, Task] = field(
        default_factory=dict
    )  # kept ones, to be measured further without a fit
    without_scores: list[Cell] = field(
        default_factory=list
    )  # stale ones that lack measures and what to measure
    only: tuple[str, ...] = ()  # algorithms that were asked for

    @property
    def total(self) -> int:
        """Cells of the experiment that were asked for."""
        return len(self.tasks) + len(self.kept)


def run_experiment(
    given: str | os.PathLike[str] | Mapping[str, Any],
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    only: Sequence[str] = (),
    retry_failed: bool = False,
    overrides: Sequence[str] = (),
    small: bool = False,
    data: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
) -> RunResults:
    """Run an experiment, or what is left of it, and give its results.

    Parameters
    ----------
    given
        A TOML file, or a mapping of the same shape.
    out
        The run's folder; ``runs/NAME`` by default. Cells that are there already are not run again.
    jobs
        Processes to use; 0 runs all cells in this one. By default what the file says, else one per core.
    dask
        The address of a Dask scheduler, or "local" for a cluster on this machine.
    only
        Names of algorithms: run no others.
    retry_failed
        Run cells again that have failed before.
    overrides, small
        As for ``rankwood experiment --set`` and ``--small``.
    data
        The folder that holds the data, wherever the experiment says that they are.
    progress
        A function that is told of every cell: see ``RunNews``.

    Examples
    --------
    >>> results = run_experiment("run.toml")                   # doctest: +SKIP
    >>> results.values("BROOF", "ndcg@10").mean()              # doctest: +SKIP
    """
    experiment = read_experiment(given, overrides=overrides, small=small, data=data)
    plan = make_plan(experiment, out=out, jobs=jobs, only=only, retry_failed=retry_failed)
    carry_out(plan, dask=dask, progress=progress)
    return read_run(plan.folder.path)


def make_plan(
    experiment: Experiment,
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    only: Sequence[str] = (),
    retry_failed: bool = False,
) -> Plan:
    """What is to be run and what is there already; nothing is written."""
    names = [algorithm.name for algorithm in experiment.algorithms]
    for name in only:
        if name not in names:
            raise UnknownName("--only: algorithm", name, names)
    folder = RunFolder(out or experiment.out or Path(RUNS) / experiment.name)
    states = file_states(experiment.data, folder.record().get("data", {}).get("files", {}))
    digests = fold_digests(experiment.data, states)
    jobs, threads = share_cores(
        experiment.jobs if jobs is None else jobs, experiment.threads, len(experiment.cells())
    )
    survey = surveyed(experiment.data, states, digests, folder)
    tell_of_overlap(experiment.data.on_overlap, survey)
    plan = Plan(experiment, folder, [], {}, {}, states, digests, jobs, threads, survey=survey)
    plan = replace(plan, only=tuple(only))
    versions: set[str] = set()
    for cell in experiment.cells():
        task = _task(plan, cell)
        record = folder.cell_record(cell)
        is_kept = record is not None and _keeps(plan, task, record)
        if record is not None and not is_kept:
            plan.stale[cell] = str(record.get("fingerprint", ""))
        if is_kept and record is not None:
            versions |= {str(record.get("version")), *other_versions(record)}
            if record["status"] == "done" or not retry_failed:
                plan.kept[cell] = str(record["status"])
                continue
        if not only or cell.algorithm in only:
            plan.tasks.append(task)
    return replace(plan, other_versions=tuple(sorted(versions - {__version__})))


def _has_scale(task: Task, record: Mapping[str, Any]) -> bool:
    """Whether a cell's measures end their scale of labels where the collection does; version 0.1 took the fold's."""
    for text, measure in task.parsed().items():
        wanted = measure["max"] if "max" in measure.form.options else None
        known = record.get("conventions", {}).get(text, {}).get("max")
        if wanted is not None and known is not None and float(known.split()[0]) != wanted:
            return False
    return True


def tuning_fits(task: Task) -> float:
    """How many models the tuning of a cell fits, at most; those of kept trials do not count.

    An estimator that stops early is fitted twice in an inner fold: to find its rounds, and with them.
    """
    algorithm = task.algorithm
    if not algorithm.tune:
        return 0
    n_fits = 1
    if algorithm.tune_folds:
        estimator = build(algorithm.kind, algorithm.parameters)
        stopping = parameters_called(estimator, "early_stopping").values()
        n_fits = algorithm.tune_folds * (2 if any(value is not None for value in stopping) else 1)
    return max(0, algorithm.n_candidates - len(task.trials)) * n_fits


def _keeps(plan: Plan, task: Task, record: Mapping[str, Any]) -> bool:
    """Whether a cell was fitted as the experiment says now, and has its measures or can be measured by them.

    Measures that it lacks are noted in the plan.
    """
    if not _is_same_fit(plan.experiment, task, record):
        return False
    if task.algorithm.tune and not _has_scale(replace(task, measures=task.measures[:1]), record):
        return False
    if record["status"] != "done":
        return True
    lacking = lacking_measures(record, task)
    if lacking and not can_measure(plan.folder, task):
        plan.without_scores.append(task.cell)
        return False
    if lacking:
        plan.lacking[task.cell] = replace(task, measures=lacking)
    return True


def measures_of(record: Mapping[str, Any], task: Task) -> dict[str, str]:
    """The measures of a cell by their texts; version 0.1 wrote the texts alone."""
    if "measures" in record:
        return dict(record["measures"])
    conventions = record.get("conventions", {})
    measures = {}
    for text in record.get("means", task.measures):
        end = conventions.get(text, {}).get("max")  # of the scale: that of the fold, in version 0.1
        scale = None if end is None else float(end.split()[0])
        measures[text] = str(parse_measure(text, task.preset).with_largest(scale))
    return measures


def _hashed_measures(record: Mapping[str, Any], task: Task) -> list[str]:
    """The measures that version 0.1 put into the fingerprint of a cell."""
    texts = record.get("means", task.measures)
    hashed: list[str] = record.get(_HASHED, [str(parse_measure(x, task.preset)) for x in texts])
    return hashed


def lacking_measures(record: Mapping[str, Any], task: Task) -> tuple[str, ...]:
    """The measures of ``task`` that a cell does not have, or has with other conventions."""
    wanted, measured = task.canonical_measures(), measures_of(record, task)
    return tuple(text for text in wanted if measured.get(text) != wanted[text])


def can_measure(folder: RunFolder, task: Task) -> bool:
    """Whether further measures of a cell can be computed without a fit: from its scores, or by its model.

    Where each measure has a size of its own, that of a new one is chosen by the model.
    """
    if task.scoring.size == VALIDATED:
        return folder.model_path(task.cell).is_file()
    return folder.kept_scores(task.cell) is not None


def measure_cell(folder: RunFolder, task: Task, cache: FoldCache) -> None:
    """Add the measures of ``task`` to a finished cell, and keep it."""
    record = folder.cell_record(task.cell) or {}
    if "measures" not in record:  # of version 0.1
        record["measures"] = measures_of(record, task)
        record[_HASHED] = _hashed_measures(record, task)
    with_model = task.scoring.size == VALIDATED
    stored = folder.stored(task.cell, record, with_model=with_model)
    folder.write(measured_again(task, stored, cache))


def share_cores(jobs: int | None, threads: int | None, n_cells: int) -> tuple[int, int]:
    """Processes, and threads of each, so that together they use the cores; results do not depend on either."""
    cores = usable_cores()
    if jobs is None:
        jobs = max(1, min(cores // (threads or 1), n_cells))
    return jobs, threads or max(1, cores // max(1, jobs))


def carry_out(plan: Plan, *, dask: str | None = None, progress: Listener | None = None) -> None:
    """Run the cells of a plan, and keep each at once."""
    plan.folder.make()
    with plan.folder.locked(), ended_by_sigterm() as look:
        plan.folder.remove_unfinished()
        for cell, old in plan.stale.items():
            plan.folder.set_aside(cell, old)
        plan.folder.set_others_aside(plan.experiment.cells())
        cache = FoldCache()
        for task in plan.lacking.values():
            measure_cell(plan.folder, task, cache)
        run = {"out": str(plan.folder.path), "jobs": plan.jobs, "dask": dask, "only": plan.only}
        record = make_record(plan.experiment, plan.states, plan.digests, run)
        before = plan.folder.record()
        record["started"] = before.get("started", record["started"])
        record["data"] |= plan.survey.summary()
        if not _is_of_survey(plan.folder, plan.survey.digest):
            plan.folder.write_contents(plan.survey.contents)
        seconds_before = float(before.get("seconds", 0.0))
        plan.folder.write_record(record, plan.experiment.text)
        tally = _Tally(plan, progress)
        status = "interrupted"

        def keep_trial(task: Task, trial: Mapping[str, Any]) -> None:
            plan.folder.keep_trial(task, trial)
            look()

        watch = Watch(keep_trial, tally.lose)
        try:
            with contextlib.closing(_outcomes(plan, dask, watch)) as outcomes:
                for outcome in outcomes:
                    plan.folder.write(outcome)
                    tally.add(outcome)
                    look()
            status = "done" if tally.done == len(plan.experiment.cells()) else "incomplete"
            if status == "done" and plan.experiment.keep_winners:
                record["winner"] = _keep_winners(plan)
        finally:
            record |= {
                "status": status,
                "ended": now(),
                "seconds": seconds_before + tally.seconds,
                "cells": {"done": tally.done, "failed": tally.failed},
            }
            lost = [*before.get("lost_workers", []), *tally.lost]
            record |= {"lost_workers": lost} if lost else {}
            plan.folder.write_record(record, plan.experiment.text)


def _keep_winners(plan: Plan) -> str | None:
    """Remove the models of all algorithms but the best by the primary measure; gives its name.

    Models of other libraries are not kept, so they do not compete.
    """
    results = read_run(plan.folder.path)
    measure = results.primary
    cells_of: dict[str, list[Cell]] = {}
    for cell in plan.experiment.cells():
        cells_of.setdefault(cell.algorithm, []).append(cell)
    means = {
        name: float(np.nanmean(results.values(name, measure)))
        for name in cells_of
        if plan.experiment.algorithm(name).kind not in FOREIGN
        and not np.isnan(results.values(name, measure)).all()
    }
    if not means:
        return None
    sign = 1.0 if is_minimised(parse_measure(measure)) else -1.0
    winner = min(means, key=lambda name: sign * means[name])
    for name, cells in cells_of.items():
        for cell in cells if name != winner else ():
            plan.folder.model_path(cell).unlink(missing_ok=True)
    lacking = [cell for cell in cells_of[winner] if not plan.folder.model_path(cell).is_file()]
    if lacking:
        warnings.warn(
            f"{winner} is the best now, but {len(lacking):,} of its models were not kept when another was: run it "
            f'again with --only "{winner}" into another --out.',
            DataWarning,
            stacklevel=3,
        )
    return winner


def _outcomes(plan: Plan, dask: str | None, watch: Watch) -> Generator[Outcome]:
    """The outcome of each task as it is finished; closing this ends the workers."""
    if not plan.tasks:
        return
    if dask is not None:
        from rankwood.experiments.workers import run_on_dask

        yield from run_on_dask(plan.tasks, dask, max(1, plan.jobs), plan.threads, watch)
    elif plan.jobs == 0:
        yield from run_here(plan.tasks, watch)
    else:
        jobs = min(plan.jobs, len(plan.tasks))
        yield from run_on_processes(plan.tasks, jobs, plan.threads, watch)


def _task(plan: Plan, cell: Cell) -> Task:
    experiment = plan.experiment
    digest = plan.digests[cell.fold]
    algorithm = experiment.algorithm(cell.algorithm)
    mark = fingerprint(experiment, cell, digest, _deciding(experiment, cell))
    return Task(
        cell=cell,
        algorithm=algorithm,
        data=experiment.data,
        digest=digest,
        fingerprint=mark,
        measures=experiment.measures,
        preset=experiment.preset,
        scoring=_scoring(experiment, cell),
        seed=experiment.seed_of(cell),
        threads=plan.threads,
        keeps_scores=experiment.keep_scores,
        keeps_model=experiment.keep_models,
        with_front=experiment.fronts,
        largest_label=plan.survey.largest_label,
        seed_of_draws=experiment.seed,
        trials=plan.folder.trials(cell, mark) if algorithm.tune else (),
    )


class _Tally:
    """Cells done and failed, and the time that is left: by algorithm, since their cells differ in length."""

    def __init__(self, plan: Plan, listener: Listener | None) -> None:
        self.done = sum(status == "done" for status in plan.kept.values())
        self.failed = len(plan.kept) - self.done
        self._plan = plan
        self._listener = listener
        self._start = time.perf_counter()
        self._left = [task.cell.algorithm for task in plan.tasks]
        self._spent: dict[str, list[float]] = {}
        self.lost: list[str] = []
        self._tell(None, {})

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._start

    def add(self, outcome: Outcome) -> None:
        """Count a cell and report it."""
        self.done += outcome.is_done
        self.failed += not outcome.is_done
        self._left.remove(outcome.cell.algorithm)
        spent = float(sum(outcome.record["seconds"].values()))
        self._spent.setdefault(outcome.cell.algorithm, []).append(spent)
        self._tell(outcome.cell, outcome.record)

    def lose(self, text: str) -> None:
        """Report a worker that was lost; without a listener to the log."""
        self.lost.append(text)
        if self._listener is None:
            _logger.warning(text)
        self._tell(None, {}, text)

    def _tell(self, cell: Cell | None, record: Mapping[str, Any], lost: str = "") -> None:
        if self._listener is not None:
            news = RunNews(
                self.done, self.failed, self._plan.total, self._time_left(), cell, record, lost
            )
            self._listener(news)

    def _time_left(self) -> float | None:
        if not self._spent:
            return None
        means = {name: sum(spent) / len(spent) for name, spent in self._spent.items()}
        typical = sum(means.values()) / len(means)
        total = sum(means.get(name, typical) for name in self._left)
        return total / max(1, min(self._plan.jobs, len(self._left)))


def digest_of(value: Any) -> str:
    """A hash of plain values, whatever the order of mappings."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_states(source: DataSource, known: FileStates) -> dict[str, dict[str, Any]]:
    """Size, time and sha256 of every file of the data; a file that looks untouched is not read again."""
    paths = [path for fold in source.folds for path in fold.files.values()]
    paths += [source.whole["data"]] if "data" in source.whole else []
    states: dict[str, dict[str, Any]] = {}
    for path in paths:
        inputs = [file.path for file in find_inputs(paths_of(path))]
        sizes, times = zip(*map(size_and_time, inputs), strict=True)
        seen: dict[str, Any] = {"size": sum(sizes), "mtime_ns": max(times)}
        if len(inputs) > 1 or str(inputs[0]) != path:
            seen["files"] = [list(one) for one in zip(map(str, inputs), sizes, times, strict=True)]
        before = known.get(path, {})
        is_same = all(before.get(name) == value for name, value in seen.items())
        states[path] = {**seen, "sha256": before["sha256"] if is_same else _hash_of(inputs, seen)}
    return states


def _hash_of(inputs: Sequence[Located], seen: Mapping[str, Any]) -> str:
    """The sha256 of a file; of several one of all, and of files elsewhere what is seen of them."""
    if any(isinstance(path, RemoteFile) for path in inputs):
        return digest_of(seen)
    hashes = [full_hash(Path(path)) for path in inputs]
    return hashes[0] if len(hashes) == 1 else digest_of(hashes)


def fold_digests(source: DataSource, states: FileStates) -> dict[str, str]:
    """For each fold, a hash of everything that determines its data."""
    common: dict[str, Any] = {
        "cut": source.cut,
        "reading": source.reading,
        "changes": [source.normalise, source.binarise, *source.sample],
    }
    if source.measure_on != "test":
        common["measure_on"] = source.measure_on
    whole = dict(source.whole)
    if "data" in whole:
        whole["data"] = states[whole["data"]]["sha256"]
    digests = {}
    for fold in source.folds:
        files = {part: states[path]["sha256"] for part, path in fold.files.items()}
        name = "" if fold.files else fold.name
        digests[fold.name] = digest_of([common, whole, files, name])
    return digests


# What there is to know of the data before the first cell is run.


@dataclass(frozen=True)
class Survey:
    """The collection's largest label, what the parts of its folds share, and the content of each measured query."""

    digest: str  # of the data it is of
    largest_label: float | None  # in all parts of all folds that can be read; None where none can
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    contents: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # fold -> query -> hash

    def summary(self) -> dict[str, Any]:
        """What the run's record keeps of it."""
        names = ("largest_label", "warnings", "notes")
        return {"survey": self.digest, **{name: getattr(self, name) for name in names}}


def surveyed(
    source: DataSource, states: FileStates, digests: Mapping[str, str], folder: RunFolder
) -> Survey:
    """Read every part once, and compare the parts of each fold; what the run's folder says of the same data is kept."""
    digest = digest_of([_SURVEY, source.on_overlap == "ignore", dict(digests)])
    if _is_of_survey(folder, digest):
        known = folder.record()["data"]
        kept = {name: tuple(known.get(name, ())) for name in ("warnings", "notes")}
        return Survey(digest, known.get("largest_label"), **kept, contents=folder.contents())
    reader = _PartReader(source, states)
    labels: list[float] = []
    folds_of: dict[str, dict[str, list[str]]] = {"warnings": {}, "notes": {}}
    contents: dict[str, dict[str, int]] = {}
    for fold in source.folds:
        try:
            parts = reader.parts(fold)
        except (InputError, OSError):  # which the cells of the fold will report
            continue
        labels += [part.largest_label for part in parts.values()]
        measured = parts[source.measure_on]
        contents[fold.name] = dict(
            zip(measured.ids.tolist(), measured.queries.tolist(), strict=True)
        )
        for kind, lines in _shared_lines(parts, source.on_overlap).items():
            for line in lines:
                folds_of[kind].setdefault(line, []).append(fold.name)
    said = {
        kind: tuple(f"{_shown(folds)}: {line}." for line, folds in of.items())
        for kind, of in folds_of.items()
    }
    return Survey(digest, max(labels, default=None), **said, contents=contents)


def _is_of_survey(folder: RunFolder, digest: str) -> bool:
    """Whether the run's folder has all of a survey."""
    known = folder.record().get("data", {}).get("survey")
    return bool(known == digest) and (folder.path / CONTENTS).is_file()


class _PartReader:
    """Parts of folds as hashes; a file that is a part of several folds is read once."""

    def __init__(self, source: DataSource, states: FileStates) -> None:
        self._source, self._states = source, states
        self._wholes = Wholes()
        self._known: dict[Any, PartContent] = {}
        keys = [self._key(part, path) for one in source.folds for part, path in one.files.items()]
        self._repeated = {key for key in keys if keys.count(key) > 1}

    def _key(self, part: str, path: str) -> tuple[str, int | None]:
        size = self._source.sample[PARTS.index(part)] if self._source.sample else None
        return self._states[path]["sha256"], size

    def parts(self, fold: FoldSource) -> dict[str, PartContent]:
        """The parts of a fold by name."""
        if fold.files:
            return {part: self._of_file(part, path) for part, path in fold.files.items()}
        whole = self._wholes.parts(self._source, fold.name)
        names = PARTS if len(whole) == len(PARTS) else ("train", "test")
        read = {
            name: prepared_part(self._source, data, name)
            for name, data in zip(names, whole, strict=True)
        }
        return {name: PartContent.of(data) for name, data in read.items()}

    def _of_file(self, part: str, path: str) -> PartContent:
        key = self._key(part, path)
        if key in self._known:
            return self._known[key]
        data = read_data(paths_of(path), ReadOptions(**self._source.reading))
        content = PartContent.of(prepared_part(self._source, data, part))
        if key in self._repeated:
            self._known[key] = content
        return content


def _shared_lines(parts: Mapping[str, PartContent], on_overlap: str) -> dict[str, list[str]]:
    """What each part of a fold shares with the parts before it, in words."""
    lines: dict[str, list[str]] = {"warnings": [], "notes": []}
    if on_overlap == "ignore":
        return lines
    names = [name for name in PARTS if name in parts]
    for place, name in enumerate(names):
        for before in names[:place]:
            found = shared_content(parts[name], parts[before])
            called = [PRESENT_NAMES.get(part, part) for part in (name, before)]
            lines["warnings"] += found.warnings(*called)
            lines["notes"] += found.notes(*called)
    return lines


def _shown(folds: Sequence[str]) -> str:
    """The folds that a line is about."""
    more = len(folds) - _FOLDS_SHOWN
    return ", ".join(folds[:_FOLDS_SHOWN]) + (f" and {more:,} more folds" if more > 0 else "")


def tell_of_overlap(on_overlap: str, survey: Survey) -> None:
    """Warn of what the parts of folds share, or refuse it."""
    if on_overlap == "error" and survey.warnings:
        lines = "\n  ".join(survey.warnings)
        raise DataError(
            f"parts of the data overlap:\n  {lines}\nMeasures of such a test part look better than they are. "
            'Mend the folds, or write on_overlap = "warn" in [data].'
        )
    if on_overlap == "warn":
        for line in survey.warnings:
            warnings.warn(
                f"{line} Measures of it look better than they are.", DataWarning, stacklevel=2
            )


def fingerprint(
    experiment: Experiment, cell: Cell, digest: str, measures: Sequence[str] = ()
) -> str:
    """A hash of everything that determines a cell's scores, except the version and the number of threads.

    ``measures`` are those that decide something: the primary one where parameters are tuned. Version 0.1 took all.
    """
    algorithm = experiment.algorithm(cell.algorithm)
    tuning: list[Any] = []
    if algorithm.tune:
        tuning = [algorithm.tune, algorithm.tune_method]
        tuning += [algorithm.tune_trials] if algorithm.tune_method != "grid" else []
        tuning += tuning_options(algorithm).items()  # of earlier versions there are none
    scoring = _scoring(experiment, cell)
    parameters = plain_parameters(build(algorithm.kind, algorithm.parameters))
    return digest_of(
        [
            algorithm.kind,
            _without_late_seeds({"estimator": algorithm.kind, "parameters": parameters})[
                "parameters"
            ],
            [*_cost_files(algorithm.parameters), *_given_scores(algorithm, cell)],
            tuning,
            experiment.seed_of(cell),
            list(measures),
            digest,
            # Cells that earlier versions ran stay: they know nothing of other ways to score.
            *(
                []
                if scoring.is_plain
                else [asdict(scoring), _cost_files({"feature_costs": scoring.costs})]
            ),
        ]
    )


def _given_scores(algorithm: Algorithm, cell: Cell) -> list[str]:
    """The hash of the file that an algorithm of given scores reads for this cell."""
    if algorithm.kind != "scores":
        return []
    file = build(algorithm.kind, algorithm.parameters).file(cell.fold, cell.repetition)
    return [full_hash(file)]


def _deciding(experiment: Experiment, cell: Cell) -> list[str]:
    """The measures that the scores of a cell depend on."""
    algorithm = experiment.algorithm(cell.algorithm)
    estimator = build(algorithm.kind, algorithm.parameters)
    if not algorithm.tune and not getattr(estimator, "needs_measure", False):
        return []
    return [str(parse_measure(experiment.measures[0], experiment.preset))]


def _is_same_fit(experiment: Experiment, task: Task, record: Mapping[str, Any]) -> bool:
    """Whether a cell was fitted as the experiment says now, whatever it was measured by."""
    if record.get("fingerprint") == task.fingerprint:
        return True
    # Version 0.1 hashed all measures, of which the first decided.
    every = _hashed_measures(record, task)
    as_then = fingerprint(experiment, task.cell, task.digest, every)
    deciding = _deciding(experiment, task.cell)
    return record.get("fingerprint") == as_then and deciding in ([], every[:1])


def _without_late_seeds(value: Any) -> Any:
    """Plain parameters without the seeds that some rankers were given later: cells of earlier versions stay."""
    if isinstance(value, list):
        return [_without_late_seeds(item) for item in value]
    if not isinstance(value, dict) or "estimator" not in value:
        return value
    is_late = value["estimator"] in _SEEDED_LATE
    parameters = {
        name: _without_late_seeds(item)
        for name, item in value["parameters"].items()
        if not (is_late and name == "seed")
    }
    return {"estimator": value["estimator"], "parameters": parameters}


def _scoring(experiment: Experiment, cell: Cell) -> ScoringRules:
    early_exit = experiment.algorithm(cell.algorithm).early_exit
    every = experiment.size_every if experiment.size == VALIDATED else 1
    return ScoringRules(experiment.size, every, experiment.costs, early_exit)


def _cost_files(parameters: Mapping[str, Any]) -> list[str]:
    """Hashes of the files that parameters name: of feature costs, also those of inner estimators."""
    hashes = []
    for name, value in parameters.items():
        if name == "feature_costs" and isinstance(value, str):
            hashes.append(full_hash(Path(value)))
        elif isinstance(value, dict):
            hashes += _cost_files(value)
    return hashes
