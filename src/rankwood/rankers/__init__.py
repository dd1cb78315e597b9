"""Rankers: estimators with scikit-learn's contract on the one tree engine."""
