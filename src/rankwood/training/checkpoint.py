"""Checkpoints: the finished rounds on disk, so that a fit that was killed continues where it stopped.

A checkpoint is a file in the model format, of kind ``checkpoint``. It stores the parameters and a digest of the data
it belongs to, and is refused where they differ: rounds of two different fits must never be mixed. Since all that is
random in a round follows from the seed and the number of the round, the finished model has the same bytes as one that
was never stopped.

``CheckpointFile`` writes and reads such a file, whatever it holds. ``Checkpoint`` is that of an estimator whose rounds
add trees. When a checkpoint is written is decided in ``rankwood.training.rounds``.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

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
from rankwood.training.inputs import TrainingCosts, TrainingSet

KIND = "checkpoint"
SECONDS_BETWEEN = 10.0  # a killed fit loses at most this much work, and the current round
_PREFIX = "forest."
# Parameters that say how a fit is run, not what it gives; models do not store them.
OF_THE_RUN = ("callbacks", "checkpoint", "n_threads", "progress", "warm_start")


class CheckpointFile:
    """A file that holds the finished rounds of one piece of work; without a path it does nothing.

    Parameters
    ----------
    path
        The argument ``checkpoint`` of an estimator or a study.
    owner
        What the rounds belong to: the name of the estimator or of the study.
    parameters
        Gives everything that decides the result, beside the data; only called where a file is kept.
    data
        Gives a digest of the data, likewise.
    costs
        The feature costs of a fit.
    """

    def __init__(
        self,
        path: Any,
        owner: str,
        parameters: Callable[[], dict[str, Any]],
        data: Callable[[], str],
        costs: list[float] | None = None,
    ) -> None:
        self._path = path_of(path)
        if self._path is not None:
            self._parameters = parameters()
            self._identity = {
                "estimator": owner,
                "version": __version__,
                "data": data(),
                "costs": costs,  # a cost file may change
            }

    def saver(self, save: Callable[[Self], None]) -> Callable[[], None] | None:
        """``save`` called with this checkpoint, for a ``Rounds``; None where no file is kept."""
        return None if self._path is None else functools.partial(save, self)

    def read(self, *expected: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
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
        return stored.meta, stored.arrays

    def store(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Replace what was there; a crash leaves the old file or the new one."""
        if self._path is not None:
            own = {"checkpoint": self._identity, "parameters": self._parameters}
            write_model(self._path, KIND, {**own, **meta}, arrays)

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


@dataclass(frozen=True, eq=False)
class Resumed:
    """What a checkpoint holds: the trees so far, and the arrays that go with them."""

    forest: Forest
    arrays: dict[str, Array]


class Checkpoint(CheckpointFile):
    """The checkpoint of an estimator whose rounds add trees to a forest."""

    def __init__(
        self,
        estimator: Any,
        train: TrainingSet,
        valid: RankingData | None,
        costs: TrainingCosts | None = None,
    ) -> None:
        super().__init__(
            estimator.checkpoint,
            type(estimator).__name__,
            functools.partial(plain_parameters, estimator),
            functools.partial(digest_of_fit, train, valid),
            None if costs is None else costs.prices.tolist(),
        )
        self._names = train.data.feature_names

    def load(self, *expected: str) -> Resumed | None:
        """The trees and arrays that were written before, or None; ``expected`` names arrays there must be."""
        stored = self.read(*expected)
        if stored is None:
            return None
        meta, arrays = stored
        names = meta.get("feature_names")
        forest = forest_from_arrays(meta.get("forest"), arrays, names, _PREFIX)
        others = {
            name: np.array(array)  # those in the file cannot be written to
            for name, array in arrays.items()
            if not name.startswith(_PREFIX)
        }
        return Resumed(forest, others)

    def write(self, forest: Forest, arrays: Mapping[str, Array]) -> None:
        """Replace what was there by the trees so far."""
        record, of_forest = forest_to_arrays(forest, _PREFIX)
        names = None if self._names is None else list(self._names)
        self.store({"feature_names": names, "forest": record}, {**of_forest, **arrays})


def path_of(path: Any) -> Path | None:
    """The argument ``checkpoint``; what cannot be written to is refused before the work begins, not after."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"checkpoint must be the path of a file, got {path!r}.")
    file = Path(path)
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise ParameterError(f"checkpoint must be a file in a folder that exists, got '{file}'.")
    return file


def digest_of_arrays(arrays: Iterable[Array | None]) -> str:
    """A digest of the values, types and shapes of arrays."""
    digest = hashlib.blake2b(digest_size=20)
    for array in arrays:
        if array is None:
            digest.update(b"none")
        else:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def digest_of_fit(train: TrainingSet, valid: RankingData | None) -> str:
    """A digest of everything that the trees, and when to stop, are learned from."""
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
    return digest_of_arrays(parts)


# Parameters as JSON holds them, for model files and for checkpoints.


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Every parameter that decides what is learned, made of numbers, texts, lists and mappings."""
    parameters = estimator.get_params(deep=False)
    return {
        name: plain(name, parameters[name]) for name in sorted(parameters) if name not in OF_THE_RUN
    }


def plain(name: str, value: Any) -> Any:
    """``value`` without numpy and tuples; a function or loss of the user's own becomes its name."""
    if value is None or isinstance(value, str | bool | int | float):
        # numpy's float64 is a subclass of float, which some readers refuse
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
    if isinstance(value, dict) and any(isinstance(item, BaseEstimator) for item in value.values()):
        # Pairs: the order of estimators counts, and a file sorts the keys of a mapping.
        return [[str(key), plain(name, item)] for key, item in value.items()]
    if isinstance(value, dict):
        return {str(key): plain(name, item) for key, item in value.items()}
    if isinstance(value, BaseEstimator):
        return {"estimator": type(value).__name__, "parameters": plain_parameters(value)}
    if callable(value) or hasattr(value, "targets"):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    raise ParameterError(f"{name} cannot be written to a file: it is {type(value).__name__}.")
