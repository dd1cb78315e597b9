"""From TOML to an ``Experiment``: ``read_experiment`` reports every mistake before the first model is fitted.

Changes from outside the file, ``--set run.repetitions=1`` and ``--small``, are made in the parsed tables before these
are checked, so that they are checked like the file itself. The tables ``[data]`` and ``[[algorithm]]`` are read in
``sections``.
"""

from __future__ import annotations

import copy
import os
import pathlib
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from rankwood.errors import DataError, ParameterError, RankwoodError, UnknownName
from rankwood.experiments.sections import KEYS as DATA_KEYS
from rankwood.experiments.sections import PATH_KEYS, read_algorithms, read_data_table
from rankwood.experiments.settings import NOTHING, Algorithm, Experiment
from rankwood.experiments.toml_positions import Section, TomlSource, did_you_mean
from rankwood.experiments.tuning import STOPPING, VALIDATED, WHOLE
from rankwood.measures.measure import PRESETS, parse_measure, squeeze

TESTS = ("wilcoxon", "t", "randomization")
CORRECTIONS = ("holm", "bonferroni", "none")
_KEYS = {
    "data": DATA_KEYS,
    "run": (
        "name",
        "repetitions",
        "seed",
        "jobs",
        "threads",
        "keep_scores",
        "keep_models",
        "fronts",
        "out",
    ),
    "measures": ("primary", "also", "preset", "size", "size_every", "costs"),
    "compare": ("baseline", "tests", "correction"),
}
_TABLES = (*_KEYS, "algorithm")
_MOST_SEED = 2**63 - 1
_SMALL_DATA = {"generate": {"queries": 40, "docs": 12, "features": 12, "seed": 1}}
_SMALL_COSTS = (1.0, 4.0, 16.0) * 4  # of the 12 features
_SMALL_NUMBERS = {  # the most that a small trial grows, whatever the file says
    "n_trees": 4,
    "n_rounds": 3,
    "n_runs": 2,
    "forest_trees": 4,
    "n_forests": 2,
    "max_layers": 2,
    "n_epochs": 2,
    "budget": 20,
    "tune_trials": 2,
}
_HAS_MANY = {  # what stays as large as the default where the file does not say it
    "AdaRank": ("n_rounds",),
    "AveragedGBRT": ("n_trees", "n_runs"),
    "BROOF": ("n_rounds", "n_trees"),
    "InitializedGBRT": ("n_trees", "forest_trees"),
    "DeepForest": ("n_forests", "n_trees", "max_layers"),
    "MLPRanker": ("n_epochs",),
    "NDCGBoost": ("n_rounds",),
    "RankBoost": ("n_rounds",),
    "AdaBoost": ("n_rounds",),
    "Exp3P": ("n_rounds",),
    "BoostingTree": ("budget",),
    **dict.fromkeys(
        ("CompletelyRandomForest", "ExtraTrees", "GBRT", "LambdaMART", "RandomForest"),
        ("n_trees",),
    ),
}


def read_experiment(
    given: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    small: bool = False,
) -> Experiment:
    """The experiment that a TOML file, or a mapping of the same shape, describes.

    Parameters
    ----------
    given
        The file's path. Paths in it are relative to its folder; those of a mapping to the current one.
    overrides
        Texts such as ``"run.repetitions=1"`` or ``"algorithm.BROOF.n_trees=10"``, which win over the file.
    small
        Try it out: generated data, one repetition, few trees and rounds.
    """
    if isinstance(given, Mapping):
        tables: dict[str, Any] = copy.deepcopy(dict(given))
        source, text, folder, name = TomlSource(), "", pathlib.Path(), "experiment"
        repeat = f"rankwood.run_experiment({dict(given)!r}"
    else:
        path = pathlib.Path(given)
        text = _text_of(path)
        tables = _parsed(path, text)
        source, folder, name = TomlSource.of(str(path), text), path.absolute().parent, path.stem
        repeat = f"rankwood experiment {shlex.quote(str(path))}"
    root = Section(source, (), tables, None)
    for key in tables:
        if key not in _TABLES:
            raise _unknown_table(root, key)
    with_overrides(tables, overrides)
    if small:
        made_small(tables)
    sections = {
        key: Section(source, (key,), tables.get(key, {}), known) for key, known in _KEYS.items()
    }
    repeat += _changes(overrides, small, isinstance(given, Mapping))
    file = {"text": text, "folder": folder, "name": name, "repeat": repeat}
    return _experiment(sections, tables, source, file)


def _changes(overrides: Sequence[str], small: bool, is_call: bool) -> str:
    """What a command, or a call, must say besides to change the experiment likewise."""
    if is_call:
        changes = [f"overrides={list(overrides)!r}"] if overrides else []
        return ", ".join(["", *changes, *(["small=True"] if small else [])]) + ")"
    options = [f"--set {shlex.quote(text)}" for text in overrides]
    return " ".join(["", *options, *(["--small"] if small else [])]).rstrip()


