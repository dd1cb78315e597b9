"""``MLPRanker``: a neural network, the baseline that tree ensembles are compared with.

This is the only module that imports PyTorch, which the extra ``neural`` brings, and it does so in functions only.

The loss is NDCGLoss2++, a smooth bound of 1 - NDCG (Wang, Li, Golbandi, Bendersky & Najork, *The LambdaLoss framework
for ranking metric optimization*, CIKM 2018). For a query it is

    Σ_{y_i > y_j} (μ δ_ij + |1/D_i - 1/D_j|) · |G_i - G_j| · log2(1 + exp(-σ (s_i - s_j)))

with D_i = log2(1 + rank of i by the current scores), δ_ij = |1/D(k) - 1/D(k + 1)| for D(k) = log2(1 + k) and k the
distance of the two ranks, and G_i = (2^y_i - 1) / ideal DCG. The weights of pairs are constants of a step: ranks have
no gradient.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood._core import checks, random
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Features, Floats, Rows
from rankwood.errors import DataError, MissingExtra, ParameterError, RunError
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure
from rankwood.measures.ranking import order
from rankwood.models.neural import NeuralModel, refuse_infinite, signed_logarithm, standardise
from rankwood.rankers.base import Ranker
from rankwood.rankers.linear import in_order_of, refuse_without_pairs
from rankwood.rankers.parameters import (
    SEED_AND_THREADS,
    OneOf,
    Real,
    Whole,
    measure_of_rankings,
    parameter,
)
from rankwood.training.inputs import weights_of_rows
from rankwood.training.rounds import BEST, Callback, EarlyStopping, needs_validation, patience_of

MU = 10.0  # the weight of δ that the authors use
_MOST_UNITS = 1_000_000
DEVICES = ("auto", "cpu", "cuda")
_LOSS = "The steepness of the loss, and what the distance of two ranks counts in it."
_RUN = SEED_AND_THREADS + " Threads are for scoring."
_LISTENERS = """Functions that are told of every epoch: see ``Progress``. A callback that returns True ends the
    training."""
_SKEWED = 1.0  # the skewness of an exponential distribution is 2, of a normal one 0
_PAIRS_AT_ONCE = 4_000_000  # cells of lists × positions × positions in memory: 16 MB per array


class MLPRanker(Ranker):
    """A multilayer perceptron trained for NDCG with the loss NDCGLoss2++ (Wang et al. 2018; Pobrotyn et al. 2020).

    Training needs PyTorch, which the extra ``neural`` brings; a trained model scores without it. Features are
    standardised inside, skewed ones after their logarithm; a missing value counts as the mean. On the processor the
    same data and seed give the same model, for which PyTorch is kept to one thread.

    Attributes
    ----------
    neural_
        The network, as a ``NeuralModel``.
    history_
        The measure on the validation data after each epoch.
    train_history_
        The mean loss of a query in each epoch, with dropout.
    best_iteration_
        How many epochs gave the best value; all of them without validation data.
    stopped_because_
        Why training stopped.
    """

    without_effect = ()  # the bits of a network depend on its device
    _signature = (
        "hidden dropout learning_rate n_epochs batch_size max_list sigma mu early_stopping measure device seed "
        "n_threads progress callbacks"
    )
    _model = "neural_"
    _compiles = ""

    hidden: Any = parameter(
        default=(256, 512, 1024, 512, 256),
        doc="""Units of each hidden layer: a list of numbers, or a text such as "256-128".""",
        check=lambda _, value: widths_of(value),
    )
    dropout: float = parameter(
        default=0.3,
        doc="The share of hidden units that a step of training leaves out.",
        check=Real("[0, 1)"),
    )
    learning_rate: float = parameter(
        default=1e-3,
        doc="The step size of the optimiser, Adam; for trees, what is taken of each.",
        check=Real("(0, inf)"),
    )
    n_epochs: int = parameter(
        default=100,
        doc="How often training goes through all queries, or the most it may with ``early_stopping``.",
        check=Whole(1),
    )
    batch_size: int = parameter(default=64, doc="Queries in a step.", check=Whole(1))
    max_list: int = parameter(
        default=1000,
        doc="""The most documents of a query in a step; of longer queries so many are drawn anew in each epoch.""",
        check=Whole(2),
    )
    sigma: float = parameter(default=1.0, doc=_LOSS, check=Real("(0, inf)"))
    mu: float = parameter(default=MU, doc=_LOSS, check=Real("[0, inf)"))
    early_stopping: int | str | None = parameter(
        default=BEST,
        doc="""Where there are validation data, the best epoch is kept in any case. A number also stops when the measure
        has not improved for so many epochs; without validation data it is an error.""",
    )
    measure: str = parameter(
        default="ndcg@10",
        doc="What is looked at on the validation data.",
        check=measure_of_rankings,
    )
    device: str = parameter(
        default="auto",
        doc="""Where to train: "cpu", "cuda" (a graphics card; bits may differ), or "auto": a card if there is one.""",
        check=OneOf(DEVICES),
    )
    seed: int = parameter(default=0, doc=_RUN, kw_only=True)
    n_threads: int | None = parameter(default=None, doc=_RUN, kw_only=True)
    progress: Callback | None = parameter(default=None, doc=_LISTENERS, kw_only=True)
    callbacks: Sequence[Callback] = parameter(default=(), doc=_LISTENERS, kw_only=True)

    def _learn(self, X: Any, data: RankingData, valid: RankingData | None) -> None:  # noqa: ARG002, N803
        import_torch()
        if data.n_documents == 0:
            raise DataError("there are no rows to learn from.")
        refuse_without_pairs(data)
        if needs_validation(self.early_stopping) and valid is None:
            raise ParameterError("early_stopping needs validation data: pass valid.")
        if valid is not None:
            if valid.query_ids is None:
                raise DataError(f"valid has no query ids, which {self.measure} needs.")
            valid = in_order_of(data, valid)
        standards = Standards.of(data.features, weights_of_rows(data))
        lists = QueryLists.of(data, standards)
        with one_thread():
            training = Training(self._plan(data), lists, device_of(self.device))
            self._train(training, data, standards, valid)

    def _train(
        self, training: Training, data: RankingData, standards: Standards, valid: RankingData | None
    ) -> None:
        """Epoch after epoch, until there are enough or the measure no longer improves; the best one is kept."""
        measure, stopping = (
            parse_measure(self.measure),
            EarlyStopping(patience_of(self.early_stopping), False),
        )
        rounds = self._rounds(self.n_epochs, stopping=stopping, judges_last=True)
        self.train_history_: list[float] = []
        for number in rounds:
            epoch = number + 1
            self.train_history_.append(training.epoch(number))
            value = None
            if valid is not None:
                model = self._network(training.arrays(), data, standards)
                scores = model.predict(valid, n_threads=self.n_threads)
                value = mean_value(measure, scores, valid)
                stopping.history.append(value)
            if stopping.best_iteration in (0, epoch):  # 0: nothing to choose by
                self.best_iteration_, arrays = epoch, training.arrays()
            rounds.finish(value)
        self.stopped_because_ = rounds.stopped_because
        self.history_ = stopping.history
        self.neural_ = self._network(arrays, data, standards)

    def _network(
        self, arrays: tuple[Array, Array], data: RankingData, standards: Standards
    ) -> NeuralModel:
        """The model of weights and biases."""
        return NeuralModel(
            np.array(self._plan(data).widths, np.int64),
            *arrays,
            standards.centre,
            standards.spread,
            standards.is_skewed,
            data.feature_names,
        )

    def _plan(self, data: RankingData) -> TrainingPlan:
        return TrainingPlan(
            (data.n_features, *widths_of(self.hidden), 1),
            float(self.dropout),
            float(self.learning_rate),
            self.batch_size,
            self.max_list,
            float(self.sigma),
            float(self.mu),
            self.seed,
        )

    def _as_chosen(self) -> dict[str, Any]:
        return {"n_epochs": self.best_iteration_, "early_stopping": None}

    @property
    def feature_importances_(self) -> Floats:
        """A network has none."""
        raise AttributeError("a network does not tell how much each feature contributes.")


def widths_of(hidden: Any) -> tuple[int, ...]:
    """Units of each hidden layer: from numbers, one number, or a text such as "256-128"; at least one layer."""
    given = hidden.replace(",", "-").split("-") if isinstance(hidden, str) else hidden
    listed = [given] if isinstance(given, int | np.integer) else given
    try:
        widths = [int(width) if isinstance(width, str) else width for width in listed]
        units = tuple(checks.whole_number("hidden", width, 1, _MOST_UNITS) for width in widths)
    except (TypeError, ValueError):
        units = ()
    if not units:
        raise ParameterError(
            f"hidden must be numbers of units from 1 to {_MOST_UNITS:,}, such as (256, 128) or '256-128'; "
            f"got {hidden!r}."
        )
    return units


# Training data: standardised features, gains, and batches of whole queries.


@dataclass(frozen=True, eq=False)
class Standards:
    """Mean and standard deviation of each feature, and whether its logarithm is taken first."""

    centre: Floats
    spread: Floats
    is_skewed: Array

    @classmethod
    def of(cls, features: Features, weights: Floats | None) -> Standards:
        """The standards of rows that weigh so much; missing values and rows without weight count nowhere."""
        n_features = features.shape[1]
        standards = cls(np.zeros(n_features), np.zeros(n_features), np.zeros(n_features, np.uint8))
        of_rows = np.ones(len(features)) if weights is None else weights
        refuse_infinite(features[of_rows > 0])
        for feature in range(n_features):
            column = features[:, feature].astype(np.float64)
            counts = ~np.isnan(column) & (of_rows > 0)
            values, weight = column[counts], of_rows[counts]
            if values.size == 0 or values.min() == values.max():
                standards.centre[feature] = values[0] if values.size else 0.0
                continue
            plain, logarithm = (
                _moments(each, weight) for each in (values, signed_logarithm(values))
            )
            takes_logarithm = abs(plain[2]) > max(_SKEWED, abs(logarithm[2]))
            standards.is_skewed[feature] = takes_logarithm
            standards.centre[feature], standards.spread[feature], _ = (
                logarithm if takes_logarithm else plain
            )
        return standards

    def apply(self, features: Features) -> Features:
        """The features as the network sees them."""
        return standardise(features, self.centre, self.spread, self.is_skewed)


def _moments(values: Floats, weights: Floats) -> tuple[float, float, float]:
    """Mean, standard deviation and skewness."""
    centre = float(np.average(values, weights=weights))
    spread = float(np.sqrt(np.average((values - centre) ** 2, weights=weights)))
    if spread == 0.0:
        return centre, 0.0, 0.0
    return centre, spread, float(np.average(((values - centre) / spread) ** 3, weights=weights))


@dataclass(frozen=True, eq=False)
class QueryChunk:
    """Some lists of a batch, padded to the longest of them.

    ``rows`` are rows of the data; ``slots`` are their indices among the lists × longest positions.
    """

    rows: Rows
    slots: Rows
    n_lists: int
    longest: int
    weights: Floats  # of lists


@dataclass(frozen=True, eq=False)
class QueryLists:
    """The lists to learn from: queries that have pairs and a weight."""

    features: Features  # standardised, in the order of the data's rows
    gains: Floats
    row_weights: Floats | None
    lists: tuple[Rows, ...]  # the rows of each
    weights: Floats  # of lists

    @classmethod
    def of(cls, data: RankingData, standards: Standards) -> QueryLists:
        """The lists of ``data``; rows without weight are no part of them."""
        gains = np.zeros(data.n_documents)
        by_position = gains_over_ideal(
            np.ascontiguousarray(data.labels[data.row_order]), data.query_offsets
        )
        gains[data.row_order] = by_position
        weights = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
        lists, of_lists = [], []
        for number, (_, rows) in enumerate(data.iter_queries()):
            counted = rows if data.row_weights is None else rows[data.row_weights[rows] > 0]
            has_pairs = counted.size > 1 and np.ptp(gains[counted]) > 0
            if has_pairs and weights[number] > 0:
                lists.append(counted)
                of_lists.append(weights[number])
        features = standards.apply(data.features)
        return cls(features, gains, data.row_weights, tuple(lists), np.array(of_lists))

    def batches(
        self, epoch: int, batch_size: int, max_list: int, seed: int
    ) -> Iterator[list[QueryChunk]]:
        """The lists in an order drawn for the epoch, ``batch_size`` at a time, as chunks that fit in memory.

        Of a longer list, ``max_list`` documents are drawn anew in each epoch.
        """
        generator = random.stream(seed, "epoch", epoch)
        order = generator.permutation(len(self.lists))
        for first in range(0, order.size, batch_size):
            numbers = order[first : first + batch_size]
            drawn = [_at_most(self.lists[number], max_list, generator) for number in numbers]
            by_length = sorted(range(numbers.size), key=lambda index: drawn[index].size)
            yield [
                _chunk([drawn[index] for index in part], self.weights[numbers[part]])
                for part in _parts([drawn[index].size for index in by_length], by_length)
            ]


def _at_most(rows: Rows, most: int, generator: np.random.Generator) -> Rows:
    return rows if rows.size <= most else np.sort(generator.choice(rows, most, replace=False))


def _parts(lengths: list[int], lists: list[int]) -> Iterator[list[int]]:
    """Lists by ascending length, cut where the next one would make the pairs too many."""
    part: list[int] = []
    for length, each in zip(lengths, lists, strict=True):
        if part and (len(part) + 1) * length**2 > _PAIRS_AT_ONCE:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _chunk(lists: list[Rows], weights: Floats) -> QueryChunk:
    longest = max(rows.size for rows in lists)
    slots = [np.arange(rows.size) + number * longest for number, rows in enumerate(lists)]
    return QueryChunk(np.concatenate(lists), np.concatenate(slots), len(lists), longest, weights)


# Training with PyTorch.


def import_torch() -> Any:
    """PyTorch, or an error that names the extra."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "neural", "MLPRanker") from None
    return torch


