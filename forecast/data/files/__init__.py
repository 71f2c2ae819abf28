"""CSV, Parquet and DataFrames as panels."""
