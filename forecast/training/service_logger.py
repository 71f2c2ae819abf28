"""The base class of loggers that write to a tracking service: what they log, and that its loss ends no run."""

import re
import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from forecast.system.identity import variant_id, without_local_paths


@dataclass(frozen=True)
class FinalResults:
    """Results that are logged at the end of a run.

    Attributes:
        scores: scores, costs and tokens by name, such as `baseline/naive/mse`.
        steps: MSE at each step of the horizon, one column for the model and each baseline.
        images: paths of the pictures by name.
        window_errors: a Parquet file of the errors of each window.
        metrics: the content of metrics.json.
    """

    scores: dict[str, Any]
    steps: pd.DataFrame
    images: dict[str, Path]
    window_errors: Path
    metrics: dict[str, Any]

    def horizon_rows(self) -> list[dict[str, int | float]]:
        """Return `steps` as one row per step, with the keys `horizon/step` and `horizon/<name>_mse`."""
        rename = {name: f"horizon/{name}" if name == "step" else f"horizon/{name}_mse" for name in self.steps}
        return self.steps.rename(columns=rename).to_dict("records")


class ServiceLogger(Logger):
    """A logger whose service may be lost during a run.

    Attributes:
        service: its name in messages.
        is_lost: whether the connection was lost; then nothing more is logged.
    """

    service: str
    is_lost = False

    @abstractmethod
    def begin(self) -> None:
        """Start the run of the service in the first process.

        Raises:
            ConfigError: the service cannot be reached.
        """

    @abstractmethod
    def end(self, *, succeeded: bool) -> None:
        """Close the run of the service, and print where it is found."""

    @abstractmethod
    def log_settings(self, settings: dict[str, Any]) -> None:
        """Log the settings of the run, as a nested dictionary."""

    @abstractmethod
    def log_final(self, final: FinalResults, step: int) -> None:
        """Log the results. Each part is an attempt of its own: nothing may be asked of a lost service."""

    @abstractmethod
    def connection_errors(self) -> tuple[type[Exception], ...]:
        """Return the errors that mean that the connection was lost."""

    def disconnect(self) -> None:
        """Release what a lost connection holds."""

    def attempt(self, call: Callable[[], Any]) -> Any:
        """Return the call's result; if the connection is lost, warn once and return None."""
        if self.is_lost:
            return None
        try:
            return call()
        except self.connection_errors() as error:
            self.is_lost = True
            reason = without_password(str(error))
            print(
                f"warning: the connection to {self.service} was lost ({reason}); the run continues without it",
                file=sys.stderr,
                flush=True,
            )
            self.disconnect()
            return None

    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """Log the configuration without local paths, and the id by which the seeds of a variant are grouped."""
        settings = {**without_local_paths(params), "variant_id": variant_id(params)}
        self.attempt(lambda: self.log_settings(settings))


def without_password(text: str) -> str:
    """Return a text without the names and the passwords in its addresses."""
    return re.sub(r"://[^/@\s]*@", "://", text)
