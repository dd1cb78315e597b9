"""The report of a run: one page that needs nothing else, with tables and figures beside it."""

from __future__ import annotations

from rankwood.experiments.report.files import FORMATS, write_report

__all__ = ["FORMATS", "write_report"]
