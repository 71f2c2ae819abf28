"""The windows of each split, and the scores of the baselines on the test windows."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int64

from forecast.data import DataModule, Panel
from forecast.data.row_ranges import PerSeries
from forecast.data.source import Source
from forecast.data.split import Split, split_panel
from forecast.evaluation.error_sums import new_error_sums
from forecast.evaluation.fitted_baselines import FittedBaselines
from forecast.system.errors import ConfigError, DataError
from forecast.tools.check.gaps import date_at

BATCH = 256
CELLS = 8_000_000
"""Largest number of values (windows × steps × columns) on which the baselines are scored, to limit the time."""


@dataclass(frozen=True)
class SplitPart:
    """One split: the rows first[s] … last[s] − 1 of each series s of a panel.

    Attributes:
        history: rows of each series before `first`, from which windows of validation and test may take their past.
        has_scale: the series that can be scaled; one without training rows has no windows unless data.scale_by=all.
        begins, ends: the first and the last date of any series.
    """

    name: str
    first: PerSeries
    last: PerSeries
    history: PerSeries
    has_scale: Bool[np.ndarray, " series"]
    begins: pd.Timestamp
    ends: pd.Timestamp

    @property
    def lengths(self) -> PerSeries:
        return self.last - self.first

    @property
    def n_rows(self) -> int:
        return int(self.lengths.sum())

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    @property
    def typical(self) -> int:
        """The median number of rows of the series that have rows in this split and in training."""
        used = np.sort(self.lengths[self.has_scale & (self.lengths > 0)])
        return int(used[(len(used) - 1) // 2]) if len(used) else 0

    def windows(self, seq_len: int, pred_len: int) -> Int64[np.ndarray, " series"]:
        """The number of windows of each series."""
        own = pred_len + np.maximum(0, seq_len - self.history)
        return np.where(self.has_scale, np.maximum(0, self.lengths - own + 1), 0)


def split_parts(panel: Panel, split: Split, scale_by: str = "series") -> list[SplitPart]:
    """Split each series into training, validation and test rows; `scale_by` as in `DataModule`.

    Raises:
        ConfigError: a `split` of one part.
        DataError: a split without rows.
    """
    rows = split_panel(panel, split, seq_len=1, season=1)
    if set(rows) != {"train", "val", "test"}:
        raise ConfigError(f"data.split={split} is one part: leave it out, or give all three")
    has_scale = (rows["train"][1] > rows["train"][0]) | (scale_by == "all")
    parts = []
    for name, (first, last) in rows.items():
        used = last > first
        if not used.any():
            raise DataError(
                f"{panel.n_rows} rows leave none for the {name} part: give more rows, or another data.split"
            )
        begins = date_at(panel.local_dates(first[used]).sort_values(), 0)
        ends = date_at(panel.local_dates(last[used] - 1).sort_values(), -1)
        parts.append(SplitPart(name, first, last, first - panel.starts, has_scale, begins, ends))
    return parts


@dataclass(frozen=True)
class BaselineScores:
    """Scores of the baselines, best first, on `windows` test windows (every `every`-th of them)."""

    scores: dict[str, dict[str, float]]
    windows: int
    every: int
    season: int


def score_baselines(data: DataModule) -> BaselineScores:
    """MSE and MAE (scaled) and MASE of each baseline on the test windows, as training reports them."""
    fitted = FittedBaselines.fit(data)
    windows = data.windows["test"]
    every = max(1, -(-len(windows) * data.pred_len * data.n_targets // CELLS))
    chosen = torch.arange(0, len(windows), every)
    errors = {name: new_error_sums(fitted, data) for name in fitted.baselines()}
    for index in chosen.split(BATCH):
        batch = windows.gather(index)
        for name, baseline in fitted.baselines().items():
            forecast = data.clip_targets(baseline(windows, batch), batch.series)
            errors[name].update(forecast, batch.future, batch.series)
    found = {name: sums.compute().scores() for name, sums in errors.items()}
    scores = {name: {score: each[score] for score in ("mse", "mae", "mase")} for name, each in found.items()}
    ranked = dict(sorted(scores.items(), key=lambda item: item[1]["mse"]))
    return BaselineScores(ranked, len(chosen), every * windows.stride, fitted.seasonal_naive_season)


@dataclass
class PanelSource(Source):
    """A data source that returns a given panel."""

    panel: Panel
    path: Path | None = None

    def read(self) -> Panel:
        return self.panel


def cut_windows(panel: Panel, data: DataModule, options: Mapping[str, Any]) -> DataModule:
    """The windows of `panel`, split and scaled as `data` would."""
    made = DataModule(PanelSource(panel), **{**vars(data.options), **options})
    with warnings.catch_warnings(action="ignore"):  # of constant columns and short series, which are reported
        made.setup()
    return made
