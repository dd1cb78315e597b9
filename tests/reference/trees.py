"""A slow grower that a reader can believe: lists of rows, sums taken anew for every cut, no histograms.

Targets are rounded to whole numbers first, as the engine's are, so that gains compare exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

MASK = (1 << 64) - 1
MISSING = 255


def mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def combine(one: int, other: int) -> int:
    return mix((one * 0x9E3779B97F4A7C15 + other + 1) & MASK)


def uniform(one: int, other: int) -> float:
    return (combine(one, other) >> 11) * 2.0**-53


@dataclass
class Whole:
    """Targets and weights as whole numbers, by row; 0 for rows that were not drawn."""

    targets: list[int]
    weights: list[int]
    target_unit: float
    weight_unit: float
    shift: float

    @property
    def gain_unit(self) -> float:
        return self.target_unit**2 / self.weight_unit


def power_of_two(limit: float) -> float:
    """The largest power of two that is not above ``limit``."""
    return 2.0 ** (math.frexp(limit)[1] - 1)


def exact_unit(largest: float, n_terms: int) -> Fraction:
    """The power of two by which so many numbers of at most ``largest`` have a sum below 2^62."""
    return (
        Fraction(2) ** (62 - n_terms.bit_length() - math.frexp(largest)[1])
        if largest
        else Fraction(1)
    )


def shift_of(values: list[float], n_terms: int) -> float:
    """A round number near the mean of the values."""
    unit = exact_unit(max(map(abs, values), default=0.0), n_terms)
    mean = float(sum(round(Fraction(each) * unit) for each in values) / unit / len(values))
    spread = max(abs(each - mean) for each in values)
    return round(mean / power_of_two(spread)) * power_of_two(spread) if spread > 0.0 else mean


def without_bits(number: int, drop: int) -> int:
    """The number divided by 2^drop, rounded; a half is rounded up."""
    return (number + (1 << drop >> 1)) >> drop


def pack(
    targets: list[float], counts: list[int], weights: list[float] | None, centre: bool
) -> Whole:
    """Weighted targets as whole numbers: shifted near their mean, and scaled as far as 62 bits for both sums allow."""
    drawn = [row for row, count in enumerate(counts) if count]
    n_terms = max(sum(counts), 512)  # 52 bits at most
    given = [1.0] * len(counts) if weights is None else weights
    shift = shift_of([targets[row] for row in drawn], len(targets)) if centre else 0.0
    products = {row: (targets[row] - shift) * given[row] for row in drawn}
    unit = exact_unit(max(map(abs, products.values())), n_terms)
    weight_unit = exact_unit(max(given[row] for row in drawn), n_terms) if weights else Fraction(1)
    fine_targets = {row: counts[row] * round(Fraction(products[row]) * unit) for row in drawn}
    fine_weights = {row: counts[row] * round(Fraction(given[row]) * weight_unit) for row in drawn}
    weight, size = sum(fine_weights.values()), sum(map(abs, fine_targets.values()))
    drop_weight = max(0, weight.bit_length() - 31) if weights else 0
    bits = max(1, ((weight >> drop_weight) + (len(drawn) if drop_weight else 0)).bit_length())
    drop = max(0, size.bit_length() - (62 - bits))
    while (size >> drop) + len(drawn) >= 2 ** (62 - bits):
        drop += 1
    rows = range(len(counts))
    return Whole(
        [without_bits(fine_targets.get(row, 0), drop) for row in rows],
        [without_bits(fine_weights.get(row, 0), drop_weight) for row in rows],
        float(unit / 2**drop),
        float(weight_unit / 2**drop_weight),
        shift,
    )


@dataclass
class Problem:
    """Binned columns, integer targets and weights, and the policies."""

    columns: list[list[int]]
    thresholds: list[list[float]]
    targets: list[int]  # of the rows as often as they were drawn, scaled
    weights: list[int]
    counts: list[int]
    max_leaves: int = 31
    max_depth: int = 10**9
    min_leaf: int = 1
    min_split: int = 1
    min_gain: float = 0.0
    min_weight: float = 0.0
    per_node: int | None = None
    threshold_rule: str = "best"
    missing: str = "learned"
    l2: float = 0.0
    l1: float = 0.0
    per_tree: int | None = None
    groups: list[set[int]] | None = None
    costs: list[float] | None = None
    direction: list[int] | None = None
    stream: int = 0


@dataclass
class Node:
    rows: list[int]
    depth: int
    path: int
    above: set[int] = field(default_factory=set)  # the features of the splits above
    low: float = -math.inf
    high: float = math.inf
    split: tuple | None = None  # gain, feature, code, side
    children: list[int] = field(default_factory=list)
    side: str = "learned"


def total(problem: Problem, rows: list[int]) -> tuple[int, int]:
    return sum(problem.targets[r] for r in rows), sum(problem.weights[r] for r in rows)


def towards_zero(problem: Problem, target: int) -> float:
    return math.copysign(max(abs(target) - problem.l1, 0.0), target)


def score(problem: Problem, rows: list[int]) -> float:
    target, weight = total(problem, rows)
    target = towards_zero(problem, target)
    return target * target / (weight + problem.l2) if weight + problem.l2 > 0 else 0.0


def value(problem: Problem, rows: list[int], node: Node) -> float:
    target, weight = total(problem, rows)
    target = towards_zero(problem, target)
    plain = target / (weight + problem.l2) if weight + problem.l2 > 0 else 0.0
    return min(max(plain, node.low), node.high)


def has_weight_or_target(problem: Problem, row: int) -> bool:
    """Whether the row has a weight, or a target that its rounded weight has left."""
    return problem.weights[row] != 0 or problem.targets[row] != 0


def all_alike(problem: Problem, rows: list[int]) -> bool:
    """Whether target / weight is the same for all rows that have either."""
    pairs = [
        (problem.targets[r], problem.weights[r]) for r in rows if has_weight_or_target(problem, r)
    ]
    return all(target * pairs[0][1] == pairs[0][0] * weight for target, weight in pairs)


def is_large_enough(problem: Problem, rows: list[int]) -> bool:
    """Whether the rows may be a leaf."""
    n_rows = sum(problem.counts[r] for r in rows)
    weight = sum(problem.weights[r] for r in rows)
    return n_rows >= problem.min_leaf and weight >= problem.min_weight


def drawn(path: int, features: list[int], wanted: int) -> list[int]:
    """A draw of so many features: each is taken with the probability that those still wanted need."""
    chosen: list[int] = []
    for index, feature in enumerate(features):
        if uniform(path, feature) * (len(features) - index) < wanted - len(chosen):
            chosen.append(feature)
    return chosen


def features_of(problem: Problem, node: Node) -> list[int]:
    """What the node searches: some of the tree's features that share a group with all features above."""
    every = list(range(len(problem.columns)))
    if problem.per_tree is not None:
        every = drawn(combine(mix(problem.stream), 3), every, problem.per_tree)
    allowed = [
        feature
        for feature in every
        if problem.groups is None or any({feature, *node.above} <= g for g in problem.groups)
    ]
    return drawn(node.path, allowed, min(problem.per_node or len(every), len(allowed)))


