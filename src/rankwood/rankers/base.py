"""``Ranker``: the base of all estimators, on scikit-learn's contract.

``fit`` is the same for all: it brings its arguments into one form, checks the parameters and calls ``_learn``. An
estimator of trees implements ``_fit``, which gets binned rows; others implement ``_learn``. The functions at the end
are for other modules, which do not use private methods of estimators.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from rankwood import __version__
from rankwood._core import checks
from rankwood._core.jit import Stopwatch, compile_ahead
from rankwood._core.threads import ending_threads
from rankwood.binning.binned import BinnedData
from rankwood.binning.folder import RawFeaturesNeeded
from rankwood.data.categories import refuse as refuse_categories
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.engines.engine import CPU, check_device, part_without_trees, scoring_on
from rankwood.engines.placement import ClusterLost, NotOnCluster
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.losses.position_bias import targets_of, weighed
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.models.family import Family, ModelStages
from rankwood.models.forest import Forest
from rankwood.rankers.parameters import DeclaredEstimator, explains_names, parameter
from rankwood.training.inputs import (
    ONLY,
    Stages,
    TrainingSet,
    ValidationSets,
    check_sets,
    features_with_missing,
    first_rounds,
    history_of,
    is_distributed,
    ranking_data,
    refuse_extremes,
    refuse_other_than_tables,
    refuse_other_width,
    remember_features,
    training_set,
)
from rankwood.training.record import record_of_bins, record_of_rows
from rankwood.training.rounds import Callback, ProgressReporter, Rounds, check_listeners

SCORED_BY = "ndcg@10"  # the measure of ``score`` where there are queries
_OF_THE_WHOLE = ("_out_of_bag", "_oob_ndcg", "oob_scores_", "oob_ndcg_", "weights_")


class Ranker(DeclaredEstimator):
    """An estimator that gives documents scores: the higher, the more relevant.

    A ranker declares its parameters (see ``rankers.parameters``). The constructor stores them untouched, and ``fit``
    checks them. ``fit`` learns one model and sets the attribute that ``_model`` names: ``forest_`` for ensembles of
    trees, ``linear_`` for a weight per feature.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        How many features, and their names if the training data had names.
    training_
        What the model was trained on: rows, queries, features, how many of them had missing values, seconds, version,
        a digest of the data, and statistics of the features, labels and queries (see ``rankwood.check_data``).
    is_random
        Whether another ``seed`` may give another model. It follows from the parameters and is known before a fit;
        where it is False nothing is drawn, and ``seed`` is ignored.
    """

    _model = "forest_"  # the attribute that holds what was learned
    _compiles = "trees"  # what another process compiles ahead in a new environment; empty: nothing
    _regresses = False  # whether scores are estimates of the labels themselves
    _watches = False  # whether there may be several validation sets and measures
    _takes_categories = False  # whether splits by categories can be learned
    # Parameters that do not change what is learned, beside those that no ranker's model depends on.
    without_effect: tuple[str, ...] = ("device",)

    n_threads: int | None = parameter(default=None, kw_only=True)
    progress: Callback | None = parameter(default=None, kw_only=True)
    position_bias: Any = parameter(default=None, kw_only=True)
    callbacks: Sequence[Callback] = parameter(default=(), kw_only=True)

    @explains_names
    @ending_threads()
    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any = None,
        qid: Any = None,
        *,
        valid: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
    ) -> Self:
        """Learn from labelled documents; gives the estimator itself.

        Parameters
        ----------
        X
            RankingData, BinnedData, a folder of binned data (``rankwood.open_binned``) or data on a Dask cluster
            (``rankwood.distribute``), which bring labels, queries and weights with them; or rows × features: an array,
            a frame, a sparse matrix. NaN is a missing value.
        y
            Labels: finite, not negative.
        qid
            The query of each row, in any order. Point-wise methods need it for whatever looks at queries only.
        valid
            Validation data: RankingData, a folder binned by the bins of the training data, or (X, y, qid). Forests and
            rankers that are boosted take a mapping from names to these too, of which the first one decides.
        sample_weight, query_weight
            A weight per row; a weight per query, by first appearance or as a mapping from its id. They multiply.
        """
        stopwatch = Stopwatch()
        if self._compiles:
            compile_ahead(self._compiles)
        data = ranking_data(X, y, qid, sample_weight, query_weight)
        self._check_parameters()
        refuse_extremes(data)
        self._refuse_categories(data)
        sets = ValidationSets.of(valid, data)
        self._refuse_several(sets)
        self._watched = sets
        try:
            self._learn(X, self._weighed(data), sets.first)
        except (RawFeaturesNeeded, NotOnCluster) as error:
            raise error.by(type(self).__name__) from None
        except ClusterLost as error:
            raise error.with_checkpoint(getattr(self, "checkpoint", None)) from None
        finally:
            del self._watched
        self._remember(data, stopwatch.seconds())
        return self

    @explains_names
    def predict(self, X: Any, *, n_trees: int | None = None, device: str = CPU) -> Any:  # noqa: N803
        """The score of each row, in the caller's order.

        Of columns with names those that ``fit`` saw are taken, whatever others there are. A bare array is taken by
        position. ``n_trees`` scores with the first trees only, for rankers whose model is a forest. Of distributed
        data (``rankwood.distribute``) the scores are a Dask array. ``device="cuda"`` walks the rows down the trees on
        an NVIDIA GPU, which pays where rows and trees are many; the scores are the same bytes.
        """
        table = self._table(X)
        model = getattr(self, self._model)
        if n_trees is not None:
            model = self._forest_of_all("predict(n_trees=)")
            model = model.take_trees(
                slice(0, checks.whole_number("n_trees", n_trees, 1, model.n_trees))
            )
        if is_distributed(X):
            refuse_device(device)
            return X.predict(model)
        with scoring_on(device, model):
            scores: Floats = model.predict(table, n_threads=self.n_threads)
        return scores

    def predict_stages(self, X: Any, every: int = 1) -> Iterator[tuple[int, Floats]]:  # noqa: N803
        """Pairs of a number of trees and the scores by so many first trees, after every ``every`` trees and all.

        All stages together take the time of one ``predict``. ``rankwood.best_sizes`` measures them.
        """
        table = self._table(X)
        return self._forest_of_all("predict_stages").predict_stages(
            table, every, n_threads=self.n_threads
        )

    def leaf_ids(self, X: Any) -> Array:  # noqa: N803
        """The leaf of each row in each tree, as the number of the node within the tree: int32, rows × trees."""
        table = self._table(X)
        return self._forest_of_all("leaf_ids").leaf_ids(table, n_threads=self.n_threads)

    def _forest_of_all(self, asker: str) -> Forest:
        """The trees whose sum or mean the scores are; an error where the model is made otherwise."""
        model = getattr(self, self._model)
        if isinstance(model, Family):
            model = model.forest
        if not isinstance(model, Forest):
            raise ModelError(
                f"{asker} is for models that are one forest; that of {type(self).__name__} is not: it is kept in "
                f"{self._model}."
            )
        return model

    def _table(self, X: Any) -> Any:  # noqa: N803
        """The argument of ``predict`` as the model takes it."""
        check_is_fitted(self, self._model)
        if isinstance(X, BinnedData):
            X = X.data  # noqa: N806
        refuse_other_than_tables(X)
        refuse_other_width(X, self)
        return X

    def score(self, X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None) -> float:  # noqa: N803
        """NDCG@10 over the queries; without queries, R² of rankers whose scores estimate labels, an error of others."""
        data = ranking_data(X, y, qid, sample_weight)
        scores = self.predict(X)
        if data.query_ids is not None:
            return mean_value(parse_measure(SCORED_BY), scores, data)
        if not self._estimates_labels:
            raise DataError(
                f"{type(self).__name__} learns an order, so its scores are not labels and R² says nothing of them: "
                "pass qid= (or RankingData with queries) for NDCG. In cross_val_score or GridSearchCV, set "
                "sklearn.set_config(enable_metadata_routing=True), call set_fit_request(qid=True) and "
                "set_score_request(qid=True) of the ranker, and pass params={'qid': ...}."
            )
        from sklearn.metrics import r2_score

        return float(r2_score(data.labels, scores, sample_weight=data.row_weights))

    def truncated(self, n_rounds: int) -> Self:
        """The model after its first rounds, as a new fitted estimator; this one stays as it is.

        A round is what the ranker adds at a time: a tree, a tree of each run (AveragedGBRT) or grade (OrdinalRanker), a
        forest (BROOF). InitializedGBRT counts boosted trees, and 0 is its random forest. Parameters stay those of the
        fit. ``rankwood.best_sizes`` tells how many rounds are best by a measure.
        """
        sizes = self._sizes()
        if not sizes:
            raise ModelError(f"this {type(self).__name__} has no trees, and no smaller models.")
        n_kept = checks.whole_number("n_rounds", n_rounds, sizes[0], sizes[-1])
        shorter = copy.copy(self)
        setattr(shorter, self._model, self._first_rounds(n_kept))
        for name in _OF_THE_WHOLE:  # they follow from all rounds
            shorter.__dict__.pop(name, None)
        if hasattr(self, "history_"):
            shorter.history_ = first_rounds(self.history_, n_kept)
        if hasattr(self, "position_history_"):
            shorter.position_history_ = self.position_history_[:n_kept]
            shorter.position_bias_ = shorter.position_history_[-1]
        if hasattr(self, "best_iteration_"):
            shorter.best_iteration_ = n_kept
        return shorter

    def _stages(self) -> ModelStages:
        """What the model is after each of its rounds."""
        sizes = self._sizes()
        return ModelStages.of_forest(getattr(self, self._model), sizes, map(self._trees_of, sizes))

    def _sizes(self) -> range:
        """The numbers of rounds that the model can be cut to; the last is its own."""
        check_is_fitted(self, self._model)
        forest = getattr(self, self._model)
        if isinstance(forest, Family):
            raise ModelError(
                f"{type(self).__name__} keeps its best models of every length: rankwood.size_quality_front measures "
                "them, and family_.model(family_.best(n)) is the best of at most n trees."
            )
        if not isinstance(forest, Forest):
            raise ModelError(
                f"{type(self).__name__} has no trees that were added round by round: it has one size only."
            )
        return self._sizes_of(forest.n_trees)

    def _sizes_of(self, n_trees: int) -> range:
        """The numbers of rounds that a model of ``n_trees`` trees can be cut to."""
        return range(0 if self._trees_of(0) > 0 else 1, self._rounds_of(n_trees) + 1)

    def _first_rounds(self, n_rounds: int) -> Any:
        """The model after so many rounds."""
        forest: Forest = getattr(self, self._model)
        return forest.take_trees(slice(0, min(self._trees_of(n_rounds), forest.n_trees)))

    def _trees_of(self, n_rounds: int) -> int:
        """How many trees the model has after ``n_rounds`` rounds."""
        return n_rounds

    def _rounds_of(self, n_trees: int) -> int:
        """How many rounds gave a model of ``n_trees`` trees."""
        return n_trees

    def _weighed(self, data: RankingData) -> RankingData:
        """A click log with the weights that the position bias gives its rows; other data as they are."""
        return weighed(data, getattr(self, "position_bias", None), regresses=self._regresses)

    def _learn(self, X: Any, data: RankingData, valid: RankingData | None) -> None:  # noqa: N803
        """Fit the model to ``data``: trees see it binned, as it is already where ``X`` is ``BinnedData``."""
        device = getattr(self, "device", CPU)  # rankers that can choose declare it
        bias = getattr(self, "position_bias", None) if self._regresses else None
        targets = targets_of(data, bias)
        train = training_set(X, data, self.max_bins, self.n_threads, device, targets)
        self._features_with_missing = features_with_missing(train)
        self._data_record = record_of_bins(data, train.bins, train.engine)
        self._fit(train, valid)

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        """Grow the trees and set the attributes that follow from them."""
        raise NotImplementedError

    def _reporter(self, total: int, done: int = 0, *, unit: str = "tree") -> ProgressReporter:
        """Reports to ``progress`` and ``callbacks``; ``done`` of ``total`` iterations are from an earlier fit."""
        callbacks = check_listeners(self.progress, self.callbacks)
        return ProgressReporter(total, self.progress, callbacks, done, unit=unit)

    def _refuse_categories(self, data: RankingData) -> None:
        """Raise for categorical features where splits by categories cannot be learned."""
        if not self._takes_categories:
            refuse_categories(data.categorical, data.names, type(self).__name__)

    def _refuse_several(self, sets: ValidationSets) -> None:
        """Raise for validation sets with names, where only one set is looked at; and for sets without queries."""
        if self._watches:
            check_sets(sets, getattr(self, "measure", SCORED_BY))
        elif sets.has_names:
            raise ParameterError(
                f"{type(self).__name__} looks at one validation set: pass valid=(X, y, qid) or RankingData. Mappings "
                "are for forests and rankers that are boosted."
            )

    def _validation_sets(self, valid: RankingData | None) -> ValidationSets:
        """The validation sets of the fit that is under way: by default only ``valid``."""
        sets = getattr(self, "_watched", None)
        if isinstance(sets, ValidationSets) and sets.first is valid:
            return sets
        return ValidationSets({} if valid is None else {ONLY: valid})

    def _history(self, decided: list[float], valid: RankingData | None, stages: Stages) -> Any:
        """What becomes ``history_``; ``decided`` is the first measure of the first set by round."""
        sets = self._validation_sets(valid)
        return history_of(decided, sets, self.measure, stages, self.n_threads)

    def _rounds(self, total: int, done: int = 0, *, unit: str = "tree", **options: Any) -> Rounds:
        """The driver of the fit's loop; ``options`` are those of ``Rounds``."""
        return Rounds(self._reporter(total, done, unit=unit), done=done, **options)

    @property
    def _estimates_labels(self) -> bool:
        """Whether scores are on the scale of the labels."""
        return self._regresses

    def _estimates_out_of_bag(self) -> bool:
        """Whether a fit sets ``oob_scores_``: scores of the training rows by what has not seen them."""
        return False

    def _weights_by_name(self) -> dict[str, float]:
        """The weights that a score is composed with, where they are a few and have names."""
        return {}

    def _standing_for(self) -> Ranker:
        """The fitted ranker that files hold and that is trained again: this one, or one that it has chosen."""
        return self

    def _as_chosen(self) -> dict[str, Any]:
        """Parameters that give the model there is, with nothing left to be chosen on validation data."""
        return self._with_trees(self.forest_.n_trees)

    def _with_trees(self, n_trees: int) -> dict[str, Any]:
        """Parameters that give ``n_trees`` trees in all."""
        return {"n_trees": n_trees, "early_stopping": None}

    @property
    def is_random(self) -> bool:
        """Whether another ``seed`` may give another model; rankers that draw nothing say no."""
        return True

    @property
    def feature_importances_(self) -> Floats:
        """The share of each feature in the gain of all splits."""
        return shares(self._learned.importance("gain"))

    @property
    def _learned(self) -> Any:
        """The model; an AttributeError before ``fit``, so that ``hasattr`` says no."""
        if not hasattr(self, self._model):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet.")
        return getattr(self, self._model)

    def _remember(self, data: RankingData, seconds: float) -> None:
        remember_features(self, data.n_features, data.feature_names)
        self.training_ = {
            "rows": data.n_documents,
            "queries": None if data.query_ids is None else data.n_queries,
            "features": data.n_features,
            "seconds": seconds,
            "version": __version__,
        }
        n_missing = getattr(self, "_features_with_missing", None)
        if n_missing is not None:
            self.training_["features_with_missing"] = n_missing
        if data.absent is not None:
            self.training_["absent"] = data.absent
        record = self.__dict__.pop("_data_record", None)
        self.training_ |= record_of_rows(data, self.n_threads) if record is None else record

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags


