"""``rankwood evaluate`` and ``rankwood compare``: measures of one ranking, and of several on the same queries.

``evaluate`` gives values with intervals and conventions; it takes a model, scores, or a TREC run with its qrels.
``compare`` takes models, scores and TREC runs, tests their differences, and may write the page of ``rankwood report``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import (
    DATA_FORMATS,
    Json,
    Level,
    OnOverlap,
    Outputs,
    Reading,
    Seed,
    argument,
    data_option,
    features_of_all,
    file_option,
    option,
    switch,
    tell_of_overlap,
    typed_again,
    with_reading_options,
)
from rankwood.errors import DataError, ParameterError, counted

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.dtypes import Array
    from rankwood.evaluation.compare import SystemComparison
    from rankwood.evaluation.evaluate import Evaluation

_DEFAULT_MEASURES = ["ndcg@10", "map", "err@10"]
_DEFAULT_TESTS = ["t", "wilcoxon", "randomization"]


@with_reading_options
def evaluate_command(
    scores: Annotated[
        str,
        argument(
            "MODEL_OR_SCORES",
            "A model file; or scores in the order of DATA's rows, as rankwood score writes them "
            "(TSV, Parquet, numbers); or a TREC run file.",
        ),
    ],
    data: Annotated[
        list[str], argument("DATA...", f"{DATA_FORMATS}; for a TREC run file its qrels.")
    ],
    *,
    measure: Annotated[
        list[str] | None,
        option(
            "Such as ndcg@10, 'ndcg@5\\[gain=linear,empty=1]', map, p@5; may be repeated. auc, pauc, rmse are of all "
            "documents together, 'rmse\\[over=queries]' is a mean over queries.",
            "--measure",
            "-m",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        option(
            "Conventions of: letor3, letor4, mslr, lightgbm, xgboost, trec_eval, sklearn, yahoo."
        ),
    ] = None,
    by: Annotated[
        str | None,
        option(
            "A row per value of this column, which must be the same for all rows of a query.",
            metavar="COLUMN",
        ),
    ] = None,
    complete: Annotated[
        bool,
        switch(
            "--complete",
            "TREC run: count queries that the run does not answer, as trec_eval -c.",
            "-c",
        ),
    ] = False,
    condense: Annotated[
        bool,
        switch(
            "--condense",
            "TREC run: remove documents without judgment, instead of taking them as not relevant.",
        ),
    ] = False,
    per_query: Annotated[
        Path | None, file_option("Also write every query's values to FILE (tab-separated).")
    ] = None,
    trained_on: Annotated[
        list[str] | None,
        data_option("The training data: are queries or documents of DATA among them?"),
    ] = None,
    on_overlap: OnOverlap = None,
    bootstrap: Annotated[
        int, option("Resamples of the queries for the 95 % interval.", min=1)
    ] = 10_000,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Measure a ranking: value, bootstrap 95 % interval, queries, empty queries, conventions.

    Example: rankwood evaluate rf.rankwood test.txt.gz -m ndcg@10 -m map

    Example: rankwood evaluate run.trec qrels.txt --preset trec_eval -m ndcg@10
    """
    from rankwood.data.reading import is_run_file
    from rankwood.data.scores import read_scores_of
    from rankwood.evaluation.evaluate import evaluate
    from rankwood.models.format import is_model_file

    options: dict[str, Any] = {"preset": preset, "n_bootstrap": bootstrap, "seed": seed}
    is_model = is_model_file(scores)
    if not is_model and is_run_file(scores):
        values, judged_data, more = _read_run(scores, data, by, complete, condense, reading.quiet)
        options |= more
    elif complete or condense:
        raise ParameterError("--complete and --condense are for TREC run files.")
    elif is_model:
        from rankwood.rankers.save import features_of, load  # heavy: only models need it

        model = load(scores)
        judged_data, options["by"] = read_data(data, by, reading, features_of(model))
        values = model.predict(judged_data)
    else:
        _refuse_missing_scores(scores, data)
        judged_data, options["by"] = read_data(data, by, reading)
        values = read_scores_of(scores, judged_data)
    _look_for_overlap(judged_data, trained_on, on_overlap, reading)
    result = evaluate(values, judged_data, measure or _DEFAULT_MEASURES, **options)
    if per_query is not None:
        _write_per_query(result, judged_data, per_query)
    Outputs(as_json=as_json).show(result)


