"""A panel as a model reads it: its scales, fitted to training rows or restored from a checkpoint, and scaled values."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from forecast.data import covariates
from forecast.data.panel import Panel, by_column
from forecast.data.row_ranges import PerSeries, RowRanges, StoredValues, Values, has_values, select_columns
from forecast.data.scaler import Scaler, fit_scaler
from forecast.data.source import FILLS, Domain, ScalingOptions, check_values, choose_domain
from forecast.data.step_features import DatedRows, DiskRows, FutureCovariates, Rows, StepFeatures, TensorRows
from forecast.data.windows import Fill, Windows, read_past
from forecast.system.errors import DataError


@dataclass(frozen=True)
class Scales:
    """The scales of the values, the future covariates and the static columns of a panel.

    Attributes:
        scaler, future_scaler: of the values and of the future covariates.
        known_steps: steps for which each future covariate is known after a forecast origin; None: over any horizon.
        has_scale: the series that have a scale: those in the checkpoint, or with values in the rows of the fit.
    """

    scaler: Scaler
    future_scaler: Scaler
    static: covariates.Encoding  # how static columns are encoded
    known_steps: list[int | None]
    timezone: str | None  # zone of the training data; the calendar features are of its local times
    place: PerSeries  # the number of each series in the checkpoint that the scales come from, −1 if it is not there
    has_scale: Bool[np.ndarray, " series"]

    @classmethod
    def fit(
        cls,
        name: str,
        panel: Panel,
        rows: RowRanges,
        options: ScalingOptions,
        *,
        targets: Sequence[str] = (),
        state: dict[str, Any] | None = None,
    ) -> "Scales":
        """Fit the scales to these rows of each series, or take them from a checkpoint.

        Args:
            targets: the columns that are forecast; without a checkpoint.
            state: that of the data module in the checkpoint; only series that it does not have are fitted.

        Raises DataError for a value outside the bounds of its column, or that its transform does not take, and for
        other future covariates than the checkpoint's.
        """
        known_steps = covariates.resolve_known_steps(options.known_steps, panel)
        saved = dict.fromkeys(("scaler", "future_scaler"))
        if state is None:
            domain = choose_domain(panel.columns, targets, options)
            place = np.full(len(panel), -1)
        else:
            covariates.check_known_as_trained(name, panel, known_steps, state)
            saved = {key: Scaler.from_state_dict(state[key]) for key in saved}
            domain = saved["scaler"].domain
            place = pd.Index(state["ids"]).get_indexer(panel.ids).astype(np.int64)
            place[(place >= 0) & ~np.array(state["has_scale"])[place]] = -1
        check_values(name, panel, domain)
        if len(panel) > 1:  # a series without a value of a column is not fitted
            first, last = rows
            rows = RowRanges(first, np.where(has_values(panel.values, first, last), last, first))
        make = partial(_make_scaler, panel, rows, options, place)
        future, free = panel.future_covariates, Domain.unlimited(len(panel.future_covariates))
        measured = np.empty((len(panel.values), 0))
        if panel.future is not None:
            measured = select_columns(panel.future, range(len(future)))
        return cls(
            scaler=make(panel.values, panel.columns, domain, saved["scaler"]),
            future_scaler=make(measured, future, free, saved["future_scaler"]),
            static=covariates.fit_static(name, panel.static) if state is None else state["static"],
            known_steps=known_steps,
            timezone=panel.utc_offset.timezone if state is None else state["timezone"],
            place=place,
            has_scale=(place >= 0) | (rows.stop > rows.first) | (options.scale_by == "all"),
        )


def _make_scaler(
    panel: Panel,
    rows: RowRanges,
    options: ScalingOptions,
    place: PerSeries,
    values: Values,
    columns: Sequence[str],
    domain: Domain,
    saved: Scaler | None,
) -> Scaler:
    """A scaler of columns of a panel, in which series s has the scale of series place[s] of `saved`.

    A series whose place is −1 is fitted to its rows, unless all series have one scale. Indicators are not scaled.
    """
    zeros, shares = torch.zeros(len(panel), len(columns), dtype=torch.float64), options.scale_by == "all"
    scaler = Scaler(zeros, zeros + 1, domain)
    if saved is not None:
        place = np.zeros_like(place) if shares else place
        known = np.flatnonzero(place >= 0)
        scaler.copy_scales(saved, series=torch.from_numpy(known), source=torch.from_numpy(place[known]))
    new = np.flatnonzero((place < 0) & (rows.stop > rows.first))
    if not len(new):
        return scaler
    index = [i for i, name in enumerate(columns) if name not in panel.indicators]
    fitted = fit_scaler(
        select_columns(values, index), [columns[i] for i in index], rows.first[new], rows.stop[new],
        kind=options.scaler, by=options.scale_by, others=saved and saved.select_columns(index),
        domain=domain.select_columns(index),
    )  # fmt: skip
    source = np.arange(len(new))
    if shares:
        new, source = np.arange(len(panel)), np.zeros(len(panel), dtype=np.int64)
    scaler.copy_scales(fitted, series=torch.from_numpy(new), source=torch.from_numpy(source), columns=index)
    return scaler


@dataclass(frozen=True)
class ScaledPanel:
    """A panel with its scales."""

    panel: Panel
    scales: Scales
    values: Rows  # scaled columns of the panel (rows, n_features)
    time: StepFeatures  # calendar features, future covariates and static features of each row
    fill: Fill | None  # how missing values in the past of a window are completed; None: no value is missing

    @classmethod
    def of(cls, name: str, panel: Panel, scales: Scales, options: ScalingOptions, *, season: int) -> "ScaledPanel":
        """Scale a panel, whose missing values are completed with this season; `name` is for messages.

        Raises DataError for numbers that float32 cannot hold once they are scaled.
        """
        utc_offset = replace(panel.utc_offset, timezone=scales.timezone)
        calendar = DatedRows(panel.grid, panel.freq, options.holidays, utc_offset)
        future = None
        if panel.future_covariates:
            future = FutureCovariates.of(panel, scales.future_scaler, scales.known_steps)
        values = _scaled_rows(name, panel, scales.scaler)
        dated = calendar if panel.is_on_disk else TensorRows(calendar[:])
        shifts = torch.from_numpy(panel.grid_starts - panel.starts)
        static = torch.from_numpy(covariates.encode_static(name, panel.static, scales.static))
        fill = _make_fill(panel, scales.scaler, options, season)
        return cls(panel, scales, values, StepFeatures(dated, shifts, future, static), fill)

    def past(
        self, first: Int64[Tensor, " batch"], length: int, series: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch {length} n_features"]:
        """Windows of `length` rows before a forecast, completed."""
        return read_past(self.values, self.fill, first, length, series)

    def windows(self, starts: Sequence[range], *, seq_len: int, pred_len: int, target_index: list[int]) -> Windows:
        """Windows over the scaled panel; of each series, their pasts begin at these rows."""
        first_rows = torch.from_numpy(self.panel.starts)
        return Windows(
            self.values, self.time, starts=starts, first_rows=first_rows, seq_len=seq_len, pred_len=pred_len,
            target_index=target_index, fill=self.fill,
        )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """Return the state that is needed to scale other rows in the same way."""
        return {
            "id_column": self.panel.ids.name,
            "ids": self.panel.ids.tolist(),
            "has_scale": self.scales.has_scale.tolist(),
            "scaler": self.scales.scaler.state_dict(),
            "future_covariates": list(self.panel.future_covariates),
            "as_of": dict(self.panel.as_of),
            "known_steps": self.scales.known_steps,
            "future_scaler": self.scales.future_scaler.state_dict(),
            "static": self.scales.static,
            "static_features": covariates.static_feature_names(self.scales.static),
            "timezone": self.scales.timezone,
        }


def _make_fill(panel: Panel, scaler: Scaler, options: ScalingOptions, season: int) -> Fill | None:
    """The rule that fills missing values of the panel; None where no value is missing."""
    chosen = by_column("data.fill", options.fill, panel.columns, FILLS[0])
    methods = tuple("previous" if name in panel.indicators else method for name, method in chosen.items())
    if not panel.has_missing:
        return None
    zeros = torch.zeros(len(scaler), 1, len(panel.columns))
    zero = scaler.transform(zeros, torch.arange(len(scaler)))[:, 0].float()
    return Fill(methods, season, options.fill_limit, zero)


def _scaled_rows(name: str, panel: Panel, scaler: Scaler) -> Rows:
    """The scaled values. Raises DataError for a column that float32 cannot hold."""
    if isinstance(panel.values, StoredValues):
        extremes = torch.tensor([panel.values.minimum, panel.values.maximum]).expand(len(scaler), -1, -1)
        lost = ~scaler.transform(extremes, series=None).float().isfinite().all(dim=(0, 1))
        rows: Rows = DiskRows(panel.values, scaler, panel.starts)
    else:
        scaled = scaler.transform_panel(panel.values, panel.starts, panel.stops)
        lost = (~scaled.isfinite() & torch.from_numpy(np.isfinite(panel.values))).any(dim=0)
        rows = TensorRows(scaled)
    if lost.any():
        problem = f"column {panel.columns[int(lost.int().argmax())]!r} has numbers too large for float32 once scaled"
        raise DataError(f"{name}: {problem}: rescale it")
    return rows
