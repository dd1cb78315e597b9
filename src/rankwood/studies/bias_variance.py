"""``bias_variance``: how wrong a ranker is on average, and how much that depends on its training queries.

After Shivaswamy & Chandrashekar, *Bias-variance decomposition for ranking*, WSDM 2021. A training answers for two
documents of a query whether one is above the other. If p is the share of trainings that say yes, and t is the truth
(1 if the label is higher, else 0), then a pair has bias² (p - t)² and variance p (1 - p). Their sum is its error, the
share of wrong answers. Each pair is asked in both directions, since with ``ties="strict"`` a tie is "not above" in
either.

Terms
    position  an index of the test documents, grouped by query and sorted by descending label within each
    partner   the second document of a pair: its position is after the first, so its label is not higher
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks, random
from rankwood._core.checks import read_only
from rankwood._core.files import PLOTS
from rankwood._core.jit import kernel
from rankwood._core.threads import resolve_threads, run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.plots import stacked_bars
from rankwood.evaluation.results import Result, Tables
from rankwood.measures.ranking import check_scores, order
from rankwood.studies.fits import (
    FoldParts,
    estimators_by_name,
    fitted,
    folds_of,
    parts_of,
    side_by_side,
)
from rankwood.training.rounds import Callback, ProgressReporter, check_listeners

__all__ = ["BiasVariance", "bias_variance"]

PARTS = ("error", "bias²", "variance")
PAIRS = ("different", "all")
TIES = {"half": 0.5, "strict": 0.0}  # what a tie counts for "above"
_LEAST_PAIRS = 20_000  # per thread, some 0.5 ms
ERROR, BIAS, VARIANCE = range(3)  # the columns of ``sums``
N_SUMS = 3

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

    Each training sees queries drawn with replacement, as many as there are. A query that is drawn twice has twice the
    weight (``query_weights``), so that it never is in a bag, or a fold, and out of it at once: estimators of your own
    must use the weights. Estimators that have a ``seed`` get another one in each training. All algorithms see the same
    samples and the same pairs. Values are means over a query's pairs, then over queries (by their weights, if there are
    any), then over folds.

    Parameters
    ----------
    estimator
        An estimator, or several by name. It is cloned, never fitted itself. One whose fitted model has
        ``predict_layers(X)``, the scores after each layer (rows × layers), is reported layer by layer too; a training
        with fewer layers than others counts with its last one.
    data
        The training data, beside ``test``; or folds: (train, validation, test) each, as ``read_folds`` gives them.
    test
        The data whose pairs are compared.
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
        The most pairs of a query that are used; from more, so many are drawn. The result says how often.
    seed
        Same data, seed and version: same result, for any number of threads.
    n_threads
        How many trainings run in parallel.
    progress
        A function that is called after each training.
    """
    algorithms = estimators_by_name(estimator)
    trainings = checks.whole_number("trainings", trainings, 2, 1_000_000)
    max_pairs = checks.whole_number("max_pairs", max_pairs, 1)
    seed = checks.whole_number("seed", seed, 0)
    conventions = Conventions(
        checks.one_of("pairs", pairs, PAIRS), checks.one_of("ties", ties, TIES), max_pairs, seed
    )
    check_listeners(progress, ())
    threads = resolve_threads(n_threads)
    folds = folds_of(data, test, valid)
    reporter = ProgressReporter(len(folds) * trainings * len(algorithms), progress, ())
    results: dict[str, list[FoldResult]] = {name: [] for name in algorithms}
    for number in range(len(folds)):
        fold = parts_of(folds[number], "pairs are made within queries")
        test_pairs = DocumentPairs.of(fold.test, conventions.pairs, max_pairs, seed)
        job = _FoldTrainings(list(algorithms.values()), fold, trainings, seed, number, threads)
        for name, layers in zip(algorithms, job.scores(reporter), strict=True):
            values = [test_pairs.decompose(scores, ties, threads) for scores in layers]
            results[name].append(FoldResult.of(values, test_pairs, fold.test))
    return BiasVariance.of(results, trainings, conventions)


