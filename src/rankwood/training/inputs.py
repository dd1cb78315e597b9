"""What a fit is given, brought into one form: data, weights, validation sets and measures, costs of features.

``ranking_data`` turns the arguments of ``fit`` into ``RankingData``, ``validation_data`` does so for ``valid``, and
``training_set`` bins the rows. Row weights, and the rows that count, are defined here once for all rankers.

Of several validation sets and measures the first of each decide: early stopping looks at nothing else. Every other pair
of them is only recorded. It changes nothing that is learned, so it is computed when the trees are grown, from the
scores after each round. The history is a list where there is one unnamed set and one measure. Where ``valid`` is a
mapping, or ``measure`` a list, it is a mapping from the name of a set to a mapping from measures to lists.

``training_costs`` turns the parameters for feature costs into ``TrainingCosts``: a split pays for a feature that no
earlier tree of the model has used. Eq. 6.1 of Mohan (2010): of all splits a node takes the one with the least

    impurity(left) + impurity(right) + λ · c(feature)

so costs decide which split is taken, not whether there is one. As in the paper, c(f) falls to 0 for the trees after the
first that uses f; the tree that uses it first pays at each of its splits. By default impurities are divided by that of
the tree's root and costs by the largest, so that λ between 0 and 1 means the same on every data set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks
from rankwood._core.checks import read_only
from rankwood._core.sums import exact_sum
from rankwood._core.threads import resolve_threads
from rankwood.binning.binned import BinnedData
from rankwood.binning.bins import Bins, fit_bins, with_categories
from rankwood.binning.folder import BinnedFolder, CodedFeatures, coded_features, same_bins
from rankwood.data.dataset import RankingData
from rankwood.data.features import feature_costs
from rankwood.data.frames import as_frame
from rankwood.dtypes import Array, Bytes, Floats
from rankwood.engines.cluster import ClusterEngine, ClusterFeatures
from rankwood.engines.engine import CPU, Engine, TreeRequest, engine_on
from rankwood.errors import DataError, ParameterError
from rankwood.losses.loss import Targets
from rankwood.measures.compute import RepeatedMeasure
from rankwood.measures.measure import Measure, OwnMeasure, parse_measure
from rankwood.measures.ranking import check_scores
from rankwood.models.validate import features_of
from rankwood.trees.row_order import as_matrix, reorder_by_pilot_tree
from rankwood.trees.workspace import Matrix

SCALES = ("relative", "raw")


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Binned training rows, their labels and their weights."""

    data: RankingData  # the rows before binning
    bins: Bins
    engine: Engine  # holds the binned rows
    weights: Floats | None  # row weight × weight of its query; None where all are 1
    targets: Floats | None = (
        None  # what labels are on average, where these are clicks of a known bias
    )
    starts: StartScores | None = None  # that boosting starts from; None: a constant

    @property
    def matrix(self) -> Matrix:
        """The binned rows, in the memory of this process."""
        return self.engine.matrix

    @property
    def labels(self) -> Floats:
        """One label per row, or the relevance that its click stands for."""
        return self.data.labels if self.targets is None else self.targets

    @property
    def present(self) -> Array | None:
        """Whether each row counts; None where all do."""
        return rows_that_count(self.weights)


# Weight times the square of a label, summed over a billion rows, stays in the range of float64.
_LARGEST_LABEL, _LARGEST_WEIGHT = 1e110, 1e50


