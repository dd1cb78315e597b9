"""Deep forests: cascades of layers of rankers.

Each layer sees the features, and as further columns the held-out scores of the layer before it. ``deep_forest`` has
the estimator. ``growing`` has the loop over layers, the choice of the rows that train the next one, and the checkpoint;
it decides how many layers are kept, and what a layer passes on. ``layers`` holds the binned columns that a layer
sees, fits its rankers and computes their held-out scores and class vectors.
The finished model is a ``rankwood.models.cascade.Cascade``.
"""
