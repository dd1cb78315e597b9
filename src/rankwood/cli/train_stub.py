"""A stand-in for ``rankwood train``, whose options come from the estimators: loading those takes a second.

The other commands, and the list of commands, need not wait for it.
"""

from __future__ import annotations

import typer


def command() -> None:
    """Train a ranker and write it to a model file."""


def load(app: typer.Typer) -> None:
    """Put the command itself in the stand-in's place."""
    from rankwood.cli import train
    from rankwood.cli.reporting import reports_errors

    for entry in app.registered_commands:
        if entry.name == "train":
            entry.callback = reports_errors(train.command)
