"""Names of the forecasters that a test measures, and their labels. Imports no torch: pages of results use them too."""

MODEL = "model"
LABELS = {"naive": "naive", "seasonal_naive": "seasonal naive", "linear": "linear baseline"}
"""Labels of the baselines in tables and figures."""


SAME_ERROR = 1e-4
"""Largest relative difference of the MSE at one origin or of one series at which two forecasters count as equal.

If only the linear model was kept, it can be the linear baseline up to round-off."""


def labels(attention: str) -> dict[str, str]:
    """Labels of a model with this attention type and of the baselines, in figures."""
    return {MODEL: f"{attention} attention", **LABELS}
