"""Kernels compiled by g++ and run in this process; the shared objects are kept by a digest of all that goes in."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.cuda.emulator.translating import translated

NAME = "kernel.cu"  # of every source, in messages
HEADERS = Path(__file__).parent
COMPILER = shutil.which("g++")

_FLAGS = (
    "-std=c++17",
    "-O2",
    "-ffp-contract=off",
    "-fwrapv",  # as the hardware's integers
    "-fno-strict-aliasing",
    "-fno-gnu-unique",  # else modules would share the static variables of templates
    "-fno-exceptions",
    "-fPIC",
    "-w",
    # A misaligned access or an index outside a fixed array stops the kernel, as the first does on a device.
    "-fsanitize=alignment,bounds",
    "-fsanitize-undefined-trap-on-error",
    "-g1",  # lines, for messages
)
# A call before each access of memory, which cuda_accesses.hpp answers; volatile accesses have calls of their own.
_CHECKS = ("-DCUDA_EMULATOR_CHECKED", "-fsanitize=thread", "--param=tsan-distinguish-volatile=1")
_DEFINED = ("-D__CUDACC__", "-D__CUDACC_RTC__", "-D__CUDA_ARCH__=900", "-D__CUDACC_VER_MAJOR__=12")
# Options of NVRTC that change nothing here.
_IGNORED = re.compile(
    r"-?-(std|fmad|ftz|prec-div|prec-sqrt|gpu-architecture|arch|use_fast_math|device-debug|G|generate-line-info|lineinfo"
    r"|maxrregcount|restrict|default-device|extra-device-vectorization|dopt|dlto|Xptxas|ptxas-options|w|diag-suppress"
    r"|time|split-compile|minimal|extensible-whole-program|relocatable-device-code)\b.*"
)
_OF_THE_COMPILER = re.compile(r"-[DUI].*|--(define-macro|undefine-macro|include-path)=.*")
_LONG_FORM = re.compile(r"^--([dui])[a-z-]+=")
_MOST_OF_A_MESSAGE = 2000
_one_at_a_time = threading.Lock()


class CompileException(Exception):
    """The compiler refused the source; carries what CuPy's exception carries."""

    def __init__(self, message: str, source: str, options: Sequence[str]):
        self._msg, self.source, self.options = message, source, options
        self.name, self.backend = NAME, "nvrtc"
        super().__init__()

    def __str__(self) -> str:
        return self._msg

    def get_message(self) -> str:
        return self._msg


class KernelMistake(AssertionError):
    """The kernel did what is wrong on a device: it is a bug of the kernel, so it fails a test and is not handled."""


class Options(ctypes.Structure):
    """``cuda_emulator::Options``."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_shared", ctypes.c_uint64),
        ("resident", ctypes.c_int),
        ("strict", ctypes.c_int),
        ("seed", ctypes.c_uint32),
        ("unused", ctypes.c_int),
        ("n_arrays", ctypes.c_uint64),
        ("arrays", ctypes.c_void_p),
    )


class Parameter(ctypes.Structure):
    """``cuda_emulator::Parameter``."""

    _fields_ = (("kind", ctypes.c_char), ("size", ctypes.c_int))


class Entry(ctypes.Structure):
    """``cuda_emulator::Entry``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(Parameter)),
        ("count", ctypes.c_int),
        ("most_threads", ctypes.c_int),
    )


class Library:
    """A compiled source: its kernels by name, and the launch of one of them."""

    def __init__(self, path: Path):
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.cuda_emulator_entry.restype = ctypes.POINTER(Entry)
        self._library.cuda_emulator_static_shared.restype = ctypes.c_uint64
        self._library.cuda_emulator_launch.argtypes = (
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_uint64,
            ctypes.c_void_p,
        )
        self.kernels: dict[str, tuple[int, Entry]] = {}
        while (entry := self._library.cuda_emulator_entry(len(self.kernels)).contents).name:
            self.kernels[entry.name.decode()] = (len(self.kernels), entry)
        self.static_shared = self._library.cuda_emulator_static_shared()

    def address_of(self, name: str) -> int:
        """Where a global variable of the source lies."""
        return ctypes.addressof(ctypes.c_char.in_dll(self._library, name))

    def launch(self, place: int, options: Options, arguments: ctypes.Array) -> None:
        """Run a kernel to its end."""
        message = ctypes.create_string_buffer(_MOST_OF_A_MESSAGE)
        offset = ctypes.c_uint64()
        with _one_at_a_time:
            is_failed = self._library.cuda_emulator_launch(
                place,
                ctypes.byref(options),
                arguments,
                message,
                _MOST_OF_A_MESSAGE,
                ctypes.byref(offset),
            )
        if is_failed:
            text = message.value.decode(errors="replace")
            text = re.sub(r"\{(\w+)\}", lambda found: _line_of(self.path, int(found[1], 0)), text)
            where = f" [{_line_of(self.path, offset.value)}]" if offset.value else ""
            raise KernelMistake(text + where)


