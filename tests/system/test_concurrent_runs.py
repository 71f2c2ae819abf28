"""Runs started together, alone or into one folder: nothing collides."""

from pathlib import Path

import pandas as pd
import pytest

from tests.support.commands import start, workplace
from tests.support.wandb_file import WandbRun


@pytest.mark.long
def test_runs_started_together_collide_in_nothing(tmp_path: Path) -> None:
    """Two alone below one output_root, two as sweeps of one job in one folder; two of them are alike."""
    workplace(tmp_path)
    together = ("-m", "hydra.sweep.dir=runs/together")
    commands = [("seed=0",), ("seed=0",), (*together, "seed=0"), (*together, "seed=1")]
    runs = [start(tmp_path, *command, "trainer.max_epochs=1") for command in commands]
    errors = [run.communicate(timeout=500)[1] for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, errors
    folders = [*tmp_path.glob("runs/2*/"), *tmp_path.glob("runs/together/*/")]
    assert len(folders) == 4
    assert all((folder / "metrics.json").exists() for folder in folders)
    assert all(len(pd.read_csv(folder / "metrics.csv")) == 1 for folder in folders)
    ids = [WandbRun(path).run.run_id for path in tmp_path.rglob("offline-run-*/*.wandb")]
    assert len(set(ids)) == len(ids) == 4
