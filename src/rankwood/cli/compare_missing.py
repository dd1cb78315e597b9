"""``rankwood compare-missing``: every treatment of missing values on a user's data. Imported only when it is called."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import typer

from rankwood.cli import parameters, printing
from rankwood.cli.options import Csv, Json, Reading, refuse_other_files, with_reading_options
from rankwood.data.folds import same_width
from rankwood.errors import UnknownName
from rankwood.prepare.missing import TREATMENTS, PredictMissing
from rankwood.rankers.save import estimators
from rankwood.studies.missing import compare_missing

# What the comparison decides itself.
_LEFT_OUT = ("measure", "missing")


@functools.partial(parameters.with_parameters, left_out=_LEFT_OUT)
@with_reading_options
def command(
    *,
    data: Annotated[str, typer.Option(metavar="FILE", help="Training data, with missing values.")],
    test: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Test data. Without them, the queries of --data are dealt into folds.",
        ),
    ] = None,
    model: Annotated[str, typer.Option(help=f"One of {', '.join(estimators())}.")] = "RandomForest",
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="What is compared, such as ndcg@10 or map.")
    ] = "ndcg@10",
    treatment: Annotated[
        list[str] | None,
        typer.Option(help=f"Some of {', '.join(TREATMENTS)}; may be repeated. All by default."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of queries, without --test.")] = 5,
    predict_trees: Annotated[
        int, typer.Option(min=1, help="Treatment predict: trees of each feature's forest.")
    ] = 10,
    predict_sweeps: Annotated[
        int, typer.Option(min=1, help="Treatment predict: most sweeps over the features.")
    ] = 5,
    bootstrap: Annotated[
        int, typer.Option(min=1, help="Resamples of the queries for the 95 % intervals.")
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
    if model not in estimators():
        raise UnknownName("model", model, estimators())
    values = parameters.read(model, given) | {"n_threads": reading.options["n_threads"]}
    ranker = estimators()[model](**values)
    refuse_other_files("--csv", csv, (".csv",))
    train = reading(data)
    held_out = None if test is None else reading(test)
    if held_out is not None and not (train.feature_names or held_out.feature_names):
        train, held_out = same_width((train, held_out), reading.options["absent"])
    step = PredictMissing(
        predict_trees, max_sweeps=predict_sweeps, seed=ranker.seed, n_threads=ranker.n_threads
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
            seed=ranker.seed,
            progress=progress,
        )
    printing.show_result(comparison, as_json, csv=csv)