def _look_for_overlap(
    data: RankingData, trained_on: list[str] | None, rule: str | None, reading: Reading
) -> None:
    """Say which queries and documents are in the training data too, where these are named."""
    if not trained_on:
        if rule is not None:
            raise ParameterError(
                "--on-overlap needs the training data: name them with --trained-on."
            )
        return
    if data.n_features == 0:
        raise ParameterError(
            "--trained-on compares features, which a TREC run and its qrels have not."
        )
    from rankwood.data.reading import ModelFeatures

    columns = ModelFeatures(data.n_features, data.feature_names)
    parts = (data, reading(trained_on, model=columns))
    tell_of_overlap(rule, parts, ("test", "training"), reading.quiet)


def _refuse_missing_scores(scores: str, data: Sequence[str]) -> None:
    """Say what is wrong with SCORES before the data are read, which may take long."""
    from rankwood.data.sources import refuse_what_is_no_file

    if scores == "-" and "-" in data:
        raise ParameterError("SCORES and DATA cannot both be standard input; name one of them.")
    if scores != "-":
        refuse_what_is_no_file(Path(scores))


def read_data(
    paths: Sequence[str], by: str | None, reading: Reading, model: Any = None
) -> tuple[RankingData, Any]:
    """The data, with the features of ``model`` if it is known, and the segment of each row if ``by`` is a column."""
    from rankwood.data.sources import find_inputs, is_table

    if by is not None and is_table(find_inputs(paths)[0].path):
        from rankwood.data.table_files import read_column

        segments = read_column(paths, by)
        return reading(paths, model=model, drop=(*reading.options["drop"], by)), segments
    data = reading(paths, model=model)
    return data, None if by is None else _feature(data, by)


def _feature(data: RankingData, name: str) -> Array:
    """The feature that stands for a segment."""
    from rankwood.errors import UnknownName

    if name not in data.names:
        raise UnknownName("feature", name, data.names)
    return data.features[:, data.names.index(name)]


def _read_run(
    run_path: str,
    qrels_paths: Sequence[str],
    by: str | None,
    complete: bool,
    condense: bool,
    quiet: bool,
) -> tuple[Array, RankingData, dict[str, Any]]:
    """Scores and judged documents of a run, and what ``evaluate`` must know of them."""
    from rankwood.data.scores import judge_run, read_qrels, read_run

    if by is not None:
        raise ParameterError("--by needs a column of the data; a run and its qrels have none.")
    if len(qrels_paths) > 1:
        raise ParameterError("a TREC run is evaluated on one file of qrels.")
    run, qrels = read_run(run_path), read_qrels(qrels_paths[0])
    judged = judge_run(run, qrels, complete=complete)
    if not quiet:
        _tell_of_queries(judged.missing_queries, judged.unjudged_queries, complete)
    more = {
        "judged": judged.judged,
        "retrieved": judged.retrieved,
        "unjudged": "condense" if condense else "as_zero",
    }
    return judged.scores, judged.data, more


def _tell_of_queries(missing: tuple[str, ...], unjudged: tuple[str, ...], complete: bool) -> None:
    if missing:
        what = "counted as answered by nothing" if complete else "left out; --complete counts them"
        printing.notice(
            f"{_are(missing, 'of the qrels')} not in the run (such as {missing[0]}): {what}"
        )
    if unjudged:
        printing.notice(
            f"{_are(unjudged, 'of the run')} not in the qrels (such as {unjudged[0]}): left out"
        )


def _are(queries: tuple[str, ...], of: str) -> str:
    return f"{counted(len(queries), 'query')} {of} {'is' if len(queries) == 1 else 'are'}"


