"""``rankwood train``, ``auto``, ``tune`` and ``compare-missing``: commands that train rankers by their parameters.

Their options are made from the estimators, and importing those takes a second. ``main`` therefore imports this module
only when one of these commands is called; until then a stand-in has their place in the list of commands.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import tomllib
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood.binning.folder import is_binned_folder, open_binned
from rankwood.cli import parameters, printing
from rankwood.cli.options import (
    Csv,
    Dask,
    Json,
    LabelledFiles,
    MeasureText,
    OnOverlap,
    Outputs,
    Reading,
    Seed,
    TrainingData,
    argument,
    data_option,
    distributed_data,
    estimators_of,
    file_option,
    kind_of,
    known_estimator,
    named_sets,
    option,
    read_alike,
    reading_option_names,
    refuse_unwritable,
    switch,
    tell_of_overlap,
    with_reading_options,
)
from rankwood.data.sources import TEXT_SUFFIXES, is_table, uncompressed_name
from rankwood.errors import (
    DataError,
    ParameterError,
    UnknownName,
    counted,
    warn_of_former_name,
)
from rankwood.prepare.missing import TREATMENTS, PredictMissing
from rankwood.rankers.base import check_parameters, learned_model, weights_by_name
from rankwood.rankers.save import estimators, features_of, load, save
from rankwood.studies.missing import compare_missing
from rankwood.training.inputs import deciding_history, deciding_measure

_ESTIMATORS = f"One of {', '.join(estimators())}."
_SET_BY_THE_COMPARISON = ("measure", "missing")
_DRAWN, _PAGE_WIDTH = 20, 900.0  # trials in the chart of a page, and its pixels


@with_reading_options
def _train(
    config: Annotated[
        Path | None,
        argument(
            "CONFIG", "A TOML file in which every option may stand, as n_trees = 100; options win."
        ),
    ] = None,
    *,
    model: Annotated[
        str | None, option(f"{_ESTIMATORS} With --help, the parameters of this one.")
    ] = None,
    data: TrainingData = None,
    valid: Annotated[
        list[str] | None,
        data_option(
            "Validation data. Several sets have names, as NAME=DATA: the first decides, the others are recorded."
        ),
    ] = None,
    out: Annotated[
        Path | None, file_option("Where the model goes; model.rankwood by default.")
    ] = None,
    refit: Annotated[
        bool, switch("--refit", "Train again on both parts, with the rounds that were chosen.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        file_option("Keep the trees so far in FILE; a killed run goes on with them."),
    ] = None,
    warm_start: Annotated[
        Path | None,
        file_option(
            "Go on with the model in FILE, on the same data: trees are added up to --n-trees in all. Its parameters "
            "are taken, where no others are given."
        ),
    ] = None,
    on_overlap: OnOverlap = None,
    dask: Dask = None,
    context: typer.Context,
    reading: Reading,
    given: dict[str, Any],
) -> None:
    """Train a ranker and write it to a model file.

    Example: rankwood train --data train.txt.gz --valid vali.txt.gz --model RandomForest --out rf.rankwood

    Example: rankwood train --model GBRT --data train.parquet --valid vali.parquet --n-trees 1000 --early-stopping 100

    Example: rankwood train --model LambdaMART --help

    Data larger than memory: --data and --valid also take folders that rankwood bin has made.

    On many machines: with --dask, workers read --data and --valid under these names, and the model is the same bytes.

    Example: rankwood train --model LambdaMART --data "day-*.parquet" --dask tcp://scheduler:8786
    """
    call, reading = _settle(
        config,
        reading,
        context,
        model=model,
        data=data,
        valid=valid,
        out=out,
        checkpoint=checkpoint,
        warm_start=warm_start,
        refit=refit,
        on_overlap=on_overlap,
        given=given,
    )
    ranker = _ranker_of(call, reading.options["n_threads"])
    if dask is not None:
        fitted = _train_on_dask(dask, call, ranker, reading)
        save(fitted.set_params(progress=None), call["out"])
        if not reading.quiet:
            printing.show_facts(_facts(fitted, call))
        return
    own = {"model": features_of(ranker)} if call["warm_start"] else {}
    train, held_out = _read_pair(call["data"], call["valid"], reading, **own)
    if held_out is not None and not _are_binned(call["data"]):
        by_name = held_out if isinstance(held_out, dict) else {"": held_out}
        for name, part in by_name.items():
            names = (f"validation {name}".strip(), "training")
            tell_of_overlap(call["on_overlap"], (part, train), names, reading.quiet)
    kind, measure = type(ranker).__name__, _deciding(ranker)
    with printing.training(kind, measure, reading.quiet) as progress:
        fitted = ranker.set_params(progress=progress).fit(train, valid=held_out)
    if call["refit"] and held_out is not None:
        from rankwood.rankers.save import refit as fit_again

        with printing.training(f"{kind}, again on all data", "", reading.quiet) as progress:
            fitted = fit_again(fitted.set_params(progress=progress), train, held_out)
    save(fitted.set_params(progress=None), call["out"])
    if not reading.quiet:
        printing.show_facts(_facts(fitted, call))


@with_reading_options
def auto_command(
    data: LabelledFiles,
    *,
    valid: Annotated[
        list[str] | None,
        data_option("Validation data. Without them, rankers are judged on query folds of DATA."),
    ] = None,
    out: Annotated[Path, file_option("Where the model goes.", "--out", "-o")] = Path(
        "model.rankwood"
    ),
    time: Annotated[
        str,
        option(
            "How long the search may take, such as 90s, 10m or 1h; none needs --n-trials.",
            "--time",
            "-t",
        ),
    ] = "10m",
    n_trials: Annotated[
        int | None,
        option("The most settings to try; with --time none, every run is the same.", min=1),
    ] = None,
    candidates: Annotated[
        str | None,
        option(
            "The rankers to try, such as 'ExtraTrees, LambdaMART(n_trees=500, early_stopping=50)'.",
            metavar="RANKERS",
        ),
    ] = None,
    folds: Annotated[int, option("Query folds, without --valid.", min=2)] = 5,
    no_blend: Annotated[bool, switch("--no-blend", "Choose one ranker, and blend none.")] = False,
    refit: Annotated[
        bool, switch("--refit", "Train what was chosen again on DATA and --valid together.")
    ] = False,
    measure: MeasureText = "ndcg@10",
    seed: Seed = 0,
    report: Annotated[Path | None, file_option("Also a page with all trials (.html).")] = None,
    csv: Csv = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Find a good ranker within a time: try several, tune the leaders, blend them if that helps.

    Without --candidates it tries a linear ranker, boosted trees (NDCGBoost, LambdaMART), forests (ExtraTrees,
    RandomForest), BROOF and DeepForest, each as it is, and then other settings of the leaders until the time is up.

    Rankers are judged on queries that they have not seen: those of --valid, or folds of DATA. Other settings, or a
    blend of several rankers, are chosen only if they are ahead of the best ranker as it is by more than the standard
    error of the difference.

    The model file is that of the chosen ranker, or of a blend, for rankwood score, evaluate, inspect and export; a
    model of trees can be exported. Ctrl-C ends the search and keeps the best so far.

    Example: rankwood auto train.txt.gz --valid vali.txt.gz --time 10m --out best.rankwood --report trials.html

    Example: rankwood auto train.parquet --time none --n-trials 20 --candidates "ExtraTrees, RandomForest"
    """
    if refit and not valid:
        raise ParameterError("--refit trains on DATA and --valid together: it needs --valid.")
    refuse_unwritable("--out", out)
    outputs = Outputs(report=report, csv=csv, as_json=as_json)
    values = parameters.read("AutoRanker", {"time": time, "candidates": candidates}) | {
        "n_trials": n_trials,
        "n_folds": folds,
        "blend": not no_blend,
        "measure": measure,
        "seed": seed,
        "n_threads": reading.options["n_threads"],
    }
    ranker = estimators()["AutoRanker"](**values)
    check_parameters(ranker)
    train, held_out = _read_pair(data, valid, reading)
    with printing.training("searching", measure, reading.quiet) as progress:
        ranker.set_params(progress=progress).fit(train, valid=held_out)
    fitted = ranker.set_params(progress=None)
    if refit:
        from rankwood.rankers.save import refit as fit_again

        fitted = fit_again(fitted, train, held_out)
    save(fitted, out)
    tried = ranker.report()
    page = functools.partial(_write_trials, tried)
    outputs.show(tried, report=page, csv=tried.write_csv)
    if not reading.quiet and not as_json:
        printing.say()
        chosen = ("chosen", type(ranker.ranker_).__name__)
        printing.show_facts([chosen, *_facts(fitted, {"out": out})[1:]])


