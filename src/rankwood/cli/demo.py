"""``rankwood demo``: the main job from end to end, on real data that come with the package.

The task is to put the legal moves of a chess position in order, as a strong engine would.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.options import Seed, option

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData
    from rankwood.experiments.results import RunResults

_PARTS = ("train", "valid", "test")
_N_SHOWN = 3  # moves per ranker on a board
_MEASURE = "ndcg@10"
_EXPERIMENT = """\
# Six rankers of five papers, three repetitions each; LightGBM and XGBoost where they are installed.
# Run it again with: rankwood experiment {folder}/demo.toml
[data]
train = "train.txt"
valid = "valid.txt"
test = "test.txt"

[run]
name = "Chess move ordering"
repetitions = 3
seed = {seed}
out = "{run}"

[measures]
primary = "ndcg@10"
also = ["map", "err@10"]

[compare]
baseline = "RandomForest"

[[algorithm]]
name = "RandomForest"
kind = "RandomForest"
n_trees = 100

[[algorithm]]
name = "GBRT"
kind = "GBRT"
n_trees = 200
early_stopping = 30

[[algorithm]]
name = "LambdaMART"
kind = "LambdaMART"
n_trees = 200
early_stopping = 30

[[algorithm]]
name = "LightGBM"
kind = "lightgbm"
optional = true
early_stopping = 30
params = {{ objective = "lambdarank", num_iterations = 200 }}

[[algorithm]]
name = "XGBoost"
kind = "xgboost"
params = {{ objective = "rank:ndcg", num_boost_round = 200 }}
early_stopping = 30
optional = true

[[algorithm]]
name = "BROOF"
kind = "BROOF"
loss = "lambda"
n_rounds = 15
n_trees = 20
max_leaves = 400

[[algorithm]]
name = "DeepForest"
kind = "DeepForest"
n_forests = 4
n_trees = 50
max_leaves = "none"
max_layers = 2

[[algorithm]]
name = "BoostingTree"
kind = "BoostingTree"
base = {{ kind = "LambdaMART", max_leaves = 16, learning_rate = 0.2 }}
budget = 400
"""


def command(
    folder: Annotated[Path, option("Where the demo writes its files.")] = Path("rankwood-demo"),
    *,
    positions: Annotated[
        int | None, option("Positions to take of each part; all by default.", min=10)
    ] = None,
    jobs: Annotated[
        int | None,
        option("Processes to use; one per core by default, 0 for none besides this one.", min=0),
    ] = None,
    seed: Seed = 1,
) -> None:
    """Rank the legal moves of chess positions: an experiment with six rankers, its report, a model, two boards.

    LightGBM and XGBoost take part where they are installed.

    Everything is written to a folder, with the commands that repeat each step.
    """
    from rankwood.cli.inspect import facts
    from rankwood.data.splits import summarise

    folder.mkdir(parents=True, exist_ok=True)
    printing.heading("1. Take chess positions, their legal moves labelled by an engine, in parts")
    train, valid, test = write_parts(folder, positions)

    printing.heading(f"2. Look at the training part   (rankwood inspect {folder}/train.txt)")
    printing.show_facts(facts(summarise(train)))

    printing.heading(f"3. Compare rankers   (rankwood experiment {folder}/demo.toml)")
    results = compare_rankers(folder, jobs, seed)

    printing.heading(f"4. Write the report   (rankwood report {folder}/run)")
    page = write_report_of(results, folder)

    path = folder / "LambdaMART.rankwood"
    printing.heading(f"5. Keep a model   (rankwood train --model LambdaMART … --out {path})")
    model = train_ranker(train, valid, path, seed)

    printing.heading("6. Look at two test positions: what LambdaMART would play, and the engine")
    show_boards(test, model.predict(test), "LambdaMART", folder)
    printing.say(f"\nThe report: {page}")
    printing.say(f"Data, model and boards are in {folder}/. What next: rankwood train --help")


def write_parts(folder: Path, positions: int | None) -> list[RankingData]:
    """Training, validation and test positions of both openings, written to files as well."""
    from rankwood.data.chess.collection import chess
    from rankwood.data.letor.text import write_letor

    parts = []
    for name in _PARTS:
        part = chess(part=name)
        if positions is not None:
            part = part.take_queries(range(min(positions, part.n_queries)))
        path = folder / f"{name}.txt"
        write_letor(part, path)
        parts.append(part)
        printing.say(f"   {path}: {part.n_documents:,} moves of {part.n_queries:,} positions")
    return parts


def compare_rankers(folder: Path, jobs: int | None, seed: int) -> RunResults:
    """The results of the experiment, which is written to a file first; a table of them is shown."""
    from rankwood.cli.experiment import show_results
    from rankwood.experiments.runner import run_experiment

    file = folder / "demo.toml"
    text = _EXPERIMENT.format(folder=folder, seed=seed, run=(folder / "run").absolute())
    file.write_text(text, encoding="utf-8")
    with printing.cells(_MEASURE, quiet=False) as progress:
        results = run_experiment(file, jobs=jobs, progress=progress)
    show_results(results)
    for name, why in results.record.get("left_out", {}).items():
        printing.say(f"{name} is left out: {why}")
    return results


def write_report_of(results: RunResults, folder: Path) -> Path:
    """The report's page; its other files are beside it."""
    from rankwood.experiments.report import write_report

    page = write_report(results, folder / "report", formats=("html", "md", "csv", "svg"))
    printing.say(f"   {page}")
    return page


def train_ranker(train: RankingData, valid: RankingData, path: Path, seed: int) -> Any:
    """LambdaMART as in the experiment, saved."""
    from rankwood.rankers.boosted import LambdaMART
    from rankwood.rankers.save import save

    ranker = LambdaMART(n_trees=200, early_stopping=30, seed=seed).fit(train, valid=valid)
    save(ranker, path)
    printing.say(f"   {path}: {ranker.forest_.n_trees} trees")
    return ranker


def show_boards(test: RankingData, scores: Any, ranker: str, folder: Path) -> None:
    """Two positions, one that the ranker gets right and one that it does not, as text and as SVG files."""
    from rankwood.data.chess.collection import chess_positions
    from rankwood.data.chess.positions import board_svg, board_text

    positions = chess_positions()
    for verdict, query, moves in chosen_positions(test, scores):
        position = positions[query]
        marks = {ranker: moves[:_N_SHOWN], "engine": position.best_moves[:_N_SHOWN]}
        side = "White" if " w " in position.fen else "Black"
        path = folder / f"board-{query}.svg"
        path.write_text(
            board_svg(position.fen, marks, title=f"{query}: {side} to move"), encoding="utf-8"
        )
        printing.say(f"\n{query}, {side} to move: {verdict}   ({path})\n")
        printing.say(board_text(position.fen, marks))


def chosen_positions(test: RankingData, scores: Any) -> list[tuple[str, str, Sequence[str]]]:
    """The first test position whose first choice is among the best moves, and the first whose is poor.

    For each: the verdict, the query, and its moves, best score first.
    """
    import numpy as np

    wanted = {4.0: "the first choice is one of the best moves", 0.0: "the first choice is poor"}
    chosen = []
    for query, rows in test.iter_queries():
        ranked = rows[np.argsort(-scores[rows], kind="stable")]
        verdict = wanted.pop(float(test.labels[ranked[0]]), None)
        if verdict is not None:
            chosen.append((verdict, query, test.doc_ids[ranked].tolist()))  # type: ignore[index]
    return chosen
