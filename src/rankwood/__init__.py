"""Rankwood: tree ensembles that learn to rank.

The public names live here and nowhere else. Each is imported from its module on first use, so that
``import rankwood`` costs next to nothing.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankwood.binning.binned import bin_data as bin  # noqa: A004 - rw.bin reads as what it does
    from rankwood.binning.folder import open_binned
    from rankwood.clicks.bias import PositionBias, position_bias
    from rankwood.clicks.judging import click_judgments
    from rankwood.clicks.measuring import InterleavingTest, counterfactual, interleave
    from rankwood.clicks.simulation import simulate_clicks
    from rankwood.data.dataset import RankingData
    from rankwood.data.features import normalise_per_query
    from rankwood.data.letor.text import read_letor, write_letor
    from rankwood.data.splits import make_folds, read_folds, sample_queries, split_queries
    from rankwood.data.synthetic import make_ranking, make_transfer
    from rankwood.data.tables import from_frame, read_table, write_table
    from rankwood.evaluation.compare import compare
    from rankwood.evaluation.drift import check_data
    from rankwood.evaluation.evaluate import evaluate
    from rankwood.evaluation.explain import explain, importance
    from rankwood.evaluation.plots import plot_history
    from rankwood.evaluation.significance import compare_values
    from rankwood.experiments.finished import (
        bundle_run,
        factorial_of_run,
        measure_run,
        run_fronts,
    )
    from rankwood.experiments.report import write_report
    from rankwood.experiments.results import read_run
    from rankwood.experiments.runner import run_experiment
    from rankwood.exports.exporting import export, import_model
    from rankwood.measures.measure import parse_measure
    from rankwood.models.early_exit import EarlyExit
    from rankwood.models.validate import LazyFeatures
    from rankwood.prepare.missing import FillMissing, PredictMissing
    from rankwood.prepare.transfer import common_features
    from rankwood.rankers.adaboost import AdaBoost
    from rankwood.rankers.blend import Blend
    from rankwood.rankers.boosted import GBRT, AveragedGBRT, LambdaMART
    from rankwood.rankers.broof.broof import BROOF
    from rankwood.rankers.deep_forest.deep_forest import DeepForest
    from rankwood.rankers.forests import CompletelyRandomForest, ExtraTrees, RandomForest
    from rankwood.rankers.initialized import InitializedGBRT
    from rankwood.rankers.linear import AdaRank, RankSVM
    from rankwood.rankers.mlp import MLPRanker
    from rankwood.rankers.ordinal import OrdinalRanker
    from rankwood.rankers.pairs import NDCGBoost, RankBoost
    from rankwood.rankers.save import load, refit, save
    from rankwood.rankers.search.bandit import Exp3P
    from rankwood.rankers.search.boosting_tree import BoostingTree
    from rankwood.studies.auto import AutoRanker
    from rankwood.studies.bias_variance import bias_variance
    from rankwood.studies.convergence import convergence
    from rankwood.studies.factorial import factorial, factorial_design
    from rankwood.studies.learning_curve import learning_curve
    from rankwood.studies.missing import compare_missing
    from rankwood.studies.sizes import best_sizes, quality_cost_curve, size_quality_front
    from rankwood.studies.transfer import add_model_features, select_similar, transfer_report
    from rankwood.studies.transfer_table import transfer_table
    from rankwood.studies.tune import tune
    from rankwood.training.bin_files import bin_files
    from rankwood.training.distribute import distribute

__version__ = "0.2.0"

# Where each public name is defined; after a colon, what it is called there.
_MODULE_OF = {
    "AdaBoost": "rankwood.rankers.adaboost",
    "AdaRank": "rankwood.rankers.linear",
    "AutoRanker": "rankwood.studies.auto",
    "AveragedGBRT": "rankwood.rankers.boosted",
    "BROOF": "rankwood.rankers.broof.broof",
    "Blend": "rankwood.rankers.blend",
    "BoostingTree": "rankwood.rankers.search.boosting_tree",
    "CompletelyRandomForest": "rankwood.rankers.forests",
    "DeepForest": "rankwood.rankers.deep_forest.deep_forest",
    "EarlyExit": "rankwood.models.early_exit",
    "Exp3P": "rankwood.rankers.search.bandit",
    "ExtraTrees": "rankwood.rankers.forests",
    "FillMissing": "rankwood.prepare.missing",
    "GBRT": "rankwood.rankers.boosted",
    "InitializedGBRT": "rankwood.rankers.initialized",
    "InterleavingTest": "rankwood.clicks.measuring",
    "LambdaMART": "rankwood.rankers.boosted",
    "LazyFeatures": "rankwood.models.validate",
    "MLPRanker": "rankwood.rankers.mlp",
    "NDCGBoost": "rankwood.rankers.pairs",
    "OrdinalRanker": "rankwood.rankers.ordinal",
    "PositionBias": "rankwood.clicks.bias",
    "PredictMissing": "rankwood.prepare.missing",
    "RandomForest": "rankwood.rankers.forests",
    "RankBoost": "rankwood.rankers.pairs",
    "RankSVM": "rankwood.rankers.linear",
    "RankingData": "rankwood.data.dataset",
    "add_model_features": "rankwood.studies.transfer",
    "best_sizes": "rankwood.studies.sizes",
    "bias_variance": "rankwood.studies.bias_variance",
    "bin": "rankwood.binning.binned:bin_data",
    "bin_files": "rankwood.training.bin_files",
    "bundle_run": "rankwood.experiments.finished",
    "check_data": "rankwood.evaluation.drift",
    "click_judgments": "rankwood.clicks.judging",
    "common_features": "rankwood.prepare.transfer",
    "compare": "rankwood.evaluation.compare",
    "compare_missing": "rankwood.studies.missing",
    "compare_values": "rankwood.evaluation.significance",
    "convergence": "rankwood.studies.convergence",
    "counterfactual": "rankwood.clicks.measuring",
    "distribute": "rankwood.training.distribute",
    "evaluate": "rankwood.evaluation.evaluate",
    "explain": "rankwood.evaluation.explain",
    "export": "rankwood.exports.exporting",
    "factorial": "rankwood.studies.factorial",
    "factorial_design": "rankwood.studies.factorial",
    "factorial_of_run": "rankwood.experiments.finished",
    "from_frame": "rankwood.data.tables",
    "import_model": "rankwood.exports.exporting",
    "importance": "rankwood.evaluation.explain",
    "interleave": "rankwood.clicks.measuring",
    "learning_curve": "rankwood.studies.learning_curve",
    "load": "rankwood.rankers.save",
    "make_folds": "rankwood.data.splits",
    "make_ranking": "rankwood.data.synthetic",
    "make_transfer": "rankwood.data.synthetic",
    "measure_run": "rankwood.experiments.finished",
    "normalise_per_query": "rankwood.data.features",
    "open_binned": "rankwood.binning.folder",
    "parse_measure": "rankwood.measures.measure",
    "plot_history": "rankwood.evaluation.plots",
    "position_bias": "rankwood.clicks.bias",
    "quality_cost_curve": "rankwood.studies.sizes",
    "read_folds": "rankwood.data.splits",
    "read_letor": "rankwood.data.letor.text",
    "read_run": "rankwood.experiments.results",
    "read_table": "rankwood.data.tables",
    "refit": "rankwood.rankers.save",
    "run_experiment": "rankwood.experiments.runner",
    "run_fronts": "rankwood.experiments.finished",
    "sample_queries": "rankwood.data.splits",
    "save": "rankwood.rankers.save",
    "select_similar": "rankwood.studies.transfer",
    "simulate_clicks": "rankwood.clicks.simulation",
    "size_quality_front": "rankwood.studies.sizes",
    "split_queries": "rankwood.data.splits",
    "transfer_report": "rankwood.studies.transfer",
    "transfer_table": "rankwood.studies.transfer_table",
    "tune": "rankwood.studies.tune",
    "write_letor": "rankwood.data.letor.text",
    "write_report": "rankwood.experiments.report",
    "write_table": "rankwood.data.tables",
}

__all__ = [
    "BROOF",
    "GBRT",
    "AdaBoost",
    "AdaRank",
    "AutoRanker",
    "AveragedGBRT",
    "Blend",
    "BoostingTree",
    "CompletelyRandomForest",
    "DeepForest",
    "EarlyExit",
    "Exp3P",
    "ExtraTrees",
    "FillMissing",
    "InitializedGBRT",
    "InterleavingTest",
    "LambdaMART",
    "LazyFeatures",
    "MLPRanker",
    "NDCGBoost",
    "OrdinalRanker",
    "PositionBias",
    "PredictMissing",
    "RandomForest",
    "RankBoost",
    "RankSVM",
    "RankingData",
    "add_model_features",
    "best_sizes",
    "bias_variance",
    "bin",
    "bin_files",
    "bundle_run",
    "check_data",
    "click_judgments",
    "common_features",
    "compare",
    "compare_missing",
    "compare_values",
    "convergence",
    "counterfactual",
    "distribute",
    "evaluate",
    "explain",
    "export",
    "factorial",
    "factorial_design",
    "factorial_of_run",
    "from_frame",
    "import_model",
    "importance",
    "interleave",
    "learning_curve",
    "load",
    "make_folds",
    "make_ranking",
    "make_transfer",
    "measure_run",
    "normalise_per_query",
    "open_binned",
    "parse_measure",
    "plot_history",
    "position_bias",
    "quality_cost_curve",
    "read_folds",
    "read_letor",
    "read_run",
    "read_table",
    "refit",
    "run_experiment",
    "run_fronts",
    "sample_queries",
    "save",
    "select_similar",
    "simulate_clicks",
    "size_quality_front",
    "split_queries",
    "transfer_report",
    "transfer_table",
    "tune",
    "write_letor",
    "write_report",
    "write_table",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name == "datasets":  # a module of its own: rankwood.datasets.chess()
        return importlib.import_module("rankwood.datasets")
    if name not in _MODULE_OF:
        said = f"module 'rankwood' has no attribute '{name}'"
        raise AttributeError(
            said, name=name, obj=sys.modules[__name__]
        )  # Python suggests the nearest
    module, _, name_there = _MODULE_OF[name].partition(":")
    value = getattr(importlib.import_module(module), name_there or name)
    globals()[name] = value  # the next access is a plain look-up
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "datasets"])
