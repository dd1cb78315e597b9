"""``make_ranking``, ``make_transfer`` and ``make_feature_costs``: seeded data with the shape of web search.

A document has hidden qualities, its *latents*: standard normal numbers that say how well each text of the page matches
the query, and how good the page itself is. Relevance is a nonlinear function of the latents (``relevance_of``), plus
noise and an offset per query; labels are thresholds of relevance (``grade``). A feature sees one latent through noise
(its *loading* is the correlation) and is then transformed to its *shape*, a distribution such as a count, a ratio or a
retrieval score (``SHAPES``).

Queries are drawn in blocks, each from random streams of its own and directly into its rows of the result. Memory stays
near the size of the result, and the number of threads changes nothing.

Shapes use only additions, multiplications and divisions instead of ``exp`` and ``tanh``, because those give the same
bits on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankwood._core import checks
from rankwood._core.random import stream
from rankwood._core.threads import run_blocks
from rankwood.data.dataset import RankingData
from rankwood.dtypes import Array, Features, Floats, Rows
from rankwood.errors import ParameterError

WEB10K_LABEL_SHARES = (0.520, 0.322, 0.133, 0.018, 0.007)  # grades 0 to 4 of MSLR-WEB10K

_MISSING_BY = ("chance", "low")
_COST_STEP = 4.0  # ratio of the costs of a group of features and the group before

_SOURCE, _TARGET = 0, 1  # countries
_EMPTY_SHARE = 0.03

_BLOCK = 32  # queries drawn together: two megabytes, which stay in the cache
_LENGTH_SPREAD = 0.55  # of the logarithm; WEB10K has 1 to 908 documents a query, 120 on average
_DIFFICULTY = 0.5  # spread of the queries' own offset, in units of the documents' spread
_NORMAL = np.float32

STREAMS = ("body", "anchor", "title", "url", "whole")  # the five texts of a page in WEB10K
PAGE_LATENTS = ("authority", "popularity", "spam")
N_LATENTS = len(STREAMS) + len(PAGE_LATENTS)

_STREAM_STATISTICS = (
    ("bm25", "score"),
    ("covered_terms", "count"),
    ("tfidf_sum", "skewed"),
    ("cosine", "ratio"),
    ("tf_sum", "count"),
    ("tf_max", "rare"),
    ("language_model", "negative"),
    ("boolean_match", "flag"),
    ("tf_variance", "skewed"),
    ("length", "large"),
    ("tf_min", "rare"),
    ("covered_ratio", "ratio"),
)
_PAGE_STATISTICS = (  # name, shape, which of PAGE_LATENTS
    *(("pagerank", "large", 0), ("clicks", "rare", 1), ("spam_score", "ratio", 2)),
    *(("inlinks", "count", 0), ("dwell_time", "skewed", 1), ("url_slashes", "count", 2)),
    *(("siterank", "large", 0), ("visits", "large", 1), ("ad_share", "ratio", 2)),
    *(("outlinks", "count", 0), ("bookmarks", "rare", 1), ("bad_quality", "score", 2)),
)
_QUERY_SHAPES = ("score", "count")
_NOISE_SHAPES = ("count", "score", "ratio", "large", "skewed", "negative")
_QUERY_SHARE = 0.5  # share of the uninformative features that describe the query


def make_ranking(
    n_queries: int = 100,
    docs_per_query: float = 120,
    n_features: int = 136,
    *,
    n_informative: int | None = None,
    noise: float = 0.9,
    label_shares: Sequence[float] = WEB10K_LABEL_SHARES,
    missing: float = 0.0,
    missing_by: str = "chance",
    costs: bool = False,
    empty_share: float = 0.03,
    seed: int = 0,
    doc_ids: bool = False,
) -> RankingData:
    """Ranking data with the shape of web search.

    Features are skewed, zero-inflated, counts or ratios; groups of them see the same hidden quality
    of a document through noise, so that a model of many features ranks better than any single one.
    Relevance is not linear in those qualities, and each query has its own difficulty. How much each
    feature knows depends on the seed: for training and test parts, split one data set by query.

    Parameters
    ----------
    n_queries, docs_per_query, n_features
        Size. ``docs_per_query`` is the mean; lengths vary like a log-normal, from 1 to 8 times
        the mean.
    n_informative
        Features that know something about relevance, 60 % by default. Of the others half describe
        the query (equal for all its documents) and half are noise, named ``noise_1``, …
    noise
        Spread of what no feature can know, in units of relevance's own spread.
    label_shares
        Share of each label, from 0 up; WEB10K's by default. Met exactly, to the rounding of counts.
    missing
        Share of all values that are NaN; some features lack many, others none.
    missing_by
        Which values those are: any of a feature alike ("chance"), or the likelier the lower they are ("low"), as
        where a search engine finds nothing to compute a feature from.
    costs
        Make cheap features weak and some costly ones strong; the costs are
        ``make_feature_costs(n_features, seed=seed)``.
    empty_share
        Share of queries forced to have no relevant document. Hard or short ones may be empty too.
    seed
        The same seed gives the same data, for any number of threads.
    doc_ids
        Give each row an identifier.
    """
    shares = _checked_shares(label_shares, empty_share)
    noise = checks.real_number("noise", noise, "[0, inf)")
    missing = checks.real_number("missing", missing, "[0, 0.9]")
    checks.one_of("missing_by", missing_by, _MISSING_BY)
    seed = checks.whole_number("seed", seed, 0)
    n_features = checks.whole_number("n_features", n_features, 1)
    if n_informative is None:
        n_informative = max(1, round(0.6 * n_features))
    n_informative = checks.whole_number("n_informative", n_informative, 1, n_features)
    strengths = _strengths(make_feature_costs(n_features, seed=seed), seed) if costs else None
    columns = make_columns(n_features, n_informative, strengths, seed)
    sizes = draw_sizes(n_queries, docs_per_query, seed)
    features, relevance = draw_rows(RowPlan(seed, sizes, columns, noise))
    if missing > 0:
        _erase(features, missing, missing_by == "low", seed)
    return RankingData(
        features,
        grade(relevance, sizes, shares, empty_share, seed),
        np.repeat(np.arange(1, sizes.size + 1), sizes),
        doc_ids=name_documents("d", relevance.size) if doc_ids else None,
        feature_names=columns.names,
    )


def make_feature_costs(n_features: int, groups: int = 5, seed: int = 0) -> Floats:
    """The cost of computing each feature: ``groups`` equal groups costing 1, 4, 16, … each.

    With ``make_ranking(costs=True)`` cheap features know little. Of the costly ones half know much
    and half know as little as the cheap: a learner has to find out which are worth their price.
    """
    n_features = checks.whole_number("n_features", n_features, 1)
    groups = checks.whole_number("groups", groups, 1)
    seed = checks.whole_number("seed", seed, 0)
    order = stream(seed, "synthetic costs").permutation(n_features)
    return np.asarray(_COST_STEP ** (order * groups // n_features), np.float64)


def _strengths(costs: Floats, seed: int) -> Floats:
    """Factors of the loadings: 0.4 for the cheapest, up to 1.5 for half of the costly features."""
    levels = np.log(costs) / max(float(np.log(costs).max()), 1.0)
    is_worth_it = stream(seed, "synthetic worth").random(costs.size) < 0.5
    return np.where(is_worth_it, 0.4 + 1.1 * levels, 0.4)


def _erase(features: Features, missing: float, by_value: bool, seed: int) -> None:
    """Make ``missing`` of all values NaN, at rates that differ from feature to feature."""
    n_features = features.shape[1]
    n_affected = max(1, round(n_features * (0.5 + 0.5 * missing)))
    mean = min(missing * n_features / n_affected, 0.98)
    # Rates are symmetric about the mean, which keeps it, and within 0 and 1.
    rates = mean + min(mean, 1 - mean) * 0.8 * np.linspace(-1, 1, n_affected + 2)[1:-1]
    affected = stream(seed, "synthetic gappy features").permutation(n_features)[:n_affected]
    for iteration, (feature, rate) in enumerate(zip(affected, rates, strict=True)):
        drawn = stream(seed, "synthetic gaps", iteration).random(len(features), np.float32)
        chances = _falling(features[:, feature], float(rate)) if by_value else rate
        features[drawn < chances, feature] = np.nan


def _falling(column: Features, rate: float) -> Floats:
    """Probabilities that fall linearly in the rank of the value, with the mean ``rate``."""
    _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    # The share of rows with a smaller value, plus half of those with the same value: 1/2 on average.
    below = ((np.cumsum(counts) - counts / 2) / column.size)[inverse]
    return 2 * rate * (1 - below) if rate <= 0.5 else 1 - 2 * (1 - rate) * below


def _checked_shares(shares: Any, empty_share: Any) -> Floats:
    try:
        array = np.asarray(shares, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"label_shares must be a list of numbers, got {shares!r}.") from None
    if array.ndim != 1 or not (array >= 0).all() or abs(array.sum() - 1) > 1e-6:
        raise ParameterError(
            f"label_shares must be numbers of at least 0 that sum to 1, got {array.tolist()}."
        )
    if checks.real_number("empty_share", empty_share, "[0, 1]") > array[0]:
        raise ParameterError(
            f"empty_share is {empty_share:g}, but label_shares[0] lets only {array[0]:g} of the "
            "labels be 0. Lower the one or raise the other."
        )
    return array


class Transfer(NamedTuple):
    """Two data sets over the same features, and which source documents are like the target's."""

    source: RankingData
    target: RankingData
    is_similar: Array  # one bool per source document: what a transfer method should find


