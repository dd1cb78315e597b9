"""The models that are served: read at the start, and again whenever a file changes."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankwood.errors import ModelError, ParameterError, UnknownName
from rankwood.serve.scorer import FieldError, ServedModel, read_served

_LOG = logging.getLogger(__name__)

Stamp = tuple[int, int, int]


@dataclass
class ModelSlot:
    """A file, the model that was last read from it, and what was wrong with the file since."""

    path: Path
    served: ServedModel
    stamp: Stamp | None
    problem: str | None = None


class ModelStore:
    """Models by name. A model is replaced as a whole: a request that has begun keeps the one it has."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self._entries: dict[str, ModelSlot] = {}
        self.reloads = 0
        self.failures = 0
        for path in map(Path, paths):
            name = path.name.removesuffix(".rankwood")
            if name in self._entries:
                raise ParameterError(
                    f"{path} and {self._entries[name].path} would both be served as '{name}'. Rename one of them."
                )
            stamp = _stamp(path)
            self._entries[name] = ModelSlot(path, read_served(path, name), stamp)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[ModelSlot]:
        """All of them, in the order they were named."""
        return list(self._entries.values())

    def get(self, name: str | None) -> ServedModel:
        """The model of a request; the only one, if it does not say which."""
        if name is None:
            if len(self._entries) == 1:
                return next(iter(self._entries.values())).served
            raise FieldError(
                "model", f"say which of the models is meant: {', '.join(self._entries)}."
            )
        if name not in self._entries:
            raise UnknownName("model", name, self._entries)
        return self._entries[name].served

    def refresh(self) -> None:
        """Read the files that have changed; a file that cannot be used leaves the old model in service."""
        for name, entry in self._entries.items():
            stamp = _stamp(entry.path)
            if stamp == entry.stamp:
                continue
            entry.stamp = stamp
            try:
                if stamp is None:
                    raise ModelError(f"{entry.path} is gone.")
                entry.served = read_served(entry.path, name)
            except (ModelError, OSError, MemoryError) as error:
                entry.problem = str(error)
                self.failures += 1
                _LOG.warning("model '%s' was not replaced: %s", name, error)
            else:
                entry.problem = None
                self.reloads += 1
                _LOG.info("model '%s' was replaced: %s", name, entry.served.digest[:12])


def _stamp(path: Path) -> Stamp | None:
    """What changes when a file does; None where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
