"""Features that two collections share, and what a model of one can tell the other: ``add_model_features``.

Words used here, as in Mohan (2010), chapter 5
    Q   the score H(x) that the model of another collection gives a document
    P   the probability P(y = c) of each grade
    C   the cumulative probability P(y ≤ c) of each grade but the highest
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.ensembles.transfer_report import TransferReport, transfer_report
from rankwood.errors import DataError, ParameterError
from rankwood.models.inputs import some_names

KINDS = "QPC"
_METHOD_OF = {"Q": "predict", "P": "probabilities", "C": "cumulative"}


@dataclass(frozen=True, eq=False)
class AddedFeatures:
    """Data with what a model says of each document as further features.

    Attributes
    ----------
    data, valid
        The data given, with the new columns behind their own; ``valid`` is None where none were given.
    names
        What the new columns are called.
    report
        What the columns changed; None without validation data.
    """

    data: RankingData
    names: tuple[str, ...]
    valid: RankingData | None = None
    report: TransferReport | None = None

    def __str__(self) -> str:
        n_before = self.data.n_features - len(self.names)
        lines = [
            f"{len(self.names)} features added to {n_before:,}: {', '.join(self.names)}",
            "",
            "not measured: pass valid= to see whether this helps or harms"
            if self.report is None
            else str(self.report),
        ]
        return "\n".join(lines)


def add_model_features(
    model: Any,
    data: RankingData,
    kinds: str = KINDS,
    *,
    prefix: str = "",
    valid: RankingData | None = None,
    ranker: Any = None,
    measure: str = "ndcg@10",
) -> AddedFeatures:
    """The data with what a model of another collection says of each document, as further features.

    Parameters
    ----------
    model
        A fitted model of the other collection. It may know fewer features than the data have, if both have names.
    data
        Documents of the collection that is to be ranked better.
    kinds
        Letters: Q the score, P the probability of each grade, C the cumulative ones. P and C need a model with
        ``probabilities``, ``cumulative`` and ``grades_``, which ``OrdinalRanker`` has.
    prefix
        Stands before the names of the new features, which are Q, P0, P1, …, C0, C1, … by grade.
    valid, ranker, measure
        With validation data, ``ranker`` (None: ``RandomForest()``) is trained without and with the new features, and
        ``report`` says what they changed.
    """
    kinds = _check_kinds(model, kinds)
    said, columns = _say(model, data, kinds)
    names = tuple(f"{prefix}{name}" for name in said)
    added = _widen(data, names, columns)
    if valid is None:
        return AddedFeatures(added, names)
    more = _widen(valid, names, _say(model, valid, kinds)[1])
    if ranker is None:
        from rankwood.ensembles.forests import RandomForest

        ranker = RandomForest()
    report = transfer_report(ranker, data, added, valid, valid_with=more, measure=measure)
    return AddedFeatures(added, names, more, report)


def _check_kinds(model: Any, kinds: str) -> str:
    """The kinds in the order Q, P, C, if the model can give them."""
    if (
        not isinstance(kinds, str)
        or not kinds
        or set(kinds) - set(KINDS)
        or len(set(kinds)) < len(kinds)
    ):
        raise ParameterError(
            f"kinds must be some of the letters Q, P and C, each once, got {_checks.plain(kinds)}."
        )
    lacking = [kind for kind in KINDS if not callable(getattr(model, _METHOD_OF[kind], None))]
    if "Q" in lacking:
        raise ParameterError(f"model must be a ranker, got {type(model).__name__}.")
    refused = [kind for kind in lacking if kind in kinds]
    if refused:
        possible = "".join(kind for kind in KINDS if kind not in lacking)
        raise ParameterError(
            f"kinds has {' and '.join(refused)}, but {type(model).__name__} gives no class probabilities. "
            f"Use kinds='{possible}', or a model that does, such as OrdinalRanker."
        )
    return "".join(kind for kind in KINDS if kind in kinds)


def _say(model: Any, data: RankingData, kinds: str) -> tuple[list[str], Floats]:
    """The names of the new columns, and the columns: rows × new features."""
    if not isinstance(data, RankingData):
        raise ParameterError(
            f"features are added to RankingData, not to {type(data).__name__}: pass RankingData(X, y, qid)."
        )
    if data.n_documents == 0:
        raise DataError("there are no documents to add features to.")
    known = _as_the_model_knows_them(model, data)
    names: list[str] = []
    columns: list[Floats] = []
    for kind in kinds:
        said = np.asarray(getattr(model, _METHOD_OF[kind])(known), np.float64)
        columns.append(said.reshape(data.n_documents, -1))
        grades = [] if kind == "Q" else model.grades_[: columns[-1].shape[1]]
        names += ["Q"] if kind == "Q" else [f"{kind}{grade:g}" for grade in grades]
    return names, np.concatenate(columns, axis=1)


def _as_the_model_knows_them(model: Any, data: RankingData) -> RankingData:
    """The data without features that the model has never seen, where both have names."""
    known = getattr(model, "feature_names_in_", None)
    if known is None or data.feature_names is None:
        return data
    names = [str(name) for name in known]
    lacking = sorted(set(names) - set(data.feature_names))
    if lacking:
        common = sorted(set(names) & set(data.feature_names))
        raise DataError(
            f"the data lack {some_names(lacking)}, which the model needs; common are "
            f"{some_names(common) if common else 'none'}. Train the model on common_features(source, target)."
        )
    return take_columns(data, np.array([data.feature_names.index(name) for name in names]))


def _widen(data: RankingData, names: tuple[str, ...], columns: Floats) -> RankingData:
    """The data with columns added on the right."""
    own = data.feature_names
    twice = [] if own is None else sorted(set(own) & set(names))
    if twice:
        raise DataError(
            f"the data have features called {some_names(twice)} already. Pass prefix= for the new ones."
        )
    return dataclasses.replace(
        data,
        features=np.concatenate([data.features, _checks.feature_matrix(columns)], axis=1),
        feature_names=None if own is None else own + names,
    )


def common_features(source: RankingData, target: RankingData) -> tuple[RankingData, RankingData]:
    """Both collections with the features that both have, in the target's order.

    By name where both have names, else by position, and then there must be equally many.
    """
    in_source, in_target = common_columns(source, target)
    return take_columns(source, in_source), take_columns(target, in_target)


def common_columns(source: RankingData, target: RankingData) -> tuple[Rows, Rows]:
    """Where the common features stand in the source, and where in the target."""
    if source.feature_names is None or target.feature_names is None:
        if source.n_features != target.n_features:
            least = min(source.n_features, target.n_features)
            raise DataError(
                f"source has {source.n_features:,} features and target {target.n_features:,}, and without names "
                f"in both only their positions can be compared: at most the first {least:,} are common. Pass "
                "feature_names= for both, or cut both to the columns that mean the same."
            )
        places = np.arange(target.n_features)
        return places, places
    place_of = {name: place for place, name in enumerate(source.feature_names)}
    common = [name for name in target.feature_names if name in place_of]
    if not common:
        raise DataError(
            f"source and target have no feature in common: source has {some_names(source.feature_names)}, "
            f"target {some_names(target.feature_names)}. Rename the columns that mean the same."
        )
    in_target = [place for place, name in enumerate(target.feature_names) if name in place_of]
    return np.array([place_of[name] for name in common]), np.array(in_target)


def take_columns(data: RankingData, places: Rows) -> RankingData:
    """The data with the features at these places, in this order."""
    if np.array_equal(places, np.arange(data.n_features)):
        return data
    own = data.feature_names
    return dataclasses.replace(
        data,
        features=np.ascontiguousarray(data.features[:, places]),
        feature_names=None if own is None else tuple(own[place] for place in places.tolist()),
    )


def varying_columns(data: RankingData) -> Array:
    """Whether each feature differs between documents of some query; missing values equal each other."""
    starts = data.query_offsets[:-1]
    grouped = data.features[data.row_order]
    np.copyto(
        grouped, np.inf, where=np.isnan(grouped)
    )  # equal to itself, other than any finite value
    highest, lowest = np.maximum.reduceat(grouped, starts), np.minimum.reduceat(grouped, starts)
    found: Array = (highest != lowest).any(axis=0)
    return found
