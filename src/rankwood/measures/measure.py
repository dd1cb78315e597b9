"""``Measure``: a name, a cut-off and conventions, as one value that parses, prints and computes.

The text is ``name``, then ``@cut-off``, then options that differ from the defaults in square
brackets::

    ndcg@10    ndcg@10[gain=linear,empty=1]    err@10[max=4]    pauc@[0,5][relevant=2]    rmse[over=queries]

auc, pauc and rmse are pooled: taken over all documents together, as other tools do. With ``over=queries`` they are
means over queries like all other measures, under a name of their own; ``rmse[pooled]`` is the same as ``rmse``.

Presets: the conventions under which other tools publish their numbers.

========== ========================================================= ============================
preset     conventions that differ from our defaults                 source
========== ========================================================= ============================
letor3     discount=letor; NDCG@k of a list shorter than k is 0      Eval-Score-3.0.pl
letor4     the same                                                  Eval-Score-4.0.pl
mslr       the same; a label of 2 or more is relevant                eval-score-mslr.pl
lightgbm   empty queries are 1; MAP@k divides by min(relevant, k)    tested against lightgbm
xgboost    the same; P@k divides by the documents shown              tested against xgboost
trec_eval  gain=linear; equal scores by descending document id       tested against pytrec_eval
sklearn    gain=linear; DCG and NDCG are means over tied orders      tested against scikit-learn
yahoo      empty queries have NDCG 1; ERR's scale ends at label 4    accounts of it, see below
========== ========================================================= ============================

letor3, letor4, mslr: the Perl scripts published with the collections. They compute NDCG@k for k up
to the query's length and add nothing beyond it, which is why NDCG@10 of MQ2008 is low in LETOR's
tables: half of its queries have fewer documents. They sort stably, count empty queries as 0, and
divide P@k by k.

trec_eval: scores are single precision there; scores that differ only beyond it are tied in
trec_eval and not here. Its document ids are compared as bytes. Needs ``doc_ids``.

yahoo: the challenge's tool is no longer published. Accounts of it give empty queries the value 1
(Busa-Fekete et al. 2013); others used 0.5, which ``empty=0.5`` gives. ERR uses (2^y - 1)/16 for
labels 0 to 4 (Chapelle & Chang 2011).

``FORMS`` lists every measure by name: its cut-off, options with their values and defaults, meaning and example
texts. The value of an option is kept in one canonical form, so that equal conventions are equal values: a name, a
number, or, for a table of gains, a tuple of numbers.
"""

from __future__ import annotations

import itertools
import math
import numbers
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rankwood.data.dataset import HasJudgments
from rankwood.dtypes import Floats
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
_OVER = Option(
    "over",
    "documents",
    _choice("documents", "queries"),
    "all documents together, or each query's own",
)
_P_NORM = Option("norm", "cutoff", _choice("cutoff", "retrieved"), "what hits are divided by")


def _form(
    cutoff: str,
    meaning: str,
    examples: str,
    *options: Option,
    is_minimised: bool = False,
) -> Form:
    by_name = {option.name: option for option in options}
    return Form(cutoff, by_name, meaning, tuple(examples.split()), is_minimised)


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
    "auc": _form("none", "area under the ROC curve", "auc", _RELEVANT, _OVER),
    "pauc": _form("range", "part of the area under the ROC curve", "pauc@[0,5]", _RELEVANT, _OVER),
    "rmse": _form("none", "root of the mean squared error", "rmse", _OVER, is_minimised=True),
}


def names_with(option: str) -> tuple[str, ...]:
    """The measures that take an option."""
    return tuple(name for name, form in FORMS.items() if option in form.options)


Cutoff = int | tuple[float, float] | None
LARGEST_CUTOFF = 2**31 - 1

# A text for every measure and every way of computing it, used to compile all kernels.
MEASURES = tuple(text for form in FORMS.values() for text in form.examples)

_SHAPE = re.compile(
    r"""
    (?P<name> [^@\[\]=,]+ )
    (?: @ (?: \[ (?P<range> [^\[\]=]* ) \] | (?P<cutoff> [^@\[\]=,]* ) ) )?
    (?: \[ (?P<options> [^\[\]]* ) \] )?
    """,
    re.VERBOSE,
)

