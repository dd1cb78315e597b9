"""What is done with finished runs beside their report: factorial designs, fronts, further measures, archives.

``factorial_of_run`` is the factorial design of a run whose algorithms differ by their parameters. An algorithm is a
cell of the design: its level of a factor is the value of that parameter. Other parameters may differ between
algorithms too, if the design couples them (fewer rounds for one loss, say); the notes of the result name them.

``run_fronts`` is the quality by number of trees of every boosted ranker of a run, and how its searches grew. An
experiment with ``fronts = true`` in its table ``[run]`` records both. Figures 9 to 12 of Kocsis, György & Bán (2013)
are drawn from them.

``measure_run`` adds measures to a run from the scores that it kept, and ``bundle_run`` packs a run with all that is
needed to repeat it into one archive.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import itertools
import json
import math
import os
import shlex
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.files import atomic_path, explained_writing
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.plots import PlotLine, line_plot
from rankwood.evaluation.results import Result, Tables
from rankwood.experiments.cells import FoldCache, Task
from rankwood.experiments.config import repeat_command
from rankwood.experiments.results import RunResults, read_run
from rankwood.experiments.runner import can_measure, lacking_measures, measure_cell
from rankwood.experiments.sections import PATH_KEYS
from rankwood.experiments.settings import Algorithm, Cell, DataSource, FoldSource
from rankwood.experiments.store import CELLS, FILE, MODELS, RECORD, SCORES, RunFolder
from rankwood.experiments.tuning import VALIDATED, WHOLE, ScoringRules
from rankwood.measures.measure import parse_measure, squeeze
from rankwood.studies.factorial import Factorial, checked_replicates, factorial

_SHOWN = 5  # cells that lack, algorithms left out
_KIND = "kind"
_STEPS = (1, 2, 3, 5, 7)  # limits of each decade: 1, 2, 3, 5, 7, 10, 20, …
_REPEATED = "repeated"  # the folder that the run in an archive is repeated in
_DATA = "PATH/TO/DATA"  # in the commands of an archive, where its data are to be named
_FILES = "files"  # the folder of files that parameters name, in an archive
_OLDEST = (1980, 1, 1, 0, 0, 0)  # of a zip file


# Factorial designs.


def factorial_of_run(
    run: RunResults | str | os.PathLike[str],
    factors: Sequence[str] | Mapping[str, Sequence[Any]],
    measure: str | None = None,
    *,
    replicates: str = "folds",
    order: int | None = None,
    level: float = 0.05,
) -> Factorial:
    """What parameters in which the algorithms of a run differ do to a measure.

    Parameters
    ----------
    run
        A run, or its folder.
    factors
        Names of parameters, two or more; "kind" is the kind of ranker, "base.n_trees" a parameter of an inner one. The
        levels are the values that the algorithms have, in the order of the run; a mapping from names to values takes
        these alone. Algorithms without these parameters are left out.
    measure
        One of the run's; by default its primary one.
    replicates
        "folds" are blocks, and as many repetitions as there are of a cell are averaged; "repetitions" as in Sá (2016).
        A fold in which an algorithm has no value is left out. See ``factorial``; the notes say what is missing.
    order, level
        The most factors of an interaction with a row of its own, and what p values are compared with.

    Examples
    --------
    >>> factorial_of_run("runs/broof-table-6.3", ["loss", "validation"])       # doctest: +SKIP
    """
    results = run if isinstance(run, RunResults) else read_run(run)
    wanted = _measure_of(results, measure)
    design = _Design.of(results, factors)
    fits, missing = design.fits(wanted)
    checked_replicates(replicates, fits.shape[-1])
    found = factorial(
        fits,
        design.levels,
        folds=results.folds,
        blocks=_test_parts(results),
        replicates=replicates,
        order=order,
        level=level,
        response=wanted,
    )
    return replace(found, notes=(*found.notes, *missing, *design.notes()))


@dataclass(frozen=True, eq=False)
class _Design:
    """The algorithms of a run as the cells of a design."""

    results: RunResults
    levels: Mapping[str, tuple[str, ...]]  # by factor
    algorithm_of: Mapping[tuple[str, ...], str]  # by levels
    parameters: Mapping[str, Mapping[str, str]]  # algorithm -> parameter -> value as text
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, results: RunResults, factors: Any) -> _Design:
        """The design, if every combination of levels is exactly one algorithm."""
        parameters = {
            one["name"]: _flat({_KIND: one["kind"], **one["parameters"]})
            for one in results.record["configuration"]["algorithms"]
        }
        wanted = _checked_factors(factors, parameters)
        _refuse_tuned(results, wanted)
        cells = {
            name: tuple(str(values[factor]) for factor in wanted)
            for name, values in parameters.items()
            if all(
                factor in values and (levels is None or values[factor] in levels)
                for factor, levels in wanted.items()
            )
        }
        levels = {
            factor: tuple(dict.fromkeys(cell[number] for cell in cells.values()))
            if given is None
            else tuple(given)
            for number, (factor, given) in enumerate(wanted.items())
        }
        for factor, found in levels.items():
            if len(found) < 2:
                raise ParameterError(
                    f"{factor} needs two levels or more; the run has {', '.join(found) or 'none'}. "
                    f"{_differing(parameters)}"
                )
        algorithm_of = _one_by_cell(cells, levels, parameters)
        left_out = tuple(name for name in parameters if name not in cells)
        kept = {name: parameters[name] for name in cells}
        return cls(results, levels, algorithm_of, kept, left_out)

    def fits(self, measure: str) -> tuple[Floats, list[str]]:
        """The measure by levels, fold and repetition, NaN where there is none; a note names what is missing."""
        names = [self.algorithm_of[levels] for levels in itertools.product(*self.levels.values())]
        counts = {  # a ranker that is not random is run once
            one["name"]: int(one["repetitions"]) if one.get("is_random", True) else 1
            for one in self.results.record["configuration"]["algorithms"]
        }
        n_repetitions, folds = max(counts[name] for name in names), self.results.folds
        done = (cell for cell in self.results.cells if cell.status == "done")
        means = {(c.algorithm, c.fold, c.repetition): c.means.get(measure, math.nan) for c in done}
        keys = list(itertools.product(names, folds, range(1, n_repetitions + 1)))
        values = np.array([means.get(key, math.nan) for key in keys])
        wanted = [key for key in keys if key[2] <= counts[key[0]]]
        lacking = [
            f"{key[0]}, {key[1]}, repetition {key[2]}"
            for key in wanted
            if math.isnan(means.get(key, math.nan))
        ]
        more = f" and {len(lacking) - _SHOWN:,} more" if len(lacking) > _SHOWN else ""
        note = (
            f"{len(lacking):,} of {len(wanted):,} cells of the run have no {measure}: "
            f"{'; '.join(lacking[:_SHOWN])}{more}; go on with the run (rankwood experiment, --retry-failed for failed "
            "cells)"
        )
        shape = (*map(len, self.levels.values()), len(folds), n_repetitions)
        return values.reshape(shape), [note] if lacking else []

    def notes(self) -> list[str]:
        """Parameters that vary along with a factor, or otherwise; algorithms that are not part of the design."""
        notes = []
        for name in _varying(self.parameters):
            if name in self.levels:
                continue
            leader = next((f for f in self.levels if self._follows(name, f)), None)
            how = (
                f"varies with {leader}"
                if leader
                else "differs between cells too, not by one factor alone"
            )
            notes.append(f"{name} {how}: effects are those of both together")
        if self.left_out:
            shown = ", ".join(self.left_out[:_SHOWN])
            more = f" and {len(self.left_out) - _SHOWN} more" if len(self.left_out) > _SHOWN else ""
            notes.append(f"not in the design: {shown}{more}")
        return notes

    def _follows(self, parameter: str, factor: str) -> bool:
        """Whether the level of a factor determines the value of a parameter."""
        pairs = {(each[factor], each.get(parameter)) for each in self.parameters.values()}
        return len(pairs) == len(self.levels[factor])


def _test_parts(results: RunResults) -> list[str]:
    """What each fold is tested on: its file's hash, or the fold's own name where folds were cut from one data set."""
    data, states = results.record["configuration"]["data"], results.record["data"]["files"]
    part = data.get("measure_on", "test")
    files = {fold["name"]: fold["files"].get(part) for fold in data["folds"]}
    return [str(states.get(files[name], {}).get("sha256", name)) for name in results.folds]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Parameters as texts; those of an inner ranker as ``base.n_trees``, its kind as ``base``."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and "estimator" in value:
            flat[f"{prefix}{name}"] = str(value["estimator"])
            flat |= _flat(value.get("parameters") or {}, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(value)
    return flat


def _checked_factors(
    factors: Any, parameters: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str] | None]:
    """By factor the levels to take as texts; None for all that there are."""
    if isinstance(factors, str) or not isinstance(factors, Sequence | Mapping) or len(factors) < 2:
        raise ParameterError(
            f"name two parameters or more as factors, such as ['loss', 'validation']. {_differing(parameters)}"
        )
    known = dict.fromkeys(name for each in parameters.values() for name in each)
    wanted: dict[str, list[str] | None] = {}
    for factor in factors:
        if factor not in known:
            raise UnknownName("parameter of this run", str(factor), known)
        if factor in wanted:
            raise ParameterError(f"{factor} is named twice.")
        wanted[factor] = None
        if isinstance(factors, Mapping) and factors[factor]:
            there = dict.fromkeys(each[factor] for each in parameters.values() if factor in each)
            wanted[factor] = [
                checks.one_of(f"level of {factor}", str(level), there) for level in factors[factor]
            ]
    return wanted


def _refuse_tuned(results: RunResults, factors: Mapping[str, Any]) -> None:
    for one in results.record["configuration"]["algorithms"]:
        tuned = [factor for factor in factors if factor in (one.get("tune") or {})]
        if tuned:
            raise ParameterError(
                f"{tuned[0]} of '{one['name']}' was tuned, and so has no level that was set beforehand."
            )


def _one_by_cell(
    cells: Mapping[str, tuple[str, ...]],
    levels: Mapping[str, tuple[str, ...]],
    parameters: Mapping[str, Mapping[str, str]],
) -> dict[tuple[str, ...], str]:
    """The algorithm of every combination of levels; an error where there are two or none."""
    algorithm_of: dict[tuple[str, ...], str] = {}
    for name, cell in cells.items():
        if cell in algorithm_of:
            pair = {other: parameters[other] for other in (algorithm_of[cell], name)}
            differing = ", ".join(_varying(pair)) or "nothing but their names"
            raise ParameterError(
                f"'{algorithm_of[cell]}' and '{name}' have the same levels ({', '.join(cell)}); they differ in "
                f"{differing}. Name that as a factor too, or say which levels to take."
            )
        algorithm_of[cell] = name
    lacking = [cell for cell in itertools.product(*levels.values()) if cell not in algorithm_of]
    if lacking:
        shown = "; ".join(" × ".join(cell) for cell in lacking[:_SHOWN])
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        raise ParameterError(
            f"no algorithm of the run has {shown}{more}: a full design has every combination of levels. Run those too, "
            "or say which levels to take."
        )
    return algorithm_of


def _varying(parameters: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The parameters that are not the same in all algorithms."""
    names = dict.fromkeys(name for each in parameters.values() for name in each)
    return [name for name in names if len({each.get(name) for each in parameters.values()}) > 1]


