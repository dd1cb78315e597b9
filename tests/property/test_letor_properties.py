"""The parser against its slow twin on good and bad text, and writing against reading."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rankwood.data.dataset import RankingData
from rankwood.data.letor import text as letor_reading
from rankwood.data.letor.text import read_letor, write_letor
from rankwood.errors import DataError, DataWarning
from tests.reference import letor as reference

PLACE = re.compile(r", line (\d+), column (\d+): ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def read(path: Path, **options) -> RankingData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read_letor(path, cache=False, **options)


def assert_same_bits(one: np.ndarray, other: np.ndarray) -> None:
    """Equal to the last bit, but for NaN, of which there are many."""
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    bits = np.int32 if one.dtype == np.float32 else np.int64
    same = (one.view(bits) == other.view(bits)) | (np.isnan(one) & np.isnan(other))
    assert same.all()


def twin(text: bytes, any_order: bool) -> reference.Table | tuple[int, int]:
    """What the twin reads, or the line and column of what is wrong."""
    try:
        return reference.parse(text, any_order=any_order)
    except reference.Wrong as wrong:
        return wrong.place


def assert_agrees_with_twin(path: Path, text: bytes, **options) -> None:
    """The same data as the twin, or an error at the same place."""
    path.write_bytes(text)
    any_order = options.get("order") == "any"
    absent = float("nan") if options.get("absent") == "missing" else 0.0
    expected = twin(text, any_order)
    if isinstance(expected, tuple):
        with pytest.raises(DataError, match=re.escape(str(path))) as caught:
            read(path, **options)
        place = PLACE.search(str(caught.value))
        assert expected == (tuple(map(int, place.groups())) if place else (0, 0)), caught.value
        return
    data = read(path, **options)
    assert_same_bits(data.features, expected.features(absent))
    assert_same_bits(data.labels, np.array(expected.labels))
    assert data.query_ids.tolist() == expected.ids()
    if any(expected.doc_ids):
        assert data.doc_ids.tolist() == expected.doc_ids
    else:
        assert data.doc_ids is None


# Text that is nearly LETOR: its pieces are right, or wrong in the ways files are.
DIGITS = st.text("0123456789", min_size=1, max_size=25)
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.floats(0, 1).map(lambda value: f"{value:.6f}"),
    st.integers(-1000, 100_000).map(str),
    st.tuples(st.sampled_from(["", "-", "+"]), DIGITS, DIGITS).map(
        lambda p: f"{p[0]}{p[1]}.{p[2]}"
    ),
    st.tuples(DIGITS, st.integers(-80, 60)).map(lambda parts: f"{parts[0]}e{parts[1]}"),
    st.sampled_from(
        [
            "NaN",
            "NULL",
            "null",
            "-nan",
            "inf",
            "-INF",
            "+Infinity",
            ".5",
            "5.",
            "-.5e-3",
            "1e+2",
            "0e999",
            "1e-400",
            "1e999",
        ]
    ),
    st.sampled_from(
        [
            "1e39",
            "3.4028235677973366e38",
            "3.4028235677973362e38",
            ".",
            "e5",
            "1e",
            "1e+",
            "-null",
            "1_0",
            "0x1",
        ]
    ),
)
LABELS = st.one_of(st.integers(0, 4).map(str), NUMBERS)
QUERIES = st.one_of(
    st.integers(-5, 30).map(lambda number: f"qid:{number}"),
    st.sampled_from(
        [
            "qid:a",
            "qid:é",
            "qid:007",
            "qid:",
            "qid",
            "qid:9223372036854775808",
            "qid:a:b",
            "sid:1",
        ]
    ),
    st.sampled_from(["qid:a\rb", "qid:\r"]),
)
BLANKS = st.sampled_from([" ", " ", " ", "\t", "  ", " \t "])
COMMENTS = st.sampled_from(
    [
        "",
        "",
        "#",
        "# docid = A",
        "#docid=B2 inc = 1",
        " # x docid",
        "# docid =",
        "# adocid=1 docid= é#z",
    ]
)
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n# note\n", " \n", "\r\r\n"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    ids = draw(st.lists(st.integers(1, 12), max_size=6, unique=True))
    if draw(st.integers(0, 9)):
        ids.sort()
    features = [f"{number}:{draw(NUMBERS)}" for number in ids]
    if not draw(st.integers(0, 19)):
        features.append(
            draw(st.sampled_from(["0:1", "100001:1", "7", "7:", ":7", "x:1", "2 :1", "8:1:2"]))
        )
    blank = draw(BLANKS)
    start = draw(st.sampled_from(["", "", "", " "]))
    row = blank.join([draw(LABELS), draw(QUERIES), *features])
    return start + row + draw(COMMENTS) + draw(ENDS)


TEXTS = st.lists(lines(), min_size=1, max_size=8).map(lambda parts: "".join(parts).encode())


@given(
    text=TEXTS,
    order=st.sampled_from(["ascending", "any"]),
    absent=st.sampled_from(["zero", "missing"]),
)
@example(text=b"\xef\xbb\xbf1 qid:1 1:1", order="ascending", absent="zero")
def test_parser_agrees_with_the_slow_twin(folder, text, order, absent):
    assert_agrees_with_twin(folder / "text.txt", text, order=order, absent=absent)


@given(text=TEXTS, data=st.data())
def test_mutated_and_truncated_text_is_read_or_refused_where_the_twin_says(folder, text, data):
    text = text[: data.draw(st.integers(0, len(text)), "kept")]
    for _ in range(data.draw(st.integers(0, 3), "mutations")):
        place = data.draw(st.integers(0, len(text)), "place")
        n_removed = data.draw(st.integers(0, 2), "removed")
        added = data.draw(
            st.one_of(st.binary(max_size=2), st.sampled_from([b"\0", b"\n", b" ", b":"])), "added"
        )
        text = text[:place] + added + text[place + n_removed :]
    assert_agrees_with_twin(folder / "text.txt", text)


@given(
    text=st.one_of(
        st.binary(max_size=200), st.text("0 1:qid.e-#\n\r\tN", max_size=60).map(str.encode)
    )
)
@example(text=b"\xff\xfe0\0 \0")
def test_random_bytes_are_read_or_refused_where_the_twin_says(folder, text):
    if text.startswith((b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd")):
        return  # announces itself as compressed
    assert_agrees_with_twin(folder / "text.txt", text)


@given(text=TEXTS, block_bytes=st.integers(1, 60), n_threads=st.sampled_from([1, 2, 8]))
def test_blocks_and_threads_change_nothing(folder, text, block_bytes, n_threads):
    path = folder / "text.txt"
    path.write_bytes(text)
    outcomes = []
    for size, threads in ((1 << 20, 1), (block_bytes, n_threads)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor_reading, "BLOCK_BYTES", size)
            try:
                data = read(path, n_threads=threads)
                documents = None if data.doc_ids is None else data.doc_ids.tolist()
                outcomes.append(
                    (
                        data.features.tobytes(),
                        data.labels.tobytes(),
                        data.query_ids.tolist(),
                        documents,
                    )
                )
            except DataError as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
ODD = st.sampled_from(
    [-0.0, 1e-45, -1.1754942e-38, 3.4028235e38, 0.1, 16777216.0, 1e38, np.nan, np.inf, -np.inf]
)
IDS = st.text(
    st.characters(exclude_characters=" \t\r\n\0#", exclude_categories=["Cs"]),
    min_size=1,
    max_size=5,
)


@st.composite
def ranking_data(draw: st.DrawFn) -> RankingData:
    n_rows = draw(st.integers(1, 12))
    shape = (n_rows, draw(st.integers(1, 9)))
    features = draw(
        arrays.arrays(np.float32, shape, elements=st.one_of(FINITE, ODD).map(np.float32))
    )
    labels = draw(
        arrays.arrays(
            np.float64, n_rows, elements=st.floats(0, 1e308) | st.integers(0, 4).map(float)
        )
    )
    some_id = draw(
        st.sampled_from(
            [st.integers(-(2**63), 2**63 - 1), IDS.filter(lambda text: not text.isdigit())]
        )
    )
    queries = sorted(draw(st.lists(some_id, min_size=n_rows, max_size=n_rows)))
    query_ids = np.array(queries, np.int64 if isinstance(queries[0], int) else object)
    documents = draw(st.none() | st.lists(IDS, min_size=n_rows, max_size=n_rows))
    return RankingData(
        features, labels, query_ids, None if documents is None else np.array(documents, object)
    )


@given(
    data=ranking_data(),
    skip_zeros=st.booleans(),
    suffix=st.sampled_from(["", ".gz", ".zst", ".bz2"]),
)
def test_what_was_written_is_read_again(folder, data, skip_zeros, suffix):
    path = folder / f"data.txt{suffix}"
    write_letor(data, path, skip_zeros=skip_zeros)
    again = read(path)
    assert_same_bits(again.features, data.features)
    assert_same_bits(again.labels, data.labels)
    assert again.query_ids.tolist() == data.query_ids.tolist()
    assert again == data
