"""Slow twins of everything about clicks: one document, one pair, one session at a time."""

from __future__ import annotations

import itertools
import math


def corrected_pairs(
    labels, scores, slopes, offsets, up=None, down=None, *, normalise=True, sigma=1.0, truncation=30
):
    """Gradient, hessian, and costs as the better and the worse document, of one list under NDCG with gains 2^y - 1.

    A pair pulls by its corrected gains; what scales the list is what it would be by the clicks as they are.
    """
    size = len(labels)
    up, down = up or [1.0] * size, down or [1.0] * size
    places = sorted(range(size), key=lambda document: -scores[document])
    rank = {document: number for number, document in enumerate(places)}
    gains = [2.0**label - 1.0 for label in labels]
    ideal = math.fsum(g / math.log2(k + 2) for k, g in enumerate(sorted(gains, reverse=True)))
    gradient, hessian = [0.0] * size, [0.0] * size
    costs = [[0.0] * size, [0.0] * size]
    if ideal == 0.0:
        return gradient, hessian, costs
    worth = [gain / ideal for gain in gains]
    corrected = [(w - b / ideal) / a for w, a, b in zip(worth, slopes, offsets, strict=True)]
    if len(set(corrected)) == 1:
        return gradient, hessian, costs
    total = 0.0
    for i, j in itertools.combinations(places, 2):
        if rank[i] >= truncation:
            continue
        drop = 1.0 / math.log2(rank[i] + 2) - 1.0 / math.log2(rank[j] + 2)
        apart = 1.0
        if normalise and max(scores) != min(scores):
            apart = 0.01 + abs(scores[i] - scores[j])
        if worth[i] != worth[j]:
            better, worse = (i, j) if worth[i] > worth[j] else (j, i)
            rho = 1.0 / (1.0 + math.exp(sigma * (scores[better] - scores[worse])))
            total += 2.0 * sigma * rho * (worth[better] - worth[worse]) * drop / apart
        better, worse = (i, j) if corrected[i] > corrected[j] else (j, i)
        rho = 1.0 / (1.0 + math.exp(sigma * (scores[better] - scores[worse])))
        change = (corrected[better] - corrected[worse]) * drop
        weight = change / apart * up[better] * down[worse]
        gradient[better] -= sigma * rho * weight
        gradient[worse] += sigma * rho * weight
        for document in (better, worse):
            hessian[document] += sigma**2 * rho * (1.0 - rho) * weight
        cost = change * math.log1p(math.exp(-sigma * (scores[better] - scores[worse])))
        costs[0][better] += cost * down[worse]
        costs[1][worse] += cost * up[better]
    factor = math.log2(1.0 + total) / total if normalise and total > 0.0 else 1.0
    return [factor * g for g in gradient], [factor * h for h in hessian], costs


def ratios(costs, positions, known, before):
    """The ratio of each known position after a round, from the costs of documents."""
    sums = [math.fsum(c for c, p in zip(costs, positions, strict=True) if p == k) for k in known]
    if sums[0] <= 0.0:
        return list(before)
    return [math.sqrt(s / sums[0]) if s > 0.0 else old for s, old in zip(sums, before, strict=True)]


def moved_scores(gradient, hessian, positions, known, before, learning_rate):
    """The score of each known position after a round of the additive model."""
    after = []
    for k, old in zip(known, before, strict=True):
        rows = [row for row, position in enumerate(positions) if position == k]
        slope = math.fsum(gradient[row] for row in rows)
        curve = math.fsum(hessian[row] for row in rows)
        after.append(old - learning_rate * slope / (curve + 1e-3))
    return after


def cells_of(documents, positions, clicks, weights=None):
    """Impressions and clicks of each document at each position."""
    weights = weights or [1.0] * len(clicks)
    cells = {}
    for document, position, click, weight in zip(
        documents, positions, clicks, weights, strict=True
    ):
        shown, clicked = cells.get((document, position), (0.0, 0.0))
        cells[document, position] = (shown + weight, clicked + weight * click)
    return cells


def harvested(cells):
    """Weighted clicks at k of documents that were also seen at k', by (k, k')."""
    wins = {}
    for (document, k), (shown, clicked) in cells.items():
        for (other, beside), (n_beside, _) in cells.items():
            if other == document and beside != k:
                weight = shown * n_beside / (shown + n_beside)
                wins[k, beside] = wins.get((k, beside), 0.0) + weight * clicked / shown
    return wins


def strengths(wins, known, rounds=20_000):
    """Bradley and Terry's strengths by Zermelo's iteration, relative to the first position."""
    values = dict.fromkeys(known, 1.0)
    for _ in range(rounds):
        after = {}
        for k in known:
            total = sum(wins.get((k, other), 0.0) for other in known)
            games = sum(
                (wins.get((k, other), 0.0) + wins.get((other, k), 0.0))
                / (values[k] + values[other])
                for other in known
                if other != k
            )
            after[k] = total / games
        values = {k: value / after[known[0]] for k, value in after.items()}
    return [values[k] for k in known]


