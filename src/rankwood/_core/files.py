"""Cache folders, atomic writes, and errors for files that cannot be written."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rankwood.errors import DataError, RunError

PLOTS = (".png", ".svg", ".pdf")  # suffixes of plot files


def user_cache_folder() -> Path:
    """The cache folder: ``RANKWOOD_CACHE_DIR`` if it is set, else the operating system's usual one."""
    chosen = os.environ.get("RANKWOOD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or _home() / ".cache"
    return Path(base) / "rankwood"


def _home() -> Path:
    """The user's home folder; for a user without one, a path in which no folder can be created.

    A shared temporary folder would be unsafe: compiled code is loaded from the cache.
    """
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def is_writable_folder(folder: Path) -> bool:
    """Whether ``folder`` exists or can be created, and a file can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and rename it to ``path`` when the block succeeds.

    On an error or Ctrl-C the temporary file is removed and an existing file at ``path`` is unchanged. A symbolic
    link is followed: its target is replaced and the link stays. A named pipe or a device cannot be replaced, so
    ``path`` itself is yielded and written directly.
    """
    if os.fspath(path).endswith(os.sep):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def explained_writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn operating system errors while ``path`` is written into errors that name the path.

    A path that cannot be written is a ``DataError``, a full disk a ``RunError``. A closed pipe stays a
    ``BrokenPipeError``.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise DataError(
            f"{os.fspath(path)} cannot be written: {error.strerror}. "
            "Choose another place, or make its folder."
        ) from None
    except OSError as error:
        raise RunError(f"{os.fspath(path)} cannot be written: {error.strerror or error}.") from None
