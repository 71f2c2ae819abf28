"""Loggers of a run: W&B and MLflow with one run for all parts of a resumed run, and the results that all receive."""

import json
import logging
import os
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from filelock import FileLock
from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.loggers import Logger
from lightning.pytorch.loggers import TensorBoardLogger as LightningTensorBoardLogger
from lightning.pytorch.loggers import WandbLogger as LightningWandbLogger
from lightning.pytorch.utilities import rank_zero_only

from forecast.cli.main import print_warning
from forecast.evaluation.measurement import Results
from forecast.system.errors import ConfigError
from forecast.system.files import atomic_file, without_nan
from forecast.system.formatting import quote_for_shell
from forecast.system.keys import flatten, variant_id, without_local_paths

ENVIRONMENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
"""Defaults of this program: MLflow sends no usage statistics, and an unreachable server is not tried for minutes."""

MAX_TEXT = 6_000  # characters of a parameter


class FinalResults(NamedTuple):
    """Results that are logged at the end of a run."""

    scores: dict[str, Any]  # scores, costs and tokens by name, such as `baseline/naive/mse`
    by_step: list[dict[str, float]]  # for each step of the horizon its errors by name, such as `horizon/naive_mse`
    images: dict[str, Path]  # paths of the pictures by name
    metrics: dict[str, Any]  # the content of metrics.json
    step: int  # the last one of training


@contextmanager
def running(loggers: list[Logger]) -> Iterator[list[str]]:
    """Start the loggers, and close them even after an error, so that the next run of a sweep does not write to them.

    After the block, the list has a line for each logger that says how its results are opened. After an error, the lines
    are printed.

    Raises ConfigError: a tracking service cannot be reached.
    """
    lines: list[str] = []
    status = "failed"
    try:
        for logger in loggers:
            if isinstance(logger, ServiceLogger):
                logger.begin()
        yield lines
        status = "success"
    finally:
        for logger in loggers:
            logger.finalize(status)
            if isinstance(logger, ServiceLogger | TensorBoardLogger):
                lines += filter(None, [logger.end(succeeded=status == "success")])
        if status == "failed":
            print_lines(lines)


def print_lines(lines: list[str]) -> None:
    if lines:
        print(*lines, sep="\n")


def log_results(
    loggers: list[Logger], content: dict[str, Any], results: Results, images: dict[str, Path], step: int
) -> None:
    """Log final scores, skill and costs to every logger, and MSE by step and pictures to services.

    To services, `val/mse` and the like are those of the tested model at the end; in a file, they are curves alone.
    """
    by_step = pd.DataFrame(
        {f"horizon/{name}_mse": errors.by_step()["mse"].tolist() for name, errors in results.errors.items()}
    )
    final = FinalResults(collect_scores(content), by_step.to_dict("records"), images, content, step)  # type: ignore[arg-type]
    for logger in loggers:
        if isinstance(logger, ServiceLogger):
            logger.log_final(final)
        else:
            logger.log_metrics({k: v for k, v in final.scores.items() if not k.startswith("val/")}, step=step)


def collect_scores(content: dict[str, Any]) -> dict[str, Any]:
    """Collect the numbers that every logger receives at the end from the content of metrics.json."""
    parts = {"test": "test", "baseline": "baselines", "intervals": "intervals"}
    scores = dict(flatten({name: content[part] for name, part in parts.items()}, sign="/"))
    costs = ["seconds", "windows_per_second", "ms_per_window", "n_parameters"]
    if content["peak_memory_of"] == "device":  # that of a process holds what earlier runs freed
        costs.append("peak_memory_mb")
    validation = "validation_"
    scores |= {f"val/{k.removeprefix(validation)}": v for k, v in content.items() if k.startswith(validation)}
    scores |= {key: content[key] for key in ("skill", "best_epoch", "shrinkage_weight", *costs)}
    for slot, summary in content["attention_slots"].items():
        scores |= {f"tokens/{slot}/{side}": summary[side] for side in ("queries", "keys")}
    return scores


def without_password(text: str) -> str:
    """Return a text without the names and the passwords in its addresses."""
    return re.sub(r"://[^/@\s]*@", "://", text)


class TensorBoardLogger(LightningTensorBoardLogger):
    """TensorBoard logger with one event file: Lightning's would begin another one after training and after the test."""

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self.experiment.flush()
        self.save()  # the settings

    def end(self, *, succeeded: bool) -> str:
        """Close the event file; return a line that says how it is viewed, in the first process."""
        super().finalize("success" if succeeded else "failed")
        folder = quote_for_shell(self.log_dir)
        return f"TensorBoard: view it with: tensorboard --logdir {folder}" if rank_zero_only.rank == 0 else ""


