"""A parameter is declared once: constructor, checks, docstring and option of the command line follow from it."""

from __future__ import annotations

import inspect
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import rankwood as rw
from rankwood.cli import parameters as cli_parameters
from rankwood.errors import ParameterError
from rankwood.rankers.base import Ranker
from rankwood.rankers.parameters import (
    SHARED,
    OneOf,
    OrNone,
    Parameter,
    Real,
    Whole,
    declared_parameters,
    number_or_share,
    parameter,
)
from rankwood.rankers.save import estimators
from rankwood.training.rounds import OF_THE_RUN

pytestmark = pytest.mark.jit_only  # no kernels of its own

RANKERS = list(estimators().values())
KINDS = [*RANKERS, rw.FillMissing, rw.PredictMissing]


def outside(check):
    """Values just outside what a check takes, those of its neighbours that are of another type included."""
    if isinstance(check, OrNone):
        return outside(check.check)
    if isinstance(check, Whole):
        beyond = [] if check.most is None else [check.most + 1]
        return [check.least - 1, *beyond, check.least + 0.5, True, "1"]
    if isinstance(check, Real):
        low, high = (float(end) for end in check.interval[1:-1].split(","))
        below = low if check.interval[0] == "(" else math.nextafter(low, -math.inf)
        above = high if check.interval[-1] == ")" else math.nextafter(high, math.inf)
        return [below, above, math.nan, True, "1"]
    if isinstance(check, OneOf):
        return ["no such name"]
    if check is number_or_share:
        return [0, 0.0, math.nextafter(1.0, 2.0), math.nan, "all"]
    return []


