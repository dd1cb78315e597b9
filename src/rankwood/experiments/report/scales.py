"""From values to places: ranges, round ticks, linear and logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scale:
    """Maps values between ``low`` and ``high`` to places between ``start`` and ``end``."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value."""
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        share = (value - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values inside the range, about as many as fit."""
        return log_ticks(self) if self.is_log else linear_ticks(self.low, self.high, most)


def value_range(values: Iterable[float], margin: float = 0.06) -> tuple[float, float]:
    """The range of the finite values with some room at both ends; never empty."""
    finite = [float(value) for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = (high - low) * margin or abs(low) * margin or 0.5
    return low - room, high + room


def log_range(values: Iterable[float]) -> tuple[float, float]:
    """The range of the positive values, with room that suits a logarithmic scale."""
    positive = [float(value) for value in values if math.isfinite(value) and value > 0.0]
    if not positive:
        return 0.1, 10.0
    low, high = min(positive), max(positive)
    room = max((high / low) ** 0.12, 1.4)
    return low / room, high * room


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def log_ticks(scale: Scale) -> list[float]:
    """Powers of ten; 2 and 5 times them too where there are few."""
    first, last = math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high))
    factors = (1.0, 2.0, 5.0) if last - first <= 3 else (1.0,)
    ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    return [tick for tick in ticks if scale.low <= tick <= scale.high]


def tick_text(value: float) -> str:
    """A tick without digits that say nothing."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def spread(places: list[float], gap: float, low: float, high: float) -> list[float]:
    """Places moved as little as needed so that neighbours are ``gap`` apart, inside ``low`` … ``high`` if they fit."""
    order = np.argsort(places, kind="stable")
    moved = np.array(places, float)[order]
    for place in range(1, moved.size):
        moved[place] = max(moved[place], moved[place - 1] + gap)
    if moved.size and moved[-1] > high:
        moved[-1] = high
        for place in range(moved.size - 2, -1, -1):
            moved[place] = min(moved[place], moved[place + 1] - gap)
    if moved.size and moved[0] < low:
        moved += low - moved[0]
    result = np.empty_like(moved)
    result[order] = moved
    return [float(place) for place in result]
