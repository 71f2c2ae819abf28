"""The MLflow logger: runs in a local SQLite database, without an account, or on a tracking server."""

import logging
import os
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filelock import FileLock
from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only

from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file, without_nan
from forecast.system.identity import flatten
from forecast.training.service_logger import FinalResults, ServiceLogger, without_password

PACKAGES = ("mlflow", "sqlalchemy", "alembic")
ENVIRONMENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
"""Defaults of this program: MLflow sends no usage statistics, and an unreachable server is not tried for minutes."""

MAX_BATCH = 100  # parameters in one request
MAX_TEXT = 6_000  # characters of a parameter


class MlflowLogger(ServiceLogger):
    """Log to MLflow, with one MLflow run for all parts of a resumed run.

    Lightning's `MLFlowLogger` changes the tracking URI of the process and logs the path of the program.

    Attributes:
        run_id: the id of the MLflow run; None before `begin` and in all processes but the first.
    """

    service = "MLflow"

    def __init__(
        self,
        *,
        experiment: str,
        name: str,
        tags: dict[str, Any],
        root: str,
        save_dir: str,
        tracking_uri: str | None = None,
    ) -> None:
        """Prepare a logger, which `begin` connects.

        Args:
            experiment: name of the experiment, which is created if it does not exist.
            name: name of the run.
            tags: tags of the run. None: left out.
            root: folder of the local database `mlflow.db`.
            save_dir: run folder, which keeps the id of the MLflow run.
            tracking_uri: address of the store. None: the environment variable MLFLOW_TRACKING_URI, or the database.

        Raises:
            ModuleNotFoundError: a package of the extra `mlflow` is not installed.
        """
        super().__init__()
        for package in PACKAGES:
            if find_spec(package) is None:
                raise ModuleNotFoundError(package)
        self._experiment_name, self._run_name, self._root = experiment, name, Path(root)
        self._tags = {key: str(value) for key, value in tags.items() if value is not None}
        self._id_file = Path(save_dir) / "logs" / "mlflow" / "run_id.txt"
        self._database = self._root / "mlflow.db"
        address = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
        self._is_local = address is None
        self._address = address or f"sqlite:///{self._database}"
        self._client: Any = None
        self.run_id: str | None = None

    @property
    def name(self) -> str:
        return self._experiment_name

    @property
    def version(self) -> str | None:
        return self.run_id

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The `mlflow.MlflowClient`."""
        return self._client

    @rank_zero_only
    def begin(self) -> None:
        for variable, value in ENVIRONMENT.items():
            os.environ.setdefault(variable, value)
        from mlflow import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._root.mkdir(parents=True, exist_ok=True)
        # the jobs of a sweep would create the tables at the same time
        lock = FileLock(self._root / ".mlflow.db.lock") if self._is_local else nullcontext()
        try:
            with lock:
                self._client = MlflowClient(self._address)
                self.run_id = self._resume_run() or self._create_run()
        except self.connection_errors() as error:
            problem = f"{self._address} cannot be used ({str(error).splitlines()[0]})"
            raise ConfigError(f"MLflow: {without_password(problem)}") from error
        with atomic_file(self._id_file) as temporary:
            temporary.write_text(self.run_id)

    def _resume_run(self) -> str | None:
        """Open the MLflow run of the run's earlier parts; return its id, or None if the store has none."""
        from mlflow.exceptions import MlflowException

        if not self._id_file.exists():
            return None
        run_id = self._id_file.read_text()
        try:
            self._client.update_run(run_id, status="RUNNING")
        except MlflowException:
            return None
        return run_id

    def _create_run(self) -> str:
        known = self._client.get_experiment_by_name(self._experiment_name)
        if known is None:
            files = (self._root / ".mlflow").absolute().as_uri() if self._is_local else None
            experiment_id = self._client.create_experiment(self._experiment_name, artifact_location=files)
        else:
            experiment_id = known.experiment_id
        return self._client.create_run(experiment_id, run_name=self._run_name, tags=self._tags).info.run_id

    @rank_zero_only
    def end(self, *, succeeded: bool) -> None:
        if self.run_id is None:  # MLflow could not be reached
            return
        self.attempt(lambda: self._client.set_terminated(self.run_id, "FINISHED" if succeeded else "FAILED"))
        view = f"; view it with: mlflow ui --backend-store-uri {self._address}"
        place = view if self._is_local else f" on {without_password(self._address)}"
        print(f"MLflow: run {self.run_id}{place}")

    def log_settings(self, settings: dict[str, Any]) -> None:
        from mlflow.entities import Param

        # a resumed run has some of them, and MLflow refuses another value
        known = self._client.get_run(self.run_id).data.params
        new = [Param(key, str(value)[:MAX_TEXT]) for key, value in flatten(settings) if key not in known]
        for start in range(0, len(new), MAX_BATCH):
            self._client.log_batch(self.run_id, params=new[start : start + MAX_BATCH])
        self._client.set_tag(self.run_id, "variant_id", settings["variant_id"])

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, int | float | None], step: int | None = None) -> None:
        self.attempt(lambda: self._log_batch(metrics, step or 0))

    def _log_batch(self, metrics: Mapping[str, int | float | None], step: int) -> None:
        from mlflow.entities import Metric
        from mlflow.utils.time import get_current_time_millis

        now = get_current_time_millis()
        batch = [
            Metric(name, float(value), now, step) for name, value in metrics.items() if value is not None
        ]
        self._client.log_batch(self.run_id, metrics=batch)

    def log_final(self, final: FinalResults, step: int) -> None:
        self.log_metrics(final.scores, step)
        for row in final.horizon_rows():
            self.log_metrics(row, int(row.pop("horizon/step")))
        self.attempt(lambda: self._client.log_dict(self.run_id, without_nan(final.metrics), "metrics.json"))
        self.attempt(partial(self._client.log_artifact, self.run_id, str(final.window_errors)))
        for path in final.images.values():
            self.attempt(partial(self._client.log_artifact, self.run_id, str(path), "pictures"))

    def connection_errors(self) -> tuple[type[Exception], ...]:
        from mlflow.exceptions import MlflowException

        return OSError, MlflowException
