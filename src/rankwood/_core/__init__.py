"""Foundations of every package. Everyone imports ``_core``; it imports only ``errors`` and ``dtypes``.

``checks``
    User input becomes clean values, or one error that names the parameter.
``files``
    Cache folders, atomic writes, errors for files that cannot be written.
``jit``
    ``@kernel``: compilation with numba, and the disk cache of compiled code.
``lanes``
    LLVM intrinsics that numba does not expose.
``map``
    Draws the import graph of the packages: ``python -m rankwood._core.map``.
``memory``
    How much memory the machine has.
``random``
    Independent random streams, one per purpose and iteration.
``team``
    A team of threads that share the work of one kernel, and the atomic operations by which they meet.
``threads``
    The number of threads, and running blocks of work on them.
"""
