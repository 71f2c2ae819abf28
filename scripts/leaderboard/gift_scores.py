"""The scores of GIFT-Eval (github.com/SalesforceAIResearch/gift-eval) for forecasts of all series at all origins."""

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pandas as pd
from jaxtyping import Float64

from leaderboard.gift_settings import Setting
from leaderboard.scores import DECILES

Past = Float64[np.ndarray, "rows series"]
Deciles = Float64[np.ndarray, "horizon series 9"]
Forecast = Callable[[int], Deciles]
"""From an origin, which is a row, to the deciles of the steps from there on."""


def score_forecasts(setting: Setting, values: Past, forecast: Forecast) -> dict[str, float]:
    """Return MASE of the median and CRPS over all origins, steps and series.

    MASE divides each error by the mean absolute difference of the past values of its series that are a season apart.
    CRPS is the sum of the quantile losses of a decile over the sum of absolute values, as a mean over the deciles.
    Missing values, and the errors of series whose past is constant, do not count.
    """
    errors, losses, sizes = [], [], []
    for origin in setting.origins(len(values)):
        past, truth = values[:origin], values[origin : origin + setting.horizon]
        deciles = forecast(origin)
        scale = np.nanmean(np.abs(past[setting.season :] - past[: -setting.season]), axis=0)
        errors.append(np.abs(truth - deciles[..., 4]) / np.where(scale > 0, scale, np.nan))
        losses.append(2 * np.abs((truth[..., None] - deciles) * ((truth[..., None] <= deciles) - DECILES)))
        sizes.append(np.abs(truth))
    loss = np.nansum(np.concatenate(losses), axis=(0, 1)) / np.nansum(np.concatenate(sizes))
    return {"MASE": float(np.nanmean(np.concatenate(errors))), "CRPS": float(loss.mean())}


def score_seasonal_naive(setting: Setting, table: pd.DataFrame) -> dict[str, float]:
    """Return the scores of the seasonal naive of statsforecast, which must equal the published ones."""
    values = table.to_numpy(dtype=np.float64)
    filled = table.ffill().to_numpy(dtype=np.float64)
    return score_forecasts(
        setting,
        values,
        lambda origin: forecast_seasonal_naive(filled[:origin], setting.horizon, setting.season),
    )


def forecast_seasonal_naive(past: Past, horizon: int, season: int) -> Deciles:
    """Return the last season, with normal deciles whose variance grows by that of its past errors each season."""
    point = past[len(past) - season + np.arange(horizon) % season]
    variance = np.nanmean((past[season:] - past[:-season]) ** 2, axis=0)
    deviation = np.sqrt((np.arange(horizon)[:, None] // season + 1) * variance)
    factors = np.array([NormalDist().inv_cdf(p) for p in DECILES])
    return point[..., None] + factors * deviation[..., None]
