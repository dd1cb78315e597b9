"""Columns in relation to the other documents of the query: standardised values, ranks and gaps.

A cascade passes the outputs of a layer on in one or several forms:

    scores      the output itself
    standard    (output - mean) / standard deviation of its query; 0 where all of the query are equal
    ranks       the share of the query's other documents that are below it, equal ones half; ½ in a query of one
    gaps        the output minus the greatest of its query

A missing output (NaN) is missing in every form, and the others are compared without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankwood.data.judgments import Grouping
from rankwood.dtypes import FEATURE, Array, Features, Floats
from rankwood.errors import ParameterError

SCORES = "scores"
FORMS = (SCORES, "standard", "ranks", "gaps")


def read_forms(text: str) -> tuple[str, ...]:
    """The forms that a text such as ``"scores+ranks"`` names, each once."""
    forms = tuple(part.strip() for part in text.split("+")) if isinstance(text, str) else ()
    if not forms or len(set(forms)) < len(forms) or not set(forms) <= set(FORMS):
        raise ParameterError(
            f"passes must be some of {', '.join(FORMS)}, each at most once and joined by '+', got {text!r}."
        )
    return forms


def need_queries(forms: Sequence[str]) -> bool:
    """Whether the forms compare a document with the others of its query."""
    return tuple(forms) != (SCORES,)


def columns_in_forms(
    column: Features, forms: Sequence[str], grouping: Grouping | None
) -> list[Features]:
    """One column in each form, float32; ``grouping`` is not needed for scores."""
    made = []
    for form in forms:
        if form == SCORES:
            made.append(column)
            continue
        assert grouping is not None
        values = np.asarray(column, np.float64)
        is_known = ~np.isnan(values)
        within = _WITHIN[form](values[is_known], grouping.query_of_row[is_known])
        whole: Features = np.full(values.size, np.nan, FEATURE)
        whole[is_known] = within
        made.append(whole)
    return made


def standardised(values: Floats, query_of_row: Array) -> Floats:
    """Values minus their query's mean, in units of its standard deviation; 0 where all of a query are equal."""
    n_rows = np.maximum(np.bincount(query_of_row), 1)
    scale = np.abs(values).max(initial=0.0) or 1.0  # so that squares of extreme values stay finite
    scaled = values / scale
    centred = scaled - (np.bincount(query_of_row, scaled) / n_rows)[query_of_row]
    spread = np.sqrt(np.bincount(query_of_row, centred**2) / n_rows)[query_of_row]
    is_equal = spread <= 1e-9 * np.abs(scaled)  # what rounding of the mean leaves
    found: Floats = np.zeros(values.size)
    np.divide(centred, spread, out=found, where=~is_equal & (spread > 0))
    return found


def rank_shares(values: Floats, query_of_row: Array) -> Floats:
    """The share of the query's other rows that are below each row, equal ones half; ½ for a row alone."""
    order = np.lexsort((values, query_of_row))
    query, ordered = query_of_row[order], values[order]
    place = np.arange(order.size)
    is_new_query = np.append(True, query[1:] != query[:-1])[: order.size]
    is_new_value = is_new_query | np.append(True, ordered[1:] != ordered[:-1])[: order.size]
    start_of_query = np.maximum.accumulate(np.where(is_new_query, place, 0))
    start_of_ties = np.maximum.accumulate(np.where(is_new_value, place, 0))
    n_ties = np.bincount(np.cumsum(is_new_value) - 1)[np.cumsum(is_new_value) - 1]
    n_others = np.bincount(query_of_row)[query] - 1
    below = start_of_ties - start_of_query + 0.5 * (n_ties - 1)
    shares: Floats = np.full(order.size, 0.5)
    np.divide(below, n_others, out=shares, where=n_others > 0)
    found: Floats = np.empty(order.size)
    found[order] = shares
    return found


def gaps_to_the_best(values: Floats, query_of_row: Array) -> Floats:
    """Values minus the greatest of their query."""
    best = np.full(int(query_of_row.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(best, query_of_row, values)
    found: Floats = values - best[query_of_row]
    return found


_WITHIN = {"standard": standardised, "ranks": rank_shares, "gaps": gaps_to_the_best}
