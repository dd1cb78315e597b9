"""Options made from the estimators' parameters, so that the command line and Python have the same parameters."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from rankwood.cli.options import split_outside_brackets
from rankwood.errors import ParameterError, UnknownName
from rankwood.models.blend import names_of_parts
from rankwood.rankers.base import BuiltOnBase, Ranker
from rankwood.rankers.parameters import Parameter, declared_parameters, name_here
from rankwood.rankers.save import estimators
from rankwood.training.rounds import OF_THE_RUN

_PANEL = "Parameters of the model"
# The estimators whose documentation is the help of an option; by default the first one with the parameter.
_SPEAKERS = {
    "base": ("BoostingTree", "BROOF"),
    "bag_share": ("RandomForest",),
    "min_gain": ("BROOF",),
    "dropout": ("MLPRanker", "GBRT"),
    "measure": ("GBRT", "RandomForest"),
    "n_folds": ("BROOF", "AutoRanker"),
    "patience": ("BROOF", "DeepForest"),
    "seed": ("AdaRank",),
    "weighting": ("RandomForest",),
    **dict.fromkeys(("exploration", "smoothing"), ("Exp3P",)),
    **dict.fromkeys(
        ("target", "truncation", "normalise", "sigma", "position_bias"), ("LambdaMART",)
    ),
}
_BASE, _DEFAULT_BASE = "base", "RandomForest"  # the parameter that is an estimator itself
_SEVERAL = ("parts", "candidates")  # parameters of Blend and AutoRanker that are lists of rankers
_RANKERS = (*_SEVERAL, "gate")  # parameters that are written as calls of rankers
_RANGE = re.compile(
    r"(?P<low>-?[\d.]+(?:e-?\d+)?)\.\.(?P<high>-?[\d.]+(?:e-?\d+)?)(?P<log>:log)?", re.IGNORECASE
)
_REPEATED = "measure"  # may be given several times, for a list
_NUMBERS = "weights"  # a name, or numbers with commas between them


def with_parameters(
    command: Callable[..., None],
    *,
    left_out: tuple[str, ...] = (),
    kind: str | None = None,
    base: str | None = None,
) -> Callable[..., None]:
    """Replace the parameter ``given`` of a command by one option per parameter of the estimators.

    With ``kind`` its help shows the parameters of this estimator, and of the one it is built on; others are hidden.
    """
    own = inspect.signature(command)
    made = [option for option in options(kind, base) if option.name not in left_out]

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        given = {option.name: arguments.pop(option.name) for option in made}
        command(**arguments, given=given)

    kept = [parameter for parameter in own.parameters.values() if parameter.name != "given"]
    wrapper.__signature__ = own.replace(parameters=[*kept, *made])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in [*kept, *made]}
    return wrapper


def options(kind: str | None = None, base: str | None = None) -> list[inspect.Parameter]:
    """One option per parameter that any estimator has; text, empty by default. See ``with_parameters``."""
    owners: dict[str, dict[str, Parameter]] = {}
    for known, estimator in estimators().items():
        for name, declared in _parameters(estimator).items():
            owners.setdefault(name, {})[known] = declared
    if kind is None:
        return [_option(name, of_kinds) for name, of_kinds in owners.items()]
    if issubclass(estimators()[kind], BuiltOnBase) and base is None:
        base = getattr(estimators()[kind], "_default_base", _DEFAULT_BASE)
    made = []
    for name, of_kinds in owners.items():
        shown = next((one for one in (kind, base) if one in of_kinds), None)
        if shown is None:
            made.append(_option(name, of_kinds, is_hidden=True))
        else:
            panel = f"Parameters of {kind}" if shown == kind else f"Parameters of {base}, its base"
            made.append(_option(name, {shown: of_kinds[shown]}, panel))
    return made


def read(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of estimator ``kind`` from texts or TOML values; None means not given.

    An estimator that is built on another one has its name in ``base``; what it does not know itself is base's.
    """
    known = _parameters(estimators()[kind])
    given = {name: value for name, value in given.items() if value is not None}
    values = {}
    if issubclass(estimators()[kind], BuiltOnBase):
        others = {name: given.pop(name) for name in list(given) if name not in known}
        default = getattr(estimators()[kind], "_default_base", _DEFAULT_BASE)
        values[_BASE] = _base(given.pop(_BASE, None), others, default)
    for name, value in given.items():
        if name not in known:
            owners = [other for other, each in estimators().items() if name in _parameters(each)]
            ours = called_here(name, kind)
            if not owners and ours is not None:
                raise ParameterError(f"{kind} has no {name}: it is called {ours} here.")
            if not owners:
                raise UnknownName(f"parameter of {kind}", name, known)
            hint = " Validation data are given by --valid." if name == "validation" else ""
            raise ParameterError(
                f"{kind} has no {name}; it is a parameter of {', '.join(owners)}.{hint}"
            )
        is_one = name == _REPEATED and isinstance(value, list) and len(value) == 1
        one = value[0] if is_one else value
        values[name] = _read_text(name, one) if isinstance(one, str) else one
    return values


