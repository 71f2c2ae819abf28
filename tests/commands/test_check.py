"""`forecast check`: what it says of files with known faults, and that its suggested settings train."""

import json
import shlex
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from PIL import Image

from forecast import fit
from forecast.cli.compose import compose_config
from forecast.evaluation.baselines import FittedBaselines
from forecast.evaluation.measurement import new_sums
from tests.support.commands import PLAIN, only, run_command
from tests.support.csv_files import numbers, write_csv

TINY = (
    "model.d_model=8", "model.n_heads=2", "model.d_ff=8", "trainer.max_epochs=1", "+trainer.limit_train_batches=2",
    "callbacks.progress.refresh_rate=0", "logger=[]",
)  # fmt: skip

UNPICTURED = pytest.mark.usefixtures("empty_picture_of_check")


def run(folder: Path, *overrides: str) -> int | str | None:
    """Run check, with a picture, within this process; return its exit status."""
    return run_command("check", folder, "output=check.png", *overrides)


def train_as_suggested(suggested: str, folder: Path) -> dict:
    """Run a suggested training command for two batches of a tiny model; return its metrics."""
    program, command, *arguments = shlex.split(suggested)
    assert (program, command) == ("forecast", "train")
    assert run_command("train", folder, *arguments, *TINY) == 0
    (path,) = folder.glob("runs/*/metrics.json")
    return json.loads(path.read_text())


def found(folder: Path) -> dict:
    return json.loads((folder / "check.json").read_text())


def table(rows: int, freq: str, period: int, start: str = "2021-03-01") -> pd.DataFrame:
    random = np.random.default_rng(rows)
    t = np.arange(rows)
    dates = pd.date_range(start, periods=rows, freq=freq)
    load = 100 + 10 * np.sin(2 * np.pi * t / period) + 2 * random.normal(size=rows)
    return pd.DataFrame({"date": dates, "load": load, "walk": random.normal(size=rows).cumsum()})


def test_both_files_are_saved_once_and_not_without_an_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    write_csv(tmp_path / "my.csv", rows=400)
    assert run_command("check", tmp_path, "data.path=my.csv") == 0
    said = capsys.readouterr().out
    assert "my.csv: 400 rows × 2 columns, every hour, 2024-01-01 to 2024-01-17 15:00" in said
    assert "24 rows (a day): strong" in said
    assert "nothing is saved: output=check.png" in said
    assert [path.name for path in tmp_path.iterdir()] == ["my.csv"]
    assert run(tmp_path, "data.path=my.csv") == 0
    assert found(tmp_path)["command"] in capsys.readouterr().out
    assert Image.open(tmp_path / "check.png").width > 1_000
    monkeypatch.setattr("forecast.tools.check.diagnosis.diagnose", None)  # refused before the file is read
    assert run(tmp_path, "data.path=my.csv") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_real_file(tmp_path: Path, etth1, data_root: Path) -> None:
    given = ("data=etth1", f"data.root={data_root}", "seq_len=48", "pred_len=24")
    assert run(tmp_path, *given) == 0
    content = found(tmp_path)
    assert (content["rows"], content["freq"], content["gaps"]["missing_rows"]) == (17_420, "h", 0)
    assert {name: part["windows"] for name, part in content["split"].items()} == etth1.n_windows
    assert [season["rows"] for season in content["seasons"]] == [24]
    fitted = FittedBaselines.fit(etth1)
    windows = etth1.windows["test"]
    batch = windows.gather(torch.arange(len(windows)))
    for name, baseline in fitted.baselines().items():
        errors = new_sums(fitted, etth1, torch.device("cpu"))
        errors.update(baseline(windows, batch), batch.future, batch.series)
        scores, expected = content["baselines"]["scores"][name], errors.compute().scores()
        assert scores == pytest.approx({score: expected[score] for score in scores})
        assert set(scores) == {"mse", "mae", "mase"}


