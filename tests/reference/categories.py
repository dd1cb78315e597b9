"""The best split by categories, by lists and sums: what ``rankwood.trees.subsets`` says, without bits or histograms."""

from __future__ import annotations

from itertools import combinations

FEW = 5


def gain(left: tuple[int, int], total: tuple[int, int]) -> float:
    """What a split with this sum and number of rows on the left removes of the squared error."""
    right = (total[0] - left[0], total[1] - left[1])
    parts = (left, right)
    return sum(s * s / n for s, n in parts) - total[0] ** 2 / total[1]


def sums(targets, codes, chosen) -> tuple[int, int]:
    own = [target for target, code in zip(targets, codes, strict=True) if code in chosen]
    return sum(own), len(own)


def best_of_all_subsets(targets, codes) -> float:
    """The greatest gain of any division of the categories in two."""
    present = sorted(set(codes))
    total = sums(targets, codes, present)
    best = 0.0
    for size in range(1, len(present)):
        for chosen in combinations(present, size):
            best = max(best, gain(sums(targets, codes, set(chosen)), total))
    return best


def best_split(targets, codes, n_codes, smoothing, least_rows) -> tuple[float, set[int]]:
    """The gain and the categories on the left, by the order of smoothed means."""
    total = sums(targets, codes, set(range(n_codes)))
    rows = {code: sums(targets, codes, {code}) for code in range(n_codes)}
    if n_codes <= FEW:
        entries = [{code} for code in range(n_codes) if rows[code][1]]
        others = {code for code in range(n_codes) if not rows[code][1]}
        prefixes = entries if len(entries) > 1 else []
    else:
        mean = total[0] / total[1]
        few = {code for code in range(n_codes) if rows[code][1] < max(1, least_rows)}
        own = [{code} for code in range(n_codes) if code not in few]
        if sums(targets, codes, few)[1]:
            own.append(few)
            others = set()
        else:
            others = few

        def key(entry):
            s, n = sums(targets, codes, entry)
            return (s + smoothing * mean) / (n + smoothing)

        entries = sorted(own, key=key)  # stable: ties by code, those of few rows last
        prefixes = [set().union(*entries[:size]) for size in range(1, len(entries))]
    best, chosen = 0.0, set()
    for prefix in prefixes:
        value = gain(sums(targets, codes, prefix), total)
        if value > best * (1 + 1e-12):
            best, chosen = value, prefix
    if chosen and 2 * sums(targets, codes, chosen)[1] >= total[1]:
        chosen = chosen | others
    return best, chosen
