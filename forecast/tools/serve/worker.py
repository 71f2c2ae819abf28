"""The tasks of a worker process of the server: load models, describe them, and answer requests."""

import contextlib
import json
import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Mapping
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path

from forecast.system.errors import CheckpointError, ForecastError, printable
from forecast.tools.serve.answer_request import answer_request
from forecast.tools.serve.served_model import ServedModel

log = logging.getLogger(__name__)
Answer = tuple[int, bytes]
"""Status of HTTP and JSON."""

_models: dict[str, ServedModel] = {}
_failure = ""


def run(calls: Connection, models: Mapping[str, Path], use_graphs: bool) -> None:
    """Load the models. Then call the functions that arrive, and send their results, until None arrives.

    Signals to the whole group of processes are left to the parent, which waits for the answers of this process before
    it sends None. This process ends with its parent.
    """
    for signal_ in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    load_models(models, use_graphs)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while (call := calls.recv()) is not None:
            function, arguments = call
            calls.send(globals()[function](*arguments))


def load_models(models: Mapping[str, Path], use_graphs: bool) -> None:
    """Load the models, with PyTorch those that ONNX Runtime cannot run. One that fails is tried again when asked."""
    for name, path in models.items():
        _models[name] = ServedModel(name, path, use_graph=use_graphs)
        try:
            if _models[name].exported() is None:
                _models[name].whole()
        except ForecastError as error:
            global _failure
            _failure = _failure or str(error)


def check_started() -> str:
    """The error of a model that could not be loaded at the start of this process; empty if there is none."""
    return _failure


def end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def answer_forecast(name: str, body: bytes, max_rows: int) -> Answer:
    """Forecast what a request asks for."""
    return answer_with(name, lambda served: answer_request(served, body, max_rows))


def answer_description(name: str) -> Answer:
    """Describe a model: what it reads and what it forecasts."""
    return answer_with(name, ServedModel.describe)


def answer_example(name: str) -> Answer:
    """A request that the model can answer, with made-up rows."""
    return answer_with(name, ServedModel.example)


def answer_with(name: str, make: Callable[[ServedModel], bytes]) -> Answer:
    """Answer with `make(model)`: status 422 for a mistake in the request, 500 for any other error."""
    try:
        with warnings.catch_warnings(record=True):
            return 200, make(_models[name])
    except CheckpointError:
        log.exception("%s cannot be loaded", name)
        return 500, error_body("the model cannot be loaded; the log of the server has the reason")
    except ForecastError as error:
        return 422, error_body(str(error))
    except Exception:
        log.exception("a request to %s failed", name)
        return 500, error_body("internal error; the log of the server has the traceback")


def error_body(message: str) -> bytes:
    """The JSON of an error."""
    return json.dumps({"error": printable(message)}).encode()
