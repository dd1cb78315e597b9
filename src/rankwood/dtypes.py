"""The dtype of everything, with the reason. Nothing else in the package names a dtype on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FEATURE = (
    np.float32
)  # half the memory traffic; tree engines that load our models compare in float32
LABEL = np.float64  # real labels are allowed, and sums of them must be exact
SCORE = np.float64  # sums over hundreds of trees; ties must be real ties
WEIGHT = np.float64  # weights are summed
ROW = np.int64  # row numbers index numpy arrays, whose index type this is
OFFSET = np.int64  # first row of each query; a data set may have more than 2^31 rows
TEXT = np.uint8  # bytes of a file as the parser sees them

Array = npt.NDArray[Any]
Features = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
