"""Writes the golden digests and snapshots anew: ``python -m tests.golden.make_digests``.

Digests and snapshots only change on purpose: whatever moves one gives users other numbers, files or texts than
before. Look at what ``git diff`` says afterwards, entry by entry, and say in CHANGELOG.md what moved and why.

``python -m tests.golden.make_digests --compare FILE`` writes the digests to FILE instead and lists those that differ:
run it under other settings of the processor (``NUMBA_CPU_NAME=generic`` and the like) to see what depends on it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from tests.golden import digests
from tests.golden import golden_commands as commands


def made() -> dict[str, Any]:
    """All digests as they are now."""
    kept = {name: digests.digests_of(name) for name in digests.names()}
    return {"made_with": digests.made_with(), "digests": kept}


def write(path: Path, value: Any) -> None:
    """JSON with a line per value, so that a diff shows what has changed."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def made_snapshots() -> dict[Path, str]:
    """What every command says now, asked in a folder of its own, by the file that keeps it."""
    with tempfile.TemporaryDirectory() as folder:
        commands.prepare(Path(folder))
        cache = {"RANKWOOD_CACHE_DIR": str(Path(folder) / "cache")}
        with contextlib.chdir(folder), mock.patch.dict(os.environ, commands.ENVIRONMENT | cache):
            made = {
                commands.help_file(name): commands.help_now(name)
                for name in commands.command_names()
            }
            for kind, calls in (("json", commands.JSON_CALLS), ("text", commands.TEXT_CALLS)):
                for name in calls:
                    made[commands.answer_file(kind, name)] = commands.answer_now(kind, name)
    return made


def write_snapshots(made: dict[Path, str]) -> None:
    """Put snapshots in place of all that were there."""
    shutil.rmtree(commands.FOLDER, ignore_errors=True)
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def compare(path: Path) -> int:
    """Write the digests to ``path``, and say which differ from those kept; and so for snapshots."""
    now = made()
    write(path, now)
    for file, text in made_snapshots().items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            sys.stdout.write(f"{file.relative_to(commands.FOLDER)}\n")
    changed = {name: digests.changes(name, value) for name, value in now["digests"].items()}
    for name, parts in changed.items():
        if parts:
            sys.stdout.write(f"{name}: {', '.join(parts)}\n")
    n_changed = sum(map(bool, changed.values()))
    sys.stdout.write(f"{n_changed} of {len(changed)} entries differ\n")
    return int(n_changed > 0)


def main() -> int:
    """Write everything, or compare."""
    warnings.simplefilter("error")
    parser = argparse.ArgumentParser(prog="python -m tests.golden.make_digests")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.compare is not None:
        return compare(given.compare)
    write(digests.PATH, made())
    write_snapshots(made_snapshots())
    return 0


if __name__ == "__main__":
    sys.exit(main())
