"""Opening files of every kind, and what is said when that fails."""

from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import io
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pyarrow
import pytest

from rankwood import RankingData, read_letor, write_letor
from rankwood.data.sources import open_sink, open_source
from rankwood.errors import DataError, RunError

TEXT = b"".join(b"%d qid:%d 1:%d.5\n" % (row % 3, row // 5, row) for row in range(400))
COMPRESSORS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: pyarrow.compress(text, codec="zstd", asbytes=True),
}


def first_column(path: object, **options) -> list[float]:
    return read_letor(path, cache=False, **options).features[:, 0].tolist()


EXPECTED = [row + 0.5 for row in range(400)]


@pytest.fixture(params=[".gz", ".bz2", ".zst"])
def compressed(request, tmp_path: Path) -> Path:
    path = tmp_path / f"data.txt{request.param}"
    path.write_bytes(COMPRESSORS[request.param](TEXT))
    return path


def test_compressed_files(compressed):
    assert first_column(compressed) == EXPECTED


def test_compression_is_seen_from_the_content(compressed):
    plain_name = compressed.rename(compressed.with_name("data.txt"))
    assert first_column(plain_name) == EXPECTED


def test_several_compressed_parts_in_one_file(compressed):
    half = TEXT.index(b"\n", len(TEXT) // 2) + 1
    compress = COMPRESSORS[compressed.suffix]
    compressed.write_bytes(compress(TEXT[:half]) + compress(TEXT[half:]))
    assert first_column(compressed) == EXPECTED


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95, 0.999])
def test_truncated_compressed_files(compressed, share):
    whole = compressed.read_bytes()
    compressed.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(
        DataError, match=r"data\.txt\.\w+: the (gzip|bzip2|zstd) data is cut short: its end"
    ):
        read_letor(compressed, cache=False)


def test_damaged_compressed_files(compressed):
    whole = bytearray(compressed.read_bytes())
    for place in range(len(whole) // 3, len(whole) // 2, 3):
        whole[place] ^= 0x55
    compressed.write_bytes(whole)
    with pytest.raises(DataError, match=r"data\.txt\.\w+"):
        read_letor(compressed, cache=False)


@pytest.mark.filterwarnings("ignore::rankwood.errors.DataWarning")  # damage unseen may move a query
def test_every_damaged_byte_gives_data_or_our_error(compressed):
    whole = compressed.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        compressed.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(DataError):
            assert read_letor(compressed, cache=False).n_features >= 1


def test_a_suffix_that_promises_too_much(compressed):
    compressed.write_bytes(TEXT)
    with pytest.raises(
        DataError, match=r"does not begin as \w+ data do, though its name ends in \.\w+"
    ):
        read_letor(compressed, cache=False)


def test_an_empty_compressed_file(compressed):
    compressed.write_bytes(COMPRESSORS[compressed.suffix](b""))
    with pytest.raises(DataError, match="holds no documents"):
        read_letor(compressed, cache=False)
    compressed.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        read_letor(compressed, cache=False)


def test_symbolic_links(tmp_path):
    (tmp_path / "data.txt").write_bytes(TEXT)
    (tmp_path / "link").symlink_to("data.txt")
    assert first_column(tmp_path / "link") == EXPECTED
    write_letor(RankingData([[1.0]], [0], [1]), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "data.txt").read_text() == "0 qid:1 1:1\n"


def test_named_pipes(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(TEXT)))
    writer.start()
    totals: list[int | None] = []
    data = read_letor(pipe, cache=True, progress=lambda _, total: totals.append(total))
    writer.join()
    assert data.features[:, 0].tolist() == EXPECTED
    assert set(totals) == {None}


def test_writing_to_a_named_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_letor(RankingData([[1.0]], [0], [1]), pipe)
    reader.join()
    assert found == [b"0 qid:1 1:1\n"]


def test_a_named_pipe_is_compressed_by_its_name_like_a_file(tmp_path):
    pipe = tmp_path / "pipe.txt.gz"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_letor(RankingData([[1.0]], [0], [1]), pipe)
    reader.join()
    assert gzip.decompress(found[0]) == b"0 qid:1 1:1\n"


def test_a_full_disk_is_told_with_the_name_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    message = "out.txt cannot be written: No space left on device"
    with pytest.raises(RunError, match=message), open_sink(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(bz2.compress(TEXT))))
    assert first_column("-") == EXPECTED
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"x")))
    with pytest.raises(
        DataError, match="standard input, line 1, column 1: label 'x' is not a number"
    ):
        read_letor("-")


def test_a_pipe_that_gives_a_byte_at_a_time(monkeypatch):
    class Dripping(io.RawIOBase):
        def __init__(self) -> None:
            super().__init__()
            self.rest = io.BytesIO(TEXT[:500])

        def readable(self) -> bool:
            return True

        def readinto(self, buffer) -> int:
            return self.rest.readinto(memoryview(buffer)[:1])

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Dripping()))
    assert first_column("-")[:30] == EXPECTED[:30]


def test_a_missing_file_and_its_neighbour(tmp_path):
    (tmp_path / "train.txt").write_bytes(TEXT)
    with pytest.raises(
        DataError, match=r"trian\.txt does not exist\. Did you mean .*/train\.txt\?"
    ):
        read_letor(tmp_path / "trian.txt")
    with pytest.raises(DataError, match=r"zzz does not exist\.$"):
        read_letor(tmp_path / "zzz")
    with pytest.raises(DataError, match=r"does not exist\. Neither does the folder .*/nowhere\."):
        read_letor(tmp_path / "nowhere" / "train.txt")


def test_a_directory(tmp_path):
    with (
        pytest.raises(DataError, match=r"is a directory\. Pass a file in it\."),
        open_source(tmp_path),
    ):
        pass


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "data.txt"
    path.write_bytes(TEXT)

    def refuse(
        *_: object, **__: object
    ) -> None:  # the tests may run as a user who may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(DataError, match="may not be read by this user"):
        read_letor(path)


def test_a_name_no_file_can_have():
    with pytest.raises(DataError, match="cannot be opened: embedded null byte"):
        read_letor("a\0b")


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 5, 8, 13, 100])
@pytest.mark.parametrize(
    "text", [b"", b"\n", b"ab", b"ab\ncd", b"\n\nabcdefghij\nk\n", b"\xef\xbb\xbfab\n"]
)
def test_blocks_hold_whole_lines_and_together_everything(tmp_path, n_bytes, text):
    path = tmp_path / "data.txt"
    path.write_bytes(text)
    spare: list[bytearray] = []
    joined = b""
    with open_source(path) as source:
        for block, length in source.line_blocks(n_bytes, padding=4, spare=spare):
            assert block[length - 1] == ord("\n")
            assert not any(block[length : length + 4])
            joined += block[:length]
            spare.append(block)
    plain = text.removeprefix(b"\xef\xbb\xbf")
    assert joined == (plain if plain.endswith(b"\n") or not plain else plain + b"\n")
