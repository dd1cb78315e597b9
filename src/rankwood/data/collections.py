"""``open_collection`` and ``available``: the public collections of learning to rank, from a folder with their files.

Each ``Collection`` of ``COLLECTIONS`` has the names of its files, how they must be read, and the counts it should
have. A count that could not be confirmed, or that differs between releases, is None and is not checked. The
collections themselves may not be passed on, so that none comes with Rankwood.

    Fold1/train.txt, vali.txt, test.txt        MSLR-WEB, MQ2007, MQ2008, and LETOR 3.0 (trainingset.txt, …)
    set1.train.txt, set1.valid.txt, …          Yahoo
    full/train.txt, test.txt                   Istella LETOR, which has no validation part
    sample/train.txt, vali.txt, test.txt       Istella-S
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from rankwood._core import checks
from rankwood.data.dataset import RankingData
from rankwood.data.letor.text import read_letor
from rankwood.data.sources import PART_NAMES, is_table
from rankwood.data.splits import (
    Fold,
    Folds,
    files_of_parts,
    fold_folders,
    folder_name,
    listing,
    refuse_incomplete,
    refuse_missing_folder,
    same_width,
    split_queries,
)
from rankwood.data.tables import read_table
from rankwood.errors import DataError, DataWarning, UnknownName

CHECKS = ("error", "warn", "off")
_DEEPEST = 3  # folders below the one given that are searched
_SHOWN = 8  # folders listed in a message
_VALID_SHARE = 0.2  # of the training queries, where a collection has no validation part
_HUGE_IS_MISSING = {"overflow": "missing"}


@dataclass(frozen=True)
class Collection:
    """A public collection: what its files are called, how they are read, and what they should hold.

    ``queries`` and ``documents`` are those of all parts of a fold together; every fold has the whole collection.
    """

    name: str
    title: str
    description: str
    source: str
    layout: str
    folders: tuple[str, ...]  # what its folder is called, in lower case
    features: tuple[int, ...]  # several where releases differ
    greatest_label: int | None  # labels are whole numbers from 0 to it; None: not confirmed
    n_folds: int = 5
    queries: int | None = None
    documents: int | None = None
    part_queries: Mapping[str, int] = field(default_factory=dict)
    part_documents: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: PART_NAMES)
    others: tuple[str, ...] = ()  # folders beside its own that hold something else
    reading: Mapping[str, Any] = field(default_factory=dict)  # options of read_letor
    notes: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts it has: train, valid and test, or no valid."""
        return tuple(self.names)

    def __str__(self) -> str:
        counts = [
            f"{self.n_folds} folds" if self.n_folds > 1 else "1 fold",
            *(f"{count:,} {what}" for what, count in self.counts().items() if count is not None),
            f"{' or '.join(map(str, self.features))} features",
            *([] if self.greatest_label is None else [f"labels 0 to {self.greatest_label}"]),
        ]
        return f"{self.name}: {self.title}, {', '.join(counts)}. {self.description}"

    def counts(self) -> dict[str, int | None]:
        """The number of queries and documents, None where it is not checked."""
        return {"queries": self.queries, "documents": self.documents}


class PartCounts(NamedTuple):
    """What is checked of a part."""

    queries: int
    documents: int
    features: int
    labels: tuple[float, ...]

    @classmethod
    def of(cls, data: RankingData) -> PartCounts:
        """The counts of some data."""
        labels = tuple(np.unique(data.labels).tolist())
        return cls(data.n_queries, data.n_documents, data.n_features, labels)


def _mslr(size: str, queries: int, documents: int, description: str) -> Collection:
    return Collection(
        name=f"mslr-web{size}",
        title=f"MSLR-WEB{size.upper()}",
        description=description,
        source='Microsoft Research, "Microsoft Learning to Rank Datasets"',
        layout="Fold1 … Fold5 with train.txt, vali.txt, test.txt",
        folders=(f"mslr-web{size}", f"web{size}", f"mslr{size}"),
        features=(136,),
        greatest_label=4,
        queries=queries,
        documents=documents,
    )


