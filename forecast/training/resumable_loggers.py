"""Loggers for resumed runs: the rows of a killed run are not lost, and a lost connection to W&B ends no run."""

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.loggers import CSVLogger, wandb
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from lightning.pytorch.utilities import rank_zero_only

from forecast.system.files import atomic_file
from forecast.system.identity import variant_id, without_local_paths


class CsvLogger(CSVLogger):
    """Write every logged step as a row of `metrics.csv`; Lightning's logger would delete a resumed run's rows."""

    @property
    @rank_zero_experiment
    def experiment(self) -> ExperimentWriter:
        if self._experiment is None:
            self._experiment = WholeTable(self.log_dir)
        assert isinstance(self._experiment, ExperimentWriter)
        return self._experiment

    def save(self) -> None:
        """Do nothing after each row: `save_rows` writes the whole table."""

    @rank_zero_only
    def save_rows(self) -> None:
        """Write the table; called at every checkpoint and at the end."""
        self.experiment.save()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        if self._experiment is not None:
            self.save_rows()


class WholeTable(ExperimentWriter):
    """Rows in a file that is whole at every moment. A row replaces an earlier one with the same step and columns."""

    def _check_log_dir_exists(self) -> None:
        """Read the rows of the run's earlier parts, where Lightning's constructor would delete them."""
        path, self._rows = Path(self.metrics_file_path), {}
        if path.exists():
            for row in pd.read_csv(path, dtype=str).to_dict("records"):  # as text, so that every digit stays
                self._add({key: value for key, value in row.items() if not pd.isna(value)})

    def _add(self, row: dict[str, Any]) -> None:
        key = (int(row["step"]), *sorted(row))
        self._rows.pop(key, None)
        self._rows[key] = row

    def save(self) -> None:
        for row in self.metrics:
            self._add(row)
        self.metrics = []
        if self._rows:
            with atomic_file(Path(self.metrics_file_path)) as temporary:
                pd.DataFrame(self._rows.values()).to_csv(temporary, index=False)


class WandbLogger(wandb.WandbLogger):
    """W&B logger with one id for all parts of a resumed run; training continues if the connection to W&B is lost.

    W&B writes its offline files late, so a killed run would lose rows. Therefore this logger saves the rows at every
    checkpoint and logs them again when the next part starts. The last part holds all rows.
    """

    def __init__(self, *, save_dir: str, mode: str, **options: Any) -> None:
        folder = Path(save_dir) / "wandb"
        super().__init__(save_dir=save_dir, id=earlier_id(folder), mode=mode, **options)
        self.is_offline, self.is_lost, self._rows_file = mode == "offline", False, folder / "history.json"
        self._rows: list[tuple[dict[str, float], int | None]] = []

    def begin(self) -> None:
        """Start the W&B run in the first process, and log the rows of its earlier parts."""
        _ = self.experiment
        if self.is_offline and self._rows_file.exists():  # online, the server has them
            for metrics, step in json.loads(self._rows_file.read_text()):
                self.log_metrics(metrics, step)

    @rank_zero_only
    def save_rows(self) -> None:
        """Save the rows for the next part of the run; called at every checkpoint."""
        if self.is_offline:
            with atomic_file(self._rows_file) as temporary:
                temporary.write_text(json.dumps(self._rows))

    def attempt(self, call: Callable[[], Any]) -> Any:
        """Return the call's result; if the connection to W&B is lost, warn once and return None."""
        if self.is_lost:
            return None
        from wandb import Error, teardown

        try:
            return call()
        except (OSError, Error) as error:  # the connection to W&B's service process is a socket
            self.is_lost = True
            print(
                f"warning: the connection to W&B was lost ({error}); the run continues without it",
                file=sys.stderr,
                flush=True,
            )
            with contextlib.suppress(OSError, Error):  # it sends a message to the lost service
                teardown(exit_code=1)  # the next run of a sweep starts a new service process
            return None

    @rank_zero_only
    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self._rows.append((dict(metrics), step))
        self.attempt(lambda: super(WandbLogger, self).log_metrics(metrics, step))

    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """Log the configuration without local paths, and the id by which the seeds of a variant are grouped."""
        logged = {**without_local_paths(params), "variant_id": variant_id(params)}
        self.attempt(lambda: super(WandbLogger, self).log_hyperparams(logged))


def earlier_id(folder: Path) -> str | None:
    """Return the W&B id of the run's earlier parts in this folder; None if there are none."""
    parts = sorted(folder.glob("*run-*-*"))
    return parts[-1].name.rsplit("-", 1)[1] if parts else None
