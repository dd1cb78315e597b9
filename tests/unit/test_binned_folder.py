"""A folder of binned data: opened, cut, damaged, trained on, scored."""

from __future__ import annotations

import inspect
import json
import pickle
import shutil
import time

import numpy as np
import pytest

import rankwood as rw
from rankwood.binning.binned import BinnedData
from rankwood.binning.folder import describe_file, is_binned_folder
from rankwood.data.cache import read_record, write_record
from rankwood.errors import DataError, ModelError, ParameterError
from rankwood.models.forest import Forest
from rankwood.rankers.base import learned_model
from rankwood.rankers.save import estimators
from rankwood.training import bin_files as binning

pytestmark = pytest.mark.jit_only  # its kernels are tested where they are defined

NEED_RAW = ("AdaRank", "AutoRanker", "MLPRanker", "RankSVM")
SETTINGS = {
    "n_trees": 3,
    "n_rounds": 3,
    "n_iterations": 3,
    "max_layers": 1,
    "n_forests": 2,
    "budget": 40,
    "forest_trees": 3,
    "n_threads": 1,
}


@pytest.fixture(scope="module")
def parts():
    """Training and validation data in memory."""
    made = rw.make_ranking(40, 30, 8, seed=4, missing=0.05)
    return made.take_queries(np.arange(30)), made.take_queries(np.arange(30, 40))


@pytest.fixture(scope="module")
def folders(parts, tmp_path_factory):
    """The same data in folders, the validation data by the bins of the training data."""
    base = tmp_path_factory.mktemp("folders")
    before = binning.PART_BYTES, binning._LEAST_PART_ROWS
    binning.PART_BYTES, binning._LEAST_PART_ROWS = 1, 200
    try:
        for name, data in zip(("train", "valid"), parts, strict=True):
            rw.write_table(data, base / f"{name}.parquet")
        rw.bin_files(base / "train.parquet", base / "train")
        rw.bin_files(base / "valid.parquet", base / "valid", bins=base / "train")
    finally:
        binning.PART_BYTES, binning._LEAST_PART_ROWS = before
    return base


@pytest.fixture
def damaged(folders, tmp_path):
    """A copy of the training folder, to be damaged."""
    shutil.copytree(folders / "train", tmp_path / "copy")
    return tmp_path / "copy"


def ranker_of(name):
    if name == "OrdinalRanker":
        return rw.OrdinalRanker(rw.GBRT(3), n_threads=1)
    if name == "Blend":
        return rw.Blend({"forest": rw.RandomForest(3), "boosted": rw.LambdaMART(3)}, n_threads=1)
    known = inspect.signature(estimators()[name]).parameters
    return estimators()[name](**{key: value for key, value in SETTINGS.items() if key in known})


def same_model(one, other, data):
    mine, theirs = learned_model(one), learned_model(other)
    if isinstance(mine, Forest):
        assert mine == theirs
    np.testing.assert_array_equal(one.predict(data), other.predict(data))


# Training.


@pytest.mark.parametrize("name", sorted(set(estimators()) - set(NEED_RAW)))
def test_every_ranker_of_trees_learns_the_same_from_a_folder(name, parts, folders):
    train, valid = parts
    in_memory = ranker_of(name).fit(train, valid=valid)
    stored = rw.open_binned(folders / "train"), rw.open_binned(folders / "valid")
    from_folders = ranker_of(name).fit(stored[0], valid=stored[1])
    same_model(in_memory, from_folders, valid)
    assert getattr(in_memory, "history_", None) == getattr(from_folders, "history_", None)
    assert in_memory.training_.get("features_with_missing") == from_folders.training_.get(
        "features_with_missing"
    )
    mixed = ranker_of(name).fit(stored[0], valid=valid)
    same_model(in_memory, mixed, valid)


@pytest.mark.parametrize("name", sorted(set(NEED_RAW) - {"MLPRanker"}))
def test_rankers_that_need_raw_features_say_so(name, folders):
    stored = rw.open_binned(folders / "train")
    message = rf"{name} needs raw features, but .*train keeps codes .*read_table.*LambdaMART"
    with pytest.raises(DataError, match=message):
        ranker_of(name).fit(stored)
    raw = rw.make_ranking(12, 10, 8, seed=4)
    with pytest.raises(DataError, match=message.replace("train keeps", "valid keeps")):
        ranker_of(name).fit(raw, valid=rw.open_binned(folders / "valid"))


