"""``rankwood data``: make data, and look after the cache of parsed files."""

from __future__ import annotations

from typing import Annotated

import typer

from rankwood.cli import data_chess, printing
from rankwood.cli.options import Seed
from rankwood.cli.reporting import reports_errors

app = typer.Typer(help="Make data, and look after the cache of parsed files.", no_args_is_help=True)
app.command("chess")(reports_errors(data_chess.command))


@app.command("synth")
@reports_errors
def synth(
    target: Annotated[
        str, typer.Argument(metavar="OUT", help="Written by its name, like convert's OUT.")
    ],
    *,
    queries: Annotated[int, typer.Option(min=1, help="Number of queries.")] = 100,
    docs: Annotated[int, typer.Option(min=1, help="Mean number of documents per query.")] = 120,
    features: Annotated[int, typer.Option(min=1, help="Number of features.")] = 136,
    missing: Annotated[float, typer.Option(min=0, max=0.99, help="Share of missing values.")] = 0.0,
    missing_by: Annotated[
        str, typer.Option(help="Which are missing: any (chance), or rather the low ones (low).")
    ] = "chance",
    doc_ids: Annotated[bool, typer.Option("--doc-ids", help="Give every document an id.")] = False,
    seed: Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notices.")] = False,
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
        printing.notice(
            f"{target}: {data.n_documents:,} documents, {data.n_queries:,} queries, {data.n_features:,} features"
        )


@app.command("cache")
@reports_errors
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every entry.")] = False,
) -> None:
    """Show, or clear, the binary copies kept of large text files.

    They are made when a large LETOR file is first read, and make the next read fast. Removing them loses nothing.
    """
    from rankwood.data import store

    found = store.entries()
    if clear:
        store.clear()
        printing.say(f"{len(found):,} entries removed")
        return
    if not found:
        printing.say("the cache is empty")
        return
    rows = [(str(entry.source), f"{entry.n_bytes / 2**20:,.1f}") for entry in found]
    printing.show_table(("file", "MiB"), rows)
