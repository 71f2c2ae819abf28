"""A trained model's scores again: the run's own numbers, on its data and on other data."""

import json
import os
import shutil
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
from tests.support.commands import ROOT, run_command
from tests.support.fork_server import run_python


def read(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.mark.parametrize("kind", ["run", "quantile_run"])
def test_the_test_again_gives_the_runs_own_numbers(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder: Path = request.getfixturevalue(kind)
    output = tmp_path / "scores.json"
    command = ["-m", "forecast.evaluate", f"checkpoint={folder}", f"output={output}"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}  # as in training
    result = run_python(command, cwd=folder.parents[1], env=one_thread)
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
        errors.append(
            (ahead.to_numpy() - part.to_numpy()[origin : origin + 5]) / model.scaler.scale[0].numpy()
        )
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
    model = load(run)
    origins = frame.index[168:296]  # the seasonal naive reads a week
    trained = (origins <= model.trained_until).sum()
    validated = (origins <= model.validated_until).sum() - trained
    with pytest.warns(UserWarning, match="in training rows") as warned:
        model.evaluate(frame)
    assert str(warned[0].message) == (
        f"of {len(origins)} windows, {trained} in training rows (to {model.trained_until}) and {validated} in "
        f"validation rows (to {model.validated_until}): their errors say little about the errors of new dates; "
        "give later rows"
    )
    later = frame.iloc[trained + validated :]  # obeys the advice
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "of .* windows?, ")
        assert model.evaluate(later)["n_windows"] == len(origins) - trained - validated


def test_another_split_gives_what_training_saw_of_it(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.json"
    options = (f"checkpoint={run}", "split=val", f"output={output}")
    assert run_command("evaluate", run.parents[1], *options) == 0
    seen = pd.read_csv(run / "metrics.csv")["val/mse"].iloc[-1]
    assert read(output)["test"]["mse"] == pytest.approx(seen, rel=1e-6)
    assert run_command("evaluate", run.parents[1], *options) == 2  # the file is there


def test_a_checkpoint_file_alone_is_enough(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "checkpoints" / "best.ckpt", tmp_path / "model.ckpt")
    frame = pd.read_csv(run.parents[1] / "load.csv", parse_dates=["date"], index_col="date")
    moved, first = load(tmp_path / "model.ckpt"), load(run)
    pd.testing.assert_frame_equal(moved.predict(frame, levels=[80]), first.predict(frame, levels=[80]))
    assert moved.evaluate(frame)["n_windows"] == 300 - 168 - 5 + 1  # the seasonal naive reads a week
