"""Comparison of run folders in one page: read, group into tasks and variants, test, draw. Imports no torch."""
