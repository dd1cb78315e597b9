"""For any data: what is written is read. For any bytes: data or one of our errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rankwood.data.dataset import RankingData
from rankwood.data.frames import to_matrix
from rankwood.data.scores import Qrels, Run, read_qrels, read_run, read_scores
from rankwood.data.tables import from_frame, read_table, write_table
from rankwood.errors import InputError

ENDINGS = [".parquet", ".arrow", ".csv", ".tsv.gz"]
RESERVED = {"qid", "label", "doc_id", "row_weight", "query_weight"}

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
# Arrow cuts names at NUL when it hands a table over.
names = texts.filter(lambda name: name not in RESERVED and "\0" not in name)
finite = st.floats(0, 1e300, allow_nan=False, allow_infinity=False)


@st.composite
def ranking_data(draw):
    n_rows, n_features = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    features = draw(hnp.arrays(np.float32, (n_rows, n_features), elements=st.floats(width=32)))
    rows = {"min_size": n_rows, "max_size": n_rows}
    whole_ids = st.lists(st.integers(-(2**63), 2**63 - 1), **rows)
    text_ids = st.lists(texts, **rows)
    return RankingData(
        features,
        draw(st.lists(finite, **rows)),
        draw(st.one_of(whole_ids, text_ids)),
        draw(st.one_of(st.none(), whole_ids, text_ids)),
        draw(st.one_of(st.none(), st.lists(finite, **rows))),
        None,
        draw(st.lists(names, min_size=n_features, max_size=n_features, unique=True)),
    )


def with_ids_of_one_kind(ids):
    """Text ids that are all whole numbers come back from CSV as such; a letter keeps them text."""
    if ids is None or ids.dtype != object:
        return ids
    return [f"x{value}" for value in ids]


def outcome(read, path):
    """What ``read`` gives, or our error; any other error is a failure of the test."""
    try:
        return read(path)
    except InputError as error:
        return error


@pytest.mark.filterwarnings("ignore::rankwood.errors.DataWarning")
@pytest.mark.parametrize("ending", ENDINGS)
@given(data=ranking_data(), weigh_queries=st.booleans())
def test_what_is_written_is_read(tmp_path, ending, data, weigh_queries):
    data = RankingData(
        data.features,
        data.labels,
        with_ids_of_one_kind(data.query_ids)
        if ".csv" in ending or ".tsv" in ending
        else data.query_ids,
        with_ids_of_one_kind(data.doc_ids)
        if ".csv" in ending or ".tsv" in ending
        else data.doc_ids,
        data.row_weights,
        np.arange(data.n_queries) / 3 if weigh_queries else None,
        data.feature_names,
    )
    path = tmp_path / f"data{ending}"
    write_table(data, path)
    again = read_table(path)
    assert again == data
    is_zero = data.features == 0
    np.testing.assert_array_equal(
        np.signbit(again.features[is_zero]), np.signbit(data.features[is_zero])
    )


@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: b"label,qid,a\n" + text.encode("utf-8", "replace")),
        st.text(alphabet='0123456789.,-eE"\n\r\t Nan', max_size=200).map(
            lambda text: b"label,qid,a\n1,1,1\n" + text.encode()
        ),
    )
)
@example(data=b'label,qid,a\n1,"1,1\n')
@example(data=b"label,qid,a\n1,1,1\x00\n")
@example(data=b"\xff\xfel\x00a\x00")
@pytest.mark.filterwarnings("ignore::rankwood.errors.DataWarning")
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".arrow", ".csv.gz", ".csv.zst"])
def test_any_bytes_end_in_a_table_or_our_error(tmp_path, ending, data):
    path = tmp_path / f"data{ending}"
    path.write_bytes(data)
    found = outcome(read_table, path)
    assert isinstance(found, RankingData) or str(path) in str(found)


@given(
    data=st.one_of(st.binary(max_size=100), st.text("q1 0\t\n.e-", max_size=100).map(str.encode))
)
@example(data=b"q 0 d 1\nq 0 d 1")
@example(data=b"\xef\xbb\xbf")
@example(data=b"q 0 d 1\rq 0 e 1")
@example(data=b"q 0 d 1\x0bq 0 e 1")
@pytest.mark.parametrize("read", [read_run, read_qrels, read_scores])
def test_any_bytes_end_in_a_run_or_our_error(tmp_path, read, data):
    path = tmp_path / "data.txt"
    path.write_bytes(data)
    found = outcome(read, path)
    assert isinstance(found, Run | Qrels | np.ndarray) or str(path) in str(found)


columns_of_numbers = st.one_of(
    st.lists(st.one_of(st.none(), st.floats(width=32)), min_size=3, max_size=3),
    st.lists(st.one_of(st.none(), st.integers(-(2**20), 2**20)), min_size=3, max_size=3),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=3, max_size=3),
)


@given(columns=st.dictionaries(names, columns_of_numbers, min_size=1, max_size=4))
def test_pandas_and_arrow_frames_agree_with_plain_lists(columns):
    expected = np.array(
        [[np.nan if value is None else value for value in values] for values in columns.values()],
        np.float32,
    ).T
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    for frame in (table, table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype)):
        matrix, found = to_matrix(frame)
        np.testing.assert_array_equal(matrix, expected)
        assert found == tuple(columns)


@given(
    columns=st.dictionaries(names, columns_of_numbers, min_size=1, max_size=4),
    query_ids=st.lists(st.sampled_from(["a", "b"]), min_size=3, max_size=3),
)
def test_a_frame_and_its_file_are_the_same_data(tmp_path, columns, query_ids):
    table = pa.table({"qid": query_ids, "label": [0, 1, 2], **columns})
    path = tmp_path / "data.parquet"
    data = from_frame(table)
    write_table(data, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_table(path) == data
