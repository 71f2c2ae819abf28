"""Every option of conf/trainer makes a Lightning trainer."""

import pytest
import torch
from hydra.utils import instantiate

from forecast.cli.compose import compose_config
from forecast.cli.overrides import options
from forecast.training.hardware import resolve_auto


@pytest.mark.parametrize("option", options("trainer"))
def test_every_trainer_is_made(option: str) -> None:
    config = compose_config(f"trainer={option}")
    if config.trainer.accelerator == "gpu" and not torch.cuda.is_available():
        pytest.skip(f"trainer={option} needs a GPU; its keys are checked above")
    resolve_auto(config, None)
    trainer = instantiate(config.trainer, logger=False, enable_checkpointing=False)
    assert trainer.num_devices == config.trainer.devices
