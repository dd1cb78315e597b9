"""The tables of a report, before they are HTML, Markdown or LaTeX: results, comparisons, parameters, times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwood.evaluation.significance import (
    INTERVAL_NAMES,
    MARKS,
    NO_SHARES,
    POWER,
    Comparison,
    PairResult,
)
from rankwood.experiments.report import formatting
from rankwood.experiments.report.findings import Findings, Standing, is_lower_better
from rankwood.experiments.results import CellRecord
from rankwood.studies.tune import importance_of, mean_values

_MOST_CANDIDATES = 20  # of an algorithm; the others are in a file
_NOT_SHOWN = ("seed", "n_threads", "device", "callbacks")  # how a cell was run, not what was fitted


@dataclass(frozen=True)
class TableCell:
    """One field of a table."""

    text: str
    order: float | str | None = None  # what it is sorted by; its text without
    detail: str = ""  # a second line in small print
    marks: str = ""
    is_best: bool = False
    is_tied: bool = False
    is_name: bool = False  # from the user, so that its writing direction is unknown


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    name: str
    is_number: bool = True
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows under a title; ``notes`` stand below."""

    key: str  # of its element and its files
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[TableCell]]
    notes: Sequence[str] = field(default_factory=tuple)


_ALGORITHM = Column("algorithm", is_number=False)
_EMPTY = (TableCell(""), TableCell(""))  # of a baseline: it has no interval and no p value


def name_cell(name: str, detail: str = "") -> TableCell:
    """A name from outside: of an algorithm, a fold, a query."""
    return TableCell(name, detail=detail, is_name=True)


def number_cell(text: str, value: float, **style: object) -> TableCell:
    """A number, sorted by its value."""
    return TableCell(text, order=value, **style)  # type: ignore[arg-type]


def results_table(findings: Findings, *, with_intervals: bool = True) -> Table:
    """Algorithms by measures: mean, interval, marks; the best first."""
    results = findings.results
    columns = [_ALGORITHM, *(Column(measure) for measure in results.measures)]
    rows = []
    for name in findings.ranked():
        detail = "baseline" if name == findings.baseline else ""
        cells = [
            _standing_cell(findings, name, measure, with_intervals) for measure in results.measures
        ]
        rows.append([name_cell(name, detail if with_intervals else ""), *cells])
    notes = result_notes(findings)
    title = f"Algorithms by measure; at first in the order of {findings.primary}"
    return Table("results", title, columns, rows, notes if with_intervals else notes[1:])


def _standing_cell(findings: Findings, name: str, measure: str, with_interval: bool) -> TableCell:
    standing = findings.standings[name, measure]
    return number_cell(
        formatting.number(standing.mean),
        standing.mean,
        detail=formatting.interval(standing.interval) if with_interval else "",
        marks=standing.marks + _missing_mark(standing),
        is_best=standing.is_best,
        is_tied=standing.is_tied_with_best and not standing.is_best,
    )


def _missing_mark(standing: Standing) -> str:
    return "†" if standing.is_partial else "‡" if standing.n_missing else ""


def result_notes(findings: Findings) -> list[str]:
    """What the marks of the results mean."""
    resamples = findings.results.compare.resamples
    notes = [
        f"Below each mean: its {findings.confidence} interval, from {resamples:,} resamples of the queries."
    ]
    comparisons = {measure: each for measure, each in findings.comparisons.items() if each}
    if comparisons:
        notes += _comparison_notes(comparisons)
    if any(standing.is_partial for standing in findings.standings.values()):
        notes.append(
            "†: cells failed, so this mean is over fewer queries than the others and cannot be set beside them; such "
            "an algorithm is not called the best, and tests use the queries that both have."
        )
    missing = {
        name: findings.standings[name, findings.primary].n_missing
        for name in findings.results.algorithms
    }
    if any(missing.values()):
        counts = [f"{formatting.brief(name)} {count:,}" for name, count in missing.items() if count]
        notes.append(
            f"‡ (or †): repetitions of folds are missing, failed or not run yet ({formatting.listed(counts)}); values "
            "are means of the repetitions there are."
        )
    lower = [measure for measure in findings.results.measures if is_lower_better(measure)]
    if lower:
        notes.append(f"Lower is better: {formatting.listed(lower)}.")
    once = [formatting.brief(name) for name in findings.results.once]
    if once and findings.n_repetitions > 1:
        notes.append(
            f"Not random, and so run once in each fold, not in {findings.n_repetitions} repetitions: "
            f"{formatting.listed(once)}."
        )
    return notes


