"""What several commands share: options, declared once; data and models, read from them; results, shown by them.

An option that more than one command has is an alias (``Csv``, ``ModelFile``), used as the annotation of a parameter;
the default value is in the command's signature. ``argument``, ``option``, ``file_option`` and ``switch`` declare
those that one command alone has. ``with_reading_options`` adds the options of the panel "Reading", which every command
that reads data takes, and hands them to the command as one object, a ``Reading``.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood._core.files import PLOTS
from rankwood.cli import printing
from rankwood.errors import DataError, ParameterError, UnknownName


def argument(metavar: str, text: str) -> Any:
    """Declare an argument: its name in the usage line, and its help."""
    return typer.Argument(metavar=metavar, help=text)


def option(text: str, *names: str, **settings: Any) -> Any:
    """Declare an option by its help; without ``names`` it is called as its parameter is."""
    return typer.Option(*names, help=text, **settings)


def file_option(text: str, *names: str) -> Any:
    """Declare an option that takes a file."""
    return option(text, *names, metavar="FILE")


def switch(name: str, text: str, *short: str) -> Any:
    """Declare an option that takes no value, and has no opposite ``--no-…``."""
    return option(text, name, *short)


DATA_FORMATS = "LETOR text, Parquet, CSV or Arrow"
DATA_OR_STDIN = f"{DATA_FORMATS}; - is standard input."
LABELLED_DATA = f"{DATA_FORMATS}, with labels."

ModelFile = Annotated[str, argument("MODEL", "A model file, as rankwood train writes it.")]
Models = Annotated[
    list[str],
    typer.Option(
        metavar="NAME:PARAMETERS",
        help="Such as RandomForest, or GBRT:n_trees=50,max_leaves=15; may be repeated.",
    ),
]
TrainingData = Annotated[str | None, file_option("Training data.")]
TestData = Annotated[str | None, file_option("Test data.")]
ValidationData = Annotated[str | None, file_option("Validation data.")]
StoppingData = Annotated[
    str | None, file_option("Validation data, for early stopping; used whole.")
]
Folds = Annotated[
    str | None, option("Fold1, Fold2, … instead of --data and --test.", metavar="FOLDER")
]
MeasureText = Annotated[str, option("Such as ndcg@10 or map.", "--measure", "-m")]
Level = Annotated[float, option("What p values are compared with.")]
Seed = Annotated[int, option("Same data, seed and version: same result.")]
Csv = Annotated[Path | None, file_option("Also a table (.csv), numbers in full.", "--csv")]
Plot = Annotated[
    Path | None, file_option("Also a plot: .svg, .png or .pdf (extra report).", "--plot")
]
Json = Annotated[bool, switch("--json", "Print JSON for scripts instead of a table.")]
NoNotices = Annotated[bool, switch("--quiet", "No notices.", "-q")]
NoProgress = Annotated[bool, switch("--quiet", "No progress, no notices.", "-q")]


class Reading:
    """The reading options of one call; reads data with progress on standard error."""

    def __init__(self, **options: Any) -> None:
        self.quiet: bool = options.pop("quiet")
        if self.quiet:
            printing.be_quiet()
        self.options: dict[str, Any] = {
            "label": options["label"],
            "query": options["query"],
            "doc": options["doc"],
            "drop": tuple(options["drop"] or ()),
            "absent": "missing" if options["absent_missing"] else "zero",
            "order": "any" if options["any_order"] else "ascending",
            "cache": None if options["cache"] else False,
            "strict": options["strict"],
            "n_threads": options["threads"],
        }

    def __call__(self, path: str, **changes: Any) -> Any:
        """The data in ``path``."""
        from rankwood.data.reading import ReadOptions, read_data

        with printing.reading(Path(path).name, self.quiet) as progress:
            return read_data(path, ReadOptions(**{**self.options, **changes}, progress=progress))

    def parts(self, path: str, n_rows: int, **changes: Any) -> Iterator[Any]:
        """The data in ``path``, in parts of whole queries and about ``n_rows`` rows."""
        from rankwood.data.reading import ReadOptions, read_parts

        with printing.reading(Path(path).name, self.quiet) as progress:
            options = ReadOptions(**{**self.options, **changes}, progress=progress)
            yield from read_parts(path, options, n_rows=n_rows)

    def without_labels(self, n_features: int) -> dict[str, Any]:
        """Changes of the options for documents to be scored: their labels, if they have any, are not read."""
        changes: dict[str, Any] = {"label": None, "n_features": n_features}
        label = self.options["label"]
        if label != "label":  # a column of this name is no feature in any case
            changes["drop"] = (*self.options["drop"], label)
        return changes


_reading_option = functools.partial(option, rich_help_panel="Reading")


def _reading_parameters(
    *,
    label: Annotated[str, _reading_option("Tables: the column of labels.")] = "label",
    query: Annotated[str, _reading_option("Tables: the column of query ids.")] = "qid",
    doc: Annotated[str | None, _reading_option("Tables: the column of document ids.")] = None,
    drop: Annotated[
        list[str] | None, _reading_option("Tables: a column to leave out; may be repeated.")
    ] = None,
    absent_missing: Annotated[
        bool,
        _reading_option(
            "LETOR text: features not written in a row are missing, not 0.", "--absent-missing"
        ),
    ] = False,
    any_order: Annotated[
        bool, _reading_option("LETOR text: feature ids of a row need not ascend.", "--any-order")
    ] = False,
    strict: Annotated[
        bool,
        _reading_option("Refuse a query whose rows are separated by another query.", "--strict"),
    ] = False,
    cache: Annotated[
        bool,
        _reading_option("Keep a binary copy of a large text file, so that the next read is fast."),
    ] = True,
    threads: Annotated[
        int | None, _reading_option("Threads to use; every core by default.", min=1)
    ] = None,
    quiet: Annotated[bool, _reading_option("No progress and no notices.", "--quiet", "-q")] = False,
) -> None:
    """Carry the parameters that ``with_reading_options`` adds to a command."""


def with_reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``reading`` of a command by the options above."""
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(_reading_parameters, eval_str=True)

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        options = {name: arguments.pop(name) for name in shared.parameters}
        command(**arguments, reading=Reading(**options))

    parameters = [p for p in own.parameters.values() if p.name != "reading"]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    parameters += shared.parameters.values()
    wrapper.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def estimators_of(texts: Sequence[str]) -> dict[str, Any]:
    """Estimators from ``NAME:parameter=value,…``; two of one name are named with their parameters."""
    from rankwood.rankers.save import estimators

    names = [text.partition(":")[0] for text in texts]
    named: dict[str, Any] = {}
    for text, name in zip(texts, names, strict=True):
        shown = name if names.count(name) == 1 else text
        if shown in named:
            raise ParameterError(f"--model {text} is given twice.")
        named[shown] = estimators()[kind_of(text)](**parameters_of(text))
    return named


