"""RankLib's text format, which the ranking plugins of OpenSearch and Elasticsearch read as ``model/ranklib``.

RankLib joins the lines of an ``<ensemble>`` and expects the children of a ``<split>`` in a fixed order: feature,
threshold, left, right. The first line says what kind of model it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from rankwood.errors import ModelError
from rankwood.exports import rules
from rankwood.exports.reading import TreeBuilder, number_of, text_of, whole_of
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import Plain, WriteOptions, float32_trees, plain_for
from rankwood.models.forest import Forest

RULES = EngineRules(
    "<=",
    np.float32,
    np.float32,
    "zero",
    (
        "goes left when value <= threshold, both float32",
        "leaves are float32, summed in float32 in the order of the trees; Random Forests are averaged in float64",
        "a feature that is not set, or NaN, is 0",
        "features are numbered from 1",
    ),
    multiplied_in=np.float64,
)
_SUMMED = ("## LambdaMART", "## MART")
_AVERAGED = "## Random Forests"
_TAG = re.compile(r"<(/?)([A-Za-z]+)((?:\s[^<>]*)?)>([^<>]*)")
_WEIGHT = re.compile(r"""\bweight\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def write(forest: Forest, options: WriteOptions) -> bytes:  # noqa: ARG001 - the signature of all writers
    """The model as RankLib writes it: one ensemble, or one per tree where trees are averaged."""
    # With a base, the mean is written as a sum, since an ensemble for the base would be averaged too.
    trees = plain_for("ranklib", forest, None, may_average=forest.base == 0)
    lines = [_AVERAGED if trees.is_mean else _SUMMED[0], f"## No. of trees = {trees.n_trees}", ""]
    texts = list(_trees(trees))
    if trees.is_mean:
        for text in texts:
            lines += ["<ensemble>", _tree(1, text), "</ensemble>", ""]
    else:
        lines.append("<ensemble>")
        lines += [_tree(number, text) for number, text in enumerate(texts, 1)]
        lines += ["</ensemble>", ""]
    return "\n".join(lines).encode()


def _tree(number: int, text: str) -> str:
    return f'<tree id="{number}" weight="1">\n<split>\n{text}\n</split>\n</tree>'


def _trees(trees: Plain) -> Iterator[str]:
    thresholds, features = trees.forest.threshold.tolist(), trees.forest.feature.tolist()

    def leaf(_: int, value: str) -> str:
        return f"<output>{value}</output>"

    def split(node: int) -> tuple[str, str, str]:
        test = (
            f"<feature>{features[node] + 1}</feature>\n"
            f"<threshold>{rules.short(thresholds[node])}</threshold>\n"
        )
        return f'{test}<split pos="left">\n', '\n</split>\n<split pos="right">\n', "\n</split>"

    return float32_trees(trees, leaf, split)


def read(content: bytes) -> FileTrees:
    """The trees of a RankLib file."""
    lines = text_of(content).splitlines()
    kind = lines[0].strip() if lines else ""
    if kind not in (*_SUMMED, _AVERAGED):
        raise ModelError(
            f"it is no RankLib model of trees: the first line must be '{_SUMMED[0]}', '{_SUMMED[1]}' or '{_AVERAGED}'."
        )
    body = "".join(line.strip() for line in lines if not line.startswith("##"))
    builder = TreeBuilder()
    groups = tuple(_read_ensembles(body, builder))
    if not builder.roots:
        raise ModelError("it holds no <tree>.")
    if kind != _AVERAGED and len(groups) != 1:
        raise ModelError(f"it holds {len(groups):,} ensembles, but '{kind}' has one.")
    if kind != _AVERAGED:
        return builder.finish(n_features=builder.n_features_seen)
    return builder.finish(
        n_features=builder.n_features_seen, groups=groups, divisor=float(len(groups))
    )


