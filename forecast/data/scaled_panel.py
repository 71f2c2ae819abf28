"""A panel as a model reads it: scaled values and time features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from forecast.data.covariates import encode_static, static_feature_names
from forecast.data.fill import Fill
from forecast.data.missing import choose_methods
from forecast.data.panel import Panel
from forecast.data.row_ranges import StoredValues
from forecast.data.scaler import Scaler
from forecast.data.scaling import Scales
from forecast.data.source import ScalingOptions
from forecast.data.step_features import (
    DiskRows,
    FutureCovariates,
    Rows,
    StepFeatures,
    TensorRows,
    calendar_rows,
)
from forecast.data.windows import Windows, read_past
from forecast.system.errors import DataError


@dataclass(frozen=True)
class ScaledPanel:
    """A panel with its scales.

    Attributes:
        values: scaled columns of the panel (rows, n_features).
        time: calendar features, future covariates and static features of each row.
        fill: how missing values in the past of a window are completed; None: no value is missing.
    """

    panel: Panel
    scales: Scales
    values: Rows
    time: StepFeatures
    fill: Fill | None

    @classmethod
    def of(
        cls, name: str, panel: Panel, scales: Scales, options: ScalingOptions, *, season: int
    ) -> "ScaledPanel":
        """Scale a panel, whose missing values are completed with this season; `name` is for messages.

        Raises DataError for numbers that float32 cannot hold once they are scaled.
        """
        future = None
        if panel.future_covariates:
            future = FutureCovariates.of(panel, scales.future_scaler, scales.known_steps)
        return cls(
            panel=panel,
            scales=scales,
            values=_scaled_rows(name, panel, scales.scaler),
            time=StepFeatures(
                calendar=calendar_rows(panel, scales.timezone, options.holidays),
                shifts=torch.from_numpy(panel.grid_starts - panel.starts),
                future=future,
                static=torch.from_numpy(encode_static(name, panel.static, scales.static)),
            ),
            fill=_make_fill(panel, scales.scaler, options, season),
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
            "static_features": static_feature_names(self.scales.static),
        }


def _make_fill(panel: Panel, scaler: Scaler, options: ScalingOptions, season: int) -> Fill | None:
    """The rule that fills missing values of the panel; None where no value is missing."""
    chosen = zip(panel.columns, choose_methods(options.fill, panel.columns), strict=True)
    methods = tuple("previous" if name in panel.indicators else method for name, method in chosen)
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
        column = panel.columns[int(lost.int().argmax())]
        raise DataError(
            f"{name}: column {column!r} has numbers too large for float32 once scaled: rescale it"
        )
    return rows
