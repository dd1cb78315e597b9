"""Experiments: cells of algorithms, folds and repetitions, their results, statistics and reports."""