def _million_query(year: int, queries: int, documents: int) -> Collection:
    return Collection(
        name=f"mq{year}",
        title=f"MQ{year}",
        description=f"The supervised part of LETOR 4.0 for the Million Query track of TREC {year}.",
        source="Microsoft Research, LETOR 4.0",
        layout="Fold1 … Fold5 with train.txt, vali.txt, test.txt",
        folders=(f"mq{year}",),
        features=(46,),
        greatest_label=2,
        queries=queries,
        documents=documents,
        others=tuple(f"mq{year}-{setting}" for setting in ("semi", "list", "agg")),
        notes=f"MQ{year}-semi, -list and -agg are other data. NULL, in one of its versions, is a missing value.",
    )


def _letor3(
    name: str, task: str, queries: int | None, features: tuple[int, ...] = (64,)
) -> Collection:
    kind, year = name[:2], name[2:]
    return Collection(
        name=name,
        title=name.upper(),
        description=f"{task} of TREC {year}, on pages of .gov.",
        source="Microsoft Research, LETOR 3.0",
        layout="Fold1 … Fold5 with trainingset.txt, validationset.txt, testset.txt",
        folders=(name, f"{year}_{kind}_dataset", f"{kind}-{year}", f"{kind}_{year}"),
        features=features,
        greatest_label=1 if kind == "td" else None,
        queries=queries,
        notes="Feature_null, Feature_min and QueryLevelNorm are versions of it; NULL is a missing value."
        + (" LETOR 2.0 has 44 features, 3.0 has 64." if 44 in features else ""),
    )


def _yahoo(number: int, queries: tuple[int, ...], documents: tuple[int, ...]) -> Collection:
    files = {"train": "train", "valid": "valid", "test": "test"}
    used = {1: 519, 2: 596}[number]
    return Collection(
        name=f"yahoo-set{number}",
        title=f"Yahoo! Learning to Rank Challenge, set {number}",
        description=f"Web search of one country; {used} of the 700 features of both sets are used, the others are 0.",
        source="Yahoo Webscope, C14B",
        layout=f"set{number}.train.txt, set{number}.valid.txt, set{number}.test.txt",
        folders=("ltrc_yahoo", "yahoo", "webscope_c14b"),
        features=(700,),
        greatest_label=4,
        n_folds=1,
        queries=sum(queries),
        documents=sum(documents),
        part_queries=dict(zip(files, queries, strict=True)),
        part_documents=dict(zip(files, documents, strict=True)),
        names={part: (f"set{number}.{name}",) for part, name in files.items()},
        reading={"n_features": 700},  # rows leave out what is 0, the last features too
    )


def _istella(name: str, title: str, description: str, **others: Any) -> Collection:
    common: dict[str, Any] = {
        "source": "Istella (istella.ai), for use that is not commercial",
        "layout": "train.txt, vali.txt, test.txt",
        "folders": (name,),
        "features": (220,),
        "greatest_label": 4,
        "n_folds": 1,
        "reading": _HUGE_IS_MISSING,
        "notes": "1.79e308 stands for a value that is not known, and is read as missing.",
    }
    return Collection(name=name, title=title, description=description, **{**common, **others})


COLLECTIONS = {
    one.name: one
    for one in (
        _mslr("10k", 10_000, 1_200_192, "A sample of the queries of MSLR-WEB30K."),
        _mslr("30k", 31_531, 3_771_125, "Queries and pages of a commercial web search engine."),
        _istella(
            "istella",
            "Istella LETOR",
            "Queries of an Italian web search engine, with all documents.",
            layout="full/train.txt, test.txt; there is no vali.txt",
            folders=("istella-letor", "istella", "full"),
            queries=33_018,
            documents=10_454_629,
            part_queries={"train": 23_219, "test": 9_799},
            names={part: PART_NAMES[part] for part in ("train", "test")},
        ),
        _istella(
            "istella-s",
            "Istella-S LETOR",
            "The queries of Istella LETOR with a sample of the irrelevant documents.",
            part_queries={"train": 19_245, "valid": 7_211, "test": 6_562},
            part_documents={"train": 2_043_304, "valid": 684_076, "test": 681_250},
            queries=33_018,
            documents=3_408_630,
            layout="sample/train.txt, vali.txt, test.txt",
            folders=("istella-s-letor", "istella-s", "sample"),
        ),
        _istella(
            "istella-x",
            "Istella-X LETOR",
            "The features of Istella LETOR, with more documents per query.",
            folders=("istella-x-letor", "istella-x"),
            greatest_label=None,
            documents=26_791_447,
        ),
        _istella(
            "istella22",
            "Istella22",
            "Queries and documents of Istella with features and, elsewhere, their texts.",
        ),
        _yahoo(1, (19_944, 2_994, 6_983), (473_134, 71_083, 165_660)),
        _yahoo(2, (1_266, 1_266, 3_798), (34_815, 34_881, 103_174)),
        _million_query(2007, 1_692, 69_623),
        _million_query(2008, 784, 15_211),
        Collection(
            name="ohsumed",
            title="OHSUMED",
            description="Searches of MEDLINE by physicians; three grades.",
            source="Microsoft Research, LETOR 3.0",
            layout="Fold1 … Fold5 with trainingset.txt, validationset.txt, testset.txt",
            folders=("ohsumed",),
            features=(45, 25),
            greatest_label=2,
            queries=106,
            notes="LETOR 2.0 has 25 features, 3.0 has 45. NULL, in one of its versions, is a missing value.",
        ),
        _letor3("td2003", "Topic distillation", 50, (64, 44)),
        _letor3("td2004", "Topic distillation", 75, (64, 44)),
        _letor3("hp2003", "Homepage finding", None),
        _letor3("hp2004", "Homepage finding", 75),
        _letor3("np2003", "Named page finding", None),
        _letor3("np2004", "Named page finding", 75),
    )
}