@dataclass(eq=False)
class _FoldTrainings:
    """The trainings of every algorithm in one fold."""

    algorithms: list[Any]
    fold: FoldParts
    trainings: int
    seed: int
    number: int  # of the fold
    n_threads: int

    def scores(self, reporter: ProgressReporter) -> list[list[list[Floats]]]:
        """The scores of the test rows, by algorithm, layer and training."""
        n_jobs = len(self.algorithms) * self.trainings
        by_algorithm: list[list[Layers]] = [[] for _ in self.algorithms]
        done = self.number * n_jobs
        trained = side_by_side(self._train, n_jobs, self.n_threads, reporter, done)
        for job, layers in enumerate(trained):
            by_algorithm[job // self.trainings].append(layers)
        return [_by_layer(layers) for layers in by_algorithm]

    def _train(self, job: int) -> Layers:
        """Train an algorithm on a bootstrap sample of the queries; its scores of the test rows after each layer."""
        algorithm, training = divmod(job, self.trainings)
        iteration = self.number * self.trainings + training
        sample = resample(self.fold.train, random.stream(self.seed, "resample", iteration))
        estimator = self.algorithms[algorithm]
        model = fitted(estimator, sample, self.fold.valid, iteration, self.n_threads)
        test = self.fold.test
        if not hasattr(model, "predict_layers"):
            return [check_scores(model.predict(test), test.n_documents)]
        layers = np.asarray(model.predict_layers(test))
        if layers.ndim != 2 or len(layers) != test.n_documents or layers.shape[1] == 0:
            raise DataError(
                f"predict_layers of {type(model).__name__} must give {test.n_documents:,} rows × layers, "
                f"got an array of {' × '.join(str(size) for size in layers.shape)}."
            )
        return [check_scores(scores, test.n_documents) for scores in layers.T]


def resample(data: RankingData, generator: np.random.Generator) -> RankingData:
    """As many queries as there are, drawn with replacement; how often a query was drawn multiplies its weight.

    A query is there once, however often it was drawn. As several queries it would stand in a tree's bag and out of it,
    or in several folds, at once: then no score would be held out.
    """
    drawn = generator.integers(data.n_queries, size=data.n_queries)
    times = np.bincount(drawn, minlength=data.n_queries)
    chosen = np.flatnonzero(times)
    sample = data.take_queries(chosen)
    weights = times[chosen] * data.judgments.query_weights_or_ones[chosen]
    return dataclasses.replace(sample, query_weights=weights)


def _by_layer(trained: list[Layers]) -> list[list[Floats]]:
    """The scores of each training, by layer; a training with fewer layers counts with its last."""
    n_layers = max(len(layers) for layers in trained)
    return [
        [layers[min(layer, len(layers) - 1)] for layers in trained] for layer in range(n_layers)
    ]


# Results: error, bias² and variance by algorithm, layer and fold.


@dataclass(frozen=True)
class Conventions:
    """What was compared, and how."""

    pairs: str
    ties: str
    max_pairs: int
    seed: int


@dataclass(frozen=True, eq=False)
class FoldResult:
    """One algorithm in one fold.

    ``per_query`` has an array per layer, queries × (error, bias², variance) in the order of the test queries, NaN for
    queries without pairs; ``means`` their means, layers × 3.
    """

    per_query: tuple[Floats, ...] = field(repr=False)
    means: Floats
    n_queries: int  # that have pairs
    n_without_pairs: int
    n_pairs: int  # that were used
    n_sampled: int  # queries of whose pairs only some were used

    @classmethod
    def of(cls, per_query: Sequence[Floats], pairs: DocumentPairs, test: RankingData) -> FoldResult:
        """The means over the queries that have pairs."""
        has_pairs = pairs.counts > 0
        weights = test.judgments.query_weights_or_ones[has_pairs]
        if weights.sum() <= 0:
            weights = np.ones(weights.size)
        means = [np.average(values[has_pairs], axis=0, weights=weights) for values in per_query]
        return cls(
            tuple(per_query),
            np.array(means),
            int(has_pairs.sum()),
            int((~has_pairs).sum()),
            int(pairs.used.sum()),
            int(pairs.sampled.size),
        )

    def layer(self, number: int) -> Floats:
        """Error, bias² and variance after a layer; a fold with fewer layers counts with its last."""
        values: Floats = self.means[min(number, len(self.means) - 1)]
        return values


@dataclass(frozen=True)
class Decomposition:
    """Error = bias² + variance, means over folds."""

    error: float
    bias_squared: float
    variance: float

    def to_dict(self) -> dict[str, float]:
        """The three numbers by name."""
        return {
            "error": self.error,
            "bias_squared": self.bias_squared,
            "variance": self.variance,
        }


@dataclass(frozen=True)
class AlgorithmResult(Decomposition):
    """The decomposition of one algorithm; ``layers`` has one after each layer where its models have several."""

    folds: tuple[FoldResult, ...] = field(repr=False)
    layers: tuple[Decomposition, ...] = ()

    @classmethod
    def of(cls, folds: Sequence[FoldResult]) -> AlgorithmResult:
        """The means over folds, layer by layer; the last layer is the algorithm's own."""
        n_layers = max(len(fold.means) for fold in folds)
        layers = [
            np.mean([fold.layer(number) for fold in folds], axis=0) for number in range(n_layers)
        ]
        by_layer = tuple(Decomposition(*map(float, values)) for values in layers)
        whole = by_layer[-1].to_dict()
        return cls(**whole, folds=tuple(folds), layers=by_layer if n_layers > 1 else ())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON, without values per query."""
        return {
            **super().to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
            "folds": [Decomposition(*map(float, fold.means[-1])).to_dict() for fold in self.folds],
        }


@dataclass(frozen=True, eq=False)
class BiasVariance(Result):
    """Error, bias² and variance of each algorithm: ``result["RandomForest"].variance``."""

    algorithms: Mapping[str, AlgorithmResult]
    trainings: int
    conventions: Conventions

    @classmethod
    def of(
        cls, results: Mapping[str, list[FoldResult]], trainings: int, conventions: Conventions
    ) -> BiasVariance:
        """The result of all folds."""
        algorithms = {name: AlgorithmResult.of(folds) for name, folds in results.items()}
        return cls(algorithms, trainings, conventions)

    def __getitem__(self, name: str) -> AlgorithmResult:
        if name not in self.algorithms:
            raise UnknownName("algorithm", str(name), self.algorithms)
        return self.algorithms[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.algorithms)

    def __len__(self) -> int:
        return len(self.algorithms)

    def rows(self) -> list[tuple[str, Decomposition]]:
        """Names with their decompositions: each algorithm, followed by its layers."""
        rows: list[tuple[str, Decomposition]] = []
        for name, result in self.algorithms.items():
            rows.append((name, result))
            rows += [
                (f"{name}, layer {number}", layer) for number, layer in enumerate(result.layers, 1)
            ]
        return rows

    def notes(self) -> list[str]:
        """What was compared, and what was left out."""
        folds = next(iter(self.algorithms.values())).folds
        n_pairs = sum(fold.n_pairs for fold in folds)
        kind = "labels differ" if self.conventions.pairs == "different" else "all"
        lines = [
            f"{self.trainings} trainings on resampled queries in each of {len(folds)} folds"
            if len(folds) > 1
            else f"{self.trainings} trainings on resampled queries",
            f"{n_pairs:,} pairs ({kind}) of {sum(fold.n_queries for fold in folds):,} queries, "
            f"ties {self.conventions.ties}",
        ]
        without = sum(fold.n_without_pairs for fold in folds)
        if without:
            lines.append(f"queries without pairs, which do not count: {without:,}")
        sampled = sum(fold.n_sampled for fold in folds)
        if sampled:
            lines.append(
                f"{sampled:,} queries have more than {self.conventions.max_pairs:,} pairs: so many were drawn of each"
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        folds = next(iter(self.algorithms.values())).folds
        counts = ("n_queries", "n_without_pairs", "n_pairs", "n_sampled")
        return {
            "algorithms": {name: result.to_dict() for name, result in self.algorithms.items()},
            "trainings": self.trainings,
            "n_folds": len(folds),
            **vars(self.conventions),
            **{name: sum(getattr(fold, name) for fold in folds) for name in counts},
        }

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a row per algorithm and layer; the layer of the model as a whole is empty."""
        self.write_csv(path)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw bias² and variance as stacked bars, whose length is the error; the path's ending names the format."""
        rows = self.rows()
        parts = {
            "bias²": [part.bias_squared for _, part in rows],
            "variance": [part.variance for _, part in rows],
        }
        stacked_bars(path, [name for name, _ in rows], parts, "error = bias² + variance")

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a table (.csv) or a plot (.png, .svg, .pdf), by the path's ending."""
        ending = Path(path).suffix.lower()
        if ending == ".csv":
            self.to_csv(path)
        elif ending in PLOTS:
            self.plot(path)
        else:
            raise ParameterError(
                f"{os.fspath(path)} must end in .csv for a table, or in .png, .svg or .pdf for a plot."
            )

    def __str__(self) -> str:
        rows = self._tables()[""]
        width = max(len("algorithm"), *(len(row["algorithm"]) for row in rows))
        head, *lines = [
            f"{name:<{width}}" + "".join(f"{cell:>10}" for cell in cells)
            for name, *cells in (("algorithm", *PARTS), *(row.values() for row in rows))
        ]
        return "\n".join([head, "-" * len(head), *lines, "", *self.notes()])

    def _tables(self) -> Tables:
        return {
            "": [
                {"algorithm": name}
                | {part: f"{value:.4f}" for part, value in zip(PARTS, figures, strict=True)}
                for name, result in self.rows()
                for figures in [Decomposition.to_dict(result).values()]
            ]
        }

    _footnotes = notes

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"algorithm": name, "layer": number or ""} | Decomposition.to_dict(part)
            for name, result in self.algorithms.items()
            for number, part in enumerate([result, *result.layers])
        ]


