"""The table ``[data]`` of an experiment: where its folds are, found out without reading them."""

from __future__ import annotations

import difflib
import inspect
import pathlib
from typing import Any

from rankwood.errors import RankwoodError
from rankwood.experiments.places import Section
from rankwood.experiments.settings import DataSource, FoldSource

PARTS = ("train", "vali", "test")
_ORIGINS = ("folds", "train", "data", "bundled", "generate")
_READING = ("label", "query", "doc", "drop", "absent", "order", "strict")
KEYS = (*_ORIGINS, "vali", "test", "split", "seed", "names", "normalise", "binarise", *_READING)
PATH_KEYS = ("folds", "train", "vali", "test", "data")
_SHARES = [0.6, 0.2, 0.2]
_GENERATE = {"queries": "n_queries", "docs": "docs_per_query", "features": "n_features"}
_NORMALISE = ("minmax", "zscore")


def read_data_table(section: Section, folder: pathlib.Path) -> DataSource:
    """The data source that ``[data]`` describes; relative paths start from ``folder``."""
    origin = _origin(section)
    reading = _reading_options(section)
    normalise = section.one_of("normalise", "none", ("none", *_NORMALISE))
    common: dict[str, Any] = {
        "reading": reading,
        "normalise": None if normalise == "none" else normalise,
        "binarise": _least_relevant(section),
    }
    if origin == "folds":
        return DataSource(_fold_files(section, folder), **common)
    if origin == "train":
        files = {part: _file(section, part, folder) for part in PARTS if part in section}
        name = pathlib.Path(files["train"]).resolve().parent.name or "data"
        return DataSource((FoldSource(name, files),), has_vali="vali" in files, **common)
    whole = _whole(section, origin, folder)
    cut, names, has_vali = _cut(section, origin, whole)
    return DataSource(
        tuple(FoldSource(name) for name in names), whole, cut, has_vali=has_vali, **common
    )


def _origin(section: Section) -> str:
    """Which of the ways to say where data come from is used: exactly one."""
    if isinstance(section.values.get("folds"), int):  # how many to make, not where they are
        given = [name for name in _ORIGINS if name in section and name != "folds"]
        if not given:
            raise section.error(
                "folds", "says how many folds to make; data, bundled or generate must say of what."
            )
    else:
        given = [name for name in _ORIGINS if name in section]
    if not given:
        ways = "folds, or train with test, or data, or bundled, or generate"
        raise section.error("", f"says nothing about where the data are. Give one of: {ways}.")
    if len(given) > 1:
        raise section.error(
            given[1], f"contradicts {given[0]}: both say where the data are. Keep one of the two."
        )
    _refuse_what_does_not_apply(section, given[0])
    return given[0]


def _refuse_what_does_not_apply(section: Section, origin: str) -> None:
    is_cut = origin in ("data", "bundled", "generate")
    for key in ("split", "seed"):
        if key in section and not is_cut:
            raise section.error(key, f"contradicts {origin}, which has its own parts. Remove it.")
    if "folds" in section and "split" in section:
        raise section.error("split", "contradicts folds: data are cut by one of the two.")
    if is_cut and isinstance(section.values.get("folds"), str):
        raise section.error("folds", f"contradicts {origin}: both say where the data are.")
    for key in ("vali", "test"):
        if key in section and origin != "train":
            raise section.error(key, f"contradicts {origin}. It goes with train.")
    if origin == "train" and "test" not in section:
        raise section.error("train", 'has no test beside it. Give test = "FILE" too.')
    if origin == "train" and "folds" in section:
        raise section.error("folds", "contradicts train: both say what the parts are.")
    if "names" in section and origin != "folds":
        raise section.error("names", f"goes with folds, not with {origin}.")


