"""``Cascade``: layers of models; each layer also sees outputs of earlier layers as features.

Terms
    layer       models that see the same columns; the mean of their scores is the layer's score
    output      what a layer passes on: the score of one of its models, or of one tree of a forest, or the probability
                of one grade by an ordinal model
    form        how an output is passed on: as it is, or in relation to the other documents of the query
    augmented   columns that are outputs of earlier layers; they follow the original features

Forms of an output
    scores      the output itself
    standard    (output - mean) / standard deviation of its query; 0 where all of the query are equal
    ranks       the share of the query's other documents that are below it, equal ones half; ½ in a query of one
    gaps        the output minus the greatest of its query

A missing output (NaN) is missing in every form, and the others are compared without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import lazy
from rankwood.data.dataset import Grouping, RankingData
from rankwood.dtypes import FEATURE, Array, Features, Floats
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.models import validate
from rankwood.models.archive import Arrays, Record, check_record, names_of, refuse_others
from rankwood.models.forest import Forest
from rankwood.models.ordinal import OrdinalModel
from rankwood.models.validate import features_in_order

SCORES = "scores"
FORMS = (SCORES, "standard", "ranks", "gaps")

WHOLE = -1  # instead of a tree: the output is the score of the whole model
_BLOCK_ROWS = 1 << 16  # rows that pass all layers together; limits the memory of their columns
_MOST = float(np.finfo(FEATURE).max)

_MOST_MODELS = 1000  # about ten arrays each, which the archive's directory can hold
_NO_OUTPUTS = np.zeros((0, 2), np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class Cascade:
    """Scores documents layer by layer; the score is the mean of the last layer's models.

    Parameters
    ----------
    layers
        First to last. The first sees the original features; each other layer also sees the outputs of the layer
        before it, as columns after them. The last has no outputs.
    n_features
        The number of original features of a document.
    keep_augmented
        Whether a layer sees the outputs of all earlier layers, in order, instead of the previous one only.
    feature_names
        One name per original feature. The layers' models have none.
    forms
        In which forms each output is passed on (see the module's docstring), in order. Forms other than ``"scores"``
        compare a document with the others of its query: then documents are scored with their query ids.
    """

    layers: tuple[Layer, ...]
    n_features: int
    keep_augmented: bool = False
    feature_names: tuple[str, ...] | None = None
    forms: tuple[str, ...] = (SCORES,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "forms", tuple(self.forms))
        validate.freeze_names(self)
        self._check()

    def predict(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row, in row order; it does not depend on the number of threads.

        Nor does it depend on other rows, but for those of its query where ``forms`` relate outputs to them.
        """
        layers = self.predict_layers(features, n_threads=n_threads)
        validate.refuse_infinite_scores(layers[:, -1])
        return np.ascontiguousarray(layers[:, -1])

    def predict_layers(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row by each layer, as if it were the last: rows × layers."""
        matrix = features_in_order(features, self.n_features, self.feature_names)
        scores: Floats = np.empty((len(matrix), len(self.layers)))
        if self.n_layers > 1 and need_queries(self.forms):
            self._score(matrix, self._grouping(features), n_threads, scores)
            return scores
        for first in range(0, len(matrix), _BLOCK_ROWS):
            rows = slice(first, first + _BLOCK_ROWS)
            self._score(matrix[rows], None, n_threads, scores[rows])
        return scores

    def _grouping(self, features: Any) -> Grouping:
        """Which rows belong together; an error for a table without query ids."""
        if not isinstance(features, RankingData) or features.query_ids is None:
            raise DataError(
                f"this cascade passes {' and '.join(self.forms)} on from layer to layer, which relate a document to "
                "the others of its query: score RankingData with query_ids."
            )
        return features.judgments.grouping

    def _score(
        self, matrix: Features, grouping: Grouping | None, n_threads: int | None, scores: Floats
    ) -> None:
        """Write the score of each layer for the rows of ``matrix`` to ``scores``."""
        augmented = matrix[:, :0]
        for number, layer in enumerate(self.layers):
            inputs = np.hstack([matrix, augmented]) if augmented.shape[1] else matrix
            of_models = [model.predict(inputs, n_threads=n_threads) for model in layer.models]
            scores[:, number] = mean_score(of_models)
            columns = layer.columns(inputs, of_models, n_threads)
            if need_queries(self.forms) and columns.shape[1]:
                parts = [columns_in_forms(each, self.forms, grouping) for each in columns.T]
                columns = np.column_stack([column for part in parts for column in part])
            augmented = np.hstack([augmented, columns]) if self.keep_augmented else columns

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def models(self) -> list[Any]:
        """The models of all layers, first layer first."""
        return [model for layer in self.layers for model in layer.models]

    @property
    def n_trees(self) -> int:
        """Number of trees of all layers."""
        return sum(getattr(model, "n_trees", 0) for model in self.models)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return sum(getattr(model, "n_leaves", 0) for model in self.models)

    @lazy
    def max_depth(self) -> int:
        """Number of splits on the longest path from a root to a leaf of any tree."""
        return max(getattr(model, "max_depth", 0) for model in self.models)

    def importance(self, kind: str = "gain") -> Floats:
        """The importance of each original feature in the trees of all layers, without splits on outputs."""
        sums: Floats = np.zeros(self.n_features)
        for model in self.models:
            if hasattr(model, "trees") or isinstance(model, Forest):
                sums += model.importance(kind)[: self.n_features]
        return sums

    def __reduce__(self) -> tuple[Any, ...]:
        return Cascade, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        return (
            f"Cascade({self.n_layers:,} layers, {len(self.models):,} models, {self.n_trees:,} trees, "
            f"{self.n_features:,} features)"
        )

    def _check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong."""
        n_features = validate.feature_count(self.n_features)
        if not isinstance(self.keep_augmented, bool):
            raise ModelError(f"keep_augmented must be True or False, got {self.keep_augmented!r}.")
        if not self.forms or len(set(self.forms)) < len(self.forms) or set(self.forms) - set(FORMS):
            raise ModelError(f"forms must be some of {', '.join(FORMS)}, each at most once.")
        validate.check_names(self.feature_names, n_features)
        if not self.layers:
            raise ModelError("a cascade has at least one layer.")
        width = n_features
        for number, layer in enumerate(self.layers, start=1):
            _check_layer(number, layer, width, is_last=number == len(self.layers))
            n_added = len(layer.outputs) * len(self.forms)
            width = (width if self.keep_augmented else n_features) + n_added


@dataclass(frozen=True, eq=False)
class Layer:
    """Models that see the same columns, and their outputs.

    ``outputs`` are pairs (model, part), int32: the index of a model, and of one of its trees, or ``WHOLE``. The parts
    of an ordinal model are its grades.
    """

    models: tuple[Any, ...]
    outputs: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        outputs = np.asarray(self.outputs)
        if outputs.dtype.kind not in "iu" or outputs.ndim != 2 or outputs.shape[1] != 2:
            raise ModelError("the outputs of a layer must be pairs (model, part) of int32.")
        object.__setattr__(self, "outputs", checks.read_only(outputs.astype(np.int32)))

    def columns(self, inputs: Features, scores: Sequence[Floats], n_threads: int | None) -> Any:
        """The outputs of each row as columns: rows × outputs, float32."""
        columns: Features = np.empty((len(inputs), len(self.outputs)), FEATURE)
        parts: dict[int, Floats] = {}  # of the model at hand: rows × parts
        for column, (model, part) in enumerate(self.outputs.tolist()):
            if part == WHOLE:
                columns[:, column] = as_feature(scores[model])
                continue
            if model not in parts:
                parts = {model: _parts_of(self.models[model], inputs, n_threads)}
            columns[:, column] = as_feature(parts[model][:, part])
        return columns


def _parts_of(model: Any, inputs: Features, n_threads: int | None) -> Floats:
    """What each tree of a forest says of each row, or the probabilities of an ordinal model: rows × parts."""
    if isinstance(model, OrdinalModel):
        return model.probabilities(inputs, n_threads=n_threads)
    leaves = model.leaf_ids(inputs, n_threads=n_threads)
    values: Floats = model.value[model.tree_offsets[:-1] + leaves]
    return values


@dataclass(frozen=True, eq=False)
class ForeignModel:
    """A learner of another library in a cascade; it cannot be saved to a model file."""

    learner: Any
    n_features: int

    def predict(self, features: Features, *, n_threads: int | None = None) -> Floats:  # noqa: ARG002
        """The learner's scores: finite, one per row."""
        name = type(self.learner).__name__
        scores = np.asarray(self.learner.predict(features), np.float64)
        if scores.shape != (len(features),):
            raise DataError(
                f"{name}.predict gave {' × '.join(map(str, scores.shape))} numbers for "
                f"{len(features):,} rows. A base learner must give one score per row."
            )
        if not np.isfinite(scores).all():
            raise DataError(f"{name}.predict gave a score that is not finite.")
        return scores


def as_feature(scores: Floats) -> Features:
    """Scores as a float32 column, limited to the range of float32."""
    column: Features = np.clip(scores, -_MOST, _MOST).astype(FEATURE)
    return column


def mean_score(scores: Sequence[Floats]) -> Floats:
    """The mean of the scores of several models, added in order."""
    total: Floats = np.zeros(len(scores[0]))
    for each in scores:
        total += each
    total /= len(scores)
    return total


def _check_layer(number: int, layer: Layer, width: int, *, is_last: bool) -> None:
    if not layer.models:
        raise ModelError(f"layer {number} has no models.")
    for index, model in enumerate(layer.models):
        if model.n_features != width:
            raise ModelError(
                f"model {index} of layer {number} knows {model.n_features} features, but the layer sees {width:,}."
            )
    if is_last != (len(layer.outputs) == 0):
        raise ModelError("every layer but the last has outputs, and the last has none.")
    for model, part in layer.outputs.tolist():
        if not 0 <= model < len(layer.models):
            raise ModelError(
                f"an output of layer {number} names model {model}, which is not there."
            )
        what, n_parts = _counted_parts(layer.models[model])
        if part != WHOLE and not 0 <= part < n_parts:
            raise ModelError(
                f"an output of layer {number} names {what} {part} of model {model}, which has {n_parts:,} {what}s."
            )


def _counted_parts(model: Any) -> tuple[str, int]:
    """What the parts of a model are, and how many it has."""
    if isinstance(model, OrdinalModel):
        return "grade", model.grades.size
    return "tree", model.n_trees if isinstance(model, Forest) else 0


# Conversion to a file and back: each model is written as a model of its own kind.


def cascade_to_arrays(cascade: Cascade, kinds: Mapping[str, Any]) -> tuple[Record, Arrays]:
    """The record of the cascade for ``model.json``, and its arrays; ``kinds`` are the allowed kinds of its models."""
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
        for index, model in enumerate(layer.models):
            kind = _kind_of(model, kinds, number)
            described, own = kinds[kind].to_arrays(model)
            layers[-1].append({"kind": kind, "record": described})
            arrays |= {_prefix(number, index) + name: array for name, array in own.items()}
    record: Record = {
        "n_features": cascade.n_features,
        "keep_augmented": cascade.keep_augmented,
        "layers": layers,
    }
    if cascade.forms != (SCORES,):
        record["forms"] = list(cascade.forms)
    return record, arrays


def cascade_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any, kinds: Mapping[str, Any]
) -> Cascade:
    """The cascade from the result of ``cascade_to_arrays``, fully checked."""
    more = ("forms",) if isinstance(record, dict) and "forms" in record else ()
    check_record(record, ("n_features", "keep_augmented", "layers", *more))
    described = _checked_layers(record["layers"], kinds)
    known: set[str] = set()
    parts = _by_model(arrays)
    layers = []
    for number, models in enumerate(described):
        outputs = _NO_OUTPUTS
        if number + 1 < len(described):
            outputs = _outputs_of(arrays, number)
            known.add(_outputs(number))
        loaded = []
        for index, model in enumerate(models):
            own = parts.get(_prefix(number, index), {})
            known |= {_prefix(number, index) + name for name in own}
            try:
                loaded.append(kinds[model["kind"]].from_arrays(model["record"], own, None))
            except ModelError as error:
                raise ModelError(f"model {index} of layer {number + 1}: {error}") from None
        layers.append(Layer(tuple(loaded), outputs))
    refuse_others(arrays, known, "a cascade")
    return Cascade(
        tuple(layers),
        record["n_features"],
        record["keep_augmented"],
        names_of(feature_names),
        _checked_forms(record.get("forms", [SCORES])),
    )


def _checked_forms(forms: Any) -> tuple[str, ...]:
    if not isinstance(forms, list) or not all(isinstance(form, str) for form in forms):
        raise ModelError(f"its forms must be a list of some of {', '.join(FORMS)}.")
    return tuple(forms)


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
    """The record of each model, layer by layer, checked."""
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
    """The arrays of each model under their own names, by the model's prefix."""
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


def _prefix(number: int, index: int) -> str:
    return f"layers.{number}.{index}."


# Outputs in their forms: alone, or in relation to the other documents of the query.


def read_forms(text: str) -> tuple[str, ...]:
    """The forms that a text such as ``"scores+ranks"`` names, each once."""
    forms = tuple(part.strip() for part in text.split("+")) if isinstance(text, str) else ()
    if not forms or len(set(forms)) < len(forms) or not set(forms) <= set(FORMS):
        raise ParameterError(
            f"passes must be some of {', '.join(FORMS)}, each at most once and joined by '+', got {text!r}."
        )
    return forms


def need_queries(forms: Sequence[str]) -> bool:
    """Whether the forms compare a document with the others of its query."""
    return tuple(forms) != (SCORES,)


def columns_in_forms(
    column: Features, forms: Sequence[str], grouping: Grouping | None
) -> list[Features]:
    """One column in each form, float32; ``grouping`` is not needed for scores."""
    made = []
    for form in forms:
        if form == SCORES:
            made.append(column)
            continue
        assert grouping is not None
        values = np.asarray(column, np.float64)
        is_known = ~np.isnan(values)
        within = _WITHIN[form](values[is_known], grouping.query_of_row[is_known])
        whole: Features = np.full(values.size, np.nan, FEATURE)
        whole[is_known] = within
        made.append(whole)
    return made


def standardised(values: Floats, query_of_row: Array) -> Floats:
    """Values minus their query's mean, in units of its standard deviation; 0 where all of a query are equal."""
    n_rows = np.maximum(np.bincount(query_of_row), 1)
    scale = np.abs(values).max(initial=0.0) or 1.0  # so that squares of extreme values stay finite
    scaled = values / scale
    centred = scaled - (np.bincount(query_of_row, scaled) / n_rows)[query_of_row]
    spread = np.sqrt(np.bincount(query_of_row, centred**2) / n_rows)[query_of_row]
    is_equal = spread <= 1e-9 * np.abs(scaled)  # what rounding of the mean leaves
    found: Floats = np.zeros(values.size)
    np.divide(centred, spread, out=found, where=~is_equal & (spread > 0))
    return found


def rank_shares(values: Floats, query_of_row: Array) -> Floats:
    """The share of the query's other rows that are below each row, equal ones half; ½ for a row alone."""
    order = np.lexsort((values, query_of_row))
    query, ordered = query_of_row[order], values[order]
    place = np.arange(order.size)
    is_new_query = np.append(True, query[1:] != query[:-1])[: order.size]
    is_new_value = is_new_query | np.append(True, ordered[1:] != ordered[:-1])[: order.size]
    start_of_query = np.maximum.accumulate(np.where(is_new_query, place, 0))
    start_of_ties = np.maximum.accumulate(np.where(is_new_value, place, 0))
    n_ties = np.bincount(np.cumsum(is_new_value) - 1)[np.cumsum(is_new_value) - 1]
    n_others = np.bincount(query_of_row)[query] - 1
    below = start_of_ties - start_of_query + 0.5 * (n_ties - 1)
    shares: Floats = np.full(order.size, 0.5)
    np.divide(below, n_others, out=shares, where=n_others > 0)
    found: Floats = np.empty(order.size)
    found[order] = shares
    return found


def gaps_to_the_best(values: Floats, query_of_row: Array) -> Floats:
    """Values minus the greatest of their query."""
    best = np.full(int(query_of_row.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(best, query_of_row, values)
    found: Floats = values - best[query_of_row]
    return found


_WITHIN = {"standard": standardised, "ranks": rank_shares, "gaps": gaps_to_the_best}
