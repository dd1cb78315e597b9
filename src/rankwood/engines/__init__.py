"""Engines: what holds the binned rows of a fit and grows trees on them.

A method (a forest, boosting, BROOF, a layer of a deep forest) never grows a tree itself. It asks an engine, and does
not know which: the threads of this process, or the workers of a cluster. Whatever the engine, a model is the same
bytes.

The modules
-----------
engine
    ``Engine``, the interface, with what it is asked for (``TreeRequest``) and ``Scores``, the scores of the rows of a
    boosted model. ``engine_on`` makes the engine of a device. ``ThreadsEngine``, the default: the rows in memory, the
    threads of this process.
cluster
    ``ClusterEngine``: the rows on the workers of a Dask cluster.
placement
    ``ClusterRows`` and ``Placement``: which worker has which rows, and what happens when one is lost.
holder
    ``Holder``: what a worker holds and does, an actor of Dask.
bags
    ``Bags``: which rows each tree sees, and how often. All draws are hashed from the seed and the number of the tree.
    ``OutOfBag``: estimates of each training row by the trees that have not seen it.

docs/concepts/engines.md says what a new engine has to do.
"""
