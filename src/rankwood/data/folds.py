"""Folds: training, validation and test parts, from LETOR's folders or made from one data set.

::

    MQ2008/Fold1/train.txt    Fold2/…    …    Fold5/…
                 vali.txt
                 test.txt
"""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.data.reading import COMPRESSION_SUFFIXES, TABLE_SUFFIXES, is_table
from rankwood.data.splits import rows_of_queries, shuffled_queries
from rankwood.dtypes import Rows
from rankwood.errors import DataError, ParameterError

_FOLD = re.compile(r"fold[-_ ]?(\d+)", re.IGNORECASE)
_TEXT_SUFFIXES = (".txt", ".dat", ".letor", ".svm", ".svmlight", ".libsvm", "")
_NAMES = {  # what the parts are called, lower case and without suffixes
    "train": ("train", "training", "trainset", "trainingset"),
    "vali": ("vali", "valid", "validation", "valiset", "validset", "validationset", "dev"),
    "test": ("test", "testing", "testset", "testingset"),
}
_LAYOUT = (
    "Fold1, Fold2, … with train.txt, vali.txt and test.txt each (or these three files directly)"
)
_SHOWN = 8  # names listed in a message


class Fold(NamedTuple):
    """The three parts of one fold."""

    train: RankingData
    vali: RankingData
    test: RankingData


class Folds(Sequence[Fold]):
    """A sequence of folds, each read or cut when it is asked for, and not kept.

    Asking twice does the work twice; hold on to a fold that is used again.
    """

    def __init__(self, names: Sequence[str], makers: Sequence[Callable[[], Fold]]) -> None:
        self.names = tuple(names)
        self._makers = tuple(makers)

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, place: int) -> Fold: ...
    @overload
    def __getitem__(self, place: slice) -> Folds: ...
    def __getitem__(self, place: int | slice) -> Fold | Folds:
        if isinstance(place, slice):
            return Folds(self.names[place], self._makers[place])
        return self._makers[place]()

    def __repr__(self) -> str:
        return f"Folds({', '.join(self.names)})"


def read_folds(
    folder: str | os.PathLike[str],
    *,
    names: tuple[str, str, str] | None = None,
    **read_options: Any,
) -> Folds:
    """The folds of a collection in LETOR's layout; each is read when it is asked for.

    ``train, vali, test = read_folds("MQ2008")[0]`` reads three files. Parts may also be called
    trainingset, validation, validationset, valid, testset and the like, in any case; they may be
    compressed, and may be tables (Parquet, CSV, Arrow). A folder that holds the three files itself
    is one fold.

    Parameters
    ----------
    folder
        The folder with Fold1, Fold2, …
    names
        What training, validation and test files are called, without suffixes, where it is
        something else: ``("set1.train", "set1.valid", "set1.test")``.
    read_options
        Passed on to ``read_letor``, or to ``read_table`` for tables.

    Text files name only the features a row has, so the parts of a fold may differ in width. The
    narrower ones get the missing columns, filled with what ``absent=`` says: 0, or NaN.
    """
    files = fold_files(folder, names)
    makers = [functools.partial(_read_fold, paths, read_options) for paths in files.values()]
    return Folds(list(files), makers)


def fold_files(
    folder: str | os.PathLike[str], names: tuple[str, str, str] | None = None
) -> dict[str, list[Path]]:
    """The training, validation and test file of each fold, by the fold's name; nothing is read."""
    root = Path(folder)
    _refuse_missing_folder(root)
    known = _NAMES if names is None else _checked_names(names)
    folders = _fold_folders(root) or [root]
    files = {place: _files_of_parts(place, known) for place in folders}
    if folders == [root] and not any(files[root].values()):
        raise DataError(f"{root} holds no folds. Expected {_LAYOUT}; found {_listing(root)}.")
    for place, parts in files.items():
        _refuse_incomplete(place, parts, known)
    return {
        place.resolve().name: [paths[0] for paths in parts.values()]
        for place, parts in files.items()
    }


def make_folds(data: RankingData, n_folds: int = 5, *, seed: int | None = None) -> Folds:
    """Folds by the papers' rotation of ``n_folds`` parts s1, s2, … with equally many queries each.

    Of five, fold 1 trains on s1 s2 s3, validates on s4 and tests on s5; fold 2 trains on s2 s3 s4,
    validates on s5 and tests on s1; and so on round. Queries go into the parts in their order, or
    shuffled by ``seed``. Rows keep the caller's order. Each fold is cut when it is asked for.
    """
    n_folds = checks.whole_number("n_folds", n_folds, 3)
    if n_folds > data.n_queries:
        raise ParameterError(
            f"n_folds is {n_folds}, but there are only {data.n_queries} queries; a part needs one."
        )
    parts = np.array_split(shuffled_queries(data, seed, "folds"), n_folds)
    makers = [functools.partial(_cut_fold, data, parts, fold) for fold in range(n_folds)]
    return Folds([f"Fold{fold + 1}" for fold in range(n_folds)], makers)


