"""What several commands share: options, declared once; data and models, read from them; results, shown by them.

An option that more than one command has is an alias (``Csv``, ``ModelFile``), used as the annotation of a parameter;
the default value is in the command's signature. ``argument``, ``option``, ``file_option`` and ``switch`` declare
those that one command alone has. ``with_reading_options`` adds the options of the panel "Reading", which every command
that reads data takes, and hands them to the command as one object, a ``Reading``.
"""

from __future__ import annotations

import csv
import functools
import glob
import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from rankwood._core.files import PLOTS
from rankwood.cli import printing
from rankwood.errors import DataError, ParameterError, UnknownName

_VALIDATION = ("vali", "validation", "validation_data", "eval_set", "dev", "val")


class Command(typer.core.TyperCommand):
    """A command that refuses an option given twice, and says of a wrong call what a right one looks like."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; an error names our option for that of another library, and ends in the first example."""
        try:
            return self._parse_args(ctx, args)
        except Exception as error:
            explain: Callable[[], str] | None = getattr(error, "format_message", None)
            if explain is None:  # not an error of the parser, whose class typer keeps to itself
                raise
            said, unknown = explain(), getattr(error, "option_name", None)
            if ours := self._option_here(unknown, args):
                said = f"No such option: {unknown}. {ours}"
            if example := re.search(r"Example: (rankwood .+)", self.help or ""):
                end = "" if said.endswith((".", "?")) else "."
                said = f"{said}{end} For example: {example[1]}"
            ctx.fail(said)
            raise

    def _option_here(self, given: str | None, args: Sequence[str]) -> str | None:
        """What an option of another library, or of another command, is called in this one; None where it is nothing."""
        name = (given or "").lstrip("-").replace("-", "_")
        known = {option: option for each in self.params for option in each.opts}
        if name in _VALIDATION and "--valid" in known:
            return "It is called --valid here."
        if name == "data" and any("DATA" in str(each.metavar) for each in self.params):
            return "DATA is given without an option here."
        from rankwood.cli.parameters import called_here  # other libraries' words for parameters

        kind = next((args[at + 1] for at, word in enumerate(args[:-1]) if word == "--model"), None)
        ours = called_here(name, kind) or ""
        found = known.get(f"--{ours.replace('_', '-')}")
        return f"It is called {found} here." if found else None

    def _parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in set(given):
            is_switch = getattr(parameter, "is_flag", False) and not parameter.secondary_opts
            may_repeat = getattr(parameter, "multiple", True) or is_switch
            if given.count(parameter) > 1 and not may_repeat:
                ctx.fail(
                    f"{parameter.opts[0]} is given {given.count(parameter)} times, and takes one value."
                )
        return super().parse_args(ctx, args)


def argument(metavar: str, text: str) -> Any:
    """Declare an argument: its name in the usage line, and its help."""
    return typer.Argument(metavar=metavar, help=text)


def option(text: str, *names: str, **settings: Any) -> Any:
    """Declare an option by its help; without ``names`` it is called as its parameter is."""
    return typer.Option(*names, help=text, **settings)


def file_option(text: str, *names: str) -> Any:
    """Declare an option that takes a file."""
    return option(text, *names, metavar="FILE")


def folder_option(text: str, *names: str) -> Any:
    """Declare an option that takes a folder."""
    return option(text, *names, metavar="FOLDER")


def data_option(text: str, *names: str) -> Any:
    """Declare an option that takes data: given several times, its files are read as one."""
    return option(f"{text.removesuffix('.')}; may be repeated.", *names, metavar="DATA")


def switch(name: str, text: str, *short: str) -> Any:
    """Declare an option that takes no value, and has no opposite ``--no-…``."""
    return option(text, name, *short)


DATA_FORMATS = "LETOR text, Parquet, CSV or Arrow: files, patterns, folders, s3:// and the like"
DATA_OR_STDIN = f"{DATA_FORMATS}; - is standard input."
LABELLED_DATA = f"{DATA_FORMATS}; with labels."

