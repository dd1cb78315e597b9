"""``rankwood cost-curve``: what each further tree of a model costs, and what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.fits import refuse_other_files
from rankwood.cli.options import Csv, Json, Plot, Reading, with_reading_options
from rankwood.evaluation.stacked_bars import PLOTS

if TYPE_CHECKING:
    from rankwood.evaluation.curves import QualityCostCurve


@with_reading_options
def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file, as rankwood train writes it.")
    ],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="LETOR text, Parquet, CSV or Arrow, with labels.")
    ],
    *,
    costs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A feature (name or number) and its cost per line; without it every feature costs 1.",
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option("--measure", "-m", help="Such as ndcg@10 or p@5.")
    ] = "ndcg@10",
    early_exit: Annotated[
        str,
        typer.Option(
            metavar="EXITS",
            help="Where the documents with the lowest scores leave, as every=100,drop=0.1,scope=query; none for "
            "a curve without exits.",
        ),
    ] = "every=100,drop=0.1",
    every: Annotated[
        int | None,
        typer.Option(min=1, help="Trees from one line to the next; about 20 lines by default."),
    ] = None,
    path_costs: Annotated[
        bool,
        typer.Option(
            "--path-costs",
            help="Count the features a document meets on its own way, not all features of the trees it passes.",
        ),
    ] = False,
    csv: Csv = None,
    plot: Plot = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show what a document costs and what the ranking is worth, by number of trees, with and without early exits.

    A document costs the summed cost of the features it needs, plus 1 per tree.

    Example: rankwood cost-curve rf.rankwood test.txt.gz --costs costs.tsv --measure p@5 --plot curve.png
    """
    from rankwood.ensembles.loading import load, n_features_of
    from rankwood.evaluation.curves import quality_cost_curve
    from rankwood.models.early_exit import EarlyExit

    refuse_other_files("--csv", csv, (".csv",))
    refuse_other_files("--plot", plot, PLOTS)
    exits = None if early_exit == "none" else EarlyExit.parse(early_exit)
    loaded = load(model)
    curve = quality_cost_curve(
        loaded,
        reading(data, n_features=n_features_of(loaded)),
        measure,
        costs=costs,
        exits=exits,
        every=every,
        cost="path" if path_costs else "all",
        n_threads=reading.options["n_threads"],
    )
    if csv is not None:
        curve.write_csv(csv)
    if plot is not None:
        curve.plot(plot)
    _show(curve, as_json)


def _show(curve: QualityCostCurve, as_json: bool) -> None:
    rows = list(curve.rows())
    if as_json:
        printing.show_json({"measure": curve.measure, "points": rows})
        return
    names = ["trees", *(name.replace("value", curve.measure) for name in list(rows[0])[1:])]
    printing.show_table(
        names,
        [
            [
                f"{row['trees']:,.0f}",
                *(
                    f"{value:,.1f}" if name.startswith("cost") else f"{value:.4f}"
                    for name, value in list(row.items())[1:]
                ),
            ]
            for row in rows
        ],
        left=0,
    )
