"""``BinnedData``: data binned once, for every tree of every model of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.binning.bins import CODE, MOST_BINS, Bins
from rankwood.binning.kept_codes import KeptCodes
from rankwood.binning.thresholds import checked_parameters, fit_bins
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Bytes, Rows
from rankwood.errors import DataError, ParameterError


@dataclass(frozen=True, eq=False, repr=False)
class BinnedData:
    """Ranking data with the code of every value.

    Parameters
    ----------
    codes
        uint8, features × rows, one contiguous column per feature; see ``Bins``. It may be a
        memory map.
    bins
        The cut points that gave the codes.
    data
        Labels, queries, weights and names, and the raw features.
    """

    codes: Bytes
    bins: Bins
    data: RankingData
    derived: dict[str, Any] = field(
        default_factory=dict, init=False
    )  # what others made of them, kept for the next

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        expected = (self.bins.n_features, self.data.n_documents)
        if codes.dtype != CODE or codes.shape != expected:
            raise DataError(
                f"codes must be uint8 of {expected[0]:,} features × {expected[1]:,} rows, "
                f"got {codes.dtype} of {' × '.join(f'{length:,}' for length in codes.shape)}."
            )
        if self.data.n_features != self.bins.n_features:
            raise DataError(
                f"the data have {self.data.n_features:,} features, "
                f"but the bins were made for {self.bins.n_features:,}."
            )
        object.__setattr__(self, "codes", _checks.read_only(np.ascontiguousarray(codes)))

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return int(self.codes.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.codes.shape[0])

    @property
    def n_bins(self) -> Rows:
        """Value bins of each feature, the one for missing values not counted."""
        return self.bins.n_value_bins

    def __reduce__(self) -> tuple[Any, ...]:
        return BinnedData, (self.codes, self.bins, self.data)

    def __repr__(self) -> str:
        return (
            f"BinnedData({self.n_rows:,} documents, {self.n_features:,} features, "
            f"at most {int(self.n_bins.max())} bins)"
        )


def bin_data(
    data: RankingData,
    *,
    max_bins: int = MOST_BINS,
    sample: int = 200_000,
    seed: int = 0,
    n_threads: int | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> BinnedData:
    """Bin the features of ``data``, so that every model of a run can share the work.

    Parameters
    ----------
    data
        Documents with their features.
    max_bins, sample, seed, n_threads
        As for ``fit_bins``.
    cache
        A folder to keep the codes in. They are memory-mapped, and so are those found there when
        they belong to the same features and parameters. Anything else in their place is
        noticed and made again.

    Examples
    --------
    >>> data = RankingData([[0.2], [0.9], [0.4], [None]], labels=[0, 2, 1, 0])
    >>> binned = bin_data(data)
    >>> binned.codes.tolist(), binned.n_bins.tolist()
    ([[0, 2, 1, 255]], [3])
    """
    if not isinstance(data, RankingData):
        raise ParameterError(
            f"data must be RankingData, got {type(data).__name__}. "
            "Make one with RankingData(features, labels, query_ids=...)."
        )

    max_bins, sample, seed = checked_parameters(max_bins, sample, seed)
    kept = None
    if cache is not None:
        parameters = {"max_bins": max_bins, "sample": sample, "seed": seed}
        kept = KeptCodes.of(Path(cache), data.features, parameters)
        found = kept.open()
        if found is not None:
            return BinnedData(*found, data)
    bins = fit_bins(data.features, max_bins=max_bins, sample=sample, seed=seed, n_threads=n_threads)
    codes = None if kept is None else kept.write(bins, n_threads)
    if codes is None:
        codes = bins.transform(data.features, n_threads)
    return BinnedData(codes, bins, data)