# Pairs of documents of the test queries.


@dataclass(frozen=True, eq=False)
class DocumentPairs:
    """The pairs of each query: all of them, or as many as were drawn.

    ``rows`` gives the row of the data at each position; positions are grouped by query and sorted by descending label.
    The partners of a position are those from ``partners`` to the end of its query. ``whole`` and ``sampled`` are
    numbers of queries; the pairs of the latter are two rows of positions in ``drawn``, from ``starts`` on.
    """

    rows: Rows
    offsets: Rows
    labels: Floats
    partners: Rows
    counts: Rows  # pairs of each query that there are
    whole: Rows
    sampled: Rows
    starts: Rows
    drawn: Rows

    @classmethod
    def of(cls, data: RankingData, pairs: str, max_pairs: int, seed: int) -> DocumentPairs:
        """The pairs of ``data``, at most ``max_pairs`` of a query, drawn without replacement."""
        offsets = data.query_offsets
        grouped = read_only(np.ascontiguousarray(data.labels[data.row_order]))
        by_label = order(grouped, offsets).order
        labels = grouped[by_label]
        partners = _partners(labels, offsets, pairs)
        per_position = np.repeat(offsets[1:], np.diff(offsets)) - partners
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(per_position)])
        counts = totals[offsets[1:]] - totals[offsets[:-1]]
        if not counts.any():
            raise DataError(_nothing_to_compare(pairs))
        sampled = np.flatnonzero(counts > max_pairs)
        drawn = [
            _draw(query, totals, offsets, partners, max_pairs, seed) for query in sampled.tolist()
        ]
        return cls(
            data.row_order[by_label],
            read_only(offsets),
            read_only(labels),
            read_only(partners),
            counts,
            read_only(np.flatnonzero((counts > 0) & (counts <= max_pairs))),
            read_only(sampled),
            read_only(np.arange(sampled.size + 1, dtype=np.int64) * max_pairs),
            read_only(np.concatenate([np.zeros((2, 0), np.int64), *drawn], axis=1)),
        )

    @property
    def used(self) -> Rows:
        """How many pairs of each query are used."""
        used = self.counts.copy()
        used[self.sampled] = np.diff(self.starts)
        return used

    def decompose(self, scores: Sequence[Floats], ties: str, n_threads: int | None) -> Floats:
        """Error, bias² and variance of each query (rows), given the scores of each training.

        They are means over the query's pairs, NaN for a query without pairs.
        """
        by_position = np.stack(list(scores), axis=1)[self.rows]
        sums: Floats = np.zeros((self.counts.size, N_SUMS))
        votes = Votes(self.labels, read_only(np.ascontiguousarray(by_position)), TIES[ties])
        for add_pairs, *lists in (
            (add_every_pair, self.whole, self.offsets, self.partners),
            (add_drawn_pairs, self.sampled, self.starts, self.drawn),
        ):
            n_queries, n_pairs = lists[0].size, int(self.used[lists[0]].sum())
            least = 1 + n_queries * _LEAST_PAIRS // max(1, n_pairs)
            run_blocks(add_pairs, n_queries, *lists, votes, sums, n_threads=n_threads, least=least)
        asked = 2.0 * self.used[:, np.newaxis]
        means: Floats = np.full(sums.shape, np.nan)
        np.divide(sums, asked, out=means, where=asked > 0)
        return means


