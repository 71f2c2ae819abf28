"""scripts/wandb_sweep.yaml: every value is one the training command takes, and W&B's own agent runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from forecast.cli.compose import compose_command
from tests.support.commands import ROOT, only, workplace
from tests.support.wandb_server import RUN, SWEEP, environment, wandb_server

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


@pytest.mark.slow
@pytest.mark.long
def test_an_agent_runs_it(tmp_path: Path) -> None:
    """`wandb sweep` and `wandb agent` with a local server: one run with the first value of every parameter."""
    workplace(tmp_path, rows=700)
    command = CONTENT["command"]
    command = [*command[:-1], "data=csv", "data.path=load.csv", "trainer.max_epochs=1", command[-1]]
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(CONTENT | {"command": command}))
    chosen = {name: ends(parameter)[0] for name, parameter in CONTENT["parameters"].items()}

    def wandb(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "wandb", *arguments], cwd=tmp_path, timeout=200, text=True,
            env=environment(tmp_path, server), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    with wandb_server(forecast=0) as server:
        made = wandb("sweep", "--entity", "someone", "--project", "forecast", "sweep.yaml")
        assert f"wandb agent someone/forecast/{SWEEP}" in made
        assert yaml.safe_load(server.sweep)["parameters"] == CONTENT["parameters"]
        server.to_start.append(chosen)
        printed = wandb("agent", "--count", "1", f"someone/forecast/{SWEEP}")
    run = server.run
    assert (run["name"], run["sweep"], run["exitcode"]) == (RUN, SWEEP, 0), printed
    config = {name: item["value"] for name, item in run["config"].items()}
    assert config["data"]["name"] == "csv"  # still the group
    assert config["model"]["attention"]["name"] == chosen["attention"] == "full"
    assert config["optimizer"]["lr"] == chosen["optimizer.lr"]
    assert config["model"]["d_model"] == chosen["model.d_model"]
    metric = CONTENT["metric"]["name"]
    kept = json.loads((only(tmp_path, "runs/*") / "metrics.json").read_text())
    assert run["summary"][metric] == kept[metric]
    assert run["summary"]["test/mse"] == kept["test"]["mse"]
