"""The binned columns that a layer of a cascade sees: the features, and behind them the augmented columns.

Trees are grown on one contiguous array of columns × rows. It is allocated once with room for the augmented columns,
and each layer overwrites those of the layer before, so that the features are never copied. Only ``keep_augmented``
allocates a larger array, one layer wider, when the room is used up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from rankwood._core.threads import resolve_threads
from rankwood.binning.binned import BinnedData
from rankwood.binning.bins import CODE, MISSING_BIN, Bins
from rankwood.binning.fit import fit_bins
from rankwood.binning.folder import coded_features
from rankwood.data.dataset import RankingData
from rankwood.dtypes import FEATURE, OFFSET, Array, Bytes, Features, Floats, Rows
from rankwood.engines.cluster import ClusterEngine
from rankwood.engines.engine import CPU, Engine, engine_on
from rankwood.engines.placement import ClusterRows, NotOnCluster
from rankwood.errors import DataError, ModelError
from rankwood.models.cascade import as_feature
from rankwood.models.forest import Forest
from rankwood.models.validate import ArrayRule, check_arrays, features_in_order
from rankwood.training.inputs import (
    TrainingSet,
    bins_of,
    codes_by_same_bins,
    is_distributed,
    weights_of_rows,
)
from rankwood.trees.row_order import as_matrix, reorder_by_pilot_tree

_PARTS = ("train", "valid")  # in the names of a checkpoint's arrays


@dataclass(eq=False)
class LayerRows:
    """Rows of one part of the data, training or validation, with all their columns."""

    data: RankingData  # with its own features, in the training data's order
    codes: Bytes  # (features and room, rows)
    source_of_row: Rows  # the data's row behind each row of ``codes``
    row_major_prefix: Bytes | None = None  # codes of the first original features, row by row
    augmented: list[Features] = field(
        default_factory=list
    )  # kept only where a learner wants values

    def write(self, column: int, codes: Bytes) -> None:
        """Write one column's codes, which are in the data's order."""
        self.codes[column] = codes.take(self.source_of_row)

    def make_room(self, width: int, n_columns: int) -> None:
        """Allocate a larger array unless ``n_columns`` fit behind the first ``width``."""
        if width + n_columns > len(self.codes):
            wider = np.empty((width + n_columns, self.codes.shape[1]), CODE)
            wider[:width] = self.codes[:width]
            self.codes = wider

    def settle(self, width: int, bins: Bins) -> None:
        """All columns of a layer are written: nothing is left to do here."""

    def engine(self, bins: Bins, device: str, n_threads: int | None) -> Engine:
        """What grows trees on the columns that have these bins."""
        codes = self.codes[: bins.n_features]
        matrix = as_matrix(codes, bins, self.source_of_row, self.row_major_prefix)
        return engine_on(device, matrix, resolve_threads(n_threads))

    def score(self, forest: Forest, bins: Bins, n_threads: int | None) -> Floats:
        """The scores of the rows, in the data's order."""
        scores = forest.predict_binned(self.codes[: bins.n_features], bins, n_threads=n_threads)
        by_source: Floats = np.empty_like(scores)
        by_source[self.source_of_row] = scores
        return by_source

    def added_codes(self, first: int, last: int) -> Bytes:
        """The codes of the columns ``first`` to ``last``, for a checkpoint."""
        return self.codes[first:last]

    def restore_codes(self, first: int, codes: Bytes) -> None:
        """Take over columns of a checkpoint."""
        self.make_room(first, len(codes))
        self.codes[first : first + len(codes)] = codes

    def values(self) -> Features:
        """All columns as numbers, for learners that do not train on bins: rows × columns."""
        if not self.augmented:
            return self.data.features
        return np.hstack([self.data.features, np.stack(self.augmented, axis=1)])


@dataclass(eq=False)
class ClusterLayerRows(LayerRows):
    """The same for rows on a cluster; the augmented columns go there when a layer is complete."""

    rows: ClusterRows | None = None
    added: dict[int, Bytes] = field(default_factory=dict)  # augmented columns, in the data's order

    @classmethod
    def of(cls, data: RankingData) -> ClusterLayerRows:
        """The rows with their own features only."""
        rows: ClusterRows = data.features.rows  # type: ignore[attr-defined]
        rows.widen(rows.bins, {})
        none = np.zeros(0, np.int64)
        return cls(data, np.zeros((0, 0), CODE), none, rows=rows)

    def write(self, column: int, codes: Bytes) -> None:
        """Keep one column's codes, which are in the data's order."""
        self.added[column] = codes

    def make_room(self, width: int, n_columns: int) -> None:
        """The columns go to the cluster together."""

    def settle(self, width: int, bins: Bins) -> None:
        """Send the augmented columns to the workers."""
        self.added = {column: codes for column, codes in self.added.items() if column < width}
        self._known_rows.widen(bins, self.added)

    def engine(self, bins: Bins, device: str, n_threads: int | None) -> Engine:  # noqa: ARG002
        """The workers that have the rows."""
        return ClusterEngine(self._known_rows, resolve_threads(n_threads))

    def score(self, forest: Forest, bins: Bins, n_threads: int | None) -> Floats:  # noqa: ARG002
        """The scores of the rows, by the workers."""
        return ClusterEngine(self._known_rows, 1).predict(forest)

    def values(self) -> Features:
        """No process has the features."""
        raise NotOnCluster("a layer of rankers that do not train on bins")

    def added_codes(self, first: int, last: int) -> Bytes:
        """The codes of augmented columns."""
        return np.stack([self.added[column] for column in range(first, last)])

    def restore_codes(self, first: int, codes: Bytes) -> None:
        """Take over columns of a checkpoint."""
        self.added = {first + column: np.array(own) for column, own in enumerate(codes)}

    @property
    def _known_rows(self) -> ClusterRows:
        assert self.rows is not None
        return self.rows


