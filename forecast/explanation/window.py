"""The window that is explained: which one, its forecast in the data's units, and a picture of both."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from forecast.data import Batch, ForecastData
from forecast.errors import ConfigError
from forecast.explanation.drawing import FIRST
from forecast.plots import TRUTH, subplots

SHOWN_VARIABLES = 3


@dataclass(frozen=True)
class Window:
    """One window of a split: its number in it, and the dates of its past and horizon together."""

    number: int
    split: str
    dates: pd.DatetimeIndex
    batch: Batch

    @property
    def origin(self) -> pd.Timestamp:
        """The first step that is forecast."""
        return pd.Timestamp(self.dates[self.batch.past.shape[1]])  # type: ignore[return-value]


def choose(data: ForecastData, split: str, wanted: str | int) -> Window:
    """The window that `wanted` means: last, first, its number, or the date of the first step that it forecasts.

    Raises ConfigError naming what there is.
    """
    if split not in data.windows:
        raise ConfigError(f"split={split}: there is no such split; there are {', '.join(data.windows)}")
    windows = data.windows[split]
    rows = windows.origins(torch.arange(len(windows), device=windows.values.device)).cpu()
    origins = data.table.dates[rows.numpy()]
    number = _number(str(wanted).strip(), origins)
    if number is None or not 0 <= number < len(windows):
        raise ConfigError(
            f"window={wanted}: the {split} split has the windows 0 to {len(windows) - 1}, whose forecasts begin from "
            f"{origins[0]} to {origins[-1]}, one every {data.freq}; give first, last, a number or such a date"
        )
    row = int(rows[number]) - windows.seq_len
    batch = windows.gather(torch.tensor([number], device=windows.values.device))
    return Window(number, split, data.table.dates[row : row + windows.seq_len + windows.pred_len], batch)


def _number(wanted: str, origins: pd.DatetimeIndex) -> int | None:
    if wanted in ("first", "last"):
        return 0 if wanted == "first" else len(origins) - 1
    try:
        return int(wanted)
    except ValueError:
        date = pd.to_datetime(wanted, errors="coerce")
    position = origins.get_indexer([date])[0]  # −1: not among them
    return None if position < 0 else int(position)


def window_figure(
    window: Window,
    truth: Float[np.ndarray, "steps n_targets"],
    forecast: Float[np.ndarray, "pred_len n_targets"],
    band: tuple[Float[np.ndarray, "pred_len n_targets"], Float[np.ndarray, "pred_len n_targets"]] | None,
    columns: list[str],
    label_len: int,
    band_name: str = "",
) -> Figure:
    """History, forecast and truth of a few variables over the dates of the whole window, in the data's units."""
    n = len(columns)
    shown = sorted({n - 1, *range(0, n, -(-n // SHOWN_VARIABLES))})[-SHOWN_VARIABLES:]
    figure, table = subplots(
        len(shown), 1, figsize=(10, 2 * len(shown) + 1), squeeze=False, sharex=True, layout="constrained"
    )
    pred_len = len(forecast)
    when, ahead = window.dates, window.dates[-pred_len - 1 :]
    for axis, column in zip(table[:, 0], shown, strict=True):
        axis.plot(when, truth[:, column], color=TRUTH, linewidth=1.1, label="history, then truth")
        known = truth[-pred_len - 1, column]  # what comes is drawn from it on
        axis.plot(ahead, np.append(known, forecast[:, column]), color=FIRST, linewidth=1.8, label="forecast")
        if band is not None:
            low, high = (np.append(known, side[:, column]) for side in band)
            axis.fill_between(ahead, low, high, color=FIRST, alpha=0.2, linewidth=0, label=band_name)
        if label_len:
            seen_again = (when[-pred_len - label_len], window.origin)
            axis.axvspan(*seen_again, color="#eeeeee", zorder=0, label="history that the decoder sees again")  # type: ignore[arg-type]
        axis.axvline(window.origin, color="black", linewidth=1, linestyle="--", label="origin")  # type: ignore[arg-type]
        axis.set_ylabel(columns[column], parse_math=False)
        axis.margins(x=0.01)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = table[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def in_units(data: ForecastData, scaled: Tensor) -> np.ndarray:
    return data.unscale_targets(scaled.float().cpu()).numpy()
