"""Exceptions and warnings of Rankwood.

::

    RankwoodError                 base of every exception that Rankwood raises on purpose
    ├── InputError (ValueError)   an input is wrong; the command line exits with 2
    │   ├── DataError             the data: a file, a line, a column, a value
    │   ├── ModelError            a model or its file: damaged, hostile, too new, not a model
    │   ├── ParameterError        an argument or option
    │   │   └── UnknownName       an unknown name; the message suggests the nearest known one
    │   └── MissingExtra (ImportError)  an optional package is needed
    └── RunError (RuntimeError)   the call was correct but the work failed; the command line exits with 1

    RankwoodWarning (UserWarning)
    └── DataWarning               the data can be used, but something in them is unusual

A message states the offending value, its location and a remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RankwoodError(Exception):
    """Base of every exception that Rankwood raises on purpose."""


class InputError(RankwoodError, ValueError):
    """An input of the caller cannot be used."""


class DataError(InputError):
    """A file, a line, a column or a value of the data cannot be used."""


class ModelError(InputError):
    """A model or a model file cannot be used."""


class ParameterError(InputError):
    """An argument or option has a value that is not allowed."""


class UnknownName(ParameterError):
    """A name is unknown; the message suggests the nearest known one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        more = f" and {len(names) - 30:,} more" if len(names) > 30 else ""
        super().__init__(
            f"{kind} '{name}' is not known.{hint} Known: {', '.join(names[:30])}{more}."
        )


class MissingExtra(InputError, ImportError):
    """An optional package is needed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}'. Install it with: pip install 'rankwood[{extra}]'"
        )


class RunError(RankwoodError, RuntimeError):
    """The call was correct, but the work failed."""


class RankwoodWarning(UserWarning):
    """Base of all warnings of Rankwood."""


class DataWarning(RankwoodWarning):
    """The data can be used, but something in them is unusual."""
