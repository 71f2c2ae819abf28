"""The split's windows for some lengths, and how the simple rules do on them."""

from dataclasses import dataclass

import pandas as pd
import torch

from forecast.baselines import BATCH, FittedBaselines
from forecast.data import ForecastData
from forecast.diagnosis.gaps import date_at
from forecast.errors import DataError

CELLS = 8_000_000  # windows × steps × columns that the rules are measured on, so that it takes seconds


@dataclass(frozen=True)
class Part:
    """One part of the split."""

    name: str
    rows: range
    first: pd.Timestamp
    last: pd.Timestamp

    @classmethod
    def of(cls, name: str, rows: range, dates: pd.DatetimeIndex) -> "Part":
        if not rows:
            raise DataError(
                f"{len(dates)} rows leave none for the {name} part: give more rows, or another data.split"
            )
        return cls(name, rows, date_at(dates, rows.start), date_at(dates, rows.stop - 1))

    def windows(self, seq_len: int, pred_len: int) -> int:
        """Windows of these lengths; training's pasts lie within its rows, the others' may lie before."""
        own = pred_len + (seq_len if self.name == "train" else 0)
        return max(0, len(self.rows) - own + 1)


@dataclass(frozen=True)
class Rules:
    """Scores of the simple rules, best first, over `windows` test windows (every `every`-th)."""

    scores: dict[str, dict[str, float]]
    windows: int
    every: int
    season: int


def measure_rules(data: ForecastData) -> Rules:
    """MSE, MAE (scaled) and MASE of each rule on the test windows, as training reports them."""
    fitted = FittedBaselines.fit(data)
    windows = data.windows["test"]
    every = max(1, -(-len(windows) * data.pred_len * data.n_targets // CELLS))
    chosen = torch.arange(0, len(windows), every)
    errors = {name: fitted.new_errors(data) for name in fitted.rules()}
    for index in chosen.split(BATCH):
        batch = windows.gather(index)
        for name, rule in fitted.rules().items():
            errors[name].update(rule(windows, batch), batch.future)
    scores = {name: {s: sums.scores()[s] for s in ("mse", "mae", "mase")} for name, sums in errors.items()}
    ranked = dict(sorted(scores.items(), key=lambda item: item[1]["mse"]))
    return Rules(ranked, len(chosen), every, data.season)
