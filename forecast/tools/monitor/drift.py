"""Drift of the inputs: mean and standard deviation of columns and covariates in newer rows, scaled as in training."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float64

MIN_BLOCKS = 4
"""Number of blocks of a run from which newer rows are tested against them."""


class Drift(NamedTuple):
    """Mean and standard deviation of a scaled column; with data.scaler=standard, 0 and 1 in the training rows.

    p: that of `compare_with_blocks`; NaN where the run has too few blocks of this length.
    """

    mean: float
    standard_deviation: float
    p: float = math.nan

    @property
    def size(self) -> float:
        """|mean| + |standard deviation − 1|, by which columns are ordered.

        With data.scaler=standard, this is 0 for a column of numbers that has not changed since training. The other
        scalers do not scale to mean 0 and standard deviation 1, and categories are not scaled: the order says less.
        """
        return abs(self.mean) + abs(self.standard_deviation - 1)


def measure_drift(newer: pd.DataFrame, run: pd.DataFrame | None) -> dict[str, Drift]:
    """The drift of each column and future covariate of newer rows, the largest first.

    Args:
        newer, run: tables of `forecast.reports.inputs.tabulate_inputs`, of the newer rows (one block) and of all rows
            of the run. None: the run has no such table, so there are no tests.
    """
    blocks = {} if run is None else {str(name): table for name, table in run.groupby("variable", sort=False)}
    found = {}
    for row in newer.itertuples():
        moments = np.array([[row.mean, row.mean_square]])
        mean, deviation = summarize(moments)[0]
        p = math.nan
        if row.variable in blocks:
            p = compare_with_blocks(summarize(moments)[0], merge_blocks(blocks[row.variable], row.dates))
        found[str(row.variable)] = Drift(float(mean), float(deviation), p)
    return dict(sorted(found.items(), key=lambda item: -item[1].size))


def summarize(moments: Float64[np.ndarray, "blocks 2"]) -> Float64[np.ndarray, "blocks 2"]:
    """Mean and standard deviation, from mean and mean square."""
    mean, square = moments.T
    return np.stack([mean, np.sqrt(np.maximum(square - mean**2, 0))], axis=1)


def merge_blocks(table: pd.DataFrame, dates: int) -> Float64[np.ndarray, "blocks 2"]:
    """Mean and standard deviation of a variable in consecutive blocks of at least `dates` dates, the last ones first.

    None are returned if the blocks of `table` are longer: means over more dates vary less.
    """
    length = table["dates"].max()
    if length > dates:
        return np.empty((0, 2))
    merged = math.ceil(dates / table["dates"].min())
    blocks = len(table) // merged
    counts = table["count"].to_numpy(dtype=float)
    sums = np.nan_to_num(table[["mean", "mean_square"]].to_numpy()) * counts[:, None]
    kept = slice(len(table) - blocks * merged, None)
    counts = counts[kept].reshape(blocks, merged).sum(1)
    known = counts > 0
    return summarize(sums[kept].reshape(blocks, merged, 2).sum(1)[known] / counts[known, None])


def compare_with_blocks(newer: Float64[np.ndarray, " 2"], blocks: Float64[np.ndarray, "blocks 2"]) -> float:
    """p-value of the test that the mean and the standard deviation of newer rows are those of one more block.

    With the mean m and the standard deviation s of a statistic over k blocks of the same length, (newer − m) / (s √(1 +
    1/k)) has Student's t distribution with k − 1 degrees of freedom: the test of a prediction interval. The blocks hold
    the seasons and slow changes of the run, so a cold month is no drift if the run had cold months. The p-value is the
    smaller one of the two statistics, times 2 (Bonferroni); NaN with fewer than `MIN_BLOCKS` blocks.
    """
    from scipy.special import stdtr

    k = len(blocks)
    if k < MIN_BLOCKS:
        return math.nan
    change, spread = newer - blocks.mean(0), blocks.std(0, ddof=1) * math.sqrt(1 + 1 / k)
    changed = np.abs(change) > 1e-6  # a constant column has no spread
    statistic = np.where(changed, change / np.where(spread > 0, spread, 1e-12), 0.0)
    return min(1.0, 2 * float((2 * stdtr(k - 1, -np.abs(statistic))).min()))
