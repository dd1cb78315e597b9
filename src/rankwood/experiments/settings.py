"""An experiment after its file was checked, the line of each of its keys, and the estimators that it describes.

``Section`` reads the keys of one table, with a check of each value; ``TomlSource`` turns a path into a line, so that
every error message can name its table and its line. A path goes from the file's root to a key, such as
``("algorithm", 1, "tune", "learning_rate")``; a number is a list's index.

The classes of a checked experiment are plain values: other processes and other machines get them pickled. ``build``
makes an estimator from a kind and parameters, which may be estimators themselves::

    kind = "OrdinalRanker"                            base is an estimator with parameters of its own
    base = { kind = "RandomForest", n_trees = 300 }
    layer = [{ kind = "GBRT" }, { kind = "GBRT" }]    and so may the items of a list be
    parts = { forest = { kind = "RandomForest" } }    and the values of a table
    max_leaves = "none"                               TOML has no null
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwood._core import checks
from rankwood._core.random import stream
from rankwood.binning.bins import checked_parameters
from rankwood.errors import ParameterError, RankwoodError
from rankwood.experiments.foreign import FOREIGN, ForeignRanker
from rankwood.measures.measure import parse_measure
from rankwood.rankers.base import check_parameters
from rankwood.rankers.parameters import name_here
from rankwood.rankers.save import estimators
from rankwood.studies.tune import all_candidates
from rankwood.training.rounds import OF_THE_RUN
from rankwood.trees.grower import MISSING_RULES

Path = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_LIST_HEADER = re.compile(rf"^\s*\[\[\s*({_NAME})\s*\]\]")
_HEADER = re.compile(rf"^\s*\[\s*({_NAME})\s*\]\s*(?:#.*)?$")
_KEY = re.compile(rf"^\s*({_NAME})\s*=")
_INNER = re.compile(rf"[{{,]\s*({_NAME})\s*=")  # a key of an inline table
Tuned = Mapping[str, Any]  # parameter -> its values, or a range {low, high, log, int, step}
TRAIN, TRAIN_AND_VALI = "train", "train+vali"  # parts that are cut into inner folds, or fitted to
# What records and files of version 0.1 call the validation part, and what files call it now.
PRESENT_NAMES = {"vali": "valid", TRAIN_AND_VALI: "train+valid"}
_MOST_SEED = 2**31
MOST_REPETITIONS = 10_000  # of a run; each is a file per algorithm and fold
NOTHING = "none"  # TOML has no null
_KIND = "kind"
_SET_BY_THE_RUN = dict.fromkeys(OF_THE_RUN, "it is no setting of an experiment") | {
    "seed": "seeds follow from [run] seed, the fold and the repetition",
    "n_threads": "threads are set by [run] threads",
}


@dataclass(frozen=True)
class TomlSource:
    """The file an experiment was read from; without a name it was given as a mapping and has no lines."""

    name: str = ""
    line_of: Mapping[Path, int] = field(default_factory=dict)
    set_by: Mapping[Path, str] = field(default_factory=dict)  # keys that --set gave, and its text

    @classmethod
    def of(cls, name: str, text: str) -> TomlSource:
        """The source with the line of every key of ``text``."""
        return cls(name, find_lines(text))

    def error(self, path: Path, message: str) -> ParameterError:
        """An error about the key at ``path``, with its file and line, or the ``--set`` it is from, table and name."""
        return ParameterError(f"{self._position(path)}{_table_and_key(path)}{message}")

    def _position(self, path: Path) -> str:
        for length in range(len(path), 0, -1):
            if path[:length] in self.set_by:
                return f"--set {self.set_by[path[:length]]}: "
            if path[:length] in self.line_of:
                return f"{self.name}, line {self.line_of[path[:length]]}: "
        return f"{self.name}: " if self.name else ""


def find_lines(text: str) -> dict[Path, int]:
    """The line where each key and each table of TOML text begins, counted from 1."""
    lines: dict[Path, int] = {}
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _LIST_HEADER.match(line):
            path = _within(_parts(match[1]), counts)
            counts[path] = counts.get(path, -1) + 1
            table = (*path, counts[path])
            lines.setdefault(path, number)
            lines.setdefault(table, number)
        elif match := _HEADER.match(line):
            table = _within(_parts(match[1]), counts)
            lines.setdefault(table, number)
        elif match := _KEY.match(line):
            key = (*table, *_parts(match[1]))
            for length in range(len(table) + 1, len(key) + 1):
                lines.setdefault(key[:length], number)
            for inner in _INNER.findall(line[match.end() :]):
                lines.setdefault((*key, *_parts(inner)), number)
    return lines


def _parts(name: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(_PART, name)]


def _within(parts: Iterable[str], counts: Mapping[Path, int]) -> Path:
    """The path of a header; a name that is a list of tables means the last of them."""
    path: Path = ()
    for part in parts:
        if path in counts:
            path = (*path, counts[path])
        path = (*path, part)
    return path


def _table_and_key(path: Path) -> str:
    """``[run] repetitions: ``, or ``[[algorithm]] number 2, tune.learning_rate: ``."""
    if not path:
        return ""
    if len(path) > 1 and isinstance(path[1], int):
        table, rest = f"[[{path[0]}]] number {path[1] + 1}", path[2:]
    else:
        table, rest = f"[{path[0]}]", path[1:]
    key = ".".join(str(part + 1 if isinstance(part, int) else part) for part in rest)
    return f"{table}{', ' if key and path[1:] != rest else ' '}{key}: " if key else f"{table}: "


def did_you_mean(given: str, known: Iterable[str], form: str = "'{}'") -> str:
    """A sentence that names the nearest of the known names; empty where none is near."""
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f" Did you mean {form.format(near[0])}?" if near else ""


class Section:
    """One table of an experiment: unknown keys are refused first, the others are read one by one."""

    def __init__(
        self, source: TomlSource, path: Path, values: Any, known: Iterable[str] | None
    ) -> None:
        self.source = source
        self.path = path
        if not isinstance(values, dict):
            raise source.error(path, f"must be a table, got {_plain(values)}.")
        self.values: dict[str, Any] = values
        for key in values if known is not None else ():
            if key not in set(known or ()):
                raise self.unknown(key, known or ())

    def unknown(self, key: str, known: Iterable[str]) -> ParameterError:
        """An error for an unknown key, with the nearest known one."""
        names = sorted(known)
        hint = did_you_mean(key, names)
        return self.error(key, f"there is no such key.{hint} Known: {', '.join(names)}.")

    def error(self, key: str, message: str) -> ParameterError:
        """An error about one key of this table, or with "" about the table."""
        return self.source.error((*self.path, key) if key else self.path, message)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: Any = None) -> Any:
        """A text that is not empty."""
        value = self.values.get(key, default)
        if value is not default and (not isinstance(value, str) or not value.strip()):
            raise self.error(key, f"must be text, got {_plain(value)}.")
        return value

    def texts(self, key: str, default: Iterable[str] = ()) -> list[str]:
        """A list of texts."""
        value = self.values.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, f"must be a list of texts, got {_plain(value)}.")
        return value

    def whole(self, key: str, default: Any, least: int = 0) -> Any:
        """A whole number of at least ``least``."""
        value = self.values.get(key, default)
        if value is default:
            return value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(
                key, f"must be a whole number of at least {least}, got {_plain(value)}."
            )
        return value

    def truth(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, got {_plain(value)}.")
        return value

    def one_of(self, key: str, default: str, known: Iterable[str]) -> str:
        """One of the known texts."""
        value = str(self.text(key, default))
        names = list(known)
        if value not in names:
            hint = did_you_mean(value, names)
            raise self.error(key, f"must be one of {', '.join(names)}, got '{value}'.{hint}")
        return value


def _plain(value: Any) -> str:
    """A value as a message shows it: TOML's words, and not too much of it."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


