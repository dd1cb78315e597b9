"""Device arrays: NumPy arrays behind a wall, in memory whose neighbours nobody may touch.

An array ends where a page ends, and the next page refuses every access: a kernel that runs past the end of it stops there.
What a kernel writes just before an array, in the rest of its first page, is found after the launch.
"""

from __future__ import annotations

import ctypes
import mmap
import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.cuda.emulator.compiling import KernelMistake

_PAGE = mmap.PAGESIZE
_ALIGNMENT = 16  # of the end: what the widest load of a kernel asks for
_UNSET = 0xCB  # in memory that nobody has written
_CANARY = 0xEC
_NO_ACCESS = 0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class OutOfMemoryError(MemoryError):
    """As ``cupy.cuda.memory.OutOfMemoryError``."""


class Allocation:
    """Bytes of a device between two pages that cannot be touched."""

    def __init__(self, size: int):
        self.size = size
        room = -(-size // _ALIGNMENT) * _ALIGNMENT
        n_bytes = max(-(-room // _PAGE), 1) * _PAGE
        memory = np.frombuffer(mmap.mmap(-1, n_bytes + 2 * _PAGE), np.uint8)
        address = memory.ctypes.data
        for guard in (address, address + _PAGE + n_bytes):
            if _libc.mprotect(guard, _PAGE, _NO_ACCESS):
                raise OSError(ctypes.get_errno(), "the memory beside an array could not be guarded")
        inside = memory[_PAGE : _PAGE + n_bytes]
        first = n_bytes - room
        self.before, self.bytes, self.after = np.split(inside, [first, first + size])
        self.bytes[:] = _UNSET
        self.before[:] = self.after[:] = _CANARY
        begin = address + _PAGE + first
        self.place = (begin, begin + size, address, address + n_bytes + 2 * _PAGE)

    def is_intact(self) -> bool:
        return bool((self.before == _CANARY).all() and (self.after == _CANARY).all())


class Heap:
    """The memory of one device: how much there is and what is taken."""

    def __init__(self, total: int):
        self.total = total
        self.used = self.most_used = 0
        self._allocations: weakref.WeakSet[Allocation] = weakref.WeakSet()

    def take(self, size: int) -> Allocation:
        if self.used + size > self.total:
            raise OutOfMemoryError(
                f"Out of memory allocating {size:,} bytes (allocated so far: {self.used:,} bytes)."
            )
        allocation = Allocation(size)
        self._allocations.add(allocation)
        self.used += size
        self.most_used = max(self.most_used, self.used)
        weakref.finalize(allocation, self._give_back, size)
        return allocation

    def _give_back(self, size: int) -> None:
        self.used -= size

    def places(self) -> np.ndarray:
        """Where the arrays lie: their first byte and the end, and those of the pages around them."""
        places = sorted(allocation.place for allocation in self._allocations)
        return np.array(places, np.uint64).reshape(-1, 4)

    def check_edges(self, kernel: str) -> None:
        """Raise if a kernel has written just before or after an array."""
        for allocation in self._allocations:
            if not allocation.is_intact():
                allocation.before[:] = allocation.after[:] = _CANARY
                raise KernelMistake(f"{kernel} wrote beside an array of {allocation.size} bytes.")


class MemoryPointer:
    """Where an array begins, as its attribute ``data``."""

    def __init__(self, array: np.ndarray, allocation: Any):
        self._array, self.mem = array, allocation
        self.ptr = int(array.__array_interface__["data"][0])

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, n_bytes: int) -> MemoryPointer:
        raw = self._array.reshape(-1).view(np.uint8)
        return MemoryPointer(raw[n_bytes:], self.mem)

    def memset(self, value: int, size: int) -> None:
        self._array.reshape(-1).view(np.uint8)[:size] = value

    def memset_async(self, value: int, size: int, stream: object = None) -> None:
        self.memset(value, size)


class ndarray:  # noqa: N801 - CuPy's name
    """An array of a device. It becomes a NumPy array by ``get`` alone, as CuPy's."""

    __array_ufunc__ = None
    __array_priority__ = 100

    def __init__(self, host: np.ndarray, allocation: Any, device: Any):
        self._host, self._allocation, self.device = host, allocation, device

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    @property
    def data(self) -> MemoryPointer:
        return MemoryPointer(self._host, self._allocation)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self._host.__array_interface__, "version": 3}

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @shape.setter
    def shape(self, shape: tuple[int, ...]) -> None:
        self._host = self._host.reshape(shape)

    @property
    def T(self) -> ndarray:
        return self._view(self._host.T)

    def get(
        self,
        stream: Any = None,
        order: str = "C",
        out: np.ndarray | None = None,
        blocking: bool = True,
    ) -> np.ndarray:
        """A copy in the host's memory."""
        if out is None:
            return np.array(self._host, order=order)
        if out.dtype != self.dtype or out.shape != self.shape:
            raise ValueError(
                f"out is {out.dtype} of shape {out.shape}, and the array {self.dtype} of {self.shape}."
            )
        if stream is None or blocking:
            out[...] = self._host
        else:
            stream.do(lambda: np.copyto(out, self._host))
        return out

    def set(self, host: np.ndarray, stream: Any = None) -> None:
        """Fill from an array of the host of the same dtype and shape."""
        if not isinstance(host, np.ndarray):
            raise TypeError(f"Only numpy.ndarray can be set, got {type(host)}.")
        if host.dtype != self.dtype:
            raise TypeError(f"{self.dtype} array cannot be set to {host.dtype} array")
        if host.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {host.shape}")
        if stream is None:
            self._host[...] = host
        else:
            stream.do(lambda: np.copyto(self._host, host))

    def fill(self, value: Any) -> None:
        self._host.fill(_scalar(value))

    def view(self, dtype: Any = None) -> ndarray:
        return self._view(self._host.view() if dtype is None else self._host.view(dtype))

    def reshape(self, *shape: Any, order: str = "C") -> ndarray:
        reshaped = self._host.reshape(*shape, order=order)
        return (
            self._view(reshaped) if np.shares_memory(reshaped, self._host) else self._new(reshaped)
        )

    def ravel(self, order: str = "C") -> ndarray:
        return self.reshape(-1, order=order)

    def transpose(self, *axes: Any) -> ndarray:
        return self._view(self._host.transpose(*axes))

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: str = "unsafe",
        subok: object = None,
        copy: bool = True,
    ) -> ndarray:
        if not copy and self.dtype == dtype:
            return self
        return self._new(self._host.astype(dtype, order=order))

    def copy(self, order: str = "C") -> ndarray:
        return self._new(self._host.copy(order))

    def item(self, *place: int) -> Any:
        return self._host.item(*place)

    def tolist(self) -> list[Any]:
        return self._host.tolist()

    def __getitem__(self, key: Any) -> ndarray:
        picked = self._host[_index(key)]
        if (
            isinstance(picked, np.ndarray)
            and picked.base is not None
            and np.may_share_memory(picked, self._host)
        ):
            return self._view(picked)
        return self._new(np.asarray(picked))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._host[_index(key)] = _operand(value)

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return repr(self._host)

    def _view(self, host: np.ndarray) -> ndarray:
        return ndarray(host, self._allocation, self.device)

    def _new(self, host: np.ndarray) -> ndarray:
        return on_device(host, self.device)


