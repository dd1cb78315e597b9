"""``rankwood factorial``: what two parameters of a ranker do, and whether they depend on each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.fits import (
    Folds,
    MeasureText,
    TestData,
    TrainingData,
    ValidationData,
    estimators_of,
    kind_of,
    read_parts,
    refuse_other_files,
)
from rankwood.cli.options import Json, Reading, with_reading_options
from rankwood.errors import ParameterError


@with_reading_options
def command(
    *,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME:PARAMETERS", help="Such as BROOF, or BROOF:n_rounds=20,n_trees=10."
        ),
    ],
    factor: Annotated[
        list[str],
        typer.Option(
            metavar="PARAMETER=VALUE,…",
            help="A parameter of the model and the values to try; give two of them.",
        ),
    ],
    data: TrainingData = None,
    test: TestData = None,
    valid: ValidationData = None,
    folds: Folds = None,
    repetitions: Annotated[
        int, typer.Option(help="Fits of each pair of values in each fold, with different seeds.")
    ] = 5,
    replicates: Annotated[
        str,
        typer.Option(
            help="What repeats a measurement: 'all' fits, 'repetitions' (mean over folds), 'folds' (mean over "
            "repetitions)."
        ),
    ] = "all",
    measure: MeasureText = "ndcg@10",
    level: Annotated[float, typer.Option(help="What p values are compared with.")] = 0.05,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the value of every fit.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the tables as a page.")
    ] = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Tell apart what two parameters, their interaction and chance do to a measure.

    A two-factor factorial design with replication: effects, interactions, allocation of variation, ANOVA.

    Example: rankwood factorial --folds MQ2008 --model BROOF:n_rounds=20 --factor loss=absolute,gradient
    --factor validation=oob,train --repetitions 5
    """
    from rankwood.evaluation.factorial_design import factorial_design

    refuse_other_files("--csv", csv, (".csv",))
    refuse_other_files("--html", html, (".html", ".htm"))
    (ranker,) = estimators_of([model]).values()
    factors = _factors(kind_of(model), factor)
    parts = read_parts(data, valid, test, folds, reading)
    with printing.training("fits", "", reading.quiet) as progress:
        result = factorial_design(
            ranker,
            factors,
            parts,
            measure=measure,
            repetitions=repetitions,
            replicates=replicates,
            level=level,
            n_threads=reading.options["n_threads"],
            progress=progress,
        )
    if csv is not None:
        result.write_csv(csv)
    if html is not None:
        result.write_html(html)
    if as_json:
        printing.show_json(result.to_dict())
    else:
        printing.say(str(result))


def _factors(kind: str, texts: list[str]) -> dict[str, list[Any]]:
    """Two parameters with their values, read as those of ``rankwood train`` are."""
    from rankwood.cli import parameters

    if len(texts) != 2:
        raise ParameterError(f"a design has two factors, got {len(texts)}: give --factor twice.")
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not values:
            raise ParameterError(
                f"--factor must be written as parameter=value,value; got '{text}'."
            )
        if name in found:
            raise ParameterError(f"--factor {name} is given twice.")
        found[name] = [
            parameters.read(kind, {name: value.strip()})[name] for value in values.split(",")
        ]
    return found
