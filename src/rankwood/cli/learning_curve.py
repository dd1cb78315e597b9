"""``rankwood learning-curve``: what rankers make of growing shares of the training queries."""

from __future__ import annotations

from typing import Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.fits import (
    Folds,
    MeasureText,
    Models,
    TestData,
    TrainingData,
    ValidationData,
    estimators_of,
    read_parts,
    refuse_other_files,
)
from rankwood.cli.options import Csv, Json, Plot, Reading, Seed, with_reading_options
from rankwood.errors import ParameterError
from rankwood.evaluation.stacked_bars import PLOTS


@with_reading_options
def command(
    *,
    model: Models,
    data: TrainingData = None,
    test: TestData = None,
    valid: ValidationData = None,
    folds: Folds = None,
    measure: MeasureText = "ndcg@10",
    steps: Annotated[
        int, typer.Option(min=1, max=1000, help="How many shares: 10 are 10 %, 20 %, … 100 %.")
    ] = 10,
    share: Annotated[
        list[float] | None,
        typer.Option(help="A share of the training queries instead; may be repeated."),
    ] = None,
    repetitions: Annotated[
        int, typer.Option(help="How often the queries are drawn, in each fold.")
    ] = 1,
    plot: Plot = None,
    csv: Csv = None,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show a measure on test data by share of the training queries.

    Samples are nested, and the same for all models: 20 % hold the 10 %.

    Example: rankwood learning-curve --folds MQ2008 --model RandomForest --model LambdaMART --repetitions 3 --plot c.svg
    """
    from rankwood.evaluation.learning_curve import learning_curve

    refuse_other_files("--plot", plot, PLOTS)
    refuse_other_files("--csv", csv, (".csv",))
    if share and steps != 10:
        raise ParameterError("--steps and --share both say which shares: give one of them.")
    rankers = estimators_of(model)
    parts = read_parts(data, valid, test, folds, reading)
    with printing.training("fits", "", reading.quiet) as progress:
        curve = learning_curve(
            rankers,
            parts,
            measure=measure,
            shares=sorted(share) if share else [step / steps for step in range(1, steps + 1)],
            repetitions=repetitions,
            seed=seed,
            n_threads=reading.options["n_threads"],
            progress=progress,
        )
    if csv is not None:
        curve.write_csv(csv)
    if plot is not None:
        curve.plot(plot)
    if as_json:
        printing.show_json(curve.to_dict())
    else:
        printing.say(str(curve))
