"""``rankwood inspect``: what a data set or a model file holds.

Of data: counts, labels, missing and constant features, and what two parts have in common. Of a model: its estimator,
parameters, training, size and most important features; ``_OF_KIND`` has the two functions that each kind of model is
described by.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

from rankwood.cli import printing
from rankwood.cli.options import (
    DATA_OR_STDIN,
    Json,
    Reading,
    argument,
    option,
    with_reading_options,
)
from rankwood.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankwood.data.splits import Overlap
    from rankwood.data.summary import Summary
    from rankwood.dtypes import Floats
    from rankwood.models.blend import BlendModel
    from rankwood.models.cascade import Cascade
    from rankwood.models.family import Family
    from rankwood.models.forest import Forest
    from rankwood.models.linear import LinearModel
    from rankwood.models.neural import NeuralModel

_NAMES_SHOWN = 12  # of a list of features
_FEATURES_SHOWN = 15  # of a model, the most important
_WEIGHT_COLUMNS = ("feature", "weight", "weight × spread", "missing counts as")


@with_reading_options
def command(
    path: Annotated[str, argument("DATA_OR_MODEL", DATA_OR_STDIN)],
    *,
    against: Annotated[
        str | None,
        option("Also say which queries and documents are in OTHER too.", metavar="OTHER"),
    ] = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show documents, queries, features, labels, missing and constant features, empty queries, duplicates.

    Of a model file: its estimator, parameters, training, trees and most important features.

    Example: rankwood inspect Fold1/train.txt.gz --against Fold1/test.txt.gz
    """
    from rankwood.data.splits import shared
    from rankwood.data.summary import summarise
    from rankwood.models.format import is_model_file

    if is_model_file(path):
        if against is not None:
            raise ParameterError("--against compares data; DATA is a model file.")
        _show_model(path, as_json)
        return
    data = reading(path)
    summary = summarise(data)
    overlap = shared(data, reading(against)) if against is not None else None
    if as_json:
        result = {"data": path, **dataclasses.asdict(summary)}
        result["label_counts"] = {
            f"{label:g}": count for label, count in summary.label_counts.items()
        }
        if overlap is not None:
            result["against"] = {"data": against, **dataclasses.asdict(overlap)}
        printing.show_json(result)
        return
    printing.heading(path)
    printing.show_facts(facts(summary))
    if overlap is not None:
        printing.heading(f"shared with {against}")
        printing.show_facts(_overlap_facts(overlap))


def facts(summary: Summary) -> list[tuple[str, str]]:
    """The summary as names and what they are, for a person."""
    lengths = summary.documents_per_query
    labels = [
        f"{label:g}: {count:,} ({count / summary.documents:.1%})"
        for label, count in summary.label_counts.items()
    ]
    listed = [
        ("documents", f"{summary.documents:,}"),
        ("queries", f"{summary.queries:,}"),
        ("features", f"{summary.features:,}"),
        ("labels", _shorten(labels, "values")),
        (
            "documents per query",
            f"least {lengths['least']:,}, median {lengths['median']:,.10g}, "
            f"mean {lengths['mean']:,.1f}, most {lengths['most']:,}",
        ),
        ("empty queries", f"{summary.empty_queries:,} (no document with a label above 0)"),
        ("one-document queries", f"{summary.one_document_queries:,}"),
        ("constant features", _counted(summary.constant_features)),
        ("missing values", _values(summary.missing_values, summary)),
        (
            "duplicates",
            f"{summary.duplicate_rows:,} rows repeat the features of an earlier row of their query",
        ),
    ]
    if summary.infinite_values:
        listed.append(("infinite values", _values(summary.infinite_values, summary)))
    if summary.separated_queries:
        listed.append(
            ("separated queries", f"{summary.separated_queries:,} (their rows are not together)")
        )
    return listed


def _overlap_facts(overlap: Overlap) -> list[tuple[str, str]]:
    facts = [("queries", f"{overlap.n_queries:,}" + _examples(overlap.queries))]
    if overlap.n_documents is not None:
        facts.append(("documents", f"{overlap.n_documents:,} with the same query and document id"))
    facts.append(("rows", f"{overlap.n_rows:,} with exactly the same features"))
    if overlap.n_queries:
        facts.append(("", "A query in both parts makes a test measure look better than it is."))
    return facts


def _examples(examples: tuple[str, ...]) -> str:
    return f" (for example {', '.join(examples[:3])})" if examples else ""


def _counted(names: list[str]) -> str:
    return f"{len(names):,}: {_shorten(names, 'features')}" if names else "none"


def _values(counts: dict[str, int], summary: Summary) -> str:
    if not counts:
        return "none"
    total = sum(counts.values())
    share = total / (summary.documents * summary.features)
    listed = [
        f"{name} ({count:,})" for name, count in sorted(counts.items(), key=lambda item: -item[1])
    ]
    return f"{total:,} ({share:.1%}) in {len(counts):,} features: {_shorten(listed, 'features')}"


def _shorten(parts: list[str], kind: str) -> str:
    more = len(parts) - _NAMES_SHOWN
    return ", ".join(parts[:_NAMES_SHOWN]) + (f" … and {more:,} more {kind}" if more > 0 else "")


