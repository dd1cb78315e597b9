"""``OrdinalRanker``: ranking by ordinal classification, over any estimator that regresses.

Terms
    grade        a value that labels have; there are K of them, in ascending order
    cumulative   T_c, the probability that a document's grade is c or lower, as a model of the labels [y ≤ c] gives it
    worth        F(c), what a grade counts in the score
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood._core.sums import exact_products
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.engines.bags import OutOfBag
from rankwood.errors import DataError, ParameterError
from rankwood.measures.listwise import LARGEST_EXPONENT
from rankwood.measures.measure import parse_measure
from rankwood.models.family import ModelStages
from rankwood.models.forest import Forest
from rankwood.models.ordinal import OrdinalModel
from rankwood.rankers.base import (
    BuiltOnBase,
    Ranker,
    chosen_parameters,
    estimates_out_of_bag,
    fit_to_bins,
    learned_model,
)
from rankwood.rankers.forests import ForestRanker, RandomForest
from rankwood.rankers.parameters import OneOf, parameter, seed_of_parts
from rankwood.training.forest import AUTO
from rankwood.training.inputs import TrainingSet, weights_of_rows
from rankwood.training.rounds import BEST, Callback, Progress, ProgressReporter, needs_validation

LEAST_SQUARES = "least_squares"
_WORTHS: dict[str, Callable[[Floats], Floats]] = {
    "expected": lambda grades: grades,
    "squared": lambda grades: grades**2,
    "exponential": lambda grades: 2.0**grades,
}
MOST_GRADES = 100  # each is a model of its own: labels with more values are no grades

_RESUME = """A file that keeps the trees so far, one per model, with .0, .1 and so on after the name; a fit that finds
    one there goes on with it."""
_LISTENERS = """Functions that are told of every tree: see ``Progress``. A callback that returns True ends the growing
    of the model at hand."""


def _check_base(_: str, base: Any) -> None:
    """Raise for what cannot learn the probability that a grade is c or lower."""
    if base is None:
        return
    if not isinstance(base, Ranker) or not base._regresses:
        shown = type(base).__name__ if isinstance(base, Ranker) else checks.plain(base)
        raise ParameterError(
            f"base must be an estimator whose scores estimate labels (a forest, GBRT, AveragedGBRT, "
            f"InitializedGBRT), got {shown}."
        )
    base._check_parameters()


class OrdinalRanker(BuiltOnBase, Ranker):
    """Ranking by ordinal classification: one model per grade but the highest (Li et al. 2007; Mohan 2010, chapter 3).

    For the K grades that the labels have, K - 1 copies of ``base`` learn T_c = P(y ≤ c) from labels 1 where y ≤ c and
    0 elsewhere. Then P(y = c) = T_c - T_{c-1}, and the score is Σ F(c) · P(y = c). All copies have the seed of
    ``base``, and with it the same bags. Training takes K - 1 times as long as that of ``base``; rows are binned once.

    Attributes
    ----------
    ordinal_
        The trees of all T_c, as an ``OrdinalModel``.
    forest_, forest_in_rounds_
        The score as one weighted sum of trees, unless ``clip``: grade by grade, and in the order of rounds.
    grades_, worths_
        The values that labels have, and F of each.
    weights_
        The weights of T_0 to T_{K-2}, and the constant: the score is their weighted sum.
    oob_scores_, oob_ndcg_
        Out-of-bag scores and their NDCG@10, where base has out-of-bag estimates, else None.
    feature_importances_
        The share of each feature in the gain of all splits.
    """

    _takes_categories = True

    _signature = "base scoring clip fitted_on n_threads progress callbacks checkpoint seed"
    _model = "ordinal_"

    base: Ranker | None = parameter(
        default=None,
        doc="""The estimator that learns each T_c: a forest, GBRT, AveragedGBRT or InitializedGBRT; None is
        RandomForest(). On the command line its name; options that OrdinalRanker does not know are its own.""",
        check=_check_base,
    )
    scoring: str = parameter(
        default="expected",
        doc="""F(c), what a grade counts: "expected" (c itself, the expected label), "squared" (c²), "exponential"
        (2^c), or "least_squares" (the weights of T_c and a constant that fit the labels best).""",
        check=OneOf((*_WORTHS, LEAST_SQUARES)),
    )
    clip: bool = parameter(
        default=False,
        doc="""Whether probabilities below 0 become 0, and the others are scaled to a sum of 1. Then the score is no
        weighted sum of trees any more: the model cannot be exported as one.""",
        check=checks.true_or_false,
    )
    fitted_on: str = parameter(
        default="train",
        doc="""What the weights of "least_squares" are fitted on: "train" (out-of-bag estimates, so base needs bags),
        "valid", or "both".""",
        check=OneOf(("train", "valid", "both")),
    )
    n_threads: int | None = parameter(default=None, kw_only=True)
    progress: Callback | None = parameter(default=None, doc=_LISTENERS, kw_only=True)
    callbacks: Sequence[Callback] = parameter(default=(), doc=_LISTENERS, kw_only=True)
    checkpoint: str | os.PathLike[str] | None = parameter(default=None, doc=_RESUME, kw_only=True)
    seed: int | None = seed_of_parts(
        "The seed of all copies of base; None leaves them that of base."
    )

    @property
    def is_random(self) -> bool:
        """Whether base is random."""
        return bool(self._base().is_random)

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        self._refuse_no_validation_data(valid)
        grades = _grades(train)
        relay = _Relay(grades.size - 1, self.progress, self.callbacks)
        models = []
        for number, grade in enumerate(grades[:-1].tolist()):
            model = self._copy_of_base(number, relay)
            fit_to_bins(model, _at_most(grade, train), self._valid_at_most(grade, valid))
            models.append(model)
        empty = Forest.from_trees(
            [],
            n_features=train.data.n_features,
            feature_names=train.data.feature_names,
            categorical=train.data.categorical,
        )
        forests = [model.forest_ for model in models]
        cumulative = OrdinalModel.of_forests(forests, empty, grades, grades, bool(self.clip))
        out_of_bag = _out_of_bag(models, train)
        worths = self._worths(cumulative, out_of_bag, train, valid)
        self.ordinal_ = dataclasses.replace(cumulative, worths=worths)
        self._estimate(out_of_bag, train.data)

    def _copy_of_base(self, number: int, relay: _Relay) -> Any:
        """The estimator of one cumulative model; it reports to the listeners of base and of the whole fit."""
        base = self._base()
        changes: dict[str, Any] = {
            "progress": base.progress,  # cloning would have made copies of the listeners
            "callbacks": [*base.callbacks, relay.of_model(number)],
        }
        chooses_rounds = getattr(base, "early_stopping", None) == BEST
        if chooses_rounds or getattr(base, "max_leaves", None) == AUTO:
            changes["measure"] = "rmse"  # the models learn probabilities
        if self.n_threads is not None:
            changes["n_threads"] = self.n_threads
        if self.seed is not None:
            changes["seed"] = self.seed
        if self.checkpoint is not None:
            changes["checkpoint"] = f"{os.fspath(self.checkpoint)}.{number}"
        return clone(base).set_params(**changes)

    def _valid_at_most(self, grade: float, valid: RankingData | None) -> RankingData | None:
        """Validation data with labels 1 where y ≤ ``grade``; only early stopping needs them."""
        if valid is None or getattr(self._base(), "early_stopping", None) is None:
            return None
        return _relabelled(valid, grade)

    def _worths(
        self,
        cumulative: OrdinalModel,
        out_of_bag: Floats | None,
        train: TrainingSet,
        valid: RankingData | None,
    ) -> Floats:
        """F of each grade: given by the scoring function, or by least squares."""
        grades = cumulative.grades
        if self.scoring != LEAST_SQUARES:
            with np.errstate(over="ignore"):
                worths = _WORTHS[self.scoring](grades)
        else:
            parts = []
            if self.fitted_on != "valid":
                assert out_of_bag is not None  # ``_check_parameters`` refuses such a base
                parts.append((out_of_bag, train.labels, train.weights))
            if self.fitted_on != "train":
                assert valid is not None
                of_valid = cumulative.cumulative(valid, n_threads=self.n_threads)
                parts.append((of_valid, valid.labels, weights_of_rows(valid)))
            worths = least_squares_worths(parts)
        if not (np.abs(worths) <= 2.0**LARGEST_EXPONENT).all():
            raise DataError(
                f"the greatest label is {grades[-1]:g}, which scoring='{self.scoring}' turns into more than "
                f"2^{LARGEST_EXPONENT}. Use scoring='expected', or map the labels to a few small grades."
            )
        return worths

    def _estimate(self, out_of_bag: Floats | None, data: RankingData) -> None:
        """Set the out-of-bag scores and their NDCG."""
        self.oob_scores_ = self.oob_ndcg_ = None
        if out_of_bag is not None:
            self.oob_scores_ = self.ordinal_.expected_worth(out_of_bag)
            is_known = ~np.isnan(self.oob_scores_)
            sums = np.where(is_known, self.oob_scores_, 0.0)
            self.oob_ndcg_ = OutOfBag(sums, is_known.astype(np.int32)).ndcg(data)

    def probabilities(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """P(y = c) of each row for each of ``grades_``: rows × K.

        Rows sum to 1. Without ``clip`` values below 0 and above 1 occur: the models do not know of each other.
        """
        table = self._table(X)
        return self.ordinal_.probabilities(table, n_threads=self.n_threads)

    def cumulative(self, X: Any) -> Floats:  # noqa: N803
        """T_c = P(y ≤ c) of each row for each of ``grades_`` but the highest: rows × K - 1."""
        table = self._table(X)
        return self.ordinal_.cumulative(table, n_threads=self.n_threads)

    @property
    def forest_(self) -> Forest:
        """The score as one weighted sum of trees."""
        return self._learned.forest

    @property
    def forest_in_rounds_(self) -> Forest:
        """The score as one forest with the trees of all grades in the order of their rounds.

        Its first trees are a smaller model, where those of ``forest_`` are the models of the lowest grades.
        """
        return self._stages().forest

    def _stages(self) -> ModelStages:
        sizes = self._sizes()
        ends = [self._base()._trees_of(n_rounds) for n_rounds in sizes]
        forest, n_trees = self.ordinal_.in_rounds(ends, averages=self._averages)
        return ModelStages(forest, np.array(sizes, np.int64), n_trees)

    def _sizes(self) -> range:
        model: OrdinalModel = learned_model(self)
        longest = int(model.tree_counts.max(initial=0))
        return self._base()._sizes_of(longest) if longest else range(0)

    def _first_rounds(self, n_rounds: int) -> OrdinalModel:
        n_trees = self._base()._trees_of(n_rounds)
        return self.ordinal_.first_trees(n_trees, averages=self._averages)

    @property
    def _averages(self) -> bool:
        """Whether T_c is the mean of its trees."""
        return isinstance(self._base(), ForestRanker)

    @property
    def grades_(self) -> Floats:
        """The values that labels have, ascending."""
        return self._learned.grades

    @property
    def worths_(self) -> Floats:
        """F of each grade."""
        return self._learned.worths

    @property
    def weights_(self) -> Floats:
        """The weights of T_0 to T_{K-2}, and the constant."""
        worths = self._learned.worths
        return np.append(-np.diff(worths), worths[-1])

    @property
    def _learned(self) -> OrdinalModel:
        model: OrdinalModel = super()._learned
        return model

    @property
    def _estimates_labels(self) -> bool:
        return self.scoring in ("expected", LEAST_SQUARES)

    def _estimates_out_of_bag(self) -> bool:
        return estimates_out_of_bag(self._base())

    def _weights_by_name(self) -> dict[str, float]:
        """Those of T_c = P(y ≤ c), and the constant (Mohan 2010, Table 3.2)."""
        names = [f"P(y ≤ {grade:g})" for grade in self.grades_[:-1].tolist()]
        return dict(zip([*names, "constant"], self.weights_.tolist(), strict=True))

    def _new_base(self) -> Ranker:
        return RandomForest()

    def _as_chosen(self) -> dict[str, Any]:
        """Models may have stopped at different numbers of trees: then all get their mean."""
        base = clone(self._base())
        counts = self.ordinal_.tree_counts
        if counts.size:
            known = base.get_params(deep=False)
            chosen = chosen_parameters(base, round(float(counts.mean())))
            base.set_params(**{name: chosen[name] for name in chosen if name in known})
        return {"base": base, "fitted_on": "train"}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_what_base_can_do(self._base())

    def _check_what_base_can_do(self, base: Any) -> None:
        if base.checkpoint is not None:
            raise ParameterError(
                "base must have no checkpoint, since all models would share it: pass checkpoint to OrdinalRanker."
            )
        needs_bags = self.scoring == LEAST_SQUARES and self.fitted_on != "valid"
        if needs_bags and getattr(base, "bag", None) is None:
            raise ParameterError(
                f"scoring='least_squares' on fitted_on='{self.fitted_on}' needs out-of-bag estimates, which "
                f"this {type(base).__name__} does not have. Use fitted_on='valid', or a forest with bags."
            )
        stops = needs_validation(getattr(base, "early_stopping", None))
        if stops and parse_measure(base.measure).name != "rmse":
            raise ParameterError(
                "the models behind an OrdinalRanker learn probabilities, so their early stopping looks at rmse: "
                f"pass measure='rmse' to base, not '{base.measure}'."
            )

    def _refuse_no_validation_data(self, valid: RankingData | None) -> None:
        if valid is not None:
            return
        if self.scoring == LEAST_SQUARES and self.fitted_on != "train":
            raise ParameterError(
                f"fitted_on='{self.fitted_on}' needs validation data: pass valid= to fit."
            )
        if needs_validation(getattr(self._base(), "early_stopping", None)):
            raise ParameterError("early_stopping needs validation data: pass valid= to fit.")


def least_squares_worths(parts: Sequence[tuple[Floats, Floats, Floats | None]]) -> Floats:
    """F of each grade from the least squares fit of labels to [T_0 … T_{K-2}, 1] (Mohan 2010, Eq. 3.8).

    ``parts`` are T (rows × K - 1), labels and weights; rows without an estimate are left out. The weight of T_c is
    F(c) - F(c + 1), and the constant is F of the highest grade.
    """
    gram, moments = np.zeros(()), np.zeros(())
    for cumulative, labels, weights in parts:
        rows = ~np.isnan(cumulative).any(axis=1)
        inputs = np.column_stack([cumulative, np.ones(len(cumulative))])[rows]
        weighted = inputs if weights is None else inputs * weights[rows, np.newaxis]
        gram = gram + exact_products(weighted, inputs)
        moments = moments + exact_products(weighted, labels[rows, np.newaxis])[:, 0]
    if not np.any(gram):
        raise DataError(
            "no row has an out-of-bag estimate to fit least squares on. Grow more trees, or use fitted_on='valid'."
        )
    fitted, *_ = np.linalg.lstsq(gram, moments, rcond=None)
    worths: Floats = np.cumsum(fitted[::-1])[::-1]
    return worths


class _Relay:
    """Reports the trees of all models as the trees of one fit."""

    def __init__(
        self, n_models: int, progress: Callback | None, callbacks: Sequence[Callback]
    ) -> None:
        self._n_models = n_models
        self._listeners = (progress, tuple(callbacks))
        # How many trees there are in all is known when the first is reported.
        self._reporter: ProgressReporter | None = None

    def of_model(self, number: int) -> Callback:
        """The callback of one model."""

        def report(progress: Progress) -> bool:
            iteration = number * progress.total + progress.iteration
            if self._reporter is None:
                total = self._n_models * progress.total
                self._reporter = ProgressReporter(total, *self._listeners, iteration - 1)
            return self._reporter.report(iteration)

        return report


def _grades(train: TrainingSet) -> Floats:
    """The values that labels of rows with weight have, ascending."""
    present = train.present
    grades: Floats = np.unique(train.labels if present is None else train.labels[present])
    if grades.size > MOST_GRADES:
        raise DataError(
            f"labels have {grades.size:,} different values, and each is a grade with a model of its own; at most "
            f"{MOST_GRADES} are allowed. Round the labels to a few grades, or use an estimator that regresses."
        )
    return grades


def _at_most(grade: float, train: TrainingSet) -> TrainingSet:
    """The training set with labels 1 where y ≤ ``grade`` and 0 elsewhere; bins and layout are shared."""
    return dataclasses.replace(train, data=_relabelled(train.data, grade))


def _relabelled(data: RankingData, grade: float) -> RankingData:
    return dataclasses.replace(data, labels=(data.labels <= grade).astype(np.float64))


def _out_of_bag(models: Sequence[Any], train: TrainingSet) -> Floats | None:
    """Out-of-bag estimates of every T_c: rows × K - 1; None where the models have none."""
    if not all(hasattr(model, "oob_scores_") for model in models):
        return None
    columns = [model.oob_scores_ for model in models]
    return np.stack(columns, axis=1) if columns else np.zeros((train.labels.size, 0))
