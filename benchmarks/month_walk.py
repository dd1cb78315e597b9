"""A search team's month, with Rankwood and with the scripts such a team writes around LightGBM and scikit-learn.

The steps are those of the guide ``docs/guides/a-month.md``, on data of its generator: judgments of eight weeks in a
folder of partitioned Parquet files. Each step is a function of ours and one of theirs, which take turns, after a first
run that compiles. Printed of each step: its time as a ratio, and the lines of code that it takes (a line per statement,
with the helpers that only this step needs). Two scripts that do as much as each other cannot be written for
everything: ``BY_HAND`` says what theirs lack.

Run as ``python -m benchmarks.month_walk [queries a week]``; without a number the result is kept.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import json
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rankwood as rw
from benchmarks.common import alternate, keep, median
from benchmarks.serving import ask, serving

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "a-month.md"
QUERIES, DOCUMENTS, REPEATS, REQUESTS = 1000, 20, 5, 500
FEATURES = ["title_match", "text_match", "sales", "price", "age_days", "rating"]
TEXT = ["category", "brand"]
TREES, PATIENCE = 200, 30
THREADS = (
    1  # of both trainings: idle threads that spin would cost the more, the busier the machine is
)

BY_HAND = {
    "read": "queries must be sorted together and counted; text columns and ids must be known and left out",
    "check": "limits are fixed numbers: what chance gives so few queries is not asked. The training data must be kept "
    "beside the model, which records nothing of them; no page, no exit code",
    "train": "label gains, groups and callbacks are spelled out; names of sets and the measures of the run "
    "are not in the model file",
    "compare": "one paired test without correction, interval, effect size, moves of documents, or a page",
    "certify": "the model's own format alone; other formats need other packages, and none of them a certificate",
    "serve": "one model; canary, shadow, metrics, limits, reload, absent features and several processes are "
    "left to write",
}


def generator() -> Callable[..., pd.DataFrame]:
    """``judged`` of the guide, so that both walk through the same data."""
    block = re.search(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    namespace: dict[str, Any] = {}
    exec(compile(block[1], str(GUIDE), "exec"), namespace)
    found: Callable[..., pd.DataFrame] = namespace["judged"]
    return found


def weeks(*numbers: int) -> list[str]:
    return [f"judgments/week={number}" for number in numbers]


# Ours.


def ours_read(paths: list[str]) -> Any:
    return rw.read_table(paths, doc="url", drop=TEXT)


def ours_check(model: Any, today: pd.DataFrame) -> set[str]:
    data = rw.from_frame(today, label=None, doc="url", drop=TEXT)
    found = rw.check_data(model, data, labels=False)
    return {finding.about for finding in found.findings}


def ours_train(train: Any, new: Any, old: Any) -> Any:
    measures = ["ndcg@10", "map"]
    model = rw.LambdaMART(TREES, early_stopping=PATIENCE, measure=measures, n_threads=THREADS)
    return model.fit(train, valid={"new": new, "old": old})


def ours_compare(live: Any, new: Any, test: Any, categories: Any) -> Any:
    models = {"live": live, "new": new}
    return rw.compare(models, test, "ndcg@10", baseline="live", by=categories)


def ours_certify(model: Any, test: Any) -> float:
    return rw.export(model, "ours.txt", "lightgbm", verify=test).largest_difference


# Theirs.


def theirs_read(paths: list[str]) -> Any:
    import pyarrow.dataset as arrow

    table = pd.concat([arrow.dataset(path).to_table().to_pandas() for path in paths])
    table = table.sort_values("qid", kind="stable")
    groups = table.groupby("qid", sort=False).size().to_numpy()
    return table[FEATURES].to_numpy(np.float32), table["label"].to_numpy(), groups, table


def _stability(then: Any, now: Any) -> float:
    then, now = then[~np.isnan(then)], now[~np.isnan(now)]
    cuts = np.unique(np.quantile(then, np.linspace(0.1, 0.9, 9)))
    p, q = (
        np.bincount(np.searchsorted(cuts, each), minlength=len(cuts) + 1) for each in (then, now)
    )
    p, q = (np.maximum(each / each.sum(), 1e-4) for each in (p, q))
    return float(np.sum((q - p) * np.log(q / p)))


def theirs_check(train: Any, today: pd.DataFrame) -> set[str]:
    found = set()
    for number, name in enumerate(FEATURES):
        if name not in today:
            found.add(name)
            continue
        then, now = train[0][:, number], today[name].to_numpy(np.float32)
        if abs(np.isnan(now).mean() - np.isnan(then).mean()) > 0.05:
            found.add(name)
        low, high = np.nanquantile(then, [0.004, 0.996])
        if np.mean((now < low) | (now > high)) - 0.008 > 0.05:
            found.add(name)
        if _stability(then, now) > 0.2:
            found.add(name)
    return found


def theirs_train(train: Any, new: Any, old: Any) -> Any:
    import lightgbm as lgb

    data = lgb.Dataset(train[0], train[1], group=train[2], feature_name=FEATURES)
    sets = [lgb.Dataset(each[0], each[1], group=each[2], reference=data) for each in (new, old)]
    parameters = {
        "objective": "lambdarank",
        "metric": ["ndcg", "map"],
        "eval_at": [10],
        "label_gain": [2**grade - 1 for grade in range(5)],
        "learning_rate": 0.1,
        "num_leaves": 31,
        "num_threads": THREADS,
        "verbose": -1,
    }
    history: dict[str, Any] = {}
    stopping = _stop_on_the_first_set(PATIENCE, history)
    recording = lgb.record_evaluation(history)
    return lgb.train(
        parameters,
        data,
        TREES,
        valid_sets=sets,
        valid_names=["new", "old"],
        callbacks=[recording, stopping],
    )


def _stop_on_the_first_set(patience: int, history: dict[str, Any]) -> Any:
    """``lightgbm.early_stopping`` stops when any of the sets has not improved."""
    import lightgbm as lgb

    def stop(env: Any) -> None:
        values = history["new"]["ndcg@10"]
        best = int(np.argmax(values))
        if len(values) - 1 - best >= patience or env.iteration == env.end_iteration - 1:
            raise lgb.callback.EarlyStopException(best, env.evaluation_result_list)

    stop.order = 100  # type: ignore[attr-defined]
    return stop


def _values(model: Any, test: Any) -> Any:
    from sklearn.metrics import ndcg_score

    scores, ends = model.predict(test[0]), np.cumsum(test[2])
    values = []
    for start, end in zip(ends - test[2], ends, strict=True):
        gains = 2.0 ** test[1][start:end] - 1
        values.append(ndcg_score([gains], [scores[start:end]], k=10, ignore_ties=True))
    return np.array(values)


def theirs_compare(live: Any, new: Any, test: Any, categories: Any) -> Any:
    from scipy.stats import ttest_rel

    before, after = _values(live, test), _values(new, test)
    result = {"all": (np.mean(after - before), ttest_rel(after, before).pvalue)}
    for name in np.unique(categories):
        chosen = categories == name
        difference = np.mean(after[chosen] - before[chosen])
        result[name] = (difference, ttest_rel(after[chosen], before[chosen]).pvalue)
    return result


def theirs_certify(model: Any, test: Any) -> float:
    import lightgbm as lgb

    model.save_model("theirs.txt")
    again = lgb.Booster(model_file="theirs.txt")
    return float(np.abs(again.predict(test[0]) - model.predict(test[0])).max())


def lines_of(*functions: Callable[..., Any]) -> int:
    """Lines of code of functions: without their heads, their documentation, comments and blank lines."""
    total = 0
    for function in functions:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        lines = ast.unparse(tree).splitlines()  # without comments, a statement per line
        documentation = ast.get_docstring(tree)
        total += len(lines) - 1 - (len(documentation.splitlines()) if documentation else 0)
    return total


@contextlib.contextmanager
def walking() -> Iterator[None]:
    """A folder of its own for the walk."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def bodies_of_week(table: pd.DataFrame) -> list[bytes]:
    """A request per query, which both services understand."""
    bodies = []
    for query, rows in table.groupby("qid", sort=False):
        values = rows[FEATURES].astype(object).where(rows[FEATURES].notna(), None)
        documents = [
            {"id": url, "features": features}
            for url, features in zip(rows["url"], values.to_numpy().tolist(), strict=True)
        ]
        bodies.append(json.dumps({"query_id": query, "documents": documents}).encode())
    return bodies


