"""Categorical features: categories as names, and as the numbers that features hold.

A categorical feature holds codes: 0 for the most frequent category, 1 for the next, and so on, ties by name. At most
254 categories have a code of their own. All others share the code after the last one, and so do categories that appear
only when documents are scored. A missing value stays missing, and an empty text is one.

Which categories have which codes is the *dictionary* of a feature: their names, in the order of the codes. Training
data make it; validation data, test data and documents to score get the codes of the model's (``recoded``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood.dtypes import FEATURE, Array, Features
from rankwood.errors import DataError, ParameterError, UnknownName

MOST_CATEGORIES = (
    254  # with a code of their own; with one for all others they fill the codes of bins
)

Dictionary = tuple[str, ...]
Dictionaries = tuple[Dictionary | None, ...]  # by feature; None for one of numbers
Categorical = Sequence[str] | Mapping[str, Sequence[str]]  # columns, or their dictionaries


def asked_for(categorical: Any) -> dict[str, Dictionary | None]:
    """The columns that a parameter ``categorical`` names, and the dictionary of each that has one."""
    if isinstance(categorical, str):
        raise ParameterError(
            f"categorical is a list of column names; put the one name in brackets: ['{categorical}']."
        )
    if isinstance(categorical, Mapping):
        return {str(name): checked(str(name), names) for name, names in categorical.items()}
    if not all(isinstance(name, str) for name in categorical):
        raise ParameterError("categorical names columns of a table; each name is a text.")
    return dict.fromkeys(categorical)


def checked(name: str, names: Any) -> Dictionary:
    """The dictionary of a feature: up to 254 different texts."""
    if isinstance(names, str) or not all(isinstance(one, str) and one for one in names):
        raise DataError(f"the categories of '{name}' must be a list of texts that are not empty.")
    if len(names) > MOST_CATEGORIES or len(set(names)) < len(names):
        raise DataError(
            f"the categories of '{name}' must be at most {MOST_CATEGORIES}, all different, got {len(names):,}. Leave "
            "out those of few rows: they share a code."
        )
    return tuple(names)


def by_feature(
    categorical: Any, matrix: Features, feature_names: Sequence[str] | None
) -> Dictionaries | None:
    """The dictionaries by feature of a matrix that holds codes; None where no feature is categorical.

    ``categorical`` are dictionaries by name, by number of a column, or, as this function gives them, by feature.
    """
    n_features = matrix.shape[1]
    names = tuple(feature_names or (str(number + 1) for number in range(n_features)))
    if isinstance(categorical, tuple) and all(
        one is None or isinstance(one, tuple) for one in categorical
    ):
        given = dict(zip(names, categorical, strict=False))
        if len(categorical) != n_features:
            raise DataError(
                f"there are categories of {len(categorical):,} features, but {n_features:,} features."
            )
    elif isinstance(categorical, Mapping):
        given = {_name(key, names): value for key, value in categorical.items()}
    else:
        listed = ", ".join(f"'{name}'" for name in asked_for(categorical))
        raise DataError(
            f"categorical names {listed}, but features without a table hold numbers. Pass a frame, or codes with the "
            "names of their categories: categorical={column: names}."
        )
    found = tuple(None if given.get(name) is None else checked(name, given[name]) for name in names)
    if all(one is None for one in found):
        return None
    check_codes(matrix, found, names)
    return found


def _name(key: Any, names: Sequence[str]) -> str:
    """The name of a feature that a key of a mapping stands for: a name, or the index of a column."""
    if isinstance(key, str):
        if key not in names:
            raise UnknownName("categorical: feature", key, names)
        return key
    return names[checks.whole_number("a feature of categorical", key, 0, len(names) - 1)]


def check_codes(
    matrix: Features, dictionaries: Dictionaries | None, names: Sequence[str] | None = None
) -> None:
    """Raise for a value of a categorical feature that is no code of its categories."""
    for feature, dictionary in enumerate(dictionaries or ()):
        if dictionary is None:
            continue
        values = matrix[:, feature]
        is_code = (values >= 0) & (values <= len(dictionary)) & (values == np.floor(values))
        wrong = ~(is_code | np.isnan(values))
        if (row := checks.first_true(wrong)) is not None:
            name = str(feature + 1) if names is None else names[feature]
            raise DataError(
                f"row {row}: the categorical feature '{name}' is {float(values[row]):g}, but its codes are whole "
                f"numbers from 0 to {len(dictionary)}, of which the last is any other category. Pass a table with its "
                "text."
            )


def encode(name: str, column: Any, known: Dictionary | None = None) -> tuple[Array, Dictionary]:
    """The codes of an Arrow column as float32, NaN where a value is missing, and its dictionary.

    ``known`` is the dictionary to use; by default it is made of the column's most frequent categories.
    """
    indices, texts = _indices(name, column)
    is_missing = indices < 0
    if known is None:
        counts = np.bincount(indices[~is_missing], minlength=len(texts))
        ranked = sorted(range(len(texts)), key=lambda index: (-counts[index], texts[index]))
        frequent = [texts[index] for index in ranked if counts[index] > 0]
        known = tuple(frequent[:MOST_CATEGORIES])
    code_of = {text: code for code, text in enumerate(known)}
    codes = np.array([*(code_of.get(text, len(known)) for text in texts), math.nan], FEATURE)
    return codes[indices], known


def _indices(name: str, column: Any) -> tuple[Array, list[str]]:
    """The values of a column as indices into its distinct texts; -1 where one is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries() if types.is_dictionary(column.type) else column
        column = column.combine_chunks()
    if types.is_null(column.type):
        return np.full(len(column), -1, np.int64), []
    kind = column.type
    if not types.is_dictionary(kind):
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
            raise DataError(
                f"column '{name}' is to be categorical, but holds {kind}. Categories are text or of a category type: "
                "turn the column into one of these if its numbers are names, or leave it as it is."
            )
        column = column.cast(pa.large_string()).dictionary_encode()
    values = column.dictionary
    if not types.is_large_string(values.type):
        try:
            values = pc.cast(values, pa.large_string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f"column '{name}' has categories of {values.type}. Turn them into text."
            ) from None
    indices = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    texts = values.to_pylist()
    is_text = np.array(
        [*(bool(text) for text in texts), False]
    )  # an index of -1 stands for the last
    return np.where(is_text[indices], indices, -1), ["" if text is None else text for text in texts]


