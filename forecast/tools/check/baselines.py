"""The scores of the baselines on the test windows."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from forecast.data import DataModule, Panel
from forecast.data.source import Source
from forecast.data.split import spread_stride
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.measurement import score_windows
from forecast.tools.check.gaps import BaselineScores

CELLS = 8_000_000
"""Largest number of values (windows × steps × columns) on which the baselines are scored, to limit the time."""


def score_baselines(data: DataModule) -> BaselineScores:
    """MSE and MAE (scaled) and MASE of each baseline on the test windows, as training reports them.

    With so many covariates that their choice takes long in training, the settings of the linear baseline may differ.
    """
    fitted = FittedBaselines.fit(data, thorough=False)
    windows = data.windows["test"]
    every = spread_stride(len(windows), max(1, CELLS // (data.pred_len * data.n_targets)), data.season)
    forecasters = {name: partial(baseline, windows) for name, baseline in fitted.baselines().items()}
    found = score_windows(forecasters, data, fitted, "test", stride=every)
    scores = {name: {score: each[score] for score in ("mse", "mae", "mase")} for name, each in found.items()}
    ranked = dict(sorted(scores.items(), key=lambda item: item[1]["mse"]))
    return BaselineScores(
        ranked, -(-len(windows) // every), every * windows.stride, fitted.seasonal_naive_season
    )


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
