"""``evaluate``: measures of a ranking, with intervals, counts and conventions.

A call goes through these steps: the texts are parsed into measures (``_parse``); every measure is computed for every
query, and measures that read the same lists share one sort (``_measured``); then means, intervals and counts are taken
over all queries, and over each segment if there are any (``_results``). Measures of all documents together (auc, pauc,
rmse, unless they say ``over=queries``) are computed from the documents of the queries instead of from values per query
(``pooled_results``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwood._core import checks
from rankwood.binning.binned import BinnedData
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Floats, Rows
from rankwood.errors import DataError, ParameterError, UnknownName
from rankwood.evaluation.paired_tests import NO_INTERVAL, Interval, Resampling, weighted_values
from rankwood.evaluation.results import Result, Tables, interval_ends, show_number
from rankwood.measures.agreement import PooledCurve, squared_errors
from rankwood.measures.compute import query_values
from rankwood.measures.listwise import largest_label
from rankwood.measures.measure import Measure, parse_measure, show, squeeze
from rankwood.measures.ranking import Lists, QueryValues, lists_for

__all__ = ["DEFAULT_MEASURES", "Evaluation", "MeasureResult", "evaluate"]

DEFAULT_MEASURES = ("ndcg@10", "map", "mrr", "err@10")
_MOST_RESAMPLES = 1_000_000  # no interval gets better by more; they are kept in memory
MeasureTexts = str | Measure | Sequence[str | Measure]
# Each resample of an area visits all documents: above this many visits there are fewer resamples.
_MOST_STEPS = 100_000_000
_LEAST_RESAMPLES = 100
_WEIGHTS_AT_ONCE = 2_000_000  # 16 MB


def evaluate(
    scores_or_model: Any,
    data: RankingData,
    measures: MeasureTexts = DEFAULT_MEASURES,
    *,
    preset: str | None = None,
    by: Any = None,
    judged: Any = None,
    retrieved: Any = None,
    unjudged: str = "as_zero",
    n_bootstrap: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    n_threads: int | None = None,
) -> Evaluation:
    """Measures of the ranking that scores give the documents of each query.

    Parameters
    ----------
    scores_or_model
        One score per row in the data's row order, or anything with ``predict(data)``.
    measures
        Texts such as ``"ndcg@10"``, or ``Measure`` values.
    preset
        Conventions for what the texts leave open: letor3, letor4, mslr, lightgbm, xgboost,
        trec_eval, sklearn, yahoo.
    by
        Segments of queries: an array with one value per query or per row, or the name of a feature.
        Adds a row per segment.
    judged, unjudged
        ``judged`` marks the rows whose label is known. The others have label 0
        (``unjudged="as_zero"``) or are left out of the rankings (``"condense"``).
    retrieved
        Marks the rows that were retrieved; relevant rows that were not count as missed.
    n_bootstrap, confidence, seed
        Intervals are percentiles over resampled queries, (nan, nan) with fewer than two queries;
        ``n_bootstrap=0`` leaves them out. Areas over more than 100,000 documents take fewer
        resamples, but at least 100.

    Means are weighted by ``data.query_weights`` if there are any; empty queries count like the
    others unless a measure says ``empty=skip``. Pooled measures (auc, pauc, rmse without
    ``over=queries``) are taken over all documents, each with the weight of its query.
    """
    n_bootstrap = checks.whole_number("n_bootstrap", n_bootstrap, 0, _MOST_RESAMPLES)
    seed = checks.whole_number("seed", seed, 0)
    confidence = checks.real_number("confidence", confidence, "(0, 1)")
    texts, parsed = _parse(measures, preset)
    scores = _scores_of(scores_or_model, data)
    data = data.data if isinstance(data, BinnedData) else data
    documents = {"judged": judged, "retrieved": retrieved, "unjudged": unjudged}
    parts = _measured(parsed, scores, data, n_threads=n_threads, **documents)
    weights = data.judgments.query_weights_or_ones
    sampling = _Sampling(n_bootstrap, confidence, seed, n_threads)
    everything = np.ones(data.n_queries, bool)
    extra = {} if judged is None else {"unjudged": unjudged}
    if data.query_weights is not None:
        extra["weights"] = "of queries"
    segments = {
        name: Evaluation(tuple(_results(parts, weights, mask, sampling, extra)), texts, confidence)
        for name, mask in segment_masks(by, data).items()
    }
    results = tuple(_results(parts, weights, everything, sampling, extra))
    return Evaluation(results, texts, confidence, segments)


@dataclass(frozen=True, eq=False)
class MeasureResult:
    """A measure of one ranking of a data set.

    ``per_query`` is in the order of ``data.queries``, NaN where a query is left out or has no value
    of its own; of a pooled measure it holds the values of ``measure.over_queries``, whose mean is another
    number than ``value``. ``n_queries`` counts the queries that the value is computed from, ``n_empty`` the
    queries without relevant documents. ``conventions`` holds every convention in force; those that
    follow from the data have their values filled in.
    """

    measure: Measure
    value: float
    interval: Interval
    per_query: Floats = field(repr=False)
    n_queries: int
    n_empty: int
    conventions: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, without the per-query values."""
        return {
            "measure": str(self.measure),
            "value": self.value,
            "interval": list(self.interval),
            "n_queries": self.n_queries,
            "n_empty": self.n_empty,
            "conventions": dict(self.conventions),
        }