class ServiceLogger(Logger):
    """A logger whose service may be lost during a run.

    `is_lost`: whether the connection was lost; then nothing more is logged.
    """

    service: str  # its name in messages
    is_lost = False

    @abstractmethod
    def begin(self) -> None:
        """Start the run of the service in the first process. Raises ConfigError if the service cannot be reached."""

    @abstractmethod
    def end(self, *, succeeded: bool) -> str:
        """Close the run of the service; return a line that says where it is found, if it was begun."""

    @abstractmethod
    def log_settings(self, settings: dict[str, Any]) -> None:
        """Log the settings of the run, as a nested dictionary."""

    @abstractmethod
    def log_final(self, final: FinalResults) -> None:
        """Log the results. Each part is an attempt: nothing may be asked of a lost service."""

    @abstractmethod
    def connection_errors(self) -> tuple[type[Exception], ...]:
        """Return the errors that mean that the connection was lost."""

    def save_rows(self) -> None:
        """Save the rows that the next part of the run logs again; called at every checkpoint."""

    def disconnect(self) -> None:
        """Release what a lost connection holds."""

    def attempt(self, call: Callable[[], Any]) -> None:
        """Call the function unless the connection is lost; if it is lost now, warn once."""
        if self.is_lost:
            return
        try:
            call()
        except self.connection_errors() as error:
            self.is_lost = True
            reason = without_password(str(error))
            print_warning(f"the connection to {self.service} was lost ({reason}); the run continues without it")
            self.disconnect()

    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """Log the configuration without local paths, and the id by which the seeds of a variant are grouped."""
        settings = {**without_local_paths(params), "variant_id": variant_id(params)}
        self.attempt(lambda: self.log_settings(settings))


class WandbLogger(ServiceLogger, LightningWandbLogger):
    """W&B logger with one id for all parts of a resumed run.

    W&B writes its offline files late, so a killed run would lose rows. Therefore this logger saves the rows at every
    checkpoint and logs them again when the next part starts. The last part holds all rows.
    """

    service = "W&B"

    def __init__(self, *, save_dir: str, mode: str, **options: Any) -> None:
        folder = Path(save_dir) / "wandb"
        parts = sorted(folder.glob("*run-*-*"))  # of the resumed run; each name ends with its W&B id
        earlier = parts[-1].name.rsplit("-", 1)[1] if parts else None
        super().__init__(save_dir=save_dir, id=earlier, mode=mode, **options)
        # online, the server has the rows
        self._rows_file = folder / "history.json" if mode == "offline" else None
        self._rows: list[tuple[dict[str, float], int | None]] = []

    def begin(self) -> None:
        import wandb

        wandb.setup(wandb.Settings(silent=True))  # the settings of a run take effect too late
        try:
            _ = self.experiment
        except wandb.Error as error:
            first_line = str(error).splitlines()[0]
            raise ConfigError(
                f"W&B cannot be reached ({first_line}); set up an account with `wandb login`, "
                "or use logger.mode=offline, which needs neither account nor network"
            ) from error
        if self._rows_file is not None and self._rows_file.exists():
            for metrics, step in json.loads(self._rows_file.read_text()):
                self.log_metrics(metrics, step)

    def end(self, *, succeeded: bool) -> str:
        import wandb

        run = wandb.run
        if run is None:  # not the first process, or W&B could not be started
            return ""
        folder = quote_for_shell(str(Path(run.dir).parent))
        where = run.url or f"offline run; upload it with: wandb sync {folder}"
        self.attempt(lambda: run.finish(exit_code=0 if succeeded else 1))
        return f"W&B: {where}"

    @rank_zero_only
    def save_rows(self) -> None:
        if self._rows_file is not None:
            with atomic_file(self._rows_file) as temporary:
                temporary.write_text(json.dumps(self._rows))

    @rank_zero_only
    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self._rows.append((dict(metrics), step))
        self.attempt(lambda: super(WandbLogger, self).log_metrics(metrics, step))

    def log_settings(self, settings: dict[str, Any]) -> None:
        LightningWandbLogger.log_hyperparams(self, settings)

    def log_final(self, final: FinalResults) -> None:
        # summary: a curve of one point says nothing
        self.attempt(lambda: self.experiment.summary.update(final.scores))
        self.attempt(lambda: self._log_horizon(final.by_step))
        for name, path in final.images.items():
            self.attempt(partial(self.log_image, f"pictures/{name}", [str(path)], step=final.step))

    def _log_horizon(self, by_step: list[dict[str, float]]) -> None:
        """Log error by step as curves over `horizon/step`, which W&B can overlay and average over runs."""
        run = self.experiment
        run.define_metric("horizon/step", hidden=True)
        for name in by_step[0]:
            run.define_metric(name, step_metric="horizon/step", summary="none")
        for number, errors in enumerate(by_step, start=1):
            run.log({"horizon/step": number, **errors})

    def connection_errors(self) -> tuple[type[Exception], ...]:
        from wandb import Error

        return OSError, Error  # the connection to W&B's service process is a socket

    def disconnect(self) -> None:
        from wandb import teardown

        with suppress(*self.connection_errors()):  # it sends a message to the lost service
            teardown(exit_code=1)  # the next run of a sweep starts a new service process