@dataclass(frozen=True, eq=False)
class Encoded:
    """A column in bins: the codes of the training rows, then those of the validation rows, if there are any."""

    bins: Bins
    codes: list[Bytes]
    values: list[Features]  # the numbers behind them, where a learner wants those


@dataclass(eq=False)
class LayerColumns:
    """The columns of the current layer: those of the training rows, and of the validation rows if there are any."""

    train: LayerRows
    valid: LayerRows | None
    original: Bins
    added: list[Bins]  # of the augmented columns
    wants_values: bool  # whether a learner needs the augmented columns as numbers too
    max_bins: int
    n_threads: int | None
    device: str = CPU

    @property
    def width(self) -> int:
        """How many columns a layer sees."""
        return self.original.n_features + len(self.added)

    @property
    def bins(self) -> Bins:
        """The cut points of all columns."""
        return _joined([self.original, *self.added])

    def encode(self, of_train: Floats, of_valid: Floats | None) -> Encoded:
        """A further column, given for the training rows and for the validation rows, in bins of its own."""
        values = [as_feature(scores) for scores in (of_train, of_valid) if scores is not None]
        bins = fit_bins(values[0][:, np.newaxis], max_bins=self.max_bins, n_threads=1)
        codes = [bins.transform(column[:, np.newaxis], self.n_threads)[0] for column in values]
        return Encoded(bins, codes, values if self.wants_values else [])

    def take(self, encoded: Sequence[Encoded], *, keep: bool) -> None:
        """Put columns behind the original features, or with ``keep`` behind all that there are."""
        if not keep:
            self.added = []
        for index, part in enumerate(self._parts):
            part.make_room(self.width, len(encoded))
            if not keep:
                part.augmented = []
            for number, column in enumerate(encoded):
                part.write(self.width + number, column.codes[index])
                part.augmented += column.values[index : index + 1]
        self.added = self.added + [column.bins for column in encoded]
        self.train.settle(self.width, self.bins)

    def training_set(self, is_trained: Any) -> TrainingSet:
        """The training rows as the layer's learners see them; rows that are not ``is_trained`` have no weight."""
        data = self.train.data
        bins = self.bins
        row_weights, weights = data.row_weights, weights_of_rows(data)
        if not is_trained.all():
            row_weights = np.where(is_trained, 1.0 if row_weights is None else row_weights, 0.0)
            weights = np.where(is_trained, 1.0 if weights is None else weights, 0.0)
        engine = self.train.engine(bins, self.device, self.n_threads)
        return TrainingSet(_as_wide(data, self.width, row_weights), bins, engine, weights)

    def score_train(self, forest: Forest) -> Floats:
        """The scores of the training rows, in the data's order."""
        return self.train.score(forest, self.bins, self.n_threads)

    def score_valid(self, forest: Forest) -> Floats:
        """The scores of the validation rows."""
        assert self.valid is not None
        return self.valid.score(forest, self.bins, self.n_threads)

    def saved(self) -> dict[str, Array]:
        """The augmented columns as arrays, for a checkpoint."""
        first, bins = self.original.n_features, _joined(self.added)
        arrays: dict[str, Array] = {
            f"augmented.{field.name}": getattr(bins, field.name) for field in fields(bins)
        }
        for name, part in zip(_PARTS, self._parts, strict=False):
            arrays[f"augmented.{name}_codes"] = part.added_codes(first, self.width)
            if part.augmented:
                arrays[f"augmented.{name}_values"] = np.stack(part.augmented)
        return arrays

    def restore(self, arrays: Mapping[str, Array], n_columns: int) -> None:
        """Take over the augmented columns of a checkpoint, of which there must be ``n_columns``."""
        first = self.original.n_features
        bins = Bins(*(arrays[f"augmented.{field.name}"] for field in fields(Bins)))
        if bins.n_features != n_columns:
            raise ModelError(
                f"it holds {bins.n_features} augmented columns instead of {n_columns}."
            )
        for name, part in zip(_PARTS, self._parts, strict=False):
            _check_saved(name, bins, part.codes.shape[1], arrays)
        self.added = [
            Bins(
                bins.thresholds_of(column),
                np.array([0, count]),
                bins.has_missing[column : column + 1],
            )
            for column, count in enumerate(np.diff(bins.offsets).tolist())
        ]
        for name, part in zip(_PARTS, self._parts, strict=False):
            part.restore_codes(first, arrays[f"augmented.{name}_codes"])
            part.augmented = list(arrays.get(f"augmented.{name}_values", ()))
        self.train.settle(self.width, self.bins)

    @property
    def _parts(self) -> list[LayerRows]:
        return [self.train] if self.valid is None else [self.train, self.valid]