def _reading_options(section: Section) -> dict[str, Any]:
    """How files are read, as ``ReadOptions`` has it; only what was said."""
    options: dict[str, Any] = {
        name: section.text(name) for name in ("label", "query", "doc") if name in section
    }
    if "drop" in section:
        options["drop"] = tuple(section.texts("drop"))
    if "absent" in section:
        options["absent"] = section.one_of("absent", "zero", ("zero", "missing"))
    if "order" in section:
        options["order"] = section.one_of("order", "ascending", ("ascending", "any"))
    if "strict" in section:
        options["strict"] = section.truth("strict", False)
    return options


def _least_relevant(section: Section) -> float | None:
    """The label from which on a document is relevant, where labels are to be 0 and 1."""
    value = section.values.get("binarise")
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise section.error("binarise", "must be a label above 0, from which on documents count 1.")
    return float(value)


def _fold_files(section: Section, folder: pathlib.Path) -> tuple[FoldSource, ...]:
    from rankwood.data.folds import fold_files

    names = tuple(section.texts("names")) if "names" in section else None
    try:
        found = fold_files(folder / section.text("folds"), names)  # type: ignore[arg-type]
    except RankwoodError as error:
        raise section.error("folds", str(error)) from None
    return tuple(
        FoldSource(name, {part: _absolute(path) for part, path in zip(PARTS, paths, strict=True)})
        for name, paths in found.items()
    )


def _file(section: Section, key: str, folder: pathlib.Path) -> str:
    path = folder / section.text(key)
    if not path.is_file():
        siblings = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, siblings, n=1)
        hint = f" Did you mean {path.with_name(near[0])}?" if near else ""
        raise section.error(key, f"there is no file {path}.{hint}")
    return _absolute(path)


def _absolute(path: pathlib.Path) -> str:
    return str(path.absolute())


def _whole(section: Section, origin: str, folder: pathlib.Path) -> dict[str, Any]:
    if origin == "data":
        return {"data": _file(section, "data", folder)}
    if origin == "bundled":
        from rankwood.experiments.fold_data import BUNDLED

        return {"bundled": section.one_of("bundled", "", BUNDLED)}
    return {"generate": _generated(section)}


def _generated(section: Section) -> dict[str, Any]:
    """The arguments of ``make_ranking``; its sizes have the names of ``rankwood data synth``."""
    from rankwood.data.synthetic import make_ranking

    others = set(inspect.signature(make_ranking).parameters) - set(_GENERATE.values())
    table = Section(
        section.source,
        (*section.path, "generate"),
        section.values["generate"],
        [*_GENERATE, *others],
    )
    arguments = {_GENERATE.get(name, name): value for name, value in table.values.items()}
    tiny = {"n_queries": 3, "docs_per_query": 2}  # wrong values are told before any data are made
    try:
        make_ranking(**{**arguments, **{k: v for k, v in tiny.items() if _is_number(arguments, k)}})
    except (RankwoodError, TypeError) as error:
        raise section.error("generate", str(error)) from None
    return arguments


def _is_number(arguments: dict[str, Any], name: str) -> bool:
    value = arguments.get(name, 1)
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1


def _cut(
    section: Section, origin: str, whole: dict[str, Any]
) -> tuple[dict[str, Any], list[str], bool]:
    """How the whole becomes folds, their names, and whether they have a validation part."""
    seed = section.whole("seed", 0)
    if "folds" in section:
        count = section.whole("folds", 5, least=3)
        return {"folds": count, "seed": seed}, [f"Fold{n + 1}" for n in range(count)], True
    if origin == "bundled" and "split" not in section:
        return {}, [whole["bundled"]], True  # it has parts of its own
    shares = section.values.get("split", _SHARES)
    is_list = isinstance(shares, list) and len(shares) in (2, 3)
    if not is_list or not all(isinstance(one, int | float) and one > 0 for one in shares):
        raise section.error(
            "split",
            "must be the shares of train, vali and test, as [0.6, 0.2, 0.2], or of train and test.",
        )
    if abs(sum(shares) - 1) > 1e-6:
        raise section.error("split", f"must sum to 1, got {sum(shares):g}.")
    return {"split": list(shares), "seed": seed}, ["split"], len(shares) == len(PARTS)
