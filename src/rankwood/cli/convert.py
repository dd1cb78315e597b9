"""``rankwood convert``: LETOR text to Parquet, CSV or Arrow and back."""

from __future__ import annotations

from typing import Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.options import Reading, with_reading_options


@with_reading_options
def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN", help="LETOR text, Parquet, CSV or Arrow; - is standard input."
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="OUT",
            help="Written by its name: .parquet, .csv, .tsv, .arrow, .feather, else LETOR text; "
            ".gz, .zst and .bz2 compress text; - is standard output.",
        ),
    ],
    *,
    normalise: Annotated[
        str | None,
        typer.Option(
            help="Scale every feature within its query: minmax (to 0..1, as LETOR does) or zscore."
        ),
    ] = None,
    skip_zeros: Annotated[
        bool, typer.Option("--skip-zeros", help="LETOR text: do not write zero values.")
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
        printing.notice(
            f"{target}: {data.n_documents:,} documents, {data.n_queries:,} queries, {data.n_features:,} features"
        )
