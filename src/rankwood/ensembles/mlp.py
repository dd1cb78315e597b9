"""``MLPRanker``: a neural network, the baseline that tree ensembles are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats
from rankwood.ensembles.base import Ranker
from rankwood.ensembles.early_stopping import ALL_ROUNDS, ASKED_TO, NO_BETTER, EarlyStopping
from rankwood.ensembles.inputs import weights_of_rows
from rankwood.ensembles.linear import in_order_of, refuse_without_pairs
from rankwood.ensembles.mlp_inputs import Lists, Standards
from rankwood.ensembles.mlp_training import (
    Plan,
    Training,
    device_of,
    import_torch,
    one_thread,
)
from rankwood.ensembles.progress import Callback, Watch, check_listeners
from rankwood.ensembles.validation import mean_value
from rankwood.errors import DataError, ParameterError
from rankwood.losses.ndcg_loss2 import MU
from rankwood.measures.parsing import parse_measure
from rankwood.models.neural import NeuralModel

_MOST_UNITS = 1_000_000
DEVICES = ("auto", "cpu", "cuda")


class MLPRanker(Ranker):
    """A multilayer perceptron trained for NDCG with the loss NDCGLoss2++ (Wang et al. 2018; Pobrotyn et al. 2020).

    Training needs PyTorch, which the extra ``neural`` brings; a trained model scores without it. Features are
    standardised inside, skewed ones after their logarithm; a missing value counts as the mean. On the processor the
    same data and seed give the same model, for which PyTorch is kept to one thread.

    Parameters
    ----------
    hidden
        Units of each hidden layer: a list of numbers, or a text such as "256-128".
    dropout
        The share of hidden units that a step of training leaves out.
    learning_rate
        The step size of the optimiser, Adam; for trees, what is taken of each.
    n_epochs
        How often training goes through all queries, or the most it may with ``early_stopping``.
    batch_size
        Queries in a step.
    max_list
        The most documents of a query in a step; of longer queries so many are drawn anew in each epoch.
    sigma, mu
        The steepness of the loss, and what the distance of two ranks counts in it.
    early_stopping
        Stop when the measure on the validation data has not improved for so many epochs. None trains all. Needs
        ``valid``. Where there are validation data, the best epoch is kept in any case.
    measure
        What is looked at on the validation data.
    device
        Where to train: "cpu", "cuda" (a graphics card; bits may differ), or "auto": a card if there is one.
    seed, n_threads, progress, callbacks
        As for ``RandomForest``. Threads are for scoring.

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

    _model = "neural_"
    neural_: NeuralModel

    def __init__(
        self,
        hidden: Any = (256, 512, 1024, 512, 256),
        dropout: float = 0.3,
        learning_rate: float = 1e-3,
        n_epochs: int = 100,
        batch_size: int = 64,
        max_list: int = 1000,
        sigma: float = 1.0,
        mu: float = MU,
        early_stopping: int | None = None,
        measure: str = "ndcg@10",
        device: str = "auto",
        seed: int = 0,
        n_threads: int | None = None,
        progress: Callback | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.max_list = max_list
        self.sigma = sigma
        self.mu = mu
        self.early_stopping = early_stopping
        self.measure = measure
        self.device = device
        self.seed = seed
        self.n_threads = n_threads
        self.progress = progress
        self.callbacks = callbacks

    def _learn(self, X: Any, data: RankingData, valid: RankingData | None) -> None:  # noqa: ARG002, N803
        import_torch()
        if data.n_documents == 0:
            raise DataError("there are no rows to learn from.")
        refuse_without_pairs(data)
        if self.early_stopping is not None and valid is None:
            raise ParameterError("early_stopping needs validation data: pass valid.")
        if valid is not None:
            if valid.query_ids is None:
                raise DataError(f"valid has no query ids, which {self.measure} needs.")
            valid = in_order_of(data, valid)
        standards = Standards.of(data.features, weights_of_rows(data))
        lists = Lists.of(data, standards)
        with one_thread():
            training = Training(self._plan(data), lists, device_of(self.device))
            self._train(training, data, standards, valid)

    def _train(
        self, training: Training, data: RankingData, standards: Standards, valid: RankingData | None
    ) -> None:
        """Epoch after epoch, until there are enough or the measure no longer improves; the best one is kept."""
        watch = Watch(self.n_epochs, self.progress, check_listeners(self.progress, self.callbacks))
        measure, stopping = parse_measure(self.measure), EarlyStopping(self.early_stopping, False)
        self.train_history_: list[float] = []
        self.stopped_because_ = ALL_ROUNDS
        for epoch in range(1, self.n_epochs + 1):
            self.train_history_.append(training.epoch(epoch - 1))
            value = None
            if valid is not None:
                model = self._network(training.arrays(), data, standards)
                scores = model.predict(valid, n_threads=self.n_threads)
                value = mean_value(measure, scores, valid)
                stopping.history.append(value)
            if stopping.best_iteration in (0, epoch):  # 0: nothing to choose by
                self.best_iteration_, arrays = epoch, training.arrays()
            if watch.says_stop(epoch, value):
                self.stopped_because_ = ASKED_TO
                break
            if valid is not None and stopping.is_over():
                self.stopped_because_ = NO_BETTER
                break
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

    def _plan(self, data: RankingData) -> Plan:
        return Plan(
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        widths_of(self.hidden)
        _checks.real_number("dropout", self.dropout, "[0, 1)")
        _checks.real_number("learning_rate", self.learning_rate, "(0, inf)")
        for name in ("n_epochs", "batch_size"):
            _checks.whole_number(name, getattr(self, name), 1)
        _checks.whole_number("max_list", self.max_list, 2)
        _checks.real_number("sigma", self.sigma, "(0, inf)")
        _checks.real_number("mu", self.mu, "[0, inf)")
        if self.early_stopping is not None:
            _checks.whole_number("early_stopping", self.early_stopping, 1)
        _checks.one_of("device", self.device, DEVICES)
        if parse_measure(self.measure).name == "rmse":
            raise ParameterError(
                "rmse says nothing about scores that are not on the labels' scale."
            )


def widths_of(hidden: Any) -> tuple[int, ...]:
    """Units of each hidden layer: from numbers, one number, or a text such as "256-128"; at least one layer."""
    given = hidden.replace(",", "-").split("-") if isinstance(hidden, str) else hidden
    listed = [given] if isinstance(given, int | np.integer) else given
    try:
        widths = [int(width) if isinstance(width, str) else width for width in listed]
        found = tuple(_checks.whole_number("hidden", width, 1, _MOST_UNITS) for width in widths)
    except (TypeError, ValueError):
        found = ()
    if not found:
        raise ParameterError(
            f"hidden must be numbers of units from 1 to {_MOST_UNITS:,}, such as (256, 128) or '256-128'; "
            f"got {hidden!r}."
        )
    return found
