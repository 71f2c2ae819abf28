"""Comparison of a model's errors on newer rows with those of its test."""
