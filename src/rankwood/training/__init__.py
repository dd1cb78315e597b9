"""What all rankers train with: inputs, rounds, checkpoints, and the loops that grow forests and boosted trees.

The rankers themselves, with their parameters, are in ``rankwood.rankers``. This package knows nothing of them: it
takes plans and states, and a ranker turns its parameters into those.

The modules
-----------
inputs
    What ``fit`` was given, as ``RankingData``; row weights, and the rows that count; the binned ``TrainingSet``.
    ``ValidationSets`` and ``History``: the validation sets with their measures, and a list of values for each.
    ``TrainingCosts``: the price of a split on a feature that no earlier tree has used.
record
    What a model file says of the training data: a digest, and the spread of each feature, of labels and queries.
bin_files
    ``bin_files``: from files of any size to a folder of binned data (``binning.folder``), in little memory.
distribute
    ``distribute``: data on the workers of a Dask cluster (``engines.placement``), in blocks of whole queries.
pieces
    What the workers read of such data: files, partitions of a frame, folders of binned data.
rounds
    ``Rounds``, the driver of every training loop: it decides whether there is a next round, writes checkpoints and
    reports progress. ``Validation`` holds the scores of the validation rows, ``EarlyStopping`` the history of their
    measure. ``CheckpointFile`` and ``Checkpoint``: the finished rounds on disk, refused where parameters or data
    differ.
forest
    ``ForestPlan``, ``ForestState`` and ``grow_forest``: independent trees in parallel. ``chosen_leaves``: how large
    they may become.
boosting
    ``BoostingPlan``, ``BoostingState`` and ``boost``: trees in sequence, each fitted to the targets of a loss.
blending
    The weights of a blend: non-negative least squares, or a search, on scores of documents new to its parts.

The life of a fit
-----------------
1. ``Ranker.fit`` turns its arguments into ``RankingData`` (``inputs.ranking_data``), checks the parameters, and turns
   the argument ``valid`` into validation data.
2. ``Ranker._learn`` bins the rows and orders them for fast tree growth: a ``TrainingSet``. Linear rankers, networks
   and deep forests have their own ``_learn``.
3. ``Ranker._fit`` makes a plan from the parameters, everything that determines the trees; opens the checkpoint, if
   there is to be one; and makes a state, empty or with the trees of the checkpoint or of a warm start.
4. It makes a ``Rounds`` and calls the loop (``grow_forest``, ``boost``, ``broof`` and so on). The loop adds to the
   state, round by round, until ``Rounds`` yields no further number.
5. ``_fit`` takes the finished model from the state, cut at the best round where early stopping asks for it, and sets
   the attributes: ``forest_``, ``history_``, ``stopped_because_``.
6. ``fit`` remembers the features and the record of the training, and returns the estimator.

Terms
-----
plan
    Everything that determines the trees, and that no round changes: the engine with its binned rows, limits, bags,
    seed.
state
    What the finished rounds have made: trees, scores, history. It is what a checkpoint saves.
round
    One step of training: a tree, a forest of BROOF, a layer of a deep forest, an epoch of a network. Rounds are
    numbered from 0, and everything random in a round follows from the seed and its number. So a fit that was stopped
    and resumed gives the same bytes as one that was not.
unit, bag, count
    A unit is what is drawn for a tree: a row, or a query with all its rows. The bag of a tree is the rows drawn, and
    the count of a row says how often it was drawn.
out-of-bag
    Rows with count 0 for a tree. The out-of-bag estimate of a row is the mean of the trees that have not seen it.
held-out
    The same for other ways to leave rows out, such as folds of queries.
present, rows that count
    Rows with a weight above 0. The others are no part of the data: no bin, bag or measure depends on them.
start, total, score
    The start is the score of a row before the first tree. The total is the sum of the trees' values of the row, times
    their weights. The score is start + total.
checkpoint
    A file that holds the state after some round. It is written when ``SECONDS_BETWEEN`` have passed since the last one,
    and at the end; an exception or Ctrl-C in a round leaves the file as it is.
"""
