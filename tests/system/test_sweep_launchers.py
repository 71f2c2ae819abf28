"""Sweeps by joblib, submitit and Ray, on this machine: a killed job does not stop the others."""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.plugins import Plugins

from forecast.cli.overrides import EXTRAS, options
from forecast.system.errors import CONF
from forecast.system.hydra_internals import prefer_own_plugins
from forecast.system.location import known_targets
from tests.support.commands import only, train, train_here, workplace

LAUNCHERS = {
    "joblib": ("hydra.launcher.n_jobs=2",),
    "submitit_local": (),
    "ray": ("hydra.launcher.init.num_cpus=2",),
}


def compared(sweep: Path) -> set[str]:
    """The variants of summary.csv."""
    rows = pd.read_csv(sweep / "summary.csv")
    return set(rows.loc[rows["kind"] == "variant", "name"])


def needs(launcher: str) -> None:
    extra = EXTRAS.get(f"hydra/launcher/{launcher}")
    if extra is not None and find_spec(extra) is None:
        pytest.skip(f"the extra {extra} is not installed")


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_a_killed_job_does_not_stop_the_others_and_is_started_again(launcher: str, tmp_path: Path) -> None:
    needs(launcher)
    folder = workplace(tmp_path)
    command = ("-m", f"hydra/launcher={launcher}", *LAUNCHERS[launcher], "attention=full,linear", "logger=[]")
    short = "trainer.max_epochs=1"
    killed = train(
        folder, *command, short, program=("-m", "tests.support.self_killing_train"), DIES="1 start SIGKILL"
    )
    assert killed.returncode == 2
    assert killed.stderr.splitlines()[-1] == "error: 1 of the runs failed, each for the reason above"
    assert "Traceback" not in killed.stderr
    (failed,) = [line for line in killed.stdout.splitlines() if line.startswith("failed: ")]
    assert failed.startswith("failed: 1_linear-csv-5-s1_")
    assert "its process ended without a result" in failed
    sweep = only(folder, "runs/*")
    assert compared(sweep) == {"full"}

    result = train(folder, *command, short, "resume=auto")
    assert result.returncode == 0, result.stderr
    assert (
        f"resuming the sweep in {sweep.relative_to(folder)}, 1 of its runs finished before" in result.stdout
    )
    assert "failed: " not in result.stdout
    assert compared(sweep) == {"full", "linear"}
    assert len(list(sweep.glob("*/config.yaml"))) == 2


def test_slurm_is_needed_for_its_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs("submitit_slurm")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        train_here(monkeypatch, workplace(tmp_path), "-m", "hydra/launcher=submitit_slurm", "seed=1,2") == 2
    )
    assert (
        capsys.readouterr().err
        == "error: hydra/launcher=submitit_slurm needs Slurm, and there is no srun here\n"
    )


@pytest.mark.parametrize("launcher", options("hydra/launcher"))
def test_every_launcher_is_made_from_its_configuration(launcher: str, tmp_path: Path) -> None:
    prefer_own_plugins()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("train", overrides=[f"hydra/launcher={launcher}"], return_hydra_config=True).hydra
    config.sweep.dir = str(tmp_path)
    assert config.launcher._target_ in known_targets()
    made = Plugins.instance()._instantiate(config.launcher)
    assert type(made).__module__ == "hydra_plugins.forecast_launchers"
