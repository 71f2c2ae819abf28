"""Future covariates on disk, whose missing values are filled forward."""

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from forecast.data.measured_rows import last_measured
from forecast.data.row_ranges import PerSeries
from forecast.data.rows import DiskRows
from forecast.data.stored_values import StoredValues, pieces_of

BLOCK_ROWS = 1 << 10
"""Rows of a block. Only the block of a row is read for the last value before the row."""


class CarriedRows:
    """Scaled rows on disk, filled forward within each series (0 before the first value), and masks.

    A mask is 1 where the value of its column was measured. In memory, `forecast.data.fill.carry_forward` does the
    same.
    """

    device, is_on_disk = torch.device("cpu"), True

    def __init__(self, rows: DiskRows, starts: PerSeries, masked: list[int]) -> None:
        """`starts` are the first rows of the series, `masked` the columns that have a mask."""
        self._rows, self._starts, self._masked = rows, starts, masked
        self._before_block = _last_before_blocks(rows.values) if any(rows.values.missing) else None

    @property
    def n_columns(self) -> int:
        return self._rows.n_columns + len(self._masked)

    def __getitem__(self, rows: Int64[Tensor, "*shape"] | slice) -> Float32[Tensor, "*shape columns"]:
        if isinstance(rows, slice):
            rows = torch.arange(len(self._rows.values))[rows]
        return self.windows(rows.flatten(), 1)[:, 0].unflatten(0, rows.shape)

    def windows(
        self, first: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        scaled = self._rows.windows(first, length)
        missing = scaled.isnan()
        masks = (~missing[..., self._masked]).float()
        if missing.any():
            begin = self._values_before(first, missing[:, :1])
            whole, step = torch.cat([begin, scaled], dim=1), torch.arange(1, length + 1)[None, :, None]
            source = torch.where(missing, 0, step).cummax(dim=1).values
            scaled = whole.gather(1, source)
        return torch.cat([scaled, masks], dim=2) if self._masked else scaled

    def _values_before(
        self, first: Int64[Tensor, " batch"], missing: Tensor
    ) -> Float32[Tensor, "batch 1 columns"]:
        """Return the last values before each window that starts with missing values; 0 if there is none."""
        found = torch.zeros(missing.shape)
        lacking = missing[:, 0].any(dim=1).nonzero()[:, 0]
        if not len(lacking) or self._before_block is None:
            return found
        rows = first[lacking].numpy()
        starts, blocks = (
            self._starts[np.searchsorted(self._starts, rows, side="right") - 1],
            rows // BLOCK_ROWS,
        )
        within = last_measured(self._rows.values, np.maximum(starts, blocks * BLOCK_ROWS), rows + 1)
        sources = np.where(within < 0, self._before_block[blocks], within)
        values = self._rows[torch.from_numpy(sources.clip(min=0))].diagonal(dim1=1, dim2=2)
        is_own = torch.from_numpy(sources >= starts[:, None])
        found[lacking, 0] = torch.where(is_own, values, 0.0)
        return found

    def to(self, device: torch.device | str) -> "CarriedRows":
        return self


def _last_before_blocks(values: StoredValues) -> Int64[np.ndarray, "blocks columns"]:
    """Of each block, the last row before it with a value of each column, in whatever series; −1: there is none."""
    n_blocks = -(-len(values) // BLOCK_ROWS)
    found = np.full((n_blocks + 1, values.shape[1]), -1)
    for rows in pieces_of(values, np.array([0]), np.array([len(values)])):
        numbers, blocks = np.where(np.isfinite(values[rows]), rows[:, None], -1), rows // BLOCK_ROWS
        begins = np.flatnonzero(np.diff(blocks, prepend=-1))
        last = np.maximum.reduceat(numbers, begins)
        np.maximum.at(found, blocks[begins] + 1, last)
    return np.maximum.accumulate(found, axis=0)[:-1]
