"""``Loss``: what a boosting method tells its trees.

The life of a loss, in the order the boosting loop calls it:

1. ``start()`` gives the constant that scores begin with.
2. ``targets(scores)`` gives what the next tree should fit, row by row, and with which weights. A leaf then predicts
   ``Σ weight · target / (Σ weight + l2)``: for squared loss the mean residual; for a second-order loss, with
   ``target = -gradient / hessian`` and ``weight = hessian``, the Newton step.
3. Scores move by the learning rate times what the tree predicts, and 2 is called again.
"""

from __future__ import annotations

from typing import Protocol

from rankwood.dtypes import Floats


class Loss(Protocol):
    """A loss over the rows of one training set."""

    def start(self) -> float:
        """The score of every row before the first tree."""
        ...

    def targets(self, scores: Floats) -> tuple[Floats, Floats | None]:
        """What the next tree fits, and the weight of each row; None where all weigh alike."""
        ...
