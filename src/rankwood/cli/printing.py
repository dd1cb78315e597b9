"""All output of the command line: results to standard output; notices, progress, warnings and errors to standard error.

No other module of the package prints. ``say``, ``heading``, ``show_table``, ``show_facts`` and ``show_json`` show
results. ``reading``, ``training``, ``cells`` and ``building`` are context managers that give a callback for progress.
``reports_errors`` wraps every command: what it raises becomes a message and an exit code.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from rich import markup
from rich.console import Console
from rich.table import Table

from rankwood._core.threads import Terminated, ended_by_sigterm
from rankwood.errors import (
    InputError,
    RankwoodError,
    RankwoodWarning,
    in_words_of_the_command_line,
)

_PLAIN_WIDTH = 200  # a pipe has no width of its own; do not fold what a script will read
_PLAIN_LINE_EVERY = 5.0  # seconds between progress lines where there is no terminal
# Control characters but tab and line feed, those that turn the direction of text, and halves of characters.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BAR_AFTER = 0.5  # seconds; shorter work needs no bar

BytesCallback = Callable[[int, int | None], None]  # bytes read, bytes in all
NewsCallback = Callable[[Any], None]
_Callback = TypeVar("_Callback")


def output() -> Console:
    """Standard output, as it is now (tests replace it)."""
    return Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False
    )


def notices() -> Console:
    """Standard error, as it is now."""
    return Console(
        file=sys.stderr,
        width=None if sys.stderr.isatty() else _PLAIN_WIDTH,
        highlight=False,
        stderr=True,
    )


def escape(text: str) -> str:
    """Text of others as it is shown: markup as text, and what would command the terminal by its code."""
    return markup.escape(_COMMANDS.sub(lambda found: ascii(found.group())[1:-1], text))


def say(text: str = "") -> None:
    """A line of the result."""
    output().print(escape(text), soft_wrap=True)


def heading(text: str) -> None:
    """A line that stands out above a part of the result."""
    output().print(f"\n[bold]{escape(text)}[/bold]", soft_wrap=True)


def notice(text: str) -> None:
    """A line about what is going on; not part of the result."""
    notices().print(f"[dim]{escape(text)}[/dim]", soft_wrap=True)


def complain(text: str) -> None:
    """An error, in one paragraph."""
    notices().print(f"[bold red]error:[/bold red] {escape(text)}", soft_wrap=True)


def warn(text: str) -> None:
    """A warning, in one paragraph."""
    notices().print(f"[bold yellow]warning:[/bold yellow] {escape(text)}", soft_wrap=True)


def show_json(value: Any) -> None:
    """A result for scripts; what is not a number is null, since JSON has no NaN."""
    text = json.dumps(_without_nan(value), indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(text + "\n")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int = 1,
    title: str | None = None,
) -> None:
    """A table; the first ``left`` columns are text, the others numbers."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(
            escape(column), justify="left" if number < left else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    output().print(table)


