"""Training that is hit once: `DIES="1 2 SIGKILL" python -m tests.dying` sends the process of the sweep's member 1 this
signal as its epoch 2 begins; `DIES="1 start SIGKILL"` before it has begun.
"""

import os
import signal
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.cli import main
from forecast.train import train


def die(name: str) -> None:
    Path("died").touch()
    os.kill(os.getpid(), signal.Signals[name])


def task(config: DictConfig) -> float:
    member, moment, name = os.environ["DIES"].split()
    if HydraConfig.get().job.num == int(member) and not Path("died").exists():
        if moment == "start":
            die(name)
        from forecast.forecaster import Forecaster

        def on_train_epoch_start(forecaster: Forecaster) -> None:
            if forecaster.current_epoch == int(moment) and not Path("died").exists():
                die(name)

        Forecaster.on_train_epoch_start = on_train_epoch_start
    return train(config)


if __name__ == "__main__":
    main("train", task)
