"""Kendall's tau between scores and labels.

Tau-b, which corrects for ties on either side: (right pairs - wrong pairs) / √(pairs untied in score
· pairs untied in label). It needs at least two different scores and two different labels; a query
without them is empty.
"""

from __future__ import annotations

import numpy as np

from rankwood import _checks
from rankwood.measures.measure import Measure
from rankwood.measures.ranking import Lists, order, run_lists
from rankwood.measures.values import QueryValues


def tau(measure: Measure, lists: Lists) -> QueryValues:  # noqa: ARG001 - one form for all measures
    """Tau-b of each query's scores and labels."""
    from rankwood.measures.correlation_kernels import kendall_taus

    by_label = lists.ideal().order
    scores = _checks.read_only(lists.scores[by_label])
    labels = lists.labels[by_label]
    # A stable sort by score of what is sorted by label: equal scores stand by descending label.
    by_score = order(scores, lists.offsets, lists.n_threads).order
    ranked_labels = labels[by_score]
    taus = np.empty(lists.n_queries, np.float64)
    run_lists(
        kendall_taus,
        lists.offsets,
        _checks.read_only(scores[by_score]),
        _checks.read_only(ranked_labels),
        _checks.read_only(labels),
        ranked_labels.copy(),
        np.empty_like(ranked_labels),
        taus,
        n_threads=lists.n_threads,
    )
    return QueryValues(np.clip(taus, -1.0, 1.0), np.isnan(taus))
