"""Writes the golden digests and snapshots anew: ``python -m tests.golden.make_digests``.

Digests and snapshots only change on purpose: whatever moves one gives users other numbers, files or texts than
before. Look at what ``git diff`` says afterwards, entry by entry, and say in CHANGELOG.md what moved and why.

``python -m tests.golden.make_digests --compare FILE`` writes the digests to FILE instead and lists those that differ:
run it under other settings of the processor (``NUMBA_CPU_NAME=generic`` and the like) to see what depends on it.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.golden import digests


def made() -> dict[str, Any]:
    """All digests as they are now."""
    kept = {}
    for name in digests.names():
        kept[name] = digests.digests_of(name)
    return {"made_with": digests.made_with(), "digests": kept}


def write(path: Path, value: Any) -> None:
    """JSON with a line per value, so that a diff shows what has changed."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def compare(path: Path) -> int:
    """Write the digests to ``path``, and say which differ from those kept."""
    now, kept = made(), digests.stored()["digests"]
    write(path, now)
    changed = [name for name, value in now["digests"].items() if kept.get(name) != value]
    for name in changed:
        value = now["digests"][name]
        parts = [what for what in value if kept.get(name, {}).get(what) != value[what]]
        sys.stdout.write(f"{name}: {', '.join(parts)}\n")
    sys.stdout.write(f"{len(changed)} of {len(now['digests'])} entries differ\n")
    return int(bool(changed))


def main() -> int:
    """Write everything, or compare."""
    warnings.simplefilter("error")
    parser = argparse.ArgumentParser(prog="python -m tests.golden.make_digests")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.compare is not None:
        return compare(given.compare)
    write(digests.PATH, made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