def test_weights_change_models_as_they_do_in_memory(parts, tmp_path, rng):
    train, _ = parts
    weights = rng.choice([0.0, 1.0, 2.5], train.n_documents)
    weighted = rw.RankingData(
        train.features, train.labels, train.query_ids, None, weights, None, train.names
    )
    rw.write_table(weighted, tmp_path / "a.parquet")
    folder = rw.bin_files(tmp_path / "a.parquet", tmp_path / "b")
    for name in ("LambdaMART", "RandomForest"):
        same_model(ranker_of(name).fit(weighted), ranker_of(name).fit(folder), train)
    with pytest.raises(DataError, match=r"weights were passed beside binned data.*row_weight="):
        ranker_of("GBRT").fit(folder, sample_weight=weights)


def test_trees_see_no_copy_of_the_codes(folders, monkeypatch):
    stored = rw.open_binned(folders / "train")
    seen = []
    plan = rw.LambdaMART._plan

    def remember(self, train):
        seen.append(train.matrix)
        return plan(self, train)

    monkeypatch.setattr(rw.LambdaMART, "_plan", remember)
    rw.LambdaMART(2).fit(stored)
    assert np.shares_memory(seen[0].columns, stored.columns)
    assert seen[0].row_major_prefix.size == 0
    assert "codes" not in stored.__dict__


def test_validation_data_of_other_bins_are_refused(parts, folders, tmp_path):
    other = rw.bin_files(folders / "valid.parquet", tmp_path / "own", sort=False)
    with pytest.raises(DataError, match=r"own, was binned by other bins .* --bins"):
        rw.LambdaMART(2).fit(rw.open_binned(folders / "train"), valid=other)
    with pytest.raises(DataError, match=r"binned by other bins"):
        rw.LambdaMART(2).fit(parts[1], valid=rw.open_binned(folders / "train"))
    names = [*parts[1].names[1:], parts[1].names[0]]
    turned = rw.bin_files(
        folders / "valid.parquet", tmp_path / "turned", features=names, bins=folders / "train"
    )
    with pytest.raises(DataError, match=r"turned, has other features .* or in another order"):
        rw.LambdaMART(2).fit(rw.open_binned(folders / "train"), valid=turned)
    with pytest.raises(DataError, match=r"7 features, but the bins are for 8"):
        rw.bin_files(
            folders / "valid.parquet", tmp_path / "few", features=names[1:], bins=folders / "train"
        )


def test_a_training_folder_can_be_validated_on(parts, folders):
    stored = rw.open_binned(folders / "train")
    from_folder = rw.LambdaMART(3).fit(stored, valid=stored)
    assert from_folder.history_ == rw.LambdaMART(3).fit(parts[0], valid=parts[0]).history_


def test_checkpoints_and_warm_starts_go_on(parts, folders, tmp_path):
    stored, valid = rw.open_binned(folders / "train"), rw.open_binned(folders / "valid")
    whole = rw.LambdaMART(6).fit(stored, valid=valid)
    warm = rw.LambdaMART(3, warm_start=True, early_stopping=None).fit(stored, valid=valid)
    same_model(
        rw.LambdaMART(6, early_stopping=None).fit(stored),
        warm.set_params(n_trees=6).fit(stored, valid=valid),
        parts[1],
    )
    path = tmp_path / "trees"
    stop = [lambda news: news.iteration == 3]
    rw.LambdaMART(6, checkpoint=path, callbacks=stop).fit(stored, valid=valid)
    same_model(whole, rw.LambdaMART(6, checkpoint=path).fit(stored, valid=valid), parts[1])


def test_forests_score_folders_of_their_own_bins_only(parts, folders, tmp_path):
    stored = rw.open_binned(folders / "train")
    for name in ("RandomForest", "GBRT"):
        model = ranker_of(name).fit(stored)
        np.testing.assert_array_equal(model.predict(stored), model.predict(parts[0]))
        np.testing.assert_array_equal(
            model.predict(rw.open_binned(folders / "valid")), model.predict(parts[1])
        )
    assert model.score(stored) == model.score(parts[0])
    coarse = rw.bin_files(folders / "train.parquet", tmp_path / "coarse", max_bins=5)
    with pytest.raises(ModelError, match=r"not among the thresholds of the bins"):
        model.predict(coarse)
    with pytest.raises(DataError, match=r"needs raw features"):
        rw.RankSVM().fit(parts[0]).predict(stored)


