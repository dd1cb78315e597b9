"""The columns of synthetic data: their names, shapes and what they know about relevance.

Words used here
    latent    a hidden quality of a document, a standard normal number: how well one text stream
              matches the query, or a virtue of the page itself. Relevance is a function of latents;
              features see them only through noise.
    loading   the correlation of a feature, before it is bent into its shape, with its latent
    shape     how a standard normal number becomes a value like those of a search engine

Only additions, multiplications and divisions are used, in place of ``exp`` and ``tanh``: those are
the same to the last bit on every machine, the others are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankwood._random import stream
from rankwood.dtypes import Array, Features

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
    ("pagerank", "large", 0),
    ("clicks", "rare", 1),
    ("spam_score", "ratio", 2),
    ("inlinks", "count", 0),
    ("dwell_time", "skewed", 1),
    ("url_slashes", "count", 2),
    ("siterank", "large", 0),
    ("visits", "large", 1),
    ("ad_share", "ratio", 2),
    ("outlinks", "count", 0),
    ("bookmarks", "rare", 1),
    ("bad_quality", "score", 2),
)
_QUERY_SHAPES = ("score", "count")
_NOISE_SHAPES = ("count", "score", "ratio", "large", "skewed", "negative")
_QUERY_SHARE = (
    0.5  # of the features that tell nothing about a document, how many describe the query
)


@dataclass(frozen=True)
class Columns:
    """What each feature is; one entry per feature, ``n_query`` of them constant within a query."""

    names: tuple[str, ...]
    shapes: tuple[str, ...]
    latents: Array
    loadings: Features
    query_level: Array  # numbers of the features that are constant within a query


def make_columns(
    n_features: int, n_informative: int, strengths: Array | None, seed: int
) -> Columns:
    """``n_informative`` features that see a latent, then features of the query, then noise.

    ``strengths`` in [0, 1] weaken each feature's loading.
    """
    n_query = round((n_features - n_informative) * _QUERY_SHARE)
    parts = [_informative(place) for place in range(n_informative)]
    parts += [
        (_numbered(f"idf_{STREAMS[place % 5]}", place // 5), _QUERY_SHAPES[place % 2], 0)
        for place in range(n_query)
    ]
    parts += [
        (f"noise_{place + 1}", _NOISE_SHAPES[place % len(_NOISE_SHAPES)], 0)
        for place in range(n_features - n_informative - n_query)
    ]
    loadings = stream(seed, "synthetic loadings").uniform(0.25, 0.6, n_features)
    if strengths is not None:
        loadings = loadings * strengths
    loadings[n_informative:] = 0.0
    names, shapes, latents = zip(*parts, strict=True)
    query_level = np.arange(n_informative, n_informative + n_query)
    return Columns(names, shapes, np.array(latents), loadings.astype(np.float32), query_level)


def _informative(place: int) -> tuple[str, str, int]:
    """Name, shape and latent: a statistic over the five streams, one of the page, and so on."""
    turn, position = divmod(place, len(STREAMS) + 1)
    again, statistic = divmod(turn, len(_STREAM_STATISTICS))
    if position < len(STREAMS):
        name, shape = _STREAM_STATISTICS[statistic]
        return _numbered(f"{name}_{STREAMS[position]}", again), shape, position
    name, shape, latent = _PAGE_STATISTICS[statistic]
    return _numbered(name, again), shape, len(STREAMS) + latent


def _numbered(name: str, again: int) -> str:
    return name if again == 0 else f"{name}_{again + 1}"


def bend(values: Features, columns: Columns) -> None:
    """Turn standard normal numbers (features × documents) into each feature's shape, in place."""
    for row, shape in zip(values, columns.shapes, strict=True):
        SHAPES[shape](row)


def _round(row: Features, decimals: int) -> None:
    """Round as text files do; values above 2^24 / 10^decimals keep float32's own precision."""
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

    Streams count with falling returns; title and anchor stand in for each other; authority counts
    only for pages that match; popularity helps good matches most; much spam spoils a page.
    """
    body, anchor, title, url, whole, authority, popularity, spam = latents
    matched = body / (1 + np.abs(body)) + 0.8 * whole / (1 + np.abs(whole)) + 0.4 * url
    either = np.maximum(title, anchor)
    trusted = authority * (body > 0) + 0.4 * popularity * np.maximum(whole, 0)
    spoiled = np.square(np.maximum(spam - 0.3, 0))
    # 0.5 and 1.7: mean and spread of the sum, found on a million documents.
    total = matched + 0.9 * either + 0.7 * trusted - spoiled
    return ((total - 0.5) / 1.7).astype(np.float32)  # type: ignore[no-any-return]