def cuts_of(problem: Problem, node: Node, feature: int, side: str) -> list[int]:
    """The codes after which the node may be cut; missing values on the right can be a side of their own."""
    column = problem.columns[feature]
    thresholds = problem.thresholds[feature]
    seen = sorted({column[row] for row in node.rows} - {MISSING})
    if problem.threshold_rule == "best":
        return [code for code in (seen if side == "right" else seen[:-1]) if code < len(thresholds)]
    return random_cuts(problem, node, feature, uniform(node.path, feature + len(problem.columns)))


def random_cuts(problem: Problem, node: Node, feature: int, draw: float) -> list[int]:
    """The code that ``draw`` picks between the least and the greatest of the node; none where all are alike."""
    column = problem.columns[feature]
    thresholds = problem.thresholds[feature]
    seen = sorted(
        {column[row] for row in node.rows if has_weight_or_target(problem, row)} - {MISSING}
    )
    if len(seen) < 2:
        return []
    low, high = thresholds[seen[0]], thresholds[seen[-1] - 1]
    cut = low + draw * (high - low)
    code = seen[0]
    while code < seen[-1] - 1 and thresholds[code] < cut:
        code += 1
    return [code]


def range_of(codes: list[int]) -> tuple[int, int, bool]:
    """Least and greatest code, and whether any is missing; nothing between 255 and -1 where none is known."""
    known = [code for code in codes if code != MISSING]
    return min(known, default=MISSING), max(known, default=-1), MISSING in codes


