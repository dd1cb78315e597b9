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

import difflib
import functools
import inspect
import numbers
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, ParamSpec, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator

from rankwood._core import checks
from rankwood._core.threads import resolve_threads
from rankwood.binning.bins import MOST_BINS
from rankwood.engines.bags import UNITS
from rankwood.engines.engine import check_device
from rankwood.errors import ParameterError
from rankwood.losses.position_bias import check_bias
from rankwood.measures.measure import parse_measure
from rankwood.training.forest import AUTO
from rankwood.training.inputs import SCALES
from rankwood.training.rounds import BEST, check_listeners, path_of
from rankwood.trees.grower import MISSING_RULES

Check = Callable[
    [str, Any], object
]  # raises ParameterError for a value that the named parameter cannot have

_LARGEST = 2**53
_WIDTH = 116  # of a line of a docstring

# Which values a parameter takes.


@dataclass(frozen=True)
class Whole:
    """Whole numbers from ``least`` to ``most``; by default up to what kernels can add to without overflow."""

    least: int
    most: int | None = _LARGEST

    def __call__(self, name: str, value: Any) -> object:
        """Raise for other values."""
        is_beyond = isinstance(value, numbers.Integral) and int(value) > _LARGEST
        most = self.most if self.most != _LARGEST or is_beyond else None
        return checks.whole_number(name, value, self.least, most)


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


def seed_of_parts(doc: str) -> Any:
    """The parameter ``seed`` of a ranker that is built of others: None leaves them theirs."""
    return parameter(default=None, doc=doc, check=OrNone(Whole(0, None)), kw_only=True)


def number_or_share(name: str, value: Any) -> object:
    """Raise unless ``value`` is a whole number of features, a share of them (float), or None for all."""
    if isinstance(value, float | np.floating):
        return checks.real_number(name, value, "(0, 1]")
    return None if value is None else Whole(1)(name, value)


def leaves_some_out(features: int | float | None) -> bool:
    """Whether a number or share of features, as ``number_or_share`` takes it, may be fewer than all."""
    return features is not None and not (isinstance(features, float) and features == 1.0)


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
        return value if value is None or isinstance(value, str) else Whole(1)(name, value)


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
    # Added when there were model files without it: files leave it out where it has its default, and keep their bytes.
    is_later: bool = False

    def completed(self, other: Parameter) -> Parameter:
        """The declaration, with what it leaves out taken from another one."""
        is_later = self.is_later or other.is_later
        return Parameter(self.default, self.doc or other.doc, self.check or other.check, is_later)


def parameter(
    *,
    default: Any,
    doc: str | None = None,
    check: Check | None = None,
    kw_only: bool = False,  # noqa: ARG001 - type checkers read it
) -> Any:
    """Declare a parameter; the class has the rest of its meaning, or ``SHARED``, where something is left out."""
    return Parameter(default, None if doc is None else " ".join(doc.split()), check)


def _shared(doc: str, check: Check = anything, *, is_later: bool = False) -> Parameter:
    return Parameter(None, " ".join(doc.split()), check, is_later)


_TREE_LIMITS = """Where a tree ends: leaves (the most promising is split first), splits from the root, rows in a leaf,
    what a split must remove of the loss. None is no limit."""
_SUBSAMPLE = """The share of rows, or of whole queries (``subsample_by="query"``), that each tree sees, drawn without
    replacement."""
_COSTS = """How much a cost counts against what a split removes, 0 (not at all) or more. By default ("relative") costs
    are shares of the largest and count as shares of the root's sum of squares, so that 1 is much on every data set;
    "raw" takes both as they are."""