ModelFile = Annotated[str, argument("MODEL", "A model file, as rankwood train writes it.")]
Models = Annotated[
    list[str],
    typer.Option(
        metavar="NAME:PARAMETERS",
        help="Such as RandomForest, or GBRT:n_trees=50,max_leaves=15; may be repeated.",
    ),
]
Dask = Annotated[
    str | None,
    option(
        "Work on a Dask cluster: the address of its scheduler, or local for a process per core.",
        "--dask",
        metavar="ADDRESS",
    ),
]
DataFiles = Annotated[list[str], argument("DATA...", DATA_OR_STDIN)]
LabelledFiles = Annotated[list[str], argument("DATA...", LABELLED_DATA)]
TrainingData = Annotated[list[str] | None, data_option("Training data.")]
TestData = Annotated[list[str] | None, data_option("Test data.")]
ValidationData = Annotated[list[str] | None, data_option("Validation data.")]
StoppingData = Annotated[
    list[str] | None, data_option("Validation data, for early stopping; used whole.")
]
Folds = Annotated[str | None, folder_option("Fold1, Fold2, … instead of --data and --test.")]
MeasureText = Annotated[str, option("Such as ndcg@10 or map.", "--measure", "-m")]
OnOverlap = Annotated[
    str | None,
    option(
        "If the two share queries or documents: warn (the default), error or ignore.",
        metavar="RULE",
    ),
]
Level = Annotated[float, option("What p values are compared with.")]
Seed = Annotated[int, option("Same data, seed and version: same result.")]
Csv = Annotated[Path | None, file_option("Also a table (.csv), numbers in full.", "--csv")]
Plot = Annotated[
    Path | None, file_option("Also a plot: .svg, .png or .pdf (extra report).", "--plot")
]
Json = Annotated[bool, switch("--json", "Print JSON for scripts instead of a table.")]
NoNotices = Annotated[bool, switch("--quiet", "No notices.", "-q")]
NoProgress = Annotated[bool, switch("--quiet", "No progress, no notices.", "-q")]


def tell_of_overlap(
    rule: str | None, parts: tuple[Any, Any], names: tuple[str, str], quiet: bool = False
) -> None:
    """Warn, or raise, where the first part has queries or documents of the second; ``names`` say what they are."""
    from rankwood.data.splits import ON_OVERLAP, PartContent, shared_content

    rule = ON_OVERLAP[0] if rule is None else rule
    if rule not in ON_OVERLAP:
        raise UnknownName("--on-overlap", rule, ON_OVERLAP)
    if rule == "ignore":
        return
    found = shared_content(*(PartContent.of(part) for part in parts))
    lines = found.warnings(*names)
    if lines and rule == "error":
        raise DataError("; ".join(lines) + ". With --on-overlap warn this is no error.")
    for line in lines:
        printing.warn(f"{line}. Measures of the {names[0]} part look better than they are.")
    for line in [] if quiet else found.notes(*names):
        printing.notice(line)


