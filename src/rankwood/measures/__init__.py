"""Measures of a ranking: values with names, conventions and per-query results.

The life of a measure, from text to value
-----------------------------------------
1. ``measure.parse_measure("ndcg@10[gain=linear]")`` reads the name, the cut-off and the options, and gives a
   ``Measure``: a value that can be compared, hashed and printed. ``FORMS`` says what each name takes.
2. ``ranking.lists_for`` checks the scores, groups documents by query (``Judgments``) and gives ``Lists``: scores and
   labels by query, in the order that the measure's rule for ties asks for.
3. ``Lists.ranking(k)`` and ``Lists.ideal(k)`` sort by score and by label. Sorting is done in ``ranking`` only, once
   for all measures of the same scores. Equal scores keep the data's order.
4. ``compute.query_values`` calls the function of the measure, which gives ``QueryValues``: one value per query, and
   which queries are empty. The convention ``empty=`` then sets the value of empty queries.
5. ``compute.mean_value`` takes the weighted mean over queries; pooled measures (auc, pauc, rmse without
   ``over=queries``) are taken over all documents together. ``rankwood.evaluate`` adds intervals.

Vocabulary
----------
label       the graded relevance of a document; not negative, real numbers allowed
gain        what a label is worth: ``2^label - 1``, the label itself, or a table
discount    what a rank counts
cut-off     how many ranks count, the k of NDCG@k
ranking     positions of a query's documents, best score first
ideal       the ranking by label, the best there is
empty       a query in which nothing could be ranked well, such as one without relevant documents
judged      whether the label of a document is known
listed      how many documents of a query a run has retrieved

Modules
-------
measure     ``Measure``, its text, its options, what each measure takes, and the presets of other tools
ranking     from scores to lists of documents, and sorting them
listwise    dcg, ndcg, mean_ndcg, map, p, r, mrr, judged, err, rbp; gains, discounts, and sums of them
agreement   auc, pauc, tau, rmse
compute     which function computes which measure; mean values

How to add a measure
--------------------
1. ``measure.py``: an entry in ``FORMS`` with its cut-off, meaning, an example text and its options. Presets that set
   ``relevant``, ``gain`` or ``ties`` apply to it by themselves.
2. ``listwise.py``, or a module of its own: ``name(measure, lists) -> QueryValues``; loops over documents are kernels.
3. ``compute.py``: an entry in ``_FUNCTIONS``.

Then add a slow twin to ``tests/reference/measures.py`` and a row to the table in the documentation. A measure
gives a value for each query, in the order of first appearance; here two queries have no relevant document:

>>> import rankwood as rw
>>> data = rw.make_ranking(n_queries=3, docs_per_query=4, n_features=2, seed=0)
>>> rw.parse_measure("ndcg@10").per_query(data.labels, data).tolist()
[1.0, 0.0, 0.0]
"""
