"""What kernels need of LLVM and numba does not offer: linking of the kernels they call, and AVX-512 instructions.

A kernel that kernels call is compiled to LLVM's intermediate form, and to machine code only inside its callers.
numba gives every function machine code, a wrapper for Python and another for C, and it optimises each together with
all functions that it calls. A deep tree of kernels with many array arguments then spends most of its compilation on
code that nothing ever runs. A *linked* kernel has no wrappers and no machine code of its own. Its module is linked
into the module of the kernel that Python calls, and becomes machine code there.

A kernel is optimised before it is linked where at most ``OPTIMIZED_DEPTH`` levels of kernels lie below it and
including it: inner loops are then vectorised in a function of their own. The levels above are optimised once, in the
caller. Constants in a call do not make another version of a linked kernel: numba would compile one per constant.

These are inner parts of numba. ``linked_dispatcher`` is None for versions of numba whose inner parts nobody has
looked at; kernels then call each other as numba would have it, and only compiling takes longer.

The intrinsics at the end are AVX-512 compress and prefetch. Partitioning a list means marking, in the bits of a number,
which of the next sixteen values are wanted, and copying those. This takes a few instructions per value in a plain loop;
AVX-512 has one instruction for all sixteen. Kernels use these functions if ``HAS_LANES`` is true and have a plain loop
otherwise. No function checks its bounds. "Lane" is the usual term for one element of a vector register.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types import unliteral  # type: ignore[attr-defined]  # numba has no types
from numba.extending import intrinsic

OPTIMIZED_DEPTH = 3
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}  # of every kernel
_FIRST_VERSION, _FIRST_UNKNOWN_VERSION = (0, 61), (0, 69)


def is_supported() -> bool:
    """Whether this version of numba is known to work with linked kernels."""
    version = tuple(int(part) for part in numba.__version__.split(".")[:2])
    return _FIRST_VERSION <= version < _FIRST_UNKNOWN_VERSION


def linked_dispatcher(function: Callable[..., Any]) -> Any:
    """The dispatcher that other kernels use to call ``function``; Python must not call it."""
    dispatcher = numba.njit(**OPTIONS, no_cpython_wrapper=True, pipeline_class=_compiler())(
        function
    )
    of_types = dispatcher.get_call_template

    def of_types_without_constants(arguments: Any, by_name: Any) -> Any:
        plain = {name: unliteral(kind) for name, kind in by_name.items()}
        return of_types(tuple(unliteral(kind) for kind in arguments), plain)

    dispatcher.get_call_template = of_types_without_constants
    return dispatcher


@functools.cache
def _compiler() -> type:
    """The compiler of numba, with ``_linked_lowering`` in the place of its last step."""
    from numba.core import compiler, typed_passes

    lowering = _linked_lowering()

    class LinkedCompiler(compiler.CompilerBase):  # type: ignore[misc]  # numba has no types
        def define_pipelines(self) -> list[Any]:
            manager = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
            steps = [
                (lowering if step is typed_passes.NativeLowering else step, text)
                for step, text in manager.passes
            ]
            manager = compiler.PassManager("linked")
            manager.passes = steps
            manager.finalize()
            return [manager]

    return LinkedCompiler


@functools.cache
def _linked_lowering() -> type:
    """The step that turns typed code into LLVM's form, without making it executable."""
    from numba.core import typed_passes
    from numba.core.compiler_machinery import register_pass

    library_of = _linked_library()

    class LinkedLowering(typed_passes.NativeLowering):  # type: ignore[misc]  # numba has no types
        _name = "linked_lowering"

        def run_pass(self, state: Any) -> bool:
            state.library = library_of(state.targetctx.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            super().run_pass(state)
            result = state["cr"]
            key: Any = [].append  # callers find the library by a builtin function, of which each is its own
            state.targetctx.insert_user_function(key, result.fndesc, [state.library])
            state["cr"] = type(result)(result.fndesc, result.call_helper, cfunc=key, env=result.env)
            return True

    return register_pass(mutates_CFG=True, analysis_only=False)(LinkedLowering)  # type: ignore[no-any-return]


@functools.cache
def _linked_library() -> type:
    """A library that others link, and that never becomes machine code itself."""
    from numba.core import codegen

    class LinkedLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]  # numba has no types
        depth = 1

        def _optimize_final_module(self) -> None:
            below = [one for one in self._linking_libraries if isinstance(one, LinkedLibrary)]
            self.depth = 1 + max((one.depth for one in below), default=0)
            if self.depth <= OPTIMIZED_DEPTH:
                super()._optimize_final_module()

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    return LinkedLibrary


N_LANES = 16
_REGISTER = 512  # bits
_BITS, _INT, _LONG = ir.IntType(N_LANES), ir.IntType(32), ir.IntType(64)


def _has_lanes() -> bool:
    """Whether kernels are compiled, and for processors with AVX-512."""
    if numba.config.DISABLE_JIT:
        return False
    try:
        from numba.core.registry import cpu_target

        *_, features = cpu_target.target_context.codegen().magic_tuple()  # numba's own cache key
    except (ImportError, AttributeError):  # another version of numba: use the plain loops
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
        loaded = lanes.load(signature.args[0], codes, begin, is_there)
        turned = builder.add(loaded, lanes.same(turn))
        is_most = builder.icmp_unsigned("<=", turned, lanes.same(most))
        return builder.bitcast(builder.and_(is_most, is_there), _BITS)

    return types.uint16(codes, types.uint64, types.uint64, types.uint8, types.uint8), generate


