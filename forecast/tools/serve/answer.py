"""Forecasts as JSON."""

import json
import warnings
from typing import Any

import pandas as pd

from forecast.data import Panel
from forecast.data.files.cells import FRAME
from forecast.inference.forecast import Forecast, describe_forecast
from forecast.inference.forecasters import PointForecaster, choose_forecaster
from forecast.inference.frames import panel_of_frame
from forecast.inference.model import TrainedModel
from forecast.inference.predict import predict
from forecast.inference.tested import describe_test
from forecast.system.errors import DataError
from forecast.tools.serve.layout import date_column, id_column
from forecast.tools.serve.request import ForecastRequest, read_request, read_rows


def answer_request(name: str, model: TrainedModel, body: bytes, max_rows: int) -> bytes:
    """Forecast what the JSON of a request asks for.

    Returns:
        JSON: the model, what its forecast is, warnings, and one object for each date (and series) with the forecast and
        the bounds of each target.

    Raises:
        ForecastError: the request is wrong.
    """
    request = read_request(body)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = make_forecast(model, request, max_rows)
    about = {
        "model": name,
        "trained_until": model.trained_until,
        "notes": [" ".join(line.split()) for line in [*describe_forecast(found), *describe_test(found)]],
        "warnings": [str(one.message) for one in caught if issubclass(one.category, UserWarning)],
    }
    return json.dumps(about)[:-1].encode() + b', "forecast": ' + write_records(found) + b"}"


def make_forecast(model: TrainedModel, request: ForecastRequest, max_rows: int) -> Forecast:
    """Forecast the series in the rows of a request."""
    layout: dict[str, Any] = {
        "date_column": date_column(model),
        "dates_are_index": id_column(model) is None,
        "max_rows": max_rows,
    }
    frame = read_rows("rows", request.rows, **layout)
    future = None if request.future is None else read_rows("future", request.future, **layout)
    forecaster = choose_forecaster(model, request.baseline)
    return predict(
        forecaster,
        read_panel(forecaster, frame, future),
        horizon=request.horizon,
        start=request.start,
        levels=model.config["levels"] if request.levels is None else request.levels,
        method=request.intervals,
    )


def read_panel(forecaster: PointForecaster, frame: pd.DataFrame, future: pd.DataFrame | None) -> Panel:
    """The rows of a request as a panel. Raises DataError as `panel_of_frame`, with the name of the field."""
    try:
        return panel_of_frame(forecaster, frame, future)
    except DataError as error:
        raise DataError(str(error).replace(str(FRAME), "rows")) from None


def write_records(found: Forecast) -> bytes:
    """One object for each row of a forecast; dates in ISO 8601, with the UTC offset if the data have one."""
    frame = found.rounded().frame()
    frame = frame.reset_index(names=frame.index.name or "series")
    for column, dtype in frame.dtypes.items():
        if dtype.kind == "M":  # a date, with a time zone or without
            frame[column] = [date.isoformat() for date in frame[column]]
    return str(frame.to_json(orient="records", double_precision=12)).encode()
