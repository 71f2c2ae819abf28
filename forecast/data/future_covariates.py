"""Future covariates as a model reads them: measured up to a forecast origin, known in advance after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from forecast.data.carried_rows import CarriedRows
from forecast.data.fill import carry_forward
from forecast.data.measured_rows import last_measured
from forecast.data.panel import Panel
from forecast.data.rows import DiskRows, Rows, TensorRows
from forecast.data.scaling.scaler import Scaler
from forecast.data.stored_values import StoredValues

UNLIMITED = 1 << 40
"""Number of known steps of a covariate that is known over any horizon."""


@dataclass(frozen=True)
class FutureCovariates:
    """Columns of the future covariates among the step features of a window.

    Their names are those of `known_steps.covariate_feature_names`.

    A covariate with a limit in `known_steps` has a mask, which is 1 where its value is known and 0 elsewhere. After
    its last known step it repeats the value of that step. A missing value is read as the one before it.

    Attributes:
        past: columns of the rows before a forecast origin.
        ahead: columns of the rows after a forecast origin, as they were known in advance.
        known_steps: steps after the origin for which each column is known.
        is_mask: whether a column is a mask.
    """

    past: Rows
    ahead: Rows
    known_steps: Int64[Tensor, " columns"]
    is_mask: Bool[Tensor, " columns"]

    @classmethod
    def of(cls, panel: Panel, scaler: Scaler, known_steps: Sequence[int | None]) -> "FutureCovariates":
        """Scale the future covariates of a panel.

        Args:
            panel: with future covariates.
            scaler: of the future covariates.
            known_steps: steps for which each covariate is known after an origin; None: over the whole horizon.
        """
        assert panel.future is not None
        limits = [UNLIMITED if steps is None else steps for steps in known_steps]
        masked = [i for i, steps in enumerate(limits) if steps < UNLIMITED]
        past = _scaled_columns(panel, list(range(len(limits))), scaler, masked)
        ahead = _scaled_columns(panel, panel.ahead_index, scaler, masked) if panel.as_of else past
        return cls(
            past,
            ahead,
            torch.tensor([*limits, *(limits[i] for i in masked)]),
            torch.tensor([False] * len(limits) + [True] * len(masked)),
        )

    @property
    def n_columns(self) -> int:
        return self.past.n_columns

    @property
    def depends_on_origin(self) -> bool:
        """Whether what is read of a row depends on the forecast origin."""
        return self.ahead is not self.past or bool(self.is_mask.any())

    def past_windows(
        self, first: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        """Windows of `length` rows before a forecast origin, which begin at these rows."""
        return self.past.windows(first, length)

    def known_windows(
        self, origins: Int64[Tensor, " batch"], length: int
    ) -> Float32[Tensor, "batch {length} columns"]:
        """Windows of `length` rows after these forecast origins, as they are known at the origins."""
        found = self.ahead.windows(origins, length)
        if not self.is_mask.any():
            return found
        last = origins[:, None] + self.known_steps.clamp(max=length) - 1
        repeated = self.ahead[last].diagonal(dim1=1, dim2=2).masked_fill(self.is_mask, 0.0)
        is_known = torch.arange(length, device=origins.device)[:, None] < self.known_steps
        return torch.where(is_known, found, repeated[:, None])

    def to(self, device: torch.device | str) -> "FutureCovariates":
        past = self.past.to(device)
        ahead = past if self.ahead is self.past else self.ahead.to(device)
        return FutureCovariates(past, ahead, self.known_steps.to(device), self.is_mask.to(device))


def _scaled_columns(panel: Panel, index: list[int], scaler: Scaler, masked: list[int]) -> Rows:
    """Scaled columns of the future covariates of a panel, then the masks of some of them."""
    assert panel.future is not None
    if isinstance(panel.future, StoredValues):
        return CarriedRows(DiskRows(panel.future.select(index), scaler, panel.starts), panel.starts, masked)
    scaled = scaler.transform_panel(panel.future[:, index], panel.starts, panel.stops)
    masks = (~scaled[:, masked].isnan()).float()
    return TensorRows(torch.cat([carry_forward(scaled, panel.starts, panel.stops), masks], dim=1))


def carry_into(
    excerpt: Panel, panel: Panel, chosen: Int64[np.ndarray, " chosen"], first: Int64[np.ndarray, " chosen"]
) -> Panel:
    """An excerpt of a panel in which future covariates that its first rows lack have the value before, as in training.

    Args:
        excerpt: rows of the series `chosen` of `panel`, from the rows `first` on.
    """
    if panel.future is None:
        return excerpt
    sources = last_measured(panel.future, panel.starts[chosen], first + 1)
    values = np.diagonal(panel.future[sources.clip(min=0)], axis1=1, axis2=2)
    future = np.array(excerpt.future)
    future[excerpt.starts] = np.where(sources < 0, np.nan, values)
    return replace(excerpt, future=future)
