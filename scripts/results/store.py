"""docs/results/TABLE.json: the finished cells of a table, and the machines they ran on."""

import json
from pathlib import Path
from typing import Any

from filelock import FileLock

from forecast.system.files import write_json
from results.cells import TABLES, Cell

Row = dict[str, Any]


class Store:
    """The finished cells of a table by name; each is written to the file when it is added."""

    def __init__(self, folder: Path, table: str) -> None:
        self.table, self.path = table, folder / f"{table}.json"
        self.content = self._read()
        # Several commands and threads may add to the same file.
        self._lock = FileLock(folder / f".{table}.lock")

    def _read(self) -> dict[str, Any]:
        if self.path.exists():
            return json.loads(self.path.read_text())
        return {"table": self.table, "machines": [], "cells": {}}

    def row(self, cell: Cell) -> Row | None:
        """Return the result of a cell; None if it has not run with the overrides that the table has now."""
        row = self.content["cells"].get(cell.name)
        return row if row is not None and row["overrides"] == list(cell.overrides) else None

    def add(self, cell: Cell, scores: Row, machine: dict[str, Any]) -> None:
        """Add a result to the file, which other commands may have changed, in the order of the table."""
        told: Row = {key: getattr(cell, key) for key in ("data", "variant", "horizon", "attention", "seed")}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            content = self._read()
            if machine not in content["machines"]:
                content["machines"].append(machine)
            told["machine"] = content["machines"].index(machine)
            content["cells"][cell.name] = {**told, "overrides": list(cell.overrides), **scores}
            order = {cell.name: place for place, cell in enumerate(TABLES[self.table])}
            names = sorted(content["cells"], key=lambda name: order.get(name, len(order)))
            content["cells"] = {name: content["cells"][name] for name in names}
            write_json(self.path, content)
            self.content = content