def make_transfer(
    n_source_queries: int = 100,
    n_target_queries: int = 20,
    docs_per_query: float = 120,
    n_features: int = 136,
    *,
    similar_share: float = 0.5,
    shift: float = 0.5,
    noise: float = 0.9,
    seed: int = 0,
) -> Transfer:
    """A source "country" with many judgments and a target with few, which partly agree on relevance.

    A source document is similar to the target with probability ``similar_share``: its features
    follow the target's distribution and its label the target's notion of relevance. Any other
    document has its hidden qualities moved by ``shift`` standard deviations and its label made by
    another notion of relevance, so that learning from it misleads.
    """
    share = checks.real_number("similar_share", similar_share, "[0, 1]")
    shift = checks.real_number("shift", shift, "[0, inf)")
    noise = checks.real_number("noise", noise, "[0, inf)")
    seed = checks.whole_number("seed", seed, 0)
    n_features = checks.whole_number("n_features", n_features, 1)
    n_source = checks.whole_number("n_source_queries", n_source_queries, 1)
    n_target = checks.whole_number("n_target_queries", n_target_queries, 1)
    columns = make_columns(n_features, max(1, round(0.6 * n_features)), None, seed)
    source_seed, target_seed = (_country_seed(seed, country) for country in (_SOURCE, _TARGET))
    source_sizes = draw_sizes(n_source, docs_per_query, source_seed)
    target_sizes = draw_sizes(n_target, docs_per_query, target_seed)
    drawn = stream(seed, "synthetic similar").random(int(source_sizes.sum()))
    is_similar = drawn < share
    source = RowPlan(source_seed, source_sizes, columns, noise, ~is_similar, shift)
    target = RowPlan(target_seed, target_sizes, columns, noise)
    return Transfer(
        _country(source, columns, "s", np.arange(1, n_source + 1)),
        _country(target, columns, "t", np.arange(n_source + 1, n_source + n_target + 1)),
        is_similar,
    )


