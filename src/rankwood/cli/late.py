"""Stand-ins for the commands whose options come from the estimators: loading those takes a second.

The other commands, and the list of commands, need not wait for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import typer


def train() -> None:
    """Train a ranker and write it to a model file."""


def compare_missing() -> None:
    """Compare the treatments of missing values on your data."""


COMMANDS = {"train": train, "compare-missing": compare_missing}


def load(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Put each command that is named in ``arguments`` in its stand-in's place."""
    from rankwood.cli.reporting import reports_errors

    for entry in app.registered_commands:
        if entry.name in COMMANDS and entry.name in arguments:
            module = importlib.import_module(f"rankwood.cli.{entry.name.replace('-', '_')}")
            entry.callback = reports_errors(module.command)
