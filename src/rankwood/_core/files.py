"""Cache folders, atomic writes, and errors for files that cannot be written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rankwood.errors import DataError, InputError, RunError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PLOTS = (".png", ".svg", ".pdf")  # suffixes of plot files

_UNFINISHED = ".part"
_RANDOM_BYTES = 8
_IS_RANDOM = re.compile("[0-9a-f]{16}")  # what marks a temporary file as one of ours
_MOST_NAME_BYTES = 200  # of a target, so that the name of its temporary file is not too long
_MISTAKES = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
_CALLERS_MISTAKES = (
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)  # which have no class of their own


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


def make_private(folder: Path) -> None:
    """Make a folder that only its user can read and write, or make an existing one of the user's such a folder.

    A folder that belongs to somebody else, or in which nothing can be written, is an ``OSError``.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    if not _is_own(status):
        raise PermissionError(errno.EPERM, "it belongs to another user", os.fspath(folder))
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    with tempfile.TemporaryFile(dir=folder):
        pass


def is_private(path: Path) -> bool:
    """Whether a plain file belongs to the user of this process, and others cannot write to it."""
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and _is_own(status) and not status.st_mode & 0o022


def _is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to the user of this process; Windows does not tell."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and rename it to ``path`` when the block succeeds.

    The temporary file is this call's own: of several writers to one path, in threads or processes, the last one wins
    whole. ``durable`` writes it to the disk before the rename, so that a crash of the machine leaves the old file or
    the new one. Temporary files that killed writers have left behind are removed.

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
    stem = f".{target.name}."
    if len(os.fsencode(stem)) > _MOST_NAME_BYTES:
        stem = f".{hashlib.sha256(os.fsencode(stem)).hexdigest()[:20]}."
    if fcntl is not None:
        _remove_abandoned(target.parent, stem)
    temporary, holder = _unfinished_file(target.parent, stem)
    try:
        yield temporary
        if durable:
            _write_to_disk(temporary)
        temporary.replace(target)
        if durable:
            with contextlib.suppress(OSError):  # not every system can open a folder
                _write_to_disk(target.parent)
    finally:
        os.close(holder)
        with contextlib.suppress(OSError):  # the folder may be gone, or read-only by now
            temporary.unlink(missing_ok=True)


def _unfinished_file(folder: Path, stem: str) -> tuple[Path, int]:
    """A new empty file, and a descriptor that holds its lock as long as its writer lives."""
    while True:
        path = folder / f"{stem}{os.urandom(_RANDOM_BYTES).hex()}{_UNFINISHED}"
        try:
            # Not by tempfile, whose files only their owner may read.
            holder = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            continue
        with contextlib.suppress(
            OSError
        ):  # where files cannot be locked, others leave it alone too
            if fcntl is not None:
                fcntl.flock(holder, fcntl.LOCK_EX)
        if os.fstat(holder).st_nlink > 0:
            return path, holder
        os.close(holder)  # another writer took it for abandoned before it was locked


def _remove_abandoned(folder: Path, stem: str) -> None:
    """Remove the temporary files of writers to the same target that are dead: nobody holds their locks."""
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names += [entry.name for entry in entries if entry.name.startswith(stem)]
    for name in names:
        middle = name.removeprefix(stem).removesuffix(_UNFINISHED)
        if f"{stem}{middle}{_UNFINISHED}" != name or not _IS_RANDOM.fullmatch(middle):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(folder / name)
            finally:
                os.close(descriptor)


def _write_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained_writing(
    path: str | os.PathLike[str], mistake: type[InputError] = DataError
) -> Iterator[None]:
    """Turn operating system errors while ``path`` is written into errors that name the path.

    A path that cannot be written is an error of the class ``mistake``, a full disk a ``RunError``. A closed pipe stays
    a ``BrokenPipeError``.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = f"{os.fspath(path)} cannot be written: {error.strerror or error}."
        is_mistake = isinstance(error, _MISTAKES) or error.errno in _CALLERS_MISTAKES
        if is_mistake:
            raise mistake(f"{reason} Choose another place, or make its folder.") from None
        raise RunError(reason) from None
