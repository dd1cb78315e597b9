"""``rankwood clicks``: simulate click logs, estimate bias and judgments, measure rankings by logs and interleaving."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import (
    Csv,
    Json,
    LabelledFiles,
    Outputs,
    Plot,
    Reading,
    Seed,
    argument,
    data_option,
    features_of_all,
    file_option,
    option,
    refuse_unwritable,
    switch,
    with_reading_options,
)
from rankwood.cli.printing import reports_errors
from rankwood.errors import ParameterError

app = typer.Typer(
    help="Click logs: simulate them, estimate position bias and judgments, measure rankings with them.",
    no_args_is_help=True,
)

_RANKING = "A model file, or a file with one score per row"
_Log = Annotated[
    list[str], argument("LOG...", "A click log with positions: see --position. Labels are clicks.")
]
_Readers = Annotated[
    str, option("How readers click: position, trust, cascade or dbn.", metavar="MODEL")
]
_Eta = Annotated[float, option("Attention falls as position^-eta (position, trust).", min=0.0)]
_Noise = Annotated[float, option("The chance that a document of label 0 is liked.")]
_DocId = Annotated[
    bool,
    switch("--no-doc-ids", "Take every row for a document of its own, whatever ids there are."),
]


def _data_of_rankings(
    paths: Sequence[str], files: Sequence[str], reading: Reading
) -> tuple[Any, list[Any]]:
    """The data, read as wide as the models are, and what each file ranks them by: a ranker or scores."""
    from rankwood.data.scores import read_scores_of
    from rankwood.models.format import is_model_file
    from rankwood.rankers.save import load  # heavy: only models need it

    models = {file: load(file) for file in files if is_model_file(file)}
    known = features_of_all(models.values())
    data = reading(paths, **({} if known is None else {"model": known}))
    return data, [models[file] if file in models else read_scores_of(file, data) for file in files]


@app.command("simulate")
@reports_errors
@with_reading_options
def simulate_command(
    data: LabelledFiles,
    *,
    ranking: Annotated[
        list[str],
        option(
            f"{_RANKING}, that orders the lists; several serve sessions by turns, at random.",
            metavar="FILE",
        ),
    ],
    out: Annotated[
        Path, option("A table (.parquet, .csv, .arrow), written block by block.", "--out", "-o")
    ],
    sessions: Annotated[int, option("How many lists are shown.", min=1)] = 100_000,
    readers: _Readers = "position",
    eta: _Eta = 1.0,
    noise: _Noise = 0.1,
    cutoff: Annotated[int, option("Documents of a list that are shown.", min=1)] = 10,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Write the log that readers of judged data would leave, and its truth beside it.

    The columns of OUT are qid (the session), label (the click), doc_id (the row of DATA), position and the features.
    OUT.truth.json has the bias and the relevance that clicks were drawn from.

    Example: rankwood clicks simulate train.parquet --ranking old.rankwood --sessions 100000 --out log.parquet
    """
    from rankwood.clicks.simulation import simulate_clicks

    refuse_unwritable("--out", out)
    judged, rankings = _data_of_rankings(data, ranking, reading)
    log = simulate_clicks(
        judged,
        rankings,
        sessions=sessions,
        model=readers,
        eta=eta,
        noise=noise,
        cutoff=cutoff,
        seed=seed,
    )
    truth = log.write(out)
    found = {"log": str(out), "truth": str(truth), **log.truth.parameters}
    if as_json:
        printing.show_json(found)
    elif not reading.quiet:
        printing.show_facts([(name, str(value)) for name, value in found.items()])


