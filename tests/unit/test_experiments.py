"""Running experiments in this process: results, resuming, failures, tuning, and reading a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import rankwood as rw
from rankwood.errors import DataError, FormerNameWarning, ParameterError, RunError, UnknownName
from rankwood.experiments import store
from rankwood.experiments.cells import FoldCache
from rankwood.experiments.config import read_experiment
from rankwood.experiments.runner import carry_out, make_plan, share_cores
from rankwood.experiments.store import RunFolder

pytestmark = pytest.mark.jit_only  # no kernels of its own

MEASURES = ["ndcg@10", "map", "auc"]


def tables(**changes):
    found = {
        "data": {"generate": {"queries": 24, "docs": 8, "features": 6}, "folds": 3},
        "run": {"repetitions": 2, "seed": 1, "jobs": 0},
        "measures": {"primary": MEASURES[0], "also": MEASURES[1:]},
        "algorithm": [
            {"name": "RF", "kind": "RandomForest", "n_trees": 3, "max_leaves": 6},
            {
                "name": "tuned",
                "kind": "GBRT",
                "n_trees": 3,
                "min_leaf": 2,
                "subsample": 0.8,  # so that repetitions differ
                "tune": {"max_leaves": [2, 5]},
            },
        ],
    }
    for name, table in changes.items():
        found[name] = table if isinstance(table, list) else {**found.get(name, {}), **table}
    return found


TIMES = ("seconds", "peak_memory")


def contents(folder: Path) -> dict[str, object]:
    """Everything that a run found, but for times and memory."""
    run = RunFolder(folder)
    found: dict[str, object] = {}
    results = rw.read_run(folder)
    for key, values in results.values_by_repetition.items():
        found[str(key)] = values.tobytes()
    for cell in read_cells(folder):
        record = run.cell_record(cell)
        found[str(cell)] = {name: value for name, value in record.items() if name not in TIMES}
    for path in sorted((folder / "scores").glob("*.parquet")):
        import pyarrow.parquet as pq

        found[path.name] = pq.read_table(path).to_pydict()
    return found


def read_cells(folder: Path):
    from rankwood.experiments.settings import Cell

    return [Cell(cell.algorithm, cell.fold, cell.repetition) for cell in rw.read_run(folder).cells]


def same(one, other):
    return json.dumps(one, default=repr, sort_keys=True) == json.dumps(
        other, default=repr, sort_keys=True
    )


def test_a_run_gives_what_its_parts_give_by_hand(tmp_path):
    results = rw.run_experiment(tables(), out=tmp_path / "run")
    data = rw.make_ranking(24, 8, 6)
    folds = rw.make_folds(data, 3, seed=0)
    experiment = read_experiment(tables())
    cell = next(
        c for c in experiment.cells() if (c.algorithm, c.fold, c.repetition) == ("RF", "Fold2", 2)
    )
    train, vali, test = folds[1]
    model = rw.RandomForest(3, max_leaves=6, seed=experiment.seed_of(cell)).fit(train, valid=vali)
    expected = rw.evaluate(model, test, MEASURES, n_bootstrap=0)
    in_fold = np.array([fold == "Fold2" for fold, _ in results.queries])
    for measure in ("ndcg@10", "map"):
        found = results.values_by_repetition["RF", measure][1, in_fold]
        assert np.array_equal(found, expected[measure].per_query)
    record = next(
        c for c in results.cells if (c.algorithm, c.fold, c.repetition) == ("RF", "Fold2", 2)
    )
    assert record.means["auc"] == expected["auc"].value
    assert record.history == {"ndcg@10": model.history_}
    assert record.parameters["seed"] == experiment.seed_of(cell)
    assert [query for fold, query in results.queries if fold == "Fold2"] == [
        str(q) for q in test.queries
    ]


def test_what_a_run_says_of_itself(tmp_path):
    results = rw.run_experiment(tables(compare={"baseline": "RF"}), out=tmp_path / "run")
    assert results.algorithms == ["RF", "tuned"]
    assert results.folds == ["Fold1", "Fold2", "Fold3"]
    assert results.measures == MEASURES
    assert results.primary == "ndcg@10"
    assert results.baseline == "RF"
    assert len(results.queries) == 24
    assert len(results.cells) == 2 * 3 * 2
    assert results.record["status"] == "done"
    assert results.record["versions"]["rankwood"] == rw.__version__
    assert results.conventions["ndcg@10"]["gain"] == "exponential"
    values = results.values("tuned", "ndcg@10")
    assert values.shape == (24,)
    assert not np.isnan(values).any()


def test_documents_side_by_side(tmp_path):
    results = rw.run_experiment(tables(), out=tmp_path / "run")
    number = results.queries.index(("Fold3", results.queries[-1][1]))
    first, second = (results.rankings(name, number) for name in results.algorithms)
    assert np.array_equal(first.labels, second.labels)
    assert first.names == [str(place + 1) for place in range(first.labels.size)]
    test = rw.make_folds(rw.make_ranking(24, 8, 6), 3, seed=0)[2].test
    rows = test.query_ids == int(results.queries[number][1])
    assert np.array_equal(first.labels, test.labels[rows])
    value = rw.evaluate(
        first.scores,
        rw.RankingData(
            np.zeros((len(first.names), 1)), first.labels, np.zeros(len(first.names), int)
        ),
        "ndcg@10",
        n_bootstrap=0,
    )
    assert value["ndcg@10"].value == results.values_by_repetition["RF", "ndcg@10"][0, number]
    with pytest.raises(UnknownName, match="algorithm of this run 'rf'"):
        results.rankings("rf", 0)
    without = rw.run_experiment(tables(run={"keep_scores": False}), out=tmp_path / "bare")
    assert without.rankings("RF", 0) is None


def test_a_finished_run_is_not_run_again(tmp_path):
    folder = tmp_path / "run"
    rw.run_experiment(tables(), out=folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    told = []
    rw.run_experiment(tables(), out=folder, progress=told.append)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before
    assert [news.done for news in told] == [12]


@pytest.mark.parametrize("n_cells", [1, 5, 11])
def test_a_stopped_run_goes_on_to_the_same_results(tmp_path, n_cells):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    rw.run_experiment(tables(), out=whole)

    def stop(news):
        if news.done == n_cells:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rw.run_experiment(tables(), out=stopped, progress=stop)
    assert rw.read_run(stopped).record["status"] == "interrupted"
    assert len(rw.read_run(stopped).cells) == n_cells
    told = []
    rw.run_experiment(tables(), out=stopped, progress=told.append)
    assert len(told) == 1 + 12 - n_cells
    assert same(contents(whole), contents(stopped))


def test_only_what_has_changed_is_run_anew(tmp_path):
    folder = tmp_path / "run"
    rw.run_experiment(tables(), out=folder)
    changed = tables()
    changed["algorithm"][0]["n_trees"] = 4
    plan = make_plan(read_experiment(changed), out=folder)
    assert {task.cell.algorithm for task in plan.tasks} == {"RF"}
    assert len(plan.stale) == 6
    assert {cell.algorithm for cell in plan.kept} == {"tuned"}
    carry_out(plan)
    assert len(list((folder / "stale" / "cells").glob("RF~*.parquet"))) == 6
    rw.run_experiment(changed, out=tmp_path / "fresh")
    assert same(contents(folder), contents(tmp_path / "fresh"))


def test_saying_a_default_changes_nothing(tmp_path):
    rw.run_experiment(tables(), out=tmp_path / "run")
    said = tables()
    said["algorithm"][0]["bag"] = "row"
    assert make_plan(read_experiment(said), out=tmp_path / "run").tasks == []


@pytest.mark.parametrize(
    ("change", "n_cells"),
    [
        ({"run": {"seed": 2}}, 12),
        ({"run": {"repetitions": 3}}, 6),  # one further repetition of each
        ({"measures": {"primary": "p@3"}}, 6),  # those that are tuned by it
        ({"measures": {"also": ["err"]}}, 0),  # measured from the scores
        ({"data": {"seed": 5}}, 12),
        ({"compare": {"baseline": "RF"}}, 0),
        ({"run": {"jobs": 1, "threads": 2}}, 0),
    ],
)
def test_which_cells_a_change_concerns(tmp_path, change, n_cells):
    folder = tmp_path / "run"
    if not folder.exists():
        rw.run_experiment(tables(), out=folder)
    assert len(make_plan(read_experiment(tables(**change)), out=folder).tasks) == n_cells


def folds_on_disk(folder: Path, seed: int = 0) -> Path:
    data = rw.make_ranking(18, 8, 6, seed=seed)
    for name, fold in zip(("Fold1", "Fold2", "Fold3"), rw.make_folds(data, 3, seed=0), strict=True):
        (folder / name).mkdir(parents=True)
        for part, rows in zip(("train", "vali", "test"), fold, strict=True):
            rw.write_letor(rows, folder / name / f"{part}.txt")
    return folder


def of_files(folder: Path, **changes):
    found = tables(**changes)
    found["data"] = {"folds": str(folder), **changes.get("data", {})}
    return found


def test_a_changed_file_concerns_its_fold_only(tmp_path):
    data = folds_on_disk(tmp_path / "data")
    rw.run_experiment(of_files(data), out=tmp_path / "run")
    path = data / "Fold2" / "train.txt"
    path.touch()  # its time alone
    assert make_plan(read_experiment(of_files(data)), out=tmp_path / "run").tasks == []
    path.write_text("\n".join(path.read_text().splitlines()[1:]) + "\n")
    tasks = make_plan(read_experiment(of_files(data)), out=tmp_path / "run").tasks
    assert {task.cell.fold for task in tasks} == {"Fold2"}
    assert len(tasks) == 4


def poison(path: Path) -> None:
    """Turn the labels of a file round."""
    lines = [line.split(" ", 1) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{4 - float(label):g} {rest}\n" for label, rest in lines))


@pytest.mark.parametrize("method", ["grid", "optuna"])
def test_tuning_never_sees_the_test_labels(tmp_path, method):
    if method == "optuna":
        pytest.importorskip("optuna")
    data = folds_on_disk(tmp_path / "data")
    config = of_files(data, run={"repetitions": 1})
    tuned = {
        "name": "tuned",
        "kind": "GBRT",
        "n_trees": 4,
        "min_leaf": 2,
        "tune": {"max_leaves": [2, 4, 8], "learning_rate": [0.1, 0.5]},
    }
    if method == "optuna":
        tuned |= {
            "tune_method": "optuna",
            "tune_trials": 4,
            "tune": {
                "max_leaves": {"low": 2, "high": 9},
                "learning_rate": {"low": 0.05, "high": 0.5, "log": True},
                "min_leaf": [1, 3],
            },
        }
        del tuned["min_leaf"]
    config["algorithm"] = [tuned]
    clean = rw.run_experiment(config, out=tmp_path / "clean")
    again = rw.run_experiment(config, out=tmp_path / "again")
    for fold in ("Fold1", "Fold2", "Fold3"):
        poison(data / fold / "test.txt")
    poisoned = rw.run_experiment(config, out=tmp_path / "poisoned")
    assert len(clean.cells[0].tuned) == (6 if method == "grid" else 4)
    for one, two, three in zip(clean.cells, again.cells, poisoned.cells, strict=True):
        assert one.tuned == two.tuned == three.tuned
        assert one.chosen == three.chosen
        assert one.means == two.means
        assert one.means != three.means
        values = [candidate["value"] for candidate in one.tuned]
        assert one.chosen == one.tuned[values.index(max(values))]["parameters"]
        assert {name: one.parameters[name] for name in one.chosen} == one.chosen


def test_the_test_part_is_read_after_the_tuning(tmp_path):
    """With test files that cannot be read, everything else is done and recorded."""
    data = folds_on_disk(tmp_path / "data")
    for fold in ("Fold1", "Fold2", "Fold3"):
        (data / fold / "test.txt").write_text("this is no ranking data\n")
    results = rw.run_experiment(of_files(data, run={"repetitions": 1}), out=tmp_path / "run")
    assert {cell.status for cell in results.cells} == {"failed"}
    for cell in results.cells:
        assert "test.txt, line 1" in cell.error
        assert set(cell.seconds) >= {"read", "read test"}
        assert cell.parameters["n_trees"] == 3
        if cell.algorithm == "tuned":
            assert len(cell.tuned) == 2
            assert cell.chosen


def test_a_cell_that_fails_is_recorded_and_the_rest_goes_on(tmp_path):
    data = folds_on_disk(tmp_path / "data")
    good = (data / "Fold2" / "vali.txt").read_text()
    (data / "Fold2" / "vali.txt").write_text("1 qid:1 1:oops\n")
    config = of_files(data)
    results = rw.run_experiment(config, out=tmp_path / "run")
    by_fold = {cell.fold: cell.status for cell in results.cells}
    assert by_fold == {"Fold1": "done", "Fold2": "failed", "Fold3": "done"}
    failed = [cell for cell in results.cells if cell.status == "failed"]
    assert len(failed) == 4
    assert "Traceback" in failed[0].message
    assert "vali.txt, line 1" in failed[0].error
    assert results.record["cells"] == {"done": 8, "failed": 4}
    assert results.record["status"] == "incomplete"
    assert not any(fold == "Fold2" for fold, _ in results.queries)
    plan = make_plan(read_experiment(config), out=tmp_path / "run")
    assert plan.tasks == []  # a failed cell is not tried again by itself
    assert (
        len(make_plan(read_experiment(config), out=tmp_path / "run", retry_failed=True).tasks) == 4
    )
    (data / "Fold2" / "vali.txt").write_text(good)
    mended = rw.run_experiment(config, out=tmp_path / "run")  # its data have changed: run anew
    assert {cell.status for cell in mended.cells} == {"done"}
    assert not list((tmp_path / "run" / "cells").glob("*.json"))


def test_only_some_algorithms(tmp_path):
    results = rw.run_experiment(tables(), out=tmp_path / "run", only=["RF"])
    assert {cell.algorithm for cell in results.cells} == {"RF"}
    assert np.isnan(results.values("tuned", "ndcg@10")).all()
    assert results.record["status"] == "incomplete"
    with pytest.raises(UnknownName, match=r"algorithm 'tunde' is not known. Did you mean 'tuned'"):
        rw.run_experiment(tables(), out=tmp_path / "run", only=["tunde"])


def test_fewer_repetitions_of_what_is_not_random(tmp_path):
    config = tables(
        algorithm=[
            {"kind": "RankSVM", "repetitions": 1},
            {"kind": "RandomForest", "n_trees": 2},
        ]
    )
    results = rw.run_experiment(config, out=tmp_path / "run")
    assert len(results.cells) == 3 + 6
    assert np.isnan(results.values_by_repetition["RankSVM", "map"][1]).all()
    assert not np.isnan(results.values("RankSVM", "map")).any()


def test_inner_estimators_and_their_seeds(tmp_path):
    config = tables(
        data={"folds": 3},
        run={"repetitions": 2},
        algorithm=[
            {
                "kind": "OrdinalRanker",
                "base": {"kind": "RandomForest"},
                "tune": {"base": {"n_trees": [2, 3]}},
            },
            {
                "kind": "DeepForest",
                "max_layers": 1,
                "layer": [{"kind": "RandomForest", "n_trees": 2}, {"kind": "GBRT", "n_trees": 2}],
            },
        ],
    )
    results = rw.run_experiment(config, out=tmp_path / "run")
    assert {cell.status for cell in results.cells} == {"done"}, results.cells[0].message
    seeds = {
        (cell.fold, cell.repetition): cell.parameters["base"]["parameters"]["seed"]
        for cell in results.cells
        if cell.algorithm == "OrdinalRanker"
    }
    assert len(set(seeds.values())) == 6
    assert set(results.cells[0].chosen) == {"base.n_trees"}


@pytest.mark.parametrize(
    "kind",
    [
        "RandomForest",
        "GBRT",
        "LambdaMART",
        "DeepForest",
        "BROOF",
        "RankBoost",
        "RankSVM",
        "AdaRank",
        "OrdinalRanker",
    ],
)
def test_binning_once_for_all_changes_no_model(kind):
    few = {"n_trees": 2, "n_rounds": 2, "max_layers": 1, "n_forests": 2}
    maker = getattr(rw, kind)
    known = maker().get_params(deep=False)
    parameters = {name: value for name, value in few.items() if name in known}
    if kind == "OrdinalRanker":
        parameters = {"base": rw.RandomForest(2)}
    from rankwood.experiments.settings import max_bins_of

    source = read_experiment(tables()).data
    fold = FoldCache().get(source, "Fold1", "", 1)
    model = maker(**parameters)
    shared = model.fit(fold.for_training(max_bins_of(model)), valid=fold.vali).predict(fold.test())
    again = maker(**parameters).fit(fold.for_training(max_bins_of(model)), valid=fold.vali)
    own = maker(**parameters).fit(fold.train, valid=fold.vali).predict(fold.test())
    assert np.array_equal(shared, own)
    assert np.array_equal(again.predict(fold.test()), own)


def test_what_training_sees_does_not_depend_on_the_test_part(tmp_path):
    """Features that only test rows have are left out; those they lack are added."""
    train = "1 qid:1 1:0.5 2:1\n0 qid:1 1:0.1 2:0\n"
    for name, text in (
        ("train", train),
        ("vali", train),
        ("test", "1 qid:2 1:1 4:3\n0 qid:2 1:0\n"),
    ):
        (tmp_path / f"{name}.txt").write_text(text)
    parts = {"train": "train", "valid": "vali", "test": "test"}
    files = {part: str(tmp_path / f"{name}.txt") for part, name in parts.items()}
    source = read_experiment(tables() | {"data": files}).data
    fold = FoldCache().get(source, source.folds[0].name, "", 1)
    assert fold.train.n_features == 2
    assert fold.test().features.tolist() == [[1, 0], [0, 0]]
    (tmp_path / "test.txt").write_text("1 qid:2 1:1\n")
    fold = FoldCache().get(source, source.folds[0].name, "", 1)
    assert fold.test().features.tolist() == [[1, 0]]


def test_tables_and_files_without_validation(tmp_path):
    train, test = rw.split_queries(rw.make_ranking(12, 6, 4, doc_ids=True), (0.5, 0.5))
    rw.write_table(train, tmp_path / "train.parquet")
    rw.write_table(test, tmp_path / "test.parquet")
    config = {
        "data": {
            "train": str(tmp_path / "train.parquet"),
            "test": str(tmp_path / "test.parquet"),
            "doc": "doc_id",
            "normalise": "minmax",
        },
        "run": {"jobs": 0},
        "algorithm": [{"kind": "RandomForest", "n_trees": 2}],
    }
    results = rw.run_experiment(config, out=tmp_path / "run")
    assert results.cells[0].status == "done", results.cells[0].message
    assert results.rankings("RandomForest", 0).names[0].startswith("d")
    config["algorithm"][0]["tune"] = {"max_leaves": [2, 3]}
    with pytest.raises(ParameterError, match="needs validation queries"):
        rw.run_experiment(config, out=tmp_path / "run")


def test_names_that_are_no_file_names(tmp_path):
    names = ["a/b", "a~b", "..", "ä b.c", "100 %", 'q"uote']
    config = tables(
        run={"repetitions": 1},
        algorithm=[{"name": name, "kind": "RandomForest", "n_trees": 1} for name in names],
    )
    results = rw.run_experiment(config, out=tmp_path / "run")
    assert results.algorithms == names
    assert len(results.cells) == 18
    parents = {path.parent for path in (tmp_path / "run").rglob("*~1.parquet")}
    assert parents == {tmp_path / "run" / name for name in ("cells", "scores")}


def test_two_processes_do_not_write_one_run(tmp_path):
    rw.run_experiment(tables(), out=tmp_path / "run", only=["RF"])
    with (
        RunFolder(tmp_path / "run").locked(),
        pytest.raises(RunError, match=r"another process \(process \d+ on .*\) is writing to"),
    ):
        rw.run_experiment(tables(), out=tmp_path / "run")
    rw.run_experiment(tables(), out=tmp_path / "run")  # the lock has gone with its holder


def test_damaged_cells_are_run_again(tmp_path):
    folder = tmp_path / "run"
    rw.run_experiment(tables(), out=folder)
    expected = contents(folder)
    (folder / "cells" / "RF~Fold1~1.parquet").write_bytes(b"")
    (folder / "cells" / "RF~Fold2~1.parquet").write_bytes(b"PAR1 not at all")
    (folder / "cells" / "tuned~Fold2~1.parquet").unlink()
    (folder / "record.json").write_text("{")
    assert len(make_plan(read_experiment(tables()), out=folder).tasks) == 3
    rw.run_experiment(tables(), out=folder)
    assert same(contents(folder), expected)


def test_a_flipped_bit_of_a_cell_is_an_error_never_another_figure(tmp_path, rng):
    folder = tmp_path / "run"
    rw.run_experiment(tables(), out=folder)

    def figures():
        results = rw.read_run(folder)
        values = results.values_by_repetition
        means = [(cell.algorithm, cell.fold, sorted(cell.means.items())) for cell in results.cells]
        return [values[key].tolist() for key in sorted(values)], means

    expected = repr(figures())
    path = folder / "cells" / "RF~Fold1~1.parquet"
    whole = path.read_bytes()
    n_refused = 0
    for place in rng.integers(0, 8 * len(whole), 60).tolist():
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            found = repr(figures())
        except DataError:
            n_refused += 1
        else:
            assert found == expected
    assert n_refused > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(repetitions=10**12), "repetitions must be whole numbers from 1 to"),
        (lambda c: c.update(repetitions=True), "repetitions must be whole numbers from 1 to"),
        (lambda c: c["algorithms"][0].update(repetitions=10**12), "repetitions must be whole"),
        (lambda c: c["algorithms"][0].update(name=3), "must be texts"),
        (lambda c: c.pop("algorithms"), "does not name algorithms, folds, measures"),
        (lambda c: c.update(algorithms=7), "does not name algorithms, folds, measures"),
        (lambda c: c["data"].update(measure_on=[]), "its part 'measure_on' is not what"),
        (lambda c: c.update(compare={"x": 1}), "its part 'compare' is not what"),
        (lambda c: c["data"]["folds"][0].update(files=3), "its part 'files' is not what"),
        (lambda _: None, "its part 'name' is missing"),
        (
            lambda c: c["data"].update(folds=c["data"]["folds"] * (10**6 + 1)),
            "more than 1,000,000 cells",
        ),
    ],
)
def test_records_that_are_wrong_are_refused_at_once(tmp_path, change, message):
    folder = tmp_path / "run"
    folder.mkdir()
    configuration = {
        "algorithms": [{"name": "A", "repetitions": 1}],
        "data": {"folds": [{"name": "F"}]},
        "measures": ["map"],
        "repetitions": 1,
    }
    change(configuration)
    (folder / "record.json").write_text(json.dumps({"format": 1, "configuration": configuration}))
    with pytest.raises(DataError, match=f"record.json is damaged: .*{message}"):
        rw.read_run(folder)


def test_folders_that_hold_no_run(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("do not lose me")
    with pytest.raises(DataError, match="is not empty and holds no run"):
        rw.run_experiment(tables(), out=tmp_path / "other")
    with pytest.raises(DataError, match="is a file"):
        rw.run_experiment(tables(), out=tmp_path / "other" / "thesis.tex")
    with pytest.raises(DataError, match="there is no folder"):
        rw.read_run(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"holds no run: record.json is missing"):
        rw.read_run(tmp_path / "other")
    (tmp_path / "other" / "record.json").write_text("[1]")
    with pytest.raises(DataError, match="is damaged"):
        rw.read_run(tmp_path / "other")
    (tmp_path / "other" / "record.json").write_text('{"format": 99}')
    with pytest.raises(
        DataError, match="has format 99, and this version of Rankwood reads format 1"
    ):
        rw.read_run(tmp_path / "other")


def test_cells_of_other_queries_are_refused(tmp_path):
    folder = tmp_path / "run"
    rw.run_experiment(tables(), out=folder)
    table = pq.read_table(folder / "cells" / "RF~Fold2~2.parquet").slice(1)
    record = json.loads(table.schema.metadata[b"rankwood"])
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    store._write_table(folder / "cells" / "RF~Fold2~2.parquet", columns, record)
    with pytest.raises(DataError, match="has other queries than the cells before it on Fold2"):
        rw.read_run(folder)
    shutil.copy(folder / "cells" / "RF~Fold1~1.parquet", folder / "cells" / "RF~Fold2~2.parquet")
    with pytest.raises(DataError, match=r"RF~Fold2~2.parquet is damaged: it is of another cell"):
        rw.read_run(folder)


def test_a_record_with_another_name_is_refused(tmp_path):
    """Its cells have the old name: without a checksum they would be left out, and figures with them."""
    rw.run_experiment(tables(), out=tmp_path / "run")
    path = tmp_path / "run" / "record.json"
    whole = path.read_text()
    path.write_text(whole.replace('"name": "RF"', '"name": "RG"'))
    with pytest.raises(DataError, match=r"record.json is damaged: it is not what was written"):
        rw.read_run(tmp_path / "run")
    path.write_text(json.dumps(json.loads(whole)))  # other spaces, the same record
    assert rw.read_run(tmp_path / "run").algorithms == ["RF", "tuned"]
    rw.run_experiment(tables(), out=tmp_path / "run")


LIES = {
    "no mapping": lambda r: r.update(seconds=3),
    "text for a number": lambda r: r["seconds"].update(fit="x"),
    "beyond float64": lambda r: r.update(peak_memory=10**400),
    "no list": lambda r: r.update(history={"ndcg@10": 0.5}),
    "means": lambda r: r.update(means=[1]),
    "conventions": lambda r: r["conventions"].pop("map"),
    "no status": lambda r: r.pop("status"),
    "tuned": lambda r: r.update(tuned=[None]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_cell_whose_record_lies_is_refused_where_it_is_read(tmp_path, lie):
    """Its checksum is right: what is impossible in it must be found by what it is."""
    rw.run_experiment(tables(), out=tmp_path / "run")
    path = tmp_path / "run" / "cells" / "RF~Fold1~1.parquet"
    table = pq.read_table(path)
    record = json.loads(table.schema.metadata[b"rankwood"])
    LIES[lie](record)
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    store._write_table(path, columns, record)
    with pytest.raises(DataError, match=r"RF~Fold1~1.parquet is damaged.* fits its cell again"):
        rw.read_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("score", lambda column: np.array(["x"] * len(column))),
        ("label", lambda column: np.where(column > 0, column, np.nan)),
        ("document", lambda column: np.arange(len(column))),
    ],
)
def test_a_file_of_scores_that_lies_is_refused_where_it_is_read(tmp_path, name, change):
    rw.run_experiment(tables(), out=tmp_path / "run")
    path = tmp_path / "run" / "scores" / "RF~Fold1~1.parquet"
    table = pq.read_table(path)
    columns = {each: table.column(each).to_numpy() for each in table.column_names}
    columns[name] = change(columns[name])
    store._write_table(path, columns, {})
    with pytest.raises(DataError, match="damaged: it has no scores of documents"):
        rw.write_report(rw.read_run(tmp_path / "run"), tmp_path / "page.html")


def test_scores_of_other_documents_than_those_of_another_ranker_are_refused(tmp_path):
    rw.run_experiment(tables(), out=tmp_path / "run")
    path = tmp_path / "run" / "scores" / "RF~Fold1~1.parquet"
    table = pq.read_table(path).slice(1)
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    store._write_table(path, columns, {})
    with pytest.raises(DataError, match="RF and tuned are of other documents of a query"):
        rw.write_report(rw.read_run(tmp_path / "run"), tmp_path / "page.html")


def test_cores_are_shared(monkeypatch):
    monkeypatch.setattr("rankwood.experiments.runner.usable_cores", lambda: 8)
    assert share_cores(None, None, 100) == (8, 1)
    assert share_cores(None, 4, 100) == (2, 4)
    assert share_cores(2, None, 100) == (2, 4)
    assert share_cores(None, None, 3) == (3, 2)
    assert share_cores(0, None, 3) == (0, 8)
    assert share_cores(16, None, 100) == (16, 1)


def test_warnings_are_part_of_the_record(tmp_path):
    config = tables(
        run={"repetitions": 1},
        algorithm=[
            {"kind": "BROOF", "loss": "height", "normalize": "none", "n_rounds": 2, "n_trees": 2}
        ],
    )
    results = rw.run_experiment(config, out=tmp_path / "run")
    assert any("not boosted" in text for cell in results.cells for text in cell.warnings)


def test_a_collection_that_comes_with_rankwood(tmp_path):
    config = {
        "data": {"bundled": "chess-B84"},
        "run": {"jobs": 0},
        "algorithm": [{"kind": "RandomForest", "n_trees": 2, "max_leaves": 8}],
    }
    results = rw.run_experiment(config, out=tmp_path / "run")
    assert results.cells[0].status == "done", results.cells[0].message
    from rankwood.datasets import chess

    assert [query for _, query in results.queries] == chess("B84", "test").queries.tolist()
    config["data"] = {"bundled": "chess-B85"}
    with pytest.raises(ParameterError, match=r"bundled: .* Did you mean 'chess-B84'"):
        rw.run_experiment(config, out=tmp_path / "run")


def test_labels_made_binary(tmp_path):
    config = tables(data={"binarise": 2})
    experiment = read_experiment(config)
    fold = FoldCache().get(experiment.data, "Fold1", "", 1)
    plain = rw.make_folds(rw.make_ranking(24, 8, 6), 3, seed=0)[0]
    for part, own in (
        (fold.train, plain.train),
        (fold.vali, plain.valid),
        (fold.test(), plain.test),
    ):
        assert np.array_equal(part.labels, (own.labels >= 2).astype(float))
    with pytest.raises(ParameterError, match="binarise: must be a label above 0"):
        read_experiment(tables(data={"binarise": 0}))


def test_feature_costs_from_a_file(tmp_path):
    costs = tmp_path / "costs.tsv"
    costs.write_text("".join(f"{number} {number}\n" for number in range(1, 7)))
    forest = {"kind": "RandomForest", "n_trees": 2, "feature_costs": str(costs), "cost_weight": 0.5}
    config = tables(run={"repetitions": 1}, algorithm=[forest])
    results = rw.run_experiment(config, out=tmp_path / "run")
    assert {cell.status for cell in results.cells} == {"done"}, results.cells[0].message
    costs.write_text(costs.read_text().replace("6 6", "6 60"))
    assert len(make_plan(read_experiment(config), out=tmp_path / "run").tasks) == 3
    costs.unlink()
    with pytest.raises(ParameterError, match="feature_costs: there is no file"):
        read_experiment(config)


def test_a_run_remembers_how_its_algorithms_are_compared(tmp_path):
    from rankwood.experiments.report.findings import find
    from rankwood.experiments.settings import CompareSettings

    compare = {"baseline": "RF", "test": "randomization", "level": 0.1, "resamples": 200}
    results = rw.run_experiment(tables(compare=compare), out=tmp_path / "run")
    assert results.compare == CompareSettings("randomization", 0.1, resamples=200)
    assert find(results).comparison.test == "randomization"
    path = tmp_path / "run" / "record.json"
    record = json.loads(path.read_text())
    del record["checksum"], record["configuration"]["compare"]  # as version 0.1 wrote it
    record["configuration"]["tests"] = ["wilcoxon", "t"]
    path.write_text(json.dumps(record))
    before = rw.read_run(tmp_path / "run")
    assert before.compare == CompareSettings()
    assert find(before).comparison.test == "wilcoxon"


def test_the_models_of_the_winner_are_kept(tmp_path):
    config = tables(run={"keep": "winners", "jobs": 0})
    config["algorithm"] = [
        {"kind": "RandomForest", "name": name, "n_trees": trees, "max_leaves": leaves}
        for name, trees, leaves in (("stump", 1, 2), ("forest", 8, 30))
    ]
    results = rw.run_experiment(config, out=tmp_path / "run")
    means = {name: np.nanmean(results.values(name, results.primary)) for name in results.algorithms}
    winner = max(means, key=means.get)
    assert results.record["winner"] == winner
    models = sorted((tmp_path / "run" / "models").iterdir())
    assert len(models) == sum(cell.algorithm == winner for cell in results.cells)
    assert all(path.name.startswith(winner) for path in models)
    assert rw.load(models[0]).n_trees == {"stump": 1, "forest": 8}[winner]
    again = rw.run_experiment(
        config, out=tmp_path / "run"
    )  # nothing is run for the models that are gone
    assert again.record["winner"] == winner
    assert sorted((tmp_path / "run" / "models").iterdir()) == models


def test_a_part_may_be_several_files(tmp_path):
    data = rw.make_ranking(24, 8, 5, seed=1)
    train, valid, test = rw.split_queries(data, (0.5, 0.25, 0.25), seed=0)
    (tmp_path / "days").mkdir()
    halves = np.array_split(np.arange(train.n_queries), 2)
    for day, queries in enumerate(halves):
        rw.write_table(train.take_queries(queries), tmp_path / "days" / f"{day}.parquet")
    rw.write_table(train, tmp_path / "train.parquet")
    rw.write_table(valid, tmp_path / "valid.parquet")
    rw.write_table(test, tmp_path / "test.parquet")

    def values(given):
        parts = {"train": given, "valid": str(tmp_path / "valid.parquet")}
        config = tables() | {"data": parts | {"test": str(tmp_path / "test.parquet")}}
        config["algorithm"] = [
            {"kind": "GBRT", "n_trees": 3, "min_leaf": 2, "features_per_node": 1.0}
        ]
        results = rw.run_experiment(config, out=tmp_path / f"run-{len(str(given))}", jobs=0)
        return results.values("GBRT", results.primary)

    expected = values(str(tmp_path / "train.parquet"))
    for given in (
        str(tmp_path / "days"),
        [str(tmp_path / "days" / f"{day}.parquet") for day in (0, 1)],
    ):
        np.testing.assert_array_equal(values(given), expected)
    with pytest.raises(ParameterError, match="train: no file matches the pattern"):
        read_experiment(tables() | {"data": {"train": str(tmp_path / "x-*.parquet"), "test": "t"}})


def test_former_names_of_the_validation_part_are_told(tmp_path):
    data = {"generate": {"queries": 20, "docs": 5, "features": 4}, "folds": 3}
    with pytest.warns(FormerNameWarning, match='measure_on = "vali" is called "valid" now'):
        former = read_experiment(tables() | {"data": data | {"measure_on": "vali"}})
    assert former.data == read_experiment(tables() | {"data": data | {"measure_on": "valid"}}).data
    for name in ("train", "vali", "test"):
        (tmp_path / f"{name}.txt").write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    files = {name: str(tmp_path / f"{name}.txt") for name in ("train", "vali", "test")}
    with pytest.warns(FormerNameWarning, match=r"\[data\] vali is called valid now"):
        assert read_experiment(tables() | {"data": files}).data.has_vali
    fold = rw.make_folds(rw.make_ranking(9, 4, 3), 3)[0]
    with pytest.warns(FormerNameWarning, match="Fold: vali is called valid now"):
        assert fold.vali is fold.valid
    with pytest.warns(FormerNameWarning, match="chess: vali is called valid now"):
        assert rw.datasets.chess("B84", "vali") == rw.datasets.chess("B84", "valid")
