"""Declared parameters: each is written once, and constructor, checks, documentation and options follow from it.

An estimator declares a parameter in its class body: its type, its default, what it means and which values it takes.
``_signature`` lists the names in the order of the constructor's arguments::

    class Stumps(Ranker):
        '''Boosted stumps.'''

        _signature = "n_rounds shrinkage seed n_threads progress callbacks"
        n_rounds: int = parameter(default=100)
        shrinkage: float = parameter(default=0.1, doc="What is taken of each stump.", check=Real("(0, 1]"))

From this follow

- ``__init__``, a function with these arguments that stores them untouched, as scikit-learn asks;
- ``_check_parameters``, which ``fit`` calls: it raises a ``ParameterError`` that names the parameter and the value;
- the sections ``Parameters`` and ``Attributes`` of the class docstring;
- ``declared_parameters``, from which the command line makes its options.

What a declaration leaves out comes from the nearest base class that declares the parameter, and then from ``SHARED``,
the parameters that mean one thing everywhere. A base class declares parameters for its subclasses and has no
``_signature``; a subclass takes those that its own ``_signature`` names. A class attribute of the same name that is no
declaration, such as ``l2 = 0.0``, is a constant of that ranker.

Type checkers see the declarations as fields of a dataclass. They read the order of arguments from base classes first,
so what a base class declares for the end of the signature is keyword-only to them (``kw_only=True``).
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, dataclass_transform

from sklearn.base import BaseEstimator

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.binning.bins import MOST_BINS
from rankwood.errors import ParameterError
from rankwood.measures.measure import parse_measure
from rankwood.training.bags import UNITS
from rankwood.training.checkpoint import path_of
from rankwood.training.inputs import SCALES
from rankwood.training.leaves import AUTO
from rankwood.training.rounds import BEST, check_listeners
from rankwood.trees.policies import MISSING_RULES

Check = Callable[
    [str, Any], object
]  # raises ParameterError for a value that the named parameter cannot have

_WIDTH = 116  # of a line of a docstring

# Which values a parameter takes.


@dataclass(frozen=True)
class Whole:
    """Whole numbers from ``least`` to ``most``."""

    least: int
    most: int | None = None

    def __call__(self, name: str, value: Any) -> object:
        """Raise for other values."""
        return checks.whole_number(name, value, self.least, self.most)


@dataclass(frozen=True)
class Real:
    """Numbers in an interval such as ``(0, 1]``; round brackets exclude the end."""

    interval: str

    def __call__(self, name: str, value: Any) -> object:
        """Raise for other values."""
        return checks.real_number(name, value, self.interval)


@dataclass(frozen=True)
class OneOf:
    """One of some names; messages call it ``noun``, or by the parameter's name."""

    known: Iterable[str]
    noun: str | None = None

    def __call__(self, name: str, value: Any) -> object:
        """Raise for other values."""
        return checks.one_of(self.noun or name, value, self.known)


@dataclass(frozen=True)
class OrNone:
    """What another check takes, or None."""

    check: Check

    def __call__(self, name: str, value: Any) -> object:
        """Raise for other values."""
        return None if value is None else self.check(name, value)


def number_or_share(name: str, value: Any) -> object:
    """Raise unless ``value`` is a whole number of features, a share of them (float), or None for all."""
    if isinstance(value, float):
        return checks.real_number(name, value, "(0, 1]")
    return None if value is None else checks.whole_number(name, value, 1)


@dataclass(frozen=True)
class CountOr:
    """Whole numbers from 1, a word, or None."""

    word: str

    def __call__(self, name: str, value: Any) -> object:
        """Raise for other values."""
        if isinstance(value, str) and value != self.word:
            raise ParameterError(
                f"{name} must be '{self.word}', a whole number of at least 1, or None, got {value!r}."
            )
        return value if value in (self.word, None) else checks.whole_number(name, value, 1)


rounds_or_best, leaves_or_auto = CountOr(BEST), CountOr(AUTO)


def measure_of_rankings(_: str, value: Any) -> object:
    """Raise for what is no measure, and for rmse, where scores do not estimate labels."""
    measure = parse_measure(value)
    if measure.name == "rmse":
        raise ParameterError("rmse says nothing about scores that are not on the labels' scale.")
    return measure


def anything(_: str, value: Any) -> object:
    """Take every value: what it must be depends on the data, or on other parameters."""
    return value


# Declarations.


@dataclass(frozen=True)
class Parameter:
    """The default of a parameter, what it means, and which values it takes."""

    default: Any
    doc: str | None = None
    check: Check | None = None

    def completed(self, other: Parameter) -> Parameter:
        """The declaration, with what it leaves out taken from another one."""
        return Parameter(self.default, self.doc or other.doc, self.check or other.check)


def parameter(
    *,
    default: Any,
    doc: str | None = None,
    check: Check | None = None,
    kw_only: bool = False,  # noqa: ARG001 - type checkers read it
) -> Any:
    """Declare a parameter; the class has the rest of its meaning, or ``SHARED``, where something is left out."""
    return Parameter(default, None if doc is None else " ".join(doc.split()), check)


