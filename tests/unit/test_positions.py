"""Positions of click logs: in ``RankingData``, in every reader, in binned folders; never a feature."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import rankwood as rw
from rankwood.data.parts import read_parts
from rankwood.data.reading import ReadOptions, position_if_there, read_data
from rankwood.errors import DataError, DataWarning, ParameterError

FEATURES = np.arange(10, dtype=np.float32).reshape(5, 2) / 8.0
LABELS = [1, 0, 0, 1, 0]
LISTS = ["a", "a", "a", "b", "b"]
POSITIONS = [2, 1, 7, 1, 2]  # gaps are allowed, and so is any order


@pytest.fixture
def log() -> rw.RankingData:
    return rw.RankingData(FEATURES, LABELS, LISTS, positions=POSITIONS)


def written(tmp_path, ending: str, log: rw.RankingData):
    path = tmp_path / f"log{ending}"
    rw.write_table(log, path)
    return path


def test_positions_go_with_their_rows(log: rw.RankingData) -> None:
    assert log.positions is not None
    assert log.positions.tolist() == POSITIONS
    assert log.judgments.positions.tolist() == POSITIONS
    assert log.take_rows([4, 0]).positions.tolist() == [2, 2]
    assert log.take_queries([1]).positions.tolist() == [1, 2]
    assert log.judgments.take_rows(np.array([3])).positions.tolist() == [1]
    assert pickle.loads(pickle.dumps(log)) == log
    assert log != rw.RankingData(FEATURES, LABELS, LISTS)
    with pytest.raises(ValueError, match="read-only"):
        log.positions[0] = 3


@pytest.mark.parametrize(
    ("positions", "said"),
    [
        ([1, 2, None, 1, 2], r"positions\[2\] is missing"),
        ([1, 2, 3, 0, 2], r"positions\[3\] is 0; positions are whole numbers from 1"),
        ([1, 2, 2.5, 1, 2], r"positions\[2\] is 2.5"),
        ([1, 2, 3, 4, 4], r"positions\[4\] is 4, which an earlier row of query 'b' has too"),
        ([1, 2, 3], "3 values, but there are 5 rows"),
        (["top"] * 5, "whole numbers from 1"),
    ],
)
def test_a_wrong_position_is_named_with_its_row(positions: list, said: str) -> None:
    with pytest.raises(DataError, match=said):
        rw.RankingData(FEATURES, LABELS, LISTS, positions=positions)


def test_positions_of_separated_rows_may_come_again_in_another_list() -> None:
    lists = ["a", "b", "a", "b", "a"]
    data = rw.RankingData(FEATURES, LABELS, lists, positions=[1, 1, 2, 2, 3])
    assert data.positions.tolist() == [1, 1, 2, 2, 3]
    with pytest.raises(DataError, match=r"positions\[4\] is 1, which an earlier row"):
        rw.RankingData(FEATURES, LABELS, lists, positions=[1, 1, 2, 2, 1])


def test_positions_need_lists() -> None:
    with pytest.raises(DataError, match="positions need query ids"):
        rw.RankingData(FEATURES, LABELS, positions=POSITIONS)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".arrow"])
def test_tables_keep_positions(tmp_path, ending: str, log: rw.RankingData) -> None:
    path = written(tmp_path, ending, log)
    assert rw.read_table(path) == log
    parts = list(read_parts(path, ReadOptions(), n_rows=3))
    assert [part.positions.tolist() for part in parts] == [POSITIONS[:3], POSITIONS[3:]]


def test_a_frame_names_its_column_of_positions() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"qid": LISTS, "label": LABELS, "rank": POSITIONS, "x": FEATURES[:, 0], "y": FEATURES[:, 1]}
    )
    data = rw.from_frame(frame, position="rank")
    assert data.positions.tolist() == POSITIONS
    assert data.feature_names == ("x", "y")
    zero, repeated = "row 3: column 'rank' is 0", "row 4: column 'rank' is 1, which an earlier row"
    for wrong, said in ((0, zero), (1, repeated)):
        later = frame.assign(rank=[1, 2, 3, wrong, 1])
        with pytest.raises(DataError, match=said):
            rw.from_frame(later, position="rank")


def test_a_position_is_never_a_feature(tmp_path, log: rw.RankingData) -> None:
    path = written(tmp_path, ".parquet", log)
    with pytest.raises(ParameterError, match="a position is never a feature"):
        rw.read_table(path, position="position", features=["position", "1"])
    with pytest.raises(ParameterError, match="position= needs query="):
        rw.read_table(path, query=None, position="position", drop=["qid"])
    with pytest.raises(DataError, match="Rename it"):
        rw.write_table(rw.RankingData([[1.0]], [1], [1], feature_names=["position"]), path)


def test_letor_text_may_hold_the_position_as_a_feature(tmp_path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("1 qid:7 1:0.5 2:2 3:4\n0 qid:7 1:0.25 2:1 3:8\n0 qid:8 1:1 2:1 3:2\n")
    data = rw.read_letor(path, position=2)
    assert data.positions.tolist() == [2, 1, 1]
    assert data.feature_names == ("1", "3")
    assert rw.read_letor(path, position=3).feature_names is None  # the last: none is renumbered
    assert read_data(path, ReadOptions(position="2")) == data
    parts = list(read_parts(path, ReadOptions(position="2", n_features=3), n_rows=1))
    assert [part.positions.tolist() for part in parts] == [[2, 1], [1]]
    with pytest.raises(DataError, match=r"row 1: feature 1 is 0\.5; positions are whole numbers"):
        rw.read_letor(path, position=1)
    with pytest.raises(ParameterError, match="whose features are numbered from 1: 'rank' is none"):
        read_data(path, ReadOptions(position="rank"))


def test_letor_text_is_not_written_with_positions(tmp_path, log: rw.RankingData) -> None:
    with pytest.warns(DataWarning, match="positions have no place in LETOR text"):
        rw.write_letor(log, tmp_path / "log.txt")


def test_judged_data_beside_a_log_need_no_positions(tmp_path, log: rw.RankingData) -> None:
    judged = written(tmp_path, ".csv", rw.RankingData(FEATURES, LABELS, LISTS))
    options = ReadOptions(position="position")
    assert position_if_there(judged, options).position is None
    assert position_if_there(written(tmp_path, ".parquet", log), options) == options


def test_a_binned_folder_keeps_positions(tmp_path, log: rw.RankingData) -> None:
    binned = rw.bin_files(written(tmp_path, ".parquet", log), tmp_path / "folder")
    assert binned.data.positions.tolist() == POSITIONS
    assert rw.open_binned(tmp_path / "folder")[1:2].data.positions.tolist() == [1, 2]


def test_a_binned_folder_refuses_repeated_positions(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("qid,label,position,x\n1,0,1,.5\n1,1,2,.25\n2,0,1,1\n2,1,1,2\n")
    with pytest.raises(DataError, match=r"row 4"):
        rw.bin_files(path, tmp_path / "folder")
    text = tmp_path / "log.txt"
    text.write_text("1 qid:7 1:0.5 2:2\n")
    with pytest.raises(ParameterError, match="Write it as Parquet first"):
        rw.bin_files(text, tmp_path / "other", position="2")


def test_parts_with_and_without_positions_are_not_joined(log: rw.RankingData) -> None:
    from rankwood.rankers.save import join

    assert join(log, log).positions.tolist() == POSITIONS * 2
    with pytest.raises(DataError, match="one part has positions"):
        join(log, rw.RankingData(FEATURES, LABELS, LISTS))
