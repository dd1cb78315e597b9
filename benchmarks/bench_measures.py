"""NDCG@10, MAP and ERR per query of 720,000 documents, against ranx and pytrec_eval.

Run as ``python -m benchmarks.bench_measures``.

Each side is fed what it wants, ready-made: ours a ``RankingData`` and an array of scores, theirs
their own objects or dictionaries; making those is not counted. Each gives one value per query, and
the values are compared. Neither peer has ERR: ours is held against the faster peer's MAP, which
reads the same ranking.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks import common
from rankwood.data.dataset import RankingData
from rankwood.measures.measure import parse_measure

N_QUERIES = 6_000
N_DOCUMENTS = 120  # per query
LABEL_SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)  # of WEB10K
GOALS = {"ndcg@10": 20.0, "map": 10.0, "err": 10.0}
REPEATS = 9


def make() -> tuple[RankingData, Any]:
    """Labels in WEB10K's proportions, and scores that follow them and differ within a query."""
    rng = np.random.default_rng(0)
    shape = (N_QUERIES, N_DOCUMENTS)
    labels = rng.choice(5, shape, p=LABEL_SHARES)
    noisy = 0.5 * labels + rng.normal(size=shape)
    # trec_eval keeps scores in single precision: multiples of 2^-13 stay what they are, and stay
    # apart.
    steps = np.argsort(np.argsort(noisy, axis=1), axis=1)
    scores = np.round(noisy * 16) + steps / 8192
    query_ids = np.repeat(np.arange(1, N_QUERIES + 1), N_DOCUMENTS)
    rows = N_QUERIES * N_DOCUMENTS
    doc_ids = np.array([f"doc-{number:07d}" for number in rng.permutation(rows)], object)
    data = RankingData(np.zeros((rows, 1)), labels.ravel(), query_ids, doc_ids=doc_ids)
    return data, scores.ravel()


def nested(data: RankingData, values: Any) -> dict[str, dict[str, Any]]:
    """``{query: {document: value}}``."""
    documents = data.doc_ids.tolist()
    numbers = values.tolist()
    return {
        f"q{query}": {documents[row]: numbers[row] for row in rows.tolist()}
        for query, rows in data.iter_queries()
    }


def peers(data: RankingData, scores: Any) -> dict[str, dict[str, Any]]:
    """For each measure, the peers' calls: no arguments, one value per query."""
    import pytrec_eval
    import ranx

    labels, run = nested(data, data.labels.astype(int)), nested(data, scores)
    ranx_labels, ranx_run = ranx.Qrels(labels), ranx.Run(run)

    def ask_ranx(measure: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ranx.evaluate(ranx_labels, ranx_run, measure, return_mean=False)

    def ask_trec_eval(evaluator: Any) -> Any:
        return evaluator.evaluate(run)

    evaluator = {
        name: pytrec_eval.RelevanceEvaluator(labels, {name}) for name in ("ndcg_cut.10", "map")
    }
    return {
        "ndcg@10": {
            "ranx": lambda: ask_ranx("ndcg_burges@10"),
            "pytrec_eval": lambda: ask_trec_eval(evaluator["ndcg_cut.10"]),
        },
        "map": {
            "ranx": lambda: ask_ranx("map"),
            "pytrec_eval": lambda: ask_trec_eval(evaluator["map"]),
        },
    }


def largest_differences(
    data: RankingData, scores: Any, calls: dict[str, dict[str, Any]]
) -> dict[str, float]:
    """How far our values are from theirs, at most; trec_eval's NDCG has the linear gain."""
    queries = [f"q{query}" for query in data.queries]
    found = {}
    for text, name, key in (
        ("ndcg@10[gain=linear]", "ndcg@10", "ndcg_cut_10"),
        ("map", "map", "map"),
    ):
        values = calls[name]["pytrec_eval"]()
        expected = [values[query][key] for query in queries]
        found[f"{text} pytrec_eval"] = parse_measure(text).per_query(scores, data) - expected
    for text in ("ndcg@10", "map"):
        values = dict(zip(sorted(queries), calls[text]["ranx"](), strict=True))  # by sorted id
        expected = [values[query] for query in queries]
        found[f"{text} ranx"] = parse_measure(text).per_query(scores, data) - expected
    return {name: float(np.abs(difference).max()) for name, difference in found.items()}


def our_calls(text: str, data: RankingData, scores: Any) -> dict[str, Any]:
    """Our calls with one and with two threads, compiled."""
    measure = parse_measure(text)
    measure.per_query(scores, data)
    return {
        "rankwood, 1 thread": lambda: measure.per_query(scores, data, n_threads=1),
        "rankwood, 2 threads": lambda: measure.per_query(scores, data, n_threads=2),
    }


def main() -> None:
    data, scores = make()
    calls = peers(data, scores)
    print(f"{len(data):,} documents, {data.n_queries:,} queries")
    for name, difference in largest_differences(data, scores, calls).items():
        print(f"largest difference, {name:<32} {difference:.1e}")
    result: dict[str, Any] = {}
    for text, goal in GOALS.items():
        theirs = calls["map" if text == "err" else text]
        ours = our_calls(text, data, scores)
        print(f"\n{text}{' (peers: their MAP, neither has ERR)' if text == 'err' else ''}")
        seconds = common.alternate(theirs | ours, REPEATS)
        for name, times in seconds.items():
            print(common.describe(name, times))
        fastest = min(common.median(seconds[name]) for name in theirs)
        for name in ours:
            ratio = fastest / common.median(seconds[name])
            result[f"ratio {text}, {name}"] = ratio
            print(f"{name}: {ratio:.1f} times as fast as the faster peer (goal {goal:g})")
        result[f"seconds {text}"] = {name: common.median(times) for name, times in seconds.items()}
    common.keep("bench_measures", result)


if __name__ == "__main__":
    main()
