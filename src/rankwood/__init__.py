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
    from rankwood.data.synthetic_transfer import make_transfer
    from rankwood.data.tables import from_frame, read_table, write_table
    from rankwood.ensembles.adaboost import AdaBoost
    from rankwood.ensembles.adarank import AdaRank
    from rankwood.ensembles.averaged_gbrt import AveragedGBRT
    from rankwood.ensembles.bandit import Exp3P
    from rankwood.ensembles.boosting_tree import BoostingTree
    from rankwood.ensembles.broof import BROOF
    from rankwood.ensembles.deep_forest import DeepForest
    from rankwood.ensembles.forests import CompletelyRandomForest, ExtraTrees, RandomForest
    from rankwood.ensembles.gbrt import GBRT
    from rankwood.ensembles.initialized_gbrt import InitializedGBRT
    from rankwood.ensembles.lambdamart import LambdaMART
    from rankwood.ensembles.loading import load, save
    from rankwood.ensembles.missing import FillMissing
    from rankwood.ensembles.missing_prediction import PredictMissing
    from rankwood.ensembles.mlp import MLPRanker
    from rankwood.ensembles.ndcgboost import NDCGBoost
    from rankwood.ensembles.ordinal import OrdinalRanker
    from rankwood.ensembles.rankboost import RankBoost
    from rankwood.ensembles.ranksvm import RankSVM
    from rankwood.ensembles.refitting import refit
    from rankwood.ensembles.transfer import select_similar
    from rankwood.ensembles.transfer_features import add_model_features, common_features
    from rankwood.ensembles.transfer_report import transfer_report
    from rankwood.evaluation.bias_variance import bias_variance
    from rankwood.evaluation.compare import compare
    from rankwood.evaluation.compare_missing import compare_missing
    from rankwood.evaluation.convergence import convergence
    from rankwood.evaluation.curves import quality_cost_curve
    from rankwood.evaluation.evaluate import evaluate
    from rankwood.evaluation.explanation import explain
    from rankwood.evaluation.factorial import factorial
    from rankwood.evaluation.factorial_design import factorial_design
    from rankwood.evaluation.fronts import size_quality_front
    from rankwood.evaluation.importance import importance
    from rankwood.evaluation.learning_curve import learning_curve
    from rankwood.evaluation.significance import compare_values
    from rankwood.experiments.reading import read_run
    from rankwood.experiments.report import write_report
    from rankwood.experiments.runner import run_experiment
    from rankwood.measures.parsing import parse_measure
    from rankwood.models.early_exit import EarlyExit
    from rankwood.models.lazy import LazyFeatures

__version__ = "0.1.0"