def called_here(name: str, kind: str | None = None) -> str | None:
    """The parameter, of estimator ``kind`` if that is known, which another library calls ``name``."""
    of_any = kind not in estimators()
    known = {one.name for one in options()} if of_any else {*_parameters(estimators()[str(kind)])}
    return name_here(name.replace("-", "_"), known)


def _read_text(name: str, text: str) -> Any:
    """The value of a parameter as it was typed."""
    if name in _RANKERS:
        rankers = read_rankers(name, text)
        return rankers if name in _SEVERAL else rankers[0][1]
    if name == _NUMBERS and "," in text:
        return [_value(name, part.strip()) for part in text.split(",")]
    return _value(name, text)


def read_rankers(name: str, text: str) -> list[tuple[str, Any]]:
    """Names and rankers from a text such as "RandomForest, boosting=GBRT(n_trees=50)".

    A ranker is written as its name, or as a call with parameters by name. Nothing is executed.
    """
    try:
        call = ast.parse(f"Blend({text})", mode="eval").body
    except (SyntaxError, ValueError):
        call = None
    if not isinstance(call, ast.Call) or not (call.args or call.keywords):
        raise _unreadable(name, text)
    rankers = [_ranker(name, text, node) for node in call.args]
    kinds = [type(ranker).__name__ for ranker in rankers]
    pairs = list(zip(names_of_parts([None] * len(kinds), kinds), rankers, strict=True))
    for keyword in call.keywords:
        pairs.append((str(keyword.arg), _ranker(name, text, keyword.value)))
    return pairs


def _ranker(name: str, text: str, node: ast.expr) -> Any:
    """The ranker that a node of the syntax tree describes: a name, or a call of a name."""
    called = node.func if isinstance(node, ast.Call) else node
    if not isinstance(called, ast.Name):
        raise _unreadable(name, text)
    if called.id not in estimators():
        raise UnknownName(f"ranker in {name}", called.id, estimators())
    given: dict[str, Any] = {}
    if isinstance(node, ast.Call):
        if node.args:
            raise _unreadable(name, text)
        for keyword in node.keywords:
            given[str(keyword.arg)] = _argument(name, text, keyword.value)
    if not isinstance(given.get(_BASE), Ranker):
        return estimators()[called.id](**read(called.id, given))
    known = _parameters(estimators()[called.id])
    for parameter in given:  # those of base stand within the call of base
        if parameter not in known:
            raise UnknownName(f"parameter of {called.id}", parameter, known)
    return estimators()[called.id](**given)


def _argument(name: str, text: str, node: ast.expr) -> Any:
    """The value of a parameter within a call: a number, a text, a list, or a ranker."""
    is_ranker = isinstance(node, ast.Name) and node.id in estimators()
    if is_ranker or isinstance(node, ast.Call):
        return _ranker(name, text, node)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _unreadable(name, text) from None


