"""Options that several commands share, written once and spliced into their signatures."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood.cli import printing

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
        from rankwood.data.parts import read_parts
        from rankwood.data.reading import ReadOptions

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
