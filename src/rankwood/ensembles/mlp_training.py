"""Training a network with PyTorch, which the extra ``neural`` brings. Nothing else in the package imports it."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood import _random
from rankwood.dtypes import Array
from rankwood.ensembles.mlp_inputs import Chunk, Lists
from rankwood.errors import MissingExtra, ParameterError, RunError
from rankwood.losses.ndcg_loss2 import ndcg_loss2pp


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
class Plan:
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
    """A network on its way: its weights, and an epoch at a time."""

    def __init__(self, plan: Plan, lists: Lists, device: Any) -> None:
        torch = import_torch()
        self._plan, self._lists, self._device = plan, lists, device
        drawn = [array for layer in _first_weights(plan) for array in layer]
        self._parameters = [
            torch.tensor(array, device=device, requires_grad=True) for array in drawn
        ]
        self._optimiser = torch.optim.Adam(self._parameters, lr=plan.learning_rate)
        # A generator of its own: what others draw from PyTorch's changes nothing here.
        self._generator = torch.Generator(device=device)
        self._generator.manual_seed(int(_random.stream(plan.seed, "dropout").integers(2**62)))

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
        found = [parameter.detach().cpu().numpy().ravel() for parameter in self._parameters]
        return np.concatenate(found[::2]), np.concatenate(found[1::2])

    def _loss(self, chunk: Chunk) -> Any:
        """The weighted sum of the losses of a chunk's lists."""
        torch, lists, plan = import_torch(), self._lists, self._plan
        scores = self._forward(self._tensor(lists.features[chunk.rows]))
        places = torch.as_tensor(chunk.places, device=self._device)
        shape = (chunk.n_lists, chunk.longest)

        def padded(values: Any) -> Any:
            empty = torch.zeros(shape[0] * shape[1], dtype=values.dtype, device=self._device)
            return empty.scatter(0, places, values).reshape(shape)

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


def _first_weights(plan: Plan) -> Iterator[tuple[Array, Array]]:
    """Weights and biases uniform in ±1/√inputs, PyTorch's own choice, drawn by our streams."""
    for layer, (n_inputs, n_units) in enumerate(itertools.pairwise(plan.widths)):
        generator, bound = _random.stream(plan.seed, "weights", layer), 1.0 / math.sqrt(n_inputs)
        drawn = generator.uniform(-bound, bound, (n_inputs + 1, n_units)).astype(np.float32)
        yield drawn[:-1], drawn[-1]
