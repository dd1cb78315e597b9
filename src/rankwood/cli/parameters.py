"""Options made from the estimators' parameters, so that the command line and Python never drift apart."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from rankwood.errors import ParameterError, UnknownName
from rankwood.rankers.save import estimators
from rankwood.training.checkpoint import OF_THE_RUN

_PANEL = "Parameters of the model"
_BASE, _DEFAULT_BASE = "base", "RandomForest"  # the parameter that is an estimator itself


def with_parameters(
    command: Callable[..., None], *, left_out: tuple[str, ...] = ()
) -> Callable[..., None]:
    """Replace the parameter ``given`` of a command by one option per parameter of the estimators."""
    own = inspect.signature(command)
    made = [option for option in options() if option.name not in left_out]

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        given = {option.name: arguments.pop(option.name) for option in made}
        command(**arguments, given=given)

    kept = [parameter for parameter in own.parameters.values() if parameter.name != "given"]
    wrapper.__signature__ = own.replace(parameters=[*kept, *made])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in [*kept, *made]}
    return wrapper


def options() -> list[inspect.Parameter]:
    """One option per parameter that any estimator has; text, empty by default."""
    found: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for kind in estimators().values():
        texts = _descriptions(kind) | texts
        for name, parameter in _parameters(kind).items():
            found.setdefault(name, []).append(f"{kind.__name__} {parameter.default}")
    return [_option(name, texts.get(name, ""), defaults) for name, defaults in found.items()]


def read(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of estimator ``kind`` from texts or TOML values; None means not given.

    An estimator that is built on another one has its name in ``base``; what it does not know itself is base's.
    """
    known = _parameters(estimators()[kind])
    given = {name: value for name, value in given.items() if value is not None}
    values = {}
    if _BASE in known:
        others = {name: given.pop(name) for name in list(given) if name not in known}
        default = getattr(estimators()[kind], "_default_base", _DEFAULT_BASE)
        values[_BASE] = _base(given.pop(_BASE, None), others, default)
    for name, value in given.items():
        if name not in known:
            owners = [other for other, each in estimators().items() if name in _parameters(each)]
            if not owners:
                raise UnknownName(f"parameter of {kind}", name, known)
            raise ParameterError(f"{kind} has no {name}; it is a parameter of {', '.join(owners)}.")
        values[name] = _value(name, value) if isinstance(value, str) else value
    return values


def _base(name: Any, given: dict[str, Any], default: str) -> Any:
    """The estimator that another one is built on; None where nothing was said of it."""
    if name is None and not given:
        return None
    name = default if name is None else name
    if not isinstance(name, str) or name not in estimators():
        raise UnknownName(_BASE, str(name), estimators())
    return estimators()[name](**read(name, given))


def _parameters(kind: type) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(kind)
    return {name: p for name, p in signature.parameters.items() if name not in OF_THE_RUN}


def _option(name: str, text: str, defaults: list[str]) -> inspect.Parameter:
    values = {default.split(" ", 1)[1] for default in defaults}
    shown = values.pop() if len(values) == 1 else "; ".join(defaults)
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        metavar="VALUE",
        help=f"{text} (default: {shown})".strip(),
        rich_help_panel=_PANEL,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, option],
    )


def _descriptions(kind: type) -> dict[str, str]:
    """What the docstring says of each parameter, on one line."""
    doc = inspect.getdoc(kind) or ""
    section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n\w+\n-+\n|\Z)", doc, re.DOTALL)
    texts: dict[str, str] = {}
    for names, text in re.findall(
        r"^(\w[\w, ]*)\n((?:    .*\n?)+)", section.group(1) if section else "", re.M
    ):
        line = " ".join(text.split()).replace("[", r"\[")
        if line.startswith("As for "):
            continue  # the estimator it names says more
        texts |= {name.strip(): line for name in names.split(",")}
    return texts


def _value(name: str, text: str) -> Any:
    """A number, True, False, None or text; ``name=value,…`` for a mapping."""
    if "=" in text:
        pairs = [pair.split("=", 1) for pair in text.split(",")]
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
    return value if isinstance(value, int | float) else text
