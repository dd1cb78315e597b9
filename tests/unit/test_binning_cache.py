"""Codes kept on disk: found again, noticed when they are another's or damaged, never half-written."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

from rankwood.binning import binned as kept_codes
from rankwood.binning.binned import bin_data
from rankwood.binning.bins import Bins
from rankwood.data.dataset import RankingData
from rankwood.data.synthetic import make_ranking
from rankwood.errors import ParameterError


@pytest.fixture
def data():
    return make_ranking(20, 10, 5, seed=4)


@pytest.fixture
def fits(monkeypatch):
    """How often codes were made, not found."""
    made = []
    write = kept_codes.CodeCache.write

    def counted(self, *arguments):
        made.append(self.folder)
        return write(self, *arguments)

    monkeypatch.setattr(kept_codes.CodeCache, "write", counted)
    return made


def is_mapped(array: np.ndarray) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def assert_equal(one, other):
    assert one.codes.tobytes() == other.codes.tobytes()
    for name in ("thresholds", "offsets", "has_missing"):
        first, second = getattr(one.bins, name), getattr(other.bins, name)
        assert first.dtype == second.dtype
        assert first.tobytes() == second.tobytes()


def test_the_second_call_finds_the_codes_of_the_first(data, tmp_path, fits):
    expected = bin_data(data)
    folder = tmp_path / "some" / "bins"
    first = bin_data(data, cache=folder)
    second = bin_data(data, cache=str(folder))
    assert len(fits) == 1
    for binned in (first, second):
        assert_equal(binned, expected)
        assert is_mapped(binned.codes)
        assert not binned.codes.flags.writeable
    assert sorted(path.name for path in folder.iterdir()) == ["bins.json", "codes.npy"]


def test_equal_features_in_another_object_find_them_too(data, tmp_path, fits):
    bin_data(data, cache=tmp_path)
    relabelled = RankingData(data.features.copy(), np.zeros(len(data)))
    assert bin_data(relabelled, cache=tmp_path).data is relabelled
    assert len(fits) == 1


@pytest.mark.parametrize("parameters", [{"max_bins": 9}, {"sample": 50}, {"seed": 1}])
def test_other_parameters_make_other_codes(data, tmp_path, fits, parameters):
    bin_data(data, cache=tmp_path)
    assert_equal(bin_data(data, cache=tmp_path, **parameters), bin_data(data, **parameters))
    assert_equal(bin_data(data, cache=tmp_path), bin_data(data))
    assert len(fits) == 3


def test_one_changed_value_makes_other_codes(data, tmp_path, fits):
    bin_data(data, cache=tmp_path)
    features = data.features.copy()
    features[17, 3] += 1000
    changed = RankingData(features, data.labels)
    assert_equal(bin_data(changed, cache=tmp_path), bin_data(changed))
    assert len(fits) == 2


def cut_short(content: bytes) -> bytes:
    return content[:-1]


def flip_last(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def flip_middle(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def empty(content: bytes) -> bytes:
    return b""


def other(content: bytes) -> bytes:
    return b'["some other file"]'


@pytest.mark.parametrize("name", ["codes.npy", "bins.json"])
@pytest.mark.parametrize("damage", [cut_short, flip_last, flip_middle, empty, other])
def test_damage_is_noticed_and_made_good(data, tmp_path, fits, caplog, name, damage):
    bin_data(data, cache=tmp_path)
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING, "rankwood"):
        again = bin_data(data, cache=tmp_path)
    assert_equal(again, bin_data(data))
    assert len(fits) == 2
    assert "are made again" in caplog.text
    bin_data(data, cache=tmp_path)
    assert len(fits) == 2


def test_codes_that_are_gone_are_made_again(data, tmp_path, fits):
    bin_data(data, cache=tmp_path)
    (tmp_path / "codes.npy").unlink()
    assert_equal(bin_data(data, cache=tmp_path), bin_data(data))
    assert len(fits) == 2


def test_a_record_that_claims_wrong_bins_is_not_believed(data, tmp_path, fits):
    bin_data(data, cache=tmp_path)
    path = tmp_path / "bins.json"
    record = json.loads(path.read_text())
    del record["digest"]
    record["offsets"] = [0, 999]
    path.write_text(json.dumps({**record, "digest": kept_codes._digest(record)}))
    assert_equal(bin_data(data, cache=tmp_path), bin_data(data))
    assert len(fits) == 2


def test_mapped_codes_outlive_their_replacement(data, tmp_path):
    old = bin_data(data, cache=tmp_path)
    expected = old.codes.tobytes()
    bin_data(data, cache=tmp_path, max_bins=3)
    assert old.codes.tobytes() == expected


def test_an_interrupted_write_leaves_nothing_new(data, tmp_path, monkeypatch):
    before = bin_data(data, cache=tmp_path, max_bins=7).codes.tobytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Bins, "transform_into", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bin_data(data, cache=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bins.json", "codes.npy"]
    assert bin_data(data, cache=tmp_path, max_bins=7).codes.tobytes() == before


def test_a_full_disk_costs_the_cache_and_nothing_else(data, tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_codes, "_reserve", full)
    with caplog.at_level(logging.WARNING, "rankwood"):
        binned = bin_data(data, cache=tmp_path)
    assert_equal(binned, bin_data(data))
    assert not is_mapped(binned.codes)
    assert "cannot be kept" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder_is_refused(data, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1 1:0.5\n")
    with pytest.raises(ParameterError, match=r"cache must be a folder, but .*train\.txt is a file"):
        bin_data(data, cache=path)
    assert path.read_text() == "1 qid:1 1:0.5\n"


def test_wrong_parameters_are_refused_before_anything_is_read(data, tmp_path):
    with pytest.raises(ParameterError, match="max_bins must be"):
        bin_data(data, cache=tmp_path / "bins", max_bins="many")
    assert not (tmp_path / "bins").exists()


def test_data_without_rows_are_not_kept(tmp_path):
    assert bin_data(RankingData(np.zeros((0, 2)), []), cache=tmp_path).codes.shape == (2, 0)


def test_the_hash_of_content_sees_every_byte_the_order_and_the_shape(rng):
    content = rng.integers(0, 255, 20_000).astype(np.uint8)
    hashes = {kept_codes.content_hash(content), kept_codes.content_hash(content.reshape(4, -1))}
    places = [0, 7, 4095, 4096, 12_345, 19_999]
    for place in places:
        changed = content.copy()
        changed[place] += 1
        hashes.add(kept_codes.content_hash(changed))
    hashes.add(kept_codes.content_hash(np.roll(content, 8)))
    assert len(hashes) == len(places) + 3
