"""LightGBM's text format: written as version 4, read as versions 3 and 4; Treelite reads it too. Dumps can be read.

The nodes and leaves of a tree are numbered separately; a child that is a leaf is written as ``~leaf``. LightGBM
compares in float64, so a threshold is written as the greatest float64 that float32 rounds to ours or below.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from rankwood.data.categories import MOST_CATEGORIES, Dictionaries
from rankwood.dtypes import Array, Floats
from rankwood.errors import ModelError
from rankwood.exports import rules
from rankwood.exports.reading import (
    MOST_FEATURES,
    Children,
    TreeBuilder,
    json_number,
    json_of,
    json_text,
    json_whole,
    mapping,
    number_of,
    sequence,
    text_of,
    whole_of,
)
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import Plain, WriteOptions, plain_for
from rankwood.models.forest import Forest, binary_subsets, subsets_of

RULES = EngineRules(
    "<=",
    np.float64,
    np.float64,
    "child",
    (
        "goes left when value <= threshold, both float64: thresholds are written so that float64 values decide as "
        "float32 values do",
        "leaves are float64, summed in float64 in the order of the trees; average_output divides by the trees",
        "NaN goes left or right as decision_type says",
        "values no farther from 0 than 1e-35 are 0",
        "leaf_count and internal_count stand for training rows, which SHAP needs",
    ),
    counts_as_zero=1e-35,
)
_NAN_LEFT, _NAN_RIGHT = 10, 8  # numeric, NaN is missing; bit 2 sends it left
_MOST_COUNT = 1 << 30  # LightGBM keeps counts in 32 bits
_FINE = 1_000  # count of the lightest leaf, so that different weights have different counts

# Bits of decision_type; the next two are the kind of missing value.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_NONE, _ZERO, _NAN = 0, 1, 2
_KINDS = {"None": _NONE, "Zero": _ZERO, "NaN": _NAN}
_NEAR_ZERO = 1e-35  # LightGBM treats values up to this as 0
_MOST_LEAVES = 1 << 24
# Objectives whose predictions are the plain sum of the trees.
_PLAIN_OBJECTIVES = (
    "lambdarank",
    "rank_xendcg",
    "regression",
    "regression_l1",
    "huber",
    "fair",
    "quantile",
    "mape",
    "none",
    "custom",
)

Fields = dict[str, str]

_OPTIONAL = ("internal_value", "internal_count", "split_gain")
_WHOLE = ("cat_boundaries", "split_feature", "decision_type", "left_child", "right_child")
_COLUMNS = (
    "split_feature",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "split_gain",
    "internal_value",
    "internal_count",
)


def default_name(number: int) -> str:
    """LightGBM's name of a feature without a name."""
    return f"Column_{number}"


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The model in LightGBM's text format."""
    trees = plain_for("lightgbm", forest, options, default_name, may_average=True, is_nested=False)
    _refuse_names(trees.names)
    lines = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={forest.n_features - 1}",
        "objective=regression",
        *(["average_output"] if trees.is_mean else []),
        f"feature_names={' '.join(trees.names)}",
        f"feature_infos={' '.join(_infos(forest))}",
        "",
    ]
    for number, root in enumerate(trees.roots()):
        end = int(forest.tree_offsets[number + 1])
        lines += [f"Tree={number}", *_tree(trees, root, end, options.n_rows), ""]
    if trees.constant is not None:
        lines += [f"Tree={forest.n_trees}", *_leaf_alone(trees.constant, options.n_rows or 1), ""]
    lines += ["end of trees", "", "pandas_categorical:[]", ""]
    return "\n".join(lines).encode()