def power(wins):
    """The η of k^-η that is most likely, by ternary search of the likelihood."""

    def likelihood(eta):
        return sum(
            count * math.log(k**-eta / (k**-eta + other**-eta))
            for (k, other), count in wins.items()
        )

    low, high = -10.0, 10.0
    for _ in range(200):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (one, high) if likelihood(one) < likelihood(two) else (low, two)
    return (low + high) / 2


def passed_liking(gamma, look):
    """How likely a document was liked that was not clicked, by enumerating what may have happened."""
    ways = {
        (seen, liked): (look if seen else 1 - look) * (gamma if liked else 1 - gamma)
        for seen in (0, 1)
        for liked in (0, 1)
    }
    without_click = sum(chance for way, chance in ways.items() if way != (1, 1))
    return ways[0, 1] / without_click


def best_look(cells, k, gammas):
    """The most likely θ of a position for given relevances, on a fine grid."""
    here = [(n, c, gammas[document]) for (document, at), (n, c) in cells.items() if at == k]
    grid = [number / 5000 for number in range(1, 5000)]

    def likelihood(theta):
        return sum(c * math.log(theta * g) + (n - c) * math.log(1 - theta * g) for n, c, g in here)

    return max(grid, key=likelihood)


def affine(cells, known, turns=200):
    """Slopes and offsets by alternating weighted least squares, without a gauge: compare relative slopes."""
    documents = sorted({document for document, _ in cells})
    mean = {
        k: sum(c for (_, at), (_, c) in cells.items() if at == k)
        / sum(n for (_, at), (n, _) in cells.items() if at == k)
        for k in known
    }
    weight = {cell: n / max(mean[cell[1]], 1e-4) for cell, (n, _) in cells.items()}
    rate = {cell: c / n for cell, (n, c) in cells.items()}
    gamma = {
        d: sum(c for (x, _), (_, c) in cells.items() if x == d)
        / sum(n for (x, _), (n, _) in cells.items() if x == d)
        for d in documents
    }
    slope = {}
    for _ in range(turns):
        offset = {}
        for k in known:
            here = [cell for cell in cells if cell[1] == k]
            total = sum(weight[cell] for cell in here)
            g = sum(weight[cell] * gamma[cell[0]] for cell in here) / total
            r = sum(weight[cell] * rate[cell] for cell in here) / total
            above = sum(weight[cell] * (gamma[cell[0]] - g) * (rate[cell] - r) for cell in here)
            slope[k] = above / sum(weight[cell] * (gamma[cell[0]] - g) ** 2 for cell in here)
            offset[k] = r - slope[k] * g
        for d in documents:
            here = [cell for cell in cells if cell[0] == d]
            above = sum(weight[c] * slope[c[1]] * (rate[c] - offset[c[1]]) for c in here)
            gamma[d] = above / sum(weight[c] * slope[c[1]] ** 2 for c in here)
        middle = sum(gamma.values()) / len(gamma)
        scale = math.sqrt(sum((g - middle) ** 2 for g in gamma.values()) / len(gamma))
        gamma = {d: (g - middle) / scale for d, g in gamma.items()}
    return [slope[k] / slope[known[0]] for k in known]


def counterfactual(lists, weights_of_rank, clip):
    """IPS, clipped and self-normalised estimates, and the effective number of sessions.

    ``lists`` has for each session (clicks, slopes, offsets, new ranks).
    """
    ips = clipped = counted = squares = 0.0
    for clicks, slopes, offsets, ranks in lists:
        own = 0.0
        for click, slope, offset, rank in zip(clicks, slopes, offsets, ranks, strict=True):
            liked = (click - offset) / slope
            ips += liked * weights_of_rank(rank)
            clipped += (click - offset) / max(slope, 1.0 / clip) * weights_of_rank(rank)
            own += liked
        counted += own
        squares += own**2
    return ips / len(lists), clipped / len(lists), ips / counted, counted**2 / squares


def probabilistic_teams(one, other, shown):
    """The chance that each document shown came from the first ranking, given those shown above it."""
    teams = []
    for place, document in enumerate(shown):
        above = set(shown[:place])
        chances = []
        for ranking in (one, other):
            left = {d: (rank + 1) ** -3.0 for rank, d in enumerate(ranking) if d not in above}
            chances.append(left.get(document, 0.0) / sum(left.values()) if left else 0.0)
        teams.append(chances[0] / sum(chances))
    return teams


def judgments(lists, documents, labels, shown, slopes, offsets, prior):
    """For each document the first list of its query and its label; lists that share documents are one query."""
    rows = range(len(lists))
    query_of = {number: number for number in lists}
    for _ in rows:  # lists join one by one, until none does
        for i, j in itertools.combinations(rows, 2):
            if documents[i] == documents[j]:
                first = min(query_of[lists[i]], query_of[lists[j]])
                query_of[lists[i]] = query_of[lists[j]] = first
    looks = [n * slope for n, slope in zip(shown, slopes, strict=True)]
    clicks = [n * (y - b) for n, y, b in zip(shown, labels, offsets, strict=True)]
    found = {}
    for document in documents:
        mine = [row for row in rows if documents[row] == document]
        n_clicks, n_looks = (math.fsum(part[row] for row in mine) for part in (clicks, looks))
        label = max(n_clicks / (n_looks + prior), 0.0)
        found[document] = (query_of[lists[mine[0]]], label, n_looks)
    return found
