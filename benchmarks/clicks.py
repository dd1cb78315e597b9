"""Learning from clicks: how far each method comes from clicks as labels (the floor) to the labels (the ceiling).

Run as ``RANKWOOD_DATA=folder python -m benchmarks.clicks``; the folder holds ``MQ2008`` and ``chess-B84.txt.gz``, and a
collection that is not there is left out. Three ranked lists per query, each by a GBRT that was trained on 1 % of the
judged queries, are read by simulated readers (10 documents, position^-η, noise 0.1). Every method learns from the same
clicks: ours from the sessions as they are, from clicks out of impressions ("counted") or from judgments estimated from
them; LightGBM with its positions and XGBoost with lambdarank_unbiased from the sessions. Boosting has 30 trees of 31
leaves everywhere. NDCG@10 is measured on the labels of other queries; two methods are compared by the paired t test
over these.

Goals: under the position model with η = 1 and a million sessions our best method recovers 90 % of the way from floor to
ceiling and is not significantly below a peer; forests with the bias are above forests without.

Without options this is one seed; 10^5 sessions of every collection at η = 1, of generated data also at η = 0.5 and 2;
and 10^6 sessions of generated data at η = 1. ``--full`` is the protocol as a whole: five seeds, three η, 10^5 and 10^6
sessions of every collection, which takes days. ``--raw N`` leaves out learning from single sessions where there are
more than N. Finished cells are appended to ``--cells``, and not fitted again.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.common import keep
from rankwood.evaluation.paired_tests import paired_t_test
from rankwood.evaluation.plots import new_figure, save_figure
from rankwood.rankers.save import join

MEASURE = "ndcg@10"
N_TREES, N_LEAVES, RATE = 30, 31, 0.1
N_LOGGERS, CUTOFF, LEAST_QUERIES = 3, 10, 4
CEILING, FLOOR = "labels", "clicks as labels"
PEERS = ("LightGBM positions", "XGBoost unbiased")
PICTURE = Path(__file__).parents[1] / "docs" / "guides" / "clicks-methods.svg"
ALPHA = 0.05


@dataclass(frozen=True)
class Cell:
    """One log."""

    collection: str
    eta: float
    sessions: int
    seed: int


@dataclass(frozen=True)
class Log:
    """A cell's judged parts and clicks; ``sessions`` is None where there are too many."""

    train: rw.RankingData
    test: rw.RankingData
    sessions: rw.RankingData | None
    counted: rw.RankingData
    truth: Any

    @functools.cached_property
    def harvested(self) -> rw.PositionBias:
        """The bias by harvesting."""
        return rw.position_bias(self.counted, "harvest", n_bootstrap=0)

    def judged(self, **options: Any) -> rw.RankingData:
        """One row per document, labelled by what its clicks say."""
        return rw.click_judgments(self.counted, self.harvested, **options)

    @functools.cached_property
    def by_em(self) -> rw.PositionBias:
        """The bias by regression EM."""
        return rw.position_bias(self.counted, "em", n_bootstrap=0)


def lambdamart(**parameters: Any) -> rw.LambdaMART:
    return rw.LambdaMART(N_TREES, N_LEAVES, RATE, n_threads=1, **parameters)


def gbrt(**parameters: Any) -> rw.GBRT:
    return rw.GBRT(N_TREES, N_LEAVES, RATE, features_per_node=None, n_threads=1, **parameters)


def forest(**parameters: Any) -> rw.RandomForest:
    return rw.RandomForest(100, 100, min_leaf=5, n_threads=1, **parameters)


def fitted(ranker: Any, data: rw.RankingData, log: Log) -> np.ndarray:
    return ranker.fit(data).predict(log.test)


def lightgbm_positions(log: Log) -> np.ndarray:
    import lightgbm

    data = log.sessions
    sizes = np.diff(data.query_offsets)
    rows = lightgbm.Dataset(
        data.features, data.labels.astype(int), group=sizes, position=data.positions
    )
    options = {"objective": "lambdarank", "num_leaves": N_LEAVES, "learning_rate": RATE}
    options |= {"num_threads": 1, "verbosity": -1, "deterministic": True}
    return lightgbm.train(options, rows, N_TREES).predict(log.test.features)


def xgboost_unbiased(log: Log) -> np.ndarray:
    import xgboost

    data = log.sessions  # documents of a query are in the order of their positions, as it asks
    rows = xgboost.DMatrix(data.features, data.labels, qid=data.query_of_row)
    options = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "eta": RATE, "nthread": 1}
    options |= {"tree_method": "hist", "grow_policy": "lossguide", "max_leaves": N_LEAVES}
    options |= {"max_depth": 0, "lambdarank_pair_method": "topk"}
    return xgboost.train(options, rows, N_TREES).predict(xgboost.DMatrix(log.test.features))


def linear(**parameters: Any) -> rw.LambdaMART:
    """Rates are no grades: their gains are they themselves."""
    return lambdamart(target="ndcg[gain=linear]", **parameters)


