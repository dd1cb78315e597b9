"""The line of each key in an experiment's file, so that every error message can name its table and its line.

``Section`` reads the keys of one table, with a check of each value; ``TomlSource`` turns a path into a line.

Terms
    path     from the file's root to a key: ``("algorithm", 1, "tune", "learning_rate")``; a number is a list's index
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rankwood.errors import ParameterError

Path = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_LIST_HEADER = re.compile(rf"^\s*\[\[\s*({_NAME})\s*\]\]")
_HEADER = re.compile(rf"^\s*\[\s*({_NAME})\s*\]\s*(?:#.*)?$")
_KEY = re.compile(rf"^\s*({_NAME})\s*=")
_INNER = re.compile(rf"[{{,]\s*({_NAME})\s*=")  # a key of an inline table


@dataclass(frozen=True)
class TomlSource:
    """The file an experiment was read from; without a name it was given as a mapping and has no lines."""

    name: str = ""
    line_of: Mapping[Path, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, text: str) -> TomlSource:
        """The source with the line of every key of ``text``."""
        return cls(name, find_lines(text))

    def error(self, path: Path, message: str) -> ParameterError:
        """An error about the key at ``path``, with its file, line, table and name."""
        return ParameterError(f"{self._position(path)}{_table_and_key(path)}{message}")

    def _position(self, path: Path) -> str:
        if not self.name:
            return ""
        for length in range(len(path), 0, -1):
            if path[:length] in self.line_of:
                return f"{self.name}, line {self.line_of[path[:length]]}: "
        return f"{self.name}: "


def find_lines(text: str) -> dict[Path, int]:
    """The line where each key and each table of TOML text begins, counted from 1."""
    lines: dict[Path, int] = {}
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _LIST_HEADER.match(line):
            path = _within(_parts(match[1]), counts)
            counts[path] = counts.get(path, -1) + 1
            table = (*path, counts[path])
            lines.setdefault(path, number)
            lines.setdefault(table, number)
        elif match := _HEADER.match(line):
            table = _within(_parts(match[1]), counts)
            lines.setdefault(table, number)
        elif match := _KEY.match(line):
            key = (*table, *_parts(match[1]))
            for length in range(len(table) + 1, len(key) + 1):
                lines.setdefault(key[:length], number)
            for inner in _INNER.findall(line[match.end() :]):
                lines.setdefault((*key, *_parts(inner)), number)
    return lines


def _parts(name: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(_PART, name)]


def _within(parts: Iterable[str], counts: Mapping[Path, int]) -> Path:
    """The path of a header; a name that is a list of tables means the last of them."""
    path: Path = ()
    for part in parts:
        if path in counts:
            path = (*path, counts[path])
        path = (*path, part)
    return path


def _table_and_key(path: Path) -> str:
    """``[run] repetitions: ``, or ``[[algorithm]] number 2, tune.learning_rate: ``."""
    if not path:
        return ""
    if len(path) > 1 and isinstance(path[1], int):
        table, rest = f"[[{path[0]}]] number {path[1] + 1}", path[2:]
    else:
        table, rest = f"[{path[0]}]", path[1:]
    key = ".".join(str(part + 1 if isinstance(part, int) else part) for part in rest)
    return f"{table}{', ' if key and path[1:] != rest else ' '}{key}: " if key else f"{table}: "


def did_you_mean(given: str, known: Iterable[str], form: str = "'{}'") -> str:
    """A sentence that names the nearest of the known names; empty where none is near."""
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f" Did you mean {form.format(near[0])}?" if near else ""


class Section:
    """One table of an experiment: unknown keys are refused first, the others are read one by one."""

    def __init__(
        self, source: TomlSource, path: Path, values: Any, known: Iterable[str] | None
    ) -> None:
        self.source = source
        self.path = path
        if not isinstance(values, dict):
            raise source.error(path, f"must be a table, got {_plain(values)}.")
        self.values: dict[str, Any] = values
        for key in values if known is not None else ():
            if key not in set(known or ()):
                raise self.unknown(key, known or ())

    def unknown(self, key: str, known: Iterable[str]) -> ParameterError:
        """An error for an unknown key, with the nearest known one."""
        names = sorted(known)
        hint = did_you_mean(key, names)
        return self.error(key, f"there is no such key.{hint} Known: {', '.join(names)}.")

    def error(self, key: str, message: str) -> ParameterError:
        """An error about one key of this table, or with "" about the table."""
        return self.source.error((*self.path, key) if key else self.path, message)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: Any = None) -> Any:
        """A text that is not empty."""
        value = self.values.get(key, default)
        if value is not default and (not isinstance(value, str) or not value.strip()):
            raise self.error(key, f"must be text, got {_plain(value)}.")
        return value

    def texts(self, key: str, default: Iterable[str] = ()) -> list[str]:
        """A list of texts."""
        value = self.values.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, f"must be a list of texts, got {_plain(value)}.")
        return value

    def whole(self, key: str, default: Any, least: int = 0) -> Any:
        """A whole number of at least ``least``."""
        value = self.values.get(key, default)
        if value is default:
            return value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(
                key, f"must be a whole number of at least {least}, got {_plain(value)}."
            )
        return value

    def truth(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, got {_plain(value)}.")
        return value

    def one_of(self, key: str, default: str, known: Iterable[str]) -> str:
        """One of the known texts."""
        value = str(self.text(key, default))
        names = list(known)
        if value not in names:
            hint = did_you_mean(value, names)
            raise self.error(key, f"must be one of {', '.join(names)}, got '{value}'.{hint}")
        return value


def _plain(value: Any) -> str:
    """A value as a message shows it: TOML's words, and not too much of it."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
