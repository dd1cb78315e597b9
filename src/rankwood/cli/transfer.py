"""``rankwood transfer``: add similar documents of another collection, and see whether that helps or harms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.options import (
    Csv,
    Json,
    Level,
    Outputs,
    Reading,
    Seed,
    data_option,
    file_option,
    known_estimator,
    option,
    read_alike,
    split_outside_brackets,
    with_reading_options,
)
from rankwood.errors import DataError, ParameterError, counted

if TYPE_CHECKING:
    from rankwood.studies.transfer import Selection


_SHARE = 0.2
_SIMILARITY = "Similarity"


@with_reading_options
def command(
    *,
    source: Annotated[list[str], data_option("The collection that documents are taken from.")],
    target: Annotated[list[str], data_option("Training data of the collection to be ranked.")],
    valid: Annotated[list[str], data_option("Validation data of the target.")],
    test: Annotated[
        list[str] | None, data_option("Test data of the target: every line is measured on it too.")
    ] = None,
    share: Annotated[
        list[float] | None,
        option("How much of the source is added, in (0, 1]; 0.2 by default; may be repeated."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        option(
            "Add predictions of a model of the source as columns instead: Q the score, P and C (cumulative) "
            "probabilities of grades, or several such as QP; may be repeated.",
            metavar="KINDS",
        ),
    ] = None,
    model: Annotated[
        str, option("The ranker to train without and with the added documents.")
    ] = "RandomForest",
    parameter: Annotated[
        list[str] | None,
        option(
            "A parameter of the ranker, as in --set n_trees=100; may be repeated.",
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None,
    measure: Annotated[
        list[str] | None,
        option(
            "What is compared; ndcg@10 by default; may be repeated.",
            "--measure",
            "-m",
            metavar="TEXT",
        ),
    ] = None,
    level: Level = 0.05,
    forest: Annotated[
        str | None,
        option(
            "The domain forest, as RandomForest:n_trees=300,max_leaves=50; a RandomForest of 100 trees by default.",
            metavar="NAME:PARAMETERS",
            rich_help_panel=_SIMILARITY,
        ),
    ] = None,
    n_folds: Annotated[
        int,
        option(
            "Folds of the source; each is judged by a forest that has not seen it.",
            rich_help_panel=_SIMILARITY,
        ),
    ] = 5,
    folds_by: Annotated[
        str | None,
        option(
            "Folds of whole queries ('query', the default where there are queries) or of rows ('row').",
            rich_help_panel=_SIMILARITY,
        ),
    ] = None,
    balance: Annotated[
        bool,
        option(
            "Whether both collections weigh the same in the domain forest.",
            rich_help_panel=_SIMILARITY,
        ),
    ] = True,
    query_features: Annotated[
        bool,
        option(
            "Let features that are constant within every query tell the collections apart.",
            "--query-features",
            rich_help_panel=_SIMILARITY,
        ),
    ] = False,
    keep_constant: Annotated[
        bool,
        option(
            "Use features that have one value throughout a collection; by default they count as absent.",
            "--keep-constant",
            rich_help_panel=_SIMILARITY,
        ),
    ] = False,
    source_model: Annotated[
        str | None,
        option(
            "With --columns: the ranker of the source, as OrdinalRanker:n_trees=300; by default a RandomForest, in "
            "an OrdinalRanker for P and C.",
            metavar="NAME:PARAMETERS",
        ),
    ] = None,
    out: Annotated[
        str | None,
        file_option(
            "Where the target with the added documents goes, written by its name as rankwood convert does."
        ),
    ] = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    reading: Reading,
) -> None:
    """Add the documents of another collection that are most like the target's, and measure what that changes.

    Features that both collections have are used: by name in tables, by number in LETOR text. A feature that has one
    value throughout a collection is absent there; those left out are listed with the reason.

    Example: rankwood transfer --source large.txt.gz --target small.txt.gz --valid vali.txt.gz --share 0.1

    Example: rankwood transfer --source large.txt.gz --target small.txt.gz --valid vali.txt.gz --test test.txt.gz
    --share 0.001 --share 0.01 --share 0.1 -m rmse -m err -m ndcg@10

    Example: rankwood transfer --source large.txt.gz --target small.txt.gz --valid vali.txt.gz --columns Q --columns QPC
    """
    outputs = Outputs(csv=csv, as_json=json)
    shares = list(dict.fromkeys(share or ([] if columns else [_SHARE])))
    measures = measure or ["ndcg@10"]
    is_one_line = len(shares) == 1 and not columns and len(measures) == 1 and not test
    _refuse_contradictions(out, is_one_line, columns, source_model)
    threads = reading.options["n_threads"]
    options: dict[str, Any] = {
        "model": _ranker(model, parameter or [], seed, threads),
        "forest": None if forest is None else _named_ranker(forest, seed, threads),
        "level": level,
        "n_folds": n_folds,
        "folds_by": folds_by,
        "balance": balance,
        "query_features": query_features,
        "keep_constant": keep_constant,
        "seed": seed,
        "n_threads": threads,
    }
    teacher = None if source_model is None else _named_ranker(source_model, seed, threads)
    parts = _read(reading, source=source, target=target, valid=valid, test=test)
    if is_one_line:
        _add_one_share(parts, shares[0], options | {"measure": measures[0]}, out, outputs, reading)
        return
    from rankwood.studies.transfer_table import transfer_table

    with printing.training("fits", "", reading.quiet) as progress:
        result = transfer_table(
            **parts,
            shares=shares,
            columns=columns or (),
            measures=measures,
            source_model=teacher,
            progress=progress,
            **options,
        )
    outputs.show(result, csv=result.write_csv)


def _add_one_share(
    parts: Mapping[str, Any],
    share: float,
    options: Mapping[str, Any],
    out: str | None,
    outputs: Outputs,
    reading: Reading,
) -> None:
    """One share and one measure: the data may be written, and the report says more than a line of a table."""
    from rankwood.studies.transfer import select_similar

    selection = select_similar(**parts, share=share, **options)
    if out is not None:
        from rankwood.data.reading import write_data

        write_data(selection.data, out)
    if selection.report is not None:
        outputs.write(csv=selection.report.write_csv)
    if outputs.as_json:
        printing.show_json(_record(selection))
    else:
        printing.say(str(selection))
    if out is not None and not reading.quiet:
        printing.notice(
            f"{out}: {counted(selection.data.n_documents, 'document')}, "
            f"{counted(selection.data.n_queries, 'query')}"
        )


def _refuse_contradictions(
    out: str | None, is_one_line: bool, columns: list[str] | None, source_model: str | None
) -> None:
    if out is not None and not is_one_line:
        raise ParameterError(
            "--out writes the data of one share: give one --share and one --measure, and no --columns or --test."
        )
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise DataError(
            f"the folder of {out} does not exist: make it first, or choose another --out."
        )
    if source_model is not None and not columns:
        raise ParameterError("--source-model makes columns: say which with --columns.")


def _named_ranker(text: str, seed: int, n_threads: int | None) -> Any:
    """The estimator of ``NAME:parameter=value,…``."""
    kind, _, given = text.partition(":")
    return _ranker(kind, split_outside_brackets(given), seed, n_threads)


def _ranker(kind: str, texts: list[str], seed: int, n_threads: int | None) -> Any:
    """The estimator with its parameters read from texts."""
    from rankwood.cli import parameters
    from rankwood.rankers.save import estimators

    known_estimator(kind)
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ParameterError(f"--set takes name=value, as in --set n_trees=100; got '{text}'.")
        given[name.strip().replace("-", "_")] = value.strip()
    own = estimators()[kind]().get_params(deep=False)
    if "seed" in own or "base" in own:  # a ranker built on another one hands the seed on
        given.setdefault("seed", seed)
    values = parameters.read(kind, given)
    return estimators()[kind](**values | ({"n_threads": n_threads} if "n_threads" in own else {}))


def _read(reading: Reading, **paths: Sequence[str] | None) -> dict[str, Any]:
    """Source, target, validation and perhaps test data.

    LETOR text has numbers for names; the last of the target's may be left out of its other parts.
    """
    own = {name: files for name, files in paths.items() if files and name != "source"}
    parts = dict(zip(own, read_alike(list(own.values()), reading), strict=True))
    parts["source"] = reading(paths["source"] or ())
    if any(part.feature_names is not None for part in parts.values()):
        return parts
    return {
        name: dataclasses.replace(part, feature_names=part.names) for name, part in parts.items()
    }


def _record(selection: Selection) -> dict[str, Any]:
    report = selection.report
    return {
        "added": int(selection.rows.size),
        "source": int(selection.similarity.size),
        "target": int(selection.data.n_documents - selection.rows.size),
        "features": len(selection.features),
        "auc": selection.auc,
        "report": None if report is None else report.to_dict(),
        "dropped": dict(selection.dropped),
    }
