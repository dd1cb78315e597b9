"""How to repeat the run: its commands, configuration, versions, machine and seeds, as the record has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rankwood.experiments.report.html import Markup, clean, element, join
from rankwood.experiments.report.tables import shown

COMMAND_KEYS = ("repeat", "commands", "command", "how_to_repeat")
_LATER = ("configuration", "config", "toml")  # long: shown on demand
_ELSEWHERE = ("format", "name", "measures", "conventions")  # in parts of their own
_LONGEST = 20_000  # letters of a configuration


def commands_of(record: Mapping[str, Any]) -> list[str]:
    """The commands that make the run again, where the record names some."""
    for key in COMMAND_KEYS:
        value = record.get(key)
        if isinstance(value, Mapping):
            value = value.get("command")
        if isinstance(value, str):
            return value.splitlines()
        if isinstance(value, list | tuple):
            return [line for part in value for line in str(part).splitlines()]
    return []


def facts_of(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything else that is short, one line per fact."""
    left_out = {*COMMAND_KEYS, *_LATER, *_ELSEWHERE}
    return [
        (name, text)
        for name, text in _flat(
            {key: value for key, value in record.items() if key not in left_out}
        )
        if text
    ]


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, part in value.items():
        name = f"{above}{key}".replace("_", " ")
        if isinstance(part, Mapping):
            yield from _flat(part, f"{name} · ")
        else:
            yield name, shown(part)


def configuration_of(record: Mapping[str, Any]) -> str:
    """The run's configuration as text; empty where the record has none."""
    for key in _LATER:
        if key in record:
            value = record[key]
            text = (
                value
                if isinstance(value, str)
                else json.dumps(value, indent=2, default=str, ensure_ascii=False)
            )
            return clean(text[:_LONGEST])
    return ""


def repeat_part(record: Mapping[str, Any]) -> list[Markup]:
    """The children of the part "How to repeat"."""
    commands, facts, text = commands_of(record), facts_of(record), configuration_of(record)
    rows = [
        element("tr", element("th", name, scope="row"), element("td", value))
        for name, value in facts
    ]
    parts = []
    if commands:
        parts.append(element("pre", element("code", "\n".join(commands)), tabindex="0"))
    if text:
        head = element("summary", "The configuration")
        parts.append(element("details", head, element("pre", text, tabindex="0"), class_="printed"))
    if rows:
        frame = element("table", element("tbody", *rows), class_="record")
        label = "Versions, machine and seeds"
        parts.append(
            element("div", frame, class_="frame", tabindex="0", role="region", aria_label=label)
        )
    return parts or [join(element("p", "This run kept no record of how it was made."))]
