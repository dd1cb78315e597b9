"""``rankwood import``: trees that another system has trained, as a model file of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.export import names_in
from rankwood.cli.score import refuse_to_overwrite


def command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Another system's model.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="The model file to write.")],
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="lightgbm (text), xgboost (JSON of get_dump or save_model), ranklib, solr or json.",
        ),
    ],
    feature_names: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="All features, one name per line, in the order of the data's columns.",
        ),
    ] = None,
    n_features: Annotated[
        int | None,
        typer.Option(min=1, help="Features of the data, where FILE names only those it uses."),
    ] = None,
    base: Annotated[
        float | None,
        typer.Option(help="Added to every score; a dump of XGBoost leaves its base score out."),
    ] = None,
) -> None:
    """Read trees of LightGBM, XGBoost, RankLib or Solr into a model file: to evaluate, compare, serve, convert them.

    Example: rankwood import lightgbm.txt --from lightgbm model.rankwood
    """
    from rankwood.exports.importing import import_model, save_imported

    refuse_to_overwrite(out, file)
    names = None if feature_names is None else names_in(feature_names)
    forest = import_model(file, source, feature_names=names, n_features=n_features, base=base)
    save_imported(forest, file, source, out)
    printing.show_facts(
        [
            ("model", out),
            ("imported from", f"{file} ({source})"),
            ("trees", f"{forest.n_trees:,} {'averaged' if forest.average else 'summed'}"),
            ("leaves", f"{forest.n_leaves:,}"),
            ("features", f"{forest.n_features:,}"),
        ]
    )
