"""The training command with a signal that it sends itself once.

`DIES="1 2 SIGKILL" python -m tests.support.self_killing_train` kills job 1 of a sweep as its epoch 2 begins;
`DIES="1 start SIGKILL"` kills it before training starts. `DIES="17"` kills a run before its 17th call of a function in
`WRITES`, and `DIES="0"` prints the number of these calls.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from forecast.cli.main import main_with_run_folder
from forecast.train import train

WRITES = ("replace", "link", "fsync")  # functions of `os` that name files and flush them to disk


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


def train_until_write(number: int) -> None:
    calls = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given, **named)

        return call

    for name in WRITES:
        setattr(os, name, counted(getattr(os, name)))
    main_with_run_folder("train", train)
    print(f"writes: {calls}", flush=True)


if __name__ == "__main__":
    os.environ.pop("WANDB_SERVICE", None)  # of another test in this process: there a killed run's id stays taken
    if os.environ["DIES"].isdigit():
        train_until_write(int(os.environ["DIES"]))
    else:
        main_with_run_folder("train", task)
