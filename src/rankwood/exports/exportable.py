"""The forest inside a model, or the reason why there is none."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood.errors import ModelError
from rankwood.models.family import Family
from rankwood.models.forest import Forest
from rankwood.models.kinds import KINDS, kind_of
from rankwood.models.ordinal import OrdinalModel

_REASONS = {
    "linear": "a linear model is no sum of trees",
    "neural": "a neural network is no sum of trees",
    "cascade": "the layers of a cascade feed their scores to one another, so that it is no sum of trees",
}


def forest_inside(model: Any) -> Forest:
    """The trees whose sum or mean the model's score is."""
    name = type(model).__name__
    stored = (
        model if kind_of(model) is not None else getattr(model, getattr(model, "_model", ""), None)
    )
    if stored is None and hasattr(model, "_model"):
        raise ModelError(f"this {name} is not fitted yet: there is nothing to export.")
    kind = str(kind_of(stored))
    if kind in _REASONS:
        raise ModelError(f"{name} cannot be exported: {_REASONS[kind]}.")
    if isinstance(stored, OrdinalModel | Family):
        return stored.forest  # an ordinal one raises where probabilities are clipped
    if not isinstance(stored, Forest):
        nouns = ", ".join(kind.noun for kind in KINDS.values())
        raise ModelError(f"{name} cannot be exported: it is no ranker of ours and no {nouns}.")
    return stored


def zero_stands_for_missing(forest: Forest) -> bool:
    """Whether every split sends a missing value where it sends 0."""
    inner = np.flatnonzero(forest.feature >= 0)
    side_of_zero = np.where(forest.threshold[inner] >= 0, forest.left[inner], forest.right[inner])
    return bool((forest.missing[inner] == side_of_zero).all())


def check_missing_as_zero(
    forest: Forest, model: Any, format_name: str, assume_no_missing: bool
) -> str:
    """What the certificate says of missing values where the format takes them for 0; raises where that is wrong."""
    if zero_stands_for_missing(forest):
        return "every split sends missing values where it sends 0, as the format does"
    record = getattr(model, "training_", None)
    n_missing = record.get("features_with_missing") if isinstance(record, dict) else None
    if n_missing == 0:
        return "the training data had no missing values; one that comes later is 0 for the format"
    if assume_no_missing:
        return "assumed on request: no document has missing values; the format takes them for 0"
    known = (
        "It is not known whether the training data had any"
        if n_missing is None
        else f"{n_missing:,} features of the training data had some"
    )
    raise ModelError(
        f"{format_name} takes a missing value for 0, but this model sends missing values elsewhere. {known}. "
        "If documents never lack a value, say so (assume_no_missing); else fill missing values with 0 and train "
        "again, or export to a format that knows them."
    )
