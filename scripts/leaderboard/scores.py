"""The scores of fev-bench (github.com/autogluon/fev, fev.metrics) for a single series."""

import numpy as np
from jaxtyping import Float64

DECILES = np.arange(1, 10) / 10


def score_window(
    past: Float64[np.ndarray, " rows"],
    truth: Float64[np.ndarray, " horizon"],
    deciles: Float64[np.ndarray, "horizon 9"],
    season: int,
) -> dict[str, float]:
    """Return the scores of a forecast.

    The scale of SQL and MASE is the mean absolute difference of values of `past` that are a season apart.

    Returns:
        SQL (scaled quantile loss), MASE of the median, WQL (quantile loss over the mean absolute value), WAPE.
    """
    scale = np.nanmean(np.abs(past[season:] - past[:-season]))
    loss = 2 * np.abs((truth[:, None] - deciles) * ((truth[:, None] <= deciles) - DECILES)).mean()
    error, size = np.abs(truth - deciles[:, 4]).mean(), np.abs(truth).mean()
    return {"SQL": loss / scale, "MASE": error / scale, "WQL": loss / size, "WAPE": error / size}


def repeat_season(
    past: Float64[np.ndarray, " rows"], horizon: int, season: int
) -> Float64[np.ndarray, "horizon 9"]:
    """Return the seasonal naive forecast as all nine deciles, for which SQL is MASE and WQL is WAPE."""
    point = past[len(past) - season + np.arange(horizon) % season]
    return np.repeat(point[:, None], len(DECILES), axis=1)
