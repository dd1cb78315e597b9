"""``Measure``: a name, a cut-off and conventions, as one value that parses, prints and computes.

The text is ``name``, then ``@cut-off``, then options that differ from the defaults in square
brackets::

    ndcg@10    ndcg@10[gain=linear,empty=1]    err@10[max=4]    pauc@[0,5][relevant=2]
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import ParameterError, UnknownName
from rankwood.measures.options import FORMS, Form, show

Cutoff = int | tuple[float, float] | None
LARGEST_CUTOFF = 2**31 - 1

# A text for every name and every way of computing, with the cut-off it needs: for examples, and to
# compile it all.
MEASURES = (
    "ndcg@10",
    "ndcg[ties=average]",
    "dcg@10",
    "mean_ndcg",
    "map",
    "p@10",
    "r@10",
    "mrr",
    "err@10",
    "rbp",
    "tau",
    "judged@10",
    "auc",
    "pauc@[0,5]",
    "rmse",
)


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
        self, scores: Any, data: RankingData, *, n_threads: int | None = None, **documents: Any
    ) -> Floats:
        """One value per query, in the order of ``data.queries``; NaN where ``empty=skip`` leaves it out.

        ``documents`` are the arguments ``judged``, ``retrieved`` and ``unjudged`` of ``evaluate``.
        """
        from rankwood.measures.computing import query_values
        from rankwood.measures.grouping import lists_for

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
