"""The compiled half of ``neural.py``: one layer of a network, row by row."""

from __future__ import annotations

from rankwood._jit import kernel
from rankwood.dtypes import Array

SIDE_BY_SIDE = 8  # rows that a line of weights serves while it is at hand


@kernel
def layer_outputs(
    first: int,
    last: int,
    inputs: Array,
    weights: Array,
    biases: Array,
    is_hidden: bool,
    outputs: Array,
) -> None:
    """What the units of a layer give for each row: bias plus weighted inputs, cut at 0 if the layer is hidden.

    The inputs of a row are added in their order, whatever rows stand beside it, so that its score is always the same.
    Most outputs of a hidden layer are 0, and cost nothing in the next one.
    """
    n_units = biases.size
    for begin in range(first, last, SIDE_BY_SIDE):
        end = min(begin + SIDE_BY_SIDE, last)
        for row in range(begin, end):
            for unit in range(n_units):
                outputs[row, unit] = biases[unit]
        for place in range(inputs.shape[1]):
            for row in range(begin, end):
                value = inputs[row, place]
                if value != 0.0:
                    for unit in range(n_units):
                        outputs[row, unit] += value * weights[place, unit]
        if is_hidden:
            for row in range(begin, end):
                for unit in range(n_units):
                    outputs[row, unit] = max(outputs[row, unit], 0.0)
