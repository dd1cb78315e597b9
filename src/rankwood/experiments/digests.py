"""What tells one state of the data, or of a cell's settings, from another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankwood.data.store_files import full_hash
from rankwood.ensembles.parameters import plain_parameters
from rankwood.experiments.building import build
from rankwood.experiments.settings import Cell, DataSource, Experiment
from rankwood.measures.parsing import parse_measure

Known = Mapping[str, Mapping[str, Any]]  # path -> size, time and sha256 when last looked at


def digest_of(value: Any) -> str:
    """A hash of plain values, whatever the order of mappings."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_states(source: DataSource, known: Known) -> dict[str, dict[str, Any]]:
    """Size, time and sha256 of every file of the data; a file that looks untouched is not read again."""
    paths = [path for fold in source.folds for path in fold.files.values()]
    paths += [source.whole["data"]] if "data" in source.whole else []
    states: dict[str, dict[str, Any]] = {}
    for path in paths:
        status = Path(path).stat()
        seen = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
        before = known.get(path, {})
        is_same = all(before.get(name) == value for name, value in seen.items())
        found = before["sha256"] if is_same else full_hash(Path(path))
        states[path] = {**seen, "sha256": found}
    return states


def fold_digests(source: DataSource, states: Known) -> dict[str, str]:
    """For each fold, a hash of all that its data follow from."""
    common = {
        "cut": source.cut,
        "reading": source.reading,
        "changes": [source.normalise, source.binarise],
    }
    whole = dict(source.whole)
    if "data" in whole:
        whole["data"] = states[whole["data"]]["sha256"]
    digests = {}
    for fold in source.folds:
        files = {part: states[path]["sha256"] for part, path in fold.files.items()}
        name = "" if fold.files else fold.name
        digests[fold.name] = digest_of([common, whole, files, name])
    return digests


def fingerprint(experiment: Experiment, cell: Cell, digest: str) -> str:
    """A hash of all that a cell's results follow from, but for the version and the number of threads."""
    algorithm = experiment.algorithm(cell.algorithm)
    tuning: list[Any] = []
    if algorithm.tune:
        tuning = [algorithm.tune, algorithm.tune_method]
        tuning += [algorithm.tune_trials] if algorithm.tune_method != "grid" else []
    return digest_of(
        [
            algorithm.kind,
            plain_parameters(build(algorithm.kind, algorithm.parameters)),
            _cost_files(algorithm.parameters),
            tuning,
            experiment.seed_of(cell),
            [str(parse_measure(text, experiment.preset)) for text in experiment.measures],
            digest,
        ]
    )


def _cost_files(parameters: Mapping[str, Any]) -> list[str]:
    """Hashes of the files that parameters name: of feature costs, also those of inner estimators."""
    found = []
    for name, value in parameters.items():
        if name == "feature_costs" and isinstance(value, str):
            found.append(full_hash(Path(value)))
        elif isinstance(value, dict):
            found += _cost_files(value)
    return found
