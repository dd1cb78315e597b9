"""``rankwood check``: other data against what a model file says of its training data; and that record as text.

The functions at the end show the record itself, for ``rankwood inspect``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankwood.cli import printing
from rankwood.errors import ModelError

if TYPE_CHECKING:
    from rankwood.training.record import Spread

_FEATURES_SHOWN = 15


# The record of a model file.


def spreads_in(
    training: dict[str, Any], names: Sequence[str]
) -> Mapping[str, Mapping[str, Spread]]:
    """The spreads of features, and of labels and lengths of queries, by name; they are taken out of the record."""
    from rankwood.training.record import FEATURES, STATISTICS, statistics_in

    found = statistics_in(training)
    training.pop(STATISTICS, None)
    if found is None:
        return {}
    features = found.pop(FEATURES)
    if len(features) != len(names):
        raise ModelError("its record of the training data is damaged.")
    others = {name.replace("_", " "): each for name, (each,) in found.items()}
    return {FEATURES: dict(zip(names, features, strict=True)), "judgments": others}


def validation_figures(
    parameters: Mapping[str, Any], training: Mapping[str, Any]
) -> dict[str, Any]:
    """The values on validation data of the model that was kept, by measure, and by set where sets have names."""
    history = training.get("history")
    if isinstance(history, list):
        history = {"": {str(parameters.get("measure") or "measure"): history}}
    if not isinstance(history, dict):
        return {}
    n_kept = training.get("best_iteration")
    figures = {}
    for part, by_measure in history.items():
        for measure, values in by_measure.items():
            if values:
                last = n_kept if isinstance(n_kept, int) and 1 <= n_kept <= len(values) else 0
                value = values[last - 1]
                if isinstance(value, dict):  # BROOF's history has other figures too
                    value = value.get("valid")
                if value is not None:
                    figures[f"{part}: {measure}" if part else measure] = value
    return figures


def show_spreads(spreads: Mapping[str, Mapping[str, Spread]], leading: Sequence[str]) -> None:
    """The labels, the queries and the ``leading`` features of the training data; the first ones where none lead."""
    if not spreads:
        return
    features, others = spreads.values()
    shown = [*others, *(leading or list(features)[:_FEATURES_SHOWN])]
    printing.heading("training data")
    rows = [[name, *_figures(others.get(name) or features[name])] for name in shown]
    printing.show_table(("", "mean", "5 %", "median", "95 %", "missing"), rows)


def _figures(spread: Spread) -> list[str]:
    quantiles = spread.quantiles or (None,) * 5
    numbers = (spread.mean, quantiles[0], quantiles[2], quantiles[-1])
    shown = ["–" if number is None else f"{number:.4g}" for number in numbers]
    return [*shown, f"{spread.missing_share:.1%}"]