def show_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Names and what they are, side by side."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(escape(name), escape(value))
    output().print(table)


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what ``command`` raises into a message on standard error and an exit code."""

    @functools.wraps(command)
    def wrapper(*arguments: Any, **options: Any) -> None:
        try:
            with warnings_as_lines(), ended_by_sigterm(), in_words_of_the_command_line():
                command(*arguments, **options)
                sys.stdout.flush()
        except (Exception, KeyboardInterrupt, Terminated) as error:
            code = _report(error)
            if code is None:
                raise  # a defect of Rankwood: a bug report needs the traceback
            sys.exit(code)

    return wrapper


def _report(error: BaseException) -> int | None:
    """Print what went wrong and return the exit code; None for an error that the user cannot mend."""
    if isinstance(error, BrokenPipeError):  # `rankwood … | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, KeyboardInterrupt):
        complain("interrupted.")
        return 130
    if isinstance(error, Terminated):
        complain("ended by SIGTERM.")
        return 128 + signal.SIGTERM
    if isinstance(error, RankwoodError):
        complain(str(error))
        return 2 if isinstance(error, InputError) else 1
    if isinstance(error, MemoryError):
        complain("not enough memory for this. Try fewer rows, or fewer features.")
        return 1
    if isinstance(error, OSError):
        file = f" ({error.filename})" if error.filename else ""
        complain(f"{error.strerror or error}{file}.")
        return 1
    return None


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show warnings as lines of ours; those of Rankwood always, whatever Python's filters say."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", RankwoodWarning)
        warnings.showwarning = show
        yield


def log_to_terminal(verbose: bool, formatter: logging.Formatter | None = None) -> logging.Handler:
    """Send the library's log to standard error: everything with ``verbose``, else warnings only.

    The message that kernels are being compiled is always sent, since compiling may take half a minute. Returns what
    writes the lines, for logs of others.
    """
    handler = logging.StreamHandler(sys.stderr)
    usual = logging.Formatter("%(name)s: %(message)s" if verbose else "%(message)s")
    handler.setFormatter(formatter or usual)
    logger = logging.getLogger("rankwood")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.getLogger("rankwood._core.jit").setLevel(logging.DEBUG if verbose else logging.INFO)
    return handler


def be_quiet() -> None:
    """Suppress the message that kernels are being compiled, too."""
    logging.getLogger("rankwood._core.jit").setLevel(logging.WARNING)


def reading(what: str, quiet: bool) -> AbstractContextManager[BytesCallback | None]:
    """A callback for bytes read: a bar with the time left on a terminal, plain lines elsewhere, nothing if quiet."""
    return _progress(quiet, lambda: _byte_bar(what), lambda: _byte_lines(what))


def training(what: str, measure: str, quiet: bool) -> AbstractContextManager[NewsCallback | None]:
    """A callback for trees or rounds done: a bar with time left and validation figure, plain lines, or nothing."""
    return _progress(quiet, lambda: _tree_bar(what, measure), lambda: _tree_lines(what, measure))


def cells(measure: str, quiet: bool) -> AbstractContextManager[NewsCallback | None]:
    """A callback for an experiment's cells: a bar with the time left, plain lines, or nothing."""
    return _progress(quiet, lambda: _cell_bar(measure), lambda: _cell_lines(measure))


@contextlib.contextmanager
def building(what: str, quiet: bool) -> Iterator[Callable[[int, int, float], None] | None]:
    """A callback for things made, things wanted and the seconds left; shown like training."""
    from types import SimpleNamespace

    with training(what, "", quiet) as show:
        if show is None:
            yield None
            return

        def update(done: int, total: int, seconds_left: float) -> None:
            show(
                SimpleNamespace(
                    iteration=done,
                    total=total,
                    seconds_left=seconds_left,
                    measure=None,
                    unit="position",
                    notes={},
                )
            )

        yield update


@contextlib.contextmanager
def _progress(
    quiet: bool,
    bar: Callable[[], AbstractContextManager[_Callback]],
    lines: Callable[[], _Callback],
) -> Iterator[_Callback | None]:
    """The callback of ``bar`` on a terminal, of ``lines`` elsewhere; None if quiet."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with bar() as callback:
            yield callback
    else:
        yield lines()


class _Interval:
    """The time until the next plain line is due."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def has_passed(self) -> bool:
        """Whether ``_PLAIN_LINE_EVERY`` seconds have passed since the last line."""
        return time.monotonic() - self._last >= _PLAIN_LINE_EVERY

    def restart(self) -> None:
        """Count from now on."""
        self._last = time.monotonic()


def _bar_of(*columns: Any) -> Any:
    """A bar on standard error that goes away at the end: what is done, the bar, and then the columns given."""
    from rich.progress import BarColumn, Progress, TextColumn

    described = (TextColumn("{task.description}"), BarColumn())
    return Progress(*described, *columns, console=notices(), transient=True)


