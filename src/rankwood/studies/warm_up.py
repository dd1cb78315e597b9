"""Compilation of every kernel ahead of use: in the build of a container, before a test run, before the first request.

``warm_up`` runs the library on a few rows, so that each kernel is compiled for the types it is called with and stored
in the cache on disk. ``warm_up_scoring`` does the same for scoring and explaining alone, which is all a service needs.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rankwood._core import jit
from rankwood._core.checks import read_only


def warm_up(progress: Callable[[str], None] | None = None) -> int:
    """Compile all kernels by using the library on a few rows; returns how many kernels there are.

    A test fails if a kernel stays uncompiled, so every new kernel needs a call here. A second process helps.
    """
    jit.compile_ahead(TREES)
    for name, step in _steps():
        if progress is not None:
            progress(name)
        step()
    return len(jit.kernels())


def compile_task(task: str) -> None:
    """Compile the kernels of a task in a process that was started for it, and leave a mark that they are on disk."""
    jit.end_with_parent()
    TASKS[task]()
    mark = jit.task_mark(task)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def _grow_one_tree() -> None:
    """Compile the growing of a tree and nothing that comes before: the caller compiles that at the same time."""
    from rankwood.binning.bins import Bins
    from rankwood.trees.grower import Policies, grow_tree
    from rankwood.trees.row_order import as_matrix

    bins = Bins(
        np.array([0.5], np.float32), offsets=np.array([0, 1]), has_missing=np.zeros(1, bool)
    )
    matrix = as_matrix(np.arange(12, dtype=np.uint8)[None] % 2, bins)
    grow_tree(matrix, np.arange(12.0), Policies(), n_threads=1)


TREES = "trees"
TASKS: dict[str, Callable[[], None]] = {TREES: _grow_one_tree}


def _steps() -> Iterator[tuple[str, Callable[[], None]]]:
    yield "reading and writing LETOR text", _read_and_write
    yield "measures", _measure
    yield "forests", _grow_forests
    yield "trees in parts", _grow_in_parts
    yield "boosted trees", _boost
    yield "boosting on pairs", _boost_on_pairs
    yield "click logs", _train_on_clicks
    yield "linear rankers", _train_linear
    yield "scoring", _score
    yield "bias and variance", _compare_pairs


def _read_and_write() -> None:
    from rankwood.data.letor.text import read_letor, write_letor
    from rankwood.data.synthetic import make_ranking
    from rankwood.errors import DataError

    data = make_ranking(n_queries=3, docs_per_query=4, n_features=5, seed=0, doc_ids=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warm-up.txt"
        for skip_zeros in (False, True):
            write_letor(data, path, skip_zeros=skip_zeros)
            for order in ("ascending", "any"):
                read_letor(path, order=order, cache=False)
        path.write_text("high qid:1 1:0.5\n")
        with contextlib.suppress(DataError):  # an error names the word that it is about
            read_letor(path, cache=False)


def _measure() -> None:
    from rankwood.data.synthetic import make_ranking
    from rankwood.evaluation.evaluate import evaluate
    from rankwood.measures.measure import MEASURES, parse_measure
    from rankwood.measures.ranking import DOCUMENTS_PER_BLOCK, order_together

    data = make_ranking(n_queries=3, docs_per_query=4, n_features=5, seed=0, doc_ids=True)
    scores = data.features[:, 0]
    for text in MEASURES:
        parse_measure(text).per_query(scores, data)
    evaluate(scores, data, MEASURES, n_bootstrap=2)
    long_list = read_only(np.zeros(2 * DOCUMENTS_PER_BLOCK))  # threads order it together
    order_together(long_list, n_threads=2)


def _few_rows() -> Any:
    from rankwood.data.synthetic import make_ranking

    return make_ranking(n_queries=3, docs_per_query=4, n_features=5, seed=0)


def _grow_forests() -> None:
    import numpy as np

    from rankwood.binning.binned import bin_data
    from rankwood.models.early_exit import EarlyExit
    from rankwood.rankers.deep_forest.deep_forest import DeepForest
    from rankwood.rankers.forests import CompletelyRandomForest, ExtraTrees, RandomForest
    from rankwood.trees.grower import Policies, grow_tree
    from rankwood.trees.row_order import as_matrix

    data = _few_rows()
    bin_data(data, sample=5)  # a sample has to be searched for infinities outside it
    binned = bin_data(data)
    weights = np.linspace(0.5, 1.5, data.n_documents)
    forest = RandomForest(2, n_threads=1).fit(binned).forest_
    RandomForest(1, weighting="resample").fit(binned, sample_weight=weights)
    RandomForest(1, missing="own_child", monotone=[1, 0, 0, 0, 0]).fit(binned)
    ExtraTrees(1).fit(binned, sample_weight=weights)
    CompletelyRandomForest(1).fit(binned)
    n_copies = 5_000  # small data are grown by one thread
    matrix = as_matrix(np.tile(binned.codes, (1, n_copies)), binned.bins)
    grow_tree(matrix, np.tile(data.labels, n_copies), Policies(), n_threads=2)
    forest.predict(data)
    for cost in ("all", "path"):
        EarlyExit(every=1, drop=0.5).score(forest, data, cost=cost)
    forest.leaf_ids(data)
    forest.predict_binned(binned.codes, binned.bins)
    DeepForest(n_forests=2, n_trees=2, max_layers=2, patience=None).fit(data).predict(data)


def _grow_in_parts() -> None:
    """What the workers and the client of a cluster do."""
    from rankwood.binning.binned import bin_data
    from rankwood.trees.grower import Growth, Policies
    from rankwood.trees.leader import TreeLeader, grow_together
    from rankwood.trees.packing import DrawnRows, TargetRows, choose_units, whole_targets
    from rankwood.trees.parts import PartTree, TreePlan, without_rows
    from rankwood.trees.row_order import as_matrix

    binned = bin_data(_few_rows())
    matrix, n_rows = as_matrix(binned.codes, binned.bins), binned.n_rows
    for rule, weights in (("best", np.linspace(0.5, 1.5, n_rows)), ("completely_random", None)):
        policies = Policies(Growth(min_leaf=1), thresholds=rule)
        whole = whole_targets(TargetRows.of(binned.data.labels, weights), n_rows, centre=True)
        drawn = DrawnRows.of(np.arange(n_rows) % 2, whole)
        plan = TreePlan(policies, 0, choose_units(whole.scales, drawn.sizes()), whole.scales)
        parts = [PartTree(matrix, plan, drawn, 0, 1)]
        grow_together(TreeLeader(without_rows(matrix), plan), parts, reaches_all=True)


def _boost() -> None:
    from rankwood.losses.lambdarank import LambdaRank
    from rankwood.rankers.adaboost import AdaBoost
    from rankwood.rankers.boosted import GBRT, AveragedGBRT, LambdaMART
    from rankwood.rankers.broof.broof import BROOF
    from rankwood.rankers.initialized import InitializedGBRT
    from rankwood.rankers.ordinal import OrdinalRanker
    from rankwood.rankers.search.boosting_tree import BoostingTree

    data = _few_rows()
    GBRT(1, min_leaf=1, subsample=0.5).fit(data, valid=data)
    GBRT(2, min_leaf=1, features_per_tree=2, interactions=[[0]], dropout=1.0, l1=0.1).fit(data)
    for target in ("ndcg", "map", "mrr", "err"):
        LambdaMART(1, min_leaf=1, target=target).fit(data)
    lambdas = LambdaRank(data)  # what the CPU does of the lambdas that a GPU adds up
    lambdas.powers(np.zeros(data.n_documents), np.zeros(data.n_documents))
    lambdas.factors(np.zeros(data.n_queries))
    for loss in ("median", "height"):
        BROOF(loss, n_rounds=2, n_trees=4).fit(data)
    OrdinalRanker(InitializedGBRT(1, min_leaf=1, forest_trees=1)).fit(data)
    AveragedGBRT(1, 2, min_leaf=1).fit(data, valid=data)
    AdaBoost(1).fit(data)
    for max_leaves in (2, 3):
        base = LambdaMART(max_leaves=max_leaves, min_leaf=1)
        for search in ("beam", "hull"):
            BoostingTree(base, budget=2, search=search).fit(data, valid=data)


def _train_on_clicks() -> None:
    from rankwood.data.dataset import RankingData
    from rankwood.rankers.boosted import LambdaMART

    lists, clicks = np.array([0, 0, 1, 1]), np.array([1.0, 0.0, 0.0, 1.0])
    log = RankingData(np.eye(4, dtype=np.float32), clicks, lists, positions=np.array([1, 2, 1, 2]))
    LambdaMART(1, min_leaf=1, position_bias="joint", n_threads=1).fit(log)


def _boost_on_pairs() -> None:
    from rankwood.losses.pairs import graded_lists, ndcgboost_loss
    from rankwood.rankers.pairs import NDCGBoost, RankBoost

    data = _few_rows()
    NDCGBoost(1, min_leaf=1).fit(data)
    ndcgboost_loss(graded_lists(data, 1), "exponential").value(data.labels)
    RankBoost(1).fit(data)


def _train_linear() -> None:
    from rankwood.rankers.linear import AdaRank, RankSVM

    data = _few_rows()
    RankSVM(n_threads=1).fit(data)
    AdaRank(1, n_threads=1).fit(data)


def _score() -> None:
    warm_up_scoring()  # networks are trained by others, but scored by us


def _compare_pairs() -> None:
    import numpy as np

    from rankwood.studies.bias_variance import DocumentPairs

    data = _few_rows()
    scores = [np.arange(data.n_documents, dtype=np.float64)] * 2
    for max_pairs in (1, 100):  # drawn, and all
        DocumentPairs.of(data, "all", max_pairs, seed=0).decompose(scores, "half", 1)


def warm_up_scoring() -> None:
    """Compile the kernels of scoring, explaining and reading requests, by a tiny model of each kind and one row."""
    from rankwood.models.forest import Forest
    from rankwood.models.json_text import NamedColumns
    from rankwood.models.linear import LinearModel
    from rankwood.models.neural import NeuralModel
    from rankwood.models.validate import are_nodes_sound

    split = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0, 0],
        "left": [1, 0, 0],
        "right": [2, 0, 0],
        "missing": [1, 0, 0],
        "value": [0.0, 1.0, 2.0],
        "cover": [2.0, 1.0, 1.0],
    }
    document = np.zeros((1, 1), np.float32)
    forest = Forest.from_trees([split], n_features=1)
    are_nodes_sound(forest)  # small ones are checked without
    forest.predict(document)
    forest.explainer.contributions(document)
    LinearModel(np.ones(1), np.zeros(1), np.ones(1)).predict(document)
    one, unit = np.ones(1), np.ones(1, np.float32)
    NeuralModel(np.ones(2, np.int64), unit, unit, one, one, np.zeros(1, np.uint8)).predict(document)
    NamedColumns.of(["1"]).warm_up()
