"""Whether two rankings of the same queries differ by more than chance."""

from __future__ import annotations

import math

import numpy as np

from rankwood.dtypes import Floats


def paired_t_test(differences: Floats) -> float:
    """The p value of a paired t test over queries: 1 where nothing differs, NaN where there are not two queries."""
    from scipy.special import stdtr  # heavy to load

    counted = differences[~np.isnan(differences)]
    if counted.size < 2:
        return float("nan")
    mean = float(counted.mean())
    error = float(counted.std(ddof=1)) / math.sqrt(counted.size)
    if error == 0.0 or (counted == counted[0]).all():  # no spread: certain, one way or the other
        return 1.0 if counted[0] == 0.0 else 0.0
    return float(2.0 * stdtr(counted.size - 1, -abs(mean) / error))
