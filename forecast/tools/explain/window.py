"""The window that is explained: how it is chosen, and a figure of its history, forecast and truth."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data import Batch, DataModule, Panel, Windows
from forecast.data.panel import of_series
from forecast.inference.model import TrainedModel
from forecast.inference.origins import find_date
from forecast.models.residual import arrange_quantiles
from forecast.reports.figures import forecast_figure
from forecast.reports.plots import Band
from forecast.system.errors import ConfigError
from forecast.tools.explain.figures import Picture

MAX_VARIABLES = 3
"""Largest number of variables in the picture of the window."""


@dataclass(frozen=True)
class Window:
    """One window of a split.

    Attributes:
        number: of the window within its split; None if data.eval_stride leaves it out.
        split: train, val or test.
        series: id of the series that the window lies in; empty for a table.
        dates: of the past and the horizon (seq_len + pred_len), as local times of the data.
        batch: the window as a batch of one, scaled.
    """

    number: int | None
    split: str
    series: str
    dates: pd.DatetimeIndex
    batch: Batch

    @property
    def origin(self) -> pd.Timestamp:
        """The date of the first forecast step."""
        return pd.Timestamp(self.dates[self.batch.past.shape[1]])  # type: ignore[return-value]

    @property
    def name(self) -> str:
        """The number of the window, or the date of its first forecast step if it has no number."""
        return f"the window of {self.origin}" if self.number is None else f"window {self.number}"


def choose_window(data: DataModule, split: str, wanted: str | int) -> Window:
    """The window that `wanted` names: last, first, its number, or the date of its first forecast step.

    Windows are numbered through the series, one after the other. A date means the first series that has such a window;
    data.eval_stride may leave out this window.

    Raises:
        ConfigError: a split or window that does not exist; the message lists the possible values. Also a date in which
            day and month could be swapped.
    """
    if split not in data.windows:
        raise ConfigError(
            f"split={split}: the data have no such split; choose one of {', '.join(data.windows)}"
        )
    windows, at_every_step, panel = data.windows[split], windows_at_every_step(data, split), data.panel
    place = find_place(str(wanted).strip(), windows, at_every_step, panel)
    if place is None:
        edges = np.array([[rows.start, rows.stop - 1] for rows in at_every_step.starts if rows])
        dates = panel.local_dates(edges.ravel() + at_every_step.seq_len)
        numbers = f"0 to {len(windows) - 1}{of_series(panel, len(panel))}"
        raise ConfigError(
            f"window={wanted}: the {split} split has the windows {numbers}, and forecasts begin from {dates.min()} to "
            f"{dates.max()}, {panel.describe_step()}; give first, last, a number or such a date"
        )
    batch = at_every_step.gather(
        torch.tensor([number_of(at_every_step, *place)], device=at_every_step.device)
    )
    series, first = place
    rows = first + np.arange(windows.seq_len + windows.pred_len)
    return Window(number_of(windows, *place), split, str(panel.ids[series]), panel.local_dates(rows), batch)


def windows_at_every_step(data: DataModule, split: str) -> Windows:
    """The windows of a split, with those that data.eval_stride leaves out."""
    windows = data.windows[split]
    if windows.stride == 1:
        return windows
    first = np.maximum(data.panel.starts, data.rows[split][0] - data.seq_len).tolist()
    return windows.with_starts(
        [
            range(row if rows else rows.stop, rows.stop)
            for row, rows in zip(first, windows.starts, strict=True)
        ]
    )


Place = tuple[int, int]
"""The series of a window, and the row at which its past begins."""


def find_place(wanted: str, windows: Windows, at_every_step: Windows, panel: Panel) -> Place | None:
    """The place of the window that `wanted` names: a number counts `windows`, a date is of one of `at_every_step`."""
    try:
        number = {"first": 0, "last": len(windows) - 1}.get(wanted)
        number = int(wanted) if number is None else number
    except ValueError:
        try:
            position = find_date(panel, "window", wanted)
        except ConfigError as error:
            raise ConfigError(f"{error}; or give first, last or a number") from None
        firsts = (panel.starts - panel.grid_starts + position - at_every_step.seq_len).tolist()
        found = (
            series
            for series, rows in enumerate(at_every_step.starts)
            if position >= 0 and firsts[series] in rows
        )
        series = next(found, None)
        return None if series is None else (series, firsts[series])
    if not 0 <= number < len(windows):
        return None
    index = torch.tensor([number], device=windows.device)
    return int(windows.series(index)), int(windows.origins(index)) - windows.seq_len


def number_of(windows: Windows, series: int, first: int) -> int | None:
    """The number of the window whose past begins at this row; None if there is none."""
    rows = windows.starts[series]
    return sum(map(len, windows.starts[:series])) + rows.index(first) if first in rows else None


def draw_window(
    trained: TrainedModel, data: DataModule, window: Window, output: Float[Tensor, "1 pred_len outputs"]
) -> Picture:
    """A picture of up to `MAX_VARIABLES` variables of the window, in original units, with the network's forecast.

    The forecast of a quantile model is its median, with its widest interval.
    """

    def unscale(values: Float[Tensor, "1 steps n_targets"]) -> Float[np.ndarray, "steps n_targets"]:
        return data.unscale_targets(values.float(), window.batch.series).cpu().numpy()[0]

    n = data.n_targets
    shown = sorted({n - 1, *range(0, n, -(-n // MAX_VARIABLES))})[-MAX_VARIABLES:]
    band, forecast = None, output
    if trained.quantiles is not None:
        quantiles = arrange_quantiles(output, n)  # (1, pred_len, n_targets, quantiles)
        forecast = trained.point(quantiles)
        low, high = (unscale(quantiles[..., end])[None, :, shown] for end in (0, -1))
        level = round(100 * (trained.quantiles[-1] - trained.quantiles[0]), 1)
        band = Band(level, low, high)
    past = window.batch.past[..., data.target_index]
    truth = unscale(torch.cat([past, window.batch.future], dim=1))[:, shown]
    figure = forecast_figure(
        [window.dates],
        [truth],
        {"forecast": [unscale(forecast)[:, shown]]},
        [data.target_columns[number] for number in shown],
        data.pred_len,
        f"series {window.series}" if window.series else "",
        trained.config["model"]["attention"]["name"],
        band=band,
    )
    figure.set_size_inches(10, figure.get_figheight())
    caption = (
        "The window in original units. The dotted line marks the last step that the model read: it did not read "
        "the truth after it."
    )
    return Picture("window", figure, caption)
