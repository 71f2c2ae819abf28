"""The export of the models of a server, in processes of their own. Imports no torch."""

import contextlib
import io
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from forecast.checkpoints.find import find_trained
from forecast.system.errors import ForecastError
from forecast.system.progress import track
from forecast.tools.export.metadata import ONNX_PACKAGES, TORCH, list_missing_packages
from forecast.tools.serve.export_files import file_state, read_facts

SECONDS = 5
"""Seconds between two looks at the checkpoints."""


class Exporter:
    """Exports the models whose checkpoints have changed.

    Args:
        models: run folder or checkpoint file of each model by name.
    """

    def __init__(self, models: Mapping[str, Path]) -> None:
        self.models = dict(models)
        self._failed: dict[str, Any] = {}
        self._closed = threading.Event()

    def export_all(self) -> None:
        """Export the models that have no export of their present checkpoint, and show the progress."""
        if stale := self._find_stale():
            for name, checkpoint in track(list(stale.items()), "Exporting models for ONNX Runtime"):
                self._export(name, checkpoint)

    def watch(self) -> None:
        """Export models whose checkpoints change, until `close`, in a thread."""
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def describe(self, names: Iterable[str]) -> Iterable[str]:
        """Yield a line for each of these models that PyTorch answers."""
        for name in names:
            path = self.models[name]
            facts = read_facts(find_trained(path))
            reason = facts["obstacle"] if facts else "it could not be exported"
            if reason:
                yield f"PyTorch    answers for {name}: {reason}"

    def _watch(self) -> None:
        while not self._closed.wait(SECONDS):
            for name, checkpoint in self._find_stale().items():
                self._export(name, checkpoint)

    def _find_stale(self) -> dict[str, Path]:
        """The checkpoint of each model without an export of it, other than those whose export failed."""
        stale = {}
        for name, path in self.models.items():
            with contextlib.suppress(OSError, ForecastError):  # a refit may be replacing the file
                checkpoint = find_trained(path)
                if self._failed.get(name) != file_state(checkpoint) and read_facts(checkpoint) is None:
                    stale[name] = checkpoint
        return stale

    def _export(self, name: str, checkpoint: Path) -> None:
        with contextlib.suppress(
            FileNotFoundError
        ):  # it may have been replaced: the next look finds its successor
            state = file_state(checkpoint)
            spawn = multiprocessing.get_context("spawn")
            process = spawn.Process(target=run_export, args=(name, checkpoint), daemon=True)
            process.start()
            process.join()
            if process.exitcode:
                self._failed[name] = state


def check_packages() -> str:
    """Why no model can be exported; empty if all packages are installed."""
    missing = list_missing_packages([TORCH, *ONNX_PACKAGES])
    return f"not installed: {', '.join(missing)}" if missing else ""


def run_export(name: str, checkpoint: Path) -> None:
    """Body of the process that exports a model. Exits with status 1 and a line on stderr if it fails."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # deletes the temporary file
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import_module("forecast.tools.serve.export_model").export_model(name, checkpoint)
    except (ForecastError, OSError, ImportError) as error:
        print(f"{name}: not exported: {error}", file=sys.stderr)
        sys.exit(1)