def missing_right(forest: Forest) -> Forest:
    """The same forest, in which missing values go right where a category is tested, as in LightGBM."""
    if not len(forest.subsets):
        return forest
    turned = forest.subsets.any(axis=1) & (forest.missing == forest.left)
    n_codes = np.array([len(names or ()) + 1 for names in forest.categorical or ()])
    goes_left = binary_subsets(forest)
    is_code = np.arange(goes_left.shape[1]) < n_codes[np.maximum(forest.feature, 0)][:, np.newaxis]
    goes_left = np.where(turned[:, np.newaxis], ~goes_left & is_code, goes_left)
    subsets = np.packbits(goes_left, axis=1, bitorder="little").view("<u8").astype(np.uint64)
    return dataclasses.replace(
        forest,
        left=np.where(turned, forest.right, forest.left),
        right=np.where(turned, forest.left, forest.right),
        subsets=subsets,
    )


def notes(forest: Forest, options: WriteOptions) -> list[str]:
    """What the certificate says about sets of categories and the counts of rows."""
    sets = []
    if len(forest.subsets):
        sets = ["categories in a split's set go left; all others, and NaN, go right"]
    return [*sets, *_notes_of_counts(forest, options)]


def _notes_of_counts(forest: Forest, options: WriteOptions) -> list[str]:
    if not forest.cover.any():
        return [
            "the model does not say how many rows its leaves had: counts are 1, and SHAP would mislead"
        ]
    if _are_counts(forest.cover[forest.feature < 0]):
        return []
    root = (
        "" if options.n_rows is None else f", and {options.n_rows:,}, the training rows, at roots"
    )
    return [
        "the model records weights of training rows (hessians, weights of documents): counts are in proportion to "
        f"them{root}"
    ]


def row_counts(forest: Forest, root: int, end: int, n_rows: int | None = None) -> Array:
    """Training rows of each node as whole numbers: of leaves at least 1, of splits the sum of their leaves.

    Covers that are whole numbers are rows. Other covers are weights: ``n_rows``, if it is known, is divided among the
    leaves in proportion to them; else they are scaled up so that small weights stay distinct, as far as 32 bits allow.
    Without covers, each leaf counts 1.
    """
    cover = forest.cover[root:end]
    is_leaf = forest.feature[root:end] < 0
    counts = np.zeros(end - root, np.int64)
    counts[is_leaf] = _of_leaves(cover[is_leaf], n_rows)
    for node in range(end - root - 1, -1, -1):  # children come after their parents
        if not is_leaf[node]:
            counts[node] = (
                counts[forest.left[root + node] - root] + counts[forest.right[root + node] - root]
            )
    return counts


def row_weights(forest: Forest, root: int, end: int) -> Floats:
    """The weight of the training rows of each node; their number, as in ``row_counts``, if the model does not say."""
    cover: Floats = forest.cover[root:end]
    return cover if cover.any() else row_counts(forest, root, end).astype(np.float64)


def _of_leaves(cover: Floats, n_rows: int | None) -> Array:
    total = float(cover.sum())
    if total == 0:
        return np.ones(cover.size, np.int64)
    if n_rows is not None and not _are_counts(cover) and cover.size <= n_rows <= _MOST_COUNT:
        # Each leaf has one row; the others are divided so that rounding errors do not add up.
        ends = np.rint(np.cumsum(cover) / total * (n_rows - cover.size)).astype(np.int64)
        divided: Array = 1 + np.diff(ends, prepend=0)
        return divided
    factor = 1.0 if _are_counts(cover) else max(1.0, _FINE / float(cover[cover > 0].min()))
    factor = min(factor, _MOST_COUNT / total)
    return np.maximum(1, np.rint(cover * factor)).astype(np.int64)


def _are_counts(cover: Floats) -> bool:
    """Whether the covers of leaves are whole numbers, and so the rows themselves."""
    return bool((cover == np.rint(cover)).all())


def _refuse_names(names: Iterable[str]) -> None:
    """Raise for names with separators of the format, or with characters that LightGBM refuses."""
    for name in names:
        if not name or any(character.isspace() or character in '",:[]{}' for character in name):
            raise ModelError(
                f"feature name {name!r} cannot be written for LightGBM: no spaces, quotes, commas, colons or "
                "brackets. Pass other feature_names."
            )