# Where each public name is defined; after a colon, what it is called there.
_MODULE_OF = {
    "AdaBoost": "rankwood.ensembles.adaboost",
    "AdaRank": "rankwood.ensembles.adarank",
    "AveragedGBRT": "rankwood.ensembles.averaged_gbrt",
    "BROOF": "rankwood.ensembles.broof",
    "BoostingTree": "rankwood.ensembles.boosting_tree",
    "CompletelyRandomForest": "rankwood.ensembles.forests",
    "DeepForest": "rankwood.ensembles.deep_forest",
    "EarlyExit": "rankwood.models.early_exit",
    "Exp3P": "rankwood.ensembles.bandit",
    "ExtraTrees": "rankwood.ensembles.forests",
    "FillMissing": "rankwood.ensembles.missing",
    "GBRT": "rankwood.ensembles.gbrt",
    "InitializedGBRT": "rankwood.ensembles.initialized_gbrt",
    "LambdaMART": "rankwood.ensembles.lambdamart",
    "LazyFeatures": "rankwood.models.lazy",
    "MLPRanker": "rankwood.ensembles.mlp",
    "NDCGBoost": "rankwood.ensembles.ndcgboost",
    "OrdinalRanker": "rankwood.ensembles.ordinal",
    "PredictMissing": "rankwood.ensembles.missing_prediction",
    "RandomForest": "rankwood.ensembles.forests",
    "RankBoost": "rankwood.ensembles.rankboost",
    "RankSVM": "rankwood.ensembles.ranksvm",
    "RankingData": "rankwood.data.dataset",
    "add_model_features": "rankwood.ensembles.transfer_features",
    "bias_variance": "rankwood.evaluation.bias_variance",
    "bin": "rankwood.binning.binned:bin_data",
    "common_features": "rankwood.ensembles.transfer_features",
    "compare": "rankwood.evaluation.compare",
    "compare_missing": "rankwood.evaluation.compare_missing",
    "compare_values": "rankwood.evaluation.significance",
    "convergence": "rankwood.evaluation.convergence",
    "evaluate": "rankwood.evaluation.evaluate",
    "explain": "rankwood.evaluation.explanation",
    "factorial": "rankwood.evaluation.factorial",
    "factorial_design": "rankwood.evaluation.factorial_design",
    "from_frame": "rankwood.data.tables",
    "importance": "rankwood.evaluation.importance",
    "learning_curve": "rankwood.evaluation.learning_curve",
    "load": "rankwood.ensembles.loading",
    "make_folds": "rankwood.data.folds",
    "make_ranking": "rankwood.data.synthetic",
    "make_transfer": "rankwood.data.synthetic_transfer",
    "normalise_per_query": "rankwood.data.normalise",
    "parse_measure": "rankwood.measures.parsing",
    "quality_cost_curve": "rankwood.evaluation.curves",
    "read_folds": "rankwood.data.folds",
    "read_letor": "rankwood.data.letor",
    "read_run": "rankwood.experiments.reading",
    "read_table": "rankwood.data.tables",
    "refit": "rankwood.ensembles.refitting",
    "run_experiment": "rankwood.experiments.runner",
    "sample_queries": "rankwood.data.splits",
    "save": "rankwood.ensembles.loading",
    "select_similar": "rankwood.ensembles.transfer",
    "size_quality_front": "rankwood.evaluation.fronts",
    "split_queries": "rankwood.data.splits",
    "transfer_report": "rankwood.ensembles.transfer_report",
    "write_letor": "rankwood.data.letor",
    "write_report": "rankwood.experiments.report",
    "write_table": "rankwood.data.tables",
}

__all__ = [
    "BROOF",
    "GBRT",
    "AdaBoost",
    "AdaRank",
    "AveragedGBRT",
    "BoostingTree",
    "CompletelyRandomForest",
    "DeepForest",
    "EarlyExit",
    "Exp3P",
    "ExtraTrees",
    "FillMissing",
    "InitializedGBRT",
    "LambdaMART",
    "LazyFeatures",
    "MLPRanker",
    "NDCGBoost",
    "OrdinalRanker",
    "PredictMissing",
    "RandomForest",
    "RankBoost",
    "RankSVM",
    "RankingData",
    "add_model_features",
    "bias_variance",
    "bin",
    "common_features",
    "compare",
    "compare_missing",
    "compare_values",
    "convergence",
    "evaluate",
    "explain",
    "factorial",
    "factorial_design",
    "from_frame",
    "importance",
    "learning_curve",
    "load",
    "make_folds",
    "make_ranking",
    "make_transfer",
    "normalise_per_query",
    "parse_measure",
    "quality_cost_curve",
    "read_folds",
    "read_letor",
    "read_run",
    "read_table",
    "refit",
    "run_experiment",
    "sample_queries",
    "save",
    "select_similar",
    "size_quality_front",
    "split_queries",
    "transfer_report",
    "write_letor",
    "write_report",
    "write_table",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name == "datasets":  # a module of its own: rankwood.datasets.chess()
        return importlib.import_module("rankwood.datasets")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rankwood' has no attribute '{name}'")
    module, _, name_there = _MODULE_OF[name].partition(":")
    value = getattr(importlib.import_module(module), name_there or name)
    globals()[name] = value  # the next access is a plain look-up
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "datasets"])
