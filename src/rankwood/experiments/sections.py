"""The tables ``[data]`` and ``[[algorithm]]`` of an experiment's file.

``read_data_table`` says where the folds are, without reading them. ``read_algorithms`` gives the estimators with their
parameters; each estimator checks its own values, and every value that is to be tried in tuning.
"""

from __future__ import annotations

import inspect
import itertools
import math
import pathlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from rankwood.data.sources import find_inputs
from rankwood.data.splits import ON_OVERLAP
from rankwood.errors import RankwoodError
from rankwood.experiments.foreign import FOREIGN, check_score_files, lacking
from rankwood.experiments.settings import (
    NOTHING,
    PRESENT_NAMES,
    TRAIN,
    TRAIN_AND_VALI,
    Algorithm,
    DataSource,
    FoldSource,
    Path,
    Section,
    TomlSource,
    build,
    check_kind,
    check_names,
    checked,
    is_table_of_estimators,
    paths_of,
)
from rankwood.models.early_exit import EarlyExit
from rankwood.studies.trials import seconds_of
from rankwood.training.rounds import BEST

PARTS = ("train", "vali", "test")
_FORMER_NAMES = {present: former for former, present in PRESENT_NAMES.items()}
_MEASURED, _TRAINED = ("test", "valid"), (TRAIN, PRESENT_NAMES[TRAIN_AND_VALI])
_ORIGINS = ("folds", "train", "collection", "data", "bundled", "generate")
_CUT = ("data", "bundled", "generate")  # origins that are cut into parts
_BESIDE = {  # what says more about an origin
    "folds": ("names",),
    "train": ("valid", "test"),
    "collection": ("path", "check"),
    **dict.fromkeys(_CUT, ("split", "seed")),
}
_COLUMNS = ("label", "query", "doc", "row_weight", "query_weight", "position")
_READING = (*_COLUMNS, "features", "drop", "categorical", "absent", "order", "overflow", "strict")
KEYS = (
    *_ORIGINS,
    "path",
    "check",
    "valid",
    "test",
    "split",
    "seed",
    "names",
    "normalise",
    "binarise",
    "sample",
    "measure_on",
    "on_overlap",
    *_READING,
)
PATH_KEYS = ("folds", "train", "valid", "test", "data", "path")
_SHARES = [0.6, 0.2, 0.2]
_GENERATE = {"queries": "n_queries", "docs": "docs_per_query", "features": "n_features"}
_NORMALISE = ("minmax", "zscore")
_HOW_TO_TUNE = (
    "tune_method",
    "tune_trials",
    "tune_time",
    "tune_folds",
    "tune_on",
    "tune_refit",
)
_OWN = ("name", "kind", "tune", *_HOW_TO_TUNE, "repetitions", "early_exit", "optional")
_METHODS = ("grid", "random", "optuna")
_RANGE = ("low", "high", "log", "int", "step")
_TRIALS = 20  # of a search without a budget
_LONGEST_NAME = 80
_MOST_CHECKED = 500  # combinations of a grid; of a larger one each value is checked by itself


def read_data_table(section: Section, folder: pathlib.Path) -> DataSource:
    """The data source that ``[data]`` describes; relative paths start from ``folder``."""
    origin = _origin(section)
    reading = _reading_options(section)
    normalise = section.one_of("normalise", "none", ("none", *_NORMALISE))
    common: dict[str, Any] = {
        "reading": reading,
        "normalise": None if normalise == "none" else normalise,
        "binarise": _least_relevant(section),
        "sample": _sample(section),
        "measure_on": _FORMER_NAMES.get(section.one_of("measure_on", "test", _MEASURED), "test"),
        "on_overlap": section.one_of("on_overlap", "warn", ON_OVERLAP),
    }
    source = _source(section, origin, folder, common)
    if source.measure_on == "vali" and not source.has_vali:
        raise section.error("measure_on", 'is "valid", but there are no validation data.')
    return source


