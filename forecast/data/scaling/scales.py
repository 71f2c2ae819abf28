"""The scales of a panel: fitted to its training rows, or restored from a checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from forecast.data.known_steps import check_known_as_trained, resolve_known_steps
from forecast.data.missing import has_values
from forecast.data.options import ScalingOptions
from forecast.data.panel import Panel
from forecast.data.row_ranges import PerSeries, RowRanges
from forecast.data.scaling.domain import Domain, check_not_transformed, check_values, choose_domain
from forecast.data.scaling.panel_scaler import PanelScaling, find_places
from forecast.data.scaling.scaler import Scaler
from forecast.data.static_features import Encoding, fit_static
from forecast.data.stored_values import Values, select_columns


@dataclass(frozen=True)
class Scales:
    """The scales of the values, the future covariates and the static columns of a panel.

    Attributes:
        scaler, future_scaler: of the values and of the future covariates.
        static: how static columns are encoded.
        known_steps: steps for which each future covariate is known after a forecast origin; None: over any horizon.
        timezone: zone of the training data; the calendar features are of its local times.
        place: the number of each series in the checkpoint that the scales come from, −1 if it is not there.
        has_scale: the series that have a scale: those in the checkpoint, or with values in the rows of the fit.
    """

    scaler: Scaler
    future_scaler: Scaler
    static: Encoding
    known_steps: list[int | None]
    timezone: str | None
    place: PerSeries
    has_scale: Bool[np.ndarray, " series"]

    @classmethod
    def fit(
        cls, name: str, panel: Panel, rows: RowRanges, options: ScalingOptions, targets: Sequence[str]
    ) -> "Scales":
        """Fit the scales to these rows of each series; `name` is for messages.

        Raises:
            ConfigError: an option that names no column.
            DataError: a value outside the bounds of its column, or that its transform does not take.
        """
        known_steps = resolve_known_steps(options.known_steps, panel)
        check_not_transformed(options.transform, panel.future_columns)
        domain = choose_domain(panel.columns, targets, options.lower, options.upper, options.transform)
        check_values(name, panel, domain)
        scaling = _make_scaling(panel, rows, options)
        unlimited = Domain.unlimited(len(panel.future_covariates))
        return cls(
            scaler=scaling.fit(panel.values, panel.columns, domain),
            future_scaler=scaling.fit(_measured_future(panel), panel.future_covariates, unlimited),
            static=fit_static(name, panel.static),
            known_steps=known_steps,
            timezone=panel.utc_offset.timezone,
            place=np.full(len(panel), -1),
            has_scale=scaling.has_scale,
        )

    @classmethod
    def restore(
        cls, name: str, panel: Panel, state: dict[str, Any], rows: RowRanges, options: ScalingOptions
    ) -> "Scales":
        """Take the scales from a checkpoint; a series that it does not have is fitted to these rows.

        `state` is the state of the data module in the checkpoint; `name` is for messages.

        Raises:
            ConfigError: an option that names no column.
            DataError: other future covariates than the checkpoint's, or a value that `fit` refuses.
        """
        known_steps = resolve_known_steps(options.known_steps, panel)
        check_known_as_trained(name, panel, known_steps, state)
        saved, saved_future = (Scaler.from_state_dict(state[key]) for key in ("scaler", "future_scaler"))
        check_values(name, panel, saved.domain)
        scaling, place = _make_scaling(panel, rows, options), find_places(panel, state)
        return cls(
            scaler=scaling.restore(saved, place, panel.values, panel.columns),
            future_scaler=scaling.restore(
                saved_future, place, _measured_future(panel), panel.future_covariates
            ),
            static=state["static"],
            known_steps=known_steps,
            timezone=state.get("timezone"),
            place=place,
            has_scale=(place >= 0) | scaling.has_scale,
        )


def _make_scaling(panel: Panel, rows: RowRanges, options: ScalingOptions) -> PanelScaling:
    """The fit of the scalers to these rows. Among several series, one without a value of a column has no rows."""
    first, last = rows
    if len(panel) > 1:
        last = np.where(has_values(panel.values, first, last), last, first)
    return PanelScaling(RowRanges(first, last), panel.indicators, options.scaler, options.scale_by)


def _measured_future(panel: Panel) -> Values:
    """The future covariates as they were measured."""
    if panel.future is None:
        return np.empty((len(panel.values), 0))
    return select_columns(panel.future, range(len(panel.future_covariates)))
