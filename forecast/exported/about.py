"""What must be known to use an exported file without this package: columns, steps, time features, quantiles."""

from typing import Any

from forecast import __version__
from forecast.data.calendar import time_feature_names
from forecast.data.holidays import NAMES as HOLIDAYS
from forecast.data.holidays import split_code
from forecast.trained import TrainedModel

PANDAS = {
    "second": "dates.second / 59 - 0.5",
    "minute": "dates.minute / 59 - 0.5",
    "hour": "dates.hour / 23 - 0.5",
    "day of week": "dates.day_of_week / 6 - 0.5",
    "day of month": "(dates.day - 1) / 30 - 0.5",
    "day of year": "(dates.day_of_year - 1) / 365 - 0.5",
    "week of year": "(dates.isocalendar().week - 1) / 52 - 0.5",
    "month of year": "(dates.month - 1) / 11 - 0.5",
}
"""Each feature of `forecast.data.calendar` in pandas alone, `dates` being a DatetimeIndex."""

DAY = "(dates + pd.Timedelta(days={ahead})).date"
HOLIDAY = f"np.array([*map(holidays.country_holidays({{country}}).__contains__, {DAY})]) - 0.5"


def describe(trained: TrainedModel) -> dict[str, Any]:
    """Kept in the file and beside it; plain values, which JSON can hold."""
    quantiles, source = trained.quantiles, "trained for"
    if quantiles is None and trained.calibration is not None:
        quantiles, source = trained.calibration.quantiles, "conformal, from validation windows"
    seq_len, pred_len = trained.seq_len, trained.pred_len
    n_features, n_targets = len(trained.feature_columns), len(trained.target_columns)
    names = time_feature_names(trained.freq, trained.holidays)
    outputs = {"forecast": ["batch", pred_len, n_targets]}
    if quantiles:
        outputs["quantiles"] = ["batch", pred_len, n_targets, len(quantiles)]
    return {
        "forecast_version": __version__,
        "attention": trained.config["model"]["attention"]["name"],
        "feature_columns": trained.feature_columns,
        "target_columns": trained.target_columns,
        "freq": trained.freq,
        "seq_len": seq_len,
        "pred_len": pred_len,
        "time_features": [{"name": name, "pandas": in_pandas(name, trained.holidays)} for name in names],
        "quantiles": list(quantiles) if quantiles else None,
        "quantiles_are": source if quantiles else None,
        "inputs": {
            "past": ["batch", seq_len, n_features],
            "past_time": ["batch", seq_len, len(names)],
            "future_time": ["batch", pred_len, len(names)],
        },
        "outputs": outputs,
        "type": "float64, past and outputs in data units",
    }


def in_pandas(name: str, country: str | None) -> str:
    """An expression for the feature; one of a holiday needs the `holidays` package too."""
    if name in PANDAS:
        return PANDAS[name]
    code, subdivision = split_code(str(country))
    return HOLIDAY.format(country=f"{code!r}, {subdivision!r}", ahead=HOLIDAYS[name])
