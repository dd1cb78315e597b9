"""Run every benchmark, or those named: ``python -m benchmarks parse measures``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

names = sys.argv[1:] or sorted(
    path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
)
for name in names:
    print(f"\n== bench_{name}")
    importlib.import_module(f"benchmarks.bench_{name}").main()
