"""The part of CuPy that runs kernels, as a module that can be put in the place of ``cupy``.

What stands here follows CuPy's documentation: names, arguments, defaults and errors. A kernel of the null stream has run
when its launch returns. What other streams are given waits until the host waits for them, which is the latest moment: a
host that reads or changes memory too early is found out. Events order nothing; a device's clock stands still.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.cuda.emulator import arrays, compiling
from tests.cuda.emulator.arrays import Heap, MemoryPointer, OutOfMemoryError, ndarray

_MOST_SHARED = 227 << 10  # bytes a block may ask for, of Hopper
_SHARED_AT_FIRST = 48 << 10  # without asking
_SHARED_OF_A_PROCESSOR = 228 << 10
_RESERVED_SHARED = 1 << 10  # of every block
_MOST_THREADS = 1024
_THREADS_OF_A_PROCESSOR = 2048
_MOST_ARGUMENT_BYTES = 4096


class CUDARuntimeError(RuntimeError):
    """As ``cupy.cuda.runtime.CUDARuntimeError``."""

    def __init__(self, status: int, text: str):
        self.status = status
        super().__init__(text)


class CUDADriverError(RuntimeError):
    """As ``cupy.cuda.driver.CUDADriverError``."""

    def __init__(self, status: int, text: str):
        self.status = status
        super().__init__(text)


@dataclass
class Machine:
    """The devices there are, and how kernels run on them. Tests set these."""

    n_devices: int = 1
    memory: int = 1 << 30  # bytes of a device
    n_processors: int = 4
    most_threads: int = 1024  # of a block, as the device reports them: fewer make launches faster
    compute_capability: str = "90"
    is_strict: bool = (
        True  # a barrier that threads that have ended would have to reach is a mistake
    )
    seed: int = (
        0  # 0: threads run in order; else in an order drawn from the seed, with pauses in between
    )
    resident_blocks: int = 1  # of a launch that is not cooperative; with a seed, 4
    checks_accesses: bool = False  # every one, for bounds and races; slow
    launches: list[str] = field(default_factory=list)  # names of kernels, as they were launched
    _heaps: dict[int, Heap] = field(default_factory=dict)
    _current: threading.local = field(default_factory=threading.local)

    def heap(self, device: int) -> Heap:
        heap = self._heaps.setdefault(device, Heap(self.memory))
        heap.total = self.memory
        return heap

    @property
    def current(self) -> int:
        return getattr(self._current, "device", 0)

    @current.setter
    def current(self, device: int) -> None:
        self._current.device = device


# Machines whose module stands in the place of CuPy, the last one now. Code under test may keep modules and kernels that it
# got from an earlier one: they run on the last one, too.
in_place: list[Machine] = []


class Device:
    """As ``cupy.cuda.Device``."""

    def __init__(self, machine: Machine, device: int | None = None):
        self.id = machine.current if device is None else int(getattr(device, "id", device))
        self._machine, self._before = machine, []

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Device:
        self._before.append(self._machine.current)
        self.use()
        return self

    def __exit__(self, *_: object) -> None:
        self._machine.current = self._before.pop()

    def use(self) -> None:
        if not 0 <= self.id < self._machine.n_devices:
            raise CUDARuntimeError(101, "cudaErrorInvalidDevice: invalid device ordinal")
        self._machine.current = self.id

    def synchronize(self) -> None:
        pass

    @property
    def heap(self) -> Heap:
        return self._machine.heap(self.id)

    @property
    def compute_capability(self) -> str:
        return self._machine.compute_capability

    @property
    def mem_info(self) -> tuple[int, int]:
        return self.heap.total - self.heap.used, self.heap.total

    @property
    def pci_bus_id(self) -> str:
        return f"0000:0{self.id}:00.0"

    @property
    def attributes(self) -> dict[str, int]:
        major, minor = divmod(int(self.compute_capability), 10)
        return {
            "MultiProcessorCount": self._machine.n_processors,
            "MaxSharedMemoryPerBlock": _SHARED_AT_FIRST,
            "MaxSharedMemoryPerBlockOptin": _MOST_SHARED,
            "MaxSharedMemoryPerMultiprocessor": _SHARED_OF_A_PROCESSOR,
            "ReservedSharedMemoryPerBlock": _RESERVED_SHARED,
            "MaxThreadsPerBlock": self._machine.most_threads,
            "MaxThreadsPerMultiProcessor": _THREADS_OF_A_PROCESSOR,
            "MaxRegistersPerBlock": 65536,
            "MaxRegistersPerMultiprocessor": 65536,
            "WarpSize": 32,
            "CooperativeLaunch": 1,
            "ComputeCapabilityMajor": major,
            "ComputeCapabilityMinor": minor,
            "L2CacheSize": 50 << 20,
            "ClockRate": 1_000_000,
        }


# Kernels by ``ptr``, the number by which functions of the driver know them.
_kernels: weakref.WeakValueDictionary[int, Kernel] = weakref.WeakValueDictionary()


class Kernel:
    """As ``cupy.RawKernel``: called with a grid, a block and the arguments."""

    def __init__(self, module: Module, name: str):
        library = module.library()
        if name not in library.kernels:
            raise CUDADriverError(500, "CUDA_ERROR_NOT_FOUND: named symbol not found")
        self._module, self._entry = module, library.kernels[name][1]
        self.name = name
        self.enable_cooperative_groups = module.enable_cooperative_groups
        self.parameters = [
            (p.kind.decode(), p.size) for p in self._entry.parameters[: self._entry.count]
        ]
        self.shared_size_bytes = library.static_shared
        self._most_dynamic = _SHARED_AT_FIRST - library.static_shared
        self.preferred_shared_memory_carveout = -1
        self.num_regs, self.local_size_bytes, self.const_size_bytes = 64, 0, 0
        self.max_threads_per_block = min(self._entry.most_threads, _MOST_THREADS)
        self.binary_version = self.ptx_version = int(module.machine.compute_capability)
        _kernels[self.ptr] = self

    @property
    def _machine(self) -> Machine:
        return self._module.machine

    def compile(self, log_stream: object = None) -> None:
        pass

    @property
    def kernel(self) -> Kernel:
        return self

    @property
    def ptr(self) -> int:
        return id(self)

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self._most_dynamic

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        if not 0 <= size <= _MOST_SHARED - self.shared_size_bytes:
            raise CUDADriverError(1, "CUDA_ERROR_INVALID_VALUE: invalid argument")
        self._most_dynamic = size

    @property
    def attributes(self) -> dict[str, int]:
        names = (
            "max_threads_per_block",
            "shared_size_bytes",
            "const_size_bytes",
            "local_size_bytes",
            "num_regs",
        )
        names += (
            "ptx_version",
            "binary_version",
            "max_dynamic_shared_size_bytes",
            "preferred_shared_memory_carveout",
        )
        return {name: getattr(self, name) for name in names}

    def blocks_of_a_processor(self, n_threads: int, dynamic: int) -> int:
        """How many blocks run on a processor at once."""
        n_threads = -(-n_threads // 32) * 32
        by_shared = _SHARED_OF_A_PROCESSOR // (self.shared_size_bytes + dynamic + _RESERVED_SHARED)
        return min(
            _THREADS_OF_A_PROCESSOR // n_threads,
            by_shared,
            65536 // (n_threads * self.num_regs),
            32,
        )

    def __call__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        stream: object = None,
    ) -> None:
        sizes = [tuple(int(length) for length in (*size, 1, 1)[:3]) for size in (grid, block)]
        n_blocks, n_threads = (int(np.prod(size)) for size in sizes)
        if (
            min(map(min, sizes)) < 1
            or n_threads > _MOST_THREADS
            or not 0 <= shared_mem <= self._most_dynamic
        ):
            raise CUDADriverError(1, "CUDA_ERROR_INVALID_VALUE: invalid argument")
        if n_threads > self.max_threads_per_block:
            raise CUDADriverError(
                701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch"
            )
        most = self._machine.n_processors * self.blocks_of_a_processor(n_threads, shared_mem)
        if self.enable_cooperative_groups and n_blocks > most:
            raise CUDADriverError(
                720,
                "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: too many blocks in cooperative launch",
            )
        seed = self._machine.seed
        resident = (
            n_blocks
            if self.enable_cooperative_groups
            else max(self._machine.resident_blocks, 4 if seed else 1)
        )
        heap = self._machine.heap(self._machine.current)
        places = heap.places()
        options = compiling.Options(
            n_arrays=len(places),
            arrays=places.ctypes.data,
            dynamic_shared=shared_mem,
            resident=min(resident, n_blocks),
            strict=self._machine.is_strict,
            seed=seed + len(self._machine.launches) if seed else 0,
        )
        options.grid[:], options.block[:] = sizes
        self._machine.launches.append(self.name)
        values = [self._value(place, value) for place, value in enumerate(self._counted(args))]
        pointers = (ctypes.c_void_p * max(len(values), 1))(
            *(ctypes.addressof(value) for value in values)
        )

        def launch() -> None:
            try:
                library = self._module.library()
                library.launch(library.kernels[self.name][0], options, pointers)
            except compiling.KernelMistake as mistake:
                raise compiling.KernelMistake(f"{self.name}: {mistake}") from None
            heap.check_edges(self.name)

        held = (values, places)  # what the launch reads
        Stream.current().do(lambda _held=held: launch())

    def _counted(self, arguments: Sequence[Any]) -> Sequence[Any]:
        if len(arguments) != len(self.parameters):
            raise compiling.KernelMistake(
                f"{self.name} takes {len(self.parameters)} arguments and was given {len(arguments)}."
            )
        return arguments

    def _value(self, place: int, value: Any) -> ctypes.Array:
        """The bytes of an argument; a device would take bytes of any length, and read what follows them."""
        kind, size = self.parameters[place]
        try:
            data, kinds = _bytes_of(value, kind, size)
        except (OverflowError, ValueError) as error:
            raise compiling.KernelMistake(f"argument {place} of {self.name}: {error}") from None
        if kind not in kinds or len(data) != size:
            names = {
                "p": "a pointer",
                "i": "an integer",
                "u": "an integer",
                "f": "a float",
                "s": "a structure",
            }
            raise compiling.KernelMistake(
                f"argument {place} of {self.name} is {names[kind]} of {size} bytes, and {type(value).__name__} "
                f"of {len(data)} bytes was given."
            )
        return (ctypes.c_char * size).from_buffer_copy(data)


def _bytes_of(value: Any, kind: str, size: int) -> tuple[bytes, str]:
    """An argument's bytes, and the kinds of parameters that take it."""
    if value is None:
        return bytes(8), "p"
    if isinstance(value, ndarray | MemoryPointer):
        address = value.data.ptr if isinstance(value, ndarray) else value.ptr
        return address.to_bytes(8, "little"), "p"
    if isinstance(value, bool | np.bool_):
        return bytes([bool(value)]), "iu"
    if isinstance(value, int):  # CuPy passes 8 bytes, of which the kernel reads those it needs
        return value.to_bytes(size, "little", signed=value < 0), "iup"
    if isinstance(value, float):
        return np.float64(value).tobytes(), "f"
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "iufV":
        return value.tobytes(), {"i": "iu", "u": "iu", "f": "f", "V": "s"}[value.dtype.kind]
    if isinstance(value, ctypes.Structure):
        return bytes(value), "s"
    raise TypeError(f"Unsupported type {type(value)}")