# The conventions of each preset, by measure.
_LETOR: Mapping[str, Mapping[str, Any]] = {
    "dcg": {"discount": "letor"},
    "ndcg": {"discount": "letor", "short": "zero"},
    "mean_ndcg": {"discount": "letor"},
}
_BOOSTING: Mapping[str, Mapping[str, Any]] = {
    "ndcg": {"empty": 1.0},
    "mean_ndcg": {"empty": 1.0},
    "map": {"empty": 1.0, "norm": "cutoff"},
}
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "letor3": _LETOR,
    "letor4": _LETOR,
    "mslr": {**_LETOR, **{name: {"relevant": 2.0} for name in names_with("relevant")}},
    "lightgbm": _BOOSTING,
    "xgboost": {**_BOOSTING, "p": {"norm": "retrieved"}},
    "trec_eval": {
        name: {"ties": "docid"} | ({"gain": "linear"} if name in names_with("gain") else {})
        for name in names_with("ties")
    },
    "sklearn": {
        "dcg": {"gain": "linear", "ties": "average"},
        "ndcg": {"gain": "linear", "ties": "average"},
        "mean_ndcg": {"gain": "linear", "ties": "average"},
    },
    "yahoo": {"ndcg": {"empty": 1.0}, "mean_ndcg": {"empty": 1.0}, "err": {"max": 4.0}},
}


@dataclass(frozen=True)
class Measure:
    """A measure with every convention fixed.

    Parameters
    ----------
    name
        One of dcg, ndcg, mean_ndcg, map, p, r, mrr, err, rbp, tau, judged, auc, pauc, rmse.
    cutoff
        How many documents count; for pauc the two false-positive rates in percent; None for all.
    options
        Conventions by name, as a mapping or as pairs. Only those that differ from the defaults are
        kept, so two measures that compute the same are equal.
    """

    name: str
    cutoff: Cutoff = None
    options: Mapping[str, Any] | tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.name not in FORMS:
            raise UnknownName("measure", str(self.name), FORMS)
        cutoff = _check_cutoff(self.name, self.form.cutoff, self.cutoff)
        object.__setattr__(self, "cutoff", cutoff)
        object.__setattr__(self, "options", _check_options(self.name, self.form, self.options))

    @property
    def form(self) -> Form:
        """What this kind of measure takes."""
        return FORMS[self.name]

    @property
    def k(self) -> int | None:
        """The cut-off as a number of documents; None for all."""
        return self.cutoff if isinstance(self.cutoff, int) else None

    @property
    def rates(self) -> tuple[float, float]:
        """The false-positive rates between which an area is taken, as shares."""
        if not isinstance(self.cutoff, tuple):
            return 0.0, 1.0
        return self.cutoff[0] / 100.0, self.cutoff[1] / 100.0

    @property
    def is_pooled(self) -> bool:
        """Whether the value is taken over all documents together, not as a mean over queries."""
        return "over" in self.form.options and self["over"] == "documents"

    @property
    def over_queries(self) -> Measure:
        """The mean over queries of the same measure: itself, or for a pooled one the form ``over=queries``."""
        if not self.is_pooled:
            return self
        return Measure(self.name, self.cutoff, {**dict(self.options), "over": "queries"})

    def with_largest(self, label: float | None) -> Measure:
        """The measure with ``max=label``, where it has a scale of labels and no ``max`` of its own."""
        if label is None or "max" not in self.form.options or self["max"] is not None:
            return self
        if label <= 0:  # no document is relevant: any scale gives 0
            return self
        return Measure(self.name, self.cutoff, {**dict(self.options), "max": label})

    @property
    def needs_queries(self) -> bool:
        """Whether rows must have query ids; the error over all documents together is a value without them."""
        return not (self.name == "rmse" and self.is_pooled)

    @property
    def conventions(self) -> dict[str, str]:
        """Every convention in force, defaults included."""
        texts = {
            name: "the data's largest label" if self[name] is None else show(self[name])
            for name in self.form.options
            if not (name == "over" and self.is_pooled)  # which "pooled" says
        }
        if self.name == "tau":
            texts["variant"] = "tau-b"
        if self.is_pooled:
            texts["pooled"] = "over documents"
        return texts

    def __getitem__(self, option: str) -> Any:
        """The value of an option, given or default."""
        if option not in self.form.options:
            raise UnknownName(f"option of {self.name}", option, self.form.options)
        return dict(self.options).get(option, self.form.options[option].default)

    def __str__(self) -> str:
        text = self.name
        if isinstance(self.cutoff, tuple):
            text += f"@[{show(self.cutoff[0])},{show(self.cutoff[1])}]"
        elif self.cutoff is not None:
            text += f"@{self.cutoff}"
        options = [f"{name}={show(value)}" for name, value in dict(self.options).items()]
        if options:
            text += f"[{','.join(options)}]"
        return text

    def __repr__(self) -> str:
        return f"Measure({str(self)!r})"

    def per_query(
        self, scores: Any, data: HasJudgments, *, n_threads: int | None = None, **documents: Any
    ) -> Floats:
        """One value per query, in the order of ``data.queries``; NaN where ``empty=skip`` leaves it out.

        ``documents`` are the arguments ``judged``, ``retrieved`` and ``unjudged`` of ``evaluate``.
        """
        from rankwood.measures.compute import query_values
        from rankwood.measures.ranking import lists_for

        lists = lists_for(self, scores, data, n_threads=n_threads, **documents)
        return query_values(self, lists).values

    @property
    def ties(self) -> str:
        """The rule for equal scores."""
        return str(self["ties"]) if "ties" in self.form.options else "data"