# Opening.


def test_opening_takes_milliseconds_and_maps_the_files(folders):
    rw.open_binned(folders / "train")
    start = time.perf_counter()
    stored = rw.open_binned(folders / "train")
    assert time.perf_counter() - start < 1.0  # 3 ms on an idle machine
    assert not stored.columns.flags.owndata
    assert "BinnedFolder(" in repr(stored)
    assert len(stored) == stored.n_rows == stored.data.n_documents
    assert is_binned_folder(folders / "train")
    assert not is_binned_folder(folders)


def test_queries_can_be_cut_out(parts, folders):
    train, _ = parts
    codes = rw.bin(train).codes
    for name in ("train",):
        folder = rw.open_binned(folders / name)
        for first, last in ((0, 30), (3, 11), (29, 30), (5, 5), (0, 1)):
            cut = folder[first:last]
            rows = slice(train.query_offsets[first], train.query_offsets[last])
            np.testing.assert_array_equal(cut.codes, codes[:, rows])
            np.testing.assert_array_equal(cut.data.labels, train.labels[rows])
            assert cut.data.queries.tolist() == train.queries[first:last].tolist()
            np.testing.assert_array_equal(
                cut.data.query_offsets, train.query_offsets[first : last + 1] - rows.start
            )
        again = folder[4:20][2:7]
        assert again.data.queries.tolist() == train.queries[6:11].tolist()
        opened = pickle.loads(pickle.dumps(again))
        np.testing.assert_array_equal(opened.codes, again.codes)
        assert opened.data.queries.tolist() == again.data.queries.tolist()


def test_whole_parts_are_cut_out_without_a_copy(parts, folders):
    stored = rw.open_binned(folders / "train")
    assert len(stored.part_queries) > 3
    first, last = stored.part_queries[1], stored.part_queries[3]
    cut = stored[first:last]
    assert np.shares_memory(cut.columns, stored.columns)
    assert cut.part_queries.tolist() == (stored.part_queries[1:4] - first).tolist()
    train = parts[0].take_queries(np.arange(first, last))
    reference = rw.LambdaMART(3).fit(_by_bins(train, stored.bins))
    same_model(reference, rw.LambdaMART(3).fit(cut), train)


def _by_bins(data, bins):
    return BinnedData(bins.transform(data.features), bins, data)


@pytest.mark.parametrize("wrong", [3, slice(0, 9, 2), "all", np.arange(3)])
def test_other_cuts_are_refused(folders, wrong):
    with pytest.raises(ParameterError, match=r"ranges of queries, as in folder\[10:20\]"):
        rw.open_binned(folders / "train")[wrong]


# Damage.


@pytest.mark.parametrize("name", ["codes.npy", "labels.npy", "bins.json", "query_ids.text"])
def test_a_damaged_file_is_named(damaged, name):
    path = damaged / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=rf"{name} was cut: it has {len(whole) - 1:,} bytes"):
        rw.open_binned(damaged)
    path.write_bytes(whole + b"x")
    with pytest.raises(DataError, match=rf"{name} was changed"):
        rw.open_binned(damaged)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataError, match=rf"{name} is damaged, or of other data"):
        rw.open_binned(damaged)
    path.unlink()
    with pytest.raises(DataError, match=rf"{name} is missing"):
        rw.open_binned(damaged)
    path.write_bytes(whole)
    rw.open_binned(damaged, verify=True)


