"""``rankwood compare``: two or more models or score files on one data set."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.evaluate import read_data
from rankwood.cli.fits import refuse_other_files
from rankwood.cli.options import Json, Reading, Seed, with_reading_options
from rankwood.errors import DataError, ParameterError

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.evaluation.compare_results import SystemComparison

_DEFAULT_MEASURES = ["ndcg@10", "map", "err@10"]
_TESTS = ["wilcoxon", "t", "randomization"]


@with_reading_options
def command(
    systems: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL_OR_SCORES...",
            help="Two or more: model files, or scores in the order of DATA's rows, as rankwood score writes them "
            "(TSV, Parquet, numbers).",
        ),
    ],
    *,
    data: Annotated[
        str, typer.Option(metavar="DATA", help="LETOR text, Parquet, CSV or Arrow, with labels.")
    ],
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure", "-m", help="Such as ndcg@10 or map; may be repeated. The first decides."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The model or score file that the others are compared with; the best by default.",
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Conventions, as for rankwood evaluate.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A table per value of this column, which must be the same for all rows of a query.",
        ),
    ] = None,
    tests: Annotated[
        list[str] | None,
        typer.Option(help="wilcoxon, t or randomization; may be repeated. All by default."),
    ] = None,
    correction: Annotated[
        str, typer.Option(help="For several comparisons: holm, bonferroni or none.")
    ] = "holm",
    level: Annotated[float, typer.Option(help="What p values are compared with.")] = 0.05,
    queries: Annotated[
        int, typer.Option(min=0, help="How many of the queries that changed most to show.")
    ] = 10,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the tests, numbers in full.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write a page to explore, query by query."),
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

    refuse_other_files("--csv", csv, (".csv",))
    refuse_other_files("--html", html, (".html", ".htm"))
    names = _names(systems)
    if baseline is not None:
        baseline = _baseline(baseline, names)
    loaded = {name: _model(path) for name, path in names.items()}
    judged_data, segments = read_data(data, by, reading, _widest(loaded))
    result = compare(
        {name: _scores(names[name], model, judged_data) for name, model in loaded.items()},
        judged_data,
        measure or _DEFAULT_MEASURES,
        baseline=baseline,
        preset=preset,
        by=segments,
        tests=tests or _TESTS,
        correction=correction,
        level=level,
        n_changed=queries,
        seed=seed,
        n_threads=reading.options["n_threads"],
    )
    if csv is not None:
        result.write_csv(csv)
    if html is not None:
        _write_report(
            result, judged_data, html, baseline, _repeated(systems, data, measure, baseline)
        )
    if as_json:
        printing.show_json(result.to_dict())
    else:
        printing.say(str(result))


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
    from rankwood import _checks

    for name, path in names.items():
        if given in (name, path, Path(path).stem):
            return name
    return _checks.one_of("baseline", given, names)


def _model(path: str) -> Any:
    """The model in a file; None where it holds scores."""
    from rankwood.data.reading import is_run_file
    from rankwood.data.table_files import refuse_what_is_no_file
    from rankwood.models.format import is_model_file

    if path == "-":
        raise ParameterError("compare reads files: standard input cannot be one of its systems.")
    if is_model_file(path):
        from rankwood.ensembles.loading import load  # heavy: only models need it

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
    from rankwood.ensembles.loading import n_features_of

    return max(n_features_of(model) for model in models)


def _scores(path: str, model: Any, data: RankingData) -> Any:
    if model is not None:
        return model
    from rankwood.data.score_reading import read_scores_of

    return read_scores_of(path, data)


def _repeated(
    systems: Sequence[str], data: str, measures: Sequence[str] | None, baseline: str | None
) -> str:
    """The call, to be typed again."""
    words = ["rankwood", "compare", *systems, "--data", data]
    words += [word for text in measures or () for word in ("-m", text)]
    return shlex.join(words if baseline is None else [*words, "--baseline", baseline])


def _write_report(
    result: SystemComparison, data: RankingData, path: Path, baseline: str | None, command: str
) -> None:
    """The page of ``rankwood report``, for one fold and one repetition."""
    from rankwood import __version__
    from rankwood.experiments.comparison_results import run_results
    from rankwood.experiments.report import (
        write_report,
    )

    record = {
        "repeat": command,
        "versions": {"rankwood": __version__},
        "documents": data.n_documents,
        "queries": data.n_queries,
    }
    name = " and ".join(result.systems) if len(result.systems) < 4 else "Comparison"
    write_report(run_results(result, data, name=name, record=record, baseline=baseline), path)
