"""Error, bias² and variance on MQ2008 in the shape of the paper's table: five trainings in each of five folds.

Run as ``RANKWOOD_DATA=folder python -m benchmarks.bias_variance_mq2008 [--folds N] [--trainings N] [--share S]``; the
folder holds ``MQ2008/Fold1`` to ``Fold5``. ``--share`` scales the number of trees, for a quick try, whose figures are
not kept. All pairs with strict ties, the level of the paper's figures (which are of MQ2007, so that only the order of
the rows may be compared). Sizes are the paper's for MQ2007, but for DF-LM, which has four LambdaMARTs
of 80 trees in at most two layers: 25 trainings of the whole would take hours.

The paper's table for MQ2007: Random Forest 0.4344 = 0.3752 + 0.0592, Deep Forest 0.4341 = 0.3812 + 0.0529,
DF-LM 0.4283 = 0.4083 + 0.0200, LambdaMART 0.4335 = 0.3482 + 0.0853.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import rankwood as rw
from benchmarks.common import keep

NAME = "bias_variance_mq2008"
CONVENTIONS = {"pairs": "all", "ties": "strict"}


def algorithms(share: float) -> dict[str, Any]:
    """The rows of the table."""

    def trees(number: int) -> int:
        return max(1, round(share * number))

    return {
        "Random Forest": rw.RandomForest(trees(40)),
        "Deep Forest": rw.DeepForest(n_forests=8, n_trees=trees(40)),
        "DF-LM": rw.DeepForest.lambdamart(4, trees(80), max_layers=2),
        "LambdaMART": rw.LambdaMART(trees(160), max_leaves=15, learning_rate=0.05),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=NAME)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--trainings", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args([] if arguments is None else arguments)
    folder = os.environ.get("RANKWOOD_DATA")
    if not folder or not (Path(folder) / "MQ2008").is_dir():
        print("skipped: set RANKWOOD_DATA to a folder that holds MQ2008")
        return
    folds = rw.read_folds(Path(folder) / "MQ2008")[: options.folds]
    result: dict[str, Any] = {"folds": len(folds), "trainings": options.trainings}
    start = time.perf_counter()
    found = rw.bias_variance(
        algorithms(options.share), folds, trainings=options.trainings, **CONVENTIONS
    )
    print(f"{time.perf_counter() - start:.0f} s\n{found}\n", flush=True)
    result |= {"conventions": CONVENTIONS, **found.to_dict()}
    if (options.folds, options.trainings, options.share) == (5, 5, 1.0):
        keep(NAME, result)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