def _infos(forest: Forest) -> list[str]:
    """The range of each feature; LightGBM treats a feature without one as constant."""
    is_used = np.zeros(forest.n_features, bool)
    is_used[forest.feature[forest.feature >= 0]] = True
    ranges = []
    for feature, names in enumerate(forest.categorical or (None,) * forest.n_features):
        shown = "[-1e+300:1e+300]"
        if names is not None:
            shown = ":".join(map(str, range(len(names) + 1)))
        ranges.append(shown if is_used[feature] else "none")
    return ranges


def _leaf_alone(value: float, count: int) -> list[str]:
    return [
        "num_leaves=1",
        "num_cat=0",
        "split_feature=",
        "split_gain=",
        "threshold=",
        "decision_type=",
        "left_child=",
        "right_child=",
        f"leaf_value={value:.17g}",
        "leaf_weight=",
        f"leaf_count={count}",
        "internal_value=",
        "internal_weight=",
        "internal_count=",
        "is_linear=0",
        "shrinkage=1",
        "",
    ]


def _tree(trees: Plain, root: int, end: int, n_rows: int | None) -> list[str]:
    forest = trees.forest
    nodes = np.arange(root, end)
    is_leaf = forest.feature[nodes] < 0
    counts, weights = row_counts(forest, root, end, n_rows), row_weights(forest, root, end)
    if nodes.size == 1:
        return _leaf_alone(float(trees.value[root]), int(counts[0]))
    inner, leaves = nodes[~is_leaf], nodes[is_leaf]
    # Nodes and leaves are each numbered from 0; a leaf as a child is ~number.
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    goes_left = forest.missing[inner] == forest.left[inner]
    thresholds = rules.greatest_rounded_to(forest.threshold[inner])
    decisions = np.where(goes_left, _NAN_LEFT, _NAN_RIGHT)
    own = subsets_of(forest)[inner]
    by_categories = own.any(axis=1)
    thresholds[by_categories] = np.arange(by_categories.sum())  # the number of the set
    decisions[by_categories] = _NAN_RIGHT | _CATEGORICAL
    return [
        f"num_leaves={leaves.size}",
        f"num_cat={int(by_categories.sum())}",
        _line("split_feature", forest.feature[inner]),
        _line("split_gain", forest.gain[inner], _digits),
        _line("threshold", thresholds, _digits),
        _line("decision_type", decisions),
        _line("left_child", number[forest.left[inner] - root]),
        _line("right_child", number[forest.right[inner] - root]),
        _line("leaf_value", trees.value[leaves], _digits),
        _line("leaf_weight", weights[leaves - root], _digits),
        _line("leaf_count", counts[leaves - root]),
        _line("internal_value", trees.value[inner], _digits),
        _line("internal_weight", weights[inner - root], _digits),
        _line("internal_count", counts[inner - root]),
        *_sets(own[by_categories]),
        "is_linear=0",
        "shrinkage=1",
        "",
    ]


def _sets(subsets: Array) -> list[str]:
    """The sets of categories, each as words of 32 bits."""
    if not len(subsets):
        return []
    words = subsets.astype("<u8").view("<u4")
    ends = np.arange(len(subsets) + 1) * words.shape[1]
    return [_line("cat_boundaries", ends), _line("cat_threshold", words.ravel())]


def _digits(number: float) -> str:
    return f"{number:.17g}"


def _line(name: str, numbers: Array, shown: Callable[[float], str] = str) -> str:
    return f"{name}={' '.join(shown(number) for number in numbers.tolist())}"


# Reading.


def read(content: bytes) -> FileTrees:
    """The trees of a model that LightGBM saved as text, or dumped as JSON."""
    if content.lstrip()[:1] == b"{":
        return _read_dump(mapping(json_of(content), "the model"))
    header, blocks = _blocks(text_of(content))
    names = _check_header(header, header.get("feature_names", "").split(" "))
    builder = TreeBuilder()
    for index, block in enumerate(blocks):
        builder.start_tree()
        try:
            _read_tree(block, builder)
        except ModelError as error:
            raise ModelError(f"tree {index}: {error}") from None
    return _finished(builder, names, "average_output" in header, header.get("feature_infos", ""))


