"""``read_folds`` and ``make_folds``: training, validation and test parts for cross-validation.

``read_folds`` reads the folders of LETOR's collections::

    MQ2008/Fold1/train.txt    Fold2/…    …    Fold5/…
                 vali.txt
                 test.txt

``make_folds`` divides one data set by query.
"""

from __future__ import annotations

import dataclasses
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
from rankwood.data.letor.text import read_letor
from rankwood.data.sources import PART_NAMES, TABLE_SUFFIXES, is_table, uncompressed_name
from rankwood.data.splits import rows_of_queries, shuffled_queries
from rankwood.data.tables.ranking import read_table
from rankwood.dtypes import Rows
from rankwood.errors import DataError, ParameterError, warn_of_former_name

_FOLD = re.compile(r"fold[-_ ]?(\d+)", re.IGNORECASE)
_TEXT_SUFFIXES = (".txt", ".dat", ".letor", ".svm", ".svmlight", ".libsvm", "")
_LAYOUT = (
    "Fold1, Fold2, … with train.txt, vali.txt and test.txt each (or these three files directly)"
)
_SHOWN = 8  # names listed in a message


class Fold(NamedTuple):
    """The three parts of one fold."""

    train: RankingData
    valid: RankingData
    test: RankingData

    @property
    def vali(self) -> RankingData:
        """The former name of ``valid``."""
        warn_of_former_name("Fold", "vali", "valid")
        return self.valid


class Folds(Sequence[Fold]):
    """A sequence of folds, each read or created on access and not stored.

    Accessing a fold twice does the work twice; keep a reference to a fold that is used again.
    """

    def __init__(self, names: Sequence[str], makers: Sequence[Callable[[], Fold]]) -> None:
        self.names = tuple(names)
        self._makers = tuple(makers)

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> Fold: ...
    @overload
    def __getitem__(self, index: slice) -> Folds: ...
    def __getitem__(self, index: int | slice) -> Fold | Folds:
        if isinstance(index, slice):
            return Folds(self.names[index], self._makers[index])
        return self._makers[index]()

    def __repr__(self) -> str:
        return f"Folds({', '.join(self.names)})"


def read_folds(
    folder: str | os.PathLike[str],
    *,
    names: tuple[str, str, str] | None = None,
    **read_options: Any,
) -> Folds:
    """The folds of a collection in LETOR's layout; each is read on access.

    ``train, valid, test = read_folds("MQ2008")[0]`` reads three files. Parts may also be called
    trainingset, validation, validationset, valid, testset and the like, in any case; they may be
    compressed, and may be tables (Parquet, CSV, Arrow). A folder that holds the three files itself
    is one fold.

    Parameters
    ----------
    folder
        The folder with Fold1, Fold2, …
    names
        The names of training, validation and test files without suffixes, if they differ from the
        usual ones: ``("set1.train", "set1.valid", "set1.test")``.
    read_options
        Passed on to ``read_letor``, or to ``read_table`` for tables.

    Text files contain only the features a row has, so the parts of a fold may differ in width. The
    narrower ones get the missing columns, filled according to ``absent=`` with 0 or NaN.
    """
    files = fold_files(folder, names)
    makers = [functools.partial(_read_fold, paths, read_options) for paths in files.values()]
    return Folds(list(files), makers)


def make_folds(data: RankingData, n_folds: int = 5, *, seed: int | None = None) -> Folds:
    """Folds by rotation of ``n_folds`` parts s1, s2, … with equally many queries each, as in the papers.

    Of five, fold 1 trains on s1 s2 s3, validates on s4 and tests on s5; fold 2 trains on s2 s3 s4,
    validates on s5 and tests on s1; and so on. Queries go into the parts in their order, or
    shuffled by ``seed``. Rows keep the caller's order. Each fold is created on access.
    """
    n_folds = checks.whole_number("n_folds", n_folds, 3)
    if n_folds > data.n_queries:
        raise ParameterError(
            f"n_folds is {n_folds}, but there are only {data.n_queries} queries; a part needs one."
        )
    parts = np.array_split(shuffled_queries(data, seed, "folds"), n_folds)
    makers = [functools.partial(_cut_fold, data, parts, fold) for fold in range(n_folds)]
    return Folds([f"Fold{fold + 1}" for fold in range(n_folds)], makers)


def fold_files(
    folder: str | os.PathLike[str], names: tuple[str, str, str] | None = None
) -> dict[str, list[Path]]:
    """The training, validation and test file of each fold, by the fold's name; nothing is read."""
    root = Path(folder)
    refuse_missing_folder(root)
    known = PART_NAMES if names is None else _checked_names(names)
    folders = fold_folders(root) or [root]
    files = {fold: files_of_parts(fold, known) for fold in folders}
    if folders == [root] and not any(files[root].values()):
        raise DataError(f"{root} holds no folds. Expected {_LAYOUT}; found {listing(root)}.")
    for fold, parts in files.items():
        refuse_incomplete(fold, parts, known)
    return {
        folder_name(fold): [paths[0] for paths in parts.values()] for fold, parts in files.items()
    }


