"""The W&B logger: one run for all parts of a resumed run, with the final results in its summary."""

import contextlib
import json
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import wandb
from lightning.pytorch.utilities import rank_zero_only

from forecast.system.files import atomic_file
from forecast.training.service_logger import FinalResults, ServiceLogger
from forecast.training.wandb_runs import describe_wandb, starting_wandb


class WandbLogger(ServiceLogger, wandb.WandbLogger):
    """W&B logger with one id for all parts of a resumed run.

    W&B writes its offline files late, so a killed run would lose rows. Therefore this logger saves the rows at every
    checkpoint and logs them again when the next part starts. The last part holds all rows.
    """

    service = "W&B"

    def __init__(self, *, save_dir: str, mode: str, **options: Any) -> None:
        folder = Path(save_dir) / "wandb"
        super().__init__(save_dir=save_dir, id=earlier_id(folder), mode=mode, **options)
        self.is_offline, self._rows_file = mode == "offline", folder / "history.json"
        self._rows: list[tuple[dict[str, float], int | None]] = []

    def begin(self) -> None:
        """Start the W&B run in the first process, and log the rows of its earlier parts.

        Raises:
            ConfigError: W&B cannot be started (no account, no network).
        """
        with starting_wandb():
            _ = self.experiment
        if self.is_offline and self._rows_file.exists():  # online, the server has them
            for metrics, step in json.loads(self._rows_file.read_text()):
                self.log_metrics(metrics, step)

    def end(self, *, succeeded: bool) -> None:
        import wandb

        run = wandb.run
        if run is None:  # not the first process, or W&B could not be started
            return
        where = describe_wandb(run)
        self.attempt(lambda: run.finish(exit_code=0 if succeeded else 1))
        print(where)

    @rank_zero_only
    def save_rows(self) -> None:
        """Save the rows for the next part of the run; called at every checkpoint."""
        if self.is_offline:
            with atomic_file(self._rows_file) as temporary:
                temporary.write_text(json.dumps(self._rows))

    @rank_zero_only
    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self._rows.append((dict(metrics), step))
        self.attempt(lambda: super(WandbLogger, self).log_metrics(metrics, step))

    def log_settings(self, settings: dict[str, Any]) -> None:
        wandb.WandbLogger.log_hyperparams(self, settings)

    def log_final(self, final: FinalResults, step: int) -> None:
        # summary: a curve of one point says nothing
        self.attempt(lambda: self.experiment.summary.update(final.scores))
        self.attempt(lambda: self.log_table("error_by_step", dataframe=final.steps, step=step))
        self.attempt(lambda: log_horizon(self.experiment, final.horizon_rows()))
        self.attempt(lambda: log_errors(self.experiment, final.window_errors))
        for name, path in final.images.items():
            self.attempt(partial(self.log_image, f"pictures/{name}", [str(path)], step=step))

    def connection_errors(self) -> tuple[type[Exception], ...]:
        from wandb import Error

        return OSError, Error  # the connection to W&B's service process is a socket

    def disconnect(self) -> None:
        from wandb import teardown

        with contextlib.suppress(*self.connection_errors()):  # it sends a message to the lost service
            teardown(exit_code=1)  # the next run of a sweep starts a new service process


def log_errors(run: Any, path: Path) -> None:
    """Log the errors of each window as an artifact, from which runs can be compared window by window."""
    from wandb import Artifact

    artifact = Artifact(f"errors-{run.id}", type="errors", description="Errors of each test window.")
    artifact.add_file(str(path))
    run.log_artifact(artifact)


def log_horizon(run: Any, rows: list[dict[str, int | float]]) -> None:
    """Log error by step as curves over `horizon/step`, which W&B can overlay and average over runs."""
    run.define_metric("horizon/step", hidden=True)
    for name in rows[0]:
        if name != "horizon/step":
            run.define_metric(name, step_metric="horizon/step", summary="none")
    for row in rows:
        run.log(row)


def earlier_id(folder: Path) -> str | None:
    """Return the W&B id of the run's earlier parts in this folder; None if there are none."""
    parts = sorted(folder.glob("*run-*-*"))
    return parts[-1].name.rsplit("-", 1)[1] if parts else None