@dataclass(frozen=True, eq=False)
class Evaluation(Result):
    """The results of one evaluation, by measure: ``result["ndcg@10"].value``.

    The key is the text that was passed to ``evaluate``, the measure's canonical text, or the
    ``Measure`` itself; spaces and capitals do not matter. With ``by``, ``segments`` holds one such
    evaluation per segment of queries.
    """

    results: tuple[MeasureResult, ...]
    texts: tuple[str, ...]
    confidence: float = 0.95
    segments: Mapping[Any, Evaluation] = field(default_factory=dict)

    def __getitem__(self, measure: str | Measure) -> MeasureResult:
        asked = squeeze(str(measure))
        for text, result in zip(self.texts, self.results, strict=True):
            if asked in (squeeze(text), str(result.measure)) and not isinstance(measure, Measure):
                return result
            if result.measure == measure:
                return result
        raise UnknownName("measure of this evaluation", str(measure), self.texts)

    def __contains__(self, measure: object) -> bool:
        try:
            return isinstance(measure, (str, Measure)) and self[measure] is not None
        except UnknownName:
            return False

    def __iter__(self) -> Iterator[MeasureResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON, by the text that names each measure."""
        plain: dict[str, Any] = {
            text: result.to_dict() for text, result in zip(self.texts, self.results, strict=True)
        }
        if self.segments:
            plain = {
                "all": plain,
                "segments": {str(name): part.to_dict() for name, part in self.segments.items()},
            }
        return plain

    def rows(self) -> list[dict[str, str]]:
        """The table's rows as texts: one per measure, with ``by`` one per segment and measure."""
        rows = _rows_of(self)
        if not self.segments:
            return rows
        rows = [{"segment": "all"} | row for row in rows]
        for name, part in self.segments.items():
            rows += [{"segment": str(name)} | row for row in _rows_of(part)]
        return rows

    def notes(self) -> list[str]:
        """One line per measure with its conventions."""
        lines = []
        for text, result in zip(self.texts, self.results, strict=True):
            conventions = ", ".join(f"{name} {value}" for name, value in result.conventions.items())
            lines.append(f"{text}: {conventions or 'no conventions'}")
        return lines

    def _tables(self) -> Tables:
        return {"": self.rows()}

    _footnotes = notes

    def _records(self) -> list[dict[str, Any]]:
        """A record per segment and measure; the segment "all" is every query."""
        parts = {"all": self} | {str(name): part for name, part in self.segments.items()}
        return [
            {
                "segment": name,
                "measure": text,
                "value": result.value,
                **interval_ends(result.interval),
                "queries": result.n_queries,
                "empty": result.n_empty,
            }
            for name, part in parts.items()
            for text, result in zip(part.texts, part.results, strict=True)
        ]

    def __str__(self) -> str:
        return super().__str__() if self.results else "no measures"


def _rows_of(evaluation: Evaluation) -> list[dict[str, str]]:
    """A row of texts per measure, without segments."""
    share = f"{100 * evaluation.confidence:g} % interval"
    return [
        {
            "measure": text,
            "value": show_number(result.value),
            share: f"{show_number(result.interval[0])} – {show_number(result.interval[1])}",
            "queries": f"{result.n_queries:,}",
            "empty": f"{result.n_empty:,}",
        }
        for text, result in zip(evaluation.texts, evaluation.results, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Measured:
    """A measure of every query, and the lists it was computed from."""

    measure: Measure
    lists: Lists
    queries: QueryValues


@dataclass(frozen=True)
class _Sampling:
    n_bootstrap: int
    confidence: float
    seed: int
    n_threads: int | None


def _parse(
    measures: MeasureTexts, preset: str | None
) -> tuple[tuple[str, ...], tuple[Measure, ...]]:
    """The texts as given and the measures they name, each once."""
    asked = [measures] if isinstance(measures, (str, Measure)) else list(measures)
    if not asked:
        raise ParameterError("measures is empty; name at least one, such as 'ndcg@10'.")
    measure_of_text: dict[str, Measure] = {}
    for given in asked:
        text, measure = squeeze(str(given)), parse_measure(given, preset)
        if measure_of_text.setdefault(text, measure) != measure:
            raise ParameterError(
                f"'{text}' is asked for twice, with different conventions: those of the preset "
                f"'{preset}' belong to texts, not to Measure values. Pass all as one or the other."
            )
    return tuple(measure_of_text), tuple(measure_of_text.values())


def _scores_of(scores_or_model: Any, data: RankingData) -> Any:
    predict = getattr(scores_or_model, "predict", None)
    scores = scores_or_model if predict is None else predict(data)
    return scores.compute() if hasattr(scores, "compute") else scores  # of Dask


def _measured(
    measures: Sequence[Measure], scores: Any, data: RankingData, **options: Any
) -> list[_Measured]:
    """Every measure of every query; measures that read the same lists share one sort."""
    shared: dict[tuple[bool, bool], Lists] = {}
    parts = []
    for measure in measures:
        kind = measure.ties == "docid", measure.name == "judged"
        if kind not in shared:
            shared[kind] = lists_for(measure, scores, data, **options)
        parts.append(_Measured(measure, shared[kind], query_values(measure, shared[kind])))
    return parts


def _results(
    parts: Sequence[_Measured],
    weights: Floats,
    mask: Any,
    sampling: _Sampling,
    extra: dict[str, str],
) -> list[MeasureResult]:
    """One result per measure, over the queries in ``mask``."""
    resampling = Resampling.of(
        int(mask.sum()),
        sampling.n_bootstrap,
        sampling.confidence,
        sampling.seed,
        sampling.n_threads,
    )
    means = _means(
        [part for part in parts if not part.measure.is_pooled], weights, mask, resampling
    )
    results = []
    for part in parts:
        if part.measure.is_pooled:
            value, interval = pooled_results(part.measure, part.lists, weights, mask, resampling)
        else:
            value, interval = means[part.measure]
        in_mask = part.queries.values[mask]
        is_counted = np.ones(in_mask.size, bool) if part.measure.is_pooled else ~np.isnan(in_mask)
        results.append(
            MeasureResult(
                measure=part.measure,
                value=value,
                interval=interval,
                per_query=in_mask,
                n_queries=int(is_counted.sum()),
                n_empty=int(part.queries.is_empty[mask].sum()),
                conventions=_conventions(part) | extra,
            )
        )
    return results


def _means(
    parts: Sequence[_Measured], weights: Floats, mask: Any, resampling: Resampling
) -> dict[Measure, tuple[float, Interval]]:
    """Weighted means over queries with their intervals; all measures see the same resamples."""
    if not parts:
        return {}
    values = np.stack([part.queries.values[mask] for part in parts], axis=1)
    weighted, weight = weighted_values(values, weights[mask])
    above, below = weighted.sum(axis=0), weight.sum(axis=0)
    means = np.divide(above, below, out=np.full(len(parts), np.nan), where=below > 0)
    intervals = resampling.ratio_intervals(weighted, weight)
    return {
        part.measure: (float(mean), interval)
        for part, mean, interval in zip(parts, means, intervals, strict=True)
    }


def _conventions(part: _Measured) -> dict[str, str]:
    """The measure's conventions; those that follow from the data have their values filled in."""
    conventions = part.measure.conventions
    if "max" in conventions and part.measure["max"] is None:
        largest = largest_label(part.measure, part.lists)
        conventions["max"] = f"{show(largest)} (the data's)"
    return conventions


# Measures of all documents together, with intervals over resampled queries.


def pooled_results(
    measure: Measure, lists: Lists, weights: Floats, mask: Any, resampling: Resampling
) -> tuple[float, Interval]:
    """The value over the documents of the queries in ``mask``, and its interval."""
    if measure.name == "rmse":
        return _rmse(lists, weights, mask, resampling)
    return _area(measure, lists, weights, mask, resampling)


def _rmse(
    lists: Lists, weights: Floats, mask: Any, resampling: Resampling
) -> tuple[float, Interval]:
    squares = (weights * squared_errors(lists))[mask]
    sizes = (weights * np.diff(lists.offsets))[mask]
    if sizes.sum() <= 0:
        return float("nan"), NO_INTERVAL
    value = float(np.sqrt(squares.sum() / sizes.sum()))
    if not np.isfinite(value):
        return value, NO_INTERVAL
    columns = squares[:, np.newaxis], sizes[:, np.newaxis]
    low, high = resampling.ratio_intervals(*columns)[0]
    return value, (float(np.sqrt(low)), float(np.sqrt(high)))


def _area(
    measure: Measure, lists: Lists, weights: Floats, mask: Any, resampling: Resampling
) -> tuple[float, Interval]:
    """Area under the ROC curve: documents are sorted once, resamples only change their weights."""
    curve = PooledCurve.of(lists, float(measure["relevant"]), np.flatnonzero(mask))
    weights = weights[mask]
    value = float(curve.areas(weights[np.newaxis, :], measure.rates)[0])
    if weights.size < 2 or resampling.n_bootstrap == 0 or np.isnan(value):
        return value, NO_INTERVAL
    affordable = max(_LEAST_RESAMPLES, _MOST_STEPS // curve.scores.size)
    n_resamples = min(resampling.n_bootstrap, affordable)
    at_once = max(1, _WEIGHTS_AT_ONCE // weights.size)
    estimates = [
        curve.areas(part[:, resampling.unit_of_query] * weights, measure.rates)
        for counts in resampling.counts(n_resamples)
        for part in np.array_split(counts, -(-len(counts) // at_once))
    ]
    return value, resampling.interval(np.concatenate(estimates))


# Segments of queries: the queries that share a value of a column.


def segment_masks(by: Any, data: RankingData) -> dict[Any, npt.NDArray[np.bool_]]:
    """For each segment, in sorted order, which queries belong to it; nothing without ``by``."""
    if by is None:
        return {}
    names, segments = _numbered(_column(by, data))
    segment_of_query = _of_queries(segments, data)
    return {
        name: segment_of_query == number
        for number, name in enumerate(names)
        if np.any(segment_of_query == number)
    }


def _column(by: Any, data: RankingData) -> Array:
    if isinstance(by, str):
        if by not in data.names:
            raise UnknownName("feature to segment by", by, data.names)
        return data.features[:, data.names.index(by)]
    values = np.asarray(by)
    if values.ndim != 1:
        raise DataError(f"by must have one dimension, got {values.ndim}.")
    return values


def _numbered(values: Array) -> tuple[list[Any], Rows]:
    """The distinct values in sorted order, and the number of each value among them."""
    try:
        distinct, numbers = np.unique(values, return_inverse=True)
    except TypeError:  # values of several types have no order: their texts have
        texts = [str(value) for value in values.tolist()]
        distinct, numbers = np.unique(texts, return_inverse=True)
    return distinct.tolist(), numbers


def _of_queries(segments: Rows, data: RankingData) -> Rows:
    """One segment per query, from one per query or one per row."""
    if segments.size == data.n_queries and segments.size != data.n_documents:
        return segments
    if segments.size != data.n_documents:
        raise DataError(
            f"by has {segments.size:,} values; it needs one per query ({data.n_queries:,}) "
            f"or one per row ({data.n_documents:,})."
        )
    of_queries = segments[data.row_order[data.query_offsets[:-1]]]
    differs = of_queries[data.query_of_row] != segments
    if np.any(differs):
        row = int(np.argmax(differs))
        query = data.queries.tolist()[int(data.query_of_row[row])]
        raise DataError(
            f"by changes within query {query!r} (row {row}); "
            "all rows of a query belong to one segment."
        )
    return of_queries
