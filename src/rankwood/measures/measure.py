"""``Measure``: a name, a cut-off and conventions, as one value that parses, prints and computes.

The text is ``name``, then ``@cut-off``, then options that differ from the defaults in square
brackets::

    ndcg@10    ndcg@10[gain=linear,empty=1]    err@10[max=4]    pauc@[0,5][relevant=2]

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
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankwood.data.judgments import HasJudgments
from rankwood.dtypes import Floats
from rankwood.errors import ParameterError, UnknownName
from rankwood.measures.options import FORMS, Form, names_with, show

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
        return self.form.is_pooled

    @property
    def conventions(self) -> dict[str, str]:
        """Every convention in force, defaults included."""
        texts = {
            name: "the data's largest label" if self[name] is None else show(self[name])
            for name in self.form.options
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


def is_minimised(measure: Measure) -> bool:
    """Whether less is better."""
    return measure.form.is_minimised


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
    values: dict[str, str] = {}
    if options is None:
        return values
    for part in options.split(","):
        name, equals, value = part.partition("=")
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
