"""A model that ONNX Runtime runs: it answers the usual requests, with inputs made in NumPy. Imports no torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from forecast.data.covariates import encode_static
from forecast.data.domain import Domain, check_values
from forecast.data.panel import Panel
from forecast.data.time_features import time_features
from forecast.evaluation.levels import Level, bounds, parse_levels
from forecast.evaluation.scores import ReportedScores
from forecast.inference.forecast import (
    Forecast,
    ForecasterFacts,
    count_history,
    dates_from,
    warn_of_constant_values,
    warn_of_far_values,
)
from forecast.tools.serve.models import graph_file
from forecast.tools.serve.request import ForecastRequest
from forecast.tools.serve.source import RequestReader


class NeedsTorch(Exception):
    """The graph of a model does not forecast this as the whole program does; the message says what."""


class GraphEngine:
    """Forecasts by the graph beside a checkpoint, `forecast.tools.export.graph.ForecastGraph`.

    Args:
        checkpoint: the checkpoint file.
        facts: see `forecast.tools.serve.trained.collect_facts`.

    Attributes:
        description, example: JSON of the answers to other requests.
        session: of ONNX Runtime.
        reader: of the rows of requests.
        forecaster: facts on the model, for the notes of an answer.
        ids: the series that have a scale.
        scales: parameters of the scale by name, one row for each of `ids`.
        limits: lowest and highest usual value of the columns and the future covariates, one row for each of `ids`; see
            `forecast.inference.forecast`.
        domain: transforms and bounds of the columns.
    """

    def __init__(self, checkpoint: Path, facts: Mapping[str, Any]) -> None:
        import onnxruntime  # an optional package

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors
        self.session: Any = onnxruntime.InferenceSession(
            graph_file(checkpoint).read_bytes(), options, providers=["CPUExecutionProvider"]
        )
        self.description: dict[str, Any] = facts["description"]
        self.example: dict[str, Any] = facts["example"]
        self.reader = RequestReader.of_settings(facts["reading"])
        test = facts["forecaster"]["test"] and ReportedScores(**facts["forecaster"]["test"])
        self.forecaster = ForecasterFacts(**facts["forecaster"] | {"test": test})
        self.columns: list[str] = facts["columns"]
        self.targets: list[str] = facts["targets"]
        self.future: list[str] = facts["future"]
        self.unread = frozenset[str](facts["unread"])
        self.seq_len, self.pred_len = int(facts["seq_len"]), int(facts["pred_len"])
        self.freq: str = facts["freq"]
        self.holidays: str | None = facts["holidays"]
        self.static: dict[str, Any] = facts["static"]
        self.levels: list[Level] = facts["levels"]
        self.quantiles: list[float | None] = facts["quantiles"]
        self.method: str = facts["method"]
        self.domain = Domain(*map(tuple, facts["domain"]))
        self.ids = pd.Index(list(facts["series"]), dtype=str)
        scales = list(facts["series"].values())
        self.scales = {name: np.array([scale[name] for scale in scales]) for name in scales[0]}
        self.limits: Float64[np.ndarray, "2 series columns"] = np.array(facts["limits"])

    def forecast(self, request: ForecastRequest, max_rows: int) -> Forecast:
        """Forecast the series in the rows of a request.

        Raises:
            NeedsTorch: the graph does not forecast this: see `make_inputs`, and for a baseline, a start, a horizon
                beyond pred_len, adaptive intervals, or a level that the run did not have.
            ConfigError, DataError: the request is wrong.
        """
        if request.baseline is not None:  # which may read fewer columns
            raise NeedsTorch(f"baseline={request.baseline} is given")
        panel = self.reader.read(request, max_rows)
        levels = parse_levels(self.levels if request.levels is None else request.levels)
        self._check_options(request, levels)
        panel = panel.with_dates_after_ends(self.pred_len)
        horizon = request.horizon or self.pred_len
        names = [output.name for output in self.session.get_outputs()]
        found = self.session.run(None, self.make_inputs(panel, horizon))
        if not all(np.isfinite(each).all() for each in found):
            raise NeedsTorch("a forecast is not a finite number")
        values = {name: each[:, :horizon] for name, each in zip(names, found, strict=True)}
        low, high = (
            {level: values["quantiles"][..., self.quantiles.index(bounds(level)[side])] for level in levels}
            for side in (0, 1)
        )
        return Forecast(
            forecaster=self.forecaster,
            panel=panel,
            columns=self.targets,
            dates=dates_from(panel, panel.ends, horizon),
            values=values["forecast"],
            low=low,
            high=high,
            truth=np.full(values["forecast"].shape, np.nan),
            method=self.method,
            new=0,
            known=[],
        )

    def _check_options(self, request: ForecastRequest, levels: Sequence[Level]) -> None:
        """Raise NeedsTorch for a start, a horizon, intervals or levels that the graph does not forecast."""
        if request.start is not None:
            raise NeedsTorch("start is given")
        if request.horizon is not None and request.horizon > self.pred_len:
            raise NeedsTorch(f"horizon={request.horizon} is beyond pred_len={self.pred_len}")
        if request.intervals not in ("auto", self.method):
            raise NeedsTorch(f"intervals={request.intervals} is not {self.method}, the method of this model")
        if others := [level for level in levels if not set(bounds(level)) <= set(self.quantiles)]:
            raise NeedsTorch(f"levels={others} are not calibrated for this model")

    def make_inputs(self, panel: Panel, horizon: int) -> dict[str, np.ndarray]:
        """The inputs of the graph for the steps after the end of each series, float64.

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
        panel = panel.select_columns(self.columns)
        first = np.maximum(panel.starts, panel.ends - count_history(self.seq_len, horizon))
        excerpt = panel.take_rows(np.arange(len(panel)), first, panel.ends, panel.ends)
        check_values("the data", excerpt, self.domain)
        past = np.array(panel.values[panel.ends[:, None] + np.arange(-self.seq_len, 0)], dtype=np.float64)
        self._clear_unread(past, self.columns)
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
            inputs["static"] = encode_static("the data", panel.static, self.static).astype(np.float64)
        return inputs

    def _clear_unread(self, values: Float64[np.ndarray, "series steps columns"], names: list[str]) -> None:
        """Set the columns that the model does not read to 0, for they may be missing."""
        values[..., [name in self.unread for name in names]] = 0.0

    def _warn_of_unusual(
        self,
        names: Sequence[str],
        windows: Float64[np.ndarray, "series steps columns"],
        places: Int64[np.ndarray, " series"],
        columns: slice,
    ) -> None:
        low, high = self.limits[:, places, columns]
        warn_of_far_values(names, set(names) - self.unread, (windows.min(1), windows.max(1)), (low, high))

    def _calendar(self, panel: Panel) -> Float64[np.ndarray, "series steps n_calendar"]:
        """The calendar features of the local times of each window and its horizon."""
        ends = panel.grid_starts + panel.lengths
        places = ends[:, None] + np.arange(-self.seq_len, self.pred_len)
        first, last = int(places.min()), int(places.max()) + 1
        dates = self.reader.utc_offset.local(panel.grid[first:last])
        return time_features(dates, self.freq, self.holidays).astype(np.float64)[places - first]

    def _covariates(self, panel: Panel) -> Float64[np.ndarray, "series steps n_future"]:
        """The future covariates over each window and its horizon. Raises NeedsTorch for one that is not known."""
        if panel.future is None or (
            (panel.stops < panel.ends + self.pred_len).any() and set(self.future) - self.unread
        ):
            raise NeedsTorch(f"future: fewer rows than pred_len={self.pred_len}")
        rows: Int64[np.ndarray, "series steps"] = panel.ends[:, None] + np.arange(
            -self.seq_len, self.pred_len
        )
        there = rows < panel.stops[:, None]
        values = np.asarray(panel.future[np.where(there, rows, 0)], dtype=np.float64)
        values[~there] = np.nan
        self._clear_unread(values, self.future)
        if np.isnan(values).any():
            raise NeedsTorch("future: a value of a future covariate is missing")
        return values
