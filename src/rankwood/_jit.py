"""The door to numba; ``_lanes`` is a second one, for instructions it has no words for.

``@kernel`` compiles a function with the library's fixed options and keeps the machine code on disk. numba keys that
cache by the kernel's own file alone, so that an edited helper in another file leaves old code in use (numba #1833).
Ours lives in a folder named by a digest of *all* files that hold kernels: editing any of them, or installing
another version, gives another folder. Kernel files import only kernel files and constants (a test enforces it), so
editing anything else costs no recompilation.

The folder is ``NUMBA_CACHE_DIR/rankwood`` when that variable is set, else the user's cache folder. Digests not used
lately are pruned. Where the disk cannot be written, kernels live in memory only.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numba

from rankwood._files import is_writable_folder, user_cache_folder

_PACKAGE = Path(__file__).parent
_HOLDS_KERNELS = re.compile(rb"^@kernel\b", re.MULTILINE)
_CONSTANTS = ("dtypes.py", "_lanes.py")  # what kernel files may import besides each other
_KEPT_DIGESTS = 4  # enough for a few environments side by side
_PRUNE_AFTER_SECONDS = 24 * 3600  # never remove what another process may be filling now

log = logging.getLogger(__name__)
Function = TypeVar("Function", bound=Callable[..., object])


def kernel_files() -> list[Path]:
    """Every file of the package that defines a kernel, in a fixed order."""
    return [
        path for path in sorted(_PACKAGE.rglob("*.py")) if _HOLDS_KERNELS.search(path.read_bytes())
    ]


@functools.cache
def source_digest() -> str:
    """A digest of all files whose content can change compiled code."""
    digest = hashlib.sha256()
    for path in [Path(__file__), *(_PACKAGE / name for name in _CONSTANTS), *kernel_files()]:
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:20]


@functools.cache
def cache_folder() -> Path | None:
    """Where this version's compiled kernels are kept, or None where nothing can be written."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(chosen) / "rankwood" if chosen else user_cache_folder() / "kernels"
    folder = root / source_digest()
    is_new = not folder.exists()
    if not is_writable_folder(folder):
        log.info("%s cannot be written: compiling kernels in memory, anew each time", folder)
        return None
    os.utime(folder)
    if is_new:
        log.info("compiling kernels (once per version; kept in %s)", folder)
        prune(root, keep=folder)
    return folder


def prune(root: Path, keep: Path) -> None:
    """Remove the compiled kernels of versions not used lately, all but the newest few."""
    last_used: dict[Path, float] = {}
    for folder in root.iterdir():
        with contextlib.suppress(OSError):  # another process has pruned it at this moment
            if folder.is_dir() and folder != keep:
                last_used[folder] = folder.stat().st_mtime
    newest_first = sorted(last_used, key=lambda folder: last_used[folder], reverse=True)
    for folder in newest_first[_KEPT_DIGESTS - 1 :]:
        if time.time() - last_used[folder] > _PRUNE_AFTER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _numba_cache_in(folder: Path) -> Iterator[None]:
    """Numba's cache setting, changed only while a dispatcher is created."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Function) -> Function:
    """Compile ``function`` on first call, with the options every kernel shares.

    Kernels release the GIL, divide like numpy and never use ``fastmath``, which deletes tests for NaN.
    """
    function.is_kernel = True  # type: ignore[attr-defined]
    folder = cache_folder()
    if folder is None:
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    else:
        with _numba_cache_in(folder):
            compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled  # type: ignore[no-any-return]


def kernels() -> dict[str, Callable[..., object]]:
    """Every kernel of the package by its full name; imports the files that hold them."""
    found: dict[str, Callable[..., object]] = {}
    for path in kernel_files():
        if path == Path(__file__):
            continue
        parts = path.relative_to(_PACKAGE.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts))
        for name, value in vars(module).items():
            # Where kernels are compiled, a plain function is the source of one, or a form that was not chosen.
            function = getattr(value, "py_func", value if numba.config.DISABLE_JIT else None)
            if getattr(function, "is_kernel", False) and function.__module__ == module.__name__:
                found[f"{module.__name__}.{name}"] = value
    return found
