"""Baselines, errors, intervals and significance."""
