"""``rankwood report``: a run as one page, with tables and figures beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwood.cli import printing
from rankwood.errors import ParameterError, RunError


def command(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="The folder of a run, as rankwood experiment writes it."
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Where the report goes, RUN/report by default; PAGE.html for the page alone.",
        ),
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Some of html, md, tex, csv, svg, png, with commas between; png needs the extra report.",
        ),
    ] = "html,md,tex,csv,svg,png",
    open_page: Annotated[
        bool, typer.Option("--open", help="Show the page in a browser when it is written.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notices.")] = False,
) -> None:
    """Write the report of a run: one page that needs no network, and its tables and figures as files.

    The page has the results with intervals and tests, charts, every query with the rankings of those that changed
    most, the conventions, and how to repeat the run. Of a run that is still under way, it shows what is finished.

    Example: rankwood report runs/broof --open

    Example: rankwood report runs/broof --out broof.html
    """
    from rankwood.experiments.reading import read_run
    from rankwood.experiments.report import write_report

    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    target = run / "report" if out is None else out
    is_page = target.suffix.lower() in (".html", ".htm")
    if open_page and not is_page and "html" not in chosen:
        raise ParameterError("--open needs the page: name html among --formats.")
    page = write_report(read_run(run), target, formats=chosen)
    if not quiet and not is_page:
        printing.notice(f"tables and figures are in {target}")
    printing.say(str(page if is_page or "html" in chosen else target))
    if open_page:
        _show(page)


def _show(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        raise RunError(f"no browser could be started; the page is {page}.")
