"""NDCGLoss2++: a smooth bound of 1 - NDCG, for networks that PyTorch trains.

Wang, Li, Golbandi, Bendersky & Najork, *The LambdaLoss framework for ranking metric optimization*, CIKM 2018.
For a query it is

    Σ_{y_i > y_j} (μ δ_ij + |1/D_i - 1/D_j|) · |G_i - G_j| · log2(1 + exp(-σ (s_i - s_j)))

with D_i = log2(1 + rank of i by the current scores), δ_ij = |1/D(k) - 1/D(k + 1)| for D(k) = log2(1 + k) and k the
distance of the two ranks, and G_i = (2^y_i - 1) / ideal DCG. The weights of pairs are constants of a step: ranks have
no gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rankwood._core.checks import read_only
from rankwood.dtypes import Floats, Rows
from rankwood.measures.ranking import order

MU = 10.0  # the weight of δ that the authors use


def gains_over_ideal(labels: Floats, offsets: Rows) -> Floats:
    """G of each document; lists begin at ``offsets``. 0 where a list has no gain at all.

    Gains are taken relative to 2 to the list's greatest label, so that no label is too great.
    """
    starts, sizes = offsets[:-1], np.diff(offsets)
    greatest = np.repeat(np.maximum.reduceat(labels, starts), sizes)
    gains: Floats = np.exp2(labels - greatest) - np.exp2(-greatest)
    ranks = np.arange(labels.size) - np.repeat(starts, sizes)
    by_label = order(read_only(labels), read_only(offsets)).order
    ideal = np.add.reduceat(gains[by_label] / np.log2(2.0 + ranks), starts)
    whole = np.repeat(ideal, sizes)
    shares: Floats = np.zeros(gains.size)
    np.divide(gains, whole, out=shares, where=whole > 0)
    return shares


def ndcg_loss2pp(
    scores: Any,
    gains: Any,
    is_document: Any,
    *,
    sigma: float = 1.0,
    mu: float = MU,
    weights: Any = None,
) -> Any:
    """The loss of each list: tensors of lists × positions, where ``is_document`` is False for padding.

    ``weights`` of documents, if there are any, multiply in pairs.
    """
    from torch.nn.functional import softplus

    factors = _weights_of_pairs(scores.detach(), gains, is_document, mu)
    if weights is not None:
        factors = factors * weights.unsqueeze(2) * weights.unsqueeze(1)
    differences = scores.unsqueeze(2) - scores.unsqueeze(1)
    costs = softplus(-sigma * differences) / math.log(2.0)
    return (factors * costs).sum(dim=(1, 2))


def _weights_of_pairs(scores: Any, gains: Any, is_document: Any, mu: float) -> Any:
    """(μ δ_ij + |1/D_i - 1/D_j|) · |G_i - G_j| where i has the higher gain, else 0: lists × positions × positions."""
    import torch

    # Documents stand before the padding, and equal scores keep the order of the data.
    visible = scores.masked_fill(~is_document, -math.inf)
    ranks = visible.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    discounts = 1.0 / torch.log2(ranks.to(scores.dtype) + 2.0)
    between = (discounts.unsqueeze(2) - discounts.unsqueeze(1)).abs()
    distances = (ranks.unsqueeze(2) - ranks.unsqueeze(1)).abs().clamp(min=1).to(scores.dtype)
    steps = 1.0 / torch.log2(1.0 + distances) - 1.0 / torch.log2(2.0 + distances)
    more_gain = (gains.unsqueeze(2) - gains.unsqueeze(1)).clamp(min=0.0)
    both = is_document.unsqueeze(2) & is_document.unsqueeze(1)
    return (mu * steps + between) * more_gain * both
