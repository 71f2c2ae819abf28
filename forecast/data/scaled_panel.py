"""A panel as a model reads it: values on each series' own scale, and the time features of every row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor

from forecast.data.calendar import time_features
from forecast.data.panel import Panel, PerSeries
from forecast.data.series_scaler import SeriesScaler
from forecast.data.series_windows import SeriesTime
from forecast.data.static import Encoding, encode_static, feature_names, fit_static
from forecast.errors import DataError
from forecast.plain import is_equal


@dataclass(frozen=True)
class ScaledPanel:
    """`place` holds the number that each series had in training, −1 where it is new or had no training rows;
    `has_scale`: which have one."""

    panel: Panel
    values: Float32[Tensor, "rows n_features"]
    time: SeriesTime
    scaler: SeriesScaler
    known_scaler: SeriesScaler
    static: Encoding
    place: Int64[np.ndarray, " series"]
    has_scale: Bool[np.ndarray, " series"]

    @classmethod
    def of(
        cls,
        name: str,
        panel: Panel,
        state: dict[str, Any] | None,
        first: PerSeries,
        last: PerSeries,
        *,
        kind: str,
        by: str,
        holidays: str | None,
    ) -> "ScaledPanel":
        """Scaled by numbers from the rows first[s] … last[s] − 1, or by those of a checkpoint's `state` where it has
        the series. `name` is for messages. Raises DataError for other covariates than the checkpoint's.
        """
        if state is not None and list(panel.known_columns) != state["known_columns"]:
            mine, theirs = (
                ", ".join(names) or "none" for names in (panel.known_columns, state["known_columns"])
            )
            raise DataError(
                f"{name}: future covariates {mine}, where the checkpoint was trained on {theirs}: choose the same"
            )
        place = np.full(len(panel), -1)
        if state is not None:
            place = pd.Index(state["ids"]).get_indexer(panel.ids).astype(np.int64)
            scaled = state.get("has_scale")  # not in older checkpoints
            if scaled is not None:
                place[(place >= 0) & ~np.array(scaled)[place]] = -1
        taken = kind, by, first, last, place
        scaler = _scaler(panel.values, panel.columns, None if state is None else state["scaler"], *taken)
        saved = None if state is None else state["known_scaler"]
        known_scaler = _scaler(panel.known, panel.known_columns, saved, *taken)
        values = scaler.transform(panel.values, panel.starts, panel.stops)
        lost = values.isinf().any(dim=0)
        if lost.any():
            column = panel.columns[int(lost.int().argmax())]
            raise DataError(
                f"{name}: column {column!r} has numbers too large for float32 once scaled: rescale it"
            )
        encoding = fit_static(panel.static) if state is None else state["static"]
        time = SeriesTime(
            torch.from_numpy(time_features(panel.grid, panel.freq, holidays)).float(),
            torch.from_numpy(panel.firsts - panel.starts),
            known_scaler.transform(panel.known, panel.starts, panel.stops),
            torch.from_numpy(encode_static(name, panel.static, encoding)),
        )
        has_scale = (place >= 0) | (last > first) | (by == "all")
        return cls(panel, values, time, scaler, known_scaler, encoding, place, has_scale)

    def state_dict(self) -> dict[str, Any]:
        """What puts other rows on the same scales."""
        return {
            "ids": self.panel.ids.tolist(),
            "has_scale": self.has_scale.tolist(),
            "scaler": self.scaler.state_dict(),
            "known_columns": list(self.panel.known_columns),
            "known_scaler": self.known_scaler.state_dict(),
            "static": self.static,
            "static_features": feature_names(self.static),
        }

    def is_scaled_by(self, state: dict[str, Any]) -> bool:
        mine = self.state_dict()
        return is_equal(mine, {key: state.get(key) for key in mine})


def _scaler(
    values: Float[np.ndarray, "rows columns"],
    columns: tuple[str, ...],
    saved: dict[str, Tensor] | None,
    kind: str,
    by: str,
    first: PerSeries,
    last: PerSeries,
    place: Int64[np.ndarray, " series"],
) -> SeriesScaler:
    """The scaler of all series; one that has neither a place in `saved` nor rows to take numbers from is left as is."""
    center = torch.zeros(len(place), len(columns), dtype=torch.float64)
    scale = torch.ones_like(center)
    if by == "all" and saved is not None:
        place = np.zeros_like(place)  # all had the same
    if saved is not None:
        old = np.flatnonzero(place >= 0)
        center[old], scale[old] = saved["center"][place[old]], saved["scale"][place[old]]
    new = np.flatnonzero((place < 0) & (last > first))
    if len(new):
        others = None if saved is None else saved["scale"]
        fitted = SeriesScaler.fit(kind, by, values, first[new], last[new], columns, others)
        everyone = by == "all"
        center[slice(None) if everyone else new] = fitted.center[0] if everyone else fitted.center
        scale[slice(None) if everyone else new] = fitted.scale[0] if everyone else fitted.scale
    return SeriesScaler(center, scale)
