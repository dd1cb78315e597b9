"""Where files of our own go, and writing them so that a crash leaves the old file or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rankwood.errors import DataError, RunError

PLOTS = (".png", ".svg", ".pdf")  # what a plot's file may end in


def user_cache_folder() -> Path:
    """The folder for things that can be made again: ``RANKWOOD_CACHE_DIR``, or the system's place for caches."""
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
    """The user's home; for a user without one, as in some containers, a place where no folder can be made."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(
            os.devnull
        )  # not a shared temporary folder: compiled code is loaded from caches


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
    link is followed, so that the file it points to is replaced and the link stays. A named pipe or a device is no
    file that could be replaced: it is the path given, to be written in place.
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
    """What the operating system refuses while ``path`` is written becomes an error that names it.

    A place that cannot be written to is the caller's to mend, a full disk is a run that failed. That the reader of a
    pipe has gone is neither.
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
