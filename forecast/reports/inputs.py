"""Mean and standard deviation of the inputs of a run in blocks of time, scaled as in training."""

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float32

from forecast.data import DataModule
from forecast.data.row_ranges import RowRanges
from forecast.data.time_features import choose_evenly_spaced

FILE = "inputs_by_block.parquet"  # the table in a run folder
BLOCKS = 256  # that the rows of a run are cut into
MAX_SERIES = 64  # evenly spaced, that are read
NUMBERS_AT_ONCE = 1 << 20  # numbers that are read at once: 8 MiB of float64, a few times over


def tabulate_run_inputs(data: DataModule) -> pd.DataFrame:
    """Sum up the inputs of all rows of a run, from training to test; see `tabulate_inputs`."""
    first = np.min([rows.first for rows in data.rows.values()], axis=0)
    stop = np.max([rows.stop for rows in data.rows.values()], axis=0)
    return tabulate_inputs(data, RowRanges(first, stop), BLOCKS)


def tabulate_inputs(data: DataModule, rows: RowRanges, blocks: int) -> pd.DataFrame:
    """Sum up each column and future covariate in blocks of consecutive dates.

    Of columns, the measured values count; of future covariates, the values that the model reads.

    `blocks`: number of blocks of equal length; fewer if there are fewer dates.

    Returns:
        One row for each column and block, in order: `variable`, `block`, `dates` (their number), `count` (of values),
        `mean` and `mean_square`, NaN without values. A column without any value is left out.
    """
    panel, names = data.panel, [*data.feature_columns, *data.panel.future_covariates]
    chosen = [s for s in np.flatnonzero(rows.stop > rows.first) if data.scaled.scales.has_scale[s]]
    chosen = [chosen[i] for i in choose_evenly_spaced(len(chosen), MAX_SERIES)]
    to_grid = panel.grid_starts - panel.starts
    begin = min((rows.first + to_grid)[chosen], default=0)
    dates = max((rows.stop + to_grid)[chosen], default=0) - begin
    blocks = max(1, min(blocks, dates))
    edges = np.linspace(0, dates, blocks + 1).astype(int)
    sums = np.zeros((3, len(names), blocks))
    at_once = max(1, NUMBERS_AT_ONCE // len(names))
    for series in chosen:
        for at in range(int(rows.first[series]), stop := int(rows.stop[series]), at_once):
            values = read_inputs(data, at, min(at_once, stop - at)).T.astype(np.float64)
            place = at + to_grid[series] - begin + np.arange(values.shape[1])
            block = np.searchsorted(edges, place, side="right") - 1
            for column, each in enumerate(values):
                known = ~np.isnan(each)
                powers = known[known], each[known], each[known] ** 2
                for total, power in zip(sums, powers, strict=True):
                    total[column] += np.bincount(block[known], weights=power, minlength=blocks)
    count = sums[0].ravel()
    means = sums[1:].reshape(2, -1) / np.where(count, count, np.nan)
    table = pd.DataFrame(
        {
            "variable": np.repeat(np.array(names, dtype=object), blocks),
            "block": np.tile(np.arange(blocks), len(names)),
            "dates": np.tile(np.diff(edges), len(names)),
            "count": count.astype(np.int64), "mean": means[0], "mean_square": means[1],
        }
    )  # fmt: skip
    return table[(sums[0].sum(1) > 0).repeat(blocks)].reset_index(drop=True)  # type: ignore[return-value]


def read_inputs(data: DataModule, first: int, length: int) -> Float32[np.ndarray, "rows inputs"]:
    """Consecutive scaled rows of the columns, then of the future covariates; NaN where one was not measured."""
    scaled, start = data.scaled, torch.tensor([first])
    parts = [scaled.values.windows(start, length)[0]]
    if scaled.time.future is not None:  # masks of covariates come last
        ahead = scaled.time.future.past.windows(start, length)[0]
        parts.append(ahead[:, : len(data.panel.future_covariates)])
    return torch.cat(parts, dim=-1).numpy()