def main(arguments: list[str] | None = None) -> None:
    if importlib.util.find_spec("lightgbm") is None:
        print("skipped: LightGBM is not installed (pip install 'rankwood[bench]')")
        return
    n_queries = int(arguments[0]) if arguments else QUERIES
    judged = generator()
    with walking():
        for week in range(1, 9):
            Path(f"judgments/week={week}").mkdir(parents=True)
            path = f"judgments/week={week}/part-0.parquet"
            judged(week, n_queries, DOCUMENTS).to_parquet(path, index=False)
        result = walk(judged(9, n_queries, DOCUMENTS))
    result["queries_a_week"], result["documents_of_a_query"] = n_queries, DOCUMENTS
    show(result)
    if not arguments:
        keep("month_walk", result)


def walk(today: pd.DataFrame) -> dict[str, Any]:
    """Both walks, side by side."""
    seconds: dict[str, dict[str, list[float]]] = {}

    def both(step: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[Any, Any]:
        first = ours(), theirs()  # compiles
        seconds[step] = alternate({"ours": ours, "theirs": theirs}, REPEATS)
        return first

    load = os.getloadavg()
    march, mine = both("read", lambda: ours_read(weeks(5, 6)), lambda: theirs_read(weeks(5, 6)))
    parts = {name: (ours_read(weeks(*n)), theirs_read(weeks(*n))) for name, n in PARTS.items()}
    live = ours_train(*(parts[name][0] for name in ("past", "old", "old")))
    their_live = theirs_train(*(parts[name][1] for name in ("past", "old", "old")))
    new, theirs = both(
        "train",
        lambda: ours_train(march, parts["new"][0], parts["old"][0]),
        lambda: theirs_train(mine, parts["new"][1], parts["old"][1]),
    )
    test, their_test = parts["test"]
    of_query = [str(query).split()[0] for query in test.queries]
    their_categories = their_test[3].groupby("qid", sort=False)["category"].first().to_numpy()
    compared, by_hand = both(
        "compare",
        lambda: ours_compare(live, new, test, of_query),
        lambda: theirs_compare(their_live, theirs, their_test, their_categories),
    )
    certified = both(
        "certify", lambda: ours_certify(new, test), lambda: theirs_certify(theirs, their_test)
    )
    broken = today.drop(columns="label").assign(price=today["price"] * 100)
    broken.loc[::2, "rating"] = np.nan
    drift = both("check", lambda: ours_check(new, broken), lambda: theirs_check(mine, broken))
    rw.save(new, "new.rankwood")
    serve_both("new.rankwood", "theirs.txt", bodies_of_week(their_test[3]), seconds)
    n_ours = len(new.history_["new"]["ndcg@10"])
    n_theirs = min(TREES, theirs.best_iteration + PATIENCE)
    pair = compared["ndcg@10"]["new"]
    books = compared.to_dict()["segments"]["books"]["ndcg@10"]["pairs"][0]
    values = {
        "ours": compared["ndcg@10"].means["new"],
        "theirs": float(_values(theirs, their_test).mean()),
    }
    return {
        "ndcg@10": {name: round(value, 4) for name, value in values.items()},
        "difference_to_live": {
            "ours": round(pair.difference, 4),
            "theirs": round(float(by_hand["all"][0]), 4),
        },
        "difference_for_books": {
            "ours": round(books["difference"], 4),
            "theirs": round(float(by_hand["books"][0]), 4),
        },
        "trees": {
            "ours": new.forest_.n_trees,
            "theirs": theirs.best_iteration,
        },
        "trees_grown": {"ours": n_ours, "theirs": n_theirs},
        "largest_difference_of_exported_scores": dict(
            zip(("ours", "theirs"), certified, strict=True)
        ),
        "drift_found": {"ours": sorted(drift[0]), "theirs": sorted(drift[1])},
        "lines": LINES,
        "by_hand": BY_HAND,
        "seconds": {
            step: {name: round(median(each), 4) for name, each in of_step.items()}
            for step, of_step in seconds.items()
        },
        **{f"ratio_{step}": _ratio(of_step) for step, of_step in seconds.items()},
        "ratio_train_per_tree": _ratio(seconds["train"]) * n_ours / n_theirs,
        "load_before": load,
        "load_after": os.getloadavg(),
    }


def _ratio(seconds: dict[str, list[float]]) -> float:
    """How many times as fast ours is, by the middle round: what else the machine does hits both of a round."""
    rounds = zip(seconds["ours"], seconds["theirs"], strict=True)
    return median([theirs / ours for ours, theirs in rounds])


PARTS = {"past": (1, 2, 3), "old": (4,), "new": (7,), "test": (8,)}


def serve_both(ours: str, theirs: str, bodies: list[bytes], seconds: dict[str, Any]) -> None:
    """Answer the queries of a week, one client: our service with a canary and a shadow, theirs with one model."""
    from benchmarks.bench_serve import lightgbm_service

    Path("canary.rankwood").write_bytes(Path(ours).read_bytes())
    shares = ("--alias", "default=new:90,canary:10", "--shadow", "default=canary:20")
    repository = Path(__file__).parents[1]
    path = os.pathsep.join([str(repository), os.environ.get("PYTHONPATH", "")])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = path  # uvicorn imports benchmarks.lightgbm_service from this folder
    try:
        with (
            serving(ours, "canary.rankwood", *shares) as service,
            lightgbm_service(Path(theirs)) as other,
        ):
            ports = {"ours": service.port, "theirs": other[0]}

            def asked(port: int) -> None:
                load = ask(port, bodies, REQUESTS, 1)
                assert (load.statuses, load.lost) == ({200: REQUESTS}, 0)

            for port in ports.values():
                asked(port)
            runs = {name: (lambda port=port: asked(port)) for name, port in ports.items()}
            seconds["serve"] = alternate(runs, REPEATS)
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _service_lines() -> int:
    text = (Path(__file__).parent / "lightgbm_service.py").read_text()
    tree = ast.parse(text)
    documented = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    documentation = sum(len((ast.get_docstring(node) or "").splitlines()) for node in documented)
    return len([line for line in ast.unparse(tree).splitlines() if line.strip()]) - documentation


LINES = {
    "read": {"ours": lines_of(ours_read), "theirs": lines_of(theirs_read)},
    "check": {"ours": lines_of(ours_check), "theirs": lines_of(theirs_check, _stability)},
    "train": {
        "ours": lines_of(ours_train),
        "theirs": lines_of(theirs_train, _stop_on_the_first_set),
    },
    "compare": {"ours": lines_of(ours_compare), "theirs": lines_of(theirs_compare, _values)},
    "certify": {"ours": lines_of(ours_certify), "theirs": lines_of(theirs_certify)},
    "serve": {"ours": 1, "theirs": _service_lines()},  # ours is one command
}


def show(result: dict[str, Any]) -> None:
    """The table of the guide, and what is behind it."""
    print(f"{'step':<10}{'times as fast':>14}{'lines':>7}{'theirs':>8}  by hand")
    for step, lines in result["lines"].items():
        ratio = result[f"ratio_{step}"]
        print(
            f"{step:<10}{ratio:>14.2f}{lines['ours']:>7}{lines['theirs']:>8}  {result['by_hand'][step]}"
        )
    for key in (
        "seconds",
        "ndcg@10",
        "trees",
        "trees_grown",
        "ratio_train_per_tree",
        "difference_to_live",
        "difference_for_books",
        "drift_found",
    ):
        print(f"{key}: {result[key]}")
    print(f"exported scores differ by at most: {result['largest_difference_of_exported_scores']}")
    print(f"load: {result['load_before']}, then {result['load_after']}")


if __name__ == "__main__":
    main(sys.argv[1:])
