"""Treatments of missing features: steps that fill them in, for pipelines (Mohan 2010, section 2.2).

``FillMissing`` fills the gaps of a feature with one value. ``PredictMissing`` predicts them by forests, sweep after
sweep (algorithm 2 of Mohan 2010). ``treated`` adds a treatment, chosen by name, to a ranker.

Terms
    gap         a value that is missing (NaN)
    step        a transformer: it is fitted on the training part and fills the gaps of any part
    treatment   a step before a ranker, or the ranker's own policy ``missing=``
    gappy       a feature with gaps in the training rows, and with values to learn from
    known       a feature that has a value in every training row: given, or predicted by an earlier sweep
    sweep       one forest per gappy feature, each grown from what was known before the sweep

The six treatments of the thesis, and ours
    0               ``FillMissing("least")``; as a policy ``missing="left"``
    1               ``FillMissing("greatest")``; as a policy ``missing="right"``
    mean, median    ``FillMissing("mean")``, ``FillMissing("median")``
    predict         ``PredictMissing()``
    3-way split     the policy ``missing="own_child"``
    (ours)          the policy ``missing="learned"``, the rankers' default
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from rankwood._core import checks
from rankwood._core.threads import parallel_map_ordered, resolve_threads
from rankwood.binning.binned import BinnedData
from rankwood.binning.bins import MOST_BINS, fit_bins
from rankwood.data.dataset import RankingData
from rankwood.data.frames import to_matrix
from rankwood.dtypes import FEATURE, Array, Features, Floats, Rows
from rankwood.engines.bags import Bags, stream_number
from rankwood.errors import DataError, DataWarning, ParameterError
from rankwood.models.forest import Forest
from rankwood.models.validate import features_in_order
from rankwood.rankers.parameters import DeclaredEstimator, Real, Whole, parameter
from rankwood.training.inputs import refuse_other_than_tables, refuse_other_width, remember_features
from rankwood.training.rounds import Callback, ProgressReporter, Rounds
from rankwood.trees.grower import FeatureChoice, Growth, Policies, Tree, grow_tree
from rankwood.trees.row_order import as_matrix
from rankwood.trees.workspace import Matrix

_NAMES_SHOWN = 5
STRATEGIES: dict[str, Callable[[Floats], Any]] = {
    "least": np.min,
    "greatest": np.max,
    "mean": np.mean,
    "median": np.median,
}
_LIMITS = """Where a tree ends: leaves (the most promising is split first; None is no limit), rows in a leaf."""
Forests = dict[int, Forest]  # the forest that predicts each gappy feature
SETTLED = "the predictions have settled"
POLICIES = {"learned": "learned", "three_way": "own_child"}  # as the rankers call them
TREATMENTS = ("learned", *STRATEGIES, "predict", "three_way")


class MissingStep(OneToOneFeatureMixin, TransformerMixin, DeclaredEstimator):  # type: ignore[misc]
    """The base of the steps: their inputs, their outputs and their statistics.

    Attributes
    ----------
    statistics_
        What a gap of each feature is filled with, or predicted from at first: float32.
    n_features_in_, feature_names_in_
        How many features, and their names if the training data had names.
    """

    def _learn(self, X: Any, strategy: str) -> Features:  # noqa: N803 - scikit-learn's name
        """Remember the features and their statistics; gives the training rows as a matrix."""
        refuse_other_than_tables(X)
        X = _unbinned(X)  # noqa: N806
        if isinstance(X, RankingData):
            matrix, names = X.features, X.feature_names
        else:
            matrix, names = to_matrix(X)
        if len(matrix) == 0:
            raise DataError("there are no rows to learn from: Found array with 0 sample(s).")
        remember_features(self, matrix.shape[1], names)
        numbers = tuple(str(feature + 1) for feature in range(matrix.shape[1]))
        self.statistics_ = statistics_of(matrix, strategy, names or numbers)
        return matrix

    def transform(self, X: Any) -> Any:  # noqa: N803
        """The rows with their gaps filled from what ``fit`` saw.

        RankingData come back as RankingData, with labels, queries and weights; everything else as a float32 array, or
        as ``set_output`` says. Columns with names are put in the order of those ``fit`` saw.
        """
        check_is_fitted(self, "statistics_")
        refuse_other_than_tables(X)
        refuse_other_width(X, self)
        X = _unbinned(X)  # noqa: N806
        names = getattr(self, "feature_names_in_", None)
        known = None if names is None else tuple(names.tolist())
        filled = self._fill(features_in_order(X, self.n_features_in_, known))
        if not isinstance(X, RankingData):
            return filled
        asked = getattr(self, "_sklearn_output_config", {}).get("transform")
        if (asked or get_config()["transform_output"]) != "default":
            raise DataError(
                "RankingData cannot become a frame without losing their labels and queries. "
                "Pass their features, or say set_output(transform='default')."
            )
        own = X.feature_names if known is None or X.feature_names is None else known
        return dataclasses.replace(X, features=filled, feature_names=own)

    def _fill(self, matrix: Features) -> Features:
        """A copy of ``matrix`` without gaps."""
        return fill(matrix, self.statistics_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]  # features are float32 everywhere
        return tags


class FillMissing(MissingStep):
    """A step that fills the gaps of a feature with one value, found in the training part.

    In trees the least value sends a document left at every split and the greatest right, as the rankers' own policies
    ``missing="left"`` and ``"right"`` do. A feature whose training values are all missing is filled with 0, with a
    warning. Infinite values are values, and stay; they do not count in the statistics.

    Attributes
    ----------
    statistics_
        What a gap of each feature is filled with: float32.

    Examples
    --------
    >>> step = FillMissing("mean").fit([[1.0, 5.0], [3.0, None]])
    >>> step.transform([[None, None]]).tolist()
    [[2.0, 5.0]]
    """

    _signature = "strategy"

    strategy: str = parameter(
        default="least",
        doc=""""least" (the "0" of Mohan 2010), "greatest" (its "1"), "mean" or "median" of the feature's training
        values.""",
        check=lambda name, value: checks.one_of(name, value, STRATEGIES),
    )

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's contract
        """Find the value of each feature; labels are not looked at."""
        self._check_parameters()
        self._learn(X, self.strategy)
        return self


def fill(matrix: Features, values: Features) -> Features:
    """A copy of ``matrix`` with each gap filled by the value of its feature."""
    return np.where(np.isnan(matrix), values, matrix)


def statistics_of(matrix: Features, strategy: str, names: tuple[str, ...]) -> Features:
    """One finite value per feature, from its finite values; 0, with a warning, where there are none."""
    values: Features = np.zeros(matrix.shape[1], FEATURE)
    empty = []
    for feature, column in enumerate(matrix.T):
        finite = column[np.isfinite(column)]
        if finite.size:
            # float64: the mean of large values must not overflow or drift
            values[feature] = STRATEGIES[strategy](finite.astype(np.float64))
        else:
            empty.append(names[feature])
    if empty:
        _warn_of_empty(empty)
    return values


def _warn_of_empty(names: list[str]) -> None:
    listed = ", ".join(f"'{name}'" for name in names[:_NAMES_SHOWN])
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    warnings.warn(
        f"no training row has a value of feature {listed}{more}: filled with 0. Leave such features out.",
        DataWarning,
        stacklevel=5,
    )


def _unbinned(X: Any) -> Any:  # noqa: N803
    """The data before binning: a filled value may belong to another bin."""
    return X.data if isinstance(X, BinnedData) else X


# Prediction of gaps.


class PredictMissing(MissingStep):
    """A step that predicts gaps by random forests from the other features, until the predictions settle.

    For each feature with gaps a forest is fitted on the training rows that have it, from the features that every row
    has; where there is no such feature, gaps are filled with medians first. What one sweep predicts, the next one uses.
    Every forest is kept, so that new rows go through the same sweeps; labels are never looked at. A feature is no
    predictor of itself, though algorithm 2 of Mohan (2010) reads so from its second sweep on.

    Gaps of new rows in a feature that all training rows had are filled with its median. A feature whose training
    values are all missing is filled with 0, with a warning. Infinite values stay; nothing is learned from them.

    Attributes
    ----------
    forests_
        For each sweep a mapping from the number of a feature to the forest that predicts it.
    changes_
        What each sweep changed, as ``tol`` counts it; the first one changed medians. The last may be undone.
    n_sweeps_, settled_
        How many sweeps were kept; whether the last of them changed no more than ``tol``.
    statistics_
        The medians of the features: float32.
    """

    _signature = "n_trees max_leaves min_leaf features_per_node max_sweeps tol max_bins seed n_threads progress"

    n_trees: int = parameter(
        default=10,
        doc="Trees of each forest. A fit grows ``n_trees`` × features with gaps × sweeps of them.",
    )
    max_leaves: int | None = parameter(default=100, doc=_LIMITS)
    min_leaf: int = parameter(default=20, doc=_LIMITS)
    features_per_node: int | float | None = parameter(default=0.3)
    max_sweeps: int = parameter(default=5, doc="Most sweeps over the features.", check=Whole(1))
    tol: float = parameter(
        default=0.1,
        doc="""Sweeps end when the predictions have settled: when the root mean square of what the last one changed, in
        standard deviations of each feature, is at most this. They also end when a sweep changes more than the one
        before it, and that sweep is undone: by then predictions feed on predictions, and get worse.""",
        check=Real("[0, inf)"),
    )
    max_bins: int = parameter(default=MOST_BINS)
    seed: int = parameter(default=0)
    n_threads: int | None = parameter(default=None)
    progress: Callback | None = parameter(
        default=None, doc="A function that is told of every forest: see ``Progress``."
    )

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's contract
        """Learn to predict each feature with gaps from the others; labels are not looked at."""
        self._check_parameters()
        matrix = self._learn(X, "median")
        gaps = _Gaps.of(matrix)
        bins = fit_bins(matrix, max_bins=self.max_bins, seed=self.seed, n_threads=self.n_threads)
        rounds = Rounds(
            ProgressReporter(self.max_sweeps * gaps.gappy.size, self.progress, ()),
            total=self.max_sweeps if gaps.gappy.size else 0,
        )
        known = gaps.known_at_first
        filled = fill(matrix, self.statistics_)
        self.forests_: list[Forests] = []
        self.changes_: list[float] = []
        for number in rounds:
            codes = bins.transform(filled, self.n_threads)
            sweep = _Sweep(self, as_matrix(codes, bins), matrix, gaps, known)
            self.forests_.append(sweep.grow(rounds, number * gaps.gappy.size))
            before, filled = filled, self._predict(self.forests_[-1], filled, np.isnan(matrix))
            self.changes_.append(gaps.change(before, filled))
            if self._has_settled() or self._has_turned():
                rounds.stop(SETTLED)
            known = gaps.has_values  # what was predicted is known from now on
        if self._has_turned():
            self.forests_.pop()
        self.n_sweeps_ = len(self.forests_)
        self.settled_ = self.n_sweeps_ == 0 or self._has_settled()
        return self

    def _has_settled(self) -> bool:
        """Whether the last sweep changed next to nothing; the first one only replaced medians."""
        return len(self.changes_) > 1 and self.changes_[-1] <= self.tol

    def _has_turned(self) -> bool:
        """Whether the last sweep changed more than the one before: predictions then follow their own errors."""
        return len(self.changes_) > 1 and self.changes_[-1] > max(self.tol, self.changes_[-2])

    def _fill(self, matrix: Features) -> Features:
        filled = fill(matrix, self.statistics_)
        is_missing = np.isnan(matrix)
        for forests in self.forests_:
            filled = self._predict(forests, filled, is_missing)
        return filled

    def _predict(self, forests: Forests, filled: Features, is_missing: Array) -> Features:
        """A copy of ``filled`` whose gaps are predicted anew, all of them from ``filled``."""
        predicted = filled.copy()
        for feature, forest in forests.items():
            rows = np.flatnonzero(is_missing[:, feature])
            if rows.size:
                predicted[rows, feature] = forest.predict(filled[rows], n_threads=self.n_threads)
        return predicted


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Where the training rows have gaps, and how much their features vary."""

    is_missing: Array  # rows × gappy features
    gappy: Rows
    has_values: Array  # by feature: whether any row has a finite value of it
    known_at_first: Array  # by feature
    spread: Floats  # standard deviation of each gappy feature; 1 where it is constant

    @classmethod
    def of(cls, matrix: Features) -> _Gaps:
        is_missing = np.isnan(matrix)
        has_gaps: Array = np.logical_or.reduce(is_missing, axis=0)
        has_values: Array = np.logical_or.reduce(np.isfinite(matrix), axis=0)
        gappy = np.flatnonzero(has_gaps & has_values)
        complete: Array = has_values & ~has_gaps
        spread = np.ones(gappy.size)
        for column_index, feature in enumerate(gappy):
            column = matrix[:, feature].astype(np.float64)
            spread[column_index] = column[np.isfinite(column)].std() or 1.0
        # Without a complete feature, all count as known: they are filled with medians.
        known = complete if complete.any() else has_values
        return cls(is_missing[:, gappy], gappy, has_values, known, spread)

    def change(self, before: Features, after: Features) -> float:
        """The root mean square of what changed in the gaps, in standard deviations."""
        total = 0.0
        for feature, spread, rows in zip(self.gappy, self.spread, self.is_missing.T, strict=True):
            moved = after[rows, feature].astype(np.float64) - before[rows, feature]
            total += float(np.square(moved / spread).sum())
        return float(np.sqrt(total / self.is_missing.sum()))