def _line_of(path: Path, offset: int) -> str:
    """The line of the kernels' source that an address of the library belongs to."""
    program = shutil.which("addr2line")
    if not program:
        return "unknown"
    found = subprocess.run(
        [program, "-e", str(path), "-i", "-s", hex(offset)],
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in found.stdout.split("\n") if not re.match(r"\?|cuda_\w+\.hpp|$", line)]
    return own[0].partition(" ")[0] if own else "unknown"


@cache
def load(
    source: str, options: tuple[str, ...], expressions: tuple[str, ...], is_checked: bool
) -> Library:
    """The library of a source, compiled if it is not kept from before.

    With ``is_checked``, every access to memory is checked for bounds and races, which takes ten times as long.
    """
    own = (*_FLAGS, *(_CHECKS if is_checked else ()))
    flags = _flags(options, source)
    preprocessed = _preprocessed(source, flags, options)
    text = translated(preprocessed, expressions)
    digest = hashlib.sha256()
    for piece in (
        text,
        *own,
        _version(),
        *(header.read_text() for header in sorted(HEADERS.glob("*.hpp"))),
    ):
        digest.update(piece.encode() + b"\0")
    path = _folder() / f"{digest.hexdigest()[:32]}.so"
    if not path.exists():
        _compile(text, path, own, source, options)
    return Library(path)


def _flags(options: Sequence[str], source: str) -> list[str]:
    """What of the options of NVRTC the compiler is told; one that NVRTC would not know is refused."""
    flags, waiting = [], False
    for option in options:
        if waiting or _OF_THE_COMPILER.fullmatch(option):
            flags.append(_LONG_FORM.sub(lambda found: f"-{found[1].upper()}", option))
            waiting = option in ("-D", "-U", "-I")
        elif not _IGNORED.fullmatch(option):
            raise CompileException(f"nvrtc: error: unrecognized option {option}", source, options)
    return flags


def _preprocessed(source: str, flags: Sequence[str], options: Sequence[str]) -> str:
    # As C++ with neither the system's headers nor ours: NVRTC has no others than those of -I either.
    outcome = subprocess.run(
        [
            COMPILER,
            "-E",
            "-x",
            "c++",
            "-std=c++17",
            "-nostdinc",
            "-nostdinc++",
            "-w",
            *_DEFINED,
            *flags,
            "-",
        ],
        input=f'# 1 "{NAME}"\n{source}',
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode:
        raise CompileException(outcome.stderr, source, options)
    return outcome.stdout


def _compile(
    text: str, path: Path, own: Sequence[str], source: str, options: Sequence[str]
) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        code, unfinished = Path(folder) / "code.o", Path(folder) / path.name
        header = HEADERS / "cuda_emulator.hpp"
        for command in (
            [*own, "-include", header, "-c", "-x", "c++", "-", "-o", code],
            ["-shared", "-Wl,-Bsymbolic", code, "-o", unfinished, "-ldl", "-lrt"],
        ):
            outcome = subprocess.run(
                [COMPILER, *command], input=text, capture_output=True, text=True, check=False
            )
            if outcome.returncode:
                raise CompileException(outcome.stderr, source, options)
        os.replace(unfinished, path)


@cache
def _version() -> str:
    return subprocess.run(
        [COMPILER, "--version"], capture_output=True, text=True, check=True
    ).stdout


@cache
def _folder() -> Path:
    """Where libraries are kept: a folder of the user's own, since code is loaded from it."""
    chosen = os.environ.get("CUDA_EMULATOR_CACHE")
    path = Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"cuda-emulator-{os.getuid()}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        return Path(tempfile.mkdtemp(prefix="cuda-emulator-"))
    return path