def device_of(name: str) -> Any:
    """The device to train on; "auto" is a graphics card if there is one."""
    torch = import_torch()
    has_card = torch.cuda.is_available()
    if name == "cuda" and not has_card:
        raise ParameterError(
            "device='cuda' needs a graphics card that PyTorch can use; there is none."
        )
    return torch.device("cuda" if name == "cuda" or (name == "auto" and has_card) else "cpu")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch on one thread: with another number it may add in another order, and give other bits."""
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class TrainingPlan:
    """How a network is trained."""

    widths: tuple[int, ...]  # features, hidden units, 1
    dropout: float
    learning_rate: float
    batch_size: int
    max_list: int
    sigma: float
    mu: float
    seed: int


class Training:
    """A network in training: its weights, changed epoch by epoch."""

    def __init__(self, plan: TrainingPlan, lists: QueryLists, device: Any) -> None:
        torch = import_torch()
        self._plan, self._lists, self._device = plan, lists, device
        drawn = [array for layer in _first_weights(plan) for array in layer]
        self._parameters = [
            torch.tensor(array, device=device, requires_grad=True) for array in drawn
        ]
        self._optimiser = torch.optim.Adam(self._parameters, lr=plan.learning_rate)
        # A separate generator: draws from PyTorch's global one change nothing here.
        self._generator = torch.Generator(device=device)
        self._generator.manual_seed(int(random.stream(plan.seed, "dropout").integers(2**62)))

    def epoch(self, number: int) -> float:
        """Go through all lists once; the mean loss of a list."""
        plan, total = self._plan, 0.0
        for batch in self._lists.batches(number, plan.batch_size, plan.max_list, plan.seed):
            weight = sum(float(chunk.weights.sum()) for chunk in batch)
            self._optimiser.zero_grad()
            for chunk in batch:
                loss = self._loss(chunk)
                (loss / weight).backward()
                total += float(loss.detach())
            self._optimiser.step()
        mean = total / float(self._lists.weights.sum())
        if not math.isfinite(mean):
            raise RunError(
                f"training diverged in epoch {number + 1}: the loss is {mean}. Lower learning_rate."
            )
        return mean

    def arrays(self) -> tuple[Array, Array]:
        """Weights and biases of all layers, one after the other, as models keep them."""
        arrays = [parameter.detach().cpu().numpy().ravel() for parameter in self._parameters]
        return np.concatenate(arrays[::2]), np.concatenate(arrays[1::2])

    def _loss(self, chunk: QueryChunk) -> Any:
        """The weighted sum of the losses of a chunk's lists."""
        torch, lists, plan = import_torch(), self._lists, self._plan
        scores = self._forward(self._tensor(lists.features[chunk.rows]))
        slots = torch.as_tensor(chunk.slots, device=self._device)
        shape = (chunk.n_lists, chunk.longest)

        def padded(values: Any) -> Any:
            empty = torch.zeros(shape[0] * shape[1], dtype=values.dtype, device=self._device)
            return empty.scatter(0, slots, values).reshape(shape)

        of_rows = lists.row_weights
        losses = ndcg_loss2pp(
            padded(scores),
            padded(self._tensor(lists.gains[chunk.rows])),
            padded(torch.ones(chunk.rows.size, dtype=torch.bool, device=self._device)),
            sigma=plan.sigma,
            mu=plan.mu,
            weights=None if of_rows is None else padded(self._tensor(of_rows[chunk.rows])),
        )
        return (losses * self._tensor(chunk.weights)).sum()

    def _forward(self, values: Any) -> Any:
        """The scores of rows; each hidden unit is left out with probability ``dropout``."""
        torch, share = import_torch(), self._plan.dropout
        *hidden, last = zip(self._parameters[::2], self._parameters[1::2], strict=True)
        for weights, biases in hidden:
            values = torch.relu(values @ weights + biases)
            if share > 0.0:
                drawn = torch.rand(values.shape, generator=self._generator, device=self._device)
                values = values * (drawn >= share) / (1.0 - share)
        weights, biases = last
        return (values @ weights + biases).squeeze(1)

    def _tensor(self, array: Array) -> Any:
        return import_torch().as_tensor(np.asarray(array, np.float32), device=self._device)


