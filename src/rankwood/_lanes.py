"""Sixteen values at a time, on processors that can: two steps that numba has no words for.

A list is parted by marking, in the bits of a number, which of the next sixteen values are wanted, and copying just
those. One by one that takes a few instructions per value; AVX-512 has an instruction for all sixteen. Kernels use
these steps where ``HAS_LANES`` says so, and have a plain loop besides. Neither step checks its bounds.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

N_LANES = 16
_BYTE, _INT, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BITS = ir.IntType(N_LANES)
_MASK = ir.VectorType(ir.IntType(1), N_LANES)
_BYTES = ir.VectorType(_BYTE, N_LANES)
_INTS = ir.VectorType(_INT, N_LANES)


def _has_lanes() -> bool:
    """Whether kernels are compiled, and for processors with AVX-512."""
    if numba.config.DISABLE_JIT:
        return False
    try:
        from numba.core.registry import cpu_target

        *_, features = cpu_target.target_context.codegen().magic_tuple()  # what its cache goes by
    except (ImportError, AttributeError):  # another numba: the plain loops will do
        return False
    return "+avx512f" in features.split(",")


HAS_LANES = _has_lanes()


@intrinsic
def bits_of_most(typing: Any, codes: Any, begin: Any, n_codes: Any, turn: Any, most: Any) -> Any:
    """Which of ``n_codes`` ≤ 16 bytes from ``begin`` are at most ``most`` when ``turn`` is added to each.

    The lowest bit is the first byte's; bits beyond the last are 0.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        codes, begin, n_codes, turn, most = arguments
        lanes = _Lanes(context, builder)
        is_there = lanes.first(n_codes)
        found = lanes.load(_BYTES, lanes.place(signature.args[0], codes, begin), is_there)
        turned = builder.add(found, lanes.same(turn))
        is_most = builder.icmp_unsigned("<=", turned, lanes.same(most))
        return builder.bitcast(builder.and_(is_most, is_there), _BITS)

    return types.uint16(codes, types.uint64, types.uint64, types.uint8, types.uint8), generate


@intrinsic
def copy_chosen(typing: Any, source: Any, begin: Any, bits: Any, target: Any, to: Any) -> Any:
    """Copy those of sixteen 32-bit values from ``begin`` whose bits are set to ``to`` and on; gives how many.

    All are read before any is written, and only what is copied is touched.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, begin, bits, target, to = arguments
        lanes = _Lanes(context, builder)
        is_chosen = builder.bitcast(bits, _MASK)
        found = lanes.load(_INTS, lanes.place(signature.args[0], source, begin), is_chosen)
        n_chosen = builder.zext(lanes.call("llvm.ctpop.i16", _BITS, bits), _LONG)
        none = ir.Constant(_INTS, [0] * N_LANES)
        packed = lanes.call("llvm.x86.avx512.mask.compress.v16i32", _INTS, found, none, is_chosen)
        where = lanes.place(signature.args[3], target, to)
        lanes.store(packed, where, lanes.first(n_chosen))
        return n_chosen

    return types.uint64(source, types.uint64, types.uint16, target, types.uint64), generate


class _Lanes:
    """The instructions behind the two steps."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call one of LLVM's functions."""
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, arguments)

    def place(self, kind: Any, array: Any, number: Any) -> Any:
        """Where a value of an array lies."""
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        return self.builder.gep(data, [number])

    def same(self, value: Any) -> Any:
        """The value in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, N_LANES), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * N_LANES))

    def first(self, n_lanes: Any) -> Any:
        """The mask of the first lanes."""
        numbers = ir.Constant(_INTS, list(range(N_LANES)))
        return self.builder.icmp_unsigned(
            "<", numbers, self.same(self.builder.trunc(n_lanes, _INT))
        )

    def load(self, kind: Any, where: Any, mask: Any) -> Any:
        """The masked values at a place, 0 in other lanes."""
        width = kind.element.width
        name = f"llvm.masked.load.v{N_LANES}i{width}.p0"
        where = self.builder.bitcast(where, kind.as_pointer())
        align, none = ir.Constant(_INT, width // 8), ir.Constant(kind, [0] * N_LANES)
        return self.call(name, kind, where, align, mask, none)

    def store(self, values: Any, where: Any, mask: Any) -> None:
        """Write the masked values to a place."""
        where = self.builder.bitcast(where, values.type.as_pointer())
        name = f"llvm.masked.store.v{N_LANES}i32.p0"
        self.call(name, ir.VoidType(), values, where, ir.Constant(_INT, 4), mask)
