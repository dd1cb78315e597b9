"""Rankers made of trees: estimators with scikit-learn's contract on the one tree engine."""
