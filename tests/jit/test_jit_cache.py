"""Compiled code on disk: never stale, where it should be, and not needed to work."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rankwood._core import jit
from rankwood._core.files import user_cache_folder

FOUNDATION = (
    "__init__.py",
    "_core/__init__.py",
    "_core/jit.py",
    "_core/llvm.py",
    "_core/threads.py",
    "_core/files.py",
    "dtypes.py",
    "errors.py",
)

CALLER = """
from rankwood._core.jit import kernel
from rankwood.helper import helper

@kernel
def caller(x):
    return helper(x) * 2.0
"""

CALLER_WITH_MORE = """
from rankwood._core.jit import kernel
from rankwood.helper import helper

def beside():
    \"\"\"A Python function in the kernel's file.\"\"\"
    return 1

@kernel
def caller(x):
    \"\"\"A docstring.\"\"\"
    return helper(x) * 2.0  # a comment
"""

HELPER = """
from rankwood._core.jit import kernel
from rankwood.constants import STEP

@kernel
def helper(x):
    return x + {constant} * STEP
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package's foundation with two kernels, one calling the other across files."""
    source = Path(jit.__file__).parents[1]
    copy = tmp_path / "site" / "rankwood"
    (copy / "_core").mkdir(parents=True)
    for name in FOUNDATION:
        (copy / name).write_bytes((source / name).read_bytes())
    (copy / "caller.py").write_text(CALLER)
    (copy / "helper.py").write_text(HELPER.format(constant=5.0))
    (copy / "constants.py").write_text("STEP = 1.0\n")
    return copy


def run(package: Path, cache: Path, code: str, **environment: str) -> str:
    """What a fresh process prints after importing the copied package."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "RANKWOOD_"))}
    outcome = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={
            **clean,
            "PYTHONPATH": str(package.parent),
            "RANKWOOD_CACHE_DIR": str(cache),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.strip()


CALL = """
    import rankwood
    from rankwood.caller import caller
    hits = lambda: sum(caller.stats.cache_hits.values())
    print(caller(5.0), hits(), sep=",")
"""


@pytest.mark.slow
def test_an_edited_helper_is_compiled_again(package, tmp_path):
    cache = tmp_path / "cache"
    assert run(package, cache, CALL) == "20.0,0"  # (5 + 5) · 2, compiled
    assert run(package, cache, CALL) == "20.0,1"  # the same, loaded from disk
    (package / "helper.py").write_text(HELPER.format(constant=500.0))
    assert (
        run(package, cache, CALL) == "1010.0,0"
    )  # (5 + 500) · 2: numba's own key would still say 20


def test_an_edited_constant_is_compiled_again(package, tmp_path):
    cache = tmp_path / "cache"
    assert run(package, cache, CALL) == "20.0,0"
    (package / "constants.py").write_text("STEP = 2.0\n")
    assert run(package, cache, CALL) == "30.0,0"  # (5 + 5 · 2) · 2


def test_editing_python_beside_a_kernel_costs_no_compilation(package, tmp_path):
    """Functions, docstrings and comments are not part of the key, nor is the line that a kernel stands in."""
    cache = tmp_path / "cache"
    assert run(package, cache, CALL) == "20.0,0"
    (package / "caller.py").write_text(CALLER_WITH_MORE)
    (package / "constants.py").write_text("STEP = 1.0\nOTHER = 3.0\n")
    assert run(package, cache, CALL) == "20.0,1"


def test_editing_a_file_without_kernels_costs_no_compilation(package, tmp_path):
    cache = tmp_path / "cache"
    run(package, cache, CALL)
    (package / "errors.py").write_text((package / "errors.py").read_text() + "\n# edited\n")
    assert run(package, cache, CALL) == "20.0,1"


OTHER = """
from rankwood._core.jit import kernel

@kernel
def other(x):
    return x * {factor}
"""

CALL_BOTH = """
    from rankwood.caller import caller
    from rankwood.other import other
    hits = lambda kernel: sum(kernel.stats.cache_hits.values())
    print(caller(5.0), other(2.0), hits(caller), hits(other), sep=",")
