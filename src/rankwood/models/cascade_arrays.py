"""A cascade on its way into a file and back: each of its models is written as a model of its own kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.models.cascade import Cascade, ForeignModel, Layer
from rankwood.models.model_arrays import Arrays, Record, check_record, names_of, refuse_others

_MOST_MODELS = 1000  # some ten arrays each: the archive's directory holds so many
_NO_OUTPUTS = np.zeros((0, 2), np.int32)


def cascade_to_arrays(cascade: Cascade, kinds: Mapping[str, Any]) -> tuple[Record, Arrays]:
    """What ``model.json`` says of the cascade, and its arrays; ``kinds`` are those that its models may have."""
    if len(cascade.models) > _MOST_MODELS:
        raise ModelError(
            f"a cascade of {len(cascade.models):,} models cannot be saved; {_MOST_MODELS:,} fit in a file."
        )
    layers: list[list[Record]] = []
    arrays: Arrays = {}
    for number, layer in enumerate(cascade.layers):
        layers.append([])
        if number + 1 < cascade.n_layers:
            arrays[_outputs(number)] = layer.outputs
        for place, model in enumerate(layer.models):
            kind = _kind_of(model, kinds, number)
            record, own = kinds[kind].to_arrays(model)
            layers[-1].append({"kind": kind, "record": record})
            arrays |= {_prefix(number, place) + name: array for name, array in own.items()}
    return {
        "n_features": cascade.n_features,
        "keep_augmented": cascade.keep_augmented,
        "layers": layers,
    }, arrays


def cascade_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any, kinds: Mapping[str, Any]
) -> Cascade:
    """The cascade that ``cascade_to_arrays`` took apart, with all its checks."""
    check_record(record, ("n_features", "keep_augmented", "layers"))
    described = _checked_layers(record["layers"], kinds)
    known: set[str] = set()
    parts = _by_model(arrays)
    layers = []
    for number, models in enumerate(described):
        outputs = _NO_OUTPUTS
        if number + 1 < len(described):
            outputs = _outputs_of(arrays, number)
            known.add(_outputs(number))
        found = []
        for place, model in enumerate(models):
            own = parts.get(_prefix(number, place), {})
            known |= {_prefix(number, place) + name for name in own}
            try:
                found.append(kinds[model["kind"]].from_arrays(model["record"], own, None))
            except ModelError as error:
                raise ModelError(f"model {place} of layer {number + 1}: {error}") from None
        layers.append(Layer(tuple(found), outputs))
    refuse_others(arrays, known, "a cascade")
    return Cascade(
        tuple(layers), record["n_features"], record["keep_augmented"], names_of(feature_names)
    )


def _kind_of(model: Any, kinds: Mapping[str, Any], number: int) -> str:
    for name, kind in kinds.items():
        if isinstance(model, kind.model):
            return name
    learner = model.learner if isinstance(model, ForeignModel) else model
    raise ModelError(
        f"layer {number + 1} has a {type(learner).__module__.split('.')[0]} {type(learner).__name__}, which a model "
        "file cannot hold. Use estimators of ours, or keep the model by pickling it."
    )


def _checked_layers(layers: Any, kinds: Mapping[str, Any]) -> list[list[Record]]:
    """The record of each model, layer by layer; none of it was trusted."""
    is_nested = isinstance(layers, list) and all(isinstance(layer, list) for layer in layers)
    if not is_nested or sum(map(len, layers)) > _MOST_MODELS or len(layers) > _MOST_MODELS:
        raise ModelError(f"its layers must be lists of at most {_MOST_MODELS:,} models.")
    for layer in layers:
        for model in layer:
            check_record(model, ("kind", "record"))
            if not isinstance(model["kind"], str) or model["kind"] not in kinds:
                raise ModelError(f"a model of a layer must be of kind {', '.join(kinds)}.")
    return list(layers)


def _by_model(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """The arrays of each model, by the model's prefix, under their own names."""
    parts: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        pieces = name.split(".", 3)
        if len(pieces) == 4:
            parts.setdefault(".".join(pieces[:3]) + ".", {})[pieces[3]] = array
    return parts


def _outputs_of(arrays: Mapping[str, Array], number: int) -> Array:
    name = _outputs(number)
    if name not in arrays:
        raise ModelError(f"array '{name}' is missing.")
    if arrays[name].dtype.newbyteorder("=") != np.int32:
        raise ModelError(f"array '{name}' must be int32.")
    return arrays[name]


def _outputs(number: int) -> str:
    return f"outputs.{number}"


def _prefix(number: int, place: int) -> str:
    return f"layers.{number}.{place}."
