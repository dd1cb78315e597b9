"""The record of a run: all that someone needs to know what was done, on what, and how to do it again."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rankwood import __version__
from rankwood._threads import usable_cores
from rankwood.ensembles.parameters import plain_parameters
from rankwood.experiments.building import build
from rankwood.experiments.settings import Experiment
from rankwood.measures.parsing import parse_measure

FORMAT = 1
_PACKAGES = ("numpy", "numba", "pyarrow", "scipy", "scikit-learn", "optuna", "distributed", "torch")


def configuration(experiment: Experiment) -> dict[str, Any]:
    """The experiment as resolved: every default filled in."""
    found = asdict(experiment)
    del found["text"], found["repeat"], found["algorithms"]
    found["algorithms"] = [
        {
            "name": one.name,
            "kind": one.kind,
            "parameters": {
                name: value
                for name, value in plain_parameters(build(one.kind, one.parameters)).items()
                if name != "seed"  # each cell has its own
            },
            "given": dict(one.parameters),
            "tune": dict(one.tune),
            "tune_method": one.tune_method if one.tune else None,
            "tune_trials": one.tune_trials if one.tune_method == "optuna" else None,
            "repetitions": one.repetitions,
        }
        for one in experiment.algorithms
    ]
    return found


def make_record(
    experiment: Experiment, states: Mapping[str, Any], digests: Mapping[str, str]
) -> dict[str, Any]:
    """The record at the start of a run; times and counts are added at its end."""
    seeds = {
        fold: [
            experiment.seed_of(cell)
            for cell in experiment.cells()
            if cell.fold == fold and cell.algorithm == experiment.algorithms[0].name
        ]
        for fold in experiment.fold_names
    }
    measures = {text: parse_measure(text, experiment.preset) for text in experiment.measures}
    return {
        "format": FORMAT,
        "name": experiment.name,
        "status": "running",
        "configuration": configuration(experiment),
        "measures": {text: str(measure) for text, measure in measures.items()},
        "conventions": {text: measure.conventions for text, measure in measures.items()},
        "seeds": {"run": experiment.seed, "by fold and repetition": seeds},
        "data": {"files": dict(states), "digests": dict(digests)},
        "versions": versions(),
        "machine": machine(),
        "repeat": {"command": experiment.repeat, "folder": os.getcwd()},
        "started": now(),
    }


def now() -> str:
    """The time, with its zone."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Of Python, Rankwood and what it computes with."""
    found = {"python": platform.python_version(), "rankwood": __version__}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Processor, cores, memory and system."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": model,
        "cores": usable_cores(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.system(),
    }