def test_a_byte_between_the_sampled_blocks_is_found_by_verify(tmp_path):
    made = rw.make_ranking(
        40, 60, 160, seed=1
    )  # codes of 400 kB: 64 blocks of 4 KiB are a part of it
    rw.write_table(made, tmp_path / "a.parquet")
    rw.bin_files(tmp_path / "a.parquet", tmp_path / "b")
    path = tmp_path / "b" / "codes.npy"
    content = bytearray(path.read_bytes())
    assert len(content) > 80 * 4096
    last = len(content) - 4096
    content[(last // 63 + 4096 + 2 * last // 63) // 2] ^= 1
    path.write_bytes(content)
    rw.open_binned(tmp_path / "b")
    with pytest.raises(DataError, match=r"codes.npy is damaged"):
        rw.open_binned(tmp_path / "b", verify=True)


def test_foreign_files_and_manifests_are_named(damaged, folders, tmp_path):
    (damaged / ".hidden").write_text("a file manager's")
    rw.open_binned(damaged)
    (damaged / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"notes.txt does not belong to the binned data"):
        rw.open_binned(damaged)
    (damaged / "notes.txt").unlink()
    manifest = json.loads((damaged / "manifest.json").read_text())
    (damaged / "manifest.json").write_text(json.dumps({**manifest, "rows": 7}))
    with pytest.raises(DataError, match=r"manifest.json is damaged: its record was changed"):
        rw.open_binned(damaged)
    (damaged / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest.json is damaged"):
        rw.open_binned(damaged)
    (damaged / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"has no manifest.json, so it is not a folder of binned"):
        rw.open_binned(damaged)
    with pytest.raises(DataError, match=r"nowhere does not exist.*rankwood bin"):
        rw.open_binned(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"train.parquet is a file, not a folder"):
        rw.open_binned(folders / "train.parquet")


def at(index, value):
    """Sets one number of an array."""

    def change(array):
        array.reshape(-1)[index] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("labels", at(3, np.nan), "holds a number from nan"),
        ("labels", at(3, -1.0), "holds a number from -1.0"),
        ("labels", lambda array: array[:-1], "has another length than the manifest says"),
        ("labels", lambda array: array[None], "has another length than the manifest says"),
        ("query_offsets", at(1, 2**62), "does not divide the rows into queries"),
        ("query_offsets", at(0, -5), "does not divide the rows into queries"),
        ("query_of_row", at(0, 7), "does not fit the queries"),
        ("rows", at(0, 1), "does not fit the queries"),
        ("source_of_row", at(0, 2**31 - 1), "does not name each row of its part once"),
        ("source_of_row", at(0, -1), "does not name each row of its part once"),
        ("source_of_row", lambda array: np.full_like(array, 1), "does not name each row"),
        ("query_ids.ends", at(0, 10**6), "does not divide the identifiers"),
        ("codes", lambda array: np.full_like(array, 254), r"holds codes of feature \d beyond its"),
    ],
)
def test_arrays_that_lie_are_refused_before_a_kernel_follows_them(damaged, name, change, message):
    """Sizes and checksums are made to agree, so that only the arrays themselves are left to look at."""
    path = damaged / f"{name}.npy"
    if not path.exists():
        pytest.skip("these data are not sorted")
    np.save(path, change(np.load(path)))
    manifest = read_record(damaged, "manifest.json")
    manifest["files"][path.name] = describe_file(path)
    write_record(damaged, manifest, "manifest.json")
    with pytest.raises(DataError, match=f"{name}.npy {message}.*Bin the files again"):
        rw.CompletelyRandomForest(1, n_threads=1).fit(rw.open_binned(damaged))


def test_codes_that_are_cut_while_they_are_mapped_are_an_error_not_a_signal(damaged):
    opened = rw.open_binned(damaged)
    with (damaged / "codes.npy").open("r+b") as file:
        file.truncate(200)
    with pytest.raises(DataError, match=r"was cut from .* to 200 bytes while it was in use"):
        rw.LambdaMART(1, n_threads=1).fit(opened)


def test_a_newer_format_is_refused(damaged):
    manifest = read_record(damaged, "manifest.json")
    write_record(damaged, {**manifest, "format": 99, "version": "9.9"}, "manifest.json")
    with pytest.raises(DataError, match=r"has format 99, and this version .* 9\.9"):
        rw.open_binned(damaged)


@pytest.mark.parametrize("wrong", [3, [1, 2], {"a": 1}])
def test_bins_must_be_bins(folders, tmp_path, wrong):
    with pytest.raises(ParameterError, match=r"bins must be a folder of binned data"):
        rw.bin_files(folders / "valid.parquet", tmp_path / "b", bins=wrong)