def _shared(doc: str, check: Check = anything) -> Parameter:
    return Parameter(None, " ".join(doc.split()), check)


_TREE_LIMITS = """Where a tree ends: leaves (the most promising is split first), splits from the root, rows in a leaf,
    what a split must remove of the loss. None is no limit."""
_SUBSAMPLE = """The share of rows, or of whole queries (``subsample_by="query"``), that each tree sees, drawn without
    replacement."""
_COSTS = """How much a cost counts against what a split removes, 0 (not at all) or more. By default ("relative") costs
    are shares of the largest and count as shares of the root's sum of squares, so that 1 is much on every data set;
    "raw" takes both as they are."""
_SEED_AND_THREADS = (
    "The same seed gives the same bytes, whatever the number of threads (None: all cores)."
)
_LISTENERS = """Functions that are told of every tree: see ``Progress``. A callback that returns True ends the
    growing."""

# The meaning and the values of parameters that many rankers share; a declaration may override them.
SHARED = {
    "n_trees": _shared(
        "Number of trees, or the most there may be with ``early_stopping``.", Whole(1)
    ),
    "n_rounds": _shared(
        "Number of rounds, or the most there may be with ``early_stopping``.", Whole(1)
    ),
    "max_leaves": _shared(_TREE_LIMITS, OrNone(Whole(1))),
    "max_depth": _shared(_TREE_LIMITS, OrNone(Whole(0))),
    "min_leaf": _shared(_TREE_LIMITS, Whole(1)),
    "min_gain": _shared(_TREE_LIMITS, Real("[0, inf)")),
    "min_split": _shared(
        "Different rows a node must have to be split; smaller ones are leaves.", Whole(1)
    ),
    "features_per_node": _shared(
        "Features a node looks at: a number (int), a share (float), or None for all.",
        number_or_share,
    ),
    "learning_rate": _shared("What is taken of each tree.", Real("(0, 1]")),
    "l2": _shared(
        "Added to the weight of a leaf: larger values pull leaves towards 0.", Real("[0, inf)")
    ),
    "subsample": _shared(_SUBSAMPLE, Real("(0, 1]")),
    "subsample_by": _shared(_SUBSAMPLE, OneOf(UNITS)),
    "early_stopping": _shared(
        """With validation data: "best" does all rounds and keeps those up to the best value of the measure; a number
        also stops when the measure has not improved for so many rounds; None does all rounds and keeps them. Without
        validation data "best" keeps all rounds, and a number is an error.""",
        rounds_or_best,
    ),
    "measure": _shared(
        "What is looked at on the validation data: any measure; rmse is to fall, the others are to rise.",
        lambda _, value: parse_measure(value),
    ),
    "warm_start": _shared(
        "Whether a further ``fit`` adds the rounds that lack to ``n_rounds``, on the same data."
    ),
    "missing": _shared(
        """Where missing values go: "learned", "left", "right", or into a child of their own ("own_child").""",
        OneOf(MISSING_RULES, "treatment of missing values"),
    ),
    "monotone": _shared(
        """For each feature 1 (scores rise with it), -1 or 0; or a mapping from feature names. None leaves all
        free."""
    ),
    "feature_costs": _shared(
        """What computing each feature costs: one number per feature, a mapping from feature names, or the path of a
        cost file. A feature is free once an earlier tree has used it. None: all are free."""
    ),
    "cost_weight": _shared(_COSTS, Real("[0, inf)")),
    "cost_scale": _shared(_COSTS, OneOf(SCALES)),
    "cost_batch": _shared(
        "Trees that grow side by side without seeing which features the others use, where features cost.",
        Whole(1),
    ),
    "max_bins": _shared("Value bins per feature, at most 255.", Whole(2, MOST_BINS)),
    "seed": _shared(_SEED_AND_THREADS, Whole(0)),
    "n_threads": _shared(_SEED_AND_THREADS, lambda _, value: resolve_threads(value)),
    "progress": _shared(_LISTENERS, lambda _, value: check_listeners(value, ())),
    "callbacks": _shared(_LISTENERS, lambda _, value: check_listeners(None, value)),
    "checkpoint": _shared(
        "A file that keeps the trees so far; a fit that finds one there goes on with it.",
        lambda _, value: path_of(value),
    ),
}


# Estimators made from declarations.


@dataclass_transform(field_specifiers=(parameter,))
class DeclaredEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator of scikit-learn whose constructor, checks and documentation follow from declared parameters."""

    _signature: ClassVar[str]  # names of the parameters in the order of the constructor's arguments
    _declared: ClassVar[dict[str, Parameter]]  # what the class itself declares
    _parameters: ClassVar[dict[str, Parameter]]  # all that the constructor takes, complete

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls).items()
        cls._declared = {name: value for name, value in own if isinstance(value, Parameter)}
        for name in cls._declared:
            delattr(cls, name)  # a value belongs to an instance, whose constructor sets it
        if "_signature" in vars(cls):
            names = cls._signature.split()
            _refuse_unlisted(cls, names)
            cls._parameters = {name: _declaration(cls, name) for name in names}
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
            cls.__doc__ = _documentation(cls)

    def _check_parameters(self) -> None:
        """Raise for parameters that are wrong whatever the data; the rest is checked where it is used."""
        for name, declared in self._parameters.items():
            if declared.check is not None:
                declared.check(name, getattr(self, name))


def declared_parameters(kind: type[DeclaredEstimator]) -> dict[str, Parameter]:
    """The parameters of an estimator in the order of its constructor's arguments."""
    return kind._parameters