@UNPICTURED
def test_a_code_for_missing_values_is_named(tmp_path: Path, capsys) -> None:
    frame = table(1_000, "h", 24)
    frame.loc[[10, 11, 700], "load"] = -9999
    frame.loc[[20, 30], "walk"] = -9999  # found because it is a code in the other column
    frame.to_csv(tmp_path / "my.csv", index=False)
    assert run(tmp_path, "data.path=my.csv") == 0
    content, out = found(tmp_path), capsys.readouterr().out
    assert content["suggested"]["data.na_values"] == [-9999]
    assert "-9999 looks like a code for a missing value" in out
    assert {column["sentinel"] for column in content["columns"]} == {-9999}
    again = "repeat the check: forecast check data=csv data.path=my.csv 'data.na_values=[-9999]'"
    assert again in out
    arguments = shlex.split(again)[5:]
    assert run(tmp_path, *arguments, "overwrite=true") == 0
    assert {column["sentinel"] for column in found(tmp_path)["columns"]} == {None}


def many_series() -> pd.DataFrame:
    """Hourly series: a whole, b with 12 missing rows and 3 missing prices, c of 90 rows, d constant, e of 12 rows."""
    lengths = {"a": 500, "b": 600, "c": 90, "d": 500, "e": 12}
    parts = []
    for name, rows in lengths.items():
        frame = table(rows, "h", 24).rename(columns={"date": "ds", "load": "y", "walk": "price"})
        parts.append(frame.assign(unique_id=name))
    parts[1].loc[[30, 40, 41], "price"] = np.nan
    parts[1] = parts[1].drop(index=[*range(100, 110), 200, 201])
    parts[3]["y"] = 5.0
    return pd.concat(parts, ignore_index=True)


LONG = ("data=long", "data.path=long.csv", "data.future_covariates=[price]", "seq_len=48", "pred_len=12")


def test_many_series(tmp_path: Path, capsys) -> None:
    frame = many_series().assign(rain=1.0, comment="none")
    frame.to_csv(tmp_path / "long.csv", index=False)
    assert run(tmp_path, *LONG, "data.drop=[comment]") == 0
    content, out = found(tmp_path), capsys.readouterr().out
    assert "not read  rain (name them in data.columns, " in out
    series, gaps = content["series"], content["gaps"]
    lengths = {key: series[key] for key in ("count", "shortest", "median", "longest")}
    assert lengths == {"count": 5, "shortest": 12, "median": 500, "longest": 600}
    assert series["without_windows"] == {"train": [1, ["e"]], "val": [2, ["c", "e"]], "test": [1, ["e"]]}
    assert (gaps["missing_rows"], gaps["stretches"], gaps["missing_numbers"]) == (12, 2, 3)
    assert gaps["longest"][0] == {
        "series": "b", "first": "2021-03-05T04:00:00", "last": "2021-03-05T13:00:00", "rows": 10
    }  # fmt: skip
    assert [season["rows"] for season in content["seasons"]] == [24]
    assert "5 series, 1,702 rows × 2 columns, every hour" in out
    assert "too short for one: 2 of 5 series (c, e)" in out
    assert Image.open(tmp_path / "check.png").width > 1_000
    metrics = train_as_suggested(content["command"], tmp_path)
    for name, scores in metrics["baselines"].items():
        for score in ("mse", "mae", "mase"):
            assert content["baselines"]["scores"][name][score] == pytest.approx(scores[score], rel=1e-6)
    assert content["split"]["test"]["windows"] == content["baselines"]["windows"]


@UNPICTURED
def test_the_suggested_command_runs(tmp_path: Path, capsys) -> None:
    """On a file in another dialect, whose validation part has 30 rows, fewer than the horizon that was asked for."""
    options = (
        "data.separator=;", "data.decimal=,", "data.date_column=Zeit", "data.target=Ziel[1]",
        "data.date_format=%d.%m.%Y %H:%M", "seq_len=500", "pred_len=96", "label_len=400",
    )  # fmt: skip
    frame = table(300, "h", 24).set_axis(["Zeit", "Last, MW", "Ziel[1]"], axis=1).assign(still=1)
    frame["Zeit"] = frame["Zeit"].dt.strftime("%d.%m.%Y %H:%M")
    frame.to_csv(tmp_path / "my file.csv", index=False, sep=";", decimal=",")
    assert run(tmp_path, "data.path=my file.csv", *options) == 0
    content = found(tmp_path)
    assert "TOO SHORT for " in capsys.readouterr().out
    assert (content["pred_len"], content["suggested"]["pred_len"]) == (96, 30)
    metrics = train_as_suggested(content["command"], tmp_path)
    suggested, baselines = content["suggested"], content["baselines"]
    assert (metrics["seq_len"], metrics["pred_len"]) == (suggested["seq_len"], suggested["pred_len"])
    for forecaster, scores in metrics["baselines"].items():  # as training reports them
        assert baselines["scores"][forecaster]["mse"] == pytest.approx(scores["mse"], rel=1e-6)


