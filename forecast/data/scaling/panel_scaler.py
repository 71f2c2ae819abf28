"""The scaler of all series of a panel: fitted to rows of each series, or restored from a checkpoint."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int64

from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, RowRanges
from forecast.data.scaling.domain import Domain
from forecast.data.scaling.fit_scaler import fit_scaler
from forecast.data.scaling.scaler import Scaler
from forecast.data.stored_values import Values, select_columns


def find_places(panel: Panel, state: dict[str, Any]) -> PerSeries:
    """The number of each series among those with a scale in a checkpoint's `state`; −1 where there is none."""
    place = pd.Index(state["ids"]).get_indexer(panel.ids).astype(np.int64)
    place[(place >= 0) & ~np.array(state["has_scale"])[place]] = -1
    return place


@dataclass(frozen=True)
class PanelScaling:
    """Fits the scalers of the series of a panel, or restores them from a checkpoint.

    Attributes:
        rows: the rows that the scale of each series is fitted to. A series without rows is not scaled.
        indicators: the columns that are indicators of categories, which are not scaled.
        kind, by: see `forecast.data.scaling.fit_scaler.fit_scaler`.
    """

    rows: RowRanges
    indicators: Container[str]
    kind: str
    by: str

    @property
    def has_rows(self) -> Bool[np.ndarray, " series"]:
        return self.rows.stop > self.rows.first

    @property
    def has_scale(self) -> Bool[np.ndarray, " series"]:
        """The series that a fit gives a scale: those with rows, or all if they share one scale."""
        return self.has_rows | (self.by == "all")

    def fit(self, values: Values, columns: tuple[str, ...], domain: Domain) -> Scaler:
        """A scaler of these columns with each series fitted to its rows."""
        scaler = self._identity(domain)
        self._fit_series(scaler, np.flatnonzero(self.has_rows), values, columns, others=None)
        return scaler

    def restore(self, saved: Scaler, place: PerSeries, values: Values, columns: tuple[str, ...]) -> Scaler:
        """A scaler of these columns in which series s has the scale of series place[s] of `saved`.

        A series whose place is −1 is fitted to its rows, unless all series have one scale.
        """
        scaler = self._identity(saved.domain)
        if self.by == "all":
            place = np.zeros_like(place)
        known = np.flatnonzero(place >= 0)
        scaler.copy_scales(saved, series=torch.from_numpy(known), source=torch.from_numpy(place[known]))
        new = np.flatnonzero((place < 0) & self.has_rows)
        self._fit_series(scaler, new, values, columns, others=saved)
        return scaler

    def _identity(self, domain: Domain) -> Scaler:
        zeros = torch.zeros(len(self.rows.first), len(domain.transforms), dtype=torch.float64)
        return Scaler(zeros, zeros + 1, domain)

    def _fit_series(
        self,
        scaler: Scaler,
        series: Int64[np.ndarray, " some"],
        values: Values,
        columns: tuple[str, ...],
        *,
        others: Scaler | None,
    ) -> None:
        """Fit some series of a scaler to their rows, in place; `others` scales other series."""
        if not len(series):
            return
        index = [i for i, name in enumerate(columns) if name not in self.indicators]
        if len(index) < len(columns):
            values = select_columns(values, index)
            columns = tuple(columns[i] for i in index)
            others = None if others is None else others.select_columns(index)
        fitted = fit_scaler(
            values, columns, self.rows.first[series], self.rows.stop[series],
            kind=self.kind, by=self.by, others=others, domain=scaler.domain.select_columns(index),
        )  # fmt: skip
        source = np.arange(len(series))
        if self.by == "all":
            series, source = np.arange(len(scaler)), np.zeros(len(scaler), dtype=np.int64)
        scaler.copy_scales(
            fitted, series=torch.from_numpy(series), source=torch.from_numpy(source), columns=index
        )
