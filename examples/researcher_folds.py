"""For a researcher with LETOR folds: a paper's table, with tests over the queries of all folds.

Run as ``python examples/researcher_folds.py [folder]``; the folder holds ``Fold1``, ``Fold2`` … with ``train.txt``,
``vali.txt`` and ``test.txt``, plain or compressed. Without a folder, small folds are made up on the spot.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

import rankwood as rw

RANKERS = {
    "RandomForest": rw.RandomForest(n_trees=50, seed=1),
    "GBRT": rw.GBRT(n_trees=100, max_leaves=15, early_stopping=20, seed=1),
    "LambdaMART": rw.LambdaMART(n_trees=100, max_leaves=15, early_stopping=20, seed=1),
    "BROOF": rw.BROOF(n_rounds=10, n_trees=10, max_leaves=30, seed=1),
}
BASELINE = "RandomForest"


def made_up(folder: Path) -> Path:
    """Three folds of 150 queries, in the layout of LETOR."""
    data = rw.make_ranking(n_queries=150, docs_per_query=20, n_features=12, seed=3)
    for number, parts in enumerate(rw.make_folds(data, 3, seed=1), start=1):
        place = folder / f"Fold{number}"
        place.mkdir()
        for name, part in zip(("train", "vali", "test"), parts, strict=True):
            rw.write_letor(part, place / f"{name}.txt")
    return folder


def main(folder: Path | None = None) -> None:
    """NDCG@10 and MAP by ranker, and Wilcoxon's p against the baseline."""
    folds = rw.read_folds(folder or made_up(Path(tempfile.mkdtemp(prefix="rankwood-"))))
    measures = [rw.parse_measure("ndcg@10"), rw.parse_measure("map")]
    values: dict[str, list[np.ndarray]] = {}
    for name, ranker in RANKERS.items():
        scored = [
            (ranker.fit(train, valid=vali).predict(test), test) for train, vali, test in folds
        ]
        values[name] = [
            np.concatenate([m.per_query(s, test) for s, test in scored]) for m in measures
        ]
    print(f"{'':14}" + "".join(f"{m!s:>10}{'p':>8}" for m in measures))
    for name, found in values.items():
        cells = ""
        for each, baseline in zip(found, values[BASELINE], strict=True):
            p = f"{wilcoxon(each, baseline).pvalue:8.3f}" if name != BASELINE else f"{'':8}"
            cells += f"{each.mean():10.4f}{p}"
        print(f"{name:14}{cells}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
