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
    ├── DataWarning               the data can be used, but something in them is unusual
    └── FormerNameWarning         a name that will go is used; the message has the new one

A message states the offending value, its location and a remedy. A remedy names parameters where Python was called, and
options where the command line was (``named``).
"""

from __future__ import annotations

import contextlib
import contextvars
import difflib
import shlex
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_OPTIONS_ARE_MEANT = contextvars.ContextVar("options_are_meant", default=False)


@contextlib.contextmanager
def in_words_of_the_command_line() -> Iterator[None]:
    """Let messages of this block name options instead of parameters."""
    token = _OPTIONS_ARE_MEANT.set(True)
    try:
        yield
    finally:
        _OPTIONS_ARE_MEANT.reset(token)


def named(parameter: str, value: str | Sequence[str] | None = None) -> str:
    """A parameter for a message: ``drop=['a', 'b']`` in Python, ``--drop a,b`` on the command line."""
    if not _OPTIONS_ARE_MEANT.get():
        shown = value if value is None or isinstance(value, str) else list(value)
        return f"{parameter}=" if value is None else f"{parameter}={shown!r}"
    option = f"--{parameter.replace('_', '-')}"
    if value is None:
        return option
    return (
        f"{option} {shlex.quote(value if isinstance(value, str) else ','.join(map(_field, value)))}"
    )


def worded(python: str, command_line: str) -> str:
    """A remedy in the words of what is used."""
    return command_line if _OPTIONS_ARE_MEANT.get() else python


def _field(text: str) -> str:
    """A name within a list with commas: quoted where it has a comma or a quote itself."""
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if "," in text or '"' in text else text


class RankwoodError(Exception):
    """Base of every exception that Rankwood raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors come back from other processes; what their constructors were given is gone by then.
        return _error_again, (type(self), self.args), self.__dict__


def _error_again(kind: type[RankwoodError], arguments: tuple[Any, ...]) -> RankwoodError:
    """An error with the message that it had, without its constructor, which would compose it anew."""
    return kind.__new__(kind, *arguments)


class InputError(RankwoodError, ValueError):
    """An input of the caller cannot be used."""


class DataError(InputError):
    """A file, a line, a column or a value of the data cannot be used."""


class ModelError(InputError):
    """A model or a model file cannot be used."""


class ParameterError(InputError):
    """An argument or option has a value that is not allowed."""


def counted(amount: int, noun: str) -> str:
    """A number and its noun for a message: 1 thread, 2 threads, 1,000 queries."""
    plural = (
        f"{noun[:-1]}ies"
        if noun.endswith("y")
        else f"{noun}es"
        if noun.endswith("s")
        else f"{noun}s"
    )
    return f"{amount:,} {noun if amount == 1 else plural}"


class UnknownName(ParameterError):
    """A name is unknown; the message suggests the nearest known one, and ends in a ``remedy`` where there is one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], remedy: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        more = f" and {len(names) - 30:,} more" if len(names) > 30 else ""
        super().__init__(
            f"{kind} '{name}' is not known.{hint} Known: {', '.join(names[:30])}{more}."
            f"{' ' if remedy else ''}{remedy}"
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


class FormerNameWarning(RankwoodWarning):
    """A name that will go is used; the message has the new one."""


def warn_of_former_name(where: str, former: str, present: str, *, stacklevel: int = 3) -> None:
    """Warn that something is called otherwise now."""
    message = f"{where}: {former} is called {present} now; the former name will go."
    warnings.warn(message, FormerNameWarning, stacklevel=stacklevel)