@dataclass(frozen=True)
class FoldSource:
    """Where the parts of one fold are; without files it is cut from the whole."""

    name: str
    # train, vali (if there is one), test; a part of several files, folders or patterns has a line for each
    files: Mapping[str, str] = field(default_factory=dict)


def paths_of(part: str) -> list[str]:
    """The files, folders and patterns that a part of a fold is read from."""
    return part.split("\n")


@dataclass(frozen=True)
class DataSource:
    """Where an experiment's data come from, as plain values that another process can read."""

    folds: tuple[FoldSource, ...]
    whole: Mapping[str, Any] = field(default_factory=dict)  # {"data": …}, {"generate": …}, …
    cut: Mapping[str, Any] = field(default_factory=dict)  # {"split": […]} or {"folds": n}; seed
    reading: Mapping[str, Any] = field(default_factory=dict)  # as ReadOptions has them
    normalise: str | None = None
    binarise: float | None = None  # labels from this one on become 1, the others 0
    sample: tuple[int, ...] = ()  # queries drawn of train, vali and test; empty: all
    has_vali: bool = True
    measure_on: str = "test"  # or "vali", for tables by which parameters are chosen
    on_overlap: str = (
        "warn"  # "error" or "ignore", where parts of a fold share queries or documents
    )
    collection: tuple[str, str] | None = None  # whose counts are checked, and how


