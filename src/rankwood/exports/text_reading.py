"""Numbers and JSON out of files that are not to be trusted."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from rankwood.errors import ModelError

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_SHOWN = 30


def text_of(content: bytes) -> str:
    """The file as text."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"it is not text in UTF-8 (byte {error.start:,}).") from None


def number_of(text: Any, what: str) -> float:
    """A finite number from its text."""
    if isinstance(text, str) and _NUMBER.fullmatch(text.strip()) and len(text) <= 1000:
        number = float(text)
        if math.isfinite(number):
            return number
    raise ModelError(f"{what} must be a finite number, got {_shown(text)}.")


def whole_of(text: Any, what: str) -> int:
    """A whole number from its text."""
    if isinstance(text, str) and _WHOLE.fullmatch(text.strip()):
        return int(text)
    raise ModelError(f"{what} must be a whole number, got {_shown(text)}.")


def json_of(content: bytes) -> Any:
    """The value of a JSON file; NaN and infinity are refused, and so is what is nested too deep."""
    try:
        return json.loads(text_of(content), parse_constant=_refuse_constant, parse_int=_parse_int)
    except json.JSONDecodeError as error:
        raise ModelError(f"it is not valid JSON: line {error.lineno}: {error.msg}.") from None
    except RecursionError:
        raise ModelError("it is nested too deep to be read.") from None


def _refuse_constant(text: str) -> float:
    raise ModelError(f"it holds {text}; every number must be finite.")


def _parse_int(text: str) -> int:
    # Python takes quadratic time for integers of many digits, and refuses them with an error of its own.
    if len(text) > 18:
        raise ModelError(f"it holds a whole number of {len(text):,} digits.")
    return int(text)


def mapping(value: Any, what: str) -> dict[str, Any]:
    """``value`` if it is a JSON object."""
    if not isinstance(value, dict):
        raise ModelError(f"{what} must be an object, got {_shown(value)}.")
    return value


def sequence(value: Any, what: str) -> list[Any]:
    """``value`` if it is a JSON array."""
    if not isinstance(value, list):
        raise ModelError(f"{what} must be an array, got {_shown(value)}.")
    return value


def json_number(value: Any, what: str) -> float:
    """``value`` if it is a finite JSON number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise ModelError(f"{what} must be a finite number, got {_shown(value)}.")


def json_whole(value: Any, what: str) -> int:
    """``value`` if it is a whole JSON number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ModelError(f"{what} must be a whole number, got {_shown(value)}.")


def json_text(value: Any, what: str) -> str:
    """``value`` if it is a JSON string."""
    if not isinstance(value, str):
        raise ModelError(f"{what} must be a text, got {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
