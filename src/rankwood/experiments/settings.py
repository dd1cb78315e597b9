"""An experiment after its file was checked, and the estimators that it describes.

The classes are plain values: other processes and other machines get them pickled. ``build`` makes an estimator from a
kind and parameters, which may be estimators themselves::

    kind = "OrdinalRanker"                            base is an estimator with parameters of its own
    base = { kind = "RandomForest", n_trees = 300 }
    layer = [{ kind = "GBRT" }, { kind = "GBRT" }]    and so may the items of a list be
    parts = { forest = { kind = "RandomForest" } }    and the values of a table
    max_leaves = "none"                               TOML has no null
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwood._core import checks
from rankwood._core.random import stream
from rankwood.binning.fit import checked_parameters
from rankwood.errors import RankwoodError
from rankwood.experiments.toml_positions import Path, TomlSource, did_you_mean
from rankwood.rankers.base import check_parameters
from rankwood.rankers.save import estimators
from rankwood.training.checkpoint import OF_THE_RUN
from rankwood.trees.policies import MISSING_RULES

Tuned = Mapping[str, Any]  # parameter -> its values, or for Optuna a range {low, high, log, step}
_MOST_SEED = 2**31
NOTHING = "none"  # TOML has no null
_KIND = "kind"
_SET_BY_THE_RUN = dict.fromkeys(OF_THE_RUN, "it is no setting of an experiment") | {
    "seed": "seeds follow from [run] seed, the fold and the repetition",
    "n_threads": "threads are set by [run] threads",
}


@dataclass(frozen=True)
class FoldSource:
    """Where the parts of one fold are; without files it is cut from the whole."""

    name: str
    files: Mapping[str, str] = field(default_factory=dict)  # train, vali (if there is one), test


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


@dataclass(frozen=True)
class Algorithm:
    """One row of the experiment's tables."""

    name: str
    kind: str
    parameters: Mapping[str, Any]  # as TOML says them
    tune: Tuned = field(default_factory=dict)
    tune_method: str = "grid"
    tune_trials: int = 20
    repetitions: int = 1
    early_exit: str | None = None  # where documents leave when the model scores

    def candidates(self) -> list[dict[str, Any]]:
        """What a grid tries: every combination of the values, the last parameter's changing fastest."""
        names = list(self.tune)
        return [
            dict(zip(names, values, strict=True))
            for values in itertools.product(*(self.tune[name] for name in names))
        ]

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
    fronts: bool = False  # measure every boosted ranker by its number of trees
    baseline: str | None = None
    tests: tuple[str, ...] = ("wilcoxon", "t")
    correction: str = "holm"
    out: str | None = None
    text: str = ""  # the file as it was
    repeat: str = ""  # the command, or call, that gives the same run

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
    known = inspect.signature(estimators()[kind]).parameters
    return [name for name in known if name not in _SET_BY_THE_RUN]


def check_kind(source: TomlSource, path: Path, kind: Any) -> str:
    """``kind`` if it names an estimator, else an error with the nearest name."""
    names = list(estimators())
    if not isinstance(kind, str) or kind not in names:
        hint = did_you_mean(str(kind), names)
        known = ", ".join(sorted(names))
        raise source.error(path, f"'{kind}' is no algorithm.{hint} Known: {known}.")
    return kind


def build(kind: str, parameters: Mapping[str, Any]) -> Any:
    """The estimator ``kind``, unfitted, with its parameters as TOML says them."""
    return estimators()[kind](**{name: _value(value) for name, value in parameters.items()})


def checked(source: TomlSource, path: Path, kind: str, parameters: Mapping[str, Any]) -> None:
    """Raise for a parameter that the estimator does not have, or for a value that it does not take."""
    check_names(source, path, kind, parameters)
    for at, inner, others in _inner_estimators(path, parameters):
        checked(source, at, inner, others)
    try:
        estimator = build(kind, parameters)
        check_parameters(estimator)
        _check_what_fitting_checks(estimator)
    except (RankwoodError, TypeError) as error:
        key = _named_in(str(error), parameters)
        raise source.error((*path, key) if key else path, str(error)) from None


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
            hint = did_you_mean(name, known)
            message = f"{kind} has no such parameter.{hint} Known: {', '.join(sorted(known))}."
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
            kind = {} if is_table_of_estimators(inner) else {_KIND: inner.get(_KIND)}
            changed[first] = {**kind, **with_values(inner, {rest: value})}
        else:
            changed[first] = value
    return changed


def prepare(estimator: Any, seed: int, threads: int | None) -> Any:
    """The estimator with the cell's seed and threads.

    One that has no seed of its own hands the cell's to the estimators that it is built on.
    """
    names = estimator.get_params(deep=False)
    settings: dict[str, Any] = {"n_threads": threads} if "n_threads" in names else {}
    if "seed" in names:
        settings["seed"] = seed
    else:
        for inner in _fitted_inside(list(names.values())):
            prepare(inner, seed, threads)
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
    words = message.replace("'", " ").replace("[", " ").replace("=", " ").replace(",", " ").split()
    return next((word for word in words if word in parameters), "")