def ranking_data(
    X: Any,  # noqa: N803 - scikit-learn's name
    y: Any,
    qid: Any,
    sample_weight: Any = None,
    query_weight: Any = None,
    categorical: Any = None,
) -> RankingData:
    """The arguments of ``fit`` as ranking data; labels and ids are part of ``X`` or passed beside it, never both."""
    if isinstance(X, BinnedData):
        X = X.data  # noqa: N806
    if not isinstance(X, RankingData):
        if y is None:
            # scikit-learn's estimator checks look for this wording.
            raise DataError("fit requires y to be passed, but the target y is None.")
        refuse_other_than_tables(X)
        return RankingData(X, y, qid, None, sample_weight, query_weight, categorical=categorical)
    for name, value in (("y", y), ("qid", qid)):
        if value is not None:
            raise DataError(
                f"{name} was passed beside a {type(X).__name__}, which has its own. Pass one of the two."
            )
    if sample_weight is None and query_weight is None:
        return X
    if coded_features(X) is not None:
        raise DataError(
            "weights were passed beside binned data of a folder, whose bins depend on them. Name their columns when "
            "the files are binned: row_weight=, query_weight=."
        )
    for name, value, own in (
        ("sample_weight", sample_weight, X.row_weights),
        ("query_weight", query_weight, X.query_weights),
    ):
        if value is not None and own is not None:
            raise DataError(
                f"{name} was passed beside RankingData that have weights of their own. "
                "Pass one of the two."
            )
    weighed = dataclasses.replace(
        X,
        row_weights=X.row_weights if sample_weight is None else sample_weight,
        query_weights=X.query_weights if query_weight is None else query_weight,
    )
    return weighed.with_absent(X.absent)


def refuse_other_than_tables(features: Any) -> None:
    """Raise for features that are no table of real numbers: one dimension, or complex numbers."""
    dtype = getattr(features, "dtype", None)
    if getattr(dtype, "kind", "") == "c":
        raise DataError("Complex data not supported: features must be real numbers.")
    if isinstance(features, np.ndarray) and features.ndim == 1:
        raise DataError(
            "features must have two dimensions (rows, features), got 1. Reshape your data: "
            "X.reshape(-1, 1) for a single feature, X.reshape(1, -1) for a single document."
        )


def refuse_other_width(features: Any, estimator: Any) -> None:
    """Raise for an array with another number of features than ``estimator`` was fitted to."""
    expected = estimator.n_features_in_
    if isinstance(features, np.ndarray) and features.ndim == 2 and features.shape[1] != expected:
        raise DataError(
            f"X has {features.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{expected} features as input."
        )


def remember_features(estimator: Any, n_features: int, names: tuple[str, ...] | None) -> None:
    """Set ``n_features_in_`` and, where the features have names, ``feature_names_in_``."""
    estimator.n_features_in_ = n_features
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def training_set(
    X: Any,  # noqa: N803
    data: RankingData,
    max_bins: int,
    n_threads: int | None,
    device: str = CPU,
    targets: Floats | None = None,
) -> TrainingSet:
    """The rows of ``data`` binned, or as they were binned already when ``X`` is ``BinnedData``."""
    if data.n_documents == 0:
        raise DataError("there are no rows to learn from.")
    weights = weights_of_rows(data)
    if isinstance(data.features, ClusterFeatures):
        rows = data.features.rows
        rows.widen(rows.bins, {})  # a deep forest may have left columns of its own
        engine: Engine = ClusterEngine(rows, resolve_threads(n_threads))
        return TrainingSet(data, rows.bins, engine, weights, targets)
    if isinstance(X, BinnedFolder):  # sorted already, if at all; a copy might not fit into memory
        bins, columns = X.bins, np.ascontiguousarray(X.columns)
        matrix = as_matrix(columns, bins, X.source_of_row)
    elif isinstance(X, BinnedData):
        if "matrix" not in X.derived:
            X.derived["matrix"] = reorder_by_pilot_tree(
                X.codes, X.bins, X.data.labels, n_threads=n_threads
            )
        bins, matrix = X.bins, X.derived["matrix"]
    else:
        bins = bins_of(data, max_bins, n_threads)
        codes = bins.transform(data.features, n_threads)
        matrix = reorder_by_pilot_tree(codes, bins, data.labels, in_place=True, n_threads=n_threads)
    engine = engine_on(device, matrix, resolve_threads(n_threads))
    return TrainingSet(data, bins, engine, weights, targets)


def bins_of(data: RankingData, max_bins: int, n_threads: int | None) -> Bins:
    """Bins fitted to the rows that count: cut points do not depend on rows without weight."""
    present = rows_that_count(weights_of_rows(data))
    features = data.features if present is None else data.features[present]
    bins = fit_bins(features, max_bins=max_bins, n_threads=n_threads)
    return with_categories(bins, data.categorical)


