"""What ``rankwood inspect`` shows of a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankwood.cli import printing

if TYPE_CHECKING:
    from rankwood.models.forest import Forest
    from rankwood.models.ordinal import OrdinalModel

_FEATURES_SHOWN = 15


def show(path: str, as_json: bool) -> None:
    """The model's kind, parameters, training, size and most important features."""
    from rankwood.models.kinds import load_model

    forest, meta = load_model(path)
    important = _important(forest)
    facts = {
        "estimator": meta.get("estimator") or "a bare forest",
        "trees": forest.n_trees,
        "leaves": forest.n_leaves,
        "deepest": forest.max_depth,
        "features": forest.n_features,
        "features used": int((forest.importance("splits") > 0).sum()),
    }
    parameters, training = meta.get("parameters") or {}, meta.get("training") or {}
    measures = meta.get("measures") or {}
    if as_json:
        more = {"parameters": parameters, "training": training, "measures": measures}
        printing.show_json({"model": path, **facts, **more, "importance": dict(important)})
        return
    printing.heading(path)
    printing.show_facts([(name, _shown(value)) for name, value in facts.items()])
    printing.show_facts([(name, _shown(value)) for name, value in measures.items()])
    for title, part in (("parameters", parameters), ("training", training)):
        printing.heading(title)
        printing.show_facts([(name, _shown(value)) for name, value in part.items()])
    printing.heading("most important features, by their share of the gain")
    printing.show_facts([(name, f"{share:.1%}") for name, share in important[:_FEATURES_SHOWN]])


def _important(forest: Forest | OrdinalModel) -> list[tuple[str, float]]:
    """Features by their share of the gain, the greatest first; those without a split are left out."""
    gains = forest.importance("gain")
    total = float(gains.sum()) or 1.0
    names = forest.feature_names or tuple(str(number + 1) for number in range(forest.n_features))
    shares = [
        (name, float(gain) / total) for name, gain in zip(names, gains, strict=True) if gain > 0
    ]
    return sorted(shares, key=lambda pair: -pair[1])


def _shown(value: Any) -> str:
    if isinstance(value, list) and len(value) > 6:
        return f"{len(value):,} values, the last {_shown(value[-1])}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
