"""What a chess build has so far, in a file that survives being cut off at any byte."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rankwood._files import explained_writing
from rankwood.data.chess_positions import ChessPosition
from rankwood.errors import DataError, ParameterError


class Partial:
    """The partial file of a build: a line of settings, then a line per position; use it in a ``with`` block.

    A line counts when it is whole. A piece of a line at the end, as a crash leaves it, is cut off when the file is
    opened again.
    """

    def __init__(self, target: str | Path, settings: dict[str, Any]) -> None:
        self.path = Path(f"{target}.partial")
        self.positions: list[ChessPosition] = []
        self.next_try = 0
        with explained_writing(self.path):
            self._file = open(self.path, "a+b")  # noqa: SIM115 - closed by __exit__
        try:
            self._lock()
            self._read(settings)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Partial:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, number: int, position: ChessPosition) -> None:
        """Keep the position that try ``number`` found; when this returns it is on the disk."""
        self._write({"try": number, **position.as_record()})
        self._take(number, position)

    def remove(self) -> None:
        """Remove the file: all it held is in the collection."""
        self.path.unlink(missing_ok=True)

    def _take(self, number: int, position: ChessPosition) -> None:
        self.positions.append(position)
        self.next_try = number + 1

    def _lock(self) -> None:
        try:
            import fcntl
        except (
            ImportError
        ):  # Windows has no such locks; two builds of one OUT are then the user's to avoid
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParameterError(
                f"{self.path} is being written by another build. Wait for it, or choose another OUT."
            ) from None

    def _read(self, settings: dict[str, Any]) -> None:
        self._file.seek(0)
        text = self._file.read()
        whole = text.rfind(b"\n") + 1
        self._file.truncate(whole)
        lines = text[:whole].splitlines()
        if not lines:
            self._write(settings)
            return
        records = [self._parse(number, line) for number, line in enumerate(lines, start=1)]
        self._check_settings(records[0], settings)
        for record in records[1:]:
            self._take(record["try"], ChessPosition.from_record(record))

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
            if number > 1:
                ChessPosition.from_record(record), record["try"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(
                f"{self.path}, line {number} is damaged. Remove it and what follows, or the whole file, "
                "and give the command again."
            ) from None
        return dict(record)

    def _check_settings(self, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        as_read = json.loads(json.dumps(wanted))
        for name in wanted:
            if found.get(name) != as_read[name]:
                raise ParameterError(
                    f"{self.path} was begun with {name} = {json.dumps(found.get(name))}, and now it is "
                    f"{json.dumps(as_read[name])}. Give the same options to go on, or remove the file to begin anew."
                )

    def _write(self, record: dict[str, Any]) -> None:
        with explained_writing(self.path):
            self._file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
