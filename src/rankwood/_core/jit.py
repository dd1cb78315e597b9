"""The door to numba; ``_lanes`` is a second one, for LLVM intrinsics that numba does not expose.

``@kernel`` compiles a function with the library's fixed options and keeps the machine code on disk. numba keys that
cache by the file that a kernel stands in: an edited helper in another file leaves old machine code in use (numba
#1833), and an edited docstring in the kernel's own file compiles it again. Ours lives in a folder named by a digest
of the *sources of all kernels, with the helpers and constants they use*. Editing one of those, or installing another
version, gives another folder; editing anything else, a docstring or a Python function beside a kernel, costs no
compilation.

The folder is ``NUMBA_CACHE_DIR/rankwood`` when that variable is set, else the user's cache folder. Digests not used
lately are pruned. Where the disk cannot be written, kernels live in memory only.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numba

from rankwood._core.files import atomic_path, is_writable_folder, user_cache_folder

_PACKAGE = Path(__file__).parents[1]
_HOLDS_KERNELS = re.compile(rb"^(@kernel\b|\w+ = kernel\()", re.MULTILINE)
_KEPT_DIGESTS = 4  # enough for a few environments side by side
_PRUNE_AFTER_SECONDS = 24 * 3600  # never remove what another process may be filling now
_REMEMBERED = 32  # states of the sources whose digest is known without parsing them

log = logging.getLogger(__name__)
Function = TypeVar("Function", bound=Callable[..., object])


def kernel_files() -> list[Path]:
    """Every file of the package that defines a kernel, in a fixed order."""
    return [
        path for path in sorted(_PACKAGE.rglob("*.py")) if _HOLDS_KERNELS.search(path.read_bytes())
    ]


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)


class _Module:
    """The top level of one source file: what each name is defined by, and where imported names come from."""

    def __init__(self, path: Path) -> None:
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        self.kernels: list[str] = []  # and the named tuples that are passed to them
        for statement in ast.parse(path.read_bytes()).body:
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    self.imports[alias.asname or alias.name] = (statement.module or "", alias.name)
            for name in _names_defined_by(statement):
                self.definitions.setdefault(name, []).append(statement)
                if _is_kernel(statement) or _is_record(statement):
                    self.kernels.append(name)


def _names_defined_by(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return []
    nodes = ast.walk(statement)
    return [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _is_kernel(statement: ast.stmt) -> bool:
    """Whether a function is decorated by ``@kernel``, or an assignment calls ``kernel(…)``."""
    if isinstance(statement, ast.FunctionDef):
        return any(isinstance(d, ast.Name) and d.id == "kernel" for d in statement.decorator_list)
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Call) and getattr(value.func, "id", None) == "kernel"


def _is_record(statement: ast.stmt) -> bool:
    """Whether a class is a ``NamedTuple``: kernels take those without naming them."""
    bases = statement.bases if isinstance(statement, ast.ClassDef) else []
    return any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in bases)


def _code_of(statement: ast.stmt) -> str:
    """The statement without comments, line numbers and docstrings."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(statement)


def kernel_sources() -> dict[str, str]:
    """The code of every kernel, helper, class and constant that compiled code depends on, by full name.

    Names are followed from the kernels through the files of the package; what comes from elsewhere, such as numpy,
    is numba's to know.
    """
    parsed: dict[str, _Module | None] = {}

    def module(name: str) -> _Module | None:
        if name not in parsed:
            path = _PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")
            parsed[name] = _Module(path) if path.is_file() else None
        return parsed[name]

    found: dict[str, str] = {}
    to_follow: list[tuple[str, str]] = []
    for path in kernel_files():
        own = module(_module_of(path))
        to_follow += [(_module_of(path), name) for name in (own.kernels if own else ())]
    while to_follow:
        place, name = to_follow.pop()
        full, own = f"{place}.{name}", module(place)
        if full in found or own is None:
            continue
        found[full] = ""
        if name in own.imports:
            origin, there = own.imports[name]
            found[full] = f"{origin}.{there}"
            to_follow.append((origin, there))
        for statement in own.definitions.get(name, ()):
            used = (
                () if place == __name__ else ast.walk(statement)
            )  # of this file, ``kernel`` alone
            for node in used:
                if isinstance(node, ast.Name):
                    to_follow.append((place, node.id))
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    to_follow.append((".".join(own.imports.get(node.value.id, ())), node.attr))
            found[full] += _code_of(statement)
    return {name: code for name, code in sorted(found.items()) if code}


def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for name, code in kernel_sources().items():
        digest.update(name.encode() + b"\0" + code.encode() + b"\0")
    return digest.hexdigest()[:20]


def _cache_root() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) / "rankwood" if chosen else user_cache_folder() / "kernels"


@functools.cache
def source_digest() -> str:
    """A digest of everything that compiled code depends on.

    Parsing takes a quarter of a second, so that the digest is remembered beside the compiled code, under a hash of
    all files of the package.
    """
    state = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        state.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    key, memory = state.hexdigest()[:20], _cache_root() / "digests.json"
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        known = dict(json.loads(memory.read_text()))
    if key not in known:
        known[key] = _digest_of_sources()
        newest = dict(list(known.items())[-_REMEMBERED:])
        with contextlib.suppress(OSError), atomic_path(memory) as temporary:
            memory.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(newest))
    return known[key]


@functools.cache
def cache_folder() -> Path | None:
    """Where this version's compiled kernels are kept, or None where nothing can be written."""
    root = _cache_root()
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
def _keyed_by_digest(function: Callable[..., object], folder: Path) -> Iterator[None]:
    """While a dispatcher is created, numba sees our folder and a stamp file in place of the kernel's own file.

    numba's key holds the content of the function's file and its line; both are read from the code object when the
    dispatcher is created. The stamp is the same for as long as the digest, which names ``folder``, is.
    """
    stamp = folder / function.__module__ / "stamp.py"
    if not stamp.exists():
        stamp.parent.mkdir(exist_ok=True)
        with atomic_path(stamp) as temporary:
            temporary.touch()
            os.utime(
                temporary, (0, 0)
            )  # older versions of numba look at the time, not at the content
    code, before = function.__code__, numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    function.__code__ = code.replace(co_filename=str(stamp), co_firstlineno=1)
    try:
        yield
    finally:
        function.__code__ = code
        numba.config.CACHE_DIR = before


def kernel(function: Function) -> Function:
    """Compile ``function`` on first call, with the options every kernel shares.

    Kernels release the GIL, divide like numpy and never use ``fastmath``, which deletes tests for NaN.
    """
    function.is_kernel = True  # type: ignore[attr-defined]
    folder = None if numba.config.DISABLE_JIT else cache_folder()
    if folder is None:
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    else:
        with _keyed_by_digest(function, folder):
            compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled  # type: ignore[no-any-return]


def kernels() -> dict[str, Callable[..., object]]:
    """Every kernel of the package by its full name; imports the files that hold them."""
    found: dict[str, Callable[..., object]] = {}
    for path in kernel_files():
        if path == Path(__file__):
            continue
        module = importlib.import_module(_module_of(path))
        for name, value in vars(module).items():
            # Where kernels are compiled, a plain function is the source of one, or a form that was not chosen.
            function = getattr(value, "py_func", value if numba.config.DISABLE_JIT else None)
            if getattr(function, "is_kernel", False) and function.__module__ == module.__name__:
                found[f"{module.__name__}.{name}"] = value
    return found
