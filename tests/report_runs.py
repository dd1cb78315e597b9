"""Runs for the tests of the report: real fits of small rankers on made data."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import rankwood
from rankwood.evaluation.evaluate import evaluate
from rankwood.experiments.results import CellRecord, RankedDocuments, RunResults

HOSTILE = "</script><b onmouseover='x'>\"&amp;`${1}` \u202ertl\u2028 " + "long" * 40
MEASURES = ["ndcg@10", "map", "err@10"]


def small_rankers() -> dict[str, Any]:
    """Five rankers from different papers."""
    return {
        "RF": rankwood.RandomForest(n_trees=10, max_leaves=20, features_per_node=0.5),
        "ExtraTrees": rankwood.ExtraTrees(n_trees=10, max_leaves=20),
        "GBRT": rankwood.GBRT(n_trees=20, max_leaves=8, learning_rate=0.2),
        "LambdaMART": rankwood.LambdaMART(n_trees=20, max_leaves=8, learning_rate=0.2),
        "RankSVM": rankwood.RankSVM(),
    }


def fitted_run(
    rankers: Mapping[str, Any] | None = None,
    *,
    n_queries: int = 60,
    n_repetitions: int = 2,
    measures: Sequence[str] = tuple(MEASURES),
    baseline: str | None = "RF",
    failing: str | None = None,
) -> RunResults:
    """Three folds of made data, every ranker fitted on each; ``failing`` names one whose first fold fails."""
    chosen = dict(rankers) if rankers is not None else small_rankers()
    data = rankwood.make_ranking(n_queries, 15, 12, seed=3, doc_ids=True)
    folds = rankwood.make_folds(data, 3, seed=1)
    queries: list[tuple[str, str]] = []
    cells: list[CellRecord] = []
    values = {(name, m): [[] for _ in range(n_repetitions)] for name in chosen for m in measures}
    documents: dict[tuple[str, int], RankedDocuments] = {}
    conventions: dict[str, dict[str, str]] = {}
    for fold_name, fold in zip(folds.names, folds, strict=True):
        first = len(queries)
        queries += [(fold_name, str(query)) for query in fold.test.queries.tolist()]
        for name, ranker in chosen.items():
            for repetition in range(n_repetitions):
                where = (name, fold_name, repetition + 1)
                if name == failing and fold_name == folds.names[0]:
                    for measure in measures:
                        empty = np.full(fold.test.n_queries, np.nan)
                        values[name, measure][repetition].append(empty)
                    cells.append(_failed(*where))
                    continue
                start = time.perf_counter()
                model = _with_seed(ranker, repetition).fit(fold.train, valid=fold.valid)
                fitted = time.perf_counter()
                scores = model.predict(fold.test)
                found = evaluate(scores, fold.test, list(measures), n_bootstrap=0)
                conventions = {m: dict(found[m].conventions) for m in measures}
                for measure in measures:
                    values[name, measure][repetition].append(found[measure].per_query)
                seconds = {"fit": fitted - start, "score": time.perf_counter() - fitted}
                cells.append(_done(where, model, seconds, {m: found[m].value for m in measures}))
                if repetition == 0:
                    documents |= _documents(name, first, fold.test, scores)
    return RunResults(
        name="Five small rankers",
        record=_record(),
        conventions=conventions,
        algorithms=list(chosen),
        folds=list(folds.names),
        measures=list(measures),
        baseline=baseline,
        tests=["wilcoxon", "t"],
        correction="holm",
        queries=queries,
        values_by_repetition={
            key: np.array([np.concatenate(parts) for parts in by_repetition])
            for key, by_repetition in values.items()
        },
        cells=cells,
        rankings=lambda name, query: documents.get((name, query)),
    )


def _with_seed(ranker: Any, seed: int) -> Any:
    from sklearn.base import clone

    copy = clone(ranker)
    return copy.set_params(seed=seed) if "seed" in copy.get_params() else copy


def _done(where: tuple[str, str, int], model: Any, seconds: Any, means: Any) -> CellRecord:
    history = list(getattr(model, "history_", []))
    return CellRecord(
        *where,
        "done",
        parameters={key: value for key, value in model.get_params().items() if value is not None},
        seconds=seconds,
        peak_memory=150 * 2**20,
        means=means,
        history={"valid ndcg@10": history} if history else {},
    )


def _failed(name: str, fold: str, repetition: int) -> CellRecord:
    try:
        rankwood.RandomForest(n_trees=-1).fit(rankwood.make_ranking(4, 5, 3))
    except rankwood.errors.ParameterError:
        import traceback

        message = traceback.format_exc()
    return CellRecord(name, fold, repetition, "failed", message=message)


def _documents(name: str, first: int, test: Any, scores: Any) -> dict[Any, RankedDocuments]:
    found = {}
    for place in range(test.n_queries):
        rows = np.flatnonzero(test.query_of_row == place)
        names = [str(test.doc_ids[row]) for row in rows]
        labels = test.labels[rows].astype(np.float64)
        found[name, first + place] = RankedDocuments(labels, scores[rows], names)
    return found


def _record() -> dict[str, Any]:
    return {
        "repeat": ["rankwood data synth train.txt", "rankwood experiment small.toml --out run"],
        "configuration": {"run": {"repetitions": 2, "seed": 1}, "measures": {"primary": "ndcg@10"}},
        "versions": {"rankwood": rankwood.__version__, "numpy": np.__version__},
        "machine": {"processors": 2, "system": "Linux"},
        "seed": 1,
    }


def enlarged(
    run: RunResults, *, n_queries: int | None = None, n_algorithms: int | None = None
) -> RunResults:
    """The run with its queries, or its algorithms, resampled to another number: for sizes no test could fit."""
    rng = np.random.default_rng(5)
    chosen = np.arange(len(run.queries))
    queries = list(run.queries)
    if n_queries is not None:
        chosen = rng.integers(0, len(run.queries), n_queries)
        queries = [(run.queries[query][0], str(place)) for place, query in enumerate(chosen)]
    names = list(run.algorithms)
    if n_algorithms is not None:
        names = [f"{run.algorithms[n % len(run.algorithms)]} {n}" for n in range(n_algorithms)]
    values = {}
    for place, name in enumerate(names):
        source = run.algorithms[place % len(run.algorithms)]
        order = chosen if place < len(run.algorithms) else rng.permutation(chosen)
        for measure in run.measures:
            values[name, measure] = run.values_by_repetition[source, measure][:, order]
    sources = {
        name: run.algorithms[place % len(run.algorithms)] for place, name in enumerate(names)
    }
    cells = [
        replace(cell, algorithm=name)
        for name, source in sources.items()
        for cell in run.cells
        if cell.algorithm == source
    ]
    return replace(
        run,
        algorithms=names,
        queries=queries,
        cells=cells,
        values_by_repetition=values,
        baseline=names[0] if run.baseline else None,
        rankings=lambda name, query: run.rankings(sources[name], int(chosen[query])),
    )


def renamed(run: RunResults, names: Mapping[str, str]) -> RunResults:
    """The run with some algorithms renamed."""
    new = [names.get(name, name) for name in run.algorithms]
    old_of = dict(zip(new, run.algorithms, strict=True))
    return replace(
        run,
        algorithms=new,
        baseline=names.get(run.baseline, run.baseline) if run.baseline else None,
        cells=[replace(c, algorithm=names.get(c.algorithm, c.algorithm)) for c in run.cells],
        values_by_repetition={
            (names.get(name, name), m): v for (name, m), v in run.values_by_repetition.items()
        },
        rankings=lambda name, query: run.rankings(old_of[name], query),
    )


def some_of(run: RunResults, names: Sequence[str]) -> RunResults:
    """The run with only some algorithms."""
    return replace(
        run,
        algorithms=list(names),
        baseline=run.baseline if run.baseline in names else None,
        cells=[cell for cell in run.cells if cell.algorithm in names],
    )
