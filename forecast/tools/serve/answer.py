"""Answers to requests: forecasts of a trained model as JSON."""

import warnings

from forecast.inference.forecast import Forecast, describe_forecast
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.model import TrainedModel
from forecast.inference.predict import predict
from forecast.inference.tested import describe_test
from forecast.tools.serve.layout import reading_settings
from forecast.tools.serve.reader import RequestReader
from forecast.tools.serve.records import write_answer
from forecast.tools.serve.request import ForecastRequest, read_request


def answer_request(name: str, model: TrainedModel, body: bytes, max_rows: int) -> bytes:
    """Forecast what the JSON of a request asks for; see `write_answer`.

    Raises:
        ForecastError: the request is wrong.
    """
    request = read_request(body)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = make_forecast(model, request, max_rows)
    notes = [*describe_forecast(found), *describe_test(found)]
    return write_answer(name, model.trained_until, *found.rounded().table(), notes=notes, caught=caught)


def make_forecast(model: TrainedModel, request: ForecastRequest, max_rows: int) -> Forecast:
    """Forecast the series in the rows of a request."""
    forecaster = choose_forecaster(model, request.baseline)
    reader = RequestReader.of_settings(reading_settings(forecaster))
    return predict(
        forecaster,
        reader.read(request, max_rows),
        horizon=request.horizon,
        start=request.start,
        levels=model.config["levels"] if request.levels is None else request.levels,
        method=request.intervals,
    )
