"""The GPU: CuPy where it is installed, kernels compiled by NVRTC, and errors that say what to do.

All of the package that knows CuPy is here: arrays go to the GPU and come back by these functions.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import MissingExtra, RunError

LARGEST_BLOCK = 1024  # threads
_OPTIONS = (
    "-std=c++17",
    "--fmad=false",
)  # a fused multiplication would round once where the CPU rounds twice
_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)
_LARGE = 1 << 26  # bytes
_RESERVED = 1024  # bytes of a block's shared memory that the system takes


def cupy() -> Any:
    """CuPy, on a machine that has a GPU."""
    try:
        import cupy as module
    except ImportError:
        raise MissingExtra("cupy", "gpu", "device='cuda'") from None
    _check_gpu(module)
    return module


@functools.cache
def _check_gpu(module: Any) -> None:
    try:
        n_devices = module.cuda.runtime.getDeviceCount()
    except Exception as error:  # of CuPy, whose class cannot be named where there is no driver
        raise RunError(_no_gpu(str(error))) from None
    if n_devices == 0:
        raise RunError(_no_gpu("no device is visible"))


def _no_gpu(reason: str) -> str:
    return (
        f"device='cuda' needs an NVIDIA GPU and its driver, but CuPy finds none ({reason}). "
        "Use device='cpu', which gives the same model."
    )


@contextlib.contextmanager
def selected(number: int) -> Iterator[None]:
    """Work with this GPU; in CUDA each thread has a GPU of its own that it works with."""
    with cupy().cuda.Device(number):
        yield


def number_of(number: int | None) -> int:
    """The number of a GPU that is there: the given one, or the one that the thread works with."""
    module = cupy()
    if number is None:
        return int(module.cuda.Device().id)
    n_devices = int(module.cuda.runtime.getDeviceCount())
    if number >= n_devices:
        last = f" to 'cuda:{n_devices - 1}'" if n_devices > 1 else ""
        raise RunError(f"there is no GPU device='cuda:{number}'. There is device='cuda:0'{last}.")
    return number


def description() -> str | None:
    """The name of the GPU and the version of CuPy; None without them."""
    try:
        module = cupy()
    except (MissingExtra, RunError):
        return None
    name = module.cuda.runtime.getDeviceProperties(0)["name"]
    return f"{name.decode() if isinstance(name, bytes) else name}, CuPy {module.__version__}"


@contextlib.contextmanager
def within_memory(what: str) -> Iterator[None]:
    """Turn a lack of memory into an error of ours, after which the GPU can be used as before."""
    module = cupy()
    try:
        yield
    except module.cuda.memory.OutOfMemoryError as error:
        free_unused()
        raise RunError(
            f"the GPU has too little memory for {what} ({error}). Use fewer rows or features, or device='cpu'."
        ) from None


def free_unused() -> None:
    """Give memory that no array uses back to the GPU."""
    cupy().get_default_memory_pool().free_all_blocks()


def free_bytes() -> int:
    """The memory of the GPU that no array uses, whether CuPy keeps it for the next one or not."""
    kept = cupy().get_default_memory_pool().free_bytes()
    return int(cupy().cuda.runtime.memGetInfo()[0]) + int(kept)


def attribute(name: str) -> int:
    """A property of the GPU, by the name that CuPy gives it."""
    module = cupy()
    return int(_attributes(module, int(module.cuda.Device().id))[name])


@functools.cache
def _attributes(module: Any, number: int) -> dict[str, int]:
    """All properties of a GPU; CuPy asks the driver for a hundred of them, and some take milliseconds."""
    attributes: dict[str, int] = module.cuda.Device(number).attributes
    return attributes


def block_size() -> int:
    """Threads of a block that grows a tree."""
    return min(LARGEST_BLOCK, attribute("MaxThreadsPerBlock"))


def shared_bytes() -> int:
    """The shared memory that a block can ask for."""
    return attribute("MaxSharedMemoryPerBlockOptin") - _RESERVED


def upload(values: Array) -> Any:
    """A copy on the GPU; an array without entries gets one, so that it has an address."""
    array = np.ascontiguousarray(values)
    if array.nbytes < _LARGE:
        return cupy().asarray(array if array.size else np.zeros(1, array.dtype))
    # CuPy would copy it to page-locked memory first, and keep as much of that.
    made = cupy().empty(array.shape, array.dtype)
    made.set(array)
    return made


def empty(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """An array on the GPU whose entries are not set."""
    return cupy().empty(shape, dtype)


def filled(size: int, dtype: Any, byte: int) -> Any:
    """An array on the GPU all of whose bytes are this one: it takes no kernel of CuPy's, which need CUDA's headers."""
    made = empty(size, dtype)
    made.data.memset_async(byte, made.nbytes)
    return made


def pinned(shape: int | tuple[int, ...], dtype: Any) -> Array:
    """An array here whose memory the GPU copies from and to by itself, some times as fast as other memory."""
    kind = np.dtype(dtype)
    n_entries = int(np.prod(shape, dtype=np.int64))
    memory = cupy().cuda.alloc_pinned_memory(max(1, n_entries * kind.itemsize))
    made: Array = np.frombuffer(memory, kind, n_entries).reshape(shape)
    return made


def stream() -> Any:
    """A queue of the GPU: what stands in it is done in its order, beside what stands in others."""
    return cupy().cuda.Stream()


def zeros(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """An array of zeros on the GPU."""
    return cupy().zeros(shape, dtype)


def download(array: Any) -> Array:
    """An array of the GPU, here."""
    host: Array = array.get()
    return host


def upload_to(array: Any, values: Array, queue: Any = None) -> None:
    """Fill an array on the GPU from page-locked memory: now, or when the queue comes to it."""
    array.set(values, stream=queue)


def download_to(values: Array, array: Any, queue: Any = None) -> None:
    """Fill page-locked memory from an array of the GPU: now, or when the queue comes to it."""
    array.get(stream=queue, out=values, blocking=queue is None)


def source(name: str) -> str:
    """The text of a file of kernels with what it includes."""
    folder = Path(__file__).parent
    text = (folder / name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: source(found[1]), text)


@functools.cache
def _function(cupy: Any, file: str, name: str, n_threads: int, is_cooperative: bool) -> Any:
    """A kernel, compiled on its first use; CuPy keeps what it has compiled in a folder of the user."""
    module = cupy.RawModule(
        code=source(file),
        options=(*_OPTIONS, f"-DTHREADS={n_threads}"),
        enable_cooperative_groups=is_cooperative,
    )
    return module.get_function(name)


def run(
    file: str,
    name: str,
    grid: tuple[int, ...],
    n_threads: int,
    arguments: Sequence[Any],
    shared_memory: int = 0,
    *,
    is_cooperative: bool = False,
) -> None:
    """Run a kernel of a file on a grid of blocks, which may wait for each other if it is cooperative."""
    function = _function(cupy(), file, name, n_threads, is_cooperative)
    if shared_memory > 0:
        function.max_dynamic_shared_size_bytes = shared_memory
    function(grid, (n_threads,), tuple(arguments), shared_mem=shared_memory)


def blocks_at_once(file: str, name: str, n_threads: int, shared_memory: int) -> int:
    """How many blocks of a cooperative kernel the GPU runs at the same time; 0 if it has no such launches."""
    module = cupy()
    if not attribute("CooperativeLaunch"):
        return 0
    function = _function(module, file, name, n_threads, True)
    function.max_dynamic_shared_size_bytes = shared_memory
    of_processor = module.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
        function.kernel.ptr, n_threads, shared_memory
    )
    return int(of_processor) * attribute("MultiProcessorCount")


def wait() -> None:
    """Wait until the GPU has done what it was given."""
    cupy().cuda.Stream.null.synchronize()
