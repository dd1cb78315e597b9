"""What the service has done so far, as Prometheus reads it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class Metrics:
    """Counters of one process. Only the event loop touches them, so they need no lock."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.documents: Counter[str] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._answers = 0

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests[path, status] += 1
        if path == "/rank":
            self._answers += 1
            self._seconds += seconds
            for bound in _BOUNDS:
                if seconds <= bound:
                    self._buckets[bound] += 1

    def text(self, gauges: dict[str, float]) -> str:
        """Everything in Prometheus's text format; ``gauges`` are values of the moment."""
        lines = ["# TYPE rankwood_requests_total counter"]
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'rankwood_requests_total{{path="{path}",status="{status}"}} {count}')
        lines.append("# TYPE rankwood_documents_total counter")
        for model, count in sorted(self.documents.items()):
            lines.append(f'rankwood_documents_total{{model="{_escaped(model)}"}} {count}')
        lines.append("# TYPE rankwood_rank_seconds histogram")
        for bound in _BOUNDS:
            lines.append(f'rankwood_rank_seconds_bucket{{le="{bound}"}} {self._buckets[bound]}')
        lines.append(f'rankwood_rank_seconds_bucket{{le="+Inf"}} {self._answers}')
        lines.append(f"rankwood_rank_seconds_sum {self._seconds:.6f}")
        lines.append(f"rankwood_rank_seconds_count {self._answers}")
        for name, value in {**gauges, "process_resident_memory_bytes": memory()}.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# TYPE {name} {kind}", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def memory() -> int:
    """Bytes of this process that are in memory; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