def _comparison_notes(comparisons: Mapping[str, Comparison]) -> list[str]:
    comparison = next(iter(comparisons.values()))
    marks = ", ".join(
        f"{MARKS[test]} by {formatting.TEST_NAMES[test]}" for test in comparison.tests
    )
    decides, baseline = (
        formatting.TEST_NAMES[comparison.test],
        formatting.brief(comparison.baseline),
    )
    if comparison.candidates:
        names = formatting.listed([formatting.brief(name) for name in comparison.candidates])
        chosen = [
            f"{formatting.brief(each.baseline)} by {measure}"
            for measure, each in comparisons.items()
        ]
        baseline = f"that is the strongest of {names} by the measure ({formatting.listed(chosen)})"
    return [
        f"What is called significant is decided by {decides}: p < {comparison.level:g}, "
        f"{formatting.correction_text(comparison)}.",
        f"Marks: differs from the baseline {baseline}, better or worse: {marks}.",
        f"Bold: the best mean. Underlined: not shown to differ from the best by {decides}, corrected over all "
        f"{formatting.pairs_text(comparison)}, since the best is picked by its mean. Not shown to "
        "differ does not mean equal.",
    ]


def pairs_table(findings: Findings, measure: str, *, with_raw: bool = True) -> Table | None:
    """Every algorithm against the baseline by one measure; None where there is nothing to compare."""
    comparison = findings.comparisons[measure]
    if comparison is None:
        return None
    columns = [
        _ALGORITHM,
        Column("difference", hint="its mean less that of the baseline, over the queries both have"),
        Column("d_z", hint="the mean difference in standard deviations of the differences"),
    ]
    for test in comparison.tests:
        decides = " (decides)" if test == comparison.test and len(comparison.tests) > 1 else ""
        name = f"p, {formatting.SHORT_TEST_NAMES[test]}{decides}"
        columns.append(Column(name, hint=formatting.correction_text(comparison)))
    hint = "queries on which it is better than the baseline, equal, and worse; sorted by the first"
    columns += [Column("better / equal / worse", hint=hint), Column("queries")]
    order = {name: index for index, name in enumerate(findings.ranked(measure))}
    pairs = sorted(comparison.pairs, key=lambda pair: order[pair.name])
    rows = [_pair_row(comparison, pair) for pair in pairs]
    title = f"{measure}: each algorithm against {formatting.brief(comparison.baseline)}"
    return Table("comparisons", title, columns, rows, _pair_notes(comparison, with_raw))


def _pair_row(comparison: Comparison, pair: PairResult) -> list[TableCell]:
    cells = [
        name_cell(pair.name),
        number_cell(
            formatting.signed(pair.difference),
            pair.difference,
            detail=formatting.interval_beside(pair),
            marks=comparison.marks(pair.name),
        ),
        number_cell(_two_decimals(pair.effect_size), pair.effect_size),
    ]
    for test in comparison.tests:
        is_significant = pair.adjusted[test] < comparison.level
        raw = formatting.p_text(pair.p[test])
        cells.append(
            number_cell(
                formatting.p_text(pair.adjusted[test]),
                pair.adjusted[test],
                detail="" if raw == "–" else f"raw {raw}",
                is_best=is_significant,
            )
        )
    counts = f"{pair.wins:,} / {pair.ties:,} / {pair.losses:,}"
    return [
        *cells,
        number_cell(counts, pair.wins),
        number_cell(f"{pair.n_queries:,}", pair.n_queries),
    ]