class Reading:
    """The reading options of one call; reads data with progress on standard error."""

    def __init__(self, **options: Any) -> None:
        self.given = options
        self.quiet: bool = options["quiet"]
        if self.quiet:
            printing.be_quiet()
        self.options: dict[str, Any] = {
            "label": options["label"],
            "query": options["query"],
            "doc": options["doc"],
            "row_weight": options["row_weight"],
            "query_weight": options["query_weight"],
            "position": options["position"],
            "features": _features(options["features"], options["features_from"]),
            "drop": names_in(options["drop"] or ()),
            "categorical": names_in(options["categorical"] or ()),
            "absent": "missing" if options["absent_missing"] else "zero",
            "order": "any" if options["any_order"] else "ascending",
            "overflow": "missing" if options["overflow_missing"] else "error",
            "cache": None if options["cache"] else False,
            "strict": options["strict"],
            "n_threads": options["threads"],
        }

    def with_options(self, **options: Any) -> Reading:
        """The same with some options changed, by their names on the command line."""
        return Reading(**(self.given | options))

    def __call__(self, paths: str | Sequence[str], *, is_log: bool = False, **changes: Any) -> Any:
        """The data in one or several files; only a log must have the column of positions that the call may name."""
        from rankwood.data.reading import position_if_there, read_data
        from rankwood.data.sources import find_inputs

        inputs = find_inputs(paths)
        with printing.reading(names_of(paths), self.quiet) as progress:
            options = self._read_options(inputs, changes, progress)
            return read_data(inputs, options if is_log else position_if_there(inputs, options))

    def parts(self, paths: str | Sequence[str], n_rows: int, **changes: Any) -> Iterator[Any]:
        """The data in parts of whole queries and about ``n_rows`` rows, without positions."""
        from rankwood.data.parts import read_parts
        from rankwood.data.reading import without_position
        from rankwood.data.sources import find_inputs

        inputs = find_inputs(paths)
        with printing.reading(names_of(paths), self.quiet) as progress:
            options = without_position(inputs, self._read_options(inputs, changes, progress))
            yield from read_parts(inputs, options, n_rows=n_rows)

    def without_labels(self, model: Any) -> dict[str, Any]:
        """Changes of the options for documents that ``model`` scores: labels, if there are any, are not read."""
        from rankwood.rankers.save import features_of

        changes: dict[str, Any] = {"label": None, "model": features_of(model)}
        label = self.options["label"]
        if label != "label" and features_of(model).names is None:
            changes["drop"] = (
                *self.options["drop"],
                label,
            )  # a column named label is no feature anyway
        return changes

    def _read_options(self, inputs: Sequence[Any], changes: Any, progress: Any) -> Any:
        from rankwood.data.reading import ReadOptions
        from rankwood.data.sources import is_table

        if not is_table(inputs[0].path):
            self._warn_of_columns(str(inputs[0].path))
        return ReadOptions(**{**self.options, **changes}, progress=progress)

    def _warn_of_columns(self, name: str) -> None:
        """Warn of options that name columns of tables, for LETOR text."""
        usual = {"label": "label", "query": "qid"}
        given = [
            f"--{option.replace('_', '-')}"
            for option in ("label", "query", "doc", "row_weight", "query_weight")
            if self.options[option] != usual.get(option)
        ]
        if given:
            printing.warn(
                f"{name} is LETOR text, which has no columns: {', '.join(given)} have no effect on it."
            )


def features_of_all(models: Iterable[Any]) -> Any:
    """The features of several models together; None where some have names and some have none, or there is no model."""
    from rankwood.data.reading import ModelFeatures
    from rankwood.rankers.save import features_of

    known = [features_of(model) for model in models]
    names = [one.names for one in known if one.names is not None]
    if names and len(names) == len(known):
        union = tuple(dict.fromkeys(name for each in names for name in each))
        categorical: dict[str, tuple[str, ...]] = {}
        for one in known:
            for name, categories in one.categorical.items():
                if categorical.setdefault(name, categories) != categories:
                    raise ParameterError(f"the models know other categories of '{name}': use one.")
        return ModelFeatures(len(union), union, categorical=categorical)
    return max(known, key=lambda one: one.n_features) if known and not names else None


def names_of(paths: str | Sequence[str]) -> str:
    """What a message calls one file, or several."""
    given = [paths] if isinstance(paths, str) else paths
    return Path(given[0]).name if len(given) == 1 else f"{len(given)} files and folders"


