"""The inputs of an exported model from the rows of a request, in NumPy. Imports no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data.panel import Panel
from forecast.data.scaling.domain import Domain, check_values
from forecast.data.static_features import encode_static
from forecast.data.time_features import time_features
from forecast.data.utc_offset import utc_offset_of
from forecast.inference.forecast import count_history, warn_of_constant_values, warn_of_far_values

Inputs = dict[str, np.ndarray]


class NeedsTorch(Exception):
    """The graph of a model does not forecast this as the whole program does; the message says what."""


@dataclass(frozen=True)
class GraphInputs:
    """Makes the inputs of `forecast.tools.export.graph.ForecastGraph`, for one model.

    Attributes:
        columns: the columns of `past`.
        future: the future covariates, in their order.
        unread: the columns and future covariates that the model does not read.
        seq_len, pred_len, freq: of the windows.
        holidays: code of the calendar of holidays; None: none.
        data_state: the UTC offset and the time zone of training, see `utc_offset_of`.
        static: encoding of the static covariates.
        domain: transforms and bounds of `columns`.
        ids: the series that have a scale.
        scales: parameters of the scale by name, one row for each of `ids`.
        limits: lowest and highest usual value of `columns` and `future`, one row for each of `ids`; see
            `forecast.inference.forecast`.
        targets: the columns that are forecast.
    """

    columns: Sequence[str]
    future: Sequence[str]
    unread: Sequence[str]
    seq_len: int
    pred_len: int
    freq: str
    holidays: str | None
    data_state: Mapping[str, Any]
    static: Mapping[str, Any]
    domain: Domain
    ids: pd.Index
    scales: Mapping[str, Float64[np.ndarray, "series columns"]]
    limits: Float64[np.ndarray, "2 series columns"]
    targets: Sequence[str]

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "GraphInputs":
        """The inputs of a model from its facts, see `forecast.tools.serve.export_model`."""
        series = facts["series"]
        names = next(iter(series.values()))
        scales = {name: np.array([each[name] for each in series.values()]) for name in names}
        domain = Domain(*(tuple(part) for part in facts["domain"]))
        keys = (
            "columns",
            "targets",
            "future",
            "unread",
            "seq_len",
            "pred_len",
            "freq",
            "holidays",
            "data_state",
            "static",
        )
        return cls(
            **{key: facts[key] for key in keys},
            domain=domain,
            ids=pd.Index(list(series), dtype=str),
            scales=scales,
            limits=np.array(facts["limits"]),
        )

    def make(self, panel: Panel, horizon: int) -> Inputs:
        """The inputs for the steps after the end of each series, float64.

        Args:
            panel: its grid reaches `pred_len` steps beyond the end of every series.
            horizon: number of steps that are asked for.

        Raises:
            NeedsTorch: a value that is read is missing, a series is new or too short, or the columns or the step are
                not those of training.
            DataError: a value outside the bounds of its column.
        """
        places = self.ids.get_indexer(panel.ids.astype(str))
        if panel.freq != self.freq:
            raise NeedsTorch(
                f"rows: one every {panel.freq}, but the model was trained on one every {self.freq}"
            )
        if (panel.lengths < self.seq_len).any():
            raise NeedsTorch(f"rows: a series has fewer than seq_len={self.seq_len}")
        if (places < 0).any():
            raise NeedsTorch("rows: a series was not trained on")
        if not set(self.columns) <= set(panel.columns) or panel.future_columns != tuple(self.future):
            raise NeedsTorch("rows: columns that the model does not read are left out")
        panel = panel.select_columns(list(self.columns))
        series = np.arange(len(panel))
        first = np.maximum(panel.starts, panel.ends - count_history(self.seq_len, horizon))
        check_values("the data", panel.take_rows(series, first, panel.ends, panel.ends), self.domain)
        past = np.array(panel.values[panel.ends[:, None] + np.arange(-self.seq_len, 0)], dtype=np.float64)
        past[..., [name in self.unread for name in self.columns]] = 0.0
        if np.isnan(past).any():
            raise NeedsTorch(f"rows: a value is missing in the last {self.seq_len} rows of a series")
        self._warn_of_unusual(self.columns, past, places, slice(len(self.columns)))
        warn_of_constant_values(self.columns, self.targets, (past.min(1), past.max(1)), self.seq_len)
        calendar = self._calendar(panel)
        inputs = {
            "past": past,
            "past_time": calendar[:, : self.seq_len],
            "future_time": calendar[:, self.seq_len :],
            **{name: values[places] for name, values in self.scales.items()},
        }
        if self.future:
            inputs["future_covariates"] = known = self._covariates(panel)
            self._warn_of_unusual(self.future, known, places, slice(len(self.columns), None))
        if self.static:
            encoded = encode_static("the data", panel.static, dict(self.static))
            inputs["static"] = encoded.astype(np.float64)
        return inputs

    def _warn_of_unusual(
        self,
        names: Sequence[str],
        windows: Float64[np.ndarray, "series steps columns"],
        places: Int64[np.ndarray, " series"],
        columns: slice,
    ) -> None:
        low, high = self.limits[:, places, columns]
        read = set(names) - set(self.unread)
        warn_of_far_values(names, read, (windows.min(1), windows.max(1)), (low, high))

    def _calendar(self, panel: Panel) -> Float64[np.ndarray, "series steps n_calendar"]:
        """The calendar features of the local times of each window and its horizon."""
        ends = panel.grid_starts + panel.lengths
        places = ends[:, None] + np.arange(-self.seq_len, self.pred_len)
        first, last = int(places.min()), int(places.max()) + 1
        dates = utc_offset_of(self.data_state).local(panel.grid[first:last])
        return time_features(dates, self.freq, self.holidays).astype(np.float64)[places - first]

    def _covariates(self, panel: Panel) -> Float64[np.ndarray, "series steps n_future"]:
        """The future covariates over each window and its horizon. Raises NeedsTorch for one that is not known."""
        if panel.future is None or (
            (panel.stops < panel.ends + self.pred_len).any() and set(self.future) - set(self.unread)
        ):
            raise NeedsTorch(f"future: fewer rows than pred_len={self.pred_len}")
        rows: Int64[np.ndarray, "series steps"] = panel.ends[:, None] + np.arange(
            -self.seq_len, self.pred_len
        )
        there = rows < panel.stops[:, None]
        values = np.asarray(panel.future[np.where(there, rows, 0)], dtype=np.float64)
        values[~there] = np.nan
        values[..., [name in self.unread for name in self.future]] = 0.0
        if np.isnan(values).any():
            raise NeedsTorch("future: a value of a future covariate is missing")
        return values
