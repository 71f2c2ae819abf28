"""Choice of the origins of a backtest."""

import warnings

import numpy as np

from forecast.data import DataModule
from forecast.data.panel_labels import name_longest, name_some
from forecast.evaluation.backtest import Origins
from forecast.system.errors import ConfigError, DataError


def choose_backtest_origins(data: DataModule, steps: int | None, stride: int | None) -> Origins:
    """Choose the origins of a backtest.

    A series with too few rows before or after its first origin is left out, with a warning.

    Args:
        data: the data to forecast.
        steps: number of last rows of each series that are forecast; None: its test rows.
        stride: rows between two origins of a series; None: pred_len.

    Raises:
        ConfigError: `steps` is longer than the data, or shorter than a forecast.
        DataError: every series is too short.
    """
    panel = data.panel
    if steps is not None and steps > panel.lengths.max():
        longest = name_longest(panel, data.title)
        raise ConfigError(f"steps={steps:,}: {longest} has {panel.lengths.max():,} rows: give fewer steps")
    first, stop = data.rows["test"] if steps is None else (panel.ends - steps, panel.ends)
    if (rows := (stop - first).max()) < data.pred_len:
        raise ConfigError(f"steps={rows} is shorter than pred_len={data.pred_len}: give more steps")
    is_long_enough = (first - panel.starts >= data.seq_len) & (stop - first >= data.pred_len)
    if not is_long_enough.any():
        raise DataError(
            f"{data.name}: there are {(first - panel.starts).max():,} rows before the first origin, and the model "
            f"reads seq_len={data.seq_len}: give fewer steps"
        )
    if not is_long_enough.all():
        warnings.warn(
            f"{data.name}: {int((~is_long_enough).sum()):,} of {len(panel):,} series left out: fewer than "
            f"seq_len={data.seq_len} rows before their first origin, or fewer than pred_len={data.pred_len} after it: "
            f"{name_some(panel, ~is_long_enough)}",
            stacklevel=2,
        )
    stop = np.where(is_long_enough, stop - data.pred_len + 1, first)
    return Origins.between(panel, first, stop, stride or data.pred_len)
