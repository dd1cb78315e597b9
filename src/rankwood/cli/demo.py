"""``rankwood demo``: the main job from end to end, on real data that come with the package.

The task is to put the legal moves of a chess position in order, as a strong engine would.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import Seed

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData

_MEASURES = ["ndcg@10", "map", "err@10"]
_PARTS = ("train", "vali", "test")
_N_SHOWN = 3  # moves per ranker on a board


def command(
    folder: Annotated[Path, typer.Option(help="Where the demo writes its files.")] = Path(
        "rankwood-demo"
    ),
    *,
    positions: Annotated[
        int | None,
        typer.Option(min=10, help="Positions to take of each part; all by default."),
    ] = None,
    seed: Seed = 1,
) -> None:
    """Rank the legal moves of chess positions: inspect data, train rankers, evaluate them, look at two boards.

    Everything is written to a folder, with the commands that repeat each step.
    """
    from rankwood.cli.inspect_data import facts
    from rankwood.data.summary import summarise

    folder.mkdir(parents=True, exist_ok=True)
    printing.heading("1. Take chess positions, their legal moves labelled by an engine, in parts")
    train, vali, test = write_parts(folder, positions)

    printing.heading(f"2. Look at the training part   (rankwood inspect {folder}/train.txt)")
    printing.show_facts(facts(summarise(train)))

    printing.heading(
        "3. Choose the single feature that ranks the training positions best, as a baseline"
    )
    feature, sign, value = best_feature(train, _MEASURES[0])
    direction = "descending" if sign > 0 else "ascending"
    printing.say(
        f"   feature {train.names[feature]}, {direction}: {_MEASURES[0]} {value:.4f} on the training positions"
    )
    scores = {"best feature": sign * test.features[:, feature].astype(float)}

    printing.heading(
        f"4. Train rankers   (rankwood train --data {folder}/train.txt --model LambdaMART …)"
    )
    rankers = train_rankers(train, vali, folder, seed)
    scores |= {name: ranker.predict(test) for name, ranker in rankers.items()}

    printing.heading(
        f"5. Evaluate on the test positions   (rankwood evaluate {folder}/LambdaMART.rankwood {folder}/test.txt)"
    )
    show_results(scores, test)

    best = max(rankers, key=lambda name: validation_figure(rankers[name]))
    printing.heading(f"6. Look at two test positions: what {best} would play, and the engine")
    show_boards(test, scores[best], best, folder)
    printing.say(
        f"\nData, models and boards are in {folder}/. What next: rankwood train --help; rankwood data chess --help"
    )


def write_parts(folder: Path, positions: int | None) -> list[RankingData]:
    """Training, validation and test positions of both openings, written to files as well."""
    from rankwood.data.datasets import chess
    from rankwood.data.letor import write_letor

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


def train_rankers(train: RankingData, vali: RankingData, folder: Path, seed: int) -> dict[str, Any]:
    """Fitted rankers by name, each saved to the folder."""
    from rankwood.ensembles.forests import RandomForest
    from rankwood.ensembles.gbrt import GBRT
    from rankwood.ensembles.lambdamart import LambdaMART
    from rankwood.ensembles.loading import save

    rankers = {
        "RandomForest": RandomForest(n_trees=100, seed=seed),
        "GBRT": GBRT(n_trees=200, early_stopping=30, seed=seed),
        "LambdaMART": LambdaMART(n_trees=200, early_stopping=30, seed=seed),
    }
    for name, ranker in rankers.items():
        with printing.training(name, _MEASURES[0], quiet=False) as progress:
            ranker.set_params(progress=progress).fit(train, valid=vali)
        ranker.set_params(progress=None)
        save(ranker, folder / f"{name}.rankwood")
        printing.say(
            f"   {name}: {ranker.forest_.n_trees} trees in {ranker.training_['seconds']:.1f} s, "
            f"validation {_MEASURES[0]} {validation_figure(ranker):.4f}"
        )
    return rankers


def validation_figure(ranker: Any) -> float:
    """What the ranker, as it is used, reached on the validation positions."""
    used = getattr(ranker, "best_iteration_", ranker.forest_.n_trees)
    return float(ranker.history_[used - 1])


def show_results(scores: dict[str, Any], test: RankingData) -> None:
    """A row per ranker: the first measure with its interval, then the others."""
    from rankwood.evaluation.evaluate import evaluate

    results = {name: evaluate(values, test, _MEASURES) for name, values in scores.items()}
    rows = []
    for name, result in results.items():
        low, high = result[_MEASURES[0]].interval
        values = [f"{result[measure].value:.4f}" for measure in _MEASURES]
        rows.append([name, values[0], f"{low:.4f} – {high:.4f}", *values[1:]])
    printing.show_table(["ranker", _MEASURES[0], "95 % interval", *_MEASURES[1:]], rows)
    for note in next(iter(results.values())).notes():
        printing.say(note)


def best_feature(data: RankingData, measure: str) -> tuple[int, int, float]:
    """The feature and direction whose values alone rank best, and the measure they reach."""
    import numpy as np

    from rankwood.measures.parsing import parse_measure

    wanted = parse_measure(measure)
    best = (0, 1, -1.0)
    for feature in range(data.n_features):
        column = np.nan_to_num(data.features[:, feature].astype(float))
        for sign in (1, -1):
            value = float(np.nanmean(wanted.per_query(sign * column, data)))
            if value > best[2]:
                best = (feature, sign, value)
    return best


def show_boards(test: RankingData, scores: Any, ranker: str, folder: Path) -> None:
    """Two positions, one that the ranker gets right and one that it does not, as text and as SVG files."""
    from rankwood.data.chess_board import board_svg, board_text
    from rankwood.data.datasets import chess_positions

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
