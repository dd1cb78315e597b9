"""What a weak learner fits in a round of boosting: a target and a weight for each row.

A leaf predicts ``Σ weight · target / (Σ weight + l2)``. The targets follow from the loss and the scores so far:

=================== ===================================== ========================= =================
loss                target of a row                       weight of a row           a leaf is then
=================== ===================================== ========================= =================
``SquaredLoss``     the residual ``label - score``        the row's weight          the mean residual
``ExponentialLoss`` the class, 1 or -1                    ``D ∝ weight · exp(-yF)`` a vote
``NDCGBoostLoss``   1 if the document should rise, else 0 size of the gradient      a vote
any other           ``-gradient / hessian``               the hessian               Newton's step
=================== ===================================== ========================= =================

A new loss that is lowered by Newton's step needs no entry here. RankBoost grows no trees: its rankers are chosen by
``PairLoss.potentials``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rankwood.dtypes import Floats
from rankwood.losses.loss import ExponentialLoss, SquaredLoss
from rankwood.losses.ndcgboost import NDCGBoostLoss

Targets = tuple[Floats, Floats | None]  # target and weight of each row; None where all weigh alike

_LEAST_HESSIAN = 1e-100  # below, the quotient may be no number; such a row has target and weight 0


@functools.singledispatch
def weak_learner_targets(loss: Any, scores: Floats, *ranking: Any) -> Targets:
    """What the next weak learner fits at ``scores``; Newton's targets for a loss without a rule of its own.

    ``ranking`` may be passed on to a loss that takes a ranking of the scores, if one is known already.
    """
    return newton_targets(*loss.gradients(scores, *ranking))


@weak_learner_targets.register
def residuals(loss: SquaredLoss, scores: Floats) -> Targets:
    """What the scores leave of the labels; the mean of them is the best leaf."""
    return loss.labels - scores, loss.weights


@weak_learner_targets.register
def weighted_classes(loss: ExponentialLoss, scores: Floats) -> tuple[Floats, Floats]:
    """The class of each row, and AdaBoost's distribution D over the rows, which sums to 1."""
    exponents = -loss.classes * scores
    weights = np.exp(exponents - exponents.max())  # shifted, so that long sums stay finite
    if loss.weights is not None:
        weights *= loss.weights
    return loss.classes, weights / weights.sum()


@weak_learner_targets.register
def rising_documents(loss: NDCGBoostLoss, scores: Floats) -> tuple[Floats, Floats]:
    """1 for a document that should rise and 0 for one that should fall, and how much that weighs."""
    weights = loss.document_weights(scores)
    return (weights > 0).astype(np.float64), np.abs(weights)


def newton_targets(gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
    """``-gradient / hessian`` with weight ``hessian``: a leaf is then Newton's step ``-Σ gradient / (Σ hessian + l2)``.

    A row without hessian, such as a document that is in no pair, has target 0 and weight 0.
    """
    has_hessian = hessian >= _LEAST_HESSIAN
    target = np.divide(gradient, hessian, out=np.zeros_like(gradient), where=has_hessian)
    np.negative(target, out=target)
    return target, hessian if has_hessian.all() else np.where(has_hessian, hessian, 0.0)
