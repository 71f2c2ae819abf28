"""The command line: composition, overrides, checks."""
