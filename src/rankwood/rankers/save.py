"""Model files of estimators (``save``, ``load``), and ``refit``, which trains a chosen model again on all the data."""

from __future__ import annotations

import datetime
import importlib
import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

import rankwood
from rankwood.data.dataset import RankingData
from rankwood.data.reading import ModelFeatures
from rankwood.dtypes import Array
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.models.format import KINDS, kind_of, load_model, save_model
from rankwood.models.validate import features_in_order
from rankwood.rankers.base import (
    Ranker,
    chosen_parameters,
    is_fitted,
    learned_model,
    learns_kind,
    set_learned_model,
)
from rankwood.training.forest import AUTO
from rankwood.training.rounds import plain_parameters

# Estimators that a file may name: the public rankers, by where they live. A file can name nothing else.
_HOMES = ("rankwood.rankers.", "rankwood.studies.auto")  # AutoRanker studies other rankers
_MODULE_OF = {
    name: module
    for name, module in rankwood._MODULE_OF.items()
    if module.startswith(_HOMES) and name[0].isupper()
}
# What a fit sets besides the model, where an estimator has it.
_RECORDED: dict[str, tuple[type, ...]] = {
    "history_": (list, dict),
    "position_bias_": (list,),
    "position_history_": (list,),
    "train_history_": (list,),
    "rounds_": (list,),
    "best_iteration_": (int,),
    "stopped_because_": (str,),
    "n_iter_": (int,),
    "n_rounds_": (int,),
    "n_failed_": (int,),
    "n_held_out_": (int,),
    "objective_": (float, int),
    "layers_": (list,),
    "learned_on_": (str,),
    "held_out_": (dict,),
}
_EPOCH = "SOURCE_DATE_EPOCH"  # https://reproducible-builds.org/specs/source-date-epoch
_CHOSEN_LEAVES = "max_leaves"  # recorded where the parameter is "auto"; None is no limit
# Settings of fits of version 0.1 that are parameters since, and whose defaults are others. A file names every parameter
# that there was when it was written, so one that does not name these is of that version.
_FORMER: dict[str, dict[str, Any]] = {
    "BoostingTree": {"search": "hull"},
    "DeepForest": {"bag": "row", "judged_on": "valid", "lead": 0.0},
}


def estimators() -> dict[str, Any]:
    """Every estimator by name."""
    return {
        name: getattr(importlib.import_module(module), name) for name, module in _MODULE_OF.items()
    }