def names_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The names in texts such as ``a,b,c``; a name with a comma stands in double quotes."""
    try:
        rows = list(csv.reader(texts, skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise ParameterError(
            f"names of columns cannot be read: {error}. Write them as a,b,c."
        ) from None
    return tuple(name.strip() for row in rows for name in row if name.strip())


def _features(texts: Sequence[str] | None, path: Path | None) -> tuple[str, ...] | None:
    """The features that --features or --features-from names; None where neither is given."""
    if texts and path is not None:
        raise ParameterError(
            "--features and --features-from both name the features: give one of them."
        )
    if path is None:
        return names_in(texts) if texts else None
    from rankwood.models.format import is_model_file

    if is_model_file(path):
        from rankwood.rankers.save import features_of, load

        known = features_of(load(path))
        return known.names or tuple(str(number + 1) for number in range(known.n_features))
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"--features-from: {path} cannot be read: {error}.") from None
    names = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not names:
        raise DataError(f"--features-from: {path} names no features. Write one name per line.")
    return names


# What says how files are read, wherever that is done.
OF_EVERY_SOURCE = (
    "label",
    "query",
    "doc",
    "row_weight",
    "query_weight",
    "position",
    "features",
    "drop",
    "absent",
    "order",
    "overflow",
)


def distributed_data(
    client: Any, paths: Sequence[str], reading: Reading, model: Any = None, **changes: Any
) -> Any:
    """Data on the workers of a cluster, read as the options say, or as the model that they are for."""
    from rankwood.data.reading import ReadOptions, position_if_there, without_position
    from rankwood.data.sources import find_inputs, is_table
    from rankwood.training.distribute import distribute

    refuse_categories(reading, "data on a Dask cluster (--dask)")
    options = {name: reading.options[name] for name in OF_EVERY_SOURCE} | changes
    if options["position"] is not None and (model is not None or "bins" in changes):
        read = ReadOptions(position=options["position"], drop=tuple(options["drop"]))
        read = (position_if_there if model is None else without_position)(paths, read)
        options |= {"position": read.position, "drop": read.drop}
    if model is not None and options["features"] is None:
        is_named = model.names is not None and is_table(find_inputs(paths)[0].path)
        options |= {"features": model.names} if is_named else {"n_features": model.n_features}
    return distribute(client, paths[0] if len(paths) == 1 else list(paths), **options)


def refuse_categories(reading: Reading, what: str) -> None:
    """Raise where the options name categorical features, and ``what`` has none."""
    if reading.options["categorical"]:
        name = reading.options["categorical"][0]
        raise ParameterError(
            f"--categorical {name}: {what} cannot have categorical features. Train from files that are read into "
            "memory, or leave it out with --drop."
        )


_reading_option = functools.partial(option, rich_help_panel="Reading")


def _reading_parameters(
    *,
    label: Annotated[str, _reading_option("Tables: the column of labels.")] = "label",
    query: Annotated[str, _reading_option("Tables: the column of query ids.")] = "qid",
    doc: Annotated[str | None, _reading_option("Tables: the column of document ids.")] = None,
    row_weight: Annotated[
        str | None, _reading_option("Tables: the column of row weights.", metavar="COLUMN")
    ] = None,
    query_weight: Annotated[
        str | None, _reading_option("Tables: the column of query weights.", metavar="COLUMN")
    ] = None,
    features: Annotated[
        list[str] | None,
        _reading_option(
            "The features, by the names of columns (of LETOR text by number): a,b,c; may be repeated. All other "
            "columns by default; of data for a model, the model's.",
            metavar="NAMES",
        ),
    ] = None,
    features_from: Annotated[
        Path | None,
        _reading_option("A file with a feature's name per line, or a model file.", metavar="FILE"),
    ] = None,
    position: Annotated[
        str | None,
        _reading_option(
            "Click logs: the column (LETOR text: the feature number) of the position at which a document was shown."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        _reading_option("Columns to leave out: a,b,c; may be repeated.", metavar="NAMES"),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        _reading_option(
            "Tables: features of text or of a category type: a,b,c; may be repeated. Data for a model have its own.",
            metavar="NAMES",
        ),
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
    overflow_missing: Annotated[
        bool,
        _reading_option(
            "LETOR text: values beyond float32, as Istella's 1.79e308, are missing, not an error.",
            "--overflow-missing",
        ),
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


def reading_option_names() -> tuple[str, ...]:
    """The names of the reading options, as parameters of a command."""
    return tuple(inspect.signature(_reading_parameters).parameters)


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


def typed_again(context: typer.Context, without: Sequence[str]) -> str:
    """The call of this command with every option that was given, ``without`` those of these parameters."""
    words = ["rankwood", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in without or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        values = value if isinstance(value, list | tuple) else [value]
        if parameter.param_type_name == "argument":
            words += map(str, values)
        elif isinstance(value, bool):
            words.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            words += [word for each in values for word in (parameter.opts[0], str(each))]
    return shlex.join(words)


def split_outside_brackets(text: str, separator: str = ",") -> list[str]:
    """The parts of a text, cut at separators that do not stand within brackets; empty ones are left out."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


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

    given = dict(_pair(text, part) for part in split_outside_brackets(text.partition(":")[2]))
    return parameters.read(kind_of(text), given)