def is_distributed(X: Any) -> bool:  # noqa: N803
    """Whether the argument of ``fit`` or ``predict`` is data on a cluster."""
    return isinstance(X, BinnedData) and isinstance(X.data.features, ClusterFeatures)


def features_with_missing(train: TrainingSet) -> int:
    """How many features have missing values in the training rows."""
    # Bins may have been fitted to other rows, so the codes are looked at too.
    return int((train.bins.has_missing | train.engine.has_missing()).sum())


def multiplied_weights(data: RankingData) -> Floats | None:
    """The weight of each row times that of its query, as they were given; None where none were."""
    if data.query_weights is None:
        return data.row_weights
    of_query: Floats = data.query_weights[data.query_of_row]
    return of_query if data.row_weights is None else data.row_weights * of_query


def weights_of_rows(data: RankingData) -> Floats | None:
    """The weight of each row times that of its query; None where all are 1. Not all may be 0."""
    weights = multiplied_weights(data)
    if weights is None or (weights == 1.0).all():
        return None
    checks.weights("weights (sample_weight × query_weight)", weights, data.n_documents)
    return np.ascontiguousarray(weights)


def refuse_extremes(data: RankingData) -> None:
    """Raise for labels and weights whose squares and sums would leave the range of float64, and for files cut short."""
    if coded_features(data) is None:
        checks.refuse_cut("the features", data.features)
    checks.refuse_cut("the labels", data.labels)
    if data.labels.max(initial=0.0) > _LARGEST_LABEL:
        row = int(np.argmax(data.labels))
        raise DataError(
            f"labels[{row}] is {float(data.labels[row]):g}, beyond {_LARGEST_LABEL:g}: squares of labels are summed. "
            "Divide the labels by a number, or map them to a few grades."
        )
    with np.errstate(over="ignore", under="ignore"):
        weights = multiplied_weights(data)
    if weights is None:
        return
    is_extreme = (weights > _LARGEST_WEIGHT) | ((weights > 0) & (weights < 1 / _LARGEST_WEIGHT))
    extreme = checks.first_true(is_extreme)
    if extreme is not None:
        raise DataError(
            f"the weight of row {extreme} (sample_weight × query_weight) is {float(weights[extreme]):g}; weights above "
            f"0 must be from {1 / _LARGEST_WEIGHT:g} to {_LARGEST_WEIGHT:g}. Divide them all by a number: only their "
            "proportions count."
        )


def rows_that_count(weights: Floats | None) -> Array | None:
    """Whether each row has a weight above 0, and so is part of the data at all; None where all are."""
    return None if weights is None or weights.min() > 0 else weights > 0


def validation_data(valid: Any, train: RankingData) -> RankingData | None:
    """The argument ``valid``: RankingData, BinnedData, or (X, y) or (X, y, qid)."""
    if valid is None:
        return None
    if isinstance(valid, BinnedData):
        valid = valid.on_host().data if is_distributed(valid) else valid.data  # type: ignore[attr-defined]
    if isinstance(valid, tuple | list) and len(valid) in (2, 3):
        given = zip(train.names, train.categorical or (), strict=False)
        known = {name: one for name, one in given if one is not None}
        is_coded = as_frame(valid[0]) is None or not known
        labels, queries = (*valid[1:], None)[:2]
        categorical = None if is_coded else known
        valid = ranking_data(valid[0], labels, queries, categorical=categorical)
    if not isinstance(valid, RankingData):
        raise ParameterError(
            f"valid must be RankingData or (X, y, qid), got {type(valid).__name__}."
        )
    if valid.n_documents == 0:
        raise DataError("valid has no rows.")
    if valid.n_features != train.n_features:
        raise DataError(
            f"valid has {valid.n_features:,} features, but the training data have {train.n_features:,}."
        )
    return valid


def codes_of(valid: RankingData, train: TrainingSet, n_threads: int | None) -> Bytes:
    """The validation rows in the training rows' bins."""
    stored = coded_features(valid)
    if stored is not None:
        return checks.read_only(codes_by_same_bins(stored, valid, train.data, train.bins))
    matrix = features_of(valid, train.data)
    codes: Bytes = checks.read_only(train.bins.transform(matrix, n_threads))
    return codes


