"""Record batches of a table become ranking data; features become float32 as they come."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from rankwood import _checks, dtypes
from rankwood.data import columns
from rankwood.data.dataset import RankingData
from rankwood.data.frames import refuse_what_memory_cannot_hold
from rankwood.data.queries import group_rows
from rankwood.data.table_roles import Roles
from rankwood.dtypes import Array, Features, Floats
from rankwood.errors import DataError

_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]*)$"  # as Python writes it; 007 is text


class Collector:
    """Takes record batches of consecutive rows and becomes ranking data.

    ``first_row`` is the number of the first row in the file, counted from 0, where the data are a
    part of it; the parts of a file share one ``narrowing``.
    """

    def __init__(
        self,
        roles: Roles,
        n_rows: int | None,
        *,
        first_row: int = 0,
        narrowing: _checks.Narrowing | None = None,
    ) -> None:
        self._roles = roles
        refuse_what_memory_cannot_hold(n_rows or 0, len(roles.features))
        self._matrix = np.empty((n_rows or 0, len(roles.features)), dtypes.FEATURE)
        self._feature_of = {name: feature for feature, name in enumerate(roles.features)}
        self._values: dict[str, list[Array]] = {name: [] for name in roles.others}
        self._ids: dict[str, list[Any]] = {name: [] for name in roles.identifiers}
        self.narrowing = narrowing_of(roles) if narrowing is None else narrowing
        self._first_row = first_row
        self._n_rows = 0

    def add(self, first_row: int, batch: Any) -> None:
        """Take rows of some or all columns; a column's rows come in order."""
        first = first_row - self._first_row
        last = first + batch.num_rows
        self._n_rows = max(self._n_rows, last)
        if last > len(self._matrix):
            self._resize(last + last // 4)
        block = self._matrix[first:last]
        try:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if name in self._feature_of:
                    values = columns.numbers(name, column)
                    self.narrowing.write(values[:, None], first_row, self._feature_of[name], block)
                elif name in self._values:
                    self._values[name].append(columns.numbers(name, column).astype(np.float64))
                elif name in self._ids:
                    self._ids[name].append(column)
        except columns.NotAFeatureError as error:
            raise with_remedy(error) from None

    def _resize(self, n_rows: int) -> None:
        # In place: the system moves pages instead of copying, and no view of the matrix is alive.
        self._matrix.resize((n_rows, self._matrix.shape[1]), refcheck=False)

    def finish(self, *, ids_are_text: bool) -> RankingData:
        """All rows as ranking data."""
        import pyarrow as pa

        if self._n_rows == 0:
            raise DataError("there are no rows.")
        self._resize(self._n_rows)
        values = {name: np.concatenate(pieces) for name, pieces in self._values.items()}
        ids = {}
        for name, pieces in self._ids.items():
            whole = pa.chunked_array(pieces)
            ids[name] = _untyped_ids(whole) if ids_are_text else columns.identifiers(name, whole)
        return assemble(self._roles, self._matrix, values, ids, first_row=self._first_row + 1)


def narrowing_of(roles: Roles) -> _checks.Narrowing:
    """What watches the features of a file become float32; messages count rows from 1."""
    return _checks.Narrowing(lambda row, feature: f"row {row + 1}, {roles.column(feature)},")


def _untyped_ids(texts: Any) -> Array:
    """Ids from the text of a CSV file: whole numbers if all are, None where there is nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(texts, _WHOLE_NUMBER)).as_py():
        for kind in (pa.int64(), pa.uint64()):
            with contextlib.suppress(pa.ArrowInvalid):  # too large: text in the end
                return columns.identifiers("", texts.cast(kind))
    ids = columns.identifiers("", texts)
    ids[ids == ""] = None
    return ids


def assemble(
    roles: Roles,
    matrix: Features,
    values: dict[str, Array],
    ids: dict[str, Array],
    *,
    first_row: int,
) -> RankingData:
    """Ranking data from clean features and the other columns, which are checked here."""
    for name in roles.identifiers:
        missing = _missing(ids[name])
        if missing.any():
            row = int(np.argmax(missing)) + first_row
            raise DataError(f"row {row}: column '{name}' is empty. Every row needs an identifier.")
    for name, column in values.items():
        wrong = ~((column >= 0) & np.isfinite(column))
        if wrong.any():
            row = int(np.argmax(wrong))
            value = float(column[row])
            what = "empty" if np.isnan(value) else f"{value:g}"
            raise DataError(
                f"row {row + first_row}: column '{name}' is {what}. "
                "Labels and weights are finite and not negative."
            )
    query_ids = (
        None if roles.query is None else _checks.ids(roles.query, ids[roles.query], len(matrix))
    )
    weights = None
    if roles.query_weight is not None and query_ids is not None:
        weights = _one_weight_per_query(
            roles.query_weight, values[roles.query_weight], query_ids, first_row
        )
    numbers_as_names = tuple(str(number + 1) for number in range(len(roles.features)))
    return RankingData(
        matrix,
        np.zeros(len(matrix), dtypes.LABEL) if roles.label is None else values[roles.label],
        query_ids,
        None if roles.doc is None else ids[roles.doc],
        None if roles.row_weight is None else values[roles.row_weight],
        weights,
        None if roles.features == numbers_as_names else roles.features,
    )


def _missing(ids: Array) -> Array:
    if ids.dtype == object:
        return np.fromiter((value is None for value in ids), bool, ids.size)
    return np.isnan(ids) if ids.dtype.kind == "f" else np.zeros(ids.size, bool)


def _one_weight_per_query(name: str, weights: Array, query_ids: Array, first_row: int) -> Floats:
    grouping = group_rows(query_ids)
    weight_of_query = weights[grouping.row_order[grouping.offsets[:-1]]]
    differs = weights != weight_of_query[grouping.query_of_row]
    if differs.any():
        row = int(np.argmax(differs))
        query = grouping.query_of_row[row]
        raise DataError(
            f"row {row + first_row}: column '{name}' is {float(weights[row]):g}, but "
            f"{float(weight_of_query[query]):g} in an earlier row of query "
            f"{grouping.queries.tolist()[query]!r}. A query has one weight."
        )
    return np.asarray(weight_of_query, dtypes.WEIGHT)


def with_remedy(error: columns.NotAFeatureError) -> DataError:
    """The error with what to do about a column that cannot be a feature."""
    name = error.column
    return DataError(f"{error} Pass drop=['{name}'], or doc='{name}' if it names the documents.")