@contextlib.contextmanager
def _byte_bar(what: str) -> Iterator[BytesCallback]:
    from rich.progress import DownloadColumn, TimeRemainingColumn

    start = time.monotonic()
    with _bar_of(DownloadColumn(), TimeRemainingColumn()) as progress:
        task = progress.add_task(f"reading {escape(what)}", total=None, visible=False)

        def update(done: int, total: int | None) -> None:
            visible = time.monotonic() - start > _BAR_AFTER
            progress.update(task, completed=done, total=total, visible=visible)

        yield update


def _byte_lines(what: str) -> BytesCallback:
    interval = _Interval()
    start: list[tuple[float, int]] = []  # when the first bytes were reported, and how many

    def update(done: int, total: int | None) -> None:
        start[:] = start or [(time.monotonic(), done)]
        if interval.has_passed():
            interval.restart()
            seconds, n_bytes = time.monotonic() - start[0][0], done - start[0][1]
            left = (
                f", {seconds * (total - done) / n_bytes:,.0f} s left" if total and n_bytes else ""
            )
            share = f" ({done / total:.0%}{left})" if total else ""
            notice(f"reading {what}: {done / 2**20:,.0f} MiB{share}")

    return update


def _figure(measure: str, news: Any) -> str:
    """The validation figure, and what else is known of a round."""
    figure = "" if news.measure is None else f"{measure} {news.measure:.4f}"
    others = [f"{name} {value:.4g}" for name, value in news.notes.items() if name != "valid"]
    return "  ".join([figure, *others]).strip()


@contextlib.contextmanager
def _tree_bar(what: str, measure: str) -> Iterator[NewsCallback]:
    from rich.progress import MofNCompleteColumn, TextColumn, TimeRemainingColumn

    figure_column = TextColumn("{task.fields[figure]}")
    with _bar_of(MofNCompleteColumn(), TimeRemainingColumn(), figure_column) as bar:
        task = bar.add_task(escape(what), total=None, figure="")

        def update(news: Any) -> None:
            figure = _figure(measure, news)
            bar.update(task, completed=news.iteration, total=news.total, figure=figure)

        yield update


def _tree_lines(what: str, measure: str) -> NewsCallback:
    interval = _Interval()

    def update(news: Any) -> None:
        if interval.has_passed():
            interval.restart()
            figure = _figure(measure, news)
            notice(
                f"{what}: {news.unit} {news.iteration:,} of {news.total:,}, {news.seconds_left:,.0f} s left {figure}"
            )

    return update


def _finished_cell(news: Any, measure: str) -> str:
    """The cell that was finished last, with its value."""
    if news.cell is None:
        return ""
    value = (news.record.get("means") or {}).get(measure)
    figure = "failed" if news.record.get("status") == "failed" else ""
    figure = f"{measure} {value:.4f}" if value is not None else figure
    return f"{news.cell}: {figure}"


@contextlib.contextmanager
def _cell_bar(measure: str) -> Iterator[NewsCallback]:
    from rich.progress import MofNCompleteColumn, TextColumn

    news_columns = (TextColumn("{task.fields[left]}"), TextColumn("{task.fields[last]}"))
    with _bar_of(MofNCompleteColumn(), *news_columns) as bar:
        task = bar.add_task("cells", total=None, left="", last="")

        def update(news: Any) -> None:
            left = "" if news.seconds_left is None else f"{news.seconds_left:,.0f} s left"
            left += f", {news.failed:,} failed" if news.failed else ""
            done = news.done + news.failed
            last = escape(_finished_cell(news, measure))
            if news.lost:
                bar.console.print(escape(news.lost))
            bar.update(task, completed=done, total=news.total, left=left, last=last)

        yield update


def _cell_lines(measure: str) -> NewsCallback:
    interval = _Interval()

    def update(news: Any) -> None:
        is_failed = news.record.get("status") == "failed"
        if news.lost:
            notice(news.lost)
        if is_failed or (news.cell and interval.has_passed()):
            interval.restart()
            left = "" if news.seconds_left is None else f", {news.seconds_left:,.0f} s left"
            done = news.done + news.failed
            notice(f"{done:,} of {news.total:,} cells{left}; {_finished_cell(news, measure)}")

    return update