def _first_weights(plan: TrainingPlan) -> Iterator[tuple[Array, Array]]:
    """Weights and biases uniform in ±1/√inputs, PyTorch's own choice, drawn by our streams."""
    for layer, (n_inputs, n_units) in enumerate(itertools.pairwise(plan.widths)):
        generator, bound = random.stream(plan.seed, "weights", layer), 1.0 / math.sqrt(n_inputs)
        drawn = generator.uniform(-bound, bound, (n_inputs + 1, n_units)).astype(np.float32)
        yield drawn[:-1], drawn[-1]


# The loss.


def gains_over_ideal(labels: Floats, offsets: Rows) -> Floats:
    """G of each document; lists begin at ``offsets``. 0 where a list has no gain at all.

    Gains are taken relative to 2 to the list's greatest label, so that no label is too great.
    """
    starts, sizes = offsets[:-1], np.diff(offsets)
    greatest = np.repeat(np.maximum.reduceat(labels, starts), sizes)
    gains: Floats = np.exp2(labels - greatest) - np.exp2(-greatest)
    ranks = np.arange(labels.size) - np.repeat(starts, sizes)
    by_label = order(checks.read_only(labels), checks.read_only(offsets)).order
    ideal = np.add.reduceat(gains[by_label] / np.log2(2.0 + ranks), starts)
    whole = np.repeat(ideal, sizes)
    shares: Floats = np.zeros(gains.size)
    np.divide(gains, whole, out=shares, where=whole > 0)
    return shares


