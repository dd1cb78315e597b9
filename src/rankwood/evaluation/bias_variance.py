"""``bias_variance``: how far a ranker is off on average, and how much it depends on its training queries.

After Shivaswamy & Chandrashekar, *Bias-variance decomposition for ranking*, WSDM 2021; ``pairs.py`` defines the terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood import _checks, _random
from rankwood._threads import resolve_threads
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.ensembles.progress import Callback, Watch, check_listeners
from rankwood.errors import DataError
from rankwood.evaluation.bias_variance_results import BiasVariance, Conventions, FoldResult
from rankwood.evaluation.fits import (
    Parts,
    estimators_by_name,
    fitted,
    folds_of,
    parts_of,
    side_by_side,
)
from rankwood.evaluation.pairs import PAIRS, TIES, Pairs
from rankwood.measures.grouping import check_scores

__all__ = ["BiasVariance", "bias_variance"]

Layers = list[Floats]  # the scores of the test rows after each layer, the last ones are the model's


def bias_variance(
    estimator: Any,
    data: Any,
    test: RankingData | None = None,
    *,
    valid: Any = None,
    trainings: int = 5,
    pairs: str = "different",
    ties: str = "half",
    max_pairs: int = 10_000,
    seed: int = 0,
    n_threads: int | None = None,
    progress: Callback | None = None,
) -> BiasVariance:
    """Error, bias² and variance of the order of document pairs, over trainings on resampled queries.

    Each training sees as many queries as there are, drawn with replacement: a query that is drawn twice is there
    twice. Estimators that have a ``seed`` get another one in each training. All algorithms see the same samples and the
    same pairs. Values are means over a query's pairs, then over queries (by their weights, if there are any), then
    over folds.

    Parameters
    ----------
    estimator
        An estimator, or several by name. It is cloned, never fitted itself. One whose fitted model has
        ``predict_layers(X)``, the scores after each layer (rows × layers), is reported layer by layer too; a training
        with fewer layers than others counts with its last one.
    data
        The training data, beside ``test``; or folds: (train, validation, test) each, as ``read_folds`` gives them.
    test
        The data whose pairs are looked at.
    valid
        Validation data for the fits, beside ``test``; the same ones in each training. Folds have their own.
    trainings
        How often each algorithm is trained, in each fold; at least 2.
    pairs
        ``"different"``: pairs whose labels differ. ``"all"``: every pair, where of two equal labels neither should be
        above the other, so that any strict order of them is half wrong.
    ties
        What equal scores say of "above": ``"half"`` yes, or ``"strict"``: no.
    max_pairs
        The most pairs of a query that are looked at; of more, so many are drawn. The result says where.
    seed
        Same data, seed and version: same result, for any number of threads.
    n_threads
        How many trainings run side by side.
    progress
        A function that is told after each training.
    """
    algorithms = estimators_by_name(estimator)
    trainings = _checks.whole_number("trainings", trainings, 2, 1_000_000)
    max_pairs = _checks.whole_number("max_pairs", max_pairs, 1)
    seed = _checks.whole_number("seed", seed, 0)
    conventions = Conventions(
        _checks.one_of("pairs", pairs, PAIRS), _checks.one_of("ties", ties, TIES), max_pairs, seed
    )
    check_listeners(progress, ())
    threads = resolve_threads(n_threads)
    folds = folds_of(data, test, valid)
    watch = Watch(len(folds) * trainings * len(algorithms), progress, ())
    found: dict[str, list[FoldResult]] = {name: [] for name in algorithms}
    for number in range(len(folds)):
        fold = parts_of(folds[number], "pairs are made within queries")
        test_pairs = Pairs.of(fold.test, conventions.pairs, max_pairs, seed)
        job = _Job(list(algorithms.values()), fold, trainings, seed, number, threads)
        for name, layers in zip(algorithms, job.scores(watch), strict=True):
            values = [test_pairs.decompose(scores, ties, threads) for scores in layers]
            found[name].append(FoldResult.of(values, test_pairs, fold.test))
    return BiasVariance.of(found, trainings, conventions)


@dataclass(eq=False)
class _Job:
    """The trainings of every algorithm in one fold."""

    algorithms: list[Any]
    fold: Parts
    trainings: int
    seed: int
    number: int  # of the fold
    n_threads: int

    def scores(self, watch: Watch) -> list[list[list[Floats]]]:
        """The scores of the test rows, by algorithm, layer and training."""
        n_jobs = len(self.algorithms) * self.trainings
        by_algorithm: list[list[Layers]] = [[] for _ in self.algorithms]
        done = self.number * n_jobs
        trained = side_by_side(self._train, n_jobs, self.n_threads, watch, done)
        for job, layers in enumerate(trained):
            by_algorithm[job // self.trainings].append(layers)
        return [_by_layer(layers) for layers in by_algorithm]

    def _train(self, job: int) -> Layers:
        """Train an algorithm on a bootstrap sample of the queries; its scores of the test rows after each layer."""
        algorithm, training = divmod(job, self.trainings)
        iteration = self.number * self.trainings + training
        sample = resample(self.fold.train, _random.stream(self.seed, "resample", iteration))
        estimator = self.algorithms[algorithm]
        model = fitted(estimator, sample, self.fold.valid, iteration, self.n_threads)
        test = self.fold.test
        if not hasattr(model, "predict_layers"):
            return [check_scores(model.predict(test), test.n_documents)]
        found = np.asarray(model.predict_layers(test))
        if found.ndim != 2 or len(found) != test.n_documents or found.shape[1] == 0:
            raise DataError(
                f"predict_layers of {type(model).__name__} must give {test.n_documents:,} rows × layers, "
                f"got an array of {' × '.join(str(size) for size in found.shape)}."
            )
        return [check_scores(scores, test.n_documents) for scores in found.T]


def resample(data: RankingData, generator: np.random.Generator) -> RankingData:
    """As many queries as there are, drawn with replacement; each draw is a query of its own."""
    chosen = np.sort(generator.integers(data.n_queries, size=data.n_queries))
    sizes = np.diff(data.query_offsets)[chosen]
    ends = np.cumsum(sizes)
    shifts = np.repeat(data.query_offsets[chosen] - (ends - sizes), sizes)
    rows = data.row_order[np.arange(shifts.size) + shifts]
    return RankingData(
        data.features[rows],
        data.labels[rows],
        np.repeat(np.arange(chosen.size), sizes),
        None,
        None if data.row_weights is None else data.row_weights[rows],
        None if data.query_weights is None else data.query_weights[chosen],
        data.feature_names,
    )


def _by_layer(trained: list[Layers]) -> list[list[Floats]]:
    """The scores of each training, by layer; a training that has fewer layers answers with its last."""
    n_layers = max(len(layers) for layers in trained)
    return [
        [layers[min(layer, len(layers) - 1)] for layers in trained] for layer in range(n_layers)
    ]
