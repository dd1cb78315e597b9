"""``rankwood experiment`` and ``rankwood report``: run an experiment's file, and write its results as a page.

A run that was stopped is continued: only the cells that are missing are run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.options import NoNotices, NoProgress, argument, option, switch
from rankwood.errors import ParameterError, RunError

if TYPE_CHECKING:
    from rankwood.experiments.results import RunResults
    from rankwood.experiments.runner import Plan

_SHOWN_FAILURES = 5


def experiment_command(
    file: Annotated[Path, argument("RUN.toml", "The experiment's file.")],
    *,
    out: Annotated[
        Path | None,
        option("The run's folder; runs/NAME by default.", "--out", "-o", metavar="FOLDER"),
    ] = None,
    jobs: Annotated[
        int | None,
        option(
            "Processes to use; one per core by default, 0 for none besides this one. No result depends on it.",
            min=0,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        option(
            "Run the cells on the Dask cluster of the scheduler at ADDRESS, such as tcp://host:8786; "
            "local: on one started here.",
            metavar="ADDRESS",
        ),
    ] = None,
    only: Annotated[
        list[str] | None, option("Run no other algorithm; may be repeated.", metavar="ALGORITHM")
    ] = None,
    changes: Annotated[
        list[str] | None,
        option(
            "Win over what the file says, as data.folds=MSLR-WEB10K or algorithm.RF.n_trees=50; may be repeated.",
            "--set",
            metavar="TABLE.KEY=VALUE",
        ),
    ] = None,
    small: Annotated[
        bool, switch("--small", "Try the file out: generated data, one repetition, few trees.")
    ] = False,
    dry_run: Annotated[
        bool, switch("--dry-run", "Check the file and say what would be run; run nothing.")
    ] = False,
    retry_failed: Annotated[
        bool, switch("--retry-failed", "Run cells again that have failed before.")
    ] = False,
    quiet: NoProgress = False,
) -> None:
    """Run an experiment: algorithms × folds × repetitions, measured by query and kept as they are finished.

    The same command again goes on where a run was stopped. Cells whose settings or data have changed are run anew.

    Example: rankwood experiment broof.toml --out runs/broof

    Example: rankwood experiment experiments/broof-table-6.2.toml --small
    """
    from rankwood.experiments.config import read_experiment
    from rankwood.experiments.results import read_run
    from rankwood.experiments.runner import carry_out, make_plan

    experiment = read_experiment(file, overrides=changes or (), small=small)
    plan = make_plan(experiment, out=out, jobs=jobs, only=only or (), retry_failed=retry_failed)
    if not quiet:
        for line in _described(plan, dask):
            printing.notice(line)
    if dry_run:
        _show_plan(plan)
        return
    try:
        with printing.cells(experiment.measures[0], quiet) as progress:
            carry_out(plan, dask=dask, progress=progress)
    except KeyboardInterrupt:
        printing.notice(
            f"Finished cells are kept in {plan.folder.path}; the same command goes on with the rest."
        )
        raise
    results = read_run(plan.folder.path)
    show_results(results)
    show_sizes(results)
    printing.say(f"\n{plan.folder.path}: {_counts(results)}")
    _raise_for_failures(results, plan)


def report_command(
    run: Annotated[Path, argument("RUN", "The folder of a run, as rankwood experiment writes it.")],
    *,
    out: Annotated[
        Path | None,
        option(
            "Where the report goes, RUN/report by default; PAGE.html for the page alone.",
            "--out",
            "-o",
            metavar="FOLDER",
        ),
    ] = None,
    formats: Annotated[
        str,
        option(
            "Some of html, md, tex, csv, svg, png, with commas between; png needs the extra report.",
            metavar="LIST",
        ),
    ] = "html,md,tex,csv,svg,png",
    open_page: Annotated[
        bool, switch("--open", "Show the page in a browser when it is written.")
    ] = False,
    quiet: NoNotices = False,
) -> None:
    """Write the report of a run: one page that needs no network, and its tables and figures as files.

    The page has the results with intervals and tests, charts, every query with the rankings of those that changed
    most, the conventions, and how to repeat the run. Of a run that is still under way, it shows what is finished.

    Example: rankwood report runs/broof --open

    Example: rankwood report runs/broof --out broof.html
    """
    from rankwood.experiments.report import write_report
    from rankwood.experiments.results import read_run

    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    target = run / "report" if out is None else out
    is_page = target.suffix.lower() in (".html", ".htm")
    if open_page and not is_page and "html" not in chosen:
        raise ParameterError("--open needs the page: name html among --formats.")
    page = write_report(read_run(run), target, formats=chosen)
    if not quiet and not is_page:
        printing.notice(f"tables and figures are in {target}")
    printing.say(str(page if is_page or "html" in chosen else target))
    if open_page:
        _open_in_browser(page)


def _described(plan: Plan, dask: str | None) -> list[str]:
    """What will be done, in a few lines."""
    experiment = plan.experiment
    where = f"{plan.jobs} processes of {plan.threads} threads" if plan.jobs else "this process"
    if dask is not None:
        where = "Dask" if dask == "local" else f"Dask at {dask}"
    lines = [
        f"{experiment.name}: {len(experiment.algorithms)} algorithms × {len(experiment.data.folds)} folds × "
        f"{experiment.repetitions} repetitions, {len(plan.tasks):,} cells to run on {where}"
    ]
    if plan.kept:
        lines.append(f"{len(plan.kept):,} cells are there already and are kept")
    n_failed = sum(status == "failed" for status in plan.kept.values())
    if n_failed:
        lines.append(f"{n_failed:,} of them have failed before; --retry-failed runs them again")
    if plan.stale:
        lines.append(
            f"{len(plan.stale):,} cells are run anew: their settings or data have changed "
            f"(the old ones go to {plan.folder.path / 'replaced'})"
        )
    if plan.other_versions:
        lines.append(
            f"kept cells were made by version {', '.join(plan.other_versions)}; "
            "for results of one version choose another --out"
        )
    return lines


def _show_plan(plan: Plan) -> None:
    rows = []
    to_run = [task.cell for task in plan.tasks]
    for one in plan.experiment.algorithms:
        tuned = ", ".join(one.tune)
        kept = sum(cell.algorithm == one.name for cell in plan.kept)
        count = sum(cell.algorithm == one.name for cell in to_run)
        rows.append([one.name, one.kind, tuned, f"{count:,}", f"{kept:,}"])
    printing.show_table(["algorithm", "kind", "tuned", "cells to run", "kept"], rows, left=3)
    printing.say(f"\nfolds: {', '.join(plan.experiment.fold_names)}")
    printing.say(f"measures: {', '.join(plan.experiment.measures)}")
    printing.say(f"folder: {plan.folder.path}")


def show_results(results: RunResults) -> None:
    """A table with a row per algorithm: the mean of each measure, marked where it differs from the baseline."""
    import numpy as np

    marks = {measure: _marks(results, measure) for measure in results.measures}
    rows = []
    for algorithm in results.algorithms:
        done = [cell for cell in results.cells if cell.algorithm == algorithm]
        done = [cell for cell in done if cell.status == "done"]
        row = [algorithm]
        for measure in results.measures:
            value = mean_of(results, algorithm, measure)
            mark = marks[measure].get(algorithm, "")
            row.append("–" if np.isnan(value) else f"{value:.4f}{mark}")
        spent = sum(sum(cell.seconds.values()) for cell in done)
        rows.append([*row, f"{len(done):,}", f"{spent:,.1f}"])
    printing.show_table(["algorithm", *results.measures, "cells", "seconds"], rows)
    if results.baseline is not None and any(
        any(by_algorithm.values()) for by_algorithm in marks.values()
    ):
        tests = " and ".join(results.tests)
        printing.say(
            f"\nmarks: differs from {results.baseline} (p < 0.05, {results.correction}) by {tests}; "
            "+ is t, * is Wilcoxon, r is randomisation"
        )


def show_sizes(results: RunResults) -> None:
    """A table with a row per algorithm and measure: size, value where it was chosen, test value, cost of a document."""
    sizes = results.sizes()
    if not sizes:
        return
    rows = [
        [
            row["algorithm"],
            row["measure"],
            f"{row['rounds']:,.0f}",
            f"{row['trees']:,.0f}",
            "–" if row["valid"] is None else f"{row['valid']:.5f}",
            "–" if row["test"] is None else f"{row['test']:.5f}",
            f"{row['cost']:,.1f}",
        ]
        for row in sizes
    ]
    printing.say("\nsizes, and the mean cost of a test document (means over folds and repetitions)")
    columns = ["algorithm", "measure", "rounds", "trees", "valid", "test", "cost"]
    printing.show_table(columns, rows, left=2)


def mean_of(results: RunResults, algorithm: str, measure: str) -> float:
    """The mean over queries; of a measure that is taken over all documents together, over cells."""
    import numpy as np

    if "pooled" not in results.conventions[measure]:
        values = results.values(algorithm, measure)
        values = values[~np.isnan(values)]
        return float(values.mean()) if values.size else float("nan")
    means = [
        cell.means[measure]
        for cell in results.cells
        if cell.algorithm == algorithm and cell.status == "done"
    ]
    return float(np.mean(means)) if means else float("nan")


def _marks(results: RunResults, measure: str) -> dict[str, str]:
    """Marks by algorithm, where there is a baseline and values to compare."""
    import numpy as np

    from rankwood.evaluation.significance import compare_values

    values = {name: results.values(name, measure) for name in results.algorithms}
    known: dict[str, Any] = {name: v for name, v in values.items() if not np.isnan(v).all()}
    if results.baseline not in known or len(known) < 2:
        return {}
    compared = compare_values(
        known,
        results.baseline,
        tests=results.tests,
        correction=results.correction,
        n_bootstrap=0,
    )
    return {name: compared.marks(name) for name in known}


def _counts(results: RunResults) -> str:
    done = sum(cell.status == "done" for cell in results.cells)
    failed = len(results.cells) - done
    return f"{done:,} cells done" + (f", {failed:,} failed" if failed else "")


def _raise_for_failures(results: RunResults, plan: Plan) -> None:
    failed = [cell for cell in results.cells if cell.status == "failed"]
    if not failed:
        return
    lines = [
        f"{cell.algorithm}, {cell.fold}, repetition {cell.repetition}: {_last_line(cell)}"
        for cell in failed[:_SHOWN_FAILURES]
    ]
    more = len(failed) - len(lines)
    lines += [f"… and {more:,} more"] if more > 0 else []
    raise RunError(
        "\n  ".join([f"{len(failed):,} cells failed:", *lines])
        + f"\nTracebacks are in {plan.folder.path / 'cells'}; --retry-failed runs these cells again."
    )


def _last_line(cell: Any) -> str:
    lines: Sequence[str] = (cell.error or cell.message).strip().splitlines()
    return lines[0] if lines else "unknown"


def _open_in_browser(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        raise RunError(f"no browser could be started; the page is {page}.")