def _unreadable(name: str, text: str) -> ParameterError:
    return ParameterError(
        f"{name} must be written as names of rankers, perhaps with parameters, such as "
        f"\"RandomForest, boosting=GBRT(n_trees=50)\"; got '{text}'."
    )


def _base(name: Any, given: dict[str, Any], default: str) -> Any:
    """The estimator that another one is built on; None where it was not given."""
    if name is None and not given:
        return None
    name = default if name is None else name
    if not isinstance(name, str) or name not in estimators():
        raise UnknownName(_BASE, str(name), estimators())
    return estimators()[name](**read(name, given))


def _parameters(kind: type[Ranker]) -> dict[str, Parameter]:
    declared = declared_parameters(kind)
    return {name: declared[name] for name in declared if name not in OF_THE_RUN}


def read_space(kind: str, texts: Sequence[str]) -> dict[str, Any]:
    """What is tried of estimator ``kind``, from texts: name=value,value or name=low..high, perhaps with :log."""
    space: dict[str, Any] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        name = name.replace("-", "_")
        if not name or not equals or not values:
            raise ParameterError(
                f"--space must be written as name=value,value or name=low..high; got '{text}'."
            )
        if name in space:
            raise ParameterError(f"--space {name} is given twice.")
        match = _RANGE.fullmatch(values)
        if match is not None:
            low, high = (ast.literal_eval(end) for end in match.group("low", "high"))
            space[name] = {"low": low, "high": high} | ({"log": True} if match["log"] else {})
            continue
        own = name.rpartition(".")[2]  # base.n_trees is read as n_trees is
        space[name] = [_read_text(own, value) for value in split_outside_brackets(values)]
        if not _is_parameter(kind, name):
            raise UnknownName(f"parameter of {kind}", name, _parameters(estimators()[kind]))
    return space


def _is_parameter(kind: str, name: str) -> bool:
    return name.partition(".")[0] in _parameters(estimators()[kind])


def _option(
    name: str, of_kinds: dict[str, Parameter], panel: str = _PANEL, *, is_hidden: bool = False
) -> inspect.Parameter:
    """The option of a parameter, with its defaults by estimator where they differ."""
    speakers = _SPEAKERS.get(name, ())
    if not speakers or not set(speakers) <= set(of_kinds):
        speakers = (next(iter(of_kinds)),)
    texts = [str(of_kinds[speaker].doc).replace("[", r"\[") for speaker in speakers]
    text = texts[0]
    for speaker, other in zip(speakers[1:], texts[1:], strict=True):
        text += f" {speaker}: {other}"
    defaults = {kind: str(declared.default) for kind, declared in of_kinds.items()}
    usual, count = Counter(defaults.values()).most_common(1)[0]
    is_usual = 2 * count > len(defaults)  # then the others are named
    others = [f"{kind} {one}" for kind, one in defaults.items() if not is_usual or one != usual]
    shown = "; ".join([usual, *others] if is_usual else others)
    repeated = name == _REPEATED
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        metavar="VALUE",
        help=f"{text} (default: {shown}{'; may be repeated' if repeated else ''})".strip(),
        rich_help_panel=panel,
        hidden=is_hidden,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[list[str] | None if repeated else str | None, option],
    )


def _value(name: str, text: str) -> Any:
    """A number, a list of numbers, True, False, None or text; ``name=value,…`` for a mapping."""
    parts = split_outside_brackets(text)
    if any("=" in _outside_brackets(part) for part in parts):
        pairs = [part.split("=", 1) for part in parts]
        if any(len(pair) != 2 for pair in pairs):
            raise ParameterError(f"{name} must be written as name=value,name=value; got '{text}'.")
        return {key.strip(): _value(name, value.strip()) for key, value in pairs}
    plain = {"none": None, "true": True, "false": False}
    if text.lower() in plain:
        return plain[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float | list | tuple | dict) else text


def _outside_brackets(text: str) -> str:
    """A text up to its first bracket: conventions such as ``ndcg@10[gain=linear]`` stand within brackets."""
    return text.partition("[")[0]
