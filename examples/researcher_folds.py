"""For a researcher with LETOR folds: a paper's table, with tests over the queries of all folds, and a report.

Run as ``python examples/researcher_folds.py [folder]``; the folder holds ``Fold1``, ``Fold2`` … with ``train.txt``,
``vali.txt`` and ``test.txt``, plain or compressed. Without a folder, small folds are made up on the spot.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import rankwood as rw

RANKERS = {  # a hundred trees each, at most
    "RF": {"kind": "RandomForest", "n_trees": 100},
    "MART": {"kind": "GBRT", "n_trees": 100, "max_leaves": 15, "early_stopping": 20},
    "LambdaMART": {"kind": "LambdaMART", "n_trees": 100, "max_leaves": 15, "early_stopping": 20},
    "BROOF": {"kind": "BROOF", "n_rounds": 10, "n_trees": 10, "max_leaves": 30},
}


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
    """NDCG@10 and MAP by ranker, with tests against the baseline, and the report of the run."""
    place = Path(tempfile.mkdtemp(prefix="rankwood-"))
    experiment = {
        "data": {"folds": str(folder or made_up(place))},
        "run": {"repetitions": 2, "seed": 1},
        "measures": {"primary": "ndcg@10", "also": ["map"]},
        "algorithm": [{"name": name, **settings} for name, settings in RANKERS.items()],
        "compare": {"baseline": "RF", "tests": ["wilcoxon", "t"], "correction": "holm"},
    }
    results = rw.run_experiment(experiment, out=place / "run", jobs=1)
    for measure in results.measures:
        values = {name: results.values(name, measure) for name in results.algorithms}
        print(f"\n{measure}\n{rw.compare_values(values, 'RF')}")
    print(f"\nreport: {rw.write_report(results, place / 'report', formats=['html', 'tex'])}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
