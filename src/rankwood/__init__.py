"""Rankwood: tree ensembles that learn to rank.

The public names live here and nowhere else. Each is imported from its module on first use, so that
``import rankwood`` costs next to nothing.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankwood.binning.binned import bin_data as bin  # noqa: A004 - rw.bin reads as what it does
    from rankwood.data.dataset import RankingData
    from rankwood.data.folds import make_folds, read_folds
    from rankwood.data.letor import read_letor, write_letor
    from rankwood.data.normalise import normalise_per_query
    from rankwood.data.splits import sample_queries, split_queries
    from rankwood.data.synthetic import make_ranking
    from rankwood.data.tables import from_frame, read_table, write_table
    from rankwood.ensembles.adarank import AdaRank
    from rankwood.ensembles.averaged_gbrt import AveragedGBRT
    from rankwood.ensembles.forests import CompletelyRandomForest, ExtraTrees, RandomForest
    from rankwood.ensembles.gbrt import GBRT
    from rankwood.ensembles.initialized_gbrt import InitializedGBRT
    from rankwood.ensembles.lambdamart import LambdaMART
    from rankwood.ensembles.loading import load, save
    from rankwood.ensembles.mlp import MLPRanker
    from rankwood.ensembles.ndcgboost import NDCGBoost
    from rankwood.ensembles.ordinal import OrdinalRanker
    from rankwood.ensembles.rankboost import RankBoost
    from rankwood.ensembles.ranksvm import RankSVM
    from rankwood.ensembles.refitting import refit
    from rankwood.evaluation.bias_variance import bias_variance
    from rankwood.evaluation.evaluate import evaluate
    from rankwood.measures.parsing import parse_measure

__version__ = "0.1.0"

# Where each public name is defined; after a colon, what it is called there.
_MODULE_OF = {
    "AdaRank": "rankwood.ensembles.adarank",
    "AveragedGBRT": "rankwood.ensembles.averaged_gbrt",
    "CompletelyRandomForest": "rankwood.ensembles.forests",
    "ExtraTrees": "rankwood.ensembles.forests",
    "GBRT": "rankwood.ensembles.gbrt",
    "InitializedGBRT": "rankwood.ensembles.initialized_gbrt",
    "LambdaMART": "rankwood.ensembles.lambdamart",
    "MLPRanker": "rankwood.ensembles.mlp",
    "NDCGBoost": "rankwood.ensembles.ndcgboost",
    "OrdinalRanker": "rankwood.ensembles.ordinal",
    "RandomForest": "rankwood.ensembles.forests",
    "RankBoost": "rankwood.ensembles.rankboost",
    "RankSVM": "rankwood.ensembles.ranksvm",
    "RankingData": "rankwood.data.dataset",
    "bias_variance": "rankwood.evaluation.bias_variance",
    "bin": "rankwood.binning.binned:bin_data",
    "evaluate": "rankwood.evaluation.evaluate",
    "from_frame": "rankwood.data.tables",
    "load": "rankwood.ensembles.loading",
    "make_folds": "rankwood.data.folds",
    "make_ranking": "rankwood.data.synthetic",
    "normalise_per_query": "rankwood.data.normalise",
    "parse_measure": "rankwood.measures.parsing",
    "read_folds": "rankwood.data.folds",
    "read_letor": "rankwood.data.letor",
    "read_table": "rankwood.data.tables",
    "refit": "rankwood.ensembles.refitting",
    "sample_queries": "rankwood.data.splits",
    "save": "rankwood.ensembles.loading",
    "split_queries": "rankwood.data.splits",
    "write_letor": "rankwood.data.letor",
    "write_table": "rankwood.data.tables",
}

__all__ = [
    "GBRT",
    "AdaRank",
    "AveragedGBRT",
    "CompletelyRandomForest",
    "ExtraTrees",
    "InitializedGBRT",
    "LambdaMART",
    "MLPRanker",
    "NDCGBoost",
    "OrdinalRanker",
    "RandomForest",
    "RankBoost",
    "RankSVM",
    "RankingData",
    "bias_variance",
    "bin",
    "evaluate",
    "from_frame",
    "load",
    "make_folds",
    "make_ranking",
    "normalise_per_query",
    "parse_measure",
    "read_folds",
    "read_letor",
    "read_table",
    "refit",
    "sample_queries",
    "save",
    "split_queries",
    "write_letor",
    "write_table",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rankwood' has no attribute '{name}'")
    module, _, name_there = _MODULE_OF[name].partition(":")
    value = getattr(importlib.import_module(module), name_there or name)
    globals()[name] = value  # the next access is a plain look-up
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
