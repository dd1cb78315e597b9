"""Commands that study rankers: how their error, quality and cost depend on data, parameters and size.

``bias-variance``, ``learning-curve`` and ``factorial`` train rankers many times, ``convergence`` where asked to;
``best-sizes``, ``cost-curve`` and ``front`` look at a model file. Each command reads its data, calls a function of
``rankwood.studies``, and shows the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood._core.files import PLOTS
from rankwood.cli import printing
from rankwood.cli.options import (
    LABELLED_DATA,
    Csv,
    Folds,
    Json,
    LabelledFiles,
    Level,
    MeasureText,
    ModelFile,
    Models,
    Outputs,
    Plot,
    Reading,
    Seed,
    StoppingData,
    TestData,
    TrainingData,
    ValidationData,
    argument,
    data_option,
    estimators_of,
    features_of_all,
    file_option,
    folder_option,
    kind_of,
    option,
    read_alike,
    read_parts,
    split_outside_brackets,
    switch,
    with_reading_options,
)
from rankwood.errors import ParameterError

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.experiments.finished import RunFronts
    from rankwood.studies.sizes import Front, QualityCostCurve

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
    valid: StoppingData = None,
    folds: Folds = None,
    trainings: Annotated[
        int, option("Trainings of each model, in each fold, on resampled queries.")
    ] = 5,
    pairs: Annotated[
        str, option("Pairs of documents: 'different' labels, or 'all'.")
    ] = "different",
    ties: Annotated[str, option("Equal scores are 'half' above; 'strict': not above.")] = "half",
    max_pairs: Annotated[
        int, option("The most pairs of a query; of more, so many are drawn.")
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

    outputs = Outputs(csv=csv, plot=plot, as_json=as_json)
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
    outputs.show(result, csv=result.write, plot=result.plot)


@with_reading_options
def convergence_command(
    models: Annotated[
        list[str] | None, argument("MODEL...", "Model files, as rankwood train writes them.")
    ] = None,
    *,
    model: Annotated[
        list[str] | None,
        option(
            "Also a model that is trained now, on --data; may be repeated.",
            metavar="NAME:PARAMETERS",
        ),
    ] = None,
    data: TrainingData = None,
    valid: ValidationData = None,
    test: TestData = None,
    folds: Annotated[
        str | None,
        folder_option(
            "Train each --model in Fold1, Fold2, … instead, and show means over the folds."
        ),
    ] = None,
    measure: MeasureText = "ndcg@10",
    every: Annotated[
        int | None, option("Trees, rounds or layers from one point to the next.", min=1)
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

    Example: rankwood convergence --model BROOF --model GBRT --model AdaRank --folds MQ2008 --plot rounds.svg
    """
    from rankwood.studies.convergence import convergence

    outputs = Outputs(plot=plot, csv=csv, as_json=as_json)
    _refuse_contradictions(models or (), model or (), data, (data, valid, test), folds)
    named = unfitted = estimators_of(model or ())
    if folds is not None:
        parts = read_parts(data, valid, test, folds, reading)
    else:
        named = _loaded(models or (), unfitted)
        parts = _read_parts({"train": data, "valid": valid, "test": test}, named, reading)
        named |= {name: _fitted(name, ranker, parts, reading) for name, ranker in unfitted.items()}
    with printing.training("fits" if folds else "curves", "", reading.quiet) as progress:
        result = convergence(
            named,
            parts,
            measure,
            every=every,
            n_threads=reading.options["n_threads"],
            progress=progress,
        )
    outputs.show(result, csv=result.write_csv, plot=result.plot)


def _refuse_contradictions(
    models: Sequence[str],
    fits: Sequence[str],
    data: Sequence[str] | None,
    parts: Sequence[Sequence[str] | None],
    folds: str | None,
) -> None:
    if folds is not None:
        if models:
            raise ParameterError(
                f"--folds trains in every fold, and {models[0]} is trained already: name models with --model."
            )
        if not fits:
            raise ParameterError("name models to train in the folds with --model.")
        return
    if not models and not fits:
        raise ParameterError("name model files, or models to train with --model.")
    if not any(parts):
        raise ParameterError("name data to measure on: --data, --valid or --test.")
    if fits and not data:
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
    paths: Mapping[str, Sequence[str] | None], models: Mapping[str, Any], reading: Reading
) -> dict[str, RankingData]:
    """The parts that were named, all with the same features: those of the models, where there are any."""
    given = {part: files for part, files in paths.items() if files}
    known = features_of_all(models.values())
    changes = {} if known is None else {"model": known}
    return dict(zip(given, read_alike(list(given.values()), reading, **changes), strict=True))