@with_reading_options
def tune_command(
    data: LabelledFiles,
    *,
    model: Annotated[
        str,
        option(
            "The ranker, with the parameters that are not tuned, such as LambdaMART:n_trees=500.",
            metavar="NAME:PARAMETERS",
        ),
    ],
    space: Annotated[
        list[str] | None,
        option(
            "A parameter and what to try: max_leaves=8,16,31, or numbers of a range: learning_rate=0.02..0.3:log; "
            "may be repeated. By default what rankwood auto tries of this ranker.",
            metavar="PARAMETER=VALUES",
        ),
    ] = None,
    trials: Annotated[
        int | None, option("The most candidates to try; a grid tries all.", min=1)
    ] = None,
    method: Annotated[
        str, option("How candidates are found: random, grid or optuna (extra tune).")
    ] = "random",
    valid: Annotated[
        list[str] | None,
        data_option("Validation data. Without them, candidates are judged on query folds of DATA."),
    ] = None,
    folds: Annotated[int, option("Query folds, without --valid.", min=2)] = 5,
    time: Annotated[
        str | None, option("After this, such as 90s, 10m or 1h, no candidate is begun.")
    ] = None,
    refit: Annotated[
        bool, switch("--refit", "Train the best again on DATA and --valid together.")
    ] = False,
    measure: MeasureText = "ndcg@10",
    seed: Seed = 0,
    out: Annotated[Path, file_option("Where the model goes.", "--out", "-o")] = Path(
        "model.rankwood"
    ),
    study: Annotated[
        Path | None,
        file_option("Keep the trials in FILE (JSON); a run that was stopped goes on with them."),
    ] = None,
    report: Annotated[Path | None, file_option("Also a page with all trials (.html).")] = None,
    csv: Csv = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Tune the parameters of a ranker, and train it with the best.

    Candidates are judged on queries that their models have not seen: those of --valid, or folds of DATA. The model file
    records how it was chosen, for rankwood inspect. Ctrl-C ends the search and keeps the best so far.

    Example: rankwood tune train.parquet --valid valid.parquet --model LambdaMART --trials 30 --out best.rankwood

    Example: rankwood tune train.txt.gz --model GBRT:n_trees=200 --space max_leaves=8,16,31 --space
    learning_rate=0.02..0.3:log --trials 40 --study study.json --report trials.html
    """
    from rankwood.studies.tune import tune

    if refit and not valid:
        raise ParameterError("--refit trains on DATA and --valid together: it needs --valid.")
    refuse_unwritable("--out", out)
    if study is not None:
        refuse_unwritable("--study", study)
    outputs = Outputs(report=report, csv=csv, as_json=as_json)
    ((_, ranker),) = estimators_of([model]).items()
    found = parameters.read_space(kind_of(model), space) if space else None
    if trials is None and method != "grid":
        trials = 20
    train, held_out = _read_pair(data, valid, reading)
    with printing.training("tuning", measure, reading.quiet) as progress:
        tuned = tune(
            ranker,
            found,
            train,
            held_out,
            trials=trials,
            method=method,
            measure=measure,
            n_folds=folds,
            refit=refit,
            time=time,
            seed=seed,
            n_threads=reading.options["n_threads"],
            study=study,
            progress=progress,
        )
    save(tuned.ranker, out)
    outputs.show(tuned, report=functools.partial(_write_trials, tuned), csv=tuned.write_csv)
    if not reading.quiet and not as_json:
        printing.say()
        chosen = ", ".join(f"{name}={value}" for name, value in tuned.best.items())
        printing.show_facts([("chosen", chosen), *_facts(tuned.ranker, {"out": out})[1:]])


@with_reading_options
def _compare_missing(
    *,
    data: Annotated[list[str], data_option("Training data, with missing values.")],
    test: Annotated[
        list[str] | None,
        data_option("Test data. Without them, the queries of --data are dealt into folds."),
    ] = None,
    model: Annotated[str, option(_ESTIMATORS)] = "RandomForest",
    measure: Annotated[
        str, option("What is compared, such as ndcg@10 or map.", "--measure", "-m")
    ] = "ndcg@10",
    treatment: Annotated[
        list[str] | None,
        option(f"Some of {', '.join(TREATMENTS)}; may be repeated. All by default."),
    ] = None,
    folds: Annotated[int, option("Folds of queries, without --test.", min=2)] = 5,
    predict_trees: Annotated[
        int, option("Treatment predict: trees of each feature's forest.", min=1)
    ] = 10,
    predict_sweeps: Annotated[
        int, option("Treatment predict: most sweeps over the features.", min=1)
    ] = 5,
    bootstrap: Annotated[
        int, option("Resamples of the queries for the 95 % intervals.", min=1)
    ] = 1000,
    csv: Csv = None,
    as_json: Json = False,
    reading: Reading,
    given: dict[str, Any],
) -> None:
    """Train one ranker under each treatment of missing values, and compare them on the same queries.

    learned: each split learns where missing values go, which is the rankers' default.

    least, greatest: filled so that they go left, or right, at every split.

    mean, median: filled with those of the training data.

    predict: predicted from the other features, by forests of the training data.

    three_way: missing values get a child of their own at every split.

    LETOR text lacks a value only where it says NaN; with --absent-missing, also where a row leaves a feature out.

    Example: rankwood compare-missing --data train.parquet --test test.parquet --model RandomForest --n-trees 100

    Example: rankwood compare-missing --data all.txt.gz --absent-missing --folds 5 --treatment least --csv missing.csv
    """
    known_estimator(model)
    values = parameters.read(model, given) | {"n_threads": reading.options["n_threads"]}
    ranker = estimators()[model](**values)
    outputs = Outputs(csv=csv, as_json=as_json)
    train, held_out = _read_pair(data, test, reading)
    seed = getattr(ranker, "seed", None) or 0  # rankers that are built on others may have none
    step = PredictMissing(
        predict_trees, max_sweeps=predict_sweeps, seed=seed, n_threads=ranker.n_threads
    )
    with printing.training("comparing treatments", "", reading.quiet) as progress:
        comparison = compare_missing(
            ranker,
            train,
            held_out,
            measure,
            treatments=treatment or TREATMENTS,
            predictor=step,
            n_folds=folds,
            n_bootstrap=bootstrap,
            seed=seed,
            progress=progress,
        )
    outputs.show(comparison, csv=comparison.write_csv)


_WITH_PARAMETERS: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "train_command": (_train, ()),
    "compare_missing_command": (_compare_missing, _SET_BY_THE_COMPARISON),
}


def command_for(name: str, arguments: Sequence[str]) -> Callable[..., None]:
    """A command of this module; with ``--model X --help`` among the arguments, one whose help is about X."""
    if name not in _WITH_PARAMETERS:
        return {"auto_command": auto_command, "tune_command": tune_command}[name]
    command, left_out = _WITH_PARAMETERS[name]
    kind = _given(arguments, "--model")
    if kind not in estimators() or not {"--help", "-h"} & set(arguments):
        return parameters.with_parameters(command, left_out=left_out)
    base = _given(arguments, "--base")
    return parameters.with_parameters(
        command, left_out=left_out, kind=kind, base=base if base in estimators() else None
    )


def _given(arguments: Sequence[str], name: str) -> str | None:
    """The value of an option among arguments that were not parsed yet."""
    for word, following in itertools.pairwise([*arguments, ""]):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def _write_trials(tried: Any, path: Path) -> None:
    """Write the report of a search as a page, with a chart of its best trials."""
    from rankwood.experiments.report.chart_rows import trials_chart
    from rankwood.experiments.report.findings import Standing
    from rankwood.experiments.report.render import svg_file
    from rankwood.studies.trials import settings_text

    best = tried.ranked()[:_DRAWN]
    names = [f"{trial['name']} {settings_text(trial['parameters'])}".strip() for trial in best]
    standings = [
        Standing(trial["mean"], (trial["low"], trial["high"]), 0, is_best=trial["chosen"])
        for trial in best
    ]
    drawing = trials_chart(names, standings, tried.measure, _PAGE_WIDTH)
    tried.write_html(path, svg_file(drawing).partition("?>")[2])


def _train_on_dask(address: str, call: dict[str, Any], ranker: Any, reading: Reading) -> Any:
    """The ranker, trained on a cluster."""
    from rankwood.experiments.workers import dask_client

    if call["refit"]:
        raise ParameterError("--refit reads all data into this process: leave it out with --dask.")
    if isinstance(call["valid"], dict):
        raise ParameterError("--dask takes one validation set: leave the names of --valid out.")
    with dask_client(address) as client:
        train = distributed_data(client, call["data"], reading)
        held_out = None
        if call["valid"]:
            held_out = distributed_data(client, call["valid"], reading, bins=train)
        with printing.training(type(ranker).__name__, _deciding(ranker), reading.quiet) as progress:
            return ranker.set_params(progress=progress).fit(train, valid=held_out)


def _read_pair(
    data: Sequence[str],
    other: Sequence[str] | dict[str, list[str]] | None,
    reading: Reading,
    **changes: Any,
) -> tuple[Any, Any]:
    """The training data, and validation or test data where there are any, by name where they have names.

    All have the same features.
    """
    by_name = other if isinstance(other, dict) else {"": other} if other else {}
    parts = [data, *by_name.values()]
    if any(_are_binned(paths) for paths in parts):
        train, *found = (
            open_binned(paths[0]) if _are_binned(paths) else reading(paths) for paths in parts
        )
    elif by_name:
        train, *found = read_alike(parts, reading, **changes)
    else:
        return reading(data, is_log=True, **changes), None
    read = dict(zip(by_name, found, strict=True))
    return train, read if isinstance(other, dict) else read.get("")


def _deciding(ranker: Any) -> str:
    """The measure that early stopping looks at."""
    return str(deciding_measure(getattr(ranker, "measure", "ndcg@10")))


def _are_binned(paths: Sequence[str] | None) -> bool:
    """Whether the data are a folder of binned data."""
    binned = [path for path in paths or () if is_binned_folder(path)]
    if binned and len(paths or ()) > 1:
        raise ParameterError(f"{binned[0]} holds binned data, which are not joined with others.")
    return bool(binned)


def _settle(
    config: Path | None,
    reading: Reading,
    context: typer.Context,
    given: dict[str, Any],
    **options: Any,
) -> tuple[dict[str, Any], Reading]:
    """The call as a whole, and how its data are read: the configuration file, overridden by what was typed."""
    file = TrainingFile.read(config)
    typed = {name: value for name, value in options.items() if value}
    call = dict.fromkeys(options) | file.own | typed
    call["parameters"] = file.parameters | {k: v for k, v in given.items() if v is not None}
    call["valid"] = named_sets(call["valid"])
    if call["data"] is None or (call["model"] is None and call["warm_start"] is None):
        lacking = "data" if call["model"] or call["warm_start"] else "model"
        raise ParameterError(f"--{lacking} is missing. See: rankwood train --help.")
    if call["model"] is not None:
        known_estimator(str(call["model"]))
    if call["refit"] and not call["valid"]:
        raise ParameterError(
            "--refit trains on training and validation data together: it needs --valid."
        )
    if call["refit"] and isinstance(call["valid"], dict):
        raise ParameterError("--refit takes one validation set: leave the names of --valid out.")
    out = Path(call["out"] or "model.rankwood")
    refuse_unwritable("--out", out)
    call["out"] = out
    of_file = {name: value for name, value in file.reading.items() if not _is_typed(context, name)}
    return call, reading.with_options(**of_file)


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@dataclass(frozen=True)
class TrainingFile:
    """A TOML file for ``rankwood train``: options under their own names, parameters also in [parameters]."""

    own: dict[str, Any]
    reading: dict[str, Any]
    parameters: dict[str, Any]

    @classmethod
    def read(cls, path: Path | None) -> TrainingFile:
        """What a file says; nothing where there is none."""
        file = cls({}, {}, {})
        for key, value in {} if path is None else _parsed_toml(path).items():
            file._add(path, key.replace("-", "_"), value)
        return file

    def _add(self, path: Path | None, key: str, value: Any) -> None:
        if key in _FORMER_KEYS:
            warn_of_former_name(str(path), key, _FORMER_KEYS[key])
            key = _FORMER_KEYS[key]
        if key in _OWN_KEYS:
            self.own[key] = _checked(path, key, value, _OWN_KEYS[key])
        elif key in _READING_KEYS:
            self.reading[key] = _checked(path, key, value, _READING_KEYS[key])
        elif key in _PARAMETER_KEYS:
            self._add_parameter(path, key, value)
        elif key == "parameters" and isinstance(value, dict):
            for name, one in value.items():
                self._add_parameter(path, name.replace("-", "_"), one)
        else:
            known = (*_OWN_KEYS, *_READING_KEYS, "parameters", *_PARAMETER_KEYS)
            ours = parameters.called_here(key)
            if ours is not None:
                raise ParameterError(f"{path} has an unknown key {key}: it is called {ours} here.")
            raise UnknownName(f"key of {path}", key, known)

    def _add_parameter(self, path: Path | None, name: str, value: Any) -> None:
        if name in self.parameters:
            raise ParameterError(f"{path} says {name} twice: once as a key, once in [parameters].")
        self.parameters[name] = value


def _parsed_toml(path: Path) -> dict[str, Any]:
    if is_table(path) or uncompressed_name(path).endswith(TEXT_SUFFIXES):
        raise DataError(f"CONFIG is a TOML file, and {path} holds data: write --data {path}.")
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        hint = f" If it holds data, write --data {path}." if path.suffix != ".toml" else ""
        raise DataError(f"{path} cannot be read as TOML: {error}.{hint}") from None


def _checked(path: Path | None, key: str, value: Any, kind: str) -> Any:
    """A value of a TOML file as the option of this name would give it."""
    if key == "valid" and isinstance(value, dict):
        return {name: _checked(path, f"valid.{name}", one, kind) for name, one in value.items()}
    is_text, is_list = isinstance(value, str), isinstance(value, list)
    if kind == "list" and (is_text or (is_list and all(isinstance(one, str) for one in value))):
        return [value] if is_text else value
    if kind == "file" and is_text:
        return Path(value)
    fits = {
        "text": is_text,
        "truth": isinstance(value, bool),
        "number": isinstance(value, int) and not isinstance(value, bool) and value >= 1,
    }
    if fits.get(kind, False):
        return value
    words = {
        "list": "a text, or a list of texts",
        "file": "the name of a file",
        "text": "a text",
        "truth": "true or false",
        "number": "a whole number of at least 1",
    }
    raise ParameterError(f"{path}: {key} must be {words[kind]}, got {value!r}.")


def _ranker_of(call: dict[str, Any], n_threads: int | None) -> Any:
    """The ranker to be fitted: a new one, or one that goes on with a model."""
    if call["warm_start"] is None:
        kind = call["model"]
        values = parameters.read(kind, call["parameters"])
        checkpoint = _checkpoint(kind, call["checkpoint"])
        return estimators()[kind](**values, **checkpoint, n_threads=n_threads)
    earlier = load(call["warm_start"])
    kind = type(earlier).__name__
    if kind not in estimators() or "warm_start" not in earlier.get_params(deep=False):
        raise ParameterError(
            f"--warm-start: {kind} cannot go on with a model; rankers that add trees or rounds one by one can."
        )
    if call["model"] not in (None, kind):
        raise ParameterError(
            f"--warm-start: {call['warm_start']} is of a {kind}, not of a {call['model']}."
        )
    values = parameters.read(kind, call["parameters"])
    return earlier.set_params(
        **values, **_checkpoint(kind, call["checkpoint"]), n_threads=n_threads, warm_start=True
    )


def _checkpoint(kind: str, path: Any) -> dict[str, Any]:
    """The parameter ``checkpoint``, for estimators that keep one."""
    if "checkpoint" in inspect.signature(estimators()[kind]).parameters:
        return {"checkpoint": path}
    if path is not None:
        raise ParameterError(f"{kind} keeps no checkpoint: leave out --checkpoint.")
    return {}


def _kinds_of_options() -> tuple[dict[str, str], dict[str, str]]:
    """What the values of ``rankwood train``'s own options and of the reading options are, by their names."""
    kinds = {bool: "truth", int: "number", Path: "file", str: "text", list: "list"}

    def kind_of(annotation: Any) -> str:
        declared = typing.get_args(annotation)[0]  # of Annotated
        options = [one for one in typing.get_args(declared) if one is not type(None)] or [declared]
        return kinds[typing.get_origin(options[0]) or options[0]]

    everything = {
        name: kind_of(parameter.annotation)
        for name, parameter in inspect.signature(_train).parameters.items()
        if name not in ("config", "context", "given")
    }
    reading = {name: everything.pop(name) for name in reading_option_names()}
    return everything, reading


_FORMER_KEYS = {"vali": "valid", "validation": "valid"}
_PARAMETER_KEYS = tuple(one.name for one in parameters.options())
_OWN_KEYS, _READING_KEYS = _kinds_of_options()


def _limit(number: int | None) -> str:
    return "no limit" if number is None else f"at most {number:,}"


def _facts(fitted: Any, call: dict[str, Any]) -> list[tuple[str, str]]:
    training = fitted.training_
    facts = [
        ("model", type(fitted).__name__),
        (
            "trained on",
            f"{counted(training['rows'], 'document')} of {counted(training['queries'], 'query')}",
        ),
        _size(learned_model(fitted)),
        ("time", f"{training['seconds']:,.1f} s"),
    ]
    weights = weights_by_name(fitted)
    if weights:
        listed = ", ".join(f"{name} {weight:.3f}" for name, weight in weights.items())
        facts.append(("weights", listed))
    if getattr(fitted, "max_leaves", None) == "auto" and hasattr(fitted, "max_leaves_"):
        most = fitted.max_leaves_
        facts.append(
            ("leaves of a tree", f"{_limit(most)}, chosen on queries that trees have not seen")
        )
    explored = getattr(fitted, "tree_", None)
    if explored is not None:
        facts.append(("search", f"{explored!r}"[1:-1]))
    estimate = getattr(fitted, "oob_ndcg_", None)
    if estimate is not None:
        facts.append(("out-of-bag ndcg@10", f"{estimate:.4f}"))
    reason = getattr(fitted, "stopped_because_", None)
    if reason is not None:
        facts.append(("stopped because", reason))
    history = deciding_history(getattr(fitted, "history_", None))
    if history:
        rounds = getattr(fitted, "best_iteration_", len(history))
        last = history[rounds - 1] if rounds else fitted.forest_measure_  # boosting added nothing
        facts += _figures(fitted, last, rounds)
        facts += _other_figures(fitted.history_, rounds)
    return [*facts, ("file", f"{call['out']} ({call['out'].stat().st_size / 2**10:,.0f} KiB)")]


def _figures(fitted: Any, last: Any, rounds: int) -> list[tuple[str, str]]:
    """The last figure of the history; a record of a round has several."""
    measure, after = deciding_measure(fitted.measure), _after(fitted, rounds)
    if not isinstance(last, dict):
        return [(f"validation {measure}", f"{last:.4f}{after}")]
    facts = [("rounds", f"{rounds:,}, the last with error {last['error'] or 0:.3f}")]
    if last["valid"] is not None:
        facts.append((f"validation {measure}", f"{last['valid']:.4f}{after}"))
    return facts


def _other_figures(history: Any, rounds: int) -> list[tuple[str, str]]:
    """The figures that were recorded besides the one that decides, after the rounds that were kept."""
    if not isinstance(history, dict) or not rounds:
        return []
    figures = [
        (f"{'validation' if name == 'valid' else name} {measure}", f"{values[rounds - 1]:.4f}")
        for name, by_measure in history.items()
        for measure, values in by_measure.items()
    ]
    return figures[1:]


def _size(model: Any) -> tuple[str, str]:
    """How large a model is, whatever its kind."""
    from rankwood.models.linear import LinearModel
    from rankwood.models.neural import NeuralModel

    if isinstance(model, LinearModel):
        return ("weights", f"of {model.used.size:,} of {model.n_features:,} features")
    if isinstance(model, NeuralModel):
        layers = "-".join(map(str, model.widths.tolist()))
        return ("weights", f"{model.weights.size + model.biases.size:,} in layers {layers}")
    return ("trees", f"{model.n_trees:,} with {model.n_leaves:,} leaves in all")


def _after(fitted: Any, rounds: int) -> str:
    """The number of rounds with its unit: what ``history_`` has one value for."""
    units = {
        "AveragedGBRT": "trees per run",
        "InitializedGBRT": "boosted trees",
        "DeepForest": "layers",
    }
    unit = units.get(type(fitted).__name__)
    if unit is None:
        unit = next(
            (name for name in ("rounds", "trees", "epochs") if hasattr(fitted, f"n_{name}")), None
        )
    if unit is not None and rounds == 1:
        unit = re.sub(r"s\b", "", unit)  # one tree per run
    return "" if unit is None else f" with {rounds:,} {unit}"
