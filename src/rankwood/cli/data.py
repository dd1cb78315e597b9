"""``rankwood convert``, ``bin`` and ``data``: convert, bin and make data, list collections, look after the cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood._core.threads import Terminated
from rankwood.cli import printing
from rankwood.cli.options import (
    DATA_FORMATS,
    DATA_OR_STDIN,
    OF_EVERY_SOURCE,
    Dask,
    Json,
    NoNotices,
    NoProgress,
    Reading,
    Seed,
    argument,
    folder_option,
    option,
    refuse_categories,
    switch,
    with_reading_options,
)
from rankwood.cli.printing import reports_errors
from rankwood.errors import ParameterError, RunError, counted

if TYPE_CHECKING:
    from rankwood.binning.folder import BinnedFolder
    from rankwood.data.collections import Collection
    from rankwood.data.dataset import RankingData

app = typer.Typer(
    help="Make data, list public collections, and look after the cache of parsed files.",
    no_args_is_help=True,
)


@with_reading_options
def convert_command(
    source: Annotated[list[str], argument("IN...", DATA_OR_STDIN)],
    target: Annotated[
        str,
        argument(
            "OUT",
            "Written by its name: .parquet, .csv, .tsv, .arrow, .feather, else LETOR text; "
            ".gz, .zst and .bz2 compress text; - is standard output.",
        ),
    ],
    *,
    normalise: Annotated[
        str | None,
        option("Scale every feature within its query: minmax (to 0..1, as LETOR does) or zscore."),
    ] = None,
    skip_zeros: Annotated[
        bool, switch("--skip-zeros", "LETOR text: do not write zero values.")
    ] = False,
    reading: Reading,
) -> None:
    """Convert between LETOR text, Parquet, CSV and Arrow.

    OUT appears when it is complete: an interrupted run leaves whatever stood there before.

    Example: rankwood convert train.txt.gz train.parquet --normalise minmax
    """
    from rankwood.data.reading import write_data

    data = reading(source)
    if normalise is not None:
        from rankwood.data.features import normalise_per_query

        data = normalise_per_query(data, method=normalise)
    write_data(data, target, skip_zeros=skip_zeros)
    if target != "-" and not reading.quiet:
        _tell_size(target, data)


@with_reading_options
def bin_command(
    paths: Annotated[
        list[str] | None,
        argument(
            "PATHS",
            f"{DATA_FORMATS}.",
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None, folder_option("The folder that the result goes to.", "--out", "-o")
    ] = None,
    bins: Annotated[
        Path | None, folder_option("Bin by the bins of this folder, as validation data must be.")
    ] = None,
    check: Annotated[
        Path | None, folder_option("Compare every byte of a folder with its checksums.")
    ] = None,
    max_bins: Annotated[int, option("Most bins of a feature.", min=2, max=255)] = 255,
    sample: Annotated[int, option("Rows that the bins are made from.", min=1)] = 200_000,
    seed: Seed = 0,
    unsorted: Annotated[
        bool,
        switch(
            "--unsorted",
            "Keep the rows in their order; training on them takes up to twice as long.",
        ),
    ] = False,
    overwrite: Annotated[
        bool, switch("--overwrite", "Replace other binned data in --out.")
    ] = False,
    dask: Dask = None,
    reading: Reading,
) -> None:
    """Bin data that may be larger than memory, to a folder that rankwood train takes as --data and --valid.

    The files are read two or three times in blocks, in less than 1 GB of memory. The rows of a query must be together;
    they may go on in the next file. The folder has a byte per value and some 40 bytes per row. Models are, to the byte,
    those of the files in memory. It keeps no raw features: linear rankers and networks cannot use it.

    Whatever interrupts it, the same command goes on where it stopped. With --dask, one worker of the cluster does the
    work: PATHS and FOLDER are on a disk that this machine shares with it.

    Example: rankwood bin day-*.parquet --out train.bin --label grade --query session

    Example: rankwood bin vali.parquet --out vali.bin --bins train.bin --label grade --query session

    Example: rankwood train --model LambdaMART --data train.bin --valid vali.bin

    Example: rankwood bin --check train.bin
    """
    from rankwood.binning.folder import check_binned

    if check is not None:
        if paths or out is not None:
            raise ParameterError("--check looks at one folder: leave out PATHS and --out.")
        whole = check_binned(check)
        printing.say(f"{check}: every byte is as it was written, {_size_of(whole)}")
        return
    if not paths or out is None:
        lacking = "PATHS" if not paths else "--out"
        raise ParameterError(f"{lacking} is missing. See: rankwood bin --help.")
    from rankwood.training.bin_files import bin_files

    what = paths[0] if len(paths) == 1 else f"{len(paths)} paths"
    refuse_categories(reading, "binned data in a folder")
    names = (*OF_EVERY_SOURCE, "n_threads")
    options = {name: value for name, value in reading.options.items() if name in names}
    options |= {
        "bins": bins,
        "max_bins": max_bins,
        "sample": sample,
        "seed": seed,
        "sort": False if unsorted else None,
        "overwrite": overwrite,
    }
    with printing.reading(what, reading.quiet) as progress:
        try:
            if dask is not None:
                binned = _bin_on_dask(dask, paths, out, options)
            else:
                binned = bin_files(paths, out, progress=progress, **options)
        except (KeyboardInterrupt, Terminated, RunError):
            printing.notice(f"what is done is kept in {out}; the same command goes on from there.")
            raise
    if not reading.quiet:
        printing.notice(f"{out}: {_size_of(binned)}")


def _bin_on_dask(
    address: str, paths: list[str], out: Path, options: dict[str, Any]
) -> BinnedFolder:
    """What ``bin_files`` gives, made by a worker of a cluster."""
    from rankwood.experiments.workers import dask_client
    from rankwood.training.bin_files import bin_files

    absolute = [path if "://" in path else str(Path(path).absolute()) for path in paths]
    with dask_client(address) as client:
        future = client.submit(bin_files, absolute, out.absolute(), pure=False, **options)
        binned: BinnedFolder = future.result()
    return binned


def _size_of(binned: BinnedFolder) -> str:
    data = binned.data
    queries = "" if data.query_ids is None else f"{counted(data.n_queries, 'query')}, "
    return f"{counted(binned.n_rows, 'document')}, {queries}{counted(binned.n_features, 'feature')}"


@app.command("chess")
@reports_errors
def chess_command(
    target: Annotated[Path, argument("OUT", "LETOR text or a table, by its name.")],
    *,
    opening: Annotated[
        str,
        option(
            "B84, E97, a PGN file, a file with a position (FEN) or moves per line, a FEN, or moves."
        ),
    ] = "B84",
    positions: Annotated[int, option("Number of positions.", min=1)] = 2000,
    engine: Annotated[str, option("A UCI engine, by name or path.")] = "stockfish",
    nodes: Annotated[
        int | None,
        option("Nodes per position: labels that can be repeated. 100,000 by default.", min=1),
    ] = None,
    seconds: Annotated[
        float | None, option("Seconds per position, instead of nodes.", "--time")
    ] = None,
    least_plies: Annotated[int, option("Half-moves played from the opening, at least.", min=0)] = 8,
    most_plies: Annotated[int, option("The same, at most.", min=0)] = 40,
    least_pieces: Annotated[
        int, option("Knights, bishops, rooks and queens of a position, at least.", min=0)
    ] = 7,
    largest_lead: Annotated[
        float, option("Pawns that a side may be ahead, at most, as the engine counts them.", min=0)
    ] = 1.5,
    pawn: Annotated[
        int | None,
        option(
            "Centipawns that are a pawn of the labels; chosen by --relevant if left out.", min=1
        ),
    ] = None,
    relevant: Annotated[
        float, option("The share of moves whose label is above 0, if --pawn is left out.")
    ] = 0.25,
    timeout: Annotated[
        float, option("Seconds until an engine that does not answer is replaced.", min=0.1)
    ] = 60.0,
    seed: Seed = 0,
    quiet: NoProgress = False,
) -> None:
    """Build a move-ordering collection: every legal move of chess positions, labelled by an engine.

    Positions are balanced middle games, reached from an opening by seeded play among good moves. Labels tell how far a
    move is behind the best: 4 within 0.1 pawns, 3 within 0.2, 2 below 0.3, 1 below 0.5, else 0. Engines do not agree on
    what a pawn is worth, so it is chosen such that a quarter of the moves has a label above 0; --pawn 100 takes the
    engine's word. A description with positions, scores and provenance is written beside OUT, ending in .json.

    Whatever interrupts it, the same command goes on where it stopped. Needs the extra chess and an engine.

    Example: rankwood data chess moves.txt.gz --opening B84 --positions 2000 --nodes 100000 --seed 1
    """
    from rankwood.data.chess.building import build_chess
    from rankwood.data.chess.collection import description_path

    with printing.building(target.name, quiet) as progress:
        try:
            built = build_chess(
                target,
                opening=opening,
                positions=positions,
                engine=engine,
                nodes=nodes,
                seconds=seconds,
                seed=seed,
                least_plies=least_plies,
                most_plies=most_plies,
                least_pieces=least_pieces,
                largest_lead=largest_lead,
                pawn=pawn,
                relevant=relevant,
                timeout=timeout,
                progress=progress,
            )
        except (KeyboardInterrupt, Terminated, RunError):
            _tell_what_is_kept(Path(f"{target}.partial"))
            raise
    if not quiet:
        n_moves = sum(len(position.scores) for position in built)
        printing.notice(f"{target}: {counted(len(built), 'position')}, {counted(n_moves, 'move')}")
        printing.notice(f"{description_path(target)}: their description")


@app.command("synth")
@reports_errors
def synth(
    target: Annotated[str, argument("OUT", "Written by its name, like convert's OUT.")],
    *,
    queries: Annotated[int, option("Number of queries.", min=1)] = 100,
    docs: Annotated[int, option("Mean number of documents per query.", min=1)] = 120,
    features: Annotated[int, option("Number of features.", min=1)] = 136,
    missing: Annotated[float, option("Share of missing values.", min=0, max=0.99)] = 0.0,
    missing_by: Annotated[
        str, option("Which are missing: any (chance), or rather the low ones (low).")
    ] = "chance",
    doc_ids: Annotated[bool, switch("--doc-ids", "Give every document an id.")] = False,
    seed: Seed = 0,
    quiet: NoNotices = False,
) -> None:
    """Generate web-search-shaped ranking data.

    Skewed and zero-inflated features, queries of varied length, labels in the proportions of WEB10K.

    Example: rankwood data synth train.txt.gz --queries 1000 --seed 1
    """
    from rankwood.data.reading import write_data
    from rankwood.data.synthetic import make_ranking

    data = make_ranking(
        queries,
        docs,
        features,
        missing=missing,
        missing_by=missing_by,
        doc_ids=doc_ids,
        seed=seed,
    )
    write_data(data, target)
    if target != "-" and not quiet:
        _tell_size(target, data)


@app.command("cache")
@reports_errors
def cache(
    clear: Annotated[bool, switch("--clear", "Remove every entry.")] = False,
) -> None:
    """Show, or clear, the binary copies kept of large text files.

    They are made when a large LETOR file is first read, and make the next read fast. Removing them loses nothing.
    """
    from rankwood.data import cache as store

    entries = store.entries()
    if clear:
        store.clear()
        printing.say(f"{counted(len(entries), 'entry')} removed")
        return
    if not entries:
        printing.say("the cache is empty")
        return
    rows = [(str(entry.source), f"{entry.n_bytes / 2**20:,.1f}") for entry in entries]
    printing.show_table(("file", "MiB"), rows)


_COUNTS = ("folds", "queries", "documents", "features", "labels")


@app.command("list")
@reports_errors
def list_command(
    name: Annotated[
        str | None, argument("NAME", "Of a collection, to show where it is from and its quirks.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """List the public collections that Rankwood knows, with the counts that are checked; with NAME, all about one.

    None comes with Rankwood. Once unpacked, rankwood inspect FOLDER --collection NAME checks one, and an experiment's
    file reads it by [data] collection = "NAME" and path = "FOLDER". A dash is a count that is not checked.

    Example: rankwood data list mslr-web10k
    """
    from rankwood.data.collections import available, known_collection

    shown = list(available().values()) if name is None else [known_collection(name)]
    if as_json:
        printing.show_json([_described(one) for one in shown])
    elif name is None:
        rows = [[one.name, one.title, *_counts(one)] for one in shown]
        printing.show_table(["name", "collection", *_COUNTS], rows, left=2)
    else:
        (one,) = shown
        printing.heading(one.title)
        counts = zip(_COUNTS, _counts(one), strict=True)
        facts = [("about", one.description), ("from", one.source), ("files", one.layout), *counts]
        printing.show_facts([*facts, *([("to know", one.notes)] if one.notes else [])])


def _described(collection: Collection) -> dict[str, Any]:
    """A collection for scripts; null is a count that is not checked."""
    return {
        "name": collection.name,
        "title": collection.title,
        "description": collection.description,
        "source": collection.source,
        "files": collection.layout,
        "folds": collection.n_folds,
        "parts": list(collection.parts),
        **collection.counts(),
        "features": list(collection.features),
        "greatest_label": collection.greatest_label,
        "notes": collection.notes,
    }


def _counts(collection: Collection) -> list[str]:
    """Folds, queries, documents, features and labels, as a table shows them."""
    counts = ["–" if count is None else f"{count:,}" for count in collection.counts().values()]
    widths = " or ".join(map(str, collection.features))
    last = collection.greatest_label
    return [str(collection.n_folds), *counts, widths, "–" if last is None else f"0–{last}"]


def _tell_what_is_kept(partial: Path) -> None:
    if not partial.exists():
        return
    with partial.open("rb") as file:
        n_positions = sum(line.endswith(b"\n") for line in file) - 1
    if n_positions > 0:
        printing.notice(
            f"{counted(n_positions, 'position')} kept in {partial}; the same command goes on from there."
        )


def _tell_size(target: str, data: RankingData) -> None:
    printing.notice(
        f"{target}: {counted(data.n_documents, 'document')}, {counted(data.n_queries, 'query')}, "
        f"{counted(data.n_features, 'feature')}"
    )
