"""``make_transfer``: a source "country" with many judgements and a target "country" with few."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankwood import _checks
from rankwood._random import stream
from rankwood.data.dataset import RankingData
from rankwood.data.synthetic import WEB10K_LABEL_SHARES
from rankwood.data.synthetic_features import Columns, make_columns
from rankwood.data.synthetic_rows import Plan, draw_rows, draw_sizes, grade, name_documents
from rankwood.dtypes import Array, Rows

_SOURCE, _TARGET = 0, 1  # countries
_EMPTY_SHARE = 0.03


class Transfer(NamedTuple):
    """Two data sets over the same features, and which source documents are like the target's."""

    source: RankingData
    target: RankingData
    is_similar: Array  # one bool per source document; the truth a transfer method should find


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
    """A source and a target "country" that share features, but only in part a taste.

    A source document is similar to the target with probability ``similar_share``: its features
    follow the target's distribution and its label the target's taste. Any other has its hidden
    qualities moved by ``shift`` standard deviations and its label made by another taste, so that
    learning from it misleads.
    """
    share = _checks.real_number("similar_share", similar_share, "[0, 1]")
    shift = _checks.real_number("shift", shift, "[0, inf)")
    noise = _checks.real_number("noise", noise, "[0, inf)")
    seed = _checks.whole_number("seed", seed, 0)
    n_features = _checks.whole_number("n_features", n_features, 1)
    n_source = _checks.whole_number("n_source_queries", n_source_queries, 1)
    n_target = _checks.whole_number("n_target_queries", n_target_queries, 1)
    columns = make_columns(n_features, max(1, round(0.6 * n_features)), None, seed)
    source_seed, target_seed = (_country_seed(seed, country) for country in (_SOURCE, _TARGET))
    source_sizes = draw_sizes(n_source, docs_per_query, source_seed)
    target_sizes = draw_sizes(n_target, docs_per_query, target_seed)
    drawn = stream(seed, "synthetic similar").random(int(source_sizes.sum()))
    is_similar = drawn < share
    source = Plan(source_seed, source_sizes, columns, noise, ~is_similar, shift)
    target = Plan(target_seed, target_sizes, columns, noise)
    return Transfer(
        _country(source, columns, "s", np.arange(1, n_source + 1)),
        _country(target, columns, "t", np.arange(n_source + 1, n_source + n_target + 1)),
        is_similar,
    )


def _country_seed(seed: int, country: int) -> int:
    return int(stream(seed, "synthetic country", country).integers(2**62))


def _country(plan: Plan, columns: Columns, prefix: str, queries: Rows) -> RankingData:
    features, relevance = draw_rows(plan)
    shares = np.array(WEB10K_LABEL_SHARES)
    return RankingData(
        features,
        grade(relevance, plan.sizes, shares, _EMPTY_SHARE, plan.seed),
        np.repeat(queries, plan.sizes),
        doc_ids=name_documents(prefix, relevance.size),
        feature_names=columns.names,
    )
