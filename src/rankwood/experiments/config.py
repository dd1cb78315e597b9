"""From TOML to an ``Experiment``: ``read_experiment`` reports every mistake before the first model is fitted.

Changes from outside the file, ``--set run.repetitions=1`` and ``--small``, are made in the parsed tables before these
are checked, so that they are checked like the file itself. The tables ``[data]`` and ``[[algorithm]]`` are read in
``sections``.
"""

from __future__ import annotations

import copy
import math
import os
import pathlib
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankwood.data.sources import missing_file
from rankwood.errors import (
    DataError,
    ParameterError,
    RankwoodError,
    UnknownName,
    warn_of_former_name,
)
from rankwood.experiments.foreign import FOREIGN
from rankwood.experiments.sections import KEYS as DATA_KEYS
from rankwood.experiments.sections import (
    PATH_KEYS,
    check_given_scores,
    give_way,
    left_out_of,
    read_algorithms,
    read_data_table,
)
from rankwood.experiments.settings import (
    MOST_REPETITIONS,
    NOTHING,
    PRESENT_NAMES,
    TRAIN_AND_VALI,
    Algorithm,
    CompareSettings,
    Experiment,
    Path,
    Section,
    TomlSource,
    did_you_mean,
)
from rankwood.experiments.tuning import STOPPING, VALIDATED, WHOLE
from rankwood.measures.measure import PRESETS, parse_measure, squeeze

