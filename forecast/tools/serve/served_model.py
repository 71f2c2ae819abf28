"""A model in a worker process: its graph, and the whole model once a request needs it."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forecast.checkpoints.find import find_trained
from forecast.system.errors import ForecastError
from forecast.tools.serve.export_files import facts_file, file_state, graph_file, read_facts
from forecast.tools.serve.exported_model import ExportedModel

if TYPE_CHECKING:
    from forecast.inference.model import TrainedModel

log = logging.getLogger(__name__)
EXPORT_SECONDS = 120
"""Seconds for which the previous graph stays in use while a new checkpoint is exported."""


class Unavailable(Exception):
    """A model cannot be loaded; the message is the reason, without the place of its files."""


class ServedModel:
    """A model that is loaded anew when its checkpoint changes, or when a refitted one appears beside it.

    Args:
        name: of the model.
        path: its run folder or checkpoint file.
        use_graph: whether ONNX Runtime answers the requests that it can answer.
    """

    def __init__(self, name: str, path: Path, *, use_graph: bool) -> None:
        self.name, self.path, self.use_graph = name, path, use_graph
        self._exported: ExportedModel | None = None
        self._whole: TrainedModel | None = None
        self._exported_state: Any = None
        self._stale_since: float | None = None
        self._whole_state: Any = None

    def exported(self) -> ExportedModel | None:
        """The graph; None if there is none. The one before it answers until a changed checkpoint has been exported.

        Raises:
            Unavailable: there is no checkpoint.
        """
        if not self.use_graph:
            return None
        with self._loading():
            checkpoint = find_trained(self.path)
        files = (checkpoint, facts_file(checkpoint), graph_file(checkpoint))
        state = tuple((file, modified(file)) for file in files)
        if state != self._exported_state:
            facts = read_facts(checkpoint)
            if facts is not None:
                self._exported, self._exported_state = self._load(checkpoint, facts), state
                self._stale_since = None
                return self._exported
            self._stale_since = self._stale_since or time.monotonic()
            if time.monotonic() > self._stale_since + EXPORT_SECONDS:  # its export has failed
                return None
        return self._exported

    def _load(self, checkpoint: Path, facts: Any) -> ExportedModel | None:
        if facts["obstacle"]:
            return None
        try:
            return ExportedModel.load(checkpoint, facts)
        except Exception as error:  # the file may be damaged in any way: PyTorch answers
            log.error("%s: its graph cannot be loaded (%s): PyTorch answers", self.name, error)
            return None

    def whole(self) -> "TrainedModel":
        """The whole model, for PyTorch. Raises Unavailable if it cannot be read."""
        with self._loading():
            import torch

            from forecast.inference.model import load

            checkpoint = find_trained(self.path)
            state = checkpoint, file_state(checkpoint)
            if self._whole is None or state != self._whole_state:
                torch.set_num_threads(1)
                self._whole, self._whole_state = load(checkpoint), state
            return self._whole

    @contextmanager
    def _loading(self) -> Iterator[None]:
        try:
            yield
        except (ForecastError, OSError, ImportError) as error:
            raise Unavailable(self.hide_path(str(error))) from error

    def hide_path(self, message: str) -> str:
        """A message with the name of the model in place of the path of its files."""
        return message.replace(str(self.path), self.name)

    def describe(self) -> bytes:
        """The JSON of what the model reads and forecasts."""
        exported = self.exported()
        if exported is not None:
            return json.dumps(exported.description).encode()
        model = self.whole()
        from forecast.tools.serve.describe_model import describe_model

        return json.dumps(describe_model(self.name, model)).encode()

    def example(self) -> bytes:
        """The JSON of a request that the model can answer, with made-up rows."""
        exported = self.exported()
        if exported is not None:
            return json.dumps(exported.example).encode()
        model = self.whole()
        from forecast.tools.serve.example import make_example

        return json.dumps(make_example(model)).encode()


def modified(file: Path) -> int:
    """Time of the last change of a file; 0 if there is none."""
    return file.stat().st_mtime_ns if file.exists() else 0
