"""A worker process of the server: it loads models, describes them, and answers requests.

`GraphEngine` and `TorchEngine` have one interface: `description` and `example` are JSON values, and `forecast(request,
max_rows)` forecasts the rows of a request. Torch is imported only for models and requests that need it.
"""

import contextlib
import json
import logging
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pydantic_core

from forecast.checkpoints.contents import find_trained
from forecast.inference.forecast import Forecast, describe_forecast, describe_test
from forecast.inference.model_data import read_model_data
from forecast.system.errors import DataError, ForecastError, NotInstalled, printable
from forecast.tools.export.metadata import TORCH, list_missing_packages
from forecast.tools.serve.graph import GraphEngine, NeedsTorch, facts_file, file_state, graph_file, read_facts
from forecast.tools.serve.request import read_request

if TYPE_CHECKING:
    from forecast.tools.serve.trained import TorchEngine

log = logging.getLogger(__name__)

Answer = tuple[int, bytes, str]  # status of HTTP, JSON, and why the model is unavailable; empty if it is not


def run(calls: Connection, models: Mapping[str, Path], use_graphs: bool) -> None:
    """Load the models, and send why some of them are unavailable. Then answer the calls that arrive, until None does.

    A call has the name of a model and the arguments of `ServedModel.answer`. Signals to the whole group of processes
    are left to the parent, which waits for the answers of this process before it sends None. This process ends when
    the connection to its parent does.
    """
    for signal_ in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_, signal.SIG_IGN)
    served = load_models(models, use_graphs)
    with contextlib.suppress(EOFError, BrokenPipeError):
        calls.send({name: model.unavailable for name, model in served.items() if model.unavailable})
        while (call := calls.recv()) is not None:
            name, *arguments = call
            calls.send(served[name].answer(*arguments))


def load_models(models: Mapping[str, Path], use_graphs: bool) -> dict[str, "ServedModel"]:
    """The models of a process, each of which is checked once it is loaded."""
    served = {name: ServedModel(name, path, use_graph=use_graphs) for name, path in models.items()}
    for model in served.values():
        model.check()
    return served


def error_body(message: str) -> bytes:
    """The JSON of an error."""
    return json.dumps({"error": printable(message)}).encode()


class Unavailable(Exception):
    """A model cannot be loaded; the message is the reason, without the place of its files."""


