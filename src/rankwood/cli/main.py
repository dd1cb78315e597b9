"""``rankwood``: the table of commands, and the console script that runs one of them.

Exit codes: 0 done, 1 the run failed, 2 the call or the input was wrong, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
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


def train() -> None:
    """Train a ranker and write it to a model file."""


def auto() -> None:
    """Find a good ranker within a time: try several, tune the leaders, blend them if that helps."""


def compare_missing() -> None:
    """Compare the treatments of missing values on your data."""


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.command,
    "inspect": inspect.command,
    "convert": data.convert_command,
    "train": train,
    "auto": auto,
    "score": score.command,
    "evaluate": evaluate.evaluate_command,
    "compare": evaluate.compare_command,
    "explain": explain.command,
    "export": export.export_command,
    "import": export.import_command,
    "cost-curve": studies.cost_curve_command,
    "best-sizes": studies.best_sizes_command,
    "front": studies.front_command,
    "compare-missing": compare_missing,
    "transfer": transfer.command,
    "bias-variance": studies.bias_variance_command,
    "experiment": experiment.experiment_command,
    "report": experiment.report_command,
    "learning-curve": studies.learning_curve_command,
    "convergence": studies.convergence_command,
    "factorial": studies.factorial_command,
    "serve": serve.command,
    "warm-up": maintenance.warm_up_command,
    "versions": maintenance.versions_command,
}
# Stand-ins above: these commands are in ``lazy_commands``, which takes a second to import.
LAZY_COMMANDS = {
    "train": "train_command",
    "auto": "auto_command",
    "compare-missing": "compare_missing_command",
}

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
app.add_typer(data.app, name="data")
for _name, _command in COMMANDS.items():
    app.command(_name)(reports_errors(_command))


def load_lazy_commands(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Replace the stand-in of each lazy command that ``arguments`` name by the command itself."""
    for entry in app.registered_commands:
        if entry.name in LAZY_COMMANDS and entry.name in arguments:
            from rankwood.cli import lazy_commands

            command = getattr(lazy_commands, LAZY_COMMANDS[entry.name])
            entry.callback = reports_errors(command)


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
    load_lazy_commands(app, sys.argv[1:] if arguments is None else arguments)
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
