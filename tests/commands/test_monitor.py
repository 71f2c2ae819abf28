"""`python -m forecast.monitor`: the errors on newer rows beside those of the test."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast.inference.model import load
from forecast.tools.monitor import examine
from tests.support.commands import run_command, run_training
from tests.support.csv_files import write_csv

ROWS = 400
FIRST_NEWER = "2024-01-17 16:00:00"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with load.csv of 400 rows, newer.csv with 300 more rows, and two runs, one of them refitted."""
    folder = tmp_path_factory.mktemp("monitor")
    write_csv(folder / "newer.csv", rows=ROWS + 300)
    pd.read_csv(folder / "newer.csv").iloc[:ROWS].to_csv(folder / "load.csv", index=False)
    for name, refit in (("run", "null"), ("refitted", "full")):
        options = ("trainer.max_epochs=1", "logger=[]", f"refit={refit}", f"hydra.run.dir=runs/{name}")
        assert run_training(folder, *options) == 0
    return folder


def test_the_forecasts_after_the_test_are_scored(place: Path, capsys) -> None:
    assert run_command("monitor", place, "checkpoint=runs/run", "data.path=newer.csv") == 0
    lines = capsys.readouterr().out.splitlines()
    found = json.loads((place / "monitor.json").read_text())
    assert found["periods"]["newer"]["first"] == FIRST_NEWER
    assert found["periods"]["newer"]["origins"] == 300 - 5 + 1
    pd.read_csv(place / "newer.csv").iloc[ROWS - 168 :].to_csv(place / "only_newer.csv", index=False)
    command = ("checkpoint=runs/run", "data.path=only_newer.csv", "output=e.json")
    assert run_command("evaluate", place, *command) == 0
    scores = json.loads((place / "e.json").read_text())
    assert found["periods"]["newer"]["mse"]["model"] == pytest.approx(scores["test"]["mse"], rel=1e-5)
    assert found["coverage"]["newer"]["conformal"]["80"] == scores["intervals"]["conformal"]["80"]["coverage"]
    metrics = json.loads((place / "runs" / "run" / "metrics.json").read_text())
    assert found["periods"]["test"]["mse"]["model"] == pytest.approx(metrics["test"]["mse"], rel=1e-5)
    assert found["verdict"] in ("keep", "retrain")
    assert set(found["p_values"]) == {"errors", "coverage"}  # 300 rows are too many to compare with 400
    assert found["relative_error"]["mean"] > -1
    assert len(found["mean_coverage"]["interval"]) == 2
    assert any(line.startswith("verdict    ") for line in lines)
    assert any("error relative to that forecast has changed since the test by " in line for line in lines)
    assert set(found["drift"]) == {"load", "temperature"}
    assert (place / "monitor.png").stat().st_size > 10_000


def test_rows_that_a_refit_has_seen_are_not_scored(place: Path) -> None:
    command = ("checkpoint=runs/refitted", "data.path=newer.csv", "output=refitted.json")
    assert run_command("monitor", place, *command) == 0
    found = json.loads((place / "refitted.json").read_text())
    other = json.loads((place / "monitor.json").read_text())
    assert found["drift"] == other["drift"]  # of the scale of the tested model, as the inputs of the run
    assert found["checkpoint"].endswith("refit.ckpt")
    assert found["periods"]["newer"]["first"] == FIRST_NEWER


@pytest.mark.parametrize("rows", [4, ROWS + 4])
def test_too_few_newer_rows_give_the_verdict_unknown(place: Path, rows: int, capsys) -> None:
    """A file with the first newer rows alone, or with all rows up to them."""
    table = pd.read_csv(place / "newer.csv")
    some = table[:rows] if rows >= ROWS else table[ROWS : ROWS + rows]
    some.to_csv(place / "few.csv", index=False)
    command = (
        "checkpoint=runs/run",
        "data.path=few.csv",
        "output=few.json",
        "overwrite=true",
        "exit_code=true",
    )
    assert run_command("monitor", place, *command) == 0
    found = json.loads((place / "few.json").read_text())
    assert found["verdict"] == "unknown"
    assert found["periods"]["newer"] == {"first": None, "last": None, "origins": 0, "mse": {}}
    assert "the file needs 5 rows after the test" in capsys.readouterr().out


def test_a_scheduler_learns_of_drift_by_the_exit_status(place: Path, capsys) -> None:
    table = pd.read_csv(place / "newer.csv")
    table = table[: ROWS + 60]
    table.loc[ROWS:, "temperature"] += 1000
    table.to_csv(place / "shifted.csv", index=False)
    command = ("checkpoint=runs/run", "data.path=shifted.csv", "output=shifted.json", "overwrite=true")
    assert run_command("monitor", place, *command) == 0
    assert run_command("monitor", place, *command, "exit_code=true") == 3
    assert json.loads((place / "shifted.json").read_text())["changed"][-1] == "inputs"
    assert "the inputs differ from those of the run" in capsys.readouterr().out.splitlines()[-2]


def test_training_continues_on_newer_rows_with_the_scale_of_the_model(place: Path) -> None:
    options = ("checkpoint=runs/run", "data.path=newer.csv", "trainer.max_epochs=2", "logger=[]")
    assert run_training(place, *options, "hydra.run.dir=runs/continued") == 0
    before, after = (load(place / "runs" / name) for name in ("run", "continued"))
    assert after.trained_until > before.trained_until
    for one, other in zip(before.scaler.tensors, after.scaler.tensors, strict=True):
        assert torch.equal(one, other)
    epochs = pd.read_csv(place / "runs" / "continued" / "metrics.csv")["epoch"]
    assert epochs.tolist() == [1]  # the first epoch, 0, is that of the run


def test_errors_of_a_refit_have_the_units_of_the_test(place: Path, tmp_path: Path) -> None:
    """Naive forecasts are the same with both models; the rows of the refit have twice the spread."""
    rows = pd.read_csv(place / "newer.csv")
    rows.loc[:ROWS, "load"] *= np.where(np.arange(ROWS + 1) < ROWS // 2, 0.5, 1.0)
    rows.iloc[:ROWS].to_csv(tmp_path / "load.csv", index=False)
    rows.to_csv(tmp_path / "newer.csv", index=False)
    options = ("trainer.max_epochs=1", "logger=[]", "refit=full", "hydra.run.dir=run")
    assert run_training(tmp_path, *options) == 0
    checkpoints = tmp_path / "run" / "checkpoints"
    tested, refitted = (load(checkpoints / name) for name in ("best.ckpt", "refit.ckpt"))
    assert not torch.allclose(tested.target_scaler.scale, refitted.target_scaler.scale, rtol=0.05)
    given = {"path": str(tmp_path / "newer.csv"), "split": "test"}
    found = [examine(model, model.read_data(given)).newer for model in (tested, refitted)]
    assert found[0].dates.equals(found[1].dates)
    for name in ("naive", "seasonal_naive"):
        assert found[1].mse[name] == pytest.approx(found[0].mse[name], rel=1e-4)
