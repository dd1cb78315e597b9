"""Run every benchmark, or those named: ``python -m benchmarks parse measures quality_mq2008``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

PREFIX = "bench_"
FOLDER = Path(__file__).parent

modules = [
    f"{PREFIX}{name}" if (FOLDER / f"{PREFIX}{name}.py").exists() else name for name in sys.argv[1:]
] or sorted(
    path.stem for pattern in ("bench_*.py", "quality_*.py") for path in FOLDER.glob(pattern)
)
for module in modules:
    print(f"\n== {module}")
    sys.argv = [module]  # some read options of their own
    importlib.import_module(f"benchmarks.{module}").main()