def _differing(parameters: Mapping[str, Mapping[str, str]]) -> str:
    names = ", ".join(_varying(parameters))
    return (
        f"The algorithms of this run differ in {names}." if names else "Its algorithms are alike."
    )


def _measure_of(results: RunResults, measure: str | None) -> str:
    if measure is None:
        return results.primary
    for text in results.measures:
        if squeeze(text) == squeeze(str(measure)):
            return text
    raise UnknownName("measure of this run", str(measure), results.measures)


# Fronts.


@dataclass(frozen=True, eq=False)
class RunFronts(Result):
    """The test measure of the model that validated best among those of at most so many trees, by algorithm.

    Parameters
    ----------
    measure
        What the values are of.
    limits
        The most trees of a model, ascending.
    curves
        A value per limit and algorithm, the mean over the folds and repetitions that are done; NaN where an algorithm
        has no model that small.
    growth
        Of every search, by algorithm and cell: round, models at its end, models it added, and length of the leader.
    """

    measure: str
    limits: tuple[int, ...]
    curves: Mapping[str, list[float]]
    growth: Mapping[str, Mapping[str, Mapping[str, list[int]]]] = field(default_factory=dict)

    def rows(self) -> Iterator[dict[str, float]]:
        """A mapping per limit: ``trees``, then the algorithms."""
        for place, limit in enumerate(self.limits):
            yield {"trees": limit, **{name: values[place] for name, values in self.curves.items()}}

    def table(self) -> list[dict[str, str]]:
        """A row per limit as texts."""
        return [
            {
                name: str(value) if name == "trees" else "" if math.isnan(value) else f"{value:.4f}"
                for name, value in row.items()
            }
            for row in self.rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        points = [
            {name: None if math.isnan(value) else value for name, value in row.items()}
            for row in self.rows()
        ]
        growth = {name: dict(cells) for name, cells in self.growth.items()}
        return {"measure": self.measure, "points": points, "growth": growth}

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the curves over the number of trees, to a file whose ending names its format: .png, .svg or .pdf."""
        trees = np.array(self.limits, float)
        lines = {
            name: PlotLine(trees, np.array(values), group=number, dashes=number, steps=True)
            for number, (name, values) in enumerate(self.curves.items())
        }
        line_plot(path, lines, "most trees of a model", self.measure)

    def _tables(self) -> Tables:
        return {self.measure: self.table()}

    def _records(self) -> Iterator[dict[str, float]]:
        return self.rows()


def run_fronts(folder: str | os.PathLike[str]) -> RunFronts:
    """The curves of the run in ``folder``, which was made with ``fronts = true``.

    Examples
    --------
    >>> print(run_fronts("runs/table-3"))                      # doctest: +SKIP
    """
    run = RunFolder(folder)
    records = _done_records(run)
    fronts: dict[str, list[Mapping[str, Any]]] = {}
    growth: dict[str, dict[str, Any]] = {}
    for cell, record in records.items():
        if "front" in record:
            fronts.setdefault(cell.algorithm, []).append(record["front"])
        if "growth" in record:
            place = f"{cell.fold}, repetition {cell.repetition}"
            growth.setdefault(cell.algorithm, {})[place] = record["growth"]
    if not fronts:
        raise DataError(
            f"{run.path} holds no fronts: no finished cell has recorded one. Boosted rankers do where the experiment's "
            "file says fronts = true under [run]; run it again with that into another folder."
        )
    limits = _limits(max(front["trees"][-1] for each in fronts.values() for front in each))
    curves = {
        name: [float(np.mean([_at_most(front, limit) for front in each])) for limit in limits]
        for name, each in fronts.items()
    }
    measures = sorted({str(front["measure"]) for each in fronts.values() for front in each})
    return RunFronts(", ".join(measures), limits, curves, growth)


def _done_records(run: RunFolder) -> dict[Cell, dict[str, Any]]:
    """The records of the cells that are done, in the order of the experiment."""
    configuration = run.record().get("configuration")
    if not configuration:
        raise DataError(f"{run.path} holds no run: there is no {RECORD} that can be read.")
    cells = (
        Cell(algorithm["name"], fold["name"], repetition)
        for algorithm in configuration["algorithms"]
        for fold in configuration["data"]["folds"]
        for repetition in range(1, int(configuration["repetitions"]) + 1)
    )
    records = {cell: run.cell_record(cell) for cell in cells}
    return {cell: one for cell, one in records.items() if one and one["status"] == "done"}


def _limits(most: int) -> tuple[int, ...]:
    """Round numbers of trees up to ``most``, which is the last."""
    limits: list[int] = []
    unit = 1
    while unit <= most:
        limits += [step * unit for step in _STEPS if step * unit < most]
        unit *= 10
    return (*limits, most)


def _at_most(front: Mapping[str, Sequence[float | None]], limit: int) -> float:
    """The value on the test part of the longest model of a front that has at most ``limit`` trees."""
    value = math.nan
    for n_trees, on_test in zip(front["trees"], front["data"], strict=True):
        if n_trees is not None and n_trees <= limit and on_test is not None:
            value = float(on_test)
    return value


# Further measures.


def measure_run(folder: str | os.PathLike[str], measures: str | Sequence[str]) -> RunResults:
    """Add measures to the finished cells of a run, from the scores that it kept: nothing is fitted.

    The values are exactly those that the run would have given. A run whose measures have a size of their own
    (``size = "validated"``) needs its models and its data instead, to choose the sizes of the new ones.

    Parameters
    ----------
    folder
        The run's folder.
    measures
        Texts such as "ndcg@5"; conventions that they leave open are those of the run's preset.

    Examples
    --------
    >>> measure_run("runs/broof", ["ndcg@5", "err"])           # doctest: +SKIP
    """
    run = RunFolder(folder)
    results = read_run(folder)  # raises where there is no run
    record = json.loads(json.dumps(results.record))
    preset = record["configuration"].get("preset")
    texts = [squeeze(text) for text in ([measures] if isinstance(measures, str) else measures)]
    if not texts:
        raise ParameterError("measures is empty; name at least one, such as 'ndcg@5'.")
    parsed = {text: parse_measure(text, preset) for text in texts}
    with run.locked():
        tasks = _tasks_to_measure(run, record, tuple(parsed))
        _refuse_without_scores(run, [task for task in tasks if not can_measure(run, task)], record)
        cache = FoldCache()
        for task in tasks:
            measure_cell(run, task, cache)
        added = [text for text in parsed if text not in results.measures]
        record["configuration"]["measures"] += added
        record["measures"] |= {text: str(parsed[text]) for text in added}
        record["conventions"] |= {text: parsed[text].conventions for text in added}
        _note_measured(record, run, added)
        run.write_record(record, "")
    return read_run(folder)


def _tasks_to_measure(
    run: RunFolder, record: Mapping[str, Any], texts: tuple[str, ...]
) -> list[Task]:
    """For each finished cell the measures that it lacks; cells that lack none are left out."""
    configuration = record["configuration"]
    data = configuration["data"]
    folds = tuple(FoldSource(one["name"], one.get("files", {})) for one in data["folds"])
    source = DataSource(**{**data, "folds": folds, "sample": tuple(data.get("sample", ()))})
    algorithms = {one["name"]: one for one in configuration["algorithms"]}
    size, costs = configuration.get("size", WHOLE), configuration.get("costs")
    every = configuration.get("size_every", 1) if size == VALIDATED else 1
    tasks = []
    for cell, found in _done_records(run).items():
        one = algorithms[cell.algorithm]
        task = Task(
            cell=cell,
            algorithm=Algorithm(cell.algorithm, one["kind"], one["given"]),
            data=source,
            digest=record["data"]["digests"][cell.fold],
            fingerprint=str(found.get("fingerprint")),
            measures=texts,
            preset=configuration.get("preset"),
            scoring=ScoringRules(
                size,
                every,
                tuple(costs) if isinstance(costs, list) else costs,
                one.get("early_exit"),
            ),
            seed=0,  # nothing is drawn
            threads=None,
            keeps_scores=False,
            largest_label=record["data"].get("largest_label"),
        )
        lacking = lacking_measures(found, task)
        if lacking:
            tasks.append(replace(task, measures=lacking))
    return tasks


def _refuse_without_scores(
    run: RunFolder, tasks: Sequence[Task], record: Mapping[str, Any]
) -> None:
    """Raise for cells that cannot be measured without a fit, and say which they are."""
    if not tasks:
        return
    shown = "; ".join(str(task.cell) for task in tasks[:_SHOWN])
    more = f" and {len(tasks) - _SHOWN:,} more" if len(tasks) > _SHOWN else ""
    what = "scores"
    why = "Version 0.1 kept those of the first repetition only, and none with keep_scores = false"
    if tasks[0].scoring.size == VALIDATED:
        what = "models"
        why = 'With size = "validated" a model must score the documents at the size that is best by a new measure'
    command = str(record.get("repeat", {}).get("command", "")).partition("\n")[0]
    again = f": {command}" if command.startswith("rankwood ") else "."
    raise DataError(
        f"{run.path} keeps no {what} of {len(tasks):,} cells, which must be fitted again: {shown}{more}. {why}. Name "
        f'the measures under [measures] also, say keep = "{what}" under [run], and run the experiment{again}'
    )


def _note_measured(record: dict[str, Any], run: RunFolder, added: Sequence[str]) -> None:
    """Let the command that repeats the run add the measures too."""
    repeat = record.setdefault("repeat", {})
    if not added:
        return
    repeat["measured"] = [*repeat.get("measured", []), *added]
    first = str(repeat.get("command", "")).partition("\n")[0]
    again = measure_command(
        str(run.path), repeat["measured"], is_call=not first.startswith("rankwood ")
    )
    repeat["command"] = f"{first}\n{again}"


def measure_command(folder: str, texts: Sequence[str], *, is_call: bool) -> str:
    """The command, or the call, that adds measures to a run."""
    if is_call:
        return f"rankwood.measure_run({folder!r}, {list(texts)!r})"
    return shlex.join(
        ["rankwood", "measure", folder, *(word for text in texts for word in ("-m", text))]
    )


# Archives.


def bundle_run(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    models: bool = True,
) -> Path:
    """Pack a run into one archive with all that is needed to read it and to repeat it; gives its path.

    It holds the experiment's file, the record, the versions, values and scores of every cell, models where they were
    kept, the report with its tables and figures, and a script that repeats the run. Unpacked, it is the folder of a
    run. The data are not in it, since many collections must not be passed on: their paths and digests are, and
    ``--data FOLDER`` says where a copy is.

    Parameters
    ----------
    folder
        The run's folder.
    out
        The archive, a .zip file; by default beside the folder, with its name.
    models
        Whether models that were kept are packed too.

    Examples
    --------
    >>> bundle_run("runs/broof", "broof.zip")                  # doctest: +SKIP
    """
    run = RunFolder(folder)
    results = read_run(folder)
    target = (
        run.path.resolve().with_name(f"{run.path.resolve().name}.zip") if out is None else Path(out)
    )
    if target.suffix.lower() != ".zip":
        raise ParameterError(f"an archive is a .zip file, got {target}.")
    with tempfile.TemporaryDirectory() as scratch, run.locked():
        parts = _parts_of(run, models)
        parts |= _repeating(results.record, bool((run.path / FILE).is_file()), Path(scratch))
        parts |= _report_of(results, Path(scratch) / "report")
        lines = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {inside}\n"
            for inside, path in parts.items()
        ]
        manifest = Path(scratch) / "MANIFEST.sha256"
        manifest.write_text("".join(lines))
        with explained_writing(target), atomic_path(target) as temporary:
            _write_zip(temporary, target.stem, {**parts, manifest.name: manifest})
    return target


def _write_zip(path: Path, folder: str, parts: Mapping[str, Path]) -> None:
    """Files under one folder; without times, so that the same files give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, file in parts.items():
            about = zipfile.ZipInfo(f"{folder}/{inside}", _OLDEST)
            about.external_attr = 0o644 << 16
            archive.writestr(about, file.read_bytes(), zipfile.ZIP_DEFLATED)


def _parts_of(run: RunFolder, models: bool) -> dict[str, Path]:
    """The files of the run, by their names in the archive."""
    parts = {name: run.path / name for name in (RECORD, FILE) if (run.path / name).is_file()}
    for name in (CELLS, SCORES, *([MODELS] if models else [])):
        parts |= {f"{name}/{path.name}": path for path in run.whole_files(name)}
    return parts


def _report_of(results: RunResults, folder: Path) -> dict[str, Path]:
    """The report with its tables and figures, written anew."""
    from rankwood.experiments.report import write_report

    write_report(results, folder, formats=_formats())
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {f"report/{path.relative_to(folder).as_posix()}": path for path in files}


def _formats() -> list[str]:
    """The formats of the report that can be written here."""
    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    return ["html", "md", "tex", "csv", "svg", *(["png"] if has_matplotlib else [])]


def _repeating(record: Mapping[str, Any], has_file: bool, scratch: Path) -> dict[str, Path]:
    """What says how to repeat the run: versions, the files of the data, a script, and a text for people."""
    origin, settings_files = _moved(record, has_file)
    is_call = isinstance(origin["given"], Mapping)
    jobs = record.get("repeat", {}).get("run", {}).get("jobs")
    commands = [repeat_command(origin, _REPEATED, jobs)]
    measured = record.get("repeat", {}).get("measured", [])
    if measured:
        commands.append(measure_command(_REPEATED, measured, is_call=is_call))
    script = "repeat.py" if is_call else "repeat.sh"
    packages = {name: version for name, version in record["versions"].items() if name != "python"}
    texts = {
        "requirements.txt": f"# Python {record['versions']['python']}\n"
        + "".join(f"{name}=={version}\n" for name, version in packages.items()),
        "data.json": json.dumps(record["data"], indent=1, ensure_ascii=False) + "\n",
        script: _script(commands, is_call),
        "README.md": _read_me(record, commands, script, bool(origin["data"])),
    }
    for name, text in texts.items():
        (scratch / name).write_text(text, encoding="utf-8")
    return {name: scratch / name for name in texts} | settings_files


def _moved(record: Mapping[str, Any], has_file: bool) -> tuple[dict[str, Any], dict[str, Path]]:
    """What the command says, with every path one of the archive's; and the files that parameters name."""
    origin = dict(record["repeat"].get("origin") or origin_of(record["repeat"]["command"]))
    if has_file:
        origin["given"] = FILE
    configuration = record["configuration"]
    source = configuration["data"]
    has_files = "data" in source["whole"] or any(fold.get("files") for fold in source["folds"])
    origin["data"] = _DATA if has_files else None
    at_home = tuple(f"data.{key}=" for key in PATH_KEYS)
    overrides = [
        text for text in origin["overrides"] if not (has_files and text.startswith(at_home))
    ]
    files: dict[str, Path] = {}
    for key, path in _files_of_settings(configuration):
        inside = f"{_FILES}/{len(files) + 1}-{Path(path).name}"
        files[inside] = Path(path)
        overrides.append(f"{key}={inside}")
    return {**origin, "overrides": overrides}, files


def _files_of_settings(configuration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The files that settings name and that are still there: the key, as --set takes it, and the path."""
    found = [("measures.costs", configuration.get("costs"))]
    for one in configuration["algorithms"]:
        found += _costs_in(f"algorithm.{one['name']}", one["given"])
        if one["kind"] == "scores":
            found.append((f"algorithm.{one['name']}.path", one["given"].get("path")))
    yield from (
        (key, path) for key, path in found if isinstance(path, str) and Path(path).is_file()
    )


def _costs_in(key: str, parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        if name == "feature_costs":
            yield f"{key}.{name}", value
        elif isinstance(value, Mapping):
            yield from _costs_in(f"{key}.{name}", value)


def origin_of(command: str) -> dict[str, Any]:
    """What the command of a run says that version 0.1 recorded."""
    if command.startswith("rankwood experiment "):
        words = shlex.split(command)
        overrides = [text for option, text in itertools.pairwise(words) if option == "--set"]
        return {
            "given": words[2],
            "overrides": overrides,
            "small": "--small" in words,
            "data": None,
        }
    call: Any = ast.parse(command, mode="eval").body
    options = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    given = ast.literal_eval(call.args[0])
    return {"given": given, "overrides": [], "small": False, **options, "data": None}


def _script(commands: Sequence[str], is_call: bool) -> str:
    """The commands as a program, which takes the folder of the data where there is one."""
    if not is_call:
        lines = [line.replace(_DATA, '"${1:?the folder of the data}"') for line in commands]
        return "\n".join(["#!/bin/sh", "set -e", 'cd "$(dirname "$0")"', *lines, ""])
    lines = [line.replace(repr(_DATA), "sys.argv[1]") for line in commands]
    start = ["import os", "import sys", "", "import rankwood", "", 'if __name__ == "__main__":']
    here = "os.chdir(os.path.dirname(os.path.abspath(__file__)))"
    return "\n".join([*start, *(f"    {line}" for line in [here, *lines]), ""])


def _read_me(
    record: Mapping[str, Any], commands: Sequence[str], script: str, has_data: bool
) -> str:
    """The archive for people: what is in it, and how to repeat the run."""
    versions, machine = record["versions"], record["machine"]
    fence = "python" if script.endswith(".py") else "sh"
    runner = "python" if script.endswith(".py") else "sh"
    imported = ["import rankwood"] if script.endswith(".py") else []
    data = ["The run needs no data files: they are generated, or come with Rankwood.", ""]
    if has_data:
        files = [
            f"- `{path}`, {state['size']:,} bytes, SHA-256 `{state['sha256']}`"
            for path, state in record["data"]["files"].items()
        ]
        data = [
            f"The data are not in this archive. Put the folder of your copy in place of `{_DATA}`: the folder of "
            "the folds, or of files of these names. They were:",
            "",
            *files,
            "",
            "Where your files differ, the experiment says which cells are fitted anew if it is run into this folder "
            "(`--out .`).",
            "",
        ]
    lines = [
        f"# {record['name']}",
        "",
        f"The folder of a run of Rankwood {versions['rankwood']}, begun {record['started']}, on Python "
        f"{versions['python']} and {machine.get('processor', '')}. `report/report.html` shows the results; "
        f"`rankwood report .` makes it again, `rankwood measure . -m ndcg@5` adds a measure, and `{RECORD}` has every "
        "setting.",
        "",
        "## How to repeat it",
        "",
        *data,
        f"```{fence}",
        *imported,
        *commands,
        "```",
        "",
        f"`{runner} {script}{' ' + _DATA if has_data else ''}` does the same; `requirements.txt` has the versions. "
        "Whether the values are the same:",
        "",
        "```python",
        "import rankwood",
        "",
        f'before, after = (rankwood.read_run(folder).to_frame() for folder in (".", "{_REPEATED}"))',
        "print(before.equals(after))",
        "```",
        "",
        "`sha256sum -c MANIFEST.sha256` checks that the files of this archive are whole.",
        "",
    ]
    return "\n".join(lines)
