"""``rankwood``: the commands, and how their errors reach the user.

Exit codes: 0 done, 1 the run failed, 2 the call or the input was wrong, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from rankwood import __version__
from rankwood.cli import (
    data,
    demo,
    evaluate,
    experiment,
    explain,
    export,
    inspect,
    maintenance,
    printing,
    score,
    serve,
    studies,
    transfer,
)
from rankwood.cli.printing import reports_errors

# Stand-ins for the commands whose options come from the estimators: loading those takes a second.
#
# The other commands, and the list of commands, need not wait for it.


def train() -> None:
    """Train a ranker and write it to a model file."""


def compare_missing() -> None:
    """Compare the treatments of missing values on your data."""


COMMANDS = {"train": train, "compare-missing": compare_missing}


def load(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Put each command that is named in ``arguments`` in its stand-in's place."""
    from rankwood.cli.printing import reports_errors

    for entry in app.registered_commands:
        if entry.name in COMMANDS and entry.name in arguments:
            module = importlib.import_module(f"rankwood.cli.{entry.name.replace('-', '_')}")
            entry.callback = reports_errors(module.command)


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
app.command("inspect")(reports_errors(inspect.command))
app.command("convert")(reports_errors(data.convert_command))
app.command("train")(train)
app.command("score")(reports_errors(score.command))
app.command("evaluate")(reports_errors(evaluate.evaluate_command))
app.command("compare")(reports_errors(evaluate.compare_command))
app.command("explain")(reports_errors(explain.command))
app.command("export")(reports_errors(export.export_command))
app.command("import")(reports_errors(export.import_command))
app.command("cost-curve")(reports_errors(studies.cost_curve_command))
app.command("front")(reports_errors(studies.front_command))
app.command("compare-missing")(compare_missing)
app.command("transfer")(reports_errors(transfer.command))
app.command("bias-variance")(reports_errors(studies.bias_variance_command))
app.command("experiment")(reports_errors(experiment.experiment_command))
app.command("report")(reports_errors(experiment.report_command))
app.command("learning-curve")(reports_errors(studies.learning_curve_command))
app.command("convergence")(reports_errors(studies.convergence_command))
app.command("factorial")(reports_errors(studies.factorial_command))
app.command("serve")(reports_errors(serve.command))
app.command("experiment")(reports_errors(experiment.experiment_command))
app.command("report")(reports_errors(experiment.report_command))
app.add_typer(data.app, name="data")
app.command("warm-up")(reports_errors(maintenance.warm_up_command))
app.command("versions")(reports_errors(maintenance.versions_command))


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
    load(app, sys.argv[1:] if arguments is None else arguments)
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