def _two_decimals(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−") if math.isfinite(value) else formatting.number(value)


def _pair_notes(comparison: Comparison, with_raw: bool) -> list[str]:
    return [
        f"Below each difference: its {comparison.interval_title}, {INTERVAL_NAMES[comparison.test]}, for each "
        "comparison by itself.",
        f"p values are two-sided, {formatting.correction_text(comparison)}. Bold: below {comparison.level:g}. "
        f"{formatting.sentences(formatting.TEST_NAMES[comparison.test] + ' decides')}",
        *(["Raw: the p value as the test gives it, without that correction."] if with_raw else []),
        "d_z: the mean difference in standard deviations of the differences. It is no Cohen's d of two groups, whose "
        "names for small and large do not apply to it.",
        *comparison.notes,
    ]


def paper_table(findings: Findings, measure: str) -> Table | None:
    """The comparisons by one measure in a column of a paper: mean, difference, interval, p of the test that decides."""
    comparison = findings.comparisons[measure]
    if comparison is None:
        return None
    columns = [_ALGORITHM, Column("mean"), Column("difference"), Column(comparison.interval_title)]
    if comparison.test == "wilcoxon":
        columns[-1] = Column(f"median, {comparison.interval_title}")
    columns.append(Column("p"))
    rows = []
    for name in findings.ranked(measure):
        cells = [name_cell(name), _standing_cell(findings, name, measure, with_interval=False)]
        if name == comparison.baseline or name not in comparison.means:
            rows.append(
                [*cells, TableCell("baseline" if name == comparison.baseline else "–"), *_EMPTY]
            )
            continue
        pair = comparison[name]
        p = formatting.p_text(pair.adjusted[comparison.test])
        bounds = formatting.interval(pair.interval, formatting.signed).replace(" to ", ", ")
        median = "" if pair.median is None else f"{formatting.signed(pair.median)} "
        cells += [
            TableCell(formatting.signed(pair.difference)),
            TableCell(f"{median}[{bounds}]" if bounds else "–"),
        ]
        rows.append([*cells, TableCell(p, is_best=comparison.is_significant(name))])
    title = f"{measure}: each algorithm against {formatting.brief(comparison.baseline)}"
    signs = [f"{MARKS[test]} {formatting.SHORT_TEST_NAMES[test]}" for test in comparison.tests]
    notes = [
        f"{formatting.count(len(findings.results.queries), 'query')}; p of {formatting.TEST_NAMES[comparison.test]}, "
        f"{formatting.correction_text(comparison)}, bold below {comparison.level:g}.",
        f"Significant by: {', '.join(signs)}. Bold mean: the best; underlined: not shown to differ from it, corrected "
        "over all pairs.",
        f"Intervals: {INTERVAL_NAMES[comparison.test]}, for each comparison by itself.",
    ]
    return Table("paper", title, columns, rows, [*notes, *comparison.notes])


def practical_table(findings: Findings) -> Table | None:
    """How small differences are, by the measure that decides; None where there is nothing to compare."""
    comparison = findings.comparison
    if comparison is None:
        return None
    columns = [_ALGORITHM, Column("difference"), Column("detectable"), Column("equivalent within")]
    margin = comparison.margin
    if margin is not None:
        names = ("p, equivalence", "P(worse)", "P(equal)", "P(better)")
        columns += [Column(name) for name in names]
    order = {name: index for index, name in enumerate(findings.ranked())}
    rows = []
    for pair in sorted(comparison.pairs, key=lambda pair: order[pair.name]):
        numbers = [pair.detectable, pair.equivalent_within]
        cells = [number_cell(formatting.number(value), value) for value in numbers]
        if margin is not None:
            p = math.nan if pair.equivalence_p is None else pair.equivalence_p
            cells.append(number_cell(formatting.p_text(p), p, is_best=p < comparison.level))
            shares = pair.bayes or NO_SHARES
            shares = shares[::-1] if is_lower_better(findings.primary) else shares
            cells += [number_cell(formatting.number(share, 2), share) for share in shares]
        difference = number_cell(formatting.signed(pair.difference), pair.difference)
        rows.append([name_cell(pair.name), difference, *cells])
    title = f"{findings.primary}: how small a difference from {formatting.brief(comparison.baseline)} could be"
    return Table("practical", title, columns, rows, _practical_notes(comparison))


def _practical_notes(comparison: Comparison) -> list[str]:
    level = comparison.level
    notes = [
        f"Detectable: the true difference that a t test would find with a probability of {100 * POWER:g} %, with as "
        f"many queries, which differ as much as these, at the level {level:g} divided by the number of comparisons.",
        "Equivalent within: the smallest margin for which two one-sided t tests (TOST) call the two equivalent, at the "
        f"level {level:g}.",
    ]
    if comparison.margin is not None:
        notes.append(
            f"Differences of less than {comparison.margin:g} count as none (margin in [compare]). p, equivalence: of "
            "TOST with this margin, uncorrected; bold where the two are equivalent. P: by the Bayesian signed-rank "
            "test, the probabilities that queries are mostly worse by more than the margin, within it, better by more."
        )
    return notes


def spread_table(findings: Findings, measure: str) -> Table | None:
    """How values vary from seed to seed, and by how much queries and seeds move them; None without repetitions."""
    if findings.n_repetitions < 2:
        return None
    columns = [_ALGORITHM, Column("repetitions"), Column("SD of the mean")]
    columns += [Column(f"SD, {part}") for part in ("query", "seed", "query × seed")]
    rows = []
    for name in findings.ranked(measure):
        means = findings.by_repetition(name, measure)
        deviation = float(means.std(ddof=1)) if means.size > 1 else math.nan
        parts = findings.components(name, measure)
        numbers = [deviation, *map(math.sqrt, (parts.query, parts.seed, parts.query_by_seed))]
        shares = ["", *("" if math.isnan(s) else f"{100 * s:.0f} %" for s in parts.shares)]
        cells = [
            number_cell(formatting.number(value), value, detail=share)
            for value, share in zip(numbers, shares, strict=True)
        ]
        repetitions = len(means)
        rows.append([name_cell(name), number_cell(f"{repetitions:,}", repetitions), *cells])
    if all(math.isnan(row[2].order) for row in rows):  # type: ignore[arg-type]
        return None
    notes = [
        "Repetitions: those with values of all queries. SD of the mean: the standard deviation over these repetitions "
        "of the mean over all queries, which tells how much another seed would move a table of results.",
        "The other columns are variance components of a single value, as standard deviations, and below each its share "
        "of the variance: from query to query, from seed to seed (one fit per fold and repetition), and what a seed "
        "does to some queries and not to others. They come from an analysis of variance within folds; a negative "
        "estimate is 0.",
    ]
    return Table("spread", f"{measure}: spread over seeds", columns, rows, notes)


def times_by_algorithm(findings: Findings) -> Table | None:
    """Median times by stage and the greatest memory; None where no cell tells."""
    cells = [cell for cell in findings.results.cells if cell.status == "done" and cell.seconds]
    if not cells:
        return None
    stages = list(dict.fromkeys(stage for cell in cells for stage in cell.seconds))
    columns = [_ALGORITHM, Column("cells"), *(Column(stage) for stage in stages)]
    columns += [Column("in all"), Column("peak memory")]
    rows = []
    for name in findings.results.algorithms:
        own = findings.cells_of(name)
        medians = [findings.seconds(name, stage) for stage in stages]
        total = sum(sum(cell.seconds.values()) for cell in own)
        peak = max((cell.peak_memory for cell in own), default=0)
        rows.append(
            [
                name_cell(name),
                number_cell(f"{len(own):,}", len(own)),
                *(number_cell(formatting.duration(median), median) for median in medians),
                number_cell(formatting.duration(total) if own else "–", total if own else math.nan),
                number_cell(formatting.memory(peak), peak if peak else math.nan),
            ]
        )
    notes = [
        "Times by stage are medians over cells; in all: the sum over cells and stages. Peak memory is that of the "
        "worker since it began, so cells that ran before in the same worker count too."
    ]
    return Table(
        "times-and-memory",
        "Median times by stage, time in all, greatest memory",
        columns,
        rows,
        notes,
    )


def parameters_table(findings: Findings) -> Table | None:
    """The parameters of each algorithm: what tuning chose, and the others; None where none are known."""
    rows = []
    for name in findings.results.algorithms:
        cells = [cell for cell in findings.results.cells if cell.algorithm == name]
        values = _values_of(cells)
        searched = {key for cell in cells for key in cell.chosen}
        tuned = {
            key: cells_of_value
            for key, cells_of_value in values.items()
            if key in searched or len(cells_of_value) > 1
        }
        others = [
            f"{key} = {next(iter(cells_of_value))}"
            for key, cells_of_value in values.items()
            if key not in tuned
        ]
        if values:
            texts = [_by_cell(key, cells_of_value) for key, cells_of_value in tuned.items()]
            chosen = TableCell("; ".join(texts) or "–")
            rows.append([name_cell(name), chosen, TableCell(", ".join(others) or "–")])
    if not rows:
        return None
    columns = [_ALGORITHM, Column("tuned", is_number=False), Column("others", is_number=False)]
    if all(row[1].text == "–" for row in rows):
        columns, rows = [columns[0], columns[2]], [[row[0], row[2]] for row in rows]
    notes = [
        "Fold1·2: its second repetition. Seeds differ from cell to cell; the run's record has them."
    ]
    notes = notes if len(columns) == 3 else []
    return Table("parameters", "Parameters of the fitted algorithms", columns, rows, notes)


def tuning_table(findings: Findings) -> Table | None:
    """The candidates of each tuned algorithm with their values, the best first; None where nothing was tuned."""
    sign = 1.0 if is_lower_better(findings.primary) else -1.0
    rows, n_left_out = [], 0
    for name, cells in _tuned_cells(findings).items():
        candidates = mean_values([cell.tuned for cell in cells])
        candidates.sort(key=lambda one: sign * float(np.mean(one[1])))
        n_left_out += max(0, len(candidates) - _MOST_CANDIDATES)
        for parameters, values in candidates[:_MOST_CANDIDATES]:
            n_chosen = sum(cell.chosen == parameters for cell in cells)
            mean = float(np.mean(values))
            rows.append(
                [
                    name_cell(name),
                    TableCell(shown(parameters)),
                    number_cell(formatting.number(mean), mean),
                    TableCell(formatting.interval((min(values), max(values)))),
                    number_cell(f"{len(values):,}", len(values)),
                    number_cell(f"{n_chosen:,}", n_chosen),
                ]
            )
    if not rows:
        return None
    columns = [
        _ALGORITHM,
        Column("candidate", is_number=False),
        Column(findings.primary),
        Column("lowest to highest"),
        Column("cells"),
        Column("chosen in"),
    ]
    notes = [
        f"Mean of {findings.primary} over the cells that tried a candidate; {_judged_on(findings)}. The value of a "
        "candidate that was chosen is a little too good, since it was chosen by it."
    ]
    if n_left_out:
        count = formatting.count(n_left_out, "candidate")
        notes.append(f"The best {_MOST_CANDIDATES} of each algorithm; {count} more in tuning.csv.")
    return Table("tuning", "Candidates of the tuning", columns, rows, notes)


def _tuned_cells(findings: Findings) -> dict[str, list[CellRecord]]:
    """The finished cells with trials of each algorithm that was tuned."""
    found: dict[str, list[CellRecord]] = {}
    for cell in findings.results.cells:
        if cell.tuned and cell.status == "done":
            found.setdefault(cell.algorithm, []).append(cell)
    return found


def _judged_on(findings: Findings) -> str:
    """On which queries candidates were judged, in words."""
    algorithms = findings.results.record.get("configuration", {}).get("algorithms", [])
    parts = {"train": "training queries", "train+vali": "training and validation queries"}
    inner = [
        f"{one['name']} on {one['tune_folds']} inner folds of the {parts[one.get('tune_on', 'train')]}"
        for one in algorithms
        if one.get("tune_folds")
    ]
    words = "candidates were judged on the validation queries"
    return f"{words}, but {formatting.listed(inner)}" if inner else words


def importance_table(findings: Findings) -> Table | None:
    """The share of each tuned parameter in the variance of the candidates' values; None where it is unknown."""
    rows, is_known = [], False
    is_by_optuna = any(cell.importance for cell in findings.results.cells)
    for name, cells in _tuned_cells(findings).items():
        shares = importance_of([cell.tuned for cell in cells])
        if len(shares) < 2:  # a single parameter explains all there is
            continue
        for parameter, share in shares.items():
            known = [cell.importance[parameter] for cell in cells if parameter in cell.importance]
            others = [float(np.mean(known)) if known else math.nan] if is_by_optuna else []
            is_known |= any(not math.isnan(one) for one in (share, *others))
            numbers = [number_cell(_percent(one), one) for one in (share, *others)]
            rows.append([name_cell(name), name_cell(parameter), *numbers])
    if not is_known:
        return None
    columns = [_ALGORITHM, Column("parameter", is_number=False), Column("importance")]
    notes = [
        "Importance: the share of the variance between candidates that the parameter explains by itself (ε² of a "
        "one-way analysis of variance of their values less the mean of the cell; numbers of a range in five groups). "
        "What only several parameters together explain belongs to none, so that shares need not sum to 100 %. A "
        "share tells of the values that were tried, and few candidates tell little."
    ]
    if is_by_optuna:
        columns.append(Column("fANOVA"))
        notes.append(
            "fANOVA: Optuna's functional analysis of variance by a random forest, the mean over cells; these shares "
            "sum to 100 %."
        )
    return Table("importance", "Importance of the tuned parameters", columns, rows, notes)


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{share:.0%}".replace("%", " %")


def weights_table(findings: Findings) -> Table | None:
    """The weights that scores are composed with, cell by cell; None where no algorithm has any."""
    rows = []
    for name in findings.results.algorithms:
        for (fold, repetition), weights in findings.results.weights(name).items():
            listed = ", ".join(f"{key}: {weight:.4f}" for key, weight in weights.items())
            rows.append([name_cell(name), name_cell(f"{fold}·{repetition}"), TableCell(listed)])
    if not rows:
        return None
    columns = [_ALGORITHM, Column("cell", is_number=False), Column("weights", is_number=False)]
    notes = [
        "Fold1·2: its second repetition. P(y ≤ c): the weight of the model of this probability, which is -1 where the "
        "score is the expected label; names of rankers: the weight of the part of a blend."
    ]
    return Table("weights", "Weights that scores are composed with", columns, rows, notes)


def _values_of(cells: list[CellRecord]) -> dict[str, dict[str, list[str]]]:
    """By parameter, then by value: the cells that had it."""
    values: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        for key, value in cell.parameters.items():
            text = shown(value)
            if text and value is not None and key not in _NOT_SHOWN:
                where = f"{cell.fold}·{cell.repetition}"
                values.setdefault(key, {}).setdefault(text, []).append(where)
    return values


def _by_cell(key: str, cells_of_value: dict[str, list[str]]) -> str:
    if len(cells_of_value) == 1:
        return f"{key} = {next(iter(cells_of_value))} in all cells"
    parts = [f"{value} ({formatting.listed(where, 4)})" for value, where in cells_of_value.items()]
    return f"{key} = {', '.join(parts)}"


def shown(value: Any) -> str:
    """A value of a parameter or a record, without type names."""
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} = {shown(part)}" for key, part in value.items())
    return str(value)
