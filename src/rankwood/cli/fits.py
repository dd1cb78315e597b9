"""What commands that fit rankers share: models named on the command line, and data in parts or folds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood.cli.options import Reading
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.stacked_bars import PLOTS

Models = Annotated[
    list[str],
    typer.Option(
        metavar="NAME:PARAMETERS",
        help="Such as RandomForest, or GBRT:n_trees=50,max_leaves=15; may be repeated.",
    ),
]
TrainingData = Annotated[str | None, typer.Option(metavar="FILE", help="Training data.")]
TestData = Annotated[str | None, typer.Option(metavar="FILE", help="Test data.")]
ValidationData = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Validation data, for early stopping; used whole."),
]
Folds = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Fold1, Fold2, … instead of --data and --test.")
]
MeasureText = Annotated[str, typer.Option("--measure", "-m", help="Such as ndcg@10 or map.")]


def estimators_of(texts: Sequence[str]) -> dict[str, Any]:
    """Estimators from ``NAME:parameter=value,…``; two of one name are told apart by their parameters."""
    from rankwood.ensembles.loading import estimators

    names = [text.partition(":")[0] for text in texts]
    found: dict[str, Any] = {}
    for text, name in zip(texts, names, strict=True):
        shown = name if names.count(name) == 1 else text
        if shown in found:
            raise ParameterError(f"--model {text} is given twice.")
        found[shown] = estimators()[kind_of(text)](**parameters_of(text))
    return found


def kind_of(text: str) -> str:
    """The estimator that ``NAME:parameter=value,…`` names."""
    from rankwood.ensembles.loading import estimators

    name = text.partition(":")[0]
    if name not in estimators():
        raise UnknownName("model", name, estimators())
    return name


def parameters_of(text: str) -> dict[str, Any]:
    """The parameters in ``NAME:parameter=value,…``."""
    from rankwood.cli import parameters

    given = dict(_pair(text, part) for part in text.partition(":")[2].split(",") if part)
    return parameters.read(kind_of(text), given)


def _pair(text: str, part: str) -> tuple[str, str]:
    parameter, equals, value = part.partition("=")
    if not equals:
        raise ParameterError(
            f"--model must be written as NAME:parameter=value,parameter=value; got '{text}'."
        )
    return parameter.strip().replace("-", "_"), value.strip()


def read_parts(
    data: str | None, valid: str | None, test: str | None, folds: str | None, reading: Reading
) -> Any:
    """The folds of a folder, or one fold of the files given, all with the same features."""
    from rankwood.data.folds import same_width

    if folds is not None:
        if data or test or valid:
            raise ParameterError("--folds has all three parts; leave out --data, --test, --valid.")
        return _read_folds(folds, reading)
    if data is None or test is None:
        name = "data" if data is None else "test"
        raise ParameterError(f"--{name} is missing. Name the file, or --folds; see --help.")
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


def refuse_other_files(option: str, path: Path | None, endings: Sequence[str]) -> None:
    """Say now what would otherwise be said after an hour of training."""
    if path is None:
        return
    *first, last = endings
    if path.suffix.lower() not in endings:
        listed = f"{', '.join(first)} or {last}" if first else last
        raise ParameterError(f"{option} {path} must end in {listed}.")
    if not path.absolute().parent.is_dir():
        raise DataError(f"the folder of {path} does not exist: make it first, or choose another.")
    if path.suffix.lower() in PLOTS:
        from rankwood.evaluation.stacked_bars import refuse_without_matplotlib

        refuse_without_matplotlib()
