"""Experiments: algorithms × folds × repetitions, run from a TOML file, kept on disk, and shown in a report.

Terms
    algorithm     an estimator with its parameters, perhaps tuned: one table ``[[algorithm]]`` of the file
    fold          training, validation and test part; of files, of a data set that is cut, or generated
    repetition    the same algorithm and fold with another seed
    cell          one algorithm on one fold in one repetition: the unit of work, of failure and of storage
    task          a cell with all that a worker must know to run it, as plain values
    outcome       what a worker returns: the cell's record and the value of each measure for each test query
    fingerprint   a hash of everything that determines a cell's results; a cell with another one is run again
    run           the folder with the cells of one experiment, complete or not

The life of a cell, from TOML to the report
    1. ``config.read_experiment`` parses the file, applies ``--set`` and ``--small``, and checks every table; the tables
       ``[data]`` and ``[[algorithm]]`` are read in ``sections``. ``settings.TomlSource`` knows the line of each key,
       for error messages. The result is an ``Experiment`` of ``settings``.
    2. ``runner.make_plan`` lists the cells, compares their fingerprints with those in the run's folder, and makes a
       ``Task`` of each cell that has to be run. Nothing is written yet.
    3. ``runner.carry_out`` locks the folder, writes the record of the run, and hands the tasks to this process, to
       local processes, or to a Dask cluster (``workers``).
    4. ``cells.run_cell`` runs on the worker: it reads the fold, tunes on the validation part (``tuning``), fits, reads
       the test part, scores and measures. An exception is the outcome of this cell only; the others are run.
    5. ``store.RunFolder`` writes the outcome at once, as one complete file. The same command continues a run that was
       stopped at any point.
    6. ``results.read_run`` reads the folder into ``RunResults``: values by algorithm, measure, repetition and query.
    7. ``report.write_report`` compares the algorithms and writes the page, with tables and charts beside it.

Results do not depend on the number of processes and threads, nor on who runs a cell: the seed of a cell follows from
the seed of the run, the fold and the repetition. All algorithms have the same seed in the same fold and repetition.

Where the parts are
    settings  Experiment, Algorithm, DataSource, Cell; estimators built from kinds and parameters; lines of keys,
              and ``Section``, which reads and checks one table
    config    the file, its tables ``[run]``, ``[measures]`` and ``[compare]``, and changes from outside
    sections  the tables ``[data]`` and ``[[algorithm]]``
    foreign   algorithms that are not Rankwood's: other libraries, a feature, given scores; exported runs
    runner    plan, order and progress; fingerprints
    cells     Task, Outcome, and what a worker does with them; the data of a fold
    tuning    what is chosen on queries that are not measured: parameters, by a grid, random search or Optuna, on
              validation queries or inner folds; and sizes by measure; exits and costs in scoring
    workers   where tasks are run
    store     the run's folder and its record
    results   the results of a run, for statistics and reports
    finished  factorial designs and fronts of finished runs
    report/   the report of a run: page, tables, charts, text files

To add a system of another library: write a class in ``foreign``, and add its entry to ``FOREIGN``.
To add a key to the file: name it in the ``_KEYS`` of ``config`` (or in ``sections``), add a field to ``Experiment`` in
``settings``, and, if results depend on it, add it to ``runner.fingerprint``. The guide is docs/guides/experiments.md.
"""
