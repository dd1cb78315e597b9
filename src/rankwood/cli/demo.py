"""``rankwood demo``: the main job from end to end, on data made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwood.cli import printing
from rankwood.cli.options import Seed

if TYPE_CHECKING:
    from rankwood.data.dataset import RankingData

_MEASURES = ["ndcg@10", "map", "err@10"]
_PARTS = ("train", "vali", "test")


def command(
    folder: Annotated[Path, typer.Option(help="Where the demo writes its files.")] = Path(
        "rankwood-demo"
    ),
    *,
    queries: Annotated[int, typer.Option(min=10, help="Number of queries to generate.")] = 400,
    seed: Seed = 1,
) -> None:
    """Generate data, inspect it, train rankers, and evaluate them beside the best single feature.

    Everything is written to a folder, with the commands that repeat each step.
    """
    from rankwood.cli.inspect_data import facts
    from rankwood.data.summary import summarise

    folder.mkdir(parents=True, exist_ok=True)
    printing.heading(f"1. Generate {queries} queries and split them into parts, by query")
    train, vali, test = make_parts(folder, queries, seed)

    printing.heading(f"2. Look at the training part   (rankwood inspect {folder}/train.txt)")
    printing.show_facts(facts(summarise(train)))

    printing.heading(
        "3. Choose the single feature that ranks the training queries best, as a baseline"
    )
    feature, sign, value = best_feature(train, _MEASURES[0])
    direction = "descending" if sign > 0 else "ascending"
    printing.say(
        f"   feature {train.names[feature]}, {direction}: {_MEASURES[0]} {value:.4f} on the training queries"
    )
    scores = {"best feature": sign * test.features[:, feature].astype(float)}

    printing.heading(
        f"4. Train rankers   (rankwood train --data {folder}/train.txt --model GBRT …)"
    )
    for name, model in train_rankers(train, vali, folder, seed).items():
        scores[name] = model.predict(test)

    printing.heading(
        f"5. Evaluate on the test queries   (rankwood evaluate {folder}/GBRT.rankwood {folder}/test.txt)"
    )
    show_results(scores, test)
    printing.say(f"\nData and models are in {folder}/. What next: rankwood train --help")


def make_parts(folder: Path, queries: int, seed: int) -> list[RankingData]:
    """Generated training, validation and test data, written to files and read back."""
    from rankwood.data.letor import read_letor, write_letor
    from rankwood.data.splits import split_queries
    from rankwood.data.synthetic import make_ranking

    data = make_ranking(queries, 60, 40, seed=seed)
    read = []
    for name, part in zip(_PARTS, split_queries(data, (0.6, 0.2, 0.2), seed=seed), strict=True):
        path = folder / f"{name}.txt"
        write_letor(part, path)
        read.append(read_letor(path))
        printing.say(f"   {path}: {part.n_documents:,} documents of {part.n_queries:,} queries")
    return read


def train_rankers(train: RankingData, vali: RankingData, folder: Path, seed: int) -> dict[str, Any]:
    """Fitted rankers by name, each saved to the folder."""
    from rankwood.ensembles.forests import ExtraTrees, RandomForest
    from rankwood.ensembles.gbrt import GBRT
    from rankwood.ensembles.loading import save

    rankers = {
        "RandomForest": RandomForest(n_trees=100, seed=seed),
        "ExtraTrees": ExtraTrees(n_trees=100, seed=seed),
        "GBRT": GBRT(n_trees=200, early_stopping=30, seed=seed),
    }
    for name, ranker in rankers.items():
        with printing.training(name, _MEASURES[0], quiet=False) as progress:
            ranker.set_params(progress=progress).fit(train, valid=vali)
        ranker.set_params(progress=None)
        save(ranker, folder / f"{name}.rankwood")
        best = getattr(ranker, "best_iteration_", ranker.forest_.n_trees)
        printing.say(
            f"   {name}: {ranker.forest_.n_trees} trees in {ranker.training_['seconds']:.1f} s, "
            f"validation {_MEASURES[0]} {ranker.history_[best - 1]:.4f}"
        )
    return rankers


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
