"""What can go wrong, as a tree.

::

    RankwoodError                 everything Rankwood raises on purpose
    ├── InputError (ValueError)   what was passed is wrong; the command line exits with 2
    │   ├── DataError             the data: a file, a line, a column, a value
    │   ├── ModelError            a model or its file: damaged, hostile, too new, not a model
    │   ├── ParameterError        an argument or option
    │   │   └── UnknownName       a name nobody knows; the message suggests the nearest
    │   └── MissingExtra (ImportError)  an optional package is needed
    └── RunError (RuntimeError)   the call was right but the work failed; the command line exits with 1

    RankwoodWarning (UserWarning)
    └── DataWarning               the data can be used, but look at it

A message says what is wrong with *this* value, where it stands and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RankwoodError(Exception):
    """Base of everything Rankwood raises on purpose."""


class InputError(RankwoodError, ValueError):
    """What the caller passed cannot be used."""


class DataError(InputError):
    """A file, a line, a column or a value of the data cannot be used."""


class ModelError(InputError):
    """A model, or the file it is kept in, cannot be used."""


class ParameterError(InputError):
    """An argument or option has a value that is not allowed."""


class UnknownName(ParameterError):
    """A name that nobody knows, with the nearest known one."""

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
    """The call was right, but the work could not be done."""


class RankwoodWarning(UserWarning):
    """Base of our warnings."""


class DataWarning(RankwoodWarning):
    """The data can be used, but something about it deserves a look."""