def _partners(labels: Floats, offsets: Rows, pairs: str) -> Rows:
    """The first partner of each position: the next one with a lower label, or the next one."""
    positions = np.arange(labels.size)
    if pairs == "all":
        return positions + 1
    is_last = np.ones(labels.size, bool)  # among the positions of its query with its label
    is_last[:-1] = labels[1:] != labels[:-1]
    is_last[offsets[1:] - 1] = True
    ends = np.flatnonzero(is_last)
    return ends[np.searchsorted(ends, positions)] + 1


def _draw(query: int, totals: Rows, offsets: Rows, partners: Rows, n_pairs: int, seed: int) -> Rows:
    """Random pairs of a query: two rows of positions. Pairs are numbered by their first position, then the second."""
    before, after = totals[offsets[query]], totals[offsets[query + 1]]
    generator = random.stream(seed, "pairs of a query", query)
    numbers = np.sort(generator.choice(int(after - before), n_pairs, replace=False, shuffle=False))
    numbers = numbers + before
    one = np.searchsorted(totals, numbers, side="right") - 1
    return np.stack([one, partners[one] + numbers - totals[one]])


def _nothing_to_compare(pairs: str) -> str:
    if pairs == "all":
        return "no query of the test data has two documents, so there is no pair to compare."
    return (
        "no query of the test data has documents of different labels, so no document is better than another. "
        "Look at the labels and the query ids."
    )


