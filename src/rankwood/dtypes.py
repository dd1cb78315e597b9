"""The dtype of every kind of array, with the reason for it, and names for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FEATURE = np.float32  # half the memory traffic; other tree engines compare in float32 too
LABEL = np.float64  # real labels are allowed, and sums of them must be exact
SCORE = np.float64  # sums over hundreds of trees; ties must be real ties
WEIGHT = np.float64  # weights are summed
ROW = np.int64  # numpy's own index type
POSITION = np.int32  # where a document stood in the list that was shown; 1 is the top
OFFSET = np.int64  # first row of each query; data may have more than 2^31 rows
TEXT = np.uint8  # bytes of a text file

Array = npt.NDArray[Any]
Features = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
