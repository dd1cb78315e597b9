"""Which features a node looks at."""

from __future__ import annotations

import numpy as np

from rankwood._jit import kernel
from rankwood.trees.state_kernels import uniform


@kernel
def draw_features(path, position, n_features, candidates, keys, chosen):
    """Fill ``chosen`` with features in ascending order; gives how many there are."""
    if 0 <= position < candidates.given.size:
        chosen[0] = candidates.given[position]
        return np.int64(1)
    if chosen.size == n_features:
        for feature in range(n_features):
            chosen[feature] = feature
        return np.int64(n_features)
    if candidates.probability.size > 0:
        return draw_by_probability(path, candidates.probability, keys, chosen)
    return draw_uniformly(path, n_features, chosen)


@kernel
def draw_uniformly(path, n_features, chosen):
    """Selection sampling (Knuth's algorithm S): every set of ``chosen.size`` features is as likely."""
    n_chosen = 0
    for feature in range(n_features):
        if uniform(path, feature) * (n_features - feature) < chosen.size - n_chosen:
            chosen[n_chosen] = feature
            n_chosen += 1
    return np.int64(n_chosen)


@kernel
def draw_by_probability(path, probability, keys, chosen):
    """Without replacement, each draw in proportion to what is left (Efraimidis and Spirakis' keys)."""
    for feature in range(probability.size):
        draw = uniform(path, feature)
        is_possible = probability[feature] > 0.0
        keys[feature] = -np.log1p(-draw) / probability[feature] if is_possible else np.inf
    n_chosen = 0
    for _ in range(chosen.size):
        least = np.argmin(keys)
        if keys[least] == np.inf:
            break
        keys[least] = np.inf
        place = n_chosen
        while place > 0 and chosen[place - 1] > least:  # keep them ascending
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = least
        n_chosen += 1
    return np.int64(n_chosen)
