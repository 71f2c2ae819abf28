"""Answers to requests: forecasts of a trained model as JSON. Imports torch only for requests that need it."""

import warnings

from forecast.inference.forecast import describe_forecast, describe_test
from forecast.system.errors import DataError
from forecast.tools.serve.graph_inputs import NeedsTorch
from forecast.tools.serve.records import write_answer
from forecast.tools.serve.request import read_request
from forecast.tools.serve.served_model import ServedModel


def answer_request(served: ServedModel, body: bytes, max_rows: int) -> bytes:
    """Forecast what the JSON of a request asks for; see `write_answer`.

    Raises:
        ForecastError: the request is wrong.
    """
    request, exported = read_request(body), served.exported()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = exported.forecast(request, max_rows) if exported else None
        except NeedsTorch as reason:
            caught.clear()
            if not has_torch():
                raise DataError(
                    f"{reason}; only PyTorch forecasts that, and this server runs without it"
                ) from None
            found = None
        if found is None:
            model = served.whole()
            from forecast.tools.serve.torch_forecast import forecast_with_torch

            found = forecast_with_torch(model, request, max_rows)
    notes = [*describe_forecast(found), *describe_test(found)]
    until, table = found.panel.utc_offset.describe(found.forecaster.trained_until), found.rounded().table()
    return write_answer(served.name, until, *table, notes=notes, caught=caught)


def has_torch() -> bool:
    """Whether PyTorch can be imported."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True