def _finished(
    builder: TreeBuilder, names: tuple[str, ...], is_mean: bool, infos: str = ""
) -> FileTrees:
    if builder.n_features_seen > len(names):
        raise ModelError(
            f"its trees test feature {builder.n_features_seen - 1}, but it has {len(names):,} features."
        )
    n_trees = len(builder.roots)
    averages = is_mean and n_trees > 0
    is_unnamed = list(names) == [f"Column_{number}" for number in range(len(names))]
    return builder.finish(
        n_features=len(names),
        feature_names=None if is_unnamed else names,
        divisor=float(n_trees) if averages else 1.0,
        categorical=_dictionaries(builder, len(names), infos),
    )


def _dictionaries(builder: TreeBuilder, n_features: int, infos: str) -> Dictionaries | None:
    """The categories of each feature that categories are tested of, named by their numbers."""
    if not builder.subsets:
        return None
    n_codes = dict.fromkeys(range(n_features), 0)
    of_node = builder.columns["feature"]
    for node, words in builder.subsets.items():
        bits = sum(word << 64 * place for place, word in enumerate(words))
        n_codes[of_node[node]] = max(n_codes[of_node[node]], bits.bit_length())
    for node, feature in enumerate(of_node):
        if feature >= 0 and n_codes[feature] and node not in builder.subsets:
            raise ModelError(f"feature {feature} is split by categories and by a threshold.")
    for feature, info in enumerate(infos.split()[:n_features]):
        codes = [code for code in info.split(":") if code.isascii() and code.isdigit()]
        if n_codes[feature] and codes:
            known = max(int(code) for code in codes if len(code) < 10)
            n_codes[feature] = max(n_codes[feature], min(known, MOST_CATEGORIES))
    return tuple(
        tuple(map(str, range(min(n_codes[feature], MOST_CATEGORIES)))) if n_codes[feature] else None
        for feature in range(n_features)
    )


def _blocks(text: str) -> tuple[Fields, Iterator[Fields]]:
    """The header, and the fields of each tree."""
    lines = iter(text.splitlines())
    if next(lines, "").strip() != "tree":
        raise ModelError("it is no LightGBM model: the first line must be 'tree'.")
    parts: list[Fields] = [{}]
    is_complete = False
    for line in lines:
        name, _, value = line.strip().partition("=")
        if name == "end of trees":
            is_complete = True
            break
        if name == "Tree":
            parts.append({})
        elif name:
            parts[-1][name] = value
    if not is_complete:
        raise ModelError("it ends before 'end of trees': the file is not complete.")
    return parts[0], iter(parts[1:])


def _check_header(header: Fields, feature_names: Iterable[str]) -> tuple[str, ...]:
    """Raise for models that are not a plain sum or mean of trees; returns the names of the features."""
    if header.get("version") not in ("v3", "v4"):
        raise ModelError(f"its version is {header.get('version')!r}; v3 and v4 can be read.")
    for name in ("num_class", "num_tree_per_iteration"):
        if whole_of(header.get(name, "1"), name) != 1:
            raise ModelError(f"its {name} is not 1; a ranker gives one score.")
    objective = (header.get("objective") or "none").split()
    if not objective or objective[0] not in _PLAIN_OBJECTIVES or "sqrt" in objective:
        raise ModelError(
            f"its objective '{' '.join(objective)[:40]}' changes the scores; only plain sums of trees can be read: "
            f"{', '.join(_PLAIN_OBJECTIVES)}."
        )
    n_features = whole_of(header.get("max_feature_idx"), "max_feature_idx") + 1
    if not 1 <= n_features < MOST_FEATURES:
        raise ModelError(f"its max_feature_idx is {n_features - 1:,}.")
    names = tuple(feature_names)
    if len(names) != n_features or len(set(names)) != n_features:
        raise ModelError(
            f"it must have {n_features:,} different feature_names, got {len(names):,}."
        )
    return names


