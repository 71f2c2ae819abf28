"""The file of a table: its finished cells, and the machines they ran on."""

import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock

from experiments.cells import Cell
from forecast.system.files import write_json

Row = dict[str, Any]
VERSIONS = ("torch", "lightning", "numpy", "lightgbm", "neuralforecast", "transformers")


class Store:
    """The finished cells of a table by name; each is written to the file when it is added."""

    def __init__(self, path: Path, cells: Sequence[Cell]) -> None:
        self.path, self.cells = path, cells
        # Several commands and threads may add to the same file.
        self._lock = FileLock(path.with_name(f".{path.stem}.lock"))
        self.content = self._read()

    def _read(self) -> dict[str, Any]:
        if self.path.exists():
            return json.loads(self.path.read_text())
        return {"table": self.path.stem, "machines": [], "cells": {}}

    def row(self, cell: Cell) -> Row | None:
        """Return the result of a cell; None if it has not run with the overrides that the table has now."""
        row = self.content["cells"].get(cell.name)
        return row if row is not None and tuple(row["overrides"]) == cell.overrides else None

    def rows(self) -> list[Row]:
        """Return the finished cells in the order of the table, each with its facts."""
        found = [(cell, self.row(cell)) for cell in self.cells]
        return [{**cell.facts, **row} for cell, row in found if row is not None]

    def add(self, cell: Cell, scores: Row, machine: dict[str, Any]) -> None:
        """Add a result to the file, which other commands may have changed, in the order of the table."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            content = self._read()
            if machine not in content["machines"]:
                content["machines"].append(machine)
            place = {"machine": content["machines"].index(machine), "overrides": list(cell.overrides)}
            content["cells"][cell.name] = {**cell.facts, **place, **scores}
            order = {cell.name: number for number, cell in enumerate(self.cells)}
            names = sorted(content["cells"], key=lambda name: order.get(name, len(order)))
            content["cells"] = {name: content["cells"][name] for name in names}
            write_json(self.path, content)
            self.content = content


def describe_machine(threads: int) -> dict[str, Any]:
    """Return the hardware and the versions that the cells run on, without the name of the computer."""
    import torch

    from forecast import __version__
    from forecast.system.machine import describe_machine as describe

    facts = describe("cuda" if torch.cuda.is_available() else "cpu")
    versions = {"forecast": __version__, "python": platform.python_version()}
    for name in VERSIONS:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"device": facts["device"], "system": facts["system"], "threads": threads, "versions": versions}