"""


def test_an_edit_compiles_only_the_kernels_that_it_reaches(package, tmp_path):
    cache = tmp_path / "cache"
    (package / "other.py").write_text(OTHER.format(factor=3.0))
    assert run(package, cache, CALL_BOTH) == "20.0,6.0,0,0"
    (package / "other.py").write_text(OTHER.format(factor=4.0))
    assert run(package, cache, CALL_BOTH) == "20.0,8.0,1,0"
    (package / "constants.py").write_text("STEP = 2.0\n")
    assert run(package, cache, CALL_BOTH) == "30.0,8.0,0,1"


def test_a_kernel_inside_another_has_no_code_of_its_own_and_can_raise(package, tmp_path):
    (package / "helper.py").write_text(
        "from rankwood._core.jit import kernel\n\n@kernel\ndef helper(x):\n"
        "    if x < 0.0:\n        raise ValueError('negative')\n    return x + 1.0\n"
    )
    code = """
        from rankwood.caller import caller
        from rankwood.helper import helper
        print(caller(5.0), len(helper.signatures), helper(1.0))
        try:
            caller(-1.0)
        except ValueError as error:
            print(error)
    """
    for n_signatures in (1, 0):  # compiled, then loaded with its caller
        found = run(package, tmp_path / "cache", code)
        assert found == f"12.0 {n_signatures} 2.0\nnegative"


def test_two_processes_that_start_at_once_share_the_work(package, tmp_path):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "RANKWOOD_"))}
    own = {"PYTHONPATH": str(package.parent), "RANKWOOD_CACHE_DIR": str(tmp_path / "cache")}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CALL)],
            env=clean | own,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = sorted(one.communicate()[0].strip() for one in both)
    assert answers in (["20.0,0", "20.0,1"], ["20.0,0", "20.0,0"])  # the same result in any case
    assert run(package, tmp_path / "cache", CALL) == "20.0,1"


def test_the_users_numba_cache_dir_is_respected(package, tmp_path):
    chosen = tmp_path / "chosen"
    run(package, tmp_path / "cache", CALL, NUMBA_CACHE_DIR=str(chosen))
    assert list(chosen.glob("rankwood/*/**/*.nbi"))
    assert not (tmp_path / "cache").exists()
    assert not list(package.rglob("*.nbi"))


def test_numbas_own_setting_is_left_as_found(package, tmp_path):
    code = """
        import numba
        before = numba.config.CACHE_DIR
        from rankwood.caller import caller
        print(numba.config.CACHE_DIR == before)
    """
    assert run(package, tmp_path / "cache", code) == "True"


def test_a_disk_that_cannot_be_written_means_memory_only(package, tmp_path):
    (tmp_path / "a-file").write_text("where the cache folder should be")
    assert run(package, tmp_path / "a-file", CALL) == "20.0,0"
    assert run(package, tmp_path / "a-file", CALL) == "20.0,0"
    assert not list(package.rglob("*.nbi"))  # and nothing is left beside the sources


def test_old_digests_are_pruned_and_recent_ones_kept(tmp_path):
    now = time.time()
    for age in range(8):
        folder = tmp_path / f"digest{age}"
        folder.mkdir()
        (folder / "kernel.nbi").touch()
        os.utime(folder, (now - age * 86_400 * 2, now - age * 86_400 * 2))
    jit.prune(tmp_path, keep=tmp_path / "digest7")
    assert sorted(folder.name for folder in tmp_path.iterdir()) == [
        "digest0",
        "digest1",
        "digest2",
        "digest7",
    ]


def test_a_digest_in_use_today_is_never_pruned(tmp_path):
    for number in range(8):
        (tmp_path / f"digest{number}").mkdir()
    jit.prune(tmp_path, keep=tmp_path / "digest0")
    assert len(list(tmp_path.iterdir())) == 8


def test_the_cache_folder_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKWOOD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert user_cache_folder() == tmp_path / "rankwood"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert user_cache_folder() == Path.home() / "Library" / "Caches" / "rankwood"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert user_cache_folder() == tmp_path / "local" / "rankwood"


def test_a_digest_that_vanishes_while_pruning_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    # What iterdir() saw, and another process removed before we looked at it.
    listed = [tmp_path / "kept", *(tmp_path / f"gone{number}" for number in range(6))]
    monkeypatch.setattr(Path, "is_dir", lambda _: True)
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(listed))
    jit.prune(tmp_path, keep=tmp_path / "kept")
    assert (tmp_path / "kept").exists()


def stored(cache):
    """The files of numba in a cache."""
    return sorted((cache / "kernels").rglob("*.nb[ci]"))


def test_the_cache_is_the_users_alone(package, tmp_path):
    cache = tmp_path / "cache"
    assert run(package, cache, "import os; os.umask(0)\n" + textwrap.dedent(CALL)) == "20.0,0"
    assert (cache / "kernels").stat().st_mode & 0o777 == 0o700
    (cache / "kernels").chmod(0o777)
    run(package, cache, CALL)
    assert (cache / "kernels").stat().st_mode & 0o777 == 0o700


def test_a_cache_of_another_user_is_not_read(package, tmp_path):
    cache = tmp_path / "cache"
    code = """
        import os, sys
        own = os.geteuid()
        os.geteuid = lambda: own + {more}
        sys.stderr = sys.stdout
        from rankwood.caller import caller
        from rankwood.helper import helper
        print(caller(5.0), helper(5.0), sum(caller.stats.cache_hits.values()))
    """
    assert run(package, cache, code.format(more=0)) == "20.0 10.0 0"
    before = [path.read_bytes() for path in stored(cache)]
    said = run(package, cache, code.format(more=1))
    assert said.count("belongs to another user") == 1  # for two kernels
    assert said.endswith("\n20.0 10.0 0")
    assert [path.read_bytes() for path in stored(cache)] == before
    assert run(package, cache, code.format(more=0)) == "20.0 10.0 1"


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_is_not_read(package, tmp_path, mode):
    cache = tmp_path / "cache"
    run(package, cache, CALL)
    for path in stored(cache):
        path.chmod(mode)
    assert run(package, cache, CALL) == "20.0,0"
    assert run(package, cache, CALL) == "20.0,1"  # it was written anew


@pytest.mark.parametrize(
    "damage",
    [
        "flip",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("truncate", "remove", "index", "seal", "more")
        ),
    ],
)
def test_damage_is_noticed_before_a_kernel_is_loaded(package, tmp_path, damage):
    cache = tmp_path / "cache"
    run(package, cache, CALL)
    (code,) = (path for path in stored(cache) if path.suffix == ".nbc")
    (index,) = (path for path in stored(cache) if path.suffix == ".nbi")
    (seal,) = (cache / "kernels").rglob("seal.json")
    content = bytearray(code.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 4
        code.write_bytes(content)
    elif damage == "truncate":
        code.write_bytes(content[: len(content) // 2])
    elif damage == "remove":
        code.unlink()
    elif damage == "index":
        index.write_bytes(b"")
    elif damage == "seal":
        seal.write_text("[")
    else:
        code.with_name("more.1.nbc").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert run(package, cache, CALL) == "20.0,0"
    assert run(package, cache, CALL) == "20.0,1"
    assert len(stored(cache)) == 2


@pytest.mark.parametrize(
    "trouble",
    [
        "shutil.rmtree(jit.cache_folder())",  # before anything is compiled
        "numba.core.caching.CompileResultCacheImpl.reduce = lambda *_: shutil.rmtree(jit.cache_folder())",
        "numba.core.caching.IndexDataCacheFile.save = full",
    ],
)
@pytest.mark.slow
def test_a_folder_that_vanishes_and_a_full_disk_mean_memory_only(package, tmp_path, trouble):
    code = f"""
        import errno, numba, numba.core.caching, os, shutil
        from rankwood._core import jit
        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        from rankwood.caller import caller
        caller._folder
        {trouble}
        print(caller(5.0), caller(x=5.0))
    """
    assert run(package, tmp_path / "cache", code) == "20.0 20.0"
    assert run(package, tmp_path / "cache", CALL) == "20.0,0"


@pytest.mark.slow
def test_further_types_stay_in_memory_and_leave_the_seal_whole(package, tmp_path):
    cache = tmp_path / "cache"
    run(package, cache, CALL)
    code = "from rankwood.caller import caller; print(caller(5.0), caller(5))"
    assert run(package, cache, code) == "20.0 20.0"
    assert run(package, cache, CALL) == "20.0,1"


def test_a_fork_waits_for_the_kernel_that_another_thread_compiles(package, tmp_path):
    code = """
        import os, threading, time
        from numba.core.compiler_lock import global_compiler_lock
        from rankwood.caller import caller
        held, steps = threading.Event(), []
        def hold():
            with global_compiler_lock:
                held.set()
                time.sleep(0.3)
                steps.append("compiled")
        threading.Thread(target=hold).start()
        held.wait()
        child = os.fork()
        if child == 0:
            os._exit(0 if steps and caller(5.0) == 20.0 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(package, tmp_path / "cache", code) == "0"