def _read_dump(document: dict[str, Any]) -> FileTrees:
    """The trees of what ``Booster.dump_model`` returns."""
    header: Fields = {
        name: str(document[name])
        for name in (
            "version",
            "num_class",
            "num_tree_per_iteration",
            "objective",
            "max_feature_idx",
        )
        if name in document
    }
    listed = sequence(document.get("feature_names"), "feature_names")
    names = _check_header(header, [json_text(name, "a feature name") for name in listed])
    builder = TreeBuilder()
    for index, tree in enumerate(sequence(document.get("tree_info"), "tree_info")):
        builder.start_tree()
        try:
            builder.read_tree(
                mapping(tree, "a tree").get("tree_structure"),
                functools.partial(_read_dumped_node, builder),
            )
        except ModelError as error:
            raise ModelError(f"tree {index}: {error}") from None
    return _finished(builder, names, document.get("average_output") is True)


def _read_dumped_node(builder: TreeBuilder, value: Any) -> tuple[int, Children | None]:
    record = mapping(value, "a node")
    if "leaf_coeff" in record:
        raise ModelError("its leaves are linear models, which ours are not.")
    if "leaf_value" in record:
        leaf = json_number(record["leaf_value"], "leaf_value")
        return builder.add_leaf(leaf, json_number(record.get("leaf_count", 0), "leaf_count")), None
    by_categories = record.get("decision_type") == "=="
    if not by_categories and record.get("decision_type") != "<=":
        raise ModelError("a decision_type is neither '<=' nor '=='.")
    threshold = 0.0 if by_categories else json_number(record.get("threshold"), "threshold")
    node = builder.add_split(
        json_whole(record.get("split_feature"), "split_feature"),
        threshold,
        json_number(record.get("internal_value", 0), "internal_value"),
        json_number(record.get("internal_count", 0), "internal_count"),
        max(0.0, json_number(record.get("split_gain", 0), "split_gain")),
    )
    if by_categories:
        listed = json_text(record.get("threshold"), "threshold").split("||")
        builder.set_categories(node, [whole_of(one, "a category") for one in listed])
        return node, (record.get("left_child"), record.get("right_child"), False)
    kind = json_text(record.get("missing_type"), "missing_type")
    if kind not in _KINDS:
        raise ModelError(f"a missing_type is {kind[:20]!r}; it must be {', '.join(_KINDS)}.")
    decision = _KINDS[kind] << 2 | (_DEFAULT_LEFT if record.get("default_left") is True else 0)
    children = record.get("left_child"), record.get("right_child")
    return node, (*children, _missing_goes_left(decision, threshold))


def _read_tree(block: Fields, builder: TreeBuilder) -> None:
    n_leaves = _n_leaves(block)
    values = _numbers(block, "leaf_value", n_leaves)
    counts = _numbers(block, "leaf_count", n_leaves, needed=False)
    if n_leaves == 1:
        builder.add_leaf(values[0], counts[0])
        return
    n_inner = n_leaves - 1
    columns = {
        name: _numbers(block, name, n_inner, needed=name not in _OPTIONAL) for name in _COLUMNS
    }
    n_sets = whole_of(block.get("num_cat", "0"), "num_cat")
    sets = _sets_of(block, n_sets)
    is_read = [False] * (n_inner + n_leaves)

    def read_node(number: int) -> tuple[int, Children | None]:
        index = number if number >= 0 else n_inner + ~number
        is_known = number < n_inner if number >= 0 else ~number < n_leaves
        if not is_known or is_read[index]:
            raise ModelError(f"child {number} is out of range, or has two parents.")
        is_read[index] = True
        if number < 0:
            return builder.add_leaf(values[~number], counts[~number]), None
        node = _add_split(columns, number, builder)
        left, right = (int(columns[side][number]) for side in ("left_child", "right_child"))
        decision = int(columns["decision_type"][number])
        if decision & _CATEGORICAL:
            place = columns["threshold"][number]
            if place not in range(n_sets):
                raise ModelError(f"a split has the set of categories {place:g} of {n_sets:,}.")
            builder.set_categories(node, sets[int(place)])
            return node, (left, right, False)
        return node, (left, right, _missing_goes_left(decision, columns["threshold"][number]))

    builder.read_tree(0, read_node)
    if not all(is_read):
        raise ModelError("some of its nodes have no parent.")


