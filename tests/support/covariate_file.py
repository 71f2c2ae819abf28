"""A table of one series with past and future covariates: numbers, a boolean and categories."""

import numpy as np
import pandas as pd

ROWS = 400
PAST, FUTURE = ["wind", "weather"], ["temperature", "is_open", "promo"]
UNKNOWN = ["load", *PAST]
COVARIATES = (
    "data.columns=[load]",
    f"data.past_covariates=[{','.join(PAST)}]",
    f"data.future_covariates=[{','.join(FUTURE)}]",
)


def table() -> pd.DataFrame:
    """A load that follows the temperature of the same hour, with a boolean and two categories."""
    random = np.random.default_rng(0)
    temperature = 10 + random.normal(size=ROWS).cumsum() / 5
    dates = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="date")
    noise, wind = random.normal(size=(2, ROWS))
    weather, promo = random.choice(["sun", "rain", "snow"], ROWS), random.choice(["none", "sale"], ROWS)
    return pd.DataFrame({
        "load": 100 - 3 * temperature + noise + 9 * (promo == "sale"), "wind": wind, "weather": weather,
        "temperature": temperature, "is_open": dates.hour < 12, "promo": promo,
    }, dates)  # fmt: skip