SEED_AND_THREADS = (
    "The same seed gives the same bytes, whatever the number of threads (None: all cores)."
)
NOTHING_DRAWN = "Ignored: nothing is random, and any seed gives the same model."
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
        "Whether a further ``fit`` adds the rounds that lack to ``n_rounds``, on the same data.",
        checks.true_or_false,
    ),
    "l1": _shared(
        "How far the sum of a leaf's gradients is moved towards 0: larger values make more leaves 0.",
        Real("[0, inf)"),
        is_later=True,
    ),
    "features_per_tree": _shared(
        """Features drawn for each tree: a number (int), a share (float), or None for all. Nodes search these, or draw
        ``features_per_node`` of them.""",
        number_or_share,
        is_later=True,
    ),
    "interactions": _shared(
        """Groups of features, by name or number, that may meet on a path from the root to a leaf, as
        [["bm25", "length"], ["age"]]; features of no group are one more group. None lets all meet.""",
        is_later=True,
    ),
    "dropout": _shared(
        """DART: the share of earlier trees that is left out while a tree is fitted, at least one of them. The new tree
        and those left out then share their weight. 0 leaves none out.""",
        Real("[0, 1]"),
        is_later=True,
    ),
    "skip_dropout": _shared(
        "The share of rounds in which no tree is left out, where ``dropout`` is above 0.",
        Real("[0, 1]"),
        is_later=True,
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
    "seed": _shared(SEED_AND_THREADS, Whole(0, None)),
    "n_threads": _shared(SEED_AND_THREADS, lambda _, value: resolve_threads(value)),
    "position_bias": _shared(
        """For click logs, whose data have positions: what ``rankwood.position_bias`` estimates, or the path of a saved
        one. Clicks then count by the chance that they were looked at. ``predict`` needs no positions. None takes clicks
        as labels like any other.""",
        check_bias,
        is_later=True,
    ),
    "device": _shared(
        """Where trees are grown: "cpu" is the threads of this process. A model is the same bytes wherever it is
        grown.""",
        check_device,
    ),
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
        """Raise for parameters that are wrong whatever the data; the rest is checked where it is used.

        A number of numpy becomes the same number of Python, once and for all: its arithmetic wraps, kernels would be
        compiled for its type, and ``isinstance(value, int)`` does not know it.
        """
        for name, declared in self._parameters.items():
            value = getattr(self, name)
            if declared.check is not None:
                declared.check(name, value)
            if isinstance(value, np.number | np.bool_):
                setattr(self, name, _of_python(value))


def _of_python(value: np.generic) -> Any:
    """A number of numpy as one of Python."""
    if isinstance(value, np.floating):
        return float(value)  # item() of a long double is one again
    return value.item()


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
    return explains_names(constructor)


# Names of other libraries. What is not here is answered by the nearest name of ours.

_LENGTH = ("n_trees", "n_rounds")
_VALID = "validation data are valid=(X, y, qid), RankingData, or a mapping from names to these"
_SIZES = (
    "qid= takes the query of each row; for group sizes: np.repeat(np.arange(len(sizes)), sizes)"
)
# What a name is called here: names of parameters, of which a ranker has the first that it has, or a sentence.
_FOREIGN: dict[str, tuple[str, ...] | str] = {
    **dict.fromkeys(
        ("n_estimators", "num_iterations", "num_boost_round", "num_round", "iterations", "num_trees", "max_iter"),
        _LENGTH,
    ),
    **dict.fromkeys(("num_leaves", "max_leaf_nodes", "max_leaf"), ("max_leaves",)),
    "depth": ("max_depth",),
    **dict.fromkeys(
        ("min_child_samples", "min_data_in_leaf", "min_samples_leaf"), ("min_leaf",)
    ),
    **dict.fromkeys(("min_child_weight", "min_sum_hessian_in_leaf"), ("min_hessian",)),
    **dict.fromkeys(("min_split_gain", "min_gain_to_split", "gamma"), ("min_gain",)),
    **dict.fromkeys(("eta", "shrinkage", "shrinkage_rate"), ("learning_rate",)),
    **dict.fromkeys(("reg_lambda", "lambda_l2", "l2_leaf_reg", "l2_regularization"), ("l2",)),
    **dict.fromkeys(("reg_alpha", "lambda_l1", "alpha"), ("l1",)),
    **dict.fromkeys(
        ("colsample_bytree", "feature_fraction", "colsample"), ("features_per_tree",)
    ),
    **dict.fromkeys(
        ("colsample_bynode", "feature_fraction_bynode", "max_features", "rsm"),
        ("features_per_node",),
    ),
    **dict.fromkeys(("bagging_fraction", "max_samples"), ("subsample", "bag_share")),
    "bagging_freq": "subsample= draws rows anew for every tree",
    "bagging_by_query": ("subsample_by", "bag"),
    **dict.fromkeys(("random_state", "random_seed"), ("seed",)),
    **dict.fromkeys(("n_jobs", "nthread", "num_threads", "thread_count"), ("n_threads",)),
    **dict.fromkeys(("max_bin", "border_count"), ("max_bins",)),
    **dict.fromkeys(("monotone_constraints", "monotonic_cst"), ("monotone",)),
    **dict.fromkeys(("interaction_constraints", "interaction_cst"), ("interactions",)),
    **dict.fromkeys(("drop_rate", "rate_drop"), ("dropout",)),
    "skip_drop": ("skip_dropout",),
    "lambdarank_truncation_level": ("truncation",),
    **dict.fromkeys(("lambdarank_norm", "lambdarank_normalization"), ("normalise",)),
    "sigmoid": ("sigma",),
    "label_gain": ("target",),
    "ndcg_exp_gain": ("target",),
    **dict.fromkeys(("eval_metric", "metric", "custom_metric"), ("measure",)),
    **dict.fromkeys(
        ("early_stopping_rounds", "early_stopping_round", "od_wait", "n_iter_no_change"),
        ("early_stopping",),
    ),
    "use_best_model": ("early_stopping",),
    **dict.fromkeys(
        ("categorical_feature", "categorical_features", "cat_features"), ("categorical",)
    ),
    **dict.fromkeys(("device_type", "task_type"), ("device",)),
    **dict.fromkeys(("verbose", "verbosity", "silent", "logging_level"), ("progress",)),
    **dict.fromkeys(
        ("objective", "loss_function", "boosting_type", "boosting", "booster"),
        "the class says what is learned: LambdaMART from pairs, GBRT for squared loss, RandomForest, …; dropout= makes "
        "boosting DART",
    ),
    **dict.fromkeys(("tree_method", "grow_policy", "force_col_wise", "force_row_wise", "deterministic"),
                    "trees always grow best leaf first from histograms, and models are the same bytes every time"),
    # of fit
    **dict.fromkeys(("eval_set", "evals", "valid_sets", "X_val", "validation_data"), _VALID),
    **dict.fromkeys(("eval_group", "eval_qid", "y_val", "eval_names", "valid_names"), _VALID),
    **dict.fromkeys(("group", "groups", "group_id"), _SIZES),
    "group_weight": ("query_weight",),
    "weight": ("sample_weight",),
    **dict.fromkeys(("init_score", "base_margin", "baseline"), ("init_scores",)),
    "eval_init_score": ("valid_init_scores",),
    **dict.fromkeys(
        ("init_model", "xgb_model"),
        "warm_start=True goes on with the model of the fit before; init_scores= starts from scores",
    ),
    "feature_name": "columns of a frame, and feature_names= of RankingData, name features",
    # of predict
    **dict.fromkeys(("num_iteration", "iteration_range", "ntree_limit", "ntree_end"), ("n_trees",)),
    "pred_leaf": "leaf_ids(X) gives the leaves",
    **dict.fromkeys(("pred_contrib", "pred_contribs"), "rankwood.explain(model, data) gives contributions"),
    **dict.fromkeys(("raw_score", "output_margin"), "scores are always raw"),
}  # fmt: skip


_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")


def explains_names(function: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """A method whose TypeError for an argument that it does not have says what ours is called."""
    signature = inspect.signature(function)
    takes_all = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())

    @functools.wraps(function)
    def checked(*args: _Given.args, **given: _Given.kwargs) -> _Answer:
        unknown = [name for name in given if name not in signature.parameters]
        if unknown and not takes_all:
            raise TypeError(_of_unknown(type(args[0]), function.__name__, signature, unknown[0]))
        return function(*args, **given)

    return checked


def name_here(name: str, known: Collection[str]) -> str | None:
    """What a parameter of another library is called among the ``known`` ones; None where that takes a sentence."""
    ours = _FOREIGN.get(name, ())
    return next((one for one in ours if one in known), None) if isinstance(ours, tuple) else None


def _of_unknown(kind: type, method: str, signature: inspect.Signature, name: str) -> str:
    """The message for an argument that a method does not have."""
    whole = kind.__name__ if method == "__init__" else f"{kind.__name__}.{method}"
    said = f"{whole}() got an unexpected keyword argument '{name}'."
    known = [each for each in signature.parameters if each != "self"]
    of_class = [] if method == "__init__" else list(getattr(kind, "_parameters", {}))
    ours = _FOREIGN.get(name)
    if isinstance(ours, str):
        return f"{said} Here {ours}."
    for each in (*(ours or ()), name):
        if each in known:
            return f"{said} It is called {each} here."
        if each in of_class:
            return f"{said} It is a parameter of the constructor: {kind.__name__}({each}=…)."
    near = difflib.get_close_matches(name, [*known, *of_class], n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"{said}{hint} It takes: {', '.join(known)}."


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
