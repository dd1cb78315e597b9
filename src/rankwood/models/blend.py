"""``BlendModel``: a weighted sum of the scores of several models; the weights may depend on the document.

Terms
    part     one of the models
    unit     a part's score minus its centre, divided by its spread: what is weighted
    gate     a forest that predicts how far a part errs on a document
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.threads import lazy
from rankwood.data.categories import Dictionaries
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import ModelError
from rankwood.models import validate
from rankwood.models.archive import (
    SUBSETS,
    Arrays,
    Record,
    check_record,
    forest_from_arrays,
    forest_to_arrays,
    native_arrays,
    refuse_others,
)
from rankwood.models.forest import Forest
from rankwood.models.validate import features_of

LEAST_ERROR, MOST_ERROR = 0.01, 100.0  # predicted errors are limited to this range; their mean is 1
MOST_PARTS = 100

_NUMBERS: dict[str, type[np.generic]] = {
    "weights": np.float64,
    "centres": np.float64,
    "spreads": np.float64,
}
_PREFIX = "blend."
_RECORD = ("names", "strength", "parts", "gates")


@dataclass(frozen=True, eq=False, repr=False)
class BlendModel:
    """Scores documents by Σ weight · (score of the part - centre) / spread.

    Parameters
    ----------
    parts
        Models of any kind but this one, all with the same features.
    names
        One name per part.
    weights
        One weight per part, 0 or more.
    centres, spreads
        What is subtracted from the scores of each part, and what they are divided by.
    gates
        One forest per part that predicts its squared error on a document, or none. With gates, the weight of a part
        for a document is weight · error^-strength, divided by the sum over all parts.
    strength
        How much the predicted errors count; 0 where there are no gates.
    """

    parts: tuple[Any, ...]
    names: tuple[str, ...]
    weights: Floats
    centres: Floats
    spreads: Floats
    gates: tuple[Forest, ...] = ()
    strength: float = 0.0

    def __post_init__(self) -> None:
        for name in ("parts", "names", "gates"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in _NUMBERS:
            array = np.array(getattr(self, name), np.float64, ndmin=1)
            object.__setattr__(self, name, checks.read_only(array))
        self._check()

    def predict(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row, in row order; it does not depend on the number of threads or on other rows."""
        if self.is_sum_of_trees:
            return self.forest.predict(features, n_threads=n_threads)
        matrix = features_of(features, self)
        shares = self._shares(matrix, n_threads)
        scores: Floats = np.zeros(len(matrix))
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            for number, column in enumerate(self._units(matrix, n_threads).T):
                scores += shares[:, number] * column
        validate.refuse_infinite_scores(scores)
        return scores

    def predict_parts(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The score of each row by each part, before it is centred and divided: rows × parts."""
        matrix = features_of(features, self)
        columns = [part.predict(matrix, n_threads=n_threads) for part in self.parts]
        return np.stack(columns, axis=1)

    def weights_of(self, features: Any, *, n_threads: int | None = None) -> Floats:
        """The weight of each part for each row: rows × parts."""
        matrix = features_of(features, self)
        return self._shares(matrix, n_threads)

    def _units(self, matrix: Features, n_threads: int | None) -> Floats:
        scores = self.predict_parts(matrix, n_threads=n_threads)
        units: Floats = (scores - self.centres) / self.spreads
        return units

    def _shares(self, matrix: Features, n_threads: int | None) -> Floats:
        """The weight of each part for each row."""
        if not self.gates:
            return np.tile(self.weights, (len(matrix), 1))
        errors = [gate.predict(matrix, n_threads=n_threads) for gate in self.gates]
        return gated_weights(self.weights, np.stack(errors, axis=1), self.strength)

    @property
    def is_sum_of_trees(self) -> bool:
        """Whether the score is one weighted sum of trees."""
        return self._refusal is None

    @lazy
    def _refusal(self) -> str | None:
        """Why the score is no sum of trees; None where it is one."""
        if self.gates:
            return (
                "the weights of its parts depend on the document. Blend with constant weights "
                "(weights='validation' or 'oob') to get a sum of trees"
            )
        for name, part, weight in zip(self.names, self.parts, self.weights.tolist(), strict=True):
            if weight > 0 and _as_forest(part) is None:
                return f"its part '{name}' ({type(part).__name__}) is no sum of trees"
        return None

    @lazy
    def forest(self) -> Forest:
        """The score as one weighted sum of trees; parts of weight 0 are left out."""
        if self._refusal is not None:
            raise ModelError(f"this blend cannot be written as one forest: {self._refusal}.")
        sums = []
        numbers = zip(self.parts, *(getattr(self, name).tolist() for name in _NUMBERS), strict=True)
        for part, weight, centre, spread in numbers:
            if weight > 0:
                sums.append(_scaled(_as_forest(part), weight / spread, centre))
        return Forest.concatenate(sums)

    @property
    def factors(self) -> Floats:
        """What one unit of each part's own score counts: weight / spread. Without gates."""
        factors: Floats = self.weights / self.spreads
        return factors

    @property
    def n_features(self) -> int:
        """Number of features of a document."""
        return int(self.parts[0].n_features)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """One name per feature."""
        names: tuple[str, ...] | None = self.parts[0].feature_names
        return names

    @property
    def categorical(self) -> Dictionaries | None:
        """The categories of each categorical feature, the same in all parts; None if no feature is categorical."""
        return _categories_of(self.parts[0])

    @property
    def n_trees(self) -> int:
        """Number of trees of all parts and gates."""
        return self._total("n_trees")

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees."""
        return self._total("n_leaves")

    @property
    def max_depth(self) -> int:
        """Number of splits on the longest path from a root to a leaf of any tree."""
        return max(getattr(model, "max_depth", 0) for model in (*self.parts, *self.gates))

    def _total(self, name: str) -> int:
        return sum(getattr(model, name, 0) for model in (*self.parts, *self.gates))

    def importance(self, kind: str = "gain") -> Floats:
        """The importance of each feature: shares within each part, times the part's weight.

        A linear part counts by its weights where the gain is asked for, and not at all in splits and covers.
        """
        sums: Floats = np.zeros(self.n_features)
        for part, weight in zip(self.parts, self.weights.tolist(), strict=True):
            own = _importance(part, kind)
            if own is not None:
                sums += weight * own / (float(own.sum()) or 1.0)
        return sums

    def __reduce__(self) -> tuple[Any, ...]:
        return BlendModel, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        weights = ", ".join(
            f"{name} {weight:.3g}"
            for name, weight in zip(self.names, self.weights.tolist(), strict=True)
        )
        return f"BlendModel({weights}{', by document' if self.gates else ''})"

    def _check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong."""
        n_parts = len(self.parts)
        if not 1 <= n_parts <= MOST_PARTS:
            raise ModelError(f"a blend has 1 to {MOST_PARTS} parts, not {n_parts:,}.")
        is_named = all(isinstance(name, str) and name for name in self.names)
        if len(self.names) != n_parts or not is_named or len(set(self.names)) != n_parts:
            raise ModelError(f"names must be {n_parts} different texts, one per part.")
        for name in _NUMBERS:
            array = getattr(self, name)
            if array.shape != (n_parts,) or not np.isfinite(array).all():
                raise ModelError(f"{name} must be {n_parts} finite numbers, one per part.")
        if (self.weights < 0).any() or not self.weights.any():
            raise ModelError("weights must not be negative, and one must be above 0.")
        if (self.spreads <= 0).any():
            raise ModelError("spreads must be above 0.")
        strength = validate.finite_number("strength", self.strength)
        if (strength > 0) != bool(self.gates) or strength < 0:
            raise ModelError("strength must be above 0 where there are gates, and 0 where not.")
        object.__setattr__(self, "strength", strength)
        if self.gates and len(self.gates) != n_parts:
            raise ModelError(f"there must be {n_parts} gates, one per part, or none.")
        self._check_features()

    def _check_features(self) -> None:
        for number, model in enumerate((*self.parts, *self.gates)):
            noun = "part" if number < len(self.parts) else "the gate of part"
            name = self.names[number % len(self.parts)]
            if isinstance(model, BlendModel):
                raise ModelError(f"{noun} '{name}' is a blend; blends do not nest.")
            if model.n_features != self.n_features:
                raise ModelError(
                    f"{noun} '{name}' knows {model.n_features:,} features, but part '{self.names[0]}' knows "
                    f"{self.n_features:,}."
                )
            if model.feature_names != self.feature_names:
                raise ModelError(
                    f"{noun} '{name}' has other names of features than part '{self.names[0]}'."
                )
            if _categories_of(model) != self.categorical:
                raise ModelError(
                    f"{noun} '{name}' has other categories than part '{self.names[0]}', or other codes for them. Train "
                    "all parts on the same data, or read the data of each by the categories of the first: "
                    "categorical={name: categories}."
                )


def _categories_of(model: Any) -> Dictionaries | None:
    """The categories of a model's features; None for a model of numbers alone."""
    dictionaries: Dictionaries | None = getattr(model, "categorical", None)
    return dictionaries


def gated_weights(weights: Floats, errors: Floats, strength: float) -> Floats:
    """The weight of each part for each row: weight · error^-strength, as shares of their sum."""
    limited = np.clip(errors, LEAST_ERROR, MOST_ERROR)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # scores are checked
        shares: Floats = weights * limited**-strength
        total = np.zeros(len(shares))
        for column in shares.T:  # in order: numpy's own sums depend on the layout
            total += column
        shares /= total[:, np.newaxis]
    return shares


def _importance(part: Any, kind: str) -> Floats | None:
    """The importance of each feature in a part; None where it has none of this kind."""
    if hasattr(part, "n_trees"):
        importance: Floats = part.importance(kind)
        return importance
    is_known = kind == "gain" and hasattr(part, "importance")  # of a linear model: its weights
    return part.importance() if is_known else None


def _as_forest(part: Any) -> Forest | None:
    """A part as one sum or mean of trees; None where it is none."""
    if isinstance(part, Forest):
        return part
    try:
        forest = getattr(part, "forest", None)
    except ModelError:  # an ordinal model that clips
        return None
    return forest if isinstance(forest, Forest) else None


def _scaled(forest: Forest | None, factor: float, centre: float) -> Forest:
    """The scores minus ``centre``, times ``factor``, as a sum of trees."""
    assert forest is not None
    weights = forest.tree_weights
    if forest.average and weights.size:
        weights = weights / weights.sum()
    base = factor * (forest.base - centre)
    return dataclasses.replace(forest, tree_weights=factor * weights, average=False, base=base)


# Conversion to a file and back: each part is written as a model of its own kind.


def blend_to_arrays(blend: BlendModel, kinds: Mapping[str, Any]) -> tuple[Record, Arrays]:
    """The record of the blend for ``model.json``, and its arrays; ``kinds`` are the allowed kinds of its parts."""
    arrays: Arrays = {_PREFIX + name: getattr(blend, name) for name in _NUMBERS}
    parts, gates = [], []
    for number, (name, part) in enumerate(zip(blend.names, blend.parts, strict=True)):
        kind = next((kind for kind, known in kinds.items() if isinstance(part, known.model)), None)
        if kind is None:
            raise ModelError(
                f"part '{name}' is a {type(part).__name__}, which a model file cannot hold."
            )
        record, own = kinds[kind].to_arrays(part)
        parts.append({"kind": kind, "record": record})
        arrays |= {f"parts.{number}.{key}": array for key, array in own.items()}
    for number, gate in enumerate(blend.gates):
        record, own = forest_to_arrays(gate, f"gates.{number}.")
        gates.append(record)
        arrays |= own
    return {
        "names": list(blend.names),
        "strength": blend.strength,
        "parts": parts,
        "gates": gates,
    }, arrays


def blend_from_arrays(
    record: Any, arrays: Mapping[str, Array], feature_names: Any, kinds: Mapping[str, Any]
) -> BlendModel:
    """The blend from the result of ``blend_to_arrays``, fully checked."""
    check_record(record, _RECORD)
    for name in ("names", "parts", "gates"):
        if not isinstance(record[name], list) or len(record[name]) > MOST_PARTS:
            raise ModelError(f"its {name} must be a list of at most {MOST_PARTS}.")
    groups = _by_member(arrays)
    parts, gates = [], []
    for number, described in enumerate(record["parts"]):
        check_record(described, ("kind", "record"))
        if not isinstance(described["kind"], str) or described["kind"] not in kinds:
            raise ModelError(f"part {number} must be of kind {', '.join(kinds)}.")
        own = groups.pop(f"parts.{number}.", {})
        try:
            kind = kinds[described["kind"]]
            parts.append(kind.from_arrays(described["record"], own, feature_names))
        except ModelError as error:
            raise ModelError(f"part {number}: {error}") from None
    for number, described in enumerate(record["gates"]):
        own = groups.pop(f"gates.{number}.", {})
        gates.append(forest_from_arrays(described, own, feature_names))
        known = validate.ARRAYS if gates[-1].categorical is None else (*validate.ARRAYS, SUBSETS)
        refuse_others(own, known, "a gate")
    numbers = native_arrays(_NUMBERS, arrays, _PREFIX)
    for name, dtype in _NUMBERS.items():
        if numbers[name].dtype != np.dtype(dtype) or numbers[name].ndim != 1:
            raise ModelError(f"array '{_PREFIX + name}' must have one dimension of float64.")
    others = {name for group, own in groups.items() for name in (f"{group}{key}" for key in own)}
    single = [name for name in arrays if name.count(".") < 2]
    refuse_others(
        {name: arrays[name] for name in (*others, *single)},
        [_PREFIX + name for name in _NUMBERS],
        "a blend",
    )
    return BlendModel(parts, record["names"], **numbers, gates=gates, strength=record["strength"])  # type: ignore[arg-type]


def _by_member(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """The arrays of each part and gate under their own names, by their prefix."""
    groups: dict[str, dict[str, Array]] = {}
    for name, array in arrays.items():
        pieces = name.split(".", 2)
        if len(pieces) == 3:
            groups.setdefault(f"{pieces[0]}.{pieces[1]}.", {})[pieces[2]] = array
    return groups


def names_of_parts(names: Sequence[str | None], kinds: Sequence[str]) -> list[str]:
    """A name for each part: its own, else that of its kind; kinds that occur twice are numbered."""
    counted: dict[str, int] = {}
    chosen = []
    for name, kind in zip(names, kinds, strict=True):
        if name is not None:
            chosen.append(name)
            continue
        counted[kind] = counted.get(kind, 0) + 1
        chosen.append(f"{kind}-{counted[kind]}" if kinds.count(kind) > 1 else kind)
    return chosen
