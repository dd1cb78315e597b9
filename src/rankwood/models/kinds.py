"""Kinds of models that a file may hold: how each is taken apart into arrays, and put together again.

A kind that is named here can be saved, loaded, scored and inspected. ``model.json`` keeps a model's scalars under the
name of its kind; feature names belong to the file as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rankwood.dtypes import Array
from rankwood.models import forest_checks, linear
from rankwood.models.cascade import Cascade
from rankwood.models.cascade_arrays import cascade_from_arrays, cascade_to_arrays
from rankwood.models.family import Family, family_from_arrays, family_to_arrays
from rankwood.models.forest import Forest
from rankwood.models.linear import LinearModel
from rankwood.models.model_arrays import (
    Arrays,
    Record,
    check_record,
    forest_from_arrays,
    forest_to_arrays,
    names_of,
    native_arrays,
    refuse_others,
)
from rankwood.models.neural import NeuralModel, neural_from_arrays, neural_to_arrays
from rankwood.models.ordinal import OrdinalModel, ordinal_from_arrays, ordinal_to_arrays

_LINEAR_SCALARS = ("intercept",)


@dataclass(frozen=True)
class Kind:
    """A kind of model: its class, what a message calls it, and the way into a file and back.

    ``from_arrays`` gets the record, the arrays and the feature names of a file, none of which it may trust.
    """

    model: type[Any]
    noun: str
    to_arrays: Callable[[Any], tuple[Record, Arrays]]
    from_arrays: Callable[[Any, Mapping[str, Array], Any], Any]


def _linear_to_arrays(model: LinearModel) -> tuple[Record, Arrays]:
    record = {name: getattr(model, name) for name in _LINEAR_SCALARS}
    return record, {name: getattr(model, name) for name in linear.ARRAYS}


def _linear_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any
) -> LinearModel:
    check_record(record, _LINEAR_SCALARS)
    found = native_arrays(linear.ARRAYS, arrays)
    refuse_others(arrays, linear.ARRAYS, "a linear model")
    return LinearModel(**found, **record, feature_names=names_of(feature_names))


def _bare_forest(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> Forest:
    forest = forest_from_arrays(record, arrays, feature_names)
    refuse_others(arrays, forest_checks.ARRAYS, "a forest")
    return forest


_OF_LAYERS: dict[str, Kind] = {  # what a layer of a cascade may hold
    "forest": Kind(Forest, "forest", forest_to_arrays, _bare_forest),
    "linear": Kind(LinearModel, "linear model", _linear_to_arrays, _linear_from_arrays),
    "neural": Kind(NeuralModel, "neural network", neural_to_arrays, neural_from_arrays),
    "family": Kind(Family, "family of models", family_to_arrays, family_from_arrays),
    "ordinal": Kind(OrdinalModel, "ordinal model", ordinal_to_arrays, ordinal_from_arrays),
}


def _cascade_to_arrays(model: Cascade) -> tuple[Record, Arrays]:
    return cascade_to_arrays(model, _OF_LAYERS)


def _cascade_from_arrays(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> Cascade:
    return cascade_from_arrays(record, arrays, feature_names, _OF_LAYERS)


KINDS: dict[str, Kind] = {
    **_OF_LAYERS,
    "cascade": Kind(Cascade, "cascade", _cascade_to_arrays, _cascade_from_arrays),
}


def kind_of(model: Any) -> str | None:
    """The name of a model's kind; None for what is no model."""
    return next((name for name, kind in KINDS.items() if isinstance(model, kind.model)), None)
