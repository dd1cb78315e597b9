"""Errors, random streams and files of our own."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from rankwood import errors
from rankwood._core.files import (
    atomic_path,
    explained_writing,
    is_private,
    make_private,
    user_cache_folder,
)
from rankwood._core.random import stream


def test_an_unknown_name_comes_with_the_nearest_known_one():
    error = errors.UnknownName("loss", "lambdrank", ["squared", "lambdarank"])
    assert (
        str(error)
        == "loss 'lambdrank' is not known. Did you mean 'lambdarank'? Known: lambdarank, squared."
    )
    assert "Did you mean" not in str(errors.UnknownName("loss", "xyz", ["squared"]))


def test_a_missing_extra_names_the_command_that_installs_it():
    error = errors.MissingExtra("optuna", "tune", "Tuning")
    assert (
        str(error)
        == "Tuning needs the package 'optuna'. Install it with: pip install 'rankwood[tune]'"
    )
    assert isinstance(error, ImportError)


def test_input_errors_are_value_errors_and_all_are_ours():
    for kind in (errors.DataError, errors.ParameterError, errors.UnknownName):
        assert issubclass(kind, ValueError)
        assert issubclass(kind, errors.RankwoodError)
    assert not issubclass(errors.RunError, ValueError)


def test_streams_depend_on_seed_purpose_and_iteration_only():
    def draw(*key):
        return stream(*key).integers(0, 1 << 60, 4)

    first = draw(1, "bootstrap", 0)
    stream(1, "other").random(1000)
    np.testing.assert_array_equal(draw(1, "bootstrap", 0), first)
    for other in [(2, "bootstrap", 0), (1, "features", 0), (1, "bootstrap", 1)]:
        assert (draw(*other) != first).any()


def test_a_stream_gives_these_numbers_in_every_version():
    # Recorded once: a change here would change every seeded result that was ever published.
    assert stream(0, "golden", 3).integers(0, 1000, 5).tolist() == GOLDEN_DRAWS


GOLDEN_DRAWS = [566, 294, 833, 255, 882]


def test_an_atomic_write_replaces_the_file_at_the_end(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error, match="stop"), atomic_path(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise error("stop")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_of_many_writers_to_one_path_the_last_one_wins_whole(tmp_path):
    path = tmp_path / "out.bin"
    errors_found: list[BaseException] = []

    def write(number):
        try:
            for _ in range(50):
                with atomic_path(path) as temporary, temporary.open("wb") as file:
                    for _ in range(8):
                        file.write(bytes([number]) * 4096)
                content = path.read_bytes()
                assert len(content) == 8 * 4096
                assert len(set(content)) == 1
        except BaseException as error:
            errors_found.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors_found == []
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_behind_goes_with_the_next_write(tmp_path):
    path = tmp_path / "out.txt"
    code = (
        "import os, sys; from rankwood._core.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half'); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    others = [tmp_path / f".other.{left.name.split('.')[-2]}.part", tmp_path / ".out.txt.7.part"]
    for other in others:
        other.touch()
    with atomic_path(path) as living, atomic_path(path) as second:
        assert not left.exists()
        assert living.exists()  # its writer is alive
        second.write_text("second")
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_a_durable_write_is_on_the_disk_before_the_rename(tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    synced = []
    real = os.fsync

    def fsync(descriptor):
        where = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append((where == str(tmp_path), path.exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_path(path, durable=True) as temporary:
        temporary.write_text("new")
    assert synced == [(False, False), (True, True)]  # the file before the rename, the folder after


def test_a_long_name_can_be_written(tmp_path):
    path = tmp_path / ("x" * 255)
    with atomic_path(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_made_with_the_usual_permissions(tmp_path):
    path = tmp_path / "out.txt"
    before = os.umask(0o027)
    try:
        with atomic_path(path) as temporary:
            temporary.write_text("new")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_atomic_write_follows_a_link(tmp_path):
    target = tmp_path / "target.txt"
    target.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")  # what pathlib says

    for name in ("RANKWOOD_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(OSError, match="null"):
        make_private(user_cache_folder())


def test_a_private_folder_is_its_users_alone(tmp_path, monkeypatch):
    folder = tmp_path / "new" / "folder"
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_private(tmp_path / "file")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        make_private(folder)


def test_a_private_file_is_plain_and_written_by_its_user_alone(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch(mode=0o644)
    assert is_private(file)
    (tmp_path / "link").symlink_to(file)
    assert not is_private(tmp_path / "link")
    for mode in (0o664, 0o646):
        file.chmod(mode)
        assert not is_private(file)
    file.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert not is_private(file)


def test_a_named_pipe_is_written_in_place_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()), daemon=True)
    reader.start()
    with atomic_path(pipe) as place:
        assert place == pipe
        place.write_text("new")
    reader.join(timeout=10)
    assert found == ["new"]
    assert pipe.is_fifo()


def test_a_device_is_never_replaced():
    # Nothing is written: with the path itself there is nothing to be moved into its place.
    with atomic_path(os.devnull) as place:
        assert place == Path(os.devnull)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (errno.ENOENT, errors.DataError, "No such file or directory. Choose another place"),
        (errno.EACCES, errors.DataError, "Permission denied. Choose another place"),
        (errno.ENOTDIR, errors.DataError, "Not a directory. Choose another place"),
        (errno.EROFS, errors.DataError, "Read-only file system. Choose another place"),
        (errno.ENAMETOOLONG, errors.DataError, "File name too long. Choose another place"),
        (errno.ENOSPC, errors.RunError, "No space left on device"),
        (errno.EPIPE, BrokenPipeError, "Broken pipe"),
    ],
)
def test_what_the_system_refuses_names_the_file(error, kind, message):
    with pytest.raises(kind, match=message) as caught, explained_writing("out.txt"):
        raise OSError(error, os.strerror(error))
    assert kind is BrokenPipeError or str(caught.value).startswith("out.txt cannot be written: ")


def test_a_name_that_ends_as_a_folder_is_refused(tmp_path):
    with (
        pytest.raises(errors.DataError, match="Is a directory"),
        explained_writing("x"),
        atomic_path(f"{tmp_path}/new/"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
