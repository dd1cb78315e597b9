"""Models: whatever scores documents and can be saved. Training is not here, and scoring never needs it.

The life of a model, from arrays to a file and back
---------------------------------------------------
1. Training gives the arrays of nodes, tree by tree, to ``forest.NodeArrays``; together they become a
   ``forest.Forest``. ``validate`` checks every rule that scoring relies on, and the arrays become read-only.
2. ``Forest.predict`` brings the features into the model's order (``validate.features_in_order``), packs the forest once
   for scoring (``scoring.pack``) and calls the kernels of ``scoring`` on blocks of rows.
3. ``format.save_model`` looks the model up in ``format.KINDS``. The kind's ``to_arrays`` returns scalars and named
   arrays; ``archive.write_archive`` writes them as ``model.json`` and ``.npy`` members of a zip file. The same
   model gives the same bytes.
4. ``format.load_model`` reads the file without trusting it: ``archive.read_archive`` checks sizes, headers and hashes,
   the kind's ``from_arrays`` checks the names, and the model's constructor checks the values as in step 1.

A document that the scoring service gets takes step 2 only: bytes become a float32 matrix, and ``Forest.predict`` gives
its score.

Modules
-------
``forest``
    ``Forest``, trees as flat arrays; trees and forests joined; the features that trees use and their costs.
``validate``
    The rules of a forest's arrays; checks that all models share; features in the model's order, at once or fetched
    when needed.
``scoring``
    Scores and leaves of documents, and their kernels.
``linear``, ``neural``, ``ordinal``, ``cascade``, ``family``, ``blend``
    The other kinds of models: a weighted sum; a network; cumulative probabilities of grades; layers of models (Deep
    Forest); the models of a search over boosting sequences; a weighted sum of other models. ``family`` also has
    ``ModelStages``, what a model of trees is after each of its rounds.
``early_exit``
    Scoring in which hopeless documents leave early.
``shapley``
    Exact contributions of features to scores.
``archive``, ``format``
    The container of a model file; saving and loading models of any kind.

Vocabulary
----------
model, ranker
    A model scores. A ranker (``rankwood.rankers``) has parameters, trains, and holds a model when it is fitted.
kind
    The type of a model in a file: forest, linear, neural, family, ordinal, cascade or blend.
record
    The scalars of a model in ``model.json``, under the name of its kind.
inner node, leaf, third child
    A node that splits; a node with an output; a child for missing values that is neither the left nor the right one.
cover, gain
    Weighted training rows of a node; loss removed by a split.

Every model has ``predict(features, *, n_threads=None)``, ``n_features`` and ``feature_names``. The score of a row does
not depend on the number of threads or on other rows.

How to add a kind of model
--------------------------
1. Write a module with a frozen dataclass of read-only arrays that checks itself on construction, and with
   ``<kind>_to_arrays`` and ``<kind>_from_arrays``; ``linear`` is the shortest example.
2. List it in ``format.KINDS``, in ``format._OF_BLENDS`` if a blend may contain it, or in ``format._OF_LAYERS`` if a
   cascade may contain it too.
3. Describe its fields in ``docs/reference/format-v1.md``, and commit a golden file with a test that loads it.
"""
