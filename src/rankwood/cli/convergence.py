"""``rankwood convergence``: a measure by tree, round or layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.fits import estimators_of, refuse_other_files
from rankwood.cli.options import Csv, Json, Plot, Reading, with_reading_options
from rankwood.errors import ParameterError
from rankwood.evaluation.stacked_bars import PLOTS

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData


@with_reading_options
def command(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL...", help="Model files, as rankwood train writes them."),
    ] = None,
    *,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:PARAMETERS",
            help="Also a model that is trained now, on --data; may be repeated.",
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="FILE", help="Training data.")] = None,
    valid: Annotated[str | None, typer.Option(metavar="FILE", help="Validation data.")] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="Test data.")] = None,
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="Such as ndcg@10 or map.")
    ] = "ndcg@10",
    every: Annotated[
        int | None,
        typer.Option(min=1, help="Trees, rounds or layers from one point to the next."),
    ] = None,
    plot: Plot = None,
    csv: Csv = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show a measure by tree, round or layer on training, validation and test data.

    With --data, what a forest was trained on, also out of bag: each document by the trees that have not seen it.

    Example: rankwood convergence lambdamart.rankwood --valid vali.txt.gz --test test.txt.gz --plot rounds.svg

    Example: rankwood convergence --model BROOF:validation=oob --model BROOF:validation=train --data train.txt.gz
    --test test.txt.gz
    """
    from rankwood.evaluation.convergence import convergence

    refuse_other_files("--plot", plot, PLOTS)
    refuse_other_files("--csv", csv, (".csv",))
    _refuse_contradictions(models or (), model or (), data, (data, valid, test))
    unfitted = estimators_of(model or ())
    named = _loaded(models or (), unfitted)
    parts = _read_parts({"train": data, "vali": valid, "test": test}, named, reading)
    named |= {name: _fitted(name, ranker, parts, reading) for name, ranker in unfitted.items()}
    with printing.training("curves", "", reading.quiet) as progress:
        result = convergence(
            named,
            parts,
            measure,
            every=every,
            n_threads=reading.options["n_threads"],
            progress=progress,
        )
    if csv is not None:
        result.write_csv(csv)
    if plot is not None:
        result.plot(plot)
    if as_json:
        printing.show_json(result.to_dict())
    else:
        printing.say(str(result))


def _refuse_contradictions(
    models: Sequence[str], fits: Sequence[str], data: str | None, parts: Sequence[str | None]
) -> None:
    if not models and not fits:
        raise ParameterError("name model files, or models to train with --model.")
    if all(part is None for part in parts):
        raise ParameterError("name data to measure on: --data, --valid or --test.")
    if fits and data is None:
        raise ParameterError("--model trains on --data, which is missing.")
    for path in models:
        if list(models).count(path) > 1:
            raise ParameterError(f"{path} is given twice.")


def _loaded(paths: Sequence[str], others: Mapping[str, Any]) -> dict[str, Any]:
    """Models by file name, or by path where names are alike."""
    if not paths:
        return {}
    from rankwood.ensembles.loading import load

    names = [*(Path(path).name for path in paths), *others]
    return {
        path if names.count(Path(path).name) > 1 else Path(path).name: load(path) for path in paths
    }


def _read_parts(
    paths: Mapping[str, str | None], models: Mapping[str, Any], reading: Reading
) -> dict[str, RankingData]:
    """The parts that were named, all with the same features, as many as the models know."""
    from rankwood.data.folds import same_width
    from rankwood.ensembles.loading import n_features_of

    widest = max((n_features_of(model) for model in models.values()), default=None)
    parts = {
        part: reading(path, n_features=widest) for part, path in paths.items() if path is not None
    }
    if any(each.feature_names for each in parts.values()):
        return parts
    return dict(
        zip(parts, same_width(list(parts.values()), reading.options["absent"]), strict=True)
    )


def _fitted(name: str, ranker: Any, parts: Mapping[str, RankingData], reading: Reading) -> Any:
    with printing.training(name, str(getattr(ranker, "measure", "")), reading.quiet) as progress:
        ranker.set_params(n_threads=reading.options["n_threads"], progress=progress)
        ranker.fit(parts["train"], valid=parts.get("vali"))
    return ranker.set_params(progress=None)