def codes_by_same_bins(
    stored: CodedFeatures, valid: RankingData, train: RankingData, bins: Bins
) -> Bytes:
    """The codes of stored validation rows, in the data's order; an error if they are of other bins or features."""
    if not same_bins(stored.bins, bins):
        raise DataError(
            f"valid, {stored.folder}, was binned by other bins than the training data. Bin it again with bins= of the "
            "training folder (rankwood bin --bins FOLDER), and train on that folder."
        )
    names = (valid.feature_names, train.feature_names)
    if None not in names and names[0] != names[1]:
        raise DataError(
            f"valid, {stored.folder}, has other features than the training data, or in another order. Bin it again, "
            "with features= in the order of the training data."
        )
    return stored.codes()


def directions(monotone: Any, data: RankingData) -> Array | None:
    """The argument ``monotone`` by feature: 1 rising, -1 falling, 0 free; from a list, or a mapping from names."""
    if monotone is None:
        return None
    if isinstance(monotone, dict):
        unknown = [name for name in monotone if name not in data.names]
        if unknown:
            raise ParameterError(f"monotone names a feature that the data lack: '{unknown[0]}'.")
        values = [monotone.get(name, 0) for name in data.names]
    else:
        values = list(np.asarray(monotone).ravel().tolist())
    if len(values) != data.n_features:
        raise ParameterError(
            f"monotone has {len(values):,} values, but there are {data.n_features:,} features."
        )
    wrong = [value for value in values if value not in (-1, 0, 1)]
    if wrong:
        raise ParameterError(f"monotone must be 1, -1 or 0 for each feature, got {wrong[0]!r}.")
    for name, value, dictionary in zip(data.names, values, data.categorical or (), strict=False):
        if value != 0 and dictionary is not None:
            raise ParameterError(
                f"monotone is {value} for '{name}', which is categorical: its categories have no order."
            )
    return np.asarray(values, np.int64)


def feature_groups(interactions: Any, data: RankingData) -> Array | None:
    """The argument ``interactions`` as groups × features: whether a feature is of a group; None where all may meet."""
    if interactions is None:
        return None
    if isinstance(interactions, str) or not isinstance(interactions, Sequence | np.ndarray):
        raise ParameterError(
            "interactions must be a list of groups of features, such as [['bm25', 'length'], ['age']], got "
            f"{checks.plain(interactions)}."
        )
    number_of = {name: number for number, name in enumerate(data.names)}
    groups = np.zeros((len(interactions) + 1, data.n_features), np.bool_)
    for group, features in zip(groups, interactions, strict=False):
        if isinstance(features, str) or not isinstance(features, Sequence | np.ndarray):
            raise ParameterError(
                f"a group of interactions must be a list of features, got {checks.plain(features)}."
            )
        for feature in features:
            group[_feature_number(feature, number_of, data.n_features)] = True
    groups[-1] = ~groups[:-1].any(axis=0)
    chosen: Array = groups[groups.any(axis=1)]
    return chosen


def _feature_number(feature: Any, number_of: dict[str, int], n_features: int) -> int:
    """The feature that interactions name, by name or by number."""
    if isinstance(feature, str):
        if feature not in number_of:
            raise ParameterError(f"interactions name a feature that the data lack: '{feature}'.")
        return number_of[feature]
    return checks.whole_number("a feature of interactions", feature, 0, n_features - 1)


# Feature costs.


@dataclass(frozen=True, eq=False)
class TrainingCosts:
    """λ · c(f) of each feature, as a share of the root's impurity when ``is_relative``."""

    prices: Floats
    is_relative: bool

    def charge(self, request: TreeRequest, targets: Targets, is_used: Array) -> TreeRequest:
        """The request for a tree that fits ``targets``, with these costs; features that ``is_used`` are free."""
        policies = request.policies
        prices = np.where(is_used, 0.0, self.prices)
        if self.is_relative:
            values, weights = targets
            counts = request.counts()
            prices = prices * root_impurity(values, counts, weights, policies.l2, policies.l1)
        return dataclasses.replace(request, policies=dataclasses.replace(policies, costs=prices))


