"""When to stop boosting: the validation measure has not improved for a while."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(eq=False)
class EarlyStopping:
    """The measure after each round, and the best of them; of equal ones the first."""

    patience: int | None  # rounds without improvement; None never stops
    is_minimised: bool
    history: list[float] = field(default_factory=list)
    start: float = math.nan  # the measure before the first round, where that is a model too

    @property
    def best_iteration(self) -> int:
        """How many rounds gave the best value; 0 while there is none, or the start is best. NaN is never the best."""
        best, found = 0, self.start
        for place, value in enumerate(self.history):
            if not math.isnan(value) and (math.isnan(found) or self._is_better(value, found)):
                best, found = place + 1, value
        return best

    def is_over(self) -> bool:
        """Whether ``patience`` rounds have passed since the best one."""
        return (
            self.patience is not None and len(self.history) - self.best_iteration >= self.patience
        )

    def _is_better(self, value: float, than: float) -> bool:
        return value < than if self.is_minimised else value > than
