"""``rankwood inspect``: what a data set holds, and whether two parts share queries or documents."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from rankwood.cli import inspect_model, printing
from rankwood.cli.options import Json, Reading, with_reading_options
from rankwood.errors import ParameterError

if TYPE_CHECKING:
    from rankwood.data.splits import Overlap
    from rankwood.data.summary import Summary

_NAMES_SHOWN = 12


@with_reading_options
def command(
    path: Annotated[
        str,
        typer.Argument(
            metavar="DATA_OR_MODEL", help="LETOR text, Parquet, CSV or Arrow; - is standard input."
        ),
    ],
    *,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER", help="Also say which queries and documents are in OTHER too."
        ),
    ] = None,
    as_json: Json = False,
    reading: Reading,
) -> None:
    """Show documents, queries, features, labels, missing and constant features, empty queries, duplicates.

    Of a model file: its estimator, parameters, training, trees and most important features.

    Example: rankwood inspect Fold1/train.txt.gz --against Fold1/test.txt.gz
    """
    from rankwood.data.splits import shared
    from rankwood.data.summary import summarise
    from rankwood.models.format import is_model_file

    if is_model_file(path):
        if against is not None:
            raise ParameterError("--against compares data; DATA is a model file.")
        inspect_model.show(path, as_json)
        return
    data = reading(path)
    summary = summarise(data)
    overlap = shared(data, reading(against)) if against is not None else None
    if as_json:
        result = {"data": path, **dataclasses.asdict(summary)}
        result["label_counts"] = {
            f"{label:g}": count for label, count in summary.label_counts.items()
        }
        if overlap is not None:
            result["against"] = {"data": against, **dataclasses.asdict(overlap)}
        printing.show_json(result)
        return
    printing.heading(path)
    printing.show_facts(facts(summary))
    if overlap is not None:
        printing.heading(f"shared with {against}")
        printing.show_facts(_overlap_facts(overlap))


def facts(summary: Summary) -> list[tuple[str, str]]:
    """The summary as names and what they are, for a person."""
    lengths = summary.documents_per_query
    labels = [
        f"{label:g}: {count:,} ({count / summary.documents:.1%})"
        for label, count in summary.label_counts.items()
    ]
    listed = [
        ("documents", f"{summary.documents:,}"),
        ("queries", f"{summary.queries:,}"),
        ("features", f"{summary.features:,}"),
        ("labels", _shorten(labels, "values")),
        (
            "documents per query",
            f"least {lengths['least']:,}, median {lengths['median']:,.10g}, "
            f"mean {lengths['mean']:,.1f}, most {lengths['most']:,}",
        ),
        ("empty queries", f"{summary.empty_queries:,} (no document with a label above 0)"),
        ("one-document queries", f"{summary.one_document_queries:,}"),
        ("constant features", _counted(summary.constant_features)),
        ("missing values", _values(summary.missing_values, summary)),
        (
            "duplicates",
            f"{summary.duplicate_rows:,} rows repeat the features of an earlier row of their query",
        ),
    ]
    if summary.infinite_values:
        listed.append(("infinite values", _values(summary.infinite_values, summary)))
    if summary.separated_queries:
        listed.append(
            ("separated queries", f"{summary.separated_queries:,} (their rows are not together)")
        )
    return listed


def _overlap_facts(overlap: Overlap) -> list[tuple[str, str]]:
    facts = [("queries", f"{overlap.n_queries:,}" + _examples(overlap.queries))]
    if overlap.n_documents is not None:
        facts.append(("documents", f"{overlap.n_documents:,} with the same query and document id"))
    facts.append(("rows", f"{overlap.n_rows:,} with exactly the same features"))
    if overlap.n_queries:
        facts.append(("", "A query in both parts makes a test measure look better than it is."))
    return facts


def _examples(examples: tuple[str, ...]) -> str:
    return f" (for example {', '.join(examples[:3])})" if examples else ""


def _counted(names: list[str]) -> str:
    return f"{len(names):,}: {_shorten(names, 'features')}" if names else "none"


def _values(counts: dict[str, int], summary: Summary) -> str:
    if not counts:
        return "none"
    total = sum(counts.values())
    share = total / (summary.documents * summary.features)
    listed = [
        f"{name} ({count:,})" for name, count in sorted(counts.items(), key=lambda item: -item[1])
    ]
    return f"{total:,} ({share:.1%}) in {len(counts):,} features: {_shorten(listed, 'features')}"


def _shorten(parts: list[str], kind: str) -> str:
    more = len(parts) - _NAMES_SHOWN
    return ", ".join(parts[:_NAMES_SHOWN]) + (f" … and {more:,} more {kind}" if more > 0 else "")