class MlflowLogger(ServiceLogger):
    """Log to MLflow, with one MLflow run for all parts of a resumed run.

    Lightning's `MLFlowLogger` changes the tracking URI of the process, logs the path of the program, and refuses the
    changed settings of a resumed run.

    Args:
        experiment: name of the experiment, which is created if it does not exist.
        tags: tags of the run. None: left out.
        root: folder of the local database `mlflow.db`.
        save_dir: run folder, which keeps the id of the MLflow run.
        tracking_uri: address of the store. None: the environment variable MLFLOW_TRACKING_URI, or the database.
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
        super().__init__()
        self._experiment_name, self._run_name, self._root = experiment, name, Path(root)
        self._tags = {key: str(value) for key, value in tags.items() if value is not None}
        self._id_file = Path(save_dir) / "logs" / "mlflow" / "run_id.txt"
        address = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
        self._is_local = address is None
        self._address = address or f"sqlite:///{self._root / 'mlflow.db'}"
        self._client: Any = None
        self.run_id: str | None = None  # None before `begin`, and in all processes but the first

    @property
    def name(self) -> str:
        return self._experiment_name

    @property
    def version(self) -> str | None:
        return self.run_id

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
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
            problem = f"MLflow: {self._address} cannot be used ({str(error).splitlines()[0]})"
            raise ConfigError(without_password(problem)) from error
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
        if known := self._client.get_experiment_by_name(self._experiment_name):
            experiment_id = known.experiment_id
        else:
            files = (self._root / ".mlflow").absolute().as_uri() if self._is_local else None
            experiment_id = self._client.create_experiment(self._experiment_name, artifact_location=files)
        return self._client.create_run(experiment_id, run_name=self._run_name, tags=self._tags).info.run_id

    def end(self, *, succeeded: bool) -> str:
        if self.run_id is None:  # MLflow could not be reached, or this is not the first process
            return ""
        self.attempt(lambda: self._client.set_terminated(self.run_id, "FINISHED" if succeeded else "FAILED"))
        how = "; view it with: mlflow ui --backend-store-uri " if self._is_local else " on "
        return f"MLflow: run {self.run_id}{how}{without_password(self._address)}"

    def log_settings(self, settings: dict[str, Any]) -> None:
        from mlflow.entities import Param

        # a resumed run has some of them, and MLflow refuses another value
        known = self._client.get_run(self.run_id).data.params
        new = [Param(key, str(value)[:MAX_TEXT]) for key, value in flatten(settings) if key not in known]
        self._client.log_batch(self.run_id, params=new)
        self._client.set_tag(self.run_id, "variant_id", settings["variant_id"])

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, int | float | None], step: int | None = None) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        batch = [Metric(name, float(value), now, step or 0) for name, value in metrics.items() if value is not None]
        self.attempt(lambda: self._client.log_batch(self.run_id, metrics=batch))

    def log_final(self, final: FinalResults) -> None:
        self.log_metrics(final.scores, final.step)
        for number, errors in enumerate(final.by_step, start=1):
            self.log_metrics(errors, number)
        self.attempt(lambda: self._client.log_dict(self.run_id, without_nan(final.metrics), "metrics.json"))
        for path in final.images.values():
            self.attempt(partial(self._client.log_artifact, self.run_id, str(path), "pictures"))

    def connection_errors(self) -> tuple[type[Exception], ...]:
        from mlflow.exceptions import MlflowException

        return OSError, MlflowException