@UNPICTURED
def test_text_columns_are_described_and_the_command_reads_or_drops_them(tmp_path: Path, capsys) -> None:
    frame = table(600, "h", 24).assign(sky=["sun", "rain"] * 300, site="A")
    frame["season"], frame["rare"] = ["spring"] * 500 + ["summer"] * 100, ["dry", "wet"] * 298 + ["snow", "wet"] * 2
    frame["comment"], frame["Wind forecast"] = [f"c{i}" for i in range(600)], np.arange(600.0) % 7
    frame.to_parquet(tmp_path / "my.parquet")
    assert run(tmp_path, "data.path=my.parquet") == 0
    content, out = found(tmp_path), capsys.readouterr().out
    assert [category["distinct"] for category in content["categories"]] == [2, 1, 2, 3, 600]
    assert content["suggested"]["data.past_covariates"] == ["sky", "rare"]
    assert content["suggested"]["data.drop"] == ["site", "season", "comment"]
    assert "text, 3 values; 2 with a value that no training row has" in out
    assert "data.future_covariates if known in advance" in out
    with chdir(tmp_path):  # the suggested command reads the file
        panel = instantiate(compose_config(*shlex.split(content["command"])[2:]).data).source.read()
    assert (panel.targets, panel.past_covariates) == (("load", "walk"), ("sky", "rare"))
    assert panel.future_covariates == ("Wind forecast",)  # by its name
    assert content["baselines"]["windows"] > 0


# ---- `suggest=true`: training with the settings that check suggests

BRIEF = (
    "logger=[]", "trainer.max_epochs=1", "windows_per_epoch=16", "callbacks.progress.refresh_rate=0", PLAIN
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five weeks of quarter hours, whose suggested model is not the default one."""
    folder = tmp_path_factory.mktemp("suggested")
    numbers(35 * 96, ("load", "price"), "15min").to_csv(folder / "load.csv", index=False)
    return folder


def train(folder: Path, *overrides: str) -> int | str | None:
    given = ("data=csv", "data.path=load.csv", "suggest=true", *BRIEF)
    return run_command("train", folder, *given, *overrides)


def test_suggested_settings_are_taken_unless_they_are_typed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = "output_root=first"
    assert train(folder, root, "pred_len=24", "label_len=12", "attention=linear", "model.d_model=8") == 0
    config = OmegaConf.load(only(folder, "first/*/config.yaml"))
    assert config.model._target_ == "forecast.models.PatchEncoder"
    assert (config.pred_len, config.label_len, config.model.d_model) == (24, 12, 8)
    assert config.model.attention.name == "linear"
    said = capsys.readouterr().err
    assert "suggested: model=patch_encoder  (for columns that are forecast from their own past" in said
    assert f"suggested: seq_len={config.seq_len}  (" in said
    assert "suggested: data.batch_size=" in said
    assert "suggested: attention" not in said
    assert "suggest: false" in only(folder, "first/*/config.yaml").read_text()


OWN = "has its own settings; leave suggest=true out"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (("-m", "pred_len=4,8"), "suggest=true: pred_len decides the suggested settings; give it one value"),
        (("checkpoint=runs/x",), f"suggest=true: checkpoint=runs/x {OWN}"),
    ],
)
def test_what_cannot_be_suggested_is_refused(folder: Path, capsys, overrides: tuple[str, ...], says: str) -> None:
    assert train(folder, "output_root=refused", *overrides) == 2
    assert f"error: {says}" in capsys.readouterr().err
    assert not (folder / "refused").exists()


@pytest.mark.slow
def test_fit_takes_suggested_settings_too_and_leaves_out_useless_columns(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    frame = pd.read_csv("load.csv", index_col="date", parse_dates=True)
    frame["row"], frame["sky"] = np.arange(len(frame)), np.resize(["sun", "rain", "fog"], len(frame))
    brief = (*BRIEF, "output_root=fitted", "model=mlp", "seq_len=24")
    config = fit(frame, pred_len=8, suggest=True, overrides=brief).config
    assert (config["model"]["_target_"], config["seq_len"]) == ("forecast.models.ResidualMLP", 24)
    assert config["data"]["drop"] == ["row"]
    assert config["data"]["past_covariates"] == ["sky"]
