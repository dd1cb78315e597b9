"""``rankwood bias-variance``: how far rankers are off on average, and how much that depends on their training data."""

from __future__ import annotations

from typing import Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.fits import (
    Folds,
    Models,
    TestData,
    TrainingData,
    ValidationData,
    estimators_of,
    read_parts,
    refuse_other_files,
)
from rankwood.cli.options import Csv, Json, Plot, Reading, Seed, with_reading_options
from rankwood.evaluation.stacked_bars import PLOTS


@with_reading_options
def command(
    *,
    model: Models,
    data: TrainingData = None,
    test: TestData = None,
    valid: ValidationData = None,
    folds: Folds = None,
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
    csv: Csv = None,
    plot: Plot = None,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Take the error of rankers apart into bias² and variance.

    Each is trained several times on queries drawn with replacement; what counts is the order of pairs of documents.

    Example: rankwood bias-variance --data train.txt.gz --test test.txt.gz --model RandomForest --model LambdaMART
    """
    from rankwood.evaluation.bias_variance import bias_variance

    refuse_other_files("--csv", csv, (".csv",))
    refuse_other_files("--plot", plot, PLOTS)
    algorithms = estimators_of(model)
    parts = read_parts(data, valid, test, folds, reading)
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
    if csv is not None:
        result.write(csv)
    if plot is not None:
        result.write(plot)
    if as_json:
        printing.show_json(result.to_dict())
    else:
        printing.say(str(result))
