"""Numbers and sentences of the report as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankwood.errors import InputError
from rankwood.evaluation.significance import ALL_PAIRS, Comparison, PairResult
from rankwood.experiments.report.drawing import shorten
from rankwood.experiments.report.findings import Findings, is_lower_better
from rankwood.measures.measure import FORMS, Measure, parse_measure

TEST_NAMES = {
    "wilcoxon": "Wilcoxon's signed-rank test",
    "t": "the paired t test",
    "randomization": "Fisher's randomisation test",
}
SHORT_TEST_NAMES = {"wilcoxon": "Wilcoxon", "t": "t test", "randomization": "randomisation"}
_CORRECTIONS = {"holm": "after Holm's correction", "bonferroni": "after Bonferroni's correction"}
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
    (
        "pooled",
        "over documents",
    ): "taken over the documents of all queries together, fold by fold: there are no values "
    "by query and no tests, which the form with over=queries has",
    ("over", "queries"): "the mean over queries of each query's own value",
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


def correction_text(comparison: Comparison) -> str:
    """How p values against the baseline were adjusted, and over how many comparisons."""
    if comparison.correction == "none":
        return "without correction for several comparisons"
    over = f"over {count(comparison.n_compared, 'comparison')}"
    if comparison.n_measures > 1:
        over += f" by {comparison.n_measures} measures"
    if comparison.family == ALL_PAIRS:
        return f"corrected {over}, those of all pairs"
    return f"{_CORRECTIONS[comparison.correction]} {over}"


def interval_text(comparison: Comparison, pair: PairResult) -> str:
    """The interval of a difference with its name; nothing where there is none."""
    bounds = interval(pair.interval, signed)
    of_median = "" if pair.median is None else f"Hodges-Lehmann median {signed(pair.median)}, "
    return f"{of_median}{comparison.interval_title} {bounds}" if bounds else ""


def what_differs(comparison: Comparison) -> str:
    """What charts show of the differences: what the intervals are of."""
    return "Median difference" if comparison.test == "wilcoxon" else "Difference"


def interval_beside(pair: PairResult) -> str:
    """The interval of a difference, after the median that it is of where it is not of the mean."""
    bounds = interval(pair.interval, signed)
    of_median = "" if pair.median is None else f"median {signed(pair.median)}, "
    return f"{of_median}{bounds}" if bounds else ""


def pairs_text(comparison: Comparison) -> str:
    """What differences from the best are corrected over."""
    across = f" by {comparison.n_measures} measures" if comparison.n_measures > 1 else ""
    return f"{count(comparison.n_pairs, 'pair')}{across}"


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
    left_out = results.record.get("left_out")
    if left_out:
        reasons = [f"{name} ({str(why).partition(': ')[0]})" for name, why in left_out.items()]
        sentences.append(f"Left out: {listed(reasons)}.")
    if n_failed:
        sentences.append(f"{count(n_failed, 'cell')} of {len(results.cells):,} failed; see below.")
    return " ".join(sentence for sentence in sentences if sentence)


def _first_message(findings: Findings) -> str:
    lines = [cell.message.strip() for cell in findings.results.cells if cell.message.strip()]
    return f" The first says: {lines[0].splitlines()[-1]}" if lines else ""


def _best_sentence(findings: Findings, best: str) -> str:
    results, standing = findings.results, findings.standings[best, findings.primary]
    bounds = interval(standing.interval)
    value = number(standing.mean) + (f", {findings.confidence} interval {bounds}" if bounds else "")
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
    pair, test = comparison[best], comparison.test
    verdict = "is significant" if comparison.is_significant(best) else "may be chance"
    bounds = interval_text(comparison, pair)
    between = f", {bounds}" if bounds else ""
    p = p_text(pair.adjusted[test])
    p_part = "" if p == "–" else f": p {p if p.startswith('<') else '= ' + p} by {TEST_NAMES[test]}"
    if p == "–":
        return (
            f"There are too few queries to test the difference from {brief(comparison.baseline)}."
        )
    tail = "" if comparison.n_compared < 2 else f" {correction_text(comparison)}"
    which = "strongest baseline" if comparison.candidates else "baseline"
    return (
        f"The difference from the {which} {brief(comparison.baseline)} ({signed(pair.difference)}{between}) "
        f"{verdict}{p_part}{tail}{_why_both(comparison, pair)}."
    )


def _why_both(comparison: Comparison, pair: PairResult) -> str:
    """Why the verdict and the interval beside it are both right, where they seem to disagree."""
    low, high = pair.interval
    is_significant = comparison.is_significant(pair.name)
    if is_significant and low <= 0.0 <= high:
        return "; the interval ends at 0, because opposite differences count half in this test"
    if not is_significant and (low > 0.0 or high < 0.0):
        return "; the interval excludes 0, because it is that of this comparison without correction"
    return ""


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
        verb = "is" if len(tied) == 1 else "are"
        names = listed([brief(name) for name in tied])
        return f"{names} {verb} not shown to differ from it, over all pairs of algorithms."
    is_known = all(
        not standings[name].is_partial and math.isfinite(standings[name].mean) for name in others
    )
    if not others or not is_known:
        return ""
    verb = "The other is" if len(others) == 1 else "All others are"
    return f"{verb} significantly worse than it, over all pairs of algorithms."


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
