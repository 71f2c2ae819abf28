"""Drift of the inputs: mean and standard deviation of columns and covariates in newer rows, scaled as in training."""

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

        With data.scaler=standard, this is 0 for a column of numbers that has not changed since training. The other
        scalers do not scale to mean 0 and standard deviation 1, and categories are not scaled: the order says less.
        """
        return abs(self.mean) + abs(self.standard_deviation - 1)


def measure_drift(data: DataModule) -> dict[str, Drift]:
    """The drift of each column and future covariate in the pasts of test windows; the largest first.

    Of columns, the measured values count; of future covariates, the values that the model reads.
    """
    windows = data.windows["test"]
    index = torch.from_numpy(choose_evenly_spaced(len(windows), MAX_WINDOWS))
    names, read = (
        list(data.feature_columns),
        torch.where(windows.measured(index), windows.gather_past(index).past, torch.nan),
    )
    if windows.time.future is not None:
        names += data.panel.future_covariates
        first = windows.origins(index) - windows.seq_len
        read = torch.cat([read, windows.time.future.past_windows(first, windows.seq_len)], dim=-1)
    found = {}
    for name, column in zip(
        names, read.flatten(0, 1).double().T, strict=False
    ):  # masks of covariates come last
        values = column[~column.isnan()]
        if len(values) > 1:
            found[name] = Drift(values.mean().item(), values.std(correction=0).item())
    return dict(sorted(found.items(), key=lambda item: -item[1].size))
