"""``rankwood export`` and ``rankwood import``: models of trees, written for other systems and read from them.

An export prints a certificate: how far the file scores as the model does.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from rankwood.cli import printing
from rankwood.cli.options import (
    Json,
    ModelFile,
    Reading,
    argument,
    file_option,
    option,
    switch,
    with_reading_options,
)
from rankwood.cli.score import refuse_to_overwrite
from rankwood.errors import DataError


@with_reading_options
def export_command(
    model: ModelFile,
    out: Annotated[str, argument("OUT", "The file to write.")],
    *,
    to: Annotated[
        str,
        option(
            "ranklib, xgboost-json, solr, lightgbm, lightgbm-json, onnx, json or c.",
            "--to",
            metavar="FORMAT",
        ),
    ],
    verify: Annotated[
        str | None,
        option("Score these documents from the file by its reader's exact rules.", metavar="DATA"),
    ] = None,
    feature_names: Annotated[
        Path | None, file_option("Names to write, one per line; by default the model's own.")
    ] = None,
    model_name: Annotated[
        str, option("solr, onnx: what the model is called there.", metavar="NAME")
    ] = "rankwood",
    objective: Annotated[
        str, option("xgboost-json: rank:ndcg, rank:pairwise, reg:linear; none for Vespa.")
    ] = "rank:ndcg",
    assume_no_missing: Annotated[
        bool,
        switch(
            "--assume-no-missing",
            "ranklib takes a missing value for 0: say that no document lacks a value.",
        ),
    ] = False,
    nearest_thresholds: Annotated[
        bool,
        switch(
            "--nearest-thresholds",
            "solr: where it cannot have a threshold to the bit, write the nearest instead of refusing.",
        ),
    ] = False,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Write a model of trees for another system, and print a certificate that the file scores as the model does.

    Every split is compared; with --verify, documents are scored from the file by the exact rules of its reader. What a
    format cannot express is refused with the reason.

    Example: rankwood export model.rankwood --to ranklib model.xml --verify test.txt.gz
    """
    from rankwood.exports.exporting import export
    from rankwood.rankers.save import load, n_features_of

    refuse_to_overwrite(out, model, *([] if verify is None else [verify]))
    loaded = load(model)
    data = None if verify is None else reading(verify, n_features=n_features_of(loaded))
    certificate = export(
        loaded,
        out,
        to,
        verify=data,
        feature_names=_names_in(feature_names),
        assume_no_missing=assume_no_missing,
        nearest_thresholds=nearest_thresholds,
        model_name=model_name,
        objective=objective,
    )
    if as_json:
        printing.show_json(dataclasses.asdict(certificate))
    else:
        printing.show_facts(certificate.facts())


def import_command(
    file: Annotated[str, argument("FILE", "Another system's model.")],
    out: Annotated[str, argument("OUT", "The model file to write.")],
    *,
    source: Annotated[
        str,
        option(
            "lightgbm (text), xgboost (JSON of get_dump or save_model), ranklib, solr or json.",
            "--from",
            metavar="FORMAT",
        ),
    ],
    feature_names: Annotated[
        Path | None,
        file_option("All features, one name per line, in the order of the data's columns."),
    ] = None,
    n_features: Annotated[
        int | None, option("Features of the data, where FILE names only those it uses.", min=1)
    ] = None,
    base: Annotated[
        float | None,
        option("Added to every score; a dump of XGBoost leaves its base score out."),
    ] = None,
) -> None:
    """Read trees of LightGBM, XGBoost, RankLib or Solr into a model file: to evaluate, compare, serve, convert them.

    Example: rankwood import lightgbm.txt --from lightgbm model.rankwood
    """
    from rankwood.exports.exporting import import_model, save_imported

    refuse_to_overwrite(out, file)
    names = _names_in(feature_names)
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


def _names_in(path: Path | None) -> list[str] | None:
    """The names in a file, one per line; None without a file."""
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise DataError(f"{path} cannot be read: {reason}.") from None
    return text.splitlines()