# Methods that learn from judgments or from counted clicks, and those that need single sessions.
OF_COUNTS: dict[str, Callable[[Log], np.ndarray]] = {
    CEILING: lambda log: fitted(lambdamart(), log.train, log),
    "clicks as labels, counted": lambda log: fitted(linear(), log.counted, log),
    "LambdaMART, judgments": lambda log: fitted(linear(), log.judged(), log),
    "LambdaMART, harvest, counted": lambda log: fitted(
        linear(position_bias=log.harvested, normalise=False), log.counted, log
    ),
    "LambdaMART, em, counted": lambda log: fitted(
        linear(position_bias=log.by_em, normalise=False), log.counted, log
    ),
    "GBRT, counted": lambda log: fitted(gbrt(), log.counted, log),
    "GBRT, harvest, counted": lambda log: fitted(
        gbrt(position_bias=log.harvested), log.counted, log
    ),
    "forest, counted": lambda log: fitted(forest(), log.counted, log),
    "forest, harvest, counted": lambda log: fitted(
        forest(position_bias=log.harvested), log.counted, log
    ),
    "forest, judgments": lambda log: fitted(forest(), log.judged(weights=True), log),
}
OF_SESSIONS: dict[str, Callable[[Log], np.ndarray]] = {
    FLOOR: lambda log: fitted(lambdamart(), log.sessions, log),
    "LambdaMART, joint": lambda log: fitted(lambdamart(position_bias="joint"), log.sessions, log),
    "LambdaMART, additive": lambda log: fitted(
        lambdamart(position_bias="additive"), log.sessions, log
    ),
    "LambdaMART, harvest": lambda log: fitted(
        lambdamart(position_bias=log.harvested, normalise=False), log.sessions, log
    ),
    PEERS[0]: lightgbm_positions,
    PEERS[1]: xgboost_unbiased,
}


def collections() -> dict[str, tuple[rw.RankingData, rw.RankingData]]:
    """Judged training and test queries by collection."""
    whole = rw.make_ranking(
        n_queries=1600, docs_per_query=20, n_features=15, noise=0.5, empty_share=0.0, seed=1
    )
    found = {
        "generated": (whole.take_queries(np.arange(600)), whole.take_queries(np.arange(600, 1600)))
    }
    root = Path(os.environ.get("RANKWOOD_DATA", "."))
    if (root / "MQ2008").is_dir():
        fold = rw.read_folds(root / "MQ2008")[0]
        found["MQ2008"] = (fold.train, join(fold.valid, fold.test))
    if (root / "chess-B84.txt.gz").exists():
        chess = rw.read_letor(root / "chess-B84.txt.gz")
        chess = chess.take_queries(np.random.default_rng(0).permutation(chess.n_queries)[:1000])
        found["chess B84"] = (
            chess.take_queries(np.arange(400)),
            chess.take_queries(np.arange(400, 1000)),
        )
    return found


def make_log(cell: Cell, parts: tuple[rw.RankingData, rw.RankingData], most_raw: int) -> Log:
    train, test = parts
    size = max(LEAST_QUERIES, round(0.01 * train.n_queries))
    loggers = [
        rw.GBRT(20, 8, 0.1, min_leaf=5, features_per_node=None).fit(
            rw.sample_queries(train, size, seed=100 * cell.seed + number)
        )
        for number in range(N_LOGGERS)
    ]
    log = rw.simulate_clicks(
        train, loggers, sessions=cell.sessions, eta=cell.eta, cutoff=CUTOFF, seed=cell.seed
    )
    sessions = log.data() if cell.sessions <= most_raw else None
    return Log(train, test, sessions, log.counted(), log.truth.bias)


def run_cell(cell: Cell, log: Log, done: set[str], write: Callable[[dict[str, Any]], None]) -> None:
    """Fit what is not done yet, and write a record of each method."""
    methods = OF_COUNTS | (OF_SESSIONS if log.sessions is not None else {})
    for name, method in methods.items():
        if name in done:
            continue
        start = time.perf_counter()
        scores = method(log)
        values = rw.parse_measure(MEASURE).per_query(scores, log.test)
        seconds = time.perf_counter() - start
        print(f"{cell} {name}: {np.nanmean(values):.4f} ({seconds:.0f} s)", flush=True)
        write({**asdict(cell), "method": name, "ndcg": values.tolist(), "seconds": seconds})
    for name in ("harvested", "by_em"):
        if name not in done:
            ratio = getattr(log, name).examination / log.truth.slope[: log.counted.positions.max()]
            write({**asdict(cell), "method": name, "bias_over_truth": ratio.tolist()})


def wanted(asked: argparse.Namespace, names: list[str]) -> Iterator[Cell]:
    if asked.full:
        for cell in itertools.product(names, (0.5, 1.0, 2.0), (10**5, 10**6), range(5)):
            yield Cell(*cell)
        return
    for name in names:
        yield Cell(name, 1.0, asked.sessions, 0)
    for eta in (0.5, 2.0):
        yield Cell(names[0], eta, asked.sessions, 0)
    yield Cell(names[0], 1.0, 10 * asked.sessions, 0)