def _refuse_unlisted(cls: type[DeclaredEstimator], names: list[str]) -> None:
    """Raise for a declaration that is not part of the signature: it would do nothing."""
    unlisted = sorted(set(cls._declared) - set(names))
    if unlisted:
        raise TypeError(
            f"{cls.__name__} declares {unlisted[0]}, which its _signature does not name."
        )


def _declaration(cls: type, name: str) -> Parameter:
    """The declaration of a parameter: the class's own, completed by those of its bases and by ``SHARED``."""
    declarations = [vars(base)["_declared"][name] for base in _declaring(cls, name)]
    if not declarations:
        raise TypeError(f"{cls.__name__} takes {name}, but no class declares it.")
    whole: Parameter = declarations[0]
    for other in [*declarations[1:], SHARED.get(name, Parameter(None))]:
        whole = whole.completed(other)
    if whole.doc is None:
        raise TypeError(f"nothing says what {name} of {cls.__name__} means.")
    return whole


def _declaring(cls: type, name: str) -> list[type]:
    """The class and those of its bases that declare a parameter, the nearest first."""
    return [base for base in cls.__mro__ if name in vars(base).get("_declared", {})]


def _constructor(cls: type[DeclaredEstimator]) -> Any:
    """``__init__`` as one would write it: an argument per parameter, each stored untouched."""
    parameters = cls._parameters
    arguments = ", ".join(f"{name}=defaults[{name!r}]" for name in parameters)
    lines = "".join(f"        self.{name} = {name}\n" for name in parameters)
    source = (
        f"def make(defaults):\n    def __init__(self, {arguments}):\n{lines}    return __init__\n"
    )
    module = sys.modules.get(cls.__module__)  # there is none for a class made by exec
    made: dict[str, Any] = {}
    exec(source, {} if module is None else vars(module), made)  # as dataclasses do
    constructor = made["make"]({name: each.default for name, each in parameters.items()})
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    constructor.__module__ = cls.__module__
    constructor.__annotations__ = {
        **{name: inspect.get_annotations(_declaring(cls, name)[0])[name] for name in parameters},
        "return": "None",
    }
    return constructor


# Docstrings, as numpydoc has them.

_ENTRY = re.compile(r"^(\w[\w, ]*)\n((?:    .*\n?)+)", re.MULTILINE)


def _documentation(cls: type[DeclaredEstimator]) -> str | None:
    """The docstring with its parameters, and with the attributes that base classes document."""
    if cls.__doc__ is None:  # python -OO
        return None
    head, own, examples = _sections(cls)
    attributes = dict(own)
    known = {name for names in own for name in names.split(", ")}
    for base in cls.__mro__[1:]:
        if issubclass(base, DeclaredEstimator) and base.__doc__:
            inherited = _sections(base)[1]
            attributes |= {n: t for n, t in inherited.items() if known.isdisjoint(n.split(", "))}
            known |= {name for names in inherited for name in names.split(", ")}
    parts = [head, _section("Parameters", _grouped(cls)), _section("Attributes", attributes)]
    return "\n\n".join(part for part in [*parts, examples] if part) + "\n"


def _sections(cls: type) -> tuple[str, dict[str, str], str]:
    """What the docstring says before its sections, of the attributes, and in its examples."""
    text = inspect.cleandoc(cls.__doc__ or "")
    text, _, examples = text.partition("\n\nExamples\n--------\n")
    head, _, attributes = text.partition("\n\nAttributes\n----------\n")
    head = head.partition("\n\nParameters\n----------\n")[0]
    entries = {names: " ".join(said.split()) for names, said in _ENTRY.findall(attributes)}
    return head, entries, f"Examples\n--------\n{examples}" if examples else ""


def _grouped(cls: type[DeclaredEstimator]) -> dict[str, str]:
    """What is said of the parameters; those that share a text stand together, in the order of the declarations."""
    parameters = cls._parameters
    order = [
        *SHARED,
        *[name for base in reversed(cls.__mro__) for name in vars(base).get("_declared", {})],
    ]
    groups: dict[str, list[str]] = {}
    for name, declared in parameters.items():
        groups.setdefault(str(declared.doc), []).append(name)
    return {", ".join(sorted(names, key=order.index)): doc for doc, names in groups.items()}


def _section(title: str, entries: dict[str, str]) -> str:
    """A section of a docstring: names, and what is said of them."""
    if not entries:
        return ""
    lines = [title, "-" * len(title)]
    for names, text in entries.items():
        lines.append(names)
        lines += textwrap.wrap(
            text,
            _WIDTH,
            initial_indent="    ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)
