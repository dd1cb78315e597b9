"""Corrections for having looked more than once: with twenty comparisons, one has p < 0.05 by chance.

Both keep the probability that any true null hypothesis of the family is rejected at the level. Holm's is never weaker
than Bonferroni's, and assumes no more. What has no p value (NaN) is no member of the family.
"""

from __future__ import annotations

import numpy as np

from rankwood.dtypes import Floats

CORRECTIONS = ("holm", "bonferroni", "none")


def adjusted(p_values: Floats, correction: str) -> Floats:
    """The p values of a family, made comparable with the level itself."""
    result = np.full(p_values.shape, np.nan)
    is_known = ~np.isnan(p_values)
    known = p_values[is_known]
    if correction == "bonferroni":
        known = np.minimum(known * known.size, 1.0)
    elif correction == "holm":
        known = _holm(known)
    result[is_known] = known
    return result


def _holm(p_values: Floats) -> Floats:
    """The smallest times their number, the next times one less, …; none below one that stood before it."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(p_values.size, 0, -1)
    result = np.empty(p_values.size)
    result[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return result
