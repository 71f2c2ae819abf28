"""The scores of the baselines on the test windows."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from forecast.data import DataModule, Panel
from forecast.data.source import Source
from forecast.data.window_starts import spread_stride
from forecast.evaluation.error_sums import new_error_sums
from forecast.evaluation.fitted_baselines import FittedBaselines
from forecast.tools.check.windows import BaselineScores

BATCH = 256
CELLS = 8_000_000
"""Largest number of values (windows × steps × columns) on which the baselines are scored, to limit the time."""


def score_baselines(data: DataModule) -> BaselineScores:
    """MSE and MAE (scaled) and MASE of each baseline on the test windows, as training reports them.

    With so many covariates that their choice takes long in training, the settings of the linear baseline may differ.
    """
    fitted = FittedBaselines.fit(data, thorough=False)
    windows = data.windows["test"]
    every = spread_stride(len(windows), max(1, CELLS // (data.pred_len * data.n_targets)), data.season)
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
