"""Putting numbers on rankings: evaluation, intervals, comparisons."""
