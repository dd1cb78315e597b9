"""Numbers and sentences of the report as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankwood.errors import InputError
from rankwood.experiments.report.drawing import shorten
from rankwood.experiments.report.findings import Findings, is_lower_better
from rankwood.measures.measure import Measure, parse_measure
from rankwood.measures.options import FORMS

TEST_NAMES = {
    "wilcoxon": "Wilcoxon's signed-rank test",
    "t": "the paired t test",
    "randomization": "Fisher's randomisation test",
}
SHORT_TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "t test", "randomization": "randomisation"}
_CORRECTIONS = {
    "holm": "after Holm's correction",
    "bonferroni": "after Bonferroni's correction",
    "none": "without correction for several comparisons",
}
# The meaning of conventions whose names do not say it.
_CONVENTIONS = {
    ("gain", "exponential"): "a label counts 2^label − 1",
    ("gain", "linear"): "a label counts as it is",
    ("discount", "log2"): "rank r counts 1 / log2(r + 1)",
    ("discount", "letor"): "ranks 1 and 2 count in full, rank r above 2 counts 1 / log2(r)",
    ("empty", "skip"): "queries without relevant documents are left out",
    ("ties", "data"): "documents with equal scores keep the order of the data",
    ("ties", "average"): "the mean over all orders of documents with equal scores",
    ("ties", "docid"): "documents with equal scores are ordered by their ids, descending",
    ("short", "keep"): "lists shorter than the cut-off count as they are",
    ("short", "zero"): "lists shorter than the cut-off count 0",
    ("norm", "relevant"): "divided by the number of relevant documents",
    ("norm", "cutoff"): "divided by the cut-off",
    ("norm", "found"): "divided by the number of relevant documents found",
    ("norm", "retrieved"): "divided by the number of documents retrieved",
    ("pooled", "over documents"): "taken over the documents of all queries together",
}
_CONVENTION_SENTENCES = {
    "empty": "queries without relevant documents count {}",
    "relevant": "documents with a label of at least {} are relevant",
    "max": "the largest label of the scale is {}",
    "p": "a reader goes on with probability {}",
    "variant": "the variant is {}",
    "weights": "means are weighted by the weights {}",
    "gain": "labels 0, 1, 2 … count {}",
}


def correction_text(correction: str) -> str:
    """How p values were adjusted."""
    return _CORRECTIONS.get(correction, correction)


def number(value: float, digits: int = 4) -> str:
    """A value with four decimals, or a dash where there is none."""
    return f"{value:.{digits}f}".replace("-", "−") if math.isfinite(value) else _not_finite(value)


def signed(value: float) -> str:
    """A difference with its sign."""
    return f"{value:+.4f}".replace("-", "−") if math.isfinite(value) else _not_finite(value)


def _not_finite(value: float) -> str:
    return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"


def interval(bounds: tuple[float, float], show: object = number) -> str:
    """Two bounds, or nothing where there are none."""
    if not all(math.isfinite(bound) for bound in bounds):
        return ""
    write = signed if show is signed else number
    return f"{write(bounds[0])} to {write(bounds[1])}"


def p_text(p: float) -> str:
    """A p value to two digits that count."""
    if math.isnan(p):
        return "–"
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def duration(seconds: float) -> str:
    """Seconds as text, in the unit that suits them."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 0.0005:
        return "< 1 ms" if seconds > 0.0 else "0 ms"
    if seconds < 1.0:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120.0:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes} min {left:02d} s" if minutes < 120 else f"{minutes / 60:.1f} h"


def memory(size: float) -> str:
    """Bytes in the unit that suits them."""
    return (
        "–"
        if not size
        else f"{size / 2**20:,.0f} MiB"
        if size < 2**33
        else f"{size / 2**30:,.1f} GiB"
    )


def count(amount: int, noun: str, plural: str = "") -> str:
    """A number and its noun."""
    several = plural or (noun[:-1] + "ies" if noun.endswith("y") else noun + "s")
    return f"{amount:,} {noun if amount == 1 else several}"


def brief(name: str) -> str:
    """A name, shortened to fit into a sentence."""
    return shorten(name, 60)


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names joined by commas and "and"."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def summary(findings: Findings) -> str:
    """Which algorithm is best, whether that may be chance, and over how many queries: a paragraph."""
    results, best = findings.results, findings.best
    n_failed = sum(cell.status == "failed" for cell in results.cells)
    if best is None:
        what = f"No algorithm has a value of {findings.primary}"
        why = f": all {count(n_failed, 'cell')} failed." if n_failed else "."
        return what + why + _first_message(findings)
    sentences = [_best_sentence(findings, best)]
    if findings.comparison is not None:
        sentences += [_baseline_sentence(findings, best), _tie_sentence(findings, best)]
    elif len(results.algorithms) == 1:
        sentences.append("There is no second algorithm to compare it with.")
    if n_failed:
        sentences.append(f"{count(n_failed, 'cell')} of {len(results.cells):,} failed; see below.")
    return " ".join(sentence for sentence in sentences if sentence)


