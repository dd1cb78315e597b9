"""Ranking data: what it is, where it comes from, how it is cut into parts."""
