"""``transfer_table``: what several shares of another collection's rows, and what its model's columns, change.

The tables 5.1 and 5.2 of Mohan (2010): a line per share of the source that is added, or per kind of added columns, with
every measure on validation and test data. Similarities are computed once, and a ranker is trained once per line;
``select_similar`` and ``add_model_features`` give the data of one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from rankwood._core import checks
from rankwood._core.threads import lazy
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import ParameterError
from rankwood.evaluation.results import Result, Tables, show_number
from rankwood.measures.compute import mean_value
from rankwood.measures.measure import Measure, parse_measure
from rankwood.prepare.transfer import add_columns, check_kinds, model_columns
from rankwood.rankers.base import Ranker
from rankwood.rankers.forests import RandomForest
from rankwood.rankers.ordinal import OrdinalRanker
from rankwood.studies.transfer import (
    HARMS,
    HELPS,
    CollectionPair,
    DomainOptions,
    TransferReport,
    auc_line,
    check_ranker,
    dropped_lines,
    most_similar,
    n_documents_of,
    report_of_scores,
    scores_of_parts,
)
from rankwood.training.rounds import Callback, ProgressReporter, check_listeners

__all__ = ["TransferLine", "TransferTable", "transfer_table"]

VALIDATION, TEST = "validation", "test"
ROWS, COLUMNS = "rows", "columns"
_MARKS = {HELPS: "+", HARMS: "-"}
Parts = dict[str, RankingData]
Scores = dict[str, Floats]


@dataclass(frozen=True, eq=False)
class TransferLine:
    """What was added, how much of it, and the report by part ("validation", "test") and measure."""

    kind: str  # "rows" or "columns"
    added: str  # "10 %", or the kinds of columns such as "QP"
    count: int  # documents or columns
    reports: Mapping[tuple[str, str], TransferReport]


@dataclass(frozen=True, eq=False)
class TransferTable(Result):
    """Every share and every kind of columns, measured on every part.

    Attributes
    ----------
    lines
        The shares in their order, then the kinds of columns.
    similarity, auc
        P(target) of every source document, and how well a forest tells unseen documents of the two collections apart;
        None where no rows were added.
    features, dropped
        The names of the common features, and why each of the others is not common.
    """

    lines: tuple[TransferLine, ...]
    features: tuple[str, ...]
    dropped: Mapping[str, str]
    sizes: tuple[int, int]  # documents of source and target
    similarity: Floats | None = field(default=None, repr=False)
    auc: float | None = None
    level: float = 0.05

    def __getitem__(self, added: str) -> TransferLine:
        names = [line.added for line in self.lines]
        return self.lines[names.index(checks.one_of("line of this table", added, names))]

    def rows(self) -> list[dict[str, Any]]:
        """A flat mapping per line, part and measure, numbers in full."""
        return [
            {"kind": line.kind, "added": line.added, "count": line.count, "part": part}
            | report.to_dict()
            for line in self.lines
            for (part, _), report in line.reports.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        source, target = self.sizes
        return {
            "source": source,
            "target": target,
            "features": len(self.features),
            "dropped": dict(self.dropped),
            "auc": self.auc,
            "level": self.level,
            "results": self.rows(),
        }

    def _records(self) -> list[dict[str, Any]]:
        return self.rows()

    def _tables(self) -> Tables:
        titles = {
            ROWS: "added documents of the source",
            COLUMNS: "added columns of a model of the source",
        }
        tables = {
            title: list(_texts([line for line in self.lines if line.kind == kind], kind))
            for kind, title in titles.items()
        }
        return {title: rows for title, rows in tables.items() if rows}

    def _footnotes(self) -> list[str]:
        source, target = self.sizes
        counts = f"{source:,} documents of the source, {target:,} of the target; {len(self.features):,} common features"
        notes = [counts, *dropped_lines(self.dropped)]
        if self.auc is not None:
            notes.append(auc_line(self.auc))
        n_lines = len(self.lines)
        notes.append(
            f"+ helps, - harms: p < {self.level:g} by the paired t test over queries, each line on its own"
        )
        if n_lines > 1:
            notes.append(
                f"to keep the best of these {n_lines} lines is a search: judge it on data that had no part in it"
            )
        return notes


def _texts(lines: Sequence[TransferLine], kind: str) -> Iterator[dict[str, str]]:
    """A row per line, below the ranker that got nothing; then the target with the features that rows made it lose."""
    if not lines:
        return
    names = ("share", "documents") if kind == ROWS else ("kinds", "columns")
    first = lines[0].reports
    parts = {part for part, _ in first}
    shown = {key: key[1] if len(parts) == 1 else f"{key[0]} {key[1]}" for key in first}

    def row(added: str, count: str, values: Mapping[tuple[str, str], str]) -> dict[str, str]:
        return dict(zip(names, (added, count), strict=True)) | {
            shown[key]: values[key] for key in first
        }

    nothing = {key: f"{show_number(report.without)} " for key, report in first.items()}
    yield row("0 %" if kind == ROWS else "none", "0", nothing)
    for line in lines:
        marked = {
            key: show_number(report.with_transfer) + _MARKS.get(report.verdict, " ")
            for key, report in line.reports.items()
        }
        yield row(line.added, f"{line.count:,}", marked)
    if any(report.all_features is not None for report in first.values()):
        alone = {key: f"{show_number(r.all_features or np.nan)} " for key, r in first.items()}
        yield row("0 %, all features", "0", alone)


def transfer_table(
    source: RankingData,
    target: RankingData,
    shares: Sequence[float] = (),
    columns: Sequence[str] = (),
    *,
    valid: RankingData,
    test: RankingData | None = None,
    model: Ranker | None = None,
    measures: str | Measure | Sequence[str | Measure] = "ndcg@10",
    level: float = 0.05,
    source_model: Ranker | None = None,
    forest: Ranker | None = None,
    n_folds: int = 5,
    folds_by: str | None = None,
    balance: bool = True,
    query_features: bool = False,
    keep_constant: bool = False,
    seed: int = 0,
    n_threads: int | None = None,
    progress: Callback | None = None,
) -> TransferTable:
    """Train a ranker of the target with each of several transfers, and measure each on validation and test data.

    Parameters
    ----------
    source, target
        Training rows of the two collections.
    shares
        How much of the source is added, each in (0, 1]; the most similar documents first.
    columns
        Kinds of columns that are added instead, such as "Q" or "QPC": see ``add_model_features``.
    valid, test
        Validation data of the target, and perhaps test data. A ranker that stops early does so on the former.
    model, measures, level
        The ranker (None: ``RandomForest()``), what is measured, and the p value below which a change is marked.
    source_model
        The ranker of the source whose predictions become columns, trained on the common features. None: a
        ``RandomForest``, in an ``OrdinalRanker`` where P or C is asked for.
    forest, n_folds, folds_by, balance, query_features, keep_constant, seed
        As for ``select_similar``.
    progress
        A function that is told after each fit.
    """
    if not shares and not columns:
        raise ParameterError(
            "nothing would be transferred: pass shares such as (0.01, 0.1), or columns such as ('Q',)."
        )
    pair = CollectionPair.of(source, target, keep_constant)
    counts = {_percent(share): n_documents_of(share, source) for share in shares}
    seed = checks.whole_number("seed", seed, 0)
    model = RandomForest(seed=seed, n_threads=n_threads) if model is None else model
    parts = {VALIDATION: pair.like_the_target(valid, "valid", model)}
    if test is not None:
        parts[TEST] = pair.like_the_target(test, "test", model)
    level = checks.real_number("level", level, "(0, 1)")
    check_listeners(progress, ())
    teacher = _teacher(source_model, columns, seed, n_threads)
    kinds = list(dict.fromkeys(check_kinds(teacher, each) for each in columns))
    loses = pair.own.n_features < target.n_features
    n_fits = (1 + len(counts) if counts else 0) + len(kinds) + bool(kinds or loses)
    reporter = ProgressReporter(n_fits, progress, (), unit="fit")
    study = _Study(pair, model, parts, _measures(measures), level, reporter)
    similarity, auc = None, None
    lines: list[TransferLine] = []
    if counts:
        options = DomainOptions(forest, n_folds, folds_by, balance, query_features, seed, n_threads)
        similarity, auc = pair.similarity(options)
        lines += study.with_rows(counts, similarity, loses)
    if kinds:
        lines += study.with_columns(clone(teacher).fit(pair.near), kinds)
    sizes = source.n_documents, target.n_documents
    return TransferTable(
        tuple(lines), pair.own.names, pair.columns.dropped, sizes, similarity, auc, level
    )


@dataclass(eq=False)
class _Study:
    """The fits of one table."""

    pair: CollectionPair
    model: Ranker
    parts: Parts  # with all of the target's features
    measures: tuple[Measure, ...]
    level: float
    reporter: ProgressReporter
    n_fitted: int = 0

    @lazy
    def alone(self) -> Scores:
        """By the ranker of the target alone, with all of its features."""
        return self._scores(self.pair.target, self.parts)

    def with_rows(
        self, counts: Mapping[str, int], similarity: Floats, loses: bool
    ) -> Iterator[TransferLine]:
        """A line per share; all are compared with the target alone, cut to the common features as they are."""
        cut = {name: self.pair.cut(part) for name, part in self.parts.items()}
        alone = self._scores(self.pair.own, cut)
        whole = self.alone if loses else None
        for added, count in counts.items():
            joined = self.pair.with_rows(most_similar(similarity, count))
            scores = self._scores(joined, cut)
            yield TransferLine(ROWS, added, count, self._reports(cut, alone, scores, whole))

    def with_columns(self, teacher: Ranker, columns: Sequence[str]) -> Iterator[TransferLine]:
        """A line per kind of columns; all are compared with the target and its own features."""
        alone = self.alone
        for kinds in columns:
            names, added = model_columns(teacher, self.pair.cut(self.pair.target), kinds)
            named = tuple(f"source {name}" for name in names)
            train = add_columns(self.pair.target, named, added)
            parts = {
                name: add_columns(
                    part, named, model_columns(teacher, self.pair.cut(part), kinds)[1]
                )
                for name, part in self.parts.items()
            }
            scores = self._scores(train, parts)
            yield TransferLine(
                COLUMNS, kinds, len(names), self._reports(self.parts, alone, scores, None)
            )

    def _scores(self, train: RankingData, parts: Parts) -> Scores:
        scores = scores_of_parts(self.model, train, parts, parts[VALIDATION])
        self.n_fitted += 1
        self.reporter.report(self.n_fitted)
        return scores

    def _reports(
        self, parts: Parts, alone: Scores, scores: Scores, whole: Scores | None
    ) -> dict[tuple[str, str], TransferReport]:
        reports = {}
        for name, part in parts.items():
            for measure in self.measures:
                report = report_of_scores(
                    self.model, measure, (part, alone[name]), (part, scores[name]), self.level
                )
                if whole is not None:
                    value = mean_value(measure, whole[name], self.parts[name])
                    report = replace(report, all_features=value)
                reports[name, str(measure)] = report
        return reports


def _measures(given: str | Measure | Sequence[str | Measure]) -> tuple[Measure, ...]:
    listed = [given] if isinstance(given, str | Measure) else list(given)
    if not listed:
        raise ParameterError("measures is empty; name one, such as ndcg@10.")
    return tuple(dict.fromkeys(parse_measure(each) for each in listed))


def _percent(share: Any) -> str:
    share = checks.real_number("share", share, "(0, 1]")
    return f"{100 * share:.10g} %"


def _teacher(
    ranker: Ranker | None, columns: Sequence[str], seed: int, n_threads: int | None
) -> Ranker:
    """The ranker of the source; by default one that gives what the kinds of columns need."""
    if ranker is None:
        ranker = RandomForest(seed=seed, n_threads=n_threads)
        if set("".join(map(str, columns))) & {"P", "C"}:
            ranker = OrdinalRanker(ranker)
    check_ranker("source_model", ranker)
    return ranker
