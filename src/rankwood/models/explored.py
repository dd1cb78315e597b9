"""``ExploredTree``: the models that a search over boosting sequences has found, as arrays; and pictures of them.

Model 0 is the empty one. A model's parent has one weak hypothesis less, and a lower number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.dtypes import Array, Floats
from rankwood.errors import ModelError
from rankwood.models import model_checks

ARRAYS: dict[str, type[np.generic]] = {
    "parent": np.int32,
    "depth": np.int32,
    "f": np.float64,
    "f_hat": np.float64,
    "valid": np.float64,
    "constraint": np.int64,
    "round": np.int32,
}
FREE, NO_CONSTRAINT = -1, -2


@dataclass(frozen=True, eq=False)
class ExploredTree:
    """Models of a search, one per place of the arrays.

    Parameters
    ----------
    parent
        The model it was made from; -1 for the empty one. int32.
    depth
        How many weak hypotheses it has. int32.
    f
        What the search looked at: the measure of the model. float64.
    f_hat
        The best ``f`` on the way from the empty model to it. float64.
    valid
        The measure on the validation data; NaN where there are none. float64.
    constraint
        Under which its last hypothesis was fitted: the feature of a stump, a number that features are hashed from, -1
        for none; -2 for the empty model. int64.
    round
        In which it was found; 0 for the empty model. int32.
    """

    parent: Array
    depth: Array
    f: Floats
    f_hat: Floats
    valid: Floats
    constraint: Array
    round: Array

    def __post_init__(self) -> None:
        for name, dtype in ARRAYS.items():
            array = model_checks.typed(name, getattr(self, name), dtype)
            object.__setattr__(self, name, _checks.read_only(array))
        self._check()

    def __len__(self) -> int:
        return int(self.parent.size)

    def path(self, model: int) -> list[int]:
        """The models from the first hypothesis to ``model``; nothing for the empty one."""
        found = []
        while model > 0:
            found.append(model)
            model = int(self.parent[model])
        return found[::-1]

    @property
    def values(self) -> Floats:
        """What models are chosen by: the measure on the validation data, else ``f``."""
        return self.f if np.isnan(self.valid).all() else self.valid

    def __repr__(self) -> str:
        deepest = int(self.depth.max(initial=0))
        return f"<ExploredTree of {len(self):,} models, the longest of {deepest:,} hypotheses>"

    def text(self, most: int = 60) -> str:
        """The tree as indented lines, children under their parents, ``most`` models at most."""
        from rankwood.models.explored_drawing import as_text

        return as_text(self, most)

    def dot(self, most: int = 500) -> str:
        """The tree in the DOT language of Graphviz, its first ``most`` models."""
        from rankwood.models.explored_drawing import as_dot

        return as_dot(self, most)

    def svg(self, most: int = 2000) -> str:
        """A picture as SVG: hypotheses from left to right, better models darker, its first ``most`` models."""
        from rankwood.models.explored_drawing import as_svg

        return as_svg(self, most)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExploredTree):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=dtype is np.float64)
            for name, dtype in ARRAYS.items()
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __reduce__(self) -> tuple[Any, ...]:
        return ExploredTree, tuple(getattr(self, field.name) for field in fields(self))

    def _check(self) -> None:
        """Raise a ``ModelError`` that names the first thing wrong."""
        size = self.parent.size
        if size == 0:
            raise ModelError("an explored tree has at least the empty model.")
        for name in ARRAYS:
            if getattr(self, name).shape != (size,):
                raise ModelError(f"{name} must have one value for each of {size:,} models.")
        numbers = np.arange(size)
        if self.parent[0] != -1 or self.depth[0] != 0:
            raise ModelError("model 0 must be the empty one, with parent -1 and depth 0.")
        below = self.parent[1:]
        if (below < 0).any() or (below >= numbers[1:]).any():
            raise ModelError("a model's parent must have a lower number.")
        if (self.depth[1:] != self.depth[below] + 1).any():
            raise ModelError("a model must be one hypothesis deeper than its parent.")
        if (self.constraint < NO_CONSTRAINT).any():
            raise ModelError("a constraint must be -2 or greater.")


def shown(value: float) -> str:
    """A measure in a picture."""
    return "none" if math.isnan(value) else f"{value:.4f}"
