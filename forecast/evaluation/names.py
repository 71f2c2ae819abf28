"""Names of the forecasters that a test measures, and their labels. Imports no torch: pages of results use them too."""

MODEL = "model"
LABELS = {"naive": "naive", "seasonal_naive": "seasonal naive", "linear": "linear baseline"}
"""Labels of the baselines in tables and figures."""


SAME_ERROR = 1e-4
"""Relative difference of MSE up to which two forecasters count as equal: a model may be the linear baseline."""


def labels(attention: str) -> dict[str, str]:
    """Labels of a model with this attention type and of the baselines, in figures."""
    return {MODEL: f"{attention} attention", **LABELS}