def give_way(table: dict[str, Any], chosen: Collection[str]) -> None:
    """Remove where the file says that data are, if ``chosen``, the keys set from outside, say another place."""
    n_folds = table.get("folds") if isinstance(table.get("folds"), int) else None
    origins = [key for key in _ORIGINS if key in chosen and (key != "folds" or n_folds is None)]
    if len(origins) != 1:
        return
    kept = {*chosen, *_BESIDE[origins[0]], *(("folds",) if n_folds and origins[0] in _CUT else ())}
    for key in (*_ORIGINS, *itertools.chain(*_BESIDE.values())):
        if key not in kept:
            table.pop(key, None)


def _source(
    section: Section, origin: str, folder: pathlib.Path, common: dict[str, Any]
) -> DataSource:
    """Where the folds are, from the origin that ``[data]`` names."""
    if origin == "folds":
        return DataSource(_fold_files(section, folder), **common)
    if origin == "collection":
        return _collection(section, folder, common)
    if origin == "train":
        files = {
            part: _files(section, PRESENT_NAMES.get(part, part), folder)
            for part in PARTS
            if PRESENT_NAMES.get(part, part) in section
        }
        first = paths_of(files["train"])[0]
        name = pathlib.Path(first).resolve().parent.name or "data"
        return DataSource((FoldSource(name, files),), has_vali="vali" in files, **common)
    whole = _whole(section, origin, folder)
    cut, names, has_vali = _cut(section, origin, whole)
    return DataSource(
        tuple(FoldSource(name) for name in names), whole, cut, has_vali=has_vali, **common
    )


def read_algorithms(
    source: TomlSource, tables: Any, repetitions: int, has_vali: bool, folder: pathlib.Path
) -> tuple[Algorithm, ...]:
    """The algorithms of an experiment, in their order; paths are relative to ``folder``."""
    if not isinstance(tables, list) or not tables:
        raise source.error(("algorithm",), "an experiment needs at least one [[algorithm]] table.")
    algorithms: dict[str, Algorithm] = {}
    for index, values in enumerate(tables):
        section = Section(source, ("algorithm", index), values, None)
        if section.truth("optional", False) and lacking(str(values.get("kind"))) is not None:
            continue
        _find_cost_files(source, section.path, section.values, folder)
        _find_scores(section, folder)
        algorithm = _algorithm(section, repetitions, has_vali)
        if algorithm.name in algorithms:
            raise section.error(
                "name", f"'{algorithm.name}' is the name of another algorithm too; choose another."
            )
        algorithms[algorithm.name] = algorithm
    if not algorithms:
        raise source.error(("algorithm",), "all are optional, and none has its package installed.")
    return tuple(algorithms.values())


def _algorithm(section: Section, repetitions: int, has_vali: bool) -> Algorithm:
    if "kind" not in section:
        raise section.error("", 'has no kind, such as "RandomForest".')
    kind = check_kind(section.source, (*section.path, "kind"), section.values["kind"], FOREIGN)
    missing = lacking(kind)
    if missing is not None and kind in FOREIGN:
        raise section.error("kind", f"{missing}. Or write optional = true, to leave it out.")
    name = str(section.text("name", kind)).strip()
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise section.error("name", f"must be at most {_LONGEST_NAME} printable characters.")
    own = section.whole("repetitions", repetitions, least=1)
    if own > repetitions:
        raise section.error("repetitions", f"is {own}, more than the {repetitions} of [run].")
    parameters = {key: value for key, value in section.values.items() if key not in _OWN}
    method = section.one_of("tune_method", "grid", _METHODS)
    seconds = _seconds(section)
    algorithm = Algorithm(
        name,
        kind,
        parameters,
        _tuned(section, method),
        method,
        section.whole("tune_trials", _TRIALS if seconds is None else None, least=1),
        own,
        _early_exit(section),
        tune_time=seconds,
        tune_folds=section.whole("tune_folds", 0, least=2),
        tune_on=_FORMER_NAMES.get(section.one_of("tune_on", TRAIN, _TRAINED), TRAIN),
        tune_refit=_FORMER_NAMES.get(section.one_of("tune_refit", TRAIN, _TRAINED), TRAIN),
    )
    _check_tuning(section, algorithm, has_vali)
    _check_values(section, algorithm)
    if not _is_random(algorithm):
        algorithm = replace(algorithm, is_random=False, repetitions=1)
    stops = parameters.get("early_stopping", "none") not in ("none", BEST)
    if stops and not has_vali and not algorithm.tune_folds:
        raise section.error("early_stopping", "needs validation data, which [data] lacks.")
    return algorithm