def _cut_fold(data: RankingData, parts: list[Rows], fold: int) -> Fold:
    turned = parts[fold:] + parts[:fold]
    train = np.concatenate(turned[:-2])
    return Fold(*(rows_of_queries(data, queries) for queries in (train, turned[-2], turned[-1])))


def _refuse_missing_folder(root: Path) -> None:
    if root.is_dir():
        return
    if root.exists():
        raise DataError(f"{root} is a file. Pass the folder that holds {_LAYOUT}.")
    siblings = [path.name for path in root.parent.iterdir()] if root.parent.is_dir() else []
    near = difflib.get_close_matches(root.name, siblings, n=1)
    hint = f" Did you mean {root.with_name(near[0])}?" if near else ""
    raise DataError(f"there is no folder {root}.{hint}")


def _checked_names(names: Any) -> dict[str, tuple[str, ...]]:
    is_triple = isinstance(names, tuple | list) and len(names) == len(_NAMES)
    if not is_triple or not all(isinstance(name, str) and name for name in names):
        raise ParameterError(
            f"names must be three texts, of the training, validation and test files, got {names!r}."
        )
    return {part: (name.lower(),) for part, name in zip(_NAMES, names, strict=True)}


def _fold_folders(root: Path) -> list[Path]:
    """The folders named Fold1, fold-2, … by their number."""
    found: dict[int, Path] = {}
    for path in sorted(root.iterdir()):
        match = _FOLD.fullmatch(path.name)
        if match is None or not path.is_dir():
            continue
        number = int(match[1])
        if number in found:
            raise DataError(
                f"{root} has two folders for fold {number}: {found[number].name} and {path.name}."
            )
        found[number] = path
    return [found[number] for number in sorted(found)]


def _files_of_parts(folder: Path, known: dict[str, tuple[str, ...]]) -> dict[str, list[Path]]:
    """The files that could be each part."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    return {
        part: [path for path in files if _is_called(path, names)] for part, names in known.items()
    }


def _is_called(path: Path, names: tuple[str, ...]) -> bool:
    name = path.name.lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return any(
        name == f"{one}{suffix}" for one in names for suffix in _TEXT_SUFFIXES + TABLE_SUFFIXES
    )


def _refuse_incomplete(
    folder: Path, parts: dict[str, list[Path]], known: dict[str, tuple[str, ...]]
) -> None:
    for part, paths in parts.items():
        if len(paths) > 1:
            listed = " and ".join(path.name for path in paths)
            raise DataError(
                f"{folder} has {len(paths)} files for the {part} part: {listed}. "
                "Remove all but one, or say which with names=."
            )
        if not paths:
            raise DataError(
                f"{folder} has no file for the {part} part, such as {known[part][0]}.txt; found "
                f"{_listing(folder)}. If it has another name, pass names=(train, vali, test)."
            )


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    more = f", … ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "nothing"


def _read_fold(paths: Sequence[Path], options: dict[str, Any]) -> Fold:
    from rankwood.data.letor.text import read_letor
    from rankwood.data.tables.ranking import read_table

    parts = [(read_table if is_table(path) else read_letor)(path, **options) for path in paths]
    names = [part.feature_names for part in parts]
    if any(names):
        if len(set(names)) > 1:
            listed = ", ".join(path.name for path in paths)
            raise DataError(f"{paths[0].parent}: the features of {listed} are not the same.")
        return Fold(*parts)
    return Fold(*same_width(parts, str(options.get("absent", "zero"))))


def same_width(parts: Sequence[RankingData], absent: str) -> list[RankingData]:
    """The parts with as many columns as the widest: LETOR text may leave out the last features.

    ``absent`` says what the columns added hold, as for ``read_letor``.
    """
    width = max(part.n_features for part in parts)
    filler = np.nan if absent == "missing" else 0.0
    return [_widened(part, width, filler) for part in parts]


def _widened(data: RankingData, width: int, filler: float) -> RankingData:
    """The data with columns added on the right."""
    if data.n_features == width:
        return data
    features = np.full((data.n_documents, width), filler, np.float32)
    features[:, : data.n_features] = data.features
    return RankingData(
        features, data.labels, data.query_ids, data.doc_ids, data.row_weights, data.query_weights
    )
