"""Examination of a data file before training: gaps, columns, seasons, split, baselines and suggested settings."""
