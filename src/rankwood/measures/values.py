"""What a measure computes: a value per query, and which queries are empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rankwood.dtypes import Floats


@dataclass(frozen=True, eq=False)
class QueryValues:
    """One value per query, and whether the query is empty: nothing in it could be ranked well."""

    values: Floats
    is_empty: npt.NDArray[np.bool_]

    def with_empty(self, convention: float | str) -> QueryValues:
        """The values with those of empty queries replaced; ``skip`` makes them NaN."""
        replacement = np.nan if convention == "skip" else float(convention)
        return QueryValues(np.where(self.is_empty, replacement, self.values), self.is_empty)
