"""Studies of rankers: analyses that fit many models and explain what came out."""
