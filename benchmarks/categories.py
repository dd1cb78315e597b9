"""Categorical features on generated data: against LightGBM's, one column per category, and codes as numbers.

Run as ``python -m benchmarks.categories``; it takes some minutes on two cores. 2,000 queries of 20 documents, half of
them to test, with five numbers and four categorical features of 8, 30, 100 and 250 categories, whose frequencies fall
as 1 / rank. Labels follow from the numbers, an effect of each category, an effect that one number has in half of the
categories only, and noise. Every model is LambdaMART with 100 trees of 31 leaves at learning rate 0.1; three seeds.
Times are those of fits on binned data, in turn, against the same data with codes as numbers.

Bars: NDCG@10 within 0.002 of LightGBM's and above those of one column per category and of codes as numbers; at most
1.2 times as long as with codes as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import rankwood as rw
from benchmarks.common import alternate, describe, keep, median
from rankwood import LambdaMART, RankingData
from rankwood.dtypes import Array
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import parse_measure

N_QUERIES, N_DOCUMENTS = 2_000, 20
N_CATEGORIES = (8, 30, 100, 250)
N_NUMBERS = 5
N_TREES, N_LEAVES, RATE = 100, 31, 0.1
SEEDS = (1, 2, 3)
N_THREADS = 2

LIGHTGBM = {
    "objective": "lambdarank",
    "num_leaves": N_LEAVES,
    "learning_rate": RATE,
    "min_data_in_leaf": 20,
    "num_threads": N_THREADS,
    "verbosity": -1,
}


@dataclass(frozen=True)
class Sides:
    """The same documents in three forms, to train and to test."""

    categories: tuple[RankingData, RankingData]
    codes: tuple[RankingData, RankingData]
    columns: tuple[RankingData, RankingData]


def generated(seed: int) -> Sides:
    """Data with planted categories."""
    draw = np.random.default_rng(seed)
    n_rows = N_QUERIES * N_DOCUMENTS
    numbers = draw.normal(size=(n_rows, N_NUMBERS))
    utility = numbers[:, 0] + 0.5 * np.abs(numbers[:, 1])
    codes = []
    for n_categories in N_CATEGORIES:
        shares = 1.0 / np.arange(1, n_categories + 1)
        code = draw.choice(n_categories, n_rows, p=shares / shares.sum())
        code = draw.permutation(n_categories)[code]  # frequencies say nothing of the order
        effect, turns = draw.normal(size=n_categories), draw.random(n_categories) < 0.5
        utility += 0.7 * effect[code] + 0.5 * numbers[:, 2] * turns[code]
        codes.append(code)
    utility += draw.normal(size=n_rows)
    labels = np.searchsorted(np.quantile(utility, [0.5, 0.75, 0.9, 0.97]), utility).astype(float)
    queries = np.repeat(np.arange(N_QUERIES), N_DOCUMENTS)
    plain = np.column_stack([numbers, *codes]).astype(np.float32)
    names = {
        N_NUMBERS + place: tuple(map(str, range(n_categories)))
        for place, n_categories in enumerate(N_CATEGORIES)
    }
    wide = [numbers, *(np.eye(n)[code] for n, code in zip(N_CATEGORIES, codes, strict=True))]
    forms = (
        RankingData(plain, labels, queries, categorical=names),
        RankingData(plain, labels, queries),
        RankingData(np.column_stack(wide).astype(np.float32), labels, queries),
    )
    is_train = queries < N_QUERIES // 2
    return Sides(*((form.take_rows(is_train), form.take_rows(~is_train)) for form in forms))


def theirs(train: RankingData, test: RankingData) -> Array:
    """LightGBM's scores of the test part, with its categorical features."""
    import lightgbm

    rows = lightgbm.Dataset(
        train.features,
        train.labels,
        group=np.diff(train.query_offsets),
        categorical_feature=list(range(N_NUMBERS, N_NUMBERS + len(N_CATEGORIES))),
    )
    scores: Array = lightgbm.train(LIGHTGBM, rows, N_TREES).predict(test.features)
    return scores


def main() -> None:
    ranker = LambdaMART(
        N_TREES, max_leaves=N_LEAVES, learning_rate=RATE, min_leaf=20, n_threads=N_THREADS
    )
    values: dict[str, list[float]] = {}
    for seed in SEEDS:
        sides = generated(seed)
        scores = {
            name: ranker.fit(train).predict(test) for name, (train, test) in vars(sides).items()
        } | {"lightgbm": theirs(*sides.categories)}
        for name, given in scores.items():
            value = mean_value(parse_measure("ndcg@10"), given, sides.codes[1])
            values.setdefault(name, []).append(value)
        print(f"seed {seed}: " + ", ".join(f"{name} {values[name][-1]:.4f}" for name in values))
    means = {name: float(np.mean(given)) for name, given in values.items()}
    print("NDCG@10: " + ", ".join(f"{name} {value:.4f}" for name, value in means.items()))
    sides = generated(SEEDS[0])
    binned = {name: rw.bin(getattr(sides, name)[0]) for name in ("categories", "codes", "columns")}
    runs = {name: (lambda rows=rows: ranker.fit(rows)) for name, rows in binned.items()}
    seconds = alternate(runs, 3)
    for name, taken in seconds.items():
        print(describe(f"{N_TREES} trees, {name}", taken))
    ratio = median(seconds["categories"]) / median(seconds["codes"])
    print(f"time of categories / of numbers: {ratio:.2f} (goal: at most 1.20)")
    keep(
        "categories",
        {
            "ndcg@10": values,
            "means": means,
            "behind_lightgbm": means["lightgbm"] - means["categories"],
            "seconds": seconds,
            "ratio": ratio,
        },
    )


if __name__ == "__main__":
    main()
