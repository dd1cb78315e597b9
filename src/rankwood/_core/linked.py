"""Kernels that kernels call: compiled to LLVM's intermediate form, and to machine code only inside their callers.

numba gives every function machine code, a wrapper for Python and another for C, and it optimises each together with
all functions that it calls. A deep tree of kernels with many array arguments then spends most of its compilation on
code that nothing ever runs. A *linked* kernel has no wrappers and no machine code of its own. Its module is linked
into the module of the kernel that Python calls, and becomes machine code there.

A kernel is optimised before it is linked where at most ``OPTIMIZED_DEPTH`` levels of kernels lie below it and
including it: inner loops are then vectorised in a function of their own. The levels above are optimised once, in the
caller. Constants in a call do not make another version of a linked kernel: numba would compile one per constant.

These are inner parts of numba. ``linked_dispatcher`` is None for versions of numba whose inner parts nobody has
looked at; kernels then call each other as numba would have it, and only compiling takes longer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from numba.core.types import unliteral  # type: ignore[attr-defined]  # numba has no types

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