def available() -> dict[str, Collection]:
    """The public collections that ``open`` knows, by name; ``print(available()["mq2008"])`` describes one."""
    return dict(COLLECTIONS)


def open_collection(
    name: str,
    path: str | os.PathLike[str],
    *,
    check: Literal["error", "warn", "off"] = "error",
    **read_options: Any,
) -> Folds:
    """The folds of a public collection in the folder it was unpacked to; each is read on access.

    ``train, valid, test = rankwood.datasets.open("mq2008", "data/MQ2008")[0]`` reads three files. The files are found
    under the names they have in the archive, compressed or not, up to three folders below ``path``. Its quirks are
    taken care of: see ``rankwood.datasets.available()``.

    Parameters
    ----------
    name
        One of ``rankwood.datasets.available()``, in any case: ``"mslr-web10k"``, ``"yahoo-set1"``, ``"istella-s"`` …
    path
        The folder.
    check
        What to do where folds, queries, documents, features or labels are not those of the collection: raise an
        ``"error"``, ``"warn"``, or nothing (``"off"``), for a sample of your own. The number of folds is checked at
        once, the others when a fold is read.
    read_options
        Passed on to ``read_letor``.

    Istella LETOR has no validation part: a fifth of the training queries, drawn with seed 0, becomes it, with a
    warning.
    """
    collection = known_collection(name)
    checks.one_of("check", check, CHECKS)
    files = collection_files(collection, path, check)
    if "valid" not in collection.parts:
        warnings.warn(
            f"{collection.title} has no validation part: {_VALID_SHARE:.0%} of the training queries, drawn with seed "
            "0, become it and are not trained on.",
            DataWarning,
            stacklevel=2,
        )
    makers = [
        functools.partial(_read_fold, collection, paths, check, read_options)
        for paths in files.values()
    ]
    return Folds(list(files), makers)


def known_collection(name: Any) -> Collection:
    """The collection of this name, in any case; an error where there is none."""
    found = COLLECTIONS.get(str(name).lower())
    if found is None:
        raise UnknownName("collection", str(name), COLLECTIONS)
    return found


def collection_files(
    collection: Collection, path: str | os.PathLike[str], check: str
) -> dict[str, dict[str, Path]]:
    """The files of each fold's parts, by the fold's name; nothing is read, but the number of folds is checked."""
    root = Path(path)
    refuse_missing_folder(root)
    known = dict(collection.names)
    folder = _find(collection, root)
    folds = fold_folders(folder) if collection.n_folds > 1 else []
    files: dict[str, dict[str, Path]] = {}
    for fold in folds or [folder]:
        parts = files_of_parts(fold, known)
        refuse_incomplete(fold, parts, known)
        files[folder_name(fold)] = {part: paths[0] for part, paths in parts.items()}
    if len(files) != collection.n_folds:
        found = f"{collection.n_folds} folds, found {len(files)} ({', '.join(files)})"
        report(collection, folder, [found], check)
    return files


