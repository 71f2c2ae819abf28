"""Drift of the inputs: their mean and standard deviation in newer rows, in units of the scale of training."""

from typing import NamedTuple

import torch

from forecast.data import DataModule
from forecast.data.even_spacing import choose_evenly_spaced

MAX_WINDOWS = 512
"""Number of windows, evenly spaced, whose inputs are looked at."""


class Drift(NamedTuple):
    """Mean and standard deviation of a scaled column; with data.scaler=standard, 0 and 1 in the training rows."""

    mean: float
    standard_deviation: float

    @property
    def size(self) -> float:
        """|mean| + |standard deviation − 1|, by which columns are ordered.

        With data.scaler=standard, this is 0 if the column has not changed since training. The other scalers do not
        scale to mean 0 and standard deviation 1, so with them the order says less.
        """
        return abs(self.mean) + abs(self.standard_deviation - 1)


def measure_drift(data: DataModule) -> dict[str, Drift]:
    """The drift of each column over the measured values in the inputs of test windows; the largest first."""
    windows = data.windows["test"]
    index = torch.from_numpy(choose_evenly_spaced(len(windows), MAX_WINDOWS))
    measured = windows.measured(index)
    past = torch.where(measured, windows.gather_past(index).past, torch.nan).flatten(0, 1).double()
    found = {}
    for column, name in enumerate(data.feature_columns):
        values = past[:, column][~past[:, column].isnan()]
        if len(values) > 1:
            found[name] = Drift(values.mean().item(), values.std(correction=0).item())
    return dict(sorted(found.items(), key=lambda item: -item[1].size))
