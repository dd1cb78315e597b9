"""The features a model is asked about, in the order it knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood.data.dataset import RankingData
from rankwood.data.frames import to_matrix
from rankwood.dtypes import FEATURE, Features
from rankwood.errors import DataError

_NAMES_SHOWN = 5


def features_in_order(
    features: Any, n_features: int, feature_names: tuple[str, ...] | None
) -> Features:
    """The features as a row-major float32 matrix whose columns stand in the model's order.

    Columns with names are put in order, if model and data both have names; others are taken by position.
    """
    matrix, names = _matrix(features)
    if names is not None and feature_names is not None and names != feature_names:
        _refuse_other_names(names, feature_names)
        place_of = {name: place for place, name in enumerate(names)}
        matrix = matrix[:, [place_of[name] for name in feature_names]]
    if matrix.shape[1] != n_features:
        raise DataError(
            f"the model knows {n_features:,} features, but the data have {matrix.shape[1]:,}."
        )
    return np.require(matrix, requirements=["C", "ALIGNED"])


def _matrix(features: Any) -> tuple[Features, tuple[str, ...] | None]:
    if isinstance(features, RankingData):
        return features.features, features.feature_names
    is_plain = type(features) is np.ndarray and features.dtype == FEATURE and features.ndim == 2
    if is_plain and features.flags.c_contiguous:
        return features, None  # a single document is scored in the time that looking further takes
    return to_matrix(features)


def _refuse_other_names(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    missing = sorted(set(known) - set(names))
    unknown = sorted(set(names) - set(known))
    if not missing and not unknown:
        return
    parts = []
    if missing:
        parts.append(f"the data lack {some_names(missing)}")
    if unknown:
        parts.append(f"the model does not know {some_names(unknown)}")
    raise DataError(
        f"the data's feature names are not the model's: {'; '.join(parts)}. "
        "Rename the columns, or pass a bare array in the model's order."
    )


def some_names(names: Sequence[str]) -> str:
    """The first few names in quotes, and how many more there are."""
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMES_SHOWN]) + more
