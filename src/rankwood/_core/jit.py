"""``@kernel``: compilation with numba, and a disk cache keyed by the sources of each kernel.

numba keys its cache by the file of a kernel. An edited helper in another file then leaves old machine code in use
(numba #1833), and an edited docstring in the kernel's own file compiles it again. In this cache each kernel has a
folder named by a digest of *its source, with the kernels, helpers and constants it uses*, and of the environment:
numba's version and settings, and the processor. Editing one of those, or installing another version, selects another
folder for the kernels concerned; editing a docstring or a Python function beside a kernel compiles nothing.

The folders are in ``NUMBA_CACHE_DIR/rankwood`` if that variable is set, else in the user's cache folder. Digests that
have not been used lately are pruned. If the disk cannot be written, kernels are compiled in memory.

numba stores pickles and machine code. Only the user can read and write the folder, and each kernel has a *seal*, the
checksums of its files: what is damaged, or was written by somebody else, is compiled anew and never loaded.

Nothing is compiled, loaded or looked up on disk before a kernel's first call. Kernels that only kernels call are
never stored: they are part of their callers (``llvm``).

``waiting`` surrounds every compilation. It says once that kernels are compiled, and counts the seconds, so that
``Stopwatch`` can leave them out of training time. ``only_one`` makes one process compile a kernel while others wait
for its outcome on disk. ``Ahead`` starts processes that compile what a fit will need later.

Only this module, and ``llvm`` and ``team``, which know more of it, import numba.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import errno
import functools
import hashlib
import importlib
import json
import logging
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock

from rankwood._core import llvm
from rankwood._core.files import atomic_path, is_private, make_private, user_cache_folder
from rankwood._core.threads import lazy, usable_cores
from rankwood.errors import RankwoodWarning

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

JOBS = "RANKWOOD_COMPILE_JOBS"  # how many processes may compile at once; 1: only the one that needs the kernels
_PACKAGE = Path(__file__).parents[1]
_HOLDS_KERNELS = re.compile(rb"^(@kernel\b|\w+ = kernel\()", re.MULTILINE)
_KEPT_DIGESTS = 4  # of a kernel: enough for a few environments
_PRUNE_AFTER_SECONDS = 24 * 3600  # another process may still be writing newer folders
_REMEMBERED = 8  # states of the package whose digests are stored

log = logging.getLogger(__name__)
Function = TypeVar("Function", bound=Callable[..., object])
_creating = threading.RLock()  # dispatchers are created one at a time
_SEAL = "seal.json"  # the checksums of a kernel's files


class _Waiting:
    """The seconds in which at least one thread of this process waited for a kernel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_threads = 0
        self._since = 0.0
        self._seconds = 0.0
        self.is_announced = False

    def start(self) -> None:
        with self._lock:
            if self._n_threads == 0:
                self._since = time.perf_counter()
            self._n_threads += 1

    def stop(self) -> None:
        with self._lock:
            self._n_threads -= 1
            if self._n_threads == 0:
                self._seconds += time.perf_counter() - self._since

    def seconds(self) -> float:
        with self._lock:
            running = time.perf_counter() - self._since if self._n_threads else 0.0
            return self._seconds + running


_waiting = _Waiting()


@contextlib.contextmanager
def waiting(where: Path | None) -> Iterator[None]:
    """Surrounds a compilation whose outcome is kept in the folder ``where``, or nowhere."""
    if not _waiting.is_announced:
        _waiting.is_announced = True
        if where is None:
            log.info("compiling kernels (in memory, for this process only) ...")
        else:
            log.info("compiling kernels (once; kept in %s) ...", where)
    _waiting.start()
    try:
        yield
    finally:
        _waiting.stop()


def seconds() -> float:
    """How long this process has waited for kernels so far."""
    return _waiting.seconds()


class Stopwatch:
    """Seconds since it was made, without those in which kernels were compiled."""

    def __init__(self) -> None:
        self._start = time.perf_counter() - seconds()

    def seconds(self) -> float:
        """The seconds up to now."""
        return max(0.0, time.perf_counter() - seconds() - self._start)


