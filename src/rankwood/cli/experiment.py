"""``rankwood experiment``, ``report``, ``measure`` and ``bundle``: run an experiment's file, and what follows of a run.

A run that was stopped is continued: only the cells that are missing are run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwood._core.threads import Terminated
from rankwood.cli import printing
from rankwood.cli.options import (
    NoNotices,
    NoProgress,
    argument,
    folder_option,
    option,
    switch,
)
from rankwood.errors import ParameterError, RunError, counted

if TYPE_CHECKING:
    from rankwood.evaluation.significance import Comparison
    from rankwood.experiments.results import RunResults
    from rankwood.experiments.runner import Plan
    from rankwood.experiments.settings import Algorithm

_SHOWN_FAILURES = 5


def experiment_command(
    file: Annotated[Path, argument("RUN.toml", "The experiment's file.")],
    *,
    out: Annotated[
        Path | None, folder_option("The run's folder; runs/NAME by default.", "--out", "-o")
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
    data: Annotated[
        Path | None,
        folder_option(
            "The folder that has the data, wherever the file says they are: the folds, or files of the same names."
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

    The same command again goes on where a run was stopped. Cells whose settings or data have changed are run anew;
    measures that were added are computed from the scores that were kept, without a fit.

    Example: rankwood experiment rankwood-demo/demo.toml --out runs/demo (the file that rankwood demo writes)

    Example: rankwood experiment experiments/broof-tables-6.1-6.2.toml --small (a file of the source distribution)
    """
    from rankwood.experiments.config import read_experiment
    from rankwood.experiments.results import read_run
    from rankwood.experiments.runner import carry_out, make_plan

    experiment = read_experiment(file, overrides=changes or (), small=small, data=data)
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
    except (KeyboardInterrupt, Terminated):
        printing.notice(
            f"Finished cells are kept in {plan.folder.path}; the same command goes on with the rest."
        )
        raise
    results = read_run(plan.folder.path)
    show_results(results)
    for note in results.notes:
        printing.say(f"\n{note}")
    show_sizes(results)
    printing.say(f"\n{plan.folder.path}: {_counts(results)}")
    if results.record.get("winner"):
        winner = results.record["winner"]
        printing.say(
            f"the best by {results.primary} is {winner}; its models are in {plan.folder.path}/models"
        )
    _raise_for_failures(results, plan)


