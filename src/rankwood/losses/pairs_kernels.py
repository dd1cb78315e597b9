"""The compiled half of ``pairs.py``."""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array


@kernel
def potentials_of_lists(
    first: int,
    last: int,
    offsets: Array,
    labels: Array,
    weights: Array,
    query_weights: Array,
    exponentials: Array,
    potentials: Array,
    losses: Array,
) -> None:
    """The potential of each place and the loss of each list, in two passes over the list.

    Places of a list stand by falling label. The pass down knows the sum over all better documents, the pass up that
    over all worse ones; a label's own documents join the sum when the next label begins.
    """
    for query in range(first, last):
        begin = offsets[query]
        end = offsets[query + 1]
        better = 0.0
        of_label = 0.0
        for place in range(begin, end):
            if place > begin and labels[place] != labels[place - 1]:
                better += of_label
                of_label = 0.0
            potentials[place] = (
                -query_weights[query] * weights[place] * exponentials[place] * better
            )
            of_label += weights[place] / exponentials[place]
        worse = 0.0
        of_label = 0.0
        loss = 0.0
        for place in range(end - 1, begin - 1, -1):
            if place < end - 1 and labels[place] != labels[place + 1]:
                worse += of_label
                of_label = 0.0
            won = query_weights[query] * weights[place] / exponentials[place] * worse
            potentials[place] += won
            loss += won
            of_label += weights[place] * exponentials[place]
        losses[query] = loss