class ServedModel:
    """A model that is loaded anew when its checkpoint changes, or when a refitted one appears beside it.

    Args:
        path: the run folder or checkpoint file.
        use_graph: whether ONNX Runtime answers the requests that it can answer.

    `unavailable`: why the model cannot be used; empty if it can.
    """

    def __init__(self, name: str, path: Path, *, use_graph: bool) -> None:
        self.name, self.path, self.use_graph = name, path, use_graph
        self.unavailable = ""
        self._graph: GraphEngine | None = None
        self._torch: TorchEngine | None = None
        self._graph_state: Any = None
        self._torch_state: Any = None

    def check(self) -> None:
        """Let the model answer its own example, which needs all that requests need, and note if it cannot."""
        self.unavailable = ""
        status, body, _ = self.answer("forecast_example")
        if status == 500:
            self.unavailable = json.loads(body)["error"]
        elif status == 422:
            log.warning("%s does not answer its example: %s", self.name, json.loads(body)["error"])

    def answer(self, task: str, *arguments: Any) -> Answer:
        """Answer with one of the methods below.

        The status is 422 for a mistake in the request, 503 if the model cannot be loaded or needs a package that is not
        installed, and 500 for any other error. An unavailable model is checked again: its checkpoint may have changed.
        """
        try:
            if self.unavailable:
                self.check()
            if self.unavailable:
                raise Unavailable(self.unavailable)
            with warnings.catch_warnings(record=True):
                return 200, getattr(self, task)(*arguments), ""
        except (Unavailable, NotInstalled) as error:
            reason = self.unavailable = printable(str(error))
            return 503, error_body(f"{self.name} is unavailable: {reason}"), reason
        except ForecastError as error:
            return 422, error_body(self.hide_path(str(error))), ""
        except Exception:
            log.exception("a request to %s failed", self.name)
            return 500, error_body("internal error; the log of the server has the traceback"), ""

    def describe(self) -> bytes:
        """The JSON of what the model reads and forecasts."""
        return json.dumps(self.engine().description).encode()

    def example(self) -> bytes:
        """The JSON of a request that the model can answer, with made-up rows."""
        return json.dumps(self.engine().example).encode()

    def forecast_example(self) -> bytes:
        """Forecast the example."""
        return self.forecast(self.example(), sys.maxsize)

    def forecast(self, body: bytes, max_rows: int) -> bytes:
        """Forecast what the JSON of a request asks for; see `write_answer`. Raises ForecastError if it is wrong."""
        request, engine = read_request(body), self.engine()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = engine.forecast(request, max_rows)
            except NeedsTorch as reason:
                if list_missing_packages([TORCH]):
                    raise DataError(f"{reason}; only PyTorch forecasts that, and this server runs without it") from None
                caught.clear()
                found = self.torch_engine().forecast(request, max_rows)
        given = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
        return write_answer(self.name, found, given)

    def engine(self) -> "GraphEngine | TorchEngine":
        """The graph, or PyTorch if there is none. Raises Unavailable if the model cannot be read."""
        return self.graph_engine() or self.torch_engine()

    def graph_engine(self) -> GraphEngine | None:
        """The graph; None if there is none of the present checkpoint. Raises Unavailable if there is no checkpoint."""
        if not self.use_graph:
            return None
        with self._loading():
            checkpoint = find_trained(self.path)
        files = (checkpoint, facts_file(checkpoint), graph_file(checkpoint))
        state = tuple((file, file.stat().st_mtime_ns if file.exists() else 0) for file in files)
        if state != self._graph_state:
            self._graph, self._graph_state = self._load_graph(checkpoint), state
        return self._graph

    def _load_graph(self, checkpoint: Path) -> GraphEngine | None:
        facts = read_facts(checkpoint)
        if facts is None or facts["obstacle"]:
            return None
        try:
            return GraphEngine(checkpoint, facts)
        except Exception as error:  # the file may be damaged in any way: PyTorch answers
            log.error("%s: its graph cannot be loaded (%s): PyTorch answers", self.name, error)
            return None

    def torch_engine(self) -> "TorchEngine":
        """The whole model. Raises Unavailable if it cannot be read."""
        with self._loading():
            checkpoint = find_trained(self.path)
            state = checkpoint, file_state(checkpoint)
            if self._torch is None or state != self._torch_state:
                read_model_data(checkpoint)  # refuses a damaged file before PyTorch is loaded
                import torch

                from forecast.inference.model import load
                from forecast.tools.serve.trained import TorchEngine

                torch.set_num_threads(1)
                self._torch, self._torch_state = TorchEngine(self.name, load(checkpoint)), state
            return self._torch

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        try:
            yield
        except (ForecastError, OSError, ImportError) as error:
            raise Unavailable(self.hide_path(str(error))) from error

    def hide_path(self, message: str) -> str:
        """A message with the name of the model in place of the path of its files."""
        return message.replace(str(self.path), self.name)


def write_answer(name: str, forecast: Forecast, given: Sequence[str]) -> bytes:
    """The JSON of a forecast of a model, which gave these warnings.

    Returns:
        The model, the notes, the warnings, and one object for each date (and series) with the forecast and the bounds
        of each target.
    """
    notes = [*describe_forecast(forecast), *describe_test(forecast)]
    index, columns = forecast.rounded().table()
    table = {index.name or "series": list_cells(index), **{name: list_cells(columns[name]) for name in columns}}
    content = {
        "model": name,
        "trained_until": forecast.panel.utc_offset.describe(forecast.forecaster.trained_until),
        "notes": [" ".join(line.split()) for line in notes],
        "warnings": given,
        "forecast": [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)],
    }
    return pydantic_core.to_json(content, inf_nan_mode="null")


def list_cells(cells: np.ndarray | pd.Index) -> list[Any]:
    """The values of a column; dates in ISO 8601, with the UTC offset if they have a time zone."""
    return [date.isoformat() for date in cells] if isinstance(cells, pd.DatetimeIndex) else cells.tolist()
