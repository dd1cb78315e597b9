"""The binary cache: hits, staleness, every kind of damage, writers side by side."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rankwood.data import cache
from rankwood.data.dataset import RankingData
from rankwood.data.synthetic import make_ranking
from rankwood.errors import DataError, DataWarning, ParameterError
from rankwood.rankers.boosted import GBRT

OPTIONS = {"absent": "zero"}


class Reader:
    """Gives the data and counts how often it was asked."""

    def __init__(self, data: RankingData) -> None:
        self.data = data
        self.calls = 0

    def __call__(self) -> RankingData:
        self.calls += 1
        return self.data


@pytest.fixture
def reader() -> Reader:
    return Reader(make_ranking(5, 10, 4, missing=0.2, doc_ids=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    # Larger than the 256 KiB that are sampled, so that there are bytes no sample sees.
    path.write_bytes(bytes(range(256)) * 4096)
    return path


@pytest.fixture
def entry(path: Path, reader: Reader) -> Path:
    """The folder of an entry just made."""
    cache.cached(path, OPTIONS, reader)
    assert reader.calls == 1
    return cache.entries()[0].folder


def test_second_read_comes_from_the_cache(path: Path, reader: Reader, entry: Path) -> None:
    data = cache.cached(path, OPTIONS, reader)
    assert reader.calls == 1
    assert data == reader.data
    assert data.feature_names == reader.data.feature_names


def test_features_of_a_hit_are_mapped_and_read_only(
    path: Path, reader: Reader, entry: Path
) -> None:
    features = cache.cached(path, OPTIONS, reader).features
    base = features
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert not features.flags.writeable


def test_mapped_features_survive_the_removal_of_the_entry(
    path: Path, reader: Reader, entry: Path
) -> None:
    data = cache.cached(path, OPTIONS, reader)
    assert cache.clear() == 1
    assert not entry.exists()
    assert data == reader.data


@pytest.mark.parametrize(
    "data",
    [
        RankingData([[1.0]], [0.0]),
        RankingData([[1.0], [2.0]], [0, 1], ["q ü", "q 2"], ["\udc80", ""]),
        RankingData([[1.0], [2.0]], [0, 1], np.array([2**63, 1], np.uint64)),
        RankingData(
            np.array([[np.inf, -0.0], [np.nan, 1e-45]], np.float32),
            [0.5, 2],
            [7, -1],
            row_weights=[1, 2],
            query_weights=[0.5, 3],
            feature_names=("ä", "b\n"),
        ),
        RankingData(np.zeros((0, 3)), [], np.zeros(0, np.int64)),
    ],
    ids=["no queries", "text ids", "large ids", "weights and names", "no rows"],
)
def test_everything_in_the_data_comes_back(path: Path, data: RankingData) -> None:
    reader = Reader(data)
    cache.cached(path, {}, reader)
    again = cache.cached(path, {}, reader)
    assert reader.calls == 1
    assert again == data
    assert again.features.tobytes() == data.features.tobytes()
    if data.query_ids is not None:
        assert again.query_ids.dtype == data.query_ids.dtype


def test_ids_that_cannot_be_kept_are_just_not_cached(path: Path) -> None:
    for doc_ids in (["a\nb", "c"], ["a", 1]):
        ids = np.empty(2, object)
        ids[:] = doc_ids
        reader = Reader(RankingData([[1.0], [2.0]], [0, 1], doc_ids=ids))
        assert cache.cached(path, {}, reader) == reader.data
        assert cache.cached(path, {}, reader) == reader.data
        assert reader.calls == 2
    assert cache.entries() == []


def test_other_options_and_other_paths_have_entries_of_their_own(
    path: Path, reader: Reader, entry: Path
) -> None:
    cache.cached(path, {"absent": "missing"}, reader)
    copy = path.with_name("copy.txt")
    copy.write_bytes(path.read_bytes())
    cache.cached(copy, OPTIONS, reader)
    assert reader.calls == 3
    assert len(cache.entries()) == 3


def test_a_link_is_the_file_it_points_to(path: Path, reader: Reader, entry: Path) -> None:
    link = path.with_name("link.txt")
    link.symlink_to(path)
    cache.cached(link, OPTIONS, reader)
    assert reader.calls == 1


def change_byte(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def between_samples(path: Path) -> int:
    """A byte that no sampled block holds: just after the first block."""
    assert path.stat().st_size > 64 * 4096
    return 4096


def restore_time(path: Path, status: os.stat_result) -> None:
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_file_of_another_size_is_read_again(path: Path, reader: Reader, entry: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")
    cache.cached(path, OPTIONS, reader)
    cache.cached(path, OPTIONS, reader)
    assert reader.calls == 2
    assert len(cache.entries()) == 1


def test_a_changed_file_of_the_same_size_is_read_again(
    path: Path, reader: Reader, entry: Path
) -> None:
    before = path.stat()
    change_byte(path, between_samples(path))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    cache.cached(path, OPTIONS, reader)
    assert reader.calls == 2


def test_a_touched_file_is_hashed_once_and_then_known(
    path: Path, reader: Reader, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(path, ns=(1, 1))
    assert cache.cached(path, OPTIONS, reader) == reader.data
    assert reader.calls == 1
    monkeypatch.setattr(cache, "full_hash", lambda _: pytest.fail("hashed again"))
    assert cache.cached(path, OPTIONS, reader) == reader.data
    assert reader.calls == 1


def test_a_file_replaced_by_an_equal_one_is_known(path: Path, reader: Reader, entry: Path) -> None:
    status = path.stat()
    twin = path.with_name("twin")
    twin.write_bytes(path.read_bytes())
    restore_time(twin, status)
    twin.replace(path)  # another inode, the same time and size
    assert path.stat().st_ino != status.st_ino
    cache.cached(path, OPTIONS, reader)
    assert reader.calls == 1


def test_sample_finds_a_change_whose_time_was_set_back(
    path: Path, reader: Reader, entry: Path
) -> None:
    status = path.stat()
    change_byte(path, 0)
    restore_time(path, status)
    cache.cached(path, OPTIONS, reader)
    assert reader.calls == 2


def test_a_change_between_the_samples_is_found_whose_time_was_set_back(
    path: Path, reader: Reader, entry: Path
) -> None:
    status = path.stat()
    change_byte(path, between_samples(path))
    restore_time(path, status)  # that of the last change of the file cannot be
    cache.cached(path, OPTIONS, reader)
    assert reader.calls == 2


def test_verify_of_an_unchanged_file_is_a_hit(path: Path, reader: Reader, entry: Path) -> None:
    assert cache.cached(path, OPTIONS, reader, verify=True) == reader.data
    assert reader.calls == 1


def change_record(entry: Path, **changes: object) -> None:
    record = cache.read_record(entry)
    cache.write_record(entry, {**record, **changes})


def replace_array(entry: Path, name: str, array: np.ndarray, *, honest: bool) -> None:
    """Put another array in place; an honest record describes what is in the file."""
    np.save(entry / f"{name}.npy", array)
    if honest:
        path = entry / f"{name}.npy"
        described = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "sample": cache.sample_hash(path),
            "sha256": cache.full_hash(path),
        }
        arrays = {**cache.read_record(entry)["arrays"], name: described}
        change_record(entry, arrays=arrays)


def without_checks(entry: Path, name: str, **changes: object) -> None:
    arrays = cache.read_record(entry)["arrays"]
    change_record(entry, arrays={**arrays, name: {**arrays[name], **changes}})


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no record": lambda entry: (entry / "record.json").unlink(),
    "empty record": lambda entry: (entry / "record.json").write_text(""),
    "cut record": lambda entry: os.truncate(entry / "record.json", 50),
    "record of another kind": lambda entry: (entry / "record.json").write_text("[1, 2]"),
    "binary record": lambda entry: (entry / "record.json").write_bytes(b"\xff\xfe\0"),
    "edited record": lambda entry: (entry / "record.json").write_text(
        (entry / "record.json").read_text().replace("bm25_body", "bm25_bodi")
    ),
    "record is a folder": lambda entry: (
        (entry / "record.json").unlink(),
        (entry / "record.json").mkdir(),
    ),
    "another version": lambda entry: change_record(entry, format=99),
    "another source": lambda entry: change_record(entry, source="/elsewhere"),
    "no identity": lambda entry: change_record(entry, identity=None),
    "short identity": lambda entry: change_record(entry, identity=[1]),
    "arrays of another kind": lambda entry: change_record(entry, arrays=[1]),
    "no arrays": lambda entry: change_record(entry, arrays={}),
    "unknown array": lambda entry: replace_array(entry, "extra", np.zeros(3), honest=True),
    "too few names": lambda entry: change_record(entry, feature_names=["a"]),
    "no features": lambda entry: (entry / "features.npy").unlink(),
    "no labels": lambda entry: (entry / "labels.npy").unlink(),
    "cut features": lambda entry: os.truncate(entry / "features.npy", 200),
    "empty features": lambda entry: os.truncate(entry / "features.npy", 0),
    "changed features": lambda entry: change_byte(entry / "features.npy", 150),
    "changed ids": lambda entry: change_byte(entry / "doc_ids.text.npy", 130),
    "other dtype": lambda entry: replace_array(entry, "features", np.zeros((3, 4)), honest=False),
    "honest other dtype": lambda entry: replace_array(
        entry, "features", np.zeros((3, 4)), honest=True
    ),
    "honest other shape": lambda entry: replace_array(entry, "labels", np.zeros(3), honest=True),
    "recorded shape": lambda entry: without_checks(entry, "labels", shape=[1, 1]),
    "recorded dtype": lambda entry: without_checks(entry, "labels", dtype="<f4"),
    "codes outside": lambda entry: replace_array(
        entry, "doc_ids.codes", np.full(10, 10**6), honest=True
    ),
    "negative codes": lambda entry: replace_array(
        entry, "doc_ids.codes", np.load(entry / "doc_ids.codes.npy") - 1, honest=True
    ),
    "honest float64 features": lambda entry: replace_array(
        entry, "features", np.load(entry / "features.npy").astype(np.float64), honest=True
    ),
    "negative labels": lambda entry: replace_array(
        entry, "labels", np.full(np.load(entry / "labels.npy").shape, -1.0), honest=True
    ),
    "empty folder": lambda entry: [file.unlink() for file in entry.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_is_noticed_logged_and_repaired(
    damage: Callable[[Path], object],
    path: Path,
    reader: Reader,
    entry: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage(entry)
    with caplog.at_level(logging.WARNING):
        assert cache.cached(path, OPTIONS, reader) == reader.data
    assert reader.calls == 2
    assert "is damaged and made again" in caplog.text
    assert cache.cached(path, OPTIONS, reader) == reader.data
    assert reader.calls == 2
    assert [found.folder for found in cache.entries()] == [entry]


def test_a_pickle_in_place_of_an_array_is_not_run(path: Path, reader: Reader, entry: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return pytest.fail, ("a cache entry ran code",)

    np.save(entry / "labels.npy", np.array([Trap()], object), allow_pickle=True)
    file = entry / "labels.npy"
    without_checks(
        entry,
        "labels",
        sample=cache.sample_hash(file),
        sha256=cache.full_hash(file),
    )
    assert cache.cached(path, OPTIONS, reader) == reader.data
    assert reader.calls == 2


def test_a_file_in_place_of_an_entry_is_replaced(path: Path, reader: Reader, entry: Path) -> None:
    cache.clear()
    entry.write_text("not a folder")
    cache.cached(path, OPTIONS, reader)
    cache.cached(path, OPTIONS, reader)
    assert reader.calls == 2
    assert sorted(found.name for found in entry.parent.iterdir()) == [entry.name]


def test_a_flipped_byte_deep_in_the_features_is_found(path: Path) -> None:
    reader = Reader(RankingData(np.zeros((3000, 100)), np.zeros(3000)))
    cache.cached(path, {}, reader)
    features = cache.entries()[0].folder / "features.npy"
    change_byte(features, between_samples(features))
    assert cache.cached(path, {}, reader) == reader.data
    assert reader.calls == 2


def test_damage_of_large_arrays_is_a_warning_while_they_are_in_use(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_CHECKED_AT_ONCE", 1000)
    is_in_use, watch = (
        threading.Event(),
        cache._watch,
    )  # a check that ends sooner makes the read a fresh one
    monkeypatch.setattr(cache, "_watch", lambda *given: is_in_use.wait(60) and watch(*given))
    reader = Reader(RankingData(np.zeros((3000, 100)), np.zeros(3000)))
    cache.cached(path, {}, reader)
    features = cache.entries()[0].folder / "features.npy"
    change_byte(features, between_samples(features))
    with pytest.warns(DataWarning, match=r"features\.npy was damaged on the disk"):  # noqa: PT031
        before = set(threading.enumerate())
        cache.cached(path, {}, reader)
        is_in_use.set()
        for thread in set(threading.enumerate()) - before:
            thread.join()
    assert reader.calls == 1
    assert cache.entries() == []  # the next read is a fresh one


@pytest.mark.parametrize("use", ["fit", "predict"])
def test_a_file_that_is_cut_while_it_is_mapped_is_an_error_not_a_signal(
    path: Path, use: str
) -> None:
    data = make_ranking(20, 10, 4, seed=1)
    cache.cached(path, {}, Reader(data))
    mapped = cache.cached(path, {}, Reader(data))
    model = GBRT(2, min_leaf=2).fit(data)
    os.truncate(cache.entries()[0].folder / "features.npy", 200)
    with pytest.raises(DataError, match=r"was cut from [\d,]+ to 200 bytes while it was in use"):
        model.fit(mapped) if use == "fit" else model.predict(mapped)


def test_the_checksum_sees_every_bit_and_the_order(rng: np.random.Generator) -> None:
    array = rng.integers(0, 2**63, 3000)
    before = cache.checksum(array)
    for place in (0, 511, 512, 2047, 2999):
        changed = array.copy()
        changed[place] ^= 1
        assert cache.checksum(changed) != before
    for one, other in ((0, 1), (0, 512), (100, 2000)):
        swapped = array.copy()
        swapped[[one, other]] = array[[other, one]]
        assert cache.checksum(swapped) != before


def test_threads_side_by_side_all_get_the_data(path: Path, reader: Reader) -> None:
    start = threading.Barrier(8)
    results: list[object] = [None] * 8

    def work(place: int) -> None:
        start.wait()
        for _ in range(5):
            try:
                results[place] = cache.cached(path, OPTIONS, reader) == reader.data
            except BaseException as error:
                results[place] = error
            if place == 0:
                cache.clear()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
    cache.cached(path, OPTIONS, reader)
    calls = reader.calls
    cache.cached(path, OPTIONS, reader)
    assert reader.calls == calls
    assert len(list(cache.entries()[0].folder.parent.iterdir())) == 1


def test_a_cache_folder_that_cannot_be_made_is_no_error(
    path: Path,
    reader: Reader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    blocker = tmp_path / "blocker"
    blocker.write_text("a file where the folder should be")
    monkeypatch.setenv("RANKWOOD_CACHE_DIR", str(blocker))
    with caplog.at_level(logging.INFO, logger="rankwood"):
        assert cache.cached(path, OPTIONS, reader) == reader.data
    assert "is not cached" in caplog.text
    assert cache.cached(path, OPTIONS, reader) == reader.data
    assert reader.calls == 2
    assert cache.entries() == []
    assert cache.clear() == 0


def test_a_full_disk_is_no_error_and_leaves_nothing(
    path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", no_space)
    assert cache.cached(path, OPTIONS, reader) == reader.data
    assert list((Path(os.environ["RANKWOOD_CACHE_DIR"]) / "data").iterdir()) == []


def test_a_file_that_changes_while_it_is_read_is_not_cached(path: Path, reader: Reader) -> None:
    def read() -> RankingData:
        os.utime(path, ns=(5, 5))
        return reader()

    cache.cached(path, OPTIONS, read)
    assert cache.entries() == []


def test_errors_of_the_reader_reach_the_caller(path: Path, tmp_path: Path) -> None:
    def read() -> RankingData:
        raise DataError("line 3 is wrong")

    for place in (path, tmp_path / "nowhere.txt", tmp_path):
        with pytest.raises(DataError, match="line 3 is wrong"):
            cache.cached(place, OPTIONS, read)
    assert cache.entries() == []


def make_entries(folder: Path, reader: Reader, count: int) -> list[Path]:
    """Files cached one after the other, used at times 1, 2, …"""
    paths = []
    for number in range(count):
        path = folder / f"file{number}.txt"
        path.write_text(f"content {number}")
        cache.cached(path, {}, reader)
        entry = next(entry for entry in cache.entries() if entry.source == str(path))
        os.utime(entry.folder, (number + 1, number + 1))
        paths.append(path)
    return paths


def test_prune_removes_the_longest_unused_first(tmp_path: Path, reader: Reader) -> None:
    paths = make_entries(tmp_path, reader, 3)
    cache.cached(paths[0], {}, reader)  # now the one used last
    one = cache.entries()[0].n_bytes
    cache.prune(limit=2 * one + one // 2)
    assert [entry.source for entry in cache.entries()] == [str(paths[2]), str(paths[0])]


def test_prune_keeps_the_entry_it_is_told_to(path: Path, entry: Path) -> None:
    cache.prune(limit=0, keep=entry)
    assert len(cache.entries()) == 1
    cache.prune(limit=0)
    assert cache.entries() == []


def test_the_environment_bounds_the_cache(
    tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_entries(tmp_path, reader, 2)
    one = cache.entries()[0].n_bytes
    monkeypatch.setenv("RANKWOOD_CACHE_GB", str(1.5 * one / 1e9))
    paths = make_entries(tmp_path, reader, 3)
    assert [entry.source for entry in cache.entries()] == [str(paths[2])]


def test_a_limit_of_zero_switches_the_cache_off(
    path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKWOOD_CACHE_GB", "0")
    cache.cached(path, OPTIONS, reader)
    assert cache.entries() == []


@pytest.mark.parametrize("text", ["much", "-1", "nan", "inf"])
def test_a_nonsense_limit_is_named(
    text: str, path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKWOOD_CACHE_GB", text)
    with pytest.raises(ParameterError, match=f"RANKWOOD_CACHE_GB must be a number.*'{text}'"):
        cache.cached(path, OPTIONS, reader)


def test_prune_removes_what_dead_writers_left(path: Path, entry: Path) -> None:
    old, new = entry.parent / ".part-old", entry.parent / ".part-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "features.npy").write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.prune()
    assert not old.exists()
    assert new.exists()  # perhaps being written now
    assert len(cache.entries()) == 1


def test_entries_tell_source_and_size(path: Path, entry: Path) -> None:
    (found,) = cache.entries()
    assert found.source == str(path)
    assert found.n_bytes == sum(file.stat().st_size for file in entry.iterdir())
    (entry / "record.json").write_text(json.dumps({"source": 1}))
    assert cache.entries()[0].source == ""
