"""A panel before missing values are filled."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from forecast.data.panel import Panel, ranges


@dataclass(frozen=True)
class UnfilledPanel:
    """A panel in memory with NaN where a number is missing or infinite.

    Attributes:
        panel: rows that are missing in the file are there, all NaN.
        in_file: False where a row is missing in the file.
    """

    panel: Panel
    in_file: Bool[np.ndarray, " rows"]

    @property
    def columns(self) -> tuple[str, ...]:
        """Targets, past covariates and future covariates."""
        return (*self.panel.columns, *self.panel.future_covariates)

    @cached_property
    def values(self) -> Float[np.ndarray, "rows columns"]:
        """All columns, in the order of `columns`."""
        values, future = np.asarray(self.panel.values), self.panel.future
        return values if future is None else np.hstack([values, future])

    @cached_property
    def in_history(self) -> Bool[np.ndarray, " rows"]:
        """False for the rows after the end of each series, where only future covariates are known."""
        history = np.zeros(len(self.in_file), dtype=bool)
        history[ranges(self.panel.starts, self.panel.ends)] = True
        return history


@runtime_checkable
class UnfilledSource(Protocol):
    """A source that can leave missing values as NaN."""

    def read_unfilled(self) -> UnfilledPanel:
        """The panel with missing values as NaN, whatever the source's `fill` says."""
        ...