@intrinsic
def copy_chosen(typing: Any, source: Any, begin: Any, bits: Any, target: Any, to: Any) -> Any:
    """Copy those of sixteen values from ``begin`` whose bits are set to ``target[to:]``; returns their number.

    Values have 32 or 64 bits. No other elements are written. Source and target may be the same array if values move
    to its front.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, begin, bits, target, to = arguments
        n_copied = ir.Constant(_LONG, 0)
        width = signature.args[0].dtype.bitwidth
        lanes = _Lanes(context, builder, _REGISTER // width)
        for first in range(0, N_LANES, lanes.n_lanes):
            own_bits = builder.lshr(bits, ir.Constant(_BITS, first))
            own_bits = builder.trunc(own_bits, ir.IntType(lanes.n_lanes))
            is_chosen = builder.bitcast(own_bits, lanes.mask)
            start = builder.add(begin, ir.Constant(_LONG, first))
            loaded = lanes.load(signature.args[0], source, start, is_chosen)
            packed = lanes.pack(loaded, is_chosen)
            n_chosen = lanes.count(own_bits)
            target_begin = builder.add(to, n_copied)
            lanes.store(packed, signature.args[3], target, target_begin, lanes.first(n_chosen))
            n_copied = builder.add(n_copied, n_chosen)
        return n_copied

    return types.uint64(source, types.uint64, types.uint16, target, types.uint64), generate


@intrinsic
def _fetch(typing: Any, table: Any, index: Any) -> Any:
    """Prefetch the cache line around an element into the second-level cache; every processor supports it.

    Prefetching into the first-level cache would occupy the fill buffers that reading needs, and is slower than no
    prefetch.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _Lanes(context, builder).fetch(signature.args[0], *arguments)
        return context.get_dummy_value()

    return types.void(table, types.uint64), generate


def _fetch_nothing(table: Any, index: Any) -> None:
    """Does nothing: interpreted code gains nothing from prefetching."""


fetch_soon = _fetch_nothing if numba.config.DISABLE_JIT else _fetch


class _Lanes:
    """Builds LLVM instructions for vectors of ``n_lanes`` elements."""

    def __init__(self, context: Any, builder: Any, n_lanes: int = N_LANES) -> None:
        self.context, self.builder, self.n_lanes = context, builder, n_lanes
        self.mask = ir.VectorType(ir.IntType(1), n_lanes)
        self._ints = ir.VectorType(_INT, n_lanes)

    def same(self, value: Any) -> Any:
        """A vector with the value in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, self.n_lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_INT, 0))
        zeros = ir.Constant(self._ints, [0] * self.n_lanes)
        return self.builder.shuffle_vector(first, undefined, zeros)

    def first(self, n_lanes: Any) -> Any:
        """A mask of the first ``n_lanes`` lanes."""
        numbers = ir.Constant(self._ints, list(range(self.n_lanes)))
        limit = self.same(self.builder.trunc(n_lanes, _INT))
        return self.builder.icmp_unsigned("<", numbers, limit)

    def load(self, kind: Any, array: Any, begin: Any, mask: Any) -> Any:
        """The masked values of an array from ``begin``, 0 in other lanes."""
        values, where = self._pointer(kind, array, begin)
        align, none = ir.Constant(_INT, values.element.width // 8), self._none(values)
        return self._call(f"masked.load.{_name(values)}.p0", values, where, align, mask, none)

    def store(self, values: Any, kind: Any, array: Any, begin: Any, mask: Any) -> None:
        """Write the masked values to an array, from ``begin``."""
        _, where = self._pointer(kind, array, begin)
        align = ir.Constant(_INT, values.type.element.width // 8)
        name = f"masked.store.{_name(values.type)}.p0"
        self._call(name, ir.VoidType(), values, where, align, mask)

    def pack(self, values: Any, mask: Any) -> Any:
        """The masked values, moved to the first lanes in their order."""
        name = f"x86.avx512.mask.compress.{_name(values.type)}"
        return self._call(name, values.type, values, self._none(values.type), mask)

    def count(self, bits: Any) -> Any:
        """The number of set bits."""
        return self.builder.zext(self._call(f"ctpop.i{self.n_lanes}", bits.type, bits), _LONG)

    def fetch(self, kind: Any, array: Any, index: Any) -> None:
        """Prefetch one element of an array."""
        _, where = self._pointer(kind, array, index)
        read, second_cache, data = (ir.Constant(_INT, number) for number in (0, 2, 1))
        self._call("prefetch.p0", ir.VoidType(), where, read, second_cache, data)

    def _none(self, values: Any) -> Any:
        return ir.Constant(values, [0] * self.n_lanes)

    def _pointer(self, kind: Any, array: Any, index: Any) -> tuple[Any, Any]:
        """The vector type of an array's values, and a pointer to the vector that begins at ``index``."""
        data = self.context.make_array(kind)(self.context, self.builder, array).data
        values = ir.VectorType(ir.IntType(kind.dtype.bitwidth), self.n_lanes)
        element = self.builder.gep(data, [index])
        return values, self.builder.bitcast(element, values.as_pointer())

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Call an LLVM intrinsic."""
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}")
        return self.builder.call(function, arguments)


def _name(values: Any) -> str:
    """LLVM's name of a vector type."""
    return f"v{values.count}i{values.element.width}"
