"""``BoostingTree``: a search for small, strong models among boosting sequences (Kocsis, György & Bán 2013)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rankwood import _checks
from rankwood._threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.ensembles.base import Ranker
from rankwood.ensembles.base_boosters import booster_of, check_base
from rankwood.ensembles.boosting_tree_models import Constraints, Part, ScoredModels
from rankwood.ensembles.boosting_tree_run import SearchRun
from rankwood.ensembles.checkpointing import Checkpoint
from rankwood.ensembles.inputs import TrainingSet, codes_of
from rankwood.ensembles.lambdamart import LambdaMART
from rankwood.ensembles.progress import Callback, check_listeners
from rankwood.ensembles.validation import is_minimised
from rankwood.errors import DataError, ParameterError
from rankwood.measures.measure import Measure
from rankwood.measures.parsing import parse_measure
from rankwood.measures.repeated import RepeatedMeasure, tie_averaged
from rankwood.models.explored import ExploredTree
from rankwood.models.family import Family, FrontPoint
from rankwood.models.forest import Forest
from rankwood.trees.constrained import in_data_order

_PARTS = ("train", "valid")


class BoostingTree(Ranker):
    """A search over boosting sequences that gives the best model of every length (Kocsis, György & Bán 2013).

    A node of the search tree is a model, an edge a weak hypothesis that was fitted under a constraint: one feature per
    node of a tree, so that a step costs a column and not the data. Each round extends the models that may lead
    furthest, for every trade-off of quality and length; then the best one until it is the longest. The search can be
    stopped at any time, also by Ctrl-C, and keeps what it has found.

    Parameters
    ----------
    base
        The boosting whose steps are taken: LambdaMART, NDCGBoost, AdaBoost or GBRT; None is
        LambdaMART(max_leaves=2, learning_rate=0.2). Its number of trees is not looked at. On the command line its
        name; options that BoostingTree does not know are its own.
    budget
        Weak hypotheses to fit; those tried without success count.
    evaluate_on
        What the search maximises the measure on: "train", or "valid", which needs validation data.
    measure
        What models are compared by, as a mean over all orders of documents with equal scores; rmse is to fall, the
        others are to rise. The best models are chosen on the validation data where there are any.
    max_trees
        Most trees of the model that is used for scoring; None is no limit. ``best`` gives others.
    n_constraints
        Constraints a model may be extended under. None is one per feature for stumps, and no limit for larger trees.
    free_steps
        Whether the step without constraint, that of plain boosting, is among them; it costs as much as in plain
        boosting.
    cache_mb
        Room for scores of models, in MiB; others are added up again when they are needed. The result does not depend
        on it.
    seed
        What the constraints follow from.
    n_threads, progress, callbacks
        As for ``RandomForest``; callbacks are told of every hypothesis, with the round, the number of models, the
        best measure so far and its number of trees among ``notes``.
    checkpoint
        As for ``RandomForest``: a file that a stopped search goes on from, at the round it was in.

    Attributes
    ----------
    forest_
        The best model of at most ``max_trees`` trees.
    family_
        The best models of all lengths, as a ``Family``.
    tree_
        The explored tree: parent, depth, f, f̂, constraint, round and validation measure of every model.
    n_rounds_
        Rounds that were begun.
    stopped_because_
        Why there are no more models.
    feature_importances_
        The share of each feature in the gain of all splits of the model used for scoring.
    """

    _model = "family_"
    _default_base = "LambdaMART"  # what the command line makes of options without a base
    family_: Family

    def __init__(
        self,
        base: Ranker | None = None,
        budget: int = 5000,
        evaluate_on: str = "train",
        measure: str = "ndcg@10",
        max_trees: int | None = None,
        n_constraints: int | None = None,
        free_steps: bool = False,
        cache_mb: float = 256,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.base = base
        self.budget = budget
        self.evaluate_on = evaluate_on
        self.measure = measure
        self.max_trees = max_trees
        self.n_constraints = n_constraints
        self.free_steps = free_steps
        self.cache_mb = cache_mb
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def best(self, max_trees: int | None = None) -> Forest:
        """The best model of at most ``max_trees`` trees, the shortest of equal ones; None is no limit."""
        if max_trees is not None:
            _checks.whole_number("max_trees", max_trees, 0)
        family = self._learned
        return family.model(family.best(max_trees))

    def front(self) -> list[FrontPoint]:
        """The best model of every length: trees, model, measures, and whether it beats every shorter one."""
        return list(self._learned.front)

    @property
    def forest_(self) -> Forest:  # type: ignore[override]
        """The model used for scoring."""
        return self._learned.forest

    @property
    def tree_(self) -> ExploredTree:
        """All models of the search."""
        return self._learned.explored

    @property
    def _learned(self) -> Family:
        if not hasattr(self, "family_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet.")
        return self.family_

    @property
    def max_bins(self) -> int:  # type: ignore[override]
        """Base's."""
        max_bins: int = self._base().max_bins
        return max_bins

    def _fit(self, train: TrainingSet, valid: RankingData | None) -> None:
        if self.evaluate_on == "valid" and valid is None:
            raise ParameterError("evaluate_on='valid' needs validation data: pass valid= to fit.")
        base = self._base()
        if self.n_threads is not None:
            base = _with_threads(base, self.n_threads)
        booster = booster_of(base, train)
        models = self._models(booster, train, valid)
        n_features = train.data.n_features
        stumps = booster.grower.grows_stumps
        constraints = Constraints(
            n_features, stumps, self.n_constraints, bool(self.free_steps), self.seed
        )
        checkpoint = Checkpoint(self, train, valid)
        listeners = (self.progress, check_listeners(self.progress, self.callbacks))
        run = SearchRun(models, constraints, self.budget, train, checkpoint, listeners)
        self.stopped_because_ = run.search()
        self.n_rounds_ = run.models.n_rounds
        measure = parse_measure(self.measure)
        found = (run.forest(), run.explored(), str(measure), is_minimised(measure))
        self.family_ = Family.of(*found, self.max_trees)

    def _models(self, booster: Any, train: TrainingSet, valid: RankingData | None) -> ScoredModels:
        """The parts that models are measured on."""
        measure = tie_averaged(parse_measure(self.measure))
        codes = in_data_order(train.matrix).columns
        parts = [_part("the training data have", codes, measure, train.data, self.n_threads)]
        if valid is not None:
            codes = codes_of(valid, train, self.n_threads)
            parts.append(_part("valid has", codes, measure, valid, self.n_threads))
        return ScoredModels(
            booster,
            parts[0],
            None if valid is None else parts[1],
            self.evaluate_on == "valid",
            -1.0 if is_minimised(measure) else 1.0,
            int(self.cache_mb * 2**20),
            [],
        )

    def _base(self) -> Any:
        return LambdaMART(max_leaves=2, learning_rate=0.2) if self.base is None else self.base

    def _as_chosen(self) -> dict[str, Any]:
        """The same search, for a model that is as long as the one chosen; chosen on the training data."""
        return {"max_trees": self.family_.n_trees, "evaluate_on": "train"}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_base(self._base())
        _checks.whole_number("budget", self.budget, 1)
        _checks.one_of("evaluate_on", self.evaluate_on, _PARTS)
        tie_averaged(parse_measure(self.measure))
        if self.max_trees is not None:
            _checks.whole_number("max_trees", self.max_trees, 0)
        if self.n_constraints is not None:
            _checks.whole_number("n_constraints", self.n_constraints, 1)
        _checks.true_or_false("free_steps", self.free_steps)
        _checks.real_number("cache_mb", self.cache_mb, "[0, inf)")


def _part(
    subject: str, codes: Any, measure: Measure, data: RankingData, n_threads: int | None
) -> Part:
    """Rows that models are measured on; without queries there is nothing to rank."""
    if data.query_ids is None and measure.name != "rmse":
        raise DataError(
            f"{subject} no query ids, which {measure.name} needs. Pass qid, or measure='rmse'."
        )
    return Part(codes, RepeatedMeasure.of(measure, data, resolve_threads(n_threads)))


def _with_threads(base: Any, n_threads: int) -> Any:
    """A copy of ``base`` that uses so many threads."""
    from sklearn.base import clone

    return clone(base).set_params(n_threads=n_threads)
