"""Parquet, Arrow and CSV: ``files`` reads and writes record batches, ``ranking`` turns columns into ranking data."""