def differences(collection: Collection, parts: Mapping[str, PartCounts]) -> list[str]:
    """How parts of a fold differ from what the collection has, as texts; totals are checked if all parts are given."""
    found: list[str] = []
    for part, counts in parts.items():
        found += _difference(
            f"queries in {part}", collection.part_queries.get(part), counts.queries
        )
        found += _difference(
            f"documents in {part}", collection.part_documents.get(part), counts.documents
        )
        if counts.features not in collection.features:
            widths = " or ".join(map(str, collection.features))
            found.append(f"{widths} features in {part}, found {counts.features:,}")
        last = collection.greatest_label
        odd = [label for label in counts.labels if last is not None and (label > last or label % 1)]
        if odd:
            found.append(f"labels 0 to {last} in {part}, found {odd[-1]:g}")
    if set(parts) == set(collection.parts):
        queries = sum(counts.queries for counts in parts.values())
        documents = sum(counts.documents for counts in parts.values())
        found += _difference("queries in all parts", collection.queries, queries)
        found += _difference("documents in all parts", collection.documents, documents)
    return found


def report(
    collection: Collection, where: str | os.PathLike[str], found: list[str], check: str
) -> None:
    """Raise, or warn of, what differs from a collection; nothing if nothing does, or ``check`` is off."""
    if not found or check == "off":
        return
    message = f"{os.fspath(where)} is not {collection.title} as published: expected {'; expected '.join(found)}."
    if check == "error":
        raise DataError(f'{message} If it is meant to differ: check="warn", or check="off".')
    warnings.warn(message, DataWarning, stacklevel=4)


def _difference(what: str, expected: int | None, found: int) -> list[str]:
    """What is not as expected, if it is not."""
    return [] if expected in (None, found) else [f"{expected:,} {what}, found {found:,}"]


def _read_fold(
    collection: Collection,
    files: Mapping[str, Path],
    check: str,
    read_options: Mapping[str, Any],
) -> Fold:
    options = {**collection.reading, **read_options}
    read = [read_table(p) if is_table(p) else read_letor(p, **options) for p in files.values()]
    if not any(part.feature_names for part in read):
        read = same_width(read, str(options.get("absent", "zero")))
    parts = dict(zip(files, read, strict=True))
    counts = {part: PartCounts.of(data) for part, data in parts.items()}
    report(collection, files["train"].parent, differences(collection, counts), check)
    if "valid" not in parts:
        shares = (1 - _VALID_SHARE, _VALID_SHARE)
        parts["train"], parts["valid"] = split_queries(parts["train"], shares, seed=0)
    return Fold(parts["train"], parts["valid"], parts["test"])


def _find(collection: Collection, root: Path) -> Path:
    """The folder that has the collection's folds or files: ``root``, or the only one below it that does."""
    if root.resolve().name.lower() in collection.others:
        raise DataError(f"{root} is not {collection.title}. {collection.notes}")
    if _has_folds(collection, root) or _has_files(collection, root):
        return root
    below = [
        folder
        for folder in _folders_below(root, _DEEPEST)
        if not any(part.lower() in collection.others for part in folder.relative_to(root).parts)
    ]
    found = [folder for folder in below if _has_folds(collection, folder)]
    found = found or [folder for folder in below if _has_files(collection, folder)]
    if len(found) > 1:
        found = [folder for folder in found if _is_named(collection, folder, root)] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise DataError(
            f"{root} does not hold {collection.title}. Expected {collection.layout}; found {listing(root)}."
        )
    listed = ", ".join(str(folder.relative_to(root)) for folder in found[:_SHOWN])
    listed += f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    raise DataError(
        f"{root} has several folders with files as those of {collection.title}: {listed}. Pass one of them. "
        f"{collection.notes}".rstrip()
    )


def _has_folds(collection: Collection, folder: Path) -> bool:
    return collection.n_folds > 1 and bool(fold_folders(folder))


def _has_files(collection: Collection, folder: Path) -> bool:
    """Whether all parts are there; where there should be no validation part, there must be none."""
    parts = files_of_parts(folder, {**PART_NAMES, **collection.names})
    is_there = {part for part, paths in parts.items() if paths}
    return is_there == set(collection.parts)


def _is_named(collection: Collection, folder: Path, root: Path) -> bool:
    names = [part.lower() for part in folder.relative_to(root).parts]
    return any(name in collection.folders for name in names)


def _folders_below(root: Path, depth: int) -> Iterator[Path]:
    """The folders below ``root`` that can be read, by name; hidden ones are left out."""
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name.startswith(".") or not os.access(folder, os.R_OK | os.X_OK):
            continue
        yield folder
        if depth > 1:
            yield from _folders_below(folder, depth - 1)
