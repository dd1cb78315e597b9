"""How errors of a command reach the user: a message and an exit code."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from rankwood.cli import printing
from rankwood.errors import InputError, RankwoodError


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what ``command`` raises into a message on standard error and an exit code."""

    @functools.wraps(command)
    def wrapper(*arguments: Any, **options: Any) -> None:
        try:
            with printing.warnings_as_lines():
                command(*arguments, **options)
                sys.stdout.flush()
        except (Exception, KeyboardInterrupt) as error:
            code = _report(error)
            if code is None:
                raise  # a defect of ours: the traceback is what a bug report needs
            sys.exit(code)

    return wrapper


def _report(error: BaseException) -> int | None:
    """Say what went wrong and give the exit code; None for what is not the user's to mend."""
    if isinstance(error, BrokenPipeError):  # `rankwood … | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, KeyboardInterrupt):
        printing.complain("interrupted.")
        return 130
    if isinstance(error, RankwoodError):
        printing.complain(str(error))
        return 2 if isinstance(error, InputError) else 1
    if isinstance(error, MemoryError):
        printing.complain("not enough memory for this. Try fewer rows, or fewer features.")
        return 1
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        printing.complain(f"{error.strerror or error}{place}.")
        return 1
    return None
