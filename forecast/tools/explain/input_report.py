"""Importance and contributions of the inputs as pictures, tables and lines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.data import DataModule
from forecast.tools.explain.figures import Picture, contribution_figure, importance_figure
from forecast.tools.explain.importance import (
    Forecast,
    Importance,
    InputGroup,
    WindowSample,
    contributions,
    list_inputs,
    measure_importance,
)
from forecast.tools.explain.window import Window, windows_at_every_step

MAX_NAMED = 10
"""Largest number of the most important inputs that the terminal and the page name."""
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


@dataclass(frozen=True)
class InputStudy:
    """Importance of the inputs on windows of a split, and their contributions to the forecast of one window.

    Attributes:
        title: what was measured.
        lines: the most important inputs, the most important first.
        pictures: importance of all inputs, and contributions to the forecast of one target.
        tables: the content of importance.csv and contributions.csv, by name.
    """

    title: str
    lines: list[str]
    pictures: list[Picture]
    tables: dict[str, pd.DataFrame]


def study_inputs(
    forecast: Forecast, data: DataModule, window: Window, *, most: int, repeats: int, drawn: int
) -> InputStudy:
    """Measure the importance on at most `most` windows of the split of `window`, and the contributions to it.

    Args:
        repeats: permutations of each input.
        drawn: number of the target whose contributions are drawn.
    """
    windows = data.windows[window.split]
    sample = WindowSample(data, windows, windows_at_every_step(data, window.split), most=most)
    found = measure_importance(forecast, sample, repeats)
    measured = {one.group for one in found}
    groups = [group for group in list_inputs(data) if group in measured]
    batch, dates, columns = window.batch, window.dates[-data.pred_len :], list(data.target_columns)
    contributed = contributions(forecast, batch, sample, groups)  # (groups, pred_len, n_targets)
    point, truth = (
        data.unscale_targets(values, batch.series)[0].numpy() for values in (forecast(batch), batch.future)
    )
    title = (
        f"Importance: increase of the MSE, {sample.score(forecast, sample.batch).mse:.3g} on {len(sample)} "
        f"{window.split} windows, when an input is that of other windows ({repeats} repeats)"
    )
    strongest = sorted(found, key=lambda one: -one.mse)[:MAX_NAMED]
    bars = importance_figure(found, title)
    rows = contribution_figure(
        contributed[..., drawn],
        [group.label for group in groups],
        dates,
        point[:, drawn],
        truth[:, drawn],
        f"Contributions to the forecast of {columns[drawn]}",
    )
    groups_table = tabulate_groups(groups)
    repeated = groups_table.loc[groups_table.index.repeat(len(dates) * len(columns))]
    contributions_table = repeated.assign(
        target=np.tile(columns, len(groups) * len(dates)),
        date=np.tile(np.repeat(dates, len(columns)), len(groups)),
        contribution=contributed.ravel().astype(np.float32),
    )
    return InputStudy(
        title,
        [f"{one.group.label} {one.mse:+.3g} ± {one.mse_std:.2g}" for one in strongest],
        [Picture("importance", bars, IMPORTANCE), Picture("contributions", rows, CONTRIBUTIONS)],
        {"importance": tabulate_importance(found), "contributions": contributions_table},
    )


def tabulate_importance(found: Sequence[Importance]) -> pd.DataFrame:
    """One row for each group, with its errors."""
    numbers = ("mse", "mse_std", "mae", "mae_std")
    scores = {name: [getattr(one, name) for one in found] for name in numbers}
    return tabulate_groups([one.group for one in found]).assign(**scores)


def tabulate_groups(groups: Sequence[InputGroup]) -> pd.DataFrame:
    """One row for each group: its kind, its name, and its first and last lag if it is a block of lags."""
    rows = [(group.kind.value, group.name, *(group.lags or (None, None))) for group in groups]
    table = pd.DataFrame(rows, columns=["part", "input", "first_lag", "last_lag"])
    return table.astype({"first_lag": "Int64", "last_lag": "Int64"})