def _check_saved(part: str, bins: Bins, n_rows: int, arrays: Mapping[str, Array]) -> None:
    """Raise for augmented columns of a checkpoint that do not fit the data or their bins."""
    shape = (bins.n_features, n_rows)
    rules = {f"augmented.{part}_codes": ArrayRule(CODE, shape)}
    if f"augmented.{part}_values" in arrays:
        rules[f"augmented.{part}_values"] = ArrayRule(FEATURE, shape, may_be_nan=True)
    check_arrays(rules, arrays)
    codes = arrays[f"augmented.{part}_codes"]
    largest = np.max(codes, axis=1, initial=0, where=codes != MISSING_BIN)
    if (largest >= bins.n_value_bins).any():
        raise ModelError(f"array 'augmented.{part}_codes' holds codes beyond the bins.")


def _joined(parts: Sequence[Bins]) -> Bins:
    """The bins of several groups of columns as one."""
    counts = np.concatenate([np.diff(bins.offsets) for bins in parts])
    offsets = np.zeros(counts.size + 1, OFFSET)
    np.cumsum(counts, out=offsets[1:])
    thresholds = np.concatenate([bins.thresholds for bins in parts])
    return Bins(thresholds, offsets, np.concatenate([bins.has_missing for bins in parts]))


@dataclass(frozen=True)
class Room:
    """How columns are made: bins, room for augmented columns, and whether learners need them as numbers."""

    max_bins: int
    n_augmented: int
    wants_values: bool
    n_threads: int | None
    device: str = CPU


def original_columns(
    X: Any,  # noqa: N803 - scikit-learn's name
    data: RankingData,
    valid: RankingData | None,
    room: Room,
) -> LayerColumns:
    """The columns of the first layer: the features of ``data``, as they are binned already where X is BinnedData."""
    if data.n_documents == 0:
        raise DataError("there are no rows to learn from.")
    if is_distributed(X):
        return _on_cluster(data, valid, room)
    codes = np.empty((data.n_features + room.n_augmented, data.n_documents), CODE)
    own = codes[: data.n_features]
    if isinstance(X, BinnedData):
        bins = X.bins
        own[:] = X.codes  # the caller's codes stay as they are
    else:
        bins = bins_of(data, room.max_bins, room.n_threads)
        bins.transform_into(data.features, own, room.n_threads)
    matrix = reorder_by_pilot_tree(own, bins, data.labels, in_place=True, n_threads=room.n_threads)
    train = LayerRows(data, codes, matrix.source_of_row, matrix.row_major_prefix)
    held_out = None if valid is None else _validation_part(valid, data, bins, room)
    n_threads, device = room.n_threads, room.device
    return LayerColumns(
        train, held_out, bins, [], room.wants_values, room.max_bins, n_threads, device
    )


def _on_cluster(data: RankingData, valid: RankingData | None, room: Room) -> LayerColumns:
    """The columns of the first layer, of rows on a cluster."""
    train = ClusterLayerRows.of(data)
    bins = train._known_rows.bins
    held_out = None if valid is None else _validation_part(valid, data, bins, room)
    n_threads, device = room.n_threads, room.device
    return LayerColumns(
        train, held_out, bins, [], room.wants_values, room.max_bins, n_threads, device
    )


def _validation_part(valid: RankingData, data: RankingData, bins: Bins, room: Room) -> LayerRows:
    codes = np.empty((data.n_features + room.n_augmented, valid.n_documents), CODE)
    stored = coded_features(valid)
    if stored is not None:
        codes[: data.n_features] = codes_by_same_bins(stored, valid, data, bins)
        return LayerRows(valid, codes, np.arange(valid.n_documents))
    matrix = features_in_order(valid, data.n_features, data.feature_names)
    bins.transform_into(matrix, codes[: data.n_features], room.n_threads)
    in_order = RankingData.from_judgments(matrix, valid.judgments, data.feature_names)
    return LayerRows(in_order, codes, np.arange(len(matrix)))


def _as_wide(data: RankingData, width: int, row_weights: Floats | None) -> RankingData:
    """The rows as data of ``width`` columns without values, which training on bins does not need.

    The values are NaN without taking memory. The columns have no names, since augmented ones have none.
    """
    features = np.broadcast_to(FEATURE(np.nan), (data.n_documents, width))
    judgments = data.judgments.with_weights(row_weights=row_weights)
    return RankingData.from_judgments(features, judgments)
