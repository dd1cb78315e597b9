"""``rankwood front``: the best models of a search by their number of trees."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.options import Json, Plot, Reading, with_reading_options
from rankwood.errors import ParameterError
from rankwood.evaluation.stacked_bars import PLOTS

if TYPE_CHECKING:
    from rankwood.evaluation.fronts import Front


@with_reading_options
def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A BoostingTree, as rankwood train --model BoostingTree writes it.",
        ),
    ],
    *,
    data: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Labelled data to measure the models on as well."),
    ] = None,
    every_length: Annotated[
        bool,
        typer.Option(
            "--every-length",
            help="A line for every number of trees, not only where a longer model is better.",
        ),
    ] = False,
    plot: Plot = None,
    max_trees: Annotated[
        int | None,
        typer.Option(min=0, help="With --out: the most trees of the model that is written."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write the best model of at most --max-trees trees."
        ),
    ] = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show what each further tree buys: the best models of a search, by their number of trees.

    Models were chosen in training, on the validation data where there were any; --data is only measured on.

    Example: rankwood front search.rankwood --data test.txt.gz --plot front.svg

    Example: rankwood front search.rankwood --max-trees 20 --out small.rankwood
    """
    from rankwood.ensembles.loading import load, n_features_of, save
    from rankwood.evaluation.fronts import size_quality_front

    if plot is not None and plot.suffix.lower() not in PLOTS:
        raise ParameterError(f"--plot must end in {', '.join(PLOTS)}, got '{plot}'.")
    if max_trees is not None and out is None:
        raise ParameterError("--max-trees says which model --out writes: pass --out too.")
    loaded = load(model)
    further = None if data is None else reading(data, n_features=n_features_of(loaded))
    front = size_quality_front(loaded, further, every_length=every_length)
    if plot is not None:
        front.plot(plot)
    if out is not None:
        family = getattr(loaded, "family_", loaded)
        save(family.model(family.best(max_trees)), out)
    _show(front, as_json)


def _show(front: Front, as_json: bool) -> None:
    if as_json:
        printing.show_json({"measure": front.measure, "points": list(front.rows())})
        return
    printing.say(front.measure)
    rows = [
        [
            f"{row['trees']:,.0f}",
            *(f"{value:.4f}" for name, value in row.items() if name != "trees"),
        ]
        for row in front.rows()
    ]
    printing.show_table(list(front.columns), rows, left=0)
