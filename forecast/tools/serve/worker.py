"""The tasks of a worker process of the server: load models, describe them, and answer requests."""

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path

from forecast.system.errors import ForecastError, NotInstalled, printable
from forecast.tools.serve.answer_request import answer_request
from forecast.tools.serve.served_model import ServedModel, Unavailable

log = logging.getLogger(__name__)
Answer = tuple[int, bytes, str]
"""Status of HTTP, JSON, and why the model is unavailable; empty if it is not."""

_models: dict[str, ServedModel] = {}
_unavailable: dict[str, str] = {}


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
    """Load the models, and check each of them."""
    for name, path in models.items():
        _models[name] = ServedModel(name, path, use_graph=use_graphs)
        check_model(name)


def check_model(name: str) -> str:
    """Let a model answer its own example, which needs all that requests need; return why it cannot, or empty text."""
    _unavailable.pop(name, None)
    status, body, _ = answer_with(name, lambda served: answer_request(served, served.example(), sys.maxsize))
    if status == 500:
        _unavailable[name] = json.loads(body)["error"]
    elif status == 422:
        log.warning("%s does not answer its example: %s", name, json.loads(body)["error"])
    return _unavailable.get(name, "")


def list_unavailable() -> Mapping[str, str]:
    """By name, why models cannot be used."""
    return _unavailable


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
    """Answer with `make(model)`.

    The status is 422 for a mistake in the request, 503 if the model cannot be loaded or needs a package that is not
    installed, and 500 for any other error. An unavailable model is checked again: its checkpoint may be another one.
    """
    served = _models[name]
    try:
        if name in _unavailable and (reason := check_model(name)):
            raise Unavailable(reason)
        with warnings.catch_warnings(record=True):
            return 200, make(served), ""
    except (Unavailable, NotInstalled) as error:
        reason = _unavailable[name] = printable(str(error))
        return 503, error_body(f"{name} is unavailable: {reason}"), reason
    except ForecastError as error:
        return 422, error_body(served.hide_path(str(error))), ""
    except Exception:
        log.exception("a request to %s failed", name)
        return 500, error_body("internal error; the log of the server has the traceback"), ""


def error_body(message: str) -> bytes:
    """The JSON of an error."""
    return json.dumps({"error": printable(message)}).encode()
