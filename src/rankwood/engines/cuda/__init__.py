"""The CUDA engine, ``device="cuda"``: trees grown on a GPU, with the bytes of those of the CPU.

The rows lie in the memory of the GPU. A block of threads grows a whole tree (``forest.cu``), so that a forest keeps all
multiprocessors busy without a word from the host. The host turns requests into the arrays of a launch, and the records
of grown nodes into trees (``growing``); ``device`` has all that knows CuPy. Nothing here imports CuPy before a GPU is
asked for.
"""