class Module:
    """As ``cupy.RawModule``."""

    def __init__(
        self,
        machine: Machine,
        *,
        code: str | None = None,
        path: str | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None,
        jitify: bool = False,
    ):
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        if backend not in ("nvrtc", "nvcc"):
            raise ValueError(f"Invalid backend {backend!r}")
        self.code, self.options, self.backend = (
            Path(path).read_text() if code is None else code,
            tuple(options),
            backend,
        )
        self.name_expressions = name_expressions
        self.enable_cooperative_groups = enable_cooperative_groups
        self._machine = machine

    def compile(self, log_stream: object = None) -> None:
        self.library()

    def get_function(self, name: str) -> Kernel:
        return Kernel(self, name)

    def get_global(self, name: str) -> MemoryPointer:
        address = self.library().address_of(name)
        raw = np.ctypeslib.as_array((ctypes.c_uint8 * 1).from_address(address))
        return MemoryPointer(raw, self)

    @property
    def machine(self) -> Machine:
        return in_place[-1] if in_place else self._machine

    def library(self) -> compiling.Library:
        expressions = tuple(self.name_expressions or ())
        return compiling.load(self.code, self.options, expressions, self.machine.checks_accesses)


class Stream:
    """As ``cupy.cuda.Stream``: work is done when it is asked for, or waited for if the stream is not the null one."""

    null: Stream
    _of_thread = threading.local()

    def __init__(
        self,
        null: bool = False,
        non_blocking: bool = False,
        ptds: bool = False,
        priority: int | None = None,
    ):
        self.ptr, self.done = (0 if null else id(self)), True
        self._waiting: list[Callable[[], None]] = []
        self._before: list[Stream] = []

    @classmethod
    def current(cls) -> Stream:
        """The stream that the thread works with."""
        return getattr(cls._of_thread, "stream", cls.null)

    def __enter__(self) -> Stream:
        self._before.append(self.current())
        return self.use()

    def __exit__(self, *_: object) -> None:
        self._before.pop().use()

    def use(self) -> Stream:
        self._of_thread.stream = self
        return self

    def do(self, work: Callable[[], None]) -> None:
        """Do something when the host waits for it."""
        if self.ptr == 0:
            work()
        else:
            self._waiting.append(work)

    def synchronize(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()

    def record(self, event: Event | None = None) -> Event:
        return event or Event()

    def wait_event(self, event: Event) -> None:
        pass

    def launch_host_func(self, callback: Callable[[Any], None], arg: Any) -> None:
        callback(arg)


Stream.null = Stream(null=True)


class Event:
    """As ``cupy.cuda.Event``; no time passes between two of them."""

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ):
        self.done = True

    def record(self, stream: Stream | None = None) -> None:
        pass

    def synchronize(self) -> None:
        pass


