"""``make_ranking``: seeded data with the shape of web search, for tests, demos and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwood import _checks
from rankwood._random import stream
from rankwood.data.dataset import RankingData
from rankwood.data.synthetic_features import make_columns
from rankwood.data.synthetic_rows import Plan, draw_rows, draw_sizes, grade, name_documents
from rankwood.dtypes import Features, Floats
from rankwood.errors import ParameterError

WEB10K_LABEL_SHARES = (0.520, 0.322, 0.133, 0.018, 0.007)  # grades 0 to 4 of MSLR-WEB10K

_MISSING_BY = ("chance", "low")
_COST_STEP = 4.0  # each group of features costs this many times the group before


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
    of a document through noise, so that no single feature ranks as well as a model of many.
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
    noise = _checks.real_number("noise", noise, "[0, inf)")
    missing = _checks.real_number("missing", missing, "[0, 0.9]")
    _checks.one_of("missing_by", missing_by, _MISSING_BY)
    seed = _checks.whole_number("seed", seed, 0)
    n_features = _checks.whole_number("n_features", n_features, 1)
    if n_informative is None:
        n_informative = max(1, round(0.6 * n_features))
    n_informative = _checks.whole_number("n_informative", n_informative, 1, n_features)
    strengths = _strengths(make_feature_costs(n_features, seed=seed), seed) if costs else None
    columns = make_columns(n_features, n_informative, strengths, seed)
    sizes = draw_sizes(n_queries, docs_per_query, seed)
    features, relevance = draw_rows(Plan(seed, sizes, columns, noise))
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
    n_features = _checks.whole_number("n_features", n_features, 1)
    groups = _checks.whole_number("groups", groups, 1)
    seed = _checks.whole_number("seed", seed, 0)
    order = stream(seed, "synthetic costs").permutation(n_features)
    return np.asarray(_COST_STEP ** (order * groups // n_features), np.float64)


def _strengths(costs: Floats, seed: int) -> Floats:
    """Factors of the loadings: 0.4 for the cheapest, up to 1.5 for half of the costly."""
    levels = np.log(costs) / max(float(np.log(costs).max()), 1.0)
    is_worth_it = stream(seed, "synthetic worth").random(costs.size) < 0.5
    return np.where(is_worth_it, 0.4 + 1.1 * levels, 0.4)


def _erase(features: Features, missing: float, by_value: bool, seed: int) -> None:
    """Make ``missing`` of all values NaN, at rates that differ from feature to feature."""
    n_features = features.shape[1]
    n_affected = max(1, round(n_features * (0.5 + 0.5 * missing)))
    mean = min(missing * n_features / n_affected, 0.98)
    # Rates on both sides of the mean, so that they keep it, and within 0 and 1.
    rates = mean + min(mean, 1 - mean) * 0.8 * np.linspace(-1, 1, n_affected + 2)[1:-1]
    affected = stream(seed, "synthetic gappy features").permutation(n_features)[:n_affected]
    for iteration, (feature, rate) in enumerate(zip(affected, rates, strict=True)):
        drawn = stream(seed, "synthetic gaps", iteration).random(len(features), np.float32)
        chances = _falling(features[:, feature], float(rate)) if by_value else rate
        features[drawn < chances, feature] = np.nan


def _falling(column: Features, rate: float) -> Floats:
    """Chances that fall in a straight line from the least value to the greatest, with the mean ``rate``."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    # the share of rows with a smaller value, and half of those with the same: 1/2 on average
    below = ((np.cumsum(counts) - counts / 2) / column.size)[place]
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
    if _checks.real_number("empty_share", empty_share, "[0, 1]") > array[0]:
        raise ParameterError(
            f"empty_share is {empty_share:g}, but label_shares[0] lets only {array[0]:g} of the "
            "labels be 0. Lower the one or raise the other."
        )
    return array
