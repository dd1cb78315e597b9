"""``Blend``: several rankers as one, their weights learned from scores of documents that they have not seen.

Terms
    part       one of the rankers
    held-out   scores of documents that a part has not seen: of validation data, or out of bag
    gate       a forest that predicts how far a part errs on a document
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood._core.jit import Stopwatch
from rankwood.binning.binned import BinnedData
from rankwood.data.categories import refuse
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import DataError, ParameterError
from rankwood.measures.measure import parse_measure
from rankwood.models.blend import BlendModel, gated_weights, names_of_parts
from rankwood.models.forest import Forest
from rankwood.models.format import kind_of
from rankwood.rankers.base import (
    Ranker,
    check_parameters,
    chosen_parameters,
    estimates_out_of_bag,
    is_fitted,
    learned_model,
    set_learned_model,
    takes_categories,
)
from rankwood.rankers.boosted import GBRT
from rankwood.rankers.forests import ForestRanker, RandomForest
from rankwood.rankers.linear import in_order_of
from rankwood.rankers.parameters import (
    OneOf,
    OrNone,
    Real,
    measure_of_rankings,
    parameter,
    seed_of_parts,
)
from rankwood.training.blending import (
    HeldOut,
    Judge,
    blended,
    equal_shares,
    least_squares_shares,
    search_shares,
    squared_errors,
)
from rankwood.training.inputs import bins_of, remember_features
from rankwood.training.record import data_record

HELD_OUT, VALIDATION, OOB, EQUAL, PER_DOCUMENT, GIVEN = (
    "held-out",
    "validation",
    "oob",
    "equal",
    "per-document",
    "given",  # a list of numbers
)
STRENGTHS = (0.5, 1.0, 2.0)  # that are tried beside 0
N_FOLDS = 3  # of the held-out queries, to judge gates by documents that they have not seen
BLEND = "blend"  # the blend itself among the values by part

_LEARNED = (HELD_OUT, VALIDATION, OOB, PER_DOCUMENT)
_ON_VALIDATION = "scores of the validation data"
_ON_OOB = "out-of-bag scores of the training data"
_ON_TRAINING = "scores of the training data"
_ON_NOTHING = "nothing: no document has a held-out score by every part"
_FORMS = "must be a list of at least one ranker, or of pairs (name, ranker), or a mapping from names to rankers"


class Gating(NamedTuple):
    """How the weights of a document follow from predicted errors."""

    shares: Floats  # of the parts, before errors count
    strength: float

    def scores(self, units: Floats, errors: Floats) -> Floats:
        """The scores of rows with these units and predicted errors."""
        weights = gated_weights(self.shares, errors, self.strength)
        scores: Floats = (weights * units).sum(axis=1)
        return scores


def _check_parts(_: str, value: Any) -> None:
    if value is None:
        return
    names = [name for name, _ in named_rankers(value)]
    if len(set(names)) < len(names) or BLEND in names:
        raise ParameterError(
            f"the names of parts must differ from each other and from '{BLEND}', got {', '.join(names)}."
        )
    for name, ranker in named_rankers(value):
        if ranker is None:  # a bare model that was given to ``of``
            continue
        if not isinstance(ranker, Ranker) or isinstance(ranker, Blend):
            shown = type(ranker).__name__ if isinstance(ranker, Ranker) else checks.plain(ranker)
            raise ParameterError(
                f"parts must be rankers of ours other than Blend, got {shown} as '{name}'."
            )


def _check_weights(_: str, value: Any) -> None:
    if isinstance(value, str):
        checks.one_of("weights", value, (*_LEARNED, EQUAL))
        return
    try:
        if np.ndim(value) != 1:
            raise DataError("weights must be a list.")
        checks.weights("weights", value, np.size(value))
    except DataError as error:
        known = ", ".join((*_LEARNED, EQUAL))
        raise ParameterError(
            f"weights must be one of {known}, or one number of at least 0 per part, one of them above 0, "
            f"got {checks.plain(value)}: {error}"
        ) from None


def _check_gate(_: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, ForestRanker):
        raise ParameterError(
            f"gate must be a forest such as RandomForest(), got {checks.plain(value)}."
        )
    check_parameters(value)


class Blend(Ranker):
    """A weighted sum of several rankers: forests and boosting, regression and classification, trees and linear models.

    Every part is fitted to the same data. The parts' scores are brought to one scale by a constant per part, and
    their weights, 0 or more, are learned from scores of documents that the parts have not seen. The blend is one model
    in one file; where all parts are sums of trees and the weights are constant, it is one sum of trees and can be
    exported. With ``weights="per-document"`` the weights depend on the document (a question that Mohan 2010, section
    7.2, leaves open): a forest per part predicts the squared error of its score, and a part weighs the less the larger
    its predicted error.

    Attributes
    ----------
    blend_
        The parts and their weights, as a ``BlendModel``.
    weights_
        The weight of each part by its name.
    parts_
        The fitted rankers by name.
    learned_on_
        What the weights, or the scales, come from.
    held_out_
        The measure of each part and of the blend on the held-out scores; the weights were chosen on the same scores,
        so that the value of the blend is a little too good.
    strength_
        How much predicted errors count in the weight of a document; 0 where weights are constant.
    forest_
        The score as one weighted sum of trees, where it is one.
    feature_importances_
        The share of each feature in the gain of all splits, parts counted by their weights.
    """

    _signature = (
        "parts weights scaling rule measure gate strength n_threads progress callbacks seed"
    )
    _model = "blend_"
    _compiles = ""  # its parts say what they need

    parts: Any = parameter(
        default=None,
        doc="""The rankers: a list of rankers or of pairs (name, ranker), or a mapping from names to rankers. None is a
        RandomForest ("forest") and a GBRT ("boosting"). On the command line names of rankers, such as
        "RandomForest, GBRT(n_trees=50)" or "forest=RandomForest, classes=OrdinalRanker(base=GBRT)".""",
        check=_check_parts,
    )
    weights: Any = parameter(
        default=HELD_OUT,
        doc="""Where the weights of the parts come from: "validation" data, out-of-bag scores of the training data
        ("oob"), "held-out" (validation data where given, else out of bag), "per-document" (likewise, and a gate decides
        by document), "equal", or a list of numbers, one per part.""",
        check=_check_weights,
    )
    scaling: str | None = parameter(
        default="query",
        doc="""What a part's scores are divided by before they are weighted: their standard deviation within queries
        ("query") or over all documents ("all"), one constant per part; None adds the scores as they are.""",
        check=OrNone(OneOf(("query", "all"))),
    )
    rule: str = parameter(
        default="least_squares",
        doc="""How weights are learned: "least_squares" (the non-negative weights that fit the labels best, both as
        deviations from the mean of their query), or "search" (moves of weight between parts as long as the measure
        rises; it follows chance where validation queries are few).""",
        check=OneOf(("least_squares", "search")),
    )
    measure: str = parameter(
        default="ndcg@10",
        doc="""What the search for weights raises, and what the parts are compared by on held-out scores. Without query
        ids it is the correlation with the labels.""",
        check=measure_of_rankings,
        kw_only=True,
    )
    gate: ForestRanker | None = parameter(
        default=None,
        doc="""The forest that predicts how far a part errs on a document, for weights="per-document"; None is a
        RandomForest of 50 trees with at most 16 leaves of at least 20 documents.""",
        check=_check_gate,
        kw_only=True,
    )
    strength: float | None = parameter(
        default=None,
        doc="""For weights="per-document", the power of the predicted error that a weight is divided by. None tries
        0.5, 1 and 2 on held-out queries, and keeps constant weights unless one is ahead of them by more than the
        standard error of the difference.""",
        check=OrNone(Real("(0, 10]")),
        kw_only=True,
    )
    n_threads: int | None = parameter(
        default=None, doc="Threads of the parts too; None leaves them theirs.", kw_only=True
    )
    seed: int | None = seed_of_parts(
        "The seed of all parts and of the gate; None leaves them theirs."
    )

    @property
    def is_random(self) -> bool:
        """Whether a part is random, or the gate where weights are per document."""
        rankers = [part for part in self._rankers().values() if part is not None]
        if self._mode == PER_DOCUMENT:
            rankers.append(RandomForest() if self.gate is None else self.gate)
        return any(ranker.is_random for ranker in rankers)

    @classmethod
    def of(cls, models: Any, data: RankingData, **parameters: Any) -> Self:
        """A blend of models that are fitted already.

        Parameters
        ----------
        models
            Fitted rankers or bare models such as ``Forest``: a list, pairs (name, model), or a mapping from names.
        data
            Documents that the models have not seen, with labels. With ``weights="oob"``, the training data of the
            models, which must be in memory as they were fitted: files do not keep out-of-bag scores.
        parameters
            Those of ``Blend``, except ``parts``.
        """
        stopwatch = Stopwatch()
        if not isinstance(data, RankingData):
            raise DataError(f"data must be RankingData, got {type(data).__name__}.")
        fitted = dict(named_rankers(models))
        unfitted = {name: _unfitted(name, model) for name, model in fitted.items()}
        blend = cls(list(unfitted.items()), **parameters)
        blend._check_parameters()
        blend._check_models(fitted, data)
        if blend._mode == OOB:
            held_out, source = blend._out_of_bag(fitted, data), _ON_OOB
        else:
            held_out, source = blend._predicted(fitted, data), _ON_VALIDATION
        blend._combine(fitted, held_out, source)
        blend._remember(data, stopwatch.seconds())
        return blend

    def _learn(self, X: Any, data: RankingData, valid: RankingData | None) -> None:  # noqa: N803
        if data.n_documents == 0:
            raise DataError("there are no rows to learn from.")
        self._refuse_bare_models()
        unseen = None if valid is None else in_order_of(data, valid)
        source = self._source(unseen)
        fitted = self._fit_parts(X, data, unseen)
        self._data_record = data_record(next(iter(fitted.values())).training_)
        if source == _ON_OOB:
            held_out = self._out_of_bag(fitted, data)
        else:
            held_out = self._predicted(fitted, data if unseen is None else unseen)
        self._combine(fitted, held_out, source)

    def _source(self, valid: RankingData | None) -> str:
        """What the weights are learned from, or an error that names the part that cannot be judged."""
        if valid is not None and self._mode != OOB:
            return _ON_VALIDATION
        if self._mode == VALIDATION:
            raise ParameterError("weights='validation' needs validation data: pass valid= to fit.")
        lacking = [
            f"part '{name}' ({type(ranker).__name__})"
            for name, ranker in self._rankers().items()
            if not estimates_out_of_bag(ranker)
        ]
        if not lacking:
            return _ON_OOB
        if self._mode in _LEARNED:
            remedy = "Pass valid= to fit" if self._mode != OOB else "Use weights='validation'"
            raise ParameterError(
                f"weights='{self.weights}' needs scores of documents that the parts have not seen, and {lacking[0]} "
                f"has no out-of-bag scores. {remedy}, use weights='equal', or give the part bags, as forests have."
            )
        return _ON_TRAINING

    def _fit_parts(
        self,
        X: Any,  # noqa: N803
        data: RankingData,
        valid: RankingData | None,
    ) -> dict[str, Any]:
        """The parts, fitted one after the other; rows are binned once for parts with the same bins."""
        rankers = self._rankers()
        reporter = self._reporter(len(rankers), unit="part")
        binned: dict[int, BinnedData] = {}
        fitted: dict[str, Any] = {}
        for number, (name, ranker) in enumerate(rankers.items()):
            part = self._copy(ranker)
            max_bins = getattr(part, "max_bins", None)
            table: Any = data
            if max_bins is not None and isinstance(X, BinnedData):
                table = X if X.data is data else BinnedData(X.codes, X.bins, data)
            elif max_bins is not None:
                if max_bins not in binned:
                    bins = bins_of(data, max_bins, self.n_threads)
                    codes = checks.read_only(bins.transform(data.features, self.n_threads))
                    binned[max_bins] = BinnedData(codes, bins, data)
                table = binned[max_bins]
            fitted[name] = _fit_part(name, part, table, valid)
            if reporter.report(number + 1):
                break
        return fitted

    def _copy(self, ranker: Ranker) -> Ranker:
        """A part as it is fitted: with its own listeners, and with the threads of the blend."""
        part: Ranker = clone(ranker)
        known = part.get_params(deep=False)
        changes: dict[str, Any] = {"progress": ranker.progress, "callbacks": ranker.callbacks}
        if self.n_threads is not None:
            changes["n_threads"] = self.n_threads
        if self.seed is not None:
            changes["seed"] = self.seed
        part.set_params(**{key: value for key, value in changes.items() if key in known})
        return part

    def _out_of_bag(self, fitted: Mapping[str, Any], data: RankingData) -> HeldOut | None:
        columns = []
        for name, part in fitted.items():
            scores = getattr(part, "oob_scores_", None) if isinstance(part, Ranker) else None
            if scores is None:
                raise ParameterError(
                    f"part '{name}' ({type(part).__name__}) has no out-of-bag scores. Use weights='validation'."
                )
            if len(scores) != data.n_documents:
                raise DataError(
                    f"part '{name}' has out-of-bag scores of {len(scores):,} documents, but the data have "
                    f"{data.n_documents:,}. Pass the data that it was fitted to."
                )
            columns.append(scores)
        return HeldOut.of(data, np.stack(columns, axis=1))

    def _predicted(self, fitted: Mapping[str, Any], data: RankingData) -> HeldOut | None:
        models = [_model_of(part) for part in fitted.values()]
        columns = [model.predict(data, n_threads=self.n_threads) for model in models]
        return HeldOut.of(data, np.stack(columns, axis=1))

    def _combine(self, fitted: Mapping[str, Any], held_out: HeldOut | None, source: str) -> None:
        """Learn scales and weights, and set the attributes that follow from them."""
        n_parts = len(fitted)
        gates: list[Forest] = []
        strength, values = 0.0, {}
        if held_out is None:
            source = _ON_NOTHING
            centres, spreads = np.zeros(n_parts), np.ones(n_parts)
            shares = self._given(n_parts)
        else:
            centres, spreads = held_out.scaled(self.scaling)
            units = (held_out.scores - centres) / spreads
            judge = held_out.judge(parse_measure(self.measure), self.n_threads)
            shares = self._shares(held_out, units, judge)
            scores = blended(units, shares)
            if self._mode == PER_DOCUMENT:
                gating, gates, scores = self._gated(held_out, units, shares, judge)
                shares, strength = gating.shares, gating.strength
            columns = [*units.T, scores]
            values = dict(zip((*fitted, BLEND), _judged(judge, columns), strict=True))
        models = [_model_of(part) for part in fitted.values()]
        self.blend_ = BlendModel(
            tuple(models), tuple(fitted), shares, centres, spreads, tuple(gates), strength
        )
        self.learned_on_, self.held_out_ = source, values
        self._fitted = dict(fitted)
        missing = [getattr(part, "training_", {}) for part in fitted.values()]
        known = [
            each["features_with_missing"] for each in missing if "features_with_missing" in each
        ]
        self._features_with_missing = known[0] if known else None  # type: ignore[assignment]

    def _shares(self, held_out: HeldOut, units: Floats, judge: Judge) -> Floats:
        """The weights of the parts: given, equal, or learned."""
        n_parts = held_out.n_parts
        if self._mode not in _LEARNED:
            return self._given(n_parts)
        if self.rule == "search":
            return search_shares(lambda shares: judge(blended(units, shares)), n_parts)
        return least_squares_shares(held_out, units)

    def _given(self, n_parts: int) -> Floats:
        """Weights that follow from no data."""
        if self._mode != GIVEN:
            return equal_shares(n_parts)
        given: Floats = np.array(self.weights, np.float64)[:n_parts]
        return given if given.any() else equal_shares(n_parts)  # a callback left out the others

    def _gated(
        self, held_out: HeldOut, units: Floats, shares: Floats, judge: Judge
    ) -> tuple[Gating, list[Forest], Floats]:
        """How gates count, the gates (none where they do not), and the scores of the held-out rows.

        Errors that gates predict for queries they have not seen decide. Gates change the learned weights or equal
        ones: a part that adds nothing on the whole may be the best for some documents.
        """
        constant = Gating(shares, 0.0)
        errors = squared_errors(held_out, units)
        predicted = self._predicted_errors(held_out, errors)
        if predicted is None:
            return constant, [], blended(units, shares)
        strengths = STRENGTHS if self.strength is None else (float(self.strength),)
        tried = [
            Gating(base, strength)
            for base in (shares, equal_shares(shares.size))
            for strength in strengths
        ]
        values = [judge(gating.scores(units, predicted)) for gating in tried]
        best = tried[int(np.argmax(values))]
        if self.strength is None and not self._is_ahead(
            held_out, best.scores(units, predicted), blended(units, shares)
        ):
            return constant, [], blended(units, shares)
        return best, self._fit_gates(held_out.data, errors), best.scores(units, predicted)

    def _predicted_errors(self, held_out: HeldOut, errors: Floats) -> Floats | None:
        """The errors that gates predict which were fitted to other queries; None where there are too few."""
        groups = held_out.group_of_row
        if held_out.data.query_ids is None:
            groups = np.arange(held_out.data.n_documents)
        fold_of_row = groups % N_FOLDS
        if np.unique(fold_of_row).size < N_FOLDS or held_out.n_parts < 2:
            return None
        predicted = np.empty_like(errors)
        for fold in range(N_FOLDS):
            others = fold_of_row != fold
            gates = self._fit_gates(held_out.data.take_rows(others), errors[others])
            rows = held_out.data.features[~others]
            for part, gate in enumerate(gates):
                predicted[~others, part] = gate.predict(rows, n_threads=self.n_threads)
        return predicted

    def _is_ahead(self, held_out: HeldOut, scores: Floats, others: Floats) -> bool:
        """Whether scores are better than others by more than the standard error over queries."""
        measure = parse_measure(self.measure)
        judge = held_out.judge(measure, self.n_threads)
        rise = judge(scores) - judge(others)
        if held_out.data.query_ids is None or measure.is_pooled:
            return bool(rise > 0)
        gains = measure.per_query(scores, held_out.data) - measure.per_query(others, held_out.data)
        gains = gains[~np.isnan(gains)]
        return bool(gains.size > 1 and rise > gains.std(ddof=1) / math.sqrt(gains.size))

    def _fit_gates(self, data: RankingData, errors: Floats) -> list[Forest]:
        """A forest per part that predicts its errors."""
        gate = self.gate
        if gate is None:
            gate = RandomForest(50, 16, min_leaf=20, bag="query")
            if data.query_ids is None:
                gate.set_params(bag="row")
        bins = bins_of(data, gate.max_bins, self.n_threads)
        codes = checks.read_only(bins.transform(data.features, self.n_threads))
        gates = []
        for column in errors.T:
            forest = clone(gate).set_params(n_threads=self.n_threads)
            if self.seed is not None:
                forest.set_params(seed=self.seed)
            labelled = RankingData(
                data.features,
                np.ascontiguousarray(column),
                data.query_ids,
                None,
                data.row_weights,
                data.query_weights,
                data.feature_names,
                categorical=data.categorical,
            )
            gates.append(forest.fit(BinnedData(codes, bins, labelled)).forest_)
        return gates

    def predict_parts(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """The scores of each part, as it gives them itself: rows × parts."""
        table = self._table(X)
        return self.blend_.predict_parts(table, n_threads=self.n_threads)

    def weights_of(self, X: Any) -> Floats:  # noqa: N803
        """The weight of each part for each row: rows × parts; all rows are equal unless gates decide."""
        table = self._table(X)
        return self.blend_.weights_of(table, n_threads=self.n_threads)

    @property
    def weights_(self) -> dict[str, float]:
        """The weight of each part by its name."""
        model = self._learned
        return dict(zip(model.names, model.weights.tolist(), strict=True))

    @property
    def strength_(self) -> float:
        """How much predicted errors count in the weight of a document."""
        strength: float = self._learned.strength
        return strength

    @property
    def parts_(self) -> dict[str, Any]:
        """The fitted rankers by name; after loading, without what files do not keep, such as histories."""
        model = self._learned
        if hasattr(self, "_fitted"):
            return dict(self._fitted)
        rankers = dict(named_rankers(self.parts)) if self.parts is not None else self._rankers()
        return {
            name: _restored(rankers[name], part)
            for name, part in zip(model.names, model.parts, strict=True)
        }

    @property
    def forest_(self) -> Forest:
        """The score as one weighted sum of trees."""
        forest: Forest = self._learned.forest
        return forest

    @property
    def _learned(self) -> BlendModel:
        model: BlendModel = super()._learned
        return model

    def _weights_by_name(self) -> dict[str, float]:
        return self.weights_

    def _rankers(self) -> dict[str, Ranker]:
        """The parts by name, unfitted."""
        if self.parts is None:
            return {"forest": RandomForest(), "boosting": GBRT()}
        return dict(named_rankers(self.parts))

    def _as_chosen(self) -> dict[str, Any]:
        """Weights and scales become given ones; a part has the trees that it ended up with."""
        parts = []
        for name, ranker in self.parts_.items():
            if not isinstance(ranker, Ranker):
                raise ParameterError(
                    f"part '{name}' is a bare {type(ranker).__name__}, which cannot be fitted again."
                )
            known = ranker.get_params(deep=False)
            chosen = {k: v for k, v in chosen_parameters(ranker).items() if k in known}
            parts.append((name, clone(ranker).set_params(**chosen)))
        if self._learned.gates:
            return {"parts": parts}
        factors = self._learned.factors
        return {"parts": parts, "weights": (factors / factors.sum()).tolist(), "scaling": None}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        rankers = self._rankers()
        if self._mode == GIVEN and len(self.weights) != len(rankers):
            raise ParameterError(
                f"weights has {len(self.weights)} values, but there are {len(rankers)} parts."
            )
        for name, ranker in rankers.items():
            try:
                if ranker is not None:
                    check_parameters(ranker)
            except ParameterError as error:
                raise ParameterError(_of_part(name, ranker, error)) from None

    def _refuse_categories(self, data: RankingData) -> None:
        """Raise for categorical features that a part, or a gate, cannot take."""
        learners = {f"part '{name}'": ranker for name, ranker in self._rankers().items()}
        if self._mode == PER_DOCUMENT:
            learners["the gate"] = self.gate or RandomForest()
        for what, ranker in learners.items():
            if ranker is not None and not takes_categories(ranker):
                refuse(data.categorical, data.names, f"{what} ({type(ranker).__name__})")

    def _refuse_bare_models(self) -> None:
        for name, ranker in self._rankers().items():
            if ranker is None:
                raise ParameterError(
                    f"part '{name}' was given to Blend.of as a bare model, without parameters to fit it again. "
                    "Use Blend.of once more, or pass rankers as parts."
                )

    @property
    def _mode(self) -> str:
        """Where weights come from."""
        return self.weights if isinstance(self.weights, str) else GIVEN

    def _check_models(self, fitted: Mapping[str, Any], data: RankingData) -> None:
        """Raise for models that know other features than the data."""
        for name, model in fitted.items():
            n_features = _model_of(model).n_features
            if n_features != data.n_features:
                raise DataError(
                    f"part '{name}' knows {n_features:,} features, but the data have {data.n_features:,}."
                )


def named_rankers(parts: Any, what: str = "parts") -> list[tuple[str, Any]]:
    """The argument ``parts``, which messages call ``what``, as pairs of a name and a ranker."""
    if isinstance(parts, Mapping):
        items = list(parts.items())
    elif isinstance(parts, list | tuple):
        items = [item if _is_pair(item) else (None, item) for item in parts]
    else:
        raise ParameterError(f"{what} {_FORMS}, got {checks.plain(parts)}.")
    if not items or not all(name is None or isinstance(name, str) for name, _ in items):
        raise ParameterError(f"{what} {_FORMS}, got {checks.plain(parts)}.")
    kinds = [type(ranker).__name__ for _, ranker in items]
    names = names_of_parts([name for name, _ in items], kinds)
    return [(name, ranker) for name, (_, ranker) in zip(names, items, strict=True)]


def _is_pair(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)


def _fit_part(name: str, part: Ranker, table: Any, valid: RankingData | None) -> Ranker:
    """The part, fitted; errors name it."""
    try:
        return part.fit(table, valid=valid)
    except ParameterError as error:
        raise ParameterError(_of_part(name, part, error)) from None
    except DataError as error:
        raise DataError(_of_part(name, part, error)) from None


def _of_part(name: str, part: Any, error: Exception) -> str:
    return f"part '{name}' ({type(part).__name__}): {error}"


def _model_of(part: Any) -> Any:
    return learned_model(part) if isinstance(part, Ranker) else part


def _unfitted(name: str, model: Any) -> Any:
    """The ranker of a fitted model, unfitted; None for a bare model, which has no parameters."""
    if isinstance(model, Blend) or kind_of(model) == "blend":
        raise ParameterError(f"part '{name}' is a Blend; blends do not nest: pass its parts.")
    if isinstance(model, Ranker):
        if not is_fitted(model):
            raise ParameterError(
                f"part '{name}' ({type(model).__name__}) is not fitted yet. Fit it, or use Blend(parts).fit."
            )
        return clone(model)
    if kind_of(model) is None:
        raise ParameterError(
            f"part '{name}' must be a fitted ranker or a model of ours, got {type(model).__name__}."
        )
    return None


def _restored(ranker: Any, model: Any) -> Any:
    """A ranker that has learned ``model``; the bare model where there is no ranker."""
    if ranker is None:
        return model
    part = clone(ranker)
    set_learned_model(part, model)
    remember_features(part, model.n_features, model.feature_names)
    return part


def _judged(judge: Judge, columns: Sequence[Floats]) -> list[float]:
    """The measure of each column; NaN where labels are too large for it."""
    try:
        return [judge(column) for column in columns]
    except DataError:
        return [math.nan] * len(columns)
