"""Losses given by gradient and hessian, as Newton's step takes them; among them a function of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import ParameterError

# A function of (scores, data) that gives the gradient and the hessian of a loss to be minimised, row by row.
Gradients = Callable[[Floats, RankingData], tuple[Any, Any]]

_LEAST_HESSIAN = 1e-100  # below, the quotient may be no number; such a row has no say


def newton_targets(gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
    """``-gradient / hessian`` with weight ``hessian``: a leaf is then Newton's step ``-Σ gradient / (Σ hessian + l2)``.

    A row without hessian, such as a document that is in no pair, has target 0 and weight 0.
    """
    has_say = hessian >= _LEAST_HESSIAN
    target = np.divide(gradient, hessian, out=np.zeros_like(gradient), where=has_say)
    np.negative(target, out=target)
    return target, hessian if has_say.all() else np.where(has_say, hessian, 0.0)


@dataclass(frozen=True, eq=False)
class OwnLoss:
    """A loss whose gradient and hessian a user's function gives; weights of rows multiply both."""

    function: Gradients
    data: RankingData
    weights: Floats | None = None

    def start(self) -> float:
        """Scores begin at 0."""
        return 0.0

    def gradients(self, scores: Floats) -> tuple[Floats, Floats]:
        """What the function gives, checked and weighed."""
        found = self.function(_checks.read_only(scores), self.data)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ParameterError(
                "loss must give two arrays, the gradient and the hessian of each row; "
                f"got {type(found).__name__}."
            )
        gradient, hessian = (
            _checks.vector(f"the loss's {name}", values, self.data.n_documents)
            for name, values in zip(("gradient", "hessian"), found, strict=True)
        )
        _refuse_bends(gradient, hessian)
        if self.weights is None:
            return gradient, hessian
        return gradient * self.weights, hessian * self.weights

    def targets(self, scores: Floats) -> tuple[Floats, Floats | None]:
        """Newton's targets and weights."""
        return newton_targets(*self.gradients(scores))


def _refuse_bends(gradient: Floats, hessian: Floats) -> None:
    """Raise where Newton's step leads nowhere: a negative hessian, or none where there is a gradient."""
    is_wrong = (hessian < 0.0) | ((hessian == 0.0) & (gradient != 0.0))
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise ParameterError(
            f"the loss's hessian[{row}] is {float(hessian[row]):g} where the gradient is "
            f"{float(gradient[row]):g}. It must be positive wherever the gradient is not 0; "
            "a loss without one can give ones, which makes leaves mean gradients."
        )
