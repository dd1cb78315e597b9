"""BROOF: boosted random forests for ranking."""