def left_out_of(source: TomlSource, tables: Any) -> dict[str, str]:
    """The algorithms with ``optional = true`` whose package is not installed, and what each of them lacks."""
    left_out: dict[str, str] = {}
    for index, values in enumerate(tables if isinstance(tables, list) else []):
        if isinstance(values, dict) and "optional" in values:
            section = Section(source, ("algorithm", index), values, None)
            reason = lacking(str(values.get("kind"))) if section.truth("optional", False) else None
            if reason is not None:
                left_out[str(values.get("name", values.get("kind")))] = reason
    return left_out


def check_given_scores(
    source: TomlSource, tables: Any, algorithms: Sequence[Algorithm], data: DataSource
) -> None:
    """Raise for files of given scores that are not there."""
    folds = [fold.name for fold in data.folds]
    paths = [one.get("path") for one in tables]
    for one in algorithms:
        if one.kind == "scores":
            path = one.parameters["path"]
            try:
                check_score_files(path, folds, one.repetitions)
            except RankwoodError as error:
                at = ("algorithm", paths.index(path), "path")
                raise source.error(at, str(error)) from None


def _find_scores(section: Section, folder: pathlib.Path) -> None:
    """Make the path of given scores absolute."""
    path = section.values.get("path")
    if section.values.get("kind") == "scores" and isinstance(path, str) and path.strip():
        section.values["path"] = _absolute(folder / path)


def _seconds(section: Section) -> float | None:
    """The time that the trials of a cell may take; None where nothing is said of it."""
    try:
        return seconds_of(section.values.get("tune_time"), "it")
    except RankwoodError as error:
        raise section.error("tune_time", str(error)) from None


def _is_random(algorithm: Algorithm) -> bool:
    """Whether another seed may give another model, with the parameters as they are or with a value to be tried."""
    if algorithm.tune and algorithm.tune_method != "grid":
        return True  # the search draws what it tries
    singles = [{name: value} for name, values in algorithm.tune.items() for value in values]
    built = (build(algorithm.kind, algorithm.with_values(one)) for one in [{}, *singles])
    return any(getattr(estimator, "is_random", True) for estimator in built)


def _early_exit(section: Section) -> str | None:
    """Where documents leave when the model scores; None where all pass all trees."""
    text: str | None = section.text("early_exit")
    if text is None or text == NOTHING:
        return None
    try:
        EarlyExit.parse(text)
    except RankwoodError as error:
        raise section.error("early_exit", str(error)) from None
    return text


def _find_cost_files(
    source: TomlSource, path: Path, values: dict[str, Any], folder: pathlib.Path
) -> None:
    """Make the paths of cost files absolute; one that is not there is an error."""
    for name, value in values.items():
        if name == "feature_costs" and isinstance(value, str) and value != NOTHING:
            file = folder / value
            if not file.is_file():
                raise source.error((*path, name), f"there is no file {file}.")
            values[name] = str(file.absolute())
        elif isinstance(value, dict):
            _find_cost_files(source, (*path, name), value, folder)


def _tuned(section: Section, method: str) -> dict[str, Any]:
    """What is tuned, with names such as ``base.n_trees`` for the parameters of an inner estimator."""
    tuned: dict[str, Any] = {}

    def gather(values: Any, names: tuple[str, ...]) -> None:
        path: Path = (*section.path, "tune", *names)
        is_range = isinstance(values, dict) and values and set(values) <= set(_RANGE)
        if isinstance(values, dict) and not is_range:
            for name, value in values.items():
                gather(value, (*names, name))
        elif is_range and method != "grid":
            tuned[".".join(names)] = _range(section.source, path, values)
        elif is_range:
            message = 'is a range, which a grid cannot try: give a list, or tune_method = "random" or "optuna".'
            raise section.source.error(path, message)
        elif not isinstance(values, list) or not values:
            message = "must be a list of the values to try, such as [0.05, 0.1]."
            raise section.source.error(path, message)
        else:
            tuned[".".join(names)] = values

    if not isinstance(section.values.get("tune", {}), dict):
        raise section.error("tune", "must be a table, such as { learning_rate = [0.05, 0.1] }.")
    gather(section.values.get("tune", {}), ())
    return tuned


