"""``rankwood convert`` and ``rankwood data``: convert data, make data, and look after the cache of parsed files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.options import (
    DATA_OR_STDIN,
    NoNotices,
    NoProgress,
    Reading,
    Seed,
    argument,
    option,
    switch,
    with_reading_options,
)
from rankwood.cli.printing import reports_errors
from rankwood.errors import RunError

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData

app = typer.Typer(help="Make data, and look after the cache of parsed files.", no_args_is_help=True)


@with_reading_options
def convert_command(
    source: Annotated[str, argument("IN", DATA_OR_STDIN)],
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
        from rankwood.data.normalise import normalise_per_query

        data = normalise_per_query(data, method=normalise)
    write_data(data, target, skip_zeros=skip_zeros)
    if target != "-" and not reading.quiet:
        _tell_size(target, data)


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
        except (KeyboardInterrupt, RunError):
            _tell_what_is_kept(Path(f"{target}.partial"))
            raise
    if not quiet:
        n_moves = sum(len(position.scores) for position in built)
        printing.notice(f"{target}: {len(built):,} positions, {n_moves:,} moves")
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
        printing.say(f"{len(entries):,} entries removed")
        return
    if not entries:
        printing.say("the cache is empty")
        return
    rows = [(str(entry.source), f"{entry.n_bytes / 2**20:,.1f}") for entry in entries]
    printing.show_table(("file", "MiB"), rows)


def _tell_what_is_kept(partial: Path) -> None:
    if not partial.exists():
        return
    with partial.open("rb") as file:
        n_positions = sum(line.endswith(b"\n") for line in file) - 1
    if n_positions > 0:
        printing.notice(
            f"{n_positions:,} positions are kept in {partial}; the same command goes on from there."
        )


def _tell_size(target: str, data: RankingData) -> None:
    printing.notice(
        f"{target}: {data.n_documents:,} documents, {data.n_queries:,} queries, {data.n_features:,} features"
    )
