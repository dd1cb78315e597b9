"""From TOML to an ``Experiment``: every mistake is found here, before the first model is fitted."""

from __future__ import annotations

import copy
import difflib
import os
import pathlib
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from rankwood.errors import DataError, ParameterError, RankwoodError
from rankwood.experiments.algorithm_table import read_algorithms
from rankwood.experiments.data_table import KEYS as DATA_KEYS
from rankwood.experiments.data_table import read_data_table
from rankwood.experiments.overriding import made_small, with_overrides
from rankwood.experiments.places import Section, Source
from rankwood.experiments.settings import Algorithm, Experiment
from rankwood.measures.parsing import parse_measure, squeeze
from rankwood.measures.presets import PRESETS

TESTS = ("wilcoxon", "t", "randomization")
CORRECTIONS = ("holm", "bonferroni", "none")
_KEYS = {
    "data": DATA_KEYS,
    "run": ("name", "repetitions", "seed", "jobs", "threads", "keep_scores", "out"),
    "measures": ("primary", "also", "preset"),
    "compare": ("baseline", "tests", "correction"),
}
_TABLES = (*_KEYS, "algorithm")
_MOST_SEED = 2**63 - 1


def read_experiment(
    given: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    small: bool = False,
) -> Experiment:
    """The experiment that a TOML file, or a mapping of the same shape, describes.

    Parameters
    ----------
    given
        The file's path. Paths in it are relative to its folder; those of a mapping to the current one.
    overrides
        Texts such as ``"run.repetitions=1"`` or ``"algorithm.BROOF.n_trees=10"``, which win over the file.
    small
        Try it out: generated data, one repetition, few trees and rounds.
    """
    if isinstance(given, Mapping):
        tables: dict[str, Any] = copy.deepcopy(dict(given))
        source, text, folder, name = Source(), "", pathlib.Path(), "experiment"
        repeat = f"rankwood.run_experiment({dict(given)!r}"
    else:
        path = pathlib.Path(given)
        text = _text_of(path)
        tables = _parsed(path, text)
        source, folder, name = Source.of(str(path), text), path.absolute().parent, path.stem
        repeat = f"rankwood experiment {shlex.quote(str(path))}"
    root = Section(source, (), tables, None)
    for key in tables:
        if key not in _TABLES:
            raise _unknown_table(root, key)
    with_overrides(tables, overrides)
    if small:
        made_small(tables)
    sections = {
        key: Section(source, (key,), tables.get(key, {}), known) for key, known in _KEYS.items()
    }
    repeat += _changes(overrides, small, isinstance(given, Mapping))
    file = {"text": text, "folder": folder, "name": name, "repeat": repeat}
    return _experiment(sections, tables, source, file)


def _changes(overrides: Sequence[str], small: bool, is_call: bool) -> str:
    """What a command, or a call, must say besides to change the experiment likewise."""
    if is_call:
        changes = [f"overrides={list(overrides)!r}"] if overrides else []
        return ", ".join(["", *changes, *(["small=True"] if small else [])]) + ")"
    options = [f"--set {shlex.quote(text)}" for text in overrides]
    return " ".join(["", *options, *(["--small"] if small else [])]).rstrip()


def _experiment(
    sections: dict[str, Section], tables: dict[str, Any], source: Source, file: dict[str, Any]
) -> Experiment:
    run = sections["run"]
    repetitions = run.whole("repetitions", 1, least=1)
    measures, preset = _measures(sections["measures"])
    if "data" not in tables:
        raise source.error((), "there is no table [data], which says where the data are.")
    data = read_data_table(sections["data"], file["folder"])
    algorithms = read_algorithms(
        source, tables.get("algorithm"), repetitions, data.has_vali, file["folder"]
    )
    baseline, tests, correction = _compare(sections["compare"], algorithms)
    seed = run.whole("seed", 0)
    if seed > _MOST_SEED:
        raise run.error("seed", f"must be at most {_MOST_SEED:,}, got {seed:,}.")
    out = run.text("out")
    return Experiment(
        name=str(run.text("name", file["name"])),
        data=data,
        algorithms=algorithms,
        measures=measures,
        preset=preset,
        repetitions=repetitions,
        seed=seed,
        jobs=run.whole("jobs", None),
        threads=run.whole("threads", None, least=1),
        keep_scores=run.truth("keep_scores", True),
        baseline=baseline,
        tests=tests,
        correction=correction,
        out=None if out is None else str(file["folder"] / out),
        text=file["text"],
        repeat=file["repeat"],
    )


def _text_of(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path} cannot be read as TOML: it is not UTF-8 text.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _parsed(path: pathlib.Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} cannot be read as TOML: {error}.") from None


def _unknown_table(root: Section, key: str) -> ParameterError:
    owners = [table for table, known in _KEYS.items() if key in known]
    if owners and not isinstance(root.values[key], dict):
        message = (
            f"there is no such table; it is a key of [{owners[0]}], and must stand below that line."
        )
        return root.error(key, message)
    near = difflib.get_close_matches(key, _TABLES, n=1, cutoff=0.5)
    hint = f" Did you mean [{near[0]}]?" if near else ""
    return root.error(key, f"there is no such table.{hint} Known: {', '.join(_TABLES)}.")


def _measures(section: Section) -> tuple[tuple[str, ...], str | None]:
    preset = section.text("preset")
    if preset is not None:
        section.one_of("preset", "", PRESETS)
    texts: dict[str, None] = {}
    named = [("primary", section.text("primary", "ndcg@10"))]
    named += [("also", text) for text in section.texts("also")]
    for key, text in named:
        try:
            parse_measure(text, preset)
        except RankwoodError as error:
            raise section.error(key, str(error)) from None
        if squeeze(text) in texts:
            raise section.error(key, f"names '{text}' a second time. Remove one of the two.")
        texts[squeeze(text)] = None
    return tuple(texts), preset


def _compare(
    section: Section, algorithms: Sequence[Algorithm]
) -> tuple[str | None, tuple[str, ...], str]:
    baseline = section.text("baseline")
    if baseline is not None:
        section.one_of("baseline", "", [algorithm.name for algorithm in algorithms])
    tests = section.texts("tests", ("wilcoxon", "t"))
    for test in tests:
        if test not in TESTS:
            raise section.error("tests", f"must be some of {', '.join(TESTS)}, got '{test}'.")
    if not tests:
        raise section.error("tests", f"is empty; name some of {', '.join(TESTS)}.")
    correction = section.one_of("correction", "holm", CORRECTIONS)
    return baseline, tuple(dict.fromkeys(tests)), correction