@dataclass(frozen=True, eq=False)
class _Sweep:
    """Everything that determines the forests of one sweep."""

    step: PredictMissing
    matrix: Matrix  # without gaps
    features: Features  # with gaps
    gaps: _Gaps
    known: Array

    def grow(self, rounds: Rounds, n_before: int) -> Forests:
        """The forest of each feature with gaps that has predictors; trees grow in parallel."""
        predicted = [
            feature for feature in self.gaps.gappy.tolist() if self._predictors(feature).any()
        ]
        n_trees = self.step.n_trees
        numbers = (feature * n_trees + tree for feature in predicted for tree in range(n_trees))
        threads = resolve_threads(self.step.n_threads)
        forests: Forests = {}
        with contextlib.closing(parallel_map_ordered(self._tree, numbers, threads)) as grown:
            for feature in predicted:
                trees = [next(grown) for _ in range(n_trees)]
                forests[feature] = Forest.from_trees(
                    trees, n_features=self.features.shape[1], average=True
                )
                rounds.report(n_before + len(forests))
        return forests

    def _tree(self, number: int) -> Tree:
        """Tree ``number``, counted over the forests of all features: the same draws in every sweep."""
        feature = number // self.step.n_trees
        values = self.features[:, feature].astype(np.float64)
        has_value = np.isfinite(values)
        bags = Bags(values.size, present=has_value, seed=self.step.seed)
        return grow_tree(
            self.matrix,
            np.where(has_value, values, 0.0),
            self._policies(feature),
            counts=bags.counts(number),
            stream=stream_number(self.step.seed, "tree", number),
            n_threads=1,
            route_others=False,
        )

    def _predictors(self, feature: int) -> Array:
        """Whether each feature is known and another one."""
        chosen = self.known.copy()
        chosen[feature] = False
        return chosen

    def _policies(self, feature: int) -> Policies:
        predictors = self._predictors(feature)
        per_node = FeatureChoice(self.step.features_per_node).count(int(predictors.sum()))
        return Policies(
            Growth(self.step.max_leaves, None, self.step.min_leaf),
            FeatureChoice(per_node, probability=predictors.astype(np.float64)),
        )