def on_device(host: np.ndarray, device: Any) -> ndarray:
    """A copy of an array of the host in a device's memory."""
    made = unset(host.shape, host.dtype, device, "F" if host.flags.fnc else "C")
    made._host[...] = host
    return made


def unset(shape: Any, dtype: Any, device: Any, order: str = "C") -> ndarray:
    """An array of rubbish."""
    kind = np.dtype(dtype)
    if kind.char not in "?bhilqBHILQefdFD":
        raise ValueError(f"Unsupported dtype {kind}")
    shape = (int(shape),) if np.ndim(shape) == 0 else tuple(int(length) for length in shape)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    allocation = device.heap.take(size)
    return ndarray(np.ndarray(shape, kind, allocation.bytes, order=order), allocation, device)


def _operand(value: Any) -> Any:
    """What NumPy may see of the other side of an operation: an array of the host is refused."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError(f"Unsupported type {type(value)}")
    return value


def _scalar(value: Any) -> Any:
    return value._host.item() if isinstance(value, ndarray) else value


def _index(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(_index(part) for part in key)
    return key._host if isinstance(key, ndarray) else key


def _binary(operation: Callable[..., Any], is_swapped: bool = False) -> Callable[..., Any]:
    def compute(self: ndarray, other: Any) -> ndarray:
        sides = (self._host, _operand(other))
        return self._new(np.asarray(operation(*(sides[::-1] if is_swapped else sides))))

    return compute


def _in_place(operation: Callable[..., Any]) -> Callable[..., Any]:
    def compute(self: ndarray, other: Any) -> ndarray:
        operation(self._host, _operand(other))
        return self

    return compute


def _unary(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: self._new(np.asarray(operation(self._host)))


def _method(name: str) -> Callable[..., Any]:
    def compute(self: ndarray, *arguments: Any, **named: Any) -> ndarray:
        return self._new(np.asarray(getattr(self._host, name)(*map(_operand, arguments), **named)))

    return compute


for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
]:
    _plain = _name.rstrip("_")
    setattr(ndarray, f"__{_plain}__", _binary(getattr(operator, _name)))
    setattr(ndarray, f"__r{_plain}__", _binary(getattr(operator, _name), is_swapped=True))
    setattr(ndarray, f"__i{_plain}__", _in_place(getattr(operator, f"i{_plain}")))
for _name in ["lt", "le", "eq", "ne", "gt", "ge"]:
    setattr(ndarray, f"__{_name}__", _binary(getattr(operator, _name)))
for _name in ["neg", "pos", "invert", "abs"]:
    setattr(ndarray, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in [
    "sum",
    "min",
    "max",
    "mean",
    "any",
    "all",
    "cumsum",
    "argmax",
    "argmin",
    "argsort",
    "take",
    "repeat",
    "prod",
    "dot",
]:
    setattr(ndarray, _name, _method(_name))
for _name in ["dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"]:
    setattr(ndarray, _name, property(operator.attrgetter(f"_host.{_name}")))
for _name, _kind in (("int", int), ("float", float), ("bool", bool), ("index", operator.index)):
    setattr(ndarray, f"__{_name}__", lambda self, kind=_kind: kind(self._host.item()))
ndarray.__hash__ = None
