"""Export of forests to other systems and import from them, with proof that a file scores as the model does.

The package is called ``exports`` because ``rankwood.export`` is the function.

The life of an export
---------------------
``rankwood.export(model, "model.txt", "ranklib", verify=test)`` takes these steps:

1. ``exporting.export`` finds the forest inside the model (``forest_inside``) and the format in ``FORMATS``. If splits
   of the format have two children only, ``writing.binary_splits`` replaces those with a third child where possible.
2. The format's ``write`` starts from ``writing.plain_for``: it refuses what the format cannot express, and multiplies
   the weights of trees into their leaves. Where the engine does not compare ``value <= threshold`` in float32, the
   functions of ``rules`` move thresholds so that it decides as Rankwood does. The result is bytes; no file exists yet.
3. The format's ``read`` parses the bytes into ``rules.FileTrees``, the numbers as written.
4. ``exporting.check_decisions`` compares every split under the engine's ``rules.EngineRules``;
   ``exporting.compare_scores`` scores documents from the file. More than rounding is an error.
5. The file is written atomically, and a ``exporting.Certificate`` returned.

``rankwood.import_model`` takes the way back: ``read`` (of a file, or of what a fitted model saves), then
``reading.into_forest``, which moves thresholds to ours.

Modules
-------
``exporting``
    ``export``, ``import_model`` and the list of formats; comparison of splits and scores, and the certificate.
``rules``
    ``EngineRules``, ``FileTrees``, and moved thresholds.
``writing``
    Helpers of writers: plain forests, nested texts, names, refusals.
``reading``
    Helpers of readers: ``TreeBuilder``, checks of untrusted texts and JSON, ``into_forest``.
``ubjson``
    XGBoost's binary form of JSON.
``ranklib``, ``xgboost``, ``xgboost_model``, ``solr``, ``lightgbm``, ``lightgbm_json``, ``onnx``, ``plain_json``,
``c_source``
    One format each.

Vocabulary
----------
engine
    The program that reads the file: RankLib, Solr, Vespa, LightGBM, ONNX Runtime and so on.
rules
    How an engine compares, sums and treats missing values; ``EngineRules`` says enough to score a file as it does.
plain
    A forest whose tree weights are multiplied into its leaves: a bare sum or mean.
constant
    The base of a forest, written as a tree of one leaf by formats without a base.

How to add a format
-------------------
1. Write a module with ``RULES``, ``write(forest, options) -> bytes`` and ``read(content) -> FileTrees``; ``plain_json``
   is a short example. ``read`` is needed for verification even if the format cannot be imported. A
   function ``notes(forest, options)`` may add notes to the certificate.
2. List it in ``exporting.FORMATS``, with ``has_third_children=True`` if its splits may have three children, and in
   ``exporting.READERS`` if it can be imported. The docstring of ``export`` names the formats.
3. Name it in the help of ``rankwood export`` (``cli/models.py``).

The tests of all formats in ``tests/unit/test_exports.py`` run for a new entry of ``FORMATS`` by themselves.
"""
