"""Foundations of every package. Everyone imports ``_core``; it imports only ``errors`` and ``dtypes``.

``checks``
    User input becomes clean values, or one error that names the parameter.
``files``
    Cache folders, atomic writes, errors for files that cannot be written.
``jit``
    ``@kernel``: compilation with numba, and the disk cache of compiled code. What is said and counted while kernels
    are compiled, locks, and processes that compile ahead.
``llvm``
    Kernels that kernels call, compiled as part of their callers; LLVM intrinsics that numba does not expose.
``random``
    Independent random streams, one per purpose and iteration.
``sums``
    Sums over rows in whole numbers, which do not depend on the order of the rows or their division.
``team``
    A team of threads that share the work of one kernel, and the atomic operations by which they meet.
``threads``
    The number of threads, and running blocks of work on them.
"""