TESTS = ("wilcoxon", "t", "randomization")
_USUAL_TESTS = ("t", "wilcoxon")
_MOST_RESAMPLES = 10_000_000
CORRECTIONS = ("holm", "bonferroni", "none")
_KEYS = {
    "data": DATA_KEYS,
    "run": (
        "name",
        "repetitions",
        "seed",
        "jobs",
        "threads",
        "keep",
        "keep_scores",
        "keep_models",
        "fronts",
        "out",
    ),
    "measures": ("primary", "also", "preset", "size", "size_every", "costs"),
    "compare": (
        "baseline",
        "tests",
        "test",
        "correction",
        "level",
        "margin",
        "resamples",
        "across_measures",
    ),
}
_TABLES = (*_KEYS, "algorithm")
WINNERS = "winners"
KEEP = ("values", "scores", WINNERS, "models")  # of every cell, each with what stands before it
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
    **dict.fromkeys(("n_estimators", "num_iterations", "num_boost_round"), 4),  # other libraries'
    "feature": len(_SMALL_COSTS),
    "tune_folds": 2,
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
    data: str | os.PathLike[str] | None = None,
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
    data
        The folder that holds the data, wherever the file says that they are.
    """
    if isinstance(given, Mapping):
        tables: dict[str, Any] = copy.deepcopy(dict(given))
        source, text, folder, name = TomlSource(), "", pathlib.Path(), "experiment"
    else:
        path = pathlib.Path(given)
        text = _text_of(path)
        tables = _parsed(path, text)
        source, folder, name = TomlSource.of(str(path), text), path.absolute().parent, path.stem
    source = replace(source, set_by=with_overrides(tables, overrides))
    _rename_former(tables, "experiment" if isinstance(given, Mapping) else str(given))
    root = Section(source, (), tables, None)
    for key in tables:
        if key not in _TABLES:
            raise _unknown_table(root, key)
    if data is not None:
        _point_at(tables, data)
    if small:
        made_small(tables)
    sections = {
        key: Section(source, (key,), tables.get(key, {}), known) for key, known in _KEYS.items()
    }
    origin = {
        "given": dict(given) if isinstance(given, Mapping) else str(given),
        "overrides": list(overrides),
        "small": small,
        "data": None if data is None else os.fspath(data),
    }
    file = {"text": text, "folder": folder, "name": name, "origin": origin}
    return _experiment(sections, tables, source, file)


def _rename_former(tables: dict[str, Any], where: str) -> None:
    """Give keys and values of version 0.1 the names that they have now, with a warning."""
    data = tables.get("data")
    if isinstance(data, dict) and "vali" in data and "valid" not in data:
        warn_of_former_name(where, "[data] vali", "valid", stacklevel=4)
        data["valid"] = data.pop("vali")
    algorithms = tables.get("algorithm")
    for table in (data, *(algorithms if isinstance(algorithms, list) else ())):
        for key in ("measure_on", "tune_on", "tune_refit"):
            value = table.get(key) if isinstance(table, dict) else None
            if isinstance(value, str) and value in PRESENT_NAMES:
                present = PRESENT_NAMES[value]
                warn_of_former_name(where, f'{key} = "{value}"', f'"{present}"', stacklevel=4)
                table[key] = present


def repeat_command(
    origin: Mapping[str, Any],
    out: str | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    only: Sequence[str] = (),
) -> str:
    """The command, or for a mapping the call, that runs an experiment again with the same changes and options."""
    given, overrides, small = (origin[name] for name in ("given", "overrides", "small"))
    options = {"data": origin["data"], "out": out, "jobs": jobs, "dask": dask}
    said = {name: value for name, value in options.items() if value is not None}
    if isinstance(given, Mapping):
        lists = {"overrides": list(overrides), "only": list(only), "small": small}
        words = {name: value for name, value in lists.items() if value} | said
        arguments = [repr(given), *(f"{name}={value!r}" for name, value in words.items())]
        return f"rankwood.run_experiment({', '.join(arguments)})"
    words_of = [
        (option, text)
        for option, texts in (("--set", overrides), ("--only", only))
        for text in texts
    ]
    words_of += [(f"--{name}", str(value)) for name, value in said.items()]
    command = ["rankwood", "experiment", str(given), *(word for pair in words_of for word in pair)]
    return shlex.join([*command, *(["--small"] if small else [])])


def _point_at(tables: dict[str, Any], folder: str | os.PathLike[str]) -> None:
    """Take the data from another folder: the folds in it, or the files of the same names."""
    path = pathlib.Path(folder).absolute()
    if not path.is_dir():
        raise DataError(f"--data: there is no folder {path}.")
    given = tables.get("data")
    table: dict[str, Any] = given if isinstance(given, dict) else {}
    places = [key for key in PATH_KEYS if isinstance(table.get(key), str | list)]
    if not places:
        raise ParameterError(
            "--data: this experiment reads no files; its data are generated or bundled."
        )
    for key in places:
        given_paths = table[key] if isinstance(table[key], list) else [table[key]]
        named = [str(path / pathlib.PurePath(str(one)).name) for one in given_paths]
        table[key] = named if isinstance(table[key], list) else named[0]
        if key in ("folds", "path"):
            table[key] = str(path)


def _experiment(
    sections: dict[str, Section], tables: dict[str, Any], source: TomlSource, file: dict[str, Any]
) -> Experiment:
    run = sections["run"]
    repetitions = run.whole("repetitions", 1, least=1)
    if repetitions > MOST_REPETITIONS:
        raise run.error(
            "repetitions", f"must be at most {MOST_REPETITIONS:,}, got {repetitions:,}."
        )
    measures, preset = _measures(sections["measures"])
    if "data" not in tables:
        raise source.error((), "there is no table [data], which says where the data are.")
    data = read_data_table(sections["data"], file["folder"])
    left_out = left_out_of(source, tables.get("algorithm"))
    algorithms = read_algorithms(
        source, tables.get("algorithm"), repetitions, data.has_vali, file["folder"]
    )
    check_given_scores(source, tables["algorithm"], algorithms, data)
    size = sections["measures"].one_of("size", WHOLE, (WHOLE, VALIDATED))
    if size == VALIDATED:
        _check_validated(source, algorithms, data.has_vali)
    _refuse_left_out(sections["compare"], left_out)
    for index, algorithm in enumerate(algorithms):
        if data.measure_on == "vali" and algorithm.tune_refit == TRAIN_AND_VALI:
            raise source.error(
                ("algorithm", index, "tune_refit"),
                'trains on the validation queries, and [data] measure_on = "valid" measures on them. Remove one of '
                "the two.",
            )
    baseline, tests, correction = _compare(sections["compare"], algorithms)
    compare = _compare_settings(sections["compare"], tests)
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
        **_kept(run),
        fronts=run.truth("fronts", False),
        left_out=left_out,
        baseline=baseline,
        tests=tests,
        correction=correction,
        compare=compare,
        out=None if out is None else str(file["folder"] / out),
        text=file["text"],
        repeat=repeat_command(file["origin"]),
        origin=file["origin"],
    )


def _kept(run: Section) -> dict[str, bool]:
    """Whether scores and models are kept; ``keep`` says both at once."""
    if "keep" not in run:
        return {
            "keep_scores": run.truth("keep_scores", True),
            "keep_models": run.truth("keep_models", False),
        }
    for name in ("keep_scores", "keep_models"):
        if name in run:
            raise run.error(name, "is said by keep too. Remove one of the two.")
    keep = run.one_of("keep", "scores", KEEP)
    return {
        "keep_scores": keep != "values",
        "keep_models": keep in (WINNERS, "models"),
        "keep_winners": keep == WINNERS,
    }


def _text_of(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path} cannot be read as TOML: it is not UTF-8 text.") from None
    except FileNotFoundError:
        raise DataError(missing_file(path)) from None
    except IsADirectoryError:
        raise DataError(
            f"{path} is a folder. An experiment is described by a TOML file, which names the folder of its folds: "
            "folds = … in [data]."
        ) from None
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
            if algorithm.kind in FOREIGN:  # measured as it is
                continue
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
    first = [section.values["test"]] if section.values.get("test") in TESTS else []
    tests = section.texts("tests", (*first, *_USUAL_TESTS))
    for test in tests:
        if test not in TESTS:
            raise section.error("tests", f"must be some of {', '.join(TESTS)}, got '{test}'.")
    if not tests:
        raise section.error("tests", f"is empty; name some of {', '.join(TESTS)}.")
    correction = section.one_of("correction", "holm", CORRECTIONS)
    return baseline, tuple(dict.fromkeys(tests)), correction


def _refuse_left_out(section: Section, left_out: Mapping[str, str]) -> None:
    """Raise for a baseline that is an optional algorithm whose package is not installed."""
    given = section.values.get("baseline")
    for name in map(str, given if isinstance(given, list) else [given]):
        if name in left_out:
            raise section.error("baseline", f"'{name}' is left out: {left_out[name]}.")


def _compare_settings(section: Section, tests: Sequence[str]) -> CompareSettings:
    """What decides, at which level, by how many draws, and what counts as no difference."""
    test = section.one_of("test", tests[0], TESTS)
    if test not in tests:
        raise section.error("test", f"is '{test}', which tests leaves out. Add it there.")
    resamples = section.whole("resamples", 10_000, least=1)
    if resamples > _MOST_RESAMPLES:
        raise section.error("resamples", f"must be at most {_MOST_RESAMPLES:,}, got {resamples:,}.")
    margin = section.values.get("margin", CompareSettings.margin)
    return CompareSettings(
        test=test,
        level=_number(section, "level", CompareSettings.level, most=1.0),
        margin=None if margin == NOTHING else _number(section, "margin", margin),
        resamples=resamples,
        across_measures=section.truth("across_measures", False),
    )


def _number(section: Section, key: str, default: Any, most: float = math.inf) -> float:
    """A number between 0 and ``most``, both excluded."""
    value = section.values.get(key, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.0 < value < most:
        limit = "above 0" if most == math.inf else f"between 0 and {most:g}"
        raise section.error(key, f"must be a number {limit}, got {value!r}.")
    return float(value)


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


def with_overrides(tables: dict[str, Any], overrides: Sequence[str]) -> dict[Path, str]:
    """Put ``table.key=value`` texts into the tables; a value that is not TOML is text.

    Gives the text that each key is from, and each table that was not there before.
    """
    set_by: dict[Path, str] = {}
    for text in overrides:
        name, equals, value = text.partition("=")
        parts = [part.strip() for part in name.split(".")]
        if not equals or len(parts) < 2 or not all(parts):
            raise ParameterError(f"--set must be written as table.key=value, got '{text}'.")
        path: Path = (parts[0],)
        if parts[0] == "algorithm":
            path, target = _algorithm(tables, parts[1], text)
            parts = parts[1:]
            if len(parts) < 2:
                raise ParameterError(f"--set algorithm.NAME.key=value lacks a key: '{text}'.")
        else:
            set_by.update({} if parts[0] in tables else {path: text})
            target = tables.setdefault(parts[0], {})
        for part in parts[1:-1]:
            target = target.setdefault(part, {}) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            raise ParameterError(f"--set {text}: there is no such table to set a key in.")
        set_by[*path, *parts[1:]] = text
        setting = _value(value.strip())
        if (
            parts[0] == "data" and parts[-1] in PATH_KEYS
        ):  # typed in a shell, so relative to the current folder
            setting = (
                [_from_here(one) for one in setting]
                if isinstance(setting, list)
                else _from_here(setting)
            )
        target[parts[-1]] = setting
    if isinstance(tables.get("data"), dict):
        give_way(
            tables["data"], [str(path[1]) for path in set_by if path[0] == "data" and path[1:]]
        )
    return set_by


def _from_here(path: Any) -> Any:
    """An absolute path; what is no path of this machine stays as it is."""
    return os.path.abspath(path) if isinstance(path, str) and "://" not in path else path


def _algorithm(tables: dict[str, Any], name: str, text: str) -> tuple[Path, dict[str, Any]]:
    """The algorithm that a ``--set`` names, and the path of its table."""
    algorithms = tables.get("algorithm", [])
    known = []
    for index, one in enumerate(algorithms if isinstance(algorithms, list) else []):
        if not isinstance(one, dict):
            continue
        known.append(str(one.get("name", one.get("kind"))))
        if name == known[-1]:
            return ("algorithm", index), one
    raise UnknownName(f"--set {text}: algorithm", name, known)


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
    algorithms = tables.get("algorithm", [])
    if isinstance(algorithms, list) and len(algorithms) > 1:  # given scores are of other data
        algorithms[:] = [one for one in algorithms if not _has_given_scores(one)]
    for algorithm in algorithms:
        if isinstance(algorithm, dict):
            algorithm.pop("repetitions", None)
            _shrink(algorithm)


def _has_given_scores(algorithm: Any) -> bool:
    return isinstance(algorithm, dict) and algorithm.get("kind") == "scores"


def _shrink(values: dict[str, Any]) -> None:
    """Cut the numbers of trees and rounds down, in inner estimators and in what is tuned too."""
    tuned = values.get("tune", {}) if isinstance(values.get("tune"), dict) else {}
    if values.pop("tune_time", None) is not None:
        values["tune_trials"] = _SMALL_NUMBERS["tune_trials"]
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