def ndcg_loss2pp(
    scores: Any,
    gains: Any,
    is_document: Any,
    *,
    sigma: float = 1.0,
    mu: float = MU,
    weights: Any = None,
) -> Any:
    """The loss of each list: tensors of lists × positions, where ``is_document`` is False for padding.

    ``weights`` of documents, if there are any, multiply in pairs.
    """
    from torch.nn.functional import softplus

    factors = _weights_of_pairs(scores.detach(), gains, is_document, mu)
    if weights is not None:
        factors = factors * weights.unsqueeze(2) * weights.unsqueeze(1)
    differences = scores.unsqueeze(2) - scores.unsqueeze(1)
    costs = softplus(-sigma * differences) / math.log(2.0)
    return (factors * costs).sum(dim=(1, 2))


def _weights_of_pairs(scores: Any, gains: Any, is_document: Any, mu: float) -> Any:
    """(μ δ_ij + |1/D_i - 1/D_j|) · |G_i - G_j| where i has the higher gain, else 0: lists × positions × positions."""
    import torch

    # Documents stand before the padding, and equal scores keep the order of the data.
    visible = scores.masked_fill(~is_document, -math.inf)
    ranks = visible.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    discounts = 1.0 / torch.log2(ranks.to(scores.dtype) + 2.0)
    between = (discounts.unsqueeze(2) - discounts.unsqueeze(1)).abs()
    distances = (ranks.unsqueeze(2) - ranks.unsqueeze(1)).abs().clamp(min=1).to(scores.dtype)
    steps = 1.0 / torch.log2(1.0 + distances) - 1.0 / torch.log2(2.0 + distances)
    more_gain = (gains.unsqueeze(2) - gains.unsqueeze(1)).clamp(min=0.0)
    both = is_document.unsqueeze(2) & is_document.unsqueeze(1)
    return (mu * steps + between) * more_gain * both
