"""Grouping by query, the slow way."""

from __future__ import annotations


def group_rows(query_ids):
    """Queries by first appearance, their rows as lists, and how many are not in one piece."""
    rows_of_query = {}
    for row, query in enumerate(query_ids):
        rows_of_query.setdefault(query, []).append(row)
    n_separated = 0
    for rows in rows_of_query.values():
        if rows != list(range(rows[0], rows[0] + len(rows))):
            n_separated += 1
    return list(rows_of_query), list(rows_of_query.values()), n_separated
