"""With as many bins as values, our tree is scikit-learn's exact best-first tree."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from rankwood.binning.binned import bin_data
from rankwood.data.dataset import RankingData
from rankwood.trees.grower import Growth, Policies, grow_tree
from rankwood.trees.row_order import as_matrix


@pytest.mark.parametrize("seed", range(25))
def test_splits_and_values_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_features = int(rng.integers(5, 400)), int(rng.integers(1, 8))
    features = rng.integers(0, rng.integers(2, 60), (n_rows, n_features)).astype(np.float32)
    targets = rng.normal(size=n_rows) + 0.1 * features[:, 0]  # real numbers: no two gains are tied
    max_leaves, min_leaf = int(rng.integers(2, 30)), int(rng.integers(1, 6))
    peer = DecisionTreeRegressor(
        max_leaf_nodes=max_leaves, min_samples_leaf=min_leaf, random_state=0
    )
    peer.fit(features, targets)
    binned = bin_data(RankingData(features, np.zeros(n_rows)))
    policies = Policies(Growth(max_leaves=max_leaves, min_leaf=min_leaf))
    tree = grow_tree(as_matrix(binned.codes, binned.bins), targets, policies)
    assert tree.n_leaves == peer.get_n_leaves()
    np.testing.assert_allclose(tree.value[tree.leaf_of_row], peer.predict(features), atol=1e-6)
    # The same rows in the same leaves. Thresholds may differ where no row is: scikit-learn takes the middle between two
    # values of the node, we between two values of the data; and so may features that cut a node alike.
    pairs = set(zip(tree.leaf_of_row.tolist(), peer.apply(features).tolist(), strict=True))
    assert len(pairs) == tree.n_leaves