def _show_model(path: str, as_json: bool) -> None:
    """The model's kind, parameters, training, size and most important features."""
    from rankwood.models.format import KINDS, kind_of, load_model

    model, meta = load_model(path)
    kind = str(kind_of(model))
    describe, show_features = _OF_KIND[kind]
    facts = {"estimator": meta.get("estimator") or f"a bare {KINDS[kind].noun}", **describe(model)}
    parameters, training = meta.get("parameters") or {}, meta.get("training") or {}
    searched = None if as_json else training.pop("auto", None)
    measures = meta.get("measures") or {}
    if as_json:
        more: dict[str, Any] = {
            "parameters": parameters,
            "training": training,
            "measures": measures,
        }
        if kind == "linear":
            more["weights"] = {
                row[0]: dict(zip(_WEIGHT_COLUMNS[1:], row[1:], strict=True))
                for row in _weights(model)
            }
        if hasattr(model, "importance"):
            more["importance"] = dict(_shares(model))
        printing.show_json({"model": path, **facts, **more})
        return
    printing.heading(path)
    printing.show_facts([(name, _shown(value)) for name, value in facts.items()])
    printing.show_facts([(name, _shown(value)) for name, value in measures.items()])
    for title, part in (("parameters", parameters), ("training", training)):
        printing.heading(title)
        printing.show_facts([(name, _shown(value)) for name, value in part.items()])
    if searched is not None:
        _show_trials(searched)
    show_features(model)


def _show_trials(searched: dict[str, Any]) -> None:
    """What ``AutoRanker`` chose the model from."""
    printing.heading("chosen by AutoRanker")
    settings = [(name, _shown(value)) for name, value in searched["settings"].items()]
    facts = [
        ("trials", f"{len(searched['trials']):,}; all are in --json"),
        ("judged by", f"{searched['measure']} on {searched['judged_on']}"),
        ("stopped because", searched["stopped_because"]),
    ]
    printing.show_facts([*facts, *settings])


def _describe_forest(forest: Forest | Cascade | Family | BlendModel) -> dict[str, Any]:
    return {
        "trees": forest.n_trees,
        "leaves": forest.n_leaves,
        "deepest": forest.max_depth,
        "features": forest.n_features,
        "features used": int((forest.importance("splits") > 0).sum()),
    }


def _describe_cascade(cascade: Cascade) -> dict[str, Any]:
    layers = [len(layer.models) for layer in cascade.layers]
    return {"layers": cascade.n_layers, "models per layer": layers, **_describe_forest(cascade)}


def _describe_family(family: Family) -> dict[str, Any]:
    search = {"models searched": len(family.explored), "lengths": len(family.front) - 1}
    return {**search, **_describe_forest(family)}


def _describe_blend(blend: BlendModel) -> dict[str, Any]:
    weights = dict(zip(blend.names, blend.weights.tolist(), strict=True))
    kinds = {"weights": "by document"} if blend.gates else {}
    factors = dict(zip(blend.names, blend.factors.tolist(), strict=True))
    return {
        "parts": len(blend.parts),
        **kinds,
        **{f"weight of {name}": weight for name, weight in weights.items()},
        **{f"factor of {name}": factor for name, factor in factors.items()},
        "one sum of trees": blend.is_sum_of_trees,
        **_describe_forest(blend),
    }


def _show_gains(forest: Forest) -> None:
    printing.heading("most important features, by their share of the gain")
    shares = _shares(forest)[:_FEATURES_SHOWN]
    printing.show_facts([(name, f"{share:.1%}") for name, share in shares])


def _describe_linear(model: LinearModel) -> dict[str, Any]:
    return {
        "intercept": model.intercept,
        "features": model.n_features,
        "features used": int(model.used.size),
    }


def _weights(model: LinearModel) -> list[tuple[str, float, float, float]]:
    """A row of ``_WEIGHT_COLUMNS`` per feature with a weight, the heaviest in units of its spread first."""
    scaled = model.weights * model.spread
    rows = zip(
        _names(model), model.weights.tolist(), scaled.tolist(), model.fill.tolist(), strict=True
    )
    return sorted((row for row in rows if row[1] != 0), key=lambda row: -abs(row[2]))


def _show_weights(model: LinearModel) -> None:
    printing.heading(
        "heaviest features, by weight in units of the feature's spread in the training data"
    )
    rows = [
        [name, *(_shown(number) for number in numbers)]
        for name, *numbers in _weights(model)[:_FEATURES_SHOWN]
    ]
    printing.show_table(_WEIGHT_COLUMNS, rows)


def _describe_neural(model: NeuralModel) -> dict[str, Any]:
    return {
        "layers": "-".join(map(str, model.widths.tolist())),
        "weights": int(model.weights.size + model.biases.size),
        "features": model.n_features,
        "features used": int((model.spread > 0).sum()),
    }


def _show_skewed(model: NeuralModel) -> None:
    names = [name for name, skewed in zip(_names(model), model.is_skewed, strict=True) if skewed]
    printing.heading(f"skewed features, whose logarithm is taken: {len(names):,}")
    if names:
        printing.say(", ".join(names[:_FEATURES_SHOWN]) + (", …" * (len(names) > _FEATURES_SHOWN)))


_OF_KIND: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Any], None]]] = {
    "forest": (_describe_forest, _show_gains),
    "linear": (_describe_linear, _show_weights),
    "neural": (_describe_neural, _show_skewed),
    "family": (_describe_family, _show_gains),
    "ordinal": (_describe_forest, _show_gains),
    "cascade": (_describe_cascade, _show_gains),
    "blend": (_describe_blend, _show_gains),
}


def _names(model: Any) -> tuple[str, ...]:
    return model.feature_names or tuple(str(number + 1) for number in range(model.n_features))


def _shares(model: Any) -> list[tuple[str, float]]:
    """Features by their share of the importance, the greatest first; those without any are left out."""
    importance: Floats = model.importance()
    total = float(importance.sum()) or 1.0
    shares = [
        (name, float(part) / total)
        for name, part in zip(_names(model), importance, strict=True)
        if part > 0
    ]
    return sorted(shares, key=lambda pair: -pair[1])


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > 6:
        return f"{len(value):,} values, the last {_shown(value[-1])}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
