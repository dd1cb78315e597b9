"""The options of measures: their names, values and defaults, and which measure takes which.

``FORMS`` lists every measure by name: its cut-off, options, meaning and example texts. The value of an
option is kept in one canonical form, so that equal conventions are equal values: a name, a number, or,
for a table of gains, a tuple of numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rankwood.errors import ParameterError, UnknownName


@dataclass(frozen=True)
class Option:
    """One convention: what it is, its default, and how its text is read."""

    name: str
    default: Any
    read: Callable[[str, Any], Any]
    meaning: str


@dataclass(frozen=True)
class Form:
    """What a measure takes, and what it means."""

    cutoff: str  # "none", "optional", "required" or "range"
    options: Mapping[str, Option]
    meaning: str
    examples: tuple[str, ...]  # texts that show the measure, one for each way of computing it
    is_pooled: bool = False  # taken over all documents together, not a mean over queries
    is_minimised: bool = False  # whether less is better


def show(value: Any) -> str:
    """The text of an option's value, as it is parsed."""
    if isinstance(value, tuple):
        return "/".join(show(gain) for gain in value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def _choice(*names: str) -> Callable[[str, Any], Any]:
    def read(option: str, value: Any) -> Any:
        text = show(value).strip().lower() if not isinstance(value, str) else value.strip().lower()
        if text not in names:
            raise UnknownName(option, text, names)
        return text

    return read


def _number(option: str, value: Any, low: float, high: float, allowed: str) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not low < number < high:
        raise ParameterError(f"{option} must be {allowed}, got '{value}'.")
    return number


def _positive(option: str, value: Any) -> float:
    return _number(option, value, 0.0, math.inf, "a number above 0")


def _persistence(option: str, value: Any) -> float:
    return _number(option, value, 0.0, 1.0, "between 0 and 1, both excluded")


def _empty(option: str, value: Any) -> float | str:
    if isinstance(value, str) and value.strip().lower() == "skip":
        return "skip"
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if number not in (0.0, 0.5, 1.0):
        raise ParameterError(f"{option} must be 0, 0.5, 1 or skip, got '{value}'.")
    return abs(number)  # no -0


def _gain(option: str, value: Any) -> str | tuple[float, ...]:
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("exponential", "linear"):
            return text
        if "/" not in text:
            raise UnknownName(option, text, ("exponential", "linear", "a table such as 0/1/3/7/15"))
        value = text.split("/")
    table = tuple(
        abs(
            _number(f"{option} of label {label}", gain, -5e-324, math.inf, "a number of at least 0")
        )
        for label, gain in enumerate(value)
    )
    if len(table) < 2:
        raise ParameterError(f"{option} must have the gains of at least two labels, as in 0/1.")
    if any(one > other for one, other in itertools.pairwise(table)):
        raise ParameterError(f"{option} must not fall as labels rise, got '{show(table)}'.")
    return table


_GAIN = Option("gain", "exponential", _gain, "2^label - 1, the label itself, or a table")
_DISCOUNT = Option("discount", "log2", _choice("log2", "letor"), "how a rank counts")
_EMPTY = Option("empty", 0.0, _empty, "value of a query without relevant documents")
_TIES = Option("ties", "data", _choice("data", "average", "docid"), "order of equal scores")
_STRICT_TIES = Option("ties", "data", _choice("data", "docid"), "order of equal scores")
_RELEVANT = Option("relevant", 1.0, _positive, "least label of a relevant document")
_MAX = Option("max", None, _positive, "largest label of the scale; the data's without it")
_SHORT = Option("short", "keep", _choice("keep", "zero"), "NDCG@k of a list shorter than k")
_PERSISTENCE = Option("p", 0.8, _persistence, "chance that a reader goes on")
_MAP_NORM = Option(
    "norm", "relevant", _choice("relevant", "cutoff", "found"), "what the sum is divided by"
)
_P_NORM = Option("norm", "cutoff", _choice("cutoff", "retrieved"), "what hits are divided by")


def _form(
    cutoff: str,
    meaning: str,
    examples: str,
    *options: Option,
    is_pooled: bool = False,
    is_minimised: bool = False,
) -> Form:
    by_name = {option.name: option for option in options}
    return Form(cutoff, by_name, meaning, tuple(examples.split()), is_pooled, is_minimised)


FORMS: Mapping[str, Form] = {
    "dcg": _form(
        "optional", "discounted cumulative gain", "dcg@10", _GAIN, _DISCOUNT, _EMPTY, _TIES
    ),
    "ndcg": _form(
        "optional",
        "DCG over that of the best ranking",
        "ndcg@10 ndcg[ties=average]",
        _GAIN,
        _DISCOUNT,
        _EMPTY,
        _TIES,
        _SHORT,
    ),
    "mean_ndcg": _form(
        "none",
        "mean of NDCG@k over all k of the query",
        "mean_ndcg",
        _GAIN,
        _DISCOUNT,
        _EMPTY,
        _TIES,
    ),
    "map": _form(
        "optional", "mean average precision", "map", _RELEVANT, _MAP_NORM, _EMPTY, _STRICT_TIES
    ),
    "p": _form("required", "precision", "p@10", _RELEVANT, _P_NORM, _EMPTY, _TIES),
    "r": _form("required", "recall", "r@10", _RELEVANT, _EMPTY, _TIES),
    "mrr": _form("optional", "mean reciprocal rank", "mrr", _RELEVANT, _EMPTY, _STRICT_TIES),
    "err": _form("optional", "expected reciprocal rank", "err@10", _MAX, _EMPTY, _STRICT_TIES),
    "rbp": _form(
        "optional", "rank-biased precision", "rbp", _PERSISTENCE, _GAIN, _MAX, _EMPTY, _TIES
    ),
    "tau": _form("none", "Kendall's tau-b of scores and labels", "tau", _EMPTY),
    "judged": _form("required", "share of documents with a label", "judged@10", _TIES),
    "auc": _form("none", "area under the ROC curve", "auc", _RELEVANT, is_pooled=True),
    "pauc": _form(
        "range", "part of the area under the ROC curve", "pauc@[0,5]", _RELEVANT, is_pooled=True
    ),
    "rmse": _form(
        "none", "root of the mean squared error", "rmse", is_pooled=True, is_minimised=True
    ),
}


def names_with(option: str) -> tuple[str, ...]:
    """The measures that take an option."""
    return tuple(name for name, form in FORMS.items() if option in form.options)
