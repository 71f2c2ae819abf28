"""Processes that train one model must read the same table and the same configuration: checked before they begin.

Each machine may have its own copy of a file. Were they to differ, or the commands typed on each, every process would
go on with what it has, and the model would be of neither.
"""

import hashlib
import platform
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pandas as pd
import torch.distributed as dist

from forecast.checkpoint import first_difference
from forecast.data import ForecastData
from forecast.data.store import StoredTable
from forecast.errors import ConfigError, DataError

MAY_DIFFER = {
    "": ("output_root",),
    "data": ("path", "root"),
}  # by the configuration's group: where things lie
ROWS = 1 << 16  # hashed at a time


@dataclass(frozen=True)
class Fingerprint:
    """What one process trains on."""

    host: str
    rows: int
    columns: tuple[str, ...]
    first_date: str
    last_date: str
    values: str  # a hash of every number and date
    config: dict[str, Any]

    @property
    def data(self) -> tuple[Any, ...]:
        return self.rows, self.columns, self.first_date, self.last_date, self.values

    def __str__(self) -> str:
        names = ", ".join(self.columns[:5]) + (", ..." if len(self.columns) > 5 else "")
        return (
            f"{self.rows:,} rows of {names} from {self.first_date} to {self.last_date} with hash {self.values} "
            f"on {self.host}"
        )


class SameEverywhere(L.Callback):
    """Compare what the processes of a run read, before anything is trained; keep in checkpoints what it was.

    Raises:
        DataError: naming two processes and the tables that each has.
        ConfigError: naming the first key in which two configurations differ.
    """

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        data = trainer.datamodule  # type: ignore[attr-defined]
        self._table = facts(data)
        if trainer.world_size > 1:
            gathered: list[Any] = [None] * trainer.world_size
            dist.all_gather_object(gathered, fingerprint(data, dict(module.hparams)))
            compare(gathered)

    def state_dict(self) -> dict[str, Any]:
        return {"table": self._table}


def facts(data: ForecastData) -> str:
    """What a table is known by: its extent, and a hash unless it is a store, of which that would take minutes."""
    rows, first, last = data.extent()
    content = "" if isinstance(data.table, StoredTable) else f" with hash {digest(data.table)}"
    return f"{rows:,} rows from {first} to {last}{content}"


def check_table(checkpoint: Path, saved: dict[str, Any], data: ForecastData) -> None:
    """Raises DataError where a run was begun with another table than the one that is there now."""
    then, now = saved["callbacks"].get("SameEverywhere", {}).get("table"), facts(data)  # older runs kept none
    if then is not None and then != now:
        raise DataError(
            f"{checkpoint}: this run was begun with {then}, and {data.title} has {now}: put the old table back, or "
            "leave resume=auto out to begin anew"
        )


def fingerprint(data: ForecastData, config: dict[str, Any]) -> Fingerprint:
    groups = {name: config[name] for name in MAY_DIFFER if name} | {"": config}
    compared = {
        name: {key: value for key, value in group.items() if key not in (*MAY_DIFFER[name], *groups)}
        for name, group in groups.items()
    }
    rows, first, last = data.extent()
    columns = tuple(data.columns)
    return Fingerprint(platform.node(), rows, columns, str(first), str(last), digest(data.table), compared)


def digest(table: Any) -> str:
    """A hash of all that a table's fields hold, in stretches of rows, for a table on disk is larger than memory."""
    state = hashlib.sha256()
    for field in fields(table):
        value = getattr(table, field.name)
        if not isinstance(value, np.ndarray | pd.Index | pd.DataFrame):
            state.update(repr(value).encode())
            continue
        for start in range(0, len(value), ROWS):
            part = np.asarray(value[start : start + ROWS])
            state.update(repr(part.tolist()).encode() if part.dtype == object else part.tobytes())
    return state.hexdigest()[:12]


def compare(found: list[Fingerprint]) -> None:
    """Raises what `SameEverywhere` does: of each process against the first."""
    first = found[0]
    for rank, other in enumerate(found):
        if other.data != first.data:
            raise DataError(
                f"process 0 reads {first}, process {rank} reads {other}: give every process the same table"
            )
        key, one, another = first_difference("", first.config, other.config)
        if key:
            raise ConfigError(
                f"process 0 on {first.host} has {key.strip('.')}={one}, process {rank} on {other.host} has {another}: "
                "type the same command on every machine"
            )
