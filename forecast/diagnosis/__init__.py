"""What a table holds, said before anything is trained on it: gaps, columns, seasons, split, rules to beat."""

from forecast.diagnosis.diagnosis import STAGES, Diagnosis, diagnose

__all__ = ["STAGES", "Diagnosis", "diagnose"]