def tables(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean NDCG@10, the share of the way from floor to ceiling, and the p values beside the peers."""
    found: dict[str, Any] = {}
    keys = sorted({(r["collection"], r["eta"], r["sessions"]) for r in records})
    for key in keys:
        here = [r for r in records if (r["collection"], r["eta"], r["sessions"]) == key]
        by_method: dict[str, list[float]] = {}
        for record in here:
            if "ndcg" in record:
                by_method.setdefault(record["method"], []).append(record["ndcg"])
        values = {name: np.mean(np.array(each, float), axis=0) for name, each in by_method.items()}
        floor = values.get(FLOOR, values["clicks as labels, counted"])
        way = np.nanmean(values[CEILING]) - np.nanmean(floor)
        rows = {}
        for name, each in values.items():
            rows[name] = {
                "ndcg@10": float(np.nanmean(each)),
                "way": float((np.nanmean(each) - np.nanmean(floor)) / way),
                **{
                    f"p against {peer}": paired_t_test(each - values[peer])
                    for peer in PEERS
                    if peer in values and peer != name
                },
            }
        bias = {r["method"]: r["bias_over_truth"] for r in here if "bias_over_truth" in r}
        found[" ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in key)] = {
            "methods": rows,
            "bias over truth": bias,
        }
    return found


def show(found: Mapping[str, Any]) -> None:
    for key, cell in found.items():
        print(f"\n{key}")
        for name, row in sorted(cell["methods"].items(), key=lambda item: -item[1]["ndcg@10"]):
            below = [
                peer
                for peer in PEERS
                if row.get(f"p against {peer}", 1.0) < ALPHA
                and row["ndcg@10"] < cell["methods"][peer]["ndcg@10"]
            ]
            note = f"   below {', '.join(below)}" if below else ""
            print(f"  {name:<32} {row['ndcg@10']:.4f}  {row['way']:+7.0%}{note}")
        for name, ratio in cell["bias over truth"].items():
            off = max(abs(value - 1.0) for value in ratio)
            print(f"  bias {name}: at most {off:.1%} off")


def draw(found: Mapping[str, Any], path: Path) -> None:
    """A panel per log: NDCG@10 of each method, between floor and ceiling."""
    names = [*OF_SESSIONS, *OF_COUNTS]
    names = [name for name in names if any(name in cell["methods"] for cell in found.values())]
    columns = min(3, len(found))
    n_rows = -(-len(found) // columns)
    figure = new_figure(
        4.0 + 2.7 * columns, 0.24 * len(names) * n_rows + 0.9 * n_rows, layout="constrained"
    )
    all_axes = figure.subplots(n_rows, columns, sharey=True, squeeze=False)
    for axes in all_axes.ravel()[len(found) :]:
        axes.set_visible(False)
    for axes, (key, cell) in zip(all_axes.ravel(), found.items(), strict=False):
        methods = cell["methods"]
        floor = methods.get(FLOOR, methods["clicks as labels, counted"])["ndcg@10"]
        for at, style in ((floor, ":"), (methods[CEILING]["ndcg@10"], "--")):
            axes.axvline(at, color="#888888", linestyle=style, linewidth=1)
        for place, name in enumerate(names):
            if name in methods:
                is_peer = name in PEERS
                axes.plot(
                    methods[name]["ndcg@10"],
                    place,
                    "D" if is_peer else "o",
                    color="#d55e00" if is_peer else "#0072b2",
                    markerfacecolor="white" if is_peer else "#0072b2",
                    markersize=5,
                )
        collection, eta, sessions = key.rsplit(" ", 2)
        axes.set_title(f"{collection}, η = {eta}, {int(sessions):,} sessions", fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=7)
        axes.tick_params(axis="x", labelsize=7)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="y", alpha=0.2)
    figure.supxlabel(
        "NDCG@10 of the labels of other queries; dotted: floor, dashed: ceiling", fontsize=8
    )
    save_figure(figure, path, "svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--sessions", type=int, default=10**5, help="of the smaller logs")
    parser.add_argument(
        "--raw", type=int, default=10**6, help="most sessions to be learned from one by one"
    )
    parser.add_argument("--cells", type=Path, help="a file that keeps finished cells")
    parser.add_argument("--kept", action="store_true", help="fit nothing")
    asked = parser.parse_args()
    records = []
    if asked.cells and asked.cells.exists():
        records = [json.loads(line) for line in asked.cells.read_text().splitlines()]
    parts = {} if asked.kept else collections()

    def write(record: dict[str, Any]) -> None:
        records.append(record)
        if asked.cells:
            with asked.cells.open("a") as file:
                file.write(json.dumps(record) + "\n")

    for cell in [] if asked.kept else wanted(asked, list(parts)):
        done = {
            r["method"]
            for r in records
            if Cell(r["collection"], r["eta"], r["sessions"], r["seed"]) == cell
        }
        run_cell(cell, make_log(cell, parts[cell.collection], asked.raw), done, write)
    found = tables(records)
    show(found)
    keep("clicks", found)
    draw(found, PICTURE)


if __name__ == "__main__":
    main()