def _experiment(
    sections: dict[str, Section], tables: dict[str, Any], source: TomlSource, file: dict[str, Any]
) -> Experiment:
    run = sections["run"]
    repetitions = run.whole("repetitions", 1, least=1)
    measures, preset = _measures(sections["measures"])
    if "data" not in tables:
        raise source.error((), "there is no table [data], which says where the data are.")
    data = read_data_table(sections["data"], file["folder"])
    algorithms = read_algorithms(
        source, tables.get("algorithm"), repetitions, data.has_vali, file["folder"]
    )
    size = sections["measures"].one_of("size", WHOLE, (WHOLE, VALIDATED))
    if size == VALIDATED:
        _check_validated(source, algorithms, data.has_vali)
    baseline, tests, correction = _compare(sections["compare"], algorithms)
    seed = run.whole("seed", 0)
    if seed > _MOST_SEED:
        raise run.error("seed", f"must be at most {_MOST_SEED:,}, got {seed:,}.")
    out = run.text("out")
    return Experiment(
        name=str(run.text("name", file["name"])),
        data=data,
        algorithms=algorithms,
        measures=measures,
        preset=preset,
        size=size,
        size_every=sections["measures"].whole("size_every", 1, least=1),
        costs=_costs(sections["measures"], file["folder"]),
        repetitions=repetitions,
        seed=seed,
        jobs=run.whole("jobs", None),
        threads=run.whole("threads", None, least=1),
        keep_scores=run.truth("keep_scores", True),
        keep_models=run.truth("keep_models", False),
        fronts=run.truth("fronts", False),
        baseline=baseline,
        tests=tests,
        correction=correction,
        out=None if out is None else str(file["folder"] / out),
        text=file["text"],
        repeat=file["repeat"],
    )


def _text_of(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path} cannot be read as TOML: it is not UTF-8 text.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _parsed(path: pathlib.Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} cannot be read as TOML: {error}.") from None


def _unknown_table(root: Section, key: str) -> ParameterError:
    owners = [table for table, known in _KEYS.items() if key in known]
    if owners and not isinstance(root.values[key], dict):
        message = (
            f"there is no such table; it is a key of [{owners[0]}], and must stand below that line."
        )
        return root.error(key, message)
    hint = did_you_mean(key, _TABLES, "[{}]")
    return root.error(key, f"there is no such table.{hint} Known: {', '.join(_TABLES)}.")


def _measures(section: Section) -> tuple[tuple[str, ...], str | None]:
    preset = section.text("preset")
    if preset is not None:
        section.one_of("preset", "", PRESETS)
    texts: dict[str, None] = {}
    named = [("primary", section.text("primary", "ndcg@10"))]
    named += [("also", text) for text in section.texts("also")]
    for key, text in named:
        try:
            parse_measure(text, preset)
        except RankwoodError as error:
            raise section.error(key, str(error)) from None
        if squeeze(text) in texts:
            raise section.error(key, f"names '{text}' a second time. Remove one of the two.")
        texts[squeeze(text)] = None
    return tuple(texts), preset


def _costs(section: Section, folder: pathlib.Path) -> str | tuple[float, ...] | None:
    """What features cost in scoring: the path of a cost file, or a number per feature."""
    given = section.values.get("costs")
    if given is None:
        return None
    if isinstance(given, str):
        file = folder / given
        if not file.is_file():
            raise section.error("costs", f"there is no file {file}.")
        return str(file.absolute())
    is_list = isinstance(given, list) and all(
        isinstance(one, int | float) and not isinstance(one, bool) and one >= 0 for one in given
    )
    if not is_list:
        raise section.error("costs", "must be a cost file, or a list of numbers from 0 on.")
    return tuple(float(one) for one in given)


def _check_validated(source: TomlSource, algorithms: Sequence[Algorithm], has_vali: bool) -> None:
    """Raise for settings that leave nothing to choose sizes on, or among."""
    if not has_vali:
        raise source.error(
            ("measures", "size"), "needs validation queries to choose on, which [data] lacks."
        )
    for index, algorithm in enumerate(algorithms):
        inner = algorithm.parameters.get("base")
        for path, parameters in (((), algorithm.parameters), (("base",), inner)):
            given = parameters if isinstance(parameters, Mapping) else {}
            name = next((one for one in STOPPING if given.get(one, NOTHING) != NOTHING), None)
            if name is not None:
                raise source.error(
                    ("algorithm", index, *path, name),
                    'discards rounds, and [measures] size = "validated" chooses among all of them. Remove one of '
                    "the two.",
                )
        if algorithm.tune:
            raise source.error(
                ("algorithm", index, "tune"),
                'does not go with [measures] size = "validated", which chooses by every measure. Remove one of '
                "the two.",
            )