def training_costs(estimator: Any, data: RankingData) -> TrainingCosts | None:
    """The costs that the estimator's parameters ask for; None where every feature is free."""
    if estimator.feature_costs is None:
        return None
    costs = feature_costs(estimator.feature_costs, data.names)
    is_relative = estimator.cost_scale == "relative"
    if is_relative and costs.any():
        costs /= costs.max()
    prices = float(estimator.cost_weight) * costs
    return TrainingCosts(prices, is_relative) if prices.any() else None


def root_impurity(
    targets: Floats, counts: Array | None, weights: Floats | None, l2: float, l1: float = 0.0
) -> float:
    """The weighted sum of squares that a tree without splits leaves, the same for any number of threads."""
    mass = np.ones(targets.size) if counts is None else counts.astype(np.float64)
    if weights is not None:
        mass = mass * weights
    total_mass = exact_sum(mass)
    total = exact_sum(targets, mass)
    if total_mass <= 0.0:
        return 0.0
    spread = exact_sum((targets - total / total_mass) ** 2, mass)
    pulled = max(abs(total) - l1, 0.0)
    return spread + total**2 / total_mass - pulled**2 / (total_mass + l2)


ONLY = "valid"  # the name of a set that was given without one

AnyMeasure = Measure | OwnMeasure
History = list[float] | dict[str, dict[str, list[float]]]
Stages = Callable[[str, RankingData], Iterator[Floats]]


def measures_of(measure: Any) -> list[AnyMeasure]:
    """The parameter ``measure``: a text, a function of (scores, data), or several; the first one decides."""
    several = measure if isinstance(measure, list | tuple) else [measure]
    if not several:
        raise ParameterError("measure is an empty list: name at least one measure.")
    parsed = [OwnMeasure.of(each) if callable(each) else parse_measure(each) for each in several]
    names = [str(each) for each in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"measure names {name} twice.")
    return parsed


def deciding_measure(measure: Any) -> AnyMeasure:
    """The measure that early stopping looks at."""
    return measures_of(measure)[0]


def one_or_several_measures(_: str, value: Any) -> object:
    """Raise for what the parameter ``measure`` of a ranker that grows in rounds cannot be."""
    return measures_of(value)


@dataclass(frozen=True, eq=False)
class ValidationSets:
    """The validation data of a fit by name; the first set decides."""

    by_name: Mapping[str, RankingData]
    has_names: bool = False  # whether the caller has named them

    @classmethod
    def of(cls, valid: Any, train: RankingData) -> ValidationSets:
        """The argument ``valid`` of ``fit``."""
        if not isinstance(valid, Mapping):
            only = validation_data(valid, train)
            return cls({} if only is None else {ONLY: only})
        if not valid:
            raise ParameterError(
                "valid is an empty mapping: name at least one set, or leave it out."
            )
        sets = {}
        for name, given in valid.items():
            if not isinstance(name, str) or not name:
                raise ParameterError(
                    f"valid must map names to data, got the name {checks.plain(name)}."
                )
            data = validation_data(given, train)
            if data is None:
                raise ParameterError(f"valid has nothing under the name '{name}'.")
            sets[name] = data
        return cls(sets, has_names=True)

    @property
    def first(self) -> RankingData | None:
        """The set that early stopping looks at; None without validation data."""
        return next(iter(self.by_name.values()), None)


