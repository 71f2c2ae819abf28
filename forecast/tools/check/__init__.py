"""Examination of a data file before training: gaps, columns, seasons, split, baselines and suggested settings."""

from forecast.tools.check.diagnosis import STAGES, Diagnosis, diagnose

__all__ = ["STAGES", "Diagnosis", "diagnose"]
