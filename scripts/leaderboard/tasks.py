"""The tasks of fev-bench whose data local files reproduce: rows, horizons and origins."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

TARGET = "target"


@dataclass(frozen=True)
class Task:
    """A task: a target and covariates that are known ahead, forecast at evenly spaced origins at the end of the rows.

    Attributes:
        name: of the task in fev-bench.
        file: below the folder of the data.
        horizon: steps of a forecast, and steps between two origins.
        windows: number of origins.
        season: steps of the seasonal naive and of the scale of the errors.
        seq_len: steps that our models read, a multiple of the season, fixed before any score was computed.
    """

    name: str
    file: str
    horizon: int
    windows: int
    season: int
    seq_len: int

    def read(self, root: Path) -> pd.DataFrame:
        """Read the rows by date: the target, then the future covariates."""
        return (
            read_gefcom(root / self.file) if self.file.startswith("GEFCom") else read_prices(root / self.file)
        )

    def origins(self, n_rows: int) -> Iterator[int]:
        """Yield the row of the first step of each forecast."""
        first = n_rows - self.windows * self.horizon
        return iter(range(first, n_rows, self.horizon))


TASKS = {
    task.name: task
    for task in (
        *(
            Task(f"epf_{name}", f"epf/{name.upper()}.csv", 24, 20, 24, 336)
            for name in ("np", "pjm", "be", "fr", "de")
        ),
        Task("proenfo_gfc14", "GEFCom2014-E.csv", 168, 20, 24, 336),
    )
}
GEFCOM_ROWS = 17_520
"""Rows of GEFCom2014-E in fev-bench: the last two years."""


def read_prices(file: Path) -> pd.DataFrame:
    """Read prices (Lago et al. 2021): the price, and two forecasts that are known a day ahead."""
    table = pd.read_csv(file, skipinitialspace=True, index_col="date", parse_dates=True)
    others = {name: table[name] for name in map(str, table) if name != "OT"}
    return pd.DataFrame({TARGET: table["OT"], **others})


def read_gefcom(file: Path) -> pd.DataFrame:
    """Read the load and the temperature of GEFCom2014-E (Hong et al. 2016); an hour is dated by its end."""
    table = pd.read_csv(file).iloc[-GEFCOM_ROWS:]
    hours = table["Hour"].to_numpy() - 1
    dates = pd.DatetimeIndex(pd.to_datetime(table["Date"])) + pd.to_timedelta(hours, unit="h")
    return pd.DataFrame(
        {TARGET: table["load"].to_numpy(), "airtemperature": table["T"].to_numpy()}, index=dates
    )