def _country_seed(seed: int, country: int) -> int:
    return int(stream(seed, "synthetic country", country).integers(2**62))


def _country(plan: RowPlan, columns: ColumnPlan, prefix: str, queries: Rows) -> RankingData:
    features, relevance = draw_rows(plan)
    shares = np.array(WEB10K_LABEL_SHARES)
    return RankingData(
        features,
        grade(relevance, plan.sizes, shares, _EMPTY_SHARE, plan.seed),
        np.repeat(queries, plan.sizes),
        doc_ids=name_documents(prefix, relevance.size),
        feature_names=columns.names,
    )


# Rows: their number, latents, features and labels.


@dataclass(frozen=True)
class RowPlan:
    """The parameters of the features and the relevance of the rows."""

    seed: int
    sizes: Rows  # documents of each query
    columns: ColumnPlan
    noise: float
    is_foreign: Array | None = None  # rows with another notion of relevance, for transfer
    shift: float = 0.0  # by which the latents of foreign rows are moved


def draw_sizes(n_queries: int, docs_per_query: float, seed: int) -> Rows:
    """Documents of each query: log-normal around the mean, at least 1."""
    n_queries = checks.whole_number("n_queries", n_queries, 1)
    mean = checks.real_number("docs_per_query", docs_per_query, "[1, 1e9]")
    normal = stream(seed, "synthetic sizes").standard_normal(n_queries)
    sizes = mean * np.exp(_LENGTH_SPREAD * normal - _LENGTH_SPREAD**2 / 2)
    return np.clip(np.rint(sizes), 1, np.ceil(8 * mean)).astype(np.int64)