class MemoryPool:
    """As ``cupy.cuda.MemoryPool``; what is freed is free at once."""

    def __init__(self, machine: Machine):
        self._machine = machine

    def free_all_blocks(self, stream: object = None) -> None:
        pass

    def used_bytes(self) -> int:
        return self._machine.heap(self._machine.current).used

    def total_bytes(self) -> int:
        return self.used_bytes()

    def free_bytes(self) -> int:
        return 0

    def n_free_blocks(self) -> int:
        return 0

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        self._machine.memory = int(size if size is not None else fraction * self._machine.memory)


def make_cupy(machine: Machine) -> dict[str, ModuleType]:
    """The modules, by name, that stand for CuPy with this machine's devices."""
    modules = {
        name: ModuleType(name, __doc__)
        for name in (
            "cupy",
            "cupy.cuda",
            "cupy.cuda.runtime",
            "cupy.cuda.driver",
            "cupy.cuda.memory",
            "cupy.cuda.compiler",
            "cupy.cuda.device",
            "cupyx",
        )
    }
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    for name, names in {
        "cupy": {**_of_arrays(machine), **_of_kernels(machine)},
        "cupy.cuda": _of_cuda(machine),
        "cupy.cuda.runtime": _of_runtime(machine),
        "cupy.cuda.driver": {
            "CUDADriverError": CUDADriverError,
            "occupancyMaxActiveBlocksPerMultiprocessor": lambda function, threads, dynamic: (
                _kernels[function].blocks_of_a_processor(threads, dynamic)
            ),
        },
        "cupy.cuda.memory": {"OutOfMemoryError": OutOfMemoryError, "MemoryPointer": MemoryPointer},
        "cupy.cuda.compiler": {"CompileException": compiling.CompileException},
        "cupyx": {
            "empty_pinned": lambda shape, dtype=float, order="C": np.empty(shape, dtype, order),
            "zeros_pinned": lambda shape, dtype=float, order="C": np.zeros(shape, dtype, order),
        },
    }.items():
        vars(modules[name]).update(names)
    modules["cupy.cuda.device"].Device = modules["cupy.cuda"].Device
    modules["cupy"].__path__ = modules["cupy.cuda"].__path__ = []
    return modules


