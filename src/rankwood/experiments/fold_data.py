"""The data of a fold where a cell needs them: read once, binned once, the test part last.

A worker keeps one fold at a time. Features that only the test part has are left out, and those that it lacks are
added: what training sees must not depend on the test part in any way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood.binning.binned import BinnedData, bin_data
from rankwood.data.dataset import RankingData
from rankwood.data.folds import Fold, Folds, make_folds, same_width
from rankwood.data.normalise import normalise_per_query
from rankwood.data.reading import ReadOptions, read_data
from rankwood.data.splits import split_queries
from rankwood.experiments.settings import DataSource

BUNDLED = {"chess": None, "chess-B84": "B84", "chess-E97": "E97"}  # name -> opening


class FoldData:
    """Training, validation and test part of one fold."""

    def __init__(self, source: DataSource, fold: str, wholes: Wholes, threads: int | None) -> None:
        self._source = source
        self._files = next(one.files for one in source.folds if one.name == fold)
        self._threads = threads
        self._binned: dict[int, BinnedData] = {}
        self._test: RankingData | None = None
        if self._files:
            known = [part for part in ("train", "vali") if part in self._files]
            read = [self._read(self._files[part]) for part in known]
            if not any(part.feature_names for part in read):
                read = same_width(read, str(source.reading.get("absent", "zero")))
        else:
            read = list(wholes.parts(source, fold))
            self._test = self._prepared(read.pop())
        read = [self._prepared(part) for part in read]
        self.train = read[0]
        self.vali = read[1] if len(read) > 1 else None

    def test(self) -> RankingData:
        """The test part; a file is read when this is first called."""
        if self._test is None:
            found = self._read(self._files["test"])
            self._test = self._prepared(self._as_wide_as_train(found))
        return self._test

    def for_training(self, max_bins: int | None) -> RankingData | BinnedData:
        """The training part, binned where an estimator wants bins; all that want the same share them."""
        if max_bins is None or self._has_rows_without_weight():
            return self.train
        if max_bins not in self._binned:
            self._binned[max_bins] = bin_data(
                self.train, max_bins=max_bins, n_threads=self._threads
            )
        return self._binned[max_bins]

    def _has_rows_without_weight(self) -> bool:
        """Cut points must not depend on rows that do not count; an estimator sees to it when it bins."""
        weights = (self.train.row_weights, self.train.query_weights)
        return any(one is not None and one.min(initial=1.0) <= 0 for one in weights)

    def _read(self, path: str) -> RankingData:
        return read_data(path, ReadOptions(**self._source.reading, n_threads=self._threads))

    def _prepared(self, data: RankingData) -> RankingData:
        if self._source.binarise is not None:
            relevant = np.asarray(data.labels >= self._source.binarise, np.float64)
            data = dataclasses.replace(data, labels=relevant)
        method = self._source.normalise
        return data if method is None else normalise_per_query(data, method)

    def _as_wide_as_train(self, data: RankingData) -> RankingData:
        width = self.train.n_features
        if data.feature_names or data.n_features == width:
            return data
        if data.n_features < width:
            absent = str(self._source.reading.get("absent", "zero"))
            return same_width([data, self.train], absent)[0]
        features = np.ascontiguousarray(data.features[:, :width])
        others = (data.doc_ids, data.row_weights, data.query_weights)
        return RankingData(features, data.labels, data.query_ids, *others)


class Wholes:
    """The data set that folds are cut from, kept while it is the same."""

    def __init__(self) -> None:
        self._source: DataSource | None = None
        self._data: Any = None

    def parts(self, source: DataSource, fold: str) -> Sequence[RankingData]:
        """Training, validation (if there is one) and test part of a fold."""
        if self._source != source:
            self._data, self._source = None, source
            self._data = load_whole(source)
        folds: Any = self._data
        if "folds" in source.cut:
            folds = make_folds(self._data, source.cut["folds"], seed=source.cut["seed"])
        elif "split" in source.cut:
            return split_queries(self._data, source.cut["split"], seed=source.cut["seed"])
        if isinstance(folds, Folds):
            return folds[folds.names.index(fold)]
        parts: Sequence[RankingData] = folds
        return parts


class FoldCache:
    """The fold that a worker has in memory; asking for another one lets it go."""

    def __init__(self) -> None:
        self._key: Any = None
        self._data: FoldData | None = None
        self._wholes = Wholes()

    def get(self, source: DataSource, fold: str, digest: str, threads: int | None) -> FoldData:
        """The data of a fold; ``digest`` tells apart what has the same name."""
        key = (source, fold, digest)
        if self._data is None or self._key != key:
            self._data = None  # before the next one is read
            self._data = FoldData(source, fold, self._wholes, threads)
            self._key = key
        return self._data


def load_whole(source: DataSource) -> Any:
    """The data set that a source names: read, generated, or one that comes with Rankwood."""
    if "data" in source.whole:
        return read_data(source.whole["data"], ReadOptions(**source.reading))
    if "bundled" in source.whole:
        return _load_bundled(source.whole["bundled"], in_parts=not source.cut)
    from rankwood.data.synthetic import make_ranking

    return make_ranking(**source.whole["generate"])


def _load_bundled(name: str, in_parts: bool) -> RankingData | Fold:
    """A collection that comes with Rankwood: all of it, or the parts that it has of its own."""
    from rankwood.data.datasets import chess

    opening = BUNDLED[name]
    if not in_parts:
        return chess(opening)
    return Fold(*(chess(opening, part) for part in Fold._fields))