def _fitted(name: str, ranker: Any, parts: Mapping[str, RankingData], reading: Reading) -> Any:
    from rankwood.studies.convergence import with_all_rounds

    with printing.training(name, str(getattr(ranker, "measure", "")), reading.quiet) as progress:
        ranker = with_all_rounds(ranker).set_params(
            n_threads=reading.options["n_threads"], progress=progress
        )
        ranker.fit(parts["train"], valid=parts.get("valid"))
    return ranker.set_params(progress=None)


@with_reading_options
def cost_curve_command(
    model: ModelFile,
    data: LabelledFiles,
    *,
    costs: Annotated[
        str | None,
        file_option(
            "A feature (name or number) and its cost per line; without it every feature costs 1."
        ),
    ] = None,
    measure: Annotated[str, option("Such as ndcg@10 or p@5.", "--measure", "-m")] = "ndcg@10",
    early_exit: Annotated[
        str,
        option(
            "Where the documents with the lowest scores leave, as every=100,drop=0.1,scope=query; none for "
            "a curve without exits.",
            metavar="EXITS",
        ),
    ] = "every=100,drop=0.1",
    every: Annotated[
        int | None, option("Trees from one line to the next; about 20 lines by default.", min=1)
    ] = None,
    path_costs: Annotated[
        bool,
        switch(
            "--path-costs",
            "Count the features a document meets on its own way, not all features of the trees it passes.",
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
    from rankwood.rankers.save import features_of, load
    from rankwood.studies.sizes import quality_cost_curve

    outputs = Outputs(csv=csv, plot=plot, as_json=as_json)
    exits = None if early_exit == "none" else EarlyExit.parse(early_exit)
    loaded = load(model)
    curve = quality_cost_curve(
        loaded,
        reading(data, model=features_of(loaded)),
        measure,
        costs=costs,
        exits=exits,
        every=every,
        cost="path" if path_costs else "all",
        n_threads=reading.options["n_threads"],
    )
    outputs.write(csv=curve.write_csv, plot=curve.plot)
    _show_points(curve, as_json)


def _show_points(result: QualityCostCurve | Front | RunFronts, as_json: bool) -> None:
    if as_json:
        printing.show_json(result.to_dict())
        return
    rows = result.table()
    printing.show_table(list(rows[0]), [list(row.values()) for row in rows], left=0)


@with_reading_options
def best_sizes_command(
    model: ModelFile,
    valid: Annotated[list[str], argument("VALID...", f"What sizes are chosen on. {LABELLED_DATA}")],
    *,
    test: Annotated[
        list[str] | None, data_option("Labelled data that are measured at the chosen sizes only.")
    ] = None,
    measure: Annotated[
        list[str] | None,
        option("Such as ndcg@10 or p@5; may be repeated.", "--measure", "-m"),
    ] = None,
    costs: Annotated[
        str | None,
        file_option(
            "A feature (name or number) and its cost per line; without it every feature costs 1."
        ),
    ] = None,
    early_exit: Annotated[
        str,
        option(
            "Where the documents with the lowest scores leave, as every=100,drop=0.1,scope=all; none: nowhere.",
            metavar="EXITS",
        ),
    ] = "none",
    every: Annotated[int, option("Look at every so many rounds, and at the last.", min=1)] = 1,
    out: Annotated[
        Path | None,
        file_option(
            "Write the model of the size that is best by the first measure.", "--out", "-o"
        ),
    ] = None,
    csv: Csv = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Choose the number of trees by each measure on validation data, and show what a document costs then.

    A model of trees is a model of every size. Train it without early stopping, so that no trees are discarded.

    Example: rankwood best-sizes gbrt.rankwood vali.txt.gz --test test.txt.gz -m ndcg@10 -m err -m rmse

    Example: rankwood best-sizes rf.rankwood vali.txt.gz -m p@5 -m auc --costs costs.tsv --early-exit
    every=100,drop=0.1,scope=all
    """
    from rankwood.models.early_exit import EarlyExit
    from rankwood.models.forest import Forest
    from rankwood.rankers.save import features_of, load, save
    from rankwood.studies.sizes import best_sizes

    outputs = Outputs(csv=csv, as_json=as_json)
    exits = None if early_exit == "none" else EarlyExit.parse(early_exit)
    loaded = load(model)
    parts = read_alike([valid, test] if test else [valid], reading, model=features_of(loaded))
    sizes = best_sizes(
        loaded,
        parts[0],
        measure or ["ndcg@10", "map", "err@10"],
        test=parts[1] if test else None,
        costs=costs,
        exits=exits,
        every=every,
        n_threads=reading.options["n_threads"],
    )
    if out is not None:
        best = next(iter(sizes))
        is_bare = isinstance(loaded, Forest)
        save(
            loaded.take_trees(slice(0, best.n_trees))
            if is_bare
            else loaded.truncated(best.n_rounds),
            out,
        )
        printing.notice(f"{out}: {best.n_rounds:,} rounds, the best by {best.measure}")
    outputs.show(sizes, csv=sizes.write_csv)


@with_reading_options
def factorial_command(
    run: Annotated[
        Path | None,
        argument(
            "RUN",
            "The folder of a finished run, as rankwood experiment writes it: nothing is fitted.",
        ),
    ] = None,
    *,
    model: Annotated[
        str | None,
        option("Such as BROOF, or BROOF:n_rounds=20,n_trees=10.", metavar="NAME:PARAMETERS"),
    ] = None,
    factor: Annotated[
        list[str],
        option(
            "A parameter of the model and the values to try; give two or more of them. Parameters that vary together "
            "are joined by +, as in validation+update_weights=oob,train or loss+n_rounds=absolute+500,gradient+100. "
            "Of a run, the name alone takes all values that its algorithms have.",
            metavar="PARAMETER=VALUE,…",
        ),
    ],
    where: Annotated[
        list[str] | None,
        option(
            "An exception, as loss=gradient:update_weights=none,n_rounds=100; may be repeated.",
            metavar="LEVELS:SETTINGS",
        ),
    ] = None,
    data: TrainingData = None,
    test: TestData = None,
    valid: StoppingData = None,
    folds: Folds = None,
    repetitions: Annotated[
        int,
        option(
            "Fits of each combination of values in each fold, with different seeds; their mean counts. A ranker "
            "that is not random is fitted once."
        ),
    ] = 5,
    replicates: Annotated[
        str,
        option(
            "What repeats a measurement: 'folds' are blocks, and repetitions are averaged; 'repetitions' (Sá 2016): "
            "folds are averaged, which tests against seeds on these folds alone."
        ),
    ] = "folds",
    order: Annotated[
        int | None,
        option(
            "Interactions of more factors than this share one row; all are told apart by default.",
            min=1,
        ),
    ] = None,
    measure: Annotated[
        str | None,
        option(
            "Such as ndcg@10 or map; ndcg@10 by default, of a run its primary one.",
            "--measure",
            "-m",
        ),
    ] = None,
    level: Level = 0.05,
    csv: Annotated[
        Path | None, file_option("Also write the value of every fit, with its fold and repetition.")
    ] = None,
    plot: Plot = None,
    html: Annotated[Path | None, file_option("Also write the tables as a page.")] = None,
    checkpoint: StudyCheckpoint = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Tell apart what parameters, their interactions and chance do to a measure.

    A full factorial design with folds as blocks: effects with intervals, interactions, shares of variation (η²), and
    an analysis of variance whose error is treatment × fold. One fold has no error term: effects and shares alone.

    Example: rankwood factorial --folds MQ2008 --model BROOF:n_rounds=20 --factor loss=absolute,gradient
    --factor validation=oob,train --repetitions 5 --plot effects.png

    Example: rankwood factorial runs/broof-table-6.3 --factor loss --factor validation

    Example: rankwood factorial runs/broof-table-6.3 --factor loss --factor validation --replicates repetitions
    """
    outputs = Outputs(csv=csv, plot=plot, html=html, as_json=as_json)
    if run is not None:
        fits = {
            "--model": model,
            "--data": data,
            "--test": test,
            "--valid": valid,
            "--folds": folds,
        }
        _refuse_fits(fits | {"--where": where, "--checkpoint": checkpoint})
        from rankwood.experiments.finished import factorial_of_run

        result = factorial_of_run(
            run,
            _factors_of_run(factor),
            measure,
            replicates=replicates,
            order=order,
            level=level,
        )
        outputs.show(result, csv=result.write_csv, plot=result.plot, html=result.write_html)
        return
    from rankwood.studies.factorial import factorial_design

    if model is None:
        raise ParameterError("name a model to fit with --model, or the folder of a finished run.")
    (ranker,) = estimators_of([model]).values()
    kind = kind_of(model)
    factors = _factors(kind, factor)
    exceptions = [_exception(kind, text) for text in where or ()]
    parts = read_parts(data, valid, test, folds, reading)
    with printing.training("fits", "", reading.quiet) as progress:
        result = factorial_design(
            ranker,
            factors,
            parts,
            measure=measure or "ndcg@10",
            where=exceptions,
            repetitions=repetitions,
            replicates=replicates,
            order=order,
            level=level,
            n_threads=reading.options["n_threads"],
            progress=progress,
            checkpoint=checkpoint,
        )
    outputs.show(result, csv=result.write_csv, plot=result.plot, html=result.write_html)


def _refuse_fits(options: Mapping[str, Any]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise ParameterError(f"a finished run is not fitted again: leave out {', '.join(given)}.")


def _factors(kind: str, texts: list[str]) -> dict[str | tuple[str, ...], list[Any]]:
    """Parameters with their values, read as those of ``rankwood train`` are; coupled ones by a tuple of names."""
    if len(texts) < 2:
        raise ParameterError(
            f"a design has two factors or more, got {len(texts)}: give --factor twice."
        )
    factors: dict[str | tuple[str, ...], list[Any]] = {}
    for text in texts:
        names, equals, values = text.partition("=")
        parameters = tuple(_parameter_name(name) for name in names.split("+"))
        if not equals or not values:
            raise ParameterError(
                f"--factor must be written as parameter=value,value; got '{text}'."
            )
        key = parameters[0] if len(parameters) == 1 else parameters
        if key in factors:
            raise ParameterError(f"--factor {names.strip()} is given twice.")
        factors[key] = [_level(kind, parameters, value) for value in split_outside_brackets(values)]
    return factors


def _level(kind: str, parameters: tuple[str, ...], text: str) -> Any:
    """The value of a parameter; of coupled ones their common value, or as many values joined by +."""
    values = text.split("+") if len(parameters) > 1 else [text]
    if len(values) not in (1, len(parameters)):
        raise ParameterError(
            f"a level of {'+'.join(parameters)} is one value, or {len(parameters)} joined by +; got '{text}'."
        )
    read = [
        _settings(kind, {name: value})[name]
        for name, value in zip(parameters, values, strict=False)
    ]
    return tuple(read) if len(read) > 1 else read[0]


def _settings(kind: str, texts: Mapping[str, str]) -> dict[str, Any]:
    from rankwood.cli import parameters

    return parameters.read(kind, {name: value.strip() for name, value in texts.items()})


def _parameter_name(text: str) -> str:
    return text.strip().replace("-", "_")


def _exception(kind: str, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Levels, and what is set where a cell has them, from ``loss=gradient:n_rounds=100``."""
    halves = text.split(":")
    pairs = [[pair.split("=", 1) for pair in split_outside_brackets(half)] for half in halves]
    if len(halves) != 2 or any(len(pair) != 2 for half in pairs for pair in half):
        raise ParameterError(
            f"--where must be written as parameter=level:parameter=value,parameter=value; got '{text}'."
        )
    levels, settings = (
        _settings(kind, {_parameter_name(name): value for name, value in half}) for half in pairs
    )
    return levels, settings


def _factors_of_run(texts: list[str]) -> dict[str, list[str]]:
    """Names of parameters, with the levels to take; none stands for all."""
    factors: dict[str, list[str]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if _parameter_name(name) in factors:
            raise ParameterError(f"--factor {name.strip()} is given twice.")
        levels = [value.strip() for value in values.split(",") if value.strip()]
        plain = {"none": "None", "true": "True", "false": "False"}
        factors[_parameter_name(name)] = [plain.get(value.lower(), value) for value in levels]
    return factors


@with_reading_options
def front_command(
    model: Annotated[
        str,
        argument(
            "MODEL",
            "A BoostingTree or another boosted ranker, as rankwood train writes it; or the folder of a run whose file "
            "says fronts = true.",
        ),
    ],
    *,
    data: Annotated[
        list[str] | None, data_option("Labelled data to measure the models on as well.")
    ] = None,
    every_length: Annotated[
        bool,
        switch(
            "--every-length",
            "A line for every number of trees, not only where a longer model is better.",
        ),
    ] = False,
    plot: Plot = None,
    max_trees: Annotated[
        int | None, option("With --out: the most trees of the model that is written.", min=0)
    ] = None,
    out: Annotated[
        Path | None,
        file_option("Write the best model of at most --max-trees trees.", "--out", "-o"),
    ] = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show what each further tree buys: the best models of a search or of boosting, by their number of trees.

    Models were chosen in training, on the validation data where there were any; --data is only measured on. Of a run
    the mean over its test parts is shown for every boosted ranker; --json also has the rounds of every search.

    Example: rankwood front search.rankwood --data test.txt.gz --plot front.svg

    Example: rankwood front search.rankwood --max-trees 20 --out small.rankwood

    Example: rankwood front runs/table-3 --plot figure-9.svg
    """
    from rankwood.rankers.save import features_of, load, save
    from rankwood.studies.sizes import size_quality_front

    if plot is not None and plot.suffix.lower() not in PLOTS:
        raise ParameterError(f"--plot must end in {', '.join(PLOTS)}, got '{plot}'.")
    if max_trees is not None and out is None:
        raise ParameterError("--max-trees says which model --out writes: pass --out too.")
    if Path(model).is_dir():
        _show_run_fronts(model, data, out, every_length, plot, as_json)
        return
    loaded = load(model)
    further = reading(data, model=features_of(loaded)) if data else None
    front = size_quality_front(loaded, further, every_length=every_length)
    if plot is not None:
        front.plot(plot)
    if out is not None:
        save(_best_of_front(loaded, max_trees), out)
    if not as_json:
        printing.say(front.measure)
    _show_points(front, as_json)


def _best_of_front(model: Any, max_trees: int | None) -> Any:
    """The best model of at most so many trees."""
    from rankwood.studies.sizes import size_quality_front

    family = getattr(model, "family_", model)
    if hasattr(family, "best"):
        return family.model(family.best(max_trees))
    lengths = [point.n_trees for point in size_quality_front(model).points]
    allowed = [length for length in lengths if max_trees is None or length <= max_trees]
    return model.forest_.take_trees(slice(0, max(allowed, default=0)))


def _show_run_fronts(
    folder: str,
    data: Sequence[str] | None,
    out: Path | None,
    every_length: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """The curves of a run's boosted rankers."""
    from rankwood.experiments.finished import run_fronts

    given = {"--data": data or None, "--out": out, "--every-length": every_length or None}
    for name, value in given.items():
        if value is not None:
            raise ParameterError(
                f"{folder} is the folder of a run, which {name} has no meaning for. Pass the file of a model, such as "
                f"one under {folder}/models."
            )
    fronts = run_fronts(folder)
    if plot is not None:
        fronts.plot(plot)
    if not as_json:
        printing.say(fronts.measure)
    _show_points(fronts, as_json)


@with_reading_options
def learning_curve_command(
    *,
    model: Models,
    data: TrainingData = None,
    test: TestData = None,
    valid: StoppingData = None,
    folds: Folds = None,
    measure: MeasureText = "ndcg@10",
    steps: Annotated[
        int, option("How many shares: 10 are 10 %, 20 %, … 100 %.", min=1, max=1000)
    ] = 10,
    share: Annotated[
        list[float] | None,
        option("A share of the training queries instead; may be repeated."),
    ] = None,
    repetitions: Annotated[int, option("How often the queries are drawn, in each fold.")] = 1,
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

    outputs = Outputs(plot=plot, csv=csv, as_json=as_json)
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
    outputs.show(curve, csv=curve.write_csv, plot=curve.plot)