def _compare(
    section: Section, algorithms: Sequence[Algorithm]
) -> tuple[str | tuple[str, ...] | None, tuple[str, ...], str]:
    baseline = _baseline(section, [algorithm.name for algorithm in algorithms])
    tests = section.texts("tests", ("wilcoxon", "t"))
    for test in tests:
        if test not in TESTS:
            raise section.error("tests", f"must be some of {', '.join(TESTS)}, got '{test}'.")
    if not tests:
        raise section.error("tests", f"is empty; name some of {', '.join(TESTS)}.")
    correction = section.one_of("correction", "holm", CORRECTIONS)
    return baseline, tuple(dict.fromkeys(tests)), correction


def _baseline(section: Section, names: Sequence[str]) -> str | tuple[str, ...] | None:
    """The algorithm, or those of which the strongest is it."""
    if not isinstance(section.values.get("baseline"), list):
        if section.text("baseline") is None:
            return None
        return section.one_of("baseline", "", names)
    given = section.texts("baseline")
    if not given:
        raise section.error("baseline", "is empty; name an algorithm, or leave it out.")
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names)
            raise section.error("baseline", f"'{name}' is no algorithm of this experiment.{hint}")
    return tuple(dict.fromkeys(given))


def with_overrides(tables: dict[str, Any], overrides: Sequence[str]) -> None:
    """Put ``table.key=value`` texts into the tables; a value that is not TOML is text."""
    for text in overrides:
        name, equals, value = text.partition("=")
        parts = [part.strip() for part in name.split(".")]
        if not equals or len(parts) < 2 or not all(parts):
            raise ParameterError(f"--set must be written as table.key=value, got '{text}'.")
        if parts[0] == "algorithm":
            target = _algorithm(tables, parts[1], text)
            parts = parts[1:]
            if len(parts) < 2:
                raise ParameterError(f"--set algorithm.NAME.key=value lacks a key: '{text}'.")
        else:
            target = tables.setdefault(parts[0], {})
        for part in parts[1:-1]:
            target = target.setdefault(part, {})
        if not isinstance(target, dict):
            raise ParameterError(f"--set '{text}': there is no such table to set a key in.")
        setting = _value(value.strip())
        if parts[0] == "data" and parts[-1] in PATH_KEYS and isinstance(setting, str):
            setting = os.path.abspath(setting)  # typed in a shell: relative to the current folder
        target[parts[-1]] = setting


def _algorithm(tables: dict[str, Any], name: str, text: str) -> dict[str, Any]:
    algorithms = [one for one in tables.get("algorithm", []) if isinstance(one, dict)]
    for one in algorithms:
        if name in (one.get("name"), one.get("kind") if "name" not in one else None):
            return one
    known = [str(one.get("name", one.get("kind"))) for one in algorithms]
    raise UnknownName(f"--set '{text}': algorithm", name, known)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def made_small(tables: dict[str, Any]) -> None:
    """Change an experiment into one that takes seconds: for trying out a file, and for tests."""
    data = tables.get("data")
    binarise = data.get("binarise") if isinstance(data, dict) else None
    tables["data"] = {**_SMALL_DATA, **({} if binarise is None else {"binarise": 1})}
    run = tables.setdefault("run", {})
    if isinstance(run, dict):
        run["repetitions"] = 1
    measures = tables.get("measures")
    if isinstance(measures, dict) and "costs" in measures:
        measures["costs"] = list(_SMALL_COSTS)
    for algorithm in tables.get("algorithm", []):
        if isinstance(algorithm, dict):
            algorithm.pop("repetitions", None)
            _shrink(algorithm)


def _shrink(values: dict[str, Any]) -> None:
    """Cut the numbers of trees and rounds down, in inner estimators and in what is tuned too."""
    tuned = values.get("tune", {}) if isinstance(values.get("tune"), dict) else {}
    for name in _HAS_MANY.get(str(values.get("kind")), ()):
        is_text_layer = name not in ("n_forests", "n_trees") or isinstance(
            values.get("layer", ""), str
        )
        if name not in values and name not in tuned and is_text_layer:
            values[name] = _SMALL_NUMBERS[name]
    if "feature_costs" in values:
        values["feature_costs"] = list(_SMALL_COSTS)
    if isinstance(values.get("early_exit"), str):  # the last of two wins: exits within so few trees
        values["early_exit"] += ",every=2"
    for name, value in values.items():
        most = _SMALL_NUMBERS.get(name)
        if most is not None and isinstance(value, int):
            values[name] = min(value, most)
        elif most is not None and isinstance(value, list):
            values[name] = sorted({min(one, most + index) for index, one in enumerate(value)})[:2]
        elif isinstance(value, dict):
            _shrink(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    _shrink(item)
    for name, value in tuned.items():
        if isinstance(value, list):
            tuned[name] = value[:2]
