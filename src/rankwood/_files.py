"""Where files of our own go, and writing them so that a crash leaves the old file or the new one."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def user_cache_folder() -> Path:
    """The folder for things that can be made again: ``RANKWOOD_CACHE_DIR``, or the system's place for caches."""
    chosen = os.environ.get("RANKWOOD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rankwood"


def is_writable_folder(folder: Path) -> bool:
    """Whether ``folder`` exists, or can be made, and takes a file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends without an error.

    On an error, or Ctrl-C, the temporary file is removed and whatever stood at ``path`` is untouched. A symbolic
    link is followed, so that the file it points to is replaced and the link stays.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
