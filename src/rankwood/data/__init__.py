"""Ranking data: documents with features, labels and queries, from files, tables and memory.

The life of a file, from bytes to ``RankingData``
-------------------------------------------------
``rankwood.read_letor("train.txt.gz")`` takes these steps:

1. ``letor.text.read_letor`` checks the options. For a large file it asks ``cache.cached`` for a binary copy from an
   earlier read, which is memory-mapped.
2. Otherwise ``sources.open_source`` opens the file, detects its compression and yields blocks of whole lines.
3. ``letor.text.BlockReader`` hands blocks to threads. ``letor.blocks.parse_block`` parses one block with the kernels of
   ``letor.parse``, directly into its rows of the final table where possible. The first error of the file is raised with
   its line and column, whatever the number of threads.
4. ``letor.text.join_blocks`` makes one ``dataset.RankingData``. Its constructor groups rows by query and checks
   everything with ``rankwood._core.checks``. Rows keep the order of the file.

A table takes the same way: ``table_files.open_table`` yields Arrow record batches of a Parquet, Arrow or CSV file;
``tables`` decides which column is what, converts features to float32 and makes ``RankingData``. Frames and
arrays in memory go through ``frames``. ``sources.find_inputs`` lists the files of a pattern, a folder or a list, each
of which is read so; ``dataset.stacked`` joins them. ``reading.read_data`` chooses the reader by the names of the files,
and ``streams.read_parts`` reads files larger than memory in parts of whole queries.

Modules
-------
``dataset``
    ``RankingData``: features, labels, query ids, and optional document ids, weights and names. ``Judgments``: the same
    without features.
``reading``
    One interface to all files, by name; the columns of a model.
``streams``
    Many files as one stream of rows, in parts of whole queries.
``letor``
    LETOR / SVMlight text: ``text`` (read and write), ``blocks`` (one block), ``parse`` (kernels).
``tables``, ``table_files``
    Parquet, Arrow and CSV: columns become ranking data; record batches in and out.
``frames``
    pandas, polars and Arrow tables, sparse matrices and arrays in memory.
``sources``
    Which files there are; bytes of files, pipes, standard streams and other file systems, compressed or not.
``cache``
    Binary copies of parsed files.
``scores``
    Files of scores; TREC runs and qrels.
``collections``
    The public collections, with the counts they should have.
``splits``, ``features``
    Splits by query, folds, counts, and overlap of data sets; normalisation of features per query, and their costs.
``synthetic``, ``chess``
    Generated data; chess positions with moves labelled by an engine.

Vocabulary
----------
row, document
    A line of the data: one document of one query.
query
    The rows with the same query id. They are grouped on construction, wherever they are in the file.
run (of rows)
    Consecutive rows with the same query id. A TREC run is something else: the output of a system.
label
    Graded relevance, a number of at least 0.
missing, absent
    A missing value is NaN. An absent feature is one that a LETOR line does not mention; it is 0 unless
    ``absent="missing"``.

How to add a reader
-------------------
1. Write a module with a function that returns ``RankingData`` and raises ``DataError`` with the file and the line.
   Open the file with ``sources.open_source``, which handles compression, pipes and errors.
2. Call it in ``reading.read_data``, which chooses by the suffix of the name.
3. If it should be public, list it in ``rankwood/__init__.py``.

A new table format is a smaller step: a function in ``tables.files`` that returns a ``TableSource``, and its suffix in
``table_files.table_format`` and ``sources.TABLE_SUFFIXES``.
"""
