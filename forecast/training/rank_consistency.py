"""Rank consistency: all processes of a run must read the same table and the same configuration.

Each machine may have its own copy of a file, and its own command line. With different data or settings, every process
would train on its own, and the model would match none of them.
"""

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L

from forecast.data import DataModule
from forecast.data.panel_digest import describe_content, digest
from forecast.system.errors import ConfigError, DataError
from forecast.system.formatting import shorten
from forecast.system.identity import first_difference, identity
from forecast.training.lightning_data import data_of
from forecast.training.processes import gather


@dataclass(frozen=True)
class Fingerprint:
    """Summary of the data and the configuration of one process; `values` is a hash of all numbers and dates."""

    host: str
    rows: int
    columns: tuple[str, ...]
    first_date: str
    last_date: str
    values: str
    config: dict[str, Any]

    @property
    def data(self) -> tuple[Any, ...]:
        return self.rows, self.columns, self.first_date, self.last_date, self.values

    def __str__(self) -> str:
        names = shorten(self.columns, 5)
        return (
            f"{self.rows:,} rows of {names} from {self.first_date} to {self.last_date} with hash {self.values} "
            f"on {self.host}"
        )


class RankConsistency(L.Callback):
    """Compare the tables and configurations of all processes before training; describe the table in checkpoints.

    Raises:
        DataError: naming two processes and their tables.
        ConfigError: naming the first key whose value differs.
    """

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        data = data_of(trainer)
        self._table = describe_content(data.panel)
        if trainer.world_size > 1:
            compare(gather(trainer, fingerprint(data, dict(module.hparams))))

    def state_dict(self) -> dict[str, Any]:
        return {"table": self._table}


def check_same_table(checkpoint: Path, content: dict[str, Any], data: DataModule) -> None:
    """Raise DataError if the checkpoint's run read another table than `data` has now."""
    before, now = content["callbacks"]["RankConsistency"]["table"], describe_content(data.panel)
    if before != now:
        raise DataError(
            f"{checkpoint}: this run was started with {before}, and {data.title} has {now}: restore the old table, or "
            "leave out resume=auto to start a new run"
        )


def fingerprint(data: DataModule, config: dict[str, Any]) -> Fingerprint:
    """Summarise this process's data and configuration, without the keys that may differ between machines."""
    compared = identity(config, per_machine=False)
    panel, columns = data.panel, tuple(data.columns)
    first, last = str(panel.first_date), str(panel.last_date)
    return Fingerprint(platform.node(), panel.n_rows, columns, first, last, digest(panel), compared)


def compare(fingerprints: list[Fingerprint]) -> None:
    """Compare each process with the first; raises the errors of `RankConsistency`."""
    first = fingerprints[0]
    for rank, other in enumerate(fingerprints):
        if other.data != first.data:
            raise DataError(
                f"process 0 reads {first}, process {rank} reads {other}: give every process the same table"
            )
        difference = first_difference(first.config, other.config)
        if difference is not None:
            key, value, other_value = difference
            raise ConfigError(
                f"process 0 on {first.host} has {key}={value}, process {rank} on {other.host} has {other_value}: "
                "type the same command on every machine"
            )
