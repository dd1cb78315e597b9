"""Tables: frames in memory, Parquet, Arrow and CSV files."""