# Kernels: error, bias² and variance of pairs, summed by query.


class Votes(NamedTuple):
    """What the trainings answer by: labels and scores of the positions, and what a tie counts for "above"."""

    labels: Array
    scores: Array  # positions × trainings
    tie: float


@kernel
def add_pair(one: int, other: int, votes: Votes, query: int, sums: Array) -> None:
    """Add the answers of the trainings about a pair to the sums of its query, in both directions.

    p is the share of trainings that say yes, t the truth: 1 for the higher label, 0 for the lower, and 0 both ways for
    equal labels. The error is the share of wrong answers, bias² is (p - t)², variance p (1 - p).
    """
    scores, tie = votes.scores, votes.tie
    n_trainings = scores.shape[1]
    above = 0.0
    below = 0.0
    for training in range(n_trainings):
        if scores[one, training] > scores[other, training]:
            above += 1.0
        elif scores[one, training] < scores[other, training]:
            below += 1.0
        else:
            above += tie
            below += tie
    share = above / n_trainings
    share_back = below / n_trainings
    truth = 1.0 if votes.labels[one] > votes.labels[other] else 0.0
    wrong = 1.0 - share if truth == 1.0 else share
    sums[query, ERROR] += wrong + share_back
    sums[query, BIAS] += (share - truth) * (share - truth) + share_back * share_back
    sums[query, VARIANCE] += share * (1.0 - share) + share_back * (1.0 - share_back)


@kernel
def add_every_pair(
    first: int, last: int, queries: Array, offsets: Array, partner: Array, votes: Votes, sums: Array
) -> None:
    """Sums over all pairs of the queries: the partners of a document are from ``partner`` to the end of its query."""
    for number in range(first, last):
        query = queries[number]
        for one in range(offsets[query], offsets[query + 1]):
            for other in range(partner[one], offsets[query + 1]):
                add_pair(one, other, votes, query, sums)


@kernel
def add_drawn_pairs(
    first: int, last: int, queries: Array, starts: Array, drawn: Array, votes: Votes, sums: Array
) -> None:
    """Sums over the pairs that were drawn: those of the query at ``number`` begin at ``starts[number]``."""
    for number in range(first, last):
        for pair in range(starts[number], starts[number + 1]):
            add_pair(drawn[0, pair], drawn[1, pair], votes, queries[number], sums)
