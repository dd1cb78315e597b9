"""Checkpoints, and the model file of an estimator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ModelError, ParameterError
from rankwood.models.format import load_model, read_model, save_model, write_model

KINDS = {
    "RandomForest": {"bag": "query"},
    "ExtraTrees": {},
    "CompletelyRandomForest": {"bag": "row"},
    "GBRT": {"min_leaf": 3, "max_leaves": 6, "subsample": 0.7},
    "BROOF": {"loss": "median", "n_rounds": 8, "n_trees": 3, "max_leaves": 6},
    "LambdaMART": {"min_leaf": 3, "max_leaves": 6, "subsample": 0.7, "subsample_by": "query"},
    "NDCGBoost": {"min_leaf": 3, "features_per_node": 0.5},
    "RankBoost": {},
    "AdaBoost": {"max_leaves": 3},
}
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data():
    return rw.make_ranking(30, 10, 6, seed=3)


@pytest.fixture(scope="module")
def other():
    return rw.make_ranking(10, 10, 6, seed=4)


@pytest.fixture
def every_tree(monkeypatch):
    """Write a checkpoint after each tree."""
    monkeypatch.setattr("rankwood.training.rounds.SECONDS_BETWEEN", 0.0)


class Stopped(Exception):
    """Raised by a callback, like a Ctrl-C at that moment."""


def stop_at(iteration):
    def stop(news):
        if news.iteration == iteration:
            raise Stopped("now")

    return stop


def make(name, **options):
    kind = getattr(rw, name)
    length = "n_trees" if "n_trees" in kind().get_params() else "n_rounds"
    return kind(**{length: 8, **KINDS[name], **options})


def test_early_stopping_resumes(every_tree, tmp_path, data, other):
    options = {"n_trees": 60, "learning_rate": 0.8, "measure": "rmse", "early_stopping": 4}
    whole = make("GBRT", **options).fit(data, valid=other)
    moment = len(whole.history_) - 2
    path = tmp_path / "checkpoint"
    with pytest.raises(Stopped, match="now"):
        make("GBRT", checkpoint=path, callbacks=[stop_at(moment)], **options).fit(data, valid=other)
    model = make("GBRT", checkpoint=path, **options).fit(data, valid=other)
    assert model.forest_ == whole.forest_
    assert model.history_ == whole.history_


def test_checkpoints_are_written_now_and_then(tmp_path, data, monkeypatch):
    path = tmp_path / "checkpoint"
    with pytest.raises(Stopped, match="now"):
        make("GBRT", checkpoint=path, callbacks=[stop_at(3)]).fit(data)
    assert not path.exists()  # ten seconds have not passed
    make("GBRT", checkpoint=path).fit(data)
    assert path.exists()


@pytest.mark.parametrize("name", ["RandomForest", "GBRT"])
def test_an_interrupt_leaves_what_is_on_disk(name, tmp_path, data, monkeypatch):
    path = tmp_path / "checkpoint"
    kept = []

    def interrupt(news):
        if news.iteration == 4:
            kept.append(path.read_bytes())
            raise KeyboardInterrupt

    monkeypatch.setattr("rankwood.training.rounds.SECONDS_BETWEEN", 0.0)
    with pytest.raises(KeyboardInterrupt):
        make(name, checkpoint=path, callbacks=[interrupt], n_threads=2).fit(data)
    assert path.read_bytes() == kept[0]
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]  # nothing half-written


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.2}, "was made with learning_rate=0.05, not 0.2. Delete"),
        ({"seed": 1}, "was made with seed=0, not 1"),
        ({"n_trees": 9}, "was made with n_trees=8, not 9"),
    ],
)
def test_other_parameters_are_refused(change, message, tmp_path, data):
    path = tmp_path / "checkpoint"
    make("GBRT", checkpoint=path).fit(data)
    with pytest.raises(ModelError, match=message):
        make("GBRT", checkpoint=path, **change).fit(data)


def written(name, tmp_path, data, **options):
    """A checkpoint of a fit that was stopped, as the content of a model file."""
    path = tmp_path / "checkpoint"
    with pytest.raises(Stopped, match="now"):
        make(name, checkpoint=path, callbacks=[stop_at(4)]).fit(data, **options)
    return path, read_model(path)


def damages(array):
    """The same array without values, in another type, and with another number of dimensions."""
    yield array[:0]
    yield np.zeros(array.shape, np.uint8 if array.dtype != np.uint8 else np.float32)
    yield array[None]


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_checkpoint_is_refused_before_a_kernel_sees_it(name, every_tree, tmp_path, data):
    path, stored = written(name, tmp_path, data, valid=data)
    own = {array: stored.arrays[array] for array in stored.arrays if "forest." not in array}
    for changed in [*own, "forest.value", "forest.tree_offsets"]:
        for damaged in damages(stored.arrays[changed]):
            write_model(path, stored.kind, stored.meta, {**stored.arrays, changed: damaged})
            with pytest.raises(ModelError, match=r"checkpoint .* cannot be used: .* start afresh"):
                make(name, checkpoint=path).fit(data, valid=data)
        fewer = {array: value for array, value in stored.arrays.items() if array != changed}
        write_model(path, stored.kind, stored.meta, fewer)
        with pytest.raises(ModelError, match=f"array '(forest.)?{changed}' is missing"):
            make(name, checkpoint=path).fit(data, valid=data)


@pytest.mark.parametrize(
    ("name", "array", "value", "message"),
    [
        ("RandomForest", "oob_counts", 5, r"'oob_counts' holds 5; .* from 0 to 4"),
        ("RandomForest", "oob_counts", -1, r"'oob_counts' holds -1"),
        ("RandomForest", "oob_sums", np.nan, r"'oob_sums' holds nan"),
        ("RandomForest", "oob_sums", np.inf, r"'oob_sums' holds inf"),
        ("BROOF", "weights", 2.0, r"'weights' holds 2.0; .* from 0 to 1"),
        ("BROOF", "weights", 0.9, "weights do not sum to 1"),
        ("BROOF", "history", -1.0, "the factor of round 1 is -1.0"),
    ],
)
def test_values_of_a_checkpoint_that_no_fit_gives(
    name, array, value, message, every_tree, tmp_path, data
):
    path, stored = written(name, tmp_path, data)
    changed = np.array(stored.arrays[array])
    changed[0] = value
    write_model(path, stored.kind, stored.meta, {**stored.arrays, array: changed})
    with pytest.raises(ModelError, match=message):
        make(name, checkpoint=path).fit(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": None}, "does not say which fit it belongs to"),
        ({"forest": {"average": True}}, "its record must hold average, base, n_features"),
        ({"feature_names": ["a"]}, "feature_names has 1 names"),
    ],
)
def test_records_of_a_checkpoint_that_are_wrong(change, message, every_tree, tmp_path, data):
    path, stored = written("RandomForest", tmp_path, data)
    write_model(path, stored.kind, {**stored.meta, **change}, stored.arrays)
    with pytest.raises(ModelError, match=rf"{message}.* start afresh"):
        make("RandomForest", checkpoint=path).fit(data)


@pytest.mark.parametrize("name", ["rounds", "state"])
def test_a_search_that_claims_to_have_gone_on_for_ever_is_refused(name, every_tree, tmp_path, data):
    """The next round would not fit into the type of its number."""
    path = tmp_path / "checkpoint"
    base = rw.GBRT(1, max_leaves=3, min_leaf=3)
    options = {"budget": 8, "search": "hull", "checkpoint": path}
    with pytest.raises(Stopped, match="now"):
        rw.BoostingTree(base, callbacks=[stop_at(4)], **options).fit(data)
    stored = read_model(path)
    changed = np.array(stored.arrays[name])
    changed[0] = 2**31 - 1
    write_model(path, stored.kind, stored.meta, {**stored.arrays, name: changed})
    with pytest.raises(ModelError, match=f"array '{name}' holds 2147483647"):
        rw.BoostingTree(base, **options).fit(data)


def test_a_checkpoint_of_more_trees_than_the_fit_is_refused(every_tree, tmp_path, data):
    path, stored = written("GBRT", tmp_path, data)
    longer = tmp_path / "longer"
    make("GBRT", checkpoint=longer, n_trees=9).fit(data)
    arrays = read_model(longer).arrays
    write_model(path, stored.kind, stored.meta, arrays)
    with pytest.raises(ModelError, match=r"it has 9 trees, more than the 8 of the fit"):
        make("GBRT", checkpoint=path).fit(data)


def test_other_data_are_refused(tmp_path, data, other):
    path = tmp_path / "checkpoint"
    make("GBRT", checkpoint=path).fit(data)
    changed = data.labels.copy()
    changed[-1] += 1
    others = [
        (other, {}),
        (rw.RankingData(data.features, changed, data.query_ids), {}),
        (data, {"valid": other}),
        (data, {"sample_weight": np.linspace(1, 2, data.n_documents)}),
    ]
    for features, options in others:
        with pytest.raises(ModelError, match=r"was made on other data\. Delete .*to start afresh"):
            make("GBRT", checkpoint=path).fit(features, **options)


def test_other_files_are_refused(tmp_path, data):
    path = tmp_path / "file"
    model = make("GBRT").fit(data)
    rw.save(model, path)
    with pytest.raises(ModelError, match="holds a forest, not a checkpoint"):
        make("GBRT", checkpoint=path).fit(data)
    make("RandomForest", checkpoint=tmp_path / "other").fit(data)
    with pytest.raises(ModelError, match="belongs to estimator 'RandomForest', not 'GBRT'"):
        make("GBRT", checkpoint=tmp_path / "other").fit(data)
    path.write_bytes(b"no model at all")
    with pytest.raises(ModelError, match="file"):
        make("GBRT", checkpoint=path).fit(data)


def test_a_place_that_cannot_be_written_to_is_refused_at_once(tmp_path, data):
    for path in (tmp_path / "no" / "file", tmp_path):
        with pytest.raises(ParameterError, match="must be a file in a folder that exists"):
            make("GBRT", checkpoint=path).fit(data)
    with pytest.raises(ParameterError, match="must be the path of a file, got 3"):
        make("GBRT", checkpoint=3).fit(data)


def test_how_a_fit_is_run_does_not_matter(tmp_path, data):
    path = tmp_path / "checkpoint"
    make("RandomForest", checkpoint=path, n_threads=1).fit(data)
    seen = []
    make("RandomForest", checkpoint=path, n_threads=2, callbacks=[seen.append]).fit(data)
    assert seen == []


KILLED = """
import sys, time
import rankwood as rw
from rankwood.training import rounds
rounds.SECONDS_BETWEEN = 0.0
data = rw.make_ranking(30, 10, 6, seed=3)
name, path, saved, pause = sys.argv[1:]
def wait(news):
    print(news.iteration, flush=True)
    time.sleep(float(pause))
