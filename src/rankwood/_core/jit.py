"""``@kernel``: compilation with numba, and a disk cache keyed by kernel sources.

numba keys its cache by the file of a kernel. An edited helper in another file then leaves old machine code in use
(numba #1833), and an edited docstring in the kernel's own file compiles it again. This cache lives in a folder named
by a digest of the *sources of all kernels, with the helpers and constants they use*. Editing one of those, or
installing another version, selects another folder; editing a docstring or a Python function beside a kernel compiles
nothing.

The folder is ``NUMBA_CACHE_DIR/rankwood`` if that variable is set, else the user's cache folder. Digests that have
not been used lately are pruned. If the disk cannot be written, kernels are compiled in memory.

Only this module, and ``lanes`` and ``team``, which add LLVM instructions, import numba.
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
_KEPT_DIGESTS = 4  # enough for a few environments
_PRUNE_AFTER_SECONDS = 24 * 3600  # another process may still be writing newer folders
_REMEMBERED = 32  # states of the package whose digest is stored

log = logging.getLogger(__name__)
Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile ``function`` on its first call, with the options that all kernels share.

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
    """Every kernel of the package by its full name; this imports the modules that define them."""
    by_name: dict[str, Callable[..., object]] = {}
    for path in kernel_files():
        if path == Path(__file__):
            continue
        module = importlib.import_module(_module_of(path))
        for name, value in vars(module).items():
            # With compilation on, a plain function is the source of a kernel or an unused variant.
            function = getattr(value, "py_func", value if numba.config.DISABLE_JIT else None)
            if getattr(function, "is_kernel", False) and function.__module__ == module.__name__:
                by_name[f"{module.__name__}.{name}"] = value
    return by_name


def kernel_files() -> list[Path]:
    """Every file of the package that defines a kernel, in a fixed order."""
    return [
        path for path in sorted(_PACKAGE.rglob("*.py")) if _HOLDS_KERNELS.search(path.read_bytes())
    ]


def kernel_sources() -> dict[str, str]:
    """The code of every kernel, helper, class and constant that compiled code depends on, by full name.

    Names are followed from the kernels through the files of the package. Names from other packages, such as numpy,
    are not followed.
    """
    parsed: dict[str, _Module | None] = {}

    def module(name: str) -> _Module | None:
        if name not in parsed:
            path = _PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")
            parsed[name] = _Module(path) if path.is_file() else None
        return parsed[name]

    sources: dict[str, str] = {}
    to_follow: list[tuple[str, str]] = []
    for path in kernel_files():
        parsed_module = module(_module_of(path))
        to_follow += [
            (_module_of(path), name) for name in (parsed_module.kernels if parsed_module else ())
        ]
    while to_follow:
        module_name, name = to_follow.pop()
        full, parsed_module = f"{module_name}.{name}", module(module_name)
        if full in sources or parsed_module is None:
            continue
        sources[full] = ""
        if name in parsed_module.imports:
            origin, there = parsed_module.imports[name]
            sources[full] = f"{origin}.{there}"
            to_follow.append((origin, there))
        for statement in parsed_module.definitions.get(name, ()):
            is_here = module_name == __name__  # of this file only ``kernel`` itself counts
            for node in () if is_here else ast.walk(statement):
                if isinstance(node, ast.Name):
                    to_follow.append((module_name, node.id))
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    to_follow.append(
                        (".".join(parsed_module.imports.get(node.value.id, ())), node.attr)
                    )
            sources[full] += _code_of(statement)
    return {name: code for name, code in sorted(sources.items()) if code}


@functools.cache
def source_digest() -> str:
    """A digest of everything that compiled code depends on.

    Parsing takes a quarter of a second, so the digest is stored beside the compiled code, keyed by a hash of all
    files of the package.
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
    """The folder of this version's compiled kernels, or None if it cannot be written."""
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
    """Remove compiled kernels that were not used lately, except the newest few digests."""
    last_used: dict[Path, float] = {}
    for folder in root.iterdir():
        with contextlib.suppress(OSError):  # another process pruned it just now
            if folder.is_dir() and folder != keep:
                last_used[folder] = folder.stat().st_mtime
    newest_first = sorted(last_used, key=lambda folder: last_used[folder], reverse=True)
    for folder in newest_first[_KEPT_DIGESTS - 1 :]:
        if time.time() - last_used[folder] > _PRUNE_AFTER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _keyed_by_digest(function: Callable[..., object], folder: Path) -> Iterator[None]:
    """While a dispatcher is created, numba sees ``folder`` and a stamp file instead of the kernel's own file.

    numba's cache key contains the content of the function's file and its line; numba reads both from the code object
    when it creates the dispatcher. The stamp stays the same as long as the digest that names ``folder`` does.
    """
    stamp = folder / function.__module__ / "stamp.py"
    if not stamp.exists():
        stamp.parent.mkdir(exist_ok=True)
        with atomic_path(stamp) as temporary:
            temporary.touch()
            os.utime(temporary, (0, 0))  # older versions of numba compare the time, not the content
    code, before = function.__code__, numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    function.__code__ = code.replace(co_filename=str(stamp), co_firstlineno=1)
    try:
        yield
    finally:
        function.__code__ = code
        numba.config.CACHE_DIR = before


def _cache_root() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) / "rankwood" if chosen else user_cache_folder() / "kernels"


def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for name, code in kernel_sources().items():
        digest.update(name.encode() + b"\0" + code.encode() + b"\0")
    return digest.hexdigest()[:20]


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)


class _Module:
    """The top level of one source file: the statements that define each name, and the origin of imported names."""

    def __init__(self, path: Path) -> None:
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        self.kernels: list[str] = []  # kernels, and named tuples that are passed to them
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
    """Whether a class is a ``NamedTuple``: kernels use those without naming them."""
    bases = statement.bases if isinstance(statement, ast.ClassDef) else []
    return any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in bases)


def _code_of(statement: ast.stmt) -> str:
    """The statement without comments, line numbers and docstrings."""
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(statement)
