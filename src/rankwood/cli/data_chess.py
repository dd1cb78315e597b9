"""``rankwood data chess``: positions whose legal moves an engine has judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.options import Seed
from rankwood.errors import RunError


def command(
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="LETOR text or a table, by its name.")
    ],
    *,
    opening: Annotated[
        str,
        typer.Option(
            help="B84, E97, a PGN file, a file with a position (FEN) or moves per line, a FEN, or moves."
        ),
    ] = "B84",
    positions: Annotated[int, typer.Option(min=1, help="Number of positions.")] = 2000,
    engine: Annotated[str, typer.Option(help="A UCI engine, by name or path.")] = "stockfish",
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Nodes per position: labels that can be repeated. 100,000 by default."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--time", help="Seconds per position, instead of nodes."),
    ] = None,
    least_plies: Annotated[
        int, typer.Option(min=0, help="Half-moves played from the opening, at least.")
    ] = 4,
    most_plies: Annotated[int, typer.Option(min=0, help="The same, at most.")] = 24,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds until an engine that does not answer is replaced."),
    ] = 60.0,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notices.")] = False,
) -> None:
    """Build a move-ordering collection: every legal move of chess positions, labelled by an engine.

    Positions are reached from an opening by seeded play among moves that are not bad. Labels tell how far a move is
    behind the best: 4 within 0.1 pawns, 3 within 0.2, 2 below 0.3, 1 below 0.5, else 0. A description with positions,
    scores and provenance is written beside OUT, ending in .json.

    Whatever interrupts it, the same command goes on where it stopped. Needs the extra chess and an engine.

    Example: rankwood data chess moves.txt.gz --opening B84 --positions 2000 --nodes 100000 --seed 1
    """
    from rankwood.data.chess_building import build_chess
    from rankwood.data.chess_collection import description_path

    with printing.building(target.name, quiet) as progress:
        try:
            found = build_chess(
                target,
                opening=opening,
                positions=positions,
                engine=engine,
                nodes=nodes,
                seconds=seconds,
                seed=seed,
                least_plies=least_plies,
                most_plies=most_plies,
                timeout=timeout,
                progress=progress,
            )
        except (KeyboardInterrupt, RunError):
            _tell_what_is_kept(Path(f"{target}.partial"))
            raise
    if not quiet:
        n_moves = sum(len(position.scores) for position in found)
        printing.notice(f"{target}: {len(found):,} positions, {n_moves:,} moves")
        printing.notice(f"{description_path(target)}: their description")


def _tell_what_is_kept(partial: Path) -> None:
    if not partial.exists():
        return
    with partial.open("rb") as file:
        n_positions = sum(line.endswith(b"\n") for line in file) - 1
    if n_positions > 0:
        printing.notice(
            f"{n_positions:,} positions are kept in {partial}; the same command goes on from there."
        )
