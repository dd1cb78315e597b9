"""What the LETOR reader makes of good text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from rankwood import read_letor, write_letor
from rankwood.data.letor import parse
from rankwood.data.letor import text as letor_reading
from rankwood.errors import DataWarning
from tests.reference import letor as reference


@pytest.fixture
def read(tmp_path: Path):
    """Write a text to a file and read it."""

    def write_and_read(text: str | bytes, **options):
        path = tmp_path / "data.txt"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_letor(path, cache=False, **options)

    return write_and_read


def test_a_row_is_label_query_features_and_comment(read):
    data = read("2 qid:10 1:0.5 2:-3 # docid = GX008 inc = 1\n0 qid:10 1:7 2:1e-3 #docid=GX009\n")
    assert data.features.dtype == np.float32
    np.testing.assert_array_equal(data.features, np.array([[0.5, -3], [7, 1e-3]], np.float32))
    assert data.labels.tolist() == [2.0, 0.0]
    assert data.query_ids.tolist() == [10, 10]
    assert data.query_ids.dtype == np.int64
    assert data.doc_ids.tolist() == ["GX008", "GX009"]


def test_absent_features_are_zero_or_missing(read):
    text = "1 qid:1 2:5\n1 qid:1 1:4 3:6\n"
    assert read(text).features.tolist() == [[0, 5, 0], [4, 0, 6]]
    missing = read(text, absent="missing").features
    assert np.isnan(missing).tolist() == [[True, False, True], [False, True, False]]


def test_declared_features_give_the_width(read):
    assert read("1 qid:1 2:5\n", n_features=4).features.tolist() == [[0, 5, 0, 0]]


def test_ids_in_any_order_on_request(read):
    assert read("1 qid:1 3:3 1:1\n1 qid:1 2:2\n", order="any").features.tolist() == [
        [1, 0, 3],
        [0, 2, 0],
    ]


def test_later_rows_may_be_wider(read):
    text = "".join(f"0 qid:1 {row + 1}:1\n" for row in range(50))
    np.testing.assert_array_equal(read(text).features, np.eye(50, dtype=np.float32))
    np.testing.assert_array_equal(read(text, order="any").features, np.eye(50, dtype=np.float32))


@pytest.mark.parametrize(
    "text",
    [
        "1 qid:3 1:5\r\n0 qid:3 1:6\r\n",
        "\ufeff1 qid:3 1:5\n0 qid:3 1:6",
        "\n# a comment\n1 qid:3 1:5\n\n \t\n  # another\r\n\r\n0 qid:3 1:6\n\n",
        "\t 1\tqid:3 \t1:5  \n0 qid:3 1:6#\n",
        "1.0 qid:3 01:+5.\n.0e9 qid:3 1:0.6e1\n",
    ],
    ids=["CRLF", "mark and no final newline", "blank lines and comments", "blanks", "spellings"],
)
def test_layouts_that_mean_the_same(read, text):
    data = read(text)
    assert data.features.tolist() == [[5], [6]]
    assert data.labels.tolist() == [1, 0]
    assert data.query_ids.tolist() == [3, 3]
    assert data.doc_ids is None


@pytest.mark.parametrize("word", ["NaN", "nan", "-nan", "NULL", "null", "Null"])
def test_missing_values(read, word):
    assert np.isnan(read(f"1 qid:1 1:{word}\n").features).all()


@pytest.mark.parametrize("word", ["inf", "+Inf", "INFINITY", "infinity"])
def test_infinite_values(read, word):
    assert read(f"1 qid:1 1:{word}\n").features.tolist() == [[np.inf]]
    assert read(f"1 qid:1 1:-{word.lstrip('+')}\n").features.tolist() == [[-np.inf]]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["1", "-5", "0"], [1, -5, 0]),
        (["9223372036854775807", "-9223372036854775808"], [2**63 - 1, -(2**63)]),
        (["1", "9223372036854775808"], ["1", "9223372036854775808"]),
        (["1", "02"], ["1", "02"]),
        (["-0"], ["-0"]),
        (["1", "+1"], ["1", "+1"]),
        (["query-7", "é", "a:b"], ["query-7", "é", "a:b"]),
    ],
)
def test_query_ids_are_whole_numbers_or_text(read, tokens, expected):
    data = read("".join(f"0 qid:{token} 1:1\n" for token in tokens))
    assert data.query_ids.tolist() == expected
    assert data.query_ids.dtype == (np.int64 if isinstance(expected[0], int) else object)


def test_rows_without_a_document_id_get_an_empty_one(read):
    data = read(
        "0 qid:1 1:1\n0 qid:1 1:1 # docid = b#2 docid = c\n0 qid:1 1:1 # nodocid = x docid y\n"
    )
    assert data.doc_ids.tolist() == ["", "b#2", ""]


def midpoint_texts(rng: np.random.Generator) -> list[str]:
    """Texts of numbers halfway between two float32 neighbours, just below and just above."""
    below = rng.integers(0, 0x7F7FFFFF, 200, dtype=np.uint32)  # every size, subnormals too
    low = below.view(np.float32).astype(np.float64)
    high = (below + 1).astype(np.uint32).view(np.float32).astype(np.float64)
    middle = low / 2 + high / 2  # exact: float64 has 29 bits to spare
    around = [middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)]
    digits = [f"{value:.{n}e}" for values in around for value in values for n in (16, 25, 40)]
    return [*digits, *(f"{value:.60f}" for value in middle if 1e-9 < value < 1e9)]


def test_every_value_is_the_float32_nearest_to_its_float64(read, rng):
    texts = midpoint_texts(rng)
    texts += [repr(value) for value in rng.normal(size=300).tolist()]
    texts += [
        repr(value) for value in (rng.random(300) * 10.0 ** rng.integers(-50, 38, 300)).tolist()
    ]
    texts += [
        "1e-45",
        "7e-46",
        "7.1e-46",
        "3.4028235e38",
        "3.40282356779733e38",
        "1e-400",
        "0e999",
        "-0.0",
    ]
    texts += [
        "9" * 18 + "e-18",
        "9" * 19 + "e-19",
        "1" + "0" * 37,
        "0." + "0" * 60 + "1e60",
        "16777217",
    ]
    data = read("".join(f"0 qid:1 1:{text}\n" for text in texts))
    expected = np.array([float(text) for text in texts]).astype(np.float32)
    np.testing.assert_array_equal(data.features[:, 0].view(np.int32), expected.view(np.int32))


def test_labels_are_the_nearest_float64(read, rng):
    texts = [
        repr(value) for value in (rng.random(300) * 10.0 ** rng.integers(-320, 300, 300)).tolist()
    ]
    texts += ["0.1", "123456789012345678901234567890", "9007199254740993", "5e-324", "1e-400", "-0"]
    data = read("".join(f"{text} qid:1 1:0\n" for text in texts))
    expected = np.array([float(text) for text in texts])
    np.testing.assert_array_equal(data.labels.view(np.int64), expected.view(np.int64))


@pytest.mark.parametrize("order", ["ascending", "any"])
def test_a_file_where_every_number_is_left_to_python(read, rng, order):
    unsure = 1 + 2.0**-24  # halfway between two float32 values: never decided by the kernel
    n_rows, width = 40, 700  # 28,000 numbers, more than the room there is at first
    row = " ".join(f"{feature}:{unsure!r}" for feature in range(1, width + 1))
    data = read(f"1e-30 qid:1 {row}\n" * n_rows, order=order)
    assert data.features.shape == (n_rows, width)
    assert (data.features == np.float32(unsure)).all()
    assert (data.labels == 1e-30).all()


def test_a_row_with_more_such_numbers_than_there_is_room(read):
    row = " ".join(f"{feature}:1.000000059604644775390625" for feature in range(1, 5001))
    assert (read(f"0 qid:1 {row}\n").features == 1).all()


@pytest.mark.parametrize("n_threads", [1, 2, 8])
def test_blocks_of_any_size_give_the_same_data(read, monkeypatch, n_threads):
    text = "".join(
        f"{row % 3} qid:{row // 4} {row % 5 + 1}:{row}.25 # docid = d{row}\n\n" for row in range(30)
    )
    whole = read(text)
    for size in range(1, 90, 7):
        monkeypatch.setattr(letor_reading, "BLOCK_BYTES", size)
        assert read(text, n_threads=n_threads) == whole


def test_blocks_longer_than_the_first_guess_of_rows(read, monkeypatch):
    """Rows far shorter, and wider, than those of the first block overflow the table made ahead."""
    monkeypatch.setattr(letor_reading, "BLOCK_BYTES", 200)
    long = "0 qid:1 1:0." + "3" * 150 + "\n"
    text = long * 3 + "1 qid:2 1:4\n" * 200 + " 2 qid:3 2:5\n" * 100
    data = read(text)
    assert data.features[:3].tolist() == [[np.float32(1 / 3), 0]] * 3
    assert (data.features[3:203] == [4, 0]).all()
    assert (data.features[203:] == [0, 5]).all()
    assert data.labels.tolist() == [0] * 3 + [1] * 200 + [2] * 100


def test_separated_queries_are_grouped_with_a_warning(read):
    text = "0 qid:a 1:1\n0 qid:b 1:2\n1 qid:a 1:3\n0 qid:c 1:4\n0 qid:b 1:5\n0 qid:a 1:6\n"
    with pytest.warns(DataWarning, match=r"2 queries have rows separated .* for example query a\."):
        data = read(text)
    assert data.queries.tolist() == ["a", "b", "c"]
    assert data.features[:, 0].tolist() == [1, 2, 3, 4, 5, 6]  # the caller's order stays
    assert data.row_order.tolist() == [0, 2, 5, 1, 4, 3]


def test_the_cache_warns_again_and_refuses_what_strict_refuses(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("0 qid:7 1:1\n0 qid:8 1:2\n\n1 qid:7 1:3\n")
    for _ in range(2):
        with pytest.warns(DataWarning, match="1 query has rows separated .* for example query 7"):
            first = read_letor(path, cache=True)
    assert first.features[:, 0].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"data\.txt, line 4: query 7 comes again"):
        read_letor(path, cache=True, strict=True)


def test_options_are_part_of_the_cache(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("0 qid:7 2:1\n")
    assert read_letor(path, cache=True).features.tolist() == [[0, 1]]
    assert np.isnan(read_letor(path, cache=True, absent="missing").features[0, 0])
    assert read_letor(path, cache=True, n_features=3).features.tolist() == [[0, 1, 0]]
    assert read_letor(path, cache=True).features.tolist() == [[0, 1]]


def test_progress_ends_at_the_size_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(letor_reading, "BLOCK_BYTES", 64)
    path = tmp_path / "data.txt"
    path.write_text("0 qid:7 2:1\n" * 100)
    steps: list[tuple[int, int | None]] = []
    read_letor(path, cache=False, progress=lambda done, total: steps.append((done, total)))
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (1200, 1200)


@pytest.mark.jit_only
def test_long_lines(read):
    row = " ".join(f"{feature}:0.5" for feature in range(1, 60_001))
    data = read(f"0 qid:1 {row} # {'comment ' * 100_000}\n1 qid:1 1:2\n")
    assert data.features.shape == (2, 60_000)
    assert (data.features[0] == 0.5).all()
    assert data.features[1].sum() == 2


def test_kernels_are_compiled_once(read):
    read("1 qid:1 1:5\n")
    data = read(
        "1e-30 qid:1 2:1.000000059604644775390625 1:4 #docid=1\n", order="any", n_features=3
    )
    write_letor(data, os.devnull)
    for module in (parse, letor_reading):
        for name, value in vars(module).items():
            if hasattr(value, "signatures"):
                assert len(value.signatures) <= 1, name


@pytest.mark.jit_only
def test_mq2008(mq2008):
    path = mq2008 / "Fold1" / "train.txt.gz"
    data = read_letor(path, cache=False)
    assert (data.n_documents, data.n_queries, data.n_features) == (9630, 471, 46)
    assert data.doc_ids[0] == "GX008-86-4444840"
    import gzip

    expected = reference.parse(gzip.decompress(path.read_bytes())[:200_000].rsplit(b"\n", 1)[0])
    n_rows = len(expected.rows)
    np.testing.assert_array_equal(data.features[:n_rows], expected.features(0.0))
    assert data.query_ids[:n_rows].tolist() == expected.ids()


def test_ctrl_c_stops_a_read(tmp_path):
    """A process waits for a pipe that never ends; an interrupt ends it as KeyboardInterrupt."""
    program = (
        "import sys; from rankwood import read_letor; print('go', flush=True); read_letor('-')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline() == b"go\n"
        process.stdin.write(b"0 qid:1 1:1\n" * 1000)
        process.stdin.flush()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in errors


def test_reads_from_several_threads_at_once(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("".join(f"1 qid:{row // 9} 1:{row} 3:0.5\n" for row in range(2000)))
    found: list[float] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(float(read_letor(path, cache=False).features.sum()))
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2000 * 1999 / 2 + 1000] * 6
