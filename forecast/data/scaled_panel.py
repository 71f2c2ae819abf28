"""A panel as a model reads it: scaled values, and the features that are known ahead of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from forecast.data.domain import BoundSetting, Domain, TransformSetting, check_values, choose_domain
from forecast.data.future_covariates import (
    FutureCovariates,
    KnownSteps,
    check_known_as_trained,
    resolve_known_steps,
)
from forecast.data.known_features import TimeFeatures, calendar_rows
from forecast.data.missing import Fill, FillSetting, choose_methods, has_values
from forecast.data.panel import Panel
from forecast.data.panel_scaler import find_places, make_scaler
from forecast.data.row_ranges import PerSeries
from forecast.data.rows import DiskRows, Rows, TensorRows
from forecast.data.scaler import Scaler
from forecast.data.static_features import Encoding, encode_static, feature_names, fit_static
from forecast.data.stored_values import StoredValues
from forecast.data.windows import Windows, read_past
from forecast.system.errors import DataError


@dataclass(frozen=True, kw_only=True)
class ScalingOptions:
    """How a panel is scaled and completed.

    Attributes:
        kind, by: see `forecast.data.scaling.fit_scaler`.
        holidays: country whose public holidays are a calendar feature.
        fill, fill_limit, season: see `forecast.data.missing.Fill`; `fill` is one method, or methods by column.
        targets: the columns that are forecast.
        lower, upper, transform: see `forecast.data.domain.choose_domain`. A checkpoint has its own.
        known_steps: steps for which future covariates are known after a forecast origin, one number or by column.
    """

    kind: str
    by: str
    holidays: str | None
    fill: FillSetting | None
    fill_limit: int | None
    season: int
    targets: Sequence[str] = ()
    lower: BoundSetting | None = None
    upper: BoundSetting | None = None
    transform: TransformSetting | None = None
    known_steps: KnownSteps | None = None

    def domain(self, columns: Sequence[str]) -> Domain:
        """The transforms and the bounds of these columns."""
        return choose_domain(columns, self.targets, self.lower, self.upper, self.transform)


@dataclass(frozen=True)
class ScaledPanel:
    """A panel with its scalers.

    Attributes:
        values: scaled columns of the panel (rows, n_features).
        time: features of each row that are known ahead of time.
        scaler, future_scaler: of the values and of the future covariates.
        static: how static columns are encoded.
        known_steps: steps for which each future covariate is known after a forecast origin; None: over any horizon.
        place: the number of each series in the checkpoint that the scaler comes from, −1 if it is not there.
        has_scale: the series that have a scale: those in the checkpoint, or with values in their training rows.
        fill: how missing values in the past of a window are completed; None: no value is missing.
    """

    panel: Panel
    values: Rows
    time: TimeFeatures
    scaler: Scaler
    future_scaler: Scaler
    static: Encoding
    known_steps: list[int | None]
    place: Int64[np.ndarray, " series"]
    has_scale: Bool[np.ndarray, " series"]
    fill: Fill | None

    @classmethod
    def of(
        cls,
        name: str,
        panel: Panel,
        state: dict[str, Any] | None,
        first: PerSeries,
        last: PerSeries,
        options: ScalingOptions,
    ) -> "ScaledPanel":
        """Scale a panel by its rows first[s] … last[s] − 1, or by a checkpoint's `state` where it has the series.

        `name` is for messages. Raises DataError for other future covariates than the checkpoint's, and for numbers
        that float32 cannot hold once they are scaled.
        """
        known_steps = resolve_known_steps(options.known_steps, panel)
        if state is not None:
            check_known_as_trained(name, panel, known_steps, state)
        place = find_places(panel, state)
        if len(panel) > 1:  # a series without any value of a column has no scale
            last = np.where(has_values(panel.values, first, last), last, first)
        measured = np.empty((len(panel.values), 0))
        if panel.future is not None:
            measured = panel.future if not panel.as_of else panel.future[:, : len(panel.future_covariates)]
        fit = partial(
            make_scaler, panel=panel, kind=options.kind, by=options.by, first=first, last=last, place=place
        )
        saved = None if state is None else Scaler.from_state_dict(state["scaler"])
        domain = options.domain(panel.columns) if saved is None else saved.domain
        check_values(name, panel, domain)
        scaler = fit(panel.values, panel.columns, domain=domain, saved=saved)
        saved = None if state is None else Scaler.from_state_dict(state["future_scaler"])
        unlimited = Domain.unlimited(len(panel.future_covariates))
        future_scaler = fit(measured, panel.future_covariates, domain=unlimited, saved=saved)
        encoding = fit_static(panel.static) if state is None else state["static"]
        future = None
        if panel.future_covariates:
            future = FutureCovariates.of(panel, future_scaler, known_steps)
        return cls(
            panel=panel,
            values=_scaled_rows(name, panel, scaler),
            time=TimeFeatures(
                calendar=calendar_rows(panel, state, options.holidays),
                shifts=torch.from_numpy(panel.grid_starts - panel.starts),
                future=future,
                static=torch.from_numpy(encode_static(name, panel.static, encoding)),
            ),
            scaler=scaler,
            future_scaler=future_scaler,
            static=encoding,
            known_steps=known_steps,
            place=place,
            has_scale=(place >= 0) | (last > first) | (options.by == "all"),
            fill=make_fill(panel, scaler, options),
        )

    def past(
        self, first: Int64[Tensor, " batch"], length: int, series: Int64[Tensor, " batch"]
    ) -> Float[Tensor, "batch {length} n_features"]:
        """Windows of `length` rows before a forecast, completed."""
        return read_past(self.values, self.fill, first, length, series)

    def windows(
        self, starts: Sequence[range], *, seq_len: int, pred_len: int, target_index: list[int]
    ) -> Windows:
        """Windows over the scaled panel; of each series, their pasts begin at these rows."""
        return Windows(
            self.values,
            self.time,
            starts=starts,
            first_rows=torch.from_numpy(self.panel.starts),
            seq_len=seq_len,
            pred_len=pred_len,
            target_index=target_index,
            fill=self.fill,
        )

    def state_dict(self) -> dict[str, Any]:
        """What scales other rows in the same way."""
        return {
            "ids": self.panel.ids.tolist(),
            "has_scale": self.has_scale.tolist(),
            "scaler": self.scaler.state_dict(),
            "future_covariates": list(self.panel.future_covariates),
            "as_of": dict(self.panel.as_of),
            "known_steps": self.known_steps,
            "future_scaler": self.future_scaler.state_dict(),
            "static": self.static,
            "static_features": feature_names(self.static),
        }


def make_fill(panel: Panel, scaler: Scaler, options: ScalingOptions) -> Fill | None:
    """How missing values of the panel are completed; None where no value is missing."""
    chosen = zip(panel.columns, choose_methods(options.fill, panel.columns), strict=True)
    methods = tuple("previous" if name in panel.indicators else method for name, method in chosen)
    if not panel.has_missing:
        return None
    zeros = torch.zeros(len(scaler), 1, len(panel.columns))
    zero = scaler.transform(zeros, torch.arange(len(scaler)))[:, 0].float()
    return Fill(methods, options.season, options.fill_limit, zero)


def _scaled_rows(name: str, panel: Panel, scaler: Scaler) -> Rows:
    """The scaled values. Raises DataError for a column that float32 cannot hold."""
    if isinstance(panel.values, StoredValues):
        extremes = torch.tensor([panel.values.minimum, panel.values.maximum])
        lost = ~scaler.transform(extremes, series=0).float().isfinite().all(dim=0)
        rows: Rows = DiskRows(panel.values, scaler)
    else:
        scaled = scaler.transform_panel(panel.values, panel.starts, panel.stops)
        lost = (~scaled.isfinite() & torch.from_numpy(np.isfinite(panel.values))).any(dim=0)
        rows = TensorRows(scaled)
    if lost.any():
        column = panel.columns[int(lost.int().argmax())]
        raise DataError(
            f"{name}: column {column!r} has numbers too large for float32 once scaled: rescale it"
        )
    return rows
