"""``rankwood train``, ``auto`` and ``compare-missing``: commands whose options are parameters of the rankers.

Their options are made from the estimators, and importing those takes a second. ``main`` therefore imports this module
only when one of these commands is called; until then a stand-in has their place in the list of commands.
"""

from __future__ import annotations

import functools
import inspect
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from rankwood.cli import parameters, printing
from rankwood.cli.options import (
    LABELLED_DATA,
    Csv,
    Json,
    MeasureText,
    Outputs,
    Reading,
    Seed,
    TrainingData,
    ValidationData,
    argument,
    file_option,
    known_estimator,
    option,
    read_alike,
    refuse_unwritable,
    switch,
    with_reading_options,
)
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.prepare.missing import TREATMENTS, PredictMissing
from rankwood.rankers.base import check_parameters, learned_model, weights_by_name
from rankwood.rankers.save import estimators, save
from rankwood.studies.missing import compare_missing

_ESTIMATORS = f"One of {', '.join(estimators())}."
_SET_BY_THE_COMPARISON = ("measure", "missing")
_DRAWN, _PAGE_WIDTH = 20, 900.0  # trials in the chart of a page, and its pixels
_CONFIG_KEYS = ("model", "data", "valid", "out", "checkpoint", "refit", "parameters")


@parameters.with_parameters
@with_reading_options
def train_command(
    config: Annotated[
        Path | None,
        argument("CONFIG", "A TOML file with the same keys as the options; options win."),
    ] = None,
    *,
    model: Annotated[str | None, option(_ESTIMATORS)] = None,
    data: TrainingData = None,
    valid: ValidationData = None,
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
    reading: Reading,
    given: dict[str, Any],
) -> None:
    """Train a ranker and write it to a model file.

    Example: rankwood train --data train.txt.gz --valid vali.txt.gz --model RandomForest --out rf.rankwood

    Example: rankwood train --model GBRT --data train.parquet --valid vali.parquet --n-trees 1000 --early-stopping 100
    """
    call = _settle(
        config,
        model=model,
        data=data,
        valid=valid,
        out=out,
        checkpoint=checkpoint,
        refit=refit,
        given=given,
    )
    kind = call["model"]
    values = parameters.read(kind, call["parameters"])
    values |= {"n_threads": reading.options["n_threads"], **_checkpoint(kind, call["checkpoint"])}
    train, held_out = _read_pair(call["data"], call["valid"], reading)
    with printing.training(kind, str(values.get("measure", "ndcg@10")), reading.quiet) as progress:
        fitted = estimators()[kind](**values, progress=progress).fit(train, valid=held_out)
    if call["refit"] and held_out is not None:
        from rankwood.rankers.save import refit as fit_again

        with printing.training(f"{kind}, again on all data", "", reading.quiet) as progress:
            fitted = fit_again(fitted.set_params(progress=progress), train, held_out)
    save(fitted.set_params(progress=None), call["out"])
    if not reading.quiet:
        printing.show_facts(_facts(fitted, call))


@with_reading_options
def auto_command(
    data: Annotated[str, argument("DATA", LABELLED_DATA)],
    *,
    valid: Annotated[
        str | None,
        file_option("Validation data. Without them, rankers are judged on query folds of DATA."),
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
    if refit and valid is None:
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


@functools.partial(parameters.with_parameters, left_out=_SET_BY_THE_COMPARISON)
@with_reading_options
def compare_missing_command(
    *,
    data: Annotated[str, file_option("Training data, with missing values.")],
    test: Annotated[
        str | None,
        file_option("Test data. Without them, the queries of --data are dealt into folds."),
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


def _read_pair(data: str, other: str | None, reading: Reading) -> tuple[Any, Any]:
    """The training data, and validation or test data where there are any, with as many features."""
    if other is None:
        return reading(data), None
    train, held_out = read_alike((data, other), reading)
    return train, held_out


def _settle(config: Path | None, given: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The call as a whole: the configuration file, overridden by what was typed."""
    call = {"parameters": {}, "checkpoint": None, "valid": None} | _read_config(config)
    call |= {name: value for name, value in options.items() if value}
    call["parameters"] = call["parameters"] | {k: v for k, v in given.items() if v is not None}
    for name in ("model", "data"):
        if call.get(name) is None:
            raise ParameterError(f"--{name} is missing. See: rankwood train --help.")
    known_estimator(str(call["model"]))
    call.setdefault("refit", False)
    if call["refit"] and call["valid"] is None:
        raise ParameterError(
            "--refit trains on training and validation data together: it needs --valid."
        )
    call["out"] = Path(call.get("out") or "model.rankwood")
    refuse_unwritable("--out", call["out"])
    return call


def _checkpoint(kind: str, path: Any) -> dict[str, Any]:
    """The parameter ``checkpoint``, for estimators that keep one."""
    if "checkpoint" in inspect.signature(estimators()[kind]).parameters:
        return {"checkpoint": path}
    if path is not None:
        raise ParameterError(f"{kind} keeps no checkpoint: leave out --checkpoint.")
    return {}


def _read_config(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        config = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} cannot be read as TOML: {error}.") from None
    for key in config:
        if key not in _CONFIG_KEYS:
            raise UnknownName(f"key of {path}", key, _CONFIG_KEYS)
    return config


def _limit(number: int | None) -> str:
    return "no limit" if number is None else f"at most {number:,}"


def _facts(fitted: Any, call: dict[str, Any]) -> list[tuple[str, str]]:
    training = fitted.training_
    facts = [
        ("model", type(fitted).__name__),
        ("trained on", f"{training['rows']:,} documents of {training['queries']:,} queries"),
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
    history = getattr(fitted, "history_", None)
    if history:
        rounds = getattr(fitted, "best_iteration_", len(history))
        last = history[rounds - 1] if rounds else fitted.forest_measure_  # boosting added nothing
        facts += _figures(fitted, last, rounds)
    return [*facts, ("file", f"{call['out']} ({call['out'].stat().st_size / 2**10:,.0f} KiB)")]


def _figures(fitted: Any, last: Any, rounds: int) -> list[tuple[str, str]]:
    """The last figure of the history; a record of a round has several."""
    measure, after = fitted.measure, _after(fitted, rounds)
    if not isinstance(last, dict):
        return [(f"validation {measure}", f"{last:.4f}{after}")]
    facts = [("rounds", f"{rounds:,}, the last with error {last['error'] or 0:.3f}")]
    if last["valid"] is not None:
        facts.append((f"validation {measure}", f"{last['valid']:.4f}{after}"))
    return facts


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
