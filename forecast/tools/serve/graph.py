"""A model that ONNX Runtime runs: its files, and its answers with inputs made in NumPy. Imports no torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64

from forecast import __version__
from forecast.data.covariates import encode_static
from forecast.data.panel import Panel
from forecast.data.source import Domain, check_values
from forecast.evaluation.scores import ReportedScores, bounds, parse_levels
from forecast.inference.forecast import (
    Forecast,
    ForecasterFacts,
    count_history,
    dates_from,
    warn_of_constant_values,
    warn_of_far_values,
)
from forecast.tools.export.metadata import CalendarFeatures, calendar_features, load_onnx, read_inputs
from forecast.tools.serve.request import ForecastRequest, RequestReader

FORMAT = 3  # version of the content of the files


def graph_file(checkpoint: Path) -> Path:
    """The file that ONNX Runtime runs."""
    return checkpoint.with_suffix(".onnx")


def facts_file(checkpoint: Path) -> Path:
    """The JSON file with what else an answer needs."""
    return checkpoint.with_suffix(".onnx.json")


def file_state(file: Path) -> dict[str, Any]:
    """A key that changes if the file or this program changes."""
    stat = file.stat()
    return {"size": stat.st_size, "modified": stat.st_mtime_ns, "forecast_version": __version__, "format": FORMAT}


def read_facts(checkpoint: Path) -> Mapping[str, Any] | None:
    """The content of the JSON file; None if there is none of this state of the checkpoint and of the graph."""
    try:
        content = json.loads(facts_file(checkpoint).read_bytes())
        is_current = content["checkpoint"] == file_state(checkpoint)
        is_current &= bool(content["obstacle"]) or content["graph"] == file_state(graph_file(checkpoint))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if is_current else None


class NeedsTorch(Exception):
    """The graph of a model does not forecast this as the whole program does; the message says what."""


class GraphEngine:
    """Forecasts by the graph beside a checkpoint, `forecast.tools.export.graph.ForecastGraph`.

    Args:
        facts: see `forecast.tools.serve.trained.collect_facts`.

    Attributes:
        description, example: JSON of the answers to other requests.
        run: runs the graph on inputs by name.
        about: the metadata of the graph, see `forecast.tools.export.metadata.describe_export`.
        unread: columns and future covariates that the model does not read, and which may be missing.
        forecaster: facts on the model, for the notes of an answer.
        places: of each series that has a scale, its row in `scales` and `limits`.
        scales: parameters of the scale by name.
        limits: lowest and highest usual value of the columns and the future covariates; see
            `forecast.inference.forecast`.
        domain: transforms and bounds of the columns.
    """

    def __init__(self, checkpoint: Path, facts: Mapping[str, Any]) -> None:
        self.run, self.about = load_onnx(graph_file(checkpoint), threads=1), facts["about"]
        self.description, self.example, self._facts = facts["description"], facts["example"], facts
        self.unread = {*self.about["unread_columns"], *self.about["unread_covariates"]}
        self.reader = RequestReader.of_settings(facts["reading"])
        test = facts["forecaster"]["test"] and ReportedScores(**facts["forecaster"]["test"])
        self.forecaster = ForecasterFacts(**facts["forecaster"] | {"test": test})
        self.domain = Domain(*map(tuple, facts["domain"]))
        self.places = {name: place for place, name in enumerate(self.about["series"])}
        scales = list(self.about["series"].values())
        self.scales = {name: np.array([scale[name] for scale in scales]) for name in scales[0]}
        self.limits: Float64[np.ndarray, "2 series columns"] = np.array(facts["limits"])
        # of the last request: its dates, these and those of its horizon, and the calendar features of both
        self._dates: tuple[pd.DatetimeIndex, pd.DatetimeIndex, CalendarFeatures] | None = None

    def forecast(self, request: ForecastRequest, max_rows: int) -> Forecast:
        """Forecast the series in the rows of a request.

        Raises:
            NeedsTorch: the graph does not forecast this: see `make_inputs`, and for a horizon beyond pred_len, or a
                level that the run did not have.
            ConfigError, DataError: the request is wrong.
        """
        panel, quantiles = self.reader.read(request, max_rows), self._facts["quantiles"]
        levels = parse_levels(self._facts["levels"] if request.levels is None else request.levels)
        pred_len = self.about["pred_len"]
        horizon = request.horizon or pred_len
        if horizon > pred_len:
            raise NeedsTorch(f"horizon={horizon} is beyond pred_len={pred_len}")
        if others := [level for level in levels if not set(bounds(level)) <= set(quantiles)]:
            raise NeedsTorch(f"levels={others} are not calibrated for this model")
        panel, calendar = self._with_horizon(panel)
        found = self.run(self.make_inputs(panel, calendar, horizon))
        if not all(np.isfinite(each).all() for each in found.values()):
            raise NeedsTorch("a forecast is not a finite number")
        values = {name: each[:, :horizon] for name, each in found.items()}
        low, high = (
            {level: values["quantiles"][..., quantiles.index(bounds(level)[side])] for level in levels}
            for side in (0, 1)
        )
        return Forecast(
            forecaster=self.forecaster,
            panel=panel,
            columns=self.about["target_columns"],
            dates=dates_from(panel, panel.ends, horizon),
            values=values["forecast"],
            low=low,
            high=high,
            truth=np.full(values["forecast"].shape, np.nan),
            method=self._facts["method"],
        )

    def _with_horizon(self, panel: Panel) -> tuple[Panel, CalendarFeatures]:
        """The panel with the dates of the horizon, and their calendar features; both are made once for equal dates."""
        if self._dates is None or panel.grid is not self._dates[0]:  # `RequestReader` keeps the grid of equal dates
            grid = panel.with_dates_after_ends(self.about["pred_len"]).grid
            self._dates = panel.grid, grid, calendar_features(self.about, grid)
        _, grid, calendar = self._dates
        return replace(panel, grid=grid), calendar

    def make_inputs(self, panel: Panel, calendar: CalendarFeatures, horizon: int) -> dict[str, np.ndarray]:
        """The inputs of the graph for the steps after the end of each series, float64.

        Args:
            panel, calendar: see `_with_horizon`.
            horizon: number of steps that are asked for.

        Raises:
            NeedsTorch: a value that is read is missing, a series is new or too short, or the columns or the step are
                not those of training.
            DataError: a value outside the bounds of its column.
        """
        about, series = self.about, np.array([self.places.get(str(name), -1) for name in panel.ids])
        columns, future, seq_len = about["feature_columns"], about["future_covariates"], about["seq_len"]
        if panel.freq != about["freq"]:
            raise NeedsTorch(f"rows: one every {panel.freq}, the model was trained on one every {about['freq']}")
        if (panel.lengths < seq_len).any():
            raise NeedsTorch(f"rows: a series has fewer than seq_len={seq_len}")
        if (series < 0).any():
            raise NeedsTorch("rows: a series was not trained on")
        if not set(columns) <= set(panel.columns) or panel.future_columns != tuple(future):
            raise NeedsTorch("rows: columns that the model does not read are left out")
        panel, every = panel.select_columns(columns), np.arange(len(panel))
        if self.domain.has_bounds or self.domain.has_transforms:
            first = np.maximum(panel.starts, panel.ends - count_history(seq_len, horizon))
            check_values("the data", panel.take_rows(every, first, panel.ends, panel.ends), self.domain)
        inputs = read_inputs(about, panel, calendar, every, panel.ends)
        past = self._complete(inputs["past"], columns)
        extremes, (low, high) = (past.min(1), past.max(1)), self.limits[:, series]
        limits = low[:, : len(columns)], high[:, : len(columns)]
        warn_of_far_values(columns, set(columns) - self.unread, extremes, limits, panel)
        warn_of_constant_values(columns, about["target_columns"], extremes, seq_len, panel)
        if future:
            known = self._complete(inputs["future_covariates"], future)
            limits = low[:, len(columns) :], high[:, len(columns) :]
            warn_of_far_values(future, set(future) - self.unread, (known.min(1), known.max(1)), limits, panel)
        if static := self._facts["static"]:
            inputs["static"] = encode_static("the data", panel.static, static).astype(np.float64)
        return inputs | {name: values[series] for name, values in self.scales.items()}

    def _complete(
        self, values: Float64[np.ndarray, "series steps columns"], names: Sequence[str]
    ) -> Float64[np.ndarray, "series steps columns"]:
        """Set the columns that the model does not read to 0, in place. Raises NeedsTorch for another missing value."""
        values[..., [name in self.unread for name in names]] = 0.0
        if (missing := np.isnan(values).any((0, 1))).any():
            raise NeedsTorch(f"a value of {names[int(missing.argmax())]} is missing, which the model reads")
        return values
