"""The compared tasks: files, columns, windows and splits. Standard library only."""

from dataclasses import dataclass

from results.settings import WITH_COVARIATES

DAYS_OF_ETT = (360, 120, 120)
"""Days of training, validation and test in ETT data (Zhou et al. 2021)."""


@dataclass(frozen=True)
class Task:
    """A file, and the windows of it that are forecast.

    Attributes:
        path: of the file, below --root.
        target: the column to forecast; empty: every column.
        known: columns whose values are known over the horizon.
        minutes: from a row to the next.
        seq_len, horizon: steps that are read and forecast.
        columns: number of forecast columns.
        missing: number that stands for a missing value.
        days: of training, validation and test; empty: the rows are split 7:1:2.
    """

    path: str
    target: str = ""
    known: tuple[str, ...] = ()
    minutes: int = 60
    seq_len: int = 168
    horizon: int = 24
    columns: int = 1
    missing: float | None = None
    days: tuple[int, int, int] | None = None

    @property
    def steps_per_day(self) -> int:
        return 24 * 60 // self.minutes


TASKS = {
    **{
        name: Task(path, target, tuple(known.split(",")))
        for name, (path, target, known) in WITH_COVARIATES.items()
    },
    "ettm1": Task("ETTm1.csv", minutes=15, seq_len=336, horizon=96, columns=7, days=DAYS_OF_ETT),
    "weather": Task("weather.csv", minutes=10, seq_len=336, horizon=96, columns=21, missing=-9999),
}
