"""The parts of a file, one after the other, are the file."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankwood.data import table_files as files
from rankwood.data.dataset import RankingData
from rankwood.data.letor import text
from rankwood.data.parts import read_parts
from rankwood.data.reading import ReadOptions, read_data, write_data

ids = st.one_of(st.integers(-3, 40).map(str), st.text("ab0", min_size=1, max_size=2))


@st.composite
def grouped_data(draw):
    """Small data whose queries are together; ids of documents may be there or not."""
    queries = draw(st.lists(ids, min_size=1, max_size=8, unique=True))
    lengths = draw(st.lists(st.integers(1, 5), min_size=len(queries), max_size=len(queries)))
    n_rows = sum(lengths)
    seed = draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    doc_ids = [f"d{row}" for row in range(n_rows)] if draw(st.booleans()) else None
    return RankingData(
        rng.integers(-3, 4, (n_rows, 3)) / 4,
        rng.integers(0, 3, n_rows),
        np.repeat(np.array(queries, object), lengths),
        doc_ids,
    )


def texts(parts: list[RankingData], name: str) -> list[str] | None:
    """Ids as text: a part of whole numbers does not know that others are not."""
    found = [getattr(part, name) for part in parts]
    return None if found[0] is None else [str(value) for array in found for value in array]


@pytest.mark.parametrize("ending", [".txt", ".csv", ".parquet", ".arrow"])
@given(data=grouped_data(), n_rows=st.integers(1, 12), n_threads=st.integers(1, 3))
def test_the_parts_together_are_the_file(tmp_path, monkeypatch, ending, data, n_rows, n_threads):
    monkeypatch.setattr(text, "BLOCK_BYTES", 60)
    monkeypatch.setattr(text, "_LEAST_BLOCK_BYTES", 60)
    monkeypatch.setattr(files, "_CSV_BLOCK", 60)
    monkeypatch.setattr(files, "_PIECE_VALUES", 20)
    path = tmp_path / f"data{ending}"
    write_data(data, path)
    options = ReadOptions(n_features=3, cache=False, n_threads=n_threads)
    parts = list(read_parts(path, options, n_rows=n_rows))
    whole = read_data(path, options)

    np.testing.assert_array_equal(np.concatenate([part.features for part in parts]), whole.features)
    np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), whole.labels)
    for name in ("query_ids", "doc_ids"):
        assert texts(parts, name) == texts([whole], name)
    assert sum(part.n_queries for part in parts) == whole.n_queries  # none is cut in two
    for part in parts[:-1]:
        last_query = int(np.diff(part.query_offsets)[-1])
        assert part.n_documents - last_query < n_rows <= part.n_documents


@given(queries=st.lists(st.sampled_from("abcd"), min_size=1, max_size=14), n_rows=st.integers(1, 5))
@example(queries=list("aaaabcba"), n_rows=4)  # b comes again within its part, a after its own
@pytest.mark.filterwarnings("ignore::rankwood.errors.DataWarning")
@pytest.mark.parametrize("ending", [".txt", ".csv"])
def test_no_query_is_in_two_parts(tmp_path, ending, queries, n_rows):
    lines = {
        ".txt": [f"0 qid:{query} 1:1\n" for query in queries],
        ".csv": ["qid,label,1\n", *(f"{query},0,1\n" for query in queries)],
    }
    path = tmp_path / f"data{ending}"
    path.write_text("".join(lines[ending]))
    found: list[list[str]] = []
    try:
        for part in read_parts(path, ReadOptions(n_features=1), n_rows=n_rows):
            found.append(part.query_ids.tolist())
    except Exception as error:
        assert "comes again, but its first rows were handed on already" in str(error)  # noqa: PT017
        n_read = sum(map(len, found))
        again = int(str(error).rpartition(": query")[0].split()[-1]) - 1
        assert queries[again] in queries[:n_read]  # it was handed on
        assert again >= n_read
    else:
        assert [query for part in found for query in part] == queries
    handed_on = [query for part in found for query in set(part)]
    assert len(handed_on) == len(set(handed_on))