@contextlib.contextmanager
def only_one(folder: Path | None) -> Iterator[None]:
    """Hold the lock of a kernel's folder, if it has one. The operating system frees it when its holder dies.

    Where files cannot be locked, several processes may compile the same kernel, which costs time only.
    """
    with contextlib.ExitStack() as stack:
        if fcntl is not None and folder is not None:
            with contextlib.suppress(OSError):
                file = stack.enter_context(open(folder / "lock", "ab"))
                fcntl.flock(file, fcntl.LOCK_EX)
                # Closing the file would not free it while a child that was forked meanwhile has it open too.
                stack.callback(fcntl.flock, file, fcntl.LOCK_UN)
        yield


class Ahead:
    """Processes that compile ahead of this one, each for a task that ``rankwood.studies.warm_up`` names.

    A process is started by its command line, never forked, and imports nothing of the caller's. It ends when this
    process does, however that ends: it reads from a pipe that the operating system closes then.
    """

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._claims: dict[str, object] = {}  # who starts a task: threads may ask at the same time
        self._owner = os.getpid()

    def start(self, task: str) -> bool:
        """Start the process of a task, once; whether it was started now."""
        claim = object()
        if not may_start_processes() or self._claims.setdefault(task, claim) is not claim:
            return False
        code = f"from rankwood.studies.warm_up import compile_task; compile_task({task!r})"
        environment = os.environ | {
            JOBS: "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            log.info("no process that compiles ahead could be started: %s", error)
            return False
        if not self._processes:
            atexit.register(self.stop)
        self._processes[task] = process
        return True

    def stop(self) -> None:
        """End the processes; one that was forked leaves its parent's alone."""
        if os.getpid() != self._owner:
            return
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self._processes.clear()
        self._claims.clear()


def may_start_processes() -> bool:
    """Whether a second process may compile for this one.

    It may not on one core, where files cannot be locked, in an application without an interpreter of its own, in a
    process that another started to share work, or where ``RANKWOOD_COMPILE_JOBS`` is 1.
    """
    return (
        os.environ.get(JOBS, "") != "1"
        and fcntl is not None
        and usable_cores() > 1
        and not getattr(sys, "frozen", False)
        and bool(sys.executable)
        and multiprocessing.parent_process() is None
    )


def end_with_parent() -> None:
    """In a process that ``Ahead`` started: end it as soon as the process that started it is gone."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1):
                pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_ahead = Ahead()


def kernel(function: Function) -> Function:
    """Compile ``function`` on its first call, with the options that all kernels share.

    Kernels release the GIL, divide like numpy and never use ``fastmath``, which deletes tests for NaN.
    """
    function.is_kernel = True  # type: ignore[attr-defined]
    return function if numba.config.DISABLE_JIT else Kernel(function)  # type: ignore[return-value]


class Kernel:
    """A compiled function, as Python calls it and as other kernels do; nothing is compiled before the first call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._call: Callable[..., Any] = self._call_first

    def __call__(self, *arguments: Any, **by_name: Any) -> Any:
        return self._call(*arguments, **by_name)

    def _call_first(self, *arguments: Any, **by_name: Any) -> Any:
        """Load the kernel from disk, or compile it while other processes wait for it, and call it."""
        code, defaults = self.py_func.__code__, self.py_func.__defaults__ or ()
        names = code.co_varnames[: code.co_argcount]
        by_name = dict(zip(names[::-1], defaults[::-1], strict=False)) | by_name
        values = (*arguments, *(by_name[name] for name in names[len(arguments) :]))
        self._call = self._compiled(values)
        return self._call(*values)

    def _compiled(self, values: tuple[Any, ...]) -> Any:
        """The dispatcher, with machine code for arguments like ``values``.

        It is loaded from disk where its seal is whole; else it is compiled and stored. Where the disk is of no use,
        because it is full or the folder has vanished, the kernel is compiled in memory.
        """
        folder = self._folder
        if folder is not None:
            try:
                return self._compiled_on_disk(folder, values)
            except (OSError, RuntimeError) as error:  # the latter is numba's for a useless place
                log.info("%s is of no use (%s): compiling in memory", folder, error)
            entry = vars(self).pop("_entry", None)
            if entry is not None and entry.signatures:  # compiled, but not stored
                vars(self)["_entry"] = entry
                return _without_cache(entry)
            vars(self)["_folder"] = None
        entry = self._entry
        with waiting(None):
            entry.compile(tuple(map(entry.typeof_pyval, values)))
        return entry

    def _compiled_on_disk(self, folder: Path, values: tuple[Any, ...]) -> Any:
        with contextlib.ExitStack() as stack:
            is_stored = _is_whole(folder)
            if not is_stored:
                stack.enter_context(waiting(cache_folder()))
                stack.enter_context(only_one(folder))
                is_stored = _is_whole(folder)  # by another process, by now
            if not is_stored:
                _empty(folder)
            entry = self._entry
            entry.compile(tuple(map(entry.typeof_pyval, values)))
            if not is_stored:
                _seal(folder)
        return _without_cache(entry)

    @property
    def signatures(self) -> list[Any]:
        """The types that the kernel was compiled for in this process, by a call from Python or from a kernel."""
        made = [vars(self).get(name) for name in ("_entry", "_inner")]
        return list(
            dict.fromkeys(kinds for one in made if one is not None for kinds in one.signatures)
        )

    @property
    def stats(self) -> Any:
        """The counts of what was loaded from disk and what was compiled."""
        return self._entry.stats

    @property
    def _numba_type_(self) -> Any:
        """What numba takes the kernel for where another kernel names it."""
        return types.Dispatcher(self._inner)

    @lazy
    def _folder(self) -> Path | None:
        return _folder_of(self.py_func)

    @lazy
    def _entry(self) -> Any:
        """The dispatcher for calls from Python."""
        with _creating:
            if "_entry" in vars(self):  # another thread was first
                return vars(self)["_entry"]
            options: dict[str, Any] = dict(llvm.OPTIONS)
            if getattr(self.py_func, "is_borrowing", False):
                options["_nrt"] = False  # kernels that it calls inherit it
            if self._folder is None:
                return numba.njit(**options)(self.py_func)
            with _keyed_by_digest(self.py_func, self._folder):
                return numba.njit(cache=True, **options)(self.py_func)

    @lazy
    def _inner(self) -> Any:
        """The dispatcher for calls from kernels; only a thread that compiles asks for it, one at a time."""
        return llvm.linked_dispatcher(self.py_func) if llvm.is_supported() else self._entry

    def __reduce__(self) -> str:
        return self.py_func.__name__  # pickled by its name, as functions are


def borrowing(function: Function) -> Function:
    """Mark a function, before it becomes a kernel, that makes no array and whose arrays outlive its call.

    numba then counts no references to its arguments, nor do the kernels that it calls. Counting them takes most of
    the time of a kernel that passes dozens of arrays to small functions. A kernel that gets arrays from a borrowing
    one has to be a borrowing one too.
    """
    function.is_borrowing = True  # type: ignore[attr-defined]
    return function


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
    return {name: code for name, code in sorted(_Sources().code.items()) if code}


def compile_ahead(task: str) -> bool:
    """Start a process that compiles what ``task`` needs, unless that is on disk; whether one was started."""
    if numba.config.DISABLE_JIT or cache_folder() is None or task_mark(task).exists():
        return False
    return _ahead.start(task)


def task_mark(task: str) -> Path:
    """The empty file that says that the kernels of a task are on disk."""
    digest = hashlib.sha256(json.dumps(kernel_digests()).encode() + _environment())
    return _cache_root() / "ahead" / f"{task}-{digest.hexdigest()[:20]}"


@functools.cache
def kernel_digests() -> dict[str, str]:
    """Of each kernel, by full name, a digest of everything that its compiled code depends on.

    Parsing takes a quarter of a second, so the digests are stored beside the compiled code, by a hash of all files of
    the package.
    """
    state = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        state.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    stored = _cache_root() / "digests" / f"{state.hexdigest()[:20]}.json"
    with contextlib.suppress(OSError, ValueError):
        kept = json.loads(stored.read_text())
        if isinstance(kept, dict) and all(isinstance(digest, str) for digest in kept.values()):
            return kept
    digests = _Sources().digests()
    with contextlib.suppress(OSError):
        stored.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(stored) as temporary:
            temporary.write_text(json.dumps(digests))
        newest_first = sorted(stored.parent.glob("*.json"), key=os.path.getmtime, reverse=True)
        for old in newest_first[_REMEMBERED:]:
            old.unlink(missing_ok=True)
    return digests


@functools.cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels, which only its user can read; None if there cannot be one.

    numba stores kernels as pickles: who can write into the folder can run code as the user.
    """
    root = _cache_root()
    try:
        make_private(root)
    except OSError as error:
        text = "%s cannot be used (%s): compiling kernels in memory, anew each time"
        reason = error.strerror or error
        log.info(text, root, reason)
        if error.errno == errno.EPERM:
            warnings.warn(text % (root, reason), RankwoodWarning, stacklevel=2)
        return None
    return root


def _folder_of(function: Callable[..., object]) -> Path | None:
    """The folder of a kernel's machine code, or None if it cannot be stored."""
    name = f"{function.__module__}.{function.__name__}"
    digest, root = kernel_digests().get(name), cache_folder()
    if digest is None or root is None:  # a kernel outside the package has no digest
        return None
    key = hashlib.sha256(digest.encode() + _environment()).hexdigest()[:20]
    folder = root / name / key
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        if is_new:
            prune(folder.parent, keep=folder)
    except OSError:
        return None
    return folder


@functools.cache
def _environment() -> bytes:
    """What compiled code depends on besides its sources.

    numba would keep all of it apart in one index file, which two processes must not write at once.
    """
    from llvmlite import binding

    config = numba.config
    processor = (config.CPU_NAME or binding.get_host_cpu_name(), config.CPU_FEATURES)
    features = binding.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else ""
    settings = (config.BOUNDSCHECK, config.OPT, config.DEBUGINFO_DEFAULT, llvm.is_supported())
    return repr((numba.__version__, processor, features, settings)).encode()


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


# A seal: the checksum of each file of a kernel.


def _seal(folder: Path) -> None:
    """Write the checksums of what numba has stored, so that damage is noticed before it is loaded."""
    sums = {name: _checksum(folder / name) for name in _stored_files(folder)}
    with atomic_path(folder / _SEAL) as temporary:
        temporary.write_text(json.dumps(sums))
        temporary.chmod(0o600)


def _is_whole(folder: Path) -> bool:
    """Whether a kernel is stored, as it was written by this user; anything else is not loaded."""
    try:
        if not is_private(folder / _SEAL):
            return False
        sums = json.loads((folder / _SEAL).read_bytes())
        return (
            isinstance(sums, dict)
            and bool(sums)
            and sorted(sums) == _stored_files(folder)
            and all(is_private(folder / name) for name in sums)
            and all(_checksum(folder / name) == sum_ for name, sum_ in sums.items())
        )
    except (OSError, ValueError):
        return False


def _empty(folder: Path) -> None:
    """Remove what is stored of a kernel that is not whole."""
    for name in [_SEAL, *_stored_files(folder)]:
        (folder / name).unlink(missing_ok=True)


def _stored_files(folder: Path) -> list[str]:
    """The files of numba in a kernel's folder, by their paths in it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.nb[ci]"))


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _without_cache(entry: Any) -> Any:
    """A dispatcher whose further signatures stay in memory: they would break the seal."""
    from numba.core.caching import NullCache

    entry._cache = NullCache()
    return entry


def _cache_root() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) / "rankwood" if chosen else user_cache_folder() / "kernels"


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts)


class _Sources:
    """The code of every name that kernels depend on, and the names that each uses.

    Names are full: ``rankwood.trees.partition.route``.
    """

    def __init__(self) -> None:
        self.code: dict[str, str] = {}
        self._uses: dict[str, set[str]] = {}
        self._modules: dict[str, _Module | None] = {}
        self._records: list[str] = []  # named tuples: kernels use those without naming them
        to_follow: list[tuple[str, str]] = []
        for module_name in map(_module_of, kernel_files()):
            module = self._module(module_name)
            assert module is not None
            to_follow += [(module_name, name) for name in module.kernels + module.records]
            self._records += [f"{module_name}.{name}" for name in module.records]
        while to_follow:
            module_name, name = to_follow.pop()
            if f"{module_name}.{name}" not in self.code and self._module(module_name) is not None:
                to_follow += self._read(module_name, name)

    def _module(self, name: str) -> _Module | None:
        if name not in self._modules:
            path = _PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")
            self._modules[name] = _Module(path) if path.is_file() else None
        return self._modules[name]

    def _read(self, module_name: str, name: str) -> list[tuple[str, str]]:
        """Read the definition of a name and return the names that it uses."""
        module = self._module(module_name)
        assert module is not None
        full, code, used = f"{module_name}.{name}", "", []
        if name in module.imports:
            origin, there = module.imports[name]
            code, used = f"{origin}.{there}", [(origin, there)]
        for statement in module.definitions.get(name, ()):
            is_here = module_name == __name__  # of this file only ``kernel`` itself counts
            for node in () if is_here else ast.walk(statement):
                if isinstance(node, ast.Name):
                    used.append((module_name, node.id))
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    used.append((".".join(module.imports.get(node.value.id, ())), node.attr))
            code += _code_of(statement)
        self.code[full] = code
        self._uses[full] = {f"{where}.{what}" for where, what in used}
        return used

    def digests(self) -> dict[str, str]:
        """A digest per function, of its code and of all that it uses directly or indirectly."""
        how = "".join(map(_code_of, ast.parse(Path(llvm.__file__).read_bytes()).body))
        digests = {}
        for module_name in map(_module_of, kernel_files()):
            module = self._module(module_name)
            for name in module.functions if module else ():
                full = f"{module_name}.{name}"
                if full in self.code:
                    digests[full] = self._digest([full, *self._records], how)
        return digests

    def _digest(self, names: list[str], how: str) -> str:
        reached, to_follow = set[str](), names
        while to_follow:
            name = to_follow.pop()
            if name not in reached and name in self.code:
                reached.add(name)
                to_follow += self._uses[name]
        digest = hashlib.sha256(how.encode())
        for name in sorted(reached):
            digest.update(name.encode() + b"\0" + self.code[name].encode() + b"\0")
        return digest.hexdigest()[:20]


class _Module:
    """The top level of one source file: the statements that define each name, and the origin of imported names."""

    def __init__(self, path: Path) -> None:
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        self.kernels: list[str] = []
        self.records: list[str] = []  # named tuples that may be passed to kernels
        self.functions: list[str] = []
        for statement in ast.parse(path.read_bytes()).body:
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    self.imports[alias.asname or alias.name] = (statement.module or "", alias.name)
            for name in _names_defined_by(statement):
                self.definitions.setdefault(name, []).append(statement)
                if _is_kernel(statement):
                    self.kernels.append(name)
                if _is_record(statement):
                    self.records.append(name)
                if isinstance(statement, ast.FunctionDef):
                    self.functions.append(name)


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


def _hold_compiler() -> None:
    """Wait, before a fork, for the kernel that another thread compiles: the child would wait for it for ever."""
    global_compiler_lock.acquire()
    _creating.acquire()


def _free_compiler() -> None:
    _creating.release()
    global_compiler_lock.release()


def _free_compiler_in_child() -> None:
    """The same in the child, in which no other thread waits for a kernel."""
    global _waiting
    is_announced, _waiting = _waiting.is_announced, _Waiting()
    _waiting.is_announced = is_announced
    _free_compiler()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_compiler,
        after_in_parent=_free_compiler,
        after_in_child=_free_compiler_in_child,
    )
