"""The command line: ``rankwood COMMAND``, one function per command.

A command reads its options, calls one function of the library, and shows the result. It computes nothing itself, so
that whatever the command line can do, Python can do too.

The life of a command
    1. The console script calls ``main.run``, which calls ``main.main`` with the arguments.
    2. ``main.COMMANDS`` maps names to functions. ``train``, ``auto``, ``tune`` and ``compare-missing`` have stand-ins
       there; if one of them is called, ``main.load_lazy_commands`` imports ``lazy_commands`` and replaces the stand-in.
       All are of the class ``options.Command``, which refuses an option that is given twice and would be used once.
    3. typer reads the options by the annotations of the function. ``options.with_reading_options`` has put the options
       of the panel "Reading" into the signature; the function gets them as one object, ``reading``.
    4. The function checks the names of the files to be written (``options.Outputs``), reads data (``reading(path)``),
       imports the part of the library that it needs, and calls it, with progress from ``printing.training``.
    5. ``Outputs.show`` writes the files that were asked for and prints JSON or text.
    6. ``printing.reports_errors``, which wraps every command, turns what was raised into a message and an exit code:
       0 done, 1 the run failed, 2 the call or the input was wrong, 130 interrupted.

Where the parts are
    main           the table of commands, ``--version``, ``--verbose``, exit codes; warm-up and versions
    options        options that several commands share, and what is made of them: data, estimators, outputs
    parameters     an option per parameter of the rankers, made from the estimators; texts turned into their values
    printing       everything that is printed; no other module of the package prints

Where the commands are
    clicks         clicks simulate, bias, evaluate, interleave
    data           convert, bin; data list, chess, synth, cache
    demo           demo
    evaluate       evaluate, compare
    experiment     experiment, report, measure, bundle
    inspect        inspect, explain
    lazy_commands  train, auto, tune, compare-missing
    main           warm-up, versions
    models         score, serve, export, import
    studies        best-sizes, bias-variance, convergence, cost-curve, factorial, front, learning-curve
    transfer       transfer

How to add a command
    1. Write the function in the module whose subject it shares. The docstring is the help text; its last paragraphs are
       examples. Parameters are annotated with the aliases of ``options`` (``ModelFile``, ``Csv``, ``Json``), or
       declared in place with ``argument``, ``option``, ``file_option`` and ``switch``.
    2. Add it to ``main.COMMANDS``; the order there is the order in ``rankwood --help``.
    3. If a second command has the same option, declare it once, in ``options``.

    Besides these three files: a section in docs/guides/command-line.md, tests in tests/cli, a call in
    tests/golden/golden_commands.py if it has ``--json``.

Imports
    ``rankwood --help`` must not wait for NumPy and numba: a module here imports the library inside its functions.
    ``lazy_commands`` and ``parameters`` are the exceptions, and are imported late themselves; tests/architecture checks
    that importing ``main`` loads neither.
"""