def _range(source: TomlSource, path: Path, values: dict[str, Any]) -> dict[str, Any]:
    for name in ("low", "high"):
        value = values.get(name)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not math.isfinite(value)
        ):
            raise source.error(path, f"a range needs low and high; {name} must be a number.")
    if values["low"] >= values["high"]:
        raise source.error(path, f"low must be less than high, got {values['low']:g}.")
    if values.get("log") and (values["low"] <= 0 or "step" in values):
        raise source.error(path, "with log = true, low must be above 0 and there is no step.")
    step = values.get("step", 1)
    are_words = [isinstance(values.get(name, False), bool) for name in ("log", "int")]
    if not isinstance(step, int | float) or step <= 0 or not all(are_words):
        raise source.error(path, "step must be a number above 0, and log and int true or false.")
    if values.get("int") and not all(
        isinstance(number, int) for number in (values["low"], values["high"], step)
    ):
        raise source.error(path, "with int = true, low, high and step must be whole numbers.")
    return values


def _check_tuning(section: Section, algorithm: Algorithm, has_vali: bool) -> None:
    for key in _HOW_TO_TUNE:
        if key in section and not algorithm.tune:
            raise section.error(key, "says how to tune, but there is no tune = { … } beside it.")
    for key in ("tune_trials", "tune_time"):
        if key in section and algorithm.tune_method == "grid":
            raise section.error(
                key, 'goes with tune_method = "random" or "optuna": a grid tries all.'
            )
    if not algorithm.tune:
        return
    if "tune_on" in section and not algorithm.tune_folds:
        raise section.error(
            "tune_on", "says what is cut into inner folds: give tune_folds = 5 too, or remove it."
        )
    if not has_vali and not algorithm.tune_folds:
        raise section.error(
            "tune",
            "needs validation queries, which [data] lacks. Give tune_folds = 5 to judge candidates on folds of the "
            "training queries.",
        )
    for key in ("tune_on", "tune_refit"):
        if section.values.get(key) == PRESENT_NAMES[TRAIN_AND_VALI] and not has_vali:
            raise section.error(
                key, f'is "{section.values[key]}", but [data] has no validation queries. Remove it.'
            )
    for name in algorithm.tune:
        if name in algorithm.parameters:
            raise section.error(name, "is tuned and given a value too. Keep one of the two.")
    if algorithm.tune_method == "optuna":
        from rankwood.studies.tune import need_optuna

        need_optuna()


def _check_values(section: Section, algorithm: Algorithm) -> None:
    """Let the estimator look at its parameters, as they are and with every value to be tried."""
    source, path, kind = section.source, section.path, algorithm.kind
    check_names(source, path, kind, algorithm.parameters)
    checked(source, path, kind, algorithm.parameters)
    at = (*path, "tune")
    n_combinations = math.prod(
        len(values) if isinstance(values, list) else 2 for values in algorithm.tune.values()
    )
    listed = {name: _examples(values) for name, values in algorithm.tune.items()}
    trial = Algorithm(algorithm.name, kind, algorithm.parameters, listed)
    if n_combinations <= _MOST_CHECKED:
        tried = trial.candidates() if listed else []
    else:
        tried = [{name: value} for name, values in listed.items() for value in values]
    for changes in tried:
        for name in changes:
            _check_reach(section, algorithm, name)
        checked(source, at, kind, trial.with_values(changes))


def _examples(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values["low"], values["high"]]


def _check_reach(section: Section, algorithm: Algorithm, name: str) -> None:
    """Raise where ``base.n_trees`` is tuned and there is no estimator ``base``."""
    *outer, _ = name.split(".")
    values: Any = algorithm.parameters
    for part in outer:
        values = values.get(part) if isinstance(values, dict) else None
        is_known = isinstance(values, dict) and ("kind" in values or is_table_of_estimators(values))
        if not is_known and not (algorithm.kind in FOREIGN and outer == ["params"]):
            message = f"there is no estimator '{part}' to tune. Give {part} = {{ kind = \"…\" }}."
            raise section.source.error((*section.path, "tune", *name.split(".")), message)


