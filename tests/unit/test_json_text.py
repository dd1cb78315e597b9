"""Features in JSON text: the kernels read what the standard library reads, and take nothing that it refuses."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwood.models.json_text import (
    LEFT_OUT,
    NOTHING,
    UNKNOWN_FEATURE,
    WRONG_LENGTH,
    JsonText,
    NamedColumns,
)
from tests.reference import json_text as reference

NAMES = ["price", "bm25", "größe", "a b", "clicks"]
NUMBERS = [
    "0", "-0", "-0.0", "1", "12.5", "0.1", "-3.25e-7", "1E5", "1e+2", "123456789012345678", "0.30000001192092896",
    "1e-46", "1.401298464324817e-45", "3.4e38", "16777217", "0.50000002980232239", "null", "9007199254740993.0",
    "-1.17549435e-38", "2.2250738585072014e-308", "0.000000000000000000001",
]  # fmt: skip
SPACES = ["", " ", "\n", "\t \r\n"]


def request_of(documents: list[str]) -> str:
    return (
        '{"documents": ['
        + ", ".join(f'{{"id": 1, "features": {each}}}' for each in documents)
        + "]}"
    )


def matrix_of(body: str, default: float = 0.0) -> np.ndarray | None:
    """The matrix of a request by the kernels; None where they leave a document to others."""
    text = JsonText.of(body.encode())
    documents = json.loads(text.skeleton)["documents"]
    numbers = [each["features"] if type(each["features"]) is int else -1 for each in documents]
    matrix = np.full((len(documents), len(NAMES)), default, np.float32)
    problem = text.fill(np.array(numbers, np.int64), NamedColumns.of(NAMES), False, matrix)
    assert problem[0] == NOTHING
    return None if -1 in numbers else matrix


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """To the bit, but for the sign of -0, which the standard library takes for a whole number."""
    assert (found + np.float32(0)).tobytes() == (expected + np.float32(0)).tobytes()


values = st.one_of(
    st.sampled_from(NUMBERS),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(
        lambda value: repr(float(value))
    ),
    st.floats(min_value=-1e6, max_value=1e6).map(repr),
    st.integers(-(10**19), 10**19).map(str),
)
rows = st.one_of(
    st.lists(values, min_size=len(NAMES), max_size=len(NAMES)).map(
        lambda row: f"[{', '.join(row)}]"
    ),
    st.dictionaries(st.sampled_from(NAMES), values).map(
        lambda row: "{" + ",".join(f'"{name}" : {value}' for name, value in row.items()) + "}"
    ),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(rows, max_size=6), st.sampled_from([0.0, float("nan")]))
def test_values_are_those_of_the_standard_library(documents, default):
    body = request_of(documents)
    found = matrix_of(body, default)
    if found is not None:
        assert_same(found, reference.matrix_of(body, NAMES, default))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("space", SPACES)
def test_each_number_alone(number, space):
    body = request_of([f"[{space}{number}{space},{space}" + f"1{space},{space}" * 3 + f"2{space}]"])
    found = matrix_of(body)
    is_rare = number in ("0.50000002980232239", "2.2250738585072014e-308", "1e-46")
    assert (found is None) <= is_rare, "a common number was left to the slow path"
    if found is not None:
        assert_same(found, reference.matrix_of(body, NAMES, 0.0))


NOT_NUMBERS = [
    "01", "-01", "+1", "1.", ".5", "-", "--1", "1e", "1e+", "1.e5", "0x10", "1_000", "nan", "NaN", "inf", "-inf",
    "Infinity", "true", '"1"', "[1]", "{}", "nul", "nulll", "1 2", "1e999", "3.5e38", "1,", ",", "",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_NUMBERS)
def test_what_is_no_number_stays_in_the_skeleton(text):
    for features in (f"[{text}, 1, 2, 3, 4]", f'{{"price": {text}, "bm25": 1}}'):
        body = request_of([features])
        taken = JsonText.of(body.encode())
        assert len(taken.rows) == 0
        assert taken.skeleton.decode() == body


def test_the_skeleton_is_json_just_where_the_text_is():
    """Whatever bytes are changed: no text becomes JSON by what is taken out of it."""
    generator = random.Random(1)
    documents = ["[1, 2.5, null, -3e2, 4]", '{"price": 1, "größe": 2}', "[]", "{}", '["x"]']
    whole = request_of(documents).encode()
    signs = b'{}[]",:\\ 0123456789.eE+-nulltrfasdi\x00\xff\n'
    refused = 0
    for _ in range(3000):
        changed = bytearray(whole)
        for _ in range(generator.randint(1, 3)):
            place = generator.randrange(len(changed))
            if generator.random() < 0.3:
                del changed[place]
            else:
                changed[place] = generator.choice(signs)
        text = JsonText.of(bytes(changed))
        assert is_json(text.skeleton) == is_json(bytes(changed)), bytes(changed)
        refused += not is_json(bytes(changed))
    assert 500 < refused < 2990


def is_json(text: bytes) -> bool:
    try:
        json.loads(text.decode("latin-1"))  # names that are no UTF-8 are none of a model's
    except ValueError:
        return False
    return True


def test_documents_are_counted_before_anything_is_made_of_them():
    for body, n_documents in (
        (b'{"documents": []}', 0),
        (b'{"documents": [ ]}', 0),
        (b'{"documents": [{}]}', 1),
        (b'{"documents": [' + b"{}," * 999 + b"{}]}", 1000),
        (b'{"queries": [{"documents": [1, 2]}, {"documents": [[1, 2], 3, 4]}]}', 5),
        (b'{"other": [{}, {}]}', 0),
        (b"[{}, {}]", 0),
    ):
        assert JsonText.of(body).n_documents == n_documents, body
    million = JsonText.of(b"[" + b"{}," * 10**5 + b"{}]")
    assert million.n_tokens > 2 * 10**5
    assert JsonText.of(b"[" * 100).is_too_deep
    assert not JsonText.of(b"[" * 60 + b"]" * 60).is_too_deep


def test_rows_are_numbered_in_the_order_of_the_text():
    queries = [request_of(["[1]", "[2, 3]"]), request_of(['{"price": 4}'])]
    body = f'{{"model": "m", "queries": [{", ".join(queries)}], "top_k": 2}}'
    text = JsonText.of(body.encode())
    request = json.loads(text.skeleton)
    numbers = [each["features"] for query in request["queries"] for each in query["documents"]]
    assert numbers == [0, 1, 2]
    assert request["top_k"] == 2
    assert text.rows.tolist() == [[0, 1, 0], [1, 2, 0], [3, 1, 1]]
    assert text.values[:4].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_more_rows_than_their_numbers_have_room_for():
    n_rows = 12_000
    body = '{"documents": [' + ",".join(['{"features":[]}'] * n_rows) + "]}"
    text = JsonText.of(body.encode())
    numbers = [document["features"] for document in json.loads(text.skeleton)["documents"]]
    assert numbers == list(range(n_rows))
    assert len(text.skeleton) > len(body)


def test_features_are_those_of_documents_only():
    body = b'{"features": [1], "documents": [{"id": {"features": [2]}, "features": [3]}], "x": {"features": [4]}}'
    text = JsonText.of(body)
    assert text.values[: len(text.rows)].tolist() == [3.0]


def test_what_is_wrong_with_a_row():
    def problem_of(features: str, names_all: bool = False):
        text = JsonText.of(request_of(["[1, 2, 3, 4, 5]", features]).encode())
        matrix = np.zeros((2, len(NAMES)), np.float32)
        found = text.fill(np.arange(2), NamedColumns.of(NAMES), names_all, matrix)
        return (*found, text)

    code, document, detail, _ = problem_of("[1, 2, 3]")
    assert (code, document, detail) == (WRONG_LENGTH, 1, 3)
    code, document, detail, text = problem_of('{"bm25": 1, "cliks": 2}')
    assert (code, document, text.name_at(detail)) == (UNKNOWN_FEATURE, 1, "cliks")
    code, document, detail, _ = problem_of('{"price": 1, "clicks": 2}', names_all=True)
    assert (code, document, NAMES[detail]) == (LEFT_OUT, 1, "bm25")
    assert problem_of('{"price": 1, "price": 2}')[0] == NOTHING  # the last one counts, as in JSON


def test_names_are_found_among_many():
    names = [f"feature_{number}" for number in range(5000)]
    columns = NamedColumns.of(names)
    chosen = random.Random(2).sample(range(5000), 200)
    row = ",".join(f'"{names[column]}": {column}' for column in chosen)
    text = JsonText.of(f'{{"documents": [{{"features": {{{row}}}}}]}}'.encode())
    matrix = np.full((1, 5000), -1.0, np.float32)
    assert text.fill(np.zeros(1, np.int64), columns, False, matrix)[0] == NOTHING
    assert np.flatnonzero(matrix[0] >= 0).tolist() == sorted(chosen)
    assert matrix[0, chosen].tolist() == chosen


def test_texts_that_may_ask_for_explanations_are_told_apart():
    for body, expected in (
        (b'{"documents": [], "explain": 3}', True),
        (b'{"expl\\u0061in": 3}', True),
        (b'{"documents": [{"id": "explain", "explain": 3}]}', False),
        (b'{"model": "explain"}', False),
        (b"", False),
    ):
        assert JsonText.of(body).may_explain == expected, body
