"""``rankwood demo``: the main job from end to end, on data made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwood.cli import printing
from rankwood.cli.options import Seed

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData

_MEASURES = ("ndcg@10", "map", "err@10", "mrr")


def command(
    folder: Annotated[Path, typer.Option(help="Where the demo writes its files.")] = Path(
        "rankwood-demo"
    ),
    *,
    queries: Annotated[int, typer.Option(min=10, help="Number of queries to generate.")] = 300,
    seed: Seed = 1,
) -> None:
    """Generate data, inspect it, score it with the best single feature, and evaluate.

    Everything is written to a folder, with the commands that repeat each step.
    """
    from rankwood.cli import inspect_data
    from rankwood.data.letor import read_letor, write_letor
    from rankwood.data.splits import split_queries
    from rankwood.data.summary import summarise
    from rankwood.data.synthetic import make_ranking
    from rankwood.evaluation.evaluate import evaluate

    folder.mkdir(parents=True, exist_ok=True)
    printing.heading(f"1. Generate {queries} queries and split them into training and test queries")
    parts = split_queries(make_ranking(queries, 60, 40, seed=seed), (0.7, 0.3), seed=seed)
    paths = [folder / "train.txt", folder / "test.txt"]
    for part, path in zip(parts, paths, strict=True):
        write_letor(part, path)
        printing.say(f"   {path}: {part.n_documents:,} documents of {part.n_queries:,} queries")

    printing.heading(f"2. Look at the training part   (rankwood inspect {paths[0]})")
    train, test = (read_letor(path) for path in paths)
    printing.show_facts(inspect_data.facts(summarise(train)))

    printing.heading("3. Choose the single feature that ranks the training queries best")
    feature, sign, value = best_feature(train, _MEASURES[0])
    direction = "descending" if sign > 0 else "ascending"
    printing.say(
        f"   feature {train.names[feature]}, {direction}: {_MEASURES[0]} {value:.4f} on the training queries"
    )
    scores = sign * test.features[:, feature].astype(float)
    score_path = folder / "scores.txt"
    score_path.write_text("".join(f"{score!r}\n" for score in scores.tolist()))

    printing.heading(
        f"4. Evaluate on the test queries   (rankwood evaluate {score_path} {paths[1]})"
    )
    printing.say(str(evaluate(scores, test, list(_MEASURES))))
    printing.say(f"\nFiles are in {folder}/. What next: rankwood evaluate --help")


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
