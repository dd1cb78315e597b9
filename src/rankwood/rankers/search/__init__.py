"""Searches over boosting sequences: BoostingTree and Exp3.P."""
