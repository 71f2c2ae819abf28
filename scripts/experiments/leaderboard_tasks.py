"""Tasks of fev-bench and GIFT-Eval whose data local files reproduce, and the scores as each benchmark defines them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd
from jaxtyping import Float64

DECILES = np.arange(1, 10) / 10
TARGET = "target"
STEPS = {"10T": "10min", "15T": "15min", "H": "h", "D": "D", "W": "7D"}
SEASONS = {"10T": 144, "15T": 96, "H": 24, "D": 1, "W": 1}
"""Steps of the seasonal naive and of the scale of the errors: a day, or one step (GluonTS)."""
LENGTHS = {"10T": 1008, "15T": 672, "H": 336, "D": 60, "W": 16}
"""Steps that our models read, fixed before any score was computed."""
MISSING = -9999
"""A missing value of the weather, which the benchmarks score as a number."""
GEFCOM_ROWS = 17_520
"""Rows of GEFCom2014-E in fev-bench: the last two years."""
TEST_SHARE, MAX_WINDOWS = 0.1, 20

Values = Float64[np.ndarray, "rows series"]
Deciles = Float64[np.ndarray, "horizon series 9"]
Forecast = Callable[[int], Deciles]
"""From an origin, which is a row, to the deciles of the steps from there on."""


@dataclass(frozen=True)
class Task:
    """Series that are forecast at evenly spaced origins at the end of the rows, one horizon apart."""

    name: str  # in the benchmark
    files: tuple[str, ...]  # below --root, side by side; `m4`: the hourly series of the M4 competition
    freq: str  # a key of `STEPS`; rows of shorter steps are averaged, without a last step that is incomplete
    horizon: int
    windows: int | None = 20  # number of origins; None: a tenth of the rows, at most 20 (GIFT-Eval)
    covariates: bool = False  # the first column is the target, and the others are known ahead

    @property
    def season(self) -> int:
        return SEASONS[self.freq]

    @property
    def seq_len(self) -> int:
        return LENGTHS[self.freq]

    @property
    def is_long(self) -> bool:
        return self.files == ("m4",)

    def read(self, root: Path) -> pd.DataFrame:
        """Read the scored rows: one column for each series, or the target and the covariates."""
        return self._resample(self._read_rows(root))

    def read_inputs(self, root: Path) -> pd.DataFrame:
        """Read the rows that models are given, in which -9999 is missing."""
        return self._resample(self._read_rows(root).replace(MISSING, np.nan))

    def origins(self, n_rows: int) -> range:
        """Return the rows of the first step of each forecast."""
        windows = self.windows or min(int(np.ceil(TEST_SHARE * n_rows / self.horizon)), MAX_WINDOWS)
        return range(n_rows - windows * self.horizon, n_rows, self.horizon)

    def _read_rows(self, root: Path) -> pd.DataFrame:
        """Read the files on a complete grid of dates."""
        if self.covariates:
            return read_with_covariates(root / self.files[0])
        if self.is_long:
            return read_m4(root / "m4")
        tables = {}
        for file in self.files:
            table = pd.read_csv(root / file, encoding="latin-1", index_col=0, parse_dates=True)
            tables[file.removesuffix(".csv")] = table.loc[~table.index.duplicated()]
        rows = pd.concat(tables, axis=1)
        rows.columns = [" ".join(names) for names in rows.columns]
        return rows.asfreq("10min") if self.files == ("weather.csv",) else rows

    def _resample(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return means over the steps of the task. GIFT-Eval has sums of ETT, which gives equal scores."""
        if self.covariates or self.is_long:
            return rows
        groups = rows.resample(STEPS[self.freq])
        sizes = groups.size()
        return groups.mean().iloc[: -1 if sizes.iloc[-1] < sizes.max() else None]


def read_with_covariates(file: Path) -> pd.DataFrame:
    """Read prices with two day-ahead forecasts (Lago et al. 2021), or the load and the temperature of GEFCom2014-E
    (Hong et al. 2016), in which an hour is dated by its end."""
    if not file.name.startswith("GEFCom"):
        table = pd.read_csv(file, skipinitialspace=True, index_col="date", parse_dates=True)
        table.insert(0, TARGET, table.pop("OT"))
        return table
    table = pd.read_csv(file).iloc[-GEFCOM_ROWS:]
    hours = pd.to_timedelta(table["Hour"].to_numpy() - 1, unit="h")
    columns = {TARGET: table["load"].to_numpy(), "airtemperature": table["T"].to_numpy()}
    return pd.DataFrame(columns, pd.DatetimeIndex(pd.to_datetime(table["Date"])) + hours)


def read_m4(folder: Path) -> pd.DataFrame:
    """Read the hourly series of the M4 competition, which have no dates, with made-up dates that end together."""
    parts = [pd.read_csv(folder / f"Hourly-{part}.csv", index_col=0) for part in ("train", "test")]
    series = [pd.concat([part.loc[name].dropna() for part in parts]).to_numpy() for name in parts[0].index]
    n_rows = max(map(len, series))
    table = np.full((n_rows, len(series)), np.nan)
    for column, values in enumerate(series):
        table[n_rows - len(values) :, column] = values
    dates = pd.date_range("2020-01-01", periods=n_rows, freq="h", name="date")
    return pd.DataFrame(table, dates, parts[0].index)