def _origin(section: Section) -> str:
    """Which of the ways to say where data come from is used: exactly one."""
    if isinstance(section.values.get("folds"), int):  # how many to make, not where they are
        given = [name for name in _ORIGINS if name in section and name != "folds"]
        if not given:
            raise section.error(
                "folds", "says how many folds to make; data, bundled or generate must say of what."
            )
    else:
        given = [name for name in _ORIGINS if name in section]
    if not given:
        ways = (
            "folds, or train with test, or collection with path, or data, or bundled, or generate"
        )
        raise section.error("", f"says nothing about where the data are. Give one of: {ways}.")
    if len(given) > 1:
        raise section.error(
            given[1], f"contradicts {given[0]}: both say where the data are. Keep one of the two."
        )
    _refuse_what_does_not_apply(section, given[0])
    return given[0]


def _refuse_what_does_not_apply(section: Section, origin: str) -> None:
    is_cut = origin in _CUT
    for key in ("split", "seed"):
        if key in section and not is_cut:
            raise section.error(key, f"contradicts {origin}, which has its own parts. Remove it.")
    if "folds" in section and "split" in section:
        raise section.error("split", "contradicts folds: data are cut by one of the two.")
    if is_cut and isinstance(section.values.get("folds"), str):
        raise section.error("folds", f"contradicts {origin}: both say where the data are.")
    for key, owner in (
        ("valid", "train"),
        ("test", "train"),
        ("path", "collection"),
        ("check", "collection"),
    ):
        if key in section and origin != owner:
            raise section.error(key, f"contradicts {origin}. It goes with {owner}.")
    if origin == "collection" and "path" not in section:
        raise section.error("collection", 'has no path beside it. Give path = "FOLDER" too.')
    if origin == "train" and "test" not in section:
        raise section.error("train", 'has no test beside it. Give test = "FILE" too.')
    if origin == "train" and "folds" in section:
        raise section.error("folds", "contradicts train: both say what the parts are.")
    if "names" in section and origin != "folds":
        raise section.error("names", f"goes with folds, not with {origin}.")


def _reading_options(section: Section) -> dict[str, Any]:
    """How files are read, as ``ReadOptions`` has it; only what was said."""
    options: dict[str, Any] = {name: section.text(name) for name in _COLUMNS if name in section}
    for name in ("features", "drop", "categorical"):
        if name in section:
            options[name] = tuple(section.texts(name))
    if "absent" in section:
        options["absent"] = section.one_of("absent", "zero", ("zero", "missing"))
    if "order" in section:
        options["order"] = section.one_of("order", "ascending", ("ascending", "any"))
    if "overflow" in section:
        options["overflow"] = section.one_of("overflow", "error", ("error", "missing"))
    if "strict" in section:
        options["strict"] = section.truth("strict", False)
    return options


def _least_relevant(section: Section) -> float | None:
    """The label from which on a document is relevant, where labels are to be 0 and 1."""
    value = section.values.get("binarise")
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise section.error("binarise", "must be a label above 0, from which on documents count 1.")
    return float(value)


def _sample(section: Section) -> tuple[int, ...]:
    """How many queries of training, validation and test part are drawn; empty where all are taken."""
    sizes = section.values.get("sample", [])
    is_list = isinstance(sizes, list) and (not sizes or len(sizes) == len(PARTS))
    if not is_list or not all(type(size) is int and size >= 1 for size in sizes):
        raise section.error(
            "sample",
            "must be how many queries of train, valid and test are drawn, as [100, 50, 50].",
        )
    return tuple(sizes)


def _fold_files(section: Section, folder: pathlib.Path) -> tuple[FoldSource, ...]:
    from rankwood.data.splits import fold_files

    names = tuple(section.texts("names")) if "names" in section else None
    try:
        paths_of_fold = fold_files(folder / section.text("folds"), names)  # type: ignore[arg-type]
    except RankwoodError as error:
        raise section.error("folds", str(error)) from None
    return tuple(
        FoldSource(name, {part: _absolute(path) for part, path in zip(PARTS, paths, strict=True)})
        for name, paths in paths_of_fold.items()
    )


