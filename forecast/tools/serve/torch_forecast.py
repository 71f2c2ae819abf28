"""Forecasts of the rows of a request by PyTorch, for every model and every request."""

from forecast.inference.forecast import Forecast
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.model import TrainedModel
from forecast.inference.predict import predict
from forecast.tools.serve.describe_model import reading_settings
from forecast.tools.serve.reader import RequestReader
from forecast.tools.serve.request import ForecastRequest


def forecast_with_torch(model: TrainedModel, request: ForecastRequest, max_rows: int) -> Forecast:
    """Forecast the series in the rows of a request.

    Raises:
        ForecastError: the request is wrong.
    """
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