class BuiltOnBase:
    """The base of rankers that are built on another ranker, their parameter ``base``."""

    base: Ranker | None

    def _new_base(self) -> Ranker:
        """The ranker that None stands for."""
        raise NotImplementedError

    def _base(self) -> Any:
        return self._new_base() if self.base is None else self.base

    @property
    def max_bins(self) -> int:
        """The bins of ``base``: rows are binned once for all that it learns."""
        max_bins: int = self._base().max_bins
        return max_bins

    @property
    def device(self) -> str:
        """The device of ``base``."""
        return str(getattr(self._base(), "device", CPU))


def shares(parts: Floats) -> Floats:
    """Parts as shares of their sum, where that is not 0."""
    total = float(parts.sum())
    return parts / total if total > 0 else parts


# Functions on estimators for the rest of the package.


def check_parameters(estimator: Ranker) -> None:
    """Raise for parameters that are wrong whatever the data, as ``fit`` does."""
    estimator._check_parameters()


def refuse_device(device: str) -> None:
    """Raise for a device that is to score distributed data, which their workers score by their threads."""
    check_device("device", device)
    if device != CPU:
        raise ParameterError(
            f"device='{device}' is not for data on a Dask cluster, whose workers score them: leave device= out."
        )


def predict_where_grown(estimator: Any, data: RankingData) -> Floats:
    """Scores by the device that the estimator's trees were grown on; other models are scored by the CPU."""
    given: dict[str, Any] = {}
    if isinstance(estimator, Ranker) and part_without_trees(learned_model(estimator)) is None:
        given["device"] = getattr(estimator, "device", CPU)
    scores: Floats = estimator.predict(data, **given)
    return scores


