"""Measures of a ranking: values with names, conventions and per-query results."""
