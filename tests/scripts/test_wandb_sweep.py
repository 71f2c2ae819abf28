"""scripts/wandb_sweep.yaml: every value is one the training command takes, and W&B's own agent runs it."""

from typing import Any

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from forecast.cli.compose import compose_command
from tests.support.commands import ROOT

PATH = ROOT / "scripts" / "wandb_sweep.yaml"
CONTENT: dict[str, Any] = yaml.safe_load(PATH.read_text())


def ends(parameter: dict[str, Any]) -> list[Any]:
    """All values of a parameter, or the lowest and the highest."""
    return parameter.get("values") or [parameter["min"], parameter["max"]]


@pytest.mark.parametrize("name", CONTENT["parameters"])
def test_values_are_known(name: str) -> None:
    for value in ends(CONTENT["parameters"][name]):
        (argument,) = create_sweep_command_args({"args": {name: {"value": value}}})["args_no_hyphens"]
        compose_command("train", [argument])


def test_no_parameter_takes_the_place_of_a_group() -> None:
    """W&B writes a parameter over the run's configuration, where `data` and `model` hold a group's settings."""
    groups = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()}
    assert groups & {*CONTENT["parameters"]} == {"attention"}  # it lies in model.attention
