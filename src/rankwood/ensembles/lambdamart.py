"""``LambdaMART``: boosted trees that learn the order of documents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rankwood import _checks
from rankwood.ensembles.boosted import Boosted
from rankwood.ensembles.inputs import TrainingSet
from rankwood.ensembles.progress import Callback
from rankwood.errors import ParameterError
from rankwood.losses.lambdarank import LambdaRank, parse_target
from rankwood.losses.loss import Loss
from rankwood.losses.newton import Gradients, OwnLoss


class LambdaMART(Boosted):
    """Boosted trees on LambdaRank's gradients, with Newton's step in every leaf (Wu et al. 2010, Burges 2010).

    Documents of one query are compared in pairs, each weighed by how much a measure changes when the two swap. Needs
    query ids.

    Parameters
    ----------
    n_trees
        Number of trees, or the most there may be with ``early_stopping``.
    max_leaves, max_depth, min_leaf, min_gain
        As for ``GBRT``.
    learning_rate
        What is taken of each tree.
    l2
        Added to the hessian of a leaf: larger values pull leaves towards 0.
    target
        The measure whose changes weigh the pairs: ndcg, map, mrr or err, with cut-off and conventions, as in
        "ndcg@10[gain=linear]".
    truncation
        One document of a pair must stand among so many first ranks; None takes all pairs.
    normalise
        Whether a query's gradients are scaled, and pairs far apart weigh less, as LightGBM's lambdarank_norm does.
    sigma
        How steep the pairs' logistic is.
    min_hessian
        Least sum of hessians in a leaf.
    loss
        A loss of your own in place of the pairs: a function of (scores, data) that gives gradient and hessian of each
        row. The five parameters above but ``min_hessian`` are then not looked at.
    features_per_node, subsample, subsample_by
        As for ``GBRT``; pairs are made of all documents, also of those a tree does not see.
    early_stopping, measure, warm_start, missing, monotone
        As for ``GBRT``.
    max_bins, seed, n_threads, progress, callbacks, checkpoint
        As for ``RandomForest``.

    Attributes
    ----------
    history_
        The measure on the validation data after each tree.
    best_iteration_
        How many trees gave the best value; all of them without validation data.
    feature_importances_
        The share of each feature in the gain of all splits.
    """

    def __init__(
        self,
        n_trees: int = 100,
        max_leaves: int | None = 31,
        learning_rate: float = 0.1,
        min_leaf: int = 20,
        l2: float = 0.0,
        target: str = "ndcg",
        truncation: int | None = 30,
        normalise: bool = True,
        sigma: float = 1.0,
        min_hessian: float = 1e-3,  # LightGBM's min_sum_hessian_in_leaf
        loss: Gradients | None = None,
        max_depth: int | None = None,
        min_gain: float = 0.0,
        features_per_node: int | float | None = None,
        subsample: float = 1.0,
        subsample_by: str = "row",
        early_stopping: int | None = None,
        measure: str = "ndcg@10",
        warm_start: bool = False,
        missing: str = "learned",
        monotone: Any = None,
        max_bins: int = 255,
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaves = max_leaves
        self.learning_rate = learning_rate
        self.min_leaf = min_leaf
        self.l2 = l2
        self.target = target
        self.truncation = truncation
        self.normalise = normalise
        self.sigma = sigma
        self.min_hessian = min_hessian
        self.loss = loss
        self.max_depth = max_depth
        self.min_gain = min_gain
        self.features_per_node = features_per_node
        self.subsample = subsample
        self.subsample_by = subsample_by
        self.early_stopping = early_stopping
        self.measure = measure
        self.warm_start = warm_start
        self.missing = missing
        self.monotone = monotone
        self.max_bins = max_bins
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint

    def _loss(self, train: TrainingSet) -> Loss:
        if self.loss is not None:
            return OwnLoss(self.loss, train.data, train.weights)
        return LambdaRank(
            train.data,
            self.target,
            train.weights,
            self.sigma,
            self.truncation,
            self.normalise,
            self.n_threads,
        )

    def _check_parameters(self) -> None:
        _checks.real_number("min_hessian", self.min_hessian, "[0, inf)")
        super()._check_parameters()
        _checks.real_number("sigma", self.sigma, "(0, inf)")
        _checks.true_or_false("normalise", self.normalise)
        parse_target(self.target)
        if self.truncation is not None:
            _checks.whole_number("truncation", self.truncation, 1)
        if self.loss is not None and not callable(self.loss):
            raise ParameterError(
                f"loss must be a function of (scores, data), got {_checks.plain(self.loss)}. "
                "A model file keeps the name of a function, not the function: pass it again to train."
            )
