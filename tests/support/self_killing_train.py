"""The training command with a signal that it sends itself once.

`DIES="1 2 SIGKILL" python -m tests.support.self_killing_train` kills job 1 of a sweep as its epoch 2 begins;
`DIES="1 start SIGKILL"` kills it before training starts.
"""

import os
import signal
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.cli.main import main_with_run_folder
from forecast.train import train


def die(name: str) -> None:
    Path("died").touch()
    os.kill(os.getpid(), signal.Signals[name])


def task(config: DictConfig) -> float:
    job, moment, name = os.environ["DIES"].split()
    if HydraConfig.get().job.num == int(job) and not Path("died").exists():
        if moment == "start":
            die(name)
        from forecast.training.module import Forecaster

        def on_train_epoch_start(forecaster: Forecaster) -> None:
            if forecaster.current_epoch == int(moment) and not Path("died").exists():
                die(name)

        Forecaster.on_train_epoch_start = on_train_epoch_start
    return train(config)


if __name__ == "__main__":
    main_with_run_folder("train", task)