def save(
    model: Any, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted estimator, or a bare model such as a forest, to a model file.

    The file holds the trees or weights, the parameters and a record of the training, and no code. The same model
    trained again gives the same bytes, so the time the training took is not in it; out-of-bag scores of single rows
    are not either. Of an ``AutoRanker``, the ranker that it has chosen is written, with a record of its trials.

    Parameters
    ----------
    model
        A fitted estimator or a bare model.
    path
        The file to write.
    notes
        Whatever should be known of the model, by name: texts, numbers, and lists or mappings of them. They are kept in
        ``training_["notes"]`` of the loaded estimator, beside notes that it had already, and ``rankwood inspect``
        shows them.

    Notes
    -----
    The date is recorded as ``training_["date"]`` where the environment variable ``SOURCE_DATE_EPOCH`` holds it, as
    seconds since 1970. The clock is not asked, so that the same model gives the same bytes on every day.
    """
    notes = _checked_notes(notes)
    if kind_of(model) is not None:
        record = _dated({"notes": notes} if notes else {})
        save_model(model, path, {"training": record} if record else None)
        return
    if not isinstance(model, Ranker) or type(model).__name__ not in _MODULE_OF:
        raise ModelError(f"{type(model).__name__} cannot be saved: it is not an estimator of ours.")
    if not is_fitted(model):
        raise ModelError(
            f"this {type(model).__name__} is not fitted yet: there is nothing to save."
        )
    model = model._standing_for()
    training = _dated(_without_nan(model.training_))
    if notes:
        training["notes"] = {**training.get("notes", {}), **notes}
    for name in _RECORDED:
        if hasattr(model, name):
            training[name.rstrip("_")] = _without_nan(getattr(model, name))
    if getattr(model, "max_leaves", None) == AUTO and hasattr(model, "max_leaves_"):
        training[_CHOSEN_LEAVES] = model.max_leaves_
    measures = {}
    oob_ndcg = getattr(model, "oob_ndcg_", None)
    if oob_ndcg is not None and not math.isnan(oob_ndcg):
        measures["oob_ndcg@10"] = oob_ndcg
    meta = {
        "estimator": type(model).__name__,
        "parameters": plain_parameters(model),
        "training": training,
        "measures": measures,
    }
    save_model(learned_model(model), path, meta)


def _checked_notes(notes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Notes as plain values of JSON; an error for what no file can hold."""
    if notes is None:
        return {}
    if not isinstance(notes, Mapping) or not all(isinstance(name, str) for name in notes):
        raise ParameterError("notes must be a mapping from names to texts, numbers or lists.")
    for name, value in notes.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ParameterError(
                f"the note '{name}' cannot be written to a model file: {error}. Notes are texts, numbers, and lists or "
                "mappings of them."
            ) from None
    plain: dict[str, Any] = json.loads(json.dumps(dict(notes)))
    return plain


def _dated(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the date of ``SOURCE_DATE_EPOCH``, where that is set; else with the date that it has, if any."""
    seconds = os.environ.get(_EPOCH)
    if not seconds:
        return record
    try:
        date = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise ParameterError(
            f"{_EPOCH} must be a whole number of seconds since 1970, as `date +%s` gives it; got '{seconds}'."
        ) from None
    return {**record, "date": date.isoformat()}


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator of a model file, which predicts the same to the bit; a bare model where the file has no more."""
    stored, meta = load_model(path)
    name = meta.get("estimator")
    if name is None:
        return stored
    model = _rebuilt(name, meta.get("parameters") or {}, path)
    if not learns_kind(model, str(kind_of(stored))):
        noun = KINDS[str(kind_of(stored))].noun
        raise ModelError(f"{os.fspath(path)} holds a model of another kind than {name}: {noun}.")
    try:
        _set_fitted(model, stored, meta.get("training") or {})
    except ModelError as error:
        raise ModelError(f"{os.fspath(path)}: {error}") from None
    return model


def _rebuilt(name: str, parameters: dict[str, Any], path: str | os.PathLike[str]) -> Any:
    """The estimator that a file names, unfitted; estimators among its parameters are rebuilt likewise."""
    if name not in _MODULE_OF:
        known = ", ".join(sorted(_MODULE_OF))
        raise ModelError(
            f"{os.fspath(path)} holds a '{name}', which this version does not know. Known: {known}."
        )
    kind = getattr(importlib.import_module(_MODULE_OF[name]), name)
    unknown = sorted(set(parameters) - set(kind().get_params()))
    if unknown:
        raise ModelError(f"{os.fspath(path)}: {name} has no parameter '{unknown[0]}'.")
    named = {key: _rebuilt_value(value, path) for key, value in parameters.items()}
    return kind(**(_former(name, named) | named))


def _former(name: str, named: dict[str, Any]) -> dict[str, Any]:
    """What the fit of a file followed before it was a parameter, so that ``refit`` and ``clone`` follow it too."""
    if name == "BROOF" and named.get("loss") == "lambda" and "measure" in named:
        return {"target": named["measure"]}  # one measure was both looked at and learned
    return _FORMER.get(name, {})


def _rebuilt_value(value: Any, path: str | os.PathLike[str]) -> Any:
    """A parameter as it was, where it is an estimator or a list of them."""
    if isinstance(value, list):
        return [_rebuilt_value(item, path) for item in value]
    if _is_estimator(value):
        return _rebuilt(value["estimator"], value["parameters"], path)
    return value


def _is_estimator(value: Any) -> bool:
    """Whether a parameter in a file is an estimator with parameters of its own."""
    return (
        isinstance(value, dict)
        and set(value) == {"estimator", "parameters"}
        and isinstance(value["estimator"], str)
        and isinstance(value["parameters"], dict)
    )


def features_of(model: Any) -> ModelFeatures:
    """The features that a loaded model, an estimator or a bare one, knows."""
    n_features = int(getattr(model, "n_features_in_", None) or model.n_features)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = getattr(model, "feature_names", None)
    is_bare = names is None and kind_of(model) is not None  # as imported models are
    return ModelFeatures(n_features, None if names is None else tuple(map(str, names)), is_bare)


def _set_fitted(model: Any, stored: Any, training: dict[str, Any]) -> None:
    set_learned_model(model, stored)
    model.n_features_in_ = stored.n_features
    if stored.feature_names is not None:
        model.feature_names_in_ = np.array(stored.feature_names, dtype=object)
    record = dict(training)
    for name, kinds in _RECORDED.items():
        value = record.pop(name.rstrip("_"), None)
        if value is not None and not isinstance(value, kinds):
            raise ModelError(
                f"its record of the training has a {type(value).__name__} as {name.rstrip('_')}, "
                f"not a {kinds[0].__name__}."
            )
        if isinstance(value, list) or (name == "history_" and value is not None):
            value = _with_nan(value)
        if value is not None:
            setattr(model, name, value)
    if _CHOSEN_LEAVES in record:
        model.max_leaves_ = record.pop(_CHOSEN_LEAVES)
    model.training_ = record


def _without_nan(value: Any) -> Any:
    """NaN becomes None, since JSON has no NaN. Times are left out."""
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items() if name != "seconds"}
    return None if isinstance(value, float) and math.isnan(value) else value


def _with_nan(value: Any) -> Any:
    """Lists of figures as ``_without_nan`` found them."""
    if isinstance(value, dict):
        return {name: _with_nan(item) for name, item in value.items()}
    if not isinstance(value, list):
        raise ModelError(
            f"its record of the training has a {type(value).__name__} in a history, not a list."
        )
    return [math.nan if item is None else item for item in value]


def refit(estimator: Ranker, train: RankingData, valid: RankingData) -> Any:
    """A new model of the same kind on training and validation data together.

    It has as many trees, or rounds, as ``estimator`` ended up with, so that nothing is left to be chosen on
    validation data. The queries of the two parts stay apart, even where they share an id.
    """
    if not is_fitted(estimator):
        raise ParameterError(
            f"this {type(estimator).__name__} is not fitted yet: refit needs to know what was chosen."
        )
    estimator = estimator._standing_for()
    model = clone(estimator)
    known = model.get_params()
    # A checkpoint of the fit before belongs to other data.
    changes = {**chosen_parameters(estimator), "warm_start": False, "checkpoint": None}
    model.set_params(**{name: value for name, value in changes.items() if name in known})
    return model.fit(join(train, valid))


def join(one: RankingData, other: RankingData) -> RankingData:
    """The rows of both, one after the other; their queries are numbered anew."""
    if (one.query_ids is None) != (other.query_ids is None):
        raise DataError("one part has query ids and the other has none.")
    features = features_in_order(other, one.n_features, one.feature_names)
    query_ids = query_weights = None
    if one.query_ids is not None:
        query_ids = np.concatenate([one.query_of_row, other.query_of_row + one.n_queries])
        if one.query_weights is not None or other.query_weights is not None:
            query_weights = np.concatenate([_weights_of_queries(one), _weights_of_queries(other)])
    row_weights = None
    if one.row_weights is not None or other.row_weights is not None:
        row_weights = np.concatenate([_weights_of_rows(one), _weights_of_rows(other)])
    if (one.positions is None) != (other.positions is None):
        raise DataError("one part has positions and the other has none.")
    positions = None
    if one.positions is not None and other.positions is not None:
        positions = np.concatenate([one.positions, other.positions])
    joined = RankingData(
        np.concatenate([one.features, features]),
        np.concatenate([one.labels, other.labels]),
        query_ids,
        None,
        row_weights,
        query_weights,
        one.feature_names,
        positions,
    )
    return joined.with_absent(one.absent if one.absent == other.absent else None)


def _weights_of_rows(data: RankingData) -> Array:
    return np.ones(data.n_documents) if data.row_weights is None else data.row_weights


def _weights_of_queries(data: RankingData) -> Array:
    return np.ones(data.n_queries) if data.query_weights is None else data.query_weights
