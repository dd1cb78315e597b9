"""Comparisons as tables for the eye."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rankwood.evaluation.results import show_number
from rankwood.evaluation.tables import show_p

if TYPE_CHECKING:
    from rankwood.evaluation.significance import Comparison

MARKS = {"t": "+", "wilcoxon": "*", "randomization": "r"}  # of a significant difference, by test
_TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "t", "randomization": "randomisation"}


def comparison_table(found: Comparison, values: Mapping[str, float]) -> list[dict[str, str]]:
    """The systems as texts, the baseline first, each with its value; p values are the adjusted ones."""
    rows = []
    is_tested = any(pair.n_queries > 1 for pair in found.pairs)
    order = [found.baseline, *(name for name in found.means if name != found.baseline)]
    for name in order:
        is_tied = is_tested and name in found.tied_with_best and len(found.tied_with_best) > 1
        row = {
            "name": name,
            "value": show_number(values[name]),
            "marks": found.marks(name) + ("=" if is_tied else ""),
        }
        rows.append(
            row | (_baseline_cells(found) if name == found.baseline else _cells(found, name))
        )
    return rows


def _cells(found: Comparison, name: str) -> dict[str, str]:
    pair = found[name]
    low, high = pair.interval
    cells = {
        "difference": "–" if pair.n_queries == 0 else f"{pair.difference:+.4f}",
        "95 % interval": "–" if low != low else f"{low:+.4f} – {high:+.4f}",  # noqa: PLR0124 - NaN
        "d": "–" if pair.n_queries < 2 else f"{pair.effect_size:+.2f}",
    }
    cells |= {f"p {test}": show_p(pair.adjusted[test]) for test in found.tests}
    return cells | {
        "wins": f"{pair.wins:,}",
        "ties": f"{pair.ties:,}",
        "losses": f"{pair.losses:,}",
    }


def _baseline_cells(found: Comparison) -> dict[str, str]:
    names = ["difference", "95 % interval", "d", *(f"p {test}" for test in found.tests)]
    cells = dict.fromkeys([*names, "wins", "ties", "losses"], "")
    return cells | {"difference": "baseline"}


def legend(found: Comparison) -> list[str]:
    """What marks, intervals and p values mean."""
    marks = ", ".join(f"{MARKS[test]} by {_TEST_NAMES[test]}" for test in found.tests)
    corrected = "" if found.correction == "none" else f", {found.correction.title()}-corrected"
    return [
        f"marks: differs from the baseline, {marks} (p < {found.level:g}{corrected}); "
        f"=: no difference to the best is shown by {_TEST_NAMES[found.tests[0]]}",
        "difference with its bootstrap 95 % interval; d: in standard deviations of the differences",
    ]
