"""``rankwood bias-variance``: how far rankers are off on average, and how much that depends on their training data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood._core.files import PLOTS
from rankwood.cli import printing
from rankwood.cli.options import (
    Csv,
    Folds,
    Json,
    MeasureText,
    Models,
    Plot,
    Reading,
    Seed,
    TestData,
    TrainingData,
    ValidationData,
    estimators_of,
    kind_of,
    read_parts,
    refuse_other_files,
    with_reading_options,
)
from rankwood.errors import ParameterError

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.studies.cost_curve import Front, QualityCostCurve

StudyCheckpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Keep the finished fits in FILE; a killed run goes on with them.",
    ),
]


@with_reading_options
def bias_variance_command(
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
    from rankwood.studies.bias_variance import bias_variance

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


# ``rankwood convergence``: a measure by tree, round or layer.


@with_reading_options
def convergence_command(
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
    from rankwood.studies.convergence import convergence

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
    from rankwood.rankers.save import load

    names = [*(Path(path).name for path in paths), *others]
    return {
        path if names.count(Path(path).name) > 1 else Path(path).name: load(path) for path in paths
    }


def _read_parts(
    paths: Mapping[str, str | None], models: Mapping[str, Any], reading: Reading
) -> dict[str, RankingData]:
    """The parts that were named, all with the same features, as many as the models know."""
    from rankwood.data.folds import same_width
    from rankwood.rankers.save import n_features_of

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


# ``rankwood cost-curve``: what each further tree of a model costs, and what it gives.


@with_reading_options
def cost_curve_command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file, as rankwood train writes it.")
    ],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="LETOR text, Parquet, CSV or Arrow, with labels.")
    ],
    *,
    costs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A feature (name or number) and its cost per line; without it every feature costs 1.",
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="Such as ndcg@10 or p@5.")
    ] = "ndcg@10",
    early_exit: Annotated[
        str,
        typer.Option(
            metavar="EXITS",
            help="Where the documents with the lowest scores leave, as every=100,drop=0.1,scope=query; none for "
            "a curve without exits.",
        ),
    ] = "every=100,drop=0.1",
    every: Annotated[
        int | None,
        typer.Option(min=1, help="Trees from one line to the next; about 20 lines by default."),
    ] = None,
    path_costs: Annotated[
        bool,
        typer.Option(
            "--path-costs",
            help="Count the features a document meets on its own way, not all features of the trees it passes.",
        ),
    ] = False,
    csv: Csv = None,
    plot: Plot = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show what a document costs and what the ranking is worth, by number of trees, with and without early exits.

    A document costs the summed cost of the features it needs, plus 1 per tree.

    Example: rankwood cost-curve rf.rankwood test.txt.gz --costs costs.tsv --measure p@5 --plot curve.png
    """
    from rankwood.models.early_exit import EarlyExit
    from rankwood.rankers.save import load, n_features_of
    from rankwood.studies.cost_curve import quality_cost_curve

    refuse_other_files("--csv", csv, (".csv",))
    refuse_other_files("--plot", plot, PLOTS)
    exits = None if early_exit == "none" else EarlyExit.parse(early_exit)
    loaded = load(model)
    curve = quality_cost_curve(
        loaded,
        reading(data, n_features=n_features_of(loaded)),
        measure,
        costs=costs,
        exits=exits,
        every=every,
        cost="path" if path_costs else "all",
        n_threads=reading.options["n_threads"],
    )
    if csv is not None:
        curve.write_csv(csv)
    if plot is not None:
        curve.plot(plot)
    _show_curve(curve, as_json)


def _show_curve(curve: QualityCostCurve, as_json: bool) -> None:
    rows = list(curve.rows())
    if as_json:
        printing.show_json({"measure": curve.measure, "points": rows})
        return
    names = ["trees", *(name.replace("value", curve.measure) for name in list(rows[0])[1:])]
    printing.show_table(
        names,
        [
            [
                f"{row['trees']:,.0f}",
                *(
                    f"{value:,.1f}" if name.startswith("cost") else f"{value:.4f}"
                    for name, value in list(row.items())[1:]
                ),
            ]
            for row in rows
        ],
        left=0,
    )


# ``rankwood factorial``: what two parameters of a ranker do, and whether they depend on each other.


@with_reading_options
def factorial_command(
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
    checkpoint: StudyCheckpoint = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Tell apart what two parameters, their interaction and chance do to a measure.

    A two-factor factorial design with replication: effects, interactions, allocation of variation, ANOVA.

    Example: rankwood factorial --folds MQ2008 --model BROOF:n_rounds=20 --factor loss=absolute,gradient
    --factor validation=oob,train --repetitions 5
    """
    from rankwood.studies.factorial import factorial_design

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
            checkpoint=checkpoint,
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


# ``rankwood front``: the best models of a search by their number of trees.


@with_reading_options
def front_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A BoostingTree, as rankwood train --model BoostingTree writes it.",
        ),
    ],
    *,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Labelled data to measure the models on as well."),
    ] = None,
    every_length: Annotated[
        bool,
        typer.Option(
            "--every-length",
            help="A line for every number of trees, not only where a longer model is better.",
        ),
    ] = False,
    plot: Plot = None,
    max_trees: Annotated[
        int | None,
        typer.Option(min=0, help="With --out: the most trees of the model that is written."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write the best model of at most --max-trees trees."
        ),
    ] = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show what each further tree buys: the best models of a search, by their number of trees.

    Models were chosen in training, on the validation data where there were any; --data is only measured on.

    Example: rankwood front search.rankwood --data test.txt.gz --plot front.svg

    Example: rankwood front search.rankwood --max-trees 20 --out small.rankwood
    """
    from rankwood.rankers.save import load, n_features_of, save
    from rankwood.studies.cost_curve import size_quality_front

    if plot is not None and plot.suffix.lower() not in PLOTS:
        raise ParameterError(f"--plot must end in {', '.join(PLOTS)}, got '{plot}'.")
    if max_trees is not None and out is None:
        raise ParameterError("--max-trees says which model --out writes: pass --out too.")
    loaded = load(model)
    further = None if data is None else reading(data, n_features=n_features_of(loaded))
    front = size_quality_front(loaded, further, every_length=every_length)
    if plot is not None:
        front.plot(plot)
    if out is not None:
        family = getattr(loaded, "family_", loaded)
        save(family.model(family.best(max_trees)), out)
    _show_front(front, as_json)


def _show_front(front: Front, as_json: bool) -> None:
    if as_json:
        printing.show_json({"measure": front.measure, "points": list(front.rows())})
        return
    printing.say(front.measure)
    rows = [
        [
            f"{row['trees']:,.0f}",
            *(f"{value:.4f}" for name, value in row.items() if name != "trees"),
        ]
        for row in front.rows()
    ]
    printing.show_table(list(front.columns), rows, left=0)


# ``rankwood learning-curve``: what rankers make of growing shares of the training queries.


@with_reading_options
def learning_curve_command(
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
    checkpoint: StudyCheckpoint = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show a measure on test data by share of the training queries.

    Samples are nested, and the same for all models: 20 % hold the 10 %.

    Example: rankwood learning-curve --folds MQ2008 --model RandomForest --model LambdaMART --repetitions 3 --plot c.svg
    """
    from rankwood.studies.learning_curve import learning_curve

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
            checkpoint=checkpoint,
        )
    if csv is not None:
        curve.write_csv(csv)
    if plot is not None:
        curve.plot(plot)
    if as_json:
        printing.show_json(curve.to_dict())
    else:
        printing.say(str(curve))
