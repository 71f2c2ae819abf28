"""What a worker process of the server does: load models, describe them, and answer requests."""

import json
import logging
import os
import signal
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import torch

from forecast.inference.model import TrainedModel, load
from forecast.system.errors import ForecastError, printable
from forecast.tools.serve.answer import answer_request
from forecast.tools.serve.example import make_example
from forecast.tools.serve.layout import describe_model

log = logging.getLogger(__name__)
Answer = tuple[int, bytes]
"""Status of HTTP and JSON."""


@dataclass(frozen=True)
class Loaded:
    """A model with the state of its checkpoint file when it was loaded."""

    model: TrainedModel
    file_state: tuple[Any, ...]


_models: dict[str, Loaded] = {}
_failure = ""


def start(models: Mapping[str, Path], all_loaded: Barrier) -> None:
    """Prepare this process: load the models, and wait until all processes have loaded theirs.

    Ctrl-C is left to the parent, and this process ends with its parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    try:
        for name, path in models.items():
            load_newest(name, path)
    except ForecastError as error:  # an error here would end the pool without its message
        global _failure
        _failure = str(error)
    all_loaded.wait()


def check_started() -> str:
    """The error of a model that could not be loaded at the start of this process; empty if there is none."""
    return _failure


def end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def load_newest(name: str, path: Path) -> TrainedModel:
    """The model at a path, loaded anew if its file has changed or a refitted one has appeared beside it."""
    state = file_state(path)
    if name not in _models or _models[name].file_state != state:
        _models[name] = Loaded(load(path), state)
    return _models[name].model


def file_state(path: Path) -> tuple[Any, ...]:
    """Identity, time and size of the checkpoint files of a model."""
    files = (
        [path] if path.is_file() else [path / "checkpoints" / f"{name}.ckpt" for name in ("refit", "best")]
    )
    found = [(file, file.stat()) for file in files if file.is_file()]
    return tuple((file.name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for file, stat in found)


def answer_forecast(name: str, path: Path, body: bytes, max_rows: int) -> Answer:
    """Forecast what a request asks for."""
    return answer_with(name, path, lambda model: answer_request(name, model, body, max_rows))


def answer_description(name: str, path: Path) -> Answer:
    """Describe a model: what it reads and what it forecasts."""
    return answer_with(name, path, lambda model: json.dumps(describe_model(name, model)).encode())


def answer_example(name: str, path: Path) -> Answer:
    """A request that the model can answer, with made-up rows."""
    return answer_with(name, path, lambda model: json.dumps(make_example(model)).encode())


def answer_with(name: str, path: Path, make: Any) -> Answer:
    """Answer with `make(model)`: status 422 for a mistake in the request, 500 for any other error."""
    try:
        with warnings.catch_warnings(record=True):
            model = load_newest(name, path)
        return 200, make(model)
    except ForecastError as error:
        return 422, error_body(str(error))
    except Exception:
        log.exception("a request to %s failed", name)
        return 500, error_body("internal error; the log of the server has the traceback")


def error_body(message: str) -> bytes:
    """The JSON of an error."""
    return json.dumps({"error": printable(message)}).encode()
