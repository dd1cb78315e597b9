"""Evaluation of rankings and models: measures with intervals, comparisons with tests, explanations, plots.

What each function answers
    evaluate         How good is this ranking?                    measures, intervals, counts      evaluate.py
    compare          Which of these systems is better?            tests, changed queries           compare.py
    compare_values   Do these values per query differ?            the same, from numbers alone     significance.py
    explain          Why does this document have its score?       Shapley values by feature        explain.py
    check_data       Are these data like the training data?       stability index by feature       drift.py
    importance       Which features matter to this model?         counts, permutation, Shapley     explain.py

From call to table, with ``evaluate(model, data, "ndcg@10")``
    1. The text becomes a ``Measure``, with every convention filled in (``rankwood.measures``).
    2. The model scores the documents; the measure is computed for every query.
    3. Means are taken over queries, and their intervals over resampled queries (``paired_tests.py``).
    4. An ``Evaluation`` holds the numbers. ``print`` shows its table, and below it the conventions in force.

``compare`` adds a comparison with the baseline per measure: ``significance.py`` compares pairs of systems, and
``paired_tests.py`` has the statistics (intervals, tests, effect sizes, corrections for multiple comparisons).

How a result class is made
    Everything that this package and ``rankwood.studies`` return derives from ``Result`` (``results.py``). A subclass is
    a frozen dataclass of plain numbers and arrays. It says what it shows, and inherits the rest:

        class Evaluation(Result):
            def _tables(self): ...      # rows of texts by title    -> print(result), notebooks
            def _footnotes(self): ...   # lines below the tables
            def _records(self): ...     # numbers in full           -> result.write_csv(path)
            def to_dict(self): ...      # plain numbers and texts   -> JSON
            def plot(self, path): ...   # only where there is something to draw

    ``plot`` collects names and numbers, and passes them to a function of ``plots.py``. That module is the only one
    that imports matplotlib, and it does so when a plot is drawn.

Terms
    per query     one value per query in the order of ``data.queries``; NaN where a query has none
    pooled        a measure of all documents together (auc, pauc, rmse), which has no values per query
    conventions   what a measure's name leaves open, such as gain, ties and empty queries; printed with every result
    baseline      the system that all others are compared with
    marks         by which tests a system differs from the baseline: + by t, * by Wilcoxon, r by randomisation
    contribution  what a feature adds to the score of a document; contributions and the base sum to the score
"""
