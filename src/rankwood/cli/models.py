"""Models in use: ``rankwood score``, ``rankwood serve``, ``rankwood export`` and ``rankwood import``.

An export prints a certificate: how far the file scores as the model does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import (
    Dask,
    DataFiles,
    Json,
    ModelFile,
    Reading,
    argument,
    data_option,
    distributed_data,
    file_option,
    names_of,
    option,
    switch,
    with_reading_options,
)
from rankwood.errors import DataError, MissingExtra, ParameterError, counted

if TYPE_CHECKING:
    import socket

    from rankwood.data.dataset import RankingData
    from rankwood.data.scores import ScoredPart
    from rankwood.dtypes import Floats
    from rankwood.models.forest import Forest
    from rankwood.serve.store import ModelStore

_PART_ROWS = 200_000
_PART_VALUES = 1 << 26  # 256 MiB of features: a part of wide data has fewer rows
_TOKEN_VARIABLE = "RANKWOOD_TOKEN"
_LOG_FORMATS = ("text", "json")


@with_reading_options
def score_command(
    model: ModelFile,
    data: DataFiles,
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
    dask: Dask = None,
    device: Annotated[
        str,
        option(
            "What walks the documents down the trees: cpu, or cuda for an NVIDIA GPU (cuda:1 for the second one). "
            "The scores are the same."
        ),
    ] = "cpu",
    reading: Reading,
) -> None:
    """Score documents with a model and rank them within their queries.

    DATA is read part by part, so it may be larger than memory; it needs no labels. Rank 1 is the best; documents
    with equal scores keep DATA's order. OUT appears when it is complete.

    Example: rankwood score model.rankwood test.parquet --out scores.parquet

    With --dask, workers read DATA under this name and score it; documents are then named by the numbers of their rows.

    Example: zcat test.txt.gz | rankwood score model.rankwood - --format numbers > scores.txt
    """
    from rankwood.data.scores import format_of, open_scores
    from rankwood.rankers.base import refuse_device
    from rankwood.rankers.save import load

    written_as = format_of(out, form)
    refuse_to_overwrite(out, model, *data)
    loaded = load(model)
    n_threads = reading.options["n_threads"]
    for name, value in (("dask", dask), ("device", device if device != "cpu" else None)):
        if early_exit is not None and value is not None:
            raise ParameterError(f"--early-exit is not for --{name}: leave one of them out.")
    if dask is not None:
        refuse_device(device)
        scored_parts = _score_on_dask(dask, loaded, data, reading)
    else:
        predict = _predictor(loaded, early_exit, whole, n_threads, device)
        parts = _parts(data, loaded, whole, reading)
        scored_parts = _score(parts, predict, names_of(data), n_threads)
    n_documents = n_queries = 0
    with open_scores(out, written_as, run_tag) as write:
        for scored in scored_parts:
            if not n_documents and written_as == "trec" and scored.data.doc_ids is None:
                _tell_of_row_numbers(names_of(data), reading.quiet)
            write(scored)
            n_documents += scored.data.n_documents
            n_queries += 0 if scored.ranks is None else scored.data.n_queries
    if out != "-" and not reading.quiet:
        queries = f" of {counted(n_queries, 'query')}" if n_queries else ""
        printing.notice(f"{out}: {counted(n_documents, 'document')}{queries}")


def refuse_to_overwrite(out: str, *inputs: str) -> None:
    """Raise if OUT is one of the files that are read."""
    for path in inputs:
        if os.path.isfile(out) and os.path.exists(path) and os.path.samefile(out, path):
            raise ParameterError(f"OUT is {path}, which is read. Write to another file.")


def _predictor(
    model: Any, early_exit: str | None, whole: bool, n_threads: int | None, device: str
) -> Callable[[RankingData], Floats]:
    """The function that scores data, on ``n_threads`` threads or a GPU; an error where that cannot be."""
    from rankwood.engines.engine import scoring_on
    from rankwood.models.format import kind_of
    from rankwood.rankers.base import learned_model

    if early_exit is not None:
        from rankwood.models.early_exit import EarlyExit

        exits = EarlyExit.parse(early_exit)
        if exits.scope == "all" and not whole:
            raise ParameterError(
                "scope=all looks at all documents together, so they must be read together: add --whole."
            )
        return lambda data: exits.score(model, data, n_threads=n_threads).scores
    is_bare = kind_of(model) is not None
    if not is_bare:
        model.set_params(n_threads=n_threads)
    scoring_on(device, model if is_bare else learned_model(model))

    def predict(data: RankingData) -> Floats:
        with scoring_on(device, model) if is_bare else contextlib.nullcontext():
            given = {"n_threads": n_threads} if is_bare else {"device": device}
            scores: Floats = model.predict(data, **given)
        return scores

    return predict


def _parts(paths: list[str], model: Any, whole: bool, reading: Reading) -> Iterator[RankingData]:
    """The data to be scored, without labels, as a whole or in parts."""
    changes = reading.without_labels(model)
    if whole:
        yield reading(paths, **changes)
    else:
        n_rows = max(1, min(_PART_ROWS, _PART_VALUES // changes["model"].n_features))
        yield from reading.parts(paths, n_rows, **changes)


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


def _score_on_dask(
    address: str, model: Any, paths: list[str], reading: Reading
) -> Iterator[ScoredPart]:
    """All documents as one part, scored by the workers of a cluster."""
    from rankwood.data.dataset import RankingData
    from rankwood.data.scores import ScoredPart
    from rankwood.experiments.workers import dask_client
    from rankwood.measures.ranking import rank_rows
    from rankwood.models.format import kind_of

    with dask_client(address) as client:
        changes = reading.without_labels(model)
        rows = distributed_data(client, paths, reading, max_bins=2, **changes)
        lazy = rows.predict(model) if kind_of(model) is not None else model.predict(rows)
        scores = lazy.compute()
    judgments = rows.data.judgments
    if judgments.query_ids is None:
        yield ScoredPart(rows.data, 1, scores)
        return
    named = dataclasses.replace(judgments, query_ids=judgments.queries[judgments.query_of_row])
    data = RankingData.from_judgments(rows.data.features, named)
    yield ScoredPart(data, 1, scores, *rank_rows(scores, data, reading.options["n_threads"]))


def _tell_of_row_numbers(path: str, quiet: bool) -> None:
    if not quiet:
        printing.notice(
            f"{path} has no document ids: the numbers of its rows, counted from 1, stand for them"
        )


@with_reading_options
def export_command(
    model: ModelFile,
    out: Annotated[str, argument("OUT", "The file to write.")],
    *,
    to: Annotated[
        str,
        option(
            "ranklib, xgboost-dump (search engines), xgboost-model (XGBoost itself), solr, lightgbm, lightgbm-json, "
            "onnx, json or c.",
            "--to",
            metavar="FORMAT",
        ),
    ],
    verify: Annotated[
        list[str] | None,
        data_option("Score these documents from the file by its reader's exact rules."),
    ] = None,
    feature_names: Annotated[
        Path | None, file_option("Names to write, one per line; by default the model's own.")
    ] = None,
    model_name: Annotated[
        str, option("solr, onnx: what the model is called there.", metavar="NAME")
    ] = "rankwood",
    objective: Annotated[
        str,
        option(
            "xgboost-dump: rank:ndcg, rank:pairwise, reg:linear; none for Vespa. xgboost-model: rank:ndcg, "
            "rank:pairwise, rank:map, reg:squarederror."
        ),
    ] = "rank:ndcg",
    function_name: Annotated[str, option("c: the name of the function.", metavar="NAME")] = "score",
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
    from rankwood.exports.exporting import export, header_path
    from rankwood.rankers.save import features_of, load

    for path in (out, header_path(out, to)):
        if path is not None:
            refuse_to_overwrite(str(path), model, *(verify or ()))
    loaded = load(model)
    data = reading(verify, model=features_of(loaded)) if verify else None
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
        function_name=function_name,
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
            "lightgbm (text, or JSON of dump_model), xgboost (JSON or UBJSON of save_model, or JSON of get_dump), "
            "ranklib, solr or json.",
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
    all_trees: Annotated[
        bool,
        switch("--all-trees", "xgboost: take the trees after the best iteration too."),
    ] = False,
) -> None:
    """Read trees of LightGBM, XGBoost, RankLib or Solr into a model file: to evaluate, compare, serve, convert them.

    Example: rankwood import lightgbm.txt --from lightgbm model.rankwood
    """
    from rankwood.exports.exporting import import_model, save_imported

    refuse_to_overwrite(out, file)
    names = _names_in(feature_names)
    forest = import_model(
        file,
        source,
        feature_names=names,
        n_features=n_features,
        base=base,
        all_trees=all_trees,
    )
    save_imported(forest, file, source, out)
    printing.show_facts(
        [
            ("model", out),
            ("imported from", f"{file} ({source})"),
            ("trees", f"{forest.n_trees:,} {'averaged' if forest.average else 'summed'}"),
            ("leaves", f"{forest.n_leaves:,}"),
            ("features", _features_shown(forest, source, n_features or names)),
        ]
    )


def _features_shown(forest: Forest, source: str, given: Any) -> str:
    shown = f"{forest.n_features:,}"
    if source != "ranklib" or given:
        return shown
    return f"{shown}, the highest that a tree tests; --n-features says how many the data have"


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


def serve_command(
    models: Annotated[
        list[Path],
        argument("MODEL", "Model files; each is served under its name without .rankwood."),
    ],
    *,
    host: Annotated[
        str, option("The address to listen at; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, option("0 takes a free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        file_option(
            f"A file that holds the token every request must bring; or set {_TOKEN_VARIABLE}."
        ),
    ] = None,
    absent: Annotated[
        str | None,
        option(
            "What a feature is that a document does not name: zero, missing, or refuse. By default what it was in "
            "training; a document is refused where the model's record does not say.",
            metavar="RULE",
        ),
    ] = None,
    refuse_missing: Annotated[
        bool, switch("--refuse-missing", "Refuse documents that lack a feature's value.")
    ] = False,
    alias: Annotated[
        list[str] | None,
        option(
            "A further name for shares of models: live=old:95,new:5. A query always has the same model. "
            "Requests that name no model go to the alias called default.",
            metavar="SHARES",
        ),
    ] = None,
    shadow: Annotated[
        list[str] | None,
        option(
            "Models that score a share of a name's requests too; only /metrics tells of them: live=new:20.",
            metavar="SHARES",
        ),
    ] = None,
    workers: Annotated[
        int, option("Processes that answer, at one port, with one copy of each model.", min=1)
    ] = 1,
    threads: Annotated[
        int, option("Requests that are scored at once, of each process.", min=1)
    ] = 1,
    max_documents: Annotated[int, option("The most documents of a request.", min=1)] = 1000,
    max_body_mb: Annotated[float, option("The largest body of a request.", min=0.001)] = 16,
    body_budget_mb: Annotated[
        float, option("The most bytes of all bodies that are read or wait, of each process.", min=1)
    ] = 128,
    max_connections: Annotated[
        int, option("The most connections of each process; idle ones make room.", min=1)
    ] = 1000,
    queue: Annotated[
        int, option("Requests that may wait; one more is answered with 503.", min=0)
    ] = 64,
    timeout: Annotated[
        float, option("Seconds for a request to come, and to be answered.", min=0.1)
    ] = 10,
    reload_seconds: Annotated[
        float, option("How often to look for changed model files; 0: never.", min=0)
    ] = 1,
    allow_schema_change: Annotated[
        bool,
        switch("--allow-schema-change", "A changed file may have other features than the model."),
    ] = False,
    drain_seconds: Annotated[
        int, option("How long to finish what was begun when told to stop.", min=0)
    ] = 30,
    access_log: Annotated[
        bool | None, option("A line per request; by default where the log is JSON.")
    ] = None,
    log_format: Annotated[
        str, option("Lines of the log: text, or json with time, level and the facts of a request.")
    ] = "text",
) -> None:
    """Answer POST /rank with the order of a query's documents.

    POST /score gives their scores. A changed model file replaces its model without a pause; a damaged one, or one of
    other features, leaves the old model in service. SIGTERM and Ctrl-C finish what was begun. GET /docs explains
    requests, /models, /healthz and /metrics tell how it goes.

    Example: rankwood serve model.rankwood --port 8000

    Example: curl -s localhost:8000/rank -d '{"documents": [{"id": "a", "features": [0.3, 11]}]}'

    Example: rankwood serve old.rankwood new.rankwood --alias live=old:95,new:5 --workers 2
    """
    try:
        from rankwood.serve import running
    except ImportError as error:
        raise MissingExtra(error.name or "fastapi", "serve", "The scoring service") from None
    from rankwood.serve.answers import RequestLimits
    from rankwood.serve.app import figures_of
    from rankwood.serve.store import ABSENT, Alias, ModelStore

    for name, value, known in (
        ("--absent", absent, ABSENT),
        ("--log-format", log_format, _LOG_FORMATS),
    ):
        if value is not None and value not in known:
            raise ParameterError(f"{name} must be {' or '.join(known)}, got '{value}'.")
    limits = RequestLimits(
        max_documents=max_documents,
        max_body=int(max_body_mb * 2**20),
        body_budget=int(body_budget_mb * 2**20),
        queue=queue,
        timeout=timeout,
        workers=threads,
        token=_token(token_file),
        absent=absent,
        refuse_missing=refuse_missing,
    )
    as_json = log_format == "json"
    formatter = running.JsonLines() if as_json else None
    handler = printing.log_to_terminal(True, formatter)  # says when a model was replaced
    running.log_lines(handler, requests=as_json if access_log is None else access_log)
    store = ModelStore(
        models,
        aliases=[Alias.parse(text, "--alias") for text in alias or ()],
        shadows=[Alias.parse(text, "--shadow", total=None) for text in shadow or ()],
        allow_schema_change=allow_schema_change,
        **({"prepare": running.share} if workers > 1 else {}),
    )
    listening = running.listen(host, port)
    signal.signal(signal.SIGTERM, _end)
    _announce(store, host, listening, as_json)
    most = running.most_connections(max_connections)
    figures = figures_of(store, workers)
    service = running.Service(
        store, limits, figures, listening, most, reload_seconds, drain_seconds
    )
    if service.run(workers) == signal.SIGINT:
        raise KeyboardInterrupt
    raise typer.Exit(0)


def _announce(store: ModelStore, host: str, listening: socket.socket, as_json: bool) -> None:
    """Say where the service is, as a line of the log where that is JSON."""
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    names = ", ".join(entry.served.name for entry in store.entries())
    line = f"serving {names} at {address}   ({address}/docs explains requests; Ctrl-C stops)"
    if as_json:
        logger = logging.getLogger("rankwood.serve.running")
        logger.setLevel(logging.INFO)
        logger.info(line)
    else:
        printing.notice(line)


def _end(_number: int, _frame: Any) -> None:
    raise typer.Exit(0)


def _token(path: Path | None) -> str | None:
    """The token that requests must bring; None where none is asked for."""
    if path is None:
        given = os.environ.get(_TOKEN_VARIABLE)
        if given is None:
            return None
        place, token = f"the variable {_TOKEN_VARIABLE}", given.strip()
    else:
        place, token = f"--token-file: {path}", path.read_text().strip()
    if not token:
        raise ParameterError(
            f"{place} is empty, so everybody could ask. Put a token into it, or do without."
        )
    return token
