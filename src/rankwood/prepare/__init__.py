"""Data made ready before training: missing values, and rows or columns of another collection."""