def _pair(text: str, part: str) -> tuple[str, str]:
    parameter, equals, value = part.partition("=")
    if not equals:
        raise ParameterError(
            f"--model must be written as NAME:parameter=value,parameter=value; got '{text}'."
        )
    return parameter.strip().replace("-", "_"), value.strip()


def read_parts(
    data: Sequence[str] | None,
    valid: Sequence[str] | None,
    test: Sequence[str] | None,
    folds: str | None,
    reading: Reading,
) -> Any:
    """The folds of a folder, or one fold of the files given, all with the same features."""
    if folds is not None:
        if data or test or valid:
            raise ParameterError("--folds has all three parts; leave out --data, --test, --valid.")
        return _read_folds(folds, reading)
    if not data or not test:
        raise ParameterError(
            f"--{'test' if data else 'data'} is missing. Name the file, or --folds; see --help."
        )
    parts = read_alike([paths for paths in (data, valid, test) if paths], reading)
    return [(parts[0], parts[1] if valid else None, parts[-1])]


def _read_folds(folder: str, reading: Reading) -> Any:
    from rankwood.data.splits import Fold, Folds, fold_files

    files = fold_files(folder)
    makers = [
        functools.partial(
            lambda paths: Fold(*read_alike([str(path) for path in paths], reading)), paths
        )
        for paths in files.values()
    ]
    return Folds(list(files), makers)


def named_sets(given: Any) -> Any:
    """Validation sets by name, of texts NAME=DATA; as they are where no text has a name.

    A text that is the name, or the pattern, of a file or folder is no pair: partitions are called ``day=3``.
    """
    if not isinstance(given, list):
        return given
    sets: dict[str, list[str]] = {}
    for text in given:
        match = re.fullmatch(r"([\w.-]+)=(.+)", text)
        if match is not None and not Path(text).exists() and not glob.glob(text):
            sets.setdefault(match[1], []).append(match[2])
    n_named = sum(map(len, sets.values()))
    if 0 < n_named < len(given):
        raise ParameterError(
            f"--valid names some sets ({', '.join(sets)}) and others not: write NAME=DATA for each."
        )
    return sets or given


def read_alike(parts: Sequence[str | Sequence[str]], reading: Reading, **changes: Any) -> list[Any]:
    """The data of each part with the features of the first one; LETOR text is as wide as the widest part.

    A part that is narrower is told of: its last features are absent, or it is other data. The first part is the
    training data, which must have the column of positions where one is named.
    """
    from rankwood.data.reading import ModelFeatures
    from rankwood.data.sources import find_inputs, is_table
    from rankwood.data.splits import same_width

    first = reading(parts[0], is_log=True, **changes)
    given = zip(first.names, first.categorical or (), strict=False)
    categories = {name: one for name, one in given if one is not None}
    known = ModelFeatures(first.n_features, first.feature_names, categorical=categories)
    read = [first]
    for paths in parts[1:]:
        takes_names = known.names is not None or is_table(find_inputs(paths)[0].path)
        own = {"model": known} if takes_names and "model" not in changes else {}
        read.append(reading(paths, **(changes | own)))
    if any(part.feature_names for part in read):
        return read
    widths = [part.n_features for part in read]
    if min(widths) < max(widths):
        listed = ", ".join(
            f"{names_of(paths)} has features up to {width:,}"
            for paths, width in zip(parts, widths, strict=True)
        )
        absent = reading.options["absent"]
        printing.warn(
            f"{listed}: those that a file lacks are {'0' if absent == 'zero' else absent} in all its rows."
        )
    return list(same_width(read, reading.options["absent"]))


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
