"""The settings of GIFT-Eval whose data local files reproduce: rows, horizons, windows and seasons."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

HORIZONS = {"10T": 48, "15T": 48, "H": 48, "D": 30, "W": 8}
"""Steps of a forecast of the term short."""
TERMS = {"short": 1, "medium": 10, "long": 15}
SEASONS = {"10T": 144, "15T": 96, "H": 24, "D": 1, "W": 1}
"""Steps of the seasonal naive and of the scale of MASE: a day, or one step (GluonTS)."""
LENGTHS = {"10T": 1008, "15T": 672, "H": 336, "D": 60, "W": 16}
"""Steps that our models read, fixed before any score was computed."""
STEPS = {"10T": "10min", "15T": "15min", "H": "h", "D": "D", "W": "7D"}
TEST_SHARE, MAX_WINDOWS = 0.1, 20
MISSING = -9999
"""A missing value of jena_weather, which GIFT-Eval scores as a number."""


@dataclass(frozen=True)
class Setting:
    """A data set at one frequency, all of whose series are forecast at evenly spaced origins at the end of the rows."""

    dataset: str
    freq: str
    term: str

    @property
    def name(self) -> str:
        return f"{self.dataset}/{self.freq}/{self.term}"

    @property
    def horizon(self) -> int:
        return HORIZONS[self.freq] * TERMS[self.term]

    @property
    def season(self) -> int:
        return SEASONS[self.freq]

    @property
    def seq_len(self) -> int:
        return LENGTHS[self.freq]

    def read(self, root: Path) -> pd.DataFrame:
        """Read the scored rows: one column for each series. Shorter series end with the others."""
        return read_m4(root / "m4") if self.dataset == "m4_hourly" else self.resample(self.read_rows(root))

    def read_inputs(self, root: Path) -> pd.DataFrame:
        """Read the rows that models are given, in which -9999 is missing."""
        if self.dataset != "jena_weather":
            return self.read(root)
        return self.resample(self.read_rows(root).replace(MISSING, np.nan))

    def read_rows(self, root: Path) -> pd.DataFrame:
        """Read the file of a data set on a complete grid of dates."""
        weather = self.dataset == "jena_weather"
        file = root / ("weather.csv" if weather else f"ETTm{self.dataset[-1]}.csv")
        table = pd.read_csv(file, encoding="latin-1", index_col=0, parse_dates=True)
        return table.loc[~table.index.duplicated()].asfreq("10min" if weather else "15min")

    def resample(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return means over longer steps, without a last step that is incomplete.

        GIFT-Eval has sums of ett1 and ett2, which gives equal scores.
        """
        groups = rows.resample(STEPS[self.freq])
        means, sizes = groups.mean(), groups.size()
        return means.iloc[:-1] if sizes.iloc[-1] < sizes.max() else means

    def origins(self, n_rows: int) -> range:
        """Return the rows of the first step of each forecast."""
        windows = 1
        if self.dataset != "m4_hourly":
            windows = min(int(np.ceil(TEST_SHARE * n_rows / self.horizon)), MAX_WINDOWS)
        return range(n_rows - windows * self.horizon, n_rows, self.horizon)


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


def list_settings() -> dict[str, Setting]:
    """Return the settings by name, those with short horizons first."""
    steps = {"ett1": "15T H D W", "ett2": "15T H D W", "jena_weather": "10T H D", "m4_hourly": "H"}
    settings = [
        Setting(dataset, freq, term)
        for term in TERMS
        for dataset, freqs in steps.items()
        for freq in freqs.split()
        if term == "short" or (freq not in ("D", "W") and dataset != "m4_hourly")
    ]
    return {setting.name: setting for setting in settings}


SETTINGS = list_settings()
