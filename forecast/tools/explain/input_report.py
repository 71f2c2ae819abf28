"""Importance and contributions of the inputs as pictures, tables and lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast.data import DataModule
from forecast.tools.explain.importance import (
    Forecast,
    Importance,
    WindowSample,
    contributions,
    measure_importance,
)
from forecast.tools.explain.input_figures import contribution_figure, importance_figure
from forecast.tools.explain.inputs import InputGroup, list_inputs
from forecast.tools.explain.layer import Picture
from forecast.tools.explain.window import Window, windows_at_every_step

MAX_NAMED = 10
"""Largest number of the most important inputs that the terminal and the page name."""


@dataclass(frozen=True)
class InputStudy:
    """Importance of the inputs on windows of a split, and their contributions to the forecast of one window.

    Attributes:
        windows, repeats: number of windows, and of permutations of each input.
        split: name of the split.
        mse: MSE of the forecasts of these windows.
        found: importance of each group, also of the lags of single columns.
        groups, contributed: groups, and their contributions in original units.
        forecast, truth: of the window, in original units; the truth is NaN where it is missing.
        dates: dates of the forecast.
        columns: names of the targets.
        drawn: number of the target whose contributions are drawn.
    """

    windows: int
    repeats: int
    split: str
    mse: float
    found: list[Importance]
    groups: list[InputGroup]
    contributed: Float64[np.ndarray, "groups pred_len n_targets"]
    forecast: Float64[np.ndarray, "pred_len n_targets"]
    truth: Float64[np.ndarray, "pred_len n_targets"]
    dates: pd.DatetimeIndex
    columns: list[str]
    drawn: int

    @classmethod
    def of_window(
        cls, forecast: Forecast, data: DataModule, window: Window, *, most: int, repeats: int, drawn: int
    ) -> "InputStudy":
        """Measure the importance on at most `most` windows of the split of `window`, and the contributions to it."""
        windows = data.windows[window.split]
        sample = WindowSample(data, windows, windows_at_every_step(data, window.split), most=most)
        found = measure_importance(forecast, sample, repeats)
        measured = {one.group for one in found}
        groups = [group for group in list_inputs(data) if group in measured]
        batch = window.batch
        point, truth = (
            data.unscale_targets(values, batch.series)[0].numpy()
            for values in (forecast(batch), batch.future)
        )
        return cls(
            windows=len(sample),
            repeats=repeats,
            split=window.split,
            mse=sample.score(forecast, sample.batch).mse,
            found=found,
            groups=groups,
            contributed=contributions(forecast, batch, sample, groups),
            forecast=point,
            truth=truth,
            dates=window.dates[-data.pred_len :],
            columns=list(data.target_columns),
            drawn=drawn,
        )

    @property
    def title(self) -> str:
        return (
            f"Importance: increase of the MSE, {self.mse:.3g} on {self.windows} {self.split} windows, when an input is "
            f"that of other windows ({self.repeats} repeats)"
        )

    def lines(self) -> Iterator[str]:
        """The most important inputs, the most important first."""
        for one in sorted(self.found, key=lambda one: -one.mse)[:MAX_NAMED]:
            yield f"{one.group.label} {one.mse:+.3g} ± {one.mse_std:.2g}"

    def pictures(self) -> list[Picture]:
        """The importance of all inputs, and the contributions to the forecast of one target."""
        column = self.columns[self.drawn]
        contributed = contribution_figure(
            self.contributed[..., self.drawn],
            [group.label for group in self.groups],
            self.dates,
            self.forecast[:, self.drawn],
            self.truth[:, self.drawn],
            f"Contributions to the forecast of {column}",
        )
        return [
            Picture("importance", importance_figure(self.found, self.title), IMPORTANCE),
            Picture("contributions", contributed, CONTRIBUTIONS),
        ]

    def write_tables(self, folder: Path) -> None:
        """Write importance.csv and contributions.csv."""
        numbers = ("mse", "mse_std", "mae", "mae_std")
        scores = {name: [getattr(one, name) for one in self.found] for name in numbers}
        importance = tabulate_groups([one.group for one in self.found]).assign(**scores)
        importance.to_csv(folder / "importance.csv", index=False)
        n_groups, pred_len, n_targets = self.contributed.shape
        groups = tabulate_groups(self.groups)
        repeated = groups.loc[groups.index.repeat(pred_len * n_targets)]
        repeated.assign(
            target=np.tile(self.columns, n_groups * pred_len),
            date=np.tile(np.repeat(self.dates, n_targets), n_groups),
            contribution=self.contributed.ravel().astype(np.float32),
        ).to_csv(folder / "contributions.csv", index=False)


def tabulate_groups(groups: Sequence[InputGroup]) -> pd.DataFrame:
    """One row for each group: its kind, its name, and its first and last lag if it is a block of lags."""
    rows = [(group.kind.value, group.name, *(group.lags or (None, None))) for group in groups]
    table = pd.DataFrame(rows, columns=["part", "input", "first_lag", "last_lag"])
    return table.astype({"first_lag": "Int64", "last_lag": "Int64"})


IMPORTANCE = (
    "Each bar is the increase of the squared error when all windows read this input from another window, in a random "
    "order; the black line is the standard deviation over the repeats. A bar of zero: the forecasts do not need the "
    "input. History is the course of the values around their mean, level is this mean. Lags count steps back from the "
    "first forecast step. Inputs that carry the same information, such as correlated columns, share their importance, "
    "so each of them alone may look unimportant."
)
CONTRIBUTIONS = (
    "The contribution of an input is the forecast minus the mean forecast if the input is that of other windows: "
    "orange raises the forecast, violet lowers it. The number beside a name is the mean absolute contribution. "
    "Contributions do not add up to the forecast, because inputs interact."
)
