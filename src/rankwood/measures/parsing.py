"""From text to measures: ``parse_measure("ndcg@10[gain=linear]")``."""

from __future__ import annotations

import re
from typing import Any

from rankwood.errors import ParameterError, UnknownName
from rankwood.measures.measure import Measure
from rankwood.measures.options import FORMS
from rankwood.measures.presets import preset_options

_SHAPE = re.compile(
    r"""
    (?P<name> [^@\[\]=,]+ )
    (?: @ (?: \[ (?P<range> [^\[\]=]* ) \] | (?P<cutoff> [^@\[\]=,]* ) ) )?
    (?: \[ (?P<options> [^\[\]]* ) \] )?
    """,
    re.VERBOSE,
)


def parse_measure(text: str | Measure, preset: str | None = None) -> Measure:
    """The measure that ``text`` names.

    Conventions it leaves out come from ``preset``, else they are the defaults. Spaces and capitals
    do not matter. A ``Measure`` is returned as it is.
    """
    if isinstance(text, Measure):
        return text
    if not isinstance(text, str):
        raise ParameterError(f"a measure is text such as 'ndcg@10', got {type(text).__name__}.")
    match = _SHAPE.fullmatch(squeeze(text))
    if match is None:
        raise ParameterError(
            f"'{text}' is not a measure. Write name@cut-off[option=value,...], "
            "as in ndcg@10[gain=linear]; brackets must be closed."
        )
    name = match["name"]
    if name not in FORMS:
        raise UnknownName("measure", name, FORMS)
    options = preset_options(preset, name) | _split_options(text, match["options"])
    try:
        return Measure(name, _read_cutoff(match), tuple(options.items()))
    except UnknownName:
        raise
    except ParameterError as error:
        raise ParameterError(f"'{text}': {error}") from None


def squeeze(text: str) -> str:
    """The text without spaces and capitals."""
    return re.sub(r"\s+", "", text).lower()


def _read_cutoff(match: re.Match[str]) -> Any:
    if match["range"] is not None:
        return tuple(match["range"].split(","))
    text = match["cutoff"]
    if text is not None and re.fullmatch(r"[0-9]{1,20}", text):
        return int(text)
    return text


def _split_options(text: str, options: str | None) -> dict[str, str]:
    """Option texts by name; an option given twice is refused."""
    found: dict[str, str] = {}
    if options is None:
        return found
    for part in options.split(","):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise ParameterError(f"'{text}': '{part}' is not an option; write option=value.")
        if name in found:
            raise ParameterError(f"'{text}': the option {name} is given twice.")
        found[name] = value
    return found