def report_command(
    run: Annotated[Path, argument("RUN", "The folder of a run, as rankwood experiment writes it.")],
    *,
    out: Annotated[
        Path | None,
        folder_option(
            "Where the report goes, RUN/report by default; PAGE.html for the page alone.",
            "--out",
            "-o",
        ),
    ] = None,
    formats: Annotated[
        str,
        option(
            "Some of html, md, tex, csv, svg, png, with commas between; png needs the extra report. trec: qrels and "
            "runs, for ranx, ir_measures, PyTerrier and trec_eval.",
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

    Example: rankwood report runs/broof --formats trec --out runs-for-ranx
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


def measure_command(
    run: Annotated[Path, argument("RUN", "The folder of a run, as rankwood experiment writes it.")],
    *,
    measure: Annotated[
        list[str],
        option("Such as ndcg@5 or 'map\\[relevant=2]'; may be repeated.", "--measure", "-m"),
    ],
    quiet: NoNotices = False,
) -> None:
    """Add measures to a run, from the scores that it kept: no model is fitted.

    The values are exactly those that the run would have given. Conventions that a measure leaves open are those of the
    run's preset.

    Example: rankwood measure runs/broof -m ndcg@5 -m err
    """
    from rankwood.experiments.finished import measure_run

    results = measure_run(run, measure)
    show_results(results)
    if not quiet:
        listed = ", ".join(f'"{text}"' for text in results.measures[1:])
        printing.notice(
            f"to have these measures when the experiment is run again, its file must say: also = [{listed}]"
        )


def bundle_command(
    run: Annotated[Path, argument("RUN", "The folder of a run, as rankwood experiment writes it.")],
    *,
    out: Annotated[
        Path | None, option("The archive; RUN.zip by default.", "--out", "-o", metavar="FILE.zip")
    ] = None,
    no_models: Annotated[
        bool, switch("--no-models", "Leave out models that the run has kept.")
    ] = False,
    quiet: NoNotices = False,
) -> None:
    """Pack a run into one archive: configuration, record, versions, values, scores, report, and how to repeat it.

    Unpacked, it is the folder of a run: report, measure and factorial take it. The data are not in it; their paths and
    digests are. The command in its README.md repeats the run, with --data for your copy of the data.

    Example: rankwood bundle runs/broof --out broof.zip
    """
    from rankwood.experiments.finished import bundle_run

    path = bundle_run(run, out, models=not no_models)
    printing.say(str(path))
    if not quiet:
        printing.notice(f"{path.stat().st_size / 2**20:,.1f} MiB; the data are not in it")


def _described(plan: Plan, dask: str | None) -> list[str]:
    """What will be done, in a few lines."""
    experiment = plan.experiment
    where = "this process"
    if plan.jobs:
        where = f"{counted(plan.jobs, 'process')} of {counted(plan.threads, 'thread')}"
    if dask is not None:
        where = "Dask" if dask == "local" else f"Dask at {dask}"
    lines = [
        f"{experiment.name}: {counted(len(experiment.algorithms), 'algorithm')} × "
        f"{counted(len(experiment.data.folds), 'fold')} × {counted(experiment.repetitions, 'repetition')}, "
        f"{counted(len(plan.tasks), 'cell')} to run on {where}"
    ]
    lines += [f"{name} is left out: {why}" for name, why in experiment.left_out.items()]
    once = [one.name for one in experiment.algorithms if not one.is_random]
    if once and experiment.repetitions > 1:
        lines.append(f"not random, run once in each fold: {', '.join(once)}")
    lines += _described_cells(plan)
    n_trials = sum(len(task.trials) for task in plan.tasks)
    if n_trials:
        are = "is" if n_trials == 1 else "are"
        lines.append(f"{counted(n_trials, 'trial')} of tunings that were stopped {are} kept")
    if plan.other_versions:
        lines.append(
            f"kept cells were made by version {', '.join(plan.other_versions)}; "
            "for results of one version choose another --out"
        )
    return lines


def _described_cells(plan: Plan) -> list[str]:
    """Which cells are kept, measured further or run anew."""
    lines = []
    if plan.kept:
        are = "is" if len(plan.kept) == 1 else "are"
        lines.append(f"{counted(len(plan.kept), 'cell')} {are} there already and {are} kept")
    if plan.lacking:
        texts = dict.fromkeys(text for task in plan.lacking.values() for text in task.measures)
        lines.append(
            f"{len(plan.lacking):,} of them {'is' if len(plan.lacking) == 1 else 'are'} measured further from kept "
            f"scores, without a fit: {', '.join(texts)}"
        )
    n_failed = sum(status == "failed" for status in plan.kept.values())
    if n_failed:
        have, them = ("has", "it") if n_failed == 1 else ("have", "them")
        lines.append(f"{n_failed:,} of them {have} failed before; --retry-failed runs {them} again")
    n_changed = len(plan.stale) - len(plan.without_scores)
    if n_changed:
        lines.append(
            f"{counted(n_changed, 'cell')} {'is' if n_changed == 1 else 'are'} run anew: "
            f"their settings or data have changed (the old ones go to {plan.folder.path / 'stale'})"
        )
    if plan.without_scores:
        lines.append(_told_without_scores(plan))
    if plan.experiment.keep_models and not plan.experiment.keep_winners:
        without = [cell for cell in plan.kept if not plan.folder.model_path(cell).is_file()]
        if without:
            lines.append(
                f"{len(without):,} of the kept cells have no model, which was not kept then; choose another --out to "
                "fit them again"
            )
    return lines


def _told_without_scores(plan: Plan) -> str:
    """Which cells must be fitted again because measures were added, and why."""
    cells = plan.without_scores
    shown = "; ".join(str(cell) for cell in cells[:_SHOWN_FAILURES])
    more = f" and {len(cells) - _SHOWN_FAILURES:,} more" if len(cells) > _SHOWN_FAILURES else ""
    kept = (
        "models, which sizes by measure need," if plan.experiment.size == "validated" else "scores"
    )
    return (
        f"{counted(len(cells), 'cell')} {'is' if len(cells) == 1 else 'are'} fitted again: measures were added, and "
        f"their {kept} were not kept (by version 0.1 only those of repetition 1): {shown}{more}"
    )


def _show_plan(plan: Plan) -> None:
    rows = []
    to_run = [task.cell for task in plan.tasks]
    is_tuned = any(one.tune for one in plan.experiment.algorithms)
    for one in plan.experiment.algorithms:
        tuned = ", ".join(one.tune)
        kept = sum(cell.algorithm == one.name for cell in plan.kept)
        count = sum(cell.algorithm == one.name for cell in to_run)
        fits = [_tuning_fits(plan, one)] if is_tuned else []
        rows.append([one.name, one.kind, tuned, f"{count:,}", f"{kept:,}", *fits])
    head = ["algorithm", "kind", "tuned", "cells to run", "kept"]
    head += ["tuning fits"] if is_tuned else []
    printing.show_table(head, rows, left=3)
    printing.say(f"\nfolds: {', '.join(plan.experiment.fold_names)}")
    printing.say(f"measures: {', '.join(plan.experiment.measures)}")
    printing.say(f"folder: {plan.folder.path}")


def _tuning_fits(plan: Plan, algorithm: Algorithm) -> str:
    """How many models the tuning of an algorithm fits in all cells, or what limits it."""
    import math

    from rankwood.experiments.runner import tuning_fits

    own = [task for task in plan.tasks if task.cell.algorithm == algorithm.name]
    count = sum(tuning_fits(task) for task in own)
    if algorithm.tune_time is None or not own:
        return f"{count:,.0f}"
    limit = f"{algorithm.tune_time:,.0f} s a cell"
    return limit if math.isinf(count) else f"at most {count:,.0f}, {limit}"


def show_results(results: RunResults) -> None:
    """A table with a row per algorithm: the mean of each measure, marked where it differs from the baseline."""
    import numpy as np

    compared = _compared(results)
    marks = {
        measure: {} if each is None else {name: each.marks(name) for name in each.means}
        for measure, each in compared.items()
    }
    rows = []
    once = results.once if results.n_repetitions > 1 else ()
    for algorithm in results.algorithms:
        done = [cell for cell in results.cells if cell.algorithm == algorithm]
        done = [cell for cell in done if cell.status == "done"]
        row = [algorithm]
        for measure in results.measures:
            value = mean_of(results, algorithm, measure)
            mark = marks[measure].get(algorithm, "")
            row.append("–" if np.isnan(value) else f"{value:.4f}{mark}")
        spent = sum(sum(cell.seconds.values()) for cell in done)
        n_cells = f"{len(done):,}" + (" (once)" if algorithm in once else "")
        rows.append([*row, n_cells, f"{spent:,.1f}"])
    printing.show_table(["algorithm", *results.measures, "cells", "seconds"], rows)
    if once:
        printing.say(
            "\nonce: not random, and so run once in each fold; a repetition would be the same"
        )
    is_marked = any(any(by_algorithm.values()) for by_algorithm in marks.values())
    if is_marked or any(each is not None and each.candidates for each in compared.values()):
        from rankwood.evaluation.significance import correction_of

        first = next(each for each in compared.values() if each is not None)
        tests = " and ".join(results.tests)
        printing.say(
            f"\nmarks: differs from {_baselines(compared)} (p < {first.level:g}, {correction_of(first)}) by {tests}; "
            f"+ is t, * is Wilcoxon, r is randomisation; {first.test} decides in the report"
        )
    _tell_of_missing(results)
    _show_untested(results)


def _show_untested(results: RunResults) -> None:
    """Say which measures have no tests, where there is something to test."""
    from rankwood.measures.measure import parse_measure

    pooled = [m for m in results.measures if "pooled" in results.conventions[m]]
    if not pooled or len(results.algorithms) < 2:
        return
    preset = results.record.get("configuration", {}).get("preset")
    tested = ", ".join(str(parse_measure(text, preset).over_queries) for text in pooled)
    printing.say(
        f"\n{', '.join(pooled)}: of all documents together, fold by fold, and not tested; "
        f"means over queries are: {tested}"
    )


def _tell_of_missing(results: RunResults) -> None:
    """Say which means are of fewer repetitions than the others."""
    from rankwood.experiments.report.findings import missing_cells

    missing = {name: missing_cells(results, name) for name in results.algorithms}
    listed = ", ".join(f"{name} {count:,}" for name, count in missing.items() if count)
    if listed:
        printing.say(f"\nmissing repetitions of folds: {listed}; means are of those there are")


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


def _baselines(compared: Mapping[str, Comparison | None]) -> str:
    """What algorithms are compared with: one of them, or by measure the strongest of several."""
    known = {measure: each for measure, each in compared.items() if each is not None}
    first = next(iter(known.values()))
    if not first.candidates:
        return first.baseline
    chosen = ", ".join(f"{measure} {each.baseline}" for measure, each in known.items())
    return f"the strongest of {', '.join(first.candidates)} (by {chosen})"


def _compared(results: RunResults) -> dict[str, Comparison | None]:
    """By measure, every algorithm against the baseline, where there is one with values to compare."""
    import numpy as np

    from rankwood.experiments.report.findings import compared

    values = {
        (name, measure): results.values(name, measure)
        for name in results.algorithms
        for measure in results.measures
    }
    found = compared(results, values, with_margin=False)
    known = {
        measure: [name for name in results.algorithms if not np.isnan(values[name, measure]).all()]
        for measure in results.measures
    }
    return {
        measure: None if results.baseline_among(known[measure]) is None else each
        for measure, each in found.items()
    }


def _counts(results: RunResults) -> str:
    done = sum(cell.status == "done" for cell in results.cells)
    failed = len(results.cells) - done
    return f"{counted(done, 'cell')} done" + (f", {failed:,} failed" if failed else "")


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
        "\n  ".join([f"{counted(len(failed), 'cell')} failed:", *lines])
        + f"\nTracebacks are in {plan.folder.path / 'cells'}; --retry-failed runs these cells again."
    )


def _last_line(cell: Any) -> str:
    lines: Sequence[str] = (cell.error or cell.message).strip().splitlines()
    return lines[0] if lines else "unknown"


def _open_in_browser(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        raise RunError(f"no browser could be started; the page is {page}.")
