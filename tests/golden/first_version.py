"""Model files and checkpoints as version 0.1 wrote them: what is in ``v0.1/``, and how it was made.

``python -m tests.golden.first_version`` writes those that are not there; a file that is there stays as it is, since
whatever a version has written must keep loading.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import rankwood as rw
from tests.golden.digesting import without_record
from tests.golden.golden_data import plain_gbrt

FOLDER = Path(__file__).with_name("v0.1")
SCORES = FOLDER / "scores.json"
VERSION = "0.1.0"  # the version that wrote them

_FOREST = {"n_trees": 2, "max_leaves": 4}
_BOOST = {"n_trees": 3, "max_leaves": 3, "min_leaf": 5, "early_stopping": None}
# How version 0.1 grew and judged layers, without parameters for it.
_LAYERS_OF_0_1 = {"bag": "row", "judged_on": "valid", "lead": 0.0}

# One of every ranker, as small as can be: files are kept below 8 KiB where their kind allows it.
RANKERS: dict[str, Any] = {
    "RandomForest": rw.RandomForest(**_FOREST, missing="own_child"),
    "ExtraTrees": rw.ExtraTrees(**_FOREST),
    "CompletelyRandomForest": rw.CompletelyRandomForest(**_FOREST),
    "GBRT": plain_gbrt(**_BOOST),
    "AveragedGBRT": rw.AveragedGBRT(
        2, n_runs=2, max_leaves=3, min_leaf=5, features_per_node=2, early_stopping=None
    ),
    "InitializedGBRT": rw.InitializedGBRT(**_BOOST, forest_trees=2, forest_leaves=3),
    "OrdinalRanker": rw.OrdinalRanker(rw.RandomForest(2, max_leaves=3), "squared", clip=True),
    "LambdaMART": rw.LambdaMART(**_BOOST, l2=0.0),
    "NDCGBoost": rw.NDCGBoost(3, min_leaf=5, early_stopping=None),
    "RankBoost": rw.RankBoost(3, early_stopping=None),
    "AdaBoost": rw.AdaBoost(3, early_stopping=None),
    "AdaRank": rw.AdaRank(10, early_stopping=None),
    "RankSVM": rw.RankSVM(C=0.01),
    "BROOF": rw.BROOF(  # with the defaults of version 0.1, which its file names
        "absolute",
        n_rounds=2,
        n_trees=2,
        max_leaves=3,
        bag="row",
        weighting="resample",
        stop=None,
        patience=10,
    ),
    "DeepForest": rw.DeepForest(
        [rw.AdaRank(3, early_stopping=None)],
        max_leaves=100,
        max_layers=2,
        patience=None,
        n_folds=2,
        **_LAYERS_OF_0_1,
    ),
    "DeepForest-forest": rw.DeepForest(
        n_forests=1, n_trees=2, max_leaves=3, max_layers=1, patience=None, **_LAYERS_OF_0_1
    ),
    "BoostingTree": rw.BoostingTree(budget=3, search="hull"),
    "Exp3P": rw.Exp3P(n_rounds=3, early_stopping=None),
}
# Fits that were stopped after so many trees, and left a checkpoint. Nothing in them depends on the processor.
STOPPED_AT = 2
STOPPED: dict[str, Any] = {
    "RandomForest": rw.RandomForest(n_trees=5, max_leaves=3, bag="query"),
    "GBRT": plain_gbrt(
        6, max_leaves=3, min_leaf=5, subsample=0.6, early_stopping=4, measure="rmse"
    ),
}


@functools.cache
def parts() -> tuple[rw.RankingData, ...]:
    """Training and validation part, and the documents that are scored; all have missing values."""
    data = rw.make_ranking(20, 8, 4, missing=0.1, label_shares=(0.6, 0.3, 0.1), seed=11)
    train, valid, test = rw.split_queries(data, (0.6, 0.2, 0.2), seed=1)
    return train, valid, test.take_rows(np.arange(16))


def model_file(name: str) -> Path:
    """The file of a model."""
    return FOLDER / f"{name}.rankwood"


def checkpoint_file(name: str) -> Path:
    """The checkpoint of a fit that was stopped."""
    return FOLDER / f"{name}.checkpoint"


def saved_digest(model: Any) -> str:
    """The sha256 of the file that a model is saved to."""
    with tempfile.TemporaryDirectory() as folder:
        rw.save(model, Path(folder) / "model")
        return hashlib.sha256(without_record(Path(folder) / "model")).hexdigest()


def _write() -> None:
    """Write what is not there."""
    train, valid, test = parts()
    FOLDER.mkdir(exist_ok=True)
    kept = json.loads(SCORES.read_text(encoding="utf-8")) if SCORES.exists() else {}
    scores, finished = kept.get("scores", {}), kept.get("finished", {})
    for name, ranker in RANKERS.items():
        if not model_file(name).exists():
            model = clone(ranker).fit(train, valid=valid)
            rw.save(model, model_file(name))
            scores[name] = " ".join(score.hex() for score in model.predict(test).tolist())
    for name, ranker in STOPPED.items():
        path = checkpoint_file(name)
        if not path.exists():
            stops = [lambda news: news.iteration == STOPPED_AT]
            clone(ranker).set_params(checkpoint=path, callbacks=stops).fit(train, valid=valid)
            finished[name] = saved_digest(clone(ranker).fit(train, valid=valid))
    text = json.dumps({"scores": scores, "finished": finished}, indent=1)
    SCORES.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