def _of_arrays(machine: Machine) -> dict[str, Any]:
    def here() -> Device:
        return Device(machine)

    def asarray(a: Any, dtype: Any = None, order: str = "K", blocking: bool = False) -> ndarray:
        if isinstance(a, ndarray):
            return a if dtype is None or a.dtype == dtype else a.astype(dtype)
        host = np.asarray(a, dtype)
        return arrays.on_device(host, here())

    def array(object: Any, dtype: Any = None, copy: bool = True, order: str = "K") -> ndarray:  # noqa: A002
        if isinstance(object, ndarray):
            return object.astype(dtype or object.dtype)
        return asarray(object, dtype)

    def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
        return arrays.unset(shape, dtype, here(), order)

    def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
        made = empty(shape, dtype or np.asarray(fill_value).dtype, order)
        made.fill(fill_value)
        return made

    def like(make: Callable[..., ndarray]) -> Callable[..., ndarray]:
        return lambda a, dtype=None, *_, **__: make(a.shape, dtype or a.dtype)

    def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
        return full(shape, 0, dtype, order)

    def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
        return full(shape, 1, dtype, order)

    def asnumpy(a: Any, *_: Any, out: np.ndarray | None = None, **__: Any) -> np.ndarray:
        return a.get(out=out) if isinstance(a, ndarray) else np.asarray(a)

    def copyto(dst: ndarray, src: Any, casting: str = "same_kind") -> None:
        np.copyto(dst._host, src._host if isinstance(src, ndarray) else src, casting=casting)

    def through(name: str) -> Callable[..., ndarray]:
        def compute(*arguments: Any, **named: Any) -> ndarray:
            result = getattr(np, name)(*map(_hosts, arguments), **named)
            return arrays.on_device(np.asarray(result), here())

        return compute

    scalars = "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bool_ intp dtype newaxis pi inf nan"
    functions = "arange concatenate stack cumsum where sum max min maximum minimum sqrt rint clip take argsort sort searchsorted"
    functions += " ascontiguousarray bincount array_equal linspace eye unique nonzero flatnonzero count_nonzero abs isnan"
    return {
        **{name: getattr(np, name) for name in scalars.split()},
        **{name: through(name) for name in functions.split()},
        **{f.__name__: f for f in (asarray, array, empty, full, zeros, ones, asnumpy, copyto)},
        **{"empty_like": like(empty), "zeros_like": like(zeros), "ones_like": like(ones)},
        "full_like": lambda a, fill_value, dtype=None: full(a.shape, fill_value, dtype or a.dtype),
        "ndarray": ndarray,
        "get_array_module": lambda *a: None if any(isinstance(x, ndarray) for x in a) else np,
    }


