"""``NeuralModel``: a network of fully connected layers, as plain arrays. Scoring needs no PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.jit import kernel
from rankwood._core.threads import lazy, run_blocks
from rankwood.dtypes import FEATURE, SCORE, Array, Features, Floats
from rankwood.errors import DataError, ModelError
from rankwood.models import validate
from rankwood.models.archive import check_record, names_of, native_arrays, refuse_others
from rankwood.models.validate import features_in_order

ARRAYS: dict[str, type[np.generic]] = {
    "widths": np.int64,
    "weights": np.float32,
    "biases": np.float32,
    "centre": np.float64,
    "spread": np.float64,
    "is_skewed": np.uint8,
}
_ACTIVATION = "relu"  # of the hidden layers
_ROWS_AT_ONCE = 2048  # 8 MB for a layer of 1,024 units
_LEAST_ROWS = 64  # per thread

SIDE_BY_SIDE = 8  # rows that use a row of weights while it is in the cache


@dataclass(frozen=True, eq=False, repr=False)
class NeuralModel:
    """The score of a document is the output of the last unit of the network.

    Parameters
    ----------
    widths
        The number of features, then the number of units of each layer; the last layer has one. The outputs of all
        other layers are cut at 0 (ReLU).
    weights, biases
        Of all layers, concatenated. The weights of a layer are inputs × units, row by row.
    centre, spread
        The mean and standard deviation of each feature in the training data. The input of the network is the
        value minus the mean, divided by the spread; it is 0 for a missing value and for a feature without spread.
    is_skewed
        1 for a feature that is first transformed to sign(x) · log(1 + |x|); else 0.
    feature_names
        One name per feature. Data that have names must then have these, in any order.

    Arrays are checked and read-only. Two models are equal if all their fields are.
    """

    widths: Array
    weights: Array
    biases: Array
    centre: Floats
    spread: Floats
    is_skewed: Array
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        validate.freeze(self, ARRAYS)
        self.check()

    def check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong; the constructor calls it."""
        widths = [int(width) for width in self.widths]  # Python's numbers do not overflow
        if len(widths) < 2 or min(widths) < 1 or widths[-1] != 1:
            raise ModelError(
                "widths must be the number of features, then of the units of each layer, at least 1 each; "
                "the last layer has one."
            )
        lengths = {
            "weights": sum(a * b for a, b in itertools.pairwise(widths)),
            "biases": sum(widths[1:]),
            "centre": widths[0],
            "spread": widths[0],
            "is_skewed": widths[0],
        }
        for name, length in lengths.items():
            array = getattr(self, name)
            if array.size != length:
                raise ModelError(
                    f"{name} has {array.size:,} values, but these widths need {length:,}."
                )
            validate.refuse_infinite(name, array)
        validate.refuse_negative("spread", self.spread)
        if self.is_skewed.max() > 1:
            raise ModelError("is_skewed must be 0 or 1 for each feature.")
        validate.check_names(self.feature_names, widths[0])

    @property
    def n_features(self) -> int:
        """How many features a document has."""
        return int(self.widths[0])

    @lazy
    def layers(self) -> tuple[tuple[Array, Array], ...]:
        """The weights (inputs × units) and biases of each layer."""
        layers, first_weight, first_bias = [], 0, 0
        for n_inputs, n_units in itertools.pairwise(self.widths.tolist()):
            weights = self.weights[first_weight : first_weight + n_inputs * n_units]
            biases = self.biases[first_bias : first_bias + n_units]
            layers.append((weights.reshape(n_inputs, n_units), biases))
            first_weight += n_inputs * n_units
            first_bias += n_units
        return tuple(layers)

    def predict(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row, in row order.

        ``features`` are rows × features: an array, a frame, a sparse matrix, a RankingData. Columns with names are
        put in the model's order; without names they are taken by position. A row's score does not depend on the
        number of threads or on other rows.
        """
        matrix = features_in_order(features, self.n_features, self.feature_names)
        refuse_infinite(matrix)
        scores: Floats = np.empty(len(matrix), SCORE)
        with np.errstate(over="ignore", invalid="ignore"):  # reported below, with the row
            for first in range(0, len(matrix), _ROWS_AT_ONCE):
                part = matrix[first : first + _ROWS_AT_ONCE]
                scores[first : first + len(part)] = self._scores_of(part, n_threads)
        validate.refuse_infinite_scores(scores)
        return scores

    def _scores_of(self, matrix: Features, n_threads: int | None) -> Array:
        values: Array = standardise(matrix, self.centre, self.spread, self.is_skewed)
        for number, (weights, biases) in enumerate(self.layers, 1):
            outputs = np.empty((len(matrix), biases.size), FEATURE)
            layer = (checks.read_only(values), weights, biases, number < len(self.layers), outputs)
            run_blocks(layer_outputs, len(matrix), *layer, n_threads=n_threads, least=_LEAST_ROWS)
            values = outputs
        return values[:, 0]

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled arrays can be written to; the constructor makes them read-only again, and checks them.
        return NeuralModel, tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NeuralModel):
            return NotImplemented
        return self.feature_names == other.feature_names and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ARRAYS
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"NeuralModel({'-'.join(map(str, self.widths.tolist()))})"


def refuse_infinite(matrix: Features) -> None:
    """Raise for an infinite value, which a unit that is cut at 0 would hide."""
    if np.isinf(matrix).any():
        row, feature = (int(indices[0]) for indices in np.nonzero(np.isinf(matrix)))
        raise DataError(
            f"features[{row}, {feature}] is {float(matrix[row, feature])}: a neural network needs "
            "finite values. Replace it by NaN (missing) or by a number."
        )


def standardise(matrix: Features, centre: Floats, spread: Floats, is_skewed: Array) -> Features:
    """The inputs of the network: features minus their centre, divided by their spread; 0 if missing."""
    values = matrix.astype(np.float64)
    skewed = np.flatnonzero(is_skewed)
    values[:, skewed] = signed_logarithm(values[:, skewed])
    values -= centre
    inverse = np.divide(1.0, spread, out=np.zeros(spread.size), where=spread > 0)
    values *= inverse
    values[np.isnan(matrix)] = 0.0
    return values.astype(FEATURE)


def signed_logarithm(values: Floats) -> Floats:
    """sign(x) · log(1 + abs(x)): about x near 0, and the logarithm far from it."""
    logarithms: Floats = np.copysign(np.log1p(np.abs(values)), values)
    return logarithms


def neural_to_arrays(model: NeuralModel) -> tuple[dict[str, Any], dict[str, Array]]:
    """The record of the model for ``model.json``, and its arrays."""
    return {"activation": _ACTIVATION}, {name: getattr(model, name) for name in ARRAYS}


def neural_from_arrays(record: Any, arrays: Mapping[str, Array], feature_names: Any) -> NeuralModel:
    """The model from the result of ``neural_to_arrays``, fully checked."""
    check_record(record, ("activation",))
    if record["activation"] != _ACTIVATION:
        raise ModelError(f"activation must be '{_ACTIVATION}', got {record['activation']!r}.")
    own = native_arrays(ARRAYS, arrays)
    refuse_others(arrays, ARRAYS, "a neural network")
    return NeuralModel(**own, feature_names=names_of(feature_names))


@kernel
def layer_outputs(
    first: int,
    last: int,
    inputs: Array,
    weights: Array,
    biases: Array,
    is_hidden: bool,
    outputs: Array,
) -> None:
    """The outputs of a layer's units for each row: bias plus weighted inputs, cut at 0 if the layer is hidden.

    The inputs of a row are always added in the same order, so that its score does not depend on other rows. Inputs
    of 0, which are frequent after a hidden layer, are skipped.
    """
    n_units = biases.size
    for begin in range(first, last, SIDE_BY_SIDE):
        end = min(begin + SIDE_BY_SIDE, last)
        for row in range(begin, end):
            for unit in range(n_units):
                outputs[row, unit] = biases[unit]
        for column in range(inputs.shape[1]):
            for row in range(begin, end):
                value = inputs[row, column]
                if value != 0.0:
                    for unit in range(n_units):
                        outputs[row, unit] += value * weights[column, unit]
        if is_hidden:
            for row in range(begin, end):
                for unit in range(n_units):
                    outputs[row, unit] = max(outputs[row, unit], 0.0)
