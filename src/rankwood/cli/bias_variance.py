"""``rankwood bias-variance``: how far rankers are off on average, and how much that depends on their training data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import Json, Reading, Seed, with_reading_options
from rankwood.errors import DataError, ParameterError, UnknownName

if TYPE_CHECKING:
    from collections.abc import Sequence


@with_reading_options
def command(
    *,
    model: Annotated[
        list[str],
        typer.Option(
            metavar="NAME\\[:PARAMETERS]",
            help="Such as RandomForest, or GBRT:n_trees=50,max_leaves=15; may be repeated.",
        ),
    ],
    data: Annotated[str | None, typer.Option(metavar="FILE", help="Training data.")] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="Test data.")] = None,
    valid: Annotated[
        str | None, typer.Option(metavar="FILE", help="Validation data, for early stopping.")
    ] = None,
    folds: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Fold1, Fold2, … instead of --data and --test."),
    ] = None,
    trainings: Annotated[
        int, typer.Option(help="Trainings of each model, in each fold, on resampled queries.")
    ] = 5,
    pairs: Annotated[
        str, typer.Option(help="Pairs of documents: 'different' labels, or 'all'.")
    ] = "different",
    ties: Annotated[
        str, typer.Option(help="Equal scores are 'half' above; 'strict': not above.")
    ] = "half",
    max_pairs: Annotated[
        int, typer.Option(help="The most pairs of a query; of more, so many are drawn.")
    ] = 10_000,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write a table (.csv) or a plot (.png, .svg, .pdf)."
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Take the error of rankers apart into bias² and variance.

    Each is trained several times on queries drawn with replacement; what counts is the order of pairs of documents.

    Example: rankwood bias-variance --data train.txt.gz --test test.txt.gz --model RandomForest --model LambdaMART
    """
    from rankwood.evaluation.bias_variance import bias_variance

    _refuse_other_files(out)
    algorithms = _algorithms(model)
    parts: Sequence[Any]
    if folds is not None:
        if data or test or valid:
            raise ParameterError("--folds has all three parts; leave out --data, --test, --valid.")
        parts = _read_folds(folds, reading)
    else:
        parts = _read_parts(data, valid, test, reading)
    with printing.training("trainings", "", reading.quiet) as progress:
        result = bias_variance(
            algorithms,
            parts,
            trainings=trainings,
            pairs=pairs,
            ties=ties,
            max_pairs=max_pairs,
            seed=seed,
            n_threads=reading.options["n_threads"],
            progress=progress,
        )
    if out is not None:
        result.write(out)
    if as_json:
        printing.show_json(result.to_dict())
    else:
        printing.say(str(result))


def _algorithms(texts: list[str]) -> dict[str, Any]:
    """Estimators from ``NAME:parameter=value,…``; two of one name are told apart by their parameters."""
    from rankwood.cli import parameters
    from rankwood.ensembles.loading import estimators

    names = [text.partition(":")[0] for text in texts]
    found: dict[str, Any] = {}
    for text, name in zip(texts, names, strict=True):
        if name not in estimators():
            raise UnknownName("model", name, estimators())
        shown = name if names.count(name) == 1 else text
        if shown in found:
            raise ParameterError(f"--model {text} is given twice.")
        given = dict(_pair(text, part) for part in text.partition(":")[2].split(",") if part)
        found[shown] = estimators()[name](**parameters.read(name, given))
    return found


def _pair(text: str, part: str) -> tuple[str, str]:
    parameter, equals, value = part.partition("=")
    if not equals:
        raise ParameterError(
            f"--model must be written as NAME:parameter=value,parameter=value; got '{text}'."
        )
    return parameter.strip().replace("-", "_"), value.strip()


def _read_parts(
    data: str | None, valid: str | None, test: str | None, reading: Reading
) -> list[Any]:
    """One fold of the files given, all with the same features."""
    from rankwood.data.folds import same_width

    if data is None or test is None:
        name = "data" if data is None else "test"
        raise ParameterError(f"--{name} is missing. See: rankwood bias-variance --help.")
    parts = [reading(path) for path in (data, valid, test) if path is not None]
    if not any(part.feature_names for part in parts):
        parts = same_width(parts, reading.options["absent"])
    return [(parts[0], parts[1] if valid is not None else None, parts[-1])]


def _read_folds(folder: str, reading: Reading) -> Any:
    from rankwood.data.folds import read_folds

    usual = {"absent": "zero", "order": "ascending", "cache": None, "strict": False}
    # Tables know nothing of most of them, so only what was asked for is passed on.
    asked = {name: reading.options[name] for name in usual if reading.options[name] != usual[name]}
    return read_folds(folder, **asked)


def _refuse_other_files(out: Path | None) -> None:
    """Say now what would otherwise be said after an hour of training."""
    if out is None:
        return
    if out.suffix.lower() not in (".csv", ".png", ".svg", ".pdf"):
        raise ParameterError(f"--out {out} must end in .csv, .png, .svg or .pdf.")
    if not out.absolute().parent.is_dir():
        raise DataError(f"the folder of {out} does not exist: make it first, or choose another.")
    if out.suffix.lower() != ".csv":
        from rankwood.evaluation.stacked_bars import refuse_without_matplotlib

        refuse_without_matplotlib()
