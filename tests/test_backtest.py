"""Rolling origins: forecasts are those of a model that knew no later row."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecast import load
from tests.commands import SMALL, finish, only, start
from tests.helpers import write_csv


def backtest(folder: Path, *overrides: str, settings: tuple[str, ...] = SMALL) -> Path:
    result = finish(start(folder, *overrides, program=("-m", "forecast.backtest"), settings=settings))
    assert result.returncode == 0, result.stderr
    assert "saved in" in result.stdout
    return only(folder, "runs/*_backtest_*")


def test_a_checkpoint_forecasts_from_every_origin(run: Path, tmp_path: Path) -> None:
    data = run.parents[1] / "load.csv"
    folder = backtest(tmp_path, f"checkpoint={run}", f"data.path={data}", "steps=30", "stride=4", settings=())
    frame: Any = pd.read_csv(data, parse_dates=["date"], index_col="date")
    model = load(run)
    table = pd.read_parquet(folder / "forecasts.parquet")
    origins = frame.index[270:296:4]
    assert table["forecast_start"].unique().tolist() == origins.tolist()
    for origin in origins:
        mine = table[table["forecast_start"] == origin].pivot(
            index="date", columns="variable", values="model"
        )
        expected = model.predict(frame[frame.index < origin])
        np.testing.assert_allclose(mine[["load", "temperature"]], expected, rtol=1e-5)
    errors = pd.read_csv(folder / "errors_by_origin.csv")
    scale = np.where(table["variable"] == "load", *model.scaler.scale.tolist())
    squared = ((table["model"] - table["truth"]) / scale) ** 2
    by_origin = [squared[table["forecast_start"] == origin].mean() for origin in origins]
    np.testing.assert_allclose(errors["model_mse"], by_origin, rtol=1e-6)
    content = json.loads((folder / "backtest.json").read_text())
    assert content["model"]["mse"] == pytest.approx(errors["model_mse"].mean())
    assert content["trainings"] == []
    assert (folder / "backtest.png").stat().st_size > 10_000


def test_a_model_trained_on_the_way_knows_no_later_row(tmp_path: Path) -> None:
    """Change every row from the second training on: what was forecast before does not move at all."""
    answers = []
    for name, changed in (("as_it_was", False), ("changed", True)):
        folder = tmp_path / name
        folder.mkdir()
        write_csv(folder / "load.csv", rows=300)
        if changed:
            frame = pd.read_csv(folder / "load.csv")
            frame.loc[280:, ["load", "temperature"]] *= 7
            frame.to_csv(folder / "load.csv", index=False)
        found = backtest(folder, "steps=40", "refit_every=20", "trainer.max_epochs=1")
        answers.append(pd.read_parquet(found / "forecasts.parquet"))
        trainings = json.loads((found / "backtest.json").read_text())["trainings"]
        assert trainings == ["2024-01-11 19:00:00", "2024-01-12 15:00:00"]
        by_origin = pd.read_csv(found / "errors_by_origin.csv")
        assert by_origin["trained_until"].tolist() == [trainings[0]] * 4 + [trainings[1]] * 4
        assert len(list(found.glob("trainings/*/best.ckpt"))) == 2
    before = [table[table["forecast_start"] < "2024-01-12 16:00"] for table in answers]
    names = ["model", "naive", "seasonal_naive", "linear"]
    pd.testing.assert_frame_equal(before[0][names], before[1][names])
    after = [table[table["forecast_start"] >= "2024-01-12 21:00"] for table in answers]
    assert not np.allclose(after[0]["model"], after[1]["model"])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["steps=3"], "steps=3 hold no forecast of pred_len=5"),
        (["steps=0"], "at least 1"),
        (["steps=295"], "give fewer steps"),
        (["steps=100000"], "steps=100,000: load.csv has 300 rows"),
        (["refit_every=0"], "refit_every=0"),
        (["refit=full"], "refit=full: a backtest has no refit"),
        (["resume=auto"], "resume=auto: a backtest has no resume"),
        (["callbacks.checkpoint=null"], "callbacks.checkpoint=null: no run goes without it"),
        (["checkpoint={run}"], "the settings are the checkpoint's"),
    ],
)
def test_a_mistake_is_one_line(run: Path, tmp_path: Path, overrides: list[str], words: str) -> None:
    write_csv(tmp_path / "load.csv", rows=300)
    typed = [text.format(run=run) for text in overrides]
    result = finish(start(tmp_path, *typed, program=("-m", "forecast.backtest")))
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_run_that_was_not_tested_has_no_baselines_for_another_file(run: Path, tmp_path: Path) -> None:
    write_csv(tmp_path / "new.csv", rows=300)
    asked = (f"checkpoint={run}/checkpoints/last.ckpt", "data.path=new.csv")
    result = finish(start(tmp_path, *asked, program=("-m", "forecast.backtest"), settings=()))
    assert result.returncode == 2
    assert "its run was not tested, so it holds no baselines" in result.stderr
    assert not (tmp_path / "runs").exists()