def _hosts(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_hosts(part) for part in value]
    return value._host if isinstance(value, ndarray) else value


def _of_kernels(machine: Machine) -> dict[str, Any]:
    def raw_module(**named: Any) -> Module:
        return Module(machine, **named)

    def raw_kernel(code: str, name: str, options: Sequence[str] = (), **named: Any) -> Kernel:
        return Module(machine, code=code, options=options, **named).get_function(name)

    pool = MemoryPool(machine)
    return {
        "__version__": "13.6.0",
        "RawModule": raw_module,
        "RawKernel": raw_kernel,
        "get_default_memory_pool": lambda: pool,
        "get_default_pinned_memory_pool": lambda: pool,
        "is_available": lambda: machine.n_devices > 0,
    }


def _of_cuda(machine: Machine) -> dict[str, Any]:
    @contextlib.contextmanager
    def using_allocator(allocator: object = None) -> Iterator[None]:
        yield

    return {
        "Device": lambda device=None: Device(machine, device),
        "Stream": Stream,
        "Event": Event,
        "MemoryPointer": MemoryPointer,
        "MemoryPool": lambda *_: MemoryPool(machine),
        "get_current_stream": Stream.current,
        "get_elapsed_time": lambda start, end: 0.0,
        "is_available": lambda: machine.n_devices > 0,
        "get_device_id": lambda: machine.current,
        "alloc_pinned_memory": bytearray,
        "alloc": lambda size: arrays.unset(size, np.uint8, Device(machine)).data,
        "using_allocator": using_allocator,
        "set_allocator": lambda *_: None,
    }


def _of_runtime(machine: Machine) -> dict[str, Any]:
    def count() -> int:
        if machine.n_devices == 0:
            raise CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device is detected")
        return machine.n_devices

    def properties(device: int) -> dict[str, Any]:
        major, minor = divmod(int(machine.compute_capability), 10)
        return {
            "name": b"Emulated GPU",
            "totalGlobalMem": machine.memory,
            "multiProcessorCount": machine.n_processors,
            "major": major,
            "minor": minor,
            "warpSize": 32,
            "sharedMemPerBlock": _SHARED_AT_FIRST,
            "sharedMemPerBlockOptin": _MOST_SHARED,
            "sharedMemPerMultiprocessor": _SHARED_OF_A_PROCESSOR,
            "maxThreadsPerBlock": machine.most_threads,
            "cooperativeLaunch": 1,
        }

    return {
        "CUDARuntimeError": CUDARuntimeError,
        "getDeviceCount": count,
        "getDeviceProperties": properties,
        "memGetInfo": lambda: Device(machine).mem_info,
        "getDevice": lambda: machine.current,
        "setDevice": lambda device: Device(machine, device).use(),
        "deviceSynchronize": lambda: None,
        "runtimeGetVersion": lambda: 12080,
        "driverGetVersion": lambda: 12080,
        "is_hip": False,
    }