def scale(past: Values, season: int) -> Float64[np.ndarray, " series"]:
    """Return the mean absolute difference of values that are a season apart; NaN for a constant past."""
    found = np.nanmean(np.abs(past[season:] - past[:-season]), axis=0)
    return np.where(found > 0, found, np.nan)


def quantile_losses(truth: Values, deciles: Deciles) -> Deciles:
    return 2 * np.abs((truth[..., None] - deciles) * ((truth[..., None] <= deciles) - DECILES))


def score_fev(task: Task, values: Values, forecast: Forecast) -> dict[str, float]:
    """Return the scaled quantile loss (SQL) and the MASE of the median: means over the series, then over the origins.
    Series with a constant past do not count."""
    scores = []
    for origin in task.origins(len(values)):
        past, truth, deciles = values[:origin], values[origin : origin + task.horizon], forecast(origin)
        sql = quantile_losses(truth, deciles).mean(axis=(0, 2))
        mase = np.abs(truth - deciles[..., 4]).mean(axis=0)
        scores.append([np.nanmean(loss / scale(past, task.season)) for loss in (sql, mase)])
    return dict(zip(("SQL", "MASE"), map(float, np.mean(scores, axis=0)), strict=True))


def score_gift(task: Task, values: Values, forecast: Forecast) -> dict[str, float]:
    """Return MASE of the median and CRPS over all origins, steps and series.

    CRPS is the sum of the quantile losses of a decile over the sum of absolute values, as a mean over the deciles.
    Missing values, and in MASE the errors of series whose past is constant, do not count.
    """
    errors, losses, sizes = [], [], []
    for origin in task.origins(len(values)):
        truth, deciles = values[origin : origin + task.horizon], forecast(origin)
        errors.append(np.abs(truth - deciles[..., 4]) / scale(values[:origin], task.season))
        losses.append(quantile_losses(truth, deciles))
        sizes.append(np.abs(truth))
    loss = np.nansum(np.concatenate(losses), axis=(0, 1)) / np.nansum(np.concatenate(sizes))
    return {"MASE": float(np.nanmean(np.concatenate(errors))), "CRPS": float(loss.mean())}


def repeat_season(past: Values, horizon: int, season: int) -> Deciles:
    """Return the seasonal naive of fev-bench: the same value as all nine deciles."""
    point = past[len(past) - season + np.arange(horizon) % season]
    return np.repeat(point[..., None], len(DECILES), axis=2)


def repeat_season_normally(past: Values, horizon: int, season: int) -> Deciles:
    """Return the seasonal naive of GIFT-Eval (statsforecast): normal deciles whose variance grows by that of the past
    errors each season."""
    variance = np.nanmean((past[season:] - past[:-season]) ** 2, axis=0)
    deviation = np.sqrt((np.arange(horizon)[:, None] // season + 1) * variance)
    factors = np.array([NormalDist().inv_cdf(p) for p in DECILES])
    return repeat_season(past, horizon, season) + factors * deviation[..., None]


def list_gift() -> list[Task]:
    """Return the settings, those with short horizons first."""
    sources = {
        "ett1": (("ETTm1.csv",), "15T H D W"),
        "ett2": (("ETTm2.csv",), "15T H D W"),
        "jena_weather": (("weather.csv",), "10T H D"),
        "m4_hourly": (("m4",), "H"),
    }
    horizons = {"10T": 48, "15T": 48, "H": 48, "D": 30, "W": 8}
    return [
        Task(f"{name}/{freq}/{term}", files, freq, times * horizons[freq], 1 if name == "m4_hourly" else None)
        for term, times in {"short": 1, "medium": 10, "long": 15}.items()
        for name, (files, freqs) in sources.items()
        for freq in freqs.split()
        if term == "short" or (freq not in ("D", "W") and name != "m4_hourly")
    ]


TASKS: dict[str, list[Task]] = {
    "fev_bench": [
        *(Task(f"epf_{name}", (f"epf/{name.upper()}.csv",), "H", 24, covariates=True)
          for name in ("np", "pjm", "be", "fr", "de")),
        Task("proenfo_gfc14", ("GEFCom2014-E.csv",), "H", 168, covariates=True),
    ],
    "fev_tables": [
        # ETT_1D and ETT_1W: no mean of the files has the published scores. jena_weather_1D: too few days for training.
        Task("ETT_15T", ("ETTm1.csv", "ETTm2.csv"), "15T", 96),
        Task("ETT_1H", ("ETTh1.csv", "ETTh2.csv"), "H", 168),
        Task("jena_weather_10T", ("weather.csv",), "10T", 144),
        Task("jena_weather_1H", ("weather.csv",), "H", 24),
    ],
    "gift_eval": list_gift(),
}  # fmt: skip