def draw_rows(plan: RowPlan) -> tuple[Features, Features]:
    """The features of every row, and its relevance with noise and the query's difficulty."""
    offsets = np.concatenate([[0], np.cumsum(plan.sizes)])
    features = np.empty((int(offsets[-1]), len(plan.columns.names)), np.float32)
    relevance = np.empty(len(features), np.float32)

    def draw_blocks(first: int, last: int) -> None:
        for block in range(first, last):
            sizes = plan.sizes[block * _BLOCK : (block + 1) * _BLOCK]
            start = int(offsets[block * _BLOCK])
            rows = slice(start, start + int(sizes.sum()))
            difficulty = _normals(plan, "difficulty", block, sizes.size)
            latents, relevance[rows] = _draw_documents(plan, block, rows)
            relevance[rows] += np.repeat(_NORMAL(_DIFFICULTY) * difficulty, sizes)
            features[rows] = _draw_features(plan, block, latents, difficulty).T

    run_blocks(draw_blocks, -(-plan.sizes.size // _BLOCK))
    return features, relevance


def _normals(plan: RowPlan, purpose: str, block: int, *shape: int) -> Features:
    random = stream(plan.seed, f"synthetic {purpose}", block)
    return random.standard_normal(shape, dtype=np.float32)


def _draw_documents(plan: RowPlan, block: int, rows: slice) -> tuple[Features, Features]:
    """The latents (latents × documents) and the noisy relevance of a block's documents."""
    n_rows = rows.stop - rows.start
    latents = _normals(plan, "latents", block, N_LATENTS, n_rows)
    # The texts of a page agree: each has a correlation of 0.6 with the body.
    others = latents[1 : len(STREAMS)]
    others *= _NORMAL(0.8)
    others += _NORMAL(0.6) * latents[0]
    tastes = latents
    if plan.is_foreign is not None:
        is_foreign = plan.is_foreign[rows]
        latents += _NORMAL(plan.shift) * is_foreign
        tastes = np.where(is_foreign, latents[::-1], latents)  # other qualities matter
    chance = _normals(plan, "chance", block, n_rows)
    return latents, relevance_of(tastes) + _NORMAL(plan.noise) * chance


def _draw_features(plan: RowPlan, block: int, latents: Features, difficulty: Features) -> Features:
    """A block's features, as features × documents."""
    columns = plan.columns
    sizes = plan.sizes[block * _BLOCK : (block + 1) * _BLOCK]
    values = _normals(plan, "features", block, len(columns.names), latents.shape[1])
    for feature in np.flatnonzero(columns.loadings):
        loading = columns.loadings[feature]
        values[feature] *= np.sqrt(1 - loading * loading)
        values[feature] += loading * latents[columns.latents[feature]]
    # Features of the query correlate with its difficulty.
    own = _normals(plan, "query features", block, columns.query_level.size, sizes.size)
    own = _NORMAL(0.8) * own + _NORMAL(0.6) * difficulty
    values[columns.query_level] = np.repeat(own, sizes, axis=1)
    bend(values, columns)
    return values


def grade(
    relevance: Features, sizes: Rows, shares: Floats, empty_share: float, seed: int
) -> Floats:
    """Labels by thresholds on relevance, such that each label has its share of all rows."""
    n_empty = round(empty_share * sizes.size)
    is_empty = np.zeros(sizes.size, bool)
    is_empty[stream(seed, "synthetic empty").permutation(sizes.size)[:n_empty]] = True
    rows = np.flatnonzero(~np.repeat(is_empty, sizes))
    edges = np.rint(np.cumsum(shares) * relevance.size).astype(np.int64)[:-1]
    # The rows of empty queries already have label 0, so the others need fewer zeros.
    edges = np.maximum(edges - (relevance.size - rows.size), 0)
    labels = np.zeros(relevance.size)
    ascending = rows[np.argsort(relevance[rows], kind="stable")]
    labels[ascending] = np.searchsorted(edges, np.arange(rows.size), side="right")
    return labels


def name_documents(prefix: str, n_documents: int) -> Array:
    """One identifier per row, as text."""
    names = np.empty(n_documents, object)
    names[:] = [f"{prefix}{number}" for number in range(1, n_documents + 1)]
    return names


# Columns: names, shapes and what they know about relevance.


@dataclass(frozen=True)
class ColumnPlan:
    """The description of each feature, one entry per feature."""

    names: tuple[str, ...]
    shapes: tuple[str, ...]
    latents: Array
    loadings: Features
    query_level: Array  # indices of the features that are constant within a query


def make_columns(
    n_features: int, n_informative: int, strengths: Array | None, seed: int
) -> ColumnPlan:
    """``n_informative`` features that see a latent, then features of the query, then noise.

    ``strengths`` in [0, 1] weaken each feature's loading.
    """
    n_query = round((n_features - n_informative) * _QUERY_SHARE)
    parts = [_informative(number) for number in range(n_informative)]
    parts += [
        (_numbered(f"idf_{STREAMS[number % 5]}", number // 5), _QUERY_SHAPES[number % 2], 0)
        for number in range(n_query)
    ]
    parts += [
        (f"noise_{number + 1}", _NOISE_SHAPES[number % len(_NOISE_SHAPES)], 0)
        for number in range(n_features - n_informative - n_query)
    ]
    loadings = stream(seed, "synthetic loadings").uniform(0.25, 0.6, n_features)
    if strengths is not None:
        loadings = loadings * strengths
    loadings[n_informative:] = 0.0
    names, shapes, latents = zip(*parts, strict=True)
    query_level = np.arange(n_informative, n_informative + n_query)
    return ColumnPlan(names, shapes, np.array(latents), loadings.astype(np.float32), query_level)


def _informative(number: int) -> tuple[str, str, int]:
    """Name, shape and latent: a statistic of each of the five streams, then one of the page, and so on."""
    turn, position = divmod(number, len(STREAMS) + 1)
    again, statistic = divmod(turn, len(_STREAM_STATISTICS))
    if position < len(STREAMS):
        name, shape = _STREAM_STATISTICS[statistic]
        return _numbered(f"{name}_{STREAMS[position]}", again), shape, position
    name, shape, latent = _PAGE_STATISTICS[statistic]
    return _numbered(name, again), shape, len(STREAMS) + latent


def _numbered(name: str, again: int) -> str:
    return name if again == 0 else f"{name}_{again + 1}"


def bend(values: Features, columns: ColumnPlan) -> None:
    """Transform standard normal numbers (features × documents) to each feature's shape, in place."""
    for row, shape in zip(values, columns.shapes, strict=True):
        SHAPES[shape](row)


def _round(row: Features, decimals: int) -> None:
    """Round to ``decimals`` as text files do; values above 2^24 / 10^decimals are not rounded."""
    ten = np.float32(10.0**decimals)
    row *= ten
    np.rint(row, out=row)
    row /= ten


def _grow(row: Features, slope: float) -> None:
    """About exp(slope × value): (1 + x/8)^8, flat below x = -8."""
    row *= np.float32(slope / 8)
    row += np.float32(1)
    np.maximum(row, np.float32(0), out=row)
    for _ in range(3):
        np.square(row, out=row)


def _score(row: Features) -> None:
    """A retrieval score like BM25: right-skewed, 7 % zeros, mostly below 50."""
    row += np.float32(1.5)
    np.maximum(row, np.float32(0), out=row)
    np.square(row, out=row)
    row *= np.float32(3)
    _round(row, 6)


def _skewed(row: Features) -> None:
    _grow(row, 0.9)
    _round(row, 6)


def _count(row: Features) -> None:
    _grow(row, 0.8)
    row *= np.float32(2)
    np.floor(row, out=row)


def _large(row: Features) -> None:
    _grow(row, 1.4)
    row *= np.float32(300)
    np.floor(row, out=row)


def _rare(row: Features) -> None:
    """Zero for two of three documents."""
    row -= np.float32(0.43)
    np.maximum(row, np.float32(0), out=row)
    row *= np.float32(10)
    np.ceil(row, out=row)


def _ratio(row: Features) -> None:
    row /= 1 + np.abs(row)
    row *= np.float32(0.5)
    row += np.float32(0.5)
    _round(row, 6)


def _negative(row: Features) -> None:
    """A log-probability like those of language models."""
    row *= np.float32(-1)
    _grow(row, 0.3)
    row *= np.float32(-8)
    _round(row, 6)


def _flag(row: Features) -> None:
    np.greater(row, np.float32(0.5), out=row, casting="unsafe")


SHAPES: dict[str, Callable[[Features], None]] = {
    "score": _score,
    "skewed": _skewed,
    "count": _count,
    "large": _large,
    "rare": _rare,
    "ratio": _ratio,
    "negative": _negative,
    "flag": _flag,
}


def relevance_of(latents: Features) -> Features:
    """Relevance of documents from their latents (latents × documents), about standard normal.

    Streams have diminishing returns; title and anchor can replace each other; authority counts only
    for pages that match; popularity helps good matches most; much spam lowers relevance.
    """
    body, anchor, title, url, whole, authority, popularity, spam = latents
    matched = body / (1 + np.abs(body)) + 0.8 * whole / (1 + np.abs(whole)) + 0.4 * url
    either = np.maximum(title, anchor)
    trusted = authority * (body > 0) + 0.4 * popularity * np.maximum(whole, 0)
    spoiled = np.square(np.maximum(spam - 0.3, 0))
    # 0.5 and 1.7: mean and spread of the sum, found on a million documents.
    total = matched + 0.9 * either + 0.7 * trusted - spoiled
    return ((total - 0.5) / 1.7).astype(np.float32)  # type: ignore[no-any-return]
