"""Colours of roles where no style sheet gives them: in SVG and PNG files. The page's are in report.css."""

from __future__ import annotations

PAPER = "#ffffff"
COLOURS = {
    "ink": "#1d2521",
    "muted": "#5d6a63",
    "grid": "#e2e6e2",
    "axis": "#9aa69f",
    "paper": PAPER,
    "accent": "#17694f",
    "better": "#1f7a5c",
    "worse": "#b4512a",
    "series0": "#17694f",
    "series1": "#b4512a",
    "series2": "#2f5fa8",
    "series3": "#8a6200",
    "series4": "#7b3f8c",
    "series5": "#0f7a8a",
    "series6": "#a8324a",
    "series7": "#55606b",
}