@dataclass(frozen=True, eq=False)
class StartScores:
    """Scores that boosting starts from, which are no part of the model: of training rows, and of sets by name."""

    train: Floats
    valid: Mapping[str, Floats]

    @classmethod
    def of(cls, train: Any, valid: Any, n_rows: int, sets: ValidationSets) -> StartScores | None:
        """The arguments ``init_scores`` and ``valid_init_scores`` of ``fit``; None where neither is given."""
        if train is None:
            if valid is not None:
                raise ParameterError("valid_init_scores was passed without init_scores.")
            return None
        names = list(sets.by_name)
        if valid is None and names:
            raise ParameterError(
                "init_scores was passed with validation data, whose scores start somewhere too: pass "
                "valid_init_scores, one number per row, or a mapping from the names of sets."
            )
        given = valid if isinstance(valid, Mapping) else dict(zip(names[:1], [valid], strict=False))
        for name in names:
            if name not in given:
                raise ParameterError(f"valid_init_scores lacks the set '{name}' of valid.")
        for name in given:
            if name not in names:
                raise ParameterError(
                    f"valid_init_scores names '{name}', which valid does not have."
                )
        of_valid = {
            name: checks.vector(f"valid_init_scores of '{name}'", given[name], data.n_documents)
            for name, data in sets.by_name.items()
        }
        return cls(checks.vector("init_scores", train, n_rows), of_valid)


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """One measure of one set, with what follows from labels alone computed once for all rounds."""

    data: RankingData
    measure: AnyMeasure
    n_threads: int | None
    repeated: RepeatedMeasure | None  # None: a measure of the user's own

    @classmethod
    def of(cls, data: RankingData, measure: AnyMeasure, n_threads: int | None) -> MeasuredSet:
        """A measure of a set; an error where the set lacks the queries that it needs."""
        if isinstance(measure, OwnMeasure):
            return cls(data, measure, n_threads, None)
        if data.query_ids is None and measure.needs_queries:
            raise DataError(
                f"valid has no query ids, which {measure} needs. Pass (X, y, qid), or measure='rmse'."
            )
        return cls(data, measure, n_threads, RepeatedMeasure.of(measure, data, n_threads))

    def value(self, scores: Floats) -> float:
        """The measure of some scores."""
        if isinstance(self.measure, OwnMeasure):
            return self.measure.value(read_only(scores), self.data)
        assert self.repeated is not None
        if self.measure.needs_queries:
            scores = check_scores(scores, scores.size)
        return self.repeated.value(read_only(scores))


def history_of(
    decided: list[float],
    sets: ValidationSets,
    measure: Any,
    stages: Stages,
    n_threads: int | None,
) -> History:
    """The history of a fit: ``decided`` alone, or those of all sets and measures.

    ``decided`` is the first measure of the first set by round. ``stages`` gives the scores of a set after each round.
    """
    if not sets.has_names and not isinstance(measure, list | tuple):
        return list(decided)
    first, *others = measures_of(measure)
    history: dict[str, dict[str, list[float]]] = {}
    for number, (name, data) in enumerate(sets.by_name.items()):
        values: dict[str, list[float]] = {str(first): list(decided) if number == 0 else []}
        asked = others if number == 0 else [first, *others]
        measured = [MeasuredSet.of(data, each, n_threads) for each in asked]
        for scores in stages(name, data) if asked else ():
            for each in measured:
                values.setdefault(str(each.measure), []).append(each.value(scores.copy()))
        history[name] = values
    return history


def check_sets(sets: ValidationSets, measure: Any) -> None:
    """Raise before anything is grown where a set lacks the query ids that a measure needs."""
    for data in sets.by_name.values():
        for each in measures_of(measure):
            if data.query_ids is None and not isinstance(each, OwnMeasure):
                MeasuredSet.of(data, each, 1)


def deciding_history(history: Any) -> list[Any]:
    """The part of ``history_`` that early stopping looked at: by round, whatever else was recorded."""
    if isinstance(history, Mapping):
        return deciding_history(next(iter(history.values()), []))
    return list(history or [])


def first_rounds(history: Any, n_rounds: int) -> Any:
    """The history up to a round, whatever its shape."""
    if isinstance(history, Mapping):
        return {name: first_rounds(each, n_rounds) for name, each in history.items()}
    return history[:n_rounds]


def stages_at(stages: Iterator[tuple[int, Floats]], counts: Sequence[int]) -> Iterator[Floats]:
    """The scores after these numbers of trees, of pairs (number of trees, scores)."""
    wanted = frozenset(counts)
    return (scores for n_trees, scores in stages if n_trees in wanted)
