"""``rankwood warm-up`` and ``rankwood versions``: compile the kernels now; what a bug report needs."""

from __future__ import annotations

import time
from typing import Annotated

from rankwood.cli import printing
from rankwood.cli.options import Json, switch


def warm_up_command(
    quiet: Annotated[bool, switch("--quiet", "Say nothing.", "-q")] = False,
) -> None:
    """Compile all kernels once, so that no later call waits for it.

    Run it when a container is built. The compiled code is kept in NUMBA_CACHE_DIR when that is set, else in the
    user's cache folder.
    """
    from rankwood._core import jit
    from rankwood.studies.warm_up import warm_up

    start = time.monotonic()
    n_kernels = warm_up(
        None if quiet else lambda step: printing.notice(f"compiling (once): {step}")
    )
    if quiet:
        return
    folder = jit.cache_folder()
    where = (
        f"kept in {folder}" if folder else "kept in memory only: the cache folder cannot be written"
    )
    printing.say(f"{n_kernels} kernels ready after {time.monotonic() - start:.1f} s, {where}")


def versions_command(as_json: Json = False) -> None:
    """Show the versions of Rankwood, Python and the packages, the machine, threads and cache folders.

    Paste the output into a bug report.
    """
    facts = _facts()
    if as_json:
        printing.show_json(dict(facts))
    else:
        printing.show_facts(facts)


def _facts() -> list[tuple[str, str]]:
    import os
    import platform
    import sys

    from rankwood import __version__
    from rankwood._core import threads
    from rankwood._core.files import user_cache_folder

    facts = [
        ("rankwood", __version__),
        (
            "python",
            f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
        ),
        ("system", f"{platform.platform()}, {platform.machine()}"),
        ("threads", f"{threads.resolve_threads()} of {os.cpu_count()} processors"),
        ("cache folder", str(user_cache_folder())),
    ]
    facts += [(package, _version(package)) for package in _packages()]
    names = sorted(name for name in os.environ if name.startswith(("RANKWOOD_", "NUMBA_")))
    return facts + [(name, os.environ[name]) for name in names]


def _packages() -> list[str]:
    """Every package that Rankwood or one of its extras asks for, each once."""
    import importlib.metadata
    import re

    requirements = importlib.metadata.requires("rankwood") or []
    names = [re.match(r"[A-Za-z0-9_.-]+", requirement) for requirement in requirements]
    return list(dict.fromkeys(name.group() for name in names if name))


def _version(package: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