options = {"min_leaf": 3} if name in ("GBRT", "NDCGBoost") else {}
model = getattr(rw, name)(40, checkpoint=path, callbacks=[wait], **options).fit(data)
rw.save(model, saved)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RandomForest", "GBRT", "NDCGBoost", "RankBoost"])
def test_a_killed_fit_resumes_to_the_same_bytes(name, tmp_path):
    def start(saved, pause):
        arguments = [sys.executable, "-c", KILLED, name, str(tmp_path / "checkpoint"), saved, pause]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)

    killed = start(str(tmp_path / "never"), "0.05")
    for line in killed.stdout:
        if int(line) == 7:
            break
    time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    killed.stdout.close()
    assert not (tmp_path / "never").exists()
    resumed = start(str(tmp_path / "resumed"), "0")
    lines, _ = resumed.communicate()
    assert resumed.returncode == 0
    assert int(lines.split()[0]) > 7  # it went on, it did not begin again
    (tmp_path / "checkpoint").unlink()
    whole = start(str(tmp_path / "whole"), "0")
    lines, _ = whole.communicate()
    assert lines.split()[0] == "1"
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_the_same_training_gives_the_same_file(tmp_path, data):
    for place in ("one", "two"):
        rw.save(
            make("RandomForest", n_threads=1 if place == "one" else 2).fit(data), tmp_path / place
        )
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_bare_forest_comes_back_as_one(tmp_path, data):
    forest = make("GBRT").fit(data).forest_
    rw.save(forest, tmp_path / "forest")
    assert rw.load(tmp_path / "forest") == forest


def test_out_of_bag_estimates_stay_with_the_fit(tmp_path, data):
    model = make("RandomForest").fit(data)
    rw.save(model, tmp_path / "model")
    with pytest.raises(AttributeError, match="not kept in model files"):
        _ = rw.load(tmp_path / "model").oob_scores_
    _, meta = load_model(tmp_path / "model")
    assert meta["measures"] == {"oob_ndcg@10": model.oob_ndcg_}


def test_a_file_names_only_what_we_know(tmp_path, data):
    forest = make("GBRT").fit(data).forest_
    path = tmp_path / "model"
    save_model(forest, path, {"estimator": "os.system", "parameters": {}})
    with pytest.raises(ModelError, match=r"holds a 'os.system', which this version does not know"):
        rw.load(path)
    save_model(forest, path, {"estimator": "GBRT", "parameters": {"depth": 3}})
    with pytest.raises(ModelError, match="GBRT has no parameter 'depth'"):
        rw.load(path)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(ModelError, match="not fitted yet"):
        rw.save(rw.GBRT(), tmp_path / "model")
    with pytest.raises(ModelError, match="dict cannot be saved"):
        rw.save({}, tmp_path / "model")