def inside(check):
    """The ends of what a check takes."""
    if isinstance(check, OrNone):
        return [None, *inside(check.check)]
    if isinstance(check, Whole):
        return [check.least, np.int64(check.least), *([] if check.most is None else [check.most])]
    if isinstance(check, Real):
        low, high = (float(end) for end in check.interval[1:-1].split(","))
        ends = [(low, "["), (high, "]")]
        return [end for end, bracket in ends if bracket in check.interval and math.isfinite(end)]
    if isinstance(check, OneOf):
        return list(check.known)
    return []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_class_writes_a_constructor_of_its_own(kind):
    for each in kind.__mro__:
        if each.__module__.startswith("rankwood") and "__init__" in vars(each):
            assert "_signature" in vars(each)
            assert inspect.unwrap(vars(each)["__init__"]).__code__.co_filename == "<string>"  # made


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_signature_follows_the_declarations_in_their_order(kind):
    signature = inspect.signature(kind).parameters
    assert list(signature) == kind._signature.split() == list(declared_parameters(kind))
    for name, argument in signature.items():
        assert argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert argument.default == declared_parameters(kind)[name].default
        assert isinstance(argument.annotation, str)
    assert kind.__init__.__qualname__ == f"{kind.__name__}.__init__"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_constructor_stores_its_arguments_untouched(kind):
    values = {name: object() for name in declared_parameters(kind)}
    for model in (kind(*values.values()), kind(**values)):
        assert {name: getattr(model, name) for name in values} == values
        assert set(vars(model)) == set(values)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'other'"):
        kind(other=1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_documented_once(kind):
    section = inspect.getdoc(kind).partition("\nParameters\n----------\n")[2]
    section = section.partition("\n\nAttributes\n")[0]
    headers = [line for line in section.split("\n") if line and not line.startswith(" ")]
    documented = [name for header in headers for name in header.split(", ")]
    assert sorted(documented) == sorted(declared_parameters(kind))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_defaults_and_the_ends_of_the_bounds_are_taken(kind):
    for name, declared in declared_parameters(kind).items():
        for value in [declared.default, *inside(declared.check)]:
            if declared.check is not None:
                declared.check(name, value)
    kind()._check_parameters()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_values_outside_the_bounds_are_refused_by_name_and_value(kind):
    for name, declared in declared_parameters(kind).items():
        for value in outside(declared.check):
            said = f"{re.escape(name)}.*{re.escape(str(value))}"
            with pytest.raises(ParameterError, match=said):
                kind(**{name: value})._check_parameters()


def test_most_parameters_have_bounds_that_the_tests_above_know():
    bounded = [
        (kind, name)
        for kind in KINDS
        for name, declared in declared_parameters(kind).items()
        if outside(declared.check)
    ]
    assert len(bounded) > 200


@pytest.mark.parametrize("kind", RANKERS, ids=lambda kind: kind.__name__)
def test_every_parameter_of_a_ranker_is_an_option(kind):
    options = {
        option.name: option.annotation.__metadata__[0] for option in cli_parameters.options()
    }
    for name in declared_parameters(kind):
        assert (name in options) == (name not in OF_THE_RUN)
        if name in options:
            assert options[name].default == f"--{name.replace('_', '-')}"


def test_help_of_an_option_is_what_a_ranker_says_of_the_parameter():
    names = "|".join(kind.__name__ for kind in RANKERS)
    for option in cli_parameters.options():
        text = option.annotation.__metadata__[0].help.rpartition(" (default: ")[0]
        said = {
            kind.__name__: declared_parameters(kind)[option.name].doc.replace("[", r"\[")
            for kind in RANKERS
            if option.name in declared_parameters(kind)
        }
        # Another ranker may have a word of its own on a shared name.
        first, *others = re.split(f" ({names}): ", text)
        assert first in said.values(), option.name
        for name, words in zip(others[::2], others[1::2], strict=True):
            assert words == said.get(name), option.name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_parameters_survive_cloning_and_pickling(kind):
    model = kind()
    expected = model.get_params(deep=False)
    assert list(expected) == sorted(expected)
    assert clone(model).get_params(deep=False) == expected
    assert pickle.loads(pickle.dumps(model)).get_params(deep=False) == expected


class Thrice(Ranker):
    """A ranker that multiplies.

    Attributes
    ----------
    factor_
        What was learned.
    """

    _signature = "factor seed n_threads progress callbacks"
    factor: float = parameter(default=3.0, doc="The factor.", check=Real("(0, 9]"))
    seed: int = parameter(default=7)


class Often(Thrice):
    """A ranker that multiplies more."""

    _signature = "seed factor"
    factor: float = parameter(default=5.0)


def test_a_declaration_is_completed_by_base_classes_and_shared_meanings():
    assert declared_parameters(Thrice)["seed"] == Parameter(7, *_meaning("seed"))
    assert declared_parameters(Often)["factor"] == Parameter(5.0, "The factor.", Real("(0, 9]"))
    assert (Often().seed, Often().factor, Often(1, 2.0).factor) == (7, 5.0, 2.0)
    assert str(inspect.signature(Often)) == "(seed: 'int' = 7, factor: 'float' = 5.0) -> 'None'"
    assert not hasattr(Often(), "n_threads")  # nor is there a class attribute in its place
    with pytest.raises(ParameterError, match=r"^factor must be in \(0, 9\], got 0\.$"):
        Often(factor=0)._check_parameters()


def test_docstring_has_parameters_and_the_attributes_of_base_classes():
    assert inspect.getdoc(Often).startswith(
        "A ranker that multiplies more.\n\n"
        "Parameters\n----------\n"
        "seed\n    The same seed gives the same bytes, whatever the number of threads (None: all cores).\n"
        "factor\n    The factor.\n\n"
        "Attributes\n----------\n"
        "factor_\n    What was learned.\n"
        "n_features_in_, feature_names_in_\n"
    )


def test_a_subclass_without_declarations_is_left_alone():
    class Own(Thrice):
        def __init__(self, factor=1.0):
            super().__init__(factor)

    assert Own().get_params() == {"factor": 1.0}
    assert Own().seed == 7


def test_declarations_that_cannot_work_are_refused():
    with pytest.raises(TypeError, match="Wrong declares seed, which its _signature does not name"):

        class Wrong(Ranker):
            _signature = "n_threads"
            seed: int = parameter(default=0)

    with pytest.raises(TypeError, match="Absent takes budget, but no class declares it"):

        class Absent(Ranker):
            _signature = "budget"

    with pytest.raises(TypeError, match="nothing says what budget of Mute means"):

        class Mute(Ranker):
            _signature = "budget"
            budget: int = parameter(default=1)


def _meaning(name):
    return SHARED[name].doc, SHARED[name].check


def test_reference_page_shows_every_parameter_with_its_default():
    griffe = pytest.importorskip("griffe")
    root = Path(__file__).parents[2]
    extension = griffe.load_extensions(f"{root}/docs/reference_pages.py:DeclaredParameters")
    package = griffe.load("rankwood", search_paths=[root / "src"], extensions=extension)
    for kind in KINDS:
        shown = package[kind.__module__.partition(".")[2]][kind.__name__]
        defaults = {argument.name: argument.default for argument in shown.parameters}
        expected = {name: repr(each.default) for name, each in declared_parameters(kind).items()}
        assert {name: defaults[name] for name in expected} == expected
        for name in expected:
            assert f"\n{name}\n    " in shown.docstring.value