def _check_cutoff(name: str, kind: str, cutoff: Any) -> Cutoff:
    if kind == "range":
        return _check_range(name, cutoff)
    if cutoff is None:
        if kind == "required":
            raise ParameterError(f"{name} needs a cut-off, as in {name}@10.")
        return None
    if kind == "none":
        raise ParameterError(f"{name} takes no cut-off, got '{name}@{_plain(cutoff)}'.")
    is_whole = isinstance(cutoff, numbers.Integral) and not isinstance(cutoff, bool)
    if not is_whole or not 1 <= cutoff <= LARGEST_CUTOFF:
        raise ParameterError(
            f"the cut-off of {name} must be a whole number between 1 and {LARGEST_CUTOFF}, "
            f"got '{_plain(cutoff)}'."
        )
    return int(cutoff)


def _check_range(name: str, cutoff: Any) -> tuple[float, float]:
    try:
        low, high = (float(rate) for rate in cutoff)
        if not 0.0 <= low < high <= 100.0:
            raise ValueError
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} needs two false-positive rates in percent, 0 ≤ a < b ≤ 100, "
            f"as in {name}@[0,5]; got '{_plain(cutoff)}'."
        ) from None
    return abs(low), high


def _check_options(
    name: str, form: Form, options: Mapping[str, Any] | tuple[tuple[str, Any], ...]
) -> tuple[tuple[str, Any], ...]:
    given = dict(options)
    for given_name in given:
        if given_name not in form.options:
            raise UnknownName(f"option of {name}", str(given_name), form.options)
    kept = []
    for option_name, option in form.options.items():
        if given.get(option_name) is None:
            continue
        value = option.read(f"{option_name} of {name}", given[option_name])
        if value != option.default:
            kept.append((option_name, value))
    return tuple(kept)


def _plain(value: Any) -> str:
    """A value without brackets, quotes or type names."""
    if isinstance(value, (tuple, list)):
        return ",".join(str(part) for part in value)
    return str(value)


# From text to measures.


@dataclass(frozen=True)
class OwnMeasure:
    """A measure that a function of (scores, data) computes; the greater, the better."""

    function: Callable[[Any, Any], Any]
    name: str

    needs_queries = False
    is_pooled = True

    @classmethod
    def of(cls, function: Callable[[Any, Any], Any]) -> OwnMeasure:
        """A measure by the name of its function."""
        return cls(function, str(getattr(function, "__name__", type(function).__name__)))

    def __str__(self) -> str:
        return self.name

    def value(self, scores: Any, data: Any) -> float:
        """What the function says; an error where that is no number."""
        answer = self.function(scores, data)
        try:
            return float(answer)
        except (TypeError, ValueError):
            raise ParameterError(
                f"measure {self.name} must give one number, got {type(answer).__name__}."
            ) from None


def is_minimised(measure: Measure | OwnMeasure) -> bool:
    """Whether less is better."""
    return isinstance(measure, Measure) and measure.form.is_minimised


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
    options = preset_options(preset, name) | _split_options(text, name, match["options"])
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


def _split_options(text: str, measure: str, options: str | None) -> dict[str, str]:
    """Option texts by name; an option given twice is refused."""
    values: dict[str, str] = {}
    if options is None:
        return values
    for part in options.split(","):
        name, equals, value = part.partition("=")
        if part == "pooled":
            if "over" not in FORMS[measure].options:
                raise ParameterError(
                    f"'{text}': {measure} is a mean over queries; only {', '.join(names_with('over'))} can be pooled."
                )
            name, equals, value = "over", "=", "documents"
        if not (name and equals and value):
            raise ParameterError(f"'{text}': '{part}' is not an option; write option=value.")
        if name in values:
            raise ParameterError(f"'{text}': the option {name} is given twice.")
        values[name] = value
    return values


def preset_options(preset: str | None, measure: str) -> dict[str, Any]:
    """The conventions a preset sets for a measure; nothing without a preset."""
    if preset is None:
        return {}
    if preset not in PRESETS:
        raise UnknownName("preset", str(preset), PRESETS)
    return dict(PRESETS[preset].get(measure, {}))
