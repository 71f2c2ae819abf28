"""A trained model's scores again: the run's own numbers, on its data and on other data, and on newer rows."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import load
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.model import load_tested
from forecast.inference.predict import calibration_for
from forecast.runs.folder import read_metrics
from forecast.tools.monitor import examine
from tests.support.commands import finish, run_command, run_training, start
from tests.support.csv_files import write_csv


def read(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.mark.parametrize("kind", ["run", "quantile_run"])
def test_the_test_again_gives_the_runs_own_numbers(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder: Path = request.getfixturevalue(kind)
    output = tmp_path / "scores.json"
    program = ("-m", "forecast.evaluate", f"checkpoint={folder}", f"output={output}")
    result = finish(start(folder.parents[1], program=program, settings=()))
    assert result.returncode == 0, result.stderr
    again, first = read(output), read(folder / "metrics.json")
    for key in ("test", "baselines", "skill", "best_baseline", "intervals"):
        assert again[key] == first[key], key
    assert again["n_windows"] == first["n_windows"]["test"]
    assert again["checkpoint"].endswith("best.ckpt")
    assert "stride 1" in result.stdout
    assert set(first["intervals"]) == {"conformal", *(["quantile"] if kind == "quantile_run" else [])}


def test_all_rows_of_another_file_are_scored(run: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(run.parents[1] / "load.csv", parse_dates=["date"], index_col="date")
    part = frame.iloc[-60:]
    part.to_csv(tmp_path / "part.csv")
    options = (f"checkpoint={run}", "data.path=part.csv", "output=part.json")
    assert run_command("evaluate", tmp_path, *options) == 0
    found = read(tmp_path / "part.json")
    # the model reads 12 rows; the week that the seasonal naive repeats is longer than the file
    assert found["n_windows"] == 60 - 12 - 5 + 1
    model = load(run)
    assert model.evaluate(part)["test"] == found["test"]
    errors = []  # by forecasting from every origin there is
    for origin in range(12, 56):
        ahead = model.predict(part.iloc[:origin])
        errors.append((ahead.to_numpy() - part.to_numpy()[origin : origin + 5]) / model.scaler.scale[0].numpy())
    assert found["test"]["mse"] == pytest.approx(np.square(errors).mean(), rel=1e-4)


def test_refit_full_trains_on_every_row_and_says_which_model_is_which(quantile_run: Path) -> None:
    facts = read(quantile_run / "metrics.json")["refit"]
    assert facts["rows"] == 300
    assert facts["last_date"] == "2024-01-13 11:00:00"
    assert facts["scores_are_of"] == "checkpoints/best.ckpt"
    refit, tested = load(quantile_run), load_tested(quantile_run)
    assert refit.path.name == "refit.ckpt"
    assert refit.refitted == facts
    assert refit.tested().path == tested.path
    frame = pd.read_csv(quantile_run.parents[1] / "load.csv", index_col="date")
    np.testing.assert_allclose(refit.scaler.center[0], frame.mean(), rtol=1e-12)
    np.testing.assert_allclose(tested.scaler.center[0], frame[:210].mean(), rtol=1e-12)
    assert (refit.trained_until, tested.trained_until) == ("2024-01-13 11:00:00", "2024-01-09 17:00:00")
    same = [a.equal(b) for a, b in zip(refit.network.parameters(), tested.network.parameters(), strict=True)]
    assert not any(same)


def test_a_refitted_model_has_intervals_as_wide_as_the_tested_ones(quantile_run: Path, monkeypatch) -> None:
    monkeypatch.chdir(quantile_run.parents[1])
    refit, tested = load(quantile_run), load_tested(quantile_run)
    before, after = tested.target_scaler.scale, refit.target_scaler.scale
    assert not torch.allclose(before, after, rtol=0.01)  # else this says nothing
    # a level that the run kept, one to be calibrated, and steps beyond pred_len
    for levels, horizon in (([80], 5), ([83], 5), ([80], 7)):
        widths = [
            calibration_for(choose_forecaster(model), levels, horizon).offsets * scale
            for model, scale in ((tested, before), (refit, after))
        ]
        torch.testing.assert_close(*widths)


def test_evaluate_warns_of_windows_of_training_rows(run: Path) -> None:
    frame = pd.read_csv(run.parents[1] / "load.csv", parse_dates=["date"], index_col="date")
    model, origins = load(run), frame.index[168:296]  # the seasonal naive reads a week
    trained = (origins <= model.trained_until).sum()
    validated = (origins <= model.validated_until).sum() - trained
    told = (
        f"of {len(origins)} windows, {trained} in training rows (to {model.trained_until}) and {validated} in "
        f"validation rows (to {model.validated_until}): their errors say little about the errors of new dates; "
        "give later rows"
    )
    with pytest.warns(UserWarning, match=re.escape(told)):
        model.evaluate(frame)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "of .* windows?, ")
        later = frame.iloc[trained + validated :]  # obeys the advice
        assert model.evaluate(later)["n_windows"] == len(origins) - trained - validated


def test_another_split_gives_what_training_saw_of_it(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.json"
    options = (f"checkpoint={run}", "split=val", f"output={output}")
    assert run_command("evaluate", run.parents[1], *options) == 0
    seen = pd.read_csv(run / "metrics.csv")["val/mse"].iloc[-1]
    assert read(output)["test"]["mse"] == pytest.approx(seen, rel=1e-6)
    assert run_command("evaluate", run.parents[1], *options) == 2  # the file is there


# ---- `forecast monitor`: the errors on newer rows beside those of the test

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
    metrics = read_metrics(place / "runs" / "run")
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
    table = pd.read_csv(place / "newer.csv")
    some = table[:rows] if rows >= ROWS else table[ROWS : ROWS + rows]
    some.to_csv(place / "few.csv", index=False)
    command = ("checkpoint=runs/run", "data.path=few.csv", "output=few.json", "overwrite=true")
    assert run_command("monitor", place, *command, "exit_code=true") == 0
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


@pytest.mark.slow
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
