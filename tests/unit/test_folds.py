"""Folds: LETOR's folders in all their spellings, and the papers' rotation."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import numpy as np
import pytest

from rankwood.data import splits as folds_module
from rankwood.data.dataset import RankingData
from rankwood.data.splits import Fold, Folds, make_folds, read_folds
from rankwood.errors import DataError, ParameterError


def text(*queries: int, width: int = 3) -> str:
    """Two documents a query; the first feature is the query's number."""
    rows = [f"{label} qid:{query} 1:{query} {width}:0.5\n" for query in queries for label in (0, 2)]
    return "".join(rows)


def write_fold(
    folder: Path, names: tuple[str, str, str] = ("train.txt", "vali.txt", "test.txt")
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, queries in zip(names, ((1, 2, 3), (4,), (5,)), strict=True):
        content = text(*queries).encode()
        if name.endswith(".gz"):
            content = gzip.compress(content)
        elif name.endswith(".bz2"):
            content = bz2.compress(content)
        (folder / name).write_bytes(content)


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    for number in range(1, 6):
        write_fold(tmp_path / "MQ" / f"Fold{number}")
    return tmp_path / "MQ"


def queries_of(fold: Fold) -> list[list[int]]:
    return [part.queries.tolist() for part in fold]


def test_a_fold_unpacks_into_its_parts(collection: Path) -> None:
    train, vali, test = read_folds(collection)[0]
    assert [part.queries.tolist() for part in (train, vali, test)] == [[1, 2, 3], [4], [5]]
    assert isinstance(read_folds(collection)[0], Fold)


def test_only_the_fold_asked_for_is_read(collection: Path) -> None:
    (collection / "Fold2" / "train.txt").write_text("not LETOR\n")
    folds = read_folds(str(collection))
    assert len(folds) == 5
    assert queries_of(folds[0]) == [[1, 2, 3], [4], [5]]
    with pytest.raises(DataError, match=r"Fold2.train\.txt"):
        folds[1]


def test_folds_are_a_sequence(collection: Path) -> None:
    folds = read_folds(collection)
    assert folds.names == ("Fold1", "Fold2", "Fold3", "Fold4", "Fold5")
    assert folds[1:3].names == ("Fold2", "Fold3")
    assert isinstance(folds[::-1], Folds)
    assert queries_of(folds[-1]) == queries_of(folds[4])
    assert sum(1 for _ in folds) == 5
    assert repr(folds[:2]) == "Folds(Fold1, Fold2)"
    with pytest.raises(IndexError, match="out of range"):
        folds[5]


def test_folds_are_ordered_by_number(tmp_path: Path) -> None:
    for name in ("Fold10", "Fold-2", "fold 1"):
        write_fold(tmp_path / name)
    (tmp_path / "folder").mkdir()  # no fold
    (tmp_path / "Fold9").write_text("a file, no fold")
    assert read_folds(tmp_path).names == ("fold 1", "Fold-2", "Fold10")


@pytest.mark.parametrize(
    "names",
    [
        ("trainingset.txt", "validationset.txt", "testset.txt"),
        ("Train.TXT", "Valid.txt", "TEST.txt"),
        ("train.txt.gz", "validation.txt.bz2", "test.dat"),
        ("train", "vali", "test"),
    ],
)
def test_parts_by_any_of_their_names(tmp_path: Path, names: tuple[str, str, str]) -> None:
    write_fold(tmp_path, names)
    for other in ("train.txt.md5", "readme.txt", "test.py", "mytrain.txt"):
        (tmp_path / other).write_text("not a part")
    assert queries_of(read_folds(tmp_path)[0]) == [[1, 2, 3], [4], [5]]


def test_parts_by_names_given(tmp_path: Path) -> None:
    write_fold(tmp_path, ("set1.train.txt", "set1.valid.txt", "set1.test.txt"))
    folds = read_folds(tmp_path, names=("set1.train", "set1.valid", "set1.test"))
    assert queries_of(folds[0]) == [[1, 2, 3], [4], [5]]


def test_tables_are_parts_too(tmp_path: Path) -> None:
    for name, query in (("train", 1), ("vali", 2), ("test", 3)):
        (tmp_path / f"{name}.csv").write_text(f"label,qid,bm25,links\n1,{query},0.5,7\n")
    fold = read_folds(tmp_path)[0]
    assert queries_of(fold) == [[1], [2], [3]]
    assert fold.test.feature_names == ("bm25", "links")
    (tmp_path / "test.csv").write_text("label,qid,bm25,clicks\n1,3,0.5,7\n")
    with pytest.raises(
        DataError, match=r"features of train.csv, vali.csv, test.csv are not the same"
    ):
        read_folds(tmp_path)[0]


@pytest.mark.parametrize(("absent", "filler"), [("zero", 0.0), ("missing", np.nan)])
def test_narrow_parts_get_the_missing_columns(tmp_path: Path, absent: str, filler: float) -> None:
    write_fold(tmp_path)
    (tmp_path / "vali.txt").write_text(text(4, width=5))
    train, vali, test = read_folds(tmp_path, absent=absent)[0]
    assert (train.n_features, vali.n_features, test.n_features) == (5, 5, 5)
    assert test.features[0].tolist()[0::2] == pytest.approx([5, 0.5, filler], nan_ok=True)
    assert test.query_ids.tolist() == [5, 5]


def test_options_reach_the_reader(tmp_path: Path) -> None:
    write_fold(tmp_path)
    assert read_folds(tmp_path, n_features=9)[0].train.n_features == 9


def test_links_to_one_folder_are_folds_with_names_of_their_own(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links").mkdir()
    for number in (1, 2):
        (tmp_path / "links" / f"Fold{number}").symlink_to(collection / "Fold3")
    assert read_folds(tmp_path / "links").names == ("Fold1", "Fold2")
    (tmp_path / "alone").symlink_to(collection / "Fold3")
    assert read_folds(tmp_path / "alone").names == ("alone",)
    monkeypatch.chdir(collection / "Fold3")  # a path without a name is called as its folder is
    assert read_folds(".").names == ("Fold3",)


def test_a_missing_folder_with_the_nearest_name(collection: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*MQ2\. Did you mean .*MQ\?"):
        read_folds(collection.with_name("MQ2"))
    with pytest.raises(DataError, match="there is no folder /nowhere/at/all"):
        read_folds("/nowhere/at/all")
    with pytest.raises(DataError, match=r"train\.txt is a file. Pass the folder"):
        read_folds(collection / "Fold1" / "train.txt")


def test_a_folder_without_folds_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no folds. Expected Fold1.*; found nothing"):
        read_folds(tmp_path)
    for number in range(10):
        (tmp_path / f"a{number}").write_text("")
    with pytest.raises(DataError, match=r"found a0, a1, .*a7, … \(2 more\)"):
        read_folds(tmp_path)


def test_a_missing_part_is_named_before_anything_is_read(collection: Path) -> None:
    (collection / "Fold3" / "vali.txt").unlink()
    with pytest.raises(
        DataError, match=r"Fold3 has no file for the valid part.*found test.txt, train"
    ):
        read_folds(collection)


def test_two_candidates_for_a_part_are_both_named(collection: Path) -> None:
    (collection / "Fold3" / "train.txt.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"2 files for the train part: train.txt and train.txt.gz"):
        read_folds(collection)


def test_two_folders_for_a_fold_are_both_named(collection: Path) -> None:
    write_fold(collection / "fold_1")
    with pytest.raises(DataError, match="two folders for fold 1: Fold1 and fold_1"):
        read_folds(collection)


@pytest.mark.parametrize("names", [("a", "b"), "train", ("a", "b", ""), ("a", "b", 3)])
def test_names_must_be_three(tmp_path: Path, names: object) -> None:
    with pytest.raises(ParameterError, match="names must be three texts"):
        read_folds(tmp_path, names=names)  # type: ignore[arg-type]


@pytest.fixture
def ten_queries() -> RankingData:
    """Queries 10 to 19, two rows each, interleaved."""
    query_ids = np.tile(np.arange(10, 20), 2)
    return RankingData(query_ids[:, None].astype(float), query_ids % 3, query_ids)


def test_rotation_of_the_papers(ten_queries: RankingData) -> None:
    folds = make_folds(ten_queries)
    # s1 = 10 11, s2 = 12 13, s3 = 14 15, s4 = 16 17, s5 = 18 19
    assert queries_of(folds[0]) == [[10, 11, 12, 13, 14, 15], [16, 17], [18, 19]]
    assert queries_of(folds[1]) == [[12, 13, 14, 15, 16, 17], [18, 19], [10, 11]]
    assert queries_of(folds[4]) == [[10, 11, 12, 13, 18, 19], [14, 15], [16, 17]]


def test_rotation_of_three_parts(ten_queries: RankingData) -> None:
    assert queries_of(make_folds(ten_queries, 3)[1]) == [
        [14, 15, 16],
        [17, 18, 19],
        [10, 11, 12, 13],
    ]


def test_seed_shuffles_queries_and_repeats(ten_queries: RankingData) -> None:
    one, again, other = (make_folds(ten_queries, seed=seed)[0] for seed in (1, 1, 2))
    assert queries_of(one) == queries_of(again)
    assert queries_of(one) != queries_of(other)
    assert one.test.n_documents == 4
    is_train = np.isin(ten_queries.query_ids, one.train.queries)
    assert one.train == ten_queries.take_rows(is_train)  # in the caller's order


@pytest.mark.parametrize(
    ("n_folds", "message"),
    [
        (2, "n_folds must be a whole number of at least 3, got 2"),
        (11, "n_folds is 11, but there are only 10 queries"),
    ],
)
def test_wrong_numbers_of_folds(ten_queries: RankingData, n_folds: int, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make_folds(ten_queries, n_folds)


def test_folds_need_queries() -> None:
    with pytest.raises(DataError, match="no query ids"):
        make_folds(RankingData([[1.0]], [1]))


@pytest.mark.slow
def test_mq2008(mq2008: Path) -> None:
    folds = read_folds(mq2008)
    assert len(folds) == 5
    train, vali, test = folds[0]
    # The figures of the collection's own description.
    assert (train.n_documents, train.n_queries, train.n_features) == (9630, 471, 46)
    assert (vali.n_queries, test.n_queries) == (157, 156)
    assert not set(train.queries.tolist()) & set(test.queries.tolist())
    every = [fold.test.queries.tolist() for fold in folds]
    assert len({query for queries in every for query in queries}) == sum(map(len, every)) == 784


def test_the_message_about_the_layout_names_what_is_read() -> None:
    assert all(f"{name}.txt" in folds_module._LAYOUT for name in ("train", "vali", "test"))