def decode(codes: Array, known: Dictionary) -> Any:
    """The names of codes as Arrow text, null where a value is missing.

    Those that share a code have lost their names: they get one that no category has, ``(other)`` as a rule.
    """
    import pyarrow as pa

    other = "(other)"
    while other in known:
        other = f"({other})"
    is_missing = np.isnan(codes)
    indices = np.where(is_missing, 0, codes).astype(np.int64)
    return pa.array([*known, other], pa.large_string()).take(pa.array(indices, mask=is_missing))


def write_codes(
    features: Features,
    names: Sequence[str],
    texts: Mapping[str, list[Any]],
    dictionaries: dict[str, Dictionary | None],
) -> None:
    """Write the codes of columns that were read as pieces of text into features that nobody else has yet.

    Columns without a dictionary get one in ``dictionaries``.
    """
    if not texts:
        return
    import pyarrow as pa

    matrix = features.view()
    matrix.flags.writeable = True
    for name, pieces in texts.items():
        is_mixed = len({piece.type for piece in pieces}) > 1  # as those of several files may be
        column = pa.chunked_array(
            [_as_text(name, piece) for piece in pieces] if is_mixed else pieces
        )
        codes = encode(name, column, dictionaries[name])
        matrix[:, names.index(name)], dictionaries[name] = codes


def _as_text(name: str, piece: Any) -> Any:
    """A piece of a column of categories as text."""
    import pyarrow as pa

    try:
        return piece.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"column '{name}' has other types in other files, of which one is {piece.type}. Make all of them text."
        ) from None


def recoded(matrix: Features, own: Dictionaries | None, wanted: Dictionaries | None) -> Features:
    """The features with the codes of the ``wanted`` dictionaries; the matrix itself where these are its ``own``."""
    if own == wanted or wanted is None:
        return matrix
    changed = None
    for feature, known in enumerate(wanted):
        mine = None if own is None or feature >= len(own) else own[feature]
        if known is None or mine is None or mine == known:
            continue
        if changed is None:
            changed = np.array(matrix, FEATURE)
        code_of = {text: code for code, text in enumerate(known)}
        codes = np.array([*(code_of.get(text, len(known)) for text in mine), len(known)], FEATURE)
        values = changed[:, feature]
        is_known = ~np.isnan(values)
        values[is_known] = codes[values[is_known].astype(np.int64)]
    return matrix if changed is None else changed


def within(matrix: Features, dictionaries: Dictionaries, names: Sequence[str] | None) -> Features:
    """Features to score: codes beyond a dictionary become that of any other category; what is no code is refused."""
    for feature, dictionary in enumerate(dictionaries):
        if dictionary is None:
            continue
        is_beyond = matrix[:, feature] > len(dictionary)
        if is_beyond.any():
            matrix = np.array(matrix, FEATURE)
            matrix[is_beyond, feature] = len(dictionary)
    check_codes(matrix, dictionaries, names)
    return matrix


def refuse(dictionaries: Dictionaries | None, names: Sequence[str], what: str) -> None:
    """Raise where a feature is categorical and ``what`` cannot take it."""
    for name, dictionary in zip(names, dictionaries or (), strict=False):
        if dictionary is not None:
            raise DataError(
                f"feature '{name}' is categorical, which {what} cannot take. Encode it as numbers, such as one 0/1 "
                "column per category, or leave it out."
            )