def _n_leaves(block: Fields) -> int:
    """The number of leaves of a tree; raises for trees with linear leaves."""
    n_leaves = whole_of(block.get("num_leaves"), "num_leaves")
    if not 1 <= n_leaves <= _MOST_LEAVES:
        raise ModelError(f"num_leaves is {n_leaves:,}.")
    if whole_of(block.get("is_linear", "0"), "is_linear") != 0:
        raise ModelError("its leaves are linear models, which ours are not.")
    return n_leaves


def _sets_of(block: Fields, n_sets: int) -> list[list[int]]:
    """The categories of each set of a tree."""
    if n_sets == 0:
        return []
    if not 0 < n_sets <= _MOST_LEAVES:
        raise ModelError(f"num_cat is {n_sets:,}.")
    ends = _numbers(block, "cat_boundaries", n_sets + 1)
    words = [whole_of(text, "cat_threshold") for text in block.get("cat_threshold", "").split()]
    ascend = all(first <= last for first, last in pairwise(ends))
    if ends[0] != 0 or ends[-1] != len(words) or not ascend:
        raise ModelError(
            "cat_boundaries must ascend from 0 to the number of words of cat_threshold."
        )
    if any(not 0 <= word < 1 << 32 for word in words):
        raise ModelError("cat_threshold must be whole numbers of 32 bits.")
    return [
        [
            32 * place + bit
            for place, word in enumerate(words[int(first) : int(last)])
            for bit in range(32)
            if word >> bit & 1
        ]
        for first, last in pairwise(ends)
    ]


def _add_split(columns: dict[str, list[float]], number: int, builder: TreeBuilder) -> int:
    return builder.add_split(
        int(columns["split_feature"][number]),
        columns["threshold"][number],
        columns["internal_value"][number],
        columns["internal_count"][number],
        max(0.0, columns["split_gain"][number]),
    )


def _missing_goes_left(decision: int, threshold: float) -> bool:
    """Whether NaN goes left; the kinds 'none' and 'zero' treat it as 0."""
    kind = (decision >> 2) & 3
    goes_left = bool(decision & _DEFAULT_LEFT)
    if kind == _NAN:
        return goes_left
    if kind == _NONE:
        return threshold >= 0
    zeros_left = {threshold >= -_NEAR_ZERO, threshold >= _NEAR_ZERO}
    if kind == _ZERO and zeros_left == {goes_left}:
        return goes_left
    raise ModelError(
        "it was trained with zero_as_missing: a split sends 0 to another side than its threshold says, "
        "which our trees cannot."
    )


def _numbers(block: Fields, name: str, length: int, *, needed: bool = True) -> list[float]:
    texts = block.get(name, "").split()
    if not texts and not needed:
        return [0.0] * length
    if len(texts) != length:
        raise ModelError(f"{name} must be {length:,} numbers, got {len(texts):,}.")
    try:
        numbers = np.array(texts, np.float64)
    except ValueError:
        numbers = np.array([number_of(text, name) for text in texts])
    is_fine = np.isfinite(numbers) | ((numbers == np.inf) & (name == "threshold"))
    if needed and not is_fine.all():
        raise ModelError(f"{name} holds {texts[int(np.argmin(is_fine))][:40]}.")
    if name in _WHOLE and (numbers != np.rint(numbers)).any():
        raise ModelError(f"{name} must be whole numbers.")
    as_list: list[float] = numbers.tolist()
    return as_list
