"""Checkpoints: the trees so far on disk, so that a fit that was killed goes on where it stopped.

A checkpoint is a file in the model format, of kind ``checkpoint``. It remembers the parameters and a digest of the data
it belongs to, and is refused where they differ: trees of two different fits must never be mixed. Since all that is
random in a tree follows from the seed and the tree's number, the finished model has the same bytes as one that was
never stopped.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from rankwood import __version__
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array
from rankwood.errors import ModelError, ParameterError
from rankwood.measures.measure import Measure
from rankwood.models.archive import forest_from_arrays, forest_to_arrays
from rankwood.models.forest import Forest
from rankwood.models.format import read_model, write_model
from rankwood.training.costs import TrainingCosts
from rankwood.training.inputs import TrainingSet

KIND = "checkpoint"
SECONDS_BETWEEN = 10.0  # a killed fit loses at most this much work, and the tree at hand
_PREFIX = "forest."


@dataclass(frozen=True, eq=False)
class Resumed:
    """What a checkpoint holds: the trees so far, and the arrays that go with them."""

    forest: Forest
    arrays: dict[str, Array]


class Checkpoint:
    """The file a fit writes to now and then; without a path it does nothing."""

    def __init__(
        self,
        estimator: Any,
        train: TrainingSet,
        valid: RankingData | None,
        costs: TrainingCosts | None = None,
    ) -> None:
        self._path = path_of(estimator.checkpoint)
        self._written_at = time.monotonic()
        if self._path is not None:
            self._names = train.data.feature_names
            self._identity = {
                "estimator": type(estimator).__name__,
                "version": __version__,
                "data": _digest(train, valid),
                "costs": None if costs is None else costs.prices.tolist(),  # a cost file may change
            }
            self._parameters = plain_parameters(estimator)

    @property
    def is_kept(self) -> bool:
        """Whether there is a file at all."""
        return self._path is not None

    def load(self, *expected: str) -> Resumed | None:
        """What was written before, or None when there is nothing yet; ``expected`` names arrays it must hold."""
        if self._path is None or not self._path.exists():
            return None
        stored = read_model(self._path)
        if stored.kind != KIND:
            raise ModelError(
                f"{self._path} holds a {stored.kind}, not a checkpoint. Pass another path as checkpoint."
            )
        self._refuse_others(stored.meta)
        lacking = sorted(set(expected) - set(stored.arrays))
        if lacking:
            raise ModelError(f"the checkpoint {self._path} lacks the array '{lacking[0]}'.")
        names = stored.meta.get("feature_names")
        forest = forest_from_arrays(stored.meta.get("forest"), stored.arrays, names, _PREFIX)
        others = {
            name: np.array(array)  # those in the file cannot be written to
            for name, array in stored.arrays.items()
            if not name.startswith(_PREFIX)
        }
        return Resumed(forest, others)

    def is_due(self) -> bool:
        """Whether it is time to write."""
        return self._path is not None and time.monotonic() - self._written_at >= SECONDS_BETWEEN

    def write(self, forest: Forest, arrays: Mapping[str, Array]) -> None:
        """Put the trees so far in place of what was there; a crash leaves the old file or the new one."""
        if self._path is None:
            return
        record, of_forest = forest_to_arrays(forest, _PREFIX)
        meta = {
            "checkpoint": self._identity,
            "parameters": self._parameters,
            "feature_names": None if self._names is None else list(self._names),
            "forest": record,
        }
        write_model(self._path, KIND, meta, {**of_forest, **arrays})
        self._written_at = time.monotonic()

    def _refuse_others(self, meta: Mapping[str, Any]) -> None:
        afresh = f"Delete {self._path}, or pass another path as checkpoint, to start afresh."
        identity = meta.get("checkpoint")
        if not isinstance(identity, dict):
            raise ModelError(f"{self._path} does not say which fit it belongs to. {afresh}")
        for name in ("estimator", "version"):
            if identity.get(name) != self._identity[name]:
                raise ModelError(
                    f"the checkpoint {self._path} belongs to {name} {identity.get(name)!r}, "
                    f"not {self._identity[name]!r}. {afresh}"
                )
        theirs = meta.get("parameters") or {}
        for name in sorted(set(theirs) | set(self._parameters)):
            if theirs.get(name) != self._parameters.get(name):
                raise ModelError(
                    f"the checkpoint {self._path} was made with {name}={theirs.get(name)!r}, "
                    f"not {self._parameters.get(name)!r}. {afresh}"
                )
        if identity.get("costs") != self._identity["costs"]:
            raise ModelError(
                f"the checkpoint {self._path} was made with other feature costs. {afresh}"
            )
        if identity.get("data") != self._identity["data"]:
            raise ModelError(f"the checkpoint {self._path} was made on other data. {afresh}")


def path_of(path: Any) -> Path | None:
    """The argument ``checkpoint``; what cannot be written to is refused before the work begins, not after."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"checkpoint must be the path of a file, got {path!r}.")
    found = Path(path)
    if found.is_dir() or not found.absolute().parent.is_dir():
        raise ParameterError(f"checkpoint must be a file in a folder that exists, got '{found}'.")
    return found


def _digest(train: TrainingSet, valid: RankingData | None) -> str:
    """A digest of everything that the trees, and when to stop, are learned from."""
    digest = hashlib.blake2b(digest_size=20)
    bins = train.bins
    parts: list[Array | None] = [
        bins.thresholds,
        bins.offsets,
        train.matrix.columns,
        train.labels,
        train.weights,
    ]
    parts.append(None if train.data.query_ids is None else train.data.query_of_row)
    if valid is not None:
        parts += [valid.features, valid.labels, valid.query_weights]
        parts.append(None if valid.query_ids is None else valid.query_of_row)
    for part in parts:
        if part is None:
            digest.update(b"none")
        else:
            digest.update(f"{part.dtype} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


# An estimator's parameters as JSON says them: for the model file and for checkpoints.


# What says how a fit is run, not what it gives: no part of a model.
OF_THE_RUN = ("callbacks", "checkpoint", "n_threads", "progress", "warm_start")


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Every parameter that decides what is learned, made of numbers, texts, lists and mappings."""
    parameters = estimator.get_params(deep=False)
    return {
        name: plain(name, parameters[name]) for name in sorted(parameters) if name not in OF_THE_RUN
    }


def plain(name: str, value: Any) -> Any:
    """``value`` without numpy and tuples; a function or loss of the user's own becomes its name."""
    if value is None or isinstance(value, str | bool | int | float):
        # numpy's float64 is a float, but not one that every reader expects
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Measure):
        return str(value)
    if isinstance(value, np.ndarray | list | tuple):
        return [
            plain(name, item)
            for item in (value.tolist() if isinstance(value, np.ndarray) else value)
        ]
    if isinstance(value, dict):
        return {str(key): plain(name, item) for key, item in value.items()}
    if isinstance(value, BaseEstimator):
        return {"estimator": type(value).__name__, "parameters": plain_parameters(value)}
    if callable(value) or hasattr(value, "targets"):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    raise ParameterError(f"{name} cannot be written to a file: it is {type(value).__name__}.")
