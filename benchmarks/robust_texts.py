"""Attacks by text and tables: lines with characters changed, read by us and by a slow parser.

The slow parsers read line by line as the documentation says, with nothing but Python. A line that both read must give
the same data; one that one of them refuses must be refused by both, by us with an error that says where it is.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np

import rankwood as rw
from benchmarks.attacking import CONSISTENT, Attack, row
from benchmarks.robust_files import small_data
from rankwood._core import threads
from rankwood.data.scores import read_qrels, read_run
from rankwood.errors import RankwoodError

_PLACED = re.compile(
    r"line \d+|row \d+|header|no rows|no lines|no features|no documents|there is no|column|UTF-|BOM"
)


def with_characters_changed(rng: np.random.Generator, text: bytes, alphabet: bytes) -> bytes:
    """One to three characters replaced by others that mean something to a parser."""
    changed = bytearray(text)
    for place in rng.integers(0, len(text) - 1, int(rng.integers(1, 4))).tolist():
        changed[place] = alphabet[int(rng.integers(len(alphabet)))]
    return bytes(changed)


def compared(ours: Callable[[], Any], theirs: Callable[[], Any], wrong: type[Exception]) -> str:
    """What the library and the slow parser make of the same text; both give plain values, NaN as text."""
    one = two = None
    try:
        one = ours()
    except RankwoodError as error:
        if not _PLACED.search(str(error)):
            return "an error without a place"
    with contextlib.suppress(wrong):
        two = theirs()
    if one is None or two is None:
        return "error" if one is two else "one of the two refuses it"
    return "same" if one == two else "other data"


@row("mutated LETOR lines against a slow parser")
def lines(attack: Attack) -> None:
    """Two lines a file."""
    from tests.reference import letor

    path = attack.folder / "lines.txt"
    whole = b"2 qid:7 1:0.5 2:-3.25 4:1e3 # doc\n1 qid:7 1:1 2:2 3:3 4:4\n"

    def attempt(seed: int) -> str:
        rng = np.random.default_rng(seed)
        text = with_characters_changed(rng, whole, b"0123456789:.-+ eEqid#\tnaxf")
        path.write_bytes(text)
        width = 4

        def ours() -> Any:
            nonlocal width
            data = rw.read_letor(path, cache=False)
            width = data.n_features
            features = data.features.astype(str).tolist()
            return data.labels.tolist(), features, data.query_ids.tolist()

        def theirs() -> Any:
            table = letor.parse(text)
            features = table.features(0.0, width).astype(str).tolist()
            return table.labels, features, list(table.ids())

        return compared(ours, theirs, letor.Wrong)

    with in_this_thread():
        attack.here("files of two lines", attack.counts["lines"], attempt, per_try=2)


@contextlib.contextmanager
def in_this_thread() -> Iterator[None]:
    """Blocks are parsed at once: to hand two lines to another thread takes ten times as long as to parse them."""
    before = threads.submit

    def submit(_: int, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments))
        except Exception as error:  # whatever it is, it goes to the one who waits for it
            future.set_exception(error)
        return future

    threads.submit = submit  # type: ignore[assignment]
    try:
        yield
    finally:
        threads.submit = before


class Wrong(Exception):
    """A line that the slow parser of a table or a run refuses."""


_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _trec(text: bytes, n_fields: int, number: int) -> Any:
    found: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        fields = line.split()
        if not fields:
            continue
        if len(fields) != n_fields or not _NUMBER.fullmatch(fields[number]):
            raise Wrong(line)
        value = float(fields[number])
        key = fields[0].decode(), fields[2].decode()
        if not np.isfinite(value) or key in found:
            raise Wrong(line)
        found[key] = repr(value)
    if not found:
        raise Wrong(text)
    return found


@row("mutated lines of TREC runs and judgments against a slow parser")
def trec(attack: Attack) -> None:
    """Two lines a file, which are read fast where they are well-formed, and line by line where they are not."""
    path = attack.folder / "lines.run"
    kinds: dict[str, tuple[bytes, int, int, Any]] = {
        "runs": (b"q7 Q0 d1 1 12.5 tag\nq7 Q0 d23 2 -3e1 tag\n", 6, 4, read_run),
        "judgments": (b"q7 0 d1 2\nq7 0 d23 0\n", 4, 3, read_qrels),
    }
    for name, (whole, n_fields, number, read) in kinds.items():

        def attempt(
            seed: int,
            whole: bytes = whole,
            n: int = n_fields,
            number: int = number,
            read: Any = read,
        ) -> str:
            rng = np.random.default_rng(seed)
            text = with_characters_changed(rng, whole, b"0123456789.-+ eEqd\tnaxf_\"'\r\n\x0b#,")
            path.write_bytes(text)

            def ours() -> Any:
                got = read(path)
                values = got.scores if n == 6 else got.labels
                ids = zip(got.query_ids.tolist(), got.doc_ids.tolist(), strict=True)
                return dict(zip(ids, map(repr, values.astype(float).tolist()), strict=True))

            return compared(ours, lambda: _trec(text, n, number), Wrong)

        attack.here(name, attack.counts["lines"] // 2, attempt, per_try=2)


_MISSING = set(b",nan,NaN,NAN,-nan,-NaN,NA,N/A,<NA>,null,NULL,None".split(b","))
_CSV_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INFINITE = re.compile(rb"-?inf(inity)?", re.IGNORECASE)


def _csv_value(text: bytes) -> float:
    if text in _MISSING:
        return float("nan")
    text = text.strip(b" \t")
    if _INFINITE.fullmatch(text) or _CSV_NUMBER.fullmatch(text):
        return float(text)
    if text.lower() == b"nan":
        return float("nan")
    raise Wrong(text)


def _csv(text: bytes) -> Any:
    header, *rest = text.split(b"\n")
    names = header.split(b",")
    rows = [line.split(b",") for line in rest if line]
    if not rows or any(len(row) != len(names) for row in rows):
        raise Wrong(text)
    labels = [_csv_value(row[1]) for row in rows]
    features = [[_csv_value(text) for text in row[2:]] for row in rows]
    with np.errstate(over="ignore"):
        narrow = np.array(features, np.float32)
    if not all(0 <= label < np.inf for label in labels):
        raise Wrong(text)
    if (np.isinf(narrow) & np.isfinite(np.array(features))).any() or not all(r[0] for r in rows):
        raise Wrong(text)
    return labels, narrow.astype(str).tolist(), [row[0].decode() for row in rows]


@row("mutated lines of CSV against a slow parser")
def csv(attack: Attack) -> None:
    """Two lines below a header; the ids of queries are compared as text."""
    path = attack.folder / "lines.csv"
    head, whole = b"qid,label,a,b,c\n", b"q7,2,0.5,-3.25,1e3\nq7,1,1,2,NA\n"

    def attempt(seed: int) -> str:
        rng = np.random.default_rng(seed)
        text = head + with_characters_changed(rng, whole, b"0123456789.-+ eE,q\tnaxfNA")
        path.write_bytes(text)

        def ours() -> Any:
            data = rw.read_table(path)
            features = data.features.astype(str).tolist()
            return data.labels.tolist(), features, [str(one) for one in data.query_ids.tolist()]

        return compared(ours, lambda: _csv(text), Wrong)

    attack.here("files of two lines", attack.counts["lines"], attempt, per_try=2)


@row("flipped bits of Parquet and Arrow")
def parquet(attack: Attack) -> None:
    """The same data or an error; another name of a feature in Parquet, and any value in Arrow, have no checksum."""
    data, _ = small_data()
    for form in ("parquet", "arrow"):
        path = attack.folder / f"d.{form}"
        rw.write_table(data, path)
        whole = path.read_bytes()

        def attempt(seed: int, whole: bytes = whole, path: Path = path) -> str:
            rng = np.random.default_rng(seed)
            content = bytearray(whole)
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
            path.write_bytes(content)
            found = rw.read_table(path)
            if found == data:
                return "same"
            if path.suffix == ".arrow" or _differ_in_names_alone(found, data):
                return CONSISTENT
            return "other data"

        attack.in_children(form, attack.counts["files"], attempt)


def _differ_in_names_alone(one: Any, other: Any) -> bool:
    """Parquet has checksums of its pages, not of its list of columns."""
    return (
        np.array_equal(one.features, other.features, equal_nan=True)
        and np.array_equal(one.labels, other.labels)
        and np.array_equal(one.query_ids, other.query_ids)
    )
