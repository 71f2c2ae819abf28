"""An explanation as a run of Weights & Biases."""

from pathlib import Path
from typing import Any, Literal

import pandas as pd

from forecast.system.errors import ConfigError
from forecast.training.wandb_runs import WANDB_MODES, describe_wandb, starting_wandb


def check_mode(mode: str | None) -> None:
    """Raise ConfigError for another value of `wandb` than null, offline and online."""
    if mode is not None and mode not in WANDB_MODES:
        raise ConfigError(f"wandb={mode} must be null, offline or online")


def log_folder(
    folder: Path, title: str, mode: Literal["offline", "online"], settings: dict[str, Any]
) -> None:
    """Log the tables and the pictures of an explanation in a new run of the type `explain`.

    Args:
        folder: the folder of the explanation, with importance.csv and pictures.
        title: the name of the run.
        mode: offline or online.
        settings: the configuration of the run that trained the model.

    Raises:
        ConfigError: W&B cannot be reached.
    """
    import wandb

    quiet = wandb.Settings(silent=True, console="off", x_disable_meta=True)  # no local paths
    with starting_wandb():
        run = wandb.init(
            project="forecast", job_type="explain", name=title, mode=mode, config=settings, settings=quiet,
            dir=Path.cwd(),
        )  # fmt: skip
    where = describe_wandb(run)
    for path in sorted(folder.glob("*.csv")):
        run.log({path.stem: wandb.Table(dataframe=pd.read_csv(path))})
    for path in sorted(folder.glob("*.png")):
        run.log({f"pictures/{path.stem}": wandb.Image(str(path))})
    run.finish()
    print(where)
