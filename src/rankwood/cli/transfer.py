"""``rankwood transfer``: add similar documents of another collection, and see whether that helps or harms."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.options import (
    Json,
    Reading,
    Seed,
    file_option,
    known_estimator,
    option,
    with_reading_options,
)
from rankwood.errors import DataError, ParameterError

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.studies.transfer import Selection


@with_reading_options
def command(
    *,
    source: Annotated[str, file_option("The collection that documents are taken from.")],
    target: Annotated[str, file_option("Training data of the collection to be ranked.")],
    valid: Annotated[str, file_option("Validation data of the target.")],
    share: Annotated[float, option("How much of the source is added, in (0, 1].")] = 0.2,
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
    measure: Annotated[str, option("What is compared.")] = "ndcg@10",
    out: Annotated[
        str | None,
        file_option(
            "Where the target with the added documents goes, written by its name as rankwood convert does."
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    reading: Reading,
) -> None:
    """Add the documents of another collection that are most like the target's, and measure what that changes.

    Features that both collections have are used: by name in tables, by number in LETOR text.

    Example: rankwood transfer --source large.txt.gz --target small.txt.gz --valid vali.txt.gz --share 0.1
    """
    from rankwood.studies.transfer import select_similar

    if out is not None and not Path(out).absolute().parent.is_dir():
        raise DataError(
            f"the folder of {out} does not exist: make it first, or choose another --out."
        )
    ranker = _ranker(model, parameter or [], seed, reading.options["n_threads"])
    parts = _named([reading(path) for path in (source, target, valid)], reading.options["absent"])
    selection = select_similar(
        parts[0],
        parts[1],
        share,
        valid=parts[2],
        model=ranker,
        measure=measure,
        seed=seed,
        n_threads=reading.options["n_threads"],
    )
    if out is not None:
        from rankwood.data.reading import write_data

        write_data(selection.data, out)
    if json:
        printing.show_json(_record(selection))
    else:
        printing.say(str(selection))
    if out is not None and not reading.quiet:
        printing.notice(
            f"{out}: {selection.data.n_documents:,} documents, {selection.data.n_queries:,} queries"
        )


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


def _named(parts: list[RankingData], absent: str) -> list[RankingData]:
    """LETOR text has numbers for names; the last of the target's may be left out of its validation data."""
    from rankwood.data.folds import same_width

    if any(part.feature_names is not None for part in parts):
        return parts
    parts = [parts[0], *same_width(parts[1:], absent)]
    return [dataclasses.replace(part, feature_names=part.names) for part in parts]


def _record(selection: Selection) -> dict[str, Any]:
    report = selection.report
    return {
        "added": int(selection.rows.size),
        "source": int(selection.similarity.size),
        "target": int(selection.data.n_documents - selection.rows.size),
        "features": len(selection.features),
        "auc": selection.auc,
        "report": None if report is None else report.to_dict(),
    }
