"""``rankwood train``: fit an estimator to a file, and keep the model. Imported only when it is called."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood.cli import parameters, printing
from rankwood.cli.options import Reading, with_reading_options
from rankwood.data.folds import same_width
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.rankers.save import estimators, save

_CONFIG_KEYS = ("model", "data", "valid", "out", "checkpoint", "refit", "parameters")


@parameters.with_parameters
@with_reading_options
def command(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG", help="A TOML file with the same keys as the options; options win."
        ),
    ] = None,
    *,
    model: Annotated[str | None, typer.Option(help=f"One of {', '.join(estimators())}.")] = None,
    data: Annotated[str | None, typer.Option(metavar="FILE", help="Training data.")] = None,
    valid: Annotated[str | None, typer.Option(metavar="FILE", help="Validation data.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the model goes; model.rankwood by default."),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Train again on both parts, with the rounds that were chosen.",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the trees so far in FILE; a killed run goes on with them.",
        ),
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
    train = reading(call["data"])
    held_out = None if call["valid"] is None else reading(call["valid"])
    if held_out is not None and not (train.feature_names or held_out.feature_names):
        train, held_out = same_width((train, held_out), reading.options["absent"])
    with printing.training(kind, str(values.get("measure", "ndcg@10")), reading.quiet) as progress:
        fitted = estimators()[kind](**values, progress=progress).fit(train, valid=held_out)
    if call["refit"] and held_out is not None:
        from rankwood.rankers.save import refit as fit_again

        with printing.training(f"{kind}, again on all data", "", reading.quiet) as progress:
            fitted = fit_again(fitted.set_params(progress=progress), train, held_out)
    save(fitted.set_params(progress=None), call["out"])
    if not reading.quiet:
        printing.show_facts(_facts(fitted, call))


def _settle(config: Path | None, given: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The call as a whole: the configuration file, overridden by what was typed."""
    call = {"parameters": {}, "checkpoint": None, "valid": None} | _read_config(config)
    call |= {name: value for name, value in options.items() if value}
    call["parameters"] = call["parameters"] | {k: v for k, v in given.items() if v is not None}
    for name in ("model", "data"):
        if call.get(name) is None:
            raise ParameterError(f"--{name} is missing. See: rankwood train --help.")
    if call["model"] not in estimators():
        raise UnknownName("model", str(call["model"]), estimators())
    call.setdefault("refit", False)
    if call["refit"] and call["valid"] is None:
        raise ParameterError(
            "--refit trains on training and validation data together: it needs --valid."
        )
    call["out"] = Path(call.get("out") or "model.rankwood")
    if not call["out"].absolute().parent.is_dir():
        raise DataError(
            f"the folder of {call['out']} does not exist: make it first, or choose another --out."
        )
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
        found = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} cannot be read as TOML: {error}.") from None
    for key in found:
        if key not in _CONFIG_KEYS:
            raise UnknownName(f"key of {path}", key, _CONFIG_KEYS)
    return found


def _facts(fitted: Any, call: dict[str, Any]) -> list[tuple[str, str]]:
    training = fitted.training_
    facts = [
        ("model", type(fitted).__name__),
        ("trained on", f"{training['rows']:,} documents of {training['queries']:,} queries"),
        _size(getattr(fitted, fitted._model)),
        ("time", f"{training['seconds']:,.1f} s"),
    ]
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
    """How much of a model ``history_`` has one value for."""
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
    return "" if unit is None else f" with {rounds:,} {unit}"
