"""The message a user sees for every kind of text the LETOR reader cannot use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rankwood import read_letor
from rankwood.data.letor import text as letor_reading
from rankwood.errors import DataError, ParameterError

GOOD = "1 qid:1 1:0.5 2:0.25\n"


def message(path: Path, text: str | bytes, **options) -> str:
    """The error for a text, without the file's name."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError, match=re.escape(str(path))) as caught:
        read_letor(path, cache=False, **options)
    return str(caught.value).removeprefix(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.txt"


CASES = {
    "1 qid:1 7:1 4:2": (
        ", line 3, column 13: feature id 4 comes after 7. "
        "Ids in a row must ascend; sort them, or pass order='any' (--any-order)."
    ),
    "1 qid:1 4:1 4:2": (
        ", line 3, column 13: feature id 4 appears twice in the row. Each may appear once."
    ),
    "1 qid:1 0:1": (
        ", line 3, column 9: feature id 0 is not allowed. Ids begin with 1; add 1 to all of them."
    ),
    "qid:1 1:1": (
        ", line 3, column 1: the label is missing: the line begins with 'qid:1'. "
        "Expected: label qid:ID id:value …"
    ),
    "good qid:1 1:1": ", line 3, column 1: label 'good' is not a number.",
    " -1 qid:1 1:1": (
        ", line 3, column 2: label '-1' is negative. Labels are grades of relevance: 0 or more."
    ),
    "nan qid:1 1:1": ", line 3, column 1: label 'nan' is not a finite number of at least 0.",
    "inf qid:1 1:1": ", line 3, column 1: label 'inf' is not a finite number of at least 0.",
    "1e999 qid:1 1:1": ", line 3, column 1: label '1e999' is not a finite number of at least 0.",
    "-1e-99 qid:1 1:1": (
        ", line 3, column 1: label '-1e-99' is negative. Labels are grades of relevance: 0 or more."
    ),
    "1 1:0.5": (
        ", line 3, column 3: the query id is missing: '1:0.5' stands where qid:ID is expected."
    ),
    "1": (
        ", line 3, column 2: the query id is missing: the line ends after the label. "
        "Expected: label qid:ID id:value …"
    ),
    "1 qid: 1:1": (
        ", line 3, column 3: the query id is empty. Write it right after the colon, as in qid:7."
    ),
    "1 qid:1 1:x": (
        ", line 3, column 11: value 'x' is not a number. Expected a number, NaN or NULL."
    ),
    "1 qid:1 1:": ", line 3, column 11: the value is missing. Expected a number, NaN or NULL.",
    "1 qid:1 1:1.2.3": (
        ", line 3, column 11: value '1.2.3' is not a number. Expected a number, NaN or NULL."
    ),
    "1 qid:é 1:1e": (
        ", line 3, column 11: value '1e' is not a number. Expected a number, NaN or NULL."
    ),
    "1 qid:1 1:1\r1 qid:1 1:1": (
        ", line 3, column 11: value '1\\r1' is not a number. Expected a number, NaN or NULL. "
        "The file seems to end its lines with CR alone; convert them to LF."
    ),
    "1 qid:1 1:1e39": (
        ", line 3, column 11: value '1e39' is beyond float32's range of ±3.4e38. "
        'Rescale the feature, or read such values as missing: overflow="missing" (--overflow-missing).'
    ),
    "1 qid:1 1:-3.4028236e38": (
        ", line 3, column 11: value '-3.4028236e38' is beyond float32's range of ±3.4e38. "
        'Rescale the feature, or read such values as missing: overflow="missing" (--overflow-missing).'
    ),
    "1 qid:1 title": (
        ", line 3, column 9: 'title' is not a feature. Expected id:value, as in 7:0.25."
    ),
    "1 qid:1 -1:4": ", line 3, column 9: '-1:4' is not a feature. Expected id:value, as in 7:0.25.",
    "1 qid:1 100001:4": (
        ", line 3, column 9: feature id 100001 is above 100000. Is it a feature id? "
        "If so, pass max_features= with the largest id."
    ),
    f"1 qid:1 {2**31}:4": (
        ", line 3, column 9: feature id 2147483648 is above 100000. Is it a feature id? "
        "If so, pass max_features= with the largest id."
    ),
    f"1 qid:1 {2**70}:4": (
        ", line 3, column 9: feature id 1180591620717411303424 is above 100000. "
        "Is it a feature id? "
        "If so, pass max_features= with the largest id."
    ),
    f"1 qid:1 1:{'x' * 1000}": (
        f", line 3, column 11: value '{'x' * 39}…' is not a number. Expected a number, NaN or NULL."
    ),
    "1 qid:a\rb 1:1": (
        ", line 3, column 7: query id 'a\\rb' holds a carriage return. End lines with LF or CR LF."
    ),
}


@pytest.mark.parametrize(("line", "expected"), CASES.items())
def test_what_is_wrong_and_where(path, line, expected):
    assert message(path, f"{GOOD}# a comment\n{line}\n{GOOD}") == expected


def test_ids_that_are_not_utf8(path):
    text = GOOD.encode() + b"1 qid:caf\xe9 1:1 # docid = caf\xe9\n"
    assert message(path, text) == (
        ", line 2, column 7: query id 'caf\\xe9' is not UTF-8 text. Convert the file to UTF-8."
    )
    text = GOOD.encode() + b"1 qid:cafe 1:1 # \xe9 docid = caf\xe9\n"
    assert message(path, text) == (
        ", line 2, column 28: document id 'caf\\xe9' is not UTF-8 text. Convert the file to UTF-8."
    )


def test_more_features_than_declared(path):
    assert message(path, f"{GOOD}1 qid:1 3:1\n", n_features=2) == (
        ", line 2, column 9: feature id 3 is more than the 2 features declared by n_features."
    )


def test_max_features_is_for_large_ids(path):
    path.write_text("1 qid:1 100001:4\n")
    assert read_letor(path, cache=False, max_features=200_000).n_features == 100_001
    assert read_letor(path, cache=False, n_features=100_001).n_features == 100_001


def test_duplicates_in_any_order(path):
    assert message(path, "1 qid:1 4:1 2:1 4:2\n", order="any") == (
        ", line 1, column 17: feature id 4 appears twice in the row. Each may appear once."
    )


def test_separated_queries_when_strict(path):
    text = "0 qid:a 1:1\n# note\n0 qid:b 1:2\n1 qid:a 1:3\n"
    assert message(path, text, strict=True) == (
        ", line 4: query a comes again after rows of another query. "
        "Put the rows of a query together, or read without strict."
    )


def test_no_documents(path):
    assert message(path, "") == " is empty. Expected lines as: label qid:ID id:value …"
    assert message(path, "\n# nothing\n") == (
        " holds no documents, only blanks and comments. Expected lines as: label qid:ID id:value …"
    )
    assert message(path, "1 qid:1\n") == (
        " holds no features. Expected lines as: label qid:ID id:value …"
    )


def test_a_binary_file(path):
    assert message(path, GOOD.encode() + b"1 qid:1 1:1 # \0\n") == (
        ", line 2, column 15: a NUL byte: this is a binary file. "
        "Text is expected, one document per line. A table is told by the ending of its name, and read_table reads it."
    )
    assert "binary file" in message(path, bytes(range(256)) * 10)


def test_utf16(path):
    assert message(path, GOOD.encode("utf-16")) == (
        " is UTF-16 text; UTF-8 or ASCII is expected. "
        "Convert it, for example with: iconv -f UTF-16 -t UTF-8."
    )


def test_a_device_without_lines_does_not_fill_the_memory():
    with pytest.raises(
        DataError, match="/dev/zero, line 1, column 1: a NUL byte: this is a binary file"
    ):
        read_letor("/dev/zero")


def test_a_line_that_never_ends(path, monkeypatch):
    monkeypatch.setattr("rankwood.data.sources.LONGEST_LINE", 1 << 20)
    assert message(path, b"7" * (5 << 20)) == (
        " has a line of more than 1 MiB. Is it text, one document per line?"
    )


@pytest.mark.jit_only
def test_a_long_line_of_digits(path):
    assert "feature id 999" in message(path, b"1 qid:1 " + b"9" * (10 << 20) + b":1")
    path.write_bytes(b"1 qid:1 1:0." + b"3" * (10 << 20))
    assert read_letor(path, cache=False).features[0, 0] == pytest.approx(1 / 3)


@pytest.mark.jit_only
def test_a_table_that_does_not_fit_is_refused_before_it_is_made(path):
    # A million rows of 100,000 features are 373 GiB; the text has 16 MB.
    path.write_bytes(b"0 qid:1 100000:1\n" * 1_000_000)
    with pytest.raises(
        DataError, match=r"does not fit into memory: [\d,]+ rows or more × 100,000 features need"
    ):
        read_letor(path, cache=False)


def test_the_limit_counts_all_blocks(path, monkeypatch):
    monkeypatch.setattr(letor_reading, "memory_of_machine", lambda: 100_000)
    monkeypatch.setattr(letor_reading, "BLOCK_BYTES", 1000)
    path.write_bytes(b"0 qid:1 10:1\n" * 2400)  # 2,400 rows × 10 × 4 bytes = 96,000
    assert read_letor(path, cache=False).n_documents == 2400
    path.write_bytes(b"0 qid:1 10:1\n" * 2400 + b"0 qid:1 11:1\n")
    with pytest.raises(DataError, match="does not fit into memory"):
        read_letor(path, cache=False)


@pytest.mark.parametrize("n_threads", [1, 2, 8])
def test_the_first_error_of_the_file_is_told(path, monkeypatch, n_threads):
    monkeypatch.setattr(letor_reading, "BLOCK_BYTES", 100)
    lines = [GOOD] * 400
    for row, wrong in ((150, "1 qid:1 1:x\n"), (151, "x\n"), (152, "\0"), (300, "1 qid:1 0:1\n")):
        lines[row] = wrong
    assert message(path, "".join(lines), n_threads=n_threads).startswith(
        ", line 151, column 11: value 'x'"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"absent": "none"}, "absent 'none' is not known"),
        ({"order": "descending"}, "order 'descending' is not known"),
        ({"n_features": 0}, "n_features must be a whole number of at least 1, got 0"),
        ({"max_features": 1.5}, "max_features must be a whole number of at least 1, got 1.5"),
        ({"n_threads": 0}, "n_threads must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_arguments(path, options, expected):
    path.write_text(GOOD)
    with pytest.raises(ParameterError, match=re.escape(expected)):
        read_letor(path, cache=False, **options)
