"""``rankwood score``: the scores and ranks a model gives documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.options import (
    DATA_OR_STDIN,
    ModelFile,
    Reading,
    argument,
    option,
    switch,
    with_reading_options,
)
from rankwood.errors import DataError, ParameterError

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.data.scores import ScoredPart
    from rankwood.dtypes import Floats

_PART_ROWS = 200_000
_PART_VALUES = 1 << 26  # 256 MiB of features: a part of wide data has fewer rows


@with_reading_options
def command(
    model: ModelFile,
    data: Annotated[str, argument("DATA", DATA_OR_STDIN)],
    *,
    out: Annotated[
        str, option("Where to write; - is standard output.", "--out", "-o", metavar="OUT")
    ] = "-",
    form: Annotated[
        str | None,
        option(
            "tsv (document, query, score, rank), parquet (the same), trec (a run file) or numbers (one "
            "score per line); by default from OUT's name: .parquet, .trec and .run, .txt for numbers, else tsv.",
            "--format",
        ),
    ] = None,
    run_tag: Annotated[
        str, option("TREC run: the name of the system.", metavar="NAME")
    ] = "rankwood",
    whole: Annotated[
        bool,
        switch(
            "--whole",
            "Read DATA as a whole instead of part by part: for queries whose rows are not together.",
        ),
    ] = False,
    early_exit: Annotated[
        str | None,
        option(
            "Let the documents with the lowest scores leave early, as every=100,drop=0.1,scope=query: faster.",
            metavar="EXITS",
        ),
    ] = None,
    reading: Reading,
) -> None:
    """Score documents with a model and rank them within their queries.

    DATA is read part by part, so it may be larger than memory; it needs no labels. Rank 1 is the best; documents
    with equal scores keep DATA's order. OUT appears when it is complete.

    Example: rankwood score model.rankwood test.parquet --out scores.parquet

    Example: zcat test.txt.gz | rankwood score model.rankwood - --format numbers > scores.txt
    """
    from rankwood.data.scores import format_of, open_scores
    from rankwood.rankers.save import load, n_features_of

    written_as = format_of(out, form)
    refuse_to_overwrite(out, model, data)
    loaded = load(model)
    predict = _predictor(loaded, early_exit, whole, reading.options["n_threads"])
    parts = _parts(data, n_features_of(loaded), whole, reading)
    n_threads = reading.options["n_threads"]
    n_documents = n_queries = 0
    with open_scores(out, written_as, run_tag) as write:
        for scored in _score(parts, predict, data, n_threads):
            if not n_documents and written_as == "trec" and scored.data.doc_ids is None:
                _tell_of_row_numbers(data, reading.quiet)
            write(scored)
            n_documents += scored.data.n_documents
            n_queries += 0 if scored.ranks is None else scored.data.n_queries
    if out != "-" and not reading.quiet:
        queries = f" of {n_queries:,} queries" if n_queries else ""
        printing.notice(f"{out}: {n_documents:,} documents{queries}")


def refuse_to_overwrite(out: str, *inputs: str) -> None:
    """Raise if OUT is one of the files that are read."""
    for path in inputs:
        if os.path.isfile(out) and os.path.exists(path) and os.path.samefile(out, path):
            raise ParameterError(f"OUT is {path}, which is read. Write to another file.")


def _predictor(
    model: Any, early_exit: str | None, whole: bool, n_threads: int | None
) -> Callable[[RankingData], Floats]:
    """The function that scores data, on ``n_threads`` threads."""
    from rankwood.models.format import kind_of

    if early_exit is not None:
        from rankwood.models.early_exit import EarlyExit

        exits = EarlyExit.parse(early_exit)
        if exits.scope == "all" and not whole:
            raise ParameterError(
                "scope=all looks at all documents together, so they must be read together: add --whole."
            )
        return lambda data: exits.score(model, data, n_threads=n_threads).scores
    if kind_of(model) is not None:
        return lambda data: model.predict(data, n_threads=n_threads)
    model.set_params(n_threads=n_threads)
    predict: Callable[[RankingData], Floats] = model.predict
    return predict


def _parts(path: str, n_features: int, whole: bool, reading: Reading) -> Iterator[RankingData]:
    """The data to be scored, without labels, as a whole or in parts."""
    changes = reading.without_labels(n_features)
    if whole:
        yield reading(path, **changes)
    else:
        n_rows = max(1, min(_PART_ROWS, _PART_VALUES // n_features))
        yield from reading.parts(path, n_rows, **changes)


def _score(
    parts: Iterator[RankingData],
    predict: Callable[[RankingData], Floats],
    name: str,
    n_threads: int | None,
) -> Iterator[ScoredPart]:
    from rankwood.data.scores import ScoredPart
    from rankwood.measures.ranking import rank_rows

    first_row = 1
    for part in parts:
        try:
            scores = predict(part)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        if part.query_ids is None:
            yield ScoredPart(part, first_row, scores)
        else:
            yield ScoredPart(part, first_row, scores, *rank_rows(scores, part, n_threads))
        first_row += part.n_documents


def _tell_of_row_numbers(path: str, quiet: bool) -> None:
    if not quiet:
        printing.notice(
            f"{path} has no document ids: the numbers of its rows, counted from 1, stand for them"
        )