def _write_per_query(result: Evaluation, data: RankingData, path: Path) -> None:
    """A line per query; an empty field where a measure leaves the query out."""
    from rankwood._core.files import atomic_path, explained_writing

    names = [
        str(row.measure.over_queries) for row in result
    ]  # of a pooled measure, each query's own
    columns = [row.per_query.tolist() for row in result]
    lines = ["\t".join(["query", *names])]
    for number, query in enumerate(data.queries.tolist()):
        values = (column[number] for column in columns)
        lines.append(
            "\t".join([str(query), *("" if math.isnan(value) else repr(value) for value in values)])
        )
    with explained_writing(path), atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n")


@with_reading_options
def compare_command(
    context: typer.Context,
    systems: Annotated[
        list[str],
        argument(
            "MODEL_OR_SCORES...",
            "Two or more: model files, scores in the order of DATA's rows, as rankwood score writes them "
            "(TSV, Parquet, numbers), or TREC run files.",
        ),
    ],
    *,
    data: Annotated[
        list[str],
        data_option(f"{DATA_FORMATS}; with labels; or qrels, if all systems are TREC runs."),
    ],
    measure: Annotated[
        list[str] | None,
        option("Such as ndcg@10 or map; may be repeated. The first decides.", "--measure", "-m"),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        option(
            "The model or score file that the others are compared with; the best by default. May be repeated: the "
            "strongest of these by each measure.",
            metavar="NAME",
        ),
    ] = None,
    preset: Annotated[str | None, option("Conventions, as for rankwood evaluate.")] = None,
    by: Annotated[
        str | None,
        option(
            "A table per value of this column, which must be the same for all rows of a query.",
            metavar="COLUMN",
        ),
    ] = None,
    tests: Annotated[
        list[str] | None,
        option("t, wilcoxon or randomization; may be repeated. All by default."),
    ] = None,
    test: Annotated[
        str | None,
        option(
            "Which of the tests decides what is significant, and gives the interval; the first by default.",
            metavar="TEST",
        ),
    ] = None,
    correction: Annotated[
        str, option("For several comparisons: holm, bonferroni or none.")
    ] = "holm",
    level: Level = 0.05,
    margin: Annotated[
        float | None,
        option(
            "The largest difference that counts as none: adds tests of equivalence, such as 0.01.",
        ),
    ] = None,
    across_measures: Annotated[
        bool, switch("--across-measures", "Correct over the comparisons by all measures together.")
    ] = False,
    resamples: Annotated[
        int, option("Draws of random signs, and resamples of the queries.", min=1)
    ] = 10_000,
    queries: Annotated[
        int, option("How many of the queries that changed most to show.", min=0)
    ] = 10,
    csv: Annotated[Path | None, file_option("Also write the tests, numbers in full.")] = None,
    html: Annotated[
        Path | None, file_option("Also write a page to explore, query by query.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Compare models or scores on the same queries: values, differences, tests, and what changed.

    Example: rankwood compare old.rankwood new.rankwood --data test.txt.gz --baseline old.rankwood

    Example: rankwood compare bm25.txt new.rankwood --data test.parquet -m ndcg@10 -m map --html comparison.html

    Example: rankwood compare bm25.run dense.run --data qrels.txt --preset trec_eval
    """
    from rankwood.evaluation.compare import compare

    outputs = Outputs(csv=csv, html=html, as_json=as_json)
    names = _names(systems)
    baselines = [_baseline(given, names) for given in baseline or ()]
    against = baselines[0] if len(baselines) == 1 else baselines or None
    loaded = {name: _model(path) for name, path in names.items()}
    judged_data, segments, judged = _judged(data, by, reading, loaded)
    result = compare(
        {name: _scores(names[name], model, judged_data) for name, model in loaded.items()},
        judged_data,
        measure or _DEFAULT_MEASURES,
        baseline=against,
        preset=preset,
        n_threads=reading.options["n_threads"],
        by=segments,
        tests=tests or _DEFAULT_TESTS,
        test=test,
        correction=correction,
        level=level,
        margin=margin,
        across_measures=across_measures,
        n_resamples=resamples,
        n_bootstrap=resamples,
        n_changed=queries,
        judged=judged,
        seed=seed,
    )
    repeated = typed_again(context, ("csv", "html", "as_json", "queries", "quiet"))
    drawn = {"resamples": resamples, "seed": seed}
    outputs.show(
        result,
        csv=result.write_csv,
        html=lambda page: _write_report(result, judged_data, page, against, repeated, drawn),
    )


def _judged(
    paths: Sequence[str], by: str | None, reading: Reading, loaded: dict[str, Any]
) -> tuple[RankingData, Any, Array | None]:
    """The labelled documents, their segments, and which of them are judged: of data, or of the qrels of runs."""
    from rankwood.data.reading import is_qrels_file
    from rankwood.data.scores import Run, judge_runs, read_qrels

    path = paths[0]
    if len(paths) > 1 or path == "-" or not Path(path).is_file() or not is_qrels_file(path):
        known = features_of_all(model for model in loaded.values() if hasattr(model, "predict"))
        return *read_data(paths, by, reading, known), None
    others = [name for name, system in loaded.items() if not isinstance(system, Run)]
    if others:
        raise DataError(
            f"{path} are qrels, which say nothing of features and rows: they go with TREC runs, and {others[0]} is "
            "none. Pass the labelled data as --data."
        )
    if by is not None:
        raise ParameterError("--by needs a column of the data; runs and their qrels have none.")
    qrels = read_qrels(path)
    pooled = judge_runs(list(loaded.values()), qrels)
    if not reading.quiet:
        _tell_of_queries(pooled.missing_queries, pooled.unjudged_queries, complete=False)
        _tell_of_unanswered(loaded, pooled.data)
    return pooled.data, None, pooled.judged


def _tell_of_unanswered(runs: dict[str, Any], data: RankingData) -> None:
    """Say which runs lack queries that others answer."""
    wanted = {str(query) for query in data.queries.tolist()}
    for name, run in runs.items():
        lacking = wanted - set(run.query_ids.tolist())
        if lacking:
            printing.notice(
                f"{name} does not answer {len(lacking):,} of {len(wanted):,} queries (such as {min(lacking)}): counted "
                "as answered by nothing"
            )


def _names(paths: Sequence[str]) -> dict[str, str]:
    """What the systems are called: file names, or whole paths where file names are alike."""
    if len(paths) < 2:
        raise ParameterError(
            "compare needs two models or score files, or more, before --data. For one: rankwood evaluate."
        )
    for path in paths:
        if list(paths).count(path) > 1:
            raise ParameterError(f"{path} is given twice; a system is not compared with itself.")
    names = [Path(path).name for path in paths]
    return {
        path if names.count(name) > 1 else name: path
        for name, path in zip(names, paths, strict=True)
    }


def _baseline(given: str, names: dict[str, str]) -> str:
    """The name of the system that --baseline gives by its name or path."""
    from rankwood._core import checks

    for name, path in names.items():
        if given in (name, path, Path(path).stem):
            return name
    return checks.one_of("baseline", given, names)


def _model(path: str) -> Any:
    """The model in a file, or the TREC run; None where it holds scores."""
    from rankwood.data.reading import is_run_file
    from rankwood.data.sources import refuse_what_is_no_file
    from rankwood.models.format import is_model_file

    if path == "-":
        raise ParameterError("compare reads files: standard input cannot be one of its systems.")
    if is_model_file(path):
        from rankwood.rankers.save import load  # heavy: only models need it

        return load(path)
    refuse_what_is_no_file(Path(path))
    if is_run_file(path):
        from rankwood.data.scores import read_run

        return read_run(path)
    return None


def _scores(path: str, model: Any, data: RankingData) -> Any:
    if model is not None:
        return model
    from rankwood.data.scores import read_scores_of

    return read_scores_of(path, data)


def _write_report(
    result: SystemComparison,
    data: RankingData,
    path: Path,
    baseline: str | Sequence[str] | None,
    command: str,
    drawn: dict[str, int],
) -> None:
    """The page of ``rankwood report``, for one fold and one repetition."""
    from rankwood import __version__
    from rankwood.experiments.report import write_report
    from rankwood.experiments.results import run_results

    record = {
        "repeat": command,
        "versions": {"rankwood": __version__},
        "documents": data.n_documents,
        "queries": data.n_queries,
    }
    name = " and ".join(result.systems) if len(result.systems) < 4 else "Comparison"
    write_report(
        run_results(result, data, name=name, record=record, baseline=baseline, **drawn), path
    )
