"""``rankwood``: the commands, and how their errors reach the user.

Exit codes: 0 done, 1 the run failed, 2 the call or the input was wrong, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rankwood import __version__
from rankwood.cli import (
    bias_variance,
    compare,
    convergence,
    convert,
    cost_curve,
    data,
    demo,
    evaluate,
    experiment,
    explain,
    export,
    factorial,
    front,
    import_model,
    inspect_data,
    late,
    learning_curve,
    printing,
    report,
    score,
    serve,
    transfer,
    versions,
    warm_up,
)
from rankwood.cli.reporting import reports_errors

app = typer.Typer(
    name="rankwood",
    help="Tree ensembles that learn to rank: look at ranking data, convert it, measure rankings.",
    epilog="Start with: rankwood demo. Each command explains itself: rankwood COMMAND --help.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(reports_errors(demo.command))
app.command("inspect")(reports_errors(inspect_data.command))
app.command("convert")(reports_errors(convert.command))
app.command("train")(late.train)
app.command("score")(reports_errors(score.command))
app.command("evaluate")(reports_errors(evaluate.command))
app.command("compare")(reports_errors(compare.command))
app.command("explain")(reports_errors(explain.command))
app.command("export")(reports_errors(export.command))
app.command("import")(reports_errors(import_model.command))
app.command("cost-curve")(reports_errors(cost_curve.command))
app.command("front")(reports_errors(front.command))
app.command("compare-missing")(late.compare_missing)
app.command("transfer")(reports_errors(transfer.command))
app.command("bias-variance")(reports_errors(bias_variance.command))
app.command("experiment")(reports_errors(experiment.command))
app.command("report")(reports_errors(report.command))
app.command("learning-curve")(reports_errors(learning_curve.command))
app.command("convergence")(reports_errors(convergence.command))
app.command("factorial")(reports_errors(factorial.command))
app.command("serve")(reports_errors(serve.command))
app.command("experiment")(reports_errors(experiment.command))
app.command("report")(reports_errors(report.command))
app.add_typer(data.app, name="data")
app.command("warm-up")(reports_errors(warm_up.command))
app.command("versions")(reports_errors(versions.command))


def _print_version(wanted: bool) -> None:
    if wanted:
        printing.say(f"rankwood {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what the library logs.")
    ] = False,
) -> None:
    printing.log_to_terminal(verbose)


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; a user's mistake is a message, never a traceback."""
    late.load(app, sys.argv[1:] if arguments is None else arguments)
    try:
        app(args=arguments, prog_name="rankwood")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        printing.complain("interrupted.")
        return 130
    return 0


def run() -> None:
    """The console script."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as in `rankwood … >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open as long as we run
    sys.exit(main())