@dataclass(frozen=True)
class Algorithm:
    """One row of the experiment's tables."""

    name: str
    kind: str
    parameters: Mapping[str, Any]  # as TOML says them
    tune: Tuned = field(default_factory=dict)
    tune_method: str = "grid"
    tune_trials: int | None = 20  # the most that a search makes in a cell
    repetitions: int = 1
    early_exit: str | None = None  # where documents leave when the model scores
    tune_time: float | None = None  # seconds of trials in a cell, after which none is begun
    tune_folds: int = 0  # inner folds that candidates are judged on; 0: the validation part
    tune_on: str = TRAIN  # what is cut into inner folds
    tune_refit: str = TRAIN  # what the chosen model is fitted to in the end
    is_random: bool = True  # whether another seed may give another model; else it is run once

    def candidates(self) -> list[dict[str, Any]]:
        """What a grid tries."""
        return all_candidates(self.tune)

    @property
    def n_candidates(self) -> float:
        """How many candidates are tried in a cell, at most: infinitely many where only time limits them."""
        sizes = [
            len(values) if isinstance(values, list) else math.inf for values in self.tune.values()
        ]
        if self.tune_method == "grid":
            return math.prod(sizes)
        most = math.inf if self.tune_trials is None else self.tune_trials
        return most if self.tune_method == "optuna" else min(most, math.prod(sizes))

    def with_values(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with the tuned values ``changes``."""
        return with_values(self.parameters, changes)


@dataclass(frozen=True)
class Cell:
    """One algorithm on one fold in one repetition."""

    algorithm: str
    fold: str
    repetition: int  # from 1

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.fold}, repetition {self.repetition}"


@dataclass(frozen=True)
class CompareSettings:
    """How algorithms are compared, besides the tests and their correction."""

    test: str | None = None  # decides what is significant; the first of the tests where it is None
    level: float = 0.05
    margin: float | None = 0.01  # the largest difference that counts as none in practice
    resamples: int = 10_000
    across_measures: bool = False  # correct over measures too
    seed: int = 0  # of what is drawn

    def options(self) -> dict[str, Any]:
        """The arguments of ``compare_values`` that follow."""
        drawn = {"n_resamples": self.resamples, "seed": self.seed}
        return {"test": self.test, "level": self.level, **drawn}


@dataclass(frozen=True)
class Experiment:
    """Everything that a run needs to know."""

    name: str
    data: DataSource
    algorithms: tuple[Algorithm, ...]
    measures: tuple[str, ...]  # the primary one first, as the file writes them
    preset: str | None = None
    size: str = "whole"  # or "validated": by each measure the size that validates best
    size_every: int = 1  # rounds from one size to the next
    costs: str | tuple[float, ...] | None = None  # what features cost in scoring
    repetitions: int = 1
    seed: int = 0
    jobs: int | None = None
    threads: int | None = None
    keep_scores: bool = True
    keep_models: bool = False
    keep_winners: bool = False  # of the models, those of the algorithm that is best in the end
    fronts: bool = False  # measure every boosted ranker by its number of trees
    left_out: Mapping[str, str] = field(default_factory=dict)  # optional algorithms -> why
    baseline: str | tuple[str, ...] | None = None  # of several the strongest by each measure
    tests: tuple[str, ...] = ("t", "wilcoxon")
    correction: str = "holm"
    compare: CompareSettings = field(default_factory=CompareSettings)
    out: str | None = None
    text: str = ""  # the file as it was
    repeat: str = ""  # the command, or call, that gives the same run
    origin: Mapping[str, Any] = field(
        default_factory=dict
    )  # what that command says: given, overrides, small, data

    @property
    def fold_names(self) -> list[str]:
        """The folds in their order."""
        return [fold.name for fold in self.data.folds]

    def algorithm(self, name: str) -> Algorithm:
        """The algorithm of this name."""
        return next(one for one in self.algorithms if one.name == name)

    def cells(self) -> list[Cell]:
        """All cells; those of one fold stand together, so that a worker reads its data once."""
        return [
            Cell(algorithm.name, fold, repetition)
            for fold in self.fold_names
            for repetition in range(1, self.repetitions + 1)
            for algorithm in self.algorithms
            if repetition <= algorithm.repetitions
        ]

    def seed_of(self, cell: Cell) -> int:
        """The seed of a cell: that of its fold and repetition, the same for all algorithms."""
        return int(stream(self.seed, f"cell {cell.fold}", cell.repetition).integers(_MOST_SEED))


def parameters_of(kind: str) -> list[str]:
    """The parameters of an estimator that an experiment may set."""
    known = inspect.signature(_class_of(kind)).parameters
    return [name for name in known if name not in _SET_BY_THE_RUN]


def _class_of(kind: str) -> Any:
    return FOREIGN[kind] if kind in FOREIGN else estimators()[kind]


def check_kind(source: TomlSource, path: Path, kind: Any, others: Iterable[str] = ()) -> str:
    """``kind`` if it names an estimator, or one of ``others``; else an error with the nearest name."""
    names = [*estimators(), *others]
    if not isinstance(kind, str) or kind not in names:
        hint = did_you_mean(str(kind), names)
        known = ", ".join(sorted(names))
        raise source.error(path, f"'{kind}' is no algorithm.{hint} Known: {known}.")
    return kind


def build(kind: str, parameters: Mapping[str, Any]) -> Any:
    """The estimator ``kind``, unfitted, with its parameters as TOML says them."""
    return _class_of(kind)(**{name: _value(value) for name, value in parameters.items()})


def checked(source: TomlSource, path: Path, kind: str, parameters: Mapping[str, Any]) -> None:
    """Raise for a parameter that the estimator does not have, or for a value that it does not take."""
    check_names(source, path, kind, parameters)
    for at, inner, others in _inner_estimators(path, parameters):
        checked(source, at, inner, others)
    try:
        estimator = build(kind, parameters)
        if isinstance(estimator, ForeignRanker):
            return estimator.check()
        check_parameters(estimator)
        _check_what_fitting_checks(estimator)
    except (RankwoodError, TypeError) as error:
        key = _named_in(str(error), parameters)
        text = str(error).removeprefix(f"{key}: ")
        raise source.error((*path, key) if key else path, text) from None


def _check_what_fitting_checks(estimator: Any) -> None:
    """Raise for errors that an estimator itself detects only while it is fitted."""
    if hasattr(estimator, "max_bins") and not hasattr(estimator, "base"):
        checked_parameters(estimator.max_bins, 1, 0)
    if hasattr(estimator, "missing"):
        checks.one_of("missing", estimator.missing, MISSING_RULES)
    if hasattr(estimator, "l2"):
        checks.real_number("l2", estimator.l2, "[0, inf)")


def check_names(source: TomlSource, path: Path, kind: str, parameters: Mapping[str, Any]) -> None:
    """Raise for a parameter that ``kind``, or an estimator among its parameters, does not have."""
    known = parameters_of(kind)
    for name in parameters:
        if name in _SET_BY_THE_RUN:
            raise source.error((*path, name), f"cannot be set here: {_SET_BY_THE_RUN[name]}.")
        if name not in known:
            ours = name_here(name, known)
            hint = f" It is called {ours} here." if ours else did_you_mean(name, known)
            message = f"{kind} has no such parameter.{hint} Known: {', '.join(sorted(known))}."
            if "params" in known:
                message += f" What {kind} itself calls {name} stands in params = {{ … }}."
            raise source.error((*path, name), message)
    for at, inner, others in _inner_estimators(path, parameters):
        check_names(source, at, check_kind(source, (*at, _KIND), inner), others)


def _inner_estimators(
    path: Path, parameters: Mapping[str, Any]
) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """The path of each estimator among the parameters, its kind, and its own parameters."""
    for name, value in parameters.items():
        yield from _estimators_in((*path, name), value)


def _estimators_in(path: Path, value: Any) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """A value that is an estimator, or those among the items of a list or table."""
    if _is_estimator(value):
        yield path, value[_KIND], {key: part for key, part in value.items() if key != _KIND}
    elif isinstance(value, list | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _estimators_in((*path, key), item)


def with_values(parameters: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with ``changes`` applied; a name such as ``base.n_trees`` reaches into an estimator."""
    changed = dict(parameters)
    for name, value in changes.items():
        first, _, rest = name.partition(".")
        if rest:
            inner = changed.get(first, {})
            changed[first] = with_values(inner, {rest: value})
        else:
            changed[first] = value
    return changed


def prepare(
    estimator: Any, seed: int, threads: int | None, largest_label: float | None = None
) -> Any:
    """The estimator with the cell's seed and threads, and measures on the collection's scale of labels.

    One that has no seed unless it is given one hands the cell's to the estimators that it is built on too.
    """
    names = estimator.get_params(deep=False)
    settings: dict[str, Any] = {"n_threads": threads} if "n_threads" in names else {}
    for name in ("measure", "reward"):
        if isinstance(names.get(name), str):
            measure = parse_measure(names[name])
            scaled = measure.with_largest(largest_label)
            settings |= {} if scaled == measure else {name: str(scaled)}
    if "seed" in names:
        settings["seed"] = seed
    if names.get("seed") is None:
        for inner in _fitted_inside(list(names.values())):
            prepare(inner, seed, threads, largest_label)
    return estimator.set_params(**settings)


def _fitted_inside(value: Any) -> Iterator[Any]:
    """The estimators in a value: itself, or those in its lists, pairs and mappings."""
    if hasattr(value, "get_params") and hasattr(value, "fit"):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _fitted_inside(item)


def max_bins_of(estimator: Any) -> int | None:
    """Into how many bins an estimator, or the one it is built on, cuts a feature; None where it does not."""
    for one in (estimator, getattr(estimator, "base", None)):
        max_bins = getattr(one, "max_bins", None)
        if max_bins is not None:
            return int(max_bins)
    return None


def _value(value: Any) -> Any:
    if _is_estimator(value):
        return build(value[_KIND], {name: part for name, part in value.items() if name != _KIND})
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, dict):
        return {name: _value(item) for name, item in value.items()}
    return None if value == NOTHING else value


def is_table_of_estimators(values: Mapping[str, Any]) -> bool:
    """Whether these are estimators by name, as the parts of a blend are, and not the parameters of one."""
    return _KIND not in values and any(map(_is_estimator, values.values()))


def _is_estimator(value: Any) -> bool:
    return isinstance(value, dict) and _KIND in value


def _named_in(message: str, parameters: Mapping[str, Any]) -> str:
    """The parameter that a message is about: the first of ours among its words."""
    words = re.sub("['\\[=,:]", " ", message).split()
    return next((word for word in words if word in parameters), "")