def _collection(section: Section, folder: pathlib.Path, common: dict[str, Any]) -> DataSource:
    """A public collection in its folder; it says how its files are read, unless ``[data]`` does."""
    from rankwood.data import collections

    check = section.one_of("check", "error", collections.CHECKS)
    try:
        collection = collections.known_collection(section.text("collection"))
    except RankwoodError as error:
        raise section.error("collection", str(error)) from None
    try:
        files = collections.collection_files(collection, folder / section.text("path"), check)
    except RankwoodError as error:
        raise section.error("path", str(error)) from None
    folds = tuple(
        FoldSource(
            name, {_FORMER_NAMES.get(part, part): _absolute(path) for part, path in paths.items()}
        )
        for name, paths in files.items()
    )
    common["reading"] = {**collection.reading, **common["reading"]}
    has_vali = "valid" in collection.parts
    return DataSource(folds, has_vali=has_vali, collection=(collection.name, check), **common)


def _files(section: Section, key: str, folder: pathlib.Path) -> str:
    """The files of a part as ``FoldSource`` has them; a list, a folder or a pattern is one data set."""
    is_list = isinstance(section.values.get(key), list)
    given = section.texts(key) if is_list else [section.text(key)]
    paths = [text if "://" in text else _absolute(folder / text) for text in given]
    try:
        find_inputs(paths, are_reread=True)
    except RankwoodError as error:
        raise section.error(key, str(error)) from None
    return "\n".join(paths)


def _absolute(path: pathlib.Path) -> str:
    return str(path.absolute())


def _whole(section: Section, origin: str, folder: pathlib.Path) -> dict[str, Any]:
    if origin == "data":
        return {"data": _files(section, "data", folder)}
    if origin == "bundled":
        from rankwood.experiments.cells import BUNDLED

        return {"bundled": section.one_of("bundled", "", BUNDLED)}
    return {"generate": _generated(section)}


def _generated(section: Section) -> dict[str, Any]:
    """The arguments of ``make_ranking``; its sizes have the names of ``rankwood data synth``."""
    from rankwood.data.synthetic import make_ranking

    others = set(inspect.signature(make_ranking).parameters) - set(_GENERATE.values())
    table = Section(
        section.source,
        (*section.path, "generate"),
        section.values["generate"],
        [*_GENERATE, *others],
    )
    arguments = {_GENERATE.get(name, name): value for name, value in table.values.items()}
    tiny = {"n_queries": 3, "docs_per_query": 2}  # wrong values are told before any data are made
    try:
        make_ranking(**{**arguments, **{k: v for k, v in tiny.items() if _is_number(arguments, k)}})
    except (RankwoodError, TypeError) as error:
        raise section.error("generate", str(error)) from None
    return arguments


def _is_number(arguments: dict[str, Any], name: str) -> bool:
    value = arguments.get(name, 1)
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1


def _cut(
    section: Section, origin: str, whole: dict[str, Any]
) -> tuple[dict[str, Any], list[str], bool]:
    """How the whole becomes folds, their names, and whether they have a validation part."""
    seed = section.whole("seed", 0)
    if "folds" in section:
        count = section.whole("folds", 5, least=3)
        return {"folds": count, "seed": seed}, [f"Fold{n + 1}" for n in range(count)], True
    if origin == "bundled" and "split" not in section:
        return {}, [whole["bundled"]], True  # it has parts of its own
    shares = section.values.get("split", _SHARES)
    is_list = isinstance(shares, list) and len(shares) in (2, 3)
    if not is_list or not all(isinstance(one, int | float) and one > 0 for one in shares):
        raise section.error(
            "split",
            "must be the shares of train, valid and test, as [0.6, 0.2, 0.2], or of train and test.",
        )
    if abs(sum(shares) - 1) > 1e-6:
        raise section.error("split", f"must sum to 1, got {sum(shares):g}.")
    return {"split": list(shares), "seed": seed}, ["split"], len(shares) == len(PARTS)
