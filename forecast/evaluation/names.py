"""Names of the forecasters that a test measures, and their labels. Imports no torch: pages of results use them too."""

MODEL = "model"
LABELS = {"naive": "naive", "seasonal_naive": "seasonal naive", "linear": "linear baseline"}
"""Labels of the baselines in tables and figures."""


SAME_ERROR = 1e-4
"""Relative difference of the MSE of one origin or series up to which two forecasters count as equal.

A model that kept its linear part alone is the linear baseline, and differs from it by round-off."""


def labels(attention: str) -> dict[str, str]:
    """Labels of a model with this attention type and of the baselines, in figures."""
    return {MODEL: f"{attention} attention", **LABELS}
