"""``evaluate``: measures of a ranking, with intervals, counts and conventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Floats
from rankwood.errors import ParameterError
from rankwood.evaluation.bootstrap import Interval, Resampling
from rankwood.evaluation.pooled import pooled_results
from rankwood.evaluation.results import Evaluation, MeasureResult
from rankwood.evaluation.segments import segment_masks
from rankwood.measures.computing import query_values
from rankwood.measures.err import largest_label
from rankwood.measures.grouping import lists_for
from rankwood.measures.measure import Measure
from rankwood.measures.options import show
from rankwood.measures.parsing import parse_measure, squeeze
from rankwood.measures.ranking import Lists
from rankwood.measures.values import QueryValues

__all__ = ["DEFAULT_MEASURES", "Evaluation", "MeasureResult", "evaluate"]

DEFAULT_MEASURES = ("ndcg@10", "map", "mrr", "err@10")
_MOST_RESAMPLES = 1_000_000  # no interval gets better by more; they are kept in memory
MeasureTexts = str | Measure | Sequence[str | Measure]


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
    n_bootstrap: int = 1000,
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

    Means weigh queries by ``data.query_weights`` if there are any; empty queries weigh like the
    others unless a measure says ``empty=skip``. Pooled measures (auc, pauc, rmse) weigh documents
    by the weight of their query.
    """
    n_bootstrap = _checks.whole_number("n_bootstrap", n_bootstrap, 0, _MOST_RESAMPLES)
    seed = _checks.whole_number("seed", seed, 0)
    confidence = _checks.real_number("confidence", confidence, "(0, 1)")
    texts, parsed = _parse(measures, preset)
    scores = _scores_of(scores_or_model, data)
    documents = {"judged": judged, "retrieved": retrieved, "unjudged": unjudged}
    parts = _measured(parsed, scores, data, n_threads=n_threads, **documents)
    weights = np.ones(data.n_queries) if data.query_weights is None else data.query_weights
    sampling = _Sampling(n_bootstrap, confidence, seed)
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
class _Measured:
    """A measure of every query, and the lists it was taken from."""

    measure: Measure
    lists: Lists
    queries: QueryValues


@dataclass(frozen=True)
class _Sampling:
    n_bootstrap: int
    confidence: float
    seed: int


def _parse(
    measures: MeasureTexts, preset: str | None
) -> tuple[tuple[str, ...], tuple[Measure, ...]]:
    """The texts as given and the measures they name, each once."""
    asked = [measures] if isinstance(measures, (str, Measure)) else list(measures)
    if not asked:
        raise ParameterError("measures is empty; name at least one, such as 'ndcg@10'.")
    found: dict[str, Measure] = {}
    for given in asked:
        text, measure = squeeze(str(given)), parse_measure(given, preset)
        if found.setdefault(text, measure) != measure:
            raise ParameterError(
                f"'{text}' is asked for twice, with different conventions: those of the preset "
                f"'{preset}' belong to texts, not to Measure values. Pass all as one or the other."
            )
    return tuple(found), tuple(found.values())


def _scores_of(scores_or_model: Any, data: RankingData) -> Any:
    predict = getattr(scores_or_model, "predict", None)
    return scores_or_model if predict is None else predict(data)


def _measured(
    measures: Sequence[Measure], scores: Any, data: RankingData, **options: Any
) -> list[_Measured]:
    """Every measure of every query; measures that read the same lists share their rankings."""
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
        int(mask.sum()), sampling.n_bootstrap, sampling.confidence, sampling.seed
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
    is_counted = ~np.isnan(values)
    weight = weights[mask][:, np.newaxis] * is_counted
    weighted = weight * np.where(is_counted, values, 0.0)
    above, below = weighted.sum(axis=0), weight.sum(axis=0)
    means = np.divide(above, below, out=np.full(len(parts), np.nan), where=below > 0)
    intervals = resampling.ratio_intervals(weighted, weight)
    return {
        part.measure: (float(mean), interval)
        for part, mean, interval in zip(parts, means, intervals, strict=True)
    }


def _conventions(part: _Measured) -> dict[str, str]:
    """The measure's conventions, with what the data decided filled in."""
    conventions = part.measure.conventions
    if "max" in conventions and part.measure["max"] is None:
        largest = largest_label(part.measure, part.lists)
        conventions["max"] = f"{show(largest)} (the data's)"
    return conventions