def _first_message(findings: Findings) -> str:
    lines = [cell.message.strip() for cell in findings.results.cells if cell.message.strip()]
    return f" The first says: {lines[0].splitlines()[-1]}" if lines else ""


def _best_sentence(findings: Findings, best: str) -> str:
    results, standing = findings.results, findings.standings[best, findings.primary]
    bounds = interval(standing.interval)
    value = number(standing.mean) + (f", 95 % interval {bounds}" if bounds else "")
    over = f"over {count(len(results.queries), 'query')}"
    if len(results.folds) > 1:
        over += f" in {count(len(results.folds), 'fold')}"
    if findings.n_repetitions > 1:
        over += f", each value the mean of {findings.n_repetitions} repetitions"
    if len(results.algorithms) == 1:
        return f"{brief(best)} has a {findings.primary} of {value}, {over}."
    extreme = "lowest" if is_lower_better(findings.primary) else "highest"
    n = len(results.algorithms)
    return f"{brief(best)} has the {extreme} {findings.primary} of {n} algorithms ({value}) {over}."


def _baseline_sentence(findings: Findings, best: str) -> str:
    comparison = findings.comparison
    if comparison is None or comparison.baseline == best:
        return f"It is what the others are compared with{_why_best(findings)}."
    pair, test = comparison[best], comparison.tests[0]
    is_significant = pair.adjusted[test] < comparison.level
    verdict = "is significant" if is_significant else "may be chance"
    bounds = interval(pair.interval, signed)
    between = f", 95 % interval {bounds}" if bounds else ""
    p = p_text(pair.adjusted[test])
    p_part = "" if p == "–" else f": p {p if p.startswith('<') else '= ' + p} by {TEST_NAMES[test]}"
    if p == "–":
        return (
            f"There are too few queries to test the difference from {brief(comparison.baseline)}."
        )
    tail = "" if len(comparison.pairs) < 2 else f" {_CORRECTIONS[comparison.correction]}"
    which = "strongest baseline" if comparison.candidates else "baseline"
    return (
        f"The difference from the {which} {brief(comparison.baseline)} ({signed(pair.difference)}{between}) "
        f"{verdict}{p_part}{tail}."
    )


def _why_best(findings: Findings) -> str:
    wanted = findings.results.baseline
    if wanted is None:
        return ", since the run names no baseline"
    if isinstance(wanted, str):
        is_it = wanted == findings.baseline
        return "" if is_it else f", since the baseline {brief(wanted)} has no values"
    if findings.baseline in wanted:
        return f" as the strongest of {listed([brief(name) for name in wanted])}"
    return ", since none of the baselines has values"


def _tie_sentence(findings: Findings, best: str) -> str:
    comparison = findings.comparison
    if comparison is None or all(pair.n_queries < 2 for pair in comparison.pairs):
        return ""
    standings = {name: findings.standings[name, findings.primary] for name in findings.ranked()}
    others = [name for name in standings if name not in (best, comparison.baseline)]
    tied = [name for name in others if standings[name].is_tied_with_best]
    if tied:
        verb = "does" if len(tied) == 1 else "do"
        return f"{listed([brief(name) for name in tied])} {verb} not differ significantly from it."
    is_known = all(
        not standings[name].is_partial and math.isfinite(standings[name].mean) for name in others
    )
    if not others or not is_known:
        return ""
    verb = "The other is" if len(others) == 1 else "All others are"
    return f"{verb} significantly worse."


def sentences(*texts: str) -> str:
    """Texts as sentences, one after the other."""
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in texts if text)


def conventions(measure: str, known: dict[str, str]) -> tuple[str, list[str]]:
    """What a measure is, and its conventions, in words."""
    try:
        parsed = parse_measure(measure)
    except InputError:  # a name that only the run's author knows
        return measure, [f"{name}: {value}" for name, value in known.items()]
    texts = known or parsed.conventions
    return _meaning(parsed), [_in_words(name, value) for name, value in texts.items()]


def _meaning(measure: Measure) -> str:
    meaning = FORMS[measure.name].meaning
    if measure.k is not None:
        return f"{meaning}, over the first {count(measure.k, 'document')} of a ranking"
    if isinstance(measure.cutoff, tuple):
        low, high = measure.cutoff
        return f"{meaning}, between false-positive rates of {low:g} % and {high:g} %"
    return meaning


def _in_words(name: str, value: str) -> str:
    if (name, value) in _CONVENTIONS:
        return _CONVENTIONS[name, value]
    sentence = _CONVENTION_SENTENCES.get(name)
    return sentence.format(value) if sentence else f"{name}: {value}"