def random_split(problem: Problem, node: Node) -> tuple | None:
    """The first feature drawn that varies, cut at random; nodes with more rows are split first."""
    n_features = len(problem.columns)
    for attempt in range(4 * n_features):
        feature = int(uniform(node.path, attempt) * n_features)
        draw = uniform(node.path, attempt + 4 * n_features)
        for code in random_cuts(problem, node, feature, draw):
            rows = [row for row in node.rows if has_weight_or_target(problem, row)]
            side = "learned"
            if any(problem.columns[feature][row] == MISSING for row in rows):
                side = ("left", "right")[combine(node.path, attempt) & 1]
            return sum(problem.counts[row] for row in node.rows), feature, code, side
    return None


def sides_of(problem: Problem, n_missing: int) -> list[str]:
    if n_missing == 0:
        return ["learned"]
    return {
        "learned": ["right", "left"],
        "left": ["left"],
        "right": ["right"],
        "own_child": ["own"],
    }[problem.missing]


def parts(problem: Problem, node: Node, feature: int, code: int, side: str) -> list[list[int]]:
    column = problem.columns[feature]
    known_left = [r for r in node.rows if column[r] != MISSING and column[r] <= code]
    known_right = [r for r in node.rows if column[r] != MISSING and column[r] > code]
    absent = [r for r in node.rows if column[r] == MISSING]
    if side == "left":
        known_left = sorted(known_left + absent)
    elif side == "right":
        known_right = sorted(known_right + absent)
    return [known_left, known_right, absent] if side == "own" else [known_left, known_right]


def find_split(problem: Problem, node: Node) -> None:
    """The best split of a node: first feature, then right before left, then first cut, wins a tie."""
    n_rows = sum(problem.counts[r] for r in node.rows)
    if node.depth >= problem.max_depth or n_rows < 2 * problem.min_leaf:
        return
    if len(node.rows) < problem.min_split:
        return
    if all_alike(problem, node.rows):
        return
    if problem.threshold_rule == "completely_random":
        node.split = random_split(problem, node)
        return
    parent = score(problem, node.rows)
    for feature in features_of(problem, node):
        n_missing = sum(problem.columns[feature][r] == MISSING for r in node.rows)
        best = None
        for side in sides_of(problem, n_missing):
            for code in cuts_of(problem, node, feature, side):
                pieces = parts(problem, node, feature, code, side)
                if not all(is_large_enough(problem, piece) for piece in pieces[:2]):
                    continue
                gain = sum(score(problem, piece) for piece in pieces) - parent
                direction = problem.direction[feature] if problem.direction else 0
                apart = value(problem, pieces[1], node) - value(problem, pieces[0], node)
                if direction * apart < 0:
                    continue
                if gain > parent * 1e-13 and (best is None or gain > best[0] + 1e-9 * abs(best[0])):
                    best = (gain, feature, code, side)
        if best is None:
            continue
        net = best[0] - (problem.costs[feature] if problem.costs else 0.0)
        if best[0] > problem.min_gain and (node.split is None or net > node.split[0]):
            node.split = (net, *best[1:])


def grow(problem: Problem) -> list[Node]:
    """The nodes in order of creation, best leaf split first."""
    nodes = [
        Node(
            sorted(r for r in range(len(problem.targets)) if problem.counts[r]),
            0,
            mix(problem.stream),
        )
    ]
    find_split(problem, nodes[0])
    n_leaves = 1
    while n_leaves < problem.max_leaves:
        open_leaves = [n for n in range(len(nodes)) if nodes[n].split and not nodes[n].children]
        if not open_leaves:
            break
        best = max(open_leaves, key=lambda n: (nodes[n].split[0], -n))
        node = nodes[best]
        _, feature, code, side = node.split
        pieces = parts(problem, node, feature, code, side)
        for which, piece in enumerate(pieces):
            node.children.append(len(nodes))
            nodes.append(
                Node(
                    piece,
                    node.depth + 1,
                    combine(node.path, which),
                    {*node.above, feature},
                    node.low,
                    node.high,
                )
            )
        direction = problem.direction[feature] if problem.direction else 0
        if direction:
            middle = (value(problem, pieces[0], node) + value(problem, pieces[1], node)) / 2
            smaller, larger = node.children[:2] if direction > 0 else node.children[1::-1]
            nodes[smaller].high = middle
            nodes[larger].low = middle
        n_leaves += len(pieces) - 1
        for child in node.children:
            if n_leaves < problem.max_leaves:
                find_split(problem, nodes[child])
    return nodes
