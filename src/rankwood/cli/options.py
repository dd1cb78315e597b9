"""Options that several commands share, written once and spliced into their signatures."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood._core.files import PLOTS
from rankwood.cli import printing
from rankwood.errors import DataError, ParameterError, UnknownName

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of a table.")]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Also a table (.csv), numbers in full.")
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Also a plot: .svg, .png or .pdf (extra report)."),
]
Seed = Annotated[int, typer.Option(help="Same data, seed and version: same result.")]


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


def _reading_parameters(
    *,
    label: Annotated[
        str, typer.Option(help="Tables: the column of labels.", rich_help_panel="Reading")
    ] = "label",
    query: Annotated[
        str, typer.Option(help="Tables: the column of query ids.", rich_help_panel="Reading")
    ] = "qid",
    doc: Annotated[
        str | None,
        typer.Option(help="Tables: the column of document ids.", rich_help_panel="Reading"),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="Tables: a column to leave out; may be repeated.", rich_help_panel="Reading"
        ),
    ] = None,
    absent_missing: Annotated[
        bool,
        typer.Option(
            "--absent-missing",
            help="LETOR text: features not written in a row are missing, not 0.",
            rich_help_panel="Reading",
        ),
    ] = False,
    any_order: Annotated[
        bool,
        typer.Option(
            "--any-order",
            help="LETOR text: feature ids of a row need not ascend.",
            rich_help_panel="Reading",
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse a query whose rows are separated by another query.",
            rich_help_panel="Reading",
        ),
    ] = False,
    cache: Annotated[
        bool,
        typer.Option(
            help="Keep a binary copy of a large text file, so that the next read is fast.",
            rich_help_panel="Reading",
        ),
    ] = True,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads to use; every core by default.", rich_help_panel="Reading"
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="No progress and no notices.", rich_help_panel="Reading"
        ),
    ] = False,
) -> None:
    """Carry the parameters that ``with_reading_options`` splices in."""


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


# What commands that fit rankers share: models named on the command line, and data in parts or folds.


Models = Annotated[
    list[str],
    typer.Option(
        metavar="NAME:PARAMETERS",
        help="Such as RandomForest, or GBRT:n_trees=50,max_leaves=15; may be repeated.",
    ),
]
TrainingData = Annotated[str | None, typer.Option(metavar="FILE", help="Training data.")]
TestData = Annotated[str | None, typer.Option(metavar="FILE", help="Test data.")]
ValidationData = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Validation data, for early stopping; used whole."),
]
Folds = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Fold1, Fold2, … instead of --data and --test.")
]
MeasureText = Annotated[str, typer.Option("--measure", "-m", help="Such as ndcg@10 or map.")]


def estimators_of(texts: Sequence[str]) -> dict[str, Any]:
    """Estimators from ``NAME:parameter=value,…``; two of one name are told apart by their parameters."""
    from rankwood.rankers.save import estimators

    names = [text.partition(":")[0] for text in texts]
    found: dict[str, Any] = {}
    for text, name in zip(texts, names, strict=True):
        shown = name if names.count(name) == 1 else text
        if shown in found:
            raise ParameterError(f"--model {text} is given twice.")
        found[shown] = estimators()[kind_of(text)](**parameters_of(text))
    return found


def kind_of(text: str) -> str:
    """The estimator that ``NAME:parameter=value,…`` names."""
    from rankwood.rankers.save import estimators

    name = text.partition(":")[0]
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
    from rankwood.data.folds import same_width

    if folds is not None:
        if data or test or valid:
            raise ParameterError("--folds has all three parts; leave out --data, --test, --valid.")
        return _read_folds(folds, reading)
    if data is None or test is None:
        name = "data" if data is None else "test"
        raise ParameterError(f"--{name} is missing. Name the file, or --folds; see --help.")
    parts = [reading(path) for path in (data, valid, test) if path is not None]
    if not any(part.feature_names for part in parts):
        parts = same_width(parts, reading.options["absent"])
    return [(parts[0], parts[1] if valid is not None else None, parts[-1])]


def _read_folds(folder: str, reading: Reading) -> Any:
    from rankwood.data.folds import read_folds

    usual = {"absent": "zero", "order": "ascending", "cache": None, "strict": False}
    # Tables know nothing of most of them, so only what was asked for is passed on.
    asked = {name: reading.options[name] for name in usual if reading.options[name] != usual[name]}
    return read_folds(folder, **asked)


def refuse_other_files(option: str, path: Path | None, endings: Sequence[str]) -> None:
    """Say now what would otherwise be said after an hour of training."""
    if path is None:
        return
    *first, last = endings
    if path.suffix.lower() not in endings:
        listed = f"{', '.join(first)} or {last}" if first else last
        raise ParameterError(f"{option} {path} must end in {listed}.")
    if not path.absolute().parent.is_dir():
        raise DataError(f"the folder of {path} does not exist: make it first, or choose another.")
    if path.suffix.lower() in PLOTS:
        from rankwood.evaluation.plots import refuse_without_matplotlib

        refuse_without_matplotlib()
