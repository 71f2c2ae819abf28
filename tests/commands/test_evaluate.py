"""A trained model's scores again: the run's own numbers, on its data and on other data."""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from forecast import load
from forecast.checkpoints.file import load_checkpoint
from forecast.inference.forecasters import choose_forecaster
from forecast.inference.model import load_tested
from forecast.inference.predict import calibration_for
from forecast.system.errors import CheckpointError
from tests.support.commands import ROOT, answer, only, train_here, workplace
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
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }  # one thread, as in training
    result = run_python(command, cwd=folder.parents[1], env=environment)
    assert result.returncode == 0, result.stderr
    again, first = read(output), read(folder / "metrics.json")
    for key in ("test", "baselines", "skill", "best_baseline", "intervals"):
        assert again[key] == first[key], key
    assert again["n_windows"] == first["n_windows"]["test"]
    assert again["checkpoint"].endswith("best.ckpt")
    assert "stride 1" in result.stdout
    assert set(first["intervals"]) == {"conformal", *(["quantile"] if kind == "quantile_run" else [])}


def test_all_rows_of_another_file_are_scored(run: Path, tmp_path: Path, monkeypatch) -> None:
    frame = pd.read_csv(run.parents[1] / "load.csv", parse_dates=["date"], index_col="date")
    part = frame.iloc[-60:]
    part.to_csv(tmp_path / "part.csv")
    options = (f"checkpoint={run}", "data.path=part.csv", "output=part.json")
    assert answer(monkeypatch, "evaluate", tmp_path, *options) == 0
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


def test_a_stride_scores_fewer_windows(run: Path, tmp_path: Path, monkeypatch) -> None:
    options = (f"checkpoint={run}", "split=val")
    counts = {}
    for stride in (1, 7):
        file = tmp_path / f"{stride}.json"
        given = (*options, f"data.eval_stride={stride}", f"output={file}")
        assert answer(monkeypatch, "evaluate", run.parents[1], *given) == 0
        counts[stride] = read(file)["n_windows"]
    assert counts[7] == -(-counts[1] // 7)
    assert answer(monkeypatch, "evaluate", run.parents[1], *options, "data.eval_stride=0") == 2


def test_a_model_refitted_on_all_rows_is_not_scored(quantile_run: Path, tmp_path: Path, monkeypatch) -> None:
    refit = quantile_run / "checkpoints" / "refit.ckpt"
    assert answer(monkeypatch, "evaluate", tmp_path, f"checkpoint={refit}") == 2
    with pytest.raises(CheckpointError):
        load(quantile_run).evaluate()


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
    for levels in ([80], [83]):  # one that the run kept, and one to be calibrated
        widths = [
            calibration_for(choose_forecaster(model), levels, 5).offsets * scale
            for model, scale in ((tested, before), (refit, after))
        ]
        torch.testing.assert_close(*widths)
    recursive = [
        calibration_for(choose_forecaster(model), [80], 7).offsets * scale
        for model, scale in ((tested, before), (refit, after))
    ]
    torch.testing.assert_close(*recursive)


def test_a_refit_that_was_done_but_for_its_name_trains_no_more(tmp_path: Path, monkeypatch) -> None:
    """Killed between its last state and `refit.ckpt`, where the best epoch was not the last one."""
    typed = ("trainer.max_epochs=3", "logger=[]", "refit=full", "resume=auto")
    monkeypatch.setattr("forecast.training.run.completed_epochs", lambda content: 2)
    with monkeypatch.context() as patch:
        patch.setattr("forecast.training.run.set_shrinkage", lambda *given: sys.exit(9))
        assert train_here(patch, workplace(tmp_path), *typed) == 9
    folder = only(tmp_path, "runs/*")
    state = load_checkpoint(folder / "checkpoints" / "refit-last.ckpt")
    assert state["callbacks"]["Checkpointing"]["is_finished"]
    assert train_here(monkeypatch, tmp_path, *typed) == 0
    refit = load_checkpoint(folder / "checkpoints" / "refit.ckpt")
    assert refit["global_step"] == state["global_step"]
    assert all(refit["state_dict"][name].equal(weight) for name, weight in state["state_dict"].items())


def test_rows_that_were_trained_on_are_named(run: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    place = run.parents[1]
    same = f"data.path={place / 'load.csv'}"
    assert answer(monkeypatch, "evaluate", place, f"checkpoint={run}", same) == 0
    said = capsys.readouterr().out
    assert f"{read(run / 'metrics.json')['n_windows']['test']} windows, stride 1" in said
    assert "training rows" not in said
    shutil.copy(place / "load.csv", tmp_path / "export.csv")
    assert answer(monkeypatch, "evaluate", tmp_path, f"checkpoint={run}", "data.path=export.csv") == 0
    assert "in training rows (to 2024-01-09 17:00:00)" in capsys.readouterr().out


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


def test_another_split_gives_what_training_saw_of_it(run: Path, tmp_path: Path, monkeypatch) -> None:
    output = tmp_path / "scores.json"
    options = (f"checkpoint={run}", "split=val", f"output={output}")
    assert answer(monkeypatch, "evaluate", run.parents[1], *options) == 0
    seen = pd.read_csv(run / "metrics.csv")["val/mse"].iloc[-1]
    assert read(output)["test"]["mse"] == pytest.approx(seen, rel=1e-6)
    assert answer(monkeypatch, "evaluate", run.parents[1], *options) == 2  # the file is there


def test_a_checkpoint_file_alone_is_enough(run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "checkpoints" / "best.ckpt", tmp_path / "model.ckpt")
    frame = pd.read_csv(run.parents[1] / "load.csv", parse_dates=["date"], index_col="date")
    moved, first = load(tmp_path / "model.ckpt"), load(run)
    pd.testing.assert_frame_equal(moved.predict(frame, levels=[80]), first.predict(frame, levels=[80]))
    assert moved.evaluate(frame)["n_windows"] == 300 - 168 - 5 + 1  # the seasonal naive reads a week
