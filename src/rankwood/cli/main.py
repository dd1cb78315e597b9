"""``rankwood``: the table of commands, and the console script that runs one of them.

Exit codes: 0 done, 1 the run failed, 2 the call or the input was wrong, 130 interrupted by Ctrl-C. Of ``check``, 1 says
that the data have changed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from rankwood import __version__
from rankwood.cli import (
    check,
    clicks,
    data,
    demo,
    evaluate,
    experiment,
    inspect,
    models,
    printing,
    studies,
    transfer,
)
from rankwood.cli.options import Command, Json, switch
from rankwood.cli.printing import reports_errors


def train() -> None:
    """Train a ranker and write it to a model file."""


def auto() -> None:
    """Find a good ranker within a time: try several, tune the leaders, blend them if that helps."""


def tune() -> None:
    """Tune the parameters of a ranker, and train it with the best."""


def compare_missing() -> None:
    """Compare the treatments of missing values on your data."""


def warm_up_command(
    quiet: Annotated[bool, switch("--quiet", "Say nothing.", "-q")] = False,
) -> None:
    """Compile all kernels once, so that no later call waits for it.

    Run it when a container is built. The compiled code is kept in NUMBA_CACHE_DIR when that is set, else in the
    user's cache folder.
    """
    from rankwood._core import jit
    from rankwood.studies.warm_up import warm_up

    start = time.monotonic()
    n_kernels = warm_up(
        None if quiet else lambda step: printing.notice(f"compiling (once): {step}")
    )
    if quiet:
        return
    folder = jit.cache_folder()
    where = (
        f"kept in {folder}" if folder else "kept in memory only: the cache folder cannot be written"
    )
    printing.say(f"{n_kernels} kernels ready after {time.monotonic() - start:.1f} s, {where}")


def versions_command(as_json: Json = False) -> None:
    """Show the versions of Rankwood, Python and the packages, the machine, threads and cache folders.

    Paste the output into a bug report.
    """
    facts = _facts()
    if as_json:
        printing.show_json(dict(facts))
    else:
        printing.show_facts(facts)


def _facts() -> list[tuple[str, str]]:
    import platform

    from rankwood._core import threads
    from rankwood._core.files import user_cache_folder
    from rankwood.engines.cuda.device import description

    facts = [
        ("rankwood", __version__),
        (
            "python",
            f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
        ),
        ("system", f"{platform.platform()}, {platform.machine()}"),
        ("threads", f"{threads.resolve_threads()} of {os.cpu_count()} processors"),
        ("cache folder", str(user_cache_folder())),
        ("GPU", description() or "none that device='cuda' could use"),
    ]
    facts += [(package, _version(package)) for package in _packages()]
    names = sorted(name for name in os.environ if name.startswith(("RANKWOOD_", "NUMBA_")))
    return facts + [(name, os.environ[name]) for name in names]


def _packages() -> list[str]:
    """Every package that Rankwood or one of its extras asks for, each once."""
    import importlib.metadata
    import re

    requirements = importlib.metadata.requires("rankwood") or []
    names = [re.match(r"[A-Za-z0-9_.-]+", requirement) for requirement in requirements]
    return list(dict.fromkeys(name.group() for name in names if name))


def _version(package: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.command,
    "inspect": inspect.command,
    "convert": data.convert_command,
    "bin": data.bin_command,
    "train": train,
    "auto": auto,
    "tune": tune,
    "score": models.score_command,
    "evaluate": evaluate.evaluate_command,
    "compare": evaluate.compare_command,
    "explain": inspect.explain_command,
    "check": check.check_command,
    "export": models.export_command,
    "import": models.import_command,
    "cost-curve": studies.cost_curve_command,
    "best-sizes": studies.best_sizes_command,
    "front": studies.front_command,
    "compare-missing": compare_missing,
    "transfer": transfer.command,
    "bias-variance": studies.bias_variance_command,
    "experiment": experiment.experiment_command,
    "report": experiment.report_command,
    "measure": experiment.measure_command,
    "bundle": experiment.bundle_command,
    "learning-curve": studies.learning_curve_command,
    "convergence": studies.convergence_command,
    "factorial": studies.factorial_command,
    "serve": models.serve_command,
    "warm-up": warm_up_command,
    "versions": versions_command,
}
# How the help groups them; "Begin" has the rest.
PANELS = {
    "Data": ("convert", "bin", "check", "data", "clicks"),
    "Train": ("train", "auto", "tune", "compare-missing", "transfer"),
    "Measure and explain": (
        *("evaluate", "compare", "explain", "best-sizes", "front", "cost-curve"),
        *("learning-curve", "convergence", "factorial", "bias-variance"),
    ),
    "Use a model": ("score", "export", "import", "serve"),
    "Experiments": ("experiment", "report", "measure", "bundle"),
}
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}
# Stand-ins above: these commands are in ``lazy_commands``, which takes a second to import.
LAZY_COMMANDS = {
    "train": "train_command",
    "auto": "auto_command",
    "tune": "tune_command",
    "compare-missing": "compare_missing_command",
}

app = typer.Typer(
    name="rankwood",
    help="Tree ensembles that learn to rank: train, measure, explain, export and serve them.",
    epilog="Start with rankwood demo, or rankwood inspect DATA. A command explains itself: rankwood COMMAND --help.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data", rich_help_panel=_PANEL_OF["data"])
app.add_typer(clicks.app, name="clicks", rich_help_panel=_PANEL_OF["clicks"])
for _name, _command in COMMANDS.items():
    app.command(_name, rich_help_panel=_PANEL_OF.get(_name, "Begin"))(reports_errors(_command))
for _app in (app, data.app, clicks.app):
    for _entry in _app.registered_commands:
        _entry.cls = Command


def load_lazy_commands(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Replace the stand-in of each lazy command that ``arguments`` name by the command itself."""
    for entry in app.registered_commands:
        if entry.name in LAZY_COMMANDS and entry.name in arguments:
            from rankwood.cli import lazy_commands

            command = lazy_commands.command_for(LAZY_COMMANDS[entry.name], arguments)
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