# Treatments by name.


def treated(ranker: Any, treatment: str, predictor: PredictMissing | None = None) -> Any:
    """A new ranker that treats missing values so: a policy of its own, or a ``Pipeline`` of a step and the ranker.

    ``predictor`` is the step of the treatment "predict"; without one it has the ranker's seed and threads.
    """
    checks.one_of("treatment of missing values", treatment, TREATMENTS)
    model = clone(ranker)
    known = model.get_params(deep=False)
    if treatment in POLICIES:
        if "missing" not in known:
            raise ParameterError(
                f"{type(ranker).__name__} has no policy for missing values, which the treatment "
                f"'{treatment}' needs. Leave it out, or fill the values."
            )
        return model.set_params(missing=POLICIES[treatment])
    if treatment != "predict":
        return Pipeline([("missing", FillMissing(treatment)), ("ranker", model)])
    same = {name: known[name] for name in ("seed", "n_threads") if name in known}
    step = PredictMissing(**same) if predictor is None else clone(predictor)
    return Pipeline([("missing", step), ("ranker", model)])


def described(treatment: str) -> str:
    """How a table says what a treatment is."""
    if treatment in POLICIES:
        return f"missing={POLICIES[treatment]!r}"
    return "PredictMissing()" if treatment == "predict" else f"FillMissing({treatment!r})"
