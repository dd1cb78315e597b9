"""``rankwood evaluate`` and ``rankwood compare``: measures of one ranking, and of several on the same queries.

``evaluate`` gives values with intervals and conventions; it takes a model, scores, or a TREC run with its qrels.
``compare`` takes models and scores, tests their differences, and may write the page of ``rankwood report``.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.options import (
    DATA_FORMATS,
    LABELLED_DATA,
    Json,
    Level,
    Outputs,
    Reading,
    Seed,
    argument,
    file_option,
    option,
    switch,
    with_reading_options,
)
from rankwood.errors import DataError, ParameterError

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.dtypes import Array
    from rankwood.evaluation.compare import SystemComparison
    from rankwood.evaluation.evaluate import Evaluation

_DEFAULT_MEASURES = ["ndcg@10", "map", "err@10"]
_DEFAULT_TESTS = ["wilcoxon", "t", "randomization"]


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
    data: Annotated[str, argument("DATA", f"{DATA_FORMATS}; for a TREC run file its qrels.")],
    *,
    measure: Annotated[
        list[str] | None,
        option(
            "Such as ndcg@10, 'ndcg@5\\[gain=linear,empty=1]', map, p@5; may be repeated.",
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
    bootstrap: Annotated[
        int, option("Resamples of the queries for the 95 % interval.", min=1)
    ] = 1000,
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
        from rankwood.rankers.save import load, n_features_of  # heavy: only models need it

        model = load(scores)
        judged_data, options["by"] = read_data(data, by, reading, n_features_of(model))
        values = model.predict(judged_data)
    else:
        _refuse_missing_scores(scores, data)
        judged_data, options["by"] = read_data(data, by, reading)
        values = read_scores_of(scores, judged_data)
    result = evaluate(values, judged_data, measure or _DEFAULT_MEASURES, **options)
    if per_query is not None:
        _write_per_query(result, judged_data, per_query)
    Outputs(as_json=as_json).show(result)


def _refuse_missing_scores(scores: str, data: str) -> None:
    """Say what is wrong with SCORES before the data are read, which may take long."""
    from rankwood.data.tables.files import refuse_what_is_no_file

    if scores == data == "-":
        raise ParameterError("SCORES and DATA cannot both be standard input; name one of them.")
    if scores != "-":
        refuse_what_is_no_file(Path(scores))


def read_data(
    path: str, by: str | None, reading: Reading, n_features: int | None = None
) -> tuple[RankingData, Any]:
    """The data, and the segment of each row if ``by`` names a column."""
    from rankwood.data.reading import is_table

    if by is not None and is_table(path):
        from rankwood.data.tables.files import read_column

        segments = read_column(path, by)
        return reading(path, drop=(*reading.options["drop"], by)), segments
    data = reading(path, n_features=n_features)
    return data, None if by is None else _feature(data, by)


def _feature(data: RankingData, name: str) -> Array:
    """The feature that stands for a segment."""
    from rankwood.errors import UnknownName

    if name not in data.names:
        raise UnknownName("feature", name, data.names)
    return data.features[:, data.names.index(name)]


def _read_run(
    run_path: str, qrels_path: str, by: str | None, complete: bool, condense: bool, quiet: bool
) -> tuple[Array, RankingData, dict[str, Any]]:
    """Scores and judged documents of a run, and what ``evaluate`` must know of them."""
    from rankwood.data.trec import judge_run, read_qrels, read_run

    if by is not None:
        raise ParameterError("--by needs a column of the data; a run and its qrels have none.")
    run, qrels = read_run(run_path), read_qrels(qrels_path)
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
            f"{len(missing):,} queries of the qrels are not in the run (such as {missing[0]}): {what}"
        )
    if unjudged:
        printing.notice(
            f"{len(unjudged):,} queries of the run are not in the qrels (such as {unjudged[0]}): left out"
        )


def _write_per_query(result: Evaluation, data: RankingData, path: Path) -> None:
    """A line per query; an empty field where a measure leaves the query out."""
    from rankwood._core.files import atomic_path, explained_writing

    names = [str(row.measure) for row in result]
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
    systems: Annotated[
        list[str],
        argument(
            "MODEL_OR_SCORES...",
            "Two or more: model files, or scores in the order of DATA's rows, as rankwood score writes them "
            "(TSV, Parquet, numbers).",
        ),
    ],
    *,
    data: Annotated[str, option(LABELLED_DATA, metavar="DATA")],
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
        option("wilcoxon, t or randomization; may be repeated. All by default."),
    ] = None,
    correction: Annotated[
        str, option("For several comparisons: holm, bonferroni or none.")
    ] = "holm",
    level: Level = 0.05,
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
    """
    from rankwood.evaluation.compare import compare

    outputs = Outputs(csv=csv, html=html, as_json=as_json)
    names = _names(systems)
    baselines = [_baseline(given, names) for given in baseline or ()]
    against = baselines[0] if len(baselines) == 1 else baselines or None
    loaded = {name: _model(path) for name, path in names.items()}
    judged_data, segments = read_data(data, by, reading, _widest(loaded))
    result = compare(
        {name: _scores(names[name], model, judged_data) for name, model in loaded.items()},
        judged_data,
        measure or _DEFAULT_MEASURES,
        baseline=against,
        preset=preset,
        by=segments,
        tests=tests or _DEFAULT_TESTS,
        correction=correction,
        level=level,
        n_changed=queries,
        seed=seed,
        n_threads=reading.options["n_threads"],
    )
    repeated = _repeated(systems, data, measure, baselines)
    outputs.show(
        result,
        csv=result.write_csv,
        html=lambda page: _write_report(result, judged_data, page, against, repeated),
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
    """The model in a file; None where it holds scores."""
    from rankwood.data.reading import is_run_file
    from rankwood.data.tables.files import refuse_what_is_no_file
    from rankwood.models.format import is_model_file

    if path == "-":
        raise ParameterError("compare reads files: standard input cannot be one of its systems.")
    if is_model_file(path):
        from rankwood.rankers.save import load  # heavy: only models need it

        return load(path)
    refuse_what_is_no_file(Path(path))
    if is_run_file(path):
        raise DataError(
            f"{path} is a TREC run, which may lack documents. compare takes model files and what rankwood score "
            "writes as TSV, Parquet or numbers; rankwood evaluate measures TREC runs."
        )
    return None


def _widest(loaded: dict[str, Any]) -> int | None:
    """The most features that a model knows; text may leave out the last ones."""
    models = [model for model in loaded.values() if model is not None]
    if not models:
        return None
    from rankwood.rankers.save import n_features_of

    return max(n_features_of(model) for model in models)


def _scores(path: str, model: Any, data: RankingData) -> Any:
    if model is not None:
        return model
    from rankwood.data.scores import read_scores_of

    return read_scores_of(path, data)


def _repeated(
    systems: Sequence[str], data: str, measures: Sequence[str] | None, baselines: Sequence[str]
) -> str:
    """The call, to be typed again."""
    arguments = ["rankwood", "compare", *systems, "--data", data]
    for measure in measures or ():
        arguments += ["-m", measure]
    for baseline in baselines:
        arguments += ["--baseline", baseline]
    return shlex.join(arguments)


def _write_report(
    result: SystemComparison,
    data: RankingData,
    path: Path,
    baseline: str | Sequence[str] | None,
    command: str,
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
    write_report(run_results(result, data, name=name, record=record, baseline=baseline), path)