def trains_on_bins(estimator: Any) -> bool:
    """Whether the estimator is one of ours that learns a forest from binned rows alone."""
    return isinstance(estimator, Ranker) and estimator._model == "forest_"


def fit_to_bins(estimator: Ranker, train: TrainingSet, valid: RankingData | None = None) -> None:
    """Fit an estimator to rows that are binned already; its parameters are not checked."""
    refuse_bias_inside(estimator)
    estimator._fit(train, valid)


def refuse_bias_inside(estimator: Ranker) -> None:
    """Raise for an estimator with a position bias that is trained by another one, on rows without weights for it."""
    if getattr(estimator, "position_bias", None) is not None:
        raise ParameterError(
            f"a {type(estimator).__name__} inside another ranker has a position_bias, which would not be used there: "
            "set it for the ranker as a whole."
        )


def is_fitted(estimator: Ranker) -> bool:
    """Whether the estimator has learned a model."""
    return hasattr(estimator, estimator._model)


def learned_model(estimator: Ranker) -> Any:
    """The model of a fitted estimator: a ``Forest``, a ``LinearModel`` and so on; an error where there is none."""
    check_is_fitted(estimator, estimator._model)
    return getattr(estimator, estimator._model)


def set_learned_model(estimator: Ranker, model: Any) -> None:
    """Make an estimator one that has learned ``model``."""
    setattr(estimator, estimator._model, model)