def kind_of(text: str) -> str:
    """The estimator that ``NAME:parameter=value,…`` names."""
    return known_estimator(text.partition(":")[0])


def known_estimator(name: str) -> str:
    """The name of an estimator as it was given; an error where there is none of this name."""
    from rankwood.rankers.save import estimators

    if name not in estimators():
        raise UnknownName("model", name, estimators())
    return name


def parameters_of(text: str) -> dict[str, Any]:
    """The parameters in ``NAME:parameter=value,…``."""
    from rankwood.cli import parameters

    given = dict(_pair(text, part) for part in text.partition(":")[2].split(",") if part)
    return parameters.read(kind_of(text), given)


def _pair(text: str, part: str) -> tuple[str, str]:
    parameter, equals, value = part.partition("=")
    if not equals:
        raise ParameterError(
            f"--model must be written as NAME:parameter=value,parameter=value; got '{text}'."
        )
    return parameter.strip().replace("-", "_"), value.strip()


def read_parts(
    data: str | None, valid: str | None, test: str | None, folds: str | None, reading: Reading
) -> Any:
    """The folds of a folder, or one fold of the files given, all with the same features."""
    if folds is not None:
        if data or test or valid:
            raise ParameterError("--folds has all three parts; leave out --data, --test, --valid.")
        return _read_folds(folds, reading)
    if data is None or test is None:
        name = "data" if data is None else "test"
        raise ParameterError(f"--{name} is missing. Name the file, or --folds; see --help.")
    parts = read_alike((path for path in (data, valid, test) if path is not None), reading)
    return [(parts[0], parts[1] if valid is not None else None, parts[-1])]


def _read_folds(folder: str, reading: Reading) -> Any:
    from rankwood.data.folds import read_folds

    usual = {"absent": "zero", "order": "ascending", "cache": None, "strict": False}
    # Tables do not take most of the options, so only those that were given are passed on.
    asked = {name: reading.options[name] for name in usual if reading.options[name] != usual[name]}
    return read_folds(folder, **asked)


def read_alike(paths: Iterable[str], reading: Reading, **changes: Any) -> list[Any]:
    """The data of each file, all with as many features as the widest; tables have theirs by name."""
    from rankwood.data.folds import same_width

    parts = [reading(path, **changes) for path in paths]
    if any(part.feature_names for part in parts):
        return parts
    return list(same_width(parts, reading.options["absent"]))


_ENDINGS = {
    "csv": (".csv",),
    "plot": PLOTS,
    "html": (".html", ".htm"),
    "report": (".html", ".htm"),
}


class Outputs:
    """How a result is shown, and the files it is written to besides.

    File names are checked on construction, so that an error comes before the training and not after it.
    """

    def __init__(self, *, as_json: bool, **files: Path | None) -> None:
        self.as_json = as_json
        self.files = {kind: path for kind, path in files.items() if path is not None}
        for kind, path in self.files.items():
            _refuse_other_endings(f"--{kind}", path, _ENDINGS[kind])

    def write(self, **writers: Callable[[Path], None]) -> None:
        """Write each file that was asked for, by the function given for its kind."""
        for kind, write in writers.items():
            if kind in self.files:
                write(self.files[kind])

    def show(self, result: Any, **writers: Callable[[Path], None]) -> None:
        """Write the files as ``write`` does, and print ``result.to_dict()`` as JSON, or the result as text."""
        self.write(**writers)
        if self.as_json:
            printing.show_json(result.to_dict())
        else:
            printing.say(str(result))


def refuse_unwritable(option_name: str, path: Path) -> None:
    """Raise for a file that could not be written: the error comes before the work and not after it."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise DataError(
            f"the folder of {path} does not exist: make it first, or choose another {option_name}."
        )
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        why = "it is a folder" if path.is_dir() else "permission denied"
        raise DataError(f"{path} cannot be written: {why}. Choose another {option_name}.")


def _refuse_other_endings(option_name: str, path: Path, endings: Sequence[str]) -> None:
    *first, last = endings
    if path.suffix.lower() not in endings:
        listed = f"{', '.join(first)} or {last}" if first else last
        raise ParameterError(f"{option_name} {path} must end in {listed}.")
    if not path.absolute().parent.is_dir():
        raise DataError(f"the folder of {path} does not exist: make it first, or choose another.")
    if path.suffix.lower() in PLOTS:
        from rankwood.evaluation.plots import refuse_without_matplotlib

        refuse_without_matplotlib()