@app.command("bias")
@reports_errors
@with_reading_options
def bias_command(
    log: _Log,
    *,
    method: Annotated[
        str,
        option(
            "harvest (documents seen at several positions), em (a relevance model), power (position^-eta), or auto: "
            "harvest where every position has enough of such clicks, else em."
        ),
    ] = "auto",
    trust: Annotated[
        bool, switch("--trust", "harvest: documents are also clicked for their position alone.")
    ] = False,
    clip: Annotated[
        float, option("The most that a click counts where rankers use the bias.", min=1.0)
    ] = 100.0,
    bootstrap: Annotated[int, option("Samples for the intervals; 0: none.", min=0)] = 100,
    no_doc_ids: _DocId = False,
    out: Annotated[
        Path | None,
        option("Save the bias: train --position-bias FILE.", "--out", "-o", metavar="FILE"),
    ] = None,
    csv: Csv = None,
    plot: Plot = None,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Estimate how much of a click is due to the position.

    Example: rankwood clicks bias log.parquet --out bias.json --plot bias.svg
    """
    from rankwood.clicks.bias import position_bias

    outputs = Outputs(as_json=as_json, csv=csv, plot=plot)
    if out is not None:
        refuse_unwritable("--out", out)
    data = reading(log, is_log=True)
    if no_doc_ids:
        import dataclasses

        data = dataclasses.replace(data, doc_ids=None)
    found = position_bias(data, method, trust=trust, clip=clip, n_bootstrap=bootstrap, seed=seed)
    if out is not None:
        found.save(out)
    outputs.show(found, csv=found.write_csv, plot=found.plot)


@app.command("judge")
@reports_errors
@with_reading_options
def judge_command(
    log: _Log,
    *,
    bias: Annotated[Path, file_option("The bias of the log, from rankwood clicks bias --out.")],
    out: Annotated[
        Path,
        option("Write here: .parquet, .csv, .arrow, or LETOR text.", "--out", "-o", metavar="FILE"),
    ],
    prior: Annotated[
        float, option("Looks without a click that are added to each document's own.", min=0.0)
    ] = 1.0,
    weights: Annotated[
        bool, switch("--weights", "Give each document its looks as weight, for forests and GBRT.")
    ] = False,
    as_json: Json = False,
    reading: Reading,
) -> None:
    r"""Turn a log into estimated judgments: one row per document, labelled by its clicks over its looks.

    Document ids join the same document of the same query over lists. The labels are rates: train with
    --target 'ndcg\[gain=linear]'.

    Example: rankwood clicks judge log.parquet --bias bias.json --out learned.parquet
    """
    from rankwood.clicks.judging import click_judgments
    from rankwood.data.reading import write_data

    refuse_unwritable("--out", out)
    data = reading(log, is_log=True)
    judged = click_judgments(data, bias, prior=prior, weights=weights)
    write_data(judged, out)
    found: dict[str, Any] = {
        "lists": data.n_queries,
        "queries": judged.n_queries,
        "documents": judged.n_documents,
        "mean_label": float(judged.labels.mean()),
        "out": str(out),
    }
    if as_json:
        printing.show_json(found)
    elif not reading.quiet:
        counts = f"{data.n_queries:,} lists, {judged.n_queries:,} queries"
        printing.show_facts(
            [
                ("log", counts),
                ("judgments", f"{judged.n_documents:,} documents, mean {found['mean_label']:.4f}"),
                ("written to", str(out)),
            ]
        )


@app.command("evaluate")
@reports_errors
@with_reading_options
def evaluate_command(
    log: _Log,
    *,
    ranking: Annotated[
        list[str],
        option(
            f"{_RANKING} (of LOG, or of --candidates); further ones are compared with the first.",
            metavar="FILE",
        ),
    ],
    bias: Annotated[Path, file_option("The bias of the log, from rankwood clicks bias --out.")],
    measure: Annotated[
        str, option("dcg@K or precision@K of the relevance behind the clicks.", "--measure", "-m")
    ] = "dcg@10",
    candidates: Annotated[
        list[str] | None,
        data_option("The documents that rankings choose from, joined by document id."),
    ] = None,
    clip: Annotated[
        float | None, option("The most that a click counts in the clipped estimate.", min=1.0)
    ] = None,
    csv: Csv = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Estimate from a log what other rankings would have earned per session.

    Example: rankwood clicks evaluate log.parquet --ranking old.rankwood --ranking new.rankwood --bias bias.json
    """
    from rankwood.clicks.measuring import counterfactual

    outputs = Outputs(as_json=as_json, csv=csv)
    if len(set(ranking)) < len(ranking):
        raise ParameterError("--ranking is given twice with the same file.")
    if not candidates:
        data, rankings = _data_of_rankings(log, ranking, reading)
        chosen_from = None
    else:
        data = reading(log, is_log=True)
        chosen_from, rankings = _data_of_rankings(candidates, ranking, reading)
    found = counterfactual(
        dict(zip(ranking, rankings, strict=True)),
        data,
        bias,
        measure,
        candidates=chosen_from,
        clip=clip,
    )
    outputs.show(found, csv=found.write_csv)


@app.command("interleave")
@reports_errors
@with_reading_options
def interleave_command(
    a: Annotated[str, argument("A", f"{_RANKING}.")],
    b: Annotated[str, argument("B", f"{_RANKING}.")],
    data: LabelledFiles,
    *,
    method: Annotated[str, option("team_draft, balanced or probabilistic.")] = "team_draft",
    sessions: Annotated[int, option("Simulated readers.", min=1)] = 1000,
    cutoff: Annotated[int, option("Documents that are shown.", min=1)] = 10,
    readers: _Readers = "position",
    eta: _Eta = 1.0,
    noise: _Noise = 0.1,
    csv: Csv = None,
    seed: Seed = 0,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show simulated readers lists of two rankings in one, and test which of them wins.

    Example: rankwood clicks interleave old.rankwood new.rankwood test.parquet --sessions 5000
    """
    from rankwood.clicks.measuring import interleave

    outputs = Outputs(as_json=as_json, csv=csv)
    judged, (one, other) = _data_of_rankings(data, (a, b), reading)
    found = interleave(
        one,
        other,
        method=method,
        k=cutoff,
        seed=seed,
        data=judged,
        sessions=sessions,
        model=readers,
        eta=eta,
        noise=noise,
    )
    outputs.show(found, csv=found.write_csv)