def stages_of(model: Any) -> ModelStages:
    """What a fitted ranker, or a bare ``Forest``, is after each of its rounds; an error where it has no rounds."""
    if isinstance(model, Ranker):
        return model._stages()
    if isinstance(model, Forest):
        sizes = range(1, model.n_trees + 1)
        return ModelStages.of_forest(model, sizes, sizes)
    raise ModelError(
        f"{type(model).__name__} has no trees that were added round by round: pass a fitted ranker made of trees."
    )


def estimates_labels(estimator: Any) -> bool:
    """Whether the scores of an estimator are on the scale of the labels; those of other libraries are taken to be."""
    return not isinstance(estimator, Ranker) or estimator._estimates_labels


def learns_kind(estimator: Ranker, kind: str) -> bool:
    """Whether the models of the estimator are of this kind, as model files name kinds."""
    return estimator._model == f"{kind}_"


def estimates_out_of_bag(estimator: Ranker) -> bool:
    """Whether the estimator has ``oob_scores_`` once it is fitted."""
    return estimator._estimates_out_of_bag()


def takes_categories(estimator: Ranker) -> bool:
    """Whether the estimator learns splits by categories."""
    return estimator._takes_categories


def weights_by_name(estimator: Ranker) -> dict[str, float]:
    """The weights that a fitted estimator composes a score with: of the grades' models, or of the parts of a blend."""
    return estimator._weights_by_name()


def chosen_parameters(estimator: Ranker, n_trees: int | None = None) -> dict[str, Any]:
    """Parameters that give the model there is, or one of ``n_trees``, without validation data."""
    chosen = estimator._as_chosen() if n_trees is None else estimator._with_trees(n_trees)
    if hasattr(estimator, "max_leaves_"):
        chosen["max_leaves"] = estimator.max_leaves_
    return chosen


def parameters_called(estimator: Any, *names: str) -> dict[str, Any]:
    """The parameters with one of these names and their values, those of estimators inside among them."""
    return {
        name: value
        for name, value in estimator.get_params(deep=True).items()
        if name.rpartition("__")[2] in names
    }