def folder_name(folder: Path) -> str:
    """The name that a folder is called by; a link keeps its own, so that two links to one folder are two folds."""
    return Path(os.path.abspath(folder)).name  # Path.absolute() leaves .. as it is


def same_width(parts: Sequence[RankingData], absent: str) -> list[RankingData]:
    """The parts with as many columns as the widest, since LETOR text may leave out the last features.

    ``absent`` determines the value of added columns, as for ``read_letor``.
    """
    width = max(part.n_features for part in parts)
    filler = np.nan if absent == "missing" else 0.0
    return [_widened(part, width, filler) for part in parts]


def _cut_fold(data: RankingData, parts: list[Rows], fold: int) -> Fold:
    turned = parts[fold:] + parts[:fold]
    train = np.concatenate(turned[:-2])
    return Fold(*(rows_of_queries(data, queries) for queries in (train, turned[-2], turned[-1])))


def _read_fold(paths: Sequence[Path], options: dict[str, Any]) -> Fold:
    parts = [(read_table if is_table(path) else read_letor)(path, **options) for path in paths]
    names = [part.feature_names for part in parts]
    if any(names):
        if len(set(names)) > 1:
            listed = ", ".join(path.name for path in paths)
            raise DataError(f"{paths[0].parent}: the features of {listed} are not the same.")
        return Fold(*parts)
    return Fold(*same_width(parts, str(options.get("absent", "zero"))))


def _widened(data: RankingData, width: int, filler: float) -> RankingData:
    """The data with columns added on the right."""
    if data.n_features == width:
        return data
    features = np.full((data.n_documents, width), filler, np.float32)
    features[:, : data.n_features] = data.features
    widened = dataclasses.replace(data, features=features, feature_names=None)
    return widened.with_absent(data.absent)


def refuse_missing_folder(root: Path) -> None:
    """Raise if there is no such folder, with the name of one that is spelt much like it."""
    if root.is_dir():
        return
    if root.exists():
        raise DataError(f"{root} is a file. Pass the folder that holds {_LAYOUT}.")
    siblings = [path.name for path in root.parent.iterdir()] if root.parent.is_dir() else []
    near = difflib.get_close_matches(root.name, siblings, n=1)
    hint = f" Did you mean {root.with_name(near[0])}?" if near else ""
    raise DataError(f"there is no folder {root}.{hint}")


def _checked_names(names: Any) -> dict[str, tuple[str, ...]]:
    is_triple = isinstance(names, tuple | list) and len(names) == len(PART_NAMES)
    if not is_triple or not all(isinstance(name, str) and name for name in names):
        raise ParameterError(
            f"names must be three texts, of the training, validation and test files, got {names!r}."
        )
    return {part: (name.lower(),) for part, name in zip(PART_NAMES, names, strict=True)}


def fold_folders(root: Path) -> list[Path]:
    """The folders named Fold1, fold-2, … by their number."""
    folder_of: dict[int, Path] = {}
    for path in sorted(root.iterdir()):
        match = _FOLD.fullmatch(path.name)
        if match is None or not path.is_dir():
            continue
        number = int(match[1])
        if number in folder_of:
            raise DataError(
                f"{root} has two folders for fold {number}: {folder_of[number].name} and {path.name}."
            )
        folder_of[number] = path
    return [folder_of[number] for number in sorted(folder_of)]


def files_of_parts(folder: Path, known: dict[str, tuple[str, ...]]) -> dict[str, list[Path]]:
    """The candidate files of each part."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    return {
        part: [path for path in files if _is_called(path, names)] for part, names in known.items()
    }


def _is_called(path: Path, names: tuple[str, ...]) -> bool:
    name = uncompressed_name(path)
    return any(
        name == f"{one}{suffix}" for one in names for suffix in _TEXT_SUFFIXES + TABLE_SUFFIXES
    )


def refuse_incomplete(
    folder: Path, parts: dict[str, list[Path]], known: dict[str, tuple[str, ...]]
) -> None:
    """Raise if a part has no file, or more than one."""
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
                f"{listing(folder)}. If it has another name, pass names=(train, valid, test)."
            )


def listing(folder: Path) -> str:
    """The first names in a folder, for a message."""
    names = sorted(path.name for path in folder.iterdir())
    more = f", … ({len(names) - _SHOWN} more)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "nothing"