def _read_ensembles(body: str, builder: TreeBuilder) -> Iterator[int]:
    """The number of trees of each ensemble; the trees are added to ``builder``."""
    position, reader = 0, _Reader(builder)
    while position < len(body):
        match = _TAG.match(body, position)
        if match is None:
            raise ModelError(f"it is damaged near '{body[position : position + 40]}'.")
        position = match.end()
        closes, name, attributes, text = match.groups()
        ended = reader.take(bool(closes), name.lower(), attributes, text.strip())
        if ended is not None:
            yield ended
    reader.check_end()


class _Reader:
    """Processes tags one by one: ensemble > tree > split > (feature, threshold, split, split) or output."""

    def __init__(self, builder: TreeBuilder) -> None:
        self.builder = builder
        self.open: list[str] = []
        self.n_trees = 0
        # Of each open split: its position once known, its feature, and its number of children.
        self.splits: list[dict[str, float | None]] = []

    def take(self, closes: bool, name: str, attributes: str, text: str) -> int | None:
        """Process one tag with the text after it; returns the number of trees when an ensemble ends."""
        if closes:
            return self._close(name)
        self._check_parent(name)
        self.open.append(name)
        if name == "tree":
            self._start_tree(attributes)
        elif name == "split":
            self.splits.append({"node": None, "feature": None, "children": 0})
        elif name in ("feature", "threshold", "output"):
            self._take_number(name, text)
        elif name == "ensemble":
            self.n_trees = 0
        return None

    def _check_parent(self, name: str) -> None:
        parents = {"ensemble": "", "tree": "ensemble", "feature": "split", "threshold": "split"}
        parents["output"] = "split"
        above = self.open[-1] if self.open else ""
        is_fine = above in ("tree", "split") if name == "split" else parents.get(name) == above
        if not is_fine:
            raise ModelError(
                f"<{name}> may not stand in <{above}>." if above else f"<{name}> is not expected."
            )

    def _start_tree(self, attributes: str) -> None:
        match = _WEIGHT.search(attributes)
        if match is None:
            raise ModelError("a <tree> has no weight.")
        self.builder.start_tree(
            number_of(match.group(1) or match.group(2) or "", "a tree's weight")
        )
        self.n_trees += 1

    def _take_number(self, name: str, text: str) -> None:
        split = self.splits[-1]
        if name == "feature" and split["node"] is None and split["feature"] is None:
            feature = whole_of(text, "a <feature>")
            if feature < 1:
                raise ModelError(f"a <feature> is {feature}; RankLib counts from 1.")
            split["feature"] = feature - 1
        elif name == "threshold" and split["node"] is None and split["feature"] is not None:
            threshold = number_of(text, "a <threshold>")
            self._set_position(self.builder.add_split(int(split["feature"]), threshold))
        elif name == "output" and split["node"] is None and split["feature"] is None:
            self._set_position(self.builder.add_leaf(number_of(text, "an <output>")))
            split["children"] = 2  # complete
        else:
            raise ModelError(f"a <{name}> stands where RankLib does not look for it.")

    def _set_position(self, node: int) -> None:
        """Set the position of the innermost split, and join it to the split around it."""
        self.splits[-1]["node"] = node
        if len(self.splits) < 2:
            if node != self.builder.roots[-1]:
                raise ModelError("a <tree> has more than one root.")
            return
        parent = self.splits[-2]
        if parent["node"] is None or parent["children"] not in (0, 1):
            raise ModelError(
                "a <split> must hold a feature, a threshold and two splits, in this order."
            )
        self.builder.join(int(parent["node"]), "left" if parent["children"] == 0 else "right", node)
        parent["children"] += 1

    def _close(self, name: str) -> int | None:
        if not self.open or self.open.pop() != name:
            raise ModelError(f"</{name}> closes nothing.")
        if name == "split":
            split = self.splits.pop()
            if split["node"] is None or split["children"] != 2:
                raise ModelError("a <split> is not complete.")
        if name == "tree" and self.builder.roots[-1] == len(self.builder.columns["feature"]):
            raise ModelError("a <tree> is empty.")
        return self.n_trees if name == "ensemble" else None

    def check_end(self) -> None:
        """Raise if a tag is still open."""
        if self.open:
            raise ModelError(f"it ends before </{self.open[-1]}>: the file is not complete.")
