"""One C file with ``double score(const float *features)``: tables of nodes, and a loop over them.

Tables compile quickly for models of any size; nested conditions would not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import ModelError
from rankwood.exports import rules
from rankwood.exports.reading import number_of, text_of, whole_of
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import WriteOptions, names_for
from rankwood.models.forest import Forest

RULES = EngineRules(
    "<=",
    np.float32,
    np.float64,
    "child",
    (
        "goes left when value <= threshold, both float",
        "leaves are double with the weights multiplied in, summed in the order of the trees as in our scores",
        "NaN goes to the child the table names, which may be a third one; do not compile with -ffast-math",
    ),
)
_PER_LINE = 12
_PLAIN = re.compile(r"[A-Za-z0-9_ .()=-]")
_TABLE = re.compile(r"static const (?:int|float|double) rankwood_(\w+)\[\d+\] = \{([^{}]*)\};")
_SCALAR = re.compile(r"static const double rankwood_(divisor|base) = ([^;\n]+);")
_CODE = """\
/* The score of one document: the higher, the more relevant. A missing value is NaN. */
double score(const float *features)
{
    double total = 0.0;
    for (int tree = 0; tree < RANKWOOD_TREES; ++tree) {
        int node = rankwood_root[tree];
        while (rankwood_feature[node] >= 0) {
            const float value = features[rankwood_feature[node]];
            if (value != value)
                node = rankwood_missing[node];
            else if (value <= rankwood_threshold[node])
                node = rankwood_left[node];
            else
                node = rankwood_right[node];
        }
        total += rankwood_value[node];
    }
    return total / rankwood_divisor + rankwood_base;
}
"""


def default_name(number: int) -> str:
    """A name for a feature that has none."""
    return f"feature {number + 1}"


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The C source; it needs no header and compiles as C99 or C++."""
    names = names_for(forest, options, default_name)
    total = float(forest.tree_weights.sum())
    weights = np.repeat(forest.tree_weights, np.diff(forest.tree_offsets))
    tables: dict[str, tuple[str, Array, Callable[[float], str]]] = {
        "root": ("int", forest.tree_offsets[:-1], str),
        "feature": ("int", forest.feature, str),
        "left": ("int", forest.left, str),
        "right": ("int", forest.right, str),
        "missing": ("int", forest.missing, str),
        "threshold": ("float", forest.threshold, _float),
        "value": ("double", forest.value * weights, rules.exact),
    }
    listed = "\n".join(
        f"   features[{feature}]: {_commented(name)}" for feature, name in enumerate(names)
    )
    lines = [
        f"/* A forest of {forest.n_trees} trees, written by Rankwood. Not for -ffast-math: NaN must stay NaN.",
        f"{listed} */",
        f"#define RANKWOOD_FEATURES {forest.n_features}",
        f"#define RANKWOOD_TREES {max(1, forest.n_trees)}",
        *(_table(name, *table) for name, table in tables.items()),
        f"static const double rankwood_divisor = {rules.exact(total if forest.average and total > 0 else 1.0)};",
        f"static const double rankwood_base = {rules.exact(forest.base)};",
        "",
        _CODE,
    ]
    return "\n".join(lines).encode("ascii")


def _float(number: float) -> str:
    text = rules.short(number)
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _commented(name: str) -> str:
    """A name inside a comment, which it must not end: special characters are written as code points."""
    return "".join(c if _PLAIN.match(c) else f"<U+{ord(c):04X}>" for c in name)


def _table(name: str, kind: str, numbers: Array, shown: Callable[[float], str]) -> str:
    texts = [shown(number) for number in numbers.tolist()] or ["-1" if name == "feature" else "0"]
    rows = (
        ", ".join(texts[first : first + _PER_LINE]) for first in range(0, len(texts), _PER_LINE)
    )
    return (
        f"static const {kind} rankwood_{name}[{len(texts)}] = {{\n    "
        + ",\n    ".join(rows)
        + "\n};"
    )


def read(content: bytes) -> FileTrees:
    """The trees in the tables of a file that ``write`` wrote; for verification."""
    text = text_of(content)
    tables = {
        name: [item.strip() for item in body.split(",")] for name, body in _TABLE.findall(text)
    }
    scalars = {name: number_of(value, name) for name, value in _SCALAR.findall(text)}
    features = re.search(r"#define RANKWOOD_FEATURES (\d+)", text)
    needed = {"root", "feature", "left", "right", "missing", "threshold", "value"}
    if set(tables) != needed or set(scalars) != {"divisor", "base"} or features is None:
        raise ModelError("it is no C source of ours.")
    numbers = {
        name: _wholes(tables[name]) for name in ("root", "feature", "left", "right", "missing")
    }
    feature = numbers["feature"]
    return FileTrees(
        feature=feature,
        threshold=np.array(
            [number_of(item.rstrip("f"), "threshold") for item in tables["threshold"]]
        ),
        left=numbers["left"],
        right=numbers["right"],
        missing=numbers["missing"],
        value=np.array([number_of(item, "value") for item in tables["value"]]),
        cover=np.zeros(feature.size),
        gain=np.zeros(feature.size),
        tree_offsets=np.append(numbers["root"], feature.size).astype(np.int64),
        tree_weights=np.ones(numbers["root"].size),
        groups=None,
        divisor=scalars["divisor"],
        base=scalars["base"],
        n_features=int(features.group(1)),
        feature_names=None,
    )


def _wholes(items: Iterable[str]) -> Array:
    return np.array([whole_of(item, "a table") for item in items], np.int32)
