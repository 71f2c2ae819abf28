"""The CSV logger: the rows of a killed run are not lost when it is resumed."""

from pathlib import Path
from typing import Any

import pandas as pd
from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from lightning.pytorch.utilities import rank_zero_only

from forecast.system.files import atomic_file


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
